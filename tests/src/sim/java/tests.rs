//! Timing of the model, against a peer that answers at once and is asked to be silent or to refuse.

mod ordered;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::event::NetCause;
use rocketmq_consumer_core::ids::{BrokerName, QueueId};
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, HeaderForm};
use rocketmq_consumer_core::wire::request::locks::{LockAnswer, LockRequest};
use rocketmq_consumer_core::wire::request::members::{MemberList, MembersChanged};
use rocketmq_consumer_core::wire::request::offsets::{OffsetAnswer, StoredOffset};
use rocketmq_consumer_core::wire::request::pull::{PullAnswer, PullRequest, PullStatus};
use rocketmq_consumer_core::wire::request::route::{BrokerData, QueueData, TopicRoute};
use rocketmq_consumer_core::wire::request::{
    Answer, Done, Request, decode_request, encode_answer, encode_request,
};

use super::*;
use crate::sim::invariants::bench::record;

const START: Instant = Instant::from_millis(100_000);

/// A name server and a broker in one, on two addresses, and a clock.
struct Bench {
    member: JavaMember,
    now: Instant,
    /// Codes of requests, when they were written, in milliseconds after the start.
    asked: Vec<(u64, RequestCode)>,
    commits: Vec<(u64, i64)>,
    pulls: Vec<(u64, PullRequest)>,
    /// The last pull that was not answered.
    held: Option<(ConnId, i32)>,
    delivered: Vec<(u64, u64, i64, u32)>,
    told: Vec<(u64, JavaOutput)>,
    members: Vec<&'static str>,
    stored: Option<i64>,
    /// Whether locks are granted.
    locks: bool,
    /// Refusals by request code, and silences.
    refuse: BTreeMap<RequestCode, ResponseCode>,
    silent: Vec<RequestCode>,
    conns: BTreeMap<ConnId, PeerAddr>,
}

impl Bench {
    fn new() -> Self {
        let config = JavaConfig {
            client_id: "b@1".into(),
            group: "G".into(),
            subscriptions: vec![Subscription::all("T".into())],
            name_servers: vec![PeerAddr::new("10.0.1.1", 9876)],
            start: JavaStart::First,
            strategy: AllocateStrategy::Averagely,
            threads: 20,
            orderly: false,
            suspend: Duration::from_secs(1),
        };
        Self {
            member: JavaMember::new(config, START, WallTime::from_unix_millis(1)),
            now: START,
            asked: Vec::new(),
            commits: Vec::new(),
            pulls: Vec::new(),
            held: None,
            delivered: Vec::new(),
            told: Vec::new(),
            members: vec!["b@1"],
            stored: Some(100),
            locks: true,
            refuse: BTreeMap::new(),
            silent: Vec::new(),
            conns: BTreeMap::new(),
        }
    }

    fn ms(&self) -> u64 {
        self.now.as_millis() - START.as_millis()
    }

    /// Runs until this many milliseconds after the start.
    fn run_to(&mut self, ms: u64) {
        let until = START + Duration::from_millis(ms);
        self.drain();
        while let Some(at) = self.member.poll_timeout().filter(|at| *at <= until) {
            assert!(at >= self.now, "time goes forward");
            self.now = at;
            self.member.handle(at, JavaInput::Wakeup);
            assert!(
                self.member.poll_timeout().is_none_or(|next| next > at),
                "no timer at or before now"
            );
            self.drain();
        }
        self.now = until;
    }

    fn feed(&mut self, input: JavaInput) {
        self.member.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.member.poll() {
            match output {
                JavaOutput::Net(NetAction::Connect { conn, addr, .. }) => {
                    self.conns.insert(conn, addr);
                    self.member
                        .handle(self.now, JavaInput::Net(NetEvent::Connected { conn }));
                }
                JavaOutput::Net(NetAction::Send { conn, frame }) => self.serve(conn, frame),
                JavaOutput::Net(NetAction::Close { conn }) => {
                    self.conns.remove(&conn);
                }
                JavaOutput::Deliver {
                    token,
                    message,
                    attempt,
                } => {
                    self.delivered
                        .push((self.ms(), token, message.queue_offset().0, attempt));
                }
                other @ (JavaOutput::Net(_)
                | JavaOutput::Assigned { .. }
                | JavaOutput::Revoked { .. }
                | JavaOutput::Closed) => self.told.push((self.ms(), other)),
            }
        }
    }

