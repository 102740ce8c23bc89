//! `sobench score`: judges stored answers of a run log or of another tool's file. `read.rs` reads
//! the answers, `constraints.rs` loads their constraints, `report.rs` renders the result.

mod accuracy;
mod constraints;
pub mod options;
mod read;
pub mod report;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use self::accuracy::{AccuracyTable, ScorerAccuracy};
use self::options::ScoreArgs;
use super::output::CommandOutput;
use sobench_core::answer::{Answer, Channel};
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes;
use sobench_core::observation::{Observation, Outcome, Timing};
use sobench_core::output_files;
use sobench_core::output_format::OutputFormat;
use sobench_core::printable::printable;
use sobench_core::verdict::{NotScored, Verdict};
use sobench_data::dataset::DatasetPlan;
use sobench_judge::accuracy::Reference;
use sobench_judge::{EvaluateOptions, Evaluator, function_calls, vllm_formula};
use sobench_notices::notice::{Notice, as_sentences};
use sobench_render::text;
use sobench_results::metrics::constraint_loss::is_white_space_run;
use sobench_results::metrics::examples::Group;
use sobench_results::metrics::free_choices::free_choices;
use sobench_results::metrics::quality::{Quality, is_correct};
use sobench_results::metrics::request_table::RequestTable;
use sobench_results::metrics::{Judged, Sample, Tokens};
use sobench_shutdown::Shutdown;
use sobench_statistics::Rate;

/// Judges stored answers again.
///
/// # Errors
/// The flags contradict each other; a file cannot be read, has no answers, or its constraints are
/// unknown.
pub fn run(flags: ScoreArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || score_files(&flags))
}

fn score_files(flags: &ScoreArgs) -> Result<CommandOutput> {
    let dataset = flags.dataset_plan()?;
    let evaluate = EvaluateOptions {
        assert_formats: !flags.no_format_assertion,
    };
    let with_lines = flags.output.is_some() || flags.format == OutputFormat::Jsonl;
    let (mut scores, mut lines) = (Vec::with_capacity(flags.files.len()), String::new());
    for path in &flags.files {
        let (file, answers) = read_answers(path, dataset.as_ref())?;
        let scored = score(file.clone(), answers, evaluate, |row, judged| {
            if with_lines {
                let file = (flags.files.len() > 1).then_some(&*file);
                lines.push_str(&report::verdict_line(row, judged, file));
            }
        });
        scores.push(scored);
    }
    let mut stderr = Vec::new();
    if let Some(path) = &flags.output {
        output_files::write(path, |file| {
            file.write_all(lines.as_bytes())
                .map_err(|error| output_files::cannot_write_report(path, &error))
        })?;
        stderr.push(format!("verdicts: {}", path.display()));
    }
    let unreadable = unreadable_rows(&scores);
    let exit_code = if unreadable.is_empty() {
        exit_codes::SUCCESS
    } else {
        exit_codes::USAGE
    };
    stderr.extend(unreadable);
    let stdout = match flags.format {
        OutputFormat::Json => report::json(&scores, evaluate.assert_formats),
        OutputFormat::Jsonl => lines,
        _ => text::render(&report::document(&scores)),
    };
    let output = CommandOutput {
        stdout,
        lines: stderr,
        exit_code,
        ..CommandOutput::default()
    };
    Ok(output.or_save_with("--output"))
}

/// Reads a file, or stdin for `-`, with its name in reports.
fn read_answers(path: &Path, dataset: Option<&DatasetPlan>) -> Result<(String, Answers)> {
    if path != Path::new("-") {
        let name = path.display().to_string();
        return read::answers(path, &name, dataset).map(|answers| (name, answers));
    }
    let name = "stdin".to_owned();
    let stored = |error: std::io::Error| Error::environment(format!("cannot store stdin: {error}"));
    let mut copy = tempfile::NamedTempFile::new().map_err(stored)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut copy).map_err(stored)?;
    let on_disk = copy.path().display().to_string();
    match read::answers(copy.path(), &name, dataset) {
        Ok(answers) => Ok((name, answers)),
        Err(error) => Err(Error {
            what: error.what.replace(&on_disk, &name),
            ..error
        }),
    }
}

/// An error with a hint for rows that were not judged, if there are any.
fn unreadable_rows(scores: &[Score]) -> Vec<String> {
    let unreadable: Vec<(&str, &UnreadableRow)> = scores
        .iter()
        .flat_map(|score| score.unreadable.iter().map(|row| (&*score.file, row)))
        .collect();
    let Some((file, first)) = unreadable.first() else {
        return Vec::new();
    };
    let rows = unreadable.len() + scores.iter().map(|score| score.answers).sum::<usize>();
    vec![
        format!(
            "error: {} of {rows} rows cannot be judged; the first is {file}, {}: {}",
            unreadable.len(),
            first.id,
            printable(&first.message, report::MAX_CHARS),
        ),
        "hint: correct these rows; all others are judged".to_owned(),
    ]
}

