use std::path::PathBuf;
use std::time::Duration;

use rocketmq_consumer_core::config::{
    ConfigError, ConsumeMode, FilterExpression, GroupConfig, OrderBy, check_group_name,
};
use rocketmq_consumer_core::ids::{ClientId, PeerAddr, Topic};
use rocketmq_consumer_core::rate::Rate;

use super::exec::Exec;
use crate::args::{ConsumeArgs, TopicArg};
use crate::exit::Failure;
use crate::output::Output;
use crate::settings::Settings;

/// Messages handled at once, unless told otherwise and without a command. A call only waits for its
/// write, and the more of them wait, the more go out together.
const CONCURRENCY: u32 = 256;

/// Messages in one call, likewise.
const BATCH: u32 = 32;

/// Everything `consume` was asked to do, checked.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Whom to ask for routes.
    pub(crate) name_servers: Vec<PeerAddr>,
    /// Addresses to reach brokers at: `(registered, reachable)`.
    pub(crate) address_map: Vec<(PeerAddr, PeerAddr)>,
    /// How long to wait for the cluster and the topics; `None` for ever.
    pub(crate) connect_timeout: Option<Duration>,
    /// The client id, if it was chosen.
    pub(crate) client_id: Option<ClientId>,
    /// What stands in the client id in place of the process number.
    pub(crate) instance: Option<String>,
    /// Where a group that broadcasts keeps its files, if not in the user's home.
    pub(crate) store_dir: Option<PathBuf>,
    /// The group with its subscriptions.
    pub(crate) group: GroupConfig,
    /// How many distinct records to print.
    pub(crate) count: Option<u64>,
    /// How long nothing may come.
    pub(crate) idle_exit: Option<Duration>,
    /// Whether to stop at the ends.
    pub(crate) end: bool,
    /// The command that handles messages.
    pub(crate) exec: Option<Exec>,
    /// How many tries of a message are answered with retry.
    pub(crate) fail_first: u32,
    /// How records are written.
    pub(crate) output: Output,
    /// Whether events are written.
    pub(crate) events: bool,
}

impl Plan {
    /// Makes a plan of flags and settings. `now_unix_ms` is what spans such as `-2h` count from.
    ///
    /// # Errors
    /// Something is missing or makes no sense; nothing was contacted yet.
    pub(crate) fn new(args: &ConsumeArgs, mut settings: Settings, now_unix_ms: i64) -> Result<Self, Failure> {
        let name_servers = settings.take_name_servers()?;
        let Settings {
            address_map,
            connect_timeout,
            consume: file,
            ..
        } = settings;
        let group = args
            .group
            .clone()
            .or(file.group)
            .ok_or_else(|| Failure::usage("no consumer group is given; add -g GROUP"))?;
        check_group_name(&group).map_err(refuse)?;
        let mut config = GroupConfig::new(group.into());
        for topic in &args.topics {
            config.subscribe(
                Topic::from(topic.topic.as_str()),
                filter(topic, args.sql.as_deref())?,
            );
        }
        let from = args.from.or(file.from).unwrap_or_default();
        config.set_start_at(from.start_at(now_unix_ms));
        config.set_illegal_offset(args.illegal_offset.or(file.illegal_offset).unwrap_or_default());
        config
            .set_model(args.model.or(file.model).unwrap_or_default())
            .set_damaged_store(args.damaged_store.or(file.damaged_store).unwrap_or_default());
        let has_command = args.exec.is_some();
        if args
            .exec
            .as_ref()
            .is_some_and(|command| command.trim().is_empty())
        {
            // The shell would do nothing and say "done" to every message.
            return Err(Failure::usage("--exec: the command must not be blank"));
        }
        // A call is answered as a whole, so it must not reach across the last record of the run; and a
        // command handles one message.
        let is_single = args.count.is_some() || args.end || has_command;
        if !has_command {
            config.set_concurrency(CONCURRENCY).set_handler_batch(BATCH);
        }
        let set = [
            (
                args.concurrency.or(file.concurrency),
                GroupConfig::set_concurrency as Setter,
            ),
            (args.batch.or(file.batch), GroupConfig::set_handler_batch),
            (args.pull_batch.or(file.pull_batch), GroupConfig::set_pull_batch),
            (
                args.max_reconsume.or(file.max_reconsume),
                GroupConfig::set_max_reconsume,
            ),
        ];
        for (value, set) in set {
            if let Some(value) = value {
                set(&mut config, value);
            }
        }
        if let Some(after) = args.stalled_after.or(file.stalled_after) {
            config.set_stalled_after(after);
        }
        config
            .set_rate_limit(args.rate.or(file.rate).map(Rate::per_second))
            .set_topic_count_max(file.topic_count_max)
            .set_topic_bytes_max(file.topic_bytes_max);
        let order = order(args, (file.orderly, file.orderly_by_key))?;
        if let Some(order) = order {
            config.set_mode(ConsumeMode::Orderly).set_order(order);
        } else if args.suspend_time.is_some() {
            return Err(Failure::usage(
                "--suspend-time: only with --orderly does a queue wait",
            ));
        }
        if let Some(pause) = args.suspend_time.or(file.suspend_time) {
            config.set_suspend_time(Duration::from_millis(pause));
        }
        config.set_strategy(args.strategy.clone().or(file.strategy).unwrap_or_default());
        config.check().map_err(refuse)?;
        if is_single {
            config.set_handler_batch(1);
        }
        // An instance of the file gives way to a client id of the command line.
        let instance = args
            .instance
            .clone()
            .or(file.instance)
            .filter(|_| args.client_id.is_none());
        Ok(Self {
            name_servers,
            address_map,
            connect_timeout,
            client_id: args.client_id.as_deref().map(ClientId::from),
            instance,
            store_dir: args.store_dir.clone().or(file.store_dir),
            group: config,
            count: args.count.map(Into::into),
            idle_exit: args.idle_exit,
            end: args.end,
            exec: args.exec.clone().map(Exec::new),
            fail_first: args.fail_first.unwrap_or(0),
            output: args.output.clone().or(file.output).unwrap_or_default(),
            events: args.events,
        })
    }

