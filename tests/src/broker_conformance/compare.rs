//! What two runs say differently.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::run::Outcome;

/// A difference that is known, wanted or harmless, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// A name for tables.
    pub name: &'static str,
    /// Why it is left.
    pub why: &'static str,
    /// How titles of the steps concerned begin.
    pub steps: &'static [&'static str],
    /// How paths of the values concerned begin, for example `0/ext/msgId`.
    pub paths: &'static [&'static str],
}

impl Known {
    fn covers(&self, difference: &Difference) -> bool {
        let is_here = |path: &&str| difference.path.starts_with(path);
        let is_now = |step: &&str| difference.step.starts_with(step);
        self.steps.iter().any(is_now) && self.paths.iter().any(is_here)
    }
}

/// One value that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The step's title.
    pub step: String,
    /// Where in what came: number of the frame, then names of members.
    pub path: String,
    /// What the reference says; `None` when it has no such value.
    pub reference: Option<Value>,
    /// What the other says.
    pub other: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".into(), Value::to_string);
        write!(
            f,
            "{} [{}]\n    reference: {}\n    other:     {}",
            self.step,
            self.path,
            show(&self.reference),
            show(&self.other)
        )
    }
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// What was compared, by chapter.
    pub chapters: BTreeMap<String, Count>,
    /// Differences that no [`Known`] covers.
    pub unknown: Vec<Difference>,
    /// The known differences that were met, and how many values each covered.
    pub met: BTreeMap<&'static str, usize>,
}

/// How much of something was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Steps of the reference.
    pub steps: usize,
    /// Frames in them.
    pub frames: usize,
    /// Single values in those.
    pub values: usize,
    /// Of these, how many differ without being known to.
    pub differ: usize,
}

impl Report {
    /// All chapters together.
    #[must_use]
    pub fn total(&self) -> Count {
        let add = |sum: Count, one: &Count| Count {
            steps: sum.steps + one.steps,
            frames: sum.frames + one.frames,
            values: sum.values + one.values,
            differ: sum.differ + one.differ,
        };
        self.chapters.values().fold(Count::default(), add)
    }

    fn chapter(&mut self, step: &str) -> &mut Count {
        let chapter = step.split_once(':').map_or(step, |(chapter, _)| chapter);
        self.chapters.entry(chapter.to_owned()).or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.unknown {
            writeln!(f, "{difference}")?;
        }
        writeln!(
            f,
            "{:<12}{:>8}{:>8}{:>8}{:>8}",
            "chapter", "steps", "frames", "values", "differ"
        )?;
        let total = self.total();
        for (chapter, count) in self
            .chapters
            .iter()
            .map(|(name, count)| (name.as_str(), count))
            .chain([("all", &total)])
        {
            let Count {
                steps,
                frames,
                values,
                differ,
            } = count;
            writeln!(f, "{chapter:<12}{steps:>8}{frames:>8}{values:>8}{differ:>8}")?;
        }
        for (name, count) in &self.met {
            writeln!(f, "known: {name}, {count} values")?;
        }
        Ok(())
    }
}

/// Compares two runs of the same script.
#[must_use]
pub fn compare(reference: &[Outcome], other: &[Outcome], known: &[Known]) -> Report {
    let mut report = Report::default();
    let mut found = Vec::new();
    let by_step: BTreeMap<&str, &Outcome> = other.iter().map(|one| (one.step.as_str(), one)).collect();
    for want in reference {
        let mut values = 0;
        let mut at = Place {
            step: &want.step,
            found: &mut found,
            values: &mut values,
        };
        match by_step.get(want.step.as_str()) {
            Some(got) => at.list("", &want.came, &got.came),
            None => at.differ("step", Some(&want.step.as_str().into()), None),
        }
        let chapter = report.chapter(&want.step);
        chapter.steps += 1;
        chapter.frames += want.came.len();
        chapter.values += values;
    }
    let steps: BTreeSet<&str> = reference.iter().map(|one| one.step.as_str()).collect();
    for extra in other.iter().filter(|one| !steps.contains(one.step.as_str())) {
        found.push(Difference {
            step: extra.step.clone(),
            path: "step".into(),
            reference: None,
            other: Some(extra.step.as_str().into()),
        });
    }
    for difference in found {
        match known.iter().find(|known| known.covers(&difference)) {
            Some(known) => *report.met.entry(known.name).or_default() += 1,
            None => {
                report.chapter(&difference.step).differ += 1;
                report.unknown.push(difference);
            }
        }
    }
    report
}

struct Place<'a> {
    step: &'a str,
    found: &'a mut Vec<Difference>,
    values: &'a mut usize,
}

