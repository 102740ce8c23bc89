//! The pages of `docs/reference`, made from what the program itself goes by: its parser, its table
//! of exit codes, the contracts of its files. `UPDATE_REFERENCE=1` writes them anew.

mod flags;
mod formats;

use std::fs;

use sobench_core::exit_codes;
use sobench_testkit::in_package;

/// What every page says of itself.
const MADE: &str =
    "<!-- Made by `UPDATE_REFERENCE=1 cargo test --test it reference::`. Do not edit. -->\n";

/// Holds a page to what it would be today, or writes it.
#[track_caller]
fn check(name: &str, title: &str, body: &str) {
    let path = in_package("docs/reference").join(name);
    let page = format!("# {title}\n{MADE}\n{body}");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, page).unwrap();
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let stale = there
        .lines()
        .zip(page.lines())
        .find(|(there, page)| there != page);
    assert!(
        there == page,
        "docs/reference/{name} is stale ({stale:?}): UPDATE_REFERENCE=1 cargo test --test it reference::"
    );
}

/// A table of Markdown; what would end a cell or a line is made harmless.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |text: &String| text.replace('|', "\\|").replace('\n', " ");
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut table = row(head.iter().map(|it| (*it).to_owned()).collect());
    table.push_str(&format!("|{}\n", "---|".repeat(head.len())));
    table.extend(
        rows.iter()
            .map(|cells| row(cells.iter().map(cell).collect())),
    );
    table
}

#[test]
fn the_flags_are_those_of_the_parser() {
    check("flags.md", "Flags", &flags::page());
}

#[test]
fn the_exit_codes_are_those_of_the_program() {
    let row = |it: &exit_codes::Meaning| {
        let command = it
            .command
            .map_or_else(|| "every".to_owned(), |name| format!("`{name}`"));
        vec![it.code.to_string(), command, it.means.to_owned()]
    };
    let rows: Vec<Vec<String>> = exit_codes::TABLE.iter().map(row).collect();
    let body = format!(
        "`bench` is a run, also where no command was typed.\n\n{}",
        table(&["code", "command", "means"], &rows)
    );
    check("exit-codes.md", "Exit codes", &body);
}

#[test]
fn the_formats_are_those_of_the_contracts() {
    check("formats.md", "Files", &formats::page());
}
