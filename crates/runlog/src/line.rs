//! The lines of a run log, with an exact round trip of values.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::probe::ProbeResults;
use crate::recovery::Recovery;
use crate::spec_decode::SpecDecode;
use sobench_core::answer::{Answer, AnsweredBy, ToolCall};
use sobench_core::case::{Arm, Case, Prompt, Turn};
use sobench_core::channel_timing::ChannelTiming;
use sobench_core::constraint::Constraint;
use sobench_core::departure::Departures;
use sobench_core::frames::Frames;
use sobench_core::load::CancelAfter;
use sobench_core::observation::{Observation, Outcome, ServerTimes, Timing, Usage};
use sobench_core::printable::printable;
use sobench_core::run_event::AnswerForm;
use sobench_core::scorer::Scorer;
use sobench_core::server_sample::ServerSample;
use sobench_core::shard::ClockOffset;
use sobench_facts::parity::Response;
use sobench_facts::{ChunksAndTokens, Judged};
use sobench_notices::enforcement::EarlyBreach;
use sobench_notices::notice::Notice;
use sobench_plan::record::{ClientCost, Engine, RunRecord};

/// Maximum size of one line in bytes. The client limits an answer to an eighth of this, and
/// escaping can make one byte six.
pub const MAX_LINE_BYTES: usize = 512 << 20;

/// The answer of a `request` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggedAnswer {
    /// The number of the request in the plan.
    pub index: usize,
    pub answer: Answer,
    /// Token counts of the server.
    pub usage: Option<Usage>,
}

/// A line to write.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line<'a> {
    Header(HeaderLine<'a>),
    Constraint(Shared<'a, Constraint>),
    Prompt(Shared<'a, Prompt>),
    Oracle(Shared<'a, str>),
    Request(Box<RequestLine<'a, &'a Outcome>>),
    Repeat(Box<RepeatLine<'a>>),
    ServerMetrics(&'a ServerSample),
    Judged(JudgedLine<'a>),
    Footer(&'a Footer),
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Footer {
    /// Number of requests in the log.
    pub requests: usize,
    /// From the start to the last end of a sent request.
    pub duration_ns: u64,
    /// Resources that the client used.
    pub cost: ClientCost,
    /// Probe requests beside the run, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeResults>,
    /// Single requests before and after a run with abandoned requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Speculative decoding counters, if the server reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_decode: Option<SpecDecode>,
    /// The decoding engine of the embedded server, with its counters.
    pub engine: Option<Engine>,
    /// Whether the user stopped the run.
    pub interrupted: bool,
    /// The reason why the run gave up on the server, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// The first constrained answers, if they show that the constraint is not enforced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_breach: Option<EarlyBreach>,
    /// Notices in addition to those of the record.
    pub notices: Vec<Notice>,
    /// Offset of this machine's clock from that of shard 1 after the run, if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}

/// The first line.
#[derive(JsonSchema, Serialize)]
pub(super) struct HeaderLine<'a> {
    pub(super) version: u32,
    pub(super) record: &'a RunRecord,
}

/// A part that requests refer to by number.
#[derive(JsonSchema, Serialize)]
pub(super) struct Shared<'a, T: ?Sized> {
    pub(super) number: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
    pub(super) is: &'a T,
}

/// The numbers of a request's shared parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub(super) struct Numbers {
    pub(super) prompt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) constraint: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) oracle: Option<u32>,
}

/// A case and its observation. `O` is an outcome for writing and raw JSON for reading.
#[derive(JsonSchema, Serialize, Deserialize)]
pub(super) struct RequestLine<'a, O> {
    index: usize,
    id: Cow<'a, str>,
    arm: Arm,
    pub(super) numbers: Numbers,
    output_len: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    score: Option<Scorer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    item: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    tags: Cow<'a, [String]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cancel_after: Option<CancelAfter>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    turn: Option<Cow<'a, Turn>>,
    outcome: O,
    timing: Gaps,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    reasoning: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    text: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    refusal: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "<[ToolCall]>::is_empty")]
    tool_calls: Cow<'a, [ToolCall]>,
    #[serde(default, skip_serializing_if = "Departures::is_empty")]
    departures: Cow<'a, Departures>,
    #[serde(default, skip_serializing_if = "AnsweredBy::is_empty")]
    answered_by: Cow<'a, AnsweredBy>,
    #[serde(default, skip_serializing_if = "Frames::is_empty")]
    frames: Cow<'a, Frames>,
}

/// The response to a request that was sent again after the run.
#[derive(JsonSchema, Serialize)]
pub(super) struct RepeatLine<'a> {
    index: usize,
    form: AnswerForm,
    outcome: &'a Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reasoning: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    refusal: &'a str,
    #[serde(skip_serializing_if = "<[ToolCall]>::is_empty")]
    tool_calls: &'a [ToolCall],
    #[serde(skip_serializing_if = "Departures::is_empty")]
    departures: &'a Departures,
}

