//! Outcomes as lines of JSON, one step each, to be read and compared without a broker.

use serde_json::{Value, json};

use super::run::Outcome;

/// Writes outcomes down.
#[must_use]
pub fn write(outcomes: &[Outcome]) -> String {
    let line = |outcome: &Outcome| {
        let line = json!({ "step": outcome.step, "sent": outcome.sent, "came": outcome.came });
        format!("{line}\n")
    };
    outcomes.iter().map(line).collect()
}

/// Reads what [`write()`] wrote.
///
/// # Errors
/// In words, with the number of the line that is not one of ours.
pub fn read(text: &str) -> Result<Vec<Outcome>, String> {
    let outcome = |(index, line): (usize, &str)| {
        let wrong = || format!("line {} is no outcome", index + 1);
        let value: Value = serde_json::from_str(line).map_err(|_| wrong())?;
        let text = |name: &str| value[name].as_str().map(str::to_owned).ok_or_else(wrong);
        Ok(Outcome {
            step: text("step")?,
            sent: text("sent")?,
            came: value["came"].as_array().cloned().ok_or_else(wrong)?,
        })
    };
    text.lines().enumerate().map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_reads_back() {
        let outcomes = [Outcome {
            step: "a: b".into(),
            sent: "c".into(),
            came: vec![json!({"code": 0}), json!("silence")],
        }];
        assert_eq!(read(&write(&outcomes)), Ok(outcomes.to_vec()));
        assert_eq!(read("{}"), Err("line 1 is no outcome".into()));
        assert!(read("nonsense").is_err());
    }
}
