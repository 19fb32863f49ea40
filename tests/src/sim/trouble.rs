//! Kinds of what can go wrong in a drawn world, and sets of them by name.

use std::fmt;
use std::str::FromStr;

/// A kind of trouble that a seed switches on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Trouble {
    /// Connections break.
    Disconnect,
    /// Nothing passes one way or both for a while.
    Cut,
    /// The network is slow, and halves of frames arrive late.
    Weather,
    /// A process stands still.
    Stall,
    /// A process is killed and comes back.
    Crash,
    /// A process leaves in order and comes back.
    Leave,
    /// A broker goes down and forgets what it has not flushed.
    BrokerCrash,
    /// A name server goes down.
    NameServer,
    /// A master goes down while its slaves are behind.
    Failover,
    /// Requests or their answers are lost, or come twice.
    LostAnswer,
    /// Requests or their answers are late.
    LateAnswer,
    /// Brokers refuse.
    Refusal,
    /// Notifications are lost, doubled, late, or have no cause.
    Notification,
    /// Queue counts grow and shrink.
    Queues,
    /// What may be read is changed.
    Permissions,
    /// A broker joins the cluster only later.
    Joining,
    /// A name server tells old routes.
    StaleRoutes,
    /// Wall clocks jump.
    Clocks,
    /// Handlers fail, panic, hang and are slow.
    Handlers,
    /// Members that behave as Java's client does, beside ours.
    Java,
    /// Two processes under one client id.
    Twins,
    /// Members of one group subscribe differently.
    Subscriptions,
    /// Clients hold a second group, which leaves and comes back on its own.
    Groups,
    /// An operator resets a group.
    Reset,
    /// A broker comes back with offsets of an older file.
    OldOffsets,
    /// Members consume in order, under queue locks that brokers may lose.
    Orderly,
    /// Members of a group get everything, each of them, and keep their offsets on disks that have faults.
    Broadcasting,
    /// Applications pause and resume, and change how much flows.
    Flow,
    /// Applications go on elsewhere in a queue.
    Seek,
}

impl Trouble {
    /// Every kind.
    pub const ALL: [Self; 29] = [
        Self::Disconnect,
        Self::Cut,
        Self::Weather,
        Self::Stall,
        Self::Crash,
        Self::Leave,
        Self::BrokerCrash,
        Self::NameServer,
        Self::Failover,
        Self::LostAnswer,
        Self::LateAnswer,
        Self::Refusal,
        Self::Notification,
        Self::Queues,
        Self::Permissions,
        Self::Joining,
        Self::StaleRoutes,
        Self::Clocks,
        Self::Handlers,
        Self::Java,
        Self::Twins,
        Self::Subscriptions,
        Self::Groups,
        Self::Reset,
        Self::OldOffsets,
        Self::Orderly,
        Self::Broadcasting,
        Self::Flow,
        Self::Seek,
    ];

    /// Its name, as a command line has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disconnect => "disconnect",
            Self::Cut => "cut",
            Self::Weather => "weather",
            Self::Stall => "stall",
            Self::Crash => "crash",
            Self::Leave => "leave",
            Self::BrokerCrash => "broker-crash",
            Self::NameServer => "name-server",
            Self::Failover => "slaves",
            Self::LostAnswer => "lost-answers",
            Self::LateAnswer => "late-answers",
            Self::Refusal => "refusals",
            Self::Notification => "notifications",
            Self::Queues => "queues",
            Self::Permissions => "permissions",
            Self::Joining => "joining",
            Self::StaleRoutes => "routes",
            Self::Clocks => "clock",
            Self::Handlers => "handlers",
            Self::Java => "java",
            Self::Twins => "twins",
            Self::Subscriptions => "subscriptions",
            Self::Groups => "groups",
            Self::Reset => "resets",
            Self::OldOffsets => "old-offsets",
            Self::Orderly => "orderly",
            Self::Broadcasting => "broadcasting",
            Self::Flow => "flow",
            Self::Seek => "seeks",
        }
    }

    /// Whether it is drawn from the common hat of what is done to a world at a time. The others are how its members
    /// are, and what follows from that.
    pub(crate) const fn is_done(self) -> bool {
        match self {
            Self::Java
            | Self::Twins
            | Self::Subscriptions
            | Self::Groups
            | Self::Orderly
            | Self::Broadcasting
            | Self::Flow
            | Self::Seek => false,
            Self::Disconnect
            | Self::Cut
            | Self::Weather
            | Self::Stall
            | Self::Crash
            | Self::Leave
            | Self::BrokerCrash
            | Self::NameServer
            | Self::Failover
            | Self::LostAnswer
            | Self::LateAnswer
            | Self::Refusal
            | Self::Notification
            | Self::Queues
            | Self::Permissions
            | Self::Joining
            | Self::StaleRoutes
            | Self::Clocks
            | Self::Handlers
            | Self::Reset
            | Self::OldOffsets => true,
        }
    }

    const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// Which kinds of trouble may be drawn.
