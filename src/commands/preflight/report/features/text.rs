//! A survey as a person reads it: keyword, verdict, n and evidence; several servers side by side, the evidence below. Knows no
//! file.

use std::fmt::Write as _;

use tabled::builder::Builder;
use tabled::settings::Style;

use crate::commands::preflight::report::words::message;
use crate::preflight::features::{FeatureVerdict, Found, Survey, Surveyed};
use crate::printable::printable;
use crate::report::wrap::add_wrapped;

/// The width of a page.
const PAGE_WIDTH: usize = 120;

/// The least width that evidence gets, however long the names beside it are.
const MIN_EVIDENCE_CHARS: usize = 40;

/// What a row of the table takes beside its cells: three bars and the blanks around the four of them.
const BETWEEN_CELLS: usize = 12;

/// The most characters of a name that came from outside, and of an answer, and of a server's words.
const NAME_CHARS: usize = 200;
const ANSWER_CHARS: usize = 90;
const WORDS_CHARS: usize = 160;

/// The whole console output, with a final line feed.
pub(crate) fn render(survey: &Survey) -> String {
    let mut page = String::from("How much of JSON Schema is enforced\n");
    match survey.servers.as_slice() {
        [one] => page.push_str(&with_evidence(one)),
        several => {
            page.push_str(&side_by_side(several));
            several.iter().for_each(|server| add_evidence(&mut page, server));
        }
    }
    page.push_str("\nIn short\n");
    for server in &survey.servers {
        let counts = FeatureVerdict::ALL.into_iter().map(|verdict| (verdict.name(), server.count(verdict)));
        let counts: Vec<String> = counts.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{count} {name}")).collect();
        add_wrapped(&mut page, &format!("{}: {} of {} features", label(server), counts.join(", "), server.found.len()));
    }
    add_conditions(&mut page, survey);
    page.push_str("\nWhat the words mean\n");
    let appears = |verdict: &FeatureVerdict| survey.servers.iter().any(|server| server.count(*verdict) > 0);
    for verdict in FeatureVerdict::ALL.into_iter().filter(appears) {
        add_wrapped(&mut page, &format!("{}: {}", verdict.name(), verdict.meaning()));
    }
    add_wrapped(
        &mut page,
        "n: complete answers of those asked for; where the first request fails, no more are sent. An answer that was cut at the token \
         limit proves nothing unless its beginning breaks the schema already. A model that does not do as the prompt says may leave a \
         hole unseen",
    );
    page
}

/// The table of one server.
fn with_evidence(server: &Surveyed) -> String {
    let width = |of: fn(&Found) -> usize| server.found.iter().map(of).max().unwrap_or(0);
    let beside = width(|it| it.id.chars().count()) + width(|it| it.verdict.name().len()) + width(|it| counted(it).len());
    let room = PAGE_WIDTH.saturating_sub(beside + BETWEEN_CELLS).max(MIN_EVIDENCE_CHARS);
    let mut builder = Builder::default();
    builder.push_record(["keyword", "verdict", "n", "evidence"]);
    for found in &server.found {
        // The ellipsis takes a place of its own.
        let evidence = printable(&evidence(found, NAME_CHARS, NAME_CHARS), room - 1);
        builder.push_record([found.id.clone(), found.verdict.name().to_owned(), counted(found), evidence]);
    }
    drawn(builder)
}

/// The table of several servers: rows are features, columns servers.
fn side_by_side(servers: &[Surveyed]) -> String {
    let mut builder = Builder::default();
    builder.push_record(std::iter::once("keyword".to_owned()).chain(servers.iter().map(label)));
    let ids = servers.first().map_or(&[][..], |server| server.found.as_slice()).iter().map(|found| found.id.as_str());
    for id in ids {
        let cell = |server: &Surveyed| {
            let found = server.found.iter().find(|found| found.id == id);
            found.map_or_else(String::new, |found| match found.verdict {
                FeatureVerdict::Enforced | FeatureVerdict::UnderEnforced => {
                    format!("{} {}", found.verdict.name(), counted(found))
                }
                other => other.name().to_owned(),
            })
        };
        builder.push_record(std::iter::once(id.to_owned()).chain(servers.iter().map(cell)));
    }
    drawn(builder)
}

