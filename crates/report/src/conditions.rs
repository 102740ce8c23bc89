//! Under which conditions the numbers of a run hold, and what its reader has to know besides. Knows
//! no layout.

use super::{Report, enforcement};
use sobench_core::printable::printable;
use sobench_notices::notice::{FigureNotice, Notice};
use sobench_results::metrics::quality::Quality;
use sobench_results::metrics::said::Said;
use sobench_results::metrics::{Answers, Metrics};
use sobench_results::record::{EngineChoice, RunRecord};

/// The most characters of a name or a sentence that came from outside.
pub(crate) const NAME_MAX_CHARS: usize = 200;
const NOTICE_MAX_CHARS: usize = 600;
const FIGURE_NOTICE_MAX_CHARS: usize = 10_000;

/// How much of a hash tells two datasets apart at a glance; the file has the whole.
const HASH_SHOWN_CHARS: usize = 12;

/// The line of requests that no figure counts.
const BEFORE: &str = "before the run, in no figure";

/// A line for each part of the experiment that is known: its name, and what is known of it.
pub(crate) fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    for (name, part) in parts(report)
        .into_iter()
        .filter_map(|(name, part)| Some((name, part?)))
    {
        match lines.last_mut().filter(|(line, _)| *line == name) {
            Some((_, words)) => words.push_str(&format!(", {part}")),
            None => lines.push((name, part)),
        }
    }
    lines
}

/// The caller's notices, and what the figures themselves call for.
pub(crate) fn notes(report: &Report) -> Vec<Notice> {
    let held = enforcement::remarks(&report.record.enforcement, &report.metrics.quality);
    report
        .notices
        .iter()
        .cloned()
        .chain(held.into_iter().chain(remarks(report)).map(Notice::from))
        .collect()
}

/// The sentence of a note, fit to be shown.
pub(crate) fn note_text(note: &Notice) -> String {
    // In those of figures, each text from outside has a limit of its own.
    let max_chars = if matches!(note, Notice::Figure(_)) {
        FIGURE_NOTICE_MAX_CHARS
    } else {
        NOTICE_MAX_CHARS
    };
    printable(&note.to_string(), max_chars)
}

/// The parts of each line, in order.
fn parts(report: &Report) -> Vec<(&'static str, Option<String>)> {
    let record = &report.record;
    let RunRecord {
        settings,
        server,
        dataset,
        ..
    } = record;
    let text = |value: &str| Some(printable(value, NAME_MAX_CHARS));
    let rows = format!(
        "{} distinct {}",
        dataset.rows,
        if dataset.rows == 1 { "row" } else { "rows" }
    );
    let generated = report.metrics.options.answers == Answers::Generated;
    let sources = report.metrics.overall.tokens.output_sources;
    let counted = [
        ("server", sources.server),
        ("tokenizer", sources.tokenizer),
        ("nobody", sources.unknown),
    ]
    .map(|(who, count)| format!("{who} {count}"))
    .join(", ");
    let mut parts = vec![
        ("sobench", text(&record.sobench_version)),
        ("sobench", named("at", Some(record.date()))),
        (
            "sobench",
            named("label", settings.report.label.as_deref().and_then(text)),
        ),
        ("server", Some(settings.backend.to_string())),
        ("server", named("at", text(&server.base_url))),
        (
            "server",
            named("version", server.version.as_deref().and_then(text)),
        ),
        ("model", text(&server.model_id)),
        ("model", named("tokenizer", text(&record.tokenizer_id))),
        ("dataset", text(settings.dataset.name().name())),
        ("dataset", Some(rows)),
        (
            "dataset",
            named("sha256", Some(printable(&dataset.sha256, HASH_SHOWN_CHARS))),
        ),
        (
            "dataset",
            named("seed", Some(settings.dataset.seed.to_string())),
        ),
        (
            "dataset",
            named(
                "share constrained",
                settings.constrained_ratio().map(|ratio| ratio.to_string()),
            ),
        ),
    ];
    parts.extend(constraint(report).map(|part| ("constraint", part)));
    parts.extend([
        ("embedded engine", engine_work(report)),
        (
            "answers",
            settings
                .output_len()
                .map(|tokens| format!("at most {tokens} tokens")),
        ),
        (
            "answers",
            generated.then(|| format!("output tokens counted by: {counted}")),
        ),
        (BEFORE, before("trial request", record.trial_requests)),
        (
            BEFORE,
            before("preflight question", record.enforcement.requests),
        ),
        (BEFORE, before("warm-up", record.warmup_requests)),
    ]);
    parts
}

/// The constraints of the run, and how they were carried.
fn constraint(report: &Report) -> [Option<String>; 6] {
    let RunRecord {
        settings,
        server,
        dataset,
        enforcement,
        ..
    } = &report.record;
    let kinds = (!dataset.constraint_kinds.is_empty())
        .then(|| printable(&dataset.constraint_kinds.join(" "), NAME_MAX_CHARS));
    let has_schema = dataset.constraint_kinds.iter().any(|kind| kind == "json");
    let asserted = if settings.evaluate.assert_formats {
        "format asserted"
    } else {
        "format not asserted"
    };
    let formats = has_schema.then(|| asserted.to_owned());
    let is_sent = report.metrics.arms.constrained.is_some();
    let carried = if is_sent {
        named(
            "sent as",
            server.constraint_dialect.map(|dialect| dialect.to_string()),
        )
    } else {
        Some("not sent, only judged".to_owned())
    };
    let carried = carried.filter(|_| kinds.is_some());
    let converted = named(
        "converted from",
        dataset
            .grammar_converted_from
            .map(|notation| notation.name().to_owned()),
    );
    [
        kinds,
        carried,
        converted,
        enforcement
            .condition()
            .map(str::to_owned)
            .filter(|_| is_sent),
        named("engine", engine(report)).filter(|_| is_sent),
        formats,
    ]
}

