//! Notices that result from the figures of a run.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::enforcement::{Enforcement, State};
use sobench_core::printable::{NAME_CHARS, printable};

use super::list;

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FigureNotice {
    #[error(
        "ITL median and percentiles of {gaps} gaps are accurate to {within_percent} %; means are exact"
    )]
    RoundedItl { gaps: usize, within_percent: f64 },
    #[error(
        "the server restarted during the run, {times} {} by its counters; what it counted between the last reading of its metrics page and \
         a restart is lost",
        if *.times == 1 { "time" } else { "times" }
    )]
    ServerRestarted { times: usize },
    #[error(
        "the server's memory grows by {mib:.3} MiB for each distinct constraint (99 % interval {low_mib:.3} to {high_mib:.3}) up to the end \
         of the run: its cache of constraints gives nothing back, or its limit is above {constraints} constraints"
    )]
    ServerMemoryGrows {
        mib: f64,
        low_mib: f64,
        high_mib: f64,
        constraints: usize,
    },
    #[error("server outages {} of the run{}; rates and throughput include them", list(.spans), further(*.more))]
    Outages { spans: Vec<OutageSpan>, more: usize },
    #[error(
        "constrained requests that could not be judged and are not in the correct rate: {requests}"
    )]
    NotJudged { requests: usize },
    #[error(
        "answers without an output token count (no usage and no tokenizer), so that the total is unknown: {answers}"
    )]
    OutputTokensUnknown { answers: usize },
    #[error("answers without content, which have no latency: {answers}")]
    EmptyAnswers { answers: usize },
    #[error("answers with several tokens in a single chunk, which have no TPOT: {answers}")]
    SingleChunkAnswers { answers: usize },
    #[error(
        "answers with more tokens than chunks, for which ITL is the gap between chunks, not between tokens: {answers}"
    )]
    MultiTokenChunks { answers: usize },
    #[error(
        "answers that were not streamed although a stream was requested, which have no TTFT, TPOT or ITL: {answers}"
    )]
    UnstreamedAnswers { answers: usize },
    #[error("requests not sent because the run was stopped: {requests}")]
    UnsentRequests { requests: usize },
    #[error(
        "answers with an implausible token count from the server (not an integer, above the token limit, fewer than half of the content \
         chunks, of several choices, 0 for a prompt, or far off the count of --tokenizer); these counts are ignored, and the tokenizer counts instead if there is one: {answers}"
    )]
    ImplausibleUsage { answers: usize },
    #[error(
        "the server ignored the token limit {field}: {answers} answers have more tokens than their request allows (the longest has {tokens}, \
         its limit is {limit}); their times and the throughput are those of longer answers, and such an answer is not cut"
    )]
    TokenLimitIgnored {
        field: String,
        answers: usize,
        tokens: u64,
        limit: u32,
    },
    #[error("answers are computed in one piece: there are no output tokens, TTFT, TPOT or ITL")]
    ComputedAnswers,
    #[error("answers were not streamed: there are no TTFT, TPOT or ITL")]
    NotStreamed,
    #[error(
        "goodput counts answers of all arms with {}; valid goodput counts the valid ones among them",
        objectives(*.ttft_ms, *.tpot_ms, *.e2el_ms, *.valid)
    )]
    Goodput {
        ttft_ms: Option<f64>,
        tpot_ms: Option<f64>,
        e2el_ms: Option<f64>,
        valid: bool,
    },
    #[error(
        "requests rejected with status 429: {requests}; {}sobench does not retry, because retries change the load; lower --request-rate or \
         --max-concurrency",
        pauses(*.longest_pause_s, *.pauses_named)
    )]
    Throttled {
        requests: usize,
        longest_pause_s: Option<u64>,
        pauses_named: usize,
    },
    #[error(
        "requests not sent, because this machine had no connection for them, and in no rate: {requests}; {why}"
    )]
    NoConnection { requests: usize, why: String },
    #[error(
        "the constraint has no visible effect: {broken} of {answers} complete answers break it, {control_broken} of {controls} without \
         it{}",
        if *.seen_enforced { "" } else { "; a server may accept the field and ignore it" }
    )]
    NoEffect {
        /// Of answers that ended normally, as the controls.
        broken: usize,
        answers: usize,
        control_broken: usize,
        controls: usize,
        seen_enforced: bool,
    },
    #[error(
        "the first constrained request of this run was {request}: a vLLM server in `auto` without an earlier constrained request keeps its \
         engine, {} by vLLM's rule ({why})",
        .engine
    )]
    EngineFixedByRun {
        request: String,
        engine: String,
        why: String,
    },
    #[error(
        "{broken} of {answers} constrained answers that ended normally violate their constraint{}: {}",
        if *.seen_enforced { ", although preflight showed that the server enforces such constraints" } else { "" },
        list(.reasons)
    )]
    BrokenConstraints {
        broken: usize,
        answers: usize,
        seen_enforced: bool,
        reasons: Vec<BreachCount>,
    },
    #[error("{}", lost(.explanations))]
    ConstraintsLost {
        /// The best one, and those that are not clearly worse.
        explanations: Vec<LossSplit>,
    },
    #[error(
        "the chat template may leave out the tools: {requests} prompts with tools have {input_tokens} tokens by the server's count, and \
         their tools alone have {tool_bytes} bytes (means); calls that are missing are then no fault of the model"
    )]
    PromptsWithoutTools {
        requests: usize,
        input_tokens: u64,
        tool_bytes: u64,
    },
    #[error(
        "all {controls} answers of the control arm were cut at the token limit, so that none could be valid: its correct rate says \
         nothing; set a higher --output-len"
    )]
    ControlsCut { controls: usize },
    #[error(
        "latency is not steady over the run ({}): intervals and percentiles assume a steady state, and are too narrow here",
        list(.changes)
    )]
    Drift { changes: Vec<LatencyChange> },
    #[error(
        "latency has two modes, so that mean and median describe few answers ({})",
        list(.latencies)
    )]
    TwoModes { latencies: Vec<LatencyModes> },
    #[error("{change}")]
    ServerNameChanged { change: NameChange },
    #[error(
        "chunks arrive in bursts: {together_percent:.1} % of them together with the one before, the others {interval_ms:.1} ms apart \
         (median), so that ITL is not the time between tokens"
    )]
    Bursts {
        together_percent: f64,
        interval_ms: f64,
    },
    #[error(
        "endless white space: {answers} of {truncated} answers cut at the token limit end in white space only; disable white space between \
         JSON tokens on the server"
    )]
    WhiteSpaceAnswers { answers: usize, truncated: usize },
    #[error(
        "the server buffers tool calls: arguments of {buffered} of {answers} long answers came in the last {window_ms} ms, after \
         {silence_s:.1} s of silence (median){}",
        of_controls(*.control_buffered, *.controls)
    )]
    BufferedCalls {
        buffered: usize,
        answers: usize,
        window_ms: u64,
        silence_s: f64,
        control_buffered: usize,
        /// Long answers with tool calls in the control arm.
        controls: usize,
    },
}

