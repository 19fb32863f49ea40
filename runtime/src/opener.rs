use std::sync::Arc;

use rocketmq_consumer_core::config::{GroupConfig, UndecodablePolicy};
use rocketmq_consumer_core::event::{AppEvent, Verdict};
use rocketmq_consumer_core::message::Message;
use rocketmq_consumer_core::wire::body::{BodyError, BodyLimits, CrcPolicy, CrcState};

use crate::driver::{Command, Inbox};
use crate::runs::Run;

/// Opens bodies before a handler sees them: the machine never does.
#[derive(Clone)]
pub(crate) struct Opener {
    inbox: Arc<Inbox>,
    limits: BodyLimits,
    crc: CrcPolicy,
    deliver_damaged: bool,
}

impl Opener {
    /// After the settings of a group; what it finds it tells to `inbox`.
    pub(crate) fn new(config: &GroupConfig, inbox: Arc<Inbox>) -> Self {
        Self {
            inbox,
            limits: BodyLimits {
                decompressed_max: usize::try_from(*config.body_bytes_max()).unwrap_or(usize::MAX),
            },
            crc: if *config.crc_reject() {
                CrcPolicy::Reject
            } else {
                CrcPolicy::Report
            },
            deliver_damaged: *config.undecodable() == UndecodablePolicy::Deliver,
        }
    }

    /// Where everything that is found out is reported.
    pub(crate) const fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// The message at a position of a run, its body open, or the verdict that keeps it from handlers.
    pub(crate) fn open(&self, run: &Run, position: u32) -> Result<Message, Verdict> {
        let mut message = Message::new(Arc::clone(&run.batch), position)
            .expect("the machine hands out positions that lie within their batch");
        match message.open(self.limits, self.crc) {
            Ok(CrcState::Mismatch) => {
                let event = AppEvent::CrcMismatch { id: run.id, position };
                self.inbox.push(Command::App(event));
                Ok(message)
            }
            Ok(CrcState::Match | CrcState::Unchecked) => Ok(message),
            Err(BodyError::Unsupported(_)) => Err(Verdict::Unsupported),
            // Asking for the body gives the error again.
            Err(_) if self.deliver_damaged => Ok(message),
            Err(_) => Err(Verdict::Undecodable),
        }
    }
}