    fn serve(&mut self, conn: ConnId, frame: Bytes) {
        let frame = Frame::parse(frame, FRAME_LEN_MAX).unwrap();
        let header = Header::of(&frame).unwrap();
        let code = RequestCode(header.code);
        self.asked.push((self.ms(), code));
        if code == RequestCode::UPDATE_CONSUMER_OFFSET {
            let commit = header.ext.get_i64("commitOffset").unwrap().unwrap();
            self.commits.push((self.ms(), commit));
        }
        if code == RequestCode::PULL_MESSAGE {
            self.pulls.push((self.ms(), decode_request(&frame).unwrap()));
            self.held = Some((conn, header.opaque));
        }
        if header.is_oneway() || self.silent.contains(&code) {
            return;
        }
        let opaque = header.opaque;
        if let Some(refusal) = self.refuse.get(&code) {
            let frame = encode_refusal(HeaderForm::Json, opaque, *refusal, "no").unwrap();
            return self.receive(conn, frame);
        }
        match code {
            RequestCode::GET_ROUTEINFO_BY_TOPIC if header.ext.get("topic") == Some("T") => {
                self.answer(conn, opaque, &route());
            }
            RequestCode::GET_ROUTEINFO_BY_TOPIC => {
                let frame =
                    encode_refusal(HeaderForm::Json, opaque, ResponseCode::TOPIC_NOT_EXIST, "").unwrap();
                self.receive(conn, frame);
            }
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => {
                let client_ids = self.members.iter().map(|id| ClientId::from(*id)).collect();
                self.answer(conn, opaque, &MemberList { client_ids });
            }
            RequestCode::QUERY_CONSUMER_OFFSET => {
                self.answer(conn, opaque, &StoredOffset(self.stored.map(QueueOffset)));
            }
            RequestCode::GET_MAX_OFFSET => self.answer(
                conn,
                opaque,
                &OffsetAnswer {
                    offset: QueueOffset(777),
                },
            ),
            RequestCode::LOCK_BATCH_MQ => {
                let LockRequest(wanted) = decode_request(&frame).unwrap();
                let locked = if self.locks {
                    wanted.queues
                } else {
                    BTreeSet::new()
                };
                self.answer(conn, opaque, &LockAnswer { locked });
            }
            RequestCode::HEART_BEAT
            | RequestCode::UNLOCK_BATCH_MQ
            | RequestCode::UNREGISTER_CLIENT
            | RequestCode::CONSUMER_SEND_MSG_BACK => {
                self.answer(conn, opaque, &Done);
            }
            _ => {}
        }
    }

    fn answer(&mut self, conn: ConnId, opaque: i32, answer: &impl Answer) {
        let frame = encode_answer(HeaderForm::Json, opaque, answer).unwrap();
        self.receive(conn, frame);
    }

    fn receive(&mut self, conn: ConnId, bytes: Bytes) {
        self.member
            .handle(self.now, JavaInput::Net(NetEvent::Received { conn, bytes }));
    }

    /// Answers the held pull.
    fn pulled(&mut self, status: PullStatus, next: i64, offsets: std::ops::Range<i64>) {
        let (conn, opaque) = self.held.take().unwrap();
        let messages: Vec<u8> = offsets.flat_map(record).collect();
        let answer = PullAnswer {
            status,
            next_begin_offset: QueueOffset(next),
            min_offset: Some(QueueOffset(0)),
            max_offset: Some(QueueOffset(next)),
            suggest_broker_id: Some(0),
            offset_delta: None,
            reset: false,
            messages: messages.into(),
        };
        self.answer(conn, opaque, &answer);
        self.drain();
    }

    fn times(&self, code: RequestCode) -> Vec<u64> {
        self.asked
            .iter()
            .filter(|(_, asked)| *asked == code)
            .map(|(at, _)| *at)
            .collect()
    }

    fn notify(&mut self) {
        let changed = MembersChanged { group: "G".into() };
        let frame = encode_request(HeaderForm::Json, 0, true, &changed).unwrap();
        let conn = *self
            .conns
            .iter()
            .find(|(_, addr)| addr.port() == 10911)
            .unwrap()
            .0;
        self.receive(conn, frame);
        self.drain();
    }
}

fn route() -> TopicRoute {
    TopicRoute {
        queues: vec![QueueData {
            broker: "a".into(),
            read_queues: 1,
            write_queues: 1,
            perm: 6,
            topic_sys_flag: 0,
        }],
        brokers: vec![BrokerData {
            cluster: "c".into(),
            name: "a".into(),
            addresses: [(0, "10.0.0.1:10911".into())].into(),
            zone_name: None,
            enable_acting_master: false,
        }],
        ..TopicRoute::default()
    }
}