    /// Whether the messages of a queue are handled one after another.
    pub(crate) fn is_orderly(&self) -> bool {
        *self.group.mode() == ConsumeMode::Orderly
    }

    /// The topics that were asked for.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.group.subscriptions().iter().map(|(topic, _)| topic)
    }
}

/// What is wanted of a topic.
fn filter(topic: &TopicArg, sql: Option<&str>) -> Result<FilterExpression, Failure> {
    match (topic.expression.as_deref(), sql) {
        (Some(_), Some(_)) => Err(Failure::usage(format_args!(
            "--sql: topic {} has tags already; a topic has either tags or a condition",
            topic.topic
        ))),
        (None, Some(condition)) => Ok(FilterExpression::sql92(condition)),
        (tags, None) => Ok(tags.unwrap_or("*").into()),
    }
}

type Setter = fn(&mut GroupConfig, u32) -> &mut GroupConfig;

/// The usage error of a refused setting: it names the flag in place of the setter.
pub(crate) fn refuse(error: ConfigError) -> Failure {
    let flag = match error.key {
        "group" => "-g",
        "subscribe" => "TOPIC",
        "concurrency" => "--concurrency",
        "handler_batch" => "--batch",
        "pull_batch" => "--pull-batch",
        "max_reconsume" => "--max-reconsume",
        "mode" => "--orderly",
        "order" => "--orderly-by-key",
        "suspend_time" => "--suspend-time",
        "stalled_after" => "--stalled-after",
        "rate_limit" => "--rate",
        "topic_count_max" => "topic-count-max",
        "topic_bytes_max" => "topic-bytes-max",
        "client_id" => "--client-id",
        "instance" => "--instance",
        "store" => "--store-dir",
        "name_servers" => "-n",
        other => other,
    };
    Failure::usage(format_args!("{flag}: {}", error.why))
}

