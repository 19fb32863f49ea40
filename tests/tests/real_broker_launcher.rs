//! The launcher itself: what it starts works, and what it started ends, also when nobody is left to end it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rocketmq_consumer_testing::rocketmq::{
    AdminClient, AdminError, Cluster, GroupConfig, JavaConsumer, JavaProducer, LaunchError, Producer, Version,
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Tells the test binary, run once more as a child, to hold a cluster until it is killed.
const VICTIM: &str = "ROCKETMQ_LAUNCHER_VICTIM";

#[test]
fn a_private_cluster_serves_a_java_consumer_and_survives_its_operations() -> Result<(), LaunchError> {
    let cluster = Cluster::builder()
        .brokers(2)
        .broker_config("messageDelayLevel", "1s 2s")
        .start()?;
    cluster.create_topic("orders", &[(0, 7), (1, 4)])?;

    let stored = Producer::new(cluster.name_server(), "orders")?
        .tags(&["A", "B"])
        .keys("k")
        .send_many(100)?;
    let used: BTreeSet<_> = stored
        .iter()
        .map(|one| (one.broker.as_str(), one.queue_id))
        .collect();
    assert_eq!(used.len(), 11, "round-robin reaches every queue: {used:?}");

    let mut consumer = JavaConsumer::builder(cluster.name_server(), "billing")
        .subscribe("orders", "A || B")
        .client_ip("10.0.0.1")
        .instance("one")
        .from_first()
        .fail_first(3)
        .route_refresh(SECOND)
        .start()?;
    assert_eq!(consumer.client_id(), "10.0.0.1@one");
    let seen = consumer.take(103, MINUTE)?;
    let bodies: BTreeSet<_> = seen.iter().map(|one| one.body.clone()).collect();
    assert_eq!((seen.len(), bodies.len()), (103, 100));
    assert_eq!(
        seen.iter().filter(|one| one.reconsume_times == 1).count(),
        3,
        "failed ones come once more"
    );
    let mut admin = cluster.broker(0).admin()?;
    assert_eq!(admin.consumer_ids("billing")?, ["10.0.0.1@one"]);
    let connections = admin.consumer_connections("billing")?;
    assert_eq!(
        connections
            .iter()
            .map(|one| one.language.as_str())
            .collect::<Vec<_>>(),
        ["JAVA"]
    );
    assert_eq!(consumer.stop()?.count, 100);
    assert_eq!(admin.consumer_ids("billing")?, Vec::<String>::new());
    for queue in 0..7 {
        let end = admin.max_offset("orders", queue)?;
        assert_eq!(
            admin.query_offset("billing", "orders", queue)?,
            Some(end),
            "committed on stopping"
        );
    }
    // Releases before 5.0 do not know the flag that tells nothing from 0.
    let nothing = (cluster.version() < Version::new(5, 0, 0)).then_some(0);
    assert_eq!(admin.query_offset("nobody", "orders", 0)?, nothing);

    settings_are_changed_and_read_back(&mut admin)?;
    brokers_keep_their_store(&cluster)?;

    let output = cluster.mqadmin(&["topicList"])?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.lines().any(|line| line.trim() == "orders"), "{text}");

    let pids: Vec<u32> = cluster
        .brokers()
        .iter()
        .chain([cluster.name_server_process()])
        .map(|server| server.pid().expect("all were restarted"))
        .collect();
    let folder = cluster.folder().to_path_buf();
    assert!(pids.iter().all(|pid| is_alive(*pid)) && folder.exists());
    drop(cluster);
    assert!(!pids.iter().any(|pid| is_alive(*pid)) && !folder.exists());
    Ok(())
}

fn settings_are_changed_and_read_back(admin: &mut AdminClient) -> Result<(), LaunchError> {
    admin.create_group(&GroupConfig {
        retry_max_times: 2,
        ..GroupConfig::new("strict")
    })?;
    admin.update_offset("strict", "orders", 0, 5)?;
    assert_eq!(admin.query_offset("strict", "orders", 0)?, Some(5));
    admin.update_broker_config(&[("autoCreateSubscriptionGroup", "false")])?;
    admin.update_broker_config(&[("autoCreateSubscriptionGroup", "true")])?;
    let unknown = admin.update_broker_config(&[("noSuchSetting", "1")]);
    assert!(
        matches!(unknown, Err(AdminError::Malformed { .. })),
        "{unknown:?}"
    );
    assert_eq!(admin.broker_config()?["messageDelayLevel"], "1s 2s");
    Ok(())
}

fn brokers_keep_their_store(cluster: &Cluster) -> Result<(), LaunchError> {
    let broker = cluster.broker(1);
    let mut producer = Producer::new(cluster.name_server(), "orders")?.only("broker-b", 3);
    let before = producer.send("before")?;
    // An end without warning loses what was not yet flushed, half a second by default.
    thread::sleep(SECOND);

    broker.kill()?;
    assert_eq!(broker.pid(), None);
    assert!(matches!(broker.kill(), Err(LaunchError::NotRunning { .. })));
    broker.restart()?;
    let after = producer.send("after a kill")?;
    assert_eq!(after.queue_offset, before.queue_offset + 1);

    broker.suspend()?;
    let suspended = broker.admin()?.max_offset("orders", 3);
    assert!(
        matches!(suspended, Err(AdminError::Io { .. })),
        "it accepts, but does not answer: {suspended:?}"
    );
    broker.resume()?;
    assert_eq!(broker.admin()?.max_offset("orders", 3)?, after.queue_offset + 1);

    broker.stop()?;
    broker.restart()?;
    assert_eq!(
        producer.send("after a stop")?.queue_offset,
        after.queue_offset + 1
    );

    cluster.name_server_process().kill()?;
    broker.restart()?;
    cluster.name_server_process().restart()?;
    cluster.wait_ready(MINUTE)
}

