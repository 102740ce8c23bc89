//! Judges the answers of a run log and counts their tokens.

use std::collections::HashMap;
use std::sync::Arc;

use super::{LoggedAnswer, RunLog, wire};
use sobench_core::answer::{Answer, Channel, ToolCall};
use sobench_core::case::{Arm, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::observation::{CountChecks, Outcome};
use sobench_core::printable::cut;
use sobench_core::progress::Progress;
use sobench_core::verdict::{Reason, ToolCallFault, Verdict};
use sobench_facts::client_reads::{ClientRead, ClientReads};
use sobench_facts::reasoning::ReasoningFacts;
use sobench_facts::{Judged, RequestInput, Sample, TokenSource, Tokens};
use sobench_judge::accuracy::{Accuracy, Grade, Reference};
use sobench_judge::free_choices::FreeChoices;
use sobench_judge::{Ending, Evaluator, function_calls, is_white_space_run, vllm_formula};
use sobench_plan::metrics::Answers;
use sobench_wire::{Read, Reading, Stream, are_same};

/// Counts the tokens of a text.
pub type CountTokens<'a> = &'a (dyn Fn(&str) -> usize + Sync);

/// Maximum size of a message in a verdict, in bytes. Validators quote the value, which may be the
/// whole answer. A truncated message ends in an ellipsis.
pub(crate) const MAX_MESSAGE_BYTES: usize = 2000;

/// Maximum factor between a count of the server and one of the model's own tokenizer. Under a
/// constraint, a model may split a text into more tokens than the tokenizer does.
const MAX_TOKEN_FACTOR: f64 = 1.5;

/// Additional tokens that a text need not show: marks of tool calls and of the end.
const HIDDEN_TOKENS: u64 = 16;

/// Judges every request, in this many threads. `count_tokens` is used if the server did not count, or
/// reported an impossible count; without it, such answers have no count.
///
/// # Errors
/// The log cannot be read again.
pub fn judge(
    log: &mut RunLog,
    evaluator: &mut Evaluator,
    count_tokens: Option<CountTokens<'_>>,
    threads: usize,
    progress: &dyn Progress,
) -> Result<()> {
    let settings = &log.record.settings;
    let is_models_own = settings.tokenizer.is_some();
    let has_own_limit = settings.request.has_own_token_limit();
    let answers = settings.metrics.answers;
    let expected = log.record.server.expected_channel();
    let requests = log.requests.iter();
    for constraint in requests.filter_map(|request| request.constraint()) {
        evaluator.add_request(constraint);
    }
    let evaluator = &*evaluator;
    let new_worker = || Worker {
        evaluator: evaluator.for_another_thread(),
        counter: Counter {
            count_tokens,
            is_models_own,
            has_own_limit,
            known: HashMap::new(),
        },
        references: References::default(),
    };
    log.judge(threads, progress, new_worker, |worker, request, answer| {
        let Worker {
            evaluator,
            counter,
            references,
        } = worker;
        let tokens = counter.tokens(
            request.request_input(),
            request.outcome(),
            &answer,
            request.request_times().chunks as usize,
        );
        let reasoning = counter.reasoning(&request, &answer);
        let input = request.request_input();
        let exchange = Exchange {
            constraint: input.constraint.as_deref(),
            arm: request.arm(),
            oracle: input.grammar_oracle.as_deref(),
            completion: input.completion.as_deref(),
            answer: &answer.answer,
            ending: Ending {
                outcome: request.outcome(),
                finish_reason: request.finish_reason(),
            },
            expected,
        };
        let grade = |answer: &Answer| references.grade(&request, answer);
        let clients = client_reads(&exchange, evaluator, grade);
        Judged {
            clients,
            tokens: match answers {
                Answers::Generated => tokens,
                Answers::Computed => Tokens {
                    output: None,
                    output_source: TokenSource::Unknown,
                    ..tokens
                },
            },
            reasoning_facts: reasoning,
            free_choices: FreeChoices::of_answer(
                exchange.constraint,
                request.outcome(),
                exchange.answer,
            ),
            accuracy: references.grade(&request, exchange.answer),
            ..exchange.judge(evaluator)
        }
    })?;
    log.judge_parity()
}

/// The state of a thread.
struct Worker<'a> {
    evaluator: Evaluator,
    counter: Counter<'a>,
    references: References,
}

