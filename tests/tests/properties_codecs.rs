//! What one side writes the other reads: every request and answer in both forms of header, and stored
//! messages.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rocketmq_consumer_core::ids::ClientId;
use rocketmq_consumer_core::wire::command::Header;
use rocketmq_consumer_core::wire::frame::{FRAME_LEN_MAX, Frame, HeaderForm};
use rocketmq_consumer_core::wire::request::members::MemberList;
use rocketmq_consumer_core::wire::request::operator::{
    ConsumeDirectlyRequest, ConsumerStatusRequest, RunningInfoRequest,
};
use rocketmq_consumer_core::wire::request::route::DialectRoute;
use rocketmq_consumer_core::wire::request::send::SendRequest;
use rocketmq_consumer_core::wire::request::{
    Answer, Request, decode_answer, decode_request, encode_answer, encode_request,
};
use rocketmq_consumer_core::wire::request::{
    cluster, find, groups, heartbeat, locks, members, offsets, pull, reset, route, stats, topics,
};
use rocketmq_consumer_core::wire::stored::{Record, RecordParts, Scanned, Scanner};
use rocketmq_consumer_core::wire::subscription::{ALL, Subscription, java_hash};
use rocketmq_consumer_testing::generate::{self, StoredRecord, Unstructured};
use rocketmq_consumer_testing::{fuzzing, strategies};

const FORMS: [HeaderForm; 2] = [HeaderForm::Json, HeaderForm::Rocketmq];

