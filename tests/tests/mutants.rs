//! Known bugs can be put back: each patch of `mutants` fits the tree as it is, and changes no judge.

use std::fs;
use std::path::Path;

/// The files a patch changes, each with the lines that every hunk expects there.
fn hunks(patch: &str) -> Vec<(&str, Vec<Vec<&str>>)> {
    let mut files: Vec<(&str, Vec<Vec<&str>>)> = Vec::new();
    for line in patch.lines() {
        if let Some(file) = line.strip_prefix("+++ b/") {
            files.push((file, Vec::new()));
        } else if let Some((_, hunks)) = files.last_mut() {
            if line.starts_with("@@ ") {
                hunks.push(Vec::new());
            } else if line.starts_with("diff --git ") {
                // What follows names the next file.
            } else if let Some(hunk) = hunks.last_mut()
                && let Some(expected) = line.strip_prefix([' ', '-'])
                && !line.starts_with("--- ")
            {
                hunk.push(expected);
            }
        }
    }
    files
}

#[test]
fn every_known_bug_can_be_put_back() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = fs::read_dir(here.join("mutants")).expect("the folder of known bugs");
    let paths = folder.map(|entry| entry.expect("a readable entry").path());
    let patches = paths.filter(|path| path.extension().is_some_and(|kind| kind == "patch"));
    let mut count = 0;
    for path in patches {
        let name = path.display();
        count += 1;
        let patch = fs::read_to_string(&path).expect("a readable patch");
        for (file, hunks) in hunks(&patch) {
            let of_consumer = ["core/src/consumer/", "core/src/rpc/"]
                .iter()
                .any(|room| file.starts_with(room));
            assert!(of_consumer, "{name} changes {file}");
            let source = fs::read_to_string(here.join("..").join(file));
            let source = source.unwrap_or_else(|error| panic!("{name} changes {file}: {error}"));
            let source: Vec<&str> = source.lines().collect();
            assert!(!hunks.is_empty(), "{name} changes nothing in {file}");
            for hunk in hunks {
                let fits = source
                    .windows(hunk.len().max(1))
                    .any(|lines| lines == hunk.as_slice());
                assert!(fits, "{name} does not fit {file}: {}", hunk.join("\n"));
            }
        }
    }
    assert!(count >= 18, "known bugs are found: {count}");
}

#[test]
fn a_patch_is_read_by_file_and_hunk() {
    let patch = "why\n\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ fn f\n a\n-b\n+c\n@@ -9 +9 @@\n-d\n\
                 diff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -3 +3,2 @@\n e\n+f\n";
    let want = vec![("x", vec![vec!["a", "b"], vec!["d"]]), ("y", vec![vec!["e"]])];
    assert_eq!(hunks(patch), want);
}
