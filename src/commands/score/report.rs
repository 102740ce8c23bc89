//! Stored answers judged again, as text and as JSON. Knows no file and no verdict's origin.
//!
//! The JSON's contract is `schemas/contracts/score.schema.json`.

use serde_json::json;
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

use crate::commands::score::{Agreement, Score};
use crate::metrics::excerpt::Group;
use crate::notice::sentences;
use crate::printable::printable;
use crate::report::tables::{disagreements, groups, rate_cells, reasons, trimmed, unjudged};

/// The version of the JSON, raised whenever a key changes its meaning or goes away.
const FORMAT_VERSION: u32 = 1;

/// The most characters of a name or sentence from outside.
const MAX_CHARS: usize = 400;

/// The page that a person reads.
pub fn text(scores: &[Score]) -> String {
    let pages: Vec<String> = scores.iter().map(page).collect();
    pages.join("\n")
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
    format!("{}\n", serde_json::to_string_pretty(&value).expect("a value is JSON"))
}

fn page(score: &Score) -> String {
    let kinds: Vec<String> = score.constraints.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let mut page = format!(
        "{}\n  {}: {} answers, by constraint: {}\n\n",
        printable(&score.file, MAX_CHARS),
        score.kind.name(),
        score.answers,
        if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") },
    );
    let quality = &score.quality;
    let tables = [
        ("What the answers are worth", Some(rates(score))),
        ("Why constrained answers are not valid (share of the constrained)", reasons(quality)),
        ("Constrained answers that could not be judged (share of the constrained)", unjudged(quality)),
        ("Today's verdicts against the file's own (share of those that have both)", score.agreement.as_ref().and_then(against)),
        ("Where the vLLM script's formula says something else (share of those it scores)", disagreements(quality)),
    ];
    for (title, table) in tables {
        if let Some(table) = table {
            page += &format!("{title}\n{}\n\n", trimmed(&table));
        }
    }
    let notices = sentences(&score.notices);
    let said = score.assumptions.iter().map(|it| ("assumed", it)).chain(notices.iter().map(|notice| ("note", notice)));
    for (what, words) in said {
        page += &format!("{what}: {}\n", printable(words, MAX_CHARS));
    }
    page
}

fn rates(score: &Score) -> String {
    let quality = &score.quality;
    let mut builder = Builder::default();
    builder.push_record(["rate", "%", "95 % interval", "count", "of what"]);
    let judged = if quality.judged == quality.constrained { "valid, of constrained" } else { "valid, of constrained, judged" };
    builder.push_record(rate_cells("correct rate", score.correct_rate, judged));
    if quality.control > 0 {
        builder.push_record(rate_cells("control rate", quality.control_rate, "valid, of unconstrained"));
    }
    if quality.right_calls.is_some() {
        builder.push_record(rate_cells("right calls", quality.right_calls, "the reference's, of constrained"));
    }
    builder.push_record(rate_cells("vLLM's formula", quality.vllm.correct_rate, "its script, all arms, computed now"));
    if let Some(agreement) = &score.agreement {
        builder.push_record(rate_cells("the file's verdicts", agreement.claimed, "called correct there"));
    }
    for claim in &score.claims {
        let name = format!("the file's {}", printable(&claim.name, MAX_CHARS));
        builder.push_record([
            name,
            format!("{:.2}", claim.percent),
            String::new(),
            String::new(),
            "as it stands there".to_owned(),
        ]);
    }
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(1..4)).with(Alignment::right()));
    table.to_string()
}

fn against(agreement: &Agreement) -> Option<String> {
    let differing: Vec<Group> =
        [&agreement.only_file, &agreement.only_ours].into_iter().filter(|group| group.count > 0).cloned().collect();
    groups(&differing, "answers", agreement.compared)
}
