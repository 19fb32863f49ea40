//! What it means when a pull is not answered with messages or the lack of them.
//!
//! | what came | what follows |
//! |---|---|
//! | the link is gone, or goes away (1500) | the gate holds the queue until a replica knows us again |
//! | no answer, too much under way, busy (2) | pause |
//! | flow control (215) | a short pause, not worth a word |
//! | does not know our subscription (24, 25) | heartbeat at once, pause; if it happens again, see [`dissent`](super::dissent) |
//! | lacks what a property filter needs (27, 28) | heartbeat at once, pause |
//! | no such topic or queue (17, 29), not allowed (16) | route asked again, pause that doubles |
//! | anything else | pause that doubles |
//!
//! Nothing is given up: what looks permanent is asked again at the longest pause, because access rules, topics and
//! groups are changed while consumers run.
//= rocketmq: DefaultMQPushConsumerImpl.PullCallback.onException type=differs
//  reason: permanent errors back off, and what could heal them is looked at at once.

use crate::action::CallError;
use crate::consumer::cx::{Cx, Wish};
use crate::ids::QueueKey;
use crate::status::HoldReason;
use crate::wire::code::ResponseCode;

use super::Group;
use super::queue::PULL;

/// How long the queue rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    /// Until a replica can be asked.
    Gate,
    /// What a broker asks for that has too much to do.
    FlowControl,
    /// The same each time: it passes by itself.
    Steady,
    /// Longer each time: somebody has to do something about it.
    Growing,
}

/// What may heal it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cure {
    /// Time, or an operator.
    None,
    /// That the broker hears of our subscriptions again.
    Heartbeat,
    /// The same; and that whoever has taken them away is named.
    Subscription,
    /// A newer route.
    Route,
}

const fn remedy(code: ResponseCode) -> (Rest, Cure) {
    match code {
        ResponseCode::GO_AWAY => (Rest::Gate, Cure::None),
        ResponseCode::FLOW_CONTROL => (Rest::FlowControl, Cure::None),
        ResponseCode::SYSTEM_BUSY => (Rest::Steady, Cure::None),
        ResponseCode::SUBSCRIPTION_NOT_EXIST | ResponseCode::SUBSCRIPTION_NOT_LATEST => {
            (Rest::Steady, Cure::Subscription)
        }
        ResponseCode::FILTER_DATA_NOT_EXIST | ResponseCode::FILTER_DATA_NOT_LATEST => {
            (Rest::Steady, Cure::Heartbeat)
        }
        ResponseCode::TOPIC_NOT_EXIST | ResponseCode::INVALID_PARAMETER | ResponseCode::NO_PERMISSION => {
            (Rest::Growing, Cure::Route)
        }
        _ => (Rest::Growing, Cure::None),
    }
}

impl Group {
    /// A pull has failed, or its answer cannot be true.
    pub(super) fn on_pull_error(&mut self, cx: &mut Cx<'_>, key: QueueKey, error: &CallError) {
        let (rest, cure) = match error {
            CallError::Closed | CallError::Connect(_) | CallError::NoRoute => (Rest::Gate, Cure::None),
            CallError::Timeout | CallError::Overloaded => (Rest::Steady, Cure::None),
            CallError::Broker { code, .. } => remedy(ResponseCode(*code)),
            CallError::Malformed(_) => (Rest::Growing, Cure::None),
        };
        self.rest(cx, key, rest);
        let Some(queue) = self.queues.get_mut(key) else {
            return;
        };
        queue.went_wrong(cx.now, PULL, error);
        let (broker, topic) = (queue.name.broker.clone(), queue.name.topic.clone());
        match error {
            CallError::Broker { code, remark } if !matches!(rest, Rest::FlowControl | Rest::Gate) => {
                self.refused(cx, &broker, "pull", *code, remark);
            }
            CallError::Malformed(why) => self.refused(cx, &broker, "pull", 0, why),
            CallError::Broker { .. }
            | CallError::Closed
            | CallError::Connect(_)
            | CallError::NoRoute
            | CallError::Timeout
            | CallError::Overloaded => {}
        }
        match cure {
            Cure::None => {}
            Cure::Subscription => {
                // Before the heartbeat takes our subscription back.
                self.suspect_dissent(cx, key);
                cx.wishes.push_back(Wish::TellAgain(broker));
            }
            Cure::Heartbeat => cx.wishes.push_back(Wish::TellAgain(broker)),
            Cure::Route => cx.wishes.push_back(Wish::RouteSuspect(topic)),
        }
    }

    fn rest(&mut self, cx: &mut Cx<'_>, key: QueueKey, rest: Rest) {
        let (base, most) = (self.config.pull_retry, self.config.pull_retry_max);
        let Some(tenure) = self.queues.get_mut(key).and_then(|queue| queue.tenure_mut()) else {
            return;
        };
        match rest {
            Rest::Gate => {}
            Rest::FlowControl => {
                let pause = self.config.flow_control_pause;
                tenure.pull.pause(cx, pause, HoldReason::FlowControlled);
            }
            Rest::Steady => tenure.pull.back_off(cx, base, most, false),
            Rest::Growing => tenure.pull.back_off(cx, base, most, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_its_remedy() {
        for (codes, remedy_of) in [
            (&[1500][..], (Rest::Gate, Cure::None)),
            (&[215], (Rest::FlowControl, Cure::None)),
            (&[2], (Rest::Steady, Cure::None)),
            (&[24, 25], (Rest::Steady, Cure::Subscription)),
            (&[27, 28], (Rest::Steady, Cure::Heartbeat)),
            (&[16, 17, 29], (Rest::Growing, Cure::Route)),
            (&[1, 3, 14, 23, 26, 604, -7, 99_999], (Rest::Growing, Cure::None)),
        ] {
            for code in codes {
                assert_eq!(remedy(ResponseCode(*code)), remedy_of, "{code}");
            }
        }
    }
}
