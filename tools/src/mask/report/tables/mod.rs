//! The tables of a measurement, in reading order.

mod drafts;
mod lists;
mod outcomes;
mod times;

use super::{EngineSummary, Summary};
use sobench_core::printable::printable;
use sobench_render::{Document, Table};

/// Maximum length of a line in a table head.
const HEAD_CHARS: usize = 18;

/// A label with an accessor.
type Labelled<T, U> = (&'static str, fn(&T) -> &U);

/// A label with a count.
type Counted<T> = (&'static str, fn(&T) -> u64);

/// Adds every non-empty table with its heading and legend.
pub(super) fn add(document: &mut Document, summary: &Summary) {
    outcomes::add_schemas(document, summary);
    outcomes::add_instances(document, summary);
    outcomes::add_other_spellings(document, summary);
    times::add_compile(document, summary);
    times::add_masks(document, summary);
    times::add_other_spellings(document, summary);
    times::add_one_core(document, summary);
    times::add_batches(document, summary);
    drafts::add(document, summary);
    times::add_memory(document, summary);
    times::add_maskbench(document, summary);
    lists::add_tags(document, summary);
    lists::add_routes(document, summary);
    lists::add_reasons(document, summary);
    lists::add_witnesses(document, summary);
    lists::add_disputed(document, summary);
    lists::add_engines(document, summary);
}

/// Adds a heading, a table and its legend, unless the table is empty.
fn add_section(document: &mut Document, title: String, table: Table, legend: &[&str]) {
    if table.is_empty() {
        return;
    }
    document.heading(title);
    document.table(table);
    if !legend.is_empty() {
        document.legend(legend.iter().copied());
    }
}

/// A table with a column for each engine, headed by its name, library and version.
fn by_engine(summary: &Summary, first: &str) -> Table {
    Table::new(
        std::iter::once(first.to_owned()).chain(summary.engines.iter().map(engine_head)),
        1,
    )
}

fn engine_head(engine: &EngineSummary) -> String {
    let mut lines = vec![engine.engine.name().to_owned(), String::new()];
    for word in printable(&engine.version, 4 * HEAD_CHARS)
        .split(' ')
        .flat_map(pieces)
    {
        let line = lines.last_mut().expect("there are at least two lines");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > HEAD_CHARS {
            lines.push(word);
        } else {
            *line = format!("{line}{}{word}", if line.is_empty() { "" } else { " " });
        }
    }
    lines.join("\n")
}

/// Splits a word into pieces that fit on a line.
fn pieces(word: &str) -> Vec<String> {
    word.chars()
        .collect::<Vec<_>>()
        .chunks(HEAD_CHARS)
        .map(|piece| piece.iter().collect())
        .collect()
}

/// A row with a cell for each engine.
pub(crate) fn row<E>(
    engines: &[E],
    label: impl Into<String>,
    cell: impl Fn(&E) -> String,
) -> Vec<String> {
    std::iter::once(label.into())
        .chain(engines.iter().map(cell))
        .collect()
}