/// What keeps its order, if anything does. A flag counts more than what the file says of both, and a key's order is one kind of order.
fn order(
    args: &ConsumeArgs,
    (in_order, by_key): (Option<bool>, Option<bool>),
) -> Result<Option<OrderBy>, Failure> {
    let by_key = match (args.orderly_by_key, args.orderly) {
        (Some(true), Some(false)) => {
            return Err(Failure::usage("--orderly-by-key: not with --orderly=false"));
        }
        (Some(by_key), _) => by_key,
        (None, Some(false)) => false,
        (None, _) => by_key.unwrap_or(false),
    };
    if by_key {
        return Ok(Some(OrderBy::Key));
    }
    let is_orderly = args.orderly.or(in_order).unwrap_or(false);
    Ok(is_orderly.then_some(OrderBy::Queue))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use rocketmq_consumer_core::config::{DamagedStore, IllegalOffsetPolicy, MessageModel, StartAt};

    use super::*;
    use crate::args::{Cli, Command};
    use crate::exit::Exit;

    fn plan(args: &[&str]) -> Result<Plan, Failure> {
        let args = [&["rocketcat", "consume", "-n", "ns:1"], args].concat();
        let cli = Cli::try_parse_from(args).unwrap();
        let settings = Settings::gather(&cli.global)?;
        let Command::Consume(args) = cli.command else {
            panic!("consume");
        };
        Plan::new(&args, settings, 1_000)
    }

    #[test]
    fn defaults_are_those_of_the_library_where_a_command_works() {
        let mut want = GroupConfig::new("G".into());
        want.subscribe("T".into(), "*");
        assert_eq!(plan(&["T", "-g", "G", "--exec", "true"]).unwrap().group, want);
        want.set_concurrency(CONCURRENCY);
        assert_eq!(plan(&["T", "-g", "G", "-e"]).unwrap().group, want);
        want.set_handler_batch(BATCH);
        let plan = plan(&["T", "-g", "G"]).unwrap();
        assert_eq!(plan.group, want);
        assert_eq!(
            (plan.output, plan.fail_first, plan.count),
            (Output::Text, 0, None)
        );
    }

    #[test]
    fn every_flag_arrives() {
        let plan = plan(&[
            "T:a || b",
            "U",
            "-g",
            "G",
            "--from",
            "earliest",
            "-c",
            "9",
            "--concurrency",
            "3",
            "--pull-batch",
            "4",
            "--max-reconsume",
            "5",
            "--client-id",
            "me",
            "--fail-first",
            "2",
            "--batch",
            "8",
            "--illegal-offset",
            "hold",
            "--model",
            "broadcasting",
            "--store-dir",
            "d",
            "--damaged-store",
            "start-over",
            "--rate",
            "70",
        ])
        .unwrap();
        let group = &plan.group;
        assert_eq!(
            group.subscriptions(),
            [("T".into(), "a || b".into()), ("U".into(), "*".into())]
        );
        assert_eq!(
            (*group.concurrency(), *group.pull_batch(), group.max_reconsume()),
            (3, 4, 5)
        );
        assert_eq!(
            (plan.count, plan.fail_first, *group.start_at()),
            (Some(9), 2, StartAt::Earliest)
        );
        assert_eq!(*group.illegal_offset(), IllegalOffsetPolicy::Hold);
        assert_eq!(
            (*group.model(), *group.damaged_store(), plan.store_dir),
            (
                MessageModel::Broadcasting,
                DamagedStore::StartOver,
                Some("d".into())
            )
        );
        assert_eq!(*group.rate_limit(), Some(Rate::per_second(70)));
        assert_eq!(plan.client_id, Some("me".into()));
        assert_eq!(
            *group.handler_batch(),
            1,
            "a call must not reach across the ninth record"
        );
    }

    #[test]
    fn a_condition_holds_for_every_topic() {
        let plan = plan(&["T", "U", "-g", "G", "--sql", "a > 3"]).unwrap();
        let condition = FilterExpression::sql92("a > 3");
        assert_eq!(
            plan.group.subscriptions(),
            [("T".into(), condition.clone()), ("U".into(), condition)]
        );
    }

    #[test]
    fn what_the_file_says_counts_unless_a_flag_says_otherwise() {
        let text = "[consume]\ngroup = \"G\"\nillegal-offset = \"hold\"\nstalled-after = 5\n\
                    rate = 7\ntopic-count-max = 8\ntopic-bytes-max = 9\n";
        let path = std::env::temp_dir().join(format!("rocketcat-plan-{}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap();
        let secs = std::time::Duration::from_secs;
        for (flags, illegal, stalled, rate) in [
            (&[][..], IllegalOffsetPolicy::Hold, secs(5), 7),
            (
                &[
                    "--illegal-offset",
                    "latest",
                    "--stalled-after",
                    "6",
                    "--rate",
                    "10",
                ],
                IllegalOffsetPolicy::Latest,
                secs(6),
                10,
            ),
        ] {
            let plan = plan(&[&["T", "--config", file], flags].concat()).unwrap();
            let said = (*plan.group.illegal_offset(), *plan.group.stalled_after());
            assert_eq!(said, (illegal, stalled));
            assert_eq!(*plan.group.rate_limit(), Some(Rate::per_second(rate)));
            let of_topic = (*plan.group.topic_count_max(), *plan.group.topic_bytes_max());
            assert_eq!(of_topic, (Some(8), Some(9)));
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn order_is_asked_for_by_flag_or_file() {
        let path = std::env::temp_dir().join(format!("rocketcat-order-{}.toml", std::process::id()));
        std::fs::write(&path, "[consume]\norderly = true\nsuspend-time = 500\n").unwrap();
        let file = path.to_str().unwrap();
        let by_key = std::env::temp_dir().join(format!("rocketcat-keys-{}.toml", std::process::id()));
        std::fs::write(&by_key, "[consume]\norderly-by-key = true\n").unwrap();
        let keyed = by_key.to_str().unwrap();
        let (queue, key) = (Some(OrderBy::Queue), Some(OrderBy::Key));
        let table: [(&[&str], Option<OrderBy>, u64); 13] = [
            (&[], None, 1_000),
            (&["--orderly"], queue, 1_000),
            (&["--orderly", "--suspend-time", "20"], queue, 20),
            (&["--config", file], queue, 500),
            (&["--config", file, "--suspend-time=30", "--orderly"], queue, 30),
            (&["--config", file, "--orderly=false"], None, 500),
            (&["--orderly-by-key"], key, 1_000),
            (&["--orderly-by-key", "--suspend-time=20"], key, 20),
            (&["--orderly-by-key=false"], None, 1_000),
            (&["--config", file, "--orderly-by-key"], key, 500),
            (&["--config", keyed], key, 1_000),
            (
                &["--config", keyed, "--orderly", "--orderly-by-key=false"],
                queue,
                1_000,
            ),
            (&["--config", keyed, "--orderly=false"], None, 1_000),
        ];
        for (flags, order, pause) in table {
            let plan = plan(&[&["T", "-g", "G"], flags].concat()).unwrap();
            let said = plan.is_orderly().then(|| *plan.group.order());
            assert_eq!(
                (said, *plan.group.suspend_time()),
                (order, Duration::from_millis(pause)),
                "{flags:?}"
            );
        }
        let failure = plan(&["T", "-g", "G", "--orderly=false", "--orderly-by-key"]).unwrap_err();
        assert!(failure.message.unwrap().starts_with("--orderly-by-key: "));
        std::fs::remove_file(&by_key).unwrap();
        let failure = plan(&["T", "-g", "G", "--orderly", "--suspend-time", "9"]).unwrap_err();
        assert!(failure.message.unwrap().starts_with("--suspend-time: "));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_a_usage_error_that_names_the_flag() {
        let table: [(&[&str], &str); 12] = [
            (
                &["T", "U:a", "-g", "G", "--sql", "a > 3"],
                "--sql: topic U has tags",
            ),
            (
                &["T", "-g", "G", "--sql", " "],
                "TOPIC: topic T: the SQL condition is blank",
            ),
            (&["T"], "-g GROUP"),
            (&["T", "-g", "G", "--suspend-time", "50"], "--suspend-time: "),
            (&["T", "-g", "G", "--exec", " "], "--exec: "),
            (&["T", "-g", "a b"], "-g: "),
            (&["T", "-g", "DEFAULT_CONSUMER"], "-g: "),
            (&["no topic", "-g", "G"], "TOPIC: "),
            (&["T: ", "-g", "G"], "TOPIC: "),
            (
                &["T", "-g", "G", "--concurrency", "0"],
                "--concurrency: 0 is out of range, use 1 to 1000",
            ),
            (&["T", "-g", "G", "-c", "1", "--batch", "2000"], "--batch: "),
            (&["T", "-g", "G", "--rate", "0"], "--rate: 0 is out of range"),
        ];
        for (args, part) in table {
            let failure = plan(args).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            let message = failure.message.unwrap();
            assert!(message.contains(part), "{args:?}: {message}");
        }
    }
}
