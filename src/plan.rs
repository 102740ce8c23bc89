//! Flags to a validated, typed plan. Reads the command line's types and the environment's API key; opens no file but through
//! the layers it configures, and no connection.

mod arms;
mod calibrate;
mod compare;
mod dataset;
mod engines;
mod mask;
mod mix;
mod preflight;
mod report;
mod score;
mod serve;
mod traffic;
mod unconstrained;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::backend::{ConstraintDialect, Sampling, ServerKind};
use crate::cli::{BenchArgs, ConstraintArgs, OutputArgs, SamplingArgs, ServerArgs};
use crate::compare::gate::Undecided;
use crate::compare::rules::Limit;
use crate::constraint::GrammarDialect;
use crate::dataset::{DatasetName, DatasetPlan, JsonSchemaSource};
use crate::driver::{ApiKey, Endpoint};
use crate::engine::{EngineName, EnginePolicy};
use crate::error::{Error, Result};
use crate::evaluate::EvaluateOptions;
use crate::metrics::{Answers, MetricsOptions, Slo};
use crate::preflight::gate::Unenforced;
use crate::report::LatencyMetric;
use crate::report::format::{self, FormOptions};
pub use arms::{ArmsPlan, AtOnce, BenchPlan, ContenderPlan, How, Order, PORT, PlannedRun, bench_plan};
pub use calibrate::calibrate_plan;
pub use compare::compare_plan;
pub use engines::Pace;
pub use mask::{Format, MeasureOutput, MeasurePlan, mask_plan};
pub use preflight::{Dialects, FeaturesPlan, PreflightPlan, PreflightTarget, preflight_plan};
pub use report::{ReportPlan, report_plan};
pub use score::score_plan;
pub use serve::serve_plan;
pub use traffic::Traffic;

/// What a run does, complete before anything is sent.
#[derive(Clone, Debug)]
pub struct RunPlan {
    pub target: Target,
    pub backend: ServerKind,
    pub dataset: DatasetPlan,
    pub constraint: ConstraintPlan,
    pub traffic: Traffic,
    pub request: RequestPlan,
    pub evaluate: EvaluateOptions,
    pub metrics: MetricsOptions,
    pub output: OutputPlan,
    /// Tokenizer asked for; `None` is the embedded one.
    pub tokenizer: Option<String>,
}

/// Who answers.
#[derive(Clone, Debug)]
pub enum Target {
    /// The embedded engine, started for this run.
    Embedded { engine: EngineName, policy: EnginePolicy, pace: Pace },
    /// A server that runs already.
    Server(ServerTarget),
}

/// A server that runs already, as the user named it.
#[derive(Clone, Debug)]
pub struct ServerTarget {
    pub endpoint: Endpoint,
    pub model: Option<String>,
    pub served_model_name: Option<String>,
    /// How long it may take to become ready; zero does not wait.
    pub ready_timeout: Duration,
}

/// How constraints travel; `None` is decided by what the server says of itself.
#[derive(Clone, Debug)]
pub struct ConstraintPlan {
    pub dialect: Option<ConstraintDialect>,
    pub grammar_dialect: Option<GrammarDialect>,
    /// The decoding engine as the user named it.
    pub guided_decoding_backend: Option<String>,
    /// Say where `auto` sends each distinct constraint.
    pub explain: bool,
    /// What to do about a server that drops the constraint; `None` does not ask.
    pub preflight: Option<Unenforced>,
}

/// What every request carries beside its case.
#[derive(Clone, Debug)]
pub struct RequestPlan {
    pub stream: bool,
    pub sampling: Sampling,
    pub ignore_eos: bool,
    pub extra_body: Option<Map<String, Value>>,
    pub request_id_prefix: Option<String>,
}

