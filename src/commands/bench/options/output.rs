//! What is counted, kept and shown: the flags, checked. Opens no file.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::bench::options::non_generative;
use crate::commands::flags::checks::key_values;
use crate::commands::flags::environment;
use crate::commands::flags::gate::{UNDECIDED, limits};
use crate::commands::flags::paths::{OutputFolder, OutputName, OutputPath};
use crate::commands::flags::values::{described, named};
use sobench_backend::ServerKind;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_report::format::FormOptions;
use sobench_report::junit::JunitPer;
use sobench_report::requests_page::Thresholds;
use sobench_report::saved::ResultFormat;
use sobench_results::compare::gate::Undecided;
use sobench_results::compare::rules::Limit;
use sobench_results::metrics::{Answers, LatencyMetric, MetricsOptions, QueueMetric, Slo};
use sobench_results::record::ReportSettings;

/// What is printed and kept.
#[derive(Args, Clone, Debug)]
pub struct OutputArgs {
    /// Write the result to a JSON file
    #[arg(long, visible_alias = "save-results")]
    pub save_result: bool,
    /// Also keep every request's times, text and verdict in the file
    #[arg(long)]
    pub save_detailed: bool,
    /// Layout of the result file: sobench's own, that of `vllm bench serve`, or that of vLLM's
    /// structured-output script; the default name follows it
    #[arg(long, value_name = "LAYOUT", default_value = ResultFormat::Sobench.name(),
          value_parser = named(&ResultFormat::ALL, ResultFormat::name))]
    pub result_format: ResultFormat,
    /// Add the result to the file as one line, below those that it holds; implies --save-result
    #[arg(long)]
    pub append_result: bool,
    /// Write the failing cases, whole, to a file (JSONL) beside the result or in its folder
    #[arg(long)]
    pub save_failures: bool,
    /// Also write the report as a page
    #[arg(long, value_name = "PATH")]
    pub html: Option<OutputPath>,
    /// Also write the report as a comment for a pull request
    #[arg(long, value_name = "PATH")]
    pub markdown: Option<OutputPath>,
    /// Also write a line for every request
    #[arg(long, value_name = "PATH")]
    pub csv: Option<OutputPath>,
    /// Also write the requests as tests for CI
    #[arg(long, value_name = "PATH")]
    pub junit: Option<OutputPath>,
    /// What one test of --junit is
    #[arg(long, value_name = "WHAT", requires = "junit", default_value = JunitPer::Case.name(),
          value_parser = named(&JunitPer::ALL, JunitPer::name))]
    pub junit_per: JunitPer,
    /// Draw latencies and the run over its time below the report
    #[arg(long)]
    pub plot: bool,
    /// Write a page of what each request did when, beside the result or in its folder
    #[arg(long)]
    pub plot_timeline: bool,
    /// Where gaps between chunks change their colour on that page, in ms
    #[arg(
        long,
        value_name = "MS,MS",
        value_delimiter = ',',
        num_args = 1,
        default_value = "25,50",
        requires = "plot_timeline",
        allow_negative_numbers = true
    )]
    pub timeline_itl_thresholds: Vec<f64>,
    /// Write a page of the lengths of prompts and answers, beside the result or in its folder
    #[arg(long)]
    pub plot_dataset_stats: bool,
    /// Folder of the result file; made if missing [default: the current one]
    #[arg(long, value_name = "PATH")]
    pub result_dir: Option<OutputFolder>,
    /// Name of the result file [default: made from ratio, backend, rate, model, dataset, number and
    /// length]
    #[arg(long, value_name = "NAME")]
    pub result_filename: Option<OutputName>,
    /// File that every request is written to when it ends; `report`, `score` and `compare` read it
    /// [default: beside the saved result, else in the user's cache folder]
    #[arg(long, value_name = "PATH")]
    pub run_log: Option<OutputPath>,
    /// Write no run log
    #[arg(long, conflicts_with = "run_log")]
    pub no_run_log: bool,
    /// Bound that the run has to keep, for exit code 0: a metric of the saved result, >= or <=, and
    /// a number, such as 'correct_rate>=99.5' or 'p99_ttft_ms<=200'; may be given several times
    #[arg(long, value_name = "RULE")]
    pub require: Vec<String>,
    /// What a bound counts as that the samples are too few to tell of
    #[arg(long, value_name = "WHAT", default_value = "pass", value_parser = described(&UNDECIDED))]
    pub undecided: Undecided,
    /// Facts to keep in the result
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub metadata: Vec<String>,
    /// A name for the run, kept in the result
    #[arg(long)]
    pub label: Option<String>,
    /// Metrics to print in full [default: ttft,tpot,itl; e2el where nothing is generated]
    #[arg(long, value_name = "A,B", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(
              LatencyMetric::ALL.map(LatencyMetric::key).into_iter().chain(QueueMetric::ALL.map(QueueMetric::key))))]
    pub percentile_metrics: Vec<String>,
    /// Percentiles of those metrics
    #[arg(long, value_name = "P,P", value_delimiter = ',', default_value = "99")]
    pub metric_percentiles: Vec<f64>,
    /// Service-level objectives in ms that a good request meets: ttft, tpot, e2el; and `valid`, for
    /// a valid answer
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    pub goodput: Vec<String>,
    /// No progress on stderr
    #[arg(long)]
    pub disable_tqdm: bool,
}

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
    /// Whether a page of what each request did when is kept, and where gaps change their colour on
    /// it.
    pub timeline: Option<Thresholds>,
    /// Whether a page of the lengths of prompts and answers is kept.
    pub lengths: bool,
    /// Whether the saved result is joined by vLLM's records for the PyTorch benchmark database.
    pub pytorch: bool,
    /// Forms of the report, and where each is written to.
    pub files: Vec<(OutputFormat, PathBuf)>,
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
pub(crate) fn metrics(
    flags: &OutputArgs,
    backend: ServerKind,
    streamed: bool,
) -> Result<MetricsOptions> {
    if let Some(wrong) = flags
        .metric_percentiles
        .iter()
        .find(|percentile| !(0.0..=100.0).contains(*percentile))
    {
        return Err(Error::usage(format!(
            "--metric-percentiles is not between 0 and 100: {wrong}"
        ))
        .hint("try 50,90,99"));
    }
    let answers = if backend.generates() {
        Answers::Generated
    } else {
        Answers::Computed
    };
    Ok(MetricsOptions {
        percentiles: flags.metric_percentiles.clone(),
        goodput: goodput(&flags.goodput)?,
        streamed,
        answers,
    })
}

