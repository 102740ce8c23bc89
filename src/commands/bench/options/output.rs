//! The flags of metrics, reports and output files.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::bench::options::non_generative;
use crate::commands::flags::checks::key_values;
use crate::commands::flags::environment;
use crate::commands::flags::gate::{UNDECIDED, limits};
use crate::commands::flags::paths::{OutputFolder, OutputName, OutputPath};
use crate::commands::flags::rendering::{DetailArgs, SaveArgs};
use crate::commands::flags::values::{described, named};
use sobench_backend::ServerKind;
use sobench_core::error::{Error, Result};
use sobench_core::output_files;
use sobench_core::output_format::OutputFormat;
use sobench_plan::metrics::TokenPrice;
use sobench_plan::metrics::{Answers, MetricsSettings, Slo};
use sobench_plan::record::ReportSettings;
use sobench_report::format::FormSettings;
use sobench_report::junit::JunitPer;
use sobench_report::requests_page::Thresholds;
use sobench_report::result_layout::ResultFormat;
use sobench_results::compare::gate::Undecided;
use sobench_results::compare::rules::LimitRule;
use sobench_results::metrics::registry::Metric;

/// The output flags.
#[derive(Args, Clone, Debug)]
pub struct OutputArgs {
    /// Write the result to a JSON file
    #[arg(long, visible_alias = "save-results")]
    pub save_result: bool,
    /// Write the result with times, text and verdict of each request; implies --save-result
    #[arg(long, alias = "output-details")]
    pub save_detailed: bool,
    /// Layout of the result file: sobench's own, that of `vllm bench serve`, or that of vLLM's
    /// structured-output script. The default file name depends on the layout
    #[arg(long, value_name = "LAYOUT", default_value = ResultFormat::Sobench.name(),
          value_parser = named(&ResultFormat::ALL, ResultFormat::name))]
    pub result_format: ResultFormat,
    /// Append the result to the file as one line; implies --save-result
    #[arg(long)]
    pub append_result: bool,
    /// Write the failing cases to a JSON Lines file beside the result, or in its folder
    #[arg(long)]
    pub save_failures: bool,
    #[command(flatten)]
    pub save: SaveArgs,
    /// Content of one test in a JUnit file
    #[arg(long, value_name = "WHAT", default_value = JunitPer::Case.name(),
          value_parser = named(&JunitPer::ALL, JunitPer::name))]
    pub junit_per: JunitPer,
    #[command(flatten)]
    pub detail: DetailArgs,
    /// Print charts of the latencies and of the run over time below the report
    #[arg(long)]
    pub plot: bool,
    /// Write an HTML timeline of all requests beside the result, or in its folder
    #[arg(long)]
    pub plot_timeline: bool,
    /// Gaps between chunks at which the color of the timeline changes, in ms
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
    /// Write an HTML page of prompt and answer lengths beside the result, or in its folder
    #[arg(long)]
    pub plot_dataset_stats: bool,
    /// Folder of the result file; created if missing [default: the current folder]
    #[arg(long, value_name = "PATH")]
    pub result_dir: Option<OutputFolder>,
    /// Name of the result file [default: built from ratio, backend, rate, model, dataset, number of
    /// requests and answer length]
    #[arg(long, value_name = "NAME")]
    pub result_filename: Option<OutputName>,
    /// Run log, which `report`, `score` and `compare` read [default: beside the saved result, or in
    /// the user's cache folder]. For a comparison, name a folder (logs/) or use the placeholders
    /// {dataset}, {engine} or {server}, {load}, {arm} and {repeat}
    #[arg(long, value_name = "PATH")]
    pub run_log: Option<OutputPath>,
    /// Write no run log
    #[arg(long, conflicts_with = "run_log")]
    pub no_run_log: bool,
    /// Threshold that the run must meet for exit code 0, such as 'correct_rate>=99.5' or
    /// 'p99_ttft_ms<=200': a metric of the saved result, >= or <=, and a number. Between arms, e.g.
    /// 'accuracy(prompt+constraint)>=accuracy(prompt)-3pp'. May be repeated
    #[arg(long, value_name = "RULE")]
    pub require: Vec<String>,
    /// Treat undecided thresholds as pass or fail [default: exit with 5]
    #[arg(long, value_name = "WHAT", value_parser = described(&UNDECIDED))]
    pub undecided: Option<Undecided>,
    /// Metadata to store in the result
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub metadata: Vec<String>,
    /// Name of the run, stored in the result
    #[arg(long, alias = "tag")]
    pub label: Option<String>,
    /// Metrics to print with percentiles [default: ttft,tpot,itl; e2el for backends without tokens]
    #[arg(long, value_name = "A,B", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(Metric::of_vllm().map(|(_, names)| names.key)))]
    pub percentile_metrics: Vec<String>,
    /// Percentiles of the metrics of --percentile-metrics
    #[arg(long, value_name = "P,P", value_delimiter = ',', default_value = "99")]
    pub metric_percentiles: Vec<f64>,
    /// Service-level objectives of goodput: limits of ttft, tpot and e2el in ms, and `valid` for a
    /// valid answer
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    pub goodput: Vec<String>,
    /// Price in USD of a million input tokens and of a million output tokens, for the cost of a
    /// right answer
    #[arg(long, value_name = "IN,OUT")]
    pub cost_per_million: Option<String>,
    /// Print no progress on stderr
    #[arg(long)]
    pub disable_tqdm: bool,
}