/// An answer with what was asked: all that its verdict depends on.
pub struct Exchange<'a> {
    /// The constraint of the request, whether or not its arm sends it.
    pub constraint: Option<&'a Constraint>,
    pub arm: Arm,
    /// A pest grammar that decides in place of the constraint's grammar.
    pub oracle: Option<&'a str>,
    /// The reference of the row.
    pub completion: Option<&'a str>,
    pub answer: &'a Answer,
    pub ending: Ending<'a>,
    /// The channel that the request asks for; `None` accepts any.
    pub expected: Option<Channel>,
}

impl Exchange<'_> {
    /// Judges the answer. Tokens, accuracy and free choices are left out.
    pub fn judge(&self, evaluator: &mut Evaluator) -> Judged {
        let Self {
            completion,
            answer,
            ending,
            ..
        } = *self;
        let outcome = ending.outcome;
        let constraint = self.constraint.filter(|_| self.arm.is_judged());
        // Without an answer, the outcome is the verdict.
        let judged_by = constraint.filter(|_| outcome.is_answer());
        let compiled = evaluator.compile_request(judged_by, self.oracle, self.expected);
        let text = &*answer.text();
        let verdict = truncate_message(sobench_judge::judge(&compiled, answer, ending));
        let mut judged = Judged {
            vllm_correct: constraint.and_then(|constraint| vllm_correct(constraint, outcome, text)),
            white_space_run: is_white_space_run(outcome, text),
            whole: *outcome == Outcome::Truncated && compiled.accepts(text),
            right_call: function_calls::is_correct(completion, outcome, self.constraint, answer),
            ..Judged::from_verdict(verdict)
        };
        if self.arm.sends_constraint() {
            judged.canary = compiled.classify_canary(text, &judged.verdict);
        }
        let tools = constraint.and_then(Constraint::tools);
        judged.add_tool_calls(tools, completion, outcome, answer);
        judged
    }
}

/// What the clients read of the whole answer of an exchange; `None` where they read it alike. `grade`
/// compares an answer with the reference.
fn client_reads(
    exchange: &Exchange<'_>,
    evaluator: &mut Evaluator,
    mut grade: impl FnMut(&Answer) -> Option<Accuracy>,
) -> Option<ClientReads> {
    let frames = &exchange.answer.frames;
    if frames.is_empty() || *exchange.ending.outcome != Outcome::Completed {
        return None;
    }
    let Some(text) = frames.text() else {
        return Some(ClientReads::default());
    };
    let readings = wire::readings(Stream::new(&text), exchange.constraint);
    if are_same(&readings) {
        return None;
    }
    let mut judged = |reading: Reading| {
        let Ok(read) = reading else {
            return ClientRead {
                readable: false,
                valid: false,
                right: None,
            };
        };
        let answer = answer(read);
        let exchange = Exchange {
            answer: &answer,
            ..*exchange
        };
        ClientRead {
            readable: true,
            valid: exchange.judge(evaluator).verdict == Verdict::Valid,
            right: grade(&answer).map(|accuracy| accuracy.grade == Grade::Right),
        }
    };
    let reads = readings
        .into_iter()
        .map(|(client, reading)| (client.to_owned(), judged(reading)));
    Some(ClientReads(reads.collect()))
}

/// What a client reads as an answer to judge.
fn answer(read: Read) -> Answer {
    let calls = read.calls.into_iter().zip(0..);
    Answer {
        content: read.content,
        tool_calls: calls
            .map(|(call, index)| ToolCall {
                index,
                id: call.id,
                name: call.name,
                arguments: match call.arguments {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                },
                ..ToolCall::default()
            })
            .collect(),
        ..Answer::default()
    }
}

