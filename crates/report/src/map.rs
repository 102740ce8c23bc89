//! The map of tools and context, and of turns: its answer, its table and its heat maps.

use std::collections::BTreeSet;

use sobench_core::case::Arm;
use sobench_core::printable::thousands;
use sobench_plan::dataset::Cell;
use sobench_render::heat_map::{self, Class};
use sobench_render::{Answer, Block, Document, Table, Tone};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::cells::{CellMap, CellValues, WorseCell, items_for_loss};
use sobench_results::metrics::registry::{Metric, rates};
use sobench_statistics::Rate;

/// Figures that have heat maps, if they are known.
const DRAWN: [&Metric; 2] = [&rates::CORRECT_RATE, &rates::ACCURACY];

/// The loss that a map must be able to find for an answer, in percentage points.
const MAX_VISIBLE_POINTS: f64 = 20.0;
/// The share of items that differ by chance in each direction, in what is said to be needed.
const NOISE: f64 = 0.02;

/// Shares, in percent, from which cells have these classes.
const SHADES: [(f64, &str); 5] = [
    (99.0, "heat-valid"),
    (95.0, "heat-truncated"),
    (80.0, "heat-slow"),
    (50.0, "heat-refused"),
    (0.0, "heat-invalid"),
];

const LEGEND: &str = "shades: from 99, 95, 80, 50 and 0 %";

/// Whether answers are worse with more tools or a longer context; `None` without a map.
pub(crate) fn answer(metrics: &Metrics) -> Option<Answer> {
    let map = metrics.cells.as_ref()?;
    // Without constrained requests, there is no question.
    cells(map).next()?;
    let span = |values: BTreeSet<Option<u64>>| values.len() > 1;
    let tools = span(
        cells(map)
            .map(|cell| cell.tools.map(|tools| tools as u64))
            .collect(),
    );
    let contexts = span(
        cells(map)
            .map(|cell| cell.context_tokens.map(u64::from))
            .collect(),
    );
    let question = match (tools, contexts) {
        _ if has_turns(map) => "holds in later turns",
        (true, true) => "holds with more tools and context",
        (true, false) => "holds with more tools",
        _ => "holds with more context",
    };
    let worse: Vec<String> = map.first_worse.iter().map(worse_cell).collect();
    let (tone, text) = match (&worse[..], map.visible_loss_points) {
        ([], _) if map.comparisons == 0 => {
            (Tone::Plain, "not known: no cells to compare".to_owned())
        }
        ([], Some(points)) if points > MAX_VISIBLE_POINTS => (
            Tone::Plain,
            format!(
                "not decided: no loss seen, but only one of {points:.0} points would be found; {} {} find one of {MAX_VISIBLE_POINTS}",
                items_for_loss(cells(map).count(), MAX_VISIBLE_POINTS / 100.0, NOISE)
                    .unwrap_or_default(),
                if has_turns(map) { "sessions" } else { "items" },
            ),
        ),
        ([], Some(points)) => (
            Tone::Plain,
            format!(
                "no loss seen in {} cells; a loss of {points:.0} points is found in 95 % of runs",
                cells(map).count()
            ),
        ),
        ([], None) => (
            Tone::Plain,
            "not known: too few items for any loss".to_owned(),
        ),
        (worse, _) => (Tone::Alarm, format!("NO: {}", worse.join("; "))),
    };
    Some(Answer {
        question,
        tone,
        text,
    })
}

/// The different cells of the constrained requests, in order.
fn cells(map: &CellMap) -> impl Iterator<Item = Cell> {
    let constrained = map
        .cells
        .iter()
        .filter(|values| values.arm == Arm::Constrained);
    constrained.map(|values| values.cell)
}

fn has_turns(map: &CellMap) -> bool {
    map.cells.iter().any(|values| values.cell.turn.is_some())
}

/// A cell in words, such as `16 tools, 8,000 tokens`.
fn name(cell: Cell) -> String {
    let tools = cell.tools.map(|tools| format!("{tools} tools"));
    let context = cell
        .context_tokens
        .map(|tokens| format!("{} tokens", thousands(u64::from(tokens))));
    let turn = cell.turn.map(|turn| format!("turn {turn}"));
    let parts: Vec<String> = [tools, context, turn].into_iter().flatten().collect();
    parts.join(", ")
}

fn worse_cell(found: &WorseCell) -> String {
    let word = if found.figure == rates::ACCURACY.name {
        "right"
    } else {
        "valid"
    };
    let WorseCell {
        here,
        smallest,
        lost,
        ..
    } = found;
    let cause = found.cause.map_or_else(String::new, |(cause, count)| {
        format!(" ({count} of {lost} lost: {})", cause.replace('_', " "))
    });
    format!(
        "from {} {} of {} {word}, {} of {} in {}{cause}",
        name(found.cell),
        here.hits,
        here.of,
        smallest.hits,
        smallest.of,
        match found.cell.turn {
            Some(_) => "turn 1",
            None => "the smallest cell",
        },
    )
}

/// Adds the table, and in HTML the heat maps.
pub(crate) fn add(page: &mut Document, metrics: &Metrics, is_drawn: bool) {
    // Turns have a table of their own.
    let Some(map) = metrics.cells.as_ref().filter(|map| !has_turns(map)) else {
        return;
    };
    page.heading("Tools and context");
    page.paragraph(notes(map));
    if is_drawn {
        add_heat_maps(page, map);
    }
    page.table(table(map));
}

/// Adds a heat map of the turns of sessions, if there are several.
pub(crate) fn add_turns(page: &mut Document, metrics: &Metrics) {
    let map = metrics.cells.as_ref().filter(|map| has_turns(map));
    if let Some(map) = map.filter(|map| cells(map).count() > 1) {
        page.paragraph(notes(map));
        add_heat_maps(page, map);
    }
}

