use std::collections::HashMap;

use bytes::Bytes;
use rocketmq_consumer_core::wire::subscription::Subscription;

use super::seen::{GroupNo, QueueNo};

/// Which messages there are, and what each group has finished: what tells that a world has come to rest.
///
/// A message is known by its body: all copies of it, in a retry topic or among the dead letters, have the
/// same. It is numbered when its first copy is stored.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Only looked up, never walked through.
    by_body: HashMap<Bytes, u32>,
    messages: Vec<Origin>,
    /// For each queue, the message at each offset.
    stored: Vec<Vec<Option<u32>>>,
    groups: Vec<Book>,
}

#[derive(Debug)]
struct Origin {
    topic: String,
    tag: Option<String>,
}

/// A group's account.
#[derive(Debug, Default)]
struct Book {
    subscriptions: Vec<Subscription>,
    finished: Vec<bool>,
    /// An operator has set the group beyond them, or has deleted them.
    skipped: Vec<bool>,
    left: usize,
}

impl Ledger {
    /// A member of a group subscribes so. Messages that are stored already count as wanted too.
    pub(crate) fn subscribe(&mut self, group: GroupNo, subscription: Subscription) {
        let book = self.book(group);
        book.subscriptions.push(subscription);
        let wanted = (0..self.messages.len())
            .map(|origin| self.wants(group, u32::try_from(origin).unwrap_or(u32::MAX)));
        let wanted: Vec<bool> = wanted.collect();
        let book = self.book(group);
        let finished = wanted
            .iter()
            .zip(book.finished.iter().chain(std::iter::repeat(&false)));
        book.left = finished
            .filter(|(wanted, finished)| **wanted && !**finished)
            .count();
    }

    fn book(&mut self, group: GroupNo) -> &mut Book {
        let index = group.0 as usize;
        if self.groups.len() <= index {
            self.groups.resize_with(index + 1, Book::default);
        }
        &mut self.groups[index]
    }

    /// The first copy of a message was stored; or, under a topic of retries or dead letters, a further one.
    pub(crate) fn stored(
        &mut self,
        queue: QueueNo,
        offset: usize,
        topic: &str,
        body: Bytes,
        tag: Option<&str>,
    ) -> u32 {
        let is_copy = topic.starts_with('%');
        let known = self.by_body.get(&body).copied().filter(|_| is_copy);
        let origin = known.unwrap_or_else(|| {
            let origin = u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
            self.messages.push(Origin {
                topic: topic.into(),
                tag: tag.map(Into::into),
            });
            self.by_body.insert(body, origin);
            let groups = 0..u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
            for group in groups.map(GroupNo) {
                if self.wants(group, origin) {
                    self.book(group).left += 1;
                }
            }
            origin
        });
        let index = queue.0 as usize;
        if self.stored.len() <= index {
            self.stored.resize_with(index + 1, Vec::new);
        }
        let offsets = &mut self.stored[index];
        if offsets.len() <= offset {
            offsets.resize(offset + 1, None);
        }
        offsets[offset] = Some(origin);
        origin
    }

    /// A group is done with a message: a handler said so, or it lies with the dead letters.
    pub(crate) fn finish(&mut self, group: GroupNo, origin: u32) {
        let wanted = self.wants(group, origin);
        let book = self.book(group);
        let index = origin as usize;
        if book.finished.len() <= index {
            book.finished.resize(index + 1, false);
        }
        if !std::mem::replace(&mut book.finished[index], true) && wanted {
            book.left -= 1;
        }
    }

    /// An operator has told a group not to read what lies below an offset.
    pub(crate) fn skip(&mut self, group: GroupNo, queue: QueueNo, below: i64) {
        for offset in 0..below {
            let Some(origin) = self.origin(queue, offset) else {
                continue;
            };
            self.skip_one(group, origin);
        }
    }

    fn skip_one(&mut self, group: GroupNo, origin: u32) {
        let wanted = self.wants(group, origin);
        let book = self.book(group);
        let index = origin as usize;
        if book.skipped.len() <= index {
            book.skipped.resize(index + 1, false);
        }
        let is_left = wanted && book.finished.get(index) != Some(&true);
        book.skipped[index] = true;
        if is_left {
            book.left -= 1;
        }
    }