fn of_controls(buffered: usize, controls: usize) -> String {
    match controls {
        0 => String::new(),
        _ => format!("; in the control arm, those of {buffered} of {controls}"),
    }
}

impl FigureNotice {
    /// The request that fixed the engine of a vLLM server in `auto`, if there is one. A server that
    /// does not apply the constraint has not chosen an engine for it.
    pub fn engine_fixed(enforcement: &Enforcement) -> Option<Self> {
        let first = enforcement
            .first_constrained
            .as_ref()
            .filter(|_| enforcement.state == State::Enforced)?;
        Some(Self::EngineFixedByRun {
            request: printable(&first.case_id, NAME_CHARS),
            engine: first.engine.clone()?,
            why: printable(&first.why, NAME_CHARS),
        })
    }
}

/// A period without answers, relative to the start of the run; open if it lasted to the end.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error("from {from_s:.1} s {} ({requests} requests)", until(*.to_s))]
pub struct OutageSpan {
    pub from_s: f64,
    pub to_s: Option<f64>,
    pub requests: usize,
}

/// Answers that violate their constraint for one reason.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error("{answers} {reason} (first in {first_request})")]
pub struct BreachCount {
    pub reason: String,
    pub answers: usize,
    pub first_request: String,
}

/// Valid answers of a part of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ValidAnswers {
    pub valid: usize,
    pub answers: usize,
}

