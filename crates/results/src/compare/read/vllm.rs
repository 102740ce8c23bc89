//! Result files of `vllm bench serve --save-result [--save-detailed]` and of
//! `benchmark_serving_structured_output.py` (vLLM 0.6.4 to 0.33).
//!
//! Both keep seconds, and 0 where a request failed. The script's `correct_rate(%)` comes of its own
//! formula, which looks at no schema: it is read as `vllm_correct_rate`, never as a correct rate.
//! The script saves no instants, so that its throughput has no interval; its requests' latency is
//! put together from TTFT and gaps.

use serde_json::{Map, Value};

use super::raw::Raw;
use super::{MS_PER_S, figures, number, set_times, spelt};
use crate::compare::side::{Answer, FileKind, Gaps, Request, Run};
use crate::metrics::registry::{RequestValues, rates, totals};
use crate::record::condition::{Conditions, Field, NONE};

pub(super) fn read(file: &str, raw: Raw, kind: FileKind) -> Run {
    let mut figures = figures(&raw.rest);
    // vLLM's tools count chunks where their key says tokens.
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
    let at = |key: &str| top.get(key).and_then(spelt);
    let limit = |key: &str| {
        top.get(key)
            .map(|value| spelt(value).unwrap_or_else(|| NONE.to_owned()))
    };
    let ramp = at("ramp_up_strategy").map(|strategy| {
        let part = |key: &str| at(key).unwrap_or_default();
        format!(
            "{strategy} from {} to {}",
            part("ramp_up_start_rps"),
            part("ramp_up_end_rps")
        )
    });
    let values = [
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
    ];
    values
        .into_iter()
        .filter_map(|(field, value)| Some((field, value?)))
        .collect()
}

/// `None` where a column is missing or of another length.
fn requests(raw: Raw) -> Option<Vec<Request>> {
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
        || !lengths.into_iter().all(|column| fits(column.map(Vec::len)))
        || !fits(raw.outputs.as_ref().map(Vec::len))
    {
        return None;
    }
    let at = |column: &Option<Vec<Option<f64>>>, place: usize| {
        column.as_ref().and_then(|column| column[place])
    };
    // vLLM's instants are of a clock of its own: they count from the first of them here.
    let origin_s = raw
        .start_times
        .iter()
        .flatten()
        .flatten()
        .copied()
        .reduce(f64::min)
        .unwrap_or(0.0);
    let error_at = |place: usize| {
        raw.errors
            .as_ref()
            .and_then(|errors| errors.get(place).cloned().flatten())
            .unwrap_or_default()
    };
    let rows = ttfts
        .iter()
        .zip(itls)
        .enumerate()
        .map(|(place, (ttft_s, itls))| {
            let error = error_at(place);
            // A failed request has 0 for a TTFT; an answer without any content had none either.
            let ttft_s = ttft_s.filter(|ttft_s| *ttft_s > 0.0);
            let answered = error.is_empty() && ttft_s.is_some();
            let last_s = at(&raw.latencies, place)
                .or_else(|| Some(ttft_s? + itls.iter().sum::<f64>()))
                .filter(|_| answered);
            let tokens = |column: &Option<Vec<Option<f64>>>| {
                at(column, place)
                    .filter(|it| *it >= 0.0)
                    .map(|it| it as u64)
            };
            let output_tokens = tokens(&raw.output_lens);
            let output = raw.outputs.as_ref().map(|outputs| &outputs[place]);
            let generated = raw
                .generated_texts
                .as_ref()
                .and_then(|texts| texts.get(place).cloned().flatten());
            let vllm_correct = output.and_then(|output| output.correctness);
            let mut values = RequestValues::default();
            values.set_hit(&rates::VLLM_CORRECT_RATE, vllm_correct);
            set_times(&mut values, ttft_s, last_s, output_tokens);
            Request {
                case: None,
                arm: None,
                answered,
                values,
                gaps: Gaps::Each(itls.into_iter().map(|it| it * MS_PER_S).collect()),
                sent_s: at(&raw.start_times, place).map(|sent_s| sent_s - origin_s),
                input_tokens: tokens(&raw.input_lens),
                output_tokens,
                answer: Some(Answer {
                    text: output
                        .and_then(|output| output.generated.clone())
                        .or(generated)
                        .unwrap_or_default(),
                    verdict: verdict(vllm_correct, error),
                }),
            }
        });
    Some(rows.collect())
}

fn verdict(vllm_correct: Option<bool>, error: String) -> String {
    match vllm_correct {
        _ if !error.is_empty() => error,
        Some(true) => "correct by the script's formula".to_owned(),
        Some(false) => "not correct by the script's formula".to_owned(),
        None => String::new(),
    }
}
