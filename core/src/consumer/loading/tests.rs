use super::*;
use crate::ids::{MessageQueue, QueueId, QueueOffset, StoreKind};

const JAVA: &str = r#"{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:7}}"#;
const OLDER: &str = r#"{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:4}}"#;
const LATER: &str = r#"{"version":2}"#;
const ZEROS: &str = "\0\0\0\0";
const CUT: &str = r#"{"offsetTable":{"#;

/// Where the one queue goes on, what becomes of what is there, and the notice in one word; or the refusal in words.
fn begun(
    main: Option<&str>,
    backup: Option<&str>,
    policy: DamagedStore,
) -> Result<(Option<i64>, Former, &'static str), String> {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    let found = Found {
        main: main.map(bytes),
        backup: backup.map(bytes),
    };
    let (kept, notice) =
        begin(key(), "/x/offsets.json".into(), Ok(found), policy).map_err(|reason| reason.to_string())?;
    let queue = MessageQueue {
        topic: "T".into(),
        broker: "a".into(),
        id: QueueId(0),
    };
    let notice = match notice {
        None => "",
        Some(NoticeKind::BackupUsed { place, .. }) if place == "/x/offsets.json" => "backup",
        Some(NoticeKind::StartedOver { place, .. }) if place == "/x/offsets.json" => "over",
        Some(other) => panic!("{other:?}"),
    };
    let at = kept.offsets.get(&queue).map(|QueueOffset(offset)| *offset);
    Ok((at, kept.former, notice))
}

fn key() -> Box<StoreKey> {
    Box::new(StoreKey {
        group: "g".into(),
        instance: "i".into(),
        kind: StoreKind::Offsets,
    })
}

#[test]
fn the_best_that_can_be_read_is_used() {
    use Former::{Aside, Backup};
    for (main, backup, want) in [
        (Some(JAVA), Some(OLDER), (Some(7), Backup, "")),
        (Some(JAVA), Some(ZEROS), (Some(7), Backup, "")),
        (Some(JAVA), None, (Some(7), Backup, "")),
        (None, Some(OLDER), (Some(4), Aside, "backup")),
        (Some(""), Some(OLDER), (Some(4), Aside, "backup")),
        (Some(ZEROS), Some(OLDER), (Some(4), Aside, "backup")),
        (Some(CUT), Some(OLDER), (Some(4), Aside, "backup")),
        (None, None, (None, Backup, "")),
        (Some(""), None, (None, Backup, "")),
        (None, Some(" \n"), (None, Backup, "")),
        (Some("{}"), Some(OLDER), (None, Backup, "")),
    ] {
        for policy in [DamagedStore::Refuse, DamagedStore::StartOver] {
            assert_eq!(begun(main, backup, policy), Ok(want), "{main:?} {backup:?}");
        }
    }
}

#[test]
fn what_cannot_be_read_at_all_is_refused_by_its_name_or_started_over() {
    for (main, backup) in [
        (Some(ZEROS), None),
        (Some(ZEROS), Some("")),
        (Some(CUT), Some(CUT)),
        (None, Some(ZEROS)),
        (Some(""), Some(CUT)),
        // Its backup may be much older: that is for somebody to decide.
        (Some(LATER), Some(OLDER)),
    ] {
        let refused = begun(main, backup, DamagedStore::Refuse);
        let text = refused.expect_err("it is damaged");
        assert!(text.contains("/x/offsets.json"), "{text}");
        let over = begun(main, backup, DamagedStore::StartOver);
        assert_eq!(over, Ok((None, Former::Aside, "over")), "{main:?} {backup:?}");
    }
}

#[test]
fn a_store_that_is_used_or_cannot_be_read_is_refused_whatever_the_policy() {
    for policy in [DamagedStore::Refuse, DamagedStore::StartOver] {
        let refused = |error| {
            begin(key(), "/x".into(), Err(error), policy)
                .map(|_| ())
                .expect_err("there is nothing to begin with")
        };
        assert_eq!(
            refused(StoreError::InUse),
            RefusalReason::StoreInUse { place: "/x".into() }
        );
        let why = String::from("permission denied");
        assert_eq!(
            refused(StoreError::Failed("permission denied".into())),
            RefusalReason::StoreUnusable {
                place: "/x".into(),
                why
            }
        );
    }
}

#[test]
fn an_answer_finds_the_group_that_asked_for_it() {
    let mut loads = Loads::default();
    let config = |group: &str| Arc::new(GroupConfig::new(group.into()));
    let (first, other) = (loads.begin(config("g")), loads.begin(config("h")));
    assert!(first < other && loads.len() == 2);
    assert_eq!(loads.answered(&"g".into(), other), None);
    // Called off and begun again: the first answer is nobody's.
    assert!(loads.call_off(&"g".into()) && !loads.call_off(&"g".into()));
    let again = loads.begin(config("g"));
    assert_eq!(loads.answered(&"g".into(), first), None);
    assert!(loads.answered(&"g".into(), again).is_some() && !loads.is_loading(&"g".into()));
    assert_eq!(loads.call_off_all(), ["h".into()]);
}
