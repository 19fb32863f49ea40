//! Every file of the fuzz corpora, once more: what a fuzzer has found stays found.

use std::fs;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rocketmq_consumer_testing::fuzzing;

/// At most this many files and bytes in all corpora together.
const FILES_MAX: usize = 250;
const BYTES_MAX: usize = 300_000;

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus")
}

/// The files of a target, by name.
fn files(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = corpora().join(target);
    let entries = fs::read_dir(&folder).expect("each target has a corpus");
    let mut files: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("a folder that can be read").path();
            let bytes = fs::read(&path).expect("a file that can be read");
            (path, bytes)
        })
        .collect();
    files.sort();
    files
}

fn replay(target: &str, function: impl Fn(&[u8]) + RefUnwindSafe) {
    let files = files(target);
    assert!(files.len() > 20, "{target} has {} files only", files.len());
    for (path, bytes) in files {
        // Every prefix of a short one too: streams end anywhere.
        let shortest = if bytes.len() <= 512 { 0 } else { bytes.len() };
        for end in shortest..=bytes.len() {
            let done = catch_unwind(|| function(&bytes[..end]));
            assert!(done.is_ok(), "{} up to byte {end}", path.display());
        }
    }
}

#[test]
fn bodies() {
    replay("bodies", fuzzing::bodies);
}

#[test]
fn frames() {
    replay("frame_decoder", fuzzing::frame_decoder);
}

#[test]
fn messages() {
    replay("stored_messages", fuzzing::stored_messages);
}

#[test]
fn corpora_are_small_and_each_has_a_target() {
    let folders = fs::read_dir(corpora()).expect("the corpora are part of the project");
    let targets: Vec<String> = folders
        .map(|entry| {
            entry
                .expect("a folder that can be read")
                .file_name()
                .into_string()
                .expect("an ASCII name")
        })
        .collect();
    let all: Vec<_> = targets.iter().flat_map(|target| files(target)).collect();
    assert!(all.len() <= FILES_MAX, "{} files", all.len());
    let bytes: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
    for target in targets {
        let source = corpora().join(format!("../fuzz_targets/{target}.rs"));
        let source = fs::read_to_string(source).expect("a corpus belongs to a target");
        assert!(
            source.contains(&format!("fuzzing::{target}(")),
            "{target} calls its function"
        );
    }
}
