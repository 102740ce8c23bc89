//! The page of a comparison.

use super::words;
use crate::commands::distinct::distinct;
use sobench_core::printable::printable;
use sobench_render::{Block, Document, Level, Table, Text};
use sobench_results::compare::changed::{Changed, ChangedCase, Seen};
use sobench_results::compare::comparable::{Condition, Finding};
use sobench_results::compare::gate::FALSE_ALARMS;
use sobench_results::compare::side::Side;
use sobench_results::compare::{Against, Comparison};

/// The most characters of a value in the table of conditions.
const CONDITION_CHARS: usize = 60;

pub(super) fn document(comparison: &Comparison) -> Document {
    let mut page = Document::default();
    page.push(Block::Heading {
        level: Level::Page,
        text: "Comparison".into(),
    });
    page.table(sides(&comparison.sides));
    add_conditions(&mut page, comparison);
    for against in &comparison.against {
        add_side(&mut page, comparison, against);
    }
    page
}

fn sides(sides: &[Side]) -> Table {
    let mut table = Table::new(["", "side", "runs", "requests", "of"], 2).words(4);
    for (place, side) in sides.iter().enumerate() {
        let requests = side.requests().map_or_else(
            || "not kept".to_owned(),
            |requests| requests.len().to_string(),
        );
        let mut kinds: Vec<&str> = side.runs.iter().map(|run| words::kind(run.kind)).collect();
        kinds.dedup();
        let name = printable(&side.name, CONDITION_CHARS);
        table.row([
            words::side(place),
            name,
            side.runs.len().to_string(),
            requests,
            kinds.join(", "),
        ]);
    }
    table
}

fn add_conditions(page: &mut Document, comparison: &Comparison) {
    let differing: Vec<&Condition> = comparison
        .conditions
        .iter()
        .filter(|it| !matches!(it.finding, Finding::Same | Finding::NotKnown))
        .collect();
    if !comparison.is_comparable() {
        page.paragraph(
            "NOT COMPARABLE: what is marked below differs, and figures would say nothing.",
        );
    }
    if !differing.is_empty() {
        page.heading("What differs beside the figures");
        page.table(condition_table(comparison, &differing));
    }
    let unknown: Vec<&str> = comparison
        .conditions
        .iter()
        .filter(|it| it.finding == Finding::NotKnown)
        .filter(|it| it.field.weight() != sobench_results::record::condition::Weight::Listed)
        .map(|it| it.field.name())
        .collect();
    if !unknown.is_empty() {
        page.paragraph(format!(
            "Not known on every side, and so not checked: {}.",
            unknown.join(", ")
        ));
    }
    for (place, side) in comparison.sides.iter().enumerate() {
        for run in &side.runs {
            let file = printable(&run.file, CONDITION_CHARS);
            page.paragraphs(
                run.notices
                    .iter()
                    .map(|notice| format!("{} ({file}): {notice}", words::side(place))),
            );
        }
    }
}

fn condition_table(comparison: &Comparison, differing: &[&Condition]) -> Table {
    let names = (0..comparison.sides.len()).map(words::side);
    let heads: Vec<String> = std::iter::once("condition".to_owned())
        .chain(names)
        .chain(["so".to_owned()])
        .collect();
    let columns = heads.len();
    let mut table = Table::new(heads, columns);
    for condition in differing {
        let so = match condition.finding {
            Finding::Stops => "STOPS",
            Finding::Allowed => "allowed",
            Finding::Notice => "mind it",
            Finding::Listed | Finding::Same | Finding::NotKnown => "",
        };
        let value = |value: &Option<String>| {
            value.as_ref().map_or_else(
                || "not known".to_owned(),
                |it| printable(it, CONDITION_CHARS),
            )
        };
        let values = condition.values.iter().map(value);
        table.row(
            std::iter::once(condition.field.name().to_owned())
                .chain(values)
                .chain([so.to_owned()]),
        );
    }
    table
}

fn add_side(page: &mut Document, comparison: &Comparison, against: &Against) {
    let other = words::side(against.other);
    let interval = format!("{} % interval", percent(comparison.method.level));
    page.heading(format!("{other} against A"));
    let rows = against.rows.iter().map(|row| {
        let metric = row.measured.metric;
        [
            metric.to_string(),
            metric.text(row.measured.a),
            metric.text(row.measured.b),
            words::difference(&row.measured),
            words::interval(row),
            words::word(row),
        ]
    });
    page.table(
        Table::new(["figure", "A", &other, "difference", &interval, "so"], 1)
            .words(5)
            .with_rows(rows),
    );
    page.paragraphs(notes(comparison, against));
    add_rulings(page, comparison, against);
    if let Some(changed) = &against.changed {
        add_cases(page, changed, &other);
    }
}

