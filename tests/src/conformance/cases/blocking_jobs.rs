//! Jobs that block hold up neither tasks nor timers, nor one another.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use rocketmq_consumer::Runtime as _;

use crate::conformance::Host;
use crate::conformance::sync::lock;
use crate::conformance::time::{pause, until};

/// More than this machine has cores, or its runtime has threads for tasks.
const JOBS: usize = 40;

/// Plays the case.
pub fn run<H: Host>() {
    let host = H::start();
    let runtime = host.runtime();
    let (gate, closed) = mpsc::channel::<()>();
    let closed = Arc::new(Mutex::new(closed));
    // All of them must run at the same time to pass it.
    let meeting = Arc::new(Barrier::new(JOBS));
    let (met, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    for _ in 0..JOBS {
        let (meeting, met) = (Arc::clone(&meeting), Arc::clone(&met));
        let (closed, ended) = (Arc::clone(&closed), Arc::clone(&ended));
        runtime.spawn_blocking(move || {
            meeting.wait();
            met.fetch_add(1, Ordering::AcqRel);
            // Ends when the gate is dropped.
            let _dropped = lock(&closed).recv();
            ended.fetch_add(1, Ordering::AcqRel);
        });
    }
    host.block_on(async {
        until(&runtime, "all jobs run side by side", || {
            met.load(Ordering::Acquire) == JOBS
        })
        .await;
        let spawned = Arc::<AtomicUsize>::default();
        for _ in 0..JOBS {
            let (timers, spawned) = (runtime.clone(), Arc::clone(&spawned));
            runtime.spawn(async move {
                pause(&timers, Duration::from_millis(1)).await;
                spawned.fetch_add(1, Ordering::AcqRel);
            });
        }
        until(&runtime, "tasks go on", || {
            spawned.load(Ordering::Acquire) == JOBS
        })
        .await;
        assert_eq!(ended.load(Ordering::Acquire), 0, "they still block");
        drop(gate);
        until(&runtime, "all jobs end", || ended.load(Ordering::Acquire) == JOBS).await;
    });
}
