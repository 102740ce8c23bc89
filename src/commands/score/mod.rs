//! `sobench score`: judges stored answers of a run log or of another tool's file. `read.rs` reads
//! the answers, `constraints.rs` loads their constraints, `judging.rs` judges them in all cores,
//! `tally.rs` collects the verdicts in little memory, `report.rs` renders the result.

mod accuracy;
mod answer_lines;
mod constraints;
mod csv_rows;
mod judging;
mod lm_eval;
pub mod options;
mod read;
pub mod report;
mod row_reader;
mod tally;
#[cfg(test)]
mod tests;

use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tempfile::SpooledTempFile;

use self::accuracy::ScorerAccuracy;
use self::judging::Judging;
use self::options::{FORMATS, ScoreArgs};
use self::report::ScoreFile;
use self::tally::Figures;
use super::large_output::{cannot_store, large_output, text_for_stdout};
use super::output::{CommandOutput, pretty};
use sobench_backend::outcome_of_finish_reason;
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
use sobench_facts::Judged;
use sobench_judge::accuracy::Reference;
use sobench_judge::{Evaluator, JudgeSettings};
use sobench_notices::notice::{DatasetNotice, Notice, as_sentences};
use sobench_render::text;
use sobench_results::metrics::examples::Group;
use sobench_results::metrics::findings::Findings;
use sobench_results::metrics::registry::{GroupValues, Values, rates};
use sobench_runlog::RequestLines;
use sobench_runlog::judge::Exchange;
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
    let evaluate = JudgeSettings {
        assert_formats: !flags.no_format_assertion,
    };
    let files = flags.save.files(&FORMATS.map(|described| described.0))?;
    let mut wanted = files
        .iter()
        .map(|(format, _)| *format)
        .chain([flags.format]);
    let with_lines = wanted.any(|format| format == OutputFormat::Jsonl);
    let mut lines = large_output();
    let mut scores = Vec::with_capacity(flags.files.len());
    for path in &flags.files {
        let input = Input {
            dataset: dataset.as_ref(),
            evaluate,
            with_lines,
            file_in_lines: flags.files.len() > 1,
        };
        scores.push(input.score(path, &mut lines)?);
    }
    let mut stderr = Vec::new();
    let rendered = |format| match format {
        OutputFormat::Json => pretty(&ScoreFile::new(&scores, evaluate.assert_formats)),
        _ => text::render(&report::document(&scores)),
    };
    for (format, path) in &files {
        lines.rewind().map_err(|error| cannot_store(&error))?;
        output_files::write(path, |file| {
            match format {
                OutputFormat::Jsonl => std::io::copy(&mut lines, file).map(|_| ()),
                format => file.write_all(rendered(*format).as_bytes()),
            }
            .map_err(|error| output_files::cannot_write_report(path, &error))
        })?;
        stderr.push(format!("{} written: {}", format.name(), path.display()));
    }
    let unreadable = unreadable_rows(&scores);
    let exit_code = if unreadable.is_empty() {
        exit_codes::SUCCESS
    } else {
        exit_codes::USAGE
    };
    stderr.extend(unreadable);
    let stdout = match flags.format {
        OutputFormat::Jsonl => text_for_stdout(&mut lines)?,
        format => rendered(format),
    };
    let output = CommandOutput {
        stdout,
        lines: stderr,
        exit_code,
        ..CommandOutput::default()
    };
    Ok(output.or_save_with("--save"))
}

/// How files are judged.
struct Input<'a> {
    dataset: Option<&'a DatasetPlan>,
    evaluate: JudgeSettings,
    with_lines: bool,
    file_in_lines: bool,
}