/// What is kept and shown.
#[derive(Clone, Debug)]
pub struct OutputPlan {
    pub save: bool,
    pub detailed: bool,
    /// Whether the result is a line below what its file holds, rather than the file.
    pub append: bool,
    /// Whether the failing cases are kept in a file.
    pub failures: bool,
    /// Whether the saved result is joined by vLLM's records for the PyTorch benchmark database.
    pub pytorch: bool,
    /// Forms of the report, and where each is written to.
    pub files: Vec<(format::Format, PathBuf)>,
    pub forms: FormOptions,
    pub directory: Option<PathBuf>,
    pub filename: Option<String>,
    pub metadata: Vec<(String, String)>,
    pub label: Option<String>,
    pub percentile_metrics: Vec<LatencyMetric>,
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

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 8000;

impl RunPlan {
    /// Checks the flags against each other and turns them into a plan. `api_key` is `OPENAI_API_KEY`'s value, if set.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn new(arguments: &BenchArgs, api_key: Option<String>) -> Result<Self> {
        let backend = arguments.server.backend.unwrap_or(ServerKind::Vllm);
        unconstrained::refuse(arguments, backend)?;
        let dataset = dataset::name(arguments, backend)?;
        let target = target(arguments, backend, api_key)?;
        let (traffic, num_prompts) = traffic::traffic(&arguments.traffic)?;
        Ok(Self {
            backend,
            dataset: dataset::plan(arguments, backend, dataset, num_prompts)?,
            constraint: ConstraintPlan {
                dialect: arguments.constraint.dialect(),
                grammar_dialect: arguments.constraint.grammar_notation(),
                guided_decoding_backend: arguments.constraint.engine().map(str::to_owned),
                explain: arguments.constraint.explain,
                preflight: preflighting(&arguments.constraint),
            },
            traffic,
            request: request(arguments, backend, dataset)?,
            evaluate: EvaluateOptions { assert_formats: !arguments.constraint.no_format_assertion },
            metrics: metrics(&arguments.output, backend, streams(arguments, backend))?,
            output: output(&arguments.output, backend)?,
            tokenizer: arguments.server.tokenizer.clone(),
            target,
        })
    }

    /// Things that are allowed, and that their user would want to be told of.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.request.ignore_eos && self.dataset.constrained_ratio > 0.0 {
            warnings.push(
                "--ignore-eos on constrained requests: servers sample unconstrained text after the constraint is met, so answers \
                 that were right become wrong"
                    .to_owned(),
            );
        }
        let own = [self.dataset.regex.is_some(), self.dataset.choice.is_some(), self.dataset.grammar_path.is_some()];
        if own.contains(&true) || matches!(self.dataset.json_schema, JsonSchemaSource::Path(_)) {
            warnings.push(
                "the constraint is yours, the prompt is the shipped one: --dataset custom takes both from a file".to_owned(),
            );
        }
        warnings.extend(self.endpoint_warning());
        warnings.extend(self.going_on());
        let named = self.output.directory.is_some() || self.output.filename.is_some() || !self.output.metadata.is_empty();
        if named && !self.output.save && !self.output.failures {
            warnings.push("--result-dir, --result-filename and --metadata do nothing without --save-result".to_owned());
        }
        warnings
    }

    /// Whether a request of the run can have a constraint.
    pub fn takes_constraints(&self) -> bool {
        self.backend.takes_constraints() && !self.dataset.name.is_plain()
    }

    /// What is asked of servers because the dataset is what it is.
    fn going_on(&self) -> Option<String> {
        let name = self.dataset.name;
        (self.request.ignore_eos && dataset::is_random(name)).then(|| {
            format!(
                "servers are asked to go on past the end of their answers (ignore_eos), as vllm bench serve asks with the dataset \
                 {name}; --disable-ignore-eos lets them end"
            )
        })
    }

    /// A path that the backend's requests do not fit.
    fn endpoint_warning(&self) -> Option<String> {
        let Target::Server(ServerTarget { endpoint, .. }) = &self.target else { return None };
        (!self.backend.fits(&endpoint.path))
            .then(|| format!("--endpoint {} does not look like the endpoint of --backend {}", endpoint.path, self.backend))
    }
}

fn target(arguments: &BenchArgs, backend: ServerKind, api_key: Option<String>) -> Result<Target> {
    let ServerArgs { base_url, host, port, model, .. } = &arguments.server;
    let named = base_url.is_some() || host.is_some() || port.is_some() || model.is_some();
    if !named {
        return embedded_target(arguments, backend);
    }
    let mut embedded = engines::embedded_flags(&arguments.embedded, &arguments.engine);
    embedded.extend(arguments.constraint.explain.then_some("--explain"));
    if let Some(flag) = embedded.first() {
        return Err(Error::usage(format!("a server is named, and only the embedded engine takes {flag}"))
            .hint(format!("leave {flag} out, or name no server")));
    }
    let base_url = match base_url {
        Some(url) => checked_url(url)?,
        None => format!("http://{}:{}", bracketed(host.as_deref().unwrap_or(DEFAULT_HOST)), port.unwrap_or(DEFAULT_PORT)),
    };
    Ok(Target::Server(ServerTarget {
        endpoint: Endpoint {
            base_url,
            path: arguments.server.endpoint.clone().unwrap_or_else(|| backend.path(streams(arguments, backend)).to_owned()),
            headers: key_values("--header", &arguments.server.header)?,
            api_key: api_key.map(ApiKey::new),
            insecure: arguments.server.insecure,
        },
        model: model.clone(),
        served_model_name: arguments.server.served_model_name.clone(),
        ready_timeout: Duration::from_secs(arguments.server.ready_check_timeout_sec),
    }))
}

