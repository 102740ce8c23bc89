//! The report of a preflight: a matrix of classes and the recommended flags, then the details.

use std::fmt::Write as _;

use super::{reasoning, tool_calls, wire};
use sobench_backend::ConstraintDialect;
use sobench_core::constraint::GrammarDialect;
use sobench_core::distinct::distinct;
use sobench_core::error_message::error_message;
use sobench_core::printable::{NAME_CHARS, printable, printable_message};
use sobench_notices::notice::Notice;
use sobench_preflight::constraint_probe::PROMPT;
use sobench_preflight::{Cell, Class, Finding, Preflight, ProbeKind, label};
use sobench_render::text::WIDTH;
use sobench_render::{Document, Table};
use sobench_report::text::Detail;
use sobench_statistics::distributions::unseen_rate;

pub(super) const ANSWER_CHARS: usize = 120;

/// Maximum notices of a summary.
const SUMMARY_NOTICES: usize = 2;

/// Maximum cells in the list of silent losses.
const MAX_LISTED_LOSSES: usize = 4;

/// The parts of a preflight to show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct View {
    pub(crate) detail: Detail,
    /// Whether to show the dialects that the identified server does not have.
    pub(crate) all_dialects: bool,
}

/// The report. A summary fits on 44 lines of 100 columns.
pub(crate) fn document(preflight: &Preflight, view: View) -> Document {
    let mut hidden = if view.all_dialects {
        Vec::new()
    } else {
        preflight.foreign_dialects()
    };
    let shown = Shown::new(preflight, &hidden);
    hidden.extend(&preflight.untested);
    let mut document = Document::new("sobench: preflight");
    let has_other_kinds = preflight.has_other_kinds();
    if !has_other_kinds || preflight.text_kinds().next().is_some() {
        add_text_kinds(&mut document, preflight, &shown, &hidden, view.detail);
    }
    if let Some(found) = &preflight.tool_calls {
        tool_calls::add(&mut document, found, view.detail);
    }
    if let Some(found) = &preflight.reasoning {
        reasoning::add(&mut document, found, view.detail);
    }
    if let Some(found) = &preflight.wire {
        wire::add(&mut document, found, view.detail);
    }
    match view.detail {
        Detail::Summary => add_summary_end(&mut document, preflight),
        Detail::Full => add_details(&mut document, preflight, &shown),
    }
    document
}

/// Adds the matrix of constraints on text by dialect, and the recommendation.
fn add_text_kinds(
    document: &mut Document,
    preflight: &Preflight,
    shown: &Shown<'_>,
    hidden: &[ConstraintDialect],
    detail: Detail,
) {
    document.heading("Constraint enforcement");
    let cell_text = match detail {
        Detail::Summary => |cell: &Cell| cell.finding.class.name().to_owned(),
        Detail::Full => |cell: &Cell| class_with_cause(&cell.finding),
    };
    add_matrix(document, shown, cell_text);
    if !shown.without_fields.is_empty() {
        let names = dialect_names(&shown.without_fields);
        document.paragraph(format!(
            "dialects without a field for these constraints: {names}"
        ));
    }
    if !hidden.is_empty() {
        document.paragraph(format!(
            "dialects that are not needed, or of other servers; tested and shown with --all-dialects: {}",
            dialect_names(hidden)
        ));
    }
    document.heading("What to use");
    document.paragraphs(recommendation(preflight, shown));
}

/// The dialects and cells that the report shows.
struct Shown<'a> {
    /// Dialects of the matrix.
    dialects: Vec<ConstraintDialect>,
    /// Dialects that have no field for any of the constraints.
    without_fields: Vec<ConstraintDialect>,
    /// Cells of all dialects that are not hidden.
    cells: Vec<&'a Cell>,
}

