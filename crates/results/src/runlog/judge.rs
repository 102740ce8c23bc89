//! Verdicts and token counts of the requests of a run log, an answer at a time.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Judged, LoggedAnswer, RunLog};
use crate::metrics::excerpt::cut;
use crate::metrics::holding::runs_away;
use crate::metrics::ledger::Question;
use crate::metrics::{Answers, TokenSource, Tokens};
use sobench_core::answer::Answer;
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::observation::Outcome;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Evaluator, call, legacy};

/// Counts the tokens of a text.
pub type CountTokens<'a> = &'a dyn Fn(&str) -> usize;

/// The most bytes of a message that a verdict keeps: validators quote what they object to, which
/// may be the whole answer. What is cut ends in an ellipsis.
pub(crate) const MAX_MESSAGE_BYTES: usize = 2000;

/// Judges and counts, in the order of the file. `count_tokens` counts where the server did not;
/// without it, such answers have no count.
///
/// # Errors
/// The log cannot be read again.
pub fn judge(
    log: &mut RunLog,
    evaluator: &mut Evaluator,
    count_tokens: Option<CountTokens<'_>>,
) -> Result<()> {
    let mut counter = Counter {
        count_tokens,
        known: HashMap::new(),
    };
    let answers = log.record.settings.metrics.answers;
    log.judge(|request, answer| {
        let tokens = counter.tokens(
            &request.question().prompt,
            request.outcome(),
            &answer,
            request.moments().chunks as usize,
        );
        one(
            request.question(),
            request.outcome(),
            &answer.answer,
            evaluator,
            tokens,
            answers,
        )
    })
}

fn one(
    asked: &Question,
    outcome: &Outcome,
    answer: &Answer,
    evaluator: &mut Evaluator,
    tokens: Tokens,
    answers: Answers,
) -> Judged {
    let Question {
        constraint,
        grammar_oracle,
        completion,
        ..
    } = asked;
    let constraint = constraint.as_deref();
    let text = &*answer.text();
    Judged {
        verdict: brief(evaluator.judge(constraint, grammar_oracle.as_deref(), outcome, answer)),
        tokens: match answers {
            Answers::Generated => tokens,
            Answers::Computed => Tokens {
                output: None,
                output_source: TokenSource::Unknown,
                ..tokens
            },
        },
        vllm_correct: constraint.and_then(|constraint| vllm_correct(constraint, outcome, text)),
        white_space_run: runs_away(outcome, text),
        right_call: call::is_right(completion.as_deref(), outcome, text),
    }
}

/// A verdict whose messages keep within [`MAX_MESSAGE_BYTES`].
pub(crate) fn brief(mut verdict: Verdict) -> Verdict {
    if let Verdict::Invalid {
        reason: Reason::NotJson { message, .. } | Reason::Schema { message, .. },
    } = &mut verdict
        && message.len() > MAX_MESSAGE_BYTES
    {
        *message = format!("{}…", cut(message, MAX_MESSAGE_BYTES));
    }
    verdict
}

/// The script's formula on what the script would have had of this answer: nothing of a request that
/// broke off, whatever there was of one that the server ended with an error event; no account of a
/// request that our user cut short.
fn vllm_correct(constraint: &Constraint, outcome: &Outcome, text: &str) -> Option<bool> {
    match outcome {
        Outcome::Cancelled => None,
        Outcome::Transport { .. } | Outcome::TimedOut { .. } => {
            legacy::vllm_correct(constraint, "")
        }
        _ => legacy::vllm_correct(constraint, text),
    }
}

/// Counts tokens where the server does not, each text once that many cases share.
struct Counter<'a> {
    /// Without it, what the server did not count has no count.
    count_tokens: Option<CountTokens<'a>>,
    /// By address: cases share their texts, and keep them alive.
    known: HashMap<usize, u64>,
}