fn drawn(builder: Builder) -> String {
    let mut table = builder.build();
    table.with(Style::psql());
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The evidence of what is not enforced, a line each.
fn add_evidence(page: &mut String, server: &Surveyed) {
    let _ = writeln!(page, "\n{}", label(server));
    for found in server.found.iter().filter(|found| found.verdict != FeatureVerdict::Enforced) {
        let evidence = evidence(found, ANSWER_CHARS, WORDS_CHARS);
        add_wrapped(page, &format!("{}: {}: {evidence}", found.id, found.verdict.name()));
    }
}

/// The offending answer and where it broke, or the server's words.
fn evidence(found: &Found, answer_chars: usize, words_chars: usize) -> String {
    let twice = (found.duplicate_members > 0).then(|| format!("{} with a member twice", found.duplicate_members));
    let status = found.status.map(|status| format!("{status} ")).unwrap_or_default();
    let words = match &found.offending {
        Some(offending) => {
            let cut = if offending.cut { " (cut)" } else { "" };
            let (text, reason) = (printable(&offending.text, answer_chars), printable(&offending.reason, words_chars));
            Some(format!("{} of {}: {text}{cut} {reason}", found.invalid, found.asked))
        }
        None if found.words.is_empty() => None,
        None => Some(format!("{status}{}", printable(&message(&found.words), words_chars))),
    };
    words.into_iter().chain(twice).collect::<Vec<_>>().join("; ")
}

fn counted(found: &Found) -> String {
    format!("{}/{}", found.complete, found.asked)
}

fn label(server: &Surveyed) -> String {
    printable(&server.label, NAME_CHARS)
}

fn add_conditions(page: &mut String, survey: &Survey) {
    let settings = &survey.settings;
    page.push_str("\nHow it was asked\n");
    for server in &survey.servers {
        let facts = &server.facts;
        let version = facts.version.as_ref().map(|version| format!(", version {}", printable(version, NAME_CHARS)));
        let engine = facts.engine.as_ref().map(|engine| format!(", engine {}", printable(engine, NAME_CHARS)));
        add_wrapped(
            page,
            &format!(
                "{}: {}{} as {}, model {}, in {}{}{}; {} requests",
                label(server),
                printable(&server.base_url, NAME_CHARS),
                printable(&server.path, NAME_CHARS),
                server.backend,
                printable(&server.model, NAME_CHARS),
                server.dialect,
                version.unwrap_or_default(),
                engine.unwrap_or_default(),
                server.requests
            ),
        );
        for notice in &server.notices {
            add_wrapped(page, &format!("note: {}", printable(&notice.to_string(), 2 * NAME_CHARS)));
        }
    }
    add_wrapped(
        page,
        &format!(
            "{} answers a feature at temperature 1, seeds from {} on, at most {} tokens and {} s each, {} at a time",
            settings.samples, settings.seed, settings.output_len, settings.request_timeout_s, settings.max_concurrency
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::super::testing::survey;
    use super::*;

    #[test]
    fn one_server_has_its_evidence_in_the_table() {
        let mut one = survey();
        one.servers.truncate(1);
        insta::assert_snapshot!(render(&one));
    }

    #[test]
    fn several_stand_side_by_side() {
        insta::assert_snapshot!(render(&survey()));
    }

    #[test]
    fn a_page_carries_nothing_that_a_terminal_obeys() {
        let page = render(&survey());
        assert!(!page.chars().any(|it| it.is_control() && it != '\n') && !page.contains('\u{202e}'), "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= PAGE_WIDTH), "{page}");
    }
}