impl<'a> Shown<'a> {
    fn new(preflight: &'a Preflight, hidden: &[ConstraintDialect]) -> Self {
        let cells: Vec<&Cell> = preflight
            .cells
            .iter()
            .filter(|cell| !hidden.contains(&cell.dialect))
            .collect();
        let (without_fields, dialects) = preflight
            .record
            .dialects
            .iter()
            .copied()
            .filter(|dialect| !hidden.contains(dialect))
            .partition(|dialect: &ConstraintDialect| {
                let mut cells = cells
                    .iter()
                    .filter(|cell| cell.dialect == *dialect)
                    .peekable();
                cells.peek().is_some() && cells.all(|cell| cell.finding.class == Class::NotCarried)
            });
        Self {
            dialects,
            without_fields,
            cells,
        }
    }

    /// Kinds and notations in the order of the tests, each once.
    fn rows(&self) -> Vec<(ProbeKind, Option<GrammarDialect>)> {
        distinct(
            ProbeKind::all()
                .flat_map(|kind: ProbeKind| self.cells.iter().filter(move |cell| cell.kind == kind))
                .map(|cell| (cell.kind, cell.notation)),
        )
    }
}

fn dialect_names(dialects: &[ConstraintDialect]) -> String {
    let names: Vec<&str> = dialects.iter().map(|dialect| dialect.name()).collect();
    names.join(", ")
}

/// Adds the matrix: one row per constraint, or one per dialect if that is too wide for a page and
/// takes more lines.
fn add_matrix(document: &mut Document, shown: &Shown<'_>, cell_text: fn(&Cell) -> String) {
    let rows = shown.rows();
    let text = |(kind, notation): (ProbeKind, Option<GrammarDialect>),
                dialect: ConstraintDialect| {
        let cell = shown
            .cells
            .iter()
            .find(|cell| (cell.kind, cell.notation, cell.dialect) == (kind, notation, dialect));
        cell.map_or_else(|| "-".to_owned(), |cell| cell_text(cell))
    };
    let labels: Vec<String> = rows
        .iter()
        .map(|(kind, notation)| label(*kind, *notation))
        .collect();
    let by_constraint = Matrix {
        corner: "constraint",
        row_labels: labels.clone(),
        columns: shown
            .dialects
            .iter()
            .map(|dialect| {
                let cells = rows.iter().map(|row| text(*row, *dialect));
                (dialect.name().to_owned(), cells.collect())
            })
            .collect(),
    };
    let by_dialect = Matrix {
        corner: "dialect",
        row_labels: shown
            .dialects
            .iter()
            .map(|dialect| dialect.name().to_owned())
            .collect(),
        columns: labels
            .into_iter()
            .zip(&rows)
            .map(|(label, row)| {
                let cells = shown.dialects.iter().map(|dialect| text(*row, *dialect));
                (label, cells.collect())
            })
            .collect(),
    };
    let is_too_wide = by_constraint.parts().len() > 1;
    let matrix = if is_too_wide && by_dialect.line_count() < by_constraint.line_count() {
        by_dialect
    } else {
        by_constraint
    };
    for (index, table) in matrix.tables().into_iter().enumerate() {
        if index > 0 {
            document.gap();
        }
        document.table(table);
    }
}

/// A table that is split into several if it is wider than a page.
struct Matrix {
    /// Title of the first column.
    corner: &'static str,
    row_labels: Vec<String>,
    /// Titles and cells of the other columns.
    columns: Vec<(String, Vec<String>)>,
}

impl Matrix {
    /// The columns of each table.
    fn parts(&self) -> Vec<&[(String, Vec<String>)]> {
        let width = |title: &str, cells: &[String]| {
            let texts = cells.iter().map(String::as_str).chain([title]);
            // A blank on each side, and a rule.
            texts.map(|text| text.chars().count()).max().unwrap_or(0) + 3
        };
        let first = width(self.corner, &self.row_labels);
        let (mut parts, mut start, mut used) = (Vec::new(), 0, first);
        for (index, (title, cells)) in self.columns.iter().enumerate() {
            let width = width(title, cells);
            if index > start && used + width > WIDTH {
                parts.push(&self.columns[start..index]);
                (start, used) = (index, first);
            }
            used += width;
        }
        parts.push(&self.columns[start..]);
        parts
    }

    /// Lines of all tables, with two for the titles of each and one between them.
    fn line_count(&self) -> usize {
        let parts = self.parts().len();
        parts * (self.row_labels.len() + 3) - 1
    }