/// The plan of the output.
#[derive(Clone, Debug)]
pub struct OutputPlan {
    pub save: bool,
    /// The layout of the saved result.
    pub result_format: ResultFormat,
    /// Whether the result is appended to its file as one line.
    pub append: bool,
    /// Whether the failing cases are written to a file.
    pub failures: bool,
    /// The color thresholds of the timeline, if it is written.
    pub timeline: Option<Thresholds>,
    /// Whether the page of prompt and answer lengths is written.
    pub lengths: bool,
    /// Whether vLLM's records for the PyTorch benchmark database are written beside the result.
    pub pytorch: bool,
    /// Formats and paths of the report.
    pub files: Vec<(OutputFormat, PathBuf)>,
    pub forms: FormSettings,
    pub directory: Option<PathBuf>,
    pub filename: Option<String>,
    /// Whether files that sobench did not write are overwritten.
    pub force: bool,
    pub progress: bool,
    pub run_log: RunLogPlan,
    /// Thresholds that the run must meet.
    pub require: Vec<LimitRule>,
    /// The ruling on thresholds with too few samples.
    pub undecided: Option<Undecided>,
}

impl OutputPlan {
    /// Refuses to overwrite a file that sobench did not write.
    ///
    /// # Errors
    /// See [`output_files::refuse_foreign`].
    pub(crate) fn refuse_foreign(&self, path: &Path, flag: &str) -> Result<()> {
        match self.force {
            true => Ok(()),
            false => output_files::refuse_foreign(path, flag),
        }
    }
}

/// The destination of the run log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunLogPlan {
    /// This file.
    At(PathBuf),
    /// Beside the saved result, or in the user's cache folder.
    Default,
    /// No run log.
    Off,
}

/// The options of the metrics.
///
/// # Errors
/// A percentile or an objective is invalid.
pub(crate) fn metrics(
    flags: &OutputArgs,
    backend: ServerKind,
    streamed: bool,
) -> Result<MetricsSettings> {
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
    Ok(MetricsSettings {
        percentiles: flags.metric_percentiles.clone(),
        goodput: goodput(&flags.goodput)?,
        streamed,
        answers,
        cost_per_million: flags
            .cost_per_million
            .as_deref()
            .map(cost_per_million)
            .transpose()?,
    })
}

fn cost_per_million(prices: &str) -> Result<TokenPrice> {
    prices.parse().map_err(|error: Error| Error {
        what: format!("--cost-per-million: {}", error.what),
        ..error
    })
}

/// The objective without a limit: a valid answer.
const VALID: &str = "valid";

fn goodput(pairs: &[String]) -> Result<Option<Slo>> {
    let mut slo = Slo::default();
    for pair in pairs {
        if pair == VALID {
            if std::mem::replace(&mut slo.valid, true) {
                return Err(
                    Error::usage(format!("--goodput has {VALID} twice")).hint("give it once")
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
        let objective = match metric {
            "ttft" => &mut slo.ttft_ms,
            "tpot" => &mut slo.tpot_ms,
            "e2el" => &mut slo.e2el_ms,
            _ => return Err(wrong()),
        };
        if objective.replace(limit_ms).is_some() {
            return Err(
                Error::usage(format!("--goodput has a metric twice: {pair}"))
                    .hint("give each metric one limit"),
            );
        }
    }
    Ok((!pairs.is_empty()).then_some(slo))
}

/// The settings of the report.
///
/// # Errors
/// A metric or a pair of `--metadata` is invalid.
pub(crate) fn report(flags: &OutputArgs, backend: ServerKind) -> Result<ReportSettings> {
    let (latencies, queue_metrics) = percentile_metrics(&flags.percentile_metrics);
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

/// The plan of the output files.
///
/// # Errors
/// A threshold is invalid, or a file has an unknown format.
pub(crate) fn output(flags: &OutputArgs) -> Result<OutputPlan> {
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
        files: flags.save.files(&OutputFormat::ALL)?,
        forms: FormSettings {
            detailed: flags.save_detailed,
            junit_per: flags.junit_per,
            detail: flags.detail.detail,
            plot: flags.plot,
        },
        directory: flags.result_dir.clone().map(Into::into),
        filename: flags.result_filename.clone().map(Into::into),
        force: flags.save.force.force,
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
            "--timeline-itl-thresholds is not two ascending times: {other:?}"
        ))
        .hint("give milliseconds, e.g. 25,50")),
    }
}

/// The named latencies, and the named latencies that include the wait before sending.
fn percentile_metrics(names: &[String]) -> (Vec<String>, Vec<String>) {
    let is_queued =
        |name: &String| Metric::of_vllm().any(|(_, names)| names.queued && names.key == *name);
    names.iter().cloned().partition(|name| !is_queued(name))
}
