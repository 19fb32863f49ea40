use alloc::collections::BTreeSet;
use core::time::Duration;

use crate::broker::bench::*;
use crate::broker::event::Control;
use crate::broker::observation::Observation;
use crate::ids::MessageQueue;
use crate::wire::request::locks::{LockRequest, QueueLocks, UnlockRequest};

fn locks(client: &str, queues: &[i32]) -> QueueLocks {
    QueueLocks {
        client_id: client.into(),
        group: "G".into(),
        queues: queues.iter().map(|id| queue(*id)).collect(),
        only_this_broker: false,
    }
}

fn queues(ids: &[i32]) -> BTreeSet<MessageQueue> {
    ids.iter().map(|id| queue(*id)).collect()
}

#[test]
fn a_queue_belongs_to_one_member_until_it_lets_go() {
    let mut bench = Bench::new();
    bench.state.observe(20);
    let conn = bench.client();
    let mut lock = |client, ids: &[i32]| bench.do_it(conn, &LockRequest(locks(client, ids))).locked;
    assert_eq!(lock("a", &[0, 1]), queues(&[0, 1]));
    assert_eq!(lock("b", &[1, 2]), queues(&[2]));
    assert_eq!(lock("a", &[0, 2]), queues(&[0]));
    bench.do_it(conn, &UnlockRequest(locks("b", &[0])));
    assert_eq!(bench.state.lock_owner(&"G".into(), &queue(0)), Some(&"a".into()));
    bench.send_oneway(conn, &UnlockRequest(locks("a", &[0])));
    assert_eq!(bench.state.lock_owner(&"G".into(), &queue(0)), None);
    assert_eq!(
        bench.do_it(conn, &LockRequest(locks("b", &[0]))).locked,
        queues(&[0])
    );
    let seen = bench.observations();
    let granted = |client: &str, id| Observation::LockGranted {
        group: "G".into(),
        queue: queue(id),
        client: client.into(),
    };
    let released = Observation::LockReleased {
        group: "G".into(),
        queue: queue(0),
        client: "a".into(),
    };
    assert_eq!(
        seen,
        [
            granted("a", 0),
            granted("a", 1),
            granted("b", 2),
            released,
            granted("b", 0)
        ],
        "a renewal is no grant"
    );
}

#[test]
fn a_lock_that_is_not_renewed_for_a_minute_is_free() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &LockRequest(locks("a", &[0])));
    bench.pass(Duration::from_secs(60));
    assert_eq!(
        bench.do_it(conn, &LockRequest(locks("b", &[0]))).locked,
        queues(&[])
    );
    bench.pass(Duration::from_millis(1));
    assert_eq!(
        bench.do_it(conn, &LockRequest(locks("b", &[0]))).locked,
        queues(&[0])
    );
    bench.control(Control::ExpireLocks(broker()));
    assert_eq!(
        bench.do_it(conn, &LockRequest(locks("a", &[0]))).locked,
        queues(&[0])
    );
}

#[test]
fn a_restart_frees_all_locks() {
    let mut bench = Bench::new();
    let conn = bench.client();
    bench.do_it(conn, &LockRequest(locks("a", &[0])));
    bench.control(Control::Stop(master()));
    bench.control(Control::Start(master()));
    let conn = bench.client();
    assert_eq!(
        bench.do_it(conn, &LockRequest(locks("b", &[0]))).locked,
        queues(&[0])
    );
}

#[test]
fn locks_have_a_limit_and_expired_ones_make_room() {
    let mut config = config();
    config.settings.locks_max = 1;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    assert_eq!(
        bench.do_it(conn, &LockRequest(locks("a", &[0, 1]))).locked,
        queues(&[0])
    );
    bench.pass(Duration::from_secs(70));
    assert_eq!(
        bench.do_it(conn, &LockRequest(locks("a", &[1]))).locked,
        queues(&[1])
    );
}
