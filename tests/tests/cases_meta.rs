//! Every case has its test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The tests in the files of cases, by the id that begins their names: `fn rb_06_…` is RB-06's.
fn tests_by_case() -> BTreeMap<String, Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("the folder of this file") {
        let path = entry.expect("a readable entry").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if !name.starts_with("cases_") || !name.ends_with(".rs") {
            continue;
        }
        let source = fs::read_to_string(&path).expect("a readable file");
        let mut is_test = false;
        for line in source.lines() {
            if line.trim() == "#[test]" {
                is_test = true;
            } else if let Some(test) = line.strip_prefix("fn ").filter(|_| is_test) {
                is_test = false;
                let mut parts = test.splitn(3, '_');
                let (Some(area), Some(number)) = (parts.next(), parts.next()) else {
                    continue;
                };
                let numbered =
                    area.len() == 2 && number.len() == 2 && number.bytes().all(|b| b.is_ascii_digit());
                if numbered {
                    let id = format!("{}-{number}", area.to_uppercase());
                    found.entry(id).or_default().push(name.to_owned());
                }
            }
        }
    }
    found
}

/// The files of cases, each with how many it tells.
const BOOKS: [(&str, usize); 3] = [("spine", 45), ("truth", 28), ("modes", 20)];

#[test]
fn every_case_has_its_test_in_one_place() {
    let tests = tests_by_case();
    let mut seen = BTreeSet::new();
    for (book, count) in BOOKS {
        let ids = ids_of(book);
        assert_eq!(ids.len(), count, "{book}");
        for id in ids {
            let files = tests.get(&id).unwrap_or_else(|| panic!("{id} has no test"));
            let one_place = files.iter().all(|file| *file == files[0]);
            assert!(one_place, "{id} is tested in several files: {files:?}");
            assert!(seen.insert(id.clone()), "{id} is told twice");
        }
    }
    for (id, files) in &tests {
        assert!(seen.contains(id), "{id} is tested in {files:?} and told nowhere");
    }
}

/// The ids of the cases that a file of them tells.
fn ids_of(book: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("cases/{book}.jsonl"));
    let rows = fs::read_to_string(path).expect("a file of this repository");
    let ids = rows.lines().map(|row| {
        let row: serde_json::Value = serde_json::from_str(row).expect("a line of JSON");
        row["id"].as_str().expect("a case has an id").to_owned()
    });
    ids.collect()
}
