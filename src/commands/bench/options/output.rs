//! Flags to what is counted, kept and shown. Opens no file.

use std::path::PathBuf;

use crate::backend::ServerKind;
use crate::commands::bench::args::OutputArgs;
use crate::commands::bench::options::non_generative;
use crate::commands::compare::options;
use crate::commands::flags::environment;
use crate::compare::gate::Undecided;
use crate::compare::rules::Limit;
use crate::error::{Error, Result};
use crate::metrics::{Answers, MetricsOptions, Slo};
use crate::metrics::{LatencyMetric, QueueMetric};
use crate::record::ReportSettings;
use crate::report::format::{self, FormOptions};
use crate::report::requests_page::Thresholds;
use crate::report::saved::ResultFormat;

/// What is kept and shown.
#[derive(Clone, Debug)]
pub struct OutputPlan {
    pub save: bool,
    /// The layout of the saved result.
    pub result_format: ResultFormat,
    /// Whether the result is a line below what its file holds, rather than the file.
    pub append: bool,
    /// Whether the failing cases are kept in a file.
    pub failures: bool,
    /// Whether a page of what each request did when is kept, and where gaps change their colour on it.
    pub timeline: Option<Thresholds>,
    /// Whether a page of the lengths of prompts and answers is kept.
    pub lengths: bool,
    /// Whether the saved result is joined by vLLM's records for the PyTorch benchmark database.
    pub pytorch: bool,
    /// Forms of the report, and where each is written to.
    pub files: Vec<(format::Format, PathBuf)>,
    pub forms: FormOptions,
    pub directory: Option<PathBuf>,
    pub filename: Option<String>,
    pub progress: bool,
    pub run_log: RunLogPlan,
    /// Bounds that the run has to keep.
    pub require: Vec<Limit>,
    /// What a bound counts as that cannot be told of.
    pub undecided: Undecided,
}

/// Where the run is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunLogPlan {
    /// In this file.
    At(PathBuf),
    /// Beside the saved result, or in the user's cache folder.
    Default,
    /// Nowhere.
    Off,
}

/// What is computed.
///
/// # Errors
/// A percentile that is none, or an objective that is none.
pub(crate) fn metrics(flags: &OutputArgs, backend: ServerKind, streamed: bool) -> Result<MetricsOptions> {
    if let Some(wrong) = flags.metric_percentiles.iter().find(|percentile| !(0.0..=100.0).contains(*percentile)) {
        return Err(Error::usage(format!("--metric-percentiles is not between 0 and 100: {wrong}")).hint("try 50,90,99"));
    }
    let answers = if backend.generates() { Answers::Generated } else { Answers::Computed };
    Ok(MetricsOptions { percentiles: flags.metric_percentiles.clone(), goodput: goodput(&flags.goodput)?, streamed, answers })
}

/// The objective that has no limit: a valid answer.
const VALID: &str = "valid";

fn goodput(pairs: &[String]) -> Result<Option<Slo>> {
    let mut slo = Slo::default();
    for pair in pairs {
        if pair == VALID {
            if std::mem::replace(&mut slo.valid, true) {
                return Err(Error::usage(format!("--goodput names {VALID} twice")).hint("name it once"));
            }
            continue;
        }
        let wrong = || {
            Error::usage(format!("--goodput is not METRIC:MS: {pair}"))
                .hint("give ttft, tpot or e2el with milliseconds, or valid, e.g. --goodput ttft:200 e2el:5000 valid")
        };
        let (metric, limit_ms) = pair.split_once(':').ok_or_else(wrong)?;
        let limit_ms = limit_ms.parse::<f64>().ok().filter(|limit| limit.is_finite() && *limit >= 0.0).ok_or_else(wrong)?;
        let place = match metric {
            "ttft" => &mut slo.ttft_ms,
            "tpot" => &mut slo.tpot_ms,
            "e2el" => &mut slo.e2el_ms,
            _ => return Err(wrong()),
        };
        if place.replace(limit_ms).is_some() {
            return Err(Error::usage(format!("--goodput names a metric twice: {pair}")).hint("give each metric one limit"));
        }
    }
    Ok((!pairs.is_empty()).then_some(slo))
}

