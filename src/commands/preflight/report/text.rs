//! What a person reads: a table of classes, what the server said where it is not as it should be, what to use. Knows no file.

use std::fmt::Write as _;

use tabled::builder::Builder;
use tabled::settings::Style;

use super::words::message;
use crate::backend::ConstraintDialect;
use crate::constraint::GrammarDialect;
use crate::preflight::{Cell, Class, Kind, Preflight, label};
use crate::printable::printable;
use crate::report::wrap::add_wrapped;

/// The most characters of a name, of an answer and of a sentence that came from outside.
const NAME_CHARS: usize = 200;
const ANSWER_CHARS: usize = 120;
const WORDS_CHARS: usize = 400;

/// The whole console output, with a final line feed.
pub(crate) fn render(preflight: &Preflight) -> String {
    let mut page = String::from("Which constraints are enforced\n");
    page.push_str(&table(preflight));
    let bare = bare_dialects(preflight);
    if !bare.is_empty() {
        let names = bare.iter().map(|dialect| dialect.name()).collect::<Vec<_>>().join(", ");
        add_wrapped(&mut page, &format!("with no place for any of these here: {names}"));
    }
    add_details(&mut page, preflight);
    page.push_str("\nWhat to use\n");
    for line in recommendation(preflight) {
        add_wrapped(&mut page, &line);
    }
    page.push_str("\nThe server\n");
    for (name, fact) in facts(preflight) {
        add_wrapped(&mut page, &format!("{name}: {fact}"));
    }
    if !preflight.notices.is_empty() {
        page.push('\n');
        preflight
            .notices
            .iter()
            .for_each(|it| add_wrapped(&mut page, &format!("note: {}", printable(&it.to_string(), WORDS_CHARS + ANSWER_CHARS))));
    }
    page.push_str("\nWhat the words mean\n");
    for class in Class::ALL.into_iter().filter(|class| preflight.cells.iter().any(|cell| cell.finding.class == *class)) {
        add_wrapped(&mut page, &format!("{}: {}", class.name(), class.meaning()));
    }
    page
}