///
/// Written as names with commas between them: kinds, families of kinds, `all` and `none`.
///
/// ```
/// use rocketmq_consumer_testing::sim::trouble::Troubles;
///
/// let some: Troubles = "network,crash".parse()?;
/// assert_eq!(some.to_string(), "disconnect,cut,weather,crash");
/// # Ok::<(), rocketmq_consumer_testing::sim::trouble::UnknownTrouble>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Troubles(u64);

/// Names for several kinds at once.
const FAMILIES: [(&str, Troubles); 6] = [
    ("all", Troubles::ALL),
    ("none", Troubles::NONE),
    (
        "network",
        Troubles::NONE
            .with(Trouble::Disconnect)
            .with(Trouble::Cut)
            .with(Trouble::Weather),
    ),
    (
        "members",
        Troubles::NONE
            .with(Trouble::Stall)
            .with(Trouble::Crash)
            .with(Trouble::Leave),
    ),
    (
        "broker",
        Troubles::NONE
            .with(Trouble::BrokerCrash)
            .with(Trouble::NameServer)
            .with(Trouble::Failover),
    ),
    (
        "answers",
        Troubles::NONE
            .with(Trouble::LostAnswer)
            .with(Trouble::LateAnswer)
            .with(Trouble::Refusal),
    ),
];

impl Troubles {
    /// No trouble at all.
    pub const NONE: Self = Self(0);

    /// Every kind: what a seed means when nothing else is said.
    pub const ALL: Self = Self((1 << Trouble::ALL.len()) - 1);

    /// One kind more.
    #[must_use]
    pub const fn with(self, trouble: Trouble) -> Self {
        Self(self.0 | trouble.bit())
    }

    /// Whether a kind may be drawn.
    #[must_use]
    pub const fn has(self, trouble: Trouble) -> bool {
        self.0 & trouble.bit() != 0
    }

    /// The kinds, in order.
    pub fn kinds(self) -> impl Iterator<Item = Trouble> {
        Trouble::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

impl fmt::Display for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        if *self == Self::NONE {
            return f.write_str("none");
        }
        for (index, kind) in self.kinds().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", kind.name())?;
        }
        Ok(())
    }
}

impl FromStr for Troubles {
    type Err = UnknownTrouble;

    fn from_str(text: &str) -> Result<Self, UnknownTrouble> {
        let mut set = 0;
        for name in text.split(',').map(str::trim) {
            let family = FAMILIES.iter().find(|(known, _)| *known == name);
            let kind = Trouble::ALL.iter().find(|kind| kind.name() == name);
            set |= match (family, kind) {
                (Some((_, family)), _) => family.0,
                (None, Some(kind)) => kind.bit(),
                (None, None) => return Err(UnknownTrouble { name: name.into() }),
            };
        }
        Ok(Self(set))
    }
}

/// A name that stands for no kind of trouble; shown with those that do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTrouble {
    /// The name.
    pub name: String,
}

impl fmt::Display for UnknownTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no kind of fault; known are", self.name)?;
        for kind in Trouble::ALL {
            write!(f, " {}", kind.name())?;
        }
        f.write_str("; families are")?;
        for (name, _) in FAMILIES {
            write!(f, " {name}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownTrouble {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_reads_what_it_writes() {
        let sets = [
            ("all", "all"),
            ("none", "none"),
            ("broker, twins", "broker-crash,name-server,slaves,twins"),
            ("members,crash", "stall,crash,leave"),
            ("none,java", "java"),
        ];
        for (text, shown) in sets {
            let set: Troubles = text.parse().unwrap();
            assert_eq!(set.to_string(), shown);
            assert_eq!(shown.parse(), Ok(set));
        }
    }

    #[test]
    fn every_kind_has_a_bit_and_a_name_of_its_own() {
        for (index, kind) in Trouble::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            let alone: Troubles = kind.name().parse().unwrap();
            assert_eq!(alone.kinds().collect::<Vec<_>>(), [kind]);
        }
        assert_eq!(Troubles::ALL.kinds().count(), Trouble::ALL.len());
    }

    #[test]
    fn an_unknown_name_is_shown_with_the_known_ones() {
        for text in ["", "crash,", "CRASH", "moon"] {
            assert!(text.parse::<Troubles>().is_err(), "{text}");
        }
        let words = "crash,moon".parse::<Troubles>().unwrap_err().to_string();
        for part in ["\"moon\"", " crash ", " network "] {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
