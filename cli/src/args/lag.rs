use std::time::Duration;

use clap::Args;

use super::TableOutput;
use crate::time_arg;

/// Flags of `lag`.
#[derive(Debug, Args)]
pub(crate) struct LagArgs {
    /// The consumer group
    #[arg(short, long)]
    pub(crate) group: String,
    /// Only this topic; may be given several times [default: all the group subscribes to or has consumed]
    #[arg(short, long, value_name = "TOPIC")]
    pub(crate) topic: Vec<String>,
    /// How the queues are written. json is an object a line with at, group, topic, broker, queue_id,
    /// max_offset, committed (null: nothing), lag, consumed_until and owner
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: TableOutput,
    /// Look again every two seconds or so many: in place on a terminal, else a block each time
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "2", value_parser = interval)]
    pub(crate) watch: Option<Duration>,
    /// End with exit code 3 when more than N messages are waiting in all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) fail_above: Option<u64>,
}

/// A pause that leaves a broker in peace.
fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let interval = time_arg::seconds(text)?;
    if interval < LEAST {
        return Err("give 0.1 seconds or more".into());
    }
    Ok(interval)
}
