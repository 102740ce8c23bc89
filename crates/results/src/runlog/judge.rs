//! Judges the answers of a run log and counts their tokens.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Judged, LoggedAnswer, RunLog};
use crate::metrics::constraint_loss::is_white_space_run;
use crate::metrics::examples::cut;
use crate::metrics::request_table::RequestInput;
use crate::metrics::{Answers, TokenSource, Tokens};
use sobench_core::answer::Answer;
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::observation::Outcome;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Evaluator, function_calls, vllm_formula};

/// Counts the tokens of a text.
pub type CountTokens<'a> = &'a dyn Fn(&str) -> usize;

/// Maximum size of a message in a verdict, in bytes. Validators quote the value, which may be the
/// whole answer. A truncated message ends in an ellipsis.
pub(crate) const MAX_MESSAGE_BYTES: usize = 2000;

/// Judges every request in file order. `count_tokens` is used if the server did not count; without
/// it, such answers have no count.
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
            &request.request_input().prompt,
            request.outcome(),
            &answer,
            request.request_times().chunks as usize,
        );
        one(
            request.request_input(),
            request.outcome(),
            &answer.answer,
            evaluator,
            tokens,
            answers,
        )
    })
}

fn one(
    input: &RequestInput,
    outcome: &Outcome,
    answer: &Answer,
    evaluator: &mut Evaluator,
    tokens: Tokens,
    answers: Answers,
) -> Judged {
    let RequestInput {
        constraint,
        grammar_oracle,
        completion,
        ..
    } = input;
    let constraint = constraint.as_deref();
    let text = &*answer.text();
    Judged {
        verdict: truncate_message(evaluator.judge(
            constraint,
            grammar_oracle.as_deref(),
            outcome,
            answer,
        )),
        tokens: match answers {
            Answers::Generated => tokens,
            Answers::Computed => Tokens {
                output: None,
                output_source: TokenSource::Unknown,
                ..tokens
            },
        },
        vllm_correct: constraint.and_then(|constraint| vllm_correct(constraint, outcome, text)),
        white_space_run: is_white_space_run(outcome, text),
        right_call: function_calls::is_correct(completion.as_deref(), outcome, text),
    }
}

/// Truncates the message of a verdict to [`MAX_MESSAGE_BYTES`].
pub(crate) fn truncate_message(mut verdict: Verdict) -> Verdict {
    if let Verdict::Invalid {
        reason: Reason::NotJson { message, .. } | Reason::Schema { message, .. },
    } = &mut verdict
        && message.len() > MAX_MESSAGE_BYTES
    {
        *message = format!("{}…", cut(message, MAX_MESSAGE_BYTES));
    }
    verdict
}

/// The verdict of vLLM's script on the text that the script would have received: empty for a failed
/// request, the partial text after an error event of the server; `None` for a cancelled request.
fn vllm_correct(constraint: &Constraint, outcome: &Outcome, text: &str) -> Option<bool> {
    match outcome {
        Outcome::Cancelled => None,
        Outcome::Transport { .. } | Outcome::TimedOut { .. } => {
            vllm_formula::vllm_correct(constraint, "")
        }
        _ => vllm_formula::vllm_correct(constraint, text),
    }
}

/// Counts tokens if the server does not. Texts shared by several cases are counted once.
struct Counter<'a> {
    /// `None` if there is no tokenizer.
    count_tokens: Option<CountTokens<'a>>,
    /// Counts by address; the cases keep the texts alive.
    known: HashMap<usize, u64>,
}

impl Counter<'_> {
    /// The server's counts, or those of the tokenizer.
    fn tokens(
        &mut self,
        prompt: &Prompt,
        outcome: &Outcome,
        answer: &LoggedAnswer,
        content_chunks: usize,
    ) -> Tokens {
        let stated = |count: Option<u64>| count.map(|count| (count, TokenSource::Server));
        let counted = |count: Option<u64>| count.map(|count| (count, TokenSource::Tokenizer));
        // Implausible counts are ignored; a notice reports their number.
        let usage = answer.usage.map(|usage| usage.plausible(content_chunks));
        let input = stated(usage.and_then(|usage| usage.prompt_tokens))
            .or_else(|| counted(self.prompt_tokens(prompt)));
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

    /// `None` if only the server can count: it templates messages and decodes audio.
    fn prompt_tokens(&mut self, prompt: &Prompt) -> Option<u64> {
        match prompt {
            Prompt::Text(text) => self.text_tokens(text),
            Prompt::Messages(_) | Prompt::Audio(_) => None,
            // Each document is read together with the query.
            Prompt::Ranking { query, documents } => {
                let query = self.text_tokens(query)?;
                documents
                    .iter()
                    .map(|document| Some(self.text_tokens(document)? + query))
                    .sum()
            }
        }
    }

    fn text_tokens(&mut self, text: &Arc<str>) -> Option<u64> {
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
        let count_words = |text: &str| text.split_whitespace().count();
        let tokens = Counter {
            count_tokens: Some(&count_words),
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
    fn tokens_are_counted_by_the_server_or_the_tokenizer() {
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
        // Fewer tokens than chunks, and an impossible number of tokens.
        let implausible = Usage {
            prompt_tokens: Some(1 << 63),
            completion_tokens: Some(1),
            unreadable: false,
        };
        check(
            &Prompt::Text(text("one two three")),
            Some(implausible),
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
    fn long_message_is_truncated() {
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
            truncate_message(schema(long)),
            schema("é".repeat(MAX_MESSAGE_BYTES / 2) + "…")
        );
        for verdict in [
            schema("short".into()),
            Verdict::Valid,
            Verdict::Invalid {
                reason: Reason::Choice,
            },
        ] {
            assert_eq!(truncate_message(verdict.clone()), verdict);
        }
    }
}
