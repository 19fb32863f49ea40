//! Headers in the binary form, as a client may be set to write them (`rocketmq.serialize.type` in Java).

use std::sync::Arc;

use bytes::Bytes;
use rocketmq_consumer_core::action::{Action, NetAction};
use rocketmq_consumer_core::config::{ClientConfig, GroupConfig};
use rocketmq_consumer_core::consumer::ConsumerState;
use rocketmq_consumer_core::event::{AppEvent, Event, NetEvent, Verdict};
use rocketmq_consumer_core::ids::ConnId;
use rocketmq_consumer_core::message::Outcome;
use rocketmq_consumer_core::step::Seed;
use rocketmq_consumer_core::time::{Instant, WallTime};
use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::request::encode_request;
use rocketmq_consumer_core::wire::request::operator::RunningInfoRequest;
use rocketmq_consumer_testing::world::{Bench, secs};

const FORMS: [HeaderForm; 2] = [HeaderForm::Json, HeaderForm::Rocketmq];

/// Servers answer in JSON here, whatever they are asked in: the form is looked at frame by frame.
#[test]
fn everything_is_asked_in_the_form_that_was_set() {
    for form in FORMS {
        let mut bench = Bench::owning_one_queue(0, |client, _| {
            client.set_header_form(form);
        });
        bench.serve(RequestCode::CONSUMER_SEND_MSG_BACK);
        let (pull, _) = bench.expect_pull();
        bench.found_at(&pull, 0..3, 10, 3);
        let runs = bench.take_runs();
        assert_eq!(runs.len(), 1);
        bench.report(&runs[0], Verdict::Handled(Outcome::Retry));
        bench.sleep(secs(40));
        for code in [
            RequestCode::GET_ROUTEINFO_BY_TOPIC,
            RequestCode::HEART_BEAT,
            RequestCode::GET_CONSUMER_LIST_BY_GROUP,
            RequestCode::QUERY_CONSUMER_OFFSET,
            RequestCode::PULL_MESSAGE,
            RequestCode::CONSUMER_SEND_MSG_BACK,
            RequestCode::UPDATE_CONSUMER_OFFSET,
        ] {
            let asked = bench.sent(code);
            assert!(!asked.is_empty(), "{code} was not asked");
            for asked in asked {
                assert_eq!(asked.frame.form, form, "{code}");
            }
        }
        assert_eq!(
            ClientConfig::new("c".into(), vec![]).header_form(),
            &HeaderForm::Json
        );
    }
}

/// Java answers in its own form too, not in that of the question.
#[test]
fn a_request_of_a_broker_is_answered_in_the_form_that_was_set() {
    for (form, asked_in) in FORMS
        .into_iter()
        .flat_map(|form| FORMS.map(|asked_in| (form, asked_in)))
    {
        let request = RunningInfoRequest {
            group: "g".into(),
            client_id: "c".into(),
            jstack: false,
        };
        let request = encode_request(asked_in, 77, false, &request).expect("a small request");
        let answer = asked(form, request);
        assert_eq!(answer.form, form);
        let header = Header::of(&answer).expect("our own header");
        assert!(header.is_response());
        assert_eq!((header.opaque, header.code), (77, ResponseCode::SUCCESS.0));
    }
}

/// What a client of this form answers to a server that asks something.
fn asked(form: HeaderForm, request: Bytes) -> Frame {
    let mut config = ClientConfig::new("c".into(), vec!["127.0.0.1:9876".parse().expect("an address")]);
    config.set_header_form(form);
    let mut machine = ConsumerState::new(config, Seed(7), Instant::ZERO, WallTime::default())
        .expect("a good configuration");
    let mut group = GroupConfig::new("g".into());
    group.subscribe("T".into(), "*");
    machine.handle(Instant::ZERO, AppEvent::StartGroup(Arc::new(group)).into());
    let conn = dialled(&mut machine);
    machine.handle(Instant::ZERO, NetEvent::Connected { conn }.into());
    while machine.poll_action().is_some() {}
    let received: Event = NetEvent::Received { conn, bytes: request }.into();
    machine.handle(Instant::ZERO, received);
    while let Some(action) = machine.poll_action() {
        if let Action::Net(NetAction::Send { frame, .. }) = action {
            return Frame::parse(frame, FRAME_LEN_MAX).expect("our own frame");
        }
    }
    panic!("nothing was answered");
}

fn dialled(machine: &mut ConsumerState) -> ConnId {
    while let Some(action) = machine.poll_action() {
        if let Action::Net(NetAction::Connect { conn, .. }) = action {
            return conn;
        }
    }
    panic!("no name server was dialled");
}