/// The objective that has no limit: a valid answer.
const VALID: &str = "valid";

fn goodput(pairs: &[String]) -> Result<Option<Slo>> {
    let mut slo = Slo::default();
    for pair in pairs {
        if pair == VALID {
            if std::mem::replace(&mut slo.valid, true) {
                return Err(
                    Error::usage(format!("--goodput names {VALID} twice")).hint("name it once")
                );
            }
            continue;
        }
        let wrong = || {
            Error::usage(format!("--goodput is not METRIC:MS: {pair}"))
                .hint("give ttft, tpot or e2el with milliseconds, or valid, e.g. --goodput ttft:200 e2el:5000 valid")
        };
        let (metric, limit_ms) = pair.split_once(':').ok_or_else(wrong)?;
        let limit_ms = limit_ms
            .parse::<f64>()
            .ok()
            .filter(|limit| limit.is_finite() && *limit >= 0.0)
            .ok_or_else(wrong)?;
        let place = match metric {
            "ttft" => &mut slo.ttft_ms,
            "tpot" => &mut slo.tpot_ms,
            "e2el" => &mut slo.e2el_ms,
            _ => return Err(wrong()),
        };
        if place.replace(limit_ms).is_some() {
            return Err(
                Error::usage(format!("--goodput names a metric twice: {pair}"))
                    .hint("give each metric one limit"),
            );
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
    let files = [
        (OutputFormat::Html, &flags.html),
        (OutputFormat::Markdown, &flags.markdown),
        (OutputFormat::Csv, &flags.csv),
        (OutputFormat::Junit, &flags.junit),
    ];
    let files: Vec<(OutputFormat, PathBuf)> = files
        .into_iter()
        .filter_map(|(format, path)| Some((format, path.clone()?.into())))
        .collect();
    Ok(OutputPlan {
        save: flags.save_result || flags.save_detailed || flags.append_result,
        result_format: flags.result_format,
        append: flags.append_result,
        failures: flags.save_failures,
        timeline: if flags.plot_timeline {
            Some(thresholds(&flags.timeline_itl_thresholds)?)
        } else {
            None
        },
        lengths: flags.plot_dataset_stats,
        pytorch: environment::wants_pytorch_records(),
        files,
        forms: FormOptions {
            detailed: flags.save_detailed,
            junit_per: flags.junit_per,
            plot: flags.plot,
        },
        directory: flags.result_dir.clone().map(Into::into),
        filename: flags.result_filename.clone().map(Into::into),
        progress: !flags.disable_tqdm,
        run_log: match (&flags.run_log, flags.no_run_log) {
            (Some(path), _) => RunLogPlan::At(path.to_path_buf()),
            (None, true) => RunLogPlan::Off,
            (None, false) => RunLogPlan::Default,
        },
        require: limits(&flags.require)?,
        undecided: flags.undecided,
    })
}

fn thresholds(values: &[f64]) -> Result<Thresholds> {
    match values {
        &[low_ms, high_ms] if low_ms >= 0.0 && high_ms >= low_ms && high_ms.is_finite() => {
            Ok(Thresholds { low_ms, high_ms })
        }
        other => Err(Error::usage(format!(
            "--timeline-itl-thresholds is not two times, the shorter first: {other:?}"
        ))
        .hint("give milliseconds, e.g. 25,50")),
    }
}

/// The latencies that were named, and those of them in which the wait before sending is.
fn percentile_metrics(names: &[String]) -> Result<(Vec<LatencyMetric>, Vec<QueueMetric>)> {
    let (mut latencies, mut queueing) = (Vec::new(), Vec::new());
    for name in names {
        match LatencyMetric::ALL
            .into_iter()
            .find(|metric| metric.key() == name)
        {
            Some(latency) => latencies.push(latency),
            None => queueing.push(name.parse::<QueueMetric>()?),
        }
    }
    Ok((latencies, queueing))
}
