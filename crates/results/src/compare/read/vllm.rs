//! Result files of `vllm bench serve --save-result [--save-detailed]` and of
//! `benchmark_serving_structured_output.py` (vLLM 0.6.4 to 0.33).
//!
//! Both use seconds, and 0 for failed requests. The script's `correct_rate(%)` does not check the
//! schema; it is read as `vllm_correct_rate`, never as a correct rate. The script saves no
//! timestamps, so its throughput has no interval; request latency is the sum of TTFT and gaps.

use serde_json::{Map, Value};

use super::raw::{Numbers, Raw};
use super::{MS_PER_S, figures, known, normalized, number, set_times};
use crate::compare::requests::{Gaps, Request, Requests};
use crate::compare::side::{FileKind, Run};
use crate::metrics::registry::{RequestValues, rates, totals};
use sobench_plan::record::condition::{Conditions, Field, NONE};

pub(super) fn read(file: &str, raw: Raw, kind: FileKind) -> Run {
    let mut figures = figures(&raw.rest);
    // vLLM's tools count chunks, although the key says tokens.
    let renamed = [
        (&totals::MAX_OUTPUT_TOKENS, &totals::MAX_OUTPUT_CHUNKS),
        (&rates::CORRECT_RATE, &rates::VLLM_CORRECT_RATE),
    ];
    for (theirs, ours) in renamed {
        let figure = figures.remove(theirs.name);
        figures.extend(figure.map(|figure| (ours.name.to_owned(), figure)));
    }
    Run {
        file: file.to_owned(),
        kind,
        conditions: conditions(&raw.rest),
        duration_s: raw.rest.get("duration").and_then(number),
        figures,
        requests: requests(raw),
        ..Run::default()
    }
}

fn conditions(top: &Map<String, Value>) -> Conditions {
    let at = |key: &str| top.get(key).and_then(normalized);
    let limit = |key: &str| {
        top.get(key)
            .map(|value| normalized(value).unwrap_or_else(|| NONE.to_owned()))
    };
    let ramp = at("ramp_up_strategy").map(|strategy| {
        let part = |key: &str| at(key).unwrap_or_default();
        format!(
            "{strategy} from {} to {}",
            part("ramp_up_start_rps"),
            part("ramp_up_end_rps")
        )
    });
    known([
        (Field::Model, at("model_id")),
        (Field::NumPrompts, at("num_prompts")),
        (Field::RequestRate, at("request_rate")),
        (Field::Ramp, ramp),
        (Field::Burstiness, at("burstiness")),
        (Field::MaxConcurrency, limit("max_concurrency")),
        (Field::Tokenizer, at("tokenizer_id")),
        (Field::Backend, at("backend")),
        (Field::Label, at("label")),
        (Field::Date, at("date")),
    ])
}

/// `None` if a column is missing or has a different length.
fn requests(raw: Raw) -> Option<Requests> {
    let (ttfts, itls) = (raw.ttfts?, raw.itls?);
    let n = ttfts.len();
    let fits = |length: Option<usize>| length.is_none_or(|length| length == n);
    let lengths = [
        raw.latencies.as_ref(),
        raw.start_times.as_ref(),
        raw.output_lens.as_ref(),
        raw.input_lens.as_ref(),
    ];
    if itls.len() != n
        || !lengths
            .into_iter()
            .all(|column| fits(column.map(Numbers::len)))
        || !fits(raw.outputs.as_ref().map(|outputs| outputs.rows as usize))
    {
        return None;
    }
    let at = |column: &Option<Numbers>, index: usize| column.as_ref()?.get(index);
    // vLLM uses a clock of its own; times start at the first request here.
    let origin_s = raw
        .start_times
        .iter()
        .flat_map(Numbers::iter)
        .flatten()
        .reduce(f64::min)
        .unwrap_or(0.0);
    let rows = ttfts.iter().enumerate().map(|(index, ttft_s)| {
        let error = raw.errors.as_ref().and_then(|errors| errors.get(index));
        let gaps_s = itls.get(index);
        // Failed requests and answers without content have a TTFT of 0.
        let ttft_s = ttft_s.filter(|ttft_s| *ttft_s > 0.0);
        let answered = error.is_none() && ttft_s.is_some();
        let last_s = at(&raw.latencies, index)
            .or_else(|| Some(ttft_s? + gaps_s.iter().sum::<f64>()))
            .filter(|_| answered);
        let tokens = |column: &Option<Numbers>| {
            at(column, index)
                .filter(|tokens| *tokens >= 0.0)
                .map(|tokens| tokens as u64)
        };
        let output_tokens = tokens(&raw.output_lens);
        let outputs = raw.outputs.as_ref();
        let vllm_correct = outputs.and_then(|outputs| outputs.get(index)?.correctness());
        let mut values = RequestValues::default();
        values.set_hit(&rates::VLLM_CORRECT_RATE, vllm_correct);
        set_times(&mut values, ttft_s, last_s, output_tokens);
        Request {
            answered,
            values,
            gaps: Gaps::Each(gaps_s.iter().map(|gap_s| gap_s * MS_PER_S).collect()),
            sent_s: at(&raw.start_times, index).map(|sent_s| sent_s - origin_s),
            input_tokens: tokens(&raw.input_lens),
            output_tokens,
            verdict: Some(verdict(vllm_correct, error)),
            ..Request::default()
        }
    });
    Some(rows.collect())
}

fn verdict(vllm_correct: Option<bool>, error: Option<&str>) -> String {
    let text = match (error, vllm_correct) {
        (Some(error), _) => error,
        (None, Some(true)) => "correct according to the script",
        (None, Some(false)) => "incorrect according to the script",
        (None, None) => "",
    };
    text.to_owned()
}
