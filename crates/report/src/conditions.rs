//! Conditions of a run, and the notices that its reader needs.

use super::{Report, accuracy, enforcement};
use sobench_core::case::Arm;
use sobench_core::channel_timing::LATE_WINDOW_NS;
use sobench_core::dates::iso_8601;
use sobench_core::printable::{printable, printable_message};
use sobench_notices::breach::{BreachCause, headline};
use sobench_notices::enforcement::State;
use sobench_notices::notice::{BenchNotice, FigureNotice, LatencyChange, LatencyModes, Notice};
use sobench_plan::metrics::Answers;
use sobench_plan::record::{EngineChoice, RunRecord};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::findings::PromptsWithoutTools;
use sobench_results::metrics::registry::{Figure, Metric, rates, totals};
use sobench_results::metrics::run_issues::RunIssues;

/// Characters at most of a name or a sentence of other programs.
pub(crate) const NAME_MAX_CHARS: usize = 200;

/// Characters of a hash that are shown; the result file has all of it.
const HASH_SHOWN_CHARS: usize = 12;

/// Invalid answers from which on a run without a valid one has a warning.
const MIN_SUSPICIOUS: usize = 3;

const BEFORE_THE_RUN: &str = "before the run (not measured)";

/// A line for each known part of the experiment: its name and its value.
pub(crate) fn lines(report: &Report) -> Vec<(&'static str, String)> {
    let mut lines: Vec<(&'static str, String)> = Vec::new();
    for (name, part) in parts(report)
        .into_iter()
        .filter_map(|(name, part)| Some((name, part?)))
    {
        match lines.last_mut().filter(|(line, _)| *line == name) {
            Some((_, line)) => line.push_str(&format!(", {part}")),
            None => lines.push((name, part)),
        }
    }
    lines
}

/// The server, its model and its engine in one line.
pub(crate) fn server_line(report: &Report) -> String {
    let (settings, server) = (&report.record.settings, &report.record.server);
    let text = |value: &str| printable(value, NAME_MAX_CHARS);
    let is_sent = report.metrics.arm(Arm::Constrained).is_some();
    let engine = named("engine", engine_name(report)).filter(|_| is_sent);
    let parts = if server.embedded {
        let speed = server.speed.map(|speed| format!("{speed}, "));
        let speed = speed.unwrap_or_default();
        let synthetic = format!("synthetic model ({speed}not GPU figures)");
        vec![Some("embedded".to_owned()), engine, Some(synthetic)]
    } else {
        vec![
            Some(format!(
                "{} at {}",
                settings.backend,
                text(&server.base_url)
            )),
            named("version", server.version.as_deref().map(text)),
            named("model", Some(text(&server.model_id))),
            engine,
        ]
    };
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What was enforced, how it was sent, and the verdict of the preflight.
pub(crate) fn constraint_line(report: &Report) -> String {
    let dataset = &report.record.dataset;
    if dataset.constraint_kinds.is_empty() {
        return "none".to_owned();
    }
    let [kinds, sent, converted, ..] = constraint(report);
    let is_sent = report.metrics.arm(Arm::Constrained).is_some();
    let preflight = match report.record.enforcement.state {
        State::NotChecked => "no preflight",
        State::Enforced if !report.metrics.findings.reasons.is_empty() => {
            "preflight: one answer was valid"
        }
        State::Enforced => "preflight: enforced",
        State::NotEnforced => "preflight: NOT ENFORCED",
        State::Unproven => "preflight: enforcement not proven",
    };
    let is_checked = is_sent && !report.record.server.embedded;
    let parts = [
        kinds,
        sent,
        converted,
        is_checked.then(|| preflight.to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The headline of every page: constraints that are not enforced, or what the invalid answers of a
/// run without a valid one have in common.
pub(crate) fn warning(report: &Report) -> Option<String> {
    let enforcement = &report.record.enforcement;
    let findings = &report.metrics.findings;
    let invalid: usize = findings.causes.iter().map(|(_, count)| count).sum();
    // Of few answers, only a fault of the schema is certain.
    let is_certain = matches!(
        findings.causes.first(),
        Some((BreachCause::Unsatisfiable { .. }, _))
    );
    let is_suspicious = report.metrics.values.count(&rates::CORRECT_RATE) == 0
        && (is_certain || invalid >= MIN_SUSPICIOUS);
    let has_preflight = enforcement.state != State::NotChecked;
    enforcement.warning().or_else(|| {
        let field = report.record.server.constraint_dialect;
        headline(&findings.causes, field, has_preflight).filter(|_| is_suspicious)
    })
}

/// The start of the run in ISO 8601.
fn date(record: &RunRecord) -> String {
    let date = record.date();
    iso_8601(&date).map_or(date, |iso| format!("{iso}Z"))
}

/// The notices of the run, and those that follow from its figures.
pub(crate) fn notices(report: &Report) -> Vec<Notice> {
    let enforcement = enforcement::notices(&report.record.enforcement, &report.metrics);
    report
        .notices
        .iter()
        .cloned()
        .chain(
            enforcement
                .into_iter()
                .chain(figure_notices(report))
                .map(Notice::from),
        )
        .collect()
}

/// The text of a notice, escaped. Notices limit each foreign text themselves; those of other
/// versions and programs do not.
pub(crate) fn notice_text(notice: &Notice) -> String {
    match notice {
        Notice::Unknown(_) | Notice::Other(_) => printable_message(&notice.to_string()),
        known => printable(&known.to_string(), usize::MAX),
    }
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
    let sources = report.metrics.token_sources.output;
    let mut counted = vec![("server", sources.server), ("tokenizer", sources.tokenizer)];
    if sources.other_tokenizer > 0 {
        counted.push(("tokenizer of another model", sources.other_tokenizer));
    }
    counted.push(("unknown", sources.unknown));
    let counted = counted
        .iter()
        .map(|(source, count)| format!("{source} {count}"))
        .collect::<Vec<_>>()
        .join(", ");
    let mut parts = vec![
        ("sobench", text(&record.sobench_version)),
        ("sobench", named("at", Some(date(record)))),
        (
            "sobench",
            named("label", settings.report.label.as_deref().and_then(text)),
        ),
        ("server", Some(settings.backend.to_string())),
        ("server", named("at", text(&server.base_url))),
        (
            "server",
            named("speed", server.speed.map(|speed| speed.to_string())),
        ),
        (
            "server",
            named("version", server.version.as_deref().and_then(text)),
        ),
        ("model", text(&server.model_id)),
        ("model", named("tokenizer", text(&record.tokenizer_id))),
        ("dataset", text(&settings.dataset.source.name)),
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
                record.constrained_ratio().map(|ratio| ratio.to_string()),
            ),
        ),
    ];
    parts.extend(constraint(report).map(|part| ("constraint", part)));
    parts.extend([
        ("embedded engine", engine_work(report)),
        (
            "answers",
            record
                .output_len()
                .map(|tokens| format!("at most {tokens} tokens")),
        ),
        (
            "answers",
            generated.then(|| format!("output tokens counted by: {counted}")),
        ),
        (
            BEFORE_THE_RUN,
            before("trial request", record.trial_requests),
        ),
        (
            BEFORE_THE_RUN,
            before("preflight request", record.enforcement.requests),
        ),
        (BEFORE_THE_RUN, before("warm-up", record.warmup_requests)),
    ]);
    parts
}

/// The constraints of the run, and how they were sent.
fn constraint(report: &Report) -> [Option<String>; 7] {
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
    let is_sent = report.metrics.arm(Arm::Constrained).is_some();
    let has_only_tools = dataset.constraint_kinds.iter().all(|kind| kind == "tools");
    let dialect = server
        .constraint_dialect
        .filter(|_| !has_only_tools)
        .map(|dialect| dialect.to_string());
    let carried = if settings.dataset.source.name == "requests" {
        Some("sent as recorded".to_owned())
    } else if is_sent {
        named("sent as", dialect)
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
    let has_calls = dataset.constraint_kinds.iter().any(|kind| kind == "tools");
    let joined = (has_calls && settings.request.stream).then(|| "calls joined by index".to_owned());
    [
        kinds,
        joined,
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

/// A value with its name before it.
fn named(name: &str, value: Option<String>) -> Option<String> {
    value.map(|value| format!("{name} {value}"))
}

fn before(name: &str, count: usize) -> Option<String> {
    (count > 0).then(|| format!("{count} {name}{}", if count == 1 { "" } else { "s" }))
}

/// The engine with its settings.
fn engine(report: &Report) -> Option<String> {
    let settings = report.engine.iter().flat_map(|engine| &engine.settings);
    let text = |text: &str| printable(text, NAME_MAX_CHARS);
    let settings: String = settings
        .map(|(setting, value)| format!(", {} {}", text(setting), text(value)))
        .collect();
    engine_name(report).map(|name| name + &settings)
}

/// The engine with its version.
fn engine_name(report: &Report) -> Option<String> {
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
        let version = engine.version.as_deref();
        let version = version.map(|version| format!(" ({})", name(version)));
        format!("{}{}", name(&engine.name), version.unwrap_or_default())
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

/// Notices that explain every `n/a` and every small denominator.
fn figure_notices(report: &Report) -> Vec<FigureNotice> {
    let metrics = &report.metrics;
    let streamed = match (metrics.options.answers, metrics.options.streamed) {
        (Answers::Computed, _) => Some(FigureNotice::ComputedAnswers),
        (Answers::Generated, false) => Some(FigureNotice::NotStreamed),
        (Answers::Generated, true) => None,
    };
    let goodput = metrics.options.goodput.as_ref();
    let goodput = goodput.map(|slo| FigureNotice::Goodput {
        ttft_ms: slo.ttft_ms,
        tpot_ms: slo.tpot_ms,
        e2el_ms: slo.e2el_ms,
        valid: slo.valid,
    });
    counted(metrics)
        .chain(token_limit_ignored(report))
        .chain(throttled(&metrics.issues))
        .chain(unsent(&metrics.issues))
        .chain(streamed)
        .chain(drift(metrics))
        .chain(two_modes(metrics))
        .chain(name_changes(metrics))
        .chain(bursts(metrics))
        .chain(buffered_calls(metrics))
        .chain(goodput)
        .chain(no_effect(metrics, report.record.enforcement.state))
        .chain(controls_cut(metrics))
        .chain(without_tools(report))
        .collect()
}

/// Notices on requests and answers that are missing from a figure.
fn counted(metrics: &Metrics) -> impl Iterator<Item = FigureNotice> {
    let count = |metric: &Metric| metrics.values.count(metric);
    let counts = [
        (
            count(&rates::NOT_JUDGED_RATE),
            (|requests| FigureNotice::NotJudged { requests }) as fn(usize) -> FigureNotice,
        ),
        (metrics.token_sources.output.unknown, |answers| {
            FigureNotice::OutputTokensUnknown { answers }
        }),
        (count(&totals::EMPTY_ANSWERS), |answers| {
            FigureNotice::EmptyAnswers { answers }
        }),
        (count(&totals::SINGLE_CHUNK_ANSWERS), |answers| {
            FigureNotice::SingleChunkAnswers { answers }
        }),
        (count(&totals::MULTI_TOKEN_CHUNK_ANSWERS), |answers| {
            FigureNotice::MultiTokenChunks { answers }
        }),
        (count(&totals::UNSTREAMED_ANSWERS), |answers| {
            FigureNotice::UnstreamedAnswers { answers }
        }),
        (count(&totals::NEVER_SENT), |requests| {
            FigureNotice::UnsentRequests { requests }
        }),
        (metrics.issues.implausible_usage, |answers| {
            FigureNotice::ImplausibleUsage { answers }
        }),
    ];
    counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, notice)| notice(count))
}

/// Notice on answers that are longer than their request allows, unless the user set other limits.
fn token_limit_ignored(report: &Report) -> Option<FigureNotice> {
    let (settings, issues) = (&report.record.settings, &report.metrics.issues);
    let (tokens, limit) = issues
        .longest_over_limit
        .filter(|_| !settings.request.has_own_token_limit())?;
    let field = settings
        .backend
        .limit_field(report.record.server.max_tokens_only);
    Some(FigureNotice::TokenLimitIgnored {
        field: field.to_owned(),
        answers: issues.over_limit,
        tokens,
        limit,
    })
}

/// Notice on throttling by the server.
fn throttled(server_notices: &RunIssues) -> Option<FigureNotice> {
    let (longest_pause_s, pauses_named) =
        (server_notices.longest_pause_s, server_notices.pauses_named);
    (server_notices.throttled > 0).then_some(FigureNotice::Throttled {
        requests: server_notices.throttled,
        longest_pause_s,
        pauses_named,
    })
}

/// Notice on requests that this machine had no connection for.
fn unsent(server_notices: &RunIssues) -> Option<FigureNotice> {
    let lacking = server_notices.local_error.as_deref()?;
    Some(FigureNotice::NoConnection {
        requests: server_notices.no_connection,
        why: printable_message(lacking),
    })
}

/// Notice on latencies that rise or fall over the run.
fn drift(metrics: &Metrics) -> Option<FigureNotice> {
    let changes: Vec<LatencyChange> = metrics
        .drift
        .iter()
        .filter(|drift| drift.is_drift)
        .map(|drift| LatencyChange {
            latency: drift.label().to_owned(),
            from_ms: drift.from_ms,
            to_ms: drift.to_ms,
            step_at: drift
                .step
                .as_ref()
                .map(|step| printable(&step.request, NAME_MAX_CHARS)),
        })
        .collect();
    (!changes.is_empty()).then_some(FigureNotice::Drift { changes })
}

/// Notice on latencies with two modes.
fn two_modes(metrics: &Metrics) -> Option<FigureNotice> {
    let latencies = metrics.modes.iter().map(|modes| {
        let arm = accuracy::arm_name(metrics, modes.arm);
        LatencyModes {
            latency: format!("{}, {arm}", modes.label()),
            answers: modes.answers,
            low_percent: modes.low_percent,
            low_ms: modes.low_ms,
            high_ms: modes.high_ms,
        }
    });
    let latencies: Vec<LatencyModes> = latencies.collect();
    (!latencies.is_empty()).then_some(FigureNotice::TwoModes { latencies })
}

/// Notices on models and servers that change.
fn name_changes(metrics: &Metrics) -> impl Iterator<Item = FigureNotice> {
    let changes = metrics.name_changes.iter().cloned();
    changes.map(|change| FigureNotice::ServerNameChanged { change })
}

/// Notice on chunks in bursts.
fn bursts(metrics: &Metrics) -> Option<FigureNotice> {
    let bursts = metrics.bursts.as_ref().filter(|bursts| bursts.is_bursty)?;
    Some(FigureNotice::Bursts {
        together_percent: bursts.together_percent,
        interval_ms: bursts.interval_ms?,
    })
}

/// Notice on a server that withholds the arguments of tool calls.
fn buffered_calls(metrics: &Metrics) -> Option<FigureNotice> {
    let found = metrics.buffered_calls?;
    Some(FigureNotice::BufferedCalls {
        buffered: found.constrained.buffered,
        answers: found.constrained.answers,
        window_ms: LATE_WINDOW_NS / 1_000_000,
        silence_s: found.silence_ns as f64 / 1e9,
        control_buffered: found.control.map_or(0, |control| control.buffered),
        controls: found.control.map_or(0, |control| control.answers),
    })
}

/// Notice on tools that are not in the prompt. The synthetic model has no chat template, and never
/// counts them.
fn without_tools(report: &Report) -> Option<FigureNotice> {
    let is_synthetic =
        |notice: &Notice| matches!(notice, Notice::Bench(BenchNotice::SyntheticModel { .. }));
    let PromptsWithoutTools {
        requests,
        input_tokens,
        tool_bytes,
    } = report
        .metrics
        .findings
        .without_tools
        .filter(|_| !report.notices.iter().any(is_synthetic))?;
    Some(FigureNotice::PromptsWithoutTools {
        requests,
        input_tokens,
        tool_bytes,
    })
}

/// Notice on a control arm whose answers were all cut.
fn controls_cut(metrics: &Metrics) -> Option<FigureNotice> {
    let control = metrics.arm(Arm::Control)?;
    metrics
        .are_controls_all_cut()
        .then(|| FigureNotice::ControlsCut {
            controls: control.count(&totals::COMPLETED),
        })
}

/// Notice where constrained answers break their constraint as often as control answers.
fn no_effect(metrics: &Metrics, state: State) -> Option<FigureNotice> {
    let rate = |arm| metrics.rate(Figure::of(&rates::COMPLIANCE, Some(arm)));
    let (with, without) = (rate(Arm::Constrained)?, rate(Arm::Control)?);
    let seen_enforced = state == State::Enforced;
    let is_proved = seen_enforced && with.hits == with.of;
    (with.low_percent <= without.percent && !is_proved).then_some(FigureNotice::NoEffect {
        broken: with.of - with.hits,
        answers: with.of,
        control_broken: without.of - without.hits,
        controls: without.of,
        seen_enforced,
    })
}
