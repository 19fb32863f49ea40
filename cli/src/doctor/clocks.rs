//! Whether clocks agree: start times, delays and resets to a time go by them.

use super::evidence::Evidence;
use super::finding::Finding;

/// What clocks may be apart. Nothing here needs them closer, and a broker's can be read to a second only.
const APART_MAX_MS: i64 = 5_000;

/// Clocks that are surely further apart from ours than they may be.
pub(crate) fn apart(evidence: &Evidence, findings: &mut Vec<Finding>) {
    for reading in &evidence.clocks {
        let behind_ms = reading.ahead_most_ms.map(|most| most.saturating_neg());
        let words = if reading.ahead_ms > APART_MAX_MS {
            format!("is {} s ahead of this machine's", reading.ahead_ms / 1_000)
        } else if let Some(behind_ms) = behind_ms.filter(|behind| *behind > APART_MAX_MS) {
            format!("is {} s behind this machine's", behind_ms / 1_000)
        } else {
            continue;
        };
        findings.push(Finding::new(
            "clock",
            format!("the clock of {}", reading.of),
            words,
            "set both by one time server; delays, start times and resets to a time go by them",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Reading;
    use super::*;

    #[test]
    fn only_what_is_sure_is_told() {
        let reading = |ahead_ms, ahead_most_ms| Reading {
            of: "b".into(),
            ahead_ms,
            ahead_most_ms,
        };
        let table = [
            (reading(5_000, Some(6_000)), None),
            (
                reading(5_001, Some(6_001)),
                Some("is 5 s ahead of this machine's"),
            ),
            (reading(60_000, None), Some("is 60 s ahead of this machine's")),
            (reading(-60_000, None), None),
            (
                reading(-7_000, Some(-6_000)),
                Some("is 6 s behind this machine's"),
            ),
            (reading(-6_000, Some(-5_000)), None),
        ];
        for (reading, want) in table {
            let evidence = Evidence {
                clocks: vec![reading.clone()],
                ..Evidence::default()
            };
            let mut findings = Vec::new();
            apart(&evidence, &mut findings);
            let found = findings.first().map(|finding| finding.finding.as_str());
            assert_eq!(found, want, "{reading:?}");
        }
    }
}