#[test]
fn the_first_pull_comes_half_a_second_after_the_queue_was_added() {
    let mut bench = Bench::new();
    bench.run_to(1_499);
    assert_eq!(
        bench.times(RequestCode::GET_CONSUMER_LIST_BY_GROUP),
        [1_000],
        "not before 1 s"
    );
    assert!(bench.pulls.is_empty());
    bench.run_to(1_500);
    let (at, pull) = &bench.pulls[0];
    assert_eq!(
        (*at, pull.offset, pull.commit, pull.suspend),
        (1_500, QueueOffset(100), None, Some(Duration::from_secs(15)))
    );
}

#[test]
fn a_new_group_starts_where_it_is_told_and_an_error_is_no_position() {
    for (start, from) in [(JavaStart::First, 0), (JavaStart::Last, 777)] {
        let mut bench = Bench::new();
        bench.member.config.start = start;
        bench.stored = None;
        bench.run_to(3_000);
        assert_eq!(bench.pulls[0].1.offset, QueueOffset(from));
    }
    let mut bench = Bench::new();
    bench
        .refuse
        .insert(RequestCode::QUERY_CONSUMER_OFFSET, ResponseCode::SYSTEM_ERROR);
    bench.run_to(4_000);
    assert!(bench.pulls.is_empty());
    assert_eq!(
        bench.times(RequestCode::QUERY_CONSUMER_OFFSET),
        [1_000, 2_000, 3_000, 4_000],
        "asked every second"
    );
}

#[test]
fn rebalance_comes_every_20_s_and_on_notification_no_sooner_than_a_second_after_the_last() {
    let mut bench = Bench::new();
    bench.run_to(10_000);
    let before = bench.times(RequestCode::GET_CONSUMER_LIST_BY_GROUP).len();
    bench.notify();
    bench.run_to(10_400);
    for _ in 0..3 {
        bench.notify();
    }
    bench.run_to(31_000);
    let times = bench.times(RequestCode::GET_CONSUMER_LIST_BY_GROUP);
    assert_eq!(times[before..], [10_000, 11_000, 31_000]);
}

#[test]
fn pulls_that_fail_have_the_delays_of_java() {
    for (refusal, after) in [
        (Some(ResponseCode::FLOW_CONTROL), 20),
        (Some(ResponseCode::SYSTEM_ERROR), 1_000),
        (Some(ResponseCode::SUBSCRIPTION_NOT_LATEST), 1_000),
    ] {
        let mut bench = Bench::new();
        bench.run_to(1_500);
        let (conn, opaque) = bench.held.take().unwrap();
        let frame = encode_refusal(HeaderForm::Json, opaque, refusal.unwrap(), "").unwrap();
        bench.receive(conn, frame);
        bench.run_to(3_000);
        assert_eq!(bench.pulls[1].0, 1_500 + after, "{refusal:?}");
    }
    let mut bench = Bench::new();
    bench.run_to(40_000);
    assert_eq!(
        bench.pulls[1].0 - bench.pulls[0].0,
        32_500,
        "unanswered: swept after 31-32 s, again 1 s later"
    );
}

#[test]
fn a_full_cache_is_looked_at_every_50_ms() {
    let mut bench = Bench::new();
    bench.run_to(1_500);
    bench.pulled(PullStatus::Found, 1_101, 100..1_101);
    assert_eq!(
        (bench.member.unfinished(), bench.pulls.len()),
        (1_001, 1),
        "above 1000"
    );
    bench.run_to(1_520);
    let token = bench.delivered[0].1;
    bench.feed(JavaInput::Handled { token, ok: true });
    bench.run_to(2_000);
    assert_eq!(bench.pulls[1].0, 1_550, "at 1000 it pulls");
    assert_eq!(bench.pulls[1].1.commit, Some(QueueOffset(101)));
}

#[test]
fn progress_is_sent_one_way_every_5_s_and_with_pulls() {
    let mut bench = Bench::new();
    bench.run_to(1_500);
    bench.pulled(PullStatus::Found, 103, 100..103);
    assert_eq!(bench.pulls[1].1.commit, None, "nothing is finished yet");
    for at in [1, 0, 2] {
        let token = bench.delivered[at].1;
        bench.feed(JavaInput::Handled { token, ok: true });
        bench.run_to(12_000 + at as u64);
    }
    bench.run_to(20_000);
    assert_eq!(
        bench.commits,
        [(10_000, 103), (15_000, 103), (20_000, 103)].map(|(at, _)| {
            let value = if at == 10_000 { 100 } else { 103 };
            (at, value)
        })
    );
}

