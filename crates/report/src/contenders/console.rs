//! The tables of a comparison: one line for each contender, dataset and load, and one for each
//! constraint that needs attention.

use super::cells::{NAME_CHARS, UNKNOWN, figure, median_and_tail, two_lines, uses};
use super::{Comparison, Figures, Load, Row, RowResult, SchemaCell, SchemaRow};
use crate::verdict::{MIN_FACTOR_MS, factor as times};
use sobench_core::distinct::distinct;
use sobench_core::printable::printable;
use sobench_render::{Table, text};
use sobench_results::metrics::constraint_overhead::Added;
use sobench_results::metrics::registry::rates;
use sobench_statistics::Rate;

/// Largest number of constraints in the table.
pub(super) const MAX_SCHEMA_ROWS: usize = 20;

/// Largest number of features in the table. The JSON file has more.
const MAX_FEATURE_ROWS: usize = 100;

/// A column of figures.
struct Column {
    head: &'static str,
    /// A value that says nothing. The column is left out if all rows have it.
    plain: &'static str,
    /// Whether the value says something beside the others.
    matters: fn(&Figures) -> bool,
    show: fn(&Figures) -> String,
}

const COLUMNS: [Column; 18] = [
    Column {
        head: "correct %\n(95 % interval)",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| with_interval(figures.correct_rate),
    },
    Column {
        head: "right %\n(95 % interval)",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| with_interval(figures.metrics.rate(&rates::ACCURACY)),
    },
    Column {
        head: "coverage\n%",
        plain: "100.0",
        matters: |_| true,
        show: |figures| percent(figures.coverage),
    },
    Column {
        head: "invalid\n%",
        plain: "0.0",
        matters: |_| true,
        show: |figures| percent(figures.causes.as_ref().map(|causes| causes.invalid)),
    },
    Column {
        head: "cut at\nlimit %",
        plain: "0.0",
        matters: |_| true,
        show: |figures| percent(figures.causes.as_ref().map(|causes| causes.truncated)),
    },
    Column {
        head: "compliance\n%",
        plain: UNKNOWN,
        // Without cut answers it says what the correct rate says.
        matters: |figures| {
            let causes = figures.causes.as_ref();
            causes.is_some_and(|causes| causes.truncated.hits > 0)
        },
        show: |figures| percent(figures.compliance),
    },
    Column {
        head: "refused\n%",
        plain: "0.0",
        matters: |_| true,
        show: |figures| percent(figures.causes.as_ref().map(|causes| causes.refused)),
    },
    Column {
        head: "failed\n%",
        plain: "0.0",
        matters: |_| true,
        show: |figures| percent(figures.causes.as_ref().map(|causes| causes.failed)),
    },
    Column {
        head: "control\n%",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| {
            let control = figures.control.as_ref();
            percent(control.and_then(|control| control.control_rate))
        },
    },
    Column {
        head: "TTFT ms\np50/p99",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| median_and_tail(&figures.ttft_ms, figures.distrusted_runs > 0),
    },
    Column {
        head: "TPOT ms\np50/p99",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| median_and_tail(&figures.tpot_ms, figures.distrusted_runs > 0),
    },
    Column {
        head: "added TTFT ms\n(95 % interval)",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| {
            let control = figures.control.as_ref();
            added(control.and_then(|control| control.ttft_added.as_ref()))
        },
    },
    Column {
        head: "first use\n+TTFT ms",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| {
            let control = figures.control.as_ref();
            let added = control.and_then(|control| control.first_ttft_added.as_ref());
            figure(added.map(|added| added.ms))
        },
    },
    Column {
        head: "added TPOT ms\n(95 % interval)",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| {
            let control = figures.control.as_ref();
            added(control.and_then(|control| control.tpot_added.as_ref()))
        },
    },
    Column {
        head: "cold/warm\nTTFT ms",
        plain: UNKNOWN,
        // Warm times alone say what the TTFT says.
        matters: |figures| figures.cold_ttft_ms.n > 0,
        show: |figures| {
            two_lines(
                &uses(figures, &figures.cold_ttft_ms),
                &uses(figures, &figures.warm_ttft_ms),
            )
        },
    },
    Column {
        head: "output\ntok/s",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| figure(figures.output_throughput),
    },
    Column {
        head: "valid\nreq/s",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| figure(figures.valid_throughput),
    },
    Column {
        head: "valid in\nobjectives %",
        plain: UNKNOWN,
        matters: |_| true,
        show: |figures| with_interval(figures.valid_within_objectives),
    },
];

/// The reasons of rows without figures, and refusals and invalid answers of the others, numbered as
/// in the table.
pub(super) fn numbered_notes(comparison: &Comparison) -> Vec<String> {
    distinct(comparison.rows.iter().flat_map(notes))
}

