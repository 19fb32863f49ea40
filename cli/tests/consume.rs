//! `consume` without a cluster: what it says when nobody answers, and how it ends.
#![cfg(unix)]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{Ran, rocketcat, run};

/// A port nobody listens at: it was free a moment ago, and the system does not give it out again at
/// once.
fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound")
}

/// A name server that does not know any topic.
fn empty_name_server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || refuse_everything(stream));
        }
    });
    addr
}

fn refuse_everything(mut stream: TcpStream) -> Option<()> {
    loop {
        let mut words = [0; 8];
        stream.read_exact(&mut words).ok()?;
        let size = usize::try_from(u32::from_be_bytes(*words.first_chunk()?)).ok()?;
        let mut frame = vec![0; size - 4];
        stream.read_exact(&mut frame).ok()?;
        let header_len = usize::from(u16::from_be_bytes([words[6], words[7]]));
        let question: Value = serde_json::from_slice(frame.get(..header_len)?).ok()?;
        let answer = json!({
            "code": 17, "flag": 1, "language": "JAVA", "opaque": question["opaque"], "version": 513,
            "serializeTypeCurrentRPC": "JSON", "remark": "No topic route info in name server",
        });
        let answer = answer.to_string();
        let header_len = u32::try_from(answer.len()).ok()?;
        let words = [(header_len + 4).to_be_bytes(), header_len.to_be_bytes()].concat();
        stream.write_all(&[&words, answer.as_bytes()].concat()).ok()?;
    }
}

/// A consumer that waits for a name server for ever, once it has said so.
fn waiting(server: &str) -> Child {
    let args = [
        "consume",
        "T",
        "-g",
        "G",
        "-n",
        server,
        "--connect-timeout",
        "0",
        "-o",
        "json",
    ];
    let mut child = rocketcat(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    let stderr = child.stderr.as_mut().expect("it was asked for");
    // Unbuffered, so that nothing behind the line is lost.
    while !line.ends_with('\n') {
        let mut byte = [0];
        stderr.read_exact(&mut byte).expect("it says something");
        line.push(char::from(byte[0]));
    }
    assert!(line.contains(server), "{line}");
    child
}

fn kill(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process number");
    kill_process(pid, signal).expect("the process lives");
}

#[test]
fn a_dead_name_server_is_named_and_ends_with_4() {
    let server = closed_port().to_string();
    let args = [
        "consume",
        "T",
        "-g",
        "G",
        "-n",
        &server,
        "--connect-timeout",
        "0.5",
        "--idle-exit",
        "0.1",
        "-o",
        "none",
    ];
    let ran = run(args);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""), "{}", ran.stderr);
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(
        lines[0],
        format!("rocketcat: error: name server {server} is unreachable: connection refused")
    );
    assert!(
        lines[1].contains("no name server answered in time") && lines[1].contains(&server),
        "{}",
        lines[1]
    );
    let summary = ran.last_error_line();
    let summary = summary["summary"].as_object().expect("an object");
    let keys: Vec<_> = summary.keys().map(String::as_str).collect();
    let want = [
        "consumed",
        "distinct",
        "failed",
        "first_message_ms",
        "last_message_ms",
        "queues",
        "redelivered",
        "seconds",
    ];
    assert_eq!(keys, want);
    assert_eq!(lines.len(), 3, "one line for each trouble: {}", ran.stderr);
}

#[test]
fn quiet_leaves_the_errors() {
    let server = closed_port().to_string();
    let ran = run([
        "consume",
        "T",
        "-g",
        "G",
        "-n",
        &server,
        "--connect-timeout",
        "0.3",
        "-q",
    ]);
    assert_eq!(ran.code, Some(4));
    assert!(ran.stderr.contains("is unreachable"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("summary"), "text has none: {}", ran.stderr);
}

#[test]
fn an_unknown_topic_names_the_servers_and_their_answers() {
    let server = empty_name_server().to_string();
    let ran = run([
        "consume",
        "nosuch",
        "-g",
        "G",
        "-n",
        &server,
        "--connect-timeout",
        "0.5",
        "-o",
        "json",
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert!(
        lines[0].contains("topic nosuch is unknown") && lines[0].contains(&server),
        "{}",
        lines[0]
    );
    assert!(
        lines[1].contains("topic nosuch is still unknown") && lines[1].contains(&server),
        "{}",
        lines[1]
    );
    assert_eq!(ran.last_error_line()["summary"]["consumed"], 0);
}

#[test]
fn events_are_json_lines_on_standard_error() {
    let server = closed_port().to_string();
    let ran = run([
        "consume",
        "T",
        "-g",
        "G",
        "-n",
        &server,
        "--connect-timeout",
        "0.3",
        "-q",
        "--events",
    ]);
    let event = ran
        .stderr
        .lines()
        .find(|line| line.starts_with('{'))
        .expect("an event");
    let event = support::json(event);
    assert_eq!(
        (&event["event"], &event["kind"]),
        (&json!("notice"), &json!("name_server_unreachable"))
    );
    assert_eq!(event["addr"], server);
    assert!(event["at"].as_i64() > Some(1_600_000_000_000), "{event}");
}

#[test]
fn a_signal_ends_the_wait_with_a_summary() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 0)] {
        let child = waiting(&closed_port().to_string());
        kill(&child, signal);
        let ran = Ran::new(child.wait_with_output().expect("it ends"));
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(code), ""),
            "{}",
            ran.stderr
        );
        assert_eq!(ran.last_error_line()["summary"]["queues"], json!([]));
    }
}

#[test]
fn a_file_sets_what_no_flag_sets() {
    let server = closed_port().to_string();
    let file = std::env::temp_dir().join(format!("rocketcat-consume-{}.toml", std::process::id()));
    let text = format!(
        "name-server = \"{server}\"\nconnect-timeout = 0.3\nlog-format = \"json\"\n[consume]\ngroup = \"G\"\noutput = \"none\"\n"
    );
    std::fs::write(&file, text).expect("a writable directory");
    let ran = run(["consume", "T", "--config", support::arg(&file)]);
    let lines: Vec<Value> = ran.stderr.lines().map(support::json).collect();
    let _ = std::fs::remove_file(&file);
    assert_eq!(lines[0]["level"], "error");
    assert!(lines[0]["message"].as_str().expect("text").contains(&server));
    assert!(lines.last().expect("a summary").get("summary").is_some());
}
