//! `consume --model broadcasting` and its files, without Java.
#![cfg(unix)]

#[path = "support/broadcasting.rs"]
mod broadcasting;
#[path = "support/embedded_broker.rs"]
mod embedded_broker;
mod support;

use broadcasting::Broadcast;
use embedded_broker::Broker;
use support::side_by_side;

#[test]
fn members_that_broadcast_keep_their_offsets_in_files() {
    let topics = ["All", "Damaged", "Refused", "Second"].map(|topic| format!("--topic={topic}:3"));
    let broker = Broker::start(&topics.each_ref().map(String::as_str));
    let bench = Broadcast::new(broker.name_server());
    let steps: [fn(&Broadcast); 4] = [
        |bench| bench.every_member_gets_all_and_over_a_restart_nothing_twice("All"),
        |bench| bench.a_damaged_file_is_survived_from_its_backup("Damaged"),
        |bench| bench.damage_without_a_backup_is_refused_by_its_name_or_started_over("Refused"),
        |bench| bench.a_second_process_is_refused_until_the_first_has_ended("Second"),
    ];
    side_by_side(&bench, &steps);
}