/// The members of a `repeat` line that identify it.
#[derive(Deserialize)]
pub(super) struct ReadRepeat {
    pub(super) index: usize,
    pub(super) form: AnswerForm,
}

/// A `request` line for reading.
pub(super) type ReadRequest = RequestLine<'static, Box<RawValue>>;

/// [`Timing`] with times and token counts of chunks as differences, which are small and exact.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
struct Gaps {
    due_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ready_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sent_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    send_call_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    headers_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_reasoning_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_answer_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_arguments_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    channels: Option<ChannelTiming>,
    streamed: bool,
    /// The first is relative to `sent_ns`, or to the start without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunk_gaps_ns: Vec<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    arrival_slack_ns: Option<Vec<(usize, u64)>>,
    /// The first is relative to 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    chunk_tokens: Vec<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<ServerTimes>,
}

/// A verdict with the number of its request.
#[derive(JsonSchema, Serialize)]
pub(super) struct JudgedLine<'a> {
    pub(super) index: usize,
    #[serde(flatten)]
    pub(super) judged: &'a Judged,
}

/// A line for reading. Members with internally tagged enums stay raw JSON, because buffering them
/// would change the spelling of numbers.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReadLine {
    Header(serde::de::IgnoredAny),
    Constraint(ReadShared<Arc<Constraint>>),
    Prompt(ReadShared<Prompt>),
    Oracle(ReadShared<Arc<str>>),
    Request(Box<ReadRequest>),
    Repeat(ReadRepeat),
    ServerMetrics(Box<RawValue>),
    Judged(Box<RawValue>),
    Footer(Box<RawValue>),
}

#[derive(Deserialize)]
pub(super) struct ReadShared<T> {
    pub(super) number: u32,
    pub(super) is: T,
}

impl<'a> RepeatLine<'a> {
    pub(super) fn new(form: AnswerForm, observation: &'a Observation) -> Self {
        let answer = &observation.answer;
        Self {
            index: observation.case_index,
            form,
            outcome: &observation.outcome,
            finish_reason: observation.finish_reason.as_deref(),
            usage: observation.usage,
            reasoning: &answer.reasoning,
            text: &answer.content,
            refusal: &answer.refusal,
            tool_calls: &answer.tool_calls,
            departures: &answer.departures,
        }
    }
}

/// Parses the response of a `request` or `repeat` line, with the number of its request; `None` for
/// other lines.
pub(super) fn response(line: &[u8]) -> serde_json::Result<Option<(usize, Response)>> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(alias = "repeat")]
        request: Option<OnlyResponse>,
    }
    let Some(found) = serde_json::from_slice::<Line>(line)?.request else {
        return Ok(None);
    };
    // Via a value, as in a case's own line.
    let outcome: serde_json::Value = serde_json::from_str(found.outcome.get())?;
    let outcome = serde_json::from_value(outcome)?;
    let finish_reason = found.finish_reason.clone();
    let LoggedAnswer {
        index,
        answer,
        usage,
    } = found.into();
    let response = Response {
        outcome,
        answer,
        finish_reason,
        usage,
    };
    Ok(Some((index, response)))
}