fn add_heat_maps(page: &mut Document, map: &CellMap) {
    for arm in [Arm::Constrained, Arm::Control] {
        for metric in DRAWN {
            add_heat_map(page, map, arm, metric);
        }
    }
}

/// The interval of a rate in percent.
pub(super) fn interval(rate: &Rate) -> String {
    format!("{:.1} to {:.1}", rate.low_percent, rate.high_percent)
}

fn notes(map: &CellMap) -> String {
    let (items, cell, compared) = match has_turns(map) {
        true => (
            "sessions",
            "turn",
            "Each turn is compared with turn 1 of its sessions",
        ),
        false => (
            "items",
            "cell",
            "Each cell has the same items and is compared with the smallest one",
        ),
    };
    let tools = map
        .tokens_per_tool
        .map(|tokens| format!("A tool takes {tokens:.0} prompt tokens on average. "));
    let visible = map.visible_loss_points.map(|points| {
        format!("This number of {items} finds a loss of {points:.0} points in 95 % of runs. ")
    });
    format!(
        "{}{}{compared} (McNemar's exact test, {} comparisons at 5 % together, Holm); a {cell} with ! is worse.",
        tools.unwrap_or_default(),
        visible.unwrap_or_default(),
        map.comparisons,
    )
}

fn table(map: &CellMap) -> Table {
    let heads = [
        "cell",
        "arm",
        "requests",
        "valid %",
        "right %",
        "missed calls %",
        "forbidden calls %",
        "leaked %",
        "prompt tokens",
        "TTFT median (ms)",
    ];
    let rows = map.cells.iter().map(|values| {
        let rate = |metric: &Metric| {
            let rate = values.rates.get(metric.name);
            rate.map_or_else(
                || "n/a".to_owned(),
                |rate| format!("{:.1} ({})", rate.percent, interval(rate)),
            )
        };
        vec![
            marked(map, values),
            values.arm.flag().to_owned(),
            values.requests.to_string(),
            rate(&rates::CORRECT_RATE),
            rate(&rates::ACCURACY),
            rate(&rates::MISSED_CALLS),
            rate(&rates::FORBIDDEN_CALLS),
            rate(&rates::LEAKED_MARKUP_RATE),
            values
                .prompt_tokens
                .map_or_else(|| "n/a".to_owned(), |tokens| thousands(tokens as u64)),
            values
                .ttft_p50_ms
                .map_or_else(|| "n/a".to_owned(), |ms| format!("{ms:.2}")),
        ]
    });
    let mut table = Table::new(heads, 2).with_rows(rows);
    // Only what is known.
    let known: Vec<bool> = (0..table.columns.len())
        .map(|column| table.rows.iter().any(|row| row[column] != "n/a".into()))
        .collect();
    let mut known = known.iter();
    table.retain_columns(|_| known.next() == Some(&true));
    table
}

fn marked(map: &CellMap, values: &CellValues) -> String {
    let is_worse = values.arm == Arm::Constrained && map.worse.contains(&values.cell);
    format!("{}{}", name(values.cell), if is_worse { " !" } else { "" })
}

fn add_heat_map(page: &mut Document, map: &CellMap, arm: Arm, metric: &Metric) {
    let of_arm: Vec<&CellValues> = map
        .cells
        .iter()
        .filter(|values| values.arm == arm)
        .collect();
    let rate = |values: &CellValues| -> Option<Rate> { values.rates.get(metric.name).copied() };
    if of_arm.iter().all(|values| rate(values).is_none()) {
        return;
    }
    let rows: BTreeSet<Option<usize>> = of_arm.iter().map(|values| values.cell.tools).collect();
    let columns: BTreeSet<Cell> = of_arm
        .iter()
        .map(|values| Cell {
            tools: None,
            ..values.cell
        })
        .collect();
    let cell = |wanted: Cell| {
        let values = of_arm.iter().find(|values| values.cell == wanted)?;
        let rate = rate(values)?;
        let is_worse = arm == Arm::Constrained && map.worse.contains(&wanted);
        let css = SHADES.iter().find(|(from, _)| rate.percent >= *from)?.1;
        Some(heat_map::Cell {
            class: Class {
                letter: ' ',
                name: metric.label,
                css,
            },
            shown: Some(format!(
                "{:.1}{}",
                rate.percent,
                if is_worse { " !" } else { "" }
            )),
            text: format!("{} of {}, 95 %: {}", rate.hits, rate.of, interval(&rate)),
        })
    };
    let cells = |tools: Option<usize>| {
        columns
            .iter()
            .map(move |column| cell(Cell { tools, ..*column }))
    };
    let drawn: Vec<heat_map::Row> = rows
        .iter()
        .map(|tools| heat_map::Row {
            name: match tools {
                Some(tools) => format!("{tools} tools"),
                None if has_turns(map) => metric.label.to_owned(),
                None => "own tools".to_owned(),
            },
            cells: cells(*tools).collect(),
        })
        .collect();
    let heads = columns.iter().map(|column| match *column {
        column if column == Cell::default() => "own context".to_owned(),
        column => name(column),
    });
    let heads: Vec<String> = heads.collect();
    let of_arm = match map.cells.iter().any(|values| values.arm != arm) {
        true => format!(", arm {}", arm.flag()),
        false => String::new(),
    };
    page.minor_heading(format!("{} in %{of_arm}", metric.label));
    page.push(Block::Html(heat_map::markup("", &heads, &drawn)));
    page.legend([LEGEND]);
}
