//! The comparison as Markdown, for a pull request. Knows no figure's meaning.

use std::fmt::Write as _;

use super::Comparison;
use super::cells::{Table, table};
use super::words::{conditions, knees, legend, partial, reasons, shown};
use crate::report::escape::markdown_text;

/// A heading, the conditions, the table, and what is to be said of it.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut page = "### sobench: backends side by side\n\n".to_owned();
    if let Some(partial) = partial(comparison) {
        let _ = writeln!(page, "**{partial}**\n");
    }
    for (name, what) in conditions(comparison) {
        let _ = writeln!(page, "- {name}: {}", markdown_text(&what));
    }
    add_table(&mut page, &table(comparison));
    for (place, reason) in reasons(comparison).iter().enumerate() {
        let _ = writeln!(page, "\n({}) did not run: {}", place + 1, markdown_text(&shown(reason)));
    }
    for knee in knees(comparison) {
        let _ = writeln!(page, "\n**{}**", markdown_text(&shown(&knee)));
    }
    for notice in &comparison.notices {
        let _ = writeln!(page, "\n> {}", markdown_text(&shown(&notice.to_string())));
    }
    page.push_str("\n<sub>\n");
    legend(comparison).iter().for_each(|line| {
        let _ = writeln!(page, "{}<br>", markdown_text(line));
    });
    page.push_str("</sub>\n");
    page
}

fn add_table(page: &mut String, table: &Table) {
    let line = |cells: &[String]| {
        let cells: Vec<String> =
            cells.iter().map(|cell| cell.lines().map(markdown_text).collect::<Vec<_>>().join("<br>")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = |place: usize| if place < table.word_columns { "---" } else { "---:" };
    let rules: Vec<&str> = (0..table.head.len()).map(rule).collect();
    let _ = write!(page, "\n{}| {} |\n", line(&table.head), rules.join(" | "));
    table.rows.iter().for_each(|row| page.push_str(&line(row)));
}
