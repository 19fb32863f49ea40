//! Strategies for [proptest](https://docs.rs/proptest), made of the [generator](crate::generate).
//!
//! A value is drawn from a few hundred random bytes, and shrinks as they do: fewer bytes and smaller
//! ones make a plainer value, since the generator takes the first and plainest case where none are left.
//!
//! ```
//! use proptest::prelude::*;
//! use rocketmq_consumer_core::allocate::{AllocateStrategy, sort_members, sort_queues};
//! use rocketmq_consumer_testing::strategies;
//!
//! proptest! {
//!     fn nobody_gets_what_is_not_there(mut queues in strategies::queue_sets(), mut members in strategies::member_lists("me")) {
//!         sort_queues(&mut queues);
//!         sort_members(&mut members);
//!         if let Ok(share) = AllocateStrategy::Averagely.allocate(&queues, &members, &"me".into()) {
//!             prop_assert!(share.iter().all(|queue| queues.contains(queue)));
//!         }
//!     }
//! }
//! nobody_gets_what_is_not_there();
//! ```

use std::fmt::{self, Debug};

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use rocketmq_consumer_core::event::Event;
use rocketmq_consumer_core::ids::{ClientId, MessageQueue};
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_core::wire::request::pull::PullAnswer;
use rocketmq_consumer_core::wire::request::route::TopicRoute;
use rocketmq_consumer_core::wire::subscription::Subscription;

use crate::generate::{self, Driver, Result, Stored, Unstructured};

/// Bytes for one value that is not a sequence of events.
const SMALL: usize = 600;

/// Bytes for one event, most often.
const PER_EVENT: usize = 24;

/// Whatever a generator makes of random bytes.
///
/// For functions of [`generate`] and for your own. Captured values must be cheap to clone.
pub fn from_generator<T: Debug>(
    make: impl Fn(&mut Unstructured<'_>) -> Result<T> + Clone,
) -> impl Strategy<Value = T> + Clone {
    vec(any::<u8>(), 0..SMALL).prop_filter_map("the generator could not do with these bytes", move |bytes| {
        make(&mut Unstructured::new(&bytes)).ok()
    })
}

/// Bytes for a test that generates as it goes. Shown as hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Tape(Vec<u8>);

impl Tape {
    /// A tape of these bytes, to repeat what a failure has shown.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The tape, from its beginning.
    #[must_use]
    pub fn unstructured(&self) -> Unstructured<'_> {
        Unstructured::new(&self.0)
    }
}

impl Debug for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Tapes for a test that generates as it goes, such as one that feeds a [`Driver`]: enough for about
/// `events` of its steps.
pub fn tapes(events: usize) -> impl Strategy<Value = Tape> + Clone {
    vec(any::<u8>(), 0..PER_EVENT * events.max(1)).prop_map(Tape)
}

/// Subscriptions to one topic.
pub fn subscriptions() -> impl Strategy<Value = Subscription> + Clone {
    from_generator(generate::subscription)
}

/// Tag expressions as users write them, wrong ones too.
pub fn expressions() -> impl Strategy<Value = String> + Clone {
    from_generator(generate::expression)
}

/// Routes of a topic.
pub fn topic_routes() -> impl Strategy<Value = TopicRoute> + Clone {
    from_generator(generate::topic_route)
}

/// Member lists in which `own` occurs once as a rule.
pub fn member_lists(own: impl Into<ClientId>) -> impl Strategy<Value = Vec<ClientId>> + Clone {
    let own = own.into();
    from_generator(move |u| generate::member_list(u, &own))
}

/// Queues of a topic, none twice, in no order.
pub fn queue_sets() -> impl Strategy<Value = Vec<MessageQueue>> + Clone {
    from_generator(generate::queue_set)
}

/// Stored messages in a row, each whole or damaged within its size word.
pub fn stored_lists() -> impl Strategy<Value = Vec<Stored>> + Clone {
    from_generator(generate::stored_list)
}

/// Whole frames in a row, now and then with rubbish behind them.
pub fn streams() -> impl Strategy<Value = Bytes> + Clone {
    from_generator(generate::stream)
}

/// Answers to a pull, with messages that may be damaged.
pub fn pull_answers() -> impl Strategy<Value = PullAnswer> + Clone {
    from_generator(generate::pull_answer)
}

/// Events that make up a life of a machine, with their times: up to `most` of them after the start of its
/// group. Nine in ten make sense where they stand.
///
/// They fit the machine that [`Driver::generate`] builds from the same settings; fed to another one, most of
/// them are nonsense, which it must survive too.
pub fn event_sequences(most: usize) -> impl Strategy<Value = Vec<(Instant, Event)>> + Clone {
    tapes(most).prop_filter_map("the generator could not do with these bytes", move |tape| {
        let mut u = tape.unstructured();
        let (mut driver, _) = Driver::generate(&mut u).ok()?;
        for _ in 0..most {
            if u.is_empty() {
                break;
            }
            driver.step(&mut u).ok()?;
        }
        Some(driver.recorder().events().to_vec())
    })
}