fn embedded_target(arguments: &BenchArgs, backend: ServerKind) -> Result<Target> {
    if !backend.is_embedded() {
        return Err(Error::usage(format!("no server is named, and the embedded engine is no such backend: {backend}"))
            .hint("name a server with --base-url, or leave --backend out"));
    }
    if let Some(dialect) = arguments.constraint.dialect().filter(|dialect| !dialect.is_embedded()) {
        return Err(Error::usage(format!("no server is named, and the embedded engine reads no such dialect: {dialect}"))
            .hint("name a server with --base-url, or leave --constraint-dialect out"));
    }
    let engine = match arguments.constraint.engine() {
        Some(name) => EngineName::parse(name)?,
        None => EngineName::Guidance,
    };
    let server = &arguments.server;
    let rows = [
        ("--endpoint", server.endpoint.is_some()),
        ("--served-model-name", server.served_model_name.is_some()),
        ("--header", !server.header.is_empty()),
        ("--insecure", server.insecure),
        ("--ready-check-timeout-sec", server.ready_check_timeout_sec > 0),
    ];
    if let Some((flag, _)) = rows.iter().find(|(_, given)| *given) {
        return Err(Error::usage(format!("no server is named, and the embedded engine takes no {flag}"))
            .hint(format!("name a server with --base-url, or leave {flag} out")));
    }
    Ok(Target::Embedded { engine, policy: engines::policy(&arguments.engine), pace: engines::pace(&arguments.embedded)? })
}

fn checked_url(url: &str) -> Result<String> {
    let known = url.starts_with("http://") || url.starts_with("https://");
    if known {
        return Ok(url.to_owned());
    }
    Err(Error::usage(format!("--base-url is not an http or https URL: {url}")).hint(format!("try http://{url}")))
}

/// An IPv6 address goes into brackets in a URL.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() }
}

fn preflighting(flags: &ConstraintArgs) -> Option<Unenforced> {
    match (flags.skip_preflight, flags.allow_unenforced) {
        (true, _) => None,
        (false, true) => Some(Unenforced::Allow),
        (false, false) => Some(Unenforced::Refuse),
    }
}

fn request(arguments: &BenchArgs, backend: ServerKind, dataset: DatasetName) -> Result<RequestPlan> {
    let SamplingArgs { extra_body, ignore_eos, .. } = &arguments.sampling;
    let own = extra_body.as_deref().map(json_object).transpose()?;
    Ok(RequestPlan {
        stream: streams(arguments, backend),
        sampling: sampling(&arguments.sampling, backend),
        ignore_eos: *ignore_eos || dataset::goes_on(&arguments.dataset, backend, dataset),
        extra_body: if arguments.traffic.continuous_usage { Some(counting(backend, own)?) } else { own },
        request_id_prefix: arguments.server.request_id_prefix.clone(),
    })
}

/// Whether answers are asked for as streams: where nothing is generated, there is nothing to stream.
fn streams(arguments: &BenchArgs, backend: ServerKind) -> bool {
    !arguments.traffic.disable_stream && backend.generates()
}

/// The fields that ask for usage in every chunk, beside the user's own.
fn counting(backend: ServerKind, own: Option<Map<String, Value>>) -> Result<Map<String, Value>> {
    const FIELD: &str = "stream_options";
    if !backend.takes_stream_options() {
        return Err(Error::usage(format!("--continuous-usage has no field on --backend {backend}"))
            .hint("leave it out: where such a server counts tokens in its chunks, that is read as it is"));
    }
    let mut fields = own.unwrap_or_default();
    if fields.contains_key(FIELD) {
        return Err(Error::usage(format!("--continuous-usage sets {FIELD}, which --extra-body sets as well"))
            .hint("leave one of them out"));
    }
    fields.insert(FIELD.to_owned(), json!({"include_usage": true, "continuous_usage_stats": true}));
    Ok(fields)
}

