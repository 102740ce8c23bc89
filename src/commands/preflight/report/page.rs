//! The page of a preflight: a table of classes, the server's words where a constraint is not
//! enforced, and what to use.

use std::fmt::Write as _;

use crate::commands::distinct::distinct;
use sobench_backend::{ConstraintDialect, error_message};
use sobench_core::constraint::GrammarDialect;
use sobench_core::printable::{NAME_CHARS, printable};
use sobench_notices::notice::Notice;
use sobench_preflight::{Cell, Class, Kind, Preflight, label};
use sobench_render::{Document, Table};

const ANSWER_CHARS: usize = 120;
const WORDS_CHARS: usize = 400;

/// The page.
pub(crate) fn document(preflight: &Preflight) -> Document {
    let mut document = Document::new("sobench: preflight");
    document.heading("Which constraints are enforced");
    document.table(table(preflight));
    let bare = bare_dialects(preflight);
    if !bare.is_empty() {
        let names = bare
            .iter()
            .map(|dialect| dialect.name())
            .collect::<Vec<_>>()
            .join(", ");
        document.paragraph(format!("with no place for any of these here: {names}"));
    }
    let details = details(preflight);
    if !details.is_empty() {
        document.heading("Why");
        document.paragraphs(details);
    }
    document.heading("What to use");
    document.paragraphs(recommendation(preflight));
    document.heading("The server");
    document.facts(facts(preflight));
    document.gap();
    let note = |notice: &Notice| printable(&notice.to_string(), WORDS_CHARS + ANSWER_CHARS);
    document.notes(preflight.notices.iter().map(note).collect());
    document.heading("What the words mean");
    let appears = |class: &Class| {
        preflight
            .cells
            .iter()
            .any(|cell| cell.finding.class == *class)
    };
    document.definitions(
        Class::ALL
            .into_iter()
            .filter(appears)
            .map(|class| (class.name(), class.meaning())),
    );
    document
}

/// Rows are kinds (grammars by notation), columns are dialects.
fn table(preflight: &Preflight) -> Table {
    let bare = bare_dialects(preflight);
    let dialects: Vec<ConstraintDialect> = preflight
        .about
        .dialects
        .iter()
        .copied()
        .filter(|dialect| !bare.contains(dialect))
        .collect();
    let heads = std::iter::once("constraint").chain(dialects.iter().map(|dialect| dialect.name()));
    let mut table = Table::new(heads, 1 + dialects.len());
    for (kind, notation) in rows(preflight) {
        let cell = |dialect: &ConstraintDialect| {
            preflight
                .cells
                .iter()
                .find(|cell| (cell.kind, cell.notation, cell.dialect) == (kind, notation, *dialect))
        };
        let cells = dialects
            .iter()
            .map(|dialect| cell(dialect).map_or_else(|| "-".to_owned(), short));
        table.row(std::iter::once(label(kind, notation)).chain(cells));
    }
    table
}

/// Kinds and notations in the order asked, each once.
fn rows(preflight: &Preflight) -> Vec<(Kind, Option<GrammarDialect>)> {
    let of_kind = |kind: Kind| preflight.cells.iter().filter(move |cell| cell.kind == kind);
    distinct(
        Kind::ALL
            .into_iter()
            .flat_map(of_kind)
            .map(|cell| (cell.kind, cell.notation)),
    )
}

/// Dialects that carry nothing of what was asked.
fn bare_dialects(preflight: &Preflight) -> Vec<ConstraintDialect> {
    let is_bare = |dialect: &ConstraintDialect| {
        let mut cells = preflight
            .cells
            .iter()
            .filter(|cell| cell.dialect == *dialect)
            .peekable();
        cells.peek().is_some() && cells.all(|cell| cell.finding.class == Class::NotCarried)
    };
    preflight
        .about
        .dialects
        .iter()
        .copied()
        .filter(is_bare)
        .collect()
}

/// A class with the little that a cell has room for.
fn short(cell: &Cell) -> String {
    let finding = &cell.finding;
    let status = finding.status.map(|status| status.to_string());
    let words: Vec<String> = finding
        .cause
        .map(|cause| cause.name().to_owned())
        .into_iter()
        .chain(status)
        .collect();
    match words.as_slice() {
        [] => finding.class.name().to_owned(),
        words => format!("{} ({})", finding.class.name(), words.join(", ")),
    }
}

/// A line for every cell with an explanation.
fn details(preflight: &Preflight) -> Vec<String> {
    let is_explained =
        |cell: &&Cell| cell.finding.class != Class::NotCarried && !cell.finding.words.is_empty();
    preflight
        .cells
        .iter()
        .filter(is_explained)
        .map(detail)
        .collect()
}

fn detail(cell: &Cell) -> String {
    let finding = &cell.finding;
    let again = if cell.asked_again {
        ", asked twice"
    } else {
        ""
    };
    let mut line = format!(
        "{} in {}: {}{again}: {}",
        cell.label(),
        cell.dialect,
        short(cell),
        printable(&error_message(&finding.words), WORDS_CHARS)
    );
    if let Some(answer) = &finding.answer {
        let _ = write!(line, "; the answer: {}", printable(answer, ANSWER_CHARS));
    }
    line
}