#[test]
fn both_producers_tell_what_was_stored() -> Result<(), LaunchError> {
    let cluster = Cluster::builder().start()?;
    cluster.create_topic("filled", &[(0, 8)])?;
    cluster.create_topic("sent", &[(0, 2)])?;

    let mut producer = Producer::new(cluster.name_server(), "filled")?.body_size(128);
    let runs = producer.fill(50_000)?;
    assert_eq!(runs.iter().map(|run| run.count).sum::<u64>(), 50_000);
    let mut consumer = JavaConsumer::builder(cluster.name_server(), "count")
        .subscribe("filled", "*")
        .from_first()
        .expect(50_000)
        .start()?;
    let seen = consumer.take(50_000, MINUTE)?;
    for run in &runs {
        let first = seen
            .iter()
            .find(|one| (one.queue_id, one.queue_offset) == (run.queue_id, run.first_offset));
        let first = first.expect("the first message of each run was seen");
        assert!(first.body.starts_with(&format!("{}:", run.first_number)) && first.body.len() == 128);
    }
    assert_eq!(consumer.wait(MINUTE)?.count, 50_000);

    let unknown = Producer::new(cluster.name_server(), "never-created");
    assert!(matches!(unknown, Err(AdminError::NoQueue { .. })), "{unknown:?}");

    let java = JavaProducer::builder(cluster.name_server(), "sent")
        .count(50)
        .rate(100)
        .size(64)
        .start()?;
    let summary = java.wait(MINUTE)?;
    assert_eq!(
        (summary.acknowledged, summary.failed, summary.bodies.len()),
        (50, 0, 50)
    );
    assert!(summary.seconds > 0.4, "{}", summary.seconds);
    assert!(summary.bodies[7].starts_with("7:") && summary.bodies[7].len() == 64);

    let java = JavaProducer::builder(cluster.name_server(), "sent")
        .count(1_000_000)
        .rate(50)
        .start()?;
    while java.acknowledged()?.len() < 10 {
        thread::sleep(Duration::from_millis(20));
    }
    let summary = java.stop()?;
    assert!((10..1_000_000).contains(&summary.acknowledged), "{summary:?}");
    Ok(())
}

/// A suspended broker is the hard case: it cannot notice anything until the kernel wakes its orphaned group.
#[test]
fn nothing_outlives_a_killed_test() -> Result<(), LaunchError> {
    if std::env::var_os(VICTIM).is_some() {
        return hold_a_cluster_until_killed();
    }
    // Nobody will be left to remove its folders.
    let temporary = std::env::temp_dir().join(format!("rocketmq-victim-{}", std::process::id()));
    std::fs::create_dir_all(&temporary).expect("a temporary folder can be made");
    let mut victim = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", "nothing_outlives_a_killed_test", "--nocapture"])
        .env(VICTIM, "1")
        .env("TMPDIR", &temporary)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this very program can be run");
    let stdout = victim.stdout.take().expect("it was asked to be a pipe");
    let line = BufReader::new(stdout)
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("pids:").map(|(_, rest)| rest.to_owned()));
    let line = line.expect("the victim says what it started");
    let pids: Vec<u32> = line
        .split_whitespace()
        .map(|pid| pid.parse().expect("a number"))
        .collect();
    assert!(
        pids.len() == 3 && pids.iter().all(|pid| is_alive(*pid)),
        "{pids:?}"
    );

    victim.kill().expect("it runs");
    victim.wait().expect("it was killed");
    let gone = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(100));
        !pids.iter().any(|pid| is_alive(*pid))
    });
    assert!(
        gone,
        "still there: {:?}",
        pids.iter().filter(|pid| is_alive(**pid)).collect::<Vec<_>>()
    );
    std::fs::remove_dir_all(temporary).expect("its folders can be removed");
    Ok(())
}

fn hold_a_cluster_until_killed() -> Result<(), LaunchError> {
    let cluster = Cluster::builder().start()?;
    let consumer = JavaConsumer::builder(cluster.name_server(), "held")
        .subscribe("held", "*")
        .start()?;
    cluster.broker(0).suspend()?;
    let pid = |pid: Option<u32>| pid.expect("it runs");
    println!(
        "pids:{} {} {}",
        pid(cluster.name_server_process().pid()),
        pid(cluster.broker(0).pid()),
        consumer.pid(),
    );
    thread::sleep(MINUTE);
    panic!("nobody killed this process");
}

/// Whether a process runs; one that has ended and is not yet waited for does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .trim_start()
            .starts_with('Z')
    })
}
