//! How nodes treat what they are asked: rules that last for a while.

use rocketmq_consumer_core::broker::rule::{Effect, Nth, Rule};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};

use super::{Painter, ms, secs};
use crate::sim::fault::Fault;

impl Painter {
    /// What members ask is treated like this for a while.
    pub(super) fn draw_rule(&mut self, at: Instant, effect: Effect) {
        let codes = [
            RequestCode::PULL_MESSAGE,
            RequestCode::QUERY_CONSUMER_OFFSET,
            RequestCode::UPDATE_CONSUMER_OFFSET,
            RequestCode::CONSUMER_SEND_MSG_BACK,
            RequestCode::SEND_MESSAGE_V2,
            RequestCode::HEART_BEAT,
            RequestCode::GET_CONSUMER_LIST_BY_GROUP,
            RequestCode::GET_ROUTEINFO_BY_TOPIC,
            RequestCode::GET_MIN_OFFSET,
            RequestCode::UNREGISTER_CLIENT,
        ];
        let code = *self.dice.pick(&codes);
        self.add_rule(at, code, effect);
    }

    pub(super) fn add_rule(&mut self, at: Instant, code: RequestCode, effect: Effect) {
        let nth = Nth::Every(u32::try_from(self.dice.number(1..8)).unwrap_or(1));
        self.add(at, Fault::Rule(Rule::on(code, effect).nth(nth)));
        let lasts = self.dice.time(ms(200)..secs(40));
        self.add(at + lasts, Fault::NoRules);
    }

    pub(super) fn draw_loss(&mut self) -> Effect {
        if self.dice.chance(50) {
            Effect::Drop
        } else if self.dice.chance(20) {
            Effect::Twice
        } else {
            Effect::LoseAnswer
        }
    }

    pub(super) fn draw_delay(&mut self) -> Effect {
        let late = self.dice.time(ms(10)..secs(12));
        if self.dice.chance(50) {
            Effect::Delay(late)
        } else {
            Effect::DelayAnswer(late)
        }
    }

    pub(super) fn draw_refusal(&mut self) -> Effect {
        let fail = |code, remark: &str| Effect::Fail {
            code,
            remark: remark.into(),
        };
        match self.dice.number(0..4) {
            0 => Effect::Close,
            1 => fail(ResponseCode::SYSTEM_BUSY, "busy"),
            2 => fail(ResponseCode::GO_AWAY, "please go away"),
            _ => fail(ResponseCode::SYSTEM_ERROR, "made to fail"),
        }
    }

    /// No message is taken back for so long that consumers help themselves.
    pub(super) fn draw_refused_send_backs(&mut self, at: Instant) {
        let effect = Effect::Fail {
            code: ResponseCode::SYSTEM_ERROR,
            remark: "look message by offset failed".into(),
        };
        let code = RequestCode::CONSUMER_SEND_MSG_BACK;
        self.add(at, Fault::Rule(Rule::on(code, effect)));
        let lasts = self.dice.time(secs(5)..secs(90));
        self.add(at + lasts, Fault::NoRules);
    }

    /// Notifications are lost, doubled or late; and there may be one without a cause.
    pub(super) fn draw_notification(&mut self, at: Instant) {
        let late = self.dice.time(ms(10)..secs(12));
        let effect = match self.dice.number(0..3) {
            0 => Effect::Drop,
            1 => Effect::Twice,
            _ => Effect::Delay(late),
        };
        self.add_rule(at, RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, effect);
        if self.dice.chance(50) {
            let broker = self.cluster.brokers[0].name.clone();
            let group = self.members[0].group.group().clone();
            self.add(at + ms(500), Fault::Notify(broker, group));
        }
    }
}