/// What was typed; and the penalty of 1 that vLLM's own client sends, so that it is in the record as well.
fn sampling(flags: &SamplingArgs, backend: ServerKind) -> Sampling {
    let neutral = (backend == ServerKind::Vllm).then_some(1.0);
    Sampling {
        temperature: flags.temperature,
        top_p: flags.top_p,
        top_k: flags.top_k,
        min_p: flags.min_p,
        frequency_penalty: flags.frequency_penalty,
        presence_penalty: flags.presence_penalty,
        repetition_penalty: flags.repetition_penalty.or(neutral),
        seed: None,
    }
}

fn json_object(text: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(text).map_err(|error| {
        Error::usage(format!("--extra-body is not a JSON object ({error}): {text}")).hint(r#"try --extra-body '{"seed": 1}'"#)
    })
}

fn metrics(flags: &OutputArgs, backend: ServerKind, streamed: bool) -> Result<MetricsOptions> {
    if let Some(wrong) = flags.metric_percentiles.iter().find(|percentile| !(0.0..=100.0).contains(*percentile)) {
        return Err(Error::usage(format!("--metric-percentiles is not between 0 and 100: {wrong}")).hint("try 50,90,99"));
    }
    let answers = if backend.generates() { Answers::Generated } else { Answers::Computed };
    Ok(MetricsOptions { percentiles: flags.metric_percentiles.clone(), goodput: goodput(&flags.goodput)?, streamed, answers })
}

fn goodput(pairs: &[String]) -> Result<Option<Slo>> {
    let mut slo = Slo::default();
    for pair in pairs {
        let wrong = || {
            Error::usage(format!("--goodput is not METRIC:MS: {pair}"))
                .hint("give ttft, tpot or e2el with milliseconds, e.g. --goodput ttft:200 e2el:5000")
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

fn output(flags: &OutputArgs, backend: ServerKind) -> Result<OutputPlan> {
    use format::Format;
    let files = [
        (Format::Html, &flags.html),
        (Format::Markdown, &flags.markdown),
        (Format::Csv, &flags.csv),
        (Format::Junit, &flags.junit),
    ];
    let files: Vec<(Format, PathBuf)> = files.into_iter().filter_map(|(format, path)| Some((format, path.clone()?))).collect();
    refuse_one_file_twice(&files, flags.run_log.as_ref())?;
    Ok(OutputPlan {
        save: flags.save_result || flags.save_detailed || flags.append_result,
        detailed: flags.save_detailed,
        append: flags.append_result,
        failures: flags.save_failures,
        pytorch: false,
        files,
        forms: FormOptions { detailed: flags.save_detailed, junit_per: flags.junit_per, plot: flags.plot },
        directory: flags.result_dir.clone(),
        filename: flags.result_filename.clone(),
        metadata: key_values("--metadata", &flags.metadata)?,
        label: flags.label.clone(),
        percentile_metrics: match &flags.percentile_metrics[..] {
            [] => unconstrained::default_latencies(backend),
            named => named.iter().map(|name| name.parse::<LatencyMetric>()).collect::<Result<_>>()?,
        },
        progress: !flags.disable_tqdm,
        run_log: match (&flags.run_log, flags.no_run_log) {
            (Some(path), _) => RunLogPlan::At(path.clone()),
            (None, true) => RunLogPlan::Off,
            (None, false) => RunLogPlan::Default,
        },
        require: compare::limits(&flags.require)?,
        undecided: compare::undecided(flags.undecided),
    })
}

/// Two reports in one file, or a report over the log, would leave one of them.
fn refuse_one_file_twice(files: &[(format::Format, PathBuf)], run_log: Option<&PathBuf>) -> Result<()> {
    let paths: Vec<&PathBuf> = files.iter().map(|(_, path)| path).chain(run_log).collect();
    let twice = paths.iter().enumerate().find(|(place, path)| paths[..*place].contains(path));
    twice.map_or(Ok(()), |(_, path)| {
        Err(Error::usage(format!("two outputs would be one file: {}", path.display())).hint("name a file for each"))
    })
}

fn key_values(flag: &str, pairs: &[String]) -> Result<Vec<(String, String)>> {
    let split = |pair: &String| {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or_else(|| Error::usage(format!("{flag} is not KEY=VALUE: {pair}")).hint(format!("try {flag} name=value")))?;
        Ok((key.trim().to_owned(), value.to_owned()))
    };
    pairs.iter().map(split).collect()
}

#[cfg(test)]
mod tests;
