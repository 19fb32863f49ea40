//! Storms: faults drawn from a seed, then calm, then everything must have been delivered.
//!
//! A failure shows its seed; the same seed makes the same storm. `STORM_SEEDS=12..400` asks for others.

use std::cell::Cell;
use std::rc::Rc;

use rocketmq_consumer_core::wire::code::{RequestCode, ResponseCode};
use rocketmq_consumer_testing::world::{Dial, Handling, Reply, Setup, World, ms, secs};

const BROKERS: [&str; 2] = ["a", "b"];
const MEMBERS: [&str; 4] = ["c1", "c2", "c3", "c4"];

/// SplitMix64, as the machine has one: a test's own randomness is as repeatable as the rest.
#[derive(Clone)]
struct Dice(Rc<Cell<u64>>);

impl Dice {
    fn roll(&self, sides: u64) -> u64 {
        let state = self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.set(state);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % sides
    }

    fn pick<'a>(&self, from: &[&'a str]) -> &'a str {
        let index = usize::try_from(self.roll(from.len() as u64)).expect("an index");
        from[index]
    }
}

/// A member with a slow and unreliable handler.
fn moody(dice: &Dice) -> impl FnOnce(&mut Setup) + use<> {
    let dice = dice.clone();
    move |setup| {
        setup.subscribe("T", "*").handler(move |delivery| {
            let takes = ms(dice.roll(120));
            let waits = ms(dice.roll(2) * dice.roll(300));
            let fails = delivery.reconsume_times < 2 && dice.roll(6) == 0;
            let handling = if fails {
                Handling::retry()
            } else {
                Handling::done()
            };
            handling.taking(takes).beginning_after(waits)
        });
    }
}

fn storm(seed: u64) -> World {
    let dice = Dice(Rc::new(Cell::new(seed)));
    let mut w = World::new().name_server().topic("T", &[("a", 3), ("b", 2)]);
    let mut alive = vec!["c1", "c2"];
    for id in &alive {
        w.join(id, moody(&dice));
    }
    for _ in 0..60 {
        let (broker, server) = (dice.pick(&BROKERS), dice.pick(&["ns", "ns2"]));
        match dice.roll(16) {
            0..4 => {
                let queue = i32::try_from(dice.roll(2)).expect("a small number");
                let count = usize::try_from(dice.roll(50)).expect("a small number");
                w.produce("T", broker, queue, count);
            }
            4 => w.kill(broker),
            5 | 6 => w.revive(broker),
            7 => {
                w.broker(broker).mute(true);
            }
            8 => {
                w.broker(broker)
                    .mute(false)
                    .dials(Dial::Accept)
                    .off(RequestCode::PULL_MESSAGE);
                w.broker(broker)
                    .off(RequestCode::HEART_BEAT)
                    .off(RequestCode::UPDATE_CONSUMER_OFFSET);
            }
            9 => {
                let dial = if dice.roll(2) == 0 {
                    Dial::Hang
                } else {
                    Dial::Refuse
                };
                w.broker(broker).dials(dial);
            }
            10 => {
                let dice = dice.clone();
                w.broker(broker)
                    .on(RequestCode::PULL_MESSAGE, move |_| match dice.roll(8) {
                        0 => Reply::Never,
                        1 => Reply::Close,
                        2 => Reply::Refuse(ResponseCode::SYSTEM_BUSY, "busy"),
                        3 => Reply::Model.after(secs(dice.roll(9))),
                        _ => Reply::Model,
                    });
            }
            11 => {
                let dice = dice.clone();
                let code = if dice.roll(2) == 0 {
                    RequestCode::HEART_BEAT
                } else {
                    RequestCode::UPDATE_CONSUMER_OFFSET
                };
                w.broker(broker).on(code, move |_| match dice.roll(4) {
                    0 => Reply::Never,
                    1 => Reply::Model.after(secs(dice.roll(6))),
                    _ => Reply::Model,
                });
            }
            12 => w.kill(server),
            13 => w.revive(server),
            14 => {
                if let Some(id) = MEMBERS.into_iter().find(|id| !alive.contains(id)) {
                    w.join(id, moody(&dice));
                    alive.push(id);
                }
            }
            _ if alive.len() > 1 => {
                let index = usize::try_from(dice.roll(alive.len() as u64)).expect("an index");
                let id = alive.remove(index);
                if dice.roll(2) == 0 {
                    w.crash(id);
                } else {
                    w.leave(id, secs(dice.roll(5)));
                }
            }
            _ => {}
        }
        w.run_for(ms(dice.roll(4_000)));
    }
    // Calm.
    for server in ["ns", "ns2"] {
        w.revive(server);
    }
    for broker in BROKERS {
        w.revive(broker);
        let node = w
            .broker(broker)
            .mute(false)
            .dials(Dial::Accept)
            .off(RequestCode::PULL_MESSAGE);
        node.off(RequestCode::HEART_BEAT)
            .off(RequestCode::UPDATE_CONSUMER_OFFSET);
    }
    w.run_for(secs(400));
    let mut owned: Vec<_> = alive.iter().flat_map(|id| w.queues(id, "T")).collect();
    owned.sort();
    assert_eq!(owned.len(), 5, "every queue has one owner: {owned:?}");
    owned.dedup();
    assert_eq!(owned.len(), 5, "every queue has one owner");
    w.assert_complete("T");
    for queue in &owned {
        let stored = w.stored_offset("G", queue);
        let max = w.stored_messages(queue);
        assert_eq!(stored.unwrap_or(0), max, "{queue} is committed to its end");
    }
    w.assert_story();
    w
}

#[test]
fn after_a_storm_everything_is_delivered() {
    let seeds = std::env::var("STORM_SEEDS").ok().and_then(|text| {
        let (first, last) = text.split_once("..")?;
        Some(first.parse().ok()?..last.parse().ok()?)
    });
    for seed in seeds.unwrap_or(0..12_u64) {
        eprintln!("seed {seed}");
        storm(seed);
    }
}
