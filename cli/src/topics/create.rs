//! `topics create`: makes a topic on every broker, or says what is there already.

use std::time::Duration;

use rocketmq_consumer_core::config::check_topic_name;
use rocketmq_consumer_core::ids::{BrokerName, Topic};
use rocketmq_consumer_core::wire::code::ResponseCode;
use rocketmq_consumer_core::wire::request::send::DEFAULT_TOPIC;
use rocketmq_consumer_core::wire::request::topics::{
    TopicConfig, TopicConfigRequest, TopicFilterType, UpdateTopicRequest,
};
use serde::Serialize;

use super::perm::Perm;
use crate::admin::{Consent, Master, masters, with_cluster};
use crate::args::{TableOutput, TopicsCreateArgs};
use crate::cluster::{Cluster, is_refused_with};
use crate::exit::{Exit, Failure};
use crate::output::{Lines, Table};
use crate::settings::Settings;
use crate::talk::{Level, Talk};

/// How long name servers may take to hear of a topic.
const ROUTE_LIMIT: Duration = Duration::from_secs(10);
/// The pause before one is asked again.
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the command.
///
/// # Errors
/// What makes no sense, whoever does not answer, and a topic that is there already with other settings.
pub(crate) fn run(args: &TopicsCreateArgs, settings: Settings, talk: Talk) -> Result<Exit, Failure> {
    check_topic_name(&args.name).map_err(|error| Failure::usage(format_args!("NAME: {}", error.why)))?;
    let consent = if args.update {
        Consent::of(args.yes, "replace settings", "")?
    } else {
        Consent::Given
    };
    with_cluster(settings, async |cluster| {
        create(args, cluster, consent, talk).await
    })
}

async fn create(
    args: &TopicsCreateArgs,
    cluster: &Cluster,
    consent: Consent,
    talk: Talk,
) -> Result<Exit, Failure> {
    let topic = Topic::from(args.name.as_str());
    let masters = chosen(masters(cluster, talk).await?, &args.broker)?;
    let mut plan = Vec::new();
    for master in masters {
        let there = config(cluster, &master, &topic).await?;
        let status = Status::of(args, there.as_ref());
        plan.push((master, there, status));
    }
    let other: Vec<_> = plan
        .iter()
        .filter(|(.., status)| *status == Status::Updated)
        .filter_map(|(master, there, _)| Some(format!("{}: {}", master.name, words(there.as_ref()?))))
        .collect();
    if !other.is_empty() {
        if !args.update {
            return Err(Failure::failed(format_args!(
                "topic {topic} is there already with other settings ({}); nothing is changed, --update replaces them",
                other.join("; ")
            )));
        }
        let about = format!("topic {topic} has now: {}\n", other.join("; "));
        let question = format!("Replace that by {} queues, {}?", args.queues, args.perm);
        consent.get(about, question).await?;
    }
    let mut rows = Vec::new();
    for (master, there, status) in plan {
        let now = match (status, there) {
            (Status::Unchanged, Some(there)) => there,
            (_, there) => make(args, cluster, &master, &topic, there).await?,
        };
        rows.push(Row::new(&master.name, now, status));
    }
    await_route(cluster, &topic, &rows, talk).await?;
    write(args, &rows)?;
    Ok(Exit::Done)
}

/// The masters that were named, or all of them.
fn chosen(masters: Vec<Master>, names: &[String]) -> Result<Vec<Master>, Failure> {
    for name in names {
        if !masters.iter().any(|master| master.name.as_str() == name) {
            let known: Vec<_> = masters.iter().map(|master| master.name.as_str()).collect();
            return Err(Failure::usage(format_args!(
                "--broker {name}: there is no such broker; known are {}",
                known.join(", ")
            )));
        }
    }
    let is_chosen =
        |master: &Master| names.is_empty() || names.iter().any(|name| master.name.as_str() == name);
    Ok(masters.into_iter().filter(is_chosen).collect())
}

async fn config(cluster: &Cluster, master: &Master, topic: &Topic) -> Result<Option<TopicConfig>, Failure> {
    let request = TopicConfigRequest { topic: topic.clone() };
    match cluster.ask(&master.addr, &request).await {
        Ok(config) => Ok(Some(config)),
        Err(error) if is_refused_with(&error, ResponseCode::TOPIC_NOT_EXIST) => Ok(None),
        Err(error) => Err(cluster
            .failure_of::<TopicConfigRequest>(&master.addr, &error)
            .await),
    }
}

/// Makes the topic and looks at what came of it. What no flag speaks of stays as it is.
async fn make(
    args: &TopicsCreateArgs,
    cluster: &Cluster,
    master: &Master,
    topic: &Topic,
    there: Option<TopicConfig>,
) -> Result<TopicConfig, Failure> {
    let queues = i32::try_from(args.queues).unwrap_or(i32::MAX);
    let there = there.as_ref();
    let request = UpdateTopicRequest {
        topic: topic.clone(),
        default_topic: DEFAULT_TOPIC.into(),
        read_queues: queues,
        write_queues: queues,
        perm: args.perm.bits(),
        filter_type: there
            .and_then(|there| there.filter_type)
            .unwrap_or(TopicFilterType::SingleTag),
        sys_flag: there.map_or(0, |there| there.sys_flag),
        order: there.is_some_and(|there| there.order),
        attributes: None,
    };
    cluster.demand(&master.addr, &request).await?;
    let now = config(cluster, master, topic).await?;
    now.filter(|now| is_as_asked(args, now)).ok_or_else(|| {
        Failure::failed(format_args!(
            "{} took the topic and does not show it as it should be; look again with `rocketcat topics {topic}`",
            master.name
        ))
    })
}

