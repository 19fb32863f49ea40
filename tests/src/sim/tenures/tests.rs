use rocketmq_consumer_core::event::{FlowScope, RunRange, Verdict};
use rocketmq_consumer_core::ids::{GroupKey, MessageQueue, QueueId, QueueOffset};
use rocketmq_consumer_core::message::Batch;

use super::*;
use crate::sim::seen::MemberId;

const LIFE: Life = Life(0);
const GROUP: GroupNo = GroupNo(0);
const QUEUE: QueueNo = QueueNo(3);

const fn run(run: u64) -> ConsumeId {
    let group = GroupKey {
        slot: 0,
        generation: 1,
    };
    ConsumeId { group, run }
}

const fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// The book, and what is shown to it.
struct Book(Tenures);

impl Book {
    /// A member of ours that lives.
    fn begun() -> Self {
        let mut book = Self(Tenures::default());
        let (member, kind) = (MemberId(0), Kind::Ours);
        let begun = Deed::Begun {
            member,
            kind,
            group: GROUP,
        };
        book.show(0, begun, |_| {});
        book
    }

    /// Shows a deed; `look` is a rule that looks meanwhile.
    fn show(&mut self, at: u64, deed: Deed<'_>, look: impl FnOnce(&Tenures)) -> &mut Self {
        let what = What::Member { life: LIFE, deed };
        let seen = Seen { at: ms(at), what };
        self.0.begin(&seen);
        look(&self.0);
        self.0.end(&seen);
        self
    }

    fn assign(&mut self, queue: QueueNo, epoch: u64) -> &mut Self {
        let deed = Deed::Assigned {
            group: GROUP,
            queue,
            epoch: Epoch(epoch),
            from: QueueOffset(0),
        };
        self.show(1, deed, |_| {})
    }

    fn deliver(&mut self, id: u64, len: u32) -> &mut Self {
        let name = MessageQueue {
            topic: "T".into(),
            broker: "a".into(),
            id: QueueId(0),
        };
        let zero = QueueOffset(0);
        let batch = Batch::new(
            name,
            false,
            bytes::Bytes::new(),
            [].into_iter().collect(),
            zero,
            zero,
        );
        let deed = Deed::Delivered {
            group: GROUP,
            queue: QUEUE,
            run: run(id),
            batch: &batch,
            range: RunRange { start: 0, end: len },
            attempt: 0,
        };
        self.show(2, deed, |_| {})
    }

    fn epochs(&self, queue: QueueNo) -> Vec<u64> {
        self.0
            .of(LIFE, queue)
            .iter()
            .map(|tenure| tenure.epoch.0)
            .collect()
    }

    fn newest(&self) -> Option<u64> {
        self.0.newest(LIFE, QUEUE).map(|tenure| tenure.epoch.0)
    }
}

fn settled(id: u64) -> Deed<'static> {
    Deed::Settled {
        group: GROUP,
        queue: QUEUE,
        offset: QueueOffset(0),
        run: run(id),
        position: 0,
        verdict: Verdict::NotStarted,
    }
}

fn revoked(epoch: u64) -> Deed<'static> {
    Deed::Revoked {
        group: GROUP,
        queue: QUEUE,
        epoch: Epoch(epoch),
        committed: None,
    }
}

#[test]
fn ownerships_are_kept_by_queue_the_newest_last() {
    let mut book = Book::begun();
    book.assign(QUEUE, 1)
        .assign(QueueNo(9), 2)
        .assign(QueueNo(1), 3)
        .assign(QUEUE, 4);
    assert_eq!(book.epochs(QUEUE), [1, 4]);
    assert_eq!(
        (book.epochs(QueueNo(1)), book.epochs(QueueNo(2))),
        (vec![3], vec![])
    );
    let of_life: Vec<u32> = book.0.of_life(LIFE).iter().map(|tenure| tenure.no.0).collect();
    assert_eq!(of_life, [2, 0, 3, 1]);
    assert_eq!(book.newest(), Some(4));
    assert_eq!(
        book.0.of_epoch(LIFE, QUEUE, Epoch(1)).map(|tenure| tenure.no),
        Some(TenureNo(0))
    );
}

#[test]
fn what_ends_is_there_until_the_last_rule_has_looked() {
    let mut book = Book::begun();
    book.assign(QUEUE, 1).deliver(7, 1);
    let has_run = |tenures: &Tenures| assert!(tenures.of_run(LIFE, run(7)).is_some());
    book.show(3, settled(7), has_run);
    assert!(book.0.of_run(LIFE, run(7)).is_none());
    book.show(4, revoked(1), |tenures| {
        assert!(tenures.newest(LIFE, QUEUE).is_some())
    });
    assert_eq!(book.newest(), None);
    book.show(5, Deed::Killed, |tenures| assert!(tenures.is_ours(LIFE)));
    assert!(book.0.alive(LIFE).is_none());
}

#[test]
fn a_run_is_out_until_its_last_message_is_settled() {
    let mut book = Book::begun();
    book.assign(QUEUE, 1).deliver(7, 2).deliver(8, 1);
    assert_eq!(book.0.open(LIFE), 3);
    book.show(3, settled(7), |_| {});
    assert_eq!(book.0.open(LIFE), 2);
    book.show(3, settled(7), |_| {}).show(3, settled(7), |_| {});
    assert_eq!(book.0.open(LIFE), 1);
}

#[test]
fn a_share_is_lost_when_its_runs_are_withdrawn_unless_the_member_leaves_or_pauses() {
    let withdrawn = |before: Option<Deed<'_>>| {
        let mut book = Book::begun();
        book.assign(QUEUE, 1).deliver(7, 1);
        if let Some(before) = before {
            book.show(3, before, |_| {});
        }
        book.show(4, Deed::Withdrawn { run: run(7) }, |_| {});
        book.0.of(LIFE, QUEUE)[0].revoked_at
    };
    let pause = AppEvent::Pause {
        group: "G".into(),
        scope: FlowScope::Group,
    };
    let drain = Duration::ZERO;
    assert_eq!(withdrawn(None), Some(ms(4)));
    assert_eq!(withdrawn(Some(Deed::Wished(&pause))), None);
    assert_eq!(withdrawn(Some(Deed::AskedToLeave { drain })), None);
}

#[test]
fn a_link_is_new_for_the_step_that_brings_it() {
    let (mut book, node) = (Book::begun(), NodeNo(0));
    let conn = ConnId {
        slot: 0,
        generation: 1,
    };
    let end = Deed::StepEnd {
        actions: 0,
        wake_at: None,
    };
    book.show(1, Deed::Connected { conn, node }, |_| {});
    assert!(book.0.may_have_waited(LIFE, conn));
    book.show(1, end, |_| {}).show(2, Deed::Woken, |_| {});
    assert!(!book.0.may_have_waited(LIFE, conn));
}

#[test]
fn an_account_that_nobody_has_written_to_is_the_empty_one() {
    let mut book = Book::begun();
    book.assign(QUEUE, 1).assign(QUEUE, 2);
    let [first, second] = [0, 1].map(|index| book.0.of(LIFE, QUEUE)[index]);
    let mut accounts = Accounts::<u32>::default();
    *accounts.of_mut(&second) += 5;
    assert_eq!((*accounts.of(&first), *accounts.of(&second)), (0, 5));
}