/// A number of requests that a loss of validity may go with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossVariable {
    Tools,
    PromptBytes,
    /// When the request was sent, itself included.
    InFlight,
    /// When the answer started.
    InFlightAtStart,
    /// Seconds without a request in flight before it.
    IdleS,
    /// The order of sending.
    Time,
}

impl LossVariable {
    /// Every one; of equal explanations, the first is named first.
    pub const ALL: [Self; 6] = [
        Self::Tools,
        Self::PromptBytes,
        Self::InFlight,
        Self::InFlightAtStart,
        Self::IdleS,
        Self::Time,
    ];
}

/// Validity up to a value of a variable, and above it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LossSplit {
    pub by: LossVariable,
    /// The largest value before the split, and the smallest one after it.
    pub up_to: f64,
    pub from: f64,
    /// The first request after a split by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    pub before: ValidAnswers,
    pub after: ValidAnswers,
}

/// The requests after the split, to follow a verb.
impl fmt::Display for LossSplit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { up_to, from, .. } = self;
        match self.by {
            LossVariable::Tools => write!(f, "with more than {up_to} tools"),
            LossVariable::PromptBytes => write!(f, "with prompts above {up_to} bytes"),
            LossVariable::InFlight => write!(f, "above {up_to} requests in flight"),
            LossVariable::InFlightAtStart => {
                write!(f, "above {up_to} requests in flight when the answer starts")
            }
            LossVariable::IdleS => write!(f, "after {from:.1} s or more without a request"),
            LossVariable::Time => {
                write!(
                    f,
                    "from request {} on",
                    self.request.as_deref().unwrap_or("?")
                )
            }
        }
    }
}

/// A latency at the start and at the end of a run, or before and after a step.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error("{latency} from {from_ms:.1} to {to_ms:.1} ms{}", of_request(.step_at.as_deref()))]
pub struct LatencyChange {
    pub latency: String,
    pub from_ms: f64,
    pub to_ms: f64,
    /// The first request after a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_at: Option<String>,
}

fn of_request(step_at: Option<&str>) -> String {
    step_at.map_or_else(String::new, |request| format!(" at request {request}"))
}

/// What answers name: their model or their server.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    #[error("model")]
    Model,
    #[error("system_fingerprint")]
    SystemFingerprint,
}

/// Answers with one name.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error("{name} ({answers})")]
pub struct NameCount {
    pub name: String,
    pub answers: usize,
}

/// Answers with several names.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct NameChange {
    pub of: NameKind,
    /// The first request, by the time of sending, whose answer has the second name.
    pub request: String,
    /// In the order of sending; the first of them.
    pub names: Vec<NameCount>,
    /// Names that are not listed.
    pub others: usize,
    /// Whether names change more than once.
    pub is_mixed: bool,
    pub answers: usize,
}

impl fmt::Display for NameChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            of,
            request,
            names,
            answers,
            ..
        } = self;
        write!(f, "the server's {of} ")?;
        if let ([from, to], false) = (&names[..], self.is_mixed) {
            let (
                from,
                NameCount {
                    name,
                    answers: changed,
                },
            ) = (&from.name, to);
            return write!(
                f,
                "changed at request {request}: from {from} to {name} ({changed} of {answers} answers)"
            );
        }
        let (count, listed) = (names.len() + self.others, list(names));
        write!(
            f,
            "is not always the same: answers come from {count} of them, the second from request {request} on: {listed}"
        )?;
        match self.others {
            0 => Ok(()),
            others => write!(f, " and {others} others"),
        }
    }
}