fn is_as_asked(args: &TopicsCreateArgs, config: &TopicConfig) -> bool {
    let queues = i64::from(args.queues);
    i64::from(config.read_queues) == queues
        && i64::from(config.write_queues) == queues
        && Perm::of_bits(config.perm) == args.perm
}

/// Waits until clients can find the topic on these brokers.
async fn await_route(cluster: &Cluster, topic: &Topic, rows: &[Row], talk: Talk) -> Result<(), Failure> {
    let looking = async {
        loop {
            let route = cluster.route(topic).await?.unwrap_or_default();
            let shows = |row: &Row| route.queues.iter().any(|data| data.broker.as_str() == row.broker);
            if rows.iter().all(shows) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    if let Ok(done) = tokio::time::timeout(ROUTE_LIMIT, looking).await {
        return done;
    }
    talk.say(
        Level::Warn,
        "the topic is made, but the name server does not show it everywhere yet; clients find it later",
    );
    Ok(())
}

/// What is done to a topic on a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Created,
    Unchanged,
    Updated,
}

impl Status {
    fn of(args: &TopicsCreateArgs, there: Option<&TopicConfig>) -> Self {
        match there {
            None => Self::Created,
            Some(there) if is_as_asked(args, there) => Self::Unchanged,
            Some(_) => Self::Updated,
        }
    }
}

fn words(config: &TopicConfig) -> String {
    let perm = Perm::of_bits(config.perm);
    if config.read_queues == config.write_queues {
        return format!("{} queues, {perm}", config.read_queues);
    }
    format!(
        "{} queues read, {} written, {perm}",
        config.read_queues, config.write_queues
    )
}

/// The topic on a broker; for programs, the keys are stable.
#[derive(Serialize)]
struct Row {
    topic: String,
    broker: String,
    read_queues: i32,
    write_queues: i32,
    perm: String,
    status: Status,
}

impl Row {
    fn new(broker: &BrokerName, config: TopicConfig, status: Status) -> Self {
        Self {
            topic: config.topic.to_string(),
            broker: broker.to_string(),
            read_queues: config.read_queues,
            write_queues: config.write_queues,
            perm: Perm::of_bits(config.perm).to_string(),
            status,
        }
    }
}

fn write(args: &TopicsCreateArgs, rows: &[Row]) -> Result<(), Failure> {
    let mut lines = Lines::stdout();
    match args.output {
        TableOutput::Json => rows.iter().try_for_each(|row| lines.json(row))?,
        TableOutput::Table => lines.text(&table(rows).to_string())?,
    }
    lines.finish()
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new()
        .text("BROKER")
        .number("QUEUES")
        .text("PERM")
        .text("STATUS");
    for row in rows {
        let status = match row.status {
            Status::Created => "created",
            Status::Unchanged => "unchanged",
            Status::Updated => "updated",
        };
        table.row([
            row.broker.clone(),
            row.read_queues.to_string(),
            row.perm.clone(),
            status.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser as _;
    use rocketmq_consumer_core::ids::PeerAddr;
    use serde_json::json;

    use super::*;
    use crate::args::{Cli, Command, TopicsCommand};

    fn args(more: &[&str]) -> TopicsCreateArgs {
        let args = [&["rocketcat", "topics", "create", "T", "--queues", "4"], more].concat();
        let Command::Topics(args) = Cli::try_parse_from(args).unwrap().command else {
            panic!("topics");
        };
        let Some(TopicsCommand::Create(args)) = args.command else {
            panic!("create");
        };
        args
    }

    fn there(read_queues: i32, write_queues: i32, perm: i32) -> TopicConfig {
        TopicConfig {
            attributes: BTreeMap::new(),
            order: false,
            perm,
            read_queues,
            filter_type: None,
            topic: "T".into(),
            sys_flag: 0,
            write_queues,
        }
    }

    #[test]
    fn only_other_settings_are_a_change() {
        let args = args(&[]);
        let status = |config: Option<TopicConfig>| Status::of(&args, config.as_ref());
        assert_eq!(status(None), Status::Created);
        assert_eq!(status(Some(there(4, 4, 6))), Status::Unchanged);
        assert_eq!(
            status(Some(there(4, 4, 7))),
            Status::Unchanged,
            "who may inherit is not asked"
        );
        for config in [there(4, 8, 6), there(8, 4, 6), there(4, 4, 4), there(-1, -1, 6)] {
            assert_eq!(status(Some(config)), Status::Updated);
        }
        assert_eq!(words(&there(8, 8, 6)), "8 queues, rw");
        assert_eq!(words(&there(8, 4, 2)), "8 queues read, 4 written, w");
    }

    #[test]
    fn a_broker_that_is_not_there_is_named() {
        let masters = ["a", "b"].map(|name| Master {
            name: name.into(),
            addr: PeerAddr::new(name, 1),
        });
        let names = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(masters.to_vec(), &names).map(|masters| masters.len())
        };
        assert_eq!((names(&[]), names(&["b"])), (Ok(2), Ok(1)));
        let refused = names(&["c"]).unwrap_err().message.unwrap();
        assert_eq!(refused, "--broker c: there is no such broker; known are a, b");
    }

    #[test]
    fn every_key_is_there() {
        let row = Row::new(&"a".into(), there(4, 4, 6), Status::Created);
        let want = json!({"topic": "T", "broker": "a", "read_queues": 4, "write_queues": 4, "perm": "rw",
                          "status": "created"});
        assert_eq!(serde_json::to_value(&row).unwrap(), want);
        assert_eq!(
            table(&[row]).to_string(),
            "BROKER  QUEUES  PERM  STATUS\na            4  rw    created\n"
        );
    }
}