type Make<T> = fn(&mut Unstructured<'_>) -> generate::Result<T>;

/// A request comes through as it is, with its code and number.
fn requests<R: Request + Debug + PartialEq>(make: Make<R>) {
    let outcome = TestRunner::default().run(&strategies::from_generator(make), |request| {
        for form in FORMS {
            let bytes = encode_request(form, 7, true, &request).expect("a small request");
            let frame = Frame::parse(bytes, FRAME_LEN_MAX).expect("our own frame");
            let header = Header::of(&frame).expect("our own header");
            prop_assert_eq!((header.code, header.opaque), (request.code().0, 7));
            prop_assert!(header.is_oneway() && !header.is_response());
            let read = decode_request::<R>(&frame);
            prop_assert_eq!(read.as_ref(), Ok(&request), "{:?}", form);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// An answer comes through as it is.
fn answers<R: Request>(make: Make<R::Answer>)
where
    R::Answer: Debug + PartialEq,
{
    let outcome = TestRunner::default().run(&strategies::from_generator(make), |answer| {
        for form in FORMS {
            let bytes = encode_answer(form, -7, &answer).expect("a small answer");
            let frame = Frame::parse(bytes, FRAME_LEN_MAX).expect("our own frame");
            let header = Header::of(&frame).expect("our own header");
            prop_assert_eq!((header.code, header.opaque), (answer.code().0, -7));
            prop_assert!(header.is_response() && !header.is_oneway());
            let read = decode_answer::<R>(&frame);
            prop_assert_eq!(read.as_ref(), Ok(&answer), "{:?}", form);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn requests_of_a_consumer() {
    requests(generate::route_request);
    requests(generate::heartbeat_request);
    requests(generate::unregister_request);
    requests(generate::member_list_request);
    requests(generate::members_changed);
    requests(generate::pull_request);
    requests(generate::send_back_request);
}

#[test]
fn requests_about_offsets() {
    requests(generate::query_offset_request);
    requests(generate::commit_offset_request);
    requests(generate::search_offset_request);
    requests(generate::max_offset_request);
    requests(generate::min_offset_request);
}

#[test]
fn requests_of_a_producer_and_of_an_operator() {
    requests(generate::send_request);
    requests(generate::reset_offset_request);
    requests(generate::consumer_status_request);
    requests(generate::running_info_request);
    requests(generate::consume_directly_request);
}

#[test]
fn answers_to_a_consumer() {
    answers::<route::RouteRequest>(generate::topic_route);
    answers::<heartbeat::HeartbeatRequest>(generate::heartbeat_answer);
    answers::<members::MemberListRequest>(|u| {
        let client_ids = generate::member_list(u, &ClientId::from("me"))?;
        Ok(MemberList { client_ids })
    });
    answers::<pull::PullRequest>(generate::pull_answer);
    answers::<offsets::QueryOffsetRequest>(generate::stored_offset);
    answers::<offsets::MaxOffsetRequest>(generate::offset_answer);
}

#[test]
fn answers_to_a_producer_and_to_an_operator() {
    answers::<SendRequest>(generate::send_answer);
    answers::<ConsumerStatusRequest>(generate::consumer_status);
    answers::<RunningInfoRequest>(generate::running_info);
    answers::<ConsumeDirectlyRequest>(generate::consume_directly_answer);
}

#[test]
fn requests_of_a_tool_about_topics_and_groups() {
    requests(generate::update_topic_request);
    requests(generate::topic_config_request);
    requests(generate::delete_topic_request);
    requests(generate::forget_topic_request);
    requests(generate::cluster_topics_request);
    requests(generate::update_group_request);
    requests(generate::group_config_request);
    requests(generate::group_list_request);
    requests(generate::delete_group_request);
    requests(generate::topic_groups_request);
    requests(|_| Ok(topics::TopicListRequest));
    requests(|_| Ok(cluster::ClusterInfoRequest));
}

#[test]
fn requests_of_a_tool_about_progress_and_messages() {
    requests(generate::operator_reset_request);
    requests(generate::group_status_request);
    requests(generate::topic_stats_request);
    requests(generate::consume_stats_request);
    requests(generate::connections_request);
    requests(generate::earliest_store_time_request);
    requests(generate::view_message_request);
    requests(generate::query_message_request);
    requests(generate::check_subscription_request);
    requests(generate::lock_request);
    requests(generate::unlock_request);
}

#[test]
fn answers_to_a_tool_about_topics_and_groups() {
    answers::<topics::TopicConfigRequest>(generate::topic_config);
    answers::<topics::TopicListRequest>(generate::topic_list);
    answers::<groups::GroupConfigRequest>(generate::subscription_group_config);
    answers::<groups::GroupListRequest>(generate::group_table);
    answers::<cluster::ClusterInfoRequest>(generate::cluster_info);
    answers::<stats::TopicGroupsRequest>(generate::group_list);
}

#[test]
fn answers_to_a_tool_about_progress_and_messages() {
    answers::<reset::OperatorResetRequest>(generate::reset_offsets);
    answers::<reset::GroupStatusRequest>(generate::group_status);
    answers::<stats::TopicStatsRequest>(generate::topic_stats);
    answers::<stats::ConsumeStatsRequest>(generate::consume_stats);
    answers::<stats::ConnectionsRequest>(generate::consumer_connections);
    answers::<offsets::EarliestStoreTimeRequest>(generate::earliest_store_time);
    answers::<find::ViewMessageRequest>(generate::viewed_message);
    answers::<find::QueryMessageRequest>(generate::found_messages);
    answers::<locks::LockRequest>(generate::lock_answer);
}

/// What a reader finds in a record.
fn read(record: Record<'_>) -> StoredRecord {
    let magic = record.bytes().get(4..8);
    StoredRecord {
        topic: record.topic().to_owned(),
        wide_topic: magic == Some(&[0xDA, 0xA3, 0x20, 0xAB]),
        queue_id: record.queue_id(),
        flag: record.flag(),
        queue_offset: record.queue_offset(),
        physical_offset: record.physical_offset(),
        sys_flag: record.sys_flag(),
        born_at: record.born_at(),
        born_host: record.born_host(),
        store_at: record.store_at(),
        store_host: record.store_host(),
        reconsume_times: record.reconsume_times(),
        prepared_transaction_offset: record.prepared_transaction_offset(),
        body_crc: record.body_crc(),
        body: record.stored_body().to_vec().into(),
        properties: record.properties().as_bytes().to_vec().into(),
    }
}

proptest! {
    /// Each record is found where it lies; a damaged one does not take its neighbours along.
    #[test]
    fn stored_messages(list in strategies::stored_lists()) {
        let bytes: Vec<u8> = list.iter().flat_map(|stored| stored.bytes.clone()).collect();
        let scanned: Vec<_> = Scanner::new(&bytes).collect();
        prop_assert_eq!(scanned.len(), list.len());
        for (scanned, stored) in scanned.into_iter().zip(list) {
            match (scanned, stored.intact) {
                (Scanned::Message(entry), Some(record)) => prop_assert_eq!(read(Record::new(&bytes, entry)), record),
                (Scanned::Undecodable(bad), None) => prop_assert_eq!(bad.len as usize, stored.bytes.len()),
                (scanned, intact) => prop_assert!(false, "{scanned:?} is not {intact:?}"),
            }
        }
    }

    /// The writer of the wire writes what another one, that shares nothing with it, writes.
    #[test]
    fn records_are_written_alike(record in strategies::from_generator(generate::stored_record), properties in strategies::from_generator(generate::text)) {
        let record = StoredRecord {
            wide_topic: record.topic.len() > 127,
            body_crc: crc32fast::hash(&record.body) & 0x7FFF_FFFF,
            properties: properties.clone().into(),
            ..record
        };
        let parts = RecordParts {
            topic: &record.topic,
            queue_id: record.queue_id,
            flag: record.flag,
            queue_offset: record.queue_offset,
            physical_offset: record.physical_offset,
            sys_flag: record.sys_flag,
            born_at: record.born_at,
            born_host: record.born_host,
            store_at: record.store_at,
            store_host: record.store_host,
            reconsume_times: record.reconsume_times,
            prepared_transaction_offset: record.prepared_transaction_offset,
            body: &record.body,
            properties: &properties,
        };
        let mut written = Vec::new();
        prop_assert_eq!(parts.encode(&mut written), Ok(()));
        prop_assert_eq!(written, record.encode());
    }

    /// How a member is, in fastjson's dialect.
    #[test]
    fn running_infos(info in strategies::from_generator(generate::consumer_running_info)) {
        prop_assert_eq!(info.to_answer().read(), Ok(info));
    }

    /// A route for name servers' oldest clients says the same.
    #[test]
    fn routes_in_dialect(route in strategies::topic_routes()) {
        let bytes = encode_answer(HeaderForm::Json, 1, &DialectRoute(route.clone())).expect("a small answer");
        let frame = Frame::parse(bytes, FRAME_LEN_MAX).expect("our own frame");
        prop_assert_eq!(decode_answer::<route::RouteRequest>(&frame), Ok(route));
    }

    /// The promises of the fuzz target, over the space of the generator.
    #[test]
    fn torn_lists_keep_the_promises(list in strategies::from_generator(generate::torn_list)) {
        fuzzing::stored_messages(&list);
    }

    /// A tag expression means the tags between its separators, and nothing else matches.
    #[test]
    fn expressions_mean_their_tags(expression in strategies::expressions(), other in strategies::from_generator(generate::word)) {
        let tags: Vec<&str> = expression
            .split("||")
            .map(|piece| piece.trim_matches(|char| char <= ' '))
            .filter(|tag| !tag.is_empty())
            .collect();
        match Subscription::tagged("T".into(), &expression) {
            Err(_) => prop_assert!(expression.contains("||") && tags.is_empty()),
            Ok(all) if expression.is_empty() || expression == ALL => prop_assert_eq!(all, Subscription::all("T".into())),
            Ok(subscription) => {
                prop_assert_eq!(&subscription.expression, &expression);
                prop_assert!(subscription.codes.iter().copied().eq(tags.iter().map(|tag| java_hash(tag)).collect::<std::collections::BTreeSet<_>>()));
                for tag in &tags {
                    prop_assert!(subscription.matches(Some(tag)));
                }
                prop_assert_eq!(subscription.matches(Some(&other)), tags.is_empty() || tags.contains(&other.as_str()));
                prop_assert_eq!(subscription.matches(None), tags.is_empty());
            }
        }
    }
}
