//! Servers that die, freeze and come back, under load, on the real Apache RocketMQ.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
mod support;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use outage_tools::{
    Answer, Load, Member, Running, Yardstick, bodies_of, longest_gap, longest_pause, longest_wait, now,
    wait_for,
};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};
use rocketmq_consumer_tokio::core::recording::Recording;
use rocketmq_consumer_tokio::core::status::QueueStatus;
use rocketmq_consumer_tokio::{LinkTrouble, NoticeKind, PeerAddr, RecordTo};

/// A second.
const SECOND: Duration = Duration::from_secs(1);
/// For what has no limit of its own, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The broker that suffers, and the one that must not notice.
const BROKEN: (usize, &str) = (1, "broker-b");
const WELL: &str = "broker-a";

/// Each step takes a server away, so they come one after the other; they share the cluster.
#[test]
fn outages_lose_nothing_and_end_soon() {
    let cluster = Cluster::builder()
        .brokers(2)
        .broker_config("messageDelayLevel", ["1s"; 18].join(" "))
        .start()
        .expect("a cluster starts");
    for (topic, queues) in [("Killed", 4), ("Frozen", 2), ("Nameless", 2), ("Recorded", 2)] {
        cluster
            .create_topic(topic, &[(0, queues), (1, queues)])
            .expect("a topic can be created");
    }
    cluster
        .create_topic("Yardstick", &[(0, 1)])
        .expect("a topic can be created");
    let yardstick = Yardstick::start(cluster.name_server(), "Yardstick", WELL);
    let bench = Bench { cluster, yardstick };
    bench.a_killed_broker_comes_back_and_the_other_does_not_wait();
    bench.a_frozen_broker_is_found_silent();
    bench.nobody_needs_a_name_server_while_all_is_well();
    bench.a_name_server_that_is_down_at_the_start_is_waited_for();
    bench.a_recorded_run_replays_byte_for_byte();
    bench.yardstick.stop();
}

struct Bench {
    cluster: Cluster,
    /// What the machine itself costs; added to every limit.
    yardstick: Yardstick,
}

impl Bench {
    fn broken_addr(&self) -> PeerAddr {
        let address = self.cluster.broker(BROKEN.0).address();
        address.parse().expect("host and port")
    }

    fn a_killed_broker_comes_back_and_the_other_does_not_wait(&self) {
        const TOPIC: &str = "Killed";
        let name_server = self.cluster.name_server();
        let member = Member::start(name_server, TOPIC, |builder| builder, |_| Answer::Done);
        member.ready();
        let load = Load::start(name_server, TOPIC, 2_000, 8, None);
        let begun = load.begun();
        thread::sleep(5 * SECOND);
        let broker = self.cluster.broker(BROKEN.0);
        broker.kill().expect("it runs");
        let killed_at = now();
        // Two seconds without it, and the answer to the question why.
        let reason = wait_for("a reason in the status", 2 * SECOND, || {
            reason_for(&member, &self.broken_addr())
        });
        thread::sleep((2 * SECOND).saturating_sub(killed_at.elapsed()));
        let later = reason_for(&member, &self.broken_addr());
        println!("killed: status says {reason}, two seconds later {later:?}");
        let launched_at = now();
        broker.restart().expect("it starts again");
        let registered_at = now();
        let full = Duration::from_secs(20).max(registered_at - begun + 4 * SECOND);
        thread::sleep(full.saturating_sub(begun.elapsed()));
        let stored = load.stop();
        let ended_at = now();
        member.wait_for_all(&bodies_of(&stored), LIMIT);

        let sightings = member.sightings();
        let first = sightings
            .iter()
            .filter(|seen| seen.broker == BROKEN.1 && seen.at > launched_at)
            .map(|seen| seen.at)
            .min()
            .expect("the broker that came back has messages");
        let first = first.saturating_duration_since(registered_at);
        let pause = longest_pause(&sightings, WELL, begun + SECOND..ended_at);
        let wait = longest_wait(&stored, &sightings, WELL);
        let (gap, slack) = (longest_gap(&stored, WELL), self.yardstick.slack(begun));
        let again = sightings.len() - member.bodies().len();
        println!(
            "killed: {} acknowledged in {:?} ({:.0}/s), {again} came twice; the first of the killed broker {first:?} after it was \
             registered ({:?} after the kill); the other: longest pause of a queue {pause:?}, of a message {wait:?} (of the producers {gap:?}, of the yardstick {slack:?})",
            stored.len(),
            ended_at - begun,
            rate(stored.len(), ended_at - begun),
            registered_at - killed_at,
        );
        assert!(later.is_some(), "the status goes on naming the reason");
        assert!(
            first <= 5 * SECOND + slack,
            "the first message came {first:?} after the registration"
        );
        assert!(
            pause <= SECOND + gap + slack,
            "a queue of the other broker paused for {pause:?}"
        );
        assert!(
            wait <= SECOND + slack,
            "a message of the other broker waited for {wait:?}"
        );
        assert!(
            stored
                .iter()
                .any(|one| one.broker == BROKEN.1 && one.at > registered_at)
        );
        let told = member.notices();
        assert!(
            told.iter().any(|(_, notice)| matches!(&notice.kind, NoticeKind::LinkDown { addr, .. } if *addr == self.broken_addr())),
            "{told:?}"
        );
        member.shutdown();
    }

