//! Offset files of the Java client, as it wrote them and as time and accidents have left them: what is loaded of each
//! is what Java loads, in `golden/offsets`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rocketmq_consumer_core::config::MessageModel;
use rocketmq_consumer_core::ids::{MessageQueue, QueueOffset};
use rocketmq_consumer_core::wire::kept_offsets::KeptOffsets;
use rocketmq_consumer_testing::world::{Bench, queue};
use serde_json::Value;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/offsets")
}

/// What a member loads from the files of a folder; `None` when it is refused.
fn loaded(folder: &Path) -> Option<KeptOffsets> {
    let file = |name: &str| fs::read(folder.join(name)).ok();
    let mut bench = Bench::new(|_, group| {
        group
            .set_model(MessageModel::Broadcasting)
            .subscribe("T".into(), "*");
    });
    bench.put_in_store(
        file("offsets.json").as_deref(),
        file("offsets.json.bak").as_deref(),
    );
    bench.settle();
    if bench.status().groups.is_empty() {
        return None;
    }
    // Its own start was chosen and stored, and everything else along with it.
    let mut kept = bench.kept();
    assert_eq!(kept.remove(&queue("T", "a", 0)), Some(QueueOffset(0)));
    Some(kept)
}

fn entries(list: &Value) -> BTreeMap<MessageQueue, QueueOffset> {
    let entry = |entry: &Value| {
        let id = entry["queueId"].as_i64().and_then(|id| i32::try_from(id).ok());
        let queue = queue(
            entry["topic"].as_str().expect("a topic"),
            entry["brokerName"].as_str().expect("a broker"),
            id.expect("a queue"),
        );
        (queue, QueueOffset(entry["offset"].as_i64().expect("an offset")))
    };
    list.as_array().into_iter().flatten().map(entry).collect()
}

#[test]
fn every_variant_is_loaded_as_java_loads_it() {
    let rows = fs::read_to_string(golden().join("load.jsonl")).expect("a file of this repository");
    let mut count = 0;
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).expect("a line of JSON");
        let name = row["name"].as_str().expect("a name");
        let mut want = entries(&row["loaded"]);
        if name == "18-negative-and-large" {
            // Java takes it for a position and pulls from there.
            assert_eq!(
                want.remove(&queue("OffAlpha", "broker-a", 0)),
                Some(QueueOffset(-1))
            );
        }
        let want = row["exception"].is_null().then_some(want);
        assert_eq!(loaded(&golden().join("variants").join(name)), want, "{name}");
        count += 1;
    }
    assert_eq!(count, 28);
}

#[test]
fn what_java_wrote_is_read() {
    let sum = |folder: &str| -> Option<i64> {
        let kept = loaded(&golden().join(folder))?;
        Some(kept.values().map(|offset| offset.0).sum())
    };
    let (before, after) = (sum("broadcast-1"), sum("broadcast-after-shutdown"));
    assert_eq!(before.map(|sum| sum + 3), after, "three messages later");
}
