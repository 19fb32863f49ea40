//! Finding single messages: 12, 33. And one question about subscriptions: 46.
//= rocketmq: QueryMessageProcessor, ClientManageProcessor.checkClientConfig

use alloc::format;
use alloc::vec::Vec;

use super::super::post::Refusal;
use super::Serving;
use super::pull::no_property_filter;
use super::serve::Asked;
use crate::wire::code::ResponseCode;
use crate::wire::request::Done;
use crate::wire::request::check::CheckSubscriptionRequest;
use crate::wire::request::find::{FoundMessages, QueryMessageRequest, ViewMessageRequest, ViewedMessage};
use crate::wire::subscription::ExpressionType;

/// Messages one query gives at most, and one query for a unique key.
const FOUND_MAX: i32 = 64;
const UNIQUE_MAX: i32 = 32;

impl Serving<'_> {
    pub(super) fn view_message(
        &mut self,
        _: &Asked<'_, '_>,
        request: ViewMessageRequest,
    ) -> Result<ViewedMessage, Refusal> {
        let found = self.disk.store.by_physical(self.view(), request.offset);
        let message = found.cloned().ok_or_else(|| {
            let remark = format!("can not find message by the offset, {}", request.offset);
            Refusal::new(ResponseCode::SYSTEM_ERROR, remark)
        })?;
        Ok(ViewedMessage { message })
    }

    pub(super) fn query_messages(
        &mut self,
        _: &Asked<'_, '_>,
        request: QueryMessageRequest,
    ) -> Result<FoundMessages, Refusal> {
        let most = if request.unique_key {
            UNIQUE_MAX
        } else {
            request.max.clamp(0, FOUND_MAX)
        };
        let stored = request.begin..=request.end;
        let (store, most) = (&self.disk.store, usize::try_from(most).unwrap_or(0));
        let found = store.find(self.view(), &request.topic, &request.key, &stored, most);
        if found.is_empty() {
            let remark = "can not find message, maybe time range not correct";
            return Err(Refusal::new(ResponseCode::QUERY_NOT_FOUND, remark)
                .field("indexLastUpdateTimestamp", "0")
                .field("indexLastUpdatePhyoffset", "0"));
        }
        Ok(FoundMessages {
            messages: found.into_iter().flatten().copied().collect::<Vec<u8>>().into(),
            indexed_until: Some(self.cx.wall),
            indexed_offset: store.last_physical(),
        })
    }

    pub(super) fn on_check_subscription(&mut self, asked: &Asked<'_, '_>) {
        if asked.body.is_empty() {
            // Nothing is to be checked, which is a success.
            return self.cx.post.answer(self.cx.now, asked.to, &Done);
        }
        self.answer(asked, Self::check_subscription);
    }

    fn check_subscription(
        &mut self,
        _: &Asked<'_, '_>,
        request: CheckSubscriptionRequest,
    ) -> Result<Done, Refusal> {
        let kind = request
            .subscription
            .expression_type
            .as_deref()
            .unwrap_or_default();
        match ExpressionType::parse(kind) {
            Some(ExpressionType::Tag) => Ok(Done),
            None if kind.is_empty() => Ok(Done),
            // Whether there is such a language at all is only asked where filters by property are on.
            Some(ExpressionType::Sql92) | None => Err(no_property_filter(kind)),
        }
    }
}

#[cfg(test)]
mod tests;