/// The constraints that need attention, and a line on the others; `None` without constraints.
pub(super) fn schemas(comparison: &Comparison) -> Option<(Option<Table>, String)> {
    let rows = &comparison.schemas;
    rows.first()?;
    let notable: Vec<&SchemaRow> = rows
        .iter()
        .filter(|row| row.attention() < SchemaRow::FINE)
        .collect();
    let table = statuses("constraint", notable.iter().copied().take(MAX_SCHEMA_ROWS));
    let fine = rows.len() - notable.len();
    let more = notable.len().saturating_sub(MAX_SCHEMA_ROWS);
    let more = if more == 0 {
        String::new()
    } else {
        format!("; {more} more with findings are in the JSON file")
    };
    let line = format!(
        "{fine} of {} constraints: valid answers from every contender, and none slow{more}",
        rows.len()
    );
    Some((table.non_empty(), line))
}

/// The result of each contender for the constraints with a tag; `None` without tags.
pub(super) fn features(comparison: &Comparison) -> Option<Table> {
    let rows = comparison.features.iter().take(MAX_FEATURE_ROWS);
    statuses("feature", rows).non_empty()
}

/// A row for each constraint or feature, and a column for each contender.
fn statuses<'c>(head: &str, rows: impl Iterator<Item = &'c SchemaRow> + Clone) -> Table {
    let contenders = distinct(
        rows.clone()
            .flat_map(|row| &row.cells)
            .map(|cell| cell.contender.as_str()),
    );
    let cell_chars = (text::width() / (contenders.len() + 1))
        .saturating_sub(3)
        .max(8);
    let heads = std::iter::once(head.to_owned()).chain(
        contenders
            .iter()
            .map(|name| printable(name, cell_chars - 1)),
    );
    let mut table = Table::new(heads, contenders.len() + 1);
    for column in 0..=contenders.len() {
        table = table.wrapped(column, cell_chars);
    }
    for row in rows {
        let cell = |name: &&str| {
            let cell = row.cells.iter().find(|cell| cell.contender == **name);
            cell.map_or_else(String::new, status)
        };
        let name = printable(&row.name, 2 * cell_chars);
        table.row(std::iter::once(name).chain(contenders.iter().map(cell)));
    }
    table
}

/// The result of a contender for one constraint, in a few words.
fn status(cell: &SchemaCell) -> String {
    let mut findings = Vec::new();
    let of = cell.requests;
    if of == 0 {
        return UNKNOWN.to_owned();
    }
    if cell.refused > 0 {
        let keyword = cell
            .refusal
            .as_ref()
            .and_then(|refusal| refusal.keyword.as_deref());
        let keyword = keyword.map_or_else(String::new, |keyword| format!(" ({keyword})"));
        findings.push(format!("refused {}/{of}{keyword}", cell.refused));
    }
    for (count, name) in [
        (cell.invalid, "invalid"),
        (cell.truncated, "cut"),
        (cell.failed, "failed"),
    ] {
        if count > 0 {
            findings.push(format!("{name} {count}/{of}"));
        }
    }
    if cell.slow {
        findings.push(format!("slow, TTFT {} ms", figure(cell.ttft_ms)));
    }
    if findings.is_empty() {
        return format!("valid {}/{of}", cell.correct);
    }
    findings.join("; ")
}