/// Rows are kinds (grammars by notation), columns are dialects.
fn table(preflight: &Preflight) -> String {
    let bare = bare_dialects(preflight);
    let dialects: Vec<ConstraintDialect> =
        preflight.about.dialects.iter().copied().filter(|dialect| !bare.contains(dialect)).collect();
    let mut builder = Builder::default();
    builder.push_record(std::iter::once("constraint").chain(dialects.iter().map(|dialect| dialect.name())));
    for (kind, notation) in rows(preflight) {
        let cell = |dialect: &ConstraintDialect| {
            preflight.cells.iter().find(|it| (it.kind, it.notation, it.dialect) == (kind, notation, *dialect))
        };
        let cells = dialects.iter().map(|dialect| cell(dialect).map_or_else(|| "-".to_owned(), short));
        builder.push_record(std::iter::once(label(kind, notation)).chain(cells));
    }
    let mut table = builder.build();
    table.with(Style::psql());
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Kinds and notations in the order asked, each once.
fn rows(preflight: &Preflight) -> Vec<(Kind, Option<GrammarDialect>)> {
    let mut rows: Vec<(Kind, Option<GrammarDialect>)> = Vec::new();
    for kind in Kind::ALL {
        for cell in preflight.cells.iter().filter(|cell| cell.kind == kind) {
            if !rows.contains(&(kind, cell.notation)) {
                rows.push((kind, cell.notation));
            }
        }
    }
    rows
}

/// Dialects that carry nothing of what was asked.
fn bare_dialects(preflight: &Preflight) -> Vec<ConstraintDialect> {
    let is_bare = |dialect: &ConstraintDialect| {
        let mut cells = preflight.cells.iter().filter(|cell| cell.dialect == *dialect).peekable();
        cells.peek().is_some() && cells.all(|cell| cell.finding.class == Class::NotCarried)
    };
    preflight.about.dialects.iter().copied().filter(is_bare).collect()
}

/// A class with the little that a cell has room for.
fn short(cell: &Cell) -> String {
    let finding = &cell.finding;
    let status = finding.status.map(|status| status.to_string());
    let words: Vec<String> = finding.cause.map(|cause| cause.name().to_owned()).into_iter().chain(status).collect();
    match words.as_slice() {
        [] => finding.class.name().to_owned(),
        words => format!("{} ({})", finding.class.name(), words.join(", ")),
    }
}

/// A line for every cell that says more than its class.
fn add_details(page: &mut String, preflight: &Preflight) {
    let telling = |cell: &&Cell| cell.finding.class != Class::NotCarried && !cell.finding.words.is_empty();
    let mut cells = preflight.cells.iter().filter(telling).peekable();
    if cells.peek().is_none() {
        return;
    }
    page.push_str("\nWhy\n");
    for cell in cells {
        let finding = &cell.finding;
        let again = if cell.asked_again { ", asked twice" } else { "" };
        let mut line = format!(
            "{} in {}: {}{again}: {}",
            cell.label(),
            cell.dialect,
            short(cell),
            printable(&message(&finding.words), WORDS_CHARS)
        );
        if let Some(answer) = &finding.answer {
            let _ = write!(line, "; the answer: {}", printable(answer, ANSWER_CHARS));
        }
        add_wrapped(page, &line);
    }
}

fn recommendation(preflight: &Preflight) -> Vec<String> {
    let names = |kinds: &[Kind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    let mut lines = Vec::new();
    match preflight.recommendation() {
        None => lines.push("nothing that was asked is enforced in any dialect".to_owned()),
        Some(best) => {
            lines.push(format!("{}: enforces {}", best.flags(), names(&best.enforced)));
            if !best.missing.is_empty() {
                lines.push(format!("not proved to be enforced with it: {}", names(&best.missing)));
            }
        }
    }
    let lost: Vec<String> = preflight.silent_losses().map(|cell| format!("{} in {}", cell.label(), cell.dialect)).collect();
    if !lost.is_empty() {
        lines.push(format!("lost without a word, with status 200: {}", lost.join(", ")));
    }
    lines
}

fn facts(preflight: &Preflight) -> Vec<(&'static str, String)> {
    let (about, facts) = (&preflight.about, &preflight.facts);
    let name = |text: &String| printable(text, NAME_CHARS);
    let product = facts.product.map_or("unknown", |product| product.name());
    let version = facts.version.as_ref().map(|version| format!(", version {}", name(version))).unwrap_or_default();
    let sources = if facts.sources.is_empty() { String::new() } else { format!(" (by {})", facts.sources.join(", ")) };
    let mut lines = vec![
        ("kind", format!("{product}{version}{sources}")),
        (
            "asked at",
            format!("{}{} as {}, model {}", name(&about.base_url), name(&about.path), about.backend, name(&about.model)),
        ),
        ("engine", facts.engine.as_ref().map_or_else(|| "the server does not tell".to_owned(), name)),
    ];
    lines.extend(facts.owned_by.as_ref().map(|owner| ("model owned by", name(owner))));
    lines.extend(facts.max_model_len.map(|tokens| ("prompt and answer", format!("at most {tokens} tokens"))));
    lines.extend(facts.server_header.as_ref().map(|header| ("server header", name(header))));
    let spelling = preflight.spelling.as_ref();
    lines.extend(spelling.map(|spelling| ("JSON is spelt", format!("{} (in one answer)", spelling.words()))));
    let control = match (&preflight.control.answer, &preflight.control.failure) {
        (Some(answer), _) => format!("answered: {}", printable(answer, ANSWER_CHARS)),
        (None, Some(failure)) => format!("{}: {}", failure.class.name(), printable(&message(&failure.words), WORDS_CHARS)),
        (None, None) => "not asked".to_owned(),
    };
    lines.push(("the same prompt without a constraint", control));
    lines.push(("requests", format!("{} in all, seed {}", preflight.requests, about.seed)));
    lines
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::notice::Notice;
    use crate::preflight::testing::{cell, preflight};
    use crate::preflight::{Cause, Finding, Product, ServerFacts, Spelling};
    use ConstraintDialect::{Guided, ResponseFormat, StructuredOutputs};

    /// A preflight in which everything happened.
    pub(crate) fn eventful() -> Preflight {
        let mut cells = Vec::new();
        for (kind, classes) in [
            (Kind::Json, [Class::Enforced, Class::Ignored, Class::WrongWrapper]),
            (Kind::JsonObject, [Class::Unproven, Class::Ignored, Class::Enforced]),
            (Kind::Regex, [Class::Rejected, Class::Partial, Class::NotCarried]),
            (Kind::Grammar, [Class::Enforced, Class::NotAsked, Class::NotCarried]),
        ] {
            let dialects = [StructuredOutputs, Guided, ResponseFormat];
            cells.extend(dialects.into_iter().zip(classes).map(|(dialect, class)| cell(kind, dialect, class)));
        }
        let mut broken = cell(Kind::Choice, StructuredOutputs, Class::Broken);
        broken.finding = Finding::broken(Cause::ServerError, "Internal \u{1b}[31mServer Error").status(500);
        broken.asked_again = true;
        cells.push(broken);
        let mut found = preflight(cells);
        found.facts = ServerFacts {
            product: Some(Product::Vllm),
            version: Some("0.32.0".to_owned()),
            engine: None,
            model: Some("tiny".to_owned()),
            max_model_len: Some(4096),
            owned_by: Some("vllm".to_owned()),
            server_header: Some("uvicorn".to_owned()),
            sources: vec!["/version", "/v1/models"],
        };
        let declared = ["m", "z", "b"].map(str::to_owned);
        found.spelling = Some(Spelling::read(r#"{"m": "1", "z": "ü", "b": "2"}"#, &declared));
        found.notices = vec![Notice::Other("a notice\u{202e}".to_owned())];
        found
    }

    #[test]
    fn a_page_shows_every_cell_and_what_to_use() {
        insta::assert_snapshot!(render(&eventful()));
    }

    #[test]
    fn a_page_carries_nothing_that_a_terminal_obeys_and_nothing_unknown_as_a_zero() {
        for found in [eventful(), preflight(Vec::new())] {
            let page = render(&found);
            assert!(!page.chars().any(|it| it.is_control() && it != '\n') && !page.contains('\u{202e}'), "{page}");
            assert!(page.lines().all(|line| line.chars().count() <= 120), "{page}");
        }
        let nothing = render(&preflight(vec![cell(Kind::Regex, ResponseFormat, Class::NotCarried)]));
        assert!(nothing.contains("nothing that was asked is enforced") && nothing.contains("no place for any"), "{nothing}");
    }
}
