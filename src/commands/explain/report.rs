//! The page of an explanation: what is wrong first, then its cause, the smallest input and cures.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, json};

use super::cause::{Cause, Limit, Place, size};
use super::explanation::{Explained, Explanation, Outcome};
use super::failure::{Failure, time};
use super::ignored::{Kept, KeptVerdict, Violation};
use super::input::Part;
use super::json::ExplainFile;
use crate::commands::output::pretty;
use sobench_core::distinct::distinct;
use sobench_core::output_format::OutputFormat;
use sobench_core::printable::{printable, printable_message};
use sobench_render::{Document, Table, text as render};
use sobench_statistics::distributions::unseen_rate;

/// Width of the names at the start of lines.
const NAME_WIDTH: usize = 9;

/// Characters of a line's text, of an answer and of the smallest input.
const LINE_CHARS: usize = 160;
const ANSWER_CHARS: usize = 100;

/// The widest place in the table.
const PLACE_CHARS: usize = 50;

/// The name of the first line, which is not shown.
const FIRST: &str = "first";

/// Keywords without a violation that are named.
const MAX_NAMED: usize = 8;

/// The explanations in a format.
pub(super) fn printed(format: OutputFormat, found: &[Explanation]) -> String {
    match format {
        OutputFormat::Json => pretty(&ExplainFile::new(found)),
        _ => {
            let pages = found.iter().map(text);
            let table = table(found).map(|table| {
                let mut document = Document::default();
                document.table(table);
                render::render(&document)
            });
            table
                .into_iter()
                .chain(pages)
                .collect::<Vec<_>>()
                .join("\n")
        }
    }
}

/// A line for each part and keyword that is not fine, by server; `None` for one server.
fn table(found: &[Explanation]) -> Option<Table> {
    let servers = distinct(found.iter().map(|found| found.server.as_str()));
    let mut rows: IndexMap<String, Vec<&'static str>> = IndexMap::new();
    for explanation in found {
        let column = servers
            .iter()
            .position(|server| *server == explanation.server)?;
        let mut put = |place: String, word: &'static str| {
            let row = rows.entry(place).or_insert_with(|| vec![""; servers.len()]);
            row[column] = word;
        };
        for explained in &explanation.causes {
            let places = explained.cause.places.iter().map(place_text);
            let name = match places.collect::<Vec<_>>() {
                places if places.is_empty() => explanation.subject.clone(),
                places => places.join(" with "),
            };
            put(name, explained.cause.failure.word());
        }
        for kept in explanation
            .keywords
            .iter()
            .filter(|kept| kept.violation.is_some())
        {
            put(kept.name().into_owned(), "violation seen");
        }
    }
    let heads = std::iter::once("").chain(servers.iter().copied());
    let mut table = Table::new(heads, servers.len() + 1).wrapped(0, PLACE_CHARS);
    for (place, words) in rows {
        table.row(std::iter::once(place).chain(words.into_iter().map(str::to_owned)));
    }
    (servers.len() > 1).then_some(table)?.non_empty()
}

/// A line with a name, and lines below it.
struct Lines(String);

impl Lines {
    fn push(&mut self, name: &str, text: &str) {
        let text = printable(text, LINE_CHARS);
        if name == FIRST {
            self.0.push_str(&text);
            self.0.push('\n');
            return;
        }
        self.0
            .push_str(format!("{name:<NAME_WIDTH$}{text}").trim_end());
        self.0.push('\n');
    }
}

