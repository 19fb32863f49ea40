//! SQL92 conditions, and subscriptions that change while a group runs, on the real Apache RocketMQ.
#![cfg(unix)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rocketmq_consumer_testing::rocketmq::{Cluster, JavaConsumer, Producer};
use rocketmq_consumer_tokio::{
    Consumer, ConsumerBuilder, Message, Outcome, ReadyError, StartAt, SubscribeError,
};
use support::{Ran, side_by_side};
use tokio::runtime::Runtime;

/// The first broker looks at properties, the second does not.
#[test]
fn the_real_broker_agrees() {
    let cluster = Cluster::builder()
        .brokers(2)
        .broker_config("enablePropertyFilter", "true")
        .start()
        .expect("a cluster starts");
    let mut plain = cluster.broker(1).admin().expect("it can be asked");
    plain
        .update_broker_config(&[("enablePropertyFilter", "false")])
        .expect("a setting takes");
    let bench = Bench { cluster };
    let steps: [fn(&Bench); 5] = [
        Bench::a_condition_selects_what_it_selects_for_java,
        Bench::a_bad_condition_is_refused_in_the_words_of_the_broker,
        Bench::a_broker_that_does_not_look_at_properties_refuses,
        Bench::tags_change_under_load_and_nothing_is_lost,
        Bench::a_topic_that_is_given_back_is_committed,
    ];
    side_by_side(&bench, &steps);
    // By itself: a time is measured.
    bench.the_first_message_of_a_new_topic_comes_soon();
}

struct Bench {
    cluster: Cluster,
}

/// The clock.
#[expect(clippy::disallowed_methods, reason = "these tests measure real processes")]
fn now() -> Instant {
    Instant::now()
}

/// What a handler saw, and when.
type Seen = Arc<Mutex<Vec<(String, Instant)>>>;

fn bodies(seen: &Seen) -> Vec<String> {
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    seen.iter().map(|(body, _)| body.clone()).collect()
}