fn recommendation(preflight: &Preflight) -> Vec<String> {
    let names = |kinds: &[Kind]| {
        kinds
            .iter()
            .map(|kind| kind.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut lines = Vec::new();
    match preflight.recommendation() {
        None => lines.push("nothing that was asked is enforced in any dialect".to_owned()),
        Some(best) => {
            lines.push(format!(
                "{}: enforces {}",
                best.flags(),
                names(&best.enforced)
            ));
            if !best.missing.is_empty() {
                lines.push(format!(
                    "not proved to be enforced with it: {}",
                    names(&best.missing)
                ));
            }
        }
    }
    let lost: Vec<String> = preflight
        .silent_losses()
        .map(|cell| format!("{} in {}", cell.label(), cell.dialect))
        .collect();
    if !lost.is_empty() {
        lines.push(format!(
            "lost without a word, with status 200: {}",
            lost.join(", ")
        ));
    }
    lines
}

fn facts(preflight: &Preflight) -> Vec<(&'static str, String)> {
    let (about, facts) = (&preflight.about, &preflight.facts);
    let name = |text: &String| printable(text, NAME_CHARS);
    let product = facts.product.map_or("unknown", |product| product.label());
    let version = facts
        .version
        .as_ref()
        .map(|version| format!(", version {}", name(version)))
        .unwrap_or_default();
    let sources = if facts.sources.is_empty() {
        String::new()
    } else {
        format!(" (by {})", facts.sources.join(", "))
    };
    let mut lines = vec![
        ("kind", format!("{product}{version}{sources}")),
        (
            "asked at",
            format!(
                "{}{} as {}, model {}",
                name(&about.base_url),
                name(&about.path),
                about.backend,
                name(&about.model)
            ),
        ),
        (
            "engine",
            facts
                .engine
                .as_ref()
                .map_or_else(|| "the server does not tell".to_owned(), name),
        ),
    ];
    lines.extend(
        facts
            .owned_by
            .as_ref()
            .map(|owner| ("model owned by", name(owner))),
    );
    lines.extend(
        facts
            .max_model_len
            .map(|tokens| ("prompt and answer", format!("at most {tokens} tokens"))),
    );
    lines.extend(
        facts
            .server_header
            .as_ref()
            .map(|header| ("server header", name(header))),
    );
    let spelling = preflight.spelling.as_ref();
    lines.extend(spelling.map(|spelling| {
        (
            "JSON is spelt",
            format!("{} (in one answer)", spelling.words()),
        )
    }));
    let control = match (&preflight.control.answer, &preflight.control.failure) {
        (Some(answer), _) => format!("answered: {}", printable(answer, ANSWER_CHARS)),
        (None, Some(failure)) => format!(
            "{}: {}",
            failure.class.name(),
            printable(&error_message(&failure.words), WORDS_CHARS)
        ),
        (None, None) => "not asked".to_owned(),
    };
    lines.push(("the same prompt without a constraint", control));
    lines.push((
        "requests",
        format!("{} in all, seed {}", preflight.requests, about.seed),
    ));
    lines
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ConstraintDialect::{Guided, ResponseFormat, StructuredOutputs};
    use sobench_backend::ServerKind;
    use sobench_preflight::testing::{cell, preflight};
    use sobench_preflight::{Cause, Finding, ServerFacts, Spelling};
    use sobench_render::text;

    /// A preflight in which everything happened.
    pub(crate) fn eventful() -> Preflight {
        let mut cells = Vec::new();
        for (kind, classes) in [
            (
                Kind::Json,
                [Class::Enforced, Class::Ignored, Class::WrongWrapper],
            ),
            (
                Kind::JsonObject,
                [Class::Unproven, Class::Ignored, Class::Enforced],
            ),
            (
                Kind::Regex,
                [Class::Rejected, Class::Partial, Class::NotCarried],
            ),
            (
                Kind::Grammar,
                [Class::Enforced, Class::NotAsked, Class::NotCarried],
            ),
        ] {
            let dialects = [StructuredOutputs, Guided, ResponseFormat];
            cells.extend(
                dialects
                    .into_iter()
                    .zip(classes)
                    .map(|(dialect, class)| cell(kind, dialect, class)),
            );
        }
        let mut broken = cell(Kind::Choice, StructuredOutputs, Class::Broken);
        broken.finding =
            Finding::broken(Cause::ServerError, "Internal \u{1b}[31mServer Error").status(500);
        broken.asked_again = true;
        cells.push(broken);
        let mut found = preflight(cells);
        found.facts = ServerFacts {
            product: ServerKind::Vllm.product(),
            version: Some("0.32.0".to_owned()),
            engine: None,
            model: Some("tiny".to_owned()),
            max_model_len: Some(4096),
            owned_by: Some("vllm".to_owned()),
            server_header: Some("uvicorn".to_owned()),
            sources: vec!["/version", "/v1/models"],
        };
        let declared = ["m", "z", "b"].map(str::to_owned);
        found.spelling = Some(Spelling::read(
            r#"{"m": "1", "z": "ü", "b": "2"}"#,
            &declared,
        ));
        found.notices = vec![Notice::Other("a notice\u{202e}".to_owned())];
        found
    }

    #[test]
    fn a_page_shows_every_cell_and_what_to_use() {
        insta::assert_snapshot!(text::render(&document(&eventful())));
    }

    #[test]
    fn a_page_carries_nothing_that_a_terminal_obeys_and_nothing_unknown_as_a_zero() {
        for found in [eventful(), preflight(Vec::new())] {
            let page = text::render(&document(&found));
            assert!(
                !page
                    .chars()
                    .any(|character| character.is_control() && character != '\n')
                    && !page.contains('\u{202e}'),
                "{page}"
            );
            assert!(
                page.lines().all(|line| line.chars().count() <= 120),
                "{page}"
            );
        }
        let nothing = text::render(&document(&preflight(vec![cell(
            Kind::Regex,
            ResponseFormat,
            Class::NotCarried,
        )])));
        assert!(
            nothing.contains("nothing that was asked is enforced")
                && nothing.contains("no place for any"),
            "{nothing}"
        );
    }
}