fn text(found: &Explanation) -> String {
    let mut lines = Lines(String::new());
    let cost = format!("{} requests, {:.1} s", found.requests, found.seconds);
    let (subject, server) = (&found.subject, &found.server);
    match &found.outcome {
        Outcome::Unknown => lines.push(
            FIRST,
            &format!("{subject}: not explained on {server} ({cost})"),
        ),
        Outcome::Accepted => {
            let times = found.times_ms.map_or_else(String::new, |(with, without)| {
                format!(
                    ", first token {} (without the constraint {})",
                    time(with),
                    time(without)
                )
            });
            lines.push(
                FIRST,
                &format!("{subject}: accepted by {server}{times} ({cost})"),
            );
        }
        Outcome::Fails(failure @ Failure::Refused { .. }) => {
            lines.push(FIRST, &format!("{subject}: refused by {server} ({cost})"));
            lines.push("words", &failure.to_string());
        }
        Outcome::Fails(failure) => {
            lines.push(
                FIRST,
                &format!(
                    "{subject}: {} on {server}: {failure} ({cost})",
                    failure.word()
                ),
            );
        }
        Outcome::Flaky {
            failed,
            of,
            failure,
        } => {
            lines.push(
                FIRST,
                &format!(
                    "{subject}: flaky on {server}: {failed} of {of} equal requests fail ({cost})"
                ),
            );
            lines.push("words", &failure.to_string());
        }
    }
    if let Outcome::Fails(failure) = &found.outcome
        && found.causes.is_empty()
        && failure.is_harmful()
        && found.stopped.is_none()
    {
        lines.push(
            "cause",
            "not looked for: it may harm the server and its users (--i-own-this-server)",
        );
    }
    if found.is_required {
        lines.push("", "with tool_choice \"required\"; accepted with \"auto\"");
    }
    let whole = size(&found.part);
    for (number, explained) in found.causes.iter().enumerate() {
        if number > 0 {
            lines.push("and", &explained.cause.failure.to_string());
        }
        cause(&mut lines, explained, whole);
    }
    if found.is_cured {
        lines.push("all", "without all of these parts it is accepted");
    }
    keywords(&mut lines, &found.keywords);
    if let Some(stop) = &found.stopped {
        lines.push("stopped", &stop.to_string());
    }
    lines.0
}

fn cause(lines: &mut Lines, explained: &Explained, whole: usize) {
    let Explained {
        cause,
        cures,
        engines,
    } = explained;
    for (number, place) in cause.places.iter().enumerate() {
        lines.push(
            if number == 0 { "cause" } else { "with" },
            &place_text(place),
        );
    }
    if cause.places.is_empty() && cause.limit.is_none() {
        let text = match (&cause.stopped, &cause.minimal) {
            (Some(_), _) => "not found",
            (None, Part::Text(_)) => "in the smallest text that fails",
            (None, Part::Tools(_)) => "not one of the tools",
            (None, _) => "the part as a whole",
        };
        lines.push("cause", text);
    }
    let name = if cause.places.is_empty() && cause.limit.is_some() {
        "cause"
    } else {
        ""
    };
    let mut seen: Vec<String> = cause
        .limit
        .iter()
        .map(|limit| limit_text(limit, cause))
        .collect();
    seen.extend(cause.seen.iter().cloned());
    if !seen.is_empty() {
        lines.push(name, &seen.join("; "));
    }
    let bytes = size(&cause.minimal);
    let text = match &cause.minimal {
        Part::Text(constraint) => serde_json::to_string(constraint).unwrap_or_default(),
        part => part.to_json().to_string(),
    };
    let room = LINE_CHARS.saturating_sub(40);
    lines.push(
        "minimal",
        &format!("{}  ({bytes} bytes, from {whole})", printable(&text, room)),
    );
    if !cause.is_checked && cause.stopped.is_none() {
        let text = match cause.failure {
            Failure::Refused { .. } => "undecided: it did not fail when it was sent again",
            _ => "undecided: times vary; it was not slow when it was sent again",
        };
        lines.push("", text);
    }
    if !engines.is_empty() {
        let said = engines
            .iter()
            .map(|(name, says)| format!("{name} {}", printable_message(says)));
        lines.push(
            "engines",
            &format!(
                "with the minimal input: {}",
                said.collect::<Vec<_>>().join("; ")
            ),
        );
    }
    let cures: Vec<String> = cures.iter().map(ToString::to_string).collect();
    lines.push(
        "cures",
        &if cures.is_empty() {
            "none found".to_owned()
        } else {
            cures.join(" | ")
        },
    );
}

/// `tool crawl_site: /properties/prompt  "maxLength": 10000`.
pub(super) fn place_text(place: &Place) -> String {
    let tool = place
        .tool
        .as_ref()
        .map_or_else(String::new, |tool| format!("tool {tool}: "));
    let keyword = place.keyword.as_deref().unwrap_or_default();
    let at = if place.pointer.is_empty() {
        "the root"
    } else {
        &place.pointer
    };
    format!("{tool}{at}  {keyword}").trim_end().to_owned()
}

fn limit_text(limit: &Limit, cause: &Cause) -> String {
    let Limit {
        of,
        accepted_at,
        fails_at,
    } = limit;
    format!(
        "{of}: accepted at {accepted_at}, {} at {fails_at}",
        cause.failure.word()
    )
}

