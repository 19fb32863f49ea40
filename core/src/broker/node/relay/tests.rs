use core::time::Duration;

use bytes::Bytes;

use crate::broker::bench::*;
use crate::ids::{ConnId, QueueOffset};
use crate::wire::code::RequestCode;
use crate::wire::command::Header;
use crate::wire::frame::{Frame, HeaderForm};
use crate::wire::request::operator::{
    ConsumeDirectlyAnswer, ConsumeDirectlyRequest, ConsumerStatus, ConsumerStatusRequest, DirectResult,
    RunningInfo, RunningInfoRequest,
};
use crate::wire::request::reset::GroupStatusRequest;
use crate::wire::request::{self, Answer, AnswerError, decode_request};

const SECOND: Duration = Duration::from_secs(1);

fn info(client: &str) -> RunningInfoRequest {
    RunningInfoRequest {
        group: "G".into(),
        client_id: client.into(),
        jstack: false,
    }
}

fn status(client: Option<&str>) -> GroupStatusRequest {
    GroupStatusRequest {
        group: "G".into(),
        topic: "T".into(),
        client_id: client.map(Into::into),
    }
}

/// A bench with an operator and the members `a@1` and `b@1`.
fn group() -> (Bench, ConnId, [ConnId; 2]) {
    let mut bench = Bench::new();
    let operator = bench.client();
    let members = ["a@1", "b@1"].map(|client| {
        let conn = bench.client();
        bench.do_it(conn, &heartbeat(client));
        conn
    });
    bench.pushed();
    (bench, operator, members)
}

/// The one question a member was asked.
fn question(bench: &mut Bench, member: ConnId) -> Frame {
    let mut frames = bench.frames(member);
    assert_eq!(frames.len(), 1, "one question");
    frames.remove(0)
}

fn answer(bench: &mut Bench, member: ConnId, question: &Frame, answer: &impl Answer) {
    let opaque = Header::of(question).expect("a header").opaque;
    let frame = request::encode_answer(HeaderForm::Rocketmq, opaque, answer);
    bench.receive(member, frame.expect("a small answer"));
}

fn code<A>(answer: Option<Result<A, AnswerError>>) -> i32 {
    match answer {
        Some(Err(AnswerError::Refused { code, .. })) => code.0,
        Some(Err(AnswerError::Malformed(error))) => panic!("{error}"),
        Some(Ok(_)) => 0,
        None => -1,
    }
}

#[test]
fn a_question_reaches_the_member_and_its_answer_the_operator() {
    let (mut bench, operator, [_, b]) = group();
    let asked = bench.send(operator, &info("b@1"));
    let question = question(&mut bench, b);
    let header = Header::of(&question).expect("a header");
    assert_ne!(header.opaque, asked, "the broker numbers on its own");
    assert_eq!(decode_request::<RunningInfoRequest>(&question), Ok(info("b@1")));
    assert_eq!(code(bench.answer::<RunningInfoRequest>(asked)), -1);
    let body = RunningInfo {
        json: Bytes::from_static(b"{whatever}"),
    };
    answer(&mut bench, b, &question, &body);
    let got = bench.answer::<RunningInfoRequest>(asked).expect("an answer");
    assert_eq!(got, Ok(body.clone()));
    answer(&mut bench, b, &question, &body);
    assert_eq!(bench.frames(operator).len(), 0, "an answer that nobody waits for");
}

#[test]
fn who_is_not_there_cannot_be_asked() {
    let (mut bench, operator, _) = group();
    assert_eq!(bench.refused(operator, &info("c@1")), 1);
    let other = RunningInfoRequest {
        group: "H".into(),
        ..info("a@1")
    };
    assert_eq!(bench.refused(operator, &other), 1);
}

#[test]
fn a_member_has_ten_seconds() {
    let (mut bench, operator, _) = group();
    let asked = bench.send(operator, &info("a@1"));
    bench.pass(10 * SECOND - Duration::from_micros(1));
    assert_eq!(code(bench.answer::<RunningInfoRequest>(asked)), -1);
    bench.pass(Duration::from_micros(1));
    assert_eq!(code(bench.answer::<RunningInfoRequest>(asked)), 207);
}

#[test]
fn connections_that_end_end_their_questions() {
    let (mut bench, operator, [a, b]) = group();
    let asked = bench.send(operator, &info("a@1"));
    bench.hang_up(a);
    assert_eq!(code(bench.answer::<RunningInfoRequest>(asked)), 1);
    bench.pushed();
    bench.send(operator, &info("b@1"));
    let question = question(&mut bench, b);
    bench.hang_up(operator);
    answer(&mut bench, b, &question, &RunningInfo::default());
    bench.pass(20 * SECOND);
    assert_eq!(bench.frames(operator).len(), 0);
}

