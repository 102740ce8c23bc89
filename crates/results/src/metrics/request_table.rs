//! A compact table of the requests of a run, some hundred bytes each, so that a million requests
//! fit into memory.
//!
//! Values shared by many requests (input, verdict, outcome) are stored once. Times of chunks are
//! stored as gaps up to a memory limit; beyond it, [`ChunkSource`] reads them from the run log.

mod sample;
mod spelling;

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::{Arc, OnceLock};

use indexmap::IndexSet;

use self::spelling::Spelling;
use super::by_request::ByRequest;
use super::compact_ids::{CompactId, CompactIds};
use super::gap_encoding::{self, EncodedGaps};
use super::reasoning::ReasoningFacts;
use super::stream_parity::Parity;
use super::{Judged, Sample, TokenSource, Tokens};
use sobench_core::answer::AnsweredBy;
use sobench_core::case::{Arm, BodyKey, Case, Prompt};
use sobench_core::channel_timing::ChannelTiming;
use sobench_core::constraint::Constraint;
use sobench_core::departure::Departures;
use sobench_core::observation::{
    CountChecks, CountFault, Observation, Outcome, ServerTimes, Timing, spread_slack,
};
use sobench_core::scorer::Scorer;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::accuracy::{Grade, Leaves};
use sobench_judge::canary::CanaryAnswer;

/// Maximum size of chunk times in memory if they can be read again: some ten million chunks.
const MAX_GAP_BYTES: usize = 32 << 20;

/// Maximum number of distinct verdicts, and of distinct outcomes, that are stored with their
/// messages. Beyond it, messages are dropped; the run log still has them.
const MAX_WITH_MESSAGES: usize = 1 << 16;

/// Replacement of dropped messages.
const DROPPED_MESSAGE: &str = "…";

/// Missing times and numbers.
const NONE_NS: u64 = u64::MAX;
const NONE: u32 = u32::MAX;

/// Times of chunks in nanoseconds since the start, and the cumulative tokens of each chunk if the
/// server counts them.
pub type ChunksAndTokens = (Vec<u64>, Vec<u64>);

/// Reads chunks that are not in memory.
pub trait ChunkSource: fmt::Debug + Send + Sync {
    /// The chunks of request `case_index` with the line at `offset`; `None` if they cannot be read.
    fn chunks(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens>;
}

/// The input of a request, shared by many requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestInput {
    pub prompt: Prompt,
    pub constraint: Option<Arc<Constraint>>,
    pub output_len: u32,
    pub completion: Option<String>,
    pub score: Option<Scorer>,
    pub tags: Vec<String>,
    pub grammar_oracle: Option<Arc<str>>,
    pub model: Option<Arc<str>>,
}

/// The times of a request, with only the first and the last of its chunks; see [`Timing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTimes {
    pub due_ns: u64,
    pub ready_ns: Option<u64>,
    pub sent_ns: Option<u64>,
    pub first_content_ns: Option<u64>,
    pub last_content_ns: Option<u64>,
    pub first_reasoning_ns: Option<u64>,
    pub first_answer_ns: Option<u64>,
    pub first_arguments_ns: Option<u64>,
    pub end_ns: Option<u64>,
    /// Number of chunks with content.
    pub chunks: u64,
    pub streamed: bool,
}

/// By how much chunks can have arrived earlier than recorded, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArrivalSlack {
    /// Of the first and the last chunk, and of the first chunk of the answer.
    pub first_ns: u64,
    pub last_ns: u64,
    pub answer_ns: u64,
    chunks: ChunkSlack,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ChunkSlack {
    /// [`Timing::arrival_slack_ns`].
    Each(Vec<(usize, u64)>),
    /// The largest one, for every chunk.
    Largest(u64),
}

/// Maximum number of chunk entries in memory; further requests have their largest one only.
const MAX_SLACK_ENTRIES: usize = 1 << 20;

impl Default for ChunkSlack {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

impl ArrivalSlack {
    /// Whether no chunk has slack.
    pub fn is_none(&self) -> bool {
        self.chunks == ChunkSlack::default()
    }

