//! The comparison as a document, for text, Markdown and HTML.

use super::labels::percent;
use super::{charts, labels, pairs, verdict};
use sobench_core::dates::iso_8601;
use sobench_core::distinct::distinct;
use sobench_core::printable::printable;
use sobench_plan::record::condition::Field;
use sobench_render::{Block, Document, Table, Text};
use sobench_report::contenders::{self as matrix, console};
use sobench_report::text::Detail;
use sobench_results::compare::changed_cases::{CaseResult, ChangedCase, ChangedCases};
use sobench_results::compare::conditions::{Condition, ConditionEffect, SEVERAL};
use sobench_results::compare::gate::GateVerdict;
use sobench_results::compare::run_spread::DEFAULT_RUN_SPREAD;
use sobench_results::compare::side::{FileKind, Side};
use sobench_results::compare::{Comparison, Row, SideComparison};
use sobench_statistics::contrast::{BROKEN_BY_CHANCE, KEPT_BY_CHANCE, KEPT_LEVEL, MIN_RUNS};

/// Maximum number of characters of a value in the table of conditions.
const CONDITION_CHARS: usize = 60;

/// The longest `curl` line on the page; the JSON file has all.
const CURL_BYTES: usize = 1000;

/// The widest verdict of a row.
const VERDICT_CHARS: usize = 30;

/// The page; charts are for HTML.
pub(super) fn document(comparison: &Comparison, detail: Detail, has_charts: bool) -> Document {
    let gate = comparison.gate_summary();
    let title = gate
        .as_ref()
        .map_or("comparison of runs", |gate| labels::gate_title(gate));
    let mut page = Document {
        style: matrix::STYLE,
        ..Document::new(format!("sobench: {title}"))
    };
    let names = labels::names(&comparison.sides);
    let rows = matrix::Comparison::of_sides(&names, &comparison.sides, has_charts);
    page.push(verdict::block(comparison, &rows));
    if let Some(gate) = gate {
        let line = labels::gate(&gate);
        match gate.verdict {
            GateVerdict::Failed => page.alarm(line),
            GateVerdict::Passed | GateVerdict::Undecided => page.paragraph(line),
        }
    }
    page.gap();
    page.table(figures_of_sides(&rows, &comparison.sides));
    add_conditions(&mut page, comparison, detail);
    for against in &comparison.against {
        if let Some(of_pairs) = &against.pairs {
            let other = labels::side(against.other);
            pairs::add(&mut page, of_pairs, against.cause.as_ref(), &other);
        }
    }
    if has_charts {
        matrix::charts::add(&mut page, &rows);
    }
    for against in &comparison.against {
        add_side(&mut page, comparison, against, detail);
    }
    page
}

/// The table of figures, with the letter of each side and its runs.
fn figures_of_sides(rows: &matrix::Comparison, sides: &[Side]) -> Table {
    let mut table = console::table(rows);
    table.columns[0].head = "side".to_owned();
    for (index, (row, side)) in table.rows.iter_mut().zip(sides).enumerate() {
        let kinds = distinct(side.runs.iter().map(|run| run.kind));
        let kinds = kinds
            .into_iter()
            .filter(|kind| *kind != FileKind::SobenchRunLog);
        let runs = match side.runs.len() {
            1 => None,
            runs => Some(format!("{runs} runs")),
        };
        let kinds = kinds.map(|kind| labels::kind(kind).to_owned());
        let source: Vec<String> = runs.into_iter().chain(kinds).collect();
        let name = labels::names(sides)[index].clone();
        let name = match labels::side(index) {
            letter if labels::lettered(index) == name => {
                format!(
                    "{letter} {}",
                    printable(labels::shortest(sides, side), CONDITION_CHARS)
                )
            }
            letter if letter == name => letter,
            letter => format!("{letter} {name}"),
        };
        row[0] = [vec![name], source].concat().join("\n").into();
    }
    table
}

fn add_conditions(page: &mut Document, comparison: &Comparison, detail: Detail) {
    let differing: Vec<&Condition> = comparison
        .conditions
        .iter()
        .filter(|condition| match condition.effect {
            ConditionEffect::Same | ConditionEffect::NotKnown => false,
            ConditionEffect::Listed => detail == Detail::Full,
            _ => true,
        })
        .collect();
    if !comparison.is_comparable() {
        page.paragraph(
            "NOT COMPARABLE: the conditions marked below differ, so the figures are not compared.",
        );
    }
    if !differing.is_empty() {
        page.heading("Changed conditions");
        page.table(condition_table(comparison, &differing));
    }
    let unknown: Vec<&str> = comparison
        .conditions
        .iter()
        .filter(|condition| condition.effect == ConditionEffect::NotKnown)
        .filter(|condition| {
            condition.field.weight() != sobench_plan::record::condition::Weight::Listed
        })
        .map(|condition| condition.field.name())
        .collect();
    if !unknown.is_empty() {
        page.paragraph(format!(
            "Unknown on some side, and therefore not checked: {}.",
            unknown.join(", ")
        ));
    }
    for (index, side) in comparison.sides.iter().enumerate() {
        let notices = distinct(side.runs.iter().flat_map(|run| &run.notices));
        page.paragraphs(notices.into_iter().map(|notice| {
            let runs = side.runs.iter().filter(|run| run.notices.contains(notice));
            let of_runs = match (runs.count(), side.runs.len()) {
                (count, all) if count < all => format!(" ({count} of {all} runs)"),
                _ => String::new(),
            };
            format!("{}{of_runs}: {notice}", labels::side(index))
        }));
    }
}