/// The layout of a file of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A run log of sobench.
    RunLog,
    /// The JSON of vLLM's structured-output script, or a sobench result with every request.
    Outputs,
    /// The detailed JSON of `vllm bench serve`.
    GeneratedTexts,
    /// JSON Lines with a constraint and a text each.
    Rows,
}

impl FileKind {
    /// The description in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::RunLog => "run log",
            Self::Outputs => "result with `outputs`, as of vLLM's structured-output script",
            Self::GeneratedTexts => {
                "result with `generated_texts`, as of `vllm bench serve --save-detailed`"
            }
            Self::Rows => "rows of a constraint and a text",
        }
    }
}

/// One stored answer with its constraint.
#[derive(Clone, Debug, PartialEq)]
struct Stored {
    case: Case,
    observation: Observation,
    /// Why the answer cannot be judged, if it cannot.
    unjudgeable: Option<String>,
    /// The verdict in the file: whether the answer was called correct.
    claimed: Option<bool>,
    /// What the answer is compared with, if the row has it.
    reference: Option<Reference>,
    /// The members of the row that the answer was read from, for the output of verdicts.
    members: Map<String, Value>,
}

/// A row without a readable answer or constraint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnreadableRow {
    /// The line, or the place in a result.
    pub id: String,
    /// What is wrong with it.
    pub message: String,
    /// The members of the row; empty if it is no JSON object.
    #[serde(skip)]
    members: Map<String, Value>,
}

/// A row of a file.
#[derive(Clone, Debug, PartialEq)]
enum Row {
    Answer(Box<Stored>),
    Unreadable(UnreadableRow),
}

/// The contents of a file of answers.
#[derive(Clone, Debug, PartialEq)]
struct Answers {
    kind: FileKind,
    rows: Vec<Row>,
    /// The channel that the requests asked for the answers in.
    channel: Option<Channel>,
    /// Totals that the file states.
    claims: Vec<Claim>,
    /// Assumptions about what the file does not state, one sentence each.
    assumptions: Vec<String>,
    notices: Vec<Notice>,
}

/// A total that a file states.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The key in the file.
    pub name: String,
    pub percent: f64,
}

/// The result for one file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    pub file: String,
    pub kind: FileKind,
    /// Answers that were read.
    pub answers: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableRow>,
    /// Number of answers for each kind of constraint.
    pub constraints: Vec<(String, usize)>,
    pub claims: Vec<Claim>,
    /// Valid answers / answers that can be judged, of the constrained arm.
    pub correct_rate: Option<Rate>,
    /// Answers compared with references, by scorer; empty if no row has a reference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accuracy: Vec<ScorerAccuracy>,
    pub quality: Quality,
    /// Comparison with the verdicts in the file; `None` if it has none.
    pub agreement: Option<Agreement>,
    pub assumptions: Vec<String>,
    #[serde(serialize_with = "as_sentences")]
    pub notices: Vec<Notice>,
}

/// Comparison of the file's verdicts with these, over the answers that have both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    pub compared: usize,
    /// Answers that the file calls correct.
    pub claimed: Option<Rate>,
    /// Correct in the file, not valid here.
    pub only_file: Group,
    /// Valid here, not correct in the file.
    pub only_ours: Group,
}

impl Stored {
    fn judge(&self, evaluator: &mut Evaluator, channel: Option<Channel>) -> Verdict {
        let Case {
            constraint,
            grammar_oracle,
            arm,
            ..
        } = &self.case;
        let Observation {
            outcome,
            answer,
            finish_reason,
            ..
        } = &self.observation;
        evaluator.judge(
            constraint.as_deref().filter(|_| arm.is_judged()),
            grammar_oracle.as_deref(),
            outcome,
            answer,
            finish_reason.as_deref(),
            channel,
        )
    }

    /// A completed answer with this text.
    fn from_text(id: String, constraint: Option<Arc<Constraint>>, text: String) -> Self {
        let case = Case::new(id, Prompt::Text("".into()), constraint, 1);
        let observation = Observation {
            case_index: 0,
            outcome: Outcome::Completed,
            timing: Timing::default(),
            answer: Answer::from_text(text),
            finish_reason: None,
            usage: None,
        };
        Self {
            case,
            observation,
            unjudgeable: None,
            claimed: None,
            reference: None,
            members: Map::new(),
        }
    }
}

