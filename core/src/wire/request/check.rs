//! A broker's word on a filter expression, before it is used.
//= rocketmq: CheckClientRequestBody

use alloc::string::String;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::heartbeat::SubscriptionData;
use super::{Done, Malformed, Request, json_body};
use crate::ids::{ClientId, ConsumerGroup};
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, WriteExt};
use crate::wire::fastjson;

/// `CHECK_CLIENT_CONFIG`: would this subscription work? An expression that does not compile is refused
/// with [`SUBSCRIPTION_PARSE_FAILED`](crate::wire::code::ResponseCode::SUBSCRIPTION_PARSE_FAILED), one
/// over properties with [`SYSTEM_ERROR`](crate::wire::code::ResponseCode::SYSTEM_ERROR) where the
/// broker does not filter by them. Tags always pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckSubscriptionRequest {
    /// The client.
    pub client_id: ClientId,
    /// Its group.
    pub group: ConsumerGroup,
    /// The name space of both, in its second version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The subscription.
    #[serde(rename = "subscriptionData")]
    pub subscription: SubscriptionData,
}

impl WriteExt for CheckSubscriptionRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for CheckSubscriptionRequest {
    const CODE: RequestCode = RequestCode::CHECK_CLIENT_CONFIG;
    type Answer = Done;

    fn body(&self) -> Bytes {
        json_body(self)
    }

    fn decode(_: &ExtFields<'_>, body: &Bytes) -> Result<Self, Malformed> {
        Ok(fastjson::from_slice(body)?)
    }
}
