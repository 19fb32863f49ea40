use rocketmq_consumer_core::event::RunRange;
use rocketmq_consumer_core::ids::ConsumeId;

use crate::answer::{Answer, is_orderly};
use crate::driver::Inbox;
use crate::runs::Run;

/// Where the runs of one group go: lanes, threads that may block, or a stream.
///
/// Every position of every run is reported to the inbox exactly once, until the desk is closed.
/// Called by the driver only; no method waits or runs user code.
pub(crate) trait Desk: Send {
    /// Hands over a run.
    fn consume(&mut self, run: Run);

    /// Takes back what nobody has begun of a run and reports it as not started.
    fn withdraw(&mut self, id: ConsumeId);

    /// Fires the cancel token of a delivery.
    fn cancel(&mut self, id: ConsumeId, position: u32);

    /// Gives a delivery up: drops its future where that is possible, and reports it for a retry.
    fn abandon(&mut self, id: ConsumeId, position: u32);

    /// How many handler calls may run at once from now on.
    fn resize(&mut self, permits: u32);
}

/// Where messages are handled in order a run is one call: what is behind its first `most` messages must not be
/// begun before that call has been answered, so it goes back.
pub(crate) fn keep_one_call<A: Answer>(run: &mut Run, most: u32, inbox: &Inbox) {
    let kept = run.range.len().min(most.max(1));
    let rest = RunRange {
        start: run.range.start + kept,
        end: run.range.end,
    };
    if is_orderly::<A>() && !rest.is_empty() {
        run.range.end = rest.start;
        inbox.not_started(run.id, vec![rest]);
    }
}