    fn a_frozen_broker_is_found_silent(&self) {
        const TOPIC: &str = "Frozen";
        let name_server = self.cluster.name_server();
        let member = Member::start(name_server, TOPIC, |builder| builder, |_| Answer::Done);
        member.ready();
        let well = Load::start(name_server, TOPIC, 100, 1, Some(WELL));
        let frozen = Load::start(name_server, TOPIC, 100, 1, Some(BROKEN.1));
        let begun = well.begun();
        thread::sleep(3 * SECOND);
        let (broker, addr) = (self.cluster.broker(BROKEN.0), self.broken_addr());
        broker.suspend().expect("it runs");
        let frozen_at = now();
        let silent = wait_for("the notice of a silent link", LIMIT, || {
            let told = member.notices();
            told.into_iter().find(|(at, notice)| {
                *at > frozen_at
                    && matches!(&notice.kind, NoticeKind::LinkDown { addr: down, cause } if *down == addr && *cause == LinkTrouble::Silent)
            })
        });
        let found = silent.0 - frozen_at;
        let reason = reason_for(&member, &addr);
        thread::sleep((15 * SECOND).saturating_sub(frozen_at.elapsed()));
        broker.resume().expect("it is frozen");
        let resumed_at = now();
        let first = wait_for("a message of the broker that goes on", LIMIT, || {
            let sightings = member.sightings();
            sightings
                .into_iter()
                .find(|seen| seen.broker == BROKEN.1 && seen.at > resumed_at)
        });
        thread::sleep(2 * SECOND);
        let mut stored = well.stop();
        let ended_at = now();
        stored.extend(frozen.stop());
        member.wait_for_all(&bodies_of(&stored), LIMIT);
        let sightings = member.sightings();
        let wait = longest_wait(&stored, &sightings, WELL);
        let pause = longest_pause(&sightings, WELL, begun + SECOND..ended_at);
        let (gap, slack) = (longest_gap(&stored, WELL), self.yardstick.slack(begun));
        println!(
            "frozen: found silent {found:?} after SIGSTOP ({reason:?}), frozen for {:?}, first message {:?} after SIGCONT; the other: longest \
             pause of a queue {pause:?}, of a message {wait:?} (of the producer {gap:?}, of the yardstick {slack:?}); {} acknowledged, {} deliveries",
            resumed_at - frozen_at,
            first.at - resumed_at,
            stored.len(),
            sightings.len(),
        );
        // At most: a commit interval, its time-out, and the rest of the ten seconds since it was sent.
        assert!(found <= 16 * SECOND + slack, "{found:?}");
        assert!(reason.is_some(), "the status names the reason");
        assert!(first.at - resumed_at <= 5 * SECOND + slack);
        assert!(
            pause <= SECOND + gap + slack,
            "a queue of the other broker paused for {pause:?}"
        );
        assert!(
            wait <= SECOND + slack,
            "a message of the other broker waited for {wait:?}"
        );
        member.shutdown();
    }

