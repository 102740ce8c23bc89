//! `sobench score`: judges stored answers by today's evaluation, those of a run log and those that
//! other tools kept. `read.rs` reads them, `constraints.rs` finds what they are judged by,
//! `report.rs` renders.

mod constraints;
pub mod options;
mod read;
pub mod report;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;

use self::options::ScoreArgs;
use super::output::CommandOutput;
use sobench_core::answer::Answer;
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::observation::{Observation, Outcome, Timing};
use sobench_core::output_format::OutputFormat;
use sobench_core::verdict::{NotScored, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator, call, legacy};
use sobench_notices::notice::{Notice, as_sentences};
use sobench_render::text;
use sobench_results::metrics::excerpt::Group;
use sobench_results::metrics::holding::runs_away;
use sobench_results::metrics::ledger::Ledger;
use sobench_results::metrics::quality::{Quality, is_correct};
use sobench_results::metrics::{Judged, Sample, Tokens};
use sobench_shutdown::Shutdown;
use sobench_statistics::Rate;

/// Judges stored answers again.
///
/// # Errors
/// The flags contradict each other; a file cannot be read, has no answers, or its constraints are
/// unknown.
pub fn run(flags: ScoreArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.or_abandon(move || score_files(&flags))
}

fn score_files(flags: &ScoreArgs) -> Result<CommandOutput> {
    let dataset = flags.dataset_plan()?;
    let evaluate = EvaluateOptions {
        assert_formats: !flags.no_format_assertion,
    };
    let mut scores = Vec::with_capacity(flags.files.len());
    for path in &flags.files {
        let answers = read::answers(path, dataset.as_ref())?;
        scores.push(score(path.display().to_string(), answers, evaluate));
    }
    let stdout = match flags.format {
        OutputFormat::Json => report::json(&scores, evaluate.assert_formats),
        _ => text::render(&report::document(&scores)),
    };
    Ok(CommandOutput {
        stdout,
        ..CommandOutput::default()
    })
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// Of sobench.
    RunLog,
    /// The JSON of vLLM's structured-output script, or of a result of ours with every request.
    Outputs,
    /// The detailed JSON of `vllm bench serve`.
    GeneratedTexts,
    /// JSON Lines of a constraint and a text.
    Rows,
}

impl FileKind {
    /// What it is, for people.
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

/// One stored answer, and what it is judged by.
#[derive(Clone, Debug, PartialEq)]
struct Stored {
    case: Case,
    observation: Observation,
    /// Why there is nothing to judge it by.
    unjudgeable: Option<String>,
    /// What the file itself says of it.
    claimed: Option<bool>,
}

/// Everything that a file holds.
#[derive(Clone, Debug, PartialEq)]
struct Answers {
    kind: FileKind,
    stored: Vec<Stored>,
    /// What the file says of all of them.
    claims: Vec<Claim>,
    /// What the file does not say and somebody else did, a sentence each.
    assumptions: Vec<String>,
    notices: Vec<Notice>,
}

/// A figure that stands in a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its key there.
    pub name: String,
    pub percent: f64,
}

/// A file judged again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    pub file: String,
    pub kind: FileKind,
    pub answers: usize,
    /// By which constraints, each kind with how many answers.
    pub constraints: Vec<(String, usize)>,
    pub claims: Vec<Claim>,
    /// Valid answers / those that can be judged, of the constrained arm.
    pub correct_rate: Option<Rate>,
    pub quality: Quality,
    /// Today's verdicts against those in the file; `None` where it has none.
    pub agreement: Option<Agreement>,
    pub assumptions: Vec<String>,
    #[serde(serialize_with = "as_sentences")]
    pub notices: Vec<Notice>,
}

/// How the file's own verdicts compare with today's, over the answers that have both.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    pub compared: usize,
    /// Answers that the file calls correct.
    pub claimed: Option<Rate>,
    /// Called correct there, and not valid.
    pub only_file: Group,
    /// Valid, and not called correct there.
    pub only_ours: Group,
}

impl Stored {
    fn judge(&self, evaluator: &mut Evaluator) -> Verdict {
        let Case {
            constraint,
            grammar_oracle,
            ..
        } = &self.case;
        let Observation {
            outcome, answer, ..
        } = &self.observation;
        evaluator.judge(
            constraint.as_deref(),
            grammar_oracle.as_deref(),
            outcome,
            answer,
        )
    }

    /// An answer of which only the text is known.
    fn text(id: String, constraint: Option<Arc<Constraint>>, text: String) -> Self {
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
        }
    }
}

/// Judges every answer of a file.
fn score(file: String, answers: Answers, evaluate: EvaluateOptions) -> Score {
    let Answers {
        kind,
        stored,
        claims,
        assumptions,
        notices,
    } = answers;
    let mut evaluator = Evaluator::new(evaluate);
    let mut ledger = Ledger::new(stored.len(), None);
    for (place, stored) in stored.iter().enumerate() {
        let verdict = match &stored.unjudgeable {
            Some(what) => Verdict::NotScored {
                why: NotScored::Unsupported { what: what.clone() },
            },
            None => stored.judge(&mut evaluator),
        };
        // By its place: rows of several files may have the same number.
        ledger.push(
            &stored.case,
            &Observation {
                case_index: place,
                ..stored.observation.clone()
            },
            0,
        );
        ledger.judge(place, judged(stored, verdict));
    }
    let samples = ledger.samples();
    let quality = Quality::of(&samples);
    Score {
        file,
        kind,
        answers: stored.len(),
        constraints: kinds(&stored),
        claims,
        correct_rate: quality.correct_rate,
        agreement: agreement(&stored, &samples),
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
    Judged {
        verdict,
        tokens: Tokens::default(),
        vllm_correct: constraint
            .filter(|_| stored.unjudgeable.is_none() && observation.outcome != Outcome::Cancelled)
            .and_then(|constraint| legacy::vllm_correct(constraint, answered)),
        white_space_run: runs_away(&observation.outcome, text),
        right_call: call::is_right(
            stored.case.completion.as_deref(),
            &observation.outcome,
            text,
        ),
    }
}

fn kinds(stored: &[Stored]) -> Vec<(String, usize)> {
    let of_kind = |kind: &str| {
        let constraints = stored
            .iter()
            .filter_map(|stored| stored.case.constraint.as_ref());
        constraints
            .filter(|constraint| constraint.kind() == kind)
            .count()
    };
    Constraint::KINDS
        .iter()
        .map(|kind| ((*kind).to_owned(), of_kind(kind)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn agreement(stored: &[Stored], samples: &[Sample<'_>]) -> Option<Agreement> {
    let both = || {
        let sides = stored.iter().zip(samples);
        sides.filter_map(|(stored, sample)| {
            Some((stored.claimed?, is_correct(sample.verdict())?, sample))
        })
    };
    let compared = both().count();
    let mut agreement = Agreement {
        compared,
        claimed: Rate::of(both().filter(|(claimed, ..)| *claimed).count(), compared),
        only_file: Group::empty("only the file says correct"),
        only_ours: Group::empty("only sobench says valid"),
    };
    for (claimed, correct, sample) in both() {
        match (claimed, correct) {
            (true, false) => agreement.only_file.add(sample, &words(sample.verdict())),
            (false, true) => agreement.only_ours.add(sample, "valid by its constraint"),
            (true, true) | (false, false) => {}
        }
    }
    (compared > 0).then_some(agreement)
}

fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid { reason } => reason.to_string(),
        Verdict::NotScored { why } => why.to_string(),
    }
}