/// Judges every answer of a file; `each` receives every row with the result for its answer, in file
/// order.
fn score(
    file: String,
    answers: Answers,
    evaluate: EvaluateOptions,
    mut each: impl FnMut(&Row, Option<&Judged>),
) -> Score {
    let Answers {
        kind,
        rows,
        channel,
        claims,
        assumptions,
        notices,
    } = answers;
    let mut evaluator = Evaluator::new(evaluate);
    for row in &rows {
        if let Row::Answer(stored) = row
            && let Some(constraint) = &stored.case.constraint
        {
            evaluator.add_request(constraint);
        }
    }
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|row| accuracy::with_valid_reference(row, &mut evaluator))
        .collect();
    let mut ledger = RequestTable::new(rows.len(), None);
    let (mut judged_answers, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
    let mut scorers = AccuracyTable::default();
    for row in &rows {
        let stored = match row {
            Row::Answer(stored) => &**stored,
            Row::Unreadable(bad) => {
                each(row, None);
                unreadable.push(bad.clone());
                continue;
            }
        };
        let verdict = match &stored.unjudgeable {
            Some(what) => Verdict::NotScored {
                why: NotScored::Unsupported { what: what.clone() },
            },
            None => stored.judge(&mut evaluator, channel),
        };
        let judged = judged(stored, verdict);
        each(row, Some(&judged));
        scorers.add(stored, judged.accuracy.as_ref());
        let index = judged_answers.len();
        judged_answers.push(stored);
        // The index in this file: rows of several files may have the same number.
        ledger.push(
            &stored.case,
            &Observation {
                case_index: index,
                ..stored.observation.clone()
            },
            0,
        );
        ledger.judge(index, judged);
    }
    let samples = ledger.samples();
    let quality = Quality::new(&samples);
    Score {
        file,
        kind,
        answers: judged_answers.len(),
        unreadable,
        constraints: kinds(&judged_answers),
        claims,
        correct_rate: quality.correct_rate,
        accuracy: scorers.finish(),
        agreement: agreement(&judged_answers, &samples),
        quality,
        assumptions,
        notices,
    }
}

fn judged(stored: &Stored, verdict: Verdict) -> Judged {
    let (constraint, observation) = (stored.case.constraint.as_deref(), &stored.observation);
    let text = &*observation.answer.text();
    let answered = if observation.outcome.is_answer() {
        text
    } else {
        ""
    };
    let mut judged = Judged {
        verdict,
        tokens: Tokens::default(),
        vllm_correct: constraint
            .filter(|_| stored.case.arm.is_judged())
            .filter(|_| stored.unjudgeable.is_none() && !observation.outcome.is_cut_by_client())
            .and_then(|constraint| vllm_formula::vllm_correct(constraint, answered)),
        white_space_run: is_white_space_run(&observation.outcome, text),
        whole: false,
        right_call: function_calls::is_correct(
            stored.case.completion.as_deref(),
            &observation.outcome,
            constraint,
            &observation.answer,
        ),
        accuracy: accuracy::grade(stored),
        made_call: None,
        call_due: None,
        reasoning: None,
        parity: None,
        free_choices: free_choices(constraint, &observation.outcome, &observation.answer),
        canary: None,
    };
    judged.add_tool_calls(
        constraint
            .filter(|_| stored.case.arm.is_judged())
            .and_then(Constraint::tools),
        stored.case.completion.as_deref(),
        &observation.outcome,
        &observation.answer,
    );
    judged
}

fn kinds(stored: &[&Stored]) -> Vec<(String, usize)> {
    let count = |kind: &str| {
        let constraints = stored
            .iter()
            .filter_map(|stored| stored.case.constraint.as_ref());
        constraints
            .filter(|constraint| constraint.kind() == kind)
            .count()
    };
    Constraint::KINDS
        .iter()
        .map(|kind| ((*kind).to_owned(), count(kind)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn agreement(stored: &[&Stored], samples: &[Sample<'_>]) -> Option<Agreement> {
    let both = || {
        let sides = stored.iter().zip(samples);
        sides.filter_map(|(stored, sample)| {
            Some((stored.claimed?, is_correct(sample.verdict())?, sample))
        })
    };
    let compared = both().count();
    let mut agreement = Agreement {
        compared,
        claimed: Rate::new(both().filter(|(claimed, ..)| *claimed).count(), compared),
        only_file: Group::empty("correct in the file only"),
        only_ours: Group::empty("valid in sobench only"),
    };
    for (claimed, correct, sample) in both() {
        match (claimed, correct) {
            (true, false) => agreement.only_file.add(sample, &message(sample.verdict())),
            (false, true) => agreement.only_ours.add(sample, "valid by its constraint"),
            (true, true) | (false, false) => {}
        }
    }
    (compared > 0).then_some(agreement)
}

/// The verdict as a sentence.
fn message(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid { reason } => reason.to_string(),
        Verdict::NotScored { why } => why.to_string(),
    }
}