    /// Appends it to bytes.
    fn append(&self, bytes: &mut Vec<u8>) {
        let mut put = |number: u64| gap_encoding::put(bytes, number);
        [self.first_ns, self.last_ns, self.answer_ns]
            .into_iter()
            .for_each(&mut put);
        match &self.chunks {
            ChunkSlack::Largest(slack_ns) => {
                put(0);
                put(*slack_ns);
            }
            ChunkSlack::Each(entries) => {
                put(1 + entries.len() as u64);
                for (chunk, slack_ns) in entries {
                    put(*chunk as u64);
                    put(*slack_ns);
                }
            }
        }
    }

    /// Reads it from the start of bytes.
    fn read(mut bytes: &[u8]) -> Self {
        let mut take = || gap_encoding::take(&mut bytes);
        let [first_ns, last_ns, answer_ns] = [take(), take(), take()];
        let chunks = match take() {
            0 => ChunkSlack::Largest(take()),
            more => ChunkSlack::Each((1..more).map(|_| (take() as usize, take())).collect()),
        };
        Self {
            first_ns,
            last_ns,
            answer_ns,
            chunks,
        }
    }

    /// The slack of each chunk.
    pub fn of_chunks(&self, chunks_ns: &[u64]) -> Vec<u64> {
        match &self.chunks {
            ChunkSlack::Each(entries) => spread_slack(entries, chunks_ns),
            ChunkSlack::Largest(slack_ns) => vec![*slack_ns; chunks_ns.len()],
        }
    }
}

/// All requests of a run.
#[derive(Clone, Debug, Default)]
pub struct RequestTable {
    rows: Vec<Row>,
    inputs: Vec<RequestInput>,
    /// A hash of the content of each input.
    input_hashes: Vec<u64>,
    /// Hashes of constraints by address; the inputs keep them alive.
    constraint_hashes: HashMap<usize, u64>,
    known_inputs: HashMap<InputKey, u32>,
    ids: CompactIds,
    outcomes: IndexSet<Outcome>,
    finish_reasons: IndexSet<String>,
    verdicts: IndexSet<Verdict>,
    /// First reasoning and first answer, for requests with reasoning.
    reasoned: ByRequest<(Option<u64>, Option<u64>)>,
    /// First arguments, for requests with tool calls.
    arguments: ByRequest<u64>,
    /// Of the requests whose answers have more than content.
    channels: ByRequest<ChannelTiming>,
    server_times: ByRequest<ServerTimes>,
    /// Of the requests with reasoning or marks of it.
    reasoning: ByRequest<ReasoningFacts>,
    /// Of the requests with JSON answers.
    free_choices: ByRequest<Spelling>,
    /// Of the requests with answers to canaries.
    canaries: ByRequest<CanaryAnswer>,
    /// Of the answers that depart from the API: numbers of `departures`.
    departed: ByRequest<u32>,
    departures: IndexSet<Departures>,
    /// Of the answers that name their model or server: numbers of `answered_by`.
    named: ByRequest<u32>,
    answered_by: IndexSet<AnsweredBy>,
    /// Of the requests whose answers were requested streamed and whole.
    parity: ByRequest<Parity>,
    /// Of the answers that were compared leaf by leaf.
    leaves: ByRequest<Leaves>,
    /// Items of requests, in a run with several arms of each item.
    items: ByRequest<u32>,
    /// Requests of the control arm by their hash: whether an answer has reasoning.
    controls: OnceLock<HashMap<u64, bool>>,
    /// Counts that do not fit into a row.
    odd_tokens: ByRequest<Tokens>,
    texts: HashMap<u32, (String, String)>,
    /// Places in `slack_bytes`, of the requests whose slack is known and not zero.
    slack: ByRequest<u32>,
    slack_bytes: Vec<u8>,
    /// Number of chunk entries in `slack_bytes`.
    slack_entries: usize,
    gaps: Vec<u8>,
    chunk_source: Option<Arc<dyn ChunkSource>>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    due_ns: u64,
    ready_ns: u64,
    sent_ns: u64,
    first_ns: u64,
    last_ns: u64,
    end_ns: u64,
    offset: u64,
    /// Saturated; [`NONE`] if unknown.
    send_call_ns: u32,
    /// Equal for equal requests with equal results.
    copy: u64,
    /// Offset of the gaps; [`NONE`] if they have to be read from the log.
    gaps_at: u32,
    chunks: u32,
    case_index: u32,
    input_number: u32,
    id: CompactId,
    outcome: u32,
    finish_reason: u32,
    verdict: u32,
    input: u32,
    output: u32,
    input_source: TokenSource,
    output_source: TokenSource,
    arm: Arm,
    flags: u32,
}

const STREAMED: u32 = 1;
const IN_ORDER: u32 = 2;
const SCRIPT_SCORES: u32 = 4;
const SCRIPT_CORRECT: u32 = 8;
const WHITE_SPACE_RUN: u32 = 16;
const HAS_CALL: u32 = 32;
const RIGHT_CALL: u32 = 64;
/// The server reported input tokens, or output tokens.
const STATED_INPUT: u32 = 128;
const STATED_OUTPUT: u32 = 256;
const SLACK_KNOWN: u32 = 512;
const WHOLE: u32 = 1024;
const CALLS_KNOWN: u32 = 2048;
const MADE_CALL: u32 = 4096;
const DUE_KNOWN: u32 = 8192;
const CALL_DUE: u32 = 16384;
/// The grade of the answer: its place in [`Grade::ALL`] plus 1, or 0 without one.
const GRADE: u32 = 7 << GRADE_SHIFT;
const GRADE_SHIFT: u32 = 15;
/// The token counts of the server have the first [`CountFault`]; the next flags are of the others.
const COUNT_FAULT: u32 = 1 << 18;
const COUNT_FAULTS: u32 = ((1 << CountFault::ALL.len()) - 1) << 18;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InputKey {
    body: BodyKey,
    oracle: usize,
    completion: Option<String>,
    score: Option<Scorer>,
    tags: Vec<String>,
}

fn hash(value: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// A hash of a constraint by content.
pub fn constraint_hash(constraint: &Constraint) -> u64 {
    hash(&constraint.fingerprint())
}

/// A hash of what is sent and judged, by content. `constraint` is the hash of the case's constraint
/// ([`constraint_hash`]).
pub fn content_hash(case: &Case, constraint: Option<u64>) -> u64 {
    let rest = (constraint, case.output_len, &case.model);
    match &case.prompt {
        Prompt::Text(text) => hash(&(text, rest)),
        Prompt::Messages(messages) => {
            let messages: Vec<_> = messages
                .iter()
                .map(|message| (&message.role, &message.content, &message.other))
                .collect();
            hash(&(messages, rest))
        }
        Prompt::Audio(clip) => hash(&(Arc::as_ptr(clip) as usize, rest)),
        Prompt::Ranking { query, documents } => hash(&(query, documents, rest)),
    }
}

/// A hash that is equal for copies: the same request with the same answer, or refused in the same
/// way. Each failure is a case of its own, because its cause is not in the request. `content` is the
/// hash of the request ([`content_hash`]).
pub fn copy_hash(content: u64, arm: Arm, observation: &Observation) -> u64 {
    let request = (content, arm);
    if has_copies(&observation.outcome) {
        let answer = &observation.answer;
        let names = answer.tool_calls.iter().map(|call| &call.name);
        hash(&(
            request,
            &observation.outcome,
            &*answer.text(),
            names.collect::<Vec<_>>(),
        ))
    } else {
        hash(&(request, observation.case_index))
    }
}

/// Whether equal requests with this outcome are copies of each other. Their [`copy_hash`] does not
/// depend on the number of the request.
pub fn has_copies(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Completed
        | Outcome::Truncated
        | Outcome::Rejected { .. }
        | Outcome::Refused { .. }
        | Outcome::Unsupported { .. } => true,
        Outcome::ServerError { .. }
        | Outcome::StreamError { .. }
        | Outcome::Transport { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Cancelled
        | Outcome::Abandoned => false,
    }
}

/// The number of a value among distinct ones.
fn number<T: Eq + Hash>(values: &mut IndexSet<T>, value: T) -> u32 {
    values.insert_full(value).0 as u32
}

impl RequestTable {
    /// An empty table with capacity for `requests`. Chunks beyond the memory limit are read from
    /// `chunk_source`; without it, all are kept in memory.
    pub fn new(requests: usize, chunk_source: Option<Arc<dyn ChunkSource>>) -> Self {
        Self {
            rows: Vec::with_capacity(requests),
            chunk_source,
            ..Self::default()
        }
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a request, with its texts if they are not empty. `offset` is the offset of its line.
    /// Returns false if its number does not fit into 32 bits.
    pub fn push(&mut self, case: &Case, observation: &Observation, offset: u64) -> bool {
        let is_added = self.push_without_text(case, observation, offset);
        let (answer, case_index) = (&observation.answer, observation.case_index as u32);
        let text = answer.text();
        if is_added && !(text.is_empty() && answer.reasoning.is_empty()) {
            self.texts
                .insert(case_index, (text.into_owned(), answer.reasoning.clone()));
        }
        is_added
    }

    /// As [`RequestTable::push`], for a case that stands for many: `copy` is the hash of the request
    /// itself with its result ([`copy_hash`]).
    pub fn push_as(&mut self, case: &Case, observation: &Observation, copy: u64) -> bool {
        let is_added = self.push(case, observation, 0);
        if let Some(row) = self.rows.last_mut().filter(|_| is_added) {
            row.copy = copy;
        }
        is_added
    }

    /// As [`RequestTable::push`], without keeping texts.
    pub fn push_without_text(
        &mut self,
        case: &Case,
        observation: &Observation,
        offset: u64,
    ) -> bool {
        let Some(case_index) = u32::try_from(observation.case_index)
            .ok()
            .filter(|index| *index != NONE)
        else {
            return false;
        };
        let timing = &observation.timing;
        if timing.first_reasoning_ns.is_some() {
            self.reasoned.insert(
                case_index,
                (timing.first_reasoning_ns, timing.first_answer_ns),
            );
        }
        if let Some(at_ns) = timing.first_arguments_ns {
            self.arguments.insert(case_index, at_ns);
        }
        if let Some(item) = case.item {
            self.items.insert(case_index, item);
        }
        if let Some(times) = timing.server {
            self.server_times.insert(case_index, times);
        }
        if let Some(channels) = &timing.channels {
            self.channels.insert(case_index, channels.clone());
        }
        let tools = case
            .constraint
            .as_deref()
            .and_then(|constraint| constraint.tools());
        let mut departures = Departures::of_answer(observation, tools);
        if !departures.is_empty() {
            if self.departures.len() >= MAX_WITH_MESSAGES {
                departures.drop_examples();
            }
            let number = number(&mut self.departures, departures);
            self.departed.insert(case_index, number);
        }
        let answered_by = &observation.answer.answered_by;
        if observation.outcome.is_answer() && !answered_by.is_empty() {
            let known = self.answered_by.get_index_of(answered_by);
            let number =
                known.unwrap_or_else(|| self.answered_by.insert_full(answered_by.clone()).0);
            self.named.insert(case_index, number as u32);
        }
        self.keep_slack(case_index, timing);
        let input_number = self.input_number(case);
        let chunks = timing.chunks_ns.len();
        let [stated_input, stated_output] = observation
            .usage
            .map_or([false; 2], |usage| usage.is_stated(chunks));
        let checks = CountChecks::new(&case.prompt, &observation.answer, chunks);
        let faults = CountFault::ALL.map(|fault| {
            let usage = observation.usage;
            usage.is_some_and(|usage| usage.has_fault(fault, checks))
        });
        let faults = (0..).zip(faults).filter(|(_, is_set)| *is_set);
        let time = |ns: Option<u64>| ns.unwrap_or(NONE_NS);
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let row = Row {
            due_ns: timing.due_ns,
            ready_ns: time(timing.ready_ns),
            sent_ns: time(timing.sent_ns),
            first_ns: time(timing.first_content_ns()),
            last_ns: time(timing.last_content_ns()),
            end_ns: time(timing.end_ns),
            offset,
            send_call_ns: timing
                .send_call_ns
                .map_or(NONE, |ns| u32::try_from(ns).unwrap_or(NONE - 1)),
            copy: copy_hash(
                self.input_hashes[input_number as usize],
                case.arm,
                observation,
            ),
            gaps_at: self.keep_gaps(timing),
            chunks: u32::try_from(timing.chunks_ns.len()).unwrap_or(NONE),
            case_index,
            input_number,
            id: self.ids.add(&case.id),
            outcome: self.outcome(&observation.outcome),
            finish_reason: observation.finish_reason.as_ref().map_or(NONE, |reason| {
                number(&mut self.finish_reasons, reason.clone())
            }),
            verdict: NONE,
            input: NONE,
            output: NONE,
            input_source: TokenSource::Unknown,
            output_source: TokenSource::Unknown,
            arm: case.arm,
            flags: flag(timing.streamed, STREAMED)
                | flag(timing.is_in_order(), IN_ORDER)
                | flag(timing.arrival_slack_ns.is_some(), SLACK_KNOWN)
                | flag(stated_input, STATED_INPUT)
                | flag(stated_output, STATED_OUTPUT)
                | faults.map(|(place, _)| COUNT_FAULT << place).sum::<u32>(),
        };
        self.rows.push(row);
        self.controls.take();
        true
    }

    /// Sorts the requests into plan order.
    ///
    /// # Errors
    /// The duplicate number, if two requests have the same.
    pub fn sort(&mut self) -> Result<(), usize> {
        self.rows.sort_unstable_by_key(|row| row.case_index);
        let duplicate = self
            .rows
            .windows(2)
            .find(|pair| pair[0].case_index == pair[1].case_index);
        duplicate.map_or(Ok(()), |pair| Err(pair[0].case_index as usize))
    }

    /// The index of a request by its number in the plan. The table has to be sorted.
    pub fn position(&self, case_index: usize) -> Option<usize> {
        self.rows
            .binary_search_by_key(&case_index, |row| row.case_index as usize)
            .ok()
    }

    /// Sets the verdict and counts of the request at an index.
    pub fn judge(&mut self, index: usize, judged: Judged) {
        let number = self.verdict(judged.verdict);
        let row = &mut self.rows[index];
        row.verdict = number;
        let Tokens {
            input,
            input_source,
            output,
            output_source,
        } = judged.tokens;
        let fits = |count: Option<u64>| {
            count.map_or(Some(NONE), |count| {
                u32::try_from(count).ok().filter(|count| *count != NONE)
            })
        };
        match (fits(input), fits(output)) {
            (Some(input), Some(output)) => (row.input, row.output) = (input, output),
            _ => {
                self.odd_tokens.insert(row.case_index, judged.tokens);
            }
        }
        (row.input_source, row.output_source) = (input_source, output_source);
        row.flags &=
            STREAMED | IN_ORDER | SLACK_KNOWN | STATED_INPUT | STATED_OUTPUT | COUNT_FAULTS;
        row.flags |= judged.vllm_correct.map_or(0, |correct| {
            SCRIPT_SCORES | if correct { SCRIPT_CORRECT } else { 0 }
        });
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        row.flags |= flag(judged.white_space_run, WHITE_SPACE_RUN) | flag(judged.whole, WHOLE);
        row.flags |= judged
            .right_call
            .map_or(0, |right| HAS_CALL | flag(right, RIGHT_CALL));
        row.flags |= judged
            .made_call
            .map_or(0, |made| CALLS_KNOWN | flag(made, MADE_CALL));
        row.flags |= judged
            .call_due
            .map_or(0, |due| DUE_KNOWN | flag(due, CALL_DUE));
        let grade = judged.accuracy.as_ref().and_then(|accuracy| {
            let place = Grade::ALL.iter().position(|grade| *grade == accuracy.grade);
            Some(place? as u32 + 1)
        });
        row.flags |= grade.unwrap_or_default() << GRADE_SHIFT;
        let case_index = row.case_index;
        if let Some(leaves) = judged.accuracy.and_then(|accuracy| accuracy.leaves) {
            self.leaves.insert(case_index, leaves);
        }
        if let Some(facts) = judged.reasoning {
            self.reasoning.insert(case_index, facts);
        }
        if let Some(choices) = judged.free_choices {
            self.free_choices.insert(case_index, choices.into());
        }
        if let Some(answer) = judged.canary {
            self.canaries.insert(case_index, answer);
        }
        if let Some(parity) = judged.parity {
            self.set_parity(case_index as usize, parity);
        }
    }

    /// Sets whether the streamed answer to a request of the plan equals the whole one.
    pub fn set_parity(&mut self, case_index: usize, parity: Parity) {
        if let Ok(case_index) = u32::try_from(case_index) {
            self.parity.insert(case_index, parity);
        }
    }

    /// Whether an answer to this request in the control arm has reasoning; `None` without one.
    fn control_has_reasoning(&self, request_hash: u64) -> Option<bool> {
        let controls = self.controls.get_or_init(|| {
            let mut controls: HashMap<u64, bool> = HashMap::new();
            let is_control =
                |sample: &Sample<'_>| sample.arm() == Arm::Control && sample.outcome().is_answer();
            for sample in self.iter().filter(is_control) {
                *controls.entry(sample.request_hash()).or_default() |= sample.has_reasoning();
            }
            controls
        });
        controls.get(&request_hash).copied()
    }

    /// The request at an index.
    pub fn get(&self, index: usize) -> Option<Sample<'_>> {
        self.rows.get(index).map(|row| Sample { ledger: self, row })
    }

    /// Every request in order.
    pub fn iter(&self) -> impl Iterator<Item = Sample<'_>> {
        self.rows.iter().map(|row| Sample { ledger: self, row })
    }

    /// Every request in order.
    pub fn samples(&self) -> Vec<Sample<'_>> {
        self.iter().collect()
    }

