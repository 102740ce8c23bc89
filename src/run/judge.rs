//! Before the clock starts: can the answers be judged at all. After it has stopped: verdicts and token counts. Knows no server and
//! no rendering.

use std::collections::HashMap;
use std::sync::Arc;

use crate::case::{Case, Prompt};
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
    let mut counter = Counter { tokenizer, known: HashMap::new() };
    let one = |(case, observation): (&Case, &Observation)| {
        let tokens = counter.tokens(case, observation);
        Judged {
            verdict: evaluator.evaluate(case, observation),
            tokens: match answers {
                Answers::Generated => tokens,
                Answers::Computed => Tokens { output: None, output_source: TokenSource::Unknown, ..tokens },
            },
            vllm_correct: vllm_correct(case, observation),
        }
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

/// Counts tokens where the server does not, each text once that many cases share.
struct Counter<'a> {
    tokenizer: &'a Tokenizer,
    /// By address: cases share their texts, and keep them alive.
    known: HashMap<usize, u64>,
}

impl Counter<'_> {
    /// The server's own counts where it gives them, else our tokenizer's.
    fn tokens(&mut self, case: &Case, observation: &Observation) -> Tokens {
        let stated = |count: Option<u64>| count.map(|count| (count, TokenSource::Server));
        let counted = |count: Option<u64>| count.map(|count| (count, TokenSource::Tokenizer));
        let usage = observation.usage;
        let input = stated(usage.and_then(|usage| usage.prompt_tokens)).or_else(|| counted(self.of_prompt(&case.prompt)));
        let output = stated(usage.and_then(|usage| usage.completion_tokens)).or_else(|| {
            let answered = observation.outcome.is_answer();
            let count = |text: &str| self.tokenizer.count(text) as u64;
            counted(answered.then(|| count(&observation.text) + count(&observation.reasoning)))
        });
        let (input, input_source) = split(input);
        let (output, output_source) = split(output);
        Tokens { input, input_source, output, output_source }
    }

    /// `None` where the server alone knows: it templates messages and splits sound.
    fn of_prompt(&mut self, prompt: &Prompt) -> Option<u64> {
        match prompt {
            Prompt::Text(text) => Some(self.of_text(text)),
            Prompt::Messages(_) | Prompt::Audio(_) => None,
            // Each document is read together with the query.
            Prompt::Ranking { query, documents } => {
                let query = self.of_text(query);
                Some(documents.iter().map(|document| self.of_text(document) + query).sum())
            }
        }
    }

    fn of_text(&mut self, text: &Arc<str>) -> u64 {
        *self.known.entry(text.as_ptr() as usize).or_insert_with(|| self.tokenizer.count(text) as u64)
    }
}

fn split(count: Option<(u64, TokenSource)>) -> (Option<u64>, TokenSource) {
    count.map_or((None, TokenSource::Unknown), |(count, source)| (Some(count), source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Arm;
    use crate::observation::{Timing, Usage};

    #[track_caller]
    fn check(prompt: Prompt, usage: Option<Usage>, input: Option<u64>, input_source: TokenSource) {
        let case = Case {
            id: "c-0".to_owned(),
            prompt,
            constraint: None,
            arm: Arm::Free,
            output_len: 8,
            completion: None,
            tags: vec![],
            grammar_oracle: None,
        };
        let observation = Observation {
            case_index: 0,
            outcome: Outcome::Completed,
            timing: Timing::default(),
            text: "one two".to_owned(),
            reasoning: String::new(),
            finish_reason: None,
            usage,
        };
        let tokenizer = Tokenizer::embedded();
        let tokens = Counter { tokenizer: &tokenizer, known: HashMap::new() }.tokens(&case, &observation);
        assert_eq!((tokens.input, tokens.input_source), (input, input_source));
        assert_eq!((tokens.output, tokens.output_source), (Some(2), TokenSource::Tokenizer));
    }

    #[test]
    fn tokens_are_the_servers_or_else_the_tokenizers() {
        let text = |text: &str| Arc::<str>::from(text);
        let stated = Usage { prompt_tokens: Some(9), completion_tokens: None };
        check(Prompt::Text(text("one two three")), Some(stated), Some(9), TokenSource::Server);
        check(Prompt::Text(text("one two three")), None, Some(3), TokenSource::Tokenizer);
        check(Prompt::Messages(Arc::new([])), None, None, TokenSource::Unknown);
        let documents = Arc::new([text("one two"), text("three")]);
        check(Prompt::Ranking { query: text("zero"), documents }, None, Some(5), TokenSource::Tokenizer);
    }
}