fn keywords(lines: &mut Lines, all: &[Kept]) {
    for kept in all.iter().filter(|kept| kept.violation.is_some()) {
        let Some(Violation { answer, reason }) = &kept.violation else {
            continue;
        };
        lines.push(
            "ignored",
            &format!(
                "{}: violation seen: {}",
                kept.name(),
                printable_message(reason)
            ),
        );
        lines.push("", &format!("answer {}", printable(answer, ANSWER_CHARS)));
        let with: Vec<String> = kept.with.iter().map(place_text).collect();
        if !with.is_empty() {
            lines.push("", &format!("only together with {}", with.join(" and ")));
        }
        if let Some(minimal) = &kept.minimal {
            let also = if with.is_empty() {
                "also with"
            } else {
                "smallest"
            };
            lines.push("", &format!("{also} {minimal}"));
        }
        if !kept.cures.is_empty() {
            let cures: Vec<String> = kept.cures.iter().map(ToString::to_string).collect();
            lines.push("", &format!("no violation with {}", cures.join(" | ")));
        }
    }
    let named = |verdict: KeptVerdict| -> Vec<Cow<'_, str>> {
        let all = all.iter().filter(|kept| kept.verdict() == verdict);
        all.map(Kept::name).collect()
    };
    let unseen = named(KeptVerdict::NoViolationSeen);
    if !unseen.is_empty() {
        let least = all
            .iter()
            .filter(|kept| kept.verdict() == KeptVerdict::NoViolationSeen);
        let answers = least.map(|kept| kept.answers).min().unwrap_or_default();
        let missed = 100.0 * unseen_rate(answers);
        let text = format!(
            "no violation seen of {} keywords, with {answers} answers to each: one that is broken in \
             fewer than {missed:.0} % of such answers can look the same",
            unseen.len()
        );
        lines.push("kept?", &text);
    }
    let untested = named(KeptVerdict::NotTested);
    if !untested.is_empty() {
        let more = match untested.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = &untested[..untested.len().min(MAX_NAMED)];
        lines.push(
            "unknown",
            &format!("not tested: {}{more}", first.join(", ")),
        );
    }
}

/// A result of a static analysis (SARIF 2.1.0), one for each cause and violation.
#[derive(Serialize)]
struct Result<'a> {
    #[serde(rename = "ruleId")]
    rule_id: &'a str,
    level: &'a str,
    message: Value,
    locations: Value,
}

/// The SARIF log, for code review. `file` is the path of the input.
pub(super) fn sarif(found: &[Explanation], file: &str) -> Value {
    let mut results = Vec::new();
    for explanation in found {
        let at = |pointer: &str| {
            json!([{"physicalLocation": {"artifactLocation": {"uri": file}},
                "logicalLocations": [{"fullyQualifiedName": pointer, "kind": "member"}]}])
        };
        for Explained { cause, cures, .. } in &explanation.causes {
            let place = cause.places.last();
            let cures: Vec<String> = cures.iter().map(ToString::to_string).collect();
            let text = format!(
                "{} by {}: {}; cures: {}",
                cause.failure.word(),
                explanation.server,
                cause.failure,
                if cures.is_empty() {
                    "none found".to_owned()
                } else {
                    cures.join(", ")
                }
            );
            results.push(Result {
                rule_id: cause.failure.word(),
                level: "error",
                message: json!({"text": text}),
                locations: at(place.map_or("", |place| place.pointer.as_str())),
            });
        }
        for kept in &explanation.keywords {
            let Some(Violation { answer, reason }) = &kept.violation else {
                continue;
            };
            results.push(Result {
                rule_id: "ignored",
                level: "warning",
                message: json!({"text": format!("{} does not keep it: {reason}: {}", explanation.server, printable(answer, ANSWER_CHARS))}),
                locations: at(&kept.pointer),
            });
        }
    }
    let rule = |id: &str, text: &str| json!({"id": id, "shortDescription": {"text": text}});
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "sobench explain", "version": env!("CARGO_PKG_VERSION"), "rules": [
                rule("refused", "The server refuses a request with this part."),
                rule("slow", "The first token takes long with this part."),
                rule("hangs", "The server does not answer a request with this part."),
                rule("crashes", "The connection ends after a request with this part."),
                rule("ignored", "The server accepts this keyword and breaks it."),
            ]}},
            "results": results,
        }],
    })
}