    fn input_number(&mut self, case: &Case) -> u32 {
        let oracle = case
            .grammar_oracle
            .as_ref()
            .map_or(0, |oracle| oracle.as_ptr() as usize);
        let key = InputKey {
            body: Case::body_key(case),
            oracle,
            completion: case.completion.clone(),
            score: case.score,
            tags: case.tags.clone(),
        };
        if let Some(number) = self.known_inputs.get(&key) {
            return *number;
        }
        let number = self.inputs.len() as u32;
        self.inputs.push(RequestInput {
            prompt: case.prompt.clone(),
            constraint: case.constraint.clone(),
            output_len: case.output_len,
            completion: case.completion.clone(),
            score: case.score,
            tags: case.tags.clone(),
            grammar_oracle: case.grammar_oracle.clone(),
            model: case.model.clone(),
        });
        let hash = self.input_hash(case);
        self.input_hashes.push(hash);
        self.known_inputs.insert(key, number);
        number
    }

    /// The hash of the content of a case; that of each constraint is computed once.
    fn input_hash(&mut self, case: &Case) -> u64 {
        let constraint = case.constraint.as_ref().map(|constraint| {
            *self
                .constraint_hashes
                .entry(Arc::as_ptr(constraint) as usize)
                .or_insert_with(|| constraint_hash(constraint))
        });
        content_hash(case, constraint)
    }

