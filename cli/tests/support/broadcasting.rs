//! Members that broadcast, each with files of its own: what has to hold, whoever the broker is.
#![allow(dead_code, reason = "every suite uses a part of it")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::support::{Ran, arg, json, rocketcat, run, run_with};

/// A cluster, and a folder for what members store; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Broadcast {
    name_server: String,
    dir: PathBuf,
}

impl Broadcast {
    pub(crate) fn new(name_server: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("rocketcat-broadcast-{}", std::process::id()));
        Self {
            name_server: name_server.to_owned(),
            dir,
        }
    }

    /// Where everything is stored.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    fn args<'a>(&'a self, topic: &'a str, instance: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let base = [
            "consume",
            topic,
            "-g",
            topic,
            "-n",
            &self.name_server,
            "--from",
            "earliest",
            "--model",
            "broadcasting",
            "--instance",
            instance,
            "--store-dir",
            arg(&self.dir),
            "-o",
            "json",
        ];
        [&base, more].concat()
    }

    /// Consumes to the end that the topic has now.
    pub(crate) fn consume(&self, topic: &str, instance: &str, more: &[&str]) -> Ran {
        run(self.args(topic, instance, &[&["-e"], more].concat()))
    }

    /// A member that stays, once it has got something.
    fn stay(&self, topic: &str, instance: &str) -> Staying {
        let mut child = rocketcat(self.args(topic, instance, &[]))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.as_mut().expect("it was asked for");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("UTF-8");
        assert!(!line.is_empty(), "it has got something");
        Staying(child)
    }

    /// Sends bodies, one a line, to any queue.
    pub(crate) fn produce(&self, topic: &str, bodies: impl IntoIterator<Item = u32>) {
        let lines: String = bodies.into_iter().map(|body| format!("{body}\n")).collect();
        let ran = run_with(["produce", topic, "-n", &self.name_server], lines.as_bytes());
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }

    /// The file of a member, or of what lies beside it.
    fn file(&self, topic: &str, instance: &str, ending: &str) -> PathBuf {
        self.dir
            .join(instance)
            .join(topic)
            .join(format!("offsets.json{ending}"))
    }

    // ---- what has to hold -------------------------------------------------------------------------

    pub(crate) fn every_member_gets_all_and_over_a_restart_nothing_twice(&self, topic: &str) {
        self.produce(topic, 0..40);
        for instance in ["one", "two"] {
            assert_eq!(got(&self.consume(topic, instance, &[])), (0..40).collect());
        }
        self.produce(topic, 40..50);
        for instance in ["one", "two"] {
            assert_eq!(got(&self.consume(topic, instance, &[])), (40..50).collect());
            assert_eq!(got(&self.consume(topic, instance, &[])), [].into());
        }
    }

    pub(crate) fn a_damaged_file_is_survived_from_its_backup(&self, topic: &str) {
        self.produce(topic, 0..20);
        assert_eq!(got(&self.consume(topic, "one", &[])).len(), 20);
        self.produce(topic, 20..30);
        assert_eq!(got(&self.consume(topic, "one", &[])).len(), 10);
        let main = self.file(topic, "one", "");
        fs::write(&main, [0; 4096]).expect("it can be written");
        self.produce(topic, 30..35);
        let ran = self.consume(topic, "one", &[]);
        let again = got(&ran);
        assert!(
            again.is_superset(&(30..35).collect()),
            "nothing is lost: {again:?}"
        );
        assert!(
            again.is_subset(&(20..35).collect()),
            "the backup is used: {again:?}"
        );
        assert!(ran.stderr.contains("their backup is used"), "{}", ran.stderr);
        assert!(ran.stderr.contains(arg(&main)), "{}", ran.stderr);
        let aside = fs::read(self.file(topic, "one", ".damaged")).expect("it is kept aside");
        assert_eq!(aside, [0; 4096]);
        assert_eq!(got(&self.consume(topic, "one", &[])), [].into());
    }

    pub(crate) fn damage_without_a_backup_is_refused_by_its_name_or_started_over(&self, topic: &str) {
        self.produce(topic, 0..20);
        assert_eq!(got(&self.consume(topic, "one", &[])).len(), 20);
        let main = self.file(topic, "one", "");
        for file in [&main, &self.file(topic, "one", ".bak")] {
            fs::write(file, "{\"offsetTable\":{").expect("it can be written");
        }
        let refused = self.consume(topic, "one", &[]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
        assert!(refused.stderr.contains(arg(&main)), "{}", refused.stderr);
        let over = self.consume(topic, "one", &["--damaged-store", "start-over"]);
        assert_eq!(got(&over), (0..20).collect());
        assert_eq!(got(&self.consume(topic, "one", &[])), [].into());
    }

    pub(crate) fn a_second_process_is_refused_until_the_first_has_ended(&self, topic: &str) {
        self.produce(topic, 0..20);
        let first = self.stay(topic, "one");
        let second = self.consume(topic, "one", &[]);
        assert_eq!((second.code, second.stdout.as_str()), (Some(1), ""));
        let said = format!("another process uses {}", arg(&self.file(topic, "one", "")));
        assert!(second.stderr.contains(&said), "{}", second.stderr);
        assert_eq!(got(&self.consume(topic, "two", &[])).len(), 20, "another name");
        // Killed, without a word.
        drop(first);
        let third = self.consume(topic, "one", &[]);
        assert_eq!(third.code, Some(0), "{}", third.stderr);
    }
}

impl Drop for Broadcast {
    fn drop(&mut self) {
        // Nothing may have been stored.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The bodies that a run has printed, each once.
pub(crate) fn got(ran: &Ran) -> BTreeSet<u32> {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let mut bodies = BTreeSet::new();
    for line in ran.stdout.lines() {
        let body = json(line)["body"].as_str().and_then(|body| body.parse().ok());
        assert!(bodies.insert(body.expect("a number")), "twice: {line}");
    }
    bodies
}

/// Dropped, it is killed.
struct Staying(Child);

impl Drop for Staying {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
