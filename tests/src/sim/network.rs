//! Links between processes and nodes: when bytes arrive, in what pieces, and whether they do.
//!
//! A link behaves as TCP does: what arrives does so in order, whole frames or parts of them; a cut holds bytes
//! back until it is mended (they were sent again) or for ever; different links overtake each other freely.
//!
//! ```text
//!  dialled ──reaches the node──► accepted ──reaches the member──► up ──either side closes──► gone
//!     └── refused (node down), or no answer (cut): the member gives up
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use rocketmq_consumer_core::event::NetCause;
use rocketmq_consumer_core::ids::ConnId;
use rocketmq_consumer_core::time::Instant;

use super::dice::Dice;
use super::seen::{Ask, Life, MemberId, NodeNo, QueueNo};

/// How the network of a world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// The shortest way, one way.
    pub latency: Duration,
    /// What may come on top, drawn for each piece.
    pub jitter: Duration,
    /// Bytes per second and direction of a link; 0 means no limit.
    pub bytes_per_second: u64,
    /// In how many of 1000 cases a frame arrives in two pieces.
    pub halves_per_mille: u64,
    /// How long the second piece may take.
    pub half_gap: Duration,
    /// Of such second pieces, how many of 100 never arrive.
    pub lost_halves_percent: u64,
}

impl Weather {
    /// One millisecond each way, and nothing else.
    pub const FINE: Self = Self {
        latency: Duration::from_millis(1),
        jitter: Duration::ZERO,
        bytes_per_second: 0,
        halves_per_mille: 0,
        half_gap: Duration::ZERO,
        lost_halves_percent: 0,
    };
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From a member to a node.
    ToNode,
    /// From a node to a member.
    ToMember,
}

/// The name of a link: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkNo(pub(crate) u32);

impl LinkNo {
    /// How the cluster calls it.
    pub(crate) const fn at_node(self) -> ConnId {
        ConnId {
            slot: self.0,
            generation: 0,
        }
    }

    pub(crate) const fn from_node(conn: ConnId) -> Self {
        Self(conn.slot)
    }
}

/// Something under way.
#[derive(Debug)]
pub(crate) enum Parcel {
    /// The node has accepted.
    Accepted,
    /// Nobody listens there.
    Refused,
    /// Bytes, and the frame that is complete with them, if one is.
    Bytes { piece: Bytes, frame: Option<Bytes> },
    /// The other side has closed.
    End(NetCause),
}

/// One direction of a link.
#[derive(Debug, Default)]
struct Lane {
    /// When the last piece so far arrives.
    free_at: Instant,
    parcels: VecDeque<Parcel>,
    /// Arrivals that fell due while the lane was cut.
    owed: u32,
    cut: bool,
    /// A piece was lost for ever: nothing behind it arrives either.
    stuck: bool,
}

/// One connection, from its dial to its end.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) member: MemberId,
    pub(crate) life: Life,
    pub(crate) conn: ConnId,
    pub(crate) node: NodeNo,
    /// The member counts on it.
    pub(crate) at_member: End,
    /// The node does.
    pub(crate) at_node: End,
    up: Lane,
    down: Lane,
    /// Requests that were written and not answered.
    pub(crate) pending: Vec<Unanswered>,
    /// Bytes the member has handed over and not been told about.
    pub(crate) unreported: u32,
}

/// A request that was written and not answered.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    /// Its number.
    pub(crate) opaque: i32,
    pub(crate) ask: Ask,
    /// The queues it asks to lock.
    pub(crate) locks: Vec<QueueNo>,
    /// When it was written.
    pub(crate) at: Instant,
}

/// What one end of a link knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Not yet anything.
    Opening,
    Open,
    Gone,
}

impl Link {
    const fn lane(&mut self, way: Way) -> &mut Lane {
        match way {
            Way::ToNode => &mut self.up,
            Way::ToMember => &mut self.down,
        }
    }

    /// Whether what the member writes leaves its buffers.
    pub(crate) const fn writes_pass(&self) -> bool {
        !self.up.cut && !self.up.stuck
    }
}

