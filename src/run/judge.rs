//! After the clock has stopped: verdicts and token counts of every observation. Knows no server and no rendering.

use crate::case::Case;
use crate::evaluate::{Evaluator, legacy};
use crate::metrics::{Sample, TokenSource, Tokens};
use crate::observation::{Observation, Outcome};
use crate::plan::RunPlan;
use crate::tokenizer::Tokenizer;
use crate::verdict::Verdict;

/// What was found out about one observation.
pub(super) struct Judged {
    verdict: Verdict,
    tokens: Tokens,
    vllm_correct: Option<bool>,
}

/// Judges and counts, case by case.
pub(super) fn judge(plan: &RunPlan, cases: &[Case], observations: &[Observation], tokenizer: &Tokenizer) -> Vec<Judged> {
    let mut evaluator = Evaluator::new(plan.evaluate);
    let one = |(case, observation): (&Case, &Observation)| Judged {
        verdict: evaluator.evaluate(case, observation),
        tokens: tokens(case, observation, tokenizer),
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
