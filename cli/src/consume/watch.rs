use std::time::Duration;

use rocketmq_consumer_core::ids::{PeerAddr, Topic};
use rocketmq_consumer_core::status::Status;

use super::stop::Stop;
use super::words::{Answers, Trouble};

/// Watches the clock of a run: has the cluster answered in time, does anything still come?
///
/// All times count from the start of the process.
#[derive(Debug)]
pub(crate) struct Watch {
    connect_by: Option<Duration>,
    idle_exit: Option<Duration>,
    /// How much had been consumed, and since when nothing more was; begins with the first assignment.
    quiet: Option<(u64, Duration)>,
}

impl Watch {
    /// A watch that begins now.
    pub(crate) fn new(now: Duration, connect_timeout: Option<Duration>, idle_exit: Option<Duration>) -> Self {
        Self {
            connect_by: connect_timeout.map(|timeout| now.saturating_add(timeout)),
            idle_exit,
            quiet: None,
        }
    }

    /// The group has got its first queues, or has learnt that there are none for it.
    pub(crate) fn assigned(&mut self, now: Duration) {
        self.quiet.get_or_insert((0, now));
    }

    /// Whether it is time to look at the connections, which is done once.
    pub(crate) fn connect_is_due(&mut self, now: Duration) -> bool {
        self.connect_by.take_if(|by| now >= *by).is_some()
    }

    /// Whether nothing came for too long. What is still being handled counts as coming: with all
    /// permits taken, nothing else can.
    pub(crate) fn idle(&mut self, now: Duration, consumed: u64, running: u64) -> Option<Stop> {
        let after = self.idle_exit?;
        let (before, since) = self.quiet.as_mut()?;
        if *before != consumed || running > 0 {
            (*before, *since) = (consumed, now);
        }
        (now.saturating_sub(*since) >= after).then_some(Stop::Idle(after))
    }
}

