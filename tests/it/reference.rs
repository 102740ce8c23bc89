//! Generates the pages of `docs/reference` from the parser and the exit codes, and checks
//! that they are current. `SOBENCH_UPDATE=1` writes them.

mod flags;

use std::fs;

use sobench_core::exit_codes;
use sobench_testkit::repository_path;

/// The first lines of every page.
const GENERATED: &str =
    "<!-- Made by `SOBENCH_UPDATE=1 cargo test --test it reference::`. Do not edit. -->\n";

/// Compares a page with its generated text, or writes it.
#[track_caller]
fn check(name: &str, title: &str, body: &str) {
    let path = repository_path("docs/reference").join(name);
    let page = format!("# {title}\n{GENERATED}\n{body}");
    if std::env::var_os("SOBENCH_UPDATE").is_some() {
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
        "docs/reference/{name} is stale ({stale:?}): SOBENCH_UPDATE=1 cargo test --test it reference::"
    );
}

/// A Markdown table; escapes pipes and line breaks.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |text: &String| text.replace('|', "\\|").replace('\n', " ");
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut table = row(head.iter().map(|title| (*title).to_owned()).collect());
    table.push_str(&format!("|{}\n", "---|".repeat(head.len())));
    table.extend(
        rows.iter()
            .map(|cells| row(cells.iter().map(cell).collect())),
    );
    table
}

#[test]
fn flags_page_is_current() {
    check("flags.md", "Flags", &flags::page());
}

#[test]
fn exit_codes_page_is_current() {
    let row = |exit: &exit_codes::Meaning| {
        let command = exit
            .command
            .map_or_else(|| "every".to_owned(), |name| format!("`{name}`"));
        vec![exit.code.to_string(), command, exit.means.to_owned()]
    };
    let rows: Vec<Vec<String>> = exit_codes::TABLE.iter().map(row).collect();
    let body = format!(
        "`bench` is the default command.\n\n{}",
        table(&["code", "command", "means"], &rows)
    );
    check("exit-codes.md", "Exit codes", &body);
}