    fn nobody_needs_a_name_server_while_all_is_well(&self) {
        const TOPIC: &str = "Nameless";
        let name_server = self.cluster.name_server();
        let member = Member::start(name_server, TOPIC, |builder| builder, |_| Answer::Done);
        member.ready();
        let load = Load::start(name_server, TOPIC, 200, 1, None);
        thread::sleep(2 * SECOND);
        self.cluster.name_server_process().kill().expect("it runs");
        let killed_at = now();
        thread::sleep(12 * SECOND);
        let ended_at = now();
        let stored = load.stop();
        member.wait_for_all(&bodies_of(&stored), LIMIT);
        let sightings = member.sightings();
        let waits = [WELL, BROKEN.1].map(|broker| longest_wait(&stored, &sightings, broker));
        let after = stored.iter().filter(|one| one.at > killed_at).count();
        let told = unreachable_notices(&member);
        let slack = self.yardstick.slack(killed_at);
        println!(
            "nameless: {after} of {} messages stored and seen in {:?} without a name server, none waited longer than {waits:?} (of the yardstick {slack:?}); told {} times",
            stored.len(),
            ended_at - killed_at,
            told.len()
        );
        assert!(after > 500, "{after} stored without a name server");
        assert!(waits.iter().all(|wait| *wait <= SECOND + slack), "{waits:?}");
        assert!(!told.is_empty(), "it is told");
        assert_spaced(&told);
        member.shutdown();
    }

    /// The name server is down when this begins, and up when it ends.
    fn a_name_server_that_is_down_at_the_start_is_waited_for(&self) {
        let name_server = self.cluster.name_server();
        let consume = |more: &[&'static str]| -> Running {
            let base = [
                "consume",
                "Nameless",
                "-g",
                "Latecomer",
                "--from",
                "earliest",
                "-n",
                name_server,
            ];
            Running::start(&[&base, more].concat())
        };
        let begun = now();
        let impatient = consume(&["--connect-timeout", "1", "-o", "none"]).wait(LIMIT);
        println!(
            "down at start: gave up after {:?}: {}",
            begun.elapsed(),
            impatient.stderr.trim_end()
        );
        assert_eq!(
            (impatient.code, impatient.stdout.as_str()),
            (Some(4), ""),
            "{}",
            impatient.stderr
        );
        let said: Vec<&str> = impatient.stderr.lines().collect();
        assert_eq!(
            said.len(),
            3,
            "one line for the trouble, one for the end, the summary: {said:?}"
        );
        assert!(
            said[0].contains(name_server) && said[0].contains("unreachable"),
            "{}",
            said[0]
        );
        assert!(said[1].contains(name_server), "{}", said[1]);

        let patient = consume(&["--connect-timeout", "0", "-o", "%v\\n"]);
        thread::sleep(13 * SECOND);
        let said = patient.stderr();
        let lines: Vec<Instant> = said.iter().map(|(at, _)| *at).collect();
        println!("down at start: {said:?}");
        assert!(
            said.iter().all(|(_, line)| line.contains(name_server)),
            "{said:?}"
        );
        assert!((1..=2).contains(&lines.len()), "{said:?}");
        assert_spaced(&lines);
        assert!(patient.stdout().is_empty());
        self.cluster
            .name_server_process()
            .restart()
            .expect("it starts again");
        self.cluster.wait_ready(LIMIT).expect("the brokers register");
        let returned_at = now();
        let first = wait_for("the first message", LIMIT, || patient.stdout().first().cloned());
        let first = first.0.saturating_duration_since(returned_at);
        let slack = self.yardstick.slack(returned_at);
        println!(
            "down at start: first message {first:?} after the brokers were listed again (yardstick {slack:?})"
        );
        let ran = patient.terminate();
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(first <= 2 * SECOND + slack, "{first:?}: {}", ran.stderr);
    }