/// What the report shows.
///
/// # Errors
/// A pair or a metric that is none.
pub(crate) fn report(flags: &OutputArgs, backend: ServerKind) -> Result<ReportSettings> {
    let (latencies, queue_metrics) = percentile_metrics(&flags.percentile_metrics)?;
    Ok(ReportSettings {
        percentile_metrics: match &flags.percentile_metrics[..] {
            [] => non_generative::default_latencies(backend),
            _ => latencies,
        },
        queue_metrics,
        detailed: flags.save_detailed,
        label: flags.label.clone(),
        metadata: key_values("--metadata", &flags.metadata)?,
    })
}

/// What is kept, and where.
///
/// # Errors
/// A bound that is none.
pub(crate) fn output(flags: &OutputArgs) -> Result<OutputPlan> {
    use format::Format;
    let files = [
        (Format::Html, &flags.html),
        (Format::Markdown, &flags.markdown),
        (Format::Csv, &flags.csv),
        (Format::Junit, &flags.junit),
    ];
    let files: Vec<(Format, PathBuf)> = files.into_iter().filter_map(|(format, path)| Some((format, path.clone()?))).collect();
    Ok(OutputPlan {
        save: flags.save_result || flags.save_detailed || flags.append_result,
        result_format: flags.result_format,
        append: flags.append_result,
        failures: flags.save_failures,
        timeline: if flags.plot_timeline { Some(thresholds(&flags.timeline_itl_thresholds)?) } else { None },
        lengths: flags.plot_dataset_stats,
        pytorch: environment::wants_pytorch_records(),
        files,
        forms: FormOptions { detailed: flags.save_detailed, junit_per: flags.junit_per, plot: flags.plot },
        directory: flags.result_dir.clone(),
        filename: flags.result_filename.clone(),
        progress: !flags.disable_tqdm,
        run_log: match (&flags.run_log, flags.no_run_log) {
            (Some(path), _) => RunLogPlan::At(path.clone()),
            (None, true) => RunLogPlan::Off,
            (None, false) => RunLogPlan::Default,
        },
        require: options::limits(&flags.require)?,
        undecided: options::undecided(flags.undecided),
    })
}

fn thresholds(values: &[f64]) -> Result<Thresholds> {
    match values {
        &[low_ms, high_ms] if low_ms >= 0.0 && high_ms >= low_ms && high_ms.is_finite() => Ok(Thresholds { low_ms, high_ms }),
        other => Err(Error::usage(format!("--timeline-itl-thresholds is not two times, the shorter first: {other:?}"))
            .hint("give milliseconds, e.g. 25,50")),
    }
}

/// The latencies that were named, and those of them in which the wait before sending is.
fn percentile_metrics(names: &[String]) -> Result<(Vec<LatencyMetric>, Vec<QueueMetric>)> {
    let (mut latencies, mut queueing) = (Vec::new(), Vec::new());
    for name in names {
        match name.parse::<LatencyMetric>() {
            Ok(latency) => latencies.push(latency),
            Err(_) => queueing.push(name.parse::<QueueMetric>()?),
        }
    }
    Ok((latencies, queueing))
}

/// Pairs of a flag, in the order given.
///
/// # Errors
/// One of them is none.
pub(crate) fn key_values(flag: &str, pairs: &[String]) -> Result<Vec<(String, String)>> {
    let split = |pair: &String| {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or_else(|| Error::usage(format!("{flag} is not KEY=VALUE: {pair}")).hint(format!("try {flag} name=value")))?;
        Ok((key.trim().to_owned(), value.to_owned()))
    };
    pairs.iter().map(split).collect()
}
