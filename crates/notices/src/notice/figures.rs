//! Notices that follow from the figures of a run.

use serde::{Deserialize, Serialize};

use crate::enforcement::Enforcement;
use sobench_core::printable::{NAME_CHARS, printable};

use super::list;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FigureNotice {
    #[error(
        "median and percentiles of the {gaps} gaps between chunks (ITL) are right within {within_percent} %, means are exact"
    )]
    RoundedItl { gaps: usize, within_percent: f64 },
    #[error("nobody was there to answer {} of the run{}: rates and throughput are with it", list(.spans), further(*.more))]
    Outages { spans: Vec<OutageSpan>, more: usize },
    #[error(
        "constrained requests that could not be judged and are not in the correct rate: {requests}"
    )]
    NotJudged { requests: usize },
    #[error(
        "answers without a count of output tokens (no usage, no tokenizer), so that there is no total: {answers}"
    )]
    OutputTokensUnknown { answers: usize },
    #[error("answers that ended without any content and have no latency: {answers}")]
    EmptyAnswers { answers: usize },
    #[error("answers of several tokens in one chunk, which have no TPOT: {answers}")]
    SingleChunkAnswers { answers: usize },
    #[error(
        "answers with more tokens than chunks, where ITL is the gap between chunks and not the time of a token: {answers}"
    )]
    MultiTokenChunks { answers: usize },
    #[error(
        "answers that came whole although a stream was asked for, which have no TTFT, TPOT or ITL: {answers}"
    )]
    UnstreamedAnswers { answers: usize },
    #[error("requests not sent when the run was stopped: {requests}")]
    UnsentRequests { requests: usize },
    #[error(
        "answers with a token count of the server's that cannot be right (no whole number, above 1000000000, or fewer output tokens \
         than chunks with content), which is in no figure: the tokenizer counts instead where there is one: {answers}"
    )]
    ImplausibleUsage { answers: usize },
    #[error("answers are computed whole: there are no output tokens, and no TTFT, TPOT or ITL")]
    ComputedAnswers,
    #[error("answers were not streamed: there is no TTFT, TPOT or ITL")]
    NotStreamed,
    #[error(
        "the peak per second is below the mean: the run was too short for whole seconds of the clock to hold its fastest"
    )]
    PeakBelowMean,
    #[error(
        "goodput counts answers of all arms with {}; valid goodput those of them that are valid",
        objectives(*.ttft_ms, *.tpot_ms, *.e2el_ms, *.valid)
    )]
    Goodput {
        ttft_ms: Option<f64>,
        tpot_ms: Option<f64>,
        e2el_ms: Option<f64>,
        valid: bool,
    },
    #[error(
        "requests that were refused with 429: {requests}; {}sobench does not retry, as that would be another load; lower --request-rate \
         or --max-concurrency",
        pauses(*.longest_pause_s, *.pauses_named)
    )]
    Throttled {
        requests: usize,
        longest_pause_s: Option<u64>,
        pauses_named: usize,
    },
    #[error(
        "requests that found no connection on this machine, which says nothing of the server and is in no rate: {requests}; {why}"
    )]
    NoConnection { requests: usize, why: String },
    #[error(
        "no effect of the constraint is visible: {correct}/{constrained} correct with it, {control_correct}/{control} without; a server \
         that ignores the field accepts it all the same"
    )]
    NoEffect {
        correct: usize,
        constrained: usize,
        control_correct: usize,
        control: usize,
    },
    #[error(
        "the first constrained request of this run was {request}: a vLLM server in `auto` that had none before has fixed its engine by \
         it, {} ({why})",
        to_engine(.engine.as_deref())
    )]
    EngineFixedByRun {
        request: String,
        engine: Option<String>,
        why: String,
    },
    #[error(
        "{broken} of {answers} constrained answers that ended by themselves break their constraint{}: {}",
        if *.seen_enforced { ", although the server was seen to enforce such constraints" } else { "" },
        list(.reasons)
    )]
    BrokenConstraints {
        broken: usize,
        answers: usize,
        seen_enforced: bool,
        reasons: Vec<BreachCount>,
    },
    #[error(
        "constraints stopped holding with request {request}: all of the {valid_before} answers sent before it are valid, none of the \
         {invalid_after} from it on"
    )]
    ConstraintsLost {
        request: String,
        valid_before: usize,
        invalid_after: usize,
    },
    #[error(
        "white space without end: {answers} of {truncated} answers that were cut at the token limit wrote nothing else in the end; let \
         the server allow none between JSON tokens"
    )]
    WhiteSpaceAnswers { answers: usize, truncated: usize },
}

impl FigureNotice {
    /// By which request a vLLM server in `auto` has fixed its engine, where that decides.
    pub fn engine_fixed(enforcement: &Enforcement) -> Option<Self> {
        let first = enforcement.first_constrained.as_ref()?;
        Some(Self::EngineFixedByRun {
            request: printable(&first.case_id, NAME_CHARS),
            engine: first.engine.clone(),
            why: printable(&first.why, NAME_CHARS),
        })
    }
}

/// A time without any answer, from the start of the run; open where it lasted to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("from {from_s:.1} s {} ({requests} requests)", until(*.to_s))]
pub struct OutageSpan {
    pub from_s: f64,
    pub to_s: Option<f64>,
    pub requests: usize,
}

/// Answers that break their constraint for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{answers} {reason} (first in {first_request})")]
pub struct BreachCount {
    pub reason: String,
    pub answers: usize,
    pub first_request: String,
}

fn until(to_s: Option<f64>) -> String {
    to_s.map_or_else(|| "on".to_owned(), |to_s| format!("to {to_s:.1} s"))
}

fn further(more: usize) -> String {
    if more > 0 {
        format!(", and {more} times more")
    } else {
        String::new()
    }
}

/// What a good request meets.
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
        (Some(seconds), _) => format!("the server asked for pauses of up to {seconds} s; "),
        (None, 1..) => "the server named a time to ask again (retry-after); ".to_owned(),
        (None, 0) => String::new(),
    }
}

fn to_engine(engine: Option<&str>) -> String {
    engine.map_or_else(
        || "to which engine is not known".to_owned(),
        |engine| format!("to {engine}, by vLLM's rule"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforcement::FirstConstrained;

    #[test]
    fn the_request_that_fixed_an_engine_is_named_with_it() {
        let first = |engine: Option<&str>| Enforcement {
            first_constrained: Some(FirstConstrained {
                case_id: "json-0".to_owned(),
                engine: engine.map(str::to_owned),
                why: "xgrammar is asked first".to_owned(),
            }),
            ..Enforcement::default()
        };
        assert!(
            FigureNotice::engine_fixed(&first(Some("xgrammar")))
                .unwrap()
                .to_string()
                .ends_with("to xgrammar, by vLLM's rule (xgrammar is asked first)")
        );
        assert!(
            FigureNotice::engine_fixed(&first(None))
                .unwrap()
                .to_string()
                .contains("not known")
        );
        assert_eq!(FigureNotice::engine_fixed(&Enforcement::default()), None);
    }
}