/// Truncates the texts of a verdict to [`MAX_MESSAGE_BYTES`].
pub(crate) fn truncate_message(mut verdict: Verdict) -> Verdict {
    if let Verdict::Invalid { reason } = &mut verdict {
        truncate_texts(reason);
    }
    verdict
}

fn truncate_texts(reason: &mut Reason) {
    let text = match reason {
        Reason::NotJson { message, .. } | Reason::Schema { message, .. } => message,
        Reason::ToolCall(ToolCallFault::InvalidArguments { why, .. }) => {
            return truncate_texts(why);
        }
        Reason::ToolCall(
            ToolCallFault::CallUnderNone { name }
            | ToolCallFault::UnknownTool { name, .. }
            | ToolCallFault::DuplicateCallId { id: name, .. },
        ) => name,
        _ => return,
    };
    if text.len() > MAX_MESSAGE_BYTES {
        *text = format!("{}…", cut(text, MAX_MESSAGE_BYTES));
    }
}

/// The verdict of vLLM's script on the text that the script would have received: empty for a failed
/// request, the partial text after an error event of the server; `None` for a cancelled request.
fn vllm_correct(constraint: &Constraint, outcome: &Outcome, text: &str) -> Option<bool> {
    match outcome {
        Outcome::Cancelled | Outcome::Abandoned => None,
        Outcome::Transport { .. } | Outcome::TimedOut { .. } => {
            vllm_formula::vllm_correct(constraint, "")
        }
        _ => vllm_formula::vllm_correct(constraint, text),
    }
}

/// The references of the requests, each read once.
#[derive(Default)]
struct References {
    /// By the address of the request's input, which the log keeps alive. `None` without a readable
    /// reference; loaders refuse others.
    known: HashMap<usize, Option<Reference>>,
}

impl References {
    fn grade(&mut self, request: &Sample<'_>, answer: &Answer) -> Option<Accuracy> {
        let input = request.request_input();
        self.known
            .entry(std::ptr::from_ref(input).addr())
            .or_insert_with(|| {
                let reference = input.completion.as_deref()?.into();
                Reference::new(input.score?, &reference, input.constraint.as_deref()).ok()
            })
            .as_ref()?
            .grade_answer(request.outcome(), answer)
    }
}

/// Counts tokens if the server does not. Texts shared by several cases are counted once.
struct Counter<'a> {
    /// `None` if there is no tokenizer.
    count_tokens: Option<CountTokens<'a>>,
    /// Whether the tokenizer is the model's: the user named it.
    is_models_own: bool,
    /// Whether fields of the user may set another token limit than that of the requests.
    has_own_limit: bool,
    /// Counts by address; the cases keep the texts alive.
    known: HashMap<usize, u64>,
}

