use rocketmq_consumer_core::config::check_topic_name;
use rocketmq_consumer_core::ids::{QueueId, Topic};

use super::pace::Pace;
use super::recipe::{Recipe, flag_of};
use super::source::Source;
use crate::args::{PerSecond, ProduceArgs, ProduceOutput};
use crate::exit::Failure;

/// Everything `produce` was asked to do, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Where messages go.
    pub(crate) topic: Topic,
    /// Which of its queues they go to.
    pub(crate) choice: Choice,
    /// What they carry.
    pub(crate) recipe: Recipe,
    /// How fast they go.
    pub(crate) pace: Option<Pace>,
    /// What is written about them.
    pub(crate) output: ProduceOutput,
}

/// How a message's queue is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// In turn.
    InTurn,
    /// Always this one.
    Queue(QueueId),
    /// The one its key belongs to.
    ByKey,
}

impl Plan {
    /// Makes a plan of flags.
    ///
    /// # Errors
    /// Something makes no sense; nothing was contacted yet.
    pub(crate) fn new(args: &ProduceArgs) -> Result<Self, Failure> {
        check_topic_name(&args.topic)
            .map_err(|error| Failure::usage(format_args!("TOPIC: {}", error.why)))?;
        let mut properties = Vec::new();
        for property in &args.property {
            let (name, value) = (property.name.clone(), property.value.clone());
            if let Some(flag) = flag_of(&name) {
                return Err(Failure::usage(format_args!("--property {name}: use {flag}")));
            }
            properties.push((name, value));
        }
        let recipe = Recipe {
            tag: args.tag.clone(),
            key: args.key.clone(),
            delay_level: args.delay_level.map(u32::from),
            properties,
        };
        // Whatever no reader would get back shows before anything was sent.
        recipe
            .message(u64::MAX, "0".repeat(32), bytes::Bytes::new())
            .map_err(|error| Failure::usage(format_args!("--tag, --key or --property: {error}")))?;
        let choice = match args.queue {
            Some(id) => Choice::Queue(QueueId(id)),
            None if args.by_key => Choice::ByKey,
            None => Choice::InTurn,
        };
        Ok(Self {
            topic: args.topic.as_str().into(),
            choice,
            recipe,
            pace: args.rate.map(|PerSecond(rate)| Pace::new(rate)),
            output: args.output,
        })
    }
}

/// Opens the source of the bodies.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn source(args: &ProduceArgs) -> Result<Source, Failure> {
    let failed =
        |what: &dyn std::fmt::Display, error| Failure::failed(format_args!("cannot read {what}: {error}"));
    match (&args.file, args.count) {
        (_, Some(count)) => Ok(Source::numbers(count, args.size.unwrap_or(0))),
        (Some(path), None) if path.as_os_str() != "-" => {
            Source::file(path).map_err(|error| failed(&path.display(), error))
        }
        (_, None) => Source::stdin().map_err(|error| failed(&"standard input", error)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::exit::Exit;

    fn plan(args: &[&str]) -> Result<Plan, Failure> {
        let args = [&["rocketcat", "produce", "-n", "ns:1"], args].concat();
        let Command::Produce(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("produce");
        };
        Plan::new(&args)
    }

    #[test]
    fn every_flag_arrives() {
        let bare = plan(&["T"]).unwrap();
        assert_eq!((bare.choice, bare.recipe), (Choice::InTurn, Recipe::default()));
        let full = plan(&[
            "T",
            "--tag",
            "a",
            "--key",
            "k%n",
            "--by-key",
            "--property",
            "x=y=z",
            "--delay-level",
            "3",
        ])
        .unwrap();
        let recipe = Recipe {
            tag: Some("a".into()),
            key: Some("k%n".parse().unwrap()),
            delay_level: Some(3),
            properties: vec![("x".into(), "y=z".into())],
        };
        assert_eq!((full.choice, full.recipe), (Choice::ByKey, recipe));
        assert_eq!(
            plan(&["T", "--queue", "2"]).unwrap().choice,
            Choice::Queue(QueueId(2))
        );
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error() {
        let long = "x".repeat(40_000);
        let table: [(&[&str], &str); 4] = [
            (&["no topic"], "TOPIC: the topic \"no topic\" contains ' '"),
            (&["T", "--property", "TAGS=a"], "--property TAGS: use --tag"),
            (&["T", "--tag", "a\u{2}b"], "--tag, --key or --property: "),
            (&["T", "--tag", &long], "--tag, --key or --property: "),
        ];
        for (args, part) in table {
            let failure = plan(args).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            let message = failure.message.unwrap();
            assert!(message.starts_with(part), "{message}");
        }
    }
}
