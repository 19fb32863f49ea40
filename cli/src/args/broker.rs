use clap::Args;

use crate::broker::{ListenAddr, TopicQueues};

/// Flags of `broker`.
#[derive(Debug, Args)]
pub(crate) struct BrokerArgs {
    /// Where a broker listens; given several times, there are several
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:10911")]
    pub(crate) listen: Vec<ListenAddr>,
    /// Where the name server listens
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:9876")]
    pub(crate) name_server_listen: ListenAddr,
    /// A topic that exists from the start, with 4 queues on each broker or so many; others are made by
    /// their first message. May be given several times
    #[arg(long, value_name = "TOPIC[:QUEUES]")]
    pub(crate) topic: Vec<TopicQueues>,
}
