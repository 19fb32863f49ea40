use std::env;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder of its own, removed when the test has ended.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("rocketmq-store-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self) -> FileStore {
        FileStore::new(self.0.join("offsets"))
    }

    /// Names and contents of the files of the group.
    fn files(&self) -> Vec<(String, String)> {
        let mut files: Vec<_> = fs::read_dir(self.0.join("offsets/i/g"))
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (name, fs::read_to_string(entry.path()).unwrap())
            })
            .filter(|(name, _)| name != "offsets.json.lock")
            .collect();
        files.sort();
        files
    }

    fn write(&self, name: &str, content: &str) {
        fs::create_dir_all(self.0.join("offsets/i/g")).unwrap();
        fs::write(self.0.join("offsets/i/g").join(name), content).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

fn key() -> StoreKey {
    StoreKey {
        group: "g".into(),
        instance: "i".into(),
        kind: StoreKind::Offsets,
    }
}

fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, content): &(&str, &str)| ((*name).to_owned(), (*content).to_owned());
    files.iter().map(owned).collect()
}

#[test]
fn of_15_a_first_run_finds_nothing_and_leaves_nothing_but_a_lock() {
    let folder = Folder::new();
    let mut open = folder.store().open(&key()).unwrap();
    assert_eq!(open.load().unwrap(), Found::default());
    drop(open);
    assert_eq!(folder.files(), []);
}

#[test]
fn of_14_what_was_stored_before_is_the_backup() {
    let folder = Folder::new();
    let mut open = folder.store().open(&key()).unwrap();
    for content in ["10", "20"] {
        open.save(&content.into(), Former::Backup).unwrap();
    }
    let want = [("offsets.json", "20"), ("offsets.json.bak", "10")];
    assert_eq!(folder.files(), pairs(&want));
    drop(open);
    let found = folder.store().open(&key()).unwrap().load().unwrap();
    assert_eq!((found.main, found.backup), (Some("20".into()), Some("10".into())));
}

#[test]
fn what_cannot_be_read_or_is_empty_never_becomes_the_backup() {
    for (main, former, want) in [
        (
            "bad",
            Former::Aside,
            &[
                ("offsets.json", "new"),
                ("offsets.json.bak", "good"),
                ("offsets.json.damaged", "bad"),
            ][..],
        ),
        (
            "",
            Former::Backup,
            &[("offsets.json", "new"), ("offsets.json.bak", "good")],
        ),
        (
            "",
            Former::Aside,
            &[("offsets.json", "new"), ("offsets.json.bak", "good")],
        ),
    ] {
        let folder = Folder::new();
        folder.write("offsets.json", main);
        folder.write("offsets.json.bak", "good");
        folder
            .store()
            .open(&key())
            .unwrap()
            .save(&"new".into(), former)
            .unwrap();
        assert_eq!(folder.files(), pairs(want), "{main:?} {former:?}");
    }
}

#[test]
fn a_process_that_ended_between_its_renames_has_lost_nothing() {
    let folder = Folder::new();
    folder.write("offsets.json.bak", "10");
    folder.write("offsets.json.tmp", "2");
    let mut open = folder.store().open(&key()).unwrap();
    let found = open.load().unwrap();
    assert_eq!((found.main, found.backup), (None, Some("10".into())));
    open.save(&"20".into(), Former::Aside).unwrap();
    assert_eq!(
        folder.files(),
        pairs(&[("offsets.json", "20"), ("offsets.json.bak", "10")])
    );
}

#[test]
fn one_at_a_time_may_have_it() {
    let folder = Folder::new();
    let first = folder.store().open(&key()).unwrap();
    let second = folder.store().open(&key()).map(|_| ());
    assert_eq!(second, Err(StoreError::InUse));
    let other = StoreKey {
        instance: "j".into(),
        ..key()
    };
    assert!(folder.store().open(&other).is_ok(), "another instance");
    drop(first);
    assert!(
        folder.store().open(&key()).is_ok(),
        "and the next one when it has ended"
    );
}

#[test]
fn what_cannot_be_opened_or_written_is_told_with_its_path() {
    let folder = Folder::new();
    fs::write(folder.0.join("offsets"), "a file where a folder is needed").unwrap();
    let Err(StoreError::Failed(why)) = folder.store().open(&key()).map(|_| ()) else {
        panic!("it cannot be opened");
    };
    assert!(why.contains("offsets.json.lock"), "{why}");

    let folder = Folder::new();
    let mut open = folder.store().open(&key()).unwrap();
    fs::create_dir(folder.0.join("offsets/i/g/offsets.json.tmp")).unwrap();
    let why = open.save(&"1".into(), Former::Backup).unwrap_err().to_string();
    assert!(why.contains("offsets.json.tmp"), "{why}");
    fs::create_dir(folder.0.join("offsets/i/g/offsets.json")).unwrap();
    let why = open.load().unwrap_err().to_string();
    assert!(why.contains("offsets.json"), "{why}");
}

#[test]
fn the_place_is_the_path_of_the_file() {
    let key = StoreKey {
        group: "a|b".into(),
        instance: "10.0.0.5@DEFAULT".into(),
        kind: StoreKind::Offsets,
    };
    let place = FileStore::new("/var/x").place(&key);
    let want: PathBuf = ["/var/x", "10.0.0.5@DEFAULT", "a%7Cb", "offsets.json"]
        .iter()
        .collect();
    assert_eq!(place, want.display().to_string());
}