    fn outcome(&mut self, outcome: &Outcome) -> u32 {
        let mut outcome = outcome.clone();
        if self.outcomes.len() >= MAX_WITH_MESSAGES
            && let Outcome::Rejected { body: message, .. }
            | Outcome::ServerError { body: message, .. }
            | Outcome::StreamError { message }
            | Outcome::Transport { message, .. }
            | Outcome::Refused { message }
            | Outcome::Unsupported { what: message } = &mut outcome
        {
            DROPPED_MESSAGE.clone_into(message);
        }
        number(&mut self.outcomes, outcome)
    }

    fn verdict(&mut self, mut verdict: Verdict) -> u32 {
        if self.verdicts.len() >= MAX_WITH_MESSAGES
            && let Verdict::Invalid {
                reason: Reason::NotJson { message, .. } | Reason::Schema { message, .. },
            }
            | Verdict::NotScored {
                why: NotScored::Limit { what: message } | NotScored::Unsupported { what: message },
            } = &mut verdict
        {
            DROPPED_MESSAGE.clone_into(message);
        }
        number(&mut self.verdicts, verdict)
    }

    fn keep_slack(&mut self, case_index: u32, timing: &Timing) {
        let Some(entries) = timing
            .arrival_slack_ns
            .as_ref()
            .filter(|all| !all.is_empty())
        else {
            return;
        };
        let each = spread_slack(entries, &timing.chunks_ns);
        let answer = timing
            .chunks_ns
            .iter()
            .position(|at_ns| Some(*at_ns) == timing.first_answer_ns);
        let largest = each.iter().copied().max().unwrap_or_default();
        let slack = ArrivalSlack {
            first_ns: each.first().copied().unwrap_or_default(),
            last_ns: each.last().copied().unwrap_or_default(),
            answer_ns: answer.map_or(largest, |chunk| each[chunk]),
            chunks: if self.slack_entries < MAX_SLACK_ENTRIES {
                ChunkSlack::Each(entries.clone())
            } else {
                ChunkSlack::Largest(largest)
            },
        };
        self.slack_entries += entries.len();
        // A place above 4 GiB would need a hundred million requests.
        let at = u32::try_from(self.slack_bytes.len()).unwrap_or(NONE);
        slack.append(&mut self.slack_bytes);
        self.slack.insert(case_index, at);
    }

