//! A page about one world: what it was, who lived when, who owned what, what was done, how much waited.
//!
//! One file with its style and its drawing in it: it asks for nothing from anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rocketmq_consumer_core::ids::MessageQueue;
use rocketmq_consumer_core::time::Instant;
use rocketmq_consumer_testing::sim::plan::{Plan, Step};
use rocketmq_consumer_testing::sim::report::Report;
use rocketmq_consumer_testing::sim::seen::{Kind, MemberId};
use rocketmq_consumer_testing::sim::violation::Violation;

use super::film::{Shots, Span};

/// The width of the drawing, and of the names at its left.
const WIDTH: f64 = 1200.0;
const LEFT: f64 = 190.0;

/// The height of a row, of what is drawn into it, and of the lag.
const ROW: f64 = 18.0;
const BAR: f64 = 13.0;
const LAG: f64 = 120.0;

/// Colours that differ for most eyes, taken in turn (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999933",
];

const STYLE: &str = "body{font:14px system-ui,sans-serif;margin:2em auto;max-width:1250px;padding:0 1em;\
    color:#222;background:#fff}h1{font-size:1.4em}svg{width:100%;height:auto}text{font:11px system-ui,sans-serif;\
    fill:#444}text.head{font-weight:bold;font-size:12px}line.grid{stroke:#ddd}line.fault{stroke:#b58900;\
    stroke-opacity:.45}line.healed{stroke:#2a7f3f;stroke-width:2}line.broken{stroke:#c00;stroke-width:2}\
    polyline{fill:#0072b233;stroke:#0072b2}pre{background:#f4f4f4;padding:1em;overflow-x:auto}\
    .broken{border-left:4px solid #c00;padding-left:1em}";

/// The page, by its [`Display`](fmt::Display).
pub(super) struct Page<'a> {
    plan: &'a Plan,
    shots: &'a Shots,
    result: &'a Result<Report, Box<Violation>>,
}

impl<'a> Page<'a> {
    /// About a world that was drawn, filmed, and came to an end.
    pub(super) const fn new(
        plan: &'a Plan,
        shots: &'a Shots,
        result: &'a Result<Report, Box<Violation>>,
    ) -> Self {
        Self { plan, shots, result }
    }

    /// What was done to the world while it could be, repairs left out.
    fn faults(&self) -> impl Iterator<Item = (Instant, String)> {
        let end = self.shots.end.min(Instant::ZERO + self.plan.safety);
        self.plan.script.iter().filter_map(move |(at, step)| match step {
            Step::Fault(fault) if *at < end && !fault.is_repair() => Some((*at, format!("{fault:?}"))),
            Step::Fault(_) | Step::Produce(..) => None,
        })
    }

    fn member(&self, member: MemberId) -> String {
        let Some(plan) = self.plan.members.get(member.0 as usize) else {
            return format!("{member:?}");
        };
        let kind = match plan.kind {
            Kind::Ours => "",
            Kind::Java => " (Java-like)",
        };
        format!("{}{kind}", plan.client.client_id())
    }

    fn x(&self, at: Instant) -> f64 {
        let end = self.shots.end.as_micros().max(1) as f64;
        LEFT + (WIDTH - LEFT - 10.0) * (at.as_micros() as f64 / end)
    }

    fn drawing(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: BTreeSet<(&str, &MessageQueue)> = self
            .shots
            .ownerships
            .iter()
            .map(|span| (span.of.group.as_str(), &span.of.queue))
            .collect();
        let rows: BTreeMap<_, usize> = rows.into_iter().zip(0..).collect();
        let members = self.plan.members.len();
        let lives_at = 2.0 * ROW;
        let queues_at = lives_at + ROW * (members as f64 + 2.0);
        let lag_at = queues_at + ROW * (rows.len() as f64 + 2.0);
        let bottom = lag_at + LAG;

        writeln!(
            f,
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\">",
            bottom + 2.0 * ROW
        )?;
        self.grid(f, bottom)?;
        head(f, lives_at, "Members")?;
        for number in 0..members {
            let member = MemberId(u32::try_from(number).unwrap_or(u32::MAX));
            label(f, lives_at + ROW * number as f64, &self.member(member))?;
        }
        for span in &self.shots.lives {
            let top = lives_at + ROW * f64::from(span.of.0);
            self.bar(f, top, span, span.of)?;
        }
        head(f, queues_at, "Owners of queues")?;
        for ((group, queue), row) in &rows {
            label(f, queues_at + ROW * *row as f64, &format!("{group}: {queue}"))?;
        }
        for span in &self.shots.ownerships {
            let row = rows.get(&(span.of.group.as_str(), &span.of.queue));
            let top = queues_at + ROW * row.copied().unwrap_or(0) as f64;
            self.bar(f, top, span, span.of.member)?;
        }
        head(f, lag_at, "Messages that wait")?;
        self.lag(f, lag_at)?;
        for (at, words) in self.faults() {
            self.mark(f, "fault", bottom, at, &words)?;
        }
        if let Some(at) = self.shots.healed {
            self.mark(f, "healed", bottom, at, "everything is mended")?;
        }
        if let Err(violation) = self.result {
            self.mark(f, "broken", bottom, violation.at, violation.rule)?;
        }
        writeln!(f, "</svg>")
    }

