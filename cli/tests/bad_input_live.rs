//! What `consume` says and how it ends when it is given the wrong thing: a topic nobody knows, a server that is none.
#![cfg(unix)]

#[path = "support/outage_tools.rs"]
mod outage_tools;
mod support;

use std::collections::BTreeSet;
use std::io::{self, Read, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use outage_tools::{Running, now, wait_for};
use rocketmq_consumer_testing::rocketmq::{Cluster, Producer};
use serde_json::{Value, json};
use support::{Ran, run, side_by_side};

/// For what has no limit of its own, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Exit codes.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const CANNOT_CONNECT: i32 = 4;

/// Steps have topics and groups of their own, so they share a cluster.
#[test]
fn bad_input_is_answered_with_one_clear_message() {
    let cluster = Cluster::builder().brokers(1).start().expect("a cluster starts");
    cluster
        .create_topic("Good", &[(0, 2)])
        .expect("a topic can be created");
    Producer::new(cluster.name_server(), "Good")
        .expect("the topic has a route")
        .body_size(200)
        .send_many(1_000)
        .expect("messages are stored");
    let bench = Bench { cluster };
    let steps: [fn(&Bench); 8] = [
        Bench::a_topic_nobody_knows_is_waited_for_and_then_given_up,
        Bench::a_topic_that_is_created_meanwhile_starts,
        Bench::one_name_server_of_two_is_enough_to_know_that_nobody_knows,
        Bench::what_makes_no_sense_is_refused_at_once,
        Bench::strangers_in_place_of_a_name_server,
        Bench::strangers_in_place_of_a_broker,
        Bench::a_link_that_turns_to_garbage_costs_nothing,
        Bench::a_record_that_cannot_be_read_is_a_dead_letter,
    ];
    side_by_side(&bench, &steps);
}

struct Bench {
    cluster: Cluster,
}

/// `consume` of a topic from the beginning, by a group of its own.
fn consume<'a>(topic: &'a str, group: &'a str, name_server: &'a str, more: &[&'a str]) -> Vec<&'a str> {
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
    [&base, more].concat()
}

/// It ended with this code, printed no record and did not panic; gives what it said.
fn refused(what: &str, ran: &Ran, code: i32) -> Vec<String> {
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(code), ""),
        "{what}: {}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("panicked"), "{what}: {}", ran.stderr);
    ran.stderr.lines().map(str::to_owned).collect()
}

impl Bench {
    fn a_topic_nobody_knows_is_waited_for_and_then_given_up(&self) {
        let server = self.cluster.name_server();
        let begun = now();
        let ran = run(consume("Nowhere", "Nowhere", server, &["--connect-timeout", "2"]));
        let waited = begun.elapsed();
        let said = refused("unknown topic", &ran, FAILED);
        println!("unknown topic: gave up after {waited:?}: {said:#?}");
        assert!(
            waited >= Duration::from_secs(2) && waited < Duration::from_secs(6),
            "{waited:?}"
        );
        assert_eq!(said.len(), 2, "one line at once, one at the end: {said:?}");
        assert!(
            said.iter()
                .all(|line| line.contains("Nowhere") && line.contains(server)),
            "{said:?}"
        );
    }

    fn a_topic_that_is_created_meanwhile_starts(&self) {
        let server = self.cluster.name_server();
        let running = Running::start(&consume("Late", "Late", server, &["-c", "5", "-o", "%v\\n"]));
        wait_for("word of the unknown topic", LIMIT, || {
            running
                .stderr()
                .iter()
                .any(|(_, line)| line.contains("topic Late is unknown"))
                .then_some(())
        });
        self.cluster
            .create_topic("Late", &[(0, 2)])
            .expect("a topic can be created");
        let created_at = now();
        let mut producer = Producer::new(server, "Late").expect("the topic has a route");
        producer.send_many(5).expect("messages are stored");
        let first = wait_for("the first record", LIMIT, || running.stdout().first().cloned());
        let ran = running.wait(LIMIT);
        println!("created meanwhile: first record {:?} later", first.0 - created_at);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert_eq!(ran.stdout.lines().count(), 5);
        assert!(
            first.0 - created_at <= Duration::from_secs(3),
            "{:?}",
            first.0 - created_at
        );
    }

    fn one_name_server_of_two_is_enough_to_know_that_nobody_knows(&self) {
        let dead = closed_port();
        let servers = format!("{dead};{}", self.cluster.name_server());
        let ran = run(consume(
            "Nowhere",
            "Half",
            &servers,
            &["--connect-timeout", "2.5"],
        ));
        let said = refused("one of two", &ran, FAILED);
        println!("one of two name servers: {said:#?}");
        for what in [
            &format!("name server {dead} is unreachable"),
            "topic Nowhere is unknown",
            "topic Nowhere is still unknown",
        ] {
            let times = said.iter().filter(|line| line.contains(what)).count();
            assert_eq!(times, 1, "{what}: {said:#?}");
        }
        // The other way round: a topic that exists needs only one of them.
        let ran = run(consume("Good", "Half", &servers, &["-e", "-o", "%o\\n"]));
        assert_eq!(
            (ran.code, ran.stdout.lines().count()),
            (Some(0), 1_000),
            "{}",
            ran.stderr
        );
    }

    fn what_makes_no_sense_is_refused_at_once(&self) {
        let server = self.cluster.name_server();
        let url = format!("http://{server}");
        let long = "x".repeat(128);
        let table: [(&[&str], &str); 9] = [
            (&["consume", "a b", "-g", "G", "-n", server], "contains ' '"),
            (&["consume", "T", "-g", "a/b", "-n", server], "contains '/'"),
            (&["consume", &long, "-g", "G", "-n", server], "at most 127"),
            (&["consume", "T", "-g", "G", "-n", &url], "without a scheme"),
            (
                &["consume", "T", "-g", "G", "-n", "127.0.0.1:99999"],
                "1 to 65535",
            ),
            (&["consume", "T", "-g", "G", "-n", "127.0.0.1"], "host:port"),
            (&["consume", "-g", "G", "-n", server], "TOPIC"),
            (
                &["consume", "T", "-g", "G", "-n", server, "--nonsense"],
                "--nonsense",
            ),
            (
                &["consume", "T", "-g", "G", "-n", server, "--max-reconsume", "many"],
                "--max-reconsume",
            ),
        ];
        for (args, advice) in table {
            let begun = now();
            let ran = run(args.iter().copied());
            let said = refused(&format!("{args:?}"), &ran, USAGE).join("\n");
            assert!(said.contains(advice), "{args:?}: {said}");
            assert!(
                begun.elapsed() < Duration::from_secs(5),
                "nobody is contacted: {args:?}"
            );
        }
    }

    fn strangers_in_place_of_a_name_server(&self) {
        let broker = self.cluster.broker(0).address().to_owned();
        let real = Stranger {
            name: "a broker",
            acts: Act::Serve(|_, _| Some(Vec::new())),
            code: FAILED,
            says: "this is not a name server",
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                let ran = run(consume("Good", "G", &broker, &["--connect-timeout", "2"]));
                real.judge("name server", &broker, &ran);
            });
            for stranger in STRANGERS.iter().chain(LIARS) {
                scope.spawn(move || {
                    let addr = stranger.listen().to_string();
                    let ran = run(consume("Good", "G", &addr, &["--connect-timeout", "4"]));
                    stranger.judge("name server", &addr, &ran);
                });
            }
        });
    }

    fn strangers_in_place_of_a_broker(&self) {
        let (server, broker) = (self.cluster.name_server(), self.cluster.broker(0).address());
        thread::scope(|scope| {
            for stranger in STRANGERS {
                scope.spawn(move || {
                    let map = format!("{broker}={}", stranger.listen());
                    let more = ["--address-map", &map, "--connect-timeout", "4"];
                    let ran = run(consume("Good", "G", server, &more));
                    stranger.judge("broker", broker, &ran);
                });
            }
        });
    }

    /// In place of an answer comes garbage, on the next connection half an answer, and then all is well.
    fn a_link_that_turns_to_garbage_costs_nothing(&self) {
        let ran = self.consume_through(
            "Garbage",
            vec![
                Spoil {
                    after: 40_000,
                    with: |_| vec![0xff; 64],
                },
                Spoil {
                    after: 20_000,
                    with: |frame| frame[..frame.len() / 2].to_vec(),
                },
            ],
        );
        let lines = ran.lines();
        let bodies: BTreeSet<_> = lines.iter().filter_map(|line| line["body"].as_str()).collect();
        let told = |word: &str| ran.stderr.lines().filter(|line| line.contains(word)).count();
        println!(
            "garbage: {} records, {} different; told of {} misbehaviours and {} new links",
            lines.len(),
            bodies.len(),
            told("peer_misbehaved"),
            told("link_up")
        );
        assert_eq!((ran.code, bodies.len()), (Some(0), 1_000), "{}", ran.stderr);
        assert_eq!(
            (told("peer_misbehaved"), told("link_up")),
            (1, 2),
            "{}",
            ran.stderr
        );
    }

    /// One record of an answer cannot be taken apart: its neighbours come, and the broker buries it.
    fn a_record_that_cannot_be_read_is_a_dead_letter(&self) {
        let ran = self.consume_through(
            "Damaged",
            vec![Spoil {
                after: 40_000,
                with: |frame| {
                    let mut frame = frame.to_vec();
                    // The topic's length and the topic of a stored message.
                    if let Some(at) = frame.windows(5).position(|bytes| bytes == b"\x04Good") {
                        frame[at] = 0xf0;
                    }
                    frame
                },
            }],
        );
        let lines = ran.lines();
        let bodies: BTreeSet<_> = lines.iter().filter_map(|line| line["body"].as_str()).collect();
        assert_eq!((ran.code, bodies.len()), (Some(0), 999), "{}", ran.stderr);
        let grave = run(consume(
            "%DLQ%Damaged",
            "Undertaker",
            self.cluster.name_server(),
            &["-e", "-o", "json"],
        ));
        let buried = grave.lines();
        let buried: Vec<_> = buried.iter().filter_map(|line| line["body"].as_str()).collect();
        println!("damaged: {} records, {} dead letter", lines.len(), buried.len());
        assert_eq!(buried.len(), 1, "{}", grave.stderr);
        assert!(!bodies.contains(buried[0]), "the one that did not come");
    }

    /// Everything in `Good`, through a proxy that spoils one answer of each of the first connections.
    fn consume_through(&self, group: &str, spoils: Vec<Spoil>) -> Ran {
        let broker = self.cluster.broker(0).address();
        let (to, mut spoils) = (broker.to_owned(), spoils.into_iter());
        let proxy = listen(move |client| {
            let (to, spoil) = (to.clone(), spoils.next());
            thread::spawn(move || forward(&client, &to, spoil));
        });
        let map = format!("{broker}={proxy}");
        let more = ["--address-map", &map, "-e", "-o", "json", "--events"];
        let running = Running::start(&consume("Good", group, self.cluster.name_server(), &more));
        let ran = running.wait(LIMIT);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran
    }
}

