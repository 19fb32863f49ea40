use std::collections::BTreeMap;

/// Offsets of one queue that have been seen.
///
/// A bit for each, in chunks; chunks that are full become ranges, so that a queue that is read from
/// one end to the other costs next to nothing however long it is.
#[derive(Debug, Default)]
pub(crate) struct OffsetSet {
    /// Numbers of full chunks: first, and one behind the last.
    full: BTreeMap<i64, i64>,
    open: BTreeMap<i64, Chunk>,
}

/// Offsets in a chunk.
const CHUNK: i64 = 4_096;
const WORDS: usize = CHUNK as usize / 64;

#[derive(Debug)]
struct Chunk {
    words: [u64; WORDS],
    count: u32,
}

impl OffsetSet {
    /// Whether an offset was seen.
    pub(crate) fn contains(&self, offset: i64) -> bool {
        let (number, word, bit) = place(offset);
        match self.open.get(&number) {
            Some(chunk) => chunk.words[word] & bit != 0,
            None => self.is_full(number),
        }
    }

    /// Notes an offset; false when it was seen before.
    pub(crate) fn insert(&mut self, offset: i64) -> bool {
        let (number, word, bit) = place(offset);
        if self.is_full(number) {
            return false;
        }
        let chunk = self.open.entry(number).or_insert(Chunk {
            words: [0; WORDS],
            count: 0,
        });
        if chunk.words[word] & bit != 0 {
            return false;
        }
        chunk.words[word] |= bit;
        chunk.count += 1;
        if i64::from(chunk.count) == CHUNK {
            self.open.remove(&number);
            self.fill(number);
        }
        true
    }

    fn is_full(&self, number: i64) -> bool {
        let range = self.full.range(..=number).next_back();
        range.is_some_and(|(_, &end)| number < end)
    }

    /// Makes a chunk part of the full ranges, joining its neighbours.
    fn fill(&mut self, number: i64) {
        let end = self.full.remove(&(number + 1)).unwrap_or(number + 1);
        match self.full.range_mut(..number).next_back() {
            Some((_, before)) if *before == number => *before = end,
            Some(_) | None => {
                self.full.insert(number, end);
            }
        }
    }
}

/// The chunk, the word in it and the bit in that.
const fn place(offset: i64) -> (i64, usize, u64) {
    let within = offset.rem_euclid(CHUNK);
    (
        offset.div_euclid(CHUNK),
        (within / 64) as usize,
        1 << (within % 64),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_queue_read_from_end_to_end_is_one_range() {
        let mut set = OffsetSet::default();
        for offset in 0..CHUNK * 5 + 7 {
            assert!(set.insert(offset));
        }
        assert_eq!((set.full.len(), set.open.len()), (1, 1));
        assert!(set.contains(CHUNK) && !set.contains(CHUNK * 5 + 7) && !set.insert(3));
    }

    #[test]
    fn chunks_that_fill_out_of_order_are_joined() {
        for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2], [1, 2, 0]] {
            let mut set = OffsetSet::default();
            for number in order {
                for offset in 0..CHUNK {
                    assert!(set.insert(number * CHUNK + offset));
                }
            }
            assert_eq!(set.full.iter().collect::<Vec<_>>(), [(&0, &3)], "{order:?}");
            assert!(set.open.is_empty());
        }
    }

    #[test]
    fn it_agrees_with_an_ordinary_set() {
        let (mut set, mut model) = (OffsetSet::default(), BTreeSet::new());
        let mut state = 1_u64;
        for _ in 0..60_000 {
            // An arithmetic generator is random enough to hit every case and never fails twice
            // differently.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let offset = i64::try_from(state >> 40).expect("24 bits") % (CHUNK * 3) - CHUNK;
            assert_eq!(set.contains(offset), model.contains(&offset));
            assert_eq!(set.insert(offset), model.insert(offset), "{offset}");
        }
    }
}
