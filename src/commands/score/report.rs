//! The page, the JSON (`schemas/contracts/score.schema.json`) and the verdicts of scored answers
//! (`schemas/contracts/verdict.schema.json`).

use serde_json::{Map, Value, json};

use crate::commands::score::{Agreement, Row, Score, Stored, UnreadableRow};
use sobench_core::case::Arm;
use sobench_core::json_struct;
use sobench_core::printable::printable;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_facts::Judged;
use sobench_judge::accuracy::Grade;
use sobench_notices::notice::sentences;
use sobench_render::{Block, Document, Level, Table};
use sobench_report::tables::{
    RATE_COLUMNS, disagreements, extra_text, groups, rate_cells, reasons, unjudged,
};
use sobench_results::metrics::examples::Group;
use sobench_results::metrics::registry::{self, Figure, Metric};
use sobench_statistics::Rate;

/// Longest name or sentence from a file, in characters.
pub(super) const MAX_CHARS: usize = 400;

/// The page for all files.
pub fn document(scores: &[Score]) -> Document {
    let mut document = Document::new("sobench: scored answers");
    scores.iter().for_each(|score| add(&mut document, score));
    document
}

json_struct! {
    /// Stored answers judged again.
    pub struct ScoreFile<'a> = |files: &'a [Score], assert_formats: bool| {
        #[schemars(extend("const" = "sobench-score"))]
        format: &'static str = "sobench-score",
        /// Raised when a key is removed or changes its meaning.
        format_version: u32 = 2,
        sobench_version: &'static str = env!("CARGO_PKG_VERSION"),
        assert_formats: bool = assert_formats,
        files: &'a [Score] = files,
    }
}

/// The reason of a row that cannot be read.
pub const UNREADABLE: &str = "unreadable";

/// The member that holds members of the row whose names this output uses.
const INPUT: &str = "input";

json_struct! {
    /// The verdict of a row: a line of JSON with the members of the row; of other layouts with the
    /// `id` and the `text`. Members of the row with the names of these members and other values are
    /// in `input`.
    #[schemars(extend("additionalProperties" = true))]
    pub(crate) struct VerdictLine<'a> = |row: &Row, judged: Option<&'a Judged>, file: Option<&'a str>| [
        let verdict = judged.map(|judged| &judged.verdict);
        let (valid, reason, path) = match verdict {
            None => (None, Some(UNREADABLE), None),
            Some(Verdict::Valid) => (Some(true), None, None),
            Some(Verdict::Invalid { reason }) => (Some(false), Some(reason.name()), path(reason)),
            Some(Verdict::NotScored { why }) => (None, Some(why.name()), None),
        };
    ] {
        /// The file of the answer, if several files are scored.
        #[serde(skip_serializing_if = "Option::is_none")]
        file: Option<&'a str> = file,
        /// Whether the answer satisfies its constraint; `null` if it cannot be judged.
        valid: Option<bool> = valid,
        /// Why the answer is invalid, or why it cannot be judged; `null` for a valid answer.
        #[schemars(extend("enum" = reason_names()))]
        reason: Option<&'static str> = reason,
        /// JSON pointer into the answer, for `schema` and `duplicate_key`.
        path: Option<&'a str> = path,
        /// The reason as a sentence; `null` for a valid answer.
        message: Option<String> = match row {
            Row::Unreadable(row) => Some(row.message.clone()),
            Row::Answer(_) => verdict.filter(|_| reason.is_some()).map(Verdict::to_string),
        },
        /// Whether the answer makes the expected calls; only for rows that have them.
        #[serde(skip_serializing_if = "Option::is_none")]
        right_call: Option<bool> = judged.and_then(|judged| judged.right_call),
        /// The comparison with the reference; only for rows that have one.
        #[serde(skip_serializing_if = "Option::is_none")]
        accuracy: Option<Grade> = judged.and_then(|judged| Some(judged.accuracy.as_ref()?.grade)),
    }
}

fn reason_names() -> Vec<Option<&'static str>> {
    let names = Reason::NAMES.iter().chain(&NotScored::NAMES).copied();
    let names = names.chain([UNREADABLE]).map(Some);
    names.chain([None]).collect()
}

/// A line of verdicts.
pub(super) fn verdict_line(row: &Row, judged: Option<&Judged>, file: Option<&str>) -> String {
    let Value::Object(own) = json!(VerdictLine::new(row, judged, file)) else {
        unreachable!("a struct with named members is an object")
    };
    let (mut line, id, text) = match row {
        Row::Answer(stored) => {
            let Stored {
                case,
                observation,
                members,
                ..
            } = &**stored;
            (members.clone(), &case.id, Some(observation.answer.text()))
        }
        Row::Unreadable(UnreadableRow { id, members, .. }) => (members.clone(), id, None),
    };
    if line.is_empty() {
        line.insert("id".to_owned(), (**id).into());
        line.insert("text".to_owned(), text.into());
    }
    let mut replaced = Map::new();
    for (name, value) in &own {
        let theirs = line.shift_remove(name);
        if let Some(theirs) = theirs.filter(|theirs| theirs != value) {
            replaced.insert(name.clone(), theirs);
        }
    }
    if !replaced.is_empty() {
        replaced.extend(line.shift_remove_entry(INPUT));
        line.insert(INPUT.to_owned(), replaced.into());
    }
    line.extend(own);
    format!("{}\n", Value::Object(line))
}

/// The place in the answer that breaks the constraint.
fn path(reason: &Reason) -> Option<&str> {
    match reason {
        Reason::Schema { instance_path, .. } | Reason::DuplicateKey { instance_path, .. } => {
            Some(instance_path)
        }
        _ => None,
    }
}

