//! Notices that result from the figures of a run.

use serde::{Deserialize, Serialize};

use crate::enforcement::Enforcement;
use sobench_core::printable::{NAME_CHARS, printable};

use super::list;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FigureNotice {
    #[error(
        "ITL median and percentiles of {gaps} gaps are accurate to {within_percent} %; means are exact"
    )]
    RoundedItl { gaps: usize, within_percent: f64 },
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
        "answers with an implausible token count from the server (not an integer, above 1000000000, or fewer output tokens than content \
         chunks); these counts are ignored, and the tokenizer counts instead if there is one: {answers}"
    )]
    ImplausibleUsage { answers: usize },
    #[error("answers are computed in one piece: there are no output tokens, TTFT, TPOT or ITL")]
    ComputedAnswers,
    #[error("answers were not streamed: there are no TTFT, TPOT or ITL")]
    NotStreamed,
    #[error(
        "the peak per second is below the mean: the run is too short to contain a full second at its highest rate"
    )]
    PeakBelowMean,
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
        "requests that failed to get a connection on this machine, which are not in any rate: {requests}; {why}"
    )]
    NoConnection { requests: usize, why: String },
    #[error(
        "the constraint has no visible effect: {correct}/{constrained} correct with it, {control_correct}/{control} without; a server may \
         accept the field and ignore it"
    )]
    NoEffect {
        correct: usize,
        constrained: usize,
        control_correct: usize,
        control: usize,
    },
    #[error(
        "the first constrained request of this run was {request}: a vLLM server in `auto` without an earlier constrained request keeps its \
         engine, {} ({why})",
        to_engine(.engine.as_deref())
    )]
    EngineFixedByRun {
        request: String,
        engine: Option<String>,
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
    #[error(
        "constraints were no longer enforced from request {request} on: all {valid_before} answers sent before it are valid, none of the \
         {invalid_after} from it on"
    )]
    ConstraintsLost {
        request: String,
        valid_before: usize,
        invalid_after: usize,
    },
    #[error(
        "endless white space: {answers} of {truncated} answers cut at the token limit end in white space only; disable white space between \
         JSON tokens on the server"
    )]
    WhiteSpaceAnswers { answers: usize, truncated: usize },
}

impl FigureNotice {
    /// The request that fixed the engine of a vLLM server in `auto`, if there is one.
    pub fn engine_fixed(enforcement: &Enforcement) -> Option<Self> {
        let first = enforcement.first_constrained.as_ref()?;
        Some(Self::EngineFixedByRun {
            request: printable(&first.case_id, NAME_CHARS),
            engine: first.engine.clone(),
            why: printable(&first.why, NAME_CHARS),
        })
    }
}

/// A period without answers, relative to the start of the run; open if it lasted to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("from {from_s:.1} s {} ({requests} requests)", until(*.to_s))]
pub struct OutageSpan {
    pub from_s: f64,
    pub to_s: Option<f64>,
    pub requests: usize,
}

/// Answers that violate their constraint for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{answers} {reason} (first in {first_request})")]
pub struct BreachCount {
    pub reason: String,
    pub answers: usize,
    pub first_request: String,
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

fn to_engine(engine: Option<&str>) -> String {
    engine.map_or_else(
        || "which is unknown".to_owned(),
        |engine| format!("{engine} by vLLM's rule"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforcement::FirstConstrained;

    #[test]
    fn engine_fixed_names_the_request_and_the_engine() {
        let first = |engine: Option<&str>| Enforcement {
            first_constrained: Some(FirstConstrained {
                case_id: "json-0".to_owned(),
                engine: engine.map(str::to_owned),
                why: "xgrammar is the first choice".to_owned(),
            }),
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
        assert!(
            FigureNotice::engine_fixed(&first(None))
                .unwrap()
                .to_string()
                .contains("unknown")
        );
        assert_eq!(FigureNotice::engine_fixed(&Enforcement::default()), None);
    }
}