fn notes(comparison: &Comparison, against: &Against) -> Vec<String> {
    let method = comparison.method;
    let tested = against
        .rows
        .iter()
        .filter(|row| row.interval.is_some())
        .count();
    let mut lines = vec![format!(
        "Requests are {}. {} resamples, seed {}. {tested} rows are tested at {} %, each by itself: of equal servers, up to one in {:.0} \
         rows would show a word by chance.",
        against.pairing.words(),
        method.resamples,
        method.seed,
        percent(method.level),
        1.0 / (1.0 - method.level)
    )];
    let methods = distinct(
        against
            .rows
            .iter()
            .filter_map(|row| row.measured.spread.method()),
    );
    lines.extend(
        methods
            .into_iter()
            .map(|method| format!("{}.", words::method(method))),
    );
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
            format!(
                "One run a side: how far runs of the same server are apart is not known, and is in no interval. {floor}"
            )
        }
        [a, b] if sides.iter().any(|side| side.requests().is_none()) => {
            format!(
                "{a} and {b} runs, some without their requests: the spread between runs is in no interval."
            )
        }
        [a, b] if a == 1 || b == 1 => {
            format!(
                "{a} and {b} runs: the spread between runs of the side with one is not known, and is in no interval. {floor}"
            )
        }
        [a, b] => format!(
            "{a} and {b} runs: the spread between runs is in the intervals; with fewer than five a side it is roughly known."
        ),
    }
}

fn add_rulings(page: &mut Document, comparison: &Comparison, against: &Against) {
    let other = words::side(against.other);
    if let Some(level) = comparison
        .method
        .gate_level
        .filter(|_| !against.changes.is_empty())
    {
        let interval = format!("{} % interval", percent(level));
        let rows = against.changes.iter().map(|it| {
            let metric = it.rule.metric;
            [
                it.rule.to_string(),
                metric.text(it.a),
                metric.text(it.b),
                words::change(it),
                words::change_interval(it),
                it.ruling.to_string(),
            ]
        });
        page.heading(format!("Gate: changes from A to {other}"));
        page.table(
            Table::new(["rule", "A", &other, "change", &interval, "ruling"], 1)
                .words(5)
                .with_rows(rows),
        );
        page.paragraph(format!(
            "A rule is broken where the change is past its size and the whole interval is beyond nothing. The intervals are so wide that of \
             gates over equal sides at most {} % fail by chance, the spread between runs of a side with one run aside.",
            percent(FALSE_ALARMS)
        ));
    }
    if !against.limits.is_empty() {
        let rows = against.limits.iter().map(|it| {
            [
                it.rule.to_string(),
                it.rule.metric.text(it.value),
                it.ruling.to_string(),
            ]
        });
        page.heading(format!("Gate: bounds on {other}"));
        page.table(
            Table::new(["bound", &other, "ruling"], 1)
                .words(2)
                .with_rows(rows),
        );
    }
}

fn add_cases(page: &mut Document, changed: &Changed, other: &str) {
    page.heading("Cases that changed their verdict");
    page.paragraph(format!(
        "{} right in A and wrong in {other}, {} the other way round, of {} that are judged on both sides.",
        changed.worse, changed.better, changed.judged
    ));
    changed
        .cases
        .iter()
        .for_each(|case| page.push(one_case(case, other)));
    let more = changed.worse + changed.better - changed.cases.len();
    if more > 0 {
        page.paragraph(format!(
            "{more} more: --changed {}",
            changed.worse + changed.better
        ));
    }
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
                let [verdict, text] =
                    [&answer.verdict, &answer.text].map(|it| printable(it, words::ANSWER_CHARS));
                format!("{name}{runs}: {verdict}: {text}")
            }
            None => format!("{name}{runs}: the file keeps no answers"),
        }
    };
    Block::Item {
        text: Text::default().strong(format!(
            "{} ({way})",
            printable(&case.case, CONDITION_CHARS)
        )),
        below: vec![
            Text::default().code(seen("A", &case.a)),
            Text::default().code(seen(other, &case.b)),
        ],
    }
}

/// A share in percent, without zeros at its end.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{:.2}", 100.0 * share);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
