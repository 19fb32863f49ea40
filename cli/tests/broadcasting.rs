//! `consume --model broadcasting` and its files, without Java.
#![cfg(unix)]

#[path = "support/broadcasting.rs"]
mod broadcasting;
mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use broadcasting::Broadcast;
use support::{rocketcat, side_by_side};

/// A broker of our own, at ports that were free. Dropped, it is killed.
struct Broker(Child);

impl Broker {
    fn start(topics: &[&str]) -> (Self, String) {
        let topics: Vec<String> = topics.iter().map(|topic| format!("--topic={topic}:3")).collect();
        let mut args = vec![
            "broker",
            "--listen=127.0.0.1:0",
            "--name-server-listen=127.0.0.1:0",
        ];
        args.extend(topics.iter().map(String::as_str));
        let mut child = rocketcat(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let stdout = child.stdout.as_mut().expect("it was asked for");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("UTF-8");
        let name_server = line
            .trim_end()
            .strip_prefix("NAMESRV_ADDR=")
            .expect("its address");
        let name_server = name_server.to_owned();
        (Self(child), name_server)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn members_that_broadcast_keep_their_offsets_in_files() {
    let (_broker, name_server) = Broker::start(&["All", "Damaged", "Refused", "Second"]);
    let bench = Broadcast::new(&name_server);
    let steps: [fn(&Broadcast); 4] = [
        |bench| bench.every_member_gets_all_and_over_a_restart_nothing_twice("All"),
        |bench| bench.a_damaged_file_is_survived_from_its_backup("Damaged"),
        |bench| bench.damage_without_a_backup_is_refused_by_its_name_or_started_over("Refused"),
        |bench| bench.a_second_process_is_refused_until_the_first_has_ended("Second"),
    ];
    side_by_side(&bench, &steps);
}
