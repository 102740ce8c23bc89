//! sobench's own result (`report::json`), with or without the requests. Knows no other tool's file.

use serde_json::{Map, Value};

use super::raw::{Output, Raw};
use super::{figures, number, spelt};
use crate::compare::comparable::NONE;
use crate::compare::metric::{Flow, Plain, RateName};
use crate::compare::side::{Answer, Field, FileKind, Gaps, Request, Run, SavedMean, Settings, Share};
use crate::metrics::LatencyMetric;
use crate::metrics::quality::ENDED_BY_ITSELF;
use crate::verdict::{NotScored, Reason, Verdict};

const MS_PER_S: f64 = 1000.0;

/// The members of `request` that say how answers are sampled.
const SAMPLING: [&str; 9] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "ignore_eos",
    "extra_body",
];

pub(super) fn read(file: &str, mut raw: Raw) -> Run {
    let own = match raw.rest.remove("sobench") {
        Some(Value::Object(own)) => Value::Object(own),
        _ => Value::Object(Map::new()),
    };
    let mut figures = figures(&raw.rest);
    let at = |path: &str| own.pointer(path).and_then(number);
    for name in [Flow::Valid.name(), Plain::ValidGoodput.name(), Plain::MaxChunks.name()] {
        if let Some(value) = at(&format!("/overall/throughput/{name}")) {
            figures.insert(name.to_owned(), value);
        }
    }
    let whole = |path: &str| own.pointer(path).and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
    let count = |rate: RateName| {
        let path = match rate {
            RateName::Vllm => "/quality/vllm/correct_rate".to_owned(),
            RateName::Correct | RateName::Compliance | RateName::Coverage | RateName::Control => {
                format!("/quality/{}", rate.name())
            }
        };
        let share = Share { hits: whole(&format!("{path}/hits"))?, of: whole(&format!("{path}/of"))? };
        (share.hits <= share.of).then_some((rate, share))
    };
    let mean = |series: LatencyMetric| {
        let path = format!("/overall/latency/{}_ms", series.key());
        Some((series, SavedMean { n: whole(&format!("{path}/n"))?, standard_error: at(&format!("{path}/standard_error")) }))
    };
    Run {
        file: file.to_owned(),
        kind: FileKind::SobenchResult,
        settings: settings(&raw.rest, &own),
        duration_s: raw.rest.get("duration").and_then(number),
        figures,
        means: LatencyMetric::ALL.into_iter().filter_map(mean).collect(),
        counts: RateName::ALL.into_iter().filter_map(count).collect(),
        notices: notices(&own),
        requests: requests(raw),
    }
}

fn settings(top: &Map<String, Value>, own: &Value) -> Settings {
    let top_level = |key: &str| top.get(key).and_then(spelt);
    let at = |path: &str| own.pointer(path).and_then(spelt);
    // Where the file has the key and no value, there is no limit; where it has no key, nobody knows.
    let limit = |value: Option<&Value>| value.map(|value| spelt(value).unwrap_or_else(|| NONE.to_owned()));
    let every =
        own.pointer("/load").map(|load| load.pointer("/cold_load/every").and_then(spelt).unwrap_or_else(|| NONE.to_owned()));
    let ramp = own.pointer("/load/ramp").filter(|ramp| ramp.is_object()).map(|ramp| {
        let part = |key: &str| ramp.get(key).and_then(spelt).unwrap_or_default();
        format!("{} from {} to {}", part("strategy"), part("start_rps"), part("end_rps"))
    });
    let sampling = own.get("request").map(|request| {
        let part = |key: &&str| request.get(*key).filter(|it| !it.is_null()).map(|it| format!("{key}={it}"));
        SAMPLING.iter().filter_map(part).collect::<Vec<_>>().join(" ")
    });
    let engine = at("/engine/name").map(|name| match at("/engine/version") {
        Some(version) => format!("{name} ({version})"),
        None => name,
    });
    let host = own.get("host").filter(|host| host.is_object()).map(|host| {
        let parts = ["os", "arch", "cpus"].map(|key| host.get(key).and_then(spelt).unwrap_or_default());
        format!("{} {}, {} cores", parts[0], parts[1], parts[2])
    });
    // Absent where there was none; so it is in results from before there could be one.
    let error_limit = |key: &str| own.get("load").map(|load| load.get(key).and_then(spelt).unwrap_or_else(|| NONE.to_owned()));
    let pairs = [
        (Field::Model, top_level("model_id")),
        (Field::Dataset, at("/dataset/sha256")),
        (Field::DatasetName, at("/dataset/name")),
        (Field::Ratio, at("/constrained_ratio")),
        (Field::OutputLen, at("/output_len")),
        (Field::NumPrompts, top_level("num_prompts")),
        (Field::RequestRate, top_level("request_rate")),
        (Field::Ramp, ramp),
        (Field::Burstiness, top_level("burstiness")),
        (Field::MaxConcurrency, limit(top.get("max_concurrency"))),
        (Field::ColdSchemaEvery, every),
        (Field::Dialect, at("/constraint_dialect")),
        (Field::Prompts, at("/endpoint").map(|endpoint| prompts(&endpoint).to_owned())),
        (Field::Sampling, sampling),
        (Field::Stream, at("/request/stream")),
        (Field::FormatAssertion, at("/assert_formats")),
        (Field::Goodput, limit(own.pointer("/options/goodput"))),
        (Field::Seed, at("/seed")),
        (Field::DurationLimit, limit(own.pointer("/load/duration_limit_s"))),
        (Field::MaxErrorRate, error_limit("max_error_rate")),
        (Field::MaxConsecutiveErrors, error_limit("max_consecutive_errors")),
        (Field::Tokenizer, top_level("tokenizer_id")),
        (Field::Backend, top_level("backend")),
        (Field::ServerVersion, at("/server_version")),
        (Field::Engine, engine.or_else(|| at("/guided_decoding_backend/value")).or_else(|| at("/enforcement/server/engine"))),
        (Field::Label, top_level("label")),
        (Field::Host, host),
        (Field::Embedded, at("/embedded")),
        (Field::BaseUrl, at("/base_url")),
        (Field::SobenchVersion, at("/sobench_version")),
        (Field::Date, top_level("date")),
    ];
    pairs.into_iter().filter_map(|(field, value)| Some((field, value?))).collect()
}

