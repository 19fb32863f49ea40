//! Runs written down, and run again.
//!
//! A recording holds the configuration, the seed, and every event with its time: all a machine ever
//! sees. It also holds the actions, so that a replay can tell whether a build still decides the same.
//! One format serves the flight recorder, determinism tests and fuzzers.
//!
//! ```text
//! "RMQREC" | version: 2 bytes | records: kind: 1 byte | length: 4 bytes | content (postcard)
//! kind 0: start (once, first)    kind 1: event    kind 2: action
//! ```
//!
//! Numbers are big-endian. A recording that was cut off (a crash) is good up to its last whole record.

use alloc::boxed::Box;
use alloc::vec::Vec;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::config::{ClientConfig, ConfigError};
use crate::consumer::ConsumerState;
use crate::event::Event;
use crate::step::Seed;
use crate::time::{Instant, WallTime};

const MAGIC: &[u8; 6] = b"RMQREC";

/// The version of the format this build writes, and the only one it reads.
///
/// It rises whenever something that is written down gets another shape: a setting more in a configuration, another
/// event or action. The content names no fields, so what another vocabulary wrote would be read as something else.
pub const VERSION: u16 = 3;

/// How a run began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The configuration; it holds no secrets.
    pub config: ClientConfig,
    /// Where its randomness started.
    pub seed: Seed,
    /// The driver's clock at that moment.
    pub now: Instant,
    /// The wall clock at that moment.
    pub wall: WallTime,
}

/// Writes a recording, piece by piece: each call appends whole records to `out`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Writer;

impl Writer {
    /// Begins a recording.
    pub fn start(out: &mut Vec<u8>, start: &Start) -> Self {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        append(out, Kind::Start, start);
        Self
    }

    /// An event went in at `now`.
    pub fn event(&self, out: &mut Vec<u8>, now: Instant, event: &Event) {
        append(out, Kind::Event, &(now, event));
    }

    /// An action came out.
    pub fn action(&self, out: &mut Vec<u8>, action: &Action) {
        append(out, Kind::Action, action);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Start = 0,
    Event = 1,
    Action = 2,
}

fn append(out: &mut Vec<u8>, kind: Kind, content: &impl Serialize) {
    let content = encode(content);
    out.push(kind as u8);
    out.extend_from_slice(&u32::try_from(content.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&content);
}

fn encode(content: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(content).expect("postcard can write every type of the vocabulary")
}

/// Nothing may be left over: a value that ends early was written as something else.
fn decode<T: DeserializeOwned>(content: &[u8]) -> Option<T> {
    let (value, left) = postcard::take_from_bytes(content).ok()?;
    left.is_empty().then_some(value)
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Record {
    /// An event, and when.
    Event(Instant, Event),
    /// An action, as its bytes.
    Action(Vec<u8>),
}

/// A recording that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// How it began.
    pub start: Start,
    /// What followed, in order.
    pub records: Vec<Record>,
    /// Bytes behind the last whole record; more than none when the recording was cut off.
    pub cut_off: usize,
}

/// Why bytes are not a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It does not begin like one.
    #[error("not a recording")]
    NotARecording,
    /// It was written by a build with another vocabulary. Such a build can still replay it.
    #[error(
        "recording of version {0}, and this build reads version {VERSION} only: replay it with the build that wrote it"
    )]
    Version(u16),
    /// A record does not make sense.
    #[error("the record at byte {at} is damaged")]
    Damaged {
        /// Where it begins.
        at: usize,
    },
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// [`RecordingError`] when it is none, of another version, or damaged; a cut-off end is no error.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordingError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(RecordingError::NotARecording)?;
        let (version, mut rest) = rest
            .split_first_chunk::<2>()
            .ok_or(RecordingError::NotARecording)?;
        let version = u16::from_be_bytes(*version);
        if version != VERSION {
            return Err(RecordingError::Version(version));
        }
        let mut start = None;
        let mut records = Vec::new();
        while let Some((kind, content, after)) = next_record(rest) {
            let damaged = RecordingError::Damaged {
                at: bytes.len() - rest.len(),
            };
            match (kind, &start) {
                (0, None) => start = Some(decode(content).ok_or(damaged)?),
                (1, Some(_)) => {
                    let (now, event) = decode(content).ok_or(damaged)?;
                    records.push(Record::Event(now, event));
                }
                (2, Some(_)) => records.push(Record::Action(content.to_vec())),
                _ => return Err(damaged),
            }
            rest = after;
        }
        let start = start.ok_or(RecordingError::NotARecording)?;
        Ok(Self {
            start,
            records,
            cut_off: rest.len(),
        })
    }

    /// Runs it again and compares every action, byte for byte.
    ///
    /// # Errors
    /// [`ReplayError`] at the first difference.
    pub fn replay(&self) -> Result<Replayed, ReplayError> {
        let Start {
            config,
            seed,
            now,
            wall,
        } = self.start.clone();
        let mut machine = ConsumerState::new(config, seed, now, wall)?;
        let mut replayed = Replayed::default();
        let mut records = self.records.iter().enumerate().peekable();
        while let Some((at, record)) = records.next() {
            let expected = match record {
                Record::Event(now, event) => {
                    replayed.events += 1;
                    machine.handle(*now, event.clone());
                    continue;
                }
                Record::Action(expected) => expected,
            };
            let Some(action) = machine.poll_action() else {
                return Err(ReplayError::MissingAction { at });
            };
            replayed.actions += 1;
            if &encode(&action) != expected {
                return Err(ReplayError::OtherAction {
                    at,
                    action: Box::new(action),
                });
            }
            // What was recorded before the next event was drained before it; the last drain may have
            // been cut off.
            let drained = records
                .peek()
                .is_some_and(|(_, next)| matches!(next, Record::Event(..)));
            if drained && let Some(action) = machine.poll_action() {
                return Err(ReplayError::OtherAction {
                    at: at + 1,
                    action: Box::new(action),
                });
            }
        }
        Ok(replayed)
    }
}

