//! The page and the JSON of scored answers. The JSON's contract is
//! `schemas/contracts/score.schema.json`.

use serde_json::json;

use crate::commands::output::pretty;
use crate::commands::score::{Agreement, Score};
use sobench_core::printable::printable;
use sobench_notices::notice::sentences;
use sobench_render::{Block, Document, Level, Table};
use sobench_report::tables::{RATE_COLUMNS, disagreements, groups, rate_cells, reasons, unjudged};
use sobench_results::metrics::excerpt::Group;

/// The version of the JSON, raised whenever a key changes its meaning or goes away.
const FORMAT_VERSION: u32 = 1;

/// The most characters of a name or sentence from outside.
const MAX_CHARS: usize = 400;

/// The page of all files.
pub fn document(scores: &[Score]) -> Document {
    let mut document = Document::new("sobench: scored answers");
    scores.iter().for_each(|score| add(&mut document, score));
    document
}

/// The whole of it as one JSON value.
pub fn json(scores: &[Score], assert_formats: bool) -> String {
    let value = json!({
        "format": "sobench-score",
        "format_version": FORMAT_VERSION,
        "sobench_version": env!("CARGO_PKG_VERSION"),
        "assert_formats": assert_formats,
        "files": scores,
    });
    pretty(&value)
}

fn add(document: &mut Document, score: &Score) {
    let quality = &score.quality;
    let kinds: Vec<String> = score
        .constraints
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let kinds = if kinds.is_empty() {
        "none".to_owned()
    } else {
        kinds.join(", ")
    };
    document.push(Block::Heading {
        level: Level::Page,
        text: printable(&score.file, MAX_CHARS).into(),
    });
    document.facts([(
        score.kind.name(),
        format!("{} answers, by constraint: {kinds}", score.answers),
    )]);
    document.titled_table("What the answers are worth", Some(rates(score)));
    document.titled_table(
        "Why constrained answers are not valid (share of the constrained)",
        reasons(quality),
    );
    document.titled_table(
        "Constrained answers that could not be judged (share of the constrained)",
        unjudged(quality),
    );
    let against = score.agreement.as_ref().and_then(against);
    document.titled_table(
        "Today's verdicts against the file's own (share of those that have both)",
        against,
    );
    let disagreements = disagreements(quality);
    document.titled_table(
        "Where the vLLM script's formula says something else (share of those it scores)",
        disagreements,
    );
    document.gap();
    document.facts(
        score
            .assumptions
            .iter()
            .map(|words| ("assumed", printable(words, MAX_CHARS))),
    );
    document.notes(
        sentences(&score.notices)
            .iter()
            .map(|words| printable(words, MAX_CHARS))
            .collect(),
    );
}

fn rates(score: &Score) -> Table {
    let quality = &score.quality;
    let mut table = Table::new(RATE_COLUMNS, 1).words(4);
    let judged = if quality.judged == quality.constrained {
        "valid, of constrained"
    } else {
        "valid, of constrained, judged"
    };
    table.row(rate_cells("correct rate", score.correct_rate, judged));
    if quality.control > 0 {
        table.row(rate_cells(
            "control rate",
            quality.control_rate,
            "valid, of unconstrained",
        ));
    }
    if quality.right_calls.is_some() {
        table.row(rate_cells(
            "right calls",
            quality.right_calls,
            "the reference's, of constrained",
        ));
    }
    table.row(rate_cells(
        "vLLM's formula",
        quality.vllm.correct_rate,
        "its script, all arms, computed now",
    ));
    if let Some(agreement) = &score.agreement {
        table.row(rate_cells(
            "the file's verdicts",
            agreement.claimed,
            "called correct there",
        ));
    }
    for claim in &score.claims {
        let name = format!("the file's {}", printable(&claim.name, MAX_CHARS));
        let percent = format!("{:.2}", claim.percent);
        table.row([
            name,
            percent,
            String::new(),
            String::new(),
            "as it stands there".to_owned(),
        ]);
    }
    table
}

fn against(agreement: &Agreement) -> Option<Table> {
    let differing: Vec<Group> = [&agreement.only_file, &agreement.only_ours]
        .into_iter()
        .filter(|group| group.count > 0)
        .cloned()
        .collect();
    groups(&differing, "answers", agreement.compared)
}