    /// A line for each half minute.
    fn grid(&self, f: &mut fmt::Formatter<'_>, bottom: f64) -> fmt::Result {
        let seconds = self.shots.end.as_millis() / 1_000;
        for second in (0..=seconds).step_by(30) {
            let x = self.x(Instant::from_millis(second * 1_000));
            writeln!(
                f,
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{ROW}\" y2=\"{bottom}\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{second} s</text>",
                bottom + ROW
            )?;
        }
        Ok(())
    }

    fn bar<T>(&self, f: &mut fmt::Formatter<'_>, top: f64, span: &Span<T>, member: MemberId) -> fmt::Result {
        let (from, to) = (self.x(span.from), self.x(span.to));
        let colour = COLOURS[member.0 as usize % COLOURS.len()];
        writeln!(
            f,
            "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{colour}\" \
             fill-opacity=\".75\"><title>{} from {:?} to {:?}</title></rect>",
            (to - from).max(0.5),
            Escaped(&self.member(member)),
            span.from,
            span.to
        )
    }

    fn mark(
        &self,
        f: &mut fmt::Formatter<'_>,
        class: &str,
        bottom: f64,
        at: Instant,
        words: &str,
    ) -> fmt::Result {
        let x = self.x(at);
        writeln!(
            f,
            "<line class=\"{class}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{ROW}\" y2=\"{bottom}\">\
             <title>{at:?} {}</title></line>",
            Escaped(words)
        )
    }

    fn lag(&self, f: &mut fmt::Formatter<'_>, top: f64) -> fmt::Result {
        let most = self
            .shots
            .lag
            .iter()
            .map(|(_, lag)| *lag)
            .max()
            .unwrap_or(0)
            .max(1);
        let bottom = top + LAG;
        write!(f, "<polyline points=\"{LEFT},{bottom}")?;
        let mut last = LEFT;
        for (at, lag) in &self.shots.lag {
            last = self.x(*at);
            write!(f, " {last:.1},{:.1}", bottom - LAG * (*lag as f64 / most as f64))?;
        }
        writeln!(f, " {last:.1},{bottom}\"/>")?;
        label(f, top, &format!("at most {most}"))
    }

    fn end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.result {
            Ok(report) => writeln!(f, "<p>No rule was broken. {}</p>", Escaped(&report.to_string())),
            Err(violation) => {
                let words = violation.to_string();
                writeln!(f, "<div class=\"broken\"><pre>{}</pre></div>", Escaped(&words))
            }
        }
    }
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, troubles) = (self.plan.seed, self.plan.troubles);
        writeln!(
            f,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <title>World {seed}</title><style>{STYLE}</style></head><body>\n\
             <h1>World of seed {seed}, faults allowed: {troubles}</h1>"
        )?;
        self.end(f)?;
        writeln!(
            f,
            "<p>Each member has a colour. Upright lines: what was done to the world, then (green) everything \
             mended; rest the pointer on a line or a bar to read it.</p>"
        )?;
        self.drawing(f)?;
        writeln!(f, "<h2>What was done</h2>\n<pre>")?;
        for (at, words) in self.faults() {
            writeln!(f, "{at:>14?} {}", Escaped(&words))?;
        }
        writeln!(f, "</pre></body></html>")
    }
}

fn head(f: &mut fmt::Formatter<'_>, top: f64, words: &str) -> fmt::Result {
    writeln!(
        f,
        "<text class=\"head\" x=\"0\" y=\"{}\">{words}</text>",
        top - 6.0
    )
}

fn label(f: &mut fmt::Formatter<'_>, top: f64, words: &str) -> fmt::Result {
    writeln!(
        f,
        "<text x=\"0\" y=\"{}\">{}</text>",
        top + BAR - 2.0,
        Escaped(words)
    )
}

/// Text that cannot be taken for markup.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            _ => write!(f, "{char}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_consumer_testing::sim::invariant::Broken;
    use rocketmq_consumer_testing::sim::trouble::Troubles;

    use super::*;

    #[test]
    fn a_violation_is_shown_with_its_command_and_nothing_is_taken_for_markup() {
        let plan = Plan::draw_with(3, Troubles::ALL);
        let mut shots = Shots::default();
        shots.end = Instant::from_millis(60_000);
        let violation = Violation {
            seed: 3,
            troubles: Some(Troubles::ALL),
            at: Instant::from_millis(30_000),
            rule: "some_rule",
            what: Broken("1 < 2 & \"3\"".into()),
            faults: Vec::new(),
        };
        let page = Page::new(&plan, &shots, &Err(Box::new(violation))).to_string();
        assert!(page.contains("1 &lt; 2 &amp; &quot;3&quot;"), "{page}");
        assert!(page.contains("simulate --seed 3 -v"), "{page}");
        let middle = LEFT + (WIDTH - LEFT - 10.0) / 2.0;
        assert!(
            page.contains(&format!("class=\"broken\" x1=\"{middle:.1}\"")),
            "{page}"
        );
        assert_eq!(page.matches("<svg").count(), 1);
        assert!(!page.contains("http"), "it asks nobody for anything");
    }
}
