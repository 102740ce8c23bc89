//! The tables of a measurement as cells, in reading order, for the text and the page alike. Knows no layout.

mod lists;
mod outcomes;
mod times;

use super::{EngineSummary, Summary};
use crate::printable::printable;

/// The most characters of a line in a table's head.
const HEAD_CHARS: usize = 18;

/// A table with what it is about.
pub(super) struct Section {
    pub title: String,
    /// Sentences under the title.
    pub notes: Vec<String>,
    /// Lines of a cell are kept apart by line feeds.
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// How many columns from the left hold words; the others hold numbers.
    pub word_columns: usize,
}

/// A label, and the part of a thing that it stands for.
type Labelled<T, U> = (&'static str, fn(&T) -> &U);

/// A label, and the count of a thing that it stands for.
type Counted<T> = (&'static str, fn(&T) -> u64);

/// Every table that has something to say.
pub(super) fn all(summary: &Summary) -> Vec<Section> {
    let mut sections = vec![outcomes::schemas(summary), outcomes::instances(summary)];
    sections.extend(outcomes::other_spellings(summary));
    sections.extend(times::compile(summary));
    sections.extend(times::masks(summary));
    sections.extend(times::other_spellings(summary));
    sections.extend(times::one_core(summary));
    sections.extend(times::batches(summary));
    sections.push(times::memory(summary));
    sections.extend(times::maskbench(summary));
    sections.extend(lists::tags(summary));
    sections.extend(lists::routes(summary));
    sections.extend(lists::reasons(summary));
    sections.extend(lists::witnesses(summary));
    sections.extend(lists::disputed(summary));
    sections.push(lists::engines(summary));
    sections
}

/// The head of a table with a column for each engine: name, library and version.
fn head(summary: &Summary, first: &str) -> Vec<String> {
    std::iter::once(first.to_owned()).chain(summary.engines.iter().map(engine_head)).collect()
}

fn engine_head(engine: &EngineSummary) -> String {
    let mut lines = vec![engine.engine.name().to_owned(), String::new()];
    for word in printable(&engine.version, 4 * HEAD_CHARS).split(' ').flat_map(pieces) {
        let line = lines.last_mut().expect("there are two lines from the start");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > HEAD_CHARS {
            lines.push(word);
        } else {
            *line = format!("{line}{}{word}", if line.is_empty() { "" } else { " " });
        }
    }
    lines.join("\n")
}

/// A word in pieces that fit into a line.
fn pieces(word: &str) -> Vec<String> {
    word.chars().collect::<Vec<_>>().chunks(HEAD_CHARS).map(|piece| piece.iter().collect()).collect()
}

/// A row with a cell for each engine.
fn row(summary: &Summary, label: impl Into<String>, cell: impl Fn(&EngineSummary) -> String) -> Vec<String> {
    std::iter::once(label.into()).chain(summary.engines.iter().map(cell)).collect()
}