impl Counter<'_> {
    /// The server's counts, or those of the tokenizer.
    fn tokens(
        &mut self,
        input: &RequestInput,
        outcome: &Outcome,
        answer: &LoggedAnswer,
        content_chunks: usize,
    ) -> Tokens {
        let stated = |count: Option<u64>| count.map(|count| (count, TokenSource::Server));
        let tokenizer = if self.is_models_own {
            TokenSource::Tokenizer
        } else {
            TokenSource::OtherTokenizer
        };
        let counted = |count: Option<u64>| count.map(|count| (count, tokenizer));
        // Implausible counts are ignored; a notice reports their number.
        let max_output = (!self.has_own_limit && !matches!(input.prompt, Prompt::Audio(_)))
            .then_some(u64::from(input.output_len));
        let checks = CountChecks::new(&input.prompt, &answer.answer, content_chunks);
        let own_count = || {
            let count_tokens = self.count_tokens.filter(|_| outcome.is_answer())?;
            let count = |text: &str| count_tokens(text) as u64;
            Some(count(&answer.answer.text()) + count(&answer.answer.reasoning))
        };
        let stated_output = answer.usage.and_then(|usage| usage.completion_tokens);
        // A server that ignores the limit counts right, and its answer is that long.
        let max_output = max_output.filter(|limit| {
            let over = stated_output.filter(|stated| stated > limit);
            !over.is_some_and(|stated: u64| {
                content_chunks as u64 > *limit
                    || own_count().is_some_and(|own| own > *limit && is_near(stated, own))
            })
        });
        let usage = answer
            .usage
            .map(|usage| usage.plausible(checks, max_output));
        let is_credible = |stated: &u64| {
            // Counting is slow. Most servers send each token in a chunk of its own.
            !self.is_models_own
                || is_near(*stated, content_chunks as u64)
                || own_count().is_none_or(|own| is_near(*stated, own))
        };
        let output = stated(
            usage
                .and_then(|usage| usage.completion_tokens)
                .filter(is_credible),
        )
        .or_else(|| counted(own_count()));
        let input = stated(usage.and_then(|usage| usage.prompt_tokens))
            .or_else(|| counted(self.prompt_tokens(&input.prompt)));
        let (input, input_source) = split(input);
        let (output, output_source) = split(output);
        Tokens {
            input,
            input_source,
            output,
            output_source,
        }
    }

    /// What the reasoning of an answer shows, with the server's count of its tokens, or the
    /// tokenizer's.
    fn reasoning(&self, request: &Sample<'_>, answer: &LoggedAnswer) -> Option<ReasoningFacts> {
        let text = &answer.answer;
        let counted = || Some(self.count_tokens?(&text.reasoning) as u64);
        let prompt = &request.request_input().prompt;
        let checks = CountChecks::new(prompt, text, request.request_times().chunks as usize);
        let stated = answer.usage.map(|usage| usage.plausible(checks, None));
        let stated = stated.and_then(|usage| usage.reasoning_tokens);
        let tokens = || stated.filter(|count| *count > 0).or_else(counted);
        let has_reasoning = !text.reasoning.is_empty();
        request
            .outcome()
            .is_answer()
            .then(|| ReasoningFacts::new(text, has_reasoning.then(tokens).flatten()))?
    }

    /// `None` if only the server can count: it templates messages and decodes audio.
    fn prompt_tokens(&mut self, prompt: &Prompt) -> Option<u64> {
        match prompt {
            Prompt::Text(text) => self.text_tokens(text),
            Prompt::Messages(_) | Prompt::Audio(_) | Prompt::Body(_) => None,
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

/// Whether two counts of the tokens of one text can both be right.
fn is_near(left: u64, right: u64) -> bool {
    let (least, most) = (left.min(right), left.max(right));
    most.saturating_sub(HIDDEN_TOKENS) as f64 <= least as f64 * MAX_TOKEN_FACTOR
}

fn split(count: Option<(u64, TokenSource)>) -> (Option<u64>, TokenSource) {
    count.map_or((None, TokenSource::Unknown), |(count, source)| {
        (Some(count), source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::case::Message;
    use sobench_core::departure::Departure;
    use sobench_core::observation::Usage;

    fn request(prompt: Prompt, output_len: u32) -> RequestInput {
        RequestInput {
            prompt,
            constraint: None,
            output_len,
            completion: None,
            score: None,
            tags: Vec::new(),
            grammar_oracle: None,
            model: None,
        }
    }

    /// The counts of an answer of two words.
    fn tokens(
        input: &RequestInput,
        usage: Option<Usage>,
        is_models_own: bool,
        chunks: usize,
    ) -> Tokens {
        tokens_of(input, usage, is_models_own, chunks, false)
    }

    fn tokens_of(
        input: &RequestInput,
        usage: Option<Usage>,
        is_models_own: bool,
        chunks: usize,
        has_other_choices: bool,
    ) -> Tokens {
        let mut answer = LoggedAnswer {
            index: 0,
            answer: Answer::from_text("one two".to_owned()),
            usage,
        };
        if has_other_choices {
            let departures = &mut answer.answer.departures;
            departures.add(Departure::SecondChoice, "index 1");
        }
        let count_words = |text: &str| text.split_whitespace().count();
        Counter {
            count_tokens: Some(&count_words),
            is_models_own,
            has_own_limit: false,
            known: HashMap::new(),
        }
        .tokens(input, &Outcome::Completed, &answer, chunks)
    }

    #[track_caller]
    fn check(prompt: Prompt, usage: Option<Usage>, input: Option<u64>, input_source: TokenSource) {
        let tokens = tokens(&request(prompt, 8), usage, true, 2);
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
            Prompt::Text(text("one two three")),
            Some(stated),
            Some(9),
            TokenSource::Server,
        );
        check(
            Prompt::Text(text("one two three")),
            None,
            Some(3),
            TokenSource::Tokenizer,
        );
        // More than the token limit, and an impossible number.
        let implausible = Usage {
            prompt_tokens: Some(1 << 63),
            completion_tokens: Some(9),
            reasoning_tokens: None,
            cached_tokens: None,
            unreadable: false,
        };
        check(
            Prompt::Text(text("one two three")),
            Some(implausible),
            Some(3),
            TokenSource::Tokenizer,
        );
        check(
            Prompt::Messages(Arc::new([])),
            None,
            None,
            TokenSource::Unknown,
        );
        let documents = Arc::new([text("one two"), text("three")]);
        check(
            Prompt::Ranking {
                query: text("zero"),
                documents,
            },
            None,
            Some(5),
            TokenSource::Tokenizer,
        );
    }

    #[test]
    fn a_count_is_replaced_only_if_it_is_impossible() {
        use TokenSource::{OtherTokenizer, Server, Tokenizer};
        let input = request(Prompt::Text("one".into()), 100);
        for (count, is_models_own, chunks, expected) in [
            (2, true, 2, (2, Server)),
            // One chunk more than tokens.
            (2, false, 3, (2, Server)),
            (1, false, 5, (2, OtherTokenizer)),
            (101, false, 2, (2, OtherTokenizer)),
            (101, true, 2, (2, Tokenizer)),
            // The server ignored the limit, as the chunks show.
            (101, false, 101, (101, Server)),
            (101, true, 150, (101, Server)),
            // Far off the count of the model's own tokenizer, and of the chunks.
            (60, true, 2, (2, Tokenizer)),
            (60, true, 50, (60, Server)),
            (60, false, 2, (60, Server)),
            (19, true, 1, (19, Server)),
        ] {
            let usage = Usage {
                completion_tokens: Some(count),
                ..Usage::default()
            };
            let found = tokens(&input, Some(usage), is_models_own, chunks);
            assert_eq!(
                (found.output.unwrap(), found.output_source),
                expected,
                "{count}, own: {is_models_own}, {chunks} chunks"
            );
        }
    }

    #[test]
    fn a_count_that_is_not_the_servers_names_its_source() {
        use TokenSource::{OtherTokenizer, Server, Tokenizer, Unknown};
        let text = request(Prompt::Text("one".into()), 100);
        let messages = request(
            Prompt::Messages(Arc::new([Message::new("user", "one")])),
            100,
        );
        let usage = |prompt, completion| {
            Some(Usage {
                prompt_tokens: Some(prompt),
                completion_tokens: Some(completion),
                ..Usage::default()
            })
        };
        for (input, usage, is_models_own, has_other_choices, expected) in [
            (&text, None, true, false, [Tokenizer, Tokenizer]),
            (&text, None, false, false, [OtherTokenizer, OtherTokenizer]),
            (&text, usage(1, 2), false, false, [Server, Server]),
            // The tokens of two choices.
            (&text, usage(1, 4), false, true, [Server, OtherTokenizer]),
            (&text, usage(0, 2), true, false, [Tokenizer, Server]),
            (&messages, usage(0, 2), false, false, [Unknown, Server]),
            // Half of the chunks: used, and marked.
            (&text, usage(1, 10), false, false, [Server, Server]),
        ] {
            let chunks = usage.map_or(2, |usage| match usage.completion_tokens {
                Some(10) => 20,
                _ => 2,
            });
            let found = tokens_of(input, usage, is_models_own, chunks, has_other_choices);
            assert_eq!(
                [found.input_source, found.output_source],
                expected,
                "{usage:?}"
            );
        }
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