impl Input<'_> {
    /// Judges a file, or stdin for `-`.
    fn score(&self, path: &Path, lines: &mut SpooledTempFile) -> Result<Score> {
        if path != Path::new("-") {
            return self.score_file(path, &path.display().to_string(), lines);
        }
        let name = "stdin";
        let stored =
            |error: std::io::Error| Error::environment(format!("cannot store stdin: {error}"));
        let mut copy = tempfile::NamedTempFile::new().map_err(stored)?;
        std::io::copy(&mut std::io::stdin().lock(), &mut copy).map_err(stored)?;
        let on_disk = copy.path().display().to_string();
        self.score_file(copy.path(), name, lines)
            .map_err(|error| Error {
                what: error.what.replace(&on_disk, name),
                ..error
            })
    }

    /// Judges every answer of a file. `lines` receives the line of each row, in file order.
    fn score_file(&self, path: &Path, name: &str, lines: &mut SpooledTempFile) -> Result<Score> {
        let answers = read::answers(path, name, self.dataset)?;
        let start = lines
            .stream_position()
            .map_err(|error| cannot_store(&error))?;
        if let Some(score) = self.judge(answers, name, lines)? {
            return Ok(score);
        }
        lines
            .set_len(start)
            .and_then(|()| lines.seek(SeekFrom::Start(start)))
            .map_err(|error| cannot_store(&error))?;
        let answers = read::answers_in_memory(path, name, self.dataset)?;
        let score = self.judge(answers, name, lines)?;
        score.ok_or_else(|| Error::internal(format!("rows in memory have no layout: {name}")))
    }

    /// The score; `None` if the file has to be read as a whole.
    fn judge(
        &self,
        answers: Answers,
        name: &str,
        lines: &mut SpooledTempFile,
    ) -> Result<Option<Score>> {
        let Answers {
            kind,
            rows,
            channel,
            claims,
            assumptions,
            mut notices,
        } = answers;
        let judging = Judging {
            name,
            evaluate: self.evaluate,
            channel,
            with_lines: self.with_lines,
            file_in_lines: self.file_in_lines,
        };
        let judging::Outcome::Judged(tally, repeated) = judging.judge(rows, lines)? else {
            return Ok(None);
        };
        if let (0, Some(first)) = (tally.answers(), tally.unreadable.first()) {
            return Err(read::no_readable_row(first, name));
        }
        notices.splice(0..0, DatasetNotice::repeated_members(repeated));
        let Figures {
            answers,
            constraints,
            accuracy,
            constrained,
            control,
            values,
            groups,
            findings,
            agreement,
            unreadable,
        } = tally.finish();
        Ok(Some(Score {
            file: name.to_owned(),
            kind,
            answers,
            unreadable,
            constraints,
            claims,
            correct_rate: values.rate(&rates::CORRECT_RATE),
            accuracy,
            agreement,
            constrained,
            control,
            values,
            groups,
            findings,
            assumptions,
            notices,
        }))
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
        "hint: correct these rows; the report is of the others".to_owned(),
    ]
}

/// The layout of a file of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
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
    /// JSON Lines with an answer each, whose constraints are in a dataset.
    AnswerLines,
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
            Self::AnswerLines => "an answer a line, with the constraints of a dataset",
        }
    }
}

/// One stored answer with its constraint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
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
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
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
pub(crate) enum Row {
    Answer(Box<Stored>),
    Unreadable(UnreadableRow),
}

/// The rows of a file.
#[derive(Debug)]
enum Rows {
    /// Lines that are read while they are judged.
    Lines(PathBuf),
    /// Requests that are read while they are judged.
    RunLog(Box<LoggedRows>),
    Memory(Vec<Row>),
}

/// The requests of a run log, and whether each answer is correct by its verdict there.
#[derive(Debug)]
struct LoggedRows {
    requests: RequestLines,
    claimed: Vec<Option<bool>>,
}

/// The contents of a file of answers.
#[derive(Debug)]
struct Answers {
    kind: FileKind,
    rows: Rows,
    /// The channel that the requests asked for the answers in.
    channel: Option<Channel>,
    /// Totals that the file states.
    claims: Vec<Claim>,
    /// Assumptions about what the file does not state, one sentence each.
    assumptions: Vec<String>,
    notices: Vec<Notice>,
}

/// A total that a file states.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Claim {
    /// The key in the file.
    pub name: String,
    pub percent: f64,
}

/// The result for one file.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
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
    /// Requests of the constrained arm, and of the control arm.
    pub constrained: usize,
    pub control: usize,
    #[serde(rename = "metrics")]
    pub values: Values,
    /// The requests with each `tool_choice`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupValues>,
    #[serde(rename = "quality")]
    pub findings: Findings,
    /// Comparison with the verdicts in the file; `None` if it has none.
    pub agreement: Option<Agreement>,
    pub assumptions: Vec<String>,
    #[serde(serialize_with = "as_sentences")]
    #[schemars(with = "Vec<String>")]
    pub notices: Vec<Notice>,
}

/// Comparison of the file's verdicts with these, over the answers that have both.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
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
    /// Judges the answer as a run does.
    fn judge(&self, evaluator: &mut Evaluator, channel: Option<Channel>) -> Judged {
        let (case, observation) = (&self.case, &self.observation);
        let exchange = Exchange {
            constraint: case.constraint.as_deref(),
            arm: case.arm,
            oracle: case.grammar_oracle.as_deref(),
            completion: case.completion.as_deref(),
            answer: &observation.answer,
            ending: observation.into(),
            expected: channel,
        };
        let mut judged = exchange.judge(evaluator);
        if let Some(what) = &self.unjudgeable {
            let what = what.clone();
            judged.verdict = Verdict::NotScored {
                why: NotScored::Unsupported { what },
            };
            judged.vllm_correct = None;
        }
        judged.accuracy = accuracy::grade(self);
        judged
    }

    /// Sets the finish reason, and the outcome that it stands for.
    fn finish(&mut self, reason: String) {
        self.observation.outcome = outcome_of_finish_reason(&reason);
        self.observation.finish_reason = Some(reason);
    }

    /// A completed answer with this text. Equal answers to equal prompts are copies.
    fn from_text(
        id: String,
        prompt: Prompt,
        constraint: Option<Arc<Constraint>>,
        text: String,
    ) -> Self {
        let case = Case::new(id, prompt, constraint, 1);
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