fn condition_table(comparison: &Comparison, differing: &[&Condition]) -> Table {
    let names = (0..comparison.sides.len()).map(labels::side);
    let heads: Vec<String> = std::iter::once("condition".to_owned())
        .chain(names)
        .chain(["effect".to_owned()])
        .collect();
    let columns = heads.len();
    let mut table = Table::new(heads, columns);
    for side in 1..=comparison.sides.len() {
        table = table.wrapped(side, CONDITION_CHARS / comparison.sides.len());
    }
    for condition in differing {
        let effect = match condition.effect {
            ConditionEffect::Stops => "NOT COMPARABLE",
            ConditionEffect::Allowed => "allowed",
            ConditionEffect::Notice => "may affect figures",
            ConditionEffect::Listed | ConditionEffect::Same | ConditionEffect::NotKnown => "",
        };
        let value = |value: &Option<String>| match value {
            None => "unknown".to_owned(),
            Some(dates) if condition.field == Field::Date => {
                let dates: Vec<String> = dates.split(SEVERAL).map(readable_date).collect();
                dates.join(SEVERAL)
            }
            Some(value) => printable(value, CONDITION_CHARS),
        };
        let value = |(side, known): (&Side, &Option<String>)| match condition.field {
            Field::Dataset if known.is_some() => labels::dataset(side),
            _ => value(known),
        };
        let values = comparison.sides.iter().zip(&condition.values).map(value);
        table.row(
            std::iter::once(condition.field.name().to_owned())
                .chain(values)
                .chain([effect.to_owned()]),
        );
    }
    table
}

/// A date of a record in ISO 8601; unchanged if it is in another format.
fn readable_date(date: &str) -> String {
    iso_8601(date).unwrap_or_else(|| printable(date, CONDITION_CHARS))
}

fn add_side(
    page: &mut Document,
    comparison: &Comparison,
    against: &SideComparison,
    detail: Detail,
) {
    let other = labels::side(against.other);
    add_rulings(page, comparison, against);
    let (differing, others): (Vec<&Row>, Vec<&Row>) = against
        .rows
        .iter()
        .partition(|row| row.verdict.is_difference());
    page.heading(match differing.len() {
        0 => format!("{other} compared with A: no figure differs"),
        _ => format!("{other} compared with A: figures that differ"),
    });
    if !differing.is_empty() {
        page.table(figures(comparison, &other, &differing));
        page.push(Block::Charts(charts::intervals(&differing)));
    }
    if let Some(changed) = &against.changed {
        let sides = [0, against.other].map(|index| &comparison.sides[index]);
        let has_runs = sides.into_iter().any(|side| side.runs.len() > 1);
        add_cases(page, changed, &other, has_runs);
    }
    let mut rest = Document::default();
    if !others.is_empty() {
        rest.table(figures(comparison, &other, &others));
    }
    rest.paragraphs(notes(comparison, against));
    match detail {
        Detail::Full => {
            page.heading(format!(
                "{other} compared with A: other figures, and methods"
            ));
            page.blocks.append(&mut rest.blocks);
        }
        Detail::Summary => {
            page.push(Block::Details {
                summary: "Other figures, and methods".to_owned(),
                blocks: rest.blocks,
            });
        }
    }
}

fn figures(comparison: &Comparison, other: &str, rows: &[&Row]) -> Table {
    let interval = format!("{} % interval", percent(comparison.method.level));
    let rows = rows.iter().map(|row| {
        let metric = row.measured.metric;
        [
            metric.to_string(),
            metric.text(row.measured.a),
            metric.text(row.measured.b),
            format!(
                "{}\n{}",
                labels::difference(&row.measured),
                labels::interval(row)
            ),
            labels::verdict(row),
        ]
    });
    let difference = format!("difference\n{interval}");
    Table::new(["figure", "A", other, &difference, "verdict"], 1)
        .left_aligned(4)
        .wrapped(4, VERDICT_CHARS)
        .with_rows(rows)
}