#[test]
fn open_questions_have_a_limit() {
    let mut config = config();
    config.settings.relays_max = 1;
    let mut bench = Bench::of(config);
    let conn = bench.client();
    bench.do_it(conn, &heartbeat("a@1"));
    bench.send(conn, &info("a@1"));
    bench.pushed();
    assert_eq!(bench.refused(conn, &info("a@1")), 2);
    bench.pass(10 * SECOND);
    let asked = bench.send(conn, &info("a@1"));
    assert_eq!(
        code(bench.answer::<RunningInfoRequest>(asked)),
        -1,
        "there is room again"
    );
}

#[test]
fn a_message_is_consumed_directly() {
    let (mut bench, operator, [a, _]) = group();
    let sent = bench.do_it(operator, &send_to("T", "TAGS\u{1}A\u{2}"));
    let ask = |id: &str, client: Option<&str>| ConsumeDirectlyRequest {
        group: "G".into(),
        client_id: client.map(Into::into),
        message_id: Some(id.into()),
        broker: None,
        topic: Some("T".into()),
        message: Bytes::new(),
    };
    let asked = bench.send(operator, &ask(&sent.message_id, Some("a@1")));
    let question = question(&mut bench, a);
    let got = decode_request::<ConsumeDirectlyRequest>(&question).expect("309");
    let stored = bench.state.stored_at(&queue(0), QueueOffset(0)).expect("stored");
    assert_eq!(
        (got.broker, &got.message[..]),
        (Some(broker()), stored.record.bytes())
    );
    let done = ConsumeDirectlyAnswer {
        result: Some(DirectResult::Success),
        ..ConsumeDirectlyAnswer::default()
    };
    answer(&mut bench, a, &question, &done);
    assert_eq!(bench.answer::<ConsumeDirectlyRequest>(asked), Some(Ok(done)));
    for (id, client) in [
        ("nonsense", Some("a@1")),
        ("0A00000100002A9F00000000000000FF", Some("a@1")),
        (&sent.message_id, Some("c@1")),
        (&sent.message_id, None),
    ] {
        assert_eq!(bench.refused(operator, &ask(id, client)), 1, "{id} {client:?}");
    }
}

#[test]
fn members_are_asked_for_their_progress_one_after_the_other() {
    let (mut bench, operator, [a, b]) = group();
    let asked = bench.send(operator, &status(None));
    let to_a = question(&mut bench, a);
    assert_eq!(bench.frames(b).len(), 0, "not yet");
    let request = decode_request::<ConsumerStatusRequest>(&to_a).expect("221");
    assert_eq!((request.group, request.topic), ("G".into(), "T".into()));
    let progress = ConsumerStatus {
        offsets: [(queue(0), QueueOffset(3))].into(),
    };
    answer(&mut bench, a, &to_a, &progress);
    question(&mut bench, b);
    bench.pass(5 * SECOND);
    let got = bench
        .answer::<GroupStatusRequest>(asked)
        .expect("an answer")
        .expect("success");
    assert_eq!(
        got.members,
        [("a@1".into(), progress.offsets)].into(),
        "who is silent is left out"
    );
}

#[test]
fn one_member_can_be_meant_and_nobody() {
    let (mut bench, operator, [a, b]) = group();
    bench.send(operator, &status(Some("b@1")));
    assert_eq!((bench.frames(a).len(), bench.frames(b).len()), (0, 1));
    assert_eq!(bench.do_it(operator, &status(Some("c@1"))).members.len(), 0);
    let offline = GroupStatusRequest {
        group: "H".into(),
        ..status(None)
    };
    assert_eq!(bench.refused(operator, &offline), 1);
}

#[test]
fn rules_count_what_an_operator_asks_once() {
    use crate::broker::event::Control;
    use crate::broker::rule::{Effect, Nth, Rule};
    let (mut bench, operator, [a, _]) = group();
    let rule = Rule::on(RequestCode::GET_CONSUMER_RUNNING_INFO, Effect::Drop).nth(Nth::Only(2));
    bench.control(Control::AddRule(rule));
    bench.send(operator, &info("a@1"));
    assert_eq!(bench.frames(a).len(), 1);
    bench.send(operator, &info("a@1"));
    assert_eq!(bench.frames(a).len(), 0);
    // What the broker asks on its own counts on the way out.
    bench.control(Control::AddRule(Rule::on(
        RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT,
        Effect::Drop,
    )));
    bench.send(operator, &status(Some("a@1")));
    assert_eq!(bench.frames(a).len(), 0);
}
