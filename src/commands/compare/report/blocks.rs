//! What is said about a comparison, in reading order, without a layout: headings, lines and tables of cells.

use super::words;
use crate::compare::changed::{Changed, ChangedCase, Seen};
use crate::compare::comparable::{Condition, Finding};
use crate::compare::gate::FALSE_ALARMS;
use crate::compare::side::Side;
use crate::compare::{Against, Comparison, Method};
use crate::printable::printable;

/// A piece of the page.
pub(super) enum Block {
    Heading(String),
    Lines(Vec<String>),
    /// The first row is the head; the first column stands left, the others right where they are figures.
    Table {
        rows: Vec<Vec<String>>,
        figures: std::ops::Range<usize>,
    },
    /// A case, what A made of it, what the other made of it.
    Case {
        title: String,
        seen: [String; 2],
    },
}

/// The most characters of a value in the table of conditions.
const CONDITION_CHARS: usize = 60;

pub(super) fn all(comparison: &Comparison) -> Vec<Block> {
    let mut blocks = vec![Block::Heading("Comparison".to_owned()), sides(&comparison.sides)];
    blocks.extend(conditions(comparison));
    for against in &comparison.against {
        blocks.extend(one(comparison, against));
    }
    blocks
}

fn sides(sides: &[Side]) -> Block {
    let mut rows = vec![["", "side", "runs", "requests", "of"].map(str::to_owned).to_vec()];
    for (place, side) in sides.iter().enumerate() {
        let requests = side.requests().map_or_else(|| "not kept".to_owned(), |requests| requests.len().to_string());
        let mut kinds: Vec<&str> = side.runs.iter().map(|run| words::kind(run.kind)).collect();
        kinds.dedup();
        rows.push(vec![
            words::side(place),
            printable(&side.name, CONDITION_CHARS),
            side.runs.len().to_string(),
            requests,
            kinds.join(", "),
        ]);
    }
    Block::Table { rows, figures: 2..4 }
}

fn conditions(comparison: &Comparison) -> Vec<Block> {
    let mut blocks = Vec::new();
    let differing: Vec<&Condition> =
        comparison.conditions.iter().filter(|it| !matches!(it.finding, Finding::Same | Finding::NotKnown)).collect();
    if !comparison.is_comparable() {
        blocks
            .push(Block::Lines(vec!["NOT COMPARABLE: what is marked below differs, and figures would say nothing.".to_owned()]));
    }
    if !differing.is_empty() {
        blocks.push(Block::Heading("What differs beside the figures".to_owned()));
        blocks.push(condition_table(comparison, &differing));
    }
    let unknown: Vec<&str> = comparison
        .conditions
        .iter()
        .filter(|it| it.finding == Finding::NotKnown)
        .filter(|it| it.field.weight() != crate::record::condition::Weight::Listed)
        .map(|it| it.field.name())
        .collect();
    let mut lines = Vec::new();
    if !unknown.is_empty() {
        lines.push(format!("Not known on every side, and so not checked: {}.", unknown.join(", ")));
    }
    for (place, side) in comparison.sides.iter().enumerate() {
        for run in &side.runs {
            lines.extend(
                run.notices
                    .iter()
                    .map(|notice| format!("{} ({}): {notice}", words::side(place), printable(&run.file, CONDITION_CHARS))),
            );
        }
    }
    if !lines.is_empty() {
        blocks.push(Block::Lines(lines));
    }
    blocks
}

fn condition_table(comparison: &Comparison, differing: &[&Condition]) -> Block {
    let names = (0..comparison.sides.len()).map(words::side);
    let mut rows = vec![std::iter::once("condition".to_owned()).chain(names).chain(["so".to_owned()]).collect::<Vec<_>>()];
    for condition in differing {
        let so = match condition.finding {
            Finding::Stops => "STOPS",
            Finding::Allowed => "allowed",
            Finding::Notice => "mind it",
            Finding::Listed | Finding::Same | Finding::NotKnown => "",
        };
        let value =
            |value: &Option<String>| value.as_ref().map_or_else(|| "not known".to_owned(), |it| printable(it, CONDITION_CHARS));
        let values = condition.values.iter().map(value);
        rows.push(std::iter::once(condition.field.name().to_owned()).chain(values).chain([so.to_owned()]).collect());
    }
    Block::Table { rows, figures: 0..0 }
}

fn one(comparison: &Comparison, against: &Against) -> Vec<Block> {
    let other = words::side(against.other);
    let level = percent(comparison.method.level);
    let mut blocks = vec![Block::Heading(format!("{other} against A"))];
    let head = [
        "figure".to_owned(),
        "A".to_owned(),
        other.clone(),
        "difference".to_owned(),
        format!("{level} % interval"),
        "so".to_owned(),
    ];
    let rows = against.rows.iter().map(|row| {
        let metric = row.measured.metric;
        vec![
            metric.to_string(),
            metric.text(row.measured.a),
            metric.text(row.measured.b),
            words::difference(&row.measured),
            words::interval(row),
            words::word(row),
        ]
    });
    blocks.push(Block::Table { rows: std::iter::once(head.to_vec()).chain(rows).collect(), figures: 1..5 });
    blocks.push(Block::Lines(notes(comparison, against)));
    blocks.extend(rulings(comparison, against));
    if let Some(changed) = &against.changed {
        blocks.extend(cases(changed, &other));
    }
    blocks
}