    fn keep_gaps(&mut self, timing: &Timing) -> u32 {
        if self.chunk_source.is_some() && self.gaps.len() >= MAX_GAP_BYTES {
            return NONE;
        }
        let at = u32::try_from(self.gaps.len()).unwrap_or(NONE);
        if at != NONE {
            gap_encoding::append(&mut self.gaps, timing);
        }
        at
    }

    fn chunks(&self, row: &Row) -> ChunksAndTokens {
        if row.chunks == 0 {
            return (Vec::new(), Vec::new());
        }
        let from_ns = if row.sent_ns == NONE_NS {
            0
        } else {
            row.sent_ns
        };
        if row.gaps_at != NONE {
            let kept = EncodedGaps {
                bytes: &self.gaps[row.gaps_at as usize..],
                from_ns,
                chunks: row.chunks as usize,
            };
            return kept.read();
        }
        self.chunk_source
            .as_ref()
            .and_then(|source| source.chunks(row.case_index as usize, row.offset))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{TestRequest, test_request};

    #[derive(Debug)]
    struct TestSource;

    impl ChunkSource for TestSource {
        fn chunks(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens> {
            Some((vec![case_index as u64, offset], vec![]))
        }
    }

    fn parts(index: usize) -> (Case, Observation) {
        let (case, observation, _) = test_request().parts(index);
        (case, observation)
    }

    #[test]
    fn requests_are_sorted_and_ids_round_trip() {
        let mut ledger = RequestTable::default();
        let ids = [
            (12, "json-12"),
            (3, "json-3#2"),
            (7, "7"),
            (0, "json-"),
            (9, "json-09"),
            (10, "json-0"),
            (11, "json-4294967295"),
            (13, "json-99999999999"),
        ];
        for (index, id) in ids {
            let (case, observation) = parts(index);
            assert!(ledger.push(
                &Case {
                    id: id.into(),
                    ..case
                },
                &observation,
                0
            ));
        }
        assert_eq!(ledger.sort(), Ok(()));
        let found: Vec<(usize, String)> = ledger
            .iter()
            .map(|sample| (sample.case_index(), sample.id()))
            .collect();
        assert_eq!(
            found,
            [
                (0, "json-".into()),
                (3, "json-3#2".into()),
                (7, "7".into()),
                (9, "json-09".into()),
                (10, "json-0".into()),
                (11, "json-4294967295".into()),
                (12, "json-12".into()),
                (13, "json-99999999999".into()),
            ]
        );
        assert_eq!((ledger.position(7), ledger.position(8)), (Some(2), None));
        let (case, observation) = parts(3);
        ledger.push(&case, &observation, 0);
        assert_eq!(ledger.sort(), Err(3));
        let far = Observation {
            case_index: usize::MAX,
            ..observation
        };
        assert!(!ledger.push(&case, &far, 0));
    }

    #[test]
    fn shared_values_are_stored_once() {
        let mut ledger = RequestTable::default();
        let (case, observation) = parts(0);
        for index in 0..100 {
            let outcome = Outcome::Rejected {
                status: 400,
                body: format!("no {}", index % 3),
                advice: None,
            };
            ledger.push(
                &case,
                &Observation {
                    case_index: index,
                    outcome,
                    ..observation.clone()
                },
                0,
            );
        }
        assert_eq!(
            (ledger.inputs.len(), ledger.outcomes.len(), ledger.len()),
            (1, 3, 100)
        );
        assert!(size_of::<Row>() <= 120, "{}", size_of::<Row>());
    }

    #[test]
    fn messages_are_dropped_above_the_limit() {
        let mut ledger = RequestTable::default();
        let (case, observation) = parts(0);
        for index in 0..MAX_WITH_MESSAGES + 2 {
            ledger.push(
                &case,
                &Observation {
                    case_index: index,
                    ..observation.clone()
                },
                0,
            );
            let message = format!("odd {index}");
            let verdict = Verdict::Invalid {
                reason: Reason::NotJson { message, byte: 1 },
            };
            ledger.judge(
                index,
                Judged {
                    verdict,
                    tokens: Tokens::default(),
                    vllm_correct: None,
                    white_space_run: false,
                    whole: false,
                    right_call: None,
                    accuracy: None,
                    made_call: None,
                    call_due: None,
                    reasoning: None,
                    parity: None,
                    free_choices: None,
                    canary: None,
                },
            );
        }
        let verdict = |index: usize| format!("{:?}", ledger.get(index).unwrap().verdict());
        assert!(
            verdict(5).contains("odd 5")
                && verdict(MAX_WITH_MESSAGES + 1).contains(DROPPED_MESSAGE),
            "{}",
            verdict(MAX_WITH_MESSAGES + 1)
        );
        assert_eq!(ledger.verdicts.len(), MAX_WITH_MESSAGES + 1);
    }

    #[test]
    fn token_counts_of_any_size_round_trip() {
        let mut ledger = RequestTable::default();
        for (index, input) in [None, Some(0), Some(u64::from(u32::MAX)), Some(u64::MAX)]
            .into_iter()
            .enumerate()
        {
            let (case, observation) = parts(index);
            ledger.push(&case, &observation, 0);
            let tokens = Tokens {
                input,
                output: Some(4),
                ..Tokens::default()
            };
            ledger.judge(
                index,
                Judged {
                    verdict: Verdict::Valid,
                    tokens,
                    vllm_correct: Some(false),
                    white_space_run: true,
                    whole: false,
                    right_call: Some(true),
                    accuracy: None,
                    made_call: Some(true),
                    call_due: Some(false),
                    reasoning: None,
                    parity: Some(Parity::Equal),
                    free_choices: None,
                    canary: None,
                },
            );
            let found = ledger.get(index).unwrap().judged();
            let judged = (
                found.tokens,
                found.vllm_correct,
                found.white_space_run,
                found.right_call,
                found.parity,
            );
            let expected = (tokens, Some(false), true, Some(true), Some(Parity::Equal));
            assert_eq!(judged, expected);
        }
    }

    #[test]
    fn chunk_times_above_the_limit_are_read_from_the_source() {
        let mut ledger = RequestTable::new(2, Some(Arc::new(TestSource)));
        let (case, observation) = parts(0);
        ledger.push(&case, &observation, 40);
        ledger.gaps.resize(MAX_GAP_BYTES, 0);
        ledger.push(
            &case,
            &Observation {
                case_index: 1,
                ..observation.clone()
            },
            41,
        );
        let found: Vec<Vec<u64>> = ledger.iter().map(|sample| sample.chunks_ns()).collect();
        assert_eq!(found, [observation.timing.chunks_ns, vec![1, 41]]);
    }

    #[test]
    fn request_without_an_answer_has_no_chunks() {
        let mut ledger = RequestTable::default();
        let (case, observation, _) = TestRequest {
            chunks: vec![],
            sent: None,
            ready: None,
            end: None,
            ..test_request()
        }
        .parts(0);
        ledger.push(&case, &observation, 0);
        let found = ledger.get(0).unwrap();
        assert_eq!(
            (
                found.request_times().first_content_ns,
                found.request_times().sent_ns,
                found.chunks_ns()
            ),
            (None, None, vec![])
        );
        assert_eq!(
            (found.is_judged(), found.verdict()),
            (
                false,
                &Verdict::NotScored {
                    why: NotScored::Cancelled
                }
            )
        );
    }
}