/// Until that many messages were seen; panics after half a minute.
fn wait_for(seen: &Seen, count: usize) {
    let deadline = now() + Duration::from_secs(30);
    while bodies(seen).len() < count {
        assert!(now() < deadline, "{} of {count}", bodies(seen).len());
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a call came to; panics after a minute.
fn within<T>(runtime: &Runtime, call: impl Future<Output = T>) -> T {
    let limited = async { tokio::time::timeout(Duration::from_secs(60), call).await };
    runtime.block_on(limited).expect("an answer in time")
}

impl Bench {
    fn topic(&self, name: &str, broker: usize, queues: u32) {
        self.cluster
            .create_topic(name, &[(broker, queues)])
            .expect("a topic can be created");
    }

    fn producer(&self, topic: &str) -> Producer {
        Producer::new(self.cluster.name_server(), topic).expect("the topic has a route")
    }

    fn consume(&self, topic: &str, group: &str, more: &[&str]) -> Ran {
        let name_server = self.cluster.name_server();
        let base = [
            "consume",
            topic,
            "-g",
            group,
            "--from",
            "earliest",
            "-n",
            name_server,
        ];
        support::run([&base, more].concat())
    }

    fn builder(&self, group: &str) -> ConsumerBuilder {
        Consumer::builder(group)
            .name_server(self.cluster.name_server())
            .start_at(StartAt::Earliest)
    }

    /// Starts a consumer that writes down what it sees.
    fn start(runtime: &Runtime, builder: ConsumerBuilder) -> (Consumer, Seen) {
        let seen = Seen::default();
        let noted = Arc::clone(&seen);
        let handler = move |message: Message| {
            let body = message.body().expect("these bodies can be read");
            let body = String::from_utf8_lossy(&body).into_owned();
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            noted.push((body, now()));
            async { Ok::<_, String>(Outcome::Done) }
        };
        let consumer = runtime
            .block_on(builder.start(handler))
            .expect("the settings are good");
        (consumer, seen)
    }

    fn a_condition_selects_what_it_selects_for_java(&self) {
        const CONDITION: &str = "(a > 6 OR b IS NOT NULL) AND TAGS <> 'C'";
        self.topic("Sql", 0, 2);
        for a in 0..10 {
            let mut producer = self.producer("Sql").tags(&["A", "B", "C"]);
            producer = producer.property("a", a.to_string());
            if a == 2 {
                producer = producer.property("b", "x");
            }
            for number in 0..6 {
                producer
                    .send(format!("{a}-{number}").as_bytes())
                    .expect("it is stored");
            }
        }
        let ours = self.consume("Sql", "sql_ours", &["--sql", CONDITION, "-e", "-o", "%v\\n"]);
        assert_eq!(ours.code, Some(0), "{}", ours.stderr);
        let ours: BTreeSet<String> = ours.stdout.lines().map(Into::into).collect();
        assert_eq!(
            ours.len(),
            16,
            "of 7, 8, 9 and 2, those without the tag C: {ours:?}"
        );
        let mut java = JavaConsumer::builder(self.cluster.name_server(), "sql_java")
            .subscribe_sql("Sql", CONDITION)
            .from_first()
            .start()
            .expect("a Java consumer starts");
        let theirs = java
            .take(ours.len(), Duration::from_secs(60))
            .expect("as many messages");
        let more = java.next(Duration::from_secs(2)).expect("it lives");
        assert_eq!(more, None);
        let theirs: BTreeSet<String> = theirs.into_iter().map(|received| received.body).collect();
        assert_eq!(ours, theirs);
    }

    fn a_bad_condition_is_refused_in_the_words_of_the_broker(&self) {
        self.topic("Bad", 0, 1);
        let ran = self.consume("Bad", "bad", &["--sql", "a >", "-o", "none"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let words = "--sql: broker-a refuses the condition with code 23: ";
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("Encountered"),
            "the parser's own words: {}",
            ran.stderr
        );
        // The group has not become a member.
        let lag = support::run(["lag", "-g", "bad", "-n", self.cluster.name_server()]);
        assert_ne!(lag.code, Some(0), "{}", lag.stdout);

        // The same by the library, which then is given a good one.
        let runtime = Runtime::new().expect("threads can be started");
        let (consumer, seen) = Self::start(&runtime, self.builder("bad").subscribe_sql("Bad", "a >"));
        let refused = within(&runtime, consumer.ready()).expect_err("it is refused");
        assert!(
            matches!(&refused, ReadyError::FilterRefused(refusal) if refusal.code == 23),
            "{refused}"
        );
        let mut producer = self.producer("Bad").property("a", "4");
        producer.send(b"good").expect("it is stored");
        within(&runtime, async {
            consumer
                .subscribe_sql("Bad", "a > 3")
                .await
                .expect("it means something");
            consumer.ready().await.expect("it joins");
            let worse = consumer.subscribe_sql("Bad", "a > > 3").await;
            assert!(
                matches!(worse, Err(SubscribeError::FilterRefused(_))),
                "{worse:?}"
            );
        });
        wait_for(&seen, 1);
        producer.send(b"still").expect("it is stored");
        wait_for(&seen, 2);
        assert_eq!(bodies(&seen), ["good", "still"], "the former condition stays");
        within(&runtime, consumer.shutdown(Duration::from_secs(5)));
    }

    fn a_broker_that_does_not_look_at_properties_refuses(&self) {
        self.topic("Plain", 1, 1);
        let ran = self.consume("Plain", "plain", &["--sql", "a > 3", "-o", "none"]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        let words = "broker-b refuses the condition with code 1: The broker does not support consumer to filter \
                     message by SQL92; it has to run with enablePropertyFilter=true";
        assert!(ran.stderr.contains(words), "{}", ran.stderr);
    }

    /// 300 messages a second while the expression changes ten times: every A is consumed; every B that was stored
    /// when B was wanted, half a second before it was not any more; nothing twice, and no B while none is wanted.
    fn tags_change_under_load_and_nothing_is_lost(&self) {
        self.topic("Load", 0, 4);
        let runtime = Runtime::new().expect("threads can be started");
        let (consumer, seen) = Self::start(&runtime, self.builder("load").subscribe("Load", "A"));
        within(&runtime, consumer.ready()).expect("it joins");
        let stop = Arc::<AtomicBool>::default();
        let (mut producer, stopped) = (self.producer("Load").tags(&["A", "B"]), Arc::clone(&stop));
        let load = thread::spawn(move || {
            let mut stored = Vec::new();
            for number in 0.. {
                if stopped.load(Ordering::Acquire) {
                    break;
                }
                let body = format!("{}-{number}", if number % 2 == 0 { "A" } else { "B" });
                let sent = now();
                producer.send(body.as_bytes()).expect("it is stored");
                stored.push((body, sent, now()));
                thread::sleep(Duration::from_millis(3));
            }
            stored
        });
        // When what was stored had to come, and when a B might.
        let (mut certain, mut perhaps) = (Vec::new(), Vec::new());
        let mut longest = Duration::ZERO;
        for _ in 0..5 {
            let mut change = |expression: &str| {
                let asked = now();
                let changed = within(&runtime, consumer.subscribe("Load", expression));
                changed.expect("nothing is wrong with it");
                longest = longest.max(asked.elapsed());
                (asked, now())
            };
            let (asked, in_force) = change("A || B");
            thread::sleep(Duration::from_millis(600));
            let (_, gone) = change("A");
            certain.push(in_force..in_force + Duration::from_millis(100));
            perhaps.push(asked..gone);
            thread::sleep(Duration::from_millis(400));
        }
        stop.store(true, Ordering::Release);
        let stored = load.join().expect("a producer does not panic");
        let wanted = |body: &str, sent: Instant, acknowledged: Instant| {
            body.starts_with('A')
                || certain
                    .iter()
                    .any(|span| span.contains(&sent) && span.contains(&acknowledged))
        };
        let must: BTreeSet<&str> = stored
            .iter()
            .filter(|(body, sent, acknowledged)| wanted(body, *sent, *acknowledged))
            .map(|(body, ..)| body.as_str())
            .collect();
        let deadline = now() + Duration::from_secs(30);
        loop {
            let seen: BTreeSet<String> = bodies(&seen).into_iter().collect();
            let missing: Vec<_> = must.iter().filter(|body| !seen.contains(**body)).collect();
            if missing.is_empty() {
                break;
            }
            assert!(
                now() < deadline,
                "{} of {}: {missing:?}",
                missing.len(),
                must.len()
            );
            thread::sleep(Duration::from_millis(50));
        }
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        for body in bodies(&seen) {
            *times.entry(body).or_default() += 1;
        }
        let twice: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        let of_b = |spans: &[std::ops::Range<Instant>]| {
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let of_b: Vec<Instant> = seen
                .iter()
                .filter(|(body, _)| body.starts_with('B'))
                .map(|(_, at)| *at)
                .collect();
            let inside = of_b
                .iter()
                .filter(|at| spans.iter().any(|span| span.contains(*at)))
                .count();
            (of_b.len(), inside)
        };
        let (all, inside) = of_b(&perhaps);
        assert!(
            all > 100 && all == inside,
            "{inside} of {all} B came while B was wanted"
        );
        println!(
            "{} stored, {} seen; a change took {longest:?} at most",
            stored.len(),
            times.len()
        );
        assert!(longest < Duration::from_secs(10), "{longest:?}");
        within(&runtime, consumer.shutdown(Duration::from_secs(5)));
    }

    fn the_first_message_of_a_new_topic_comes_soon(&self) {
        for topic in ["Early", "Other"] {
            self.topic(topic, 0, 2);
        }
        for topic in ["Late", "Later"] {
            self.cluster
                .create_topic(topic, &[(0, 2), (1, 2)])
                .expect("a topic can be created");
            let mut producer = self.producer(topic).only("broker-b", 1);
            producer.send(topic.as_bytes()).expect("it is stored");
        }
        let runtime = Runtime::new().expect("threads can be started");
        // Two topics from the beginning, as one group.
        let builder = self
            .builder("early")
            .subscribe("Early", "*")
            .subscribe("Other", "*");
        let (consumer, seen) = Self::start(&runtime, builder);
        within(&runtime, consumer.ready()).expect("it joins");
        for topic in ["Early", "Other"] {
            self.producer(topic).send(topic.as_bytes()).expect("it is stored");
        }
        wait_for(&seen, 2);
        // The first one is also on a broker that has not met the group.
        for (number, topic) in [(3, "Late"), (4, "Later")] {
            let asked = now();
            within(&runtime, consumer.subscribe(topic, "*")).expect("nothing is wrong with it");
            wait_for(&seen, number);
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (body, at) = &seen[number - 1];
            let after = at.duration_since(asked);
            println!("the first message of the new topic {topic} came after {after:?}");
            assert_eq!(body, topic);
            // Within one second on a machine that is not busy with other things.
            assert!(after < Duration::from_secs(5), "{after:?}");
        }
        within(&runtime, consumer.shutdown(Duration::from_secs(5)));
    }

    fn a_topic_that_is_given_back_is_committed(&self) {
        for topic in ["Kept", "Given"] {
            self.topic(topic, 0, 1);
        }
        let runtime = Runtime::new().expect("threads can be started");
        let builder = self
            .builder("given")
            .subscribe("Kept", "*")
            .subscribe("Given", "*");
        let (consumer, seen) = Self::start(&runtime, builder);
        within(&runtime, consumer.ready()).expect("it joins");
        let mut producer = self.producer("Given");
        for number in 0..7 {
            producer
                .send(format!("{number}").as_bytes())
                .expect("it is stored");
        }
        wait_for(&seen, 7);
        runtime
            .block_on(consumer.unsubscribe("Given"))
            .expect("there is another topic");
        let mut admin = self.cluster.broker(0).admin().expect("the broker listens");
        let stored = admin.query_offset("given", "Given", 0).expect("an answer");
        assert_eq!(stored, Some(7), "all seven, not five or six");
        producer.send(b"7").expect("it is stored");
        thread::sleep(Duration::from_secs(1));
        assert_eq!(bodies(&seen).len(), 7, "nobody reads it");
        runtime
            .block_on(consumer.subscribe("Given", "*"))
            .expect("nothing is wrong with it");
        wait_for(&seen, 8);
        let last = within(&runtime, async {
            consumer
                .unsubscribe("Kept")
                .await
                .expect("there is another topic");
            consumer.unsubscribe("Given").await
        });
        assert!(matches!(last, Err(SubscribeError::Refused(_))), "{last:?}");
        within(&runtime, consumer.shutdown(Duration::from_secs(5)));
    }
}