/// Whether the cluster has kept us waiting too long, and for what.
pub(crate) fn connect_verdict<'a>(
    status: &Status,
    mut topics: impl Iterator<Item = &'a Topic>,
    name_servers: &[PeerAddr],
) -> Option<Stop> {
    let unknown = topics.find_map(|topic| {
        let status = status.topics.iter().find(|status| status.topic == *topic)?;
        (status.queues.is_none() && !status.refusals.is_empty()).then_some(status)
    });
    if let Some(topic) = unknown {
        let answers = Answers(&topic.refusals);
        return Some(Stop::UnknownTopic(format!(
            "topic {} is still unknown{answers}",
            topic.topic
        )));
    }
    if status.links.iter().any(|link| link.heartbeat_acknowledged) {
        return None;
    }
    let has_route = status.topics.iter().any(|topic| topic.queues.is_some());
    let asked: Vec<_> = status
        .links
        .iter()
        .filter(|link| name_servers.contains(&link.addr) != has_route)
        .map(|link| match link.trouble {
            Some(trouble) => format!("{}: {}", link.addr, Trouble(trouble)),
            None => format!("{}: no answer", link.addr),
        })
        .collect();
    Some(Stop::CannotConnect(if !has_route {
        format!(
            "no name server answered in time: {}; check --name-server",
            asked.join("; ")
        )
    } else if asked.is_empty() {
        let servers: Vec<_> = name_servers.iter().map(ToString::to_string).collect();
        format!(
            "no broker of the topics can be asked: {} names no address of them",
            servers.join("; ")
        )
    } else {
        format!(
            "no broker of the topics answered in time: {}; are these addresses right from here? --address-map \
             replaces them",
            asked.join("; ")
        )
    }))
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_core::event::NetCause;
    use rocketmq_consumer_core::status::{Counters, LinkState, LinkStatus, LinkTrouble, TopicStatus};
    use rocketmq_consumer_core::time::Instant;

    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn the_idle_clock_begins_with_the_first_assignment() {
        let mut watch = Watch::new(secs(0), None, Some(secs(3)));
        assert_eq!(
            watch.idle(secs(100), 0, 0),
            None,
            "a dead cluster is not an idle one"
        );
        watch.assigned(secs(100));
        watch.assigned(secs(102));
        assert_eq!(watch.idle(secs(102), 0, 0), None);
        assert_eq!(watch.idle(secs(103), 0, 0), Some(Stop::Idle(secs(3))));
    }

    #[test]
    fn what_comes_and_what_runs_puts_the_idle_clock_back() {
        let mut watch = Watch::new(secs(0), None, Some(secs(3)));
        watch.assigned(secs(0));
        assert_eq!(watch.idle(secs(2), 5, 1), None);
        assert_eq!(watch.idle(secs(4), 5, 1), None, "still running");
        assert_eq!(watch.idle(secs(6), 5, 0), None);
        assert_eq!(watch.idle(secs(7), 5, 0), Some(Stop::Idle(secs(3))));
    }

    #[test]
    fn connections_are_looked_at_once_or_never() {
        let mut watch = Watch::new(secs(1), Some(secs(5)), None);
        let due = [2, 6, 7].map(|now| watch.connect_is_due(secs(now)));
        assert_eq!(due, [false, true, false]);
        assert!(!Watch::new(secs(0), None, None).connect_is_due(secs(1_000_000)));
    }

    fn link(host: &str, trouble: Option<LinkTrouble>, acknowledged: bool) -> LinkStatus {
        LinkStatus {
            addr: PeerAddr::new(host, 1),
            state: LinkState::BackingOff,
            since: Instant::ZERO,
            requests: 0,
            failed_dials: 1,
            trouble,
            heartbeat_acknowledged: acknowledged,
        }
    }

    fn status(links: Vec<LinkStatus>, queues: Option<usize>, refusal: Option<&str>) -> Status {
        let addr = PeerAddr::new("ns", 1);
        Status {
            at: Instant::ZERO,
            client_id: "me".into(),
            links,
            topics: vec![TopicStatus {
                topic: "T".into(),
                queues,
                refusals: refusal.map(|why| (addr, why.into())).into_iter().collect(),
                lost_brokers: Vec::new(),
            }],
            groups: Vec::new(),
            counters: Counters::default(),
            timers: 0,
        }
    }

    #[test]
    fn who_waits_in_vain_is_told_what_for() {
        let verdict = |links, queues, refusal| {
            let servers = [PeerAddr::new("ns", 1)];
            connect_verdict(
                &status(links, queues, refusal),
                [Topic::from("T")].iter(),
                &servers,
            )
        };
        let refused = Some(LinkTrouble::Net(NetCause::Refused));
        let (up, broker) = (link("ns", None, false), link("broker", None, true));
        assert_eq!(verdict(vec![up.clone(), broker.clone()], Some(4), None), None);
        let table = [
            (
                vec![link("ns", refused, false)],
                None,
                "no name server answered in time: ns:1: connection refused; check --name-server",
            ),
            (
                vec![up.clone()],
                None,
                "no name server answered in time: ns:1: no answer; check --name-server",
            ),
            (
                vec![up.clone(), link("a", refused, false), link("b", None, false)],
                Some(4),
                "no broker of the topics answered in time: a:1: connection refused; b:1: no answer; are these addresses \
                 right from here? --address-map replaces them",
            ),
            (
                vec![up.clone()],
                Some(4),
                "no broker of the topics can be asked: ns:1 names no address of them",
            ),
        ];
        for (links, queues, text) in table {
            assert_eq!(
                verdict(links, queues, None),
                Some(Stop::CannotConnect(text.into()))
            );
        }
        // One of several topics is missing: the others being there is no consolation.
        for links in [vec![up.clone()], vec![up, broker]] {
            let text = r#"topic T is still unknown: ns:1 says "no route""#;
            assert_eq!(
                verdict(links, None, Some("no route")),
                Some(Stop::UnknownTopic(text.into()))
            );
        }
    }
}
