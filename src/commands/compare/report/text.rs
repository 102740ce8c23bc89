//! A comparison on a terminal. Lays out blocks, and knows nothing of what they say.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

use super::blocks::{self, Block};
use crate::compare::Comparison;

/// The page.
pub fn render(comparison: &Comparison) -> String {
    let mut page = String::new();
    for block in blocks::all(comparison) {
        page.push_str(&match block {
            Block::Heading(title) => format!("\n{title}\n"),
            Block::Lines(lines) => lines.iter().map(|line| format!("{}\n", wrapped(line))).collect(),
            Block::Table { rows, figures } => table(rows, figures),
            Block::Case { title, seen } => format!("  {title}\n    {}\n    {}\n", seen[0], seen[1]),
        });
    }
    page.trim_start().to_owned()
}

/// The most characters of a line of words.
const LINE_CHARS: usize = 110;

fn table(rows: Vec<Vec<String>>, figures: std::ops::Range<usize>) -> String {
    let mut builder = Builder::default();
    rows.into_iter().for_each(|row| builder.push_record(row));
    let mut table = builder.build();
    table.with(Style::psql());
    if !figures.is_empty() {
        table.with(Modify::new(Columns::new(figures)).with(Alignment::right()));
    }
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn wrapped(line: &str) -> String {
    let mut text = String::new();
    let mut used = 0;
    for word in line.split(' ') {
        let width = word.chars().count();
        if used > 0 && used + 1 + width > LINE_CHARS {
            text.push_str("\n  ");
            used = 2;
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += width;
    }
    text
}