/// A value behind its name.
fn named(name: &str, value: Option<String>) -> Option<String> {
    value.map(|value| format!("{name} {value}"))
}

fn before(name: &str, count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} {name}{}", if count == 1 { "" } else { "s" }))
}

fn engine(report: &Report) -> Option<String> {
    let record = &report.record;
    let name = |text: &str| printable(text, NAME_MAX_CHARS);
    let chosen = match &record.server.engine_choice {
        EngineChoice::None => None,
        EngineChoice::Declared(value) => {
            Some(format!("{} (as declared; the server decides)", name(value)))
        }
        EngineChoice::Selected(value) => Some(format!("{} (selected)", name(value))),
    };
    let ours = report.engine.as_ref().map(|engine| {
        let version = engine
            .version
            .as_deref()
            .map(|version| format!(" ({})", name(version)));
        let settings = engine
            .settings
            .iter()
            .map(|(choice, value)| format!(", {} {}", name(choice), name(value)));
        format!(
            "{}{}{}",
            name(&engine.name),
            version.unwrap_or_default(),
            settings.collect::<String>()
        )
    });
    ours.or_else(|| record.enforcement.engine()).or(chosen)
}

fn engine_work(report: &Report) -> Option<String> {
    let work = report.engine.as_ref()?.work.as_ref()?;
    let masks = match (work.mask_p50_us, work.mask_p99_us) {
        (Some(p50), Some(p99)) => format!(", p50 {p50:.1} us, p99 {p99:.1} us"),
        _ => String::new(),
    };
    Some(format!(
        "{} compiled, {} from the cache; {} masks{masks}; {} steps, at most {} of {} sequences at once",
        work.cache_misses,
        work.cache_hits,
        work.masks,
        work.steps,
        work.largest_batch,
        work.max_batch
    ))
}

/// Holes in the data, so that no `n/a` and no small denominator goes unexplained.
fn remarks(report: &Report) -> Vec<FigureNotice> {
    let metrics = &report.metrics;
    let streamed = match (metrics.options.answers, metrics.options.streamed) {
        (Answers::Computed, _) => Some(FigureNotice::ComputedAnswers),
        (Answers::Generated, false) => Some(FigureNotice::NotStreamed),
        (Answers::Generated, true) => None,
    };
    let throughput = &metrics.overall.throughput;
    let peak_and_mean = throughput
        .max_output_tokens_per_s
        .zip(throughput.output_throughput);
    let is_short = peak_and_mean.is_some_and(|(peak, mean)| peak < mean);
    let goodput = metrics
        .options
        .goodput
        .as_ref()
        .map(|slo| FigureNotice::Goodput {
            ttft_ms: slo.ttft_ms,
            tpot_ms: slo.tpot_ms,
            e2el_ms: slo.e2el_ms,
            valid: slo.valid,
        });
    counted(metrics)
        .chain(throttled(&metrics.said))
        .chain(unsent(&metrics.said))
        .chain(streamed)
        .chain(is_short.then_some(FigureNotice::PeakBelowMean))
        .chain(goodput)
        .chain(no_effect(&metrics.quality))
        .collect()
}

/// Requests and answers that are missing from a figure.
fn counted(metrics: &Metrics) -> impl Iterator<Item = FigureNotice> {
    let (sources, latency) = (
        &metrics.overall.tokens.output_sources,
        &metrics.overall.latency,
    );
    let counts = [
        (
            metrics.quality.unjudged(),
            (|requests| FigureNotice::NotJudged { requests }) as fn(usize) -> FigureNotice,
        ),
        (sources.unknown, |answers| {
            FigureNotice::OutputTokensUnknown { answers }
        }),
        (latency.empty_answers, |answers| {
            FigureNotice::EmptyAnswers { answers }
        }),
        (latency.single_chunk_answers, |answers| {
            FigureNotice::SingleChunkAnswers { answers }
        }),
        (latency.multi_token_chunk_answers, |answers| {
            FigureNotice::MultiTokenChunks { answers }
        }),
        (latency.unstreamed_answers, |answers| {
            FigureNotice::UnstreamedAnswers { answers }
        }),
        (latency.never_sent, |requests| {
            FigureNotice::UnsentRequests { requests }
        }),
        (metrics.said.senseless_usage, |answers| {
            FigureNotice::ImplausibleUsage { answers }
        }),
    ];
    counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, notice)| notice(count))
}

/// What became of the load where the server asked for less.
fn throttled(said: &Said) -> Option<FigureNotice> {
    let (longest_pause_s, pauses_named) = (said.longest_pause_s, said.pauses_named);
    (said.throttled > 0).then_some(FigureNotice::Throttled {
        requests: said.throttled,
        longest_pause_s,
        pauses_named,
    })
}

/// What this machine had no connection for.
fn unsent(said: &Said) -> Option<FigureNotice> {
    let lacking = said.lacking.as_deref()?;
    Some(FigureNotice::NoConnection {
        requests: said.not_sent,
        why: printable(lacking, NOTICE_MAX_CHARS),
    })
}

/// A constraint whose answers are no better than those without it: the first thing to look at on a
/// new server.
fn no_effect(quality: &Quality) -> Option<FigureNotice> {
    let (correct, control) = (quality.correct_rate?, quality.control_rate?);
    (correct.low_percent <= control.percent).then_some(FigureNotice::NoEffect {
        correct: correct.hits,
        constrained: correct.of,
        control_correct: control.hits,
        control: control.of,
    })
}