/// Whether prompts go out as they are or through the server's chat template, by the endpoint's path.
fn prompts(endpoint: &str) -> &'static str {
    let chats = ["chat/completions", "/responses", "/api/chat"];
    if chats.iter().any(|end| endpoint.ends_with(end)) { "chat messages" } else { "text" }
}

fn notices(own: &Value) -> Vec<String> {
    let is = |path: &str, value: &str| own.pointer(path).and_then(Value::as_str) == Some(value);
    let partial = own.get("partial").and_then(Value::as_bool) == Some(true);
    [
        (partial, "partial: the run was stopped before its end"),
        (is("/enforcement/state", "not_enforced"), "CONSTRAINT NOT ENFORCED: its figures are those of plain text"),
        (is("/client/verdict", "do_not_trust"), "its client stood in the way: do not trust its latencies"),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .map(|(_, words)| words.to_owned())
    .collect()
}

/// `None` where a column is missing or of another length than the records.
fn requests(raw: Raw) -> Option<Vec<Request>> {
    let (outputs, ttfts, itls, latencies, starts) = (raw.outputs?, raw.ttfts?, raw.itls?, raw.latencies?, raw.start_times?);
    let errors = raw.errors.unwrap_or_default();
    let n = outputs.len();
    if [ttfts.len(), itls.len(), latencies.len(), starts.len()] != [n; 4] {
        return None;
    }
    let rows = outputs.into_iter().zip(itls).enumerate();
    Some(
        rows.map(|(place, (output, itls))| {
            let error = errors.get(place).cloned().flatten().filter(|words| !words.is_empty());
            request(output, error, [ttfts[place], latencies[place], starts[place]], itls)
        })
        .collect(),
    )
}

fn request(output: Output, error: Option<String>, [ttft_s, e2el_s, sent_s]: [Option<f64>; 3], itls: Vec<f64>) -> Request {
    let of_outcome =
        |member: &str| output.outcome.as_ref().and_then(|it| it.get(member)).and_then(Value::as_str).unwrap_or_default();
    let kind = of_outcome("kind");
    // As `metrics::quality::is_taken_up`.
    let came_there = kind != "cancelled" && (kind, of_outcome("cause")) != ("transport", "local");
    let answered = matches!(kind, "completed" | "truncated");
    let verdict = output.verdict.and_then(|verdict| serde_json::from_value::<Verdict>(verdict).ok());
    let ended = kind == "completed" && output.finish_reason.as_deref().is_some_and(|it| ENDED_BY_ITSELF.contains(&it));
    let complied = match &verdict {
        Some(Verdict::Valid) if ended => Some(true),
        Some(Verdict::Invalid { .. }) if ended => Some(false),
        _ => None,
    };
    let taken_up = answered || ttft_s.is_some();
    // As `metrics::latency::tpot_ms`: of answers of two tokens or more in two chunks or more.
    let tpot_s = match (ttft_s, e2el_s, output.tokens.output) {
        (Some(first), Some(last), Some(tokens)) if tokens >= 2 && !itls.is_empty() => Some((last - first) / (tokens - 1) as f64),
        _ => None,
    };
    let words = error.unwrap_or_else(|| verdict.as_ref().map(words).unwrap_or_default());
    Request {
        case: output.case,
        arm: output.arm,
        correct: output.correctness,
        vllm_correct: output.vllm_correctness,
        complied,
        accepted: (taken_up || came_there).then_some(taken_up),
        answered,
        ttft_ms: ttft_s.map(|it| it * MS_PER_S),
        tpot_ms: tpot_s.map(|it| it * MS_PER_S),
        e2el_ms: e2el_s.map(|it| it * MS_PER_S),
        gaps: Gaps::Each(itls.into_iter().map(|it| it * MS_PER_S).collect()),
        sent_s,
        input_tokens: output.tokens.input,
        output_tokens: output.tokens.output,
        answer: Some(Answer { text: output.generated.unwrap_or_default(), verdict: words }),
    }
}

/// A verdict in words.
pub(super) fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid { reason } => Reason::to_string(reason),
        Verdict::NotScored { why } => NotScored::to_string(why),
    }
}