    fn tables(&self) -> Vec<Table> {
        let table = |part: &[(String, Vec<String>)]| {
            let titles = part.iter().map(|(title, _)| title.as_str());
            let mut table = Table::new(std::iter::once(self.corner).chain(titles), 1 + part.len());
            for (index, label) in self.row_labels.iter().enumerate() {
                let cells = part
                    .iter()
                    .map(|(_, cells)| cells.get(index).cloned().unwrap_or_default());
                table.row(std::iter::once(label.clone()).chain(cells));
            }
            table
        };
        self.parts().into_iter().map(table).collect()
    }
}

/// The most important notices, and how to get the rest.
fn add_summary_end(document: &mut Document, preflight: &Preflight) {
    let notices = &preflight.notices;
    document.gap();
    document.notes(
        notices
            .iter()
            .take(SUMMARY_NOTICES)
            .map(|notice| printable(&notice.to_string(), usize::MAX))
            .collect(),
    );
    let more = notices.len().saturating_sub(SUMMARY_NOTICES);
    if more > 0 {
        document.paragraph(format!("{more} more with --detail full"));
    }
    document.gap();
    document.paragraph("reasons, server information and the meaning of the classes: --detail full");
}

/// The sections of a full report.
fn add_details(document: &mut Document, preflight: &Preflight, shown: &Shown<'_>) {
    let details = details(shown);
    if !details.is_empty() {
        document.heading("Reasons");
        document.paragraphs(details);
    }
    document.heading("Server");
    document.facts(facts(preflight));
    document.gap();
    let note = |notice: &Notice| printable(&notice.to_string(), usize::MAX);
    document.notes(preflight.notices.iter().map(note).collect());
    document.heading("Classes");
    let calls = || preflight.tool_calls.iter().flat_map(|found| &found.cells);
    document.definitions(
        Class::ALL
            .into_iter()
            .filter(|class: &Class| {
                shown.cells.iter().any(|cell| cell.finding.class == *class)
                    || calls().any(|cell| cell.finding.class == *class)
            })
            .map(|class| (class.name(), class.meaning())),
    );
}

/// The class with the cause and the status of a failure.
pub(super) fn class_with_cause(finding: &Finding) -> String {
    let status = finding.status.map(|status| status.to_string());
    let additions: Vec<String> = finding
        .cause
        .map(|cause| cause.name().to_owned())
        .into_iter()
        .chain(status)
        .collect();
    match additions.as_slice() {
        [] => finding.class.name().to_owned(),
        additions => format!("{} ({})", finding.class.name(), additions.join(", ")),
    }
}

/// A line for every cell with a reason.
fn details(shown: &Shown<'_>) -> Vec<String> {
    let has_reason =
        |cell: &&&Cell| cell.finding.class != Class::NotCarried && !cell.finding.reason.is_empty();
    shown
        .cells
        .iter()
        .filter(has_reason)
        .map(|cell| detail(cell))
        .collect()
}

fn detail(cell: &Cell) -> String {
    let finding = &cell.finding;
    let retry_note = if cell.asked_again {
        ", tested twice"
    } else {
        ""
    };
    let mut line = format!(
        "{} in {}: {}{retry_note}: {}",
        cell.label(),
        cell.dialect,
        class_with_cause(finding),
        printable_message(&error_message(&finding.reason))
    );
    if let Some(answer) = &finding.answer {
        let _ = write!(line, "; answer: {}", printable(answer, ANSWER_CHARS));
    }
    line
}