/// What a `request` or `repeat` line says of the response.
#[derive(Deserialize)]
struct OnlyResponse {
    index: usize,
    outcome: Box<RawValue>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    reasoning: String,
    #[serde(default)]
    refusal: String,
    #[serde(default)]
    tool_calls: Vec<ToolCall>,
    #[serde(default)]
    departures: Departures,
    #[serde(default)]
    frames: Frames,
}

impl From<OnlyResponse> for LoggedAnswer {
    fn from(found: OnlyResponse) -> Self {
        Self {
            index: found.index,
            answer: Answer {
                reasoning: found.reasoning,
                content: found.text,
                refusal: found.refusal,
                tool_calls: found.tool_calls,
                departures: found.departures,
                answered_by: AnsweredBy::default(),
                frames: found.frames,
            },
            usage: found.usage,
        }
    }
}

/// The requested members of a `request` line; `None` for other lines.
#[derive(Deserialize)]
struct OnlyRequest<T> {
    request: Option<T>,
}

/// A line as JSON, with a line end.
pub(super) fn bytes(line: &impl Serialize) -> Vec<u8> {
    let mut bytes =
        serde_json::to_vec(line).expect("a line holds only strings, numbers and structs of them");
    bytes.push(b'\n');
    bytes
}

impl<'a> RequestLine<'a, &'a Outcome> {
    /// `id` is the id of the case, with its lap.
    pub(super) fn new(
        case: &'a Case,
        id: &'a str,
        numbers: Numbers,
        observation: &'a Observation,
    ) -> Self {
        let answer = &observation.answer;
        Self {
            index: observation.case_index,
            id: id.into(),
            arm: case.arm,
            numbers,
            output_len: case.output_len,
            completion: case.completion.as_deref().map(Cow::from),
            score: case.score,
            item: case.item,
            model: case.model.as_deref().map(Cow::from),
            tags: (&case.tags).into(),
            cancel_after: case.cancel_after,
            turn: case.turn.as_deref().map(Cow::Borrowed),
            outcome: &observation.outcome,
            timing: Gaps::new(&observation.timing),
            finish_reason: observation.finish_reason.as_deref().map(Cow::from),
            usage: observation.usage,
            reasoning: (&answer.reasoning).into(),
            text: (&answer.content).into(),
            refusal: (&answer.refusal).into(),
            tool_calls: (&answer.tool_calls).into(),
            departures: Cow::Borrowed(&answer.departures),
            answered_by: Cow::Borrowed(&answer.answered_by),
            frames: Cow::Borrowed(&answer.frames),
        }
    }
}

impl ReadRequest {
    /// The case without its shared parts, which the caller adds, and the observation.
    pub(super) fn into_parts(self, prompt: Prompt) -> serde_json::Result<(Case, Observation)> {
        // Via a value: buffering in a tagged enum would change numbers.
        let outcome: serde_json::Value = serde_json::from_str(self.outcome.get())?;
        let [reasoning, content, refusal] =
            [self.reasoning, self.text, self.refusal].map(Cow::into_owned);
        let observation = Observation {
            case_index: self.index,
            outcome: serde_json::from_value(outcome)?,
            timing: self.timing.into_timing(),
            answer: Answer {
                reasoning,
                content,
                refusal,
                tool_calls: self.tool_calls.into_owned(),
                departures: self.departures.into_owned(),
                answered_by: self.answered_by.into_owned(),
                frames: self.frames.into_owned(),
            },
            finish_reason: self.finish_reason.map(Cow::into_owned),
            usage: self.usage,
        };
        let case = Case {
            arm: self.arm,
            completion: self.completion.map(Cow::into_owned),
            score: self.score,
            item: self.item,
            tags: self.tags.into_owned(),
            model: self.model.map(Into::into),
            cancel_after: self.cancel_after,
            turn: self.turn.map(|turn| Arc::new(turn.into_owned())),
            ..Case::new(self.id.into_owned(), prompt, None, self.output_len)
        };
        Ok((case, observation))
    }
}

