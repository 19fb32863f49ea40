//! The numbers that say what a frame is about: [`RequestCode`] on the way out, [`ResponseCode`] on
//! the way back. Both come from a peer, so both are numbers with names rather than closed enums.
//= rocketmq: RequestCode, ResponseCode

use core::fmt;

macro_rules! codes {
    (
        $(#[$doc:meta])* $type:ident
        $($(#[$why:meta])* $name:ident = $value:literal,)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(pub i32);

        impl $type {
            $($(#[$why])* pub const $name: Self = Self($value);)*

            /// RocketMQ's name of the code; `None` for one this build does not know.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        /// The number, and the name when there is one: `11 (PULL_MESSAGE)`.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{} ({name})", self.0),
                    None => write!(f, "{}", self.0),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

codes! {
    /// What a request asks for.
    RequestCode
    /// Store a message; field names written out.
    SEND_MESSAGE = 10,
    /// Fetch messages of one queue, held by the broker while there is none.
    PULL_MESSAGE = 11,
    /// Messages by a key.
    QUERY_MESSAGE = 12,
    /// The stored progress of a group in one queue.
    QUERY_CONSUMER_OFFSET = 14,
    /// Store the progress of a group in one queue.
    UPDATE_CONSUMER_OFFSET = 15,
    /// Create a topic or replace its settings.
    UPDATE_AND_CREATE_TOPIC = 17,
    /// The settings of a broker.
    GET_BROKER_CONFIG = 26,
    /// Facts of a broker's run.
    GET_BROKER_RUNTIME_INFO = 28,
    /// The offset that belongs to a time.
    SEARCH_OFFSET_BY_TIMESTAMP = 29,
    /// The offset the next message of a queue will get.
    GET_MAX_OFFSET = 30,
    /// The offset of the oldest message a queue still has.
    GET_MIN_OFFSET = 31,
    /// When the oldest message of a queue was stored.
    GET_EARLIEST_MSG_STORETIME = 32,
    /// The message at a place of the commit log.
    VIEW_MESSAGE_BY_ID = 33,
    /// Registers the members and subscriptions of a client on its connection.
    HEART_BEAT = 34,
    /// Leaves a group.
    UNREGISTER_CLIENT = 35,
    /// Have a message delivered again later, or buried.
    CONSUMER_SEND_MSG_BACK = 36,
    /// Commits or rolls back a half message.
    END_TRANSACTION = 37,
    /// The client ids of a group's members.
    GET_CONSUMER_LIST_BY_GROUP = 38,
    /// From a broker: what became of a half message?
    CHECK_TRANSACTION_STATE = 39,
    /// From a broker: the members of a group have changed.
    NOTIFY_CONSUMER_IDS_CHANGED = 40,
    /// Locks queues for ordered consumption.
    LOCK_BATCH_MQ = 41,
    /// Gives such locks back.
    UNLOCK_BATCH_MQ = 42,
    /// Checks a filter expression before it is used.
    CHECK_CLIENT_CONFIG = 46,
    /// Which brokers and queues a topic has; asked of a name server.
    GET_ROUTEINFO_BY_TOPIC = 105,
    /// All brokers; asked of a name server.
    GET_BROKER_CLUSTER_INFO = 106,
    /// Create a group or replace its settings.
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200,
    /// The settings of all groups.
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201,
    /// How full the queues of a topic are.
    GET_TOPIC_STATS_INFO = 202,
    /// The connections and subscriptions of a group.
    GET_CONSUMER_CONNECTION_LIST = 203,
    /// All topics; asked of a name server.
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206,
    /// Delete a group.
    DELETE_SUBSCRIPTIONGROUP = 207,
    /// How far a group has come in its queues.
    GET_CONSUME_STATS = 208,
    /// Delete a topic with its messages.
    DELETE_TOPIC_IN_BROKER = 215,
    /// Forget the route of a topic; asked of a name server.
    DELETE_TOPIC_IN_NAMESRV = 216,
    /// From a broker: continue elsewhere.
    RESET_CONSUMER_CLIENT_OFFSET = 220,
    /// From a broker: how far is this member?
    GET_CONSUMER_STATUS_FROM_CLIENT = 221,
    /// From an operator: have a group continue elsewhere.
    INVOKE_BROKER_TO_RESET_OFFSET = 222,
    /// From an operator: how far are the members of a group?
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223,
    /// The topics of a cluster; asked of a name server.
    GET_TOPICS_BY_CLUSTER = 224,
    /// The groups that consume a topic.
    QUERY_TOPIC_CONSUME_BY_WHO = 300,
    /// From a broker: how is this member?
    GET_CONSUMER_RUNNING_INFO = 307,
    /// From a broker: consume this message now.
    CONSUME_MESSAGE_DIRECTLY = 309,
    /// Store a message; one letter for each field name.
    SEND_MESSAGE_V2 = 310,
    /// Store several messages of one topic at once.
    SEND_BATCH_MESSAGE = 320,
    /// From a broker: the reply to a request message.
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326,
    /// The settings of a topic.
    GET_TOPIC_CONFIG = 351,
    /// The settings of a group, which may create it.
    GET_SUBSCRIPTIONGROUP_CONFIG = 352,
    /// [`RequestCode::PULL_MESSAGE`] of a consumer that assigns its queues itself.
    LITE_PULL_MESSAGE = 361,
    /// Have the broker allocate the queues.
    QUERY_ASSIGNMENT = 400,
    /// Choose between pull and pop for a group.
    SET_MESSAGE_REQUEST_MODE = 401,
    /// Fetch messages without owning a queue.
    POP_MESSAGE = 200_050,
    /// Finish a popped message.
    ACK_MESSAGE = 200_051,
    /// Keep a popped message hidden for longer.
    CHANGE_MESSAGE_INVISIBLETIME = 200_053,
    /// Wait until there is something to pop.
    NOTIFICATION = 200_054,
    /// From a broker: a lite topic is gone.
    NOTIFY_UNSUBSCRIBE_LITE = 200_073,
    /// Finish several popped messages.
    BATCH_ACK_MESSAGE = 200_151,
}

codes! {
    /// How a request went.
    ResponseCode
    /// Done.
    SUCCESS = 0,
    /// Anything from a missing field to a full disk; the remark tells.
    SYSTEM_ERROR = 1,
    /// The broker has too much to do, or is a slave that may not.
    SYSTEM_BUSY = 2,
    /// The peer is too old or of another kind.
    REQUEST_CODE_NOT_SUPPORTED = 3,
    /// Stored; flushing it took too long.
    FLUSH_DISK_TIMEOUT = 10,
    /// Stored; there is no slave to copy it to.
    SLAVE_NOT_AVAILABLE = 11,
    /// Stored; copying it to a slave took too long.
    FLUSH_SLAVE_TIMEOUT = 12,
    /// The message is too large or its properties are.
    MESSAGE_ILLEGAL = 13,
    /// The store is down, full or not ours to use.
    SERVICE_NOT_AVAILABLE = 14,
    /// Permission bits, a disabled group or an access rule.
    NO_PERMISSION = 16,
    /// No such topic here.
    TOPIC_NOT_EXIST = 17,
    /// Nothing new in the queue.
    PULL_NOT_FOUND = 19,
    /// Nothing in this stretch of the queue, more behind it.
    PULL_RETRY_IMMEDIATELY = 20,
    /// The offset is outside the queue or was reset: continue at the one given.
    PULL_OFFSET_MOVED = 21,
    /// No progress is stored.
    QUERY_NOT_FOUND = 22,
    /// The filter expression does not compile.
    SUBSCRIPTION_PARSE_FAILED = 23,
    /// The broker does not know the group or that it subscribes to the topic.
    SUBSCRIPTION_NOT_EXIST = 24,
    /// The broker knows an older subscription than the request's.
    SUBSCRIPTION_NOT_LATEST = 25,
    /// The broker does not have the group and may not create it.
    SUBSCRIPTION_GROUP_NOT_EXIST = 26,
    /// The data behind a property filter is missing.
    FILTER_DATA_NOT_EXIST = 27,
    /// The data behind a property filter is older than the request.
    FILTER_DATA_NOT_LATEST = 28,
    /// An illegal name or queue id.
    INVALID_PARAMETER = 29,
    /// Nobody who could do it is online.
    CONSUMER_NOT_ONLINE = 206,
    /// The member did not answer in time.
    CONSUME_MSG_TIMEOUT = 207,
    /// No such message to acknowledge.
    NO_MESSAGE = 208,
    /// Too many clients wait already.
    POLLING_FULL = 209,
    /// Nothing to pop.
    POLLING_TIMEOUT = 210,
    /// The peer wants fewer pulls.
    FLOW_CONTROL = 215,
    /// A static topic's queue lives elsewhere now.
    NOT_LEADER_FOR_QUEUE = 501,
    /// Not allowed in this state.
    ILLEGAL_OPERATION = 604,
    /// The peer shuts down: ask again on a new connection.
    GO_AWAY = 1500,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn codes_are_shown_with_their_names() {
        assert_eq!(RequestCode::PULL_MESSAGE.to_string(), "11 (PULL_MESSAGE)");
        assert_eq!(ResponseCode(19).name(), Some("PULL_NOT_FOUND"));
        assert_eq!(ResponseCode(-1006).to_string(), "-1006");
        assert_eq!(RequestCode::POP_MESSAGE, RequestCode(200_050));
    }
}