/// All links of a world, and where the network is cut.
#[derive(Debug)]
pub(crate) struct Network {
    links: Vec<Link>,
    weather: Weather,
    dice: Dice,
    cuts: BTreeSet<(MemberId, NodeNo, Way)>,
}

/// That a lane will bring its next parcel at some time.
pub(crate) type Arrival = (Instant, LinkNo, Way);

impl Network {
    pub(crate) const fn new(weather: Weather, dice: Dice) -> Self {
        Self {
            links: Vec::new(),
            weather,
            dice,
            cuts: BTreeSet::new(),
        }
    }

    pub(crate) const fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    pub(crate) fn link(&mut self, link: LinkNo) -> &mut Link {
        &mut self.links[link.0 as usize]
    }

    /// A member dials. The dial itself arrives at the node by [`Network::arrive`] as an `Accepted`.
    pub(crate) fn dial(
        &mut self,
        now: Instant,
        member: MemberId,
        life: Life,
        conn: ConnId,
        node: NodeNo,
    ) -> (LinkNo, Option<Arrival>) {
        let lane = |cut| Lane {
            cut,
            ..Lane::default()
        };
        let is_cut = |way| self.cuts.contains(&(member, node, way));
        let no = LinkNo(u32::try_from(self.links.len()).expect("a world dials less than 2^32 times"));
        self.links.push(Link {
            member,
            life,
            conn,
            node,
            at_member: End::Opening,
            at_node: End::Opening,
            up: lane(is_cut(Way::ToNode)),
            down: lane(is_cut(Way::ToMember)),
            pending: Vec::new(),
            unreported: 0,
        });
        (no, self.put(now, no, Way::ToNode, Parcel::Accepted))
    }