fn recommendation(preflight: &Preflight, shown: &Shown<'_>) -> Vec<String> {
    let names = |kinds: &[ProbeKind]| {
        kinds
            .iter()
            .map(|kind| kind.name())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut lines = Vec::new();
    match preflight.recommendation() {
        None => lines.push("no tested constraint is enforced in any dialect".to_owned()),
        Some(best) => {
            lines.push(format!(
                "{}: enforces {}",
                best.flags(),
                names(&best.enforced)
            ));
            lines.push(unseen(best.enforced.len()));
            if !best.missing.is_empty() {
                lines.push(format!(
                    "not proved to be enforced: {}",
                    names(&best.missing)
                ));
            }
        }
    }
    let lost: Vec<String> = shown
        .cells
        .iter()
        .filter(|cell| cell.finding.class.is_silent_loss())
        .map(|cell| format!("{} in {}", cell.label(), cell.dialect))
        .collect();
    if !lost.is_empty() {
        let more = lost.len().saturating_sub(MAX_LISTED_LOSSES);
        let listed = lost[..lost.len() - more].join(", ");
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        lines.push(format!("not applied despite status 200: {listed}{more}"));
    }
    lines
}

/// What one right answer for each kind cannot show.
fn unseen(kinds: usize) -> String {
    let answers = if kinds > 1 {
        format!("one answer for each of {kinds} kinds")
    } else {
        "one answer".to_owned()
    };
    let percent = |answers| 100.0 * unseen_rate(answers);
    format!(
        "seen in {answers}: a server that breaks up to {:.0} % of the answers can look the same; a run of \
         {RUN_REQUESTS} requests finds {:.0} %",
        percent(kinds),
        percent(RUN_REQUESTS)
    )
}

/// Requests of a run that is proposed after a preflight.
const RUN_REQUESTS: usize = 100;

fn facts(preflight: &Preflight) -> Vec<(&'static str, String)> {
    let (record, facts) = (&preflight.record, &preflight.facts);
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
        format!(" (from {})", facts.sources.join(", "))
    };
    let mut lines = vec![
        ("product", format!("{product}{version}{sources}")),
        (
            "endpoint",
            format!(
                "{}{} as {}, model {}",
                name(&record.base_url),
                name(&record.path),
                record.backend,
                name(&record.model)
            ),
        ),
        (
            "engine",
            facts
                .engine
                .as_ref()
                .map_or_else(|| "not reported".to_owned(), name),
        ),
    ];
    lines.extend(
        facts
            .owned_by
            .as_ref()
            .map(|owner| ("model owner", name(owner))),
    );
    lines.extend(
        facts
            .max_model_len
            .map(|tokens| ("context length", format!("{tokens} tokens"))),
    );
    lines.extend(
        facts
            .server_header
            .as_ref()
            .map(|header| ("server header", name(header))),
    );
    let formatting = preflight.spelling.as_ref();
    lines.extend(formatting.map(|formatting| {
        (
            "JSON formatting",
            format!("{} (in one answer)", formatting.description()),
        )
    }));
    lines.extend(
        (record.prompt != PROMPT).then(|| ("prompt", printable(&record.prompt, ANSWER_CHARS))),
    );
    let control = match (&preflight.control.answer, &preflight.control.failure) {
        (Some(answer), _) => format!("answer: {}", printable(answer, ANSWER_CHARS)),
        (None, Some(failure)) => format!(
            "{}: {}",
            failure.class.name(),
            printable_message(&error_message(&failure.reason))
        ),
        (None, None) => "not tested".to_owned(),
    };
    lines.push(("same prompt without a constraint", control));
    lines.push((
        "requests",
        format!("{}, seed {}", preflight.requests, record.seed),
    ));
    lines
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ConstraintDialect::{Guided, ResponseFormat, StructuredOutputs};
    use sobench_backend::ServerKind;
    use sobench_backend::ThinkingSwitch;
    use sobench_core::constraint::ConstraintKind;
    use sobench_preflight::reasoning::ReasoningAnswer;
    use sobench_preflight::testing::{cell, preflight};
    use sobench_preflight::{
        Cause, PreflightConditions, ReasoningPreflight, ReasoningResult, ReasoningVerdict,
        ServerFacts, Spelling, ToolCell, ToolPreflight, ToolQuestion,
    };
    use sobench_render::text;

    /// A preflight with every class.
    pub(crate) fn eventful() -> Preflight {
        let mut cells = Vec::new();
        for (kind, classes) in [
            (
                ProbeKind::JSON_SCHEMA,
                [Class::Enforced, Class::Ignored, Class::WrongWrapper],
            ),
            (
                ProbeKind::Text(ConstraintKind::JsonObject),
                [Class::Unproven, Class::Ignored, Class::WrongChannel],
            ),
            (
                ProbeKind::Text(ConstraintKind::Regex),
                [Class::Rejected, Class::Partial, Class::NotCarried],
            ),
            (
                ProbeKind::GRAMMAR,
                [Class::Enforced, Class::NotSent, Class::NotCarried],
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
        let mut broken = cell(
            ProbeKind::Text(ConstraintKind::Choice),
            StructuredOutputs,
            Class::Broken,
        );
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
        found.spelling = Some(Spelling::from_answer(
            r#"{"m": "1", "z": "ü", "b": "2"}"#,
            &declared,
        ));
        found.notices = vec![Notice::Other("a notice\u{202e}".to_owned())];
        found
    }

    /// The same with tool calls and the reasoning boundary.
    pub(crate) fn eventful_with_all_kinds() -> Preflight {
        use sobench_preflight::tool_calls::{CallControl, Part};
        let cells = ToolQuestion::ALL.into_iter().zip([
            (Class::Enforced, None),
            (Class::Ignored, None),
            (Class::Partial, Some(Part::Arguments)),
            (Class::Leaked, None),
            (Class::Unproven, None),
            (Class::Merged, None),
            (Class::Partial, Some(Part::Cut)),
            (Class::Rejected, None),
        ]);
        let cells = cells.flat_map(|(question, (class, part))| {
            [true, false].map(|stream| {
                let finding = match (class, stream) {
                    (Class::Rejected, _) => {
                        Finding::new(class, r#"{"error": {"message": "unknown tool_choice"}}"#)
                            .status(400)
                    }
                    (Class::Enforced, _) | (Class::Leaked, false) => {
                        Finding::new(Class::Enforced, "")
                    }
                    _ => Finding {
                        answer: Some("f({\"x\": \"y\u{1b}\"})".to_owned()),
                        ..Finding::new(class, "why it is so ".repeat(20))
                    },
                };
                ToolCell {
                    question,
                    stream,
                    asked_again: part == Some(Part::Cut),
                    part,
                    finding,
                }
            })
        });
        let answer = |thinking, constrained, reasoning: &str, content: &str| ReasoningAnswer {
            thinking,
            constrained,
            asked_again: false,
            cut: false,
            reasoning: Some(reasoning.to_owned()),
            content: Some(content.to_owned()),
            failure: None,
        };
        let failed = ReasoningAnswer {
            reasoning: None,
            content: None,
            failure: Some(Finding::new(Class::Rejected, "no grammar").status(400)),
            ..answer(false, true, "", "")
        };
        let result = ReasoningResult::new;
        let mut found = eventful();
        found
            .record
            .kinds
            .extend([ProbeKind::Tool, ProbeKind::Reasoning]);
        found.tool_calls = Some(ToolPreflight {
            control: CallControl {
                calls: true,
                obeys: true,
                answer: Some("f({})".to_owned()),
                ..CallControl::default()
            },
            calls_unasked: Some(true),
            cells: cells.collect(),
        });
        found.reasoning = Some(ReasoningPreflight {
            dialect: Some(ResponseFormat),
            switch: Some(ThinkingSwitch::ChatTemplateKwargs),
            word: "bcdf".to_owned(),
            answers: vec![
                answer(
                    true,
                    false,
                    "I think of bcdf, and of the sea.",
                    "The sea is calm.",
                ),
                answer(true, true, "", r#"{"gh": "jk"}"#),
                answer(
                    false,
                    false,
                    "",
                    "The sea is calm today, with a light wind.",
                ),
                failed,
            ],
            results: vec![
                result(
                    true,
                    ReasoningVerdict::ThinkingSuppressed,
                    "no thoughts with the constraint",
                ),
                result(
                    false,
                    ReasoningVerdict::Undecided,
                    "rejected (400): no grammar",
                ),
            ],
        });
        found
    }

    #[test]
    fn tool_calls_and_reasoning_have_sections() {
        let found = eventful_with_all_kinds();
        insta::assert_snapshot!(
            "tool_calls_and_reasoning_in_full",
            text::render(&document(&found, FULL))
        );
        let only = Preflight {
            cells: Vec::new(),
            record: PreflightConditions {
                kinds: vec![ProbeKind::Tool, ProbeKind::Reasoning],
                dialects: Vec::new(),
                ..found.record.clone()
            },
            ..found
        };
        insta::assert_snapshot!(
            "tool_calls_and_reasoning_in_short",
            text::render(&document(&only, View::default()))
        );
    }

    const FULL: View = View {
        detail: Detail::Full,
        all_dialects: false,
    };

    #[test]
    fn a_full_page_shows_every_cell_and_the_recommendation() {
        insta::assert_snapshot!(text::render(&document(&eventful(), FULL)));
    }

    #[test]
    fn a_summary_shows_the_matrix_and_the_recommendation() {
        insta::assert_snapshot!(text::render(&document(&eventful(), View::default())));
    }

    /// Every kind in every dialect of `backend`, all with this class.
    fn all_cells(backend: ServerKind, class: Class) -> Preflight {
        let mut cells = Vec::new();
        for dialect in backend.dialects() {
            for kind in ProbeKind::of_text() {
                let mut cell = cell(kind, *dialect, class);
                cell.finding.reason = "a long reason of a server ".repeat(40);
                cells.push(cell.clone());
                if kind == ProbeKind::GRAMMAR {
                    cell.notation = Some(GrammarDialect::Lark);
                    cells.push(cell);
                }
            }
        }
        let mut found = preflight(cells);
        found.record.backend = backend;
        found.notices = vec![Notice::Other("a long notice ".repeat(20)); 5];
        found
    }

    #[test]
    fn a_summary_has_at_most_44_lines_of_100_columns() {
        for backend in ServerKind::ALL {
            for class in Class::ALL {
                for all_dialects in [false, true] {
                    let view = View {
                        detail: Detail::Summary,
                        all_dialects,
                    };
                    let page = text::render(&document(&all_cells(backend, class), view));
                    assert!(page.lines().count() <= 44, "{backend} {class:?}:\n{page}");
                    assert!(
                        page.lines().all(|line| line.chars().count() <= 100),
                        "{backend} {class:?}:\n{page}"
                    );
                }
            }
        }
    }

    #[test]
    fn dialects_of_other_servers_are_shown_on_request() {
        let mut found = all_cells(ServerKind::OpenaiChat, Class::Ignored);
        found.facts.product = ServerKind::Vllm.product();
        let all = View {
            all_dialects: true,
            ..View::default()
        };
        let shown = text::render(&document(&found, all));
        let hidden = text::render(&document(&found, View::default()));
        let in_matrix = |page: &str, dialect: &str| {
            let (matrix, _) = page.split_once("What to use").unwrap();
            matrix
                .lines()
                .any(|line| line.contains(dialect) && line.contains('|'))
        };
        for dialect in ["sglang", "llama-cpp", "tgi-grammar"] {
            assert!(in_matrix(&shown, dialect), "{dialect}: {shown}");
            assert!(!in_matrix(&hidden, dialect), "{dialect}: {hidden}");
        }
        for dialect in [
            "structured-outputs",
            "guided",
            "response-format",
            "tool-call",
        ] {
            assert!(in_matrix(&hidden, dialect), "{dialect}: {hidden}");
        }
        assert!(hidden.contains("--all-dialects") && !shown.contains("--all-dialects"));
    }

    #[test]
    fn a_page_has_no_control_characters_and_no_placeholder_zeros() {
        for found in [eventful(), eventful_with_all_kinds(), preflight(Vec::new())] {
            for view in [FULL, View::default()] {
                let page = text::render(&document(&found, view));
                assert!(
                    !page
                        .chars()
                        .any(|character| character.is_control() && character != '\n')
                        && !page.contains('\u{202e}'),
                    "{page}"
                );
                assert!(
                    page.lines().all(|line| line.chars().count() <= 100),
                    "{page}"
                );
            }
        }
        let found = preflight(vec![cell(
            ProbeKind::Text(ConstraintKind::Regex),
            ResponseFormat,
            Class::NotCarried,
        )]);
        let nothing = text::render(&document(&found, View::default()));
        assert!(
            nothing.contains("no tested constraint is enforced")
                && nothing.contains("without a field for these constraints"),
            "{nothing}"
        );
    }
}
