//! Before the clock starts: can the answers be judged at all. After it has stopped: verdicts and token counts. Knows no server and
//! no rendering.

use crate::case::Case;
use crate::error::{Error, Result};
use crate::evaluate::{Evaluator, legacy};
use crate::metrics::{Answers, Sample, TokenSource, Tokens};
use crate::observation::{Observation, Outcome};
use crate::plan::RunPlan;
use crate::tokenizer::Tokenizer;
use crate::verdict::{NotScored, Verdict};

/// What was found out about one observation.
pub(super) struct Judged {
    verdict: Verdict,
    tokens: Tokens,
    vllm_correct: Option<bool>,
}

/// Looks at the constraints before anything is sent. One that belongs to the whole run and cannot be judged by is an error: no
/// answer would get a verdict. Rows that have their own are named, and run.
///
/// # Errors
/// The run's only constraint is broken, or beyond our evaluator.
pub(super) fn look_ahead(plan: &RunPlan, cases: &[Case], evaluator: &mut Evaluator) -> Result<Option<String>> {
    let mut why = |case: &Case| evaluator.unusable(case.constraint.as_deref()?, case.grammar_oracle.as_deref());
    if !plan.dataset.name.has_rows() {
        return cases.first().and_then(why).map_or(Ok(None), |why| {
            Err(Error::usage(format!("no answer could be judged by this constraint: {why}"))
                .hint("correct the schema, regex, grammar or oracle; nothing was sent"))
        });
    }
    let unusable: Vec<(&Case, NotScored)> = cases.iter().filter_map(|case| Some((case, why(case)?))).collect();
    Ok(unusable.first().map(|(case, why)| {
        format!(
            "{} requests have a constraint that their answers cannot be judged by; the first is {}: {why}",
            unusable.len(),
            case.id
        )
    }))
}

/// Judges and counts, case by case.
pub(super) fn judge(
    cases: &[Case],
    observations: &[Observation],
    evaluator: &mut Evaluator,
    tokenizer: &Tokenizer,
    answers: Answers,
) -> Vec<Judged> {
    let one = |(case, observation): (&Case, &Observation)| Judged {
        verdict: evaluator.evaluate(case, observation),
        tokens: match answers {
            Answers::Generated => tokens(case, observation, tokenizer),
            Answers::Computed => {
                Tokens { output: None, output_source: TokenSource::Unknown, ..tokens(case, observation, tokenizer) }
            }
        },
        vllm_correct: vllm_correct(case, observation),
    };
    cases.iter().zip(observations).map(one).collect()
}

/// The script's formula on what the script would have had of this answer: nothing of a request that broke off, whatever there was
/// of one that the server ended with an error event; no account of a request that our user cut short.
fn vllm_correct(case: &Case, observation: &Observation) -> Option<bool> {
    let constraint = case.constraint.as_ref()?;
    match observation.outcome {
        Outcome::Cancelled => None,
        Outcome::Transport { .. } | Outcome::TimedOut { .. } => legacy::vllm_correct(constraint, ""),
        _ => legacy::vllm_correct(constraint, &observation.text),
    }
}

/// Cases, observations and findings side by side, as the metrics take them.
pub(super) fn samples<'a>(cases: &'a [Case], observations: &'a [Observation], judged: &'a [Judged]) -> Vec<Sample<'a>> {
    let sides = cases.iter().zip(observations).zip(judged);
    sides
        .map(|((case, observation), judged)| Sample {
            case,
            observation,
            verdict: &judged.verdict,
            tokens: judged.tokens,
            vllm_correct: judged.vllm_correct,
        })
        .collect()
}

/// The server's own counts where it gives them, else our tokenizer's.
fn tokens(case: &Case, observation: &Observation, tokenizer: &Tokenizer) -> Tokens {
    let stated = |count: Option<u64>| count.map(|count| (count, TokenSource::Server));
    let counted = |count: Option<u64>| count.map(|count| (count, TokenSource::Tokenizer));
    let usage = observation.usage;
    let input = stated(usage.and_then(|usage| usage.prompt_tokens)).or_else(|| counted(case.prompt_tokens.map(u64::from)));
    let output = stated(usage.and_then(|usage| usage.completion_tokens)).or_else(|| {
        let answered = observation.outcome.is_answer();
        counted(answered.then(|| (tokenizer.count(&observation.text) + tokenizer.count(&observation.reasoning)) as u64))
    });
    let (input, input_source) = split(input);
    let (output, output_source) = split(output);
    Tokens { input, input_source, output, output_source }
}

fn split(count: Option<(u64, TokenSource)>) -> (Option<u64>, TokenSource) {
    count.map_or((None, TokenSource::Unknown), |(count, source)| (Some(count), source))
}