/// A latency with two modes: their medians, and the share of the lower one.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error(
    "{latency}: {low_percent:.0} % of {answers} answers near {low_ms:.1} ms, the others near {high_ms:.1} ms"
)]
pub struct LatencyModes {
    pub latency: String,
    pub answers: usize,
    pub low_percent: f64,
    pub low_ms: f64,
    pub high_ms: f64,
}

impl ValidAnswers {
    /// Such as "all 3", "none of the 5" or "2 of 4".
    fn count(self) -> String {
        match self {
            Self { valid, answers } if valid == answers => format!("all {answers}"),
            Self { valid: 0, answers } => format!("none of the {answers}"),
            Self { valid, answers } => format!("{valid} of {answers}"),
        }
    }

    /// How constraints held in the later or higher part.
    fn enforced(self) -> &'static str {
        if self.valid == 0 {
            "were no longer enforced"
        } else {
            "were enforced less often"
        }
    }
}

fn lost(explanations: &[LossSplit]) -> String {
    let Some((best, others)) = explanations.split_first() else {
        return "constraints were no longer enforced".to_owned();
    };
    let (before, after) = match best.by {
        LossVariable::Time => ("sent before it", "from it on"),
        LossVariable::IdleS => ("to the other requests", "after such a time"),
        _ => ("up to there", "above"),
    };
    let mut sentence = format!(
        "constraints {} {best}: {} answers {before} are valid, {} {after}",
        best.after.enforced(),
        best.before.count(),
        best.after.count()
    );
    if !others.is_empty() {
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        sentence.push_str(&format!(
            "; as likely by this run: {}",
            others.join(", or ")
        ));
        let cap = explanations
            .iter()
            .find(|split| split.by == LossVariable::InFlight);
        if let Some(LossSplit { up_to, .. }) = cap {
            sentence.push_str(&format!(
                "; runs with --max-concurrency {up_to} and above show which"
            ));
        }
    }
    sentence
}

fn until(to_s: Option<f64>) -> String {
    to_s.map_or_else(|| "to the end".to_owned(), |to_s| format!("to {to_s:.1} s"))
}

fn further(more: usize) -> String {
    if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    }
}

/// The limits of goodput.
fn objectives(
    ttft_ms: Option<f64>,
    tpot_ms: Option<f64>,
    e2el_ms: Option<f64>,
    valid: bool,
) -> String {
    let limits = [("TTFT", ttft_ms), ("TPOT", tpot_ms), ("E2EL", e2el_ms)];
    let limits = limits
        .into_iter()
        .filter_map(|(name, limit)| limit.map(|limit| format!("{name} at most {limit} ms")));
    list(
        &limits
            .chain(valid.then(|| "a valid answer".to_owned()))
            .collect::<Vec<_>>(),
    )
}

fn pauses(longest_pause_s: Option<u64>, pauses_named: usize) -> String {
    match (longest_pause_s, pauses_named) {
        (Some(seconds), _) => format!("the server requested pauses of up to {seconds} s; "),
        (None, 1..) => "the server sent a retry time (Retry-After); ".to_owned(),
        (None, 0) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforcement::FirstConstrained;

    #[test]
    fn engine_fixed_names_a_known_engine_of_an_enforcing_server() {
        let first = |engine: Option<&str>| Enforcement {
            first_constrained: Some(FirstConstrained {
                case_id: "json-0".to_owned(),
                engine: engine.map(str::to_owned),
                why: "xgrammar is the first choice".to_owned(),
            }),
            state: State::Enforced,
            ..Enforcement::default()
        };
        assert!(
            FigureNotice::engine_fixed(&first(Some("xgrammar")))
                .unwrap()
                .to_string()
                .ends_with(
                    "keeps its engine, xgrammar by vLLM's rule (xgrammar is the first choice)"
                )
        );
        assert_eq!(FigureNotice::engine_fixed(&first(None)), None);
        let ignored = Enforcement {
            state: State::NotEnforced,
            ..first(Some("xgrammar"))
        };
        assert_eq!(FigureNotice::engine_fixed(&ignored), None);
        assert_eq!(FigureNotice::engine_fixed(&Enforcement::default()), None);
    }
}