/// The table of all rows.
pub fn table(comparison: &Comparison) -> Table {
    let rows = &comparison.rows;
    let has_several_datasets = distinct(rows.iter().map(|row| &row.dataset)).len() > 1;
    let is_swept = rows.iter().any(|row| row.load != Load::AsGiven);
    let all_notes = numbered_notes(comparison);
    let says_something = |column: &&Column| {
        rows.iter().filter_map(Row::figures).any(|figures| {
            let shown = (column.show)(figures);
            shown != column.plain && shown != UNKNOWN && (column.matters)(figures)
        })
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(says_something).collect();
    let mut heads = Vec::new();
    heads.extend(has_several_datasets.then_some("dataset"));
    heads.push("contender");
    heads.extend(is_swept.then_some("load"));
    let text_columns = heads.len();
    heads.extend(columns.iter().map(|column| column.head));
    let cells = |row: &Row| {
        let number = |note: &String| all_notes.iter().position(|known| known == note);
        let numbers: Vec<String> = notes(row)
            .iter()
            .filter_map(|note| Some((number(note)? + 1).to_string()))
            .collect();
        let number = match &numbers[..] {
            [] => String::new(),
            numbers => format!(" ({})", numbers.join(", ")),
        };
        let name = printable(&row.contender, NAME_CHARS);
        let name = match &row.result {
            RowResult::Measured(_) => format!("{name}{number}"),
            RowResult::DidNotRun { .. } => format!("{name}\ndid not run{number}"),
        };
        let mut cells = Vec::new();
        cells.extend(has_several_datasets.then(|| printable(&row.dataset, NAME_CHARS)));
        cells.push(name);
        cells.extend(is_swept.then(|| row.load.to_string()));
        cells.extend(columns.iter().map(|column| {
            row.figures()
                .map_or_else(String::new, |figures| (column.show)(figures))
        }));
        cells
    };
    Table::new(heads, text_columns).with_rows(rows.iter().map(cells))
}

/// What the numbers of the row refer to.
fn notes(row: &Row) -> Vec<String> {
    match &row.result {
        RowResult::DidNotRun { reason } => vec![format!("did not run: {reason}")],
        RowResult::Measured(figures) => [refused(figures), invalid(figures)]
            .into_iter()
            .flatten()
            .collect(),
    }
}

fn refused(figures: &Figures) -> Option<String> {
    if figures.only_refusal.is_some() {
        return figures.only_refusal.clone();
    }
    let first = figures.refusals.first()?;
    let keyword = first
        .keyword
        .as_ref()
        .map_or_else(String::new, |keyword| format!(" {keyword}:"));
    let more = match figures.refusals.len() - 1 {
        0 => String::new(),
        more => format!("; {more} more messages, see --detail full"),
    };
    Some(format!("refused:{keyword} {}{more}", first.message))
}

/// The most frequent reason of invalid answers.
fn invalid(figures: &Figures) -> Option<String> {
    let first = figures.reasons.first()?;
    let (name, message) = first.described()?;
    let all: usize = figures.reasons.iter().map(|reason| reason.count).sum();
    let count = match first.count {
        count if count == all => format!("all {all}"),
        count => format!("{count} of {all}"),
    };
    Some(format!("invalid: {count} by {name}, e.g. {message}"))
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

fn with_interval(rate: Option<Rate>) -> String {
    rate.map_or_else(unknown, |rate| {
        format!(
            "{:.1} ({:.0} to {:.0})",
            rate.percent, rate.low_percent, rate.high_percent
        )
    })
}

fn percent(rate: Option<Rate>) -> String {
    rate.map_or_else(unknown, |rate| format!("{:.1}", rate.percent))
}

/// The added time with its interval, and below it the factor where there is something to multiply.
fn added(found: Option<&Added>) -> String {
    // A mean of few pairs says nothing.
    let Some(added) = found.filter(|added| added.has_enough_pairs()) else {
        return unknown();
    };
    let sign = if added.ms < 0.0 { "" } else { "+" };
    let ms = format!("{sign}{}", figure(Some(added.ms)));
    let without = added.control_ms;
    let factor = match without >= MIN_FACTOR_MS {
        true => format!("\n{}", times(without + added.ms, without)),
        false => String::new(),
    };
    match (added.low_ms, added.high_ms) {
        (Some(low), Some(high)) => {
            format!(
                "{ms} ({} to {}){factor}",
                figure(Some(low)),
                figure(Some(high))
            )
        }
        _ => ms + &factor,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::eventful;
    use super::super::{Detail, render_text};
    use super::*;

    #[test]
    fn the_page_is_at_most_as_wide_as_a_terminal() {
        let mut comparison = eventful();
        let names = [
            "xgrammar",
            "a".repeat(60).as_str(),
            "guidance-with-rewrites",
        ]
        .map(str::to_owned);
        for (index, row) in comparison.rows.iter_mut().enumerate() {
            row.contender = names[index % 3].clone();
            row.dataset = "a-dataset-with-a-very-long-name".repeat(2);
            if index == 1 {
                row.dataset = "json".to_owned();
            }
        }
        let page = render_text(&comparison, Detail::Summary);
        for line in page.lines() {
            assert!(line.chars().count() <= text::WIDTH, "{line}\n{page}");
        }
        assert!(
            page.contains("correct %") && page.contains("added TTFT ms"),
            "{page}"
        );
    }

    #[test]
    fn columns_that_say_nothing_are_left_out() {
        let mut comparison = eventful();
        let heads = |comparison: &Comparison| {
            let table = table(comparison);
            let heads = table.columns.iter();
            heads
                .map(|column| column.head.replace('\n', " "))
                .collect::<Vec<_>>()
        };
        let before = heads(&comparison);
        let has = |heads: &[String], head: &str| heads.iter().any(|own| own == head);
        for head in [
            "contender",
            "load",
            "invalid %",
            "cut at limit %",
            "compliance %",
        ] {
            assert!(has(&before, head), "{before:?}");
        }
        for head in ["coverage %", "refused %", "failed %"] {
            assert!(!has(&before, head), "{before:?}");
        }
        for row in &mut comparison.rows {
            if let RowResult::Measured(figures) = &mut row.result {
                figures.causes = None;
                figures.coverage = Rate::new(3, 4);
            }
        }
        let after = heads(&comparison);
        for head in ["invalid %", "cut at limit %", "compliance %"] {
            assert!(!has(&after, head), "{after:?}");
        }
        assert!(has(&after, "coverage %"), "{after:?}");
    }

    #[test]
    fn constraints_with_findings_are_listed_and_others_counted() {
        let (table, line) = schemas(&eventful()).unwrap();
        let rows = table.unwrap().rows;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0][2], "refused 10/10 (multipleOf)".into());
        assert!(line.starts_with("1 of 2 constraints"), "{line}");
    }
}
