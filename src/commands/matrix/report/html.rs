//! The comparison as one page, with nothing from elsewhere and no script; every word that came from outside is escaped. Knows no browser.

use std::fmt::Write as _;

use super::Comparison;
use super::cells::table;
use super::words::{conditions, knees, legend, partial, reasons, shown};
use crate::report::escape::escape;
use crate::report::page;

/// The one table is wide: its words are short, and it gets the room.
const STYLE: &str = "body{max-width:92rem}th,td{padding:.2rem .45rem}th.word,td.word{min-width:4rem}";

/// The whole page.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in &comparison.rows {
        if !names.contains(&row.contender.as_str()) {
            names.push(&row.contender);
        }
    }
    let mut page = page::open(&format!("sobench: {}", names.join(", ")), STYLE);
    if let Some(partial) = partial(comparison) {
        let _ = write!(page, "<p><strong>{partial}</strong></p>");
    }
    for (name, what) in conditions(comparison) {
        let _ = write!(page, "<p>{name}: {}</p>", escape(&what));
    }
    let table = table(comparison);
    page::add_table(&mut page, &table.head, &table.rows, table.word_columns);
    for (place, reason) in reasons(comparison).iter().enumerate() {
        let _ = write!(page, "<p>({}) did not run: {}</p>", place + 1, escape(&shown(reason)));
    }
    for knee in knees(comparison) {
        let _ = write!(page, "<p><strong>{}</strong></p>", escape(&shown(&knee)));
    }
    for notice in &comparison.notices {
        let _ = write!(page, "<p>note: {}</p>", escape(&shown(&notice.to_string())));
    }
    legend(comparison).iter().for_each(|line| {
        let _ = write!(page, "<p>{}</p>", escape(line));
    });
    page::close(page)
}
