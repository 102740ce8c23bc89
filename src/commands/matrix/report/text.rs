//! The comparison as a person reads it on a terminal. Knows no figure's meaning.

use std::fmt::Write as _;

use tabled::builder::Builder;
use tabled::settings::formatting::AlignmentStrategy;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

use super::Comparison;
use super::cells::{Table, table};
use super::words::{conditions, knees, legend, partial, reasons, shown};
use crate::report::wrap::add_wrapped;

/// The page.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut page = String::new();
    if let Some(partial) = partial(comparison) {
        let _ = writeln!(page, "{partial}");
    }
    conditions(comparison).iter().for_each(|(name, what)| add_wrapped(&mut page, &format!("{name}: {what}")));
    let _ = writeln!(page, "\n{}", laid_out(&table(comparison)));
    for (place, reason) in reasons(comparison).iter().enumerate() {
        add_wrapped(&mut page, &format!("({}) did not run: {}", place + 1, shown(reason)));
    }
    let knees = knees(comparison);
    if !knees.is_empty() {
        page.push('\n');
        knees.iter().for_each(|knee| add_wrapped(&mut page, &shown(knee)));
    }
    page.push('\n');
    comparison.notices.iter().for_each(|notice| add_wrapped(&mut page, &format!("note: {}", shown(&notice.to_string()))));
    legend(comparison).iter().for_each(|line| add_wrapped(&mut page, line));
    page
}

fn laid_out(table: &Table) -> String {
    let mut builder = Builder::default();
    builder.push_record(&table.head);
    table.rows.iter().for_each(|row| builder.push_record(row));
    let mut laid = builder.build();
    let numbers = Modify::new(Columns::new(table.word_columns..)).with(Alignment::right()).with(AlignmentStrategy::PerLine);
    laid.with(Style::psql()).with(numbers);
    laid.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