fn next_record(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let (content, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    Some((*kind, content, rest))
}

/// What a replay went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events fed.
    pub events: usize,
    /// Actions compared.
    pub actions: usize,
}

/// Where a replay went another way.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The recorded configuration is not accepted any more.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The machine did not do what was recorded.
    #[error("record {at}: the machine did nothing")]
    MissingAction {
        /// The record's index.
        at: usize,
    },
    /// The machine did something else than what was recorded.
    #[error("record {at}: the machine did {action:?}")]
    OtherAction {
        /// The record's index.
        at: usize,
        /// What it did.
        action: Box<Action>,
    },
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::sync::Arc;
    use alloc::vec;

    use super::*;
    use crate::allocate::AllocateStrategy;
    use crate::config::GroupConfig;
    use crate::event::{AppEvent, NetCause, NetEvent};
    use crate::ids::{AllocateId, ConnId, GroupKey};

    /// A run of a few events, recorded as a driver does it.
    fn recorded() -> Vec<u8> {
        let config = ClientConfig::new("c1".into(), vec!["127.0.0.1:9876".parse().unwrap()]);
        let start = Start {
            config,
            seed: Seed(7),
            now: Instant::ZERO,
            wall: WallTime::from_unix_millis(1),
        };
        let mut machine =
            ConsumerState::new(start.config.clone(), start.seed, start.now, start.wall).unwrap();
        let mut bytes = Vec::new();
        let writer = Writer::start(&mut bytes, &start);
        let mut group = GroupConfig::new("g".into());
        group.subscribe("t".into(), "a || b");
        let conn = ConnId {
            slot: 0,
            generation: 1,
        };
        let mut own = GroupConfig::new("own".into());
        own.subscribe("t".into(), "*");
        own.set_strategy(AllocateStrategy::Own("mine".into()));
        let answer = AppEvent::Allocated {
            id: AllocateId {
                group: GroupKey {
                    slot: 1,
                    generation: 1,
                },
                serial: 1,
            },
            share: Err("not asked".into()),
        };
        let events: [Event; 6] = [
            AppEvent::StartGroup(Arc::new(group)).into(),
            NetEvent::ConnectFailed {
                conn,
                cause: NetCause::Refused,
            }
            .into(),
            Event::Wakeup,
            NetEvent::Connected {
                conn: ConnId {
                    slot: 0,
                    generation: 2,
                },
            }
            .into(),
            AppEvent::StartGroup(Arc::new(own)).into(),
            answer.into(),
        ];
        for (event, ms) in events.into_iter().zip([0, 1, 200, 201, 202, 203]) {
            let now = Instant::from_millis(ms);
            writer.event(&mut bytes, now, &event);
            machine.handle(now, event);
            while let Some(action) = machine.poll_action() {
                writer.action(&mut bytes, &action);
            }
        }
        bytes
    }

    #[test]
    fn a_run_replays_to_the_same_actions() {
        let recording = Recording::parse(&recorded()).unwrap();
        let replayed = recording.replay().unwrap();
        assert_eq!((replayed.events, recording.cut_off), (6, 0));
        assert!(replayed.actions >= 4, "{replayed:?}");
    }

    #[test]
    fn another_seed_or_a_lost_event_is_noticed() {
        let good = Recording::parse(&recorded()).unwrap();
        let mut other = good.clone();
        let index = other
            .records
            .iter()
            .position(|r| matches!(r, Record::Event(_, Event::Wakeup)))
            .unwrap();
        other.records.remove(index);
        assert!(other.replay().is_err());
    }

    #[test]
    fn a_cut_off_end_costs_the_last_record_only_and_damage_is_told() {
        let bytes = recorded();
        let whole = Recording::parse(&bytes).unwrap();
        let cut = Recording::parse(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(cut.records.len() + 1, whole.records.len());
        assert!(cut.cut_off > 0);
        assert_eq!(Recording::parse(b"RMQ"), Err(RecordingError::NotARecording));
        let mut damaged = bytes;
        damaged[8] = 9;
        assert_eq!(Recording::parse(&damaged), Err(RecordingError::Damaged { at: 8 }));
    }

    #[test]
    fn a_record_that_holds_more_than_its_value_is_damaged() {
        let whole = recorded();
        let mut bytes = whole.clone();
        append(&mut bytes, Kind::Event, &(Instant::ZERO, Event::Wakeup, 7_u8));
        assert_eq!(
            Recording::parse(&bytes),
            Err(RecordingError::Damaged { at: whole.len() })
        );
    }

    #[test]
    fn a_recording_of_another_version_is_refused_with_one_error_that_says_what_to_do() {
        let mut old = recorded();
        for version in [0, 1, VERSION + 1] {
            old[6..8].copy_from_slice(&u16::to_be_bytes(version));
            assert_eq!(Recording::parse(&old), Err(RecordingError::Version(version)));
        }
        assert_eq!(
            format!("{}", RecordingError::Version(1)),
            "recording of version 1, and this build reads version 3 only: replay it with the build that wrote it"
        );
    }

    /// A setting more or less changes these lengths, and then [`VERSION`] must rise, unless it has since the last
    /// release.
    #[test]
    fn another_vocabulary_is_another_version() {
        let client = ClientConfig::new("c1".into(), vec!["127.0.0.1:9876".parse().unwrap()]);
        let group = GroupConfig::new("g".into());
        assert_eq!(
            (VERSION, encode(&client).len(), encode(&group).len()),
            (3, 64, 98)
        );
    }
}
