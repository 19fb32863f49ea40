use rocketmq_consumer_core::ids::ConsumeId;

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
