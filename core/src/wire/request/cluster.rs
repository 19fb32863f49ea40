//! All brokers a name server knows.
//= rocketmq: ClusterInfo

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use serde::Deserialize;

use super::route::BrokerData;
use super::{Answer, AnswerError, Malformed, Request, expect_success};
use crate::ids::BrokerName;
use crate::wire::code::RequestCode;
use crate::wire::command::{ExtFields, ExtWriter, Header, WriteExt};
use crate::wire::fastjson::{self, ObjectWriter};

/// `GET_BROKER_CLUSTER_INFO`, to a name server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterInfoRequest;

impl WriteExt for ClusterInfoRequest {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Request for ClusterInfoRequest {
    const CODE: RequestCode = RequestCode::GET_BROKER_CLUSTER_INFO;
    type Answer = ClusterInfo;

    fn decode(_: &ExtFields<'_>, _: &Bytes) -> Result<Self, Malformed> {
        Ok(Self)
    }
}

/// The brokers of all clusters. A broker leaves when its connection does, or 120 s after it was last
/// heard of; its name may stay without an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ClusterInfo {
    /// The addresses of each broker.
    #[serde(rename = "brokerAddrTable", default)]
    pub brokers: BTreeMap<BrokerName, BrokerData>,
    /// The brokers of each cluster.
    #[serde(rename = "clusterAddrTable", default)]
    pub clusters: BTreeMap<String, BTreeSet<BrokerName>>,
}

impl WriteExt for ClusterInfo {
    fn write_ext(&self, _: &mut ExtWriter<'_>) {}
}

impl Answer for ClusterInfo {
    /// Broker ids are bare integers here, whatever the client states.
    fn body(&self) -> Bytes {
        let mut out = Vec::new();
        ObjectWriter::write(&mut out, |info| {
            info.object("brokerAddrTable", |table| {
                for (name, broker) in &self.brokers {
                    table.object(name.as_str(), |object| broker.write(object));
                }
            });
            info.member("clusterAddrTable", &self.clusters);
        });
        out.into()
    }

    fn decode(header: &Header<'_>, body: &Bytes) -> Result<Self, AnswerError> {
        expect_success(header)?;
        Ok(fastjson::from_slice(body)?)
    }
}