impl Counter<'_> {
    /// The server's own counts where it gives them, else our tokenizer's.
    fn tokens(
        &mut self,
        prompt: &Prompt,
        outcome: &Outcome,
        answer: &LoggedAnswer,
        content_chunks: usize,
    ) -> Tokens {
        let stated = |count: Option<u64>| count.map(|count| (count, TokenSource::Server));
        let counted = |count: Option<u64>| count.map(|count| (count, TokenSource::Tokenizer));
        // What cannot be right counts as not stated; the report says of how many answers.
        let usage = answer.usage.map(|usage| usage.plausible(content_chunks));
        let input = stated(usage.and_then(|usage| usage.prompt_tokens))
            .or_else(|| counted(self.of_prompt(prompt)));
        let output = stated(usage.and_then(|usage| usage.completion_tokens)).or_else(|| {
            let count_tokens = self.count_tokens.filter(|_| outcome.is_answer())?;
            let count = |text: &str| count_tokens(text) as u64;
            counted(Some(
                count(&answer.answer.text()) + count(&answer.answer.reasoning),
            ))
        });
        let (input, input_source) = split(input);
        let (output, output_source) = split(output);
        Tokens {
            input,
            input_source,
            output,
            output_source,
        }
    }

    /// `None` where the server alone knows: it templates messages and splits sound.
    fn of_prompt(&mut self, prompt: &Prompt) -> Option<u64> {
        match prompt {
            Prompt::Text(text) => self.of_text(text),
            Prompt::Messages(_) | Prompt::Audio(_) => None,
            // Each document is read together with the query.
            Prompt::Ranking { query, documents } => {
                let query = self.of_text(query)?;
                documents
                    .iter()
                    .map(|document| Some(self.of_text(document)? + query))
                    .sum()
            }
        }
    }

    fn of_text(&mut self, text: &Arc<str>) -> Option<u64> {
        let count_tokens = self.count_tokens?;
        Some(
            *self
                .known
                .entry(text.as_ptr() as usize)
                .or_insert_with(|| count_tokens(text) as u64),
        )
    }
}

fn split(count: Option<(u64, TokenSource)>) -> (Option<u64>, TokenSource) {
    count.map_or((None, TokenSource::Unknown), |(count, source)| {
        (Some(count), source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::Usage;

    #[track_caller]
    fn check(prompt: &Prompt, usage: Option<Usage>, input: Option<u64>, input_source: TokenSource) {
        let answer = LoggedAnswer {
            index: 0,
            answer: Answer::from_text("one two".to_owned()),
            usage,
        };
        let words = |text: &str| text.split_whitespace().count();
        let tokens = Counter {
            count_tokens: Some(&words),
            known: HashMap::new(),
        }
        .tokens(prompt, &Outcome::Completed, &answer, 2);
        assert_eq!((tokens.input, tokens.input_source), (input, input_source));
        assert_eq!(
            (tokens.output, tokens.output_source),
            (Some(2), TokenSource::Tokenizer)
        );
    }

    #[test]
    fn tokens_are_the_servers_or_else_the_tokenizers() {
        let text = |text: &str| Arc::<str>::from(text);
        let stated = Usage {
            prompt_tokens: Some(9),
            ..Usage::default()
        };
        check(
            &Prompt::Text(text("one two three")),
            Some(stated),
            Some(9),
            TokenSource::Server,
        );
        check(
            &Prompt::Text(text("one two three")),
            None,
            Some(3),
            TokenSource::Tokenizer,
        );
        // Fewer tokens than chunks, and more than there can be.
        let senseless = Usage {
            prompt_tokens: Some(1 << 63),
            completion_tokens: Some(1),
            unreadable: false,
        };
        check(
            &Prompt::Text(text("one two three")),
            Some(senseless),
            Some(3),
            TokenSource::Tokenizer,
        );
        check(
            &Prompt::Messages(Arc::new([])),
            None,
            None,
            TokenSource::Unknown,
        );
        let documents = Arc::new([text("one two"), text("three")]);
        check(
            &Prompt::Ranking {
                query: text("zero"),
                documents,
            },
            None,
            Some(5),
            TokenSource::Tokenizer,
        );
    }

    #[test]
    fn a_message_does_not_carry_the_answer_along() {
        let schema = |message: String| {
            let reason = Reason::Schema {
                keyword: String::new(),
                instance_path: String::new(),
                schema_path: String::new(),
                message,
            };
            Verdict::Invalid { reason }
        };
        let long = "é".repeat(MAX_MESSAGE_BYTES);
        assert_eq!(
            brief(schema(long)),
            schema("é".repeat(MAX_MESSAGE_BYTES / 2) + "…")
        );
        for verdict in [
            schema("short".into()),
            Verdict::Valid,
            Verdict::Invalid {
                reason: Reason::Choice,
            },
        ] {
            assert_eq!(brief(verdict.clone()), verdict);
        }
    }
}