/// Parses a `judged` line.
pub(super) fn judged(raw: &RawValue) -> serde_json::Result<(usize, Judged)> {
    #[derive(Deserialize)]
    struct Numbered {
        index: usize,
    }
    let Numbered { index } = serde_json::from_str(raw.get())?;
    let value: serde_json::Value = serde_json::from_str(raw.get())?;
    Ok((index, serde_json::from_value(value)?))
}

/// Parses only the answer of a `request` line; `None` for other lines.
pub(super) fn answer(line: &[u8]) -> serde_json::Result<Option<LoggedAnswer>> {
    let found = serde_json::from_slice::<OnlyRequest<OnlyResponse>>(line)?.request;
    Ok(found.map(LoggedAnswer::from))
}

/// Parses only the chunks of a `request` line: the request's number, and times and token counts of
/// chunks. `None` for other lines.
pub(super) fn chunks(line: &[u8]) -> serde_json::Result<Option<(usize, ChunksAndTokens)>> {
    #[derive(Deserialize)]
    struct OnlyTiming {
        index: usize,
        timing: Gaps,
    }
    let found = serde_json::from_slice::<OnlyRequest<OnlyTiming>>(line)?.request;
    Ok(found.map(|request| {
        let timing = request.timing.into_timing();
        (request.index, (timing.chunks_ns, timing.chunk_tokens))
    }))
}

impl Gaps {
    fn new(timing: &Timing) -> Self {
        let Timing {
            due_ns,
            ready_ns,
            sent_ns,
            send_call_ns,
            headers_ns,
            first_reasoning_ns,
            first_answer_ns,
            first_arguments_ns,
            end_ns,
            server,
            streamed,
            ..
        } = *timing;
        let chunk_gaps_ns = differences(sent_ns.unwrap_or(0), &timing.chunks_ns);
        let chunk_tokens = differences(0, &timing.chunk_tokens);
        Self {
            due_ns,
            ready_ns,
            sent_ns,
            send_call_ns,
            headers_ns,
            end_ns,
            first_reasoning_ns,
            first_answer_ns,
            first_arguments_ns,
            channels: timing.channels.clone(),
            streamed,
            chunk_gaps_ns,
            arrival_slack_ns: timing.arrival_slack_ns.clone(),
            chunk_tokens,
            server,
        }
    }

    fn into_timing(self) -> Timing {
        let Self {
            due_ns,
            ready_ns,
            sent_ns,
            send_call_ns,
            headers_ns,
            end_ns,
            first_reasoning_ns,
            first_answer_ns,
            first_arguments_ns,
            streamed,
            ..
        } = self;
        let chunks_ns = sums(sent_ns.unwrap_or(0), &self.chunk_gaps_ns);
        let chunk_tokens = sums(0, &self.chunk_tokens);
        Timing {
            due_ns,
            ready_ns,
            sent_ns,
            send_call_ns,
            headers_ns,
            chunks_ns,
            arrival_slack_ns: self.arrival_slack_ns,
            first_reasoning_ns,
            first_answer_ns,
            first_arguments_ns,
            channels: self.channels,
            chunk_tokens,
            end_ns,
            server: self.server,
            streamed,
        }
    }
}

/// Differences between successive numbers, modulo 2^64, so that all values round-trip.
fn differences(from: u64, numbers: &[u64]) -> Vec<i64> {
    let before = std::iter::once(&from).chain(numbers);
    numbers
        .iter()
        .zip(before)
        .map(|(number, before)| number.wrapping_sub(*before).cast_signed())
        .collect()
}

fn sums(from: u64, differences: &[i64]) -> Vec<u64> {
    let next = |sum: &mut u64, step: &i64| {
        *sum = sum.wrapping_add_signed(*step);
        Some(*sum)
    };
    differences.iter().scan(from, next).collect()
}

/// The start of a line, for messages.
pub(super) fn excerpt(line: &[u8]) -> String {
    const SHOWN_BYTES: usize = 60;
    printable(
        String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).trim_end(),
        SHOWN_BYTES,
    )
}