fn notes(comparison: &Comparison, against: &SideComparison) -> Vec<String> {
    let method = &comparison.method;
    let tested = against
        .rows
        .iter()
        .filter(|row| row.interval.is_some())
        .count();
    let mut lines = vec![format!(
        "Requests are {}. {} resamples, seed {}. {tested} rows are tested separately at {} %: with equal servers, about one in {:.0} \
         rows shows a difference by chance.",
        against.pairing.description(),
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
            .map(|method| format!("{}.", labels::method(method))),
    );
    lines.push(spread_of_runs(comparison, against));
    lines
}

/// Describes the variation between runs of the same server and its treatment.
fn spread_of_runs(comparison: &Comparison, against: &SideComparison) -> String {
    let [a, b] = [0, against.other].map(|index| comparison.sides[index].runs.len());
    if a.min(b) >= MIN_RUNS {
        return format!(
            "{a} and {b} runs: the intervals of times and throughput include the variation between runs."
        );
    }
    let runs = match [a, b] {
        [1, 1] => "One run per side".to_owned(),
        [a, b] => format!("{a} and {b} runs"),
    };
    let spread = &comparison.method.run_spread;
    let named: Vec<String> = spread
        .by_name()
        .map(|(name, percent)| format!("{name} {percent} %"))
        .chain(spread.all().map(|percent| format!("others {percent} %")))
        .collect();
    let floor = match (spread.all(), named.len()) {
        (None, 0) => format!("{DEFAULT_RUN_SPREAD} %"),
        (Some(percent), 1) => format!("{percent} %"),
        (Some(_), _) => named.join(", "),
        (None, _) => format!("{}, others {DEFAULT_RUN_SPREAD} %", named.join(", ")),
    };
    format!(
        "{runs}: with less than {MIN_RUNS} runs a side, the variation between runs is unknown. A time or throughput is better or worse \
         only if its whole interval is beyond {floor} (--run-spread)."
    )
}

fn add_rulings(page: &mut Document, comparison: &Comparison, against: &SideComparison) {
    let other = labels::side(against.other);
    if let Some(level) = comparison
        .method
        .gate_level
        .filter(|_| !against.changes.is_empty())
    {
        let rows = against.changes.iter().map(|change| {
            let metric = change.rule.metric;
            [
                change.rule.to_string(),
                metric.text(change.a),
                metric.text(change.b),
                format!(
                    "{}\n{}",
                    labels::change(change),
                    labels::change_interval(change)
                ),
                change.result(),
            ]
        });
        page.heading(format!("Gate: changes from A to {other}"));
        page.table(
            Table::new(["rule", "A", &other, "change\ninterval", "ruling"], 1)
                .left_aligned(4)
                .wrapped(4, VERDICT_CHARS)
                .with_rows(rows),
        );
        page.paragraph(format!(
            "A rule is broken if the change exceeds its threshold and the whole interval of {} % excludes zero: at most {} % of gates over \
             equal sides fail by chance. It is kept if the interval of {} % does not reach the threshold: a change of that size is kept by \
             chance with {} %. The gate passes if all rules are kept. Rules on times and throughput need {MIN_RUNS} runs a side, or \
             --run-spread.",
            percent(level),
            percent(BROKEN_BY_CHANCE),
            percent(KEPT_LEVEL),
            percent(KEPT_BY_CHANCE),
        ));
    }
    if !against.limits.is_empty() {
        let rows = against.limits.iter().map(|limit| {
            [
                limit.rule.to_string(),
                limit.rule.metric.text(limit.value),
                limit.result(),
            ]
        });
        page.heading(format!("Gate: thresholds of {other}"));
        page.table(
            Table::new(["rule", &other, "ruling"], 1)
                .left_aligned(2)
                .with_rows(rows),
        );
    }
}

fn add_cases(page: &mut Document, changed: &ChangedCases, other: &str, has_runs: bool) {
    let ChangedCases {
        worse,
        better,
        judged,
        ..
    } = changed;
    page.heading("Cases with a changed verdict");
    page.paragraph(if has_runs {
        format!(
            "{worse} correct in a smaller share of the runs of {other} than of A, {better} in a larger share, of {judged} judged on both sides."
        )
    } else {
        format!(
            "{worse} correct in A and incorrect in {other}, {better} incorrect in A and correct in {other}, of {judged} judged on both sides."
        )
    });
    changed.cases.iter().for_each(|case| {
        page.push(one_case(case, other));
        let short = case.curl.iter().filter(|line| line.len() <= CURL_BYTES);
        short.for_each(|line| page.push(Block::Preformatted(line.clone())));
    });
    let more = changed.worse + changed.better - changed.cases.len();
    if more > 0 {
        page.paragraph(format!(
            "{more} more; use --changed {} to show all",
            changed.worse + changed.better
        ));
    }
}

fn one_case(case: &ChangedCase, other: &str) -> Block {
    let direction = if case.worse { "worse" } else { "better" };
    let seen = |name: &str, seen: &CaseResult| {
        let runs = if seen.correct.of > 1 {
            format!(
                " ({} of {} runs correct)",
                seen.correct.hits, seen.correct.of
            )
        } else {
            String::new()
        };
        match &seen.answer {
            Some(answer) => {
                let [verdict, text] = [&answer.verdict, &answer.text]
                    .map(|text| printable(text, labels::ANSWER_CHARS));
                format!("{name}{runs}: {verdict}: {text}")
            }
            None => format!("{name}{runs}: the file has no answers"),
        }
    };
    Block::Item {
        text: Text::default().strong(format!(
            "{} ({direction})",
            printable(&case.case, CONDITION_CHARS)
        )),
        below: vec![
            Text::default().code(seen("A", &case.a)),
            Text::default().code(seen(other, &case.b)),
        ],
    }
}
