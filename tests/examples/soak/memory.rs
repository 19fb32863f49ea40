use std::time::Duration;

use super::Result;

/// Between two samples; shorter where the whole is short.
const INTERVAL: Duration = Duration::from_secs(10);

/// Samples that are wanted at least.
const SAMPLES: u32 = 30;

/// Growth that means nothing: allocators keep what they have had once, and hand it out from elsewhere.
const NOISE_KIB: u64 = 1024;

/// Resident memory of this process, as time passes.
pub(super) struct Memory {
    interval: Duration,
    samples: Vec<u64>,
}

/// Means, in KiB.
pub(super) struct Thirds {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Memory {
    pub(super) fn new(whole: Duration) -> Self {
        Self {
            interval: INTERVAL.min(whole / SAMPLES),
            samples: Vec::with_capacity(4096),
        }
    }

    /// Takes a sample if it is time for one.
    pub(super) fn sample(&mut self, elapsed: Duration) -> Result<Option<u64>> {
        let taken = u32::try_from(self.samples.len())?;
        if elapsed < self.interval * (taken + 1) {
            return Ok(None);
        }
        let kib = resident_kib()?;
        self.samples.push(kib);
        Ok(Some(kib))
    }

    pub(super) fn thirds(&self) -> Thirds {
        let third = self.samples.len() / 3;
        let (first, last) = (
            &self.samples[..third],
            &self.samples[self.samples.len() - third..],
        );
        let mean = |of: &[u64]| {
            of.iter()
                .sum::<u64>()
                .checked_div(of.len() as u64)
                .unwrap_or_default()
        };
        Thirds {
            first: mean(first),
            last: mean(last),
        }
    }
}

impl Thirds {
    /// By more than a tenth and what means nothing.
    pub(super) const fn has_grown(&self) -> bool {
        self.last > self.first + self.first / 10 + NOISE_KIB
    }
}

fn resident_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no VmRSS: this needs Linux")?.parse()?)
}