    /// Sends a whole frame, perhaps in two pieces.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        link: LinkNo,
        way: Way,
        frame: Bytes,
    ) -> [Option<Arrival>; 2] {
        let halves = self.weather.halves_per_mille;
        if halves == 0 || frame.len() < 2 || self.dice.number(0..1000) >= halves {
            let piece = frame.clone();
            let frame = Some(frame);
            return [self.put(now, link, way, Parcel::Bytes { piece, frame }), None];
        }
        let cut = self.dice.index(1..frame.len());
        let (piece, rest) = (frame.slice(..cut), frame.slice(cut..));
        let first = self.put(now, link, way, Parcel::Bytes { piece, frame: None });
        let is_lost = self.dice.chance(self.weather.lost_halves_percent);
        let gap = self.dice.time(Duration::ZERO..self.weather.half_gap);
        let lane = self.link(link).lane(way);
        lane.free_at = lane.free_at + gap;
        lane.stuck |= is_lost;
        let second = Parcel::Bytes {
            piece: rest,
            frame: Some(frame),
        };
        [first, self.put(now, link, way, second)]
    }

    /// Sends anything else. `None` if it will never arrive.
    pub(crate) fn put(&mut self, now: Instant, link: LinkNo, way: Way, parcel: Parcel) -> Option<Arrival> {
        let Weather {
            latency,
            jitter,
            bytes_per_second,
            ..
        } = self.weather;
        let jitter = self.dice.time(Duration::ZERO..jitter);
        let len = match &parcel {
            Parcel::Bytes { piece, .. } => piece.len() as u64,
            Parcel::Accepted | Parcel::Refused | Parcel::End(_) => 0,
        };
        let takes = (len * 1_000_000).checked_div(bytes_per_second).unwrap_or(0);
        let lane = self.link(link).lane(way);
        if lane.stuck {
            return None;
        }
        let starts = lane.free_at.max(now + latency + jitter);
        lane.free_at = starts + Duration::from_micros(takes);
        lane.parcels.push_back(parcel);
        Some((lane.free_at, link, way))
    }

    /// An arrival has fallen due: the parcel, unless the lane holds it back.
    pub(crate) fn arrive(&mut self, link: LinkNo, way: Way) -> Option<Parcel> {
        let lane = self.link(link).lane(way);
        if lane.cut {
            lane.owed += 1;
            return None;
        }
        lane.parcels.pop_front()
    }

    /// Cuts the way between a member and a node; later dials too.
    pub(crate) fn cut(&mut self, member: MemberId, node: NodeNo, way: Way) {
        self.cuts.insert((member, node, way));
        for link in &mut self.links {
            if (link.member, link.node) == (member, node) {
                link.lane(way).cut = true;
            }
        }
    }

    /// Mends the way again. What was held back arrives now, in order.
    pub(crate) fn mend(&mut self, now: Instant, member: MemberId, node: NodeNo, way: Way) -> Vec<Arrival> {
        self.cuts.remove(&(member, node, way));
        let latency = self.weather.latency;
        let mut arrivals = Vec::new();
        for (index, link) in (0..).zip(&mut self.links) {
            if (link.member, link.node) != (member, node) {
                continue;
            }
            let lane = link.lane(way);
            lane.cut = false;
            let owed = std::mem::take(&mut lane.owed);
            arrivals.extend((0..owed).map(|_| (now + latency, LinkNo(index), way)));
        }
        arrivals
    }

    /// Mends everything. Links that lost a piece for ever are returned: they must be broken.
    pub(crate) fn mend_all(&mut self, now: Instant) -> (Vec<Arrival>, Vec<LinkNo>) {
        let cuts: Vec<_> = self.cuts.iter().copied().collect();
        let mut arrivals = Vec::new();
        for (member, node, way) in cuts {
            arrivals.append(&mut self.mend(now, member, node, way));
        }
        let is_stuck = |link: &Link| link.up.stuck || link.down.stuck;
        let is_live = |link: &Link| link.at_member != End::Gone || link.at_node != End::Gone;
        let stuck = (0..).map(LinkNo).zip(&self.links);
        let stuck = stuck.filter(|(_, link)| is_stuck(link) && is_live(link));
        (arrivals, stuck.map(|(no, _)| no).collect())
    }

    /// Links that one of the two ends still counts on, between these two if given.
    pub(crate) fn live(
        &self,
        member: Option<MemberId>,
        node: Option<NodeNo>,
    ) -> impl Iterator<Item = LinkNo> + '_ {
        let is_meant = move |link: &Link| {
            (link.at_member != End::Gone || link.at_node != End::Gone)
                && member.is_none_or(|member| member == link.member)
                && node.is_none_or(|node| node == link.node)
        };
        let links = (0..).map(LinkNo).zip(&self.links);
        links.filter(move |(_, link)| is_meant(link)).map(|(no, _)| no)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: MemberId = MemberId(0);
    const NODE: NodeNo = NodeNo(0);
    const CONN: ConnId = ConnId {
        slot: 0,
        generation: 0,
    };

    fn network(weather: Weather) -> (Network, LinkNo) {
        let mut network = Network::new(weather, Dice::new(1));
        let (link, arrival) = network.dial(Instant::ZERO, ME, Life(0), CONN, NODE);
        let arrives_at = arrival.map(|(at, ..)| at);
        assert!(arrives_at >= Some(Instant::ZERO + weather.latency));
        assert!(matches!(
            network.arrive(link, Way::ToNode),
            Some(Parcel::Accepted)
        ));
        (network, link)
    }

    fn piece(parcel: Option<Parcel>) -> Bytes {
        match parcel {
            Some(Parcel::Bytes { piece, .. }) => piece,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_link_keeps_its_order_whatever_the_jitter() {
        let jitter = Duration::from_millis(50);
        let (mut network, link) = network(Weather {
            jitter,
            ..Weather::FINE
        });
        let mut last = Instant::ZERO;
        for number in 0..100_u8 {
            let frame = Bytes::copy_from_slice(&[number]);
            let [Some((at, ..)), None] = network.send(Instant::ZERO, link, Way::ToNode, frame) else {
                panic!("one piece");
            };
            assert!(at >= last);
            last = at;
        }
        for number in 0..100_u8 {
            assert_eq!(piece(network.arrive(link, Way::ToNode))[..], [number]);
        }
    }

    #[test]
    fn a_cut_holds_back_and_mending_brings_everything_in_order() {
        let (mut network, link) = network(Weather::FINE);
        for frame in [b"a", b"b"] {
            network.send(Instant::ZERO, link, Way::ToMember, Bytes::from_static(frame));
        }
        network.cut(ME, NODE, Way::ToMember);
        // The first falls due while the way is cut, the second after it was mended and before the first was
        // sent again.
        assert!(network.arrive(link, Way::ToMember).is_none());
        let again = network.mend(Instant::ZERO, ME, NODE, Way::ToMember);
        assert_eq!(again.len(), 1);
        assert_eq!(&piece(network.arrive(link, Way::ToMember))[..], b"a");
        assert_eq!(&piece(network.arrive(link, Way::ToMember))[..], b"b");
    }

    #[test]
    fn a_dial_across_a_cut_is_cut_too() {
        let (mut network, _) = network(Weather::FINE);
        network.cut(ME, NODE, Way::ToNode);
        let (link, _) = network.dial(Instant::ZERO, ME, Life(0), CONN, NODE);
        assert!(network.arrive(link, Way::ToNode).is_none());
        assert!(!network.link(link).writes_pass());
        assert_eq!(network.mend_all(Instant::ZERO).0.len(), 1);
    }

    #[test]
    fn a_frame_in_two_pieces_is_whole_with_the_second() {
        let (mut network, link) = network(Weather {
            halves_per_mille: 1000,
            half_gap: Duration::from_secs(1),
            ..Weather::FINE
        });
        let frame = Bytes::from_static(b"0123456789");
        let [Some(_), Some(_)] = network.send(Instant::ZERO, link, Way::ToNode, frame.clone()) else {
            panic!("two pieces");
        };
        let first = piece(network.arrive(link, Way::ToNode));
        let Some(Parcel::Bytes {
            piece,
            frame: Some(whole),
        }) = network.arrive(link, Way::ToNode)
        else {
            panic!("the second piece completes the frame");
        };
        assert_eq!([&first[..], &piece[..]].concat(), whole);
        assert_eq!(whole, frame);
    }

    #[test]
    fn behind_a_lost_piece_nothing_arrives_and_the_link_is_named_for_breaking() {
        let (mut network, link) = network(Weather {
            halves_per_mille: 1000,
            lost_halves_percent: 100,
            ..Weather::FINE
        });
        let [Some(_), None] = network.send(Instant::ZERO, link, Way::ToNode, Bytes::from_static(b"0123"))
        else {
            panic!("one piece arrives");
        };
        assert!(network.arrive(link, Way::ToNode).is_some());
        let end = Parcel::End(NetCause::Reset);
        assert_eq!(network.put(Instant::ZERO, link, Way::ToNode, end), None);
        assert!(!network.link(link).writes_pass());
        // A later frame whose pieces would both have arrived fills no hole.
        network.set_weather(Weather {
            halves_per_mille: 1000,
            ..Weather::FINE
        });
        let later = network.send(Instant::ZERO, link, Way::ToNode, Bytes::from_static(b"4567"));
        assert_eq!(later, [None, None]);
        assert_eq!(network.mend_all(Instant::ZERO).1, [link]);
    }

    #[test]
    fn a_slow_link_takes_its_time() {
        let (mut network, link) = network(Weather {
            bytes_per_second: 1000,
            ..Weather::FINE
        });
        let frame = Bytes::from_static(&[0; 100]);
        let [Some((first, ..)), _] = network.send(Instant::ZERO, link, Way::ToNode, frame.clone()) else {
            panic!("one piece");
        };
        let [Some((second, ..)), _] = network.send(Instant::ZERO, link, Way::ToNode, frame) else {
            panic!("one piece");
        };
        assert_eq!((first.as_millis(), second.as_millis()), (101, 201));
    }
}
