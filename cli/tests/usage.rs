//! The command line itself: what is refused, what is shown, what is not.

mod support;

use std::fs;

use support::{Ran, rocketcat, run};

/// Refused, with advice and nothing on standard output.
fn refused(args: &[&str]) -> String {
    let ran = run(args.iter().copied());
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(2), ""),
        "{args:?}: {}",
        ran.stderr
    );
    ran.stderr
}

#[test]
fn nothing_to_do_shows_help_and_is_a_usage_error() {
    assert!(refused(&[]).contains("Usage: rocketcat"));
}

#[test]
fn verbs_and_flags_that_do_not_work_yet_are_not_there() {
    for verb in ["record", "replay", "top"] {
        assert!(refused(&[verb]).contains("unrecognized subcommand"), "{verb}");
    }
    for flag in ["--tls", "--access-key=a", "--secret-key-file=a"] {
        let error = refused(&["consume", "T", "-g", "G", "-n", "127.0.0.1:1", flag]);
        assert!(error.contains("unexpected argument"), "{flag}: {error}");
    }
    let help = run(["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for word in ["replay", "tls", "secret"] {
        assert!(!help.stdout.contains(word), "{word}");
    }
}

#[test]
fn wrong_values_say_what_would_be_right() {
    let base = ["consume", "T", "-g", "G", "-n", "127.0.0.1:1"];
    let table: [(&[&str], &str); 13] = [
        (&["--from", "soon"], "use earliest, latest"),
        (&["-c", "0"], "--count"),
        (&["-c", "many"], "--count"),
        (&["--idle-exit", "-1"], "--idle-exit"),
        (
            &["--concurrency", "0"],
            "--concurrency: 0 is out of range, use 1 to 1000",
        ),
        (
            &["--batch", "1025"],
            "--batch: 1025 is out of range, use 1 to 1024",
        ),
        (&["--strategy", "moon"], "known are: avg, circle, hash:N"),
        (&["--strategy", "hash:0"], "1 to 1000 virtual nodes"),
        (&["--strategy", "room"], "room needs rooms"),
        (&["-o", "jsno"], "use text, json, none"),
        (&["-o", "%z"], "%z means nothing"),
        (&["--address-map", "a:1"], "FROM=TO"),
        (&["-q", "-v"], "cannot be used with"),
    ];
    for (flags, advice) in table {
        let error = refused(&[&base, flags].concat());
        assert!(error.contains(advice), "{flags:?}: {error}");
    }
}

#[test]
fn what_cannot_be_produced_is_refused_before_anything_is_contacted() {
    let base = ["produce", "T", "-n", "127.0.0.1:1"];
    let table: [(&[&str], &str); 12] = [
        (&["--size", "5"], "--count"),
        (&["--count", "1", "--file", "x"], "cannot be used with"),
        (&["--count", "-1"], "--count"),
        (&["--count", "1", "--size", "16777217"], "up to 16777216"),
        (&["--by-key"], "--key"),
        (&["--by-key", "--key", "a", "--queue", "1"], "cannot be used with"),
        (&["--key", "%x"], "%x means nothing in a key"),
        (&["--queue", "-1"], "--queue"),
        (&["--property", "x"], "NAME=VALUE"),
        (&["--property", "KEYS=x"], "--property KEYS: use --key"),
        (&["--rate", "0"], "a number of messages above 0"),
        (&["--delay-level", "0"], "--delay-level"),
    ];
    for (flags, advice) in table {
        let error = refused(&[&base, flags].concat());
        assert!(error.contains(advice), "{flags:?}: {error}");
    }
    assert!(refused(&["produce", "a b", "-n", "ns:1"]).contains("TOPIC: the topic \"a b\" contains ' '"));
    assert!(refused(&["produce", "T"]).contains("no name server is known"));
    let ran = run(["produce", "T", "-n", "127.0.0.1:1", "--file", "/no/such/file"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("cannot read /no/such/file"), "{}", ran.stderr);
}

#[test]
fn operators_commands_are_refused_with_advice_before_anything_is_contacted() {
    let server = ["-n", "127.0.0.1:1"];
    let reset = ["offset", "reset", "-g", "G", "-t", "T"];
    let table: [(&[&str], &str); 16] = [
        (&["groups", "-g", "a b"], "-g: the group \"a b\" contains ' '"),
        (&["groups", "-g", "G", "--all"], "cannot be used with"),
        (&["topics", "a b"], "TOPIC: the topic \"a b\" contains ' '"),
        (&["topics", "create", "T"], "--queues"),
        (&["topics", "create", "T", "--queues", "0"], "--queues"),
        (
            &["topics", "create", "T", "--queues", "4", "--perm", "x"],
            "use rw, r or w",
        ),
        (
            &["topics", "create", "T", "--queues", "4", "--update"],
            "add --yes to replace settings",
        ),
        (
            &[&reset[..], &["--to", "soon"]].concat(),
            "an offset is a number of up to 12 digits",
        ),
        (&reset, "--to"),
        (
            &[&reset[..], &["--to", "latest"]].concat(),
            "add --yes to reset offsets, or --dry-run",
        ),
        (
            &[&reset[..], &["--to", "1", "--queue", "a"]].concat(),
            "write BROKER:ID",
        ),
        (
            &["dlq", "requeue", "-g", "G"],
            "add --yes to send dead letters again, or --dry-run",
        ),
        (&["dlq", "requeue", "-g", "G", "--from", "3", "--yes"], "--queue"),
        (
            &["dlq", "peek", "-g", "G", "-o", "none"],
            "use text, json or a format",
        ),
        (&["doctor"], "--group"),
        (&["lag", "-g", "G", "--watch", "0"], "give 0.1 seconds or more"),
    ];
    for (args, advice) in table {
        let error = refused(&[args, &server].concat());
        assert!(error.contains(advice), "{args:?}: {error}");
    }
    for args in [
        &["groups"][..],
        &["topics"],
        &["dlq", "ls", "-g", "G"],
        &["doctor", "-g", "G"],
    ] {
        assert!(refused(args).contains("no name server is known"), "{args:?}");
        let ran = run([args, &server, &["--connect-timeout", "0.3"]].concat());
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(4), ""),
            "{args:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_producer_without_a_name_server_says_so() {
    let ran = run([
        "produce",
        "T",
        "-n",
        "127.0.0.1:1",
        "--connect-timeout",
        "0.3",
        "-c",
        "1",
    ]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(4), ""), "{}", ran.stderr);
    let want = "no name server answered in time: 127.0.0.1:1: connection refused; check --name-server";
    assert!(ran.stderr.contains(want), "{}", ran.stderr);
}

#[test]
fn names_are_checked_before_anything_is_contacted() {
    let long = "x".repeat(128);
    let table: [(&[&str], &str); 8] = [
        (&["T", "-n", "ns:1"], "no consumer group is given; add -g GROUP"),
        (
            &["T", "-g", "G"],
            "no name server is known; give -n HOST:PORT or set NAMESRV_ADDR",
        ),
        (&["T", "-g", "G", "-n", "ns"], "an address is written host:port"),
        (&["a b", "-g", "G", "-n", "ns:1"], "contains ' '"),
        (&[&long, "-g", "G", "-n", "ns:1"], "has 128 bytes, at most 127"),
        (
            &["T", "-g", "DEFAULT_CONSUMER", "-n", "ns:1"],
            "choose a name of your own",
        ),
        (&["T:||", "-g", "G", "-n", "ns:1"], "no tag"),
        (
            &["T", "-g", "G", "-n", "ns:1", "--client-id", " "],
            "--client-id: must not be blank",
        ),
    ];
    for (args, advice) in table {
        let error = refused(&[&["consume"], args].concat());
        assert!(error.contains(advice), "{args:?}: {error}");
        assert_eq!(
            error.lines().filter(|line| line.contains("error:")).count(),
            1,
            "{error}"
        );
    }
}

#[test]
fn a_configuration_file_is_checked_too() {
    let file = std::env::temp_dir().join(format!("rocketcat-usage-{}.toml", std::process::id()));
    fs::write(&file, "\nname-servers = \"a:1\"\n").expect("a writable directory");
    let path = support::arg(&file);
    let error = refused(&["consume", "T", "-g", "G", "--config", path]);
    assert!(error.contains("line 2: unknown field `name-servers`"), "{error}");
    // From the file: the group is fine and the name server's port is not.
    fs::write(&file, "name-server = \"a:0\"\n[consume]\ngroup = \"G\"\n").expect("a writable directory");
    let error = refused(&["consume", "T", "--config", path]);
    assert!(
        error.contains("the port must be a number from 1 to 65535"),
        "{error}"
    );
    let _ = fs::remove_file(&file);
    assert!(refused(&["man", "--config", path]).contains("cannot read"));
}

#[test]
fn the_environment_names_a_name_server() {
    let mut command = rocketcat(["consume", "T", "-g", "G"]);
    let ran = Ran::new(
        command
            .env("NAMESRV_ADDR", "nonsense")
            .output()
            .expect("the binary starts"),
    );
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("NAMESRV_ADDR: \"nonsense\""),
        "{}",
        ran.stderr
    );
    let mut command = rocketcat(["decode", "frame"]);
    let ran = command.env("NAMESRV_ADDR", "nonsense").output();
    let ran = Ran::new(ran.expect("the binary starts"));
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(0), ""),
        "it asks no server"
    );
}

#[test]
fn talk_can_be_json() {
    let ran = run(["decode", "frame", "/no/such/file", "--log-format", "json"]);
    let line = ran.last_error_line();
    assert_eq!(line["level"], "error");
    assert!(line["message"].as_str().expect("text").contains("/no/such/file"));
}

#[test]
fn packages_get_completions_and_a_manual() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(["completions", shell]);
        assert_eq!(ran.code, Some(0), "{shell}");
        assert!(ran.stdout.contains("idle-exit"), "{shell}");
    }
    let man = run(["man"]).stdout;
    for page in [
        "rocketcat",
        "rocketcat-consume",
        "rocketcat-produce",
        "rocketcat-lag",
        "rocketcat-groups",
        "rocketcat-topics-create",
        "rocketcat-offset-reset",
        "rocketcat-dlq-requeue",
        "rocketcat-doctor",
        "rocketcat-broker",
        "rocketcat-simulate",
        "rocketcat-decode-frame",
        "rocketcat-allocate",
    ] {
        assert!(man.contains(&format!(".TH {page} ")), "{page}");
    }
}