    fn a_recorded_run_replays_byte_for_byte(&self) {
        const TOPIC: &str = "Recorded";
        let name_server = self.cluster.name_server();
        let mut producer = Producer::new(name_server, TOPIC).expect("the topic has a route");
        let mut sent: BTreeSet<String> = BTreeSet::new();
        let mut send = |producer: &mut Producer, count| {
            let stored = producer.send_many(count).expect("messages are stored");
            sent.extend(
                stored
                    .into_iter()
                    .map(|one| String::from_utf8_lossy(&one.body).into_owned()),
            );
            sent.clone()
        };
        send(&mut producer, 3_000);
        let tape = Tape::default();
        let recorder = Box::new(RecordTo::new(tape.clone()));
        let member = Member::start(
            name_server,
            TOPIC,
            |builder| builder.record(recorder),
            |seen| {
                if seen.body == "1234:" && seen.reconsume_times == 0 {
                    Answer::Fail
                } else {
                    Answer::Done
                }
            },
        );
        wait_for("the retry", LIMIT, || {
            member
                .sightings()
                .into_iter()
                .find(|seen| seen.reconsume_times == 1)
        });
        let broker = self.cluster.broker(BROKEN.0);
        broker.kill().expect("it runs");
        thread::sleep(SECOND);
        broker.restart().expect("it starts again");
        let all = send(&mut producer, 500);
        member.wait_for_all(&all, LIMIT);
        let deliveries = member.sightings().len();
        member.shutdown();

        let bytes = tape.take();
        let recording = Recording::parse(&bytes).expect("a recording");
        assert_eq!(recording.cut_off, 0, "the last record is whole");
        let begun = now();
        let replayed = recording.replay().expect("the machine decides the same again");
        println!(
            "recorded: {deliveries} deliveries, {} bytes; {} events and {} actions replayed in {:?}",
            bytes.len(),
            replayed.events,
            replayed.actions,
            begun.elapsed()
        );
        assert!(deliveries >= 3_501 && replayed.events > 500 && replayed.actions > 500);
    }
}

/// Why nothing comes from a broker: its link is down, what its queues are held for, or that the topic's route lost it.
fn reason_for(member: &Member, addr: &PeerAddr) -> Option<String> {
    let status = member.status();
    let lost = status.topics.iter().find(|topic| {
        topic
            .lost_brokers
            .iter()
            .any(|broker| broker.as_str() == BROKEN.1)
    });
    if let Some(topic) = lost {
        return Some(format!("the route of {} has lost {}", topic.topic, BROKEN.1));
    }
    let link = status.links.iter().find(|link| link.addr == *addr)?;
    let trouble = link.trouble?;
    let queues = status.groups.iter().flat_map(|group| &group.queues);
    let held: Vec<_> = queues
        .filter(|queue| queue.queue.broker.as_str() == BROKEN.1)
        .map(|QueueStatus { state, hold, .. }| format!("{state:?} {hold:?}"))
        .collect();
    Some(format!("{trouble:?}, its queues {held:?}"))
}

fn unreachable_notices(member: &Member) -> Vec<Instant> {
    let told = member.notices().into_iter();
    told.filter(|(_, notice)| matches!(notice.kind, NoticeKind::NameServerUnreachable { .. }))
        .map(|(at, _)| at)
        .collect()
}

/// The same is not told more often than every ten seconds.
fn assert_spaced(times: &[Instant]) {
    for (one, next) in times.iter().zip(times.iter().skip(1)) {
        assert!(
            *next - *one >= Duration::from_millis(9_900),
            "{:?} apart",
            *next - *one
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Where a recording goes, to be read when the client has ended.
#[derive(Clone, Default)]
struct Tape(Arc<Mutex<Vec<u8>>>);

impl Tape {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Tape {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut tape = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tape.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