#[test]
fn a_failed_message_is_sent_back_and_else_handled_again_after_5_s() {
    let mut bench = Bench::new();
    bench.run_to(1_500);
    bench.pulled(PullStatus::Found, 101, 100..101);
    bench
        .refuse
        .insert(RequestCode::CONSUMER_SEND_MSG_BACK, ResponseCode::SYSTEM_ERROR);
    bench.feed(JavaInput::Handled { token: 0, ok: false });
    bench.run_to(6_499);
    assert_eq!(bench.delivered.len(), 1);
    bench.run_to(6_500);
    assert_eq!(bench.delivered[1], (6_500, 0, 100, 1));
    bench.refuse.clear();
    bench.feed(JavaInput::Handled { token: 0, ok: false });
    assert_eq!(bench.member.unfinished(), 0, "the broker has it");
}

#[test]
fn a_queue_that_is_lost_is_committed_once_and_forgotten_at_once() {
    let mut bench = Bench::new();
    bench.run_to(1_500);
    bench.pulled(PullStatus::Found, 102, 100..102);
    bench.feed(JavaInput::Handled { token: 0, ok: true });
    bench.members = vec!["a@1", "b@1"];
    bench.run_to(3_000);
    bench.notify();
    bench.run_to(3_000);
    assert_eq!(bench.commits, [(3_000, 101)], "what is finished, at once");
    assert!(matches!(
        bench.told.last(),
        Some((
            3_000,
            JavaOutput::Revoked {
                committed: Some(QueueOffset(101)),
                ..
            }
        ))
    ));
    bench.feed(JavaInput::Handled { token: 1, ok: true });
    let pulls = bench.pulls.len();
    bench.pulled(PullStatus::Found, 103, 102..103);
    bench.run_to(19_000);
    assert_eq!(
        (bench.commits.len(), bench.pulls.len(), bench.delivered.len()),
        (1, pulls, 2),
        "late is nothing"
    );
}

#[test]
fn an_offset_that_was_moved_ends_the_ownership_and_is_stored() {
    let mut bench = Bench::new();
    bench.run_to(1_500);
    bench.stored = Some(500);
    bench.pulled(PullStatus::OffsetMoved, 500, 0..0);
    assert_eq!(bench.commits, [(1_500, 500)]);
    bench.run_to(3_000);
    assert_eq!(
        (bench.pulls[1].0, bench.pulls[1].1.offset),
        (2_500, QueueOffset(500)),
        "1 s, and half a second"
    );
}

#[test]
fn leaving_sends_progress_before_it_says_goodbye_and_ends_without_an_answer() {
    for (silent, closed) in [(false, 2_000), (true, 5_000)] {
        let mut bench = Bench::new();
        bench.run_to(1_500);
        bench.pulled(PullStatus::Found, 102, 100..102);
        bench.feed(JavaInput::Handled { token: 0, ok: true });
        bench.run_to(2_000);
        if silent {
            bench.silent = vec![RequestCode::UNREGISTER_CLIENT];
        }
        bench.feed(JavaInput::Shutdown);
        bench.feed(JavaInput::Handled { token: 1, ok: true });
        let last = bench
            .asked
            .iter()
            .rev()
            .take(2)
            .map(|(_, code)| *code)
            .collect::<Vec<_>>();
        assert_eq!(
            last,
            [
                RequestCode::UNREGISTER_CLIENT,
                RequestCode::UPDATE_CONSUMER_OFFSET
            ]
        );
        bench.run_to(10_000);
        assert!(
            matches!(bench.told.last(), Some((at, JavaOutput::Closed)) if *at == closed),
            "{:?}",
            bench.told.last()
        );
        assert_eq!((bench.commits.len(), bench.member.poll_timeout()), (1, None));
    }
}

#[test]
fn a_connection_that_breaks_is_dialled_by_whoever_needs_it_next() {
    let mut bench = Bench::new();
    bench.run_to(1_500);
    let conn = bench.held.unwrap().0;
    let cause = NetCause::Reset;
    bench.feed(JavaInput::Net(NetEvent::Closed { conn, cause }));
    bench.run_to(2_500);
    assert_eq!(bench.pulls[1].0, 2_500, "the pull comes again after 1 s");
    assert_ne!(bench.held.unwrap().0, conn);
    assert_eq!(
        bench
            .member
            .owned()
            .next()
            .map(|queue| (queue.broker.clone(), queue.id)),
        Some((BrokerName::from("a"), QueueId(0)))
    );
    assert_eq!(PullRequest::CODE, RequestCode::PULL_MESSAGE);
}
