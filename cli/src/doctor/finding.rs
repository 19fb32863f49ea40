use std::fmt;

use serde::Serialize;

/// Something that is wrong, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Which check found it. The names are stable.
    pub(crate) check: &'static str,
    /// What it is about: a member, a queue, a broker.
    pub(crate) about: String,
    /// What is wrong.
    pub(crate) finding: String,
    /// What to do.
    pub(crate) advice: String,
}

impl Finding {
    /// A finding of a check.
    pub(crate) fn new(
        check: &'static str,
        about: impl Into<String>,
        finding: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            check,
            about: about.into(),
            finding: finding.into(),
            advice: advice.into(),
        }
    }

    /// The line of `-o json`. The keys are stable.
    pub(crate) fn line<'a>(&'a self, group: &'a str) -> Line<'a> {
        Line {
            group,
            check: self.check,
            about: &self.about,
            finding: &self.finding,
            advice: &self.advice,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            check,
            about,
            finding,
            advice,
        } = self;
        write!(f, "{check}: {about} {finding}; {advice}")
    }
}

/// A finding for programs.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    group: &'a str,
    check: &'static str,
    about: &'a str,
    finding: &'a str,
    advice: &'a str,
}

/// Names in a row, only some of them if there are many.
pub(crate) fn some<T: fmt::Display>(names: impl IntoIterator<Item = T>) -> String {
    const MOST: usize = 5;
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let shown = names.get(..MOST.min(names.len())).unwrap_or_default().join(", ");
    match names.len().checked_sub(MOST) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        Some(_) | None => shown,
    }
}

/// What one check finds, without the advice.
#[cfg(test)]
pub(crate) fn found(
    check: fn(&super::evidence::Evidence, &mut Vec<Finding>),
    evidence: &super::evidence::Evidence,
) -> Vec<String> {
    let mut findings = Vec::new();
    check(evidence, &mut findings);
    findings
        .iter()
        .map(|finding| format!("{}: {} {}", finding.check, finding.about, finding.finding))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finding_is_one_line() {
        let finding = Finding::new("owner", "orders", "has queues of nobody", "start a member");
        assert_eq!(
            finding.to_string(),
            "owner: orders has queues of nobody; start a member"
        );
        let want = json!({"group": "G", "check": "owner", "about": "orders", "finding": "has queues of nobody",
                          "advice": "start a member"});
        assert_eq!(serde_json::to_value(finding.line("G")).unwrap(), want);
    }

    #[test]
    fn of_many_names_some_are_shown() {
        assert_eq!(some(["a"; 5]), "a, a, a, a, a");
        assert_eq!(some(0..7), "0, 1, 2, 3, 4 and 2 more");
        assert_eq!(some::<&str>([]), "");
    }
}