    /// Nobody can read any more what a topic had.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        let all = (0_u32..).zip(&self.messages);
        let gone: Vec<u32> = all
            .filter(|(_, message)| message.topic == topic)
            .map(|(origin, _)| origin)
            .collect();
        for group in (0..).map(GroupNo).take(self.groups.len()) {
            for origin in &gone {
                self.skip_one(group, *origin);
            }
        }
    }

    /// A queue is empty, and its next message has offset 0 again.
    pub(crate) fn forget_queue(&mut self, queue: QueueNo) {
        if let Some(offsets) = self.stored.get_mut(queue.0 as usize) {
            offsets.clear();
        }
    }

    /// The message with this body.
    pub(crate) fn of_body(&self, body: &Bytes) -> Option<u32> {
        self.by_body.get(body).copied()
    }

    pub(crate) fn origin(&self, queue: QueueNo, offset: i64) -> Option<u32> {
        let offsets = self.stored.get(queue.0 as usize)?;
        offsets.get(usize::try_from(offset).ok()?).copied().flatten()
    }

    /// Whether a member of the group subscribes to this message, and no operator has told it not to read it.
    pub(crate) fn wants(&self, group: GroupNo, origin: u32) -> bool {
        let book = self.groups.get(group.0 as usize);
        let message = self.messages.get(origin as usize);
        let book = book.filter(|book| book.skipped.get(origin as usize) != Some(&true));
        book.zip(message).is_some_and(|(book, message)| {
            let of_topic = |subscription: &&Subscription| subscription.topic.as_str() == message.topic;
            let mut subscriptions = book.subscriptions.iter().filter(of_topic);
            subscriptions.any(|subscription| subscription.matches(message.tag.as_deref()))
        })
    }

    /// Whether a member of the group subscribes to this topic.
    pub(crate) fn wants_topic(&self, group: GroupNo, topic: &str) -> bool {
        let book = self.groups.get(group.0 as usize);
        book.is_some_and(|book| {
            let mut topics = book.subscriptions.iter();
            topics.any(|subscription| subscription.topic.as_str() == topic)
        })
    }

    /// Messages that some group wants and has not finished.
    pub(crate) fn left(&self) -> usize {
        self.groups.iter().map(|book| book.left).sum()
    }

    /// The first message that a group wants and has not finished, and everywhere it is stored.
    pub(crate) fn first_left(&self, group: GroupNo) -> Option<(u32, Vec<(QueueNo, usize)>)> {
        let book = self.groups.get(group.0 as usize)?;
        let is_finished = |origin: u32| book.finished.get(origin as usize) == Some(&true);
        let all = 0..u32::try_from(self.messages.len()).unwrap_or(u32::MAX);
        let left = all
            .into_iter()
            .find(|origin| self.wants(group, *origin) && !is_finished(*origin))?;
        let copies = (0..).map(QueueNo).zip(&self.stored).flat_map(|(queue, offsets)| {
            let here = offsets.iter().enumerate();
            let here = here.filter(move |(_, origin)| **origin == Some(left));
            here.map(move |(offset, _)| (queue, offset))
        });
        Some((left, copies.collect()))
    }

    pub(crate) fn messages(&self) -> usize {
        self.messages.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: GroupNo = GroupNo(0);

    fn ledger(expression: &str) -> Ledger {
        let mut ledger = Ledger::default();
        let subscription = Subscription::tagged("orders".into(), expression);
        ledger.subscribe(GROUP, subscription.expect("a good expression"));
        ledger
    }

    #[test]
    fn copies_are_the_message_they_go_back_to() {
        let mut ledger = ledger("*");
        let body = Bytes::from_static(b"7");
        let first = ledger.stored(QueueNo(0), 0, "orders", body.clone(), None);
        let again = ledger.stored(QueueNo(3), 5, "%RETRY%g", body, None);
        assert_eq!((first, ledger.left()), (again, 1));
        assert_eq!(ledger.origin(QueueNo(3), 5), Some(first));
        assert_eq!(
            (ledger.origin(QueueNo(3), 4), ledger.origin(QueueNo(9), 0)),
            (None, None)
        );
        ledger.finish(GROUP, again);
        ledger.finish(GROUP, again);
        assert_eq!(ledger.left(), 0);
    }

    #[test]
    fn what_an_operator_skips_is_not_left() {
        let mut ledger = ledger("*");
        for offset in 0..4 {
            let body = Bytes::from(offset.to_string());
            ledger.stored(QueueNo(0), offset, "orders", body, None);
        }
        ledger.finish(GROUP, 0);
        ledger.skip(GROUP, QueueNo(0), 2);
        ledger.skip(GROUP, QueueNo(0), 2);
        ledger.skip(GROUP, QueueNo(1), 9);
        assert_eq!(ledger.left(), 2);
        ledger.finish(GROUP, 1);
        assert_eq!(
            (ledger.left(), ledger.wants(GROUP, 1), ledger.wants(GROUP, 2)),
            (2, false, true)
        );
    }

    #[test]
    fn what_was_deleted_is_not_left_and_its_place_is_free() {
        let mut ledger = ledger("*");
        for offset in 0..2 {
            let body = Bytes::from(offset.to_string());
            ledger.stored(QueueNo(0), offset, "orders", body, None);
        }
        ledger.finish(GROUP, 0);
        ledger.forget_queue(QueueNo(0));
        ledger.forget_topic("orders");
        assert_eq!((ledger.left(), ledger.origin(QueueNo(0), 0)), (0, None));
        let new = ledger.stored(QueueNo(0), 0, "orders", Bytes::from_static(b"new"), None);
        assert_eq!((ledger.left(), ledger.origin(QueueNo(0), 0)), (1, Some(new)));
    }

    #[test]
    fn what_nobody_subscribes_to_is_not_left() {
        let mut ledger = ledger("a");
        for (offset, tag) in [Some("a"), Some("b"), None].into_iter().enumerate() {
            let body = Bytes::from(offset.to_string());
            ledger.stored(QueueNo(0), offset, "orders", body, tag);
        }
        ledger.stored(QueueNo(1), 0, "others", Bytes::from_static(b"9"), Some("a"));
        assert_eq!((ledger.left(), ledger.messages()), (1, 4));
        assert_eq!(ledger.first_left(GROUP), Some((0, vec![(QueueNo(0), 0)])));
        ledger.finish(GROUP, 1);
        assert_eq!(ledger.left(), 1);
        let more = Subscription::tagged("orders".into(), "b").expect("a good expression");
        ledger.subscribe(GROUP, more);
        assert_eq!(ledger.left(), 1, "b was finished before it was wanted");
        assert!(ledger.wants_topic(GROUP, "orders") && !ledger.wants_topic(GROUP, "others"));
    }
}
