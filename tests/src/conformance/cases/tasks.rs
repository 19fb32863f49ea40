//! Tasks run to their end, whoever spawned them, and one that panics takes nobody along.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use rocketmq_consumer::Runtime;

use crate::conformance::Host;
use crate::conformance::sync::lock;
use crate::conformance::time::until;

/// Tasks at a time.
const MANY: usize = 1_000;

/// Plays the case.
pub fn run<H: Host>() {
    let host = H::start();
    let runtime = host.runtime();
    host.block_on(async {
        many(&runtime).await;
        woken_from_a_thread(&runtime).await;
    });
}

/// From here, from a plain thread, and from tasks; every tenth panics. No hook tells of it: it is unwound by hand.
async fn many<R: Runtime>(runtime: &R) {
    let ended = Arc::<AtomicUsize>::default();
    let task = |number: usize, spawner: R| {
        let ended = Arc::clone(&ended);
        async move {
            let ended_too = Arc::clone(&ended);
            spawner.spawn(async move {
                ended_too.fetch_add(1, Ordering::AcqRel);
            });
            if number.is_multiple_of(10) {
                resume_unwind(Box::new("a task panics"));
            }
            ended.fetch_add(1, Ordering::AcqRel);
        }
    };
    for number in 0..MANY / 2 {
        runtime.spawn(task(number, runtime.clone()));
    }
    std::thread::scope(|scope| {
        scope.spawn(|| (MANY / 2..MANY).for_each(|number| runtime.spawn(task(number, runtime.clone()))));
    });
    let panicked = MANY / 10;
    until(runtime, "all tasks", || {
        ended.load(Ordering::Acquire) == 2 * MANY - panicked
    })
    .await;
}

async fn woken_from_a_thread<R: Runtime>(runtime: &R) {
    let waits = Arc::<Mutex<Option<Waker>>>::default();
    let (open, ended) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let (gate, place, end) = (Arc::clone(&open), Arc::clone(&waits), Arc::clone(&ended));
    runtime.spawn(async move {
        poll_fn(|cx| {
            *lock(&place) = Some(cx.waker().clone());
            if gate.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        end.store(true, Ordering::Release);
    });
    until(runtime, "it waits", || lock(&waits).is_some()).await;
    open.store(true, Ordering::Release);
    let waker = lock(&waits).take().expect("it waits");
    std::thread::spawn(move || waker.wake())
        .join()
        .expect("waking does not panic");
    until(runtime, "a task that a thread has woken", || {
        ended.load(Ordering::Acquire)
    })
    .await;
}
