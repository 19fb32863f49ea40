use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which numbers have come: a bit each. A clone is the same list.
#[derive(Clone)]
pub(super) struct Seen(Arc<Bits>);

struct Bits {
    words: Vec<AtomicU64>,
    calls: AtomicU64,
}

impl Seen {
    /// Room for so many.
    pub(super) fn new(most: u64) -> Self {
        let words = (0..most.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let calls = AtomicU64::new(0);
        Self(Arc::new(Bits { words, calls }))
    }

    /// # Panics
    /// When there is no room for it, so that its message counts as lost.
    pub(super) fn note(&self, number: u64) {
        let word = usize::try_from(number / 64)
            .ok()
            .and_then(|word| self.0.words.get(word));
        let word = word.expect("nobody has sent so many");
        word.fetch_or(1 << (number % 64), Ordering::AcqRel);
        self.0.calls.fetch_add(1, Ordering::AcqRel);
    }

    /// Different numbers.
    pub(super) fn count(&self) -> u64 {
        let ones = |word: &AtomicU64| u64::from(word.load(Ordering::Acquire).count_ones());
        self.0.words.iter().map(ones).sum()
    }

    /// Times that any was noted.
    pub(super) fn calls(&self) -> u64 {
        self.0.calls.load(Ordering::Acquire)
    }

    /// How many of the first `sent` have not come. No number above them is ever sent.
    pub(super) fn missing(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.count())
    }
}
