//! Which replica is read, by who is named, who knows us, and who is away.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::config::ClientConfig;
use crate::consumer::bench::Bench;
use crate::ids::ClientId;
use crate::wire::request::route::{BrokerData, QueueData, TopicRoute};

/// A client that has found one broker with these replicas.
struct Found {
    routes: Routes,
    beats: Heartbeats,
    bench: Bench,
    now: u64,
}

fn at(id: i64) -> PeerAddr {
    PeerAddr::new(format!("10.0.0.{}", id + 1), 10_911)
}

fn name() -> BrokerName {
    "a".into()
}

impl Found {
    fn new(ids: &[i64]) -> Self {
        let mut config = ClientConfig::new(ClientId::from("me"), vec![PeerAddr::new("10.0.1.1", 9876)]);
        config.set_slave_read_after(core::time::Duration::from_secs(3));
        let mut found = Self {
            routes: Routes::new(&config),
            beats: Heartbeats::new(&config),
            bench: Bench::new(),
            now: 0,
        };
        found.beats.subscriptions_changed(&mut found.bench.at(0), true);
        found.routes.watch(&mut found.bench.at(0), &"T".into());
        found.name(ids);
        found
    }

    /// The route names these replicas.
    fn name(&mut self, ids: &[i64]) {
        let queues = QueueData {
            broker: name(),
            read_queues: 1,
            write_queues: 1,
            perm: 6,
            topic_sys_flag: 0,
        };
        let broker = BrokerData {
            cluster: "C".into(),
            name: name(),
            addresses: ids.iter().map(|id| (*id, at(*id).to_string())).collect(),
            zone_name: None,
            enable_acting_master: false,
        };
        let route = TopicRoute {
            queues: vec![queues],
            brokers: vec![broker],
            ..TopicRoute::default()
        };
        self.routes
            .on_route(&mut self.bench.at(self.now), &"T".into(), &route);
        let addresses: BTreeMap<PeerAddr, BrokerName> = self.routes.addresses();
        self.beats.set_addresses(&mut self.bench.at(self.now), addresses);
    }

    fn knows_us(&mut self, id: i64) {
        self.beats
            .on_acknowledged(&mut self.bench.at(self.now), &at(id), 1);
    }

    fn lost(&mut self, id: i64) {
        self.beats.on_link_down(&mut self.bench.at(self.now), &at(id));
    }

    /// Time passes; timers of presence fire.
    fn sleep(&mut self, ms: u64) {
        let until = self.now + ms;
        let due: Vec<(u64, i64)> = (0..9)
            .filter_map(|id| {
                Some((
                    self.bench
                        .armed(crate::consumer::cx::TimerKey::Presence(at(id)))?,
                    id,
                ))
            })
            .filter(|(when, _)| *when <= until)
            .collect();
        for (when, id) in due {
            let mut cx = self.bench.at(when);
            cx.timers.cancel(crate::consumer::cx::TimerKey::Presence(at(id)));
            self.beats.on_presence_timer(&mut cx, &at(id));
        }
        self.now = until;
    }

    /// The replica to read from after this suggestion, and whether it is ready.
    fn read(&self, suggested: i64) -> (Option<i64>, bool) {
        let chosen = Peers::of(&self.routes, &self.beats).reader(&name(), suggested, 1);
        (chosen.id, chosen.ready.is_ok())
    }
}

#[test]
fn a_suggestion_is_followed_where_it_leads_somewhere() {
    for (ids, known, suggested, read) in [
        (&[0, 1, 2][..], &[0, 1, 2][..], 0, 0),
        (&[0, 1, 2], &[0, 1, 2], 1, 1),
        (&[0, 1, 2], &[0, 1, 2], 2, 2),
        // The one behind it, as Java does.
        (&[0, 2], &[0, 2], 1, 2),
        (&[0, 1], &[0, 1], 7, 0),
        (&[0, 1], &[0, 1], i64::MAX, 0),
        (&[0, 1], &[0, 1], -1, 0),
        (&[0, 1], &[0, 1], i64::MIN, 0),
        // It does not know us.
        (&[0, 1], &[0], 1, 0),
        (&[0, 1, 2], &[0, 2], 1, 2),
        // No master.
        (&[1, 2], &[1, 2], 0, 1),
        (&[1, 2], &[2], 0, 2),
    ] {
        let mut found = Found::new(ids);
        known.iter().for_each(|id| found.knows_us(*id));
        assert_eq!(
            found.read(suggested),
            (Some(read), true),
            "{ids:?} {known:?} {suggested}"
        );
    }
    assert_eq!(Found::new(&[]).read(0), (None, false));
}

#[test]
fn a_master_out_of_reach_is_done_without_after_3_s_and_read_again_after_3_s() {
    let mut found = Found::new(&[0, 1]);
    found.knows_us(0);
    found.knows_us(1);
    found.lost(0);
    found.sleep(2_999);
    assert_eq!(found.read(0), (Some(0), false), "it is waited for");
    found.sleep(1);
    assert_eq!(found.read(0), (Some(1), true));
    found.knows_us(0);
    found.sleep(2_999);
    assert_eq!(found.read(0), (Some(1), true), "it has to last");
    found.sleep(1);
    assert_eq!(found.read(0), (Some(0), true));
}

#[test]
fn a_master_that_comes_and_goes_is_not_gone_back_to() {
    let mut found = Found::new(&[0, 1]);
    found.knows_us(1);
    found.sleep(3_000);
    for _ in 0..10 {
        found.knows_us(0);
        found.sleep(2_000);
        assert_eq!(found.read(0), (Some(1), true));
        found.lost(0);
        found.sleep(500);
    }
}

#[test]
fn a_slave_that_has_nothing_sends_back_at_once_to_a_master_that_knows_us() {
    let mut found = Found::new(&[0, 1]);
    found.knows_us(1);
    found.sleep(3_000);
    found.beats.recommended(&mut found.bench.at(3_000), &at(0));
    assert_eq!(found.read(0), (Some(1), true), "nobody is there");
    found.knows_us(0);
    found.beats.recommended(&mut found.bench.at(3_000), &at(0));
    assert_eq!(found.read(0), (Some(0), true));
}

#[test]
fn a_master_that_is_named_again_is_not_waited_for_while_a_slave_is_read() {
    let mut found = Found::new(&[1]);
    found.knows_us(1);
    found.name(&[0, 1]);
    assert_eq!(found.read(0), (Some(1), true));
    found.knows_us(0);
    assert_eq!(found.read(0), (Some(1), true));
    found.sleep(3_000);
    assert_eq!(found.read(0), (Some(0), true));
}

#[test]
fn without_anybody_who_knows_us_the_master_is_waited_for() {
    let mut found = Found::new(&[0, 1]);
    found.sleep(10_000);
    assert_eq!(found.read(0), (Some(0), false));
    assert_eq!(found.read(1), (Some(0), false));
    let mut found = Found::new(&[1]);
    assert_eq!(found.read(0), (Some(1), false));
    found.knows_us(1);
    assert_eq!(found.read(0), (Some(1), true));
}