impl Place<'_> {
    fn list(&mut self, path: &str, want: &[Value], got: &[Value]) {
        for index in 0..want.len().max(got.len()) {
            self.maybe(&below(path, &index.to_string()), want.get(index), got.get(index));
        }
    }

    /// Lists of names, in no order: one that is missing does not make its neighbours differ.
    fn names(&mut self, path: &str, want: &[Value], got: &[Value]) {
        *self.values += want.len();
        for name in want.iter().filter(|name| !is_as_often(name, want, got)) {
            self.differ(&below(path, &text(name)), Some(name), None);
        }
        for name in got.iter().filter(|name| !want.contains(name)) {
            self.differ(&below(path, &text(name)), None, Some(name));
        }
    }

    fn maybe(&mut self, path: &str, want: Option<&Value>, got: Option<&Value>) {
        match (want, got) {
            (Some(want), Some(got)) => self.both(path, want, got),
            (want, got) => self.differ(path, want, got),
        }
    }

    fn both(&mut self, path: &str, want: &Value, got: &Value) {
        match (want, got) {
            (Value::Object(want), Value::Object(got)) => {
                let names: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
                for name in names {
                    self.maybe(&below(path, name), want.get(name), got.get(name));
                }
            }
            (Value::Array(want), Value::Array(got)) if want.iter().chain(got).all(Value::is_string) => {
                self.names(path, want, got);
            }
            (Value::Array(want), Value::Array(got)) => self.list(path, want, got),
            _ => {
                *self.values += 1;
                if want != got {
                    self.differ(path, Some(want), Some(got));
                }
            }
        }
    }

    fn differ(&mut self, path: &str, want: Option<&Value>, got: Option<&Value>) {
        self.found.push(Difference {
            step: self.step.into(),
            path: path.into(),
            reference: want.cloned(),
            other: got.cloned(),
        });
    }
}

fn is_as_often(name: &Value, want: &[Value], got: &[Value]) -> bool {
    let count = |all: &[Value]| all.iter().filter(|one| *one == name).count();
    count(want) == count(got)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().into()
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.into()
    } else {
        format!("{path}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(step: &str, came: Value) -> Outcome {
        Outcome {
            step: step.into(),
            sent: String::new(),
            came: came.as_array().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn of_names_only_those_that_are_missing_or_new_differ() {
        let list = |names: &[&str]| [outcome("a: 1", json!([{ "list": names }]))];
        for (got, want) in [
            (["a", "b", "b"].as_slice(), [].as_slice()),
            (&["b", "b", "a"], &[]),
            (&["b", "b"], &["0/list/a"]),
            (&["a", "b"], &["0/list/b", "0/list/b"]),
            (&["a", "b", "b", "c"], &["0/list/c"]),
        ] {
            let report = compare(&list(&["a", "b", "b"]), &list(got), &[]);
            let paths: Vec<&str> = report.unknown.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(paths, want, "{got:?}");
        }
    }

    #[test]
    fn each_value_that_differs_is_named_by_its_path() {
        let reference = [
            outcome("a: 1", json!([{"code": 0, "ext": {"offset": "1", "more": "x"}}])),
            outcome("a: 2", json!(["silence"])),
            outcome("a: 3", json!([])),
        ];
        let other = [
            outcome(
                "a: 1",
                json!([{"code": 1, "ext": {"offset": "1", "new": "y"}}, "closed"]),
            ),
            outcome("a: 2", json!(["silence"])),
            outcome("a: 4", json!([])),
        ];
        let paths = |report: &Report| -> Vec<String> {
            report
                .unknown
                .iter()
                .map(|one| format!("{} {}", one.step, one.path))
                .collect()
        };
        let report = compare(&reference, &other, &[]);
        let all = [
            "a: 1 0/code",
            "a: 1 0/ext/more",
            "a: 1 0/ext/new",
            "a: 1 1",
            "a: 3 step",
            "a: 4 step",
        ];
        assert_eq!(paths(&report), all);
        let total = Count {
            steps: 3,
            frames: 2,
            values: 3,
            differ: 6,
        };
        assert_eq!(report.total(), total);

        let known = [Known {
            name: "n",
            why: "w",
            steps: &["a: 1"],
            paths: &["0/ext"],
        }];
        let report = compare(&reference, &other, &known);
        assert_eq!(
            paths(&report),
            ["a: 1 0/code", "a: 1 1", "a: 3 step", "a: 4 step"]
        );
        assert_eq!(report.met, [("n", 2)].into());
        assert_eq!(compare(&reference, &reference, &known).unknown, []);
    }
}