fn notes(comparison: &Comparison, against: &Against) -> Vec<String> {
    let method = comparison.method;
    let tested = against.rows.iter().filter(|row| row.interval.is_some()).count();
    let mut lines = vec![format!(
        "Requests are {}. {} resamples, seed {}. {tested} rows are tested at {} %, each by itself: of equal servers, up to one in {:.0} \
         rows would show a word by chance.",
        against.pairing.words(),
        method.resamples,
        method.seed,
        percent(method.level),
        1.0 / (1.0 - method.level)
    )];
    let mut methods: Vec<Method> = Vec::new();
    for method in against.rows.iter().filter_map(|row| row.measured.spread.method()) {
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    lines.extend(methods.into_iter().map(|method| format!("{}.", words::method(method))));
    lines.push(spread_of_runs(comparison, against));
    lines
}

/// What is known of how far runs of the same server are apart.
fn spread_of_runs(comparison: &Comparison, against: &Against) -> String {
    let sides = [&comparison.sides[0], &comparison.sides[against.other]];
    let floor = format!(
        "A time or a throughput is called better or worse only where its whole interval is past {} % (--run-spread).",
        comparison.method.run_spread
    );
    match sides.map(|side| side.runs.len()) {
        [1, 1] => {
            format!("One run a side: how far runs of the same server are apart is not known, and is in no interval. {floor}")
        }
        [a, b] if sides.iter().any(|side| side.requests().is_none()) => {
            format!("{a} and {b} runs, some without their requests: the spread between runs is in no interval.")
        }
        [a, b] if a == 1 || b == 1 => {
            format!("{a} and {b} runs: the spread between runs of the side with one is not known, and is in no interval. {floor}")
        }
        [a, b] => format!(
            "{a} and {b} runs: the spread between runs is in the intervals; with fewer than five a side it is roughly known."
        ),
    }
}

fn rulings(comparison: &Comparison, against: &Against) -> Vec<Block> {
    let mut blocks = Vec::new();
    let other = words::side(against.other);
    if let Some(level) = comparison.method.gate_level.filter(|_| !against.changes.is_empty()) {
        let head =
            ["rule", "A", &other, "change", &format!("{} % interval", percent(level)), "ruling"].map(str::to_owned).to_vec();
        let rows = against.changes.iter().map(|it| {
            let metric = it.rule.metric;
            vec![
                it.rule.to_string(),
                metric.text(it.a),
                metric.text(it.b),
                words::change(it),
                words::change_interval(it),
                it.ruling.to_string(),
            ]
        });
        blocks.push(Block::Heading(format!("Gate: changes from A to {other}")));
        blocks.push(Block::Table { rows: std::iter::once(head).chain(rows).collect(), figures: 1..5 });
        blocks.push(Block::Lines(vec![format!(
            "A rule is broken where the change is past its size and the whole interval is beyond nothing. The intervals are so wide that of \
             gates over equal sides at most {} % fail by chance, the spread between runs of a side with one run aside.",
            percent(FALSE_ALARMS)
        )]));
    }
    if !against.limits.is_empty() {
        let head = ["bound", &other, "ruling"].map(str::to_owned).to_vec();
        let rows =
            against.limits.iter().map(|it| vec![it.rule.to_string(), it.rule.metric.text(it.value), it.ruling.to_string()]);
        blocks.push(Block::Heading(format!("Gate: bounds on {other}")));
        blocks.push(Block::Table { rows: std::iter::once(head).chain(rows).collect(), figures: 1..2 });
    }
    blocks
}

fn cases(changed: &Changed, other: &str) -> Vec<Block> {
    let mut blocks = vec![
        Block::Heading("Cases that changed their verdict".to_owned()),
        Block::Lines(vec![format!(
            "{} right in A and wrong in {other}, {} the other way round, of {} that are judged on both sides.",
            changed.worse, changed.better, changed.judged
        )]),
    ];
    blocks.extend(changed.cases.iter().map(|case| one_case(case, other)));
    let more = changed.worse + changed.better - changed.cases.len();
    if more > 0 {
        blocks.push(Block::Lines(vec![format!("{more} more: --changed {}", changed.worse + changed.better)]));
    }
    blocks
}

fn one_case(case: &ChangedCase, other: &str) -> Block {
    let way = if case.worse { "worse" } else { "better" };
    let seen = |name: &str, seen: &Seen| {
        let runs = if seen.correct.of > 1 {
            format!(" ({} of {} runs right)", seen.correct.hits, seen.correct.of)
        } else {
            String::new()
        };
        match &seen.answer {
            Some(answer) => {
                let [verdict, text] = [&answer.verdict, &answer.text].map(|it| printable(it, words::ANSWER_CHARS));
                format!("{name}{runs}: {verdict}: {text}")
            }
            None => format!("{name}{runs}: the file keeps no answers"),
        }
    };
    Block::Case {
        title: format!("{} ({way})", printable(&case.case, CONDITION_CHARS)),
        seen: [seen("A", &case.a), seen(other, &case.b)],
    }
}

/// A share in percent, without zeros at its end.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