fn add(document: &mut Document, score: &Score) {
    let (findings, constrained) = (&score.findings, score.constrained);
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
    document.titled_table("Rates", Some(rates(score)));
    document.titled_table(
        "Leaves of answers compared with their references",
        leaves(score),
    );
    document.titled_table(
        "Reasons of invalid answers (share of constrained)",
        reasons(findings, constrained),
    );
    document.titled_table(
        "Text around JSON (share of constrained)",
        extra_text(findings, constrained),
    );
    document.titled_table("Unreadable rows", unreadable(score));
    document.titled_table(
        "Answers that cannot be judged (share of constrained)",
        unjudged(findings, constrained),
    );
    let against = score.agreement.as_ref().and_then(against);
    document.titled_table(
        "Differences from the file's verdicts (share of answers with both)",
        against,
    );
    let disagreements = disagreements(
        findings,
        score
            .values
            .rate(&registry::rates::VLLM_CORRECT_RATE)
            .map_or(0, |rate| rate.of),
    );
    document.titled_table(
        "Differences from the formula of vLLM's script (share of answers that it scores)",
        disagreements,
    );
    document.gap();
    document.facts(
        score
            .assumptions
            .iter()
            .map(|text| ("assumed", printable(text, MAX_CHARS))),
    );
    document.notes(
        sentences(&score.notices)
            .iter()
            .map(|text| printable(text, MAX_CHARS))
            .collect(),
    );
}

fn rates(score: &Score) -> Table {
    let rate = |metric: &Metric| score.values.rate(metric);
    let mut table = Table::new(RATE_COLUMNS, 1).left_aligned(4);
    let judged = score.correct_rate.map_or(0, |rate| rate.of);
    let judged = if judged == score.constrained {
        "valid, of constrained"
    } else {
        "valid, of constrained, judged"
    };
    table.row(rate_cells("correct rate", score.correct_rate, judged));
    if score.control > 0 {
        let figure = Figure::of(&registry::rates::CORRECT_RATE, Some(Arm::Control));
        let group = registry::Group::of_arm(Arm::Control);
        let mut groups = score.groups.iter();
        let found = groups.find(|found| found.group == group);
        let rate = found.and_then(|found| found.values.rate(figure.metric));
        table.row(rate_cells(&figure.label(), rate, &figure.of_what()));
    }
    let right_calls = rate(&registry::rates::RIGHT_CALLS);
    if right_calls.is_some() {
        table.row(rate_cells(
            "right calls",
            right_calls,
            "the reference's, of constrained",
        ));
    }
    for scorer in &score.accuracy {
        let name = scorer.scorer.name();
        let accuracy = format!("accuracy ({name})");
        table.row(rate_cells(
            &accuracy,
            scorer.accuracy,
            "equal to the reference",
        ));
        let unparsed = format!("unparsed ({name})");
        table.row(rate_cells(&unparsed, scorer.unparsed, "nothing to compare"));
    }
    let stripped = rate(&registry::rates::VALID_IF_STRIPPED_RATE);
    if stripped.is_some_and(|rate| rate.hits > 0) {
        table.row(rate_cells(
            "valid if stripped",
            stripped,
            "constrained, not in the correct rate",
        ));
    }
    table.row(rate_cells(
        "vLLM's formula",
        rate(&registry::rates::VLLM_CORRECT_RATE),
        "the formula of vLLM's script, all arms",
    ));
    if let Some(agreement) = &score.agreement {
        table.row(rate_cells(
            "file: verdicts",
            agreement.claimed,
            "correct in the file",
        ));
    }
    for claim in &score.claims {
        let name = format!("file: {}", printable(&claim.name, MAX_CHARS));
        let percent = format!("{:.2}", claim.percent);
        table.row([
            name,
            percent,
            String::new(),
            String::new(),
            "stated in the file".to_owned(),
        ]);
    }
    table
}

fn leaves(score: &Score) -> Option<Table> {
    let leaves = score.accuracy.iter().find_map(|scorer| scorer.leaves)?;
    let expected = leaves.expected();
    let share = |count: usize| {
        let percent = Rate::new(count, expected).map(|rate| format!("{:.2}", rate.percent));
        percent.unwrap_or_else(|| "n/a".to_owned())
    };
    let row = |name: &str, count: usize| [name.to_owned(), count.to_string(), share(count)];
    Table::new(["leaves", "count", "% of the references'"], 1)
        .with_rows([
            row("right", leaves.right),
            row("wrong", leaves.wrong),
            row("of them another type", leaves.wrong_type),
            row("omitted", leaves.omitted),
            row("invented", leaves.invented),
        ])
        .non_empty()
}

/// Rows that are shown; the JSON has all.
const MAX_UNREADABLE: usize = 20;

fn unreadable(score: &Score) -> Option<Table> {
    let shown = score.unreadable.iter().take(MAX_UNREADABLE);
    let hidden = score.unreadable.len().saturating_sub(MAX_UNREADABLE);
    let rows = shown.map(|row| [row.id.clone(), printable(&row.message, MAX_CHARS)]);
    let more = (hidden > 0).then(|| ["...".to_owned(), format!("{hidden} more")]);
    Table::new(["row", "problem"], 1)
        .left_aligned(1)
        .with_rows(rows.chain(more))
        .non_empty()
}

fn against(agreement: &Agreement) -> Option<Table> {
    let differing: Vec<Group> = [&agreement.only_file, &agreement.only_ours]
        .into_iter()
        .filter(|group| group.count > 0)
        .cloned()
        .collect();
    groups(&differing, "answers", agreement.compared)
}