/// What a proxy does to the first answer after so many bytes.
struct Spoil {
    after: usize,
    /// What goes on in place of this frame; a shorter one is the last.
    with: fn(&[u8]) -> Vec<u8>,
}

/// Somebody who listens where a server of RocketMQ should.
struct Stranger {
    name: &'static str,
    acts: Act,
    /// The exit code it leads to.
    code: i32,
    /// What the user must be told.
    says: &'static str,
}

/// What a stranger does with a connection.
#[derive(Clone, Copy)]
enum Act {
    /// Waits for a question, says this and keeps the connection.
    Say(&'static [u8]),
    /// Waits for a question, says this and closes.
    SayAndClose(&'static [u8]),
    /// Closes at once.
    Close,
    /// Answers each question, whose `opaque` it is given with the code, with a whole frame.
    Serve(fn(&Value, i64) -> Option<Vec<u8>>),
}

/// Those who can stand for any server.
const STRANGERS: &[Stranger] = &[
    Stranger {
        name: "http",
        acts: Act::SayAndClose(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"),
        code: CANNOT_CONNECT,
        says: "HTTP",
    },
    Stranger {
        name: "tls",
        acts: Act::SayAndClose(&[0x15, 3, 3, 0, 2, 2, 0x46]),
        code: CANNOT_CONNECT,
        says: "TLS",
    },
    Stranger {
        name: "a banner",
        acts: Act::SayAndClose(b"SSH-2.0-OpenSSH_9.2\r\n"),
        code: CANNOT_CONNECT,
        says: "text",
    },
    Stranger {
        name: "a negative length",
        acts: Act::Say(&[0xff; 64]),
        code: CANNOT_CONNECT,
        says: "frame length -1",
    },
    Stranger {
        name: "no length",
        acts: Act::Say(&[0; 64]),
        code: CANNOT_CONNECT,
        says: "frame length 0",
    },
    Stranger {
        name: "the largest number",
        acts: Act::Say(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]),
        code: CANNOT_CONNECT,
        says: "frame length 2147483647",
    },
    Stranger {
        name: "the largest frame, of which little comes",
        acts: Act::Say(&[0x00, 0xff, 0xff, 0xfc, 0, 0, 0, 1, b'{']),
        code: CANNOT_CONNECT,
        says: "answer",
    },
    Stranger {
        name: "half a frame",
        acts: Act::SayAndClose(&[0, 0, 0, 100, 0, 0, 0, 50, b'{', b'"']),
        code: CANNOT_CONNECT,
        says: "closed the connection",
    },
    Stranger {
        name: "a header longer than its frame",
        acts: Act::Say(&[0, 0, 0, 8, 0, 0xff, 0xff, 0xff, 1, 2, 3, 4]),
        code: CANNOT_CONNECT,
        says: "header length 16777215",
    },
    Stranger {
        name: "a header of an unknown form",
        acts: Act::Say(&[0, 0, 0, 8, 7, 0, 0, 2, b'{', b'}', 0, 0]),
        code: CANNOT_CONNECT,
        says: "unknown header form 7",
    },
    Stranger {
        name: "a header that is no JSON",
        acts: Act::Say(&[0, 0, 0, 8, 0, 0, 0, 4, b'{', b'"', b'c', b':']),
        code: CANNOT_CONNECT,
        says: "does not speak the protocol",
    },
    Stranger {
        name: "silence",
        acts: Act::Say(&[]),
        code: CANNOT_CONNECT,
        says: "answer",
    },
    Stranger {
        name: "a closed door",
        acts: Act::Close,
        code: CANNOT_CONNECT,
        // Closed or reset: that is a matter of who was quicker.
        says: "the connection",
    },
    Stranger {
        name: "answers to other questions",
        acts: Act::Serve(|_, opaque| Some(frame(opaque + 1_000, 0, "", b"{}"))),
        code: CANNOT_CONNECT,
        says: "answer",
    },
];

/// Those who speak like a name server, and lie.
const LIARS: &[Stranger] = &[
    Stranger {
        name: "a route that is no JSON",
        acts: Act::Serve(|_, opaque| Some(frame(opaque, 0, "", b"<html>"))),
        code: FAILED,
        says: "body is not JSON",
    },
    Stranger {
        name: "a route with two billion queues",
        acts: Act::Serve(|_, opaque| {
            let route = r#"{"queueDatas":[{"brokerName":"b","readQueueNums":2147483647,"writeQueueNums":1,"perm":6}],"brokerDatas":[]}"#;
            Some(frame(opaque, 0, "", route.as_bytes()))
        }),
        code: FAILED,
        says: "does not have the expected members",
    },
    Stranger {
        name: "a route to a broker without an address",
        acts: Act::Serve(|_, opaque| {
            let route = r#"{"queueDatas":[{"brokerName":"b","readQueueNums":1,"writeQueueNums":1,"perm":6}],"brokerDatas":[{"brokerName":"b","brokerAddrs":{"0":"nowhere"}}]}"#;
            Some(frame(opaque, 0, "", route.as_bytes()))
        }),
        code: CANNOT_CONNECT,
        says: "names no address of them",
    },
    Stranger {
        name: "a name server that fails",
        acts: Act::Serve(|_, opaque| Some(frame(opaque, 1, "out of memory", b""))),
        code: FAILED,
        says: "out of memory",
    },
];

impl Stranger {
    /// Its address, for as long as the test runs.
    fn listen(&self) -> SocketAddr {
        let acts = self.acts;
        listen(move |stream| {
            thread::spawn(move || act(stream, acts));
        })
    }

    /// Whether the user was told what is wrong and with whom, once, and the exit code is right.
    fn judge(&self, role: &str, addr: &str, ran: &Ran) {
        let Self { name, code, says, .. } = self;
        let said = refused(&format!("{name} as {role}"), ran, *code);
        println!("{name} as {role}: {said:#?}");
        let about: Vec<_> = said.iter().filter(|line| line.contains(addr)).collect();
        assert!(
            !about.is_empty(),
            "{name} as {role}: names the address: {said:#?}"
        );
        assert!(
            said.iter().any(|line| line.contains(says)),
            "{name} as {role}: {said:#?}"
        );
        assert!(
            said.len() <= 4,
            "{name} as {role}: nothing is said twice: {said:#?}"
        );
    }
}

/// Listens until the test ends.
fn listen(mut on_connection: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let addr = listener.local_addr().expect("it is bound");
    thread::spawn(move || listener.incoming().flatten().for_each(&mut on_connection));
    addr
}

/// A port nobody listens at.
fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("it is bound")
}

fn act(mut stream: TcpStream, acts: Act) -> io::Result<()> {
    match acts {
        Act::Close => return Ok(()),
        Act::Say(words) | Act::SayAndClose(words) => {
            question(&mut stream)?;
            stream.write_all(words)?;
            if let Act::SayAndClose(_) = acts {
                // Closed with unread questions, the system would reset it and what was said be lost.
                stream.shutdown(Shutdown::Write)?;
            }
            io::copy(&mut stream, &mut io::sink())?;
        }
        Act::Serve(answer) => loop {
            let question = question(&mut stream)?;
            let opaque = question["opaque"].as_i64().unwrap_or_default();
            match answer(&question, opaque) {
                Some(answer) => stream.write_all(&answer)?,
                None => return Ok(()),
            }
        },
    }
    Ok(())
}

/// The header of the next question.
fn question(stream: &mut TcpStream) -> io::Result<Value> {
    let mut words = [0; 8];
    stream.read_exact(&mut words)?;
    let word = |at: usize| u32::from_be_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
    let mut rest = vec![0; usize::try_from(word(0)).expect("small") - 4];
    stream.read_exact(&mut rest)?;
    let header_len = usize::try_from(word(4) & 0x00ff_ffff).expect("small");
    let header = rest.get(..header_len).unwrap_or_default();
    Ok(serde_json::from_slice(header).unwrap_or_default())
}

/// A whole answer.
fn frame(opaque: i64, code: i32, remark: &str, body: &[u8]) -> Vec<u8> {
    let header = json!({
        "code": code, "flag": 1, "language": "JAVA", "opaque": opaque, "version": 513,
        "serializeTypeCurrentRPC": "JSON", "remark": remark,
    });
    let header = header.to_string();
    let word = |len: usize| u32::try_from(len).expect("small").to_be_bytes();
    let mut out = word(4 + header.len() + body.len()).to_vec();
    out.extend(word(header.len()));
    out.extend(header.as_bytes());
    out.extend(body);
    out
}

/// Carries bytes both ways, and spoils one answer.
fn forward(client: &TcpStream, server: &str, mut spoil: Option<Spoil>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Both)
    });
    let (mut from_server, mut to_client) = (server, client.try_clone()?);
    let mut forwarded = 0;
    loop {
        let mut frame = vec![0; 4];
        from_server.read_exact(&mut frame)?;
        let len =
            usize::try_from(u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]])).expect("small");
        frame.resize(4 + len, 0);
        from_server.read_exact(&mut frame[4..])?;
        // Only an answer with messages is worth it.
        let is_due = |spoil: &mut Spoil| forwarded >= spoil.after && frame.len() > 2_000;
        let Some(spoil) = spoil.take_if(is_due) else {
            to_client.write_all(&frame)?;
            forwarded += frame.len();
            continue;
        };
        let spoilt = (spoil.with)(&frame);
        to_client.write_all(&spoilt)?;
        if spoilt.len() < frame.len() {
            to_client.shutdown(Shutdown::Both)?;
            return from_server.shutdown(Shutdown::Both);
        }
    }
}
