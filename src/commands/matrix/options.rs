//! The flags of a comparison, checked and turned into the plans of its runs.

mod order;
mod run_logs;
mod sweep;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum as _;

use self::order::BlocksReason;
pub use self::order::{InterleavedReason, Order};
pub use self::run_logs::RunLogPaths;
pub use self::sweep::SweepPlan;
use crate::commands::bench::args::BenchArgs;
use crate::commands::bench::matrix_args::MatrixOrder;
use crate::commands::bench::options::dataset::reset_flags_of_others;
use crate::commands::bench::options::{RunLogPlan, RunPlan, ServerTarget, Target, non_generative};
use crate::commands::compare;
use crate::commands::flags::environment;
use crate::commands::flags::gate::{Requirements, requirements};
use crate::commands::matrix::run_order::{Step, rounds};
use crate::commands::matrix::sweep::MAX_RUNS as MAX_SWEEP_RUNS;
use sobench_backend::ConstraintDialect;
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_core::speed::SpeedProfile;
use sobench_data::dataset::DatasetName;
use sobench_engine::EngineName;
use sobench_plan::metrics::Slo;
use sobench_report::contenders::Load;
use sobench_report::text::Detail;
use sobench_results::compare::Gate;

/// The placeholder of the port in a `--launch` command, and in the URL of its server.
pub const PORT: &str = "{port}";

/// The placeholder of the decoding engine in a `--launch` command.
const BACKEND: &str = "{backend}";

/// The default time limit of a launched server to become ready. A large model takes minutes to
/// load.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(600);

/// The default speed of the embedded server if several engines are compared on it.
const COMPARISON_SPEED: SpeedProfile = SpeedProfile::H100For8b;

/// The formats of `--save`.
const FORMATS: [OutputFormat; 4] = [
    OutputFormat::Json,
    OutputFormat::Markdown,
    OutputFormat::Html,
    OutputFormat::Text,
];

/// The largest number of runs of a comparison.
const MAX_RUNS: usize = 10_000;

/// The work of `sobench bench`.
#[derive(Clone, Debug)]
pub enum Benchmark {
    /// One run.
    Run(Box<RunPlan>),
    /// A comparison of several runs.
    Matrix(Box<MatrixPlan>),
    /// Print the plan.
    DryRun(Box<MatrixPlan>),
}

/// The plan of a comparison.
#[derive(Clone, Debug)]
pub struct MatrixPlan {
    pub contenders: Vec<ContenderPlan>,
    pub order: Order,
    /// Names in the order of the table.
    pub datasets: Vec<String>,
    pub loads: Vec<Load>,
    pub repeats: usize,
    /// Constrained, and control if the comparison has a control arm.
    pub arms: Vec<Arm>,
    pub slo: Option<Slo>,
    /// The share of requests that must be valid within the objectives, in percent.
    pub goodput_share: f64,
    /// Output files of the comparison.
    pub files: Vec<(OutputFormat, PathBuf)>,
    /// The run logs of `--run-log`; `None` for the default paths.
    pub run_logs: Option<RunLogPaths>,
    /// The plan of `--sweep`, whose loads are added while it runs.
    pub sweep: Option<SweepPlan>,
    /// The rules on the pairs of `--matrix-order paired`; `None` in another order.
    pub paired: Option<Gate>,
}

/// An engine or a server of the comparison.
#[derive(Clone, Debug)]
pub struct ContenderPlan {
    pub name: String,
    pub server: ContenderServer,
    /// A run for each dataset, load and arm.
    pub runs: Vec<PlannedRun>,
}

/// The server of a contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContenderServer {
    /// An embedded server for each run.
    Embedded,
    /// A running server.
    Running,
    /// A running server that takes its engine from each request.
    PerRequest,
    /// A server that is started with this command, which still contains `{port}`.
    Launched {
        command: String,
        ready_timeout: Duration,
    },
}

/// A run, and its indices in the comparison.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Indices into [`MatrixPlan::datasets`] and [`MatrixPlan::loads`].
    pub dataset: usize,
    pub load: usize,
    pub arm: Arm,
    pub plan: RunPlan,
}

/// A contender before its runs are planned.
struct ContenderFlags {
    name: String,
    server: ContenderServer,
    flags: BenchArgs,
}

impl Benchmark {
    /// Checks the flags of a benchmark, which `sobench matrix` makes a comparison in any case.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn new(arguments: &BenchArgs, is_matrix: bool) -> Result<Self> {
        let flags = &arguments.matrix;
        let is_comparison = is_matrix
            || arguments.constraint.guided_decoding_backend.len() > 1
            || arguments.dataset.dataset.len() > 1
            || !flags.target.is_empty()
            || !flags.launch.is_empty()
            || flags.repeat > 1
            || !flags.sweep_request_rate.is_empty()
            || !flags.sweep_max_concurrency.is_empty()
            || flags.sweep;
        if !is_comparison {
            if flags.matrix_order != MatrixOrder::Auto {
                let order = flags
                    .matrix_order
                    .to_possible_value()
                    .map(|value| value.get_name().to_owned())
                    .unwrap_or_default();
                return Err(Error::usage(format!(
                    "--matrix-order {order} applies to comparisons only"
                ))
                .hint(
                    "leave it out, or compare several servers: --target NAME=URL --target NAME=URL",
                ));
            }
            let mut run = RunPlan::new(arguments, environment::api_key)?;
            if let RunLogPlan::At(path) = &run.output.run_log {
                run.output.run_log = RunLogPlan::At(RunLogPaths::of_single(path, &run)?);
            }
            return Ok(if flags.dry_run {
                Self::DryRun(Box::new(MatrixPlan::single(run)))
            } else {
                Self::Run(Box::new(run))
            });
        }
        let plan = Box::new(MatrixPlan::new(arguments, is_matrix)?);
        Ok(if flags.dry_run {
            Self::DryRun(plan)
        } else {
            Self::Matrix(plan)
        })
    }
}

impl MatrixPlan {
    fn single(run: RunPlan) -> Self {
        let server = if matches!(run.target, Target::Embedded { .. }) {
            ContenderServer::Embedded
        } else {
            ContenderServer::Running
        };
        let dataset = run.settings.dataset.source.name().name().to_owned();
        let slo = run.settings.metrics.goodput;
        let runs = vec![PlannedRun {
            dataset: 0,
            load: 0,
            arm: Arm::Constrained,
            plan: run,
        }];
        Self {
            contenders: vec![ContenderPlan {
                name: "run".to_owned(),
                server,
                runs,
            }],
            order: Order::Blocks(BlocksReason::SingleContender),
            datasets: vec![dataset],
            loads: vec![Load::AsGiven],
            repeats: 1,
            arms: vec![Arm::Constrained],
            slo,
            goodput_share: 100.0,
            files: Vec::new(),
            run_logs: None,
            sweep: None,
            paired: None,
        }
    }

    fn new(arguments: &BenchArgs, is_matrix: bool) -> Result<Self> {
        refuse_single_run_flags(arguments)?;
        let flags = &arguments.matrix;
        let share = flags.goodput_share;
        if share.is_nan() || share <= 0.0 || share > 100.0 {
            return Err(Error::usage(format!(
                "--goodput-share is not a share in percent: {share}"
            ))
            .hint("give a number above 0 and up to 100"));
        }
        let mut contenders = contenders(arguments)?;
        let datasets = datasets(arguments)?;
        let loads = loads(arguments)?;
        let paired = paired(arguments, [contenders.len(), datasets.len(), loads.len()])?;
        if paired.is_some() {
            let rules = contenders.iter_mut();
            rules.for_each(|contender| contender.flags.output.require.clear());
        }
        // The arms of a run with --arms include those without a constraint.
        // Repeats of one server by `bench` are compared with those of another, which needs no control
        // arm.
        let is_repeated = contenders.len() == 1 && datasets.len() == 1 && loads.len() == 1;
        let is_left_out = is_repeated && !flags.sweep && !is_matrix;
        let has_one_run = flags.no_control_arm
            || is_left_out
            || paired.is_some()
            || !arguments.constraint.arms.is_empty();
        let arms = arms(has_one_run, &datasets)?;
        let repeats = flags.repeat as usize;
        let runs = [
            contenders.len(),
            datasets.len(),
            loads.len(),
            arms.len(),
            repeats,
            if flags.sweep { MAX_SWEEP_RUNS } else { 1 },
        ];
        let runs = runs.into_iter().fold(1_usize, usize::saturating_mul);
        if runs > MAX_RUNS {
            return Err(
                Error::usage(format!("a comparison has at most {MAX_RUNS} runs: {runs}"))
                    .hint("compare fewer engines, datasets or loads, or lower --repeat"),
            );
        }
        let sweep_flags: Vec<BenchArgs> = contenders
            .iter()
            .map(|contender| contender.flags.clone())
            .collect();
        let plan_contender = |contender: ContenderFlags| {
            let mut runs = Vec::new();
            for (dataset, name) in datasets.iter().enumerate() {
                for (load, level) in loads.iter().enumerate() {
                    let flags = if flags.sweep {
                        sweep::with_requests(&contender.flags, *level)
                    } else {
                        contender.flags.clone()
                    };
                    for arm in &arms {
                        let plan = one_run(&flags, *name, &datasets, *level, *arm)?;
                        runs.push(PlannedRun {
                            dataset,
                            load,
                            arm: *arm,
                            plan,
                        });
                    }
                }
            }
            Ok(ContenderPlan {
                name: contender.name,
                server: contender.server,
                runs,
            })
        };
        let contenders: Vec<ContenderPlan> = contenders
            .into_iter()
            .map(plan_contender)
            .collect::<Result<_>>()?;
        let slo = contenders
            .first()
            .and_then(|contender| contender.runs.first())
            .and_then(|run| run.plan.settings.metrics.goodput);
        let cores = std::thread::available_parallelism().ok().map(NonZero::get);
        let run_log = arguments.output.run_log.as_deref();
        let plan = Self {
            order: Order::new(flags.matrix_order, &contenders, cores)?,
            contenders,
            datasets: datasets.iter().map(|name| name.name().to_owned()).collect(),
            loads,
            repeats,
            arms,
            slo,
            goodput_share: share,
            files: arguments.output.save.files(match paired {
                Some(_) => &compare::FORMATS,
                None => &FORMATS,
            })?,
            paired,
            run_logs: run_log.map(RunLogPaths::parse).transpose()?,
            sweep: SweepPlan::new(sweep_flags, &datasets),
        };
        if let Some(paths) = &plan.run_logs {
            let rounds = rounds(&super::dimensions(&plan));
            paths.check(&plan, rounds.iter().flatten())?;
        }
        Ok(plan)
    }

    /// How much the page on the terminal shows (`--detail`).
    pub fn detail(&self) -> Detail {
        let mut runs = self.contenders.iter().flat_map(|contender| &contender.runs);
        runs.next()
            .map_or_else(Detail::default, |run| run.plan.output.forms.detail)
    }

    /// Refuses to overwrite a file that sobench did not write.
    ///
    /// # Errors
    /// A usage error that names `flag`.
    pub fn refuse_foreign(&self, path: &Path, flag: &str) -> Result<()> {
        let mut runs = self.contenders.iter().flat_map(|contender| &contender.runs);
        let run = runs.next();
        run.map_or(Ok(()), |run| run.plan.output.refuse_foreign(path, flag))
    }

    /// Whether the servers are started one at a time.
    pub fn is_launched(&self) -> bool {
        self.contenders
            .iter()
            .any(|contender| matches!(contender.server, ContenderServer::Launched { .. }))
    }

    /// Whether runs differ in their load.
    pub(super) fn has_several_loads(&self) -> bool {
        self.loads.len() > 1 || self.sweep.is_some()
    }

    /// The path of the run log of a run, if `--run-log` is given.
    pub(super) fn run_log(&self, step: &Step) -> Option<RunLogPlan> {
        let paths = self.run_logs.as_ref()?;
        Some(RunLogPlan::At(paths.path(self, step)))
    }
}

impl ContenderPlan {
    /// The run of a dataset, load and arm.
    pub fn run(&self, dataset: usize, load: usize, arm: Arm) -> Option<&RunPlan> {
        let wanted = (dataset, load, arm);
        let mut runs = self.runs.iter();
        runs.find(|run| (run.dataset, run.load, run.arm) == wanted)
            .map(|run| &run.plan)
    }
}

impl RunPlan {
    /// The same run with `{port}` replaced in the URL of the server.
    #[must_use]
    pub fn at_port(&self, port: u16) -> Self {
        let mut plan = self.clone();
        if let Target::Server(ServerTarget { endpoint, .. }) = &mut plan.target {
            endpoint.base_url = endpoint.base_url.replace(PORT, &port.to_string());
        }
        plan
    }
}

/// The rules of `--matrix-order paired`; `None` in another order. `counts` are those of servers,
/// datasets and loads.
fn paired(arguments: &BenchArgs, counts: [usize; 3]) -> Result<Option<Gate>> {
    if arguments.matrix.matrix_order != MatrixOrder::Paired {
        return Ok(None);
    }
    if counts != [2, 1, 1] || arguments.matrix.sweep {
        let [servers, datasets, loads] = counts;
        return Err(Error::usage(format!(
            "--matrix-order paired compares two servers on one dataset at one load: {servers}, {datasets} and {loads} are given"
        ))
        .hint("give --target A=URL --target B=URL, and one --dataset"));
    }
    if arguments.output.no_run_log {
        return Err(
            Error::usage("--matrix-order paired reads the run logs: --no-run-log")
                .hint("leave --no-run-log out"),
        );
    }
    let Requirements { limits, changes } = requirements(&arguments.output.require)?;
    Ok(Some(Gate {
        limits,
        changes,
        undecided: arguments.output.undecided,
        allow_partial: false,
    }))
}

/// Refuses flags that apply to a single run only.
fn refuse_single_run_flags(arguments: &BenchArgs) -> Result<()> {
    let backend = arguments.server.backend.unwrap_or_default();
    if !backend.takes_constraints() {
        return Err(Error::usage(format!(
            "a comparison needs a backend with constraints: {backend}"
        ))
        .hint("measure this backend in a single run"));
    }
    if let Some(start) = &arguments.shards.start_at {
        return Err(Error::usage(format!(
            "--start-at applies to a single run, not to a comparison: {start}"
        ))
        .hint("leave it out, or make one run at a time"));
    }
    if arguments.server.server_metrics.contains("://") {
        let url = &arguments.server.server_metrics;
        return Err(Error::usage(format!(
            "--server-metrics names the page of one server, not of a comparison: {url}"
        ))
        .hint("use auto, or measure each server in a run of its own"));
    }
    if arguments.traffic.stream_parity.is_some() {
        return Err(
            Error::usage("--stream-parity applies to a single run, not to a comparison")
                .hint("check each server in a run of its own"),
        );
    }
    if let Some(shard) = &arguments.shards.shard {
        return Err(Error::usage(format!(
            "--shard applies to a single run, not to a comparison: {shard}"
        ))
        .hint("make one run at a time in shards, merge their logs, and compare these with sobench compare"));
    }
    if let Some(name) = arguments.output.result_filename.as_deref() {
        return Err(Error::usage(format!(
            "--result-filename names one file for several runs: {name}"
        ))
        .hint("give --result-dir, or --save for the comparison"));
    }
    let ratio = arguments
        .constraint
        .guided_decoding_ratio
        .filter(|&ratio| ratio != 1.0);
    let given = ratio.map(|ratio| format!("--guided-decoding-ratio {ratio}"));
    let given = given.or_else(|| {
        arguments
            .constraint
            .no_guided_decoding
            .then(|| "--no-guided-decoding".to_owned())
    });
    match given {
        None => Ok(()),
        Some(flag) => Err(Error::usage(format!(
            "a comparison sets the constrained ratio itself (1 and 0): {flag}"
        ))
        .hint("leave it out, or give --no-control-arm to skip the runs without constraints")),
    }
}

fn contenders(arguments: &BenchArgs) -> Result<Vec<ContenderFlags>> {
    let engines = &arguments.constraint.guided_decoding_backend;
    let server = &arguments.server;
    let is_named = server.base_url.is_some()
        || server.host.is_some()
        || server.port.is_some()
        || server.model.is_some();
    let found = match (&arguments.matrix.launch[..], &arguments.matrix.target[..]) {
        ([command], _) => launched(arguments, command)?,
        ([_, _, ..], _) => named_launches(arguments)?,
        ([], [_, ..]) => targets(arguments)?,
        ([], []) if is_named && engines.len() > 1 => per_request(arguments)?,
        ([], []) if is_named => {
            let name = arguments.constraint.engine().unwrap_or("server").to_owned();
            vec![ContenderFlags {
                name,
                server: ContenderServer::Running,
                flags: arguments.clone(),
            }]
        }
        ([], []) => {
            let engines = if engines.is_empty() {
                vec![EngineName::default().name().to_owned()]
            } else {
                engines.clone()
            };
            let mut arguments = arguments.clone();
            if engines.len() > 1 {
                // Costs of engines mean something only beside the time of a model.
                let speed = &mut arguments.embedded.embedded_speed;
                speed.get_or_insert(COMPARISON_SPEED);
            }
            engines
                .into_iter()
                .map(|name| engine_contender(&arguments, &name, ContenderServer::Embedded))
                .collect()
        }
    };
    let names: Vec<&str> = found
        .iter()
        .map(|contender| contender.name.as_str())
        .collect();
    match names
        .iter()
        .enumerate()
        .find(|(index, name)| names[..*index].contains(name))
    {
        None => Ok(found),
        Some((_, name)) => Err(Error::usage(format!(
            "two servers or engines have the same name: {name}"
        ))
        .hint("name each once; use --repeat for repeated runs")),
    }
}

fn engine_contender(
    arguments: &BenchArgs,
    engine: &str,
    server: ContenderServer,
) -> ContenderFlags {
    let mut flags = arguments.clone();
    flags.constraint.guided_decoding_backend = vec![engine.to_owned()];
    ContenderFlags {
        name: engine.to_owned(),
        server,
        flags,
    }
}

/// The engines of one server, which takes its engine from each request. Only the dialect `guided`
/// has a field for the engine.
fn per_request(arguments: &BenchArgs) -> Result<Vec<ContenderFlags>> {
    let engines = &arguments.constraint.guided_decoding_backend;
    if !arguments
        .constraint
        .dialect()
        .is_some_and(ConstraintDialect::names_engine)
    {
        return Err(Error::usage(format!(
            "one server has one engine, and its requests do not select another: --guided-decoding-backend {}",
            engines.join(",")
        ))
        .hint(
            "start a server for each engine with --launch '... {backend} ...', or name running servers with --target NAME=URL; only \
             --constraint-dialect guided (vLLM before 0.8) selects the engine in each request",
        ));
    }
    Ok(engines
        .iter()
        .map(|name| engine_contender(arguments, name, ContenderServer::PerRequest))
        .collect())
}

fn targets(arguments: &BenchArgs) -> Result<Vec<ContenderFlags>> {
    let server = &arguments.server;
    let addresses = [
        ("--base-url", server.base_url.is_some()),
        ("--host", server.host.is_some()),
        ("--port", server.port.is_some()),
    ];
    if let Some((flag, _)) = addresses.iter().find(|(_, given)| *given) {
        return Err(
            Error::usage(format!("--target and {flag} both name servers"))
                .hint(format!("leave {flag} out")),
        );
    }
    if let [first, _, ..] = &arguments.constraint.guided_decoding_backend[..] {
        return Err(Error::usage(format!(
            "servers of --target have their own engines: --guided-decoding-backend {first},..."
        ))
        .hint("leave it out, and name each server after its engine: --target xgrammar=URL"));
    }
    let contender = |pair: &String| {
        let (name, url) = named(pair).ok_or_else(|| {
            Error::usage(format!("--target is not NAME=URL: {pair}"))
                .hint("try --target xgrammar=http://127.0.0.1:8000")
        })?;
        let mut flags = arguments.clone();
        flags.server.base_url = Some(url.to_owned());
        Ok(ContenderFlags {
            name: name.to_owned(),
            server: ContenderServer::Running,
            flags,
        })
    };
    arguments.matrix.target.iter().map(contender).collect()
}

/// The parts of `NAME=VALUE`; `None` if one is missing.
fn named(pair: &str) -> Option<(&str, &str)> {
    let (name, value) = pair.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

/// The server of one command for each engine.
fn launched(arguments: &BenchArgs, command: &str) -> Result<Vec<ContenderFlags>> {
    let engines = &arguments.constraint.guided_decoding_backend;
    if engines.len() > 1 && !command.contains(BACKEND) {
        return Err(Error::usage(format!("--launch has no {{backend}}, so each engine would get the same server: {command}"))
            .hint("write {backend} where the server takes its engine, e.g. --structured-outputs-config.backend {backend}"));
    }
    match &engines[..] {
        [] => Ok(vec![launch(arguments, "launched", command, None)?]),
        engines => engines
            .iter()
            .map(|engine| launch(arguments, engine, command, Some(engine)))
            .collect(),
    }
}

/// A server for each of several commands with names.
fn named_launches(arguments: &BenchArgs) -> Result<Vec<ContenderFlags>> {
    let engine = match &arguments.constraint.guided_decoding_backend[..] {
        [] => None,
        [engine] => Some(engine.as_str()),
        [first, ..] => {
            return Err(Error::usage(format!(
                "several --launch and several engines: --guided-decoding-backend {first},..."
            ))
            .hint("give one engine, or one --launch with {backend}"));
        }
    };
    let contender = |pair: &String| {
        let (name, command) = named(pair)
            .filter(|(name, _)| !name.contains(char::is_whitespace))
            .ok_or_else(|| {
                Error::usage(format!(
                    "one of several --launch is not NAME=COMMAND: {pair}"
                ))
                .hint("try --launch 'plain=vllm serve MODEL --port {port}'")
            })?;
        launch(arguments, name, command, engine)
    };
    arguments.matrix.launch.iter().map(contender).collect()
}

/// The server of a command.
///
/// # Errors
/// The command does not use the port, or asks for an engine that is not given.
fn launch(
    arguments: &BenchArgs,
    name: &str,
    command: &str,
    engine: Option<&str>,
) -> Result<ContenderFlags> {
    if !command.contains(PORT) {
        return Err(Error::usage(format!("--launch has no {{port}}: {command}"))
            .hint("write {port} where the server takes its port, e.g. --port {port}"));
    }
    if engine.is_none() && command.contains(BACKEND) {
        return Err(Error::usage(format!(
            "--launch has {{backend}}, but no engine is given: {command}"
        ))
        .hint("name the engines, e.g. --guided-decoding-backend xgrammar,guidance"));
    }
    let limit_s = arguments.server.ready_check_timeout_sec;
    let server = ContenderServer::Launched {
        command: command.replace(BACKEND, engine.unwrap_or_default()),
        ready_timeout: match limit_s {
            0 => LAUNCH_TIMEOUT,
            _ => Duration::from_secs(limit_s),
        },
    };
    let mut flags = arguments.clone();
    flags.constraint.guided_decoding_backend = engine.map(str::to_owned).into_iter().collect();
    flags.server.base_url = Some(format!("http://127.0.0.1:{PORT}"));
    // The matrix itself waits until the server is ready.
    flags.server.ready_check_timeout_sec = 0;
    Ok(ContenderFlags {
        name: name.to_owned(),
        server,
        flags,
    })
}

/// The datasets.
///
/// # Errors
/// A dataset is given twice, or two of them would read the same file.
fn datasets(arguments: &BenchArgs) -> Result<Vec<DatasetName>> {
    let backend = arguments.server.backend.unwrap_or_default();
    let names: Vec<DatasetName> = match &arguments.dataset.dataset[..] {
        [] if arguments.dataset.mix.is_some() => vec![DatasetName::Mix],
        [] => vec![non_generative::default_dataset(backend)],
        names => names
            .iter()
            .map(|name| DatasetName::from_str(name))
            .collect::<Result<_>>()?,
    };
    if let Some((_, name)) = names
        .iter()
        .enumerate()
        .find(|(index, name)| names[..*index].contains(name))
    {
        return Err(Error::usage(format!("dataset given twice: {name}"))
            .hint("use --repeat for repeated runs"));
    }
    let paths = names.iter().filter(|name| name.reads_path()).count();
    if paths > 1 && arguments.dataset.path.dataset_path.is_some() {
        return Err(
            Error::usage("several datasets would read the same --dataset-path")
                .hint("compare them in separate commands"),
        );
    }
    Ok(names)
}

/// The arms of each dataset. Without constraints, a control arm would repeat the same run,
/// and the difference of the two would look like the cost of a constraint.
fn arms(no_control_arm: bool, datasets: &[DatasetName]) -> Result<Vec<Arm>> {
    let plain = datasets.iter().find(|name| name.is_unconstrained());
    match plain {
        _ if no_control_arm => Ok(vec![Arm::Constrained]),
        None => Ok(vec![Arm::Control, Arm::Constrained]),
        Some(_) if datasets.iter().all(|name| name.is_unconstrained()) => {
            Ok(vec![Arm::Constrained])
        }
        Some(name) => Err(Error::usage(format!(
            "a dataset without constraints has no control arm: {name}"
        ))
        .hint("give --no-control-arm, or compare datasets with constraints separately")),
    }
}

fn loads(arguments: &BenchArgs) -> Result<Vec<Load>> {
    let flags = &arguments.matrix;
    if flags.sweep {
        return Ok(vec![sweep::first_load(arguments)?]);
    }
    let (flag, mut loads): (_, Vec<Load>) = match (
        &flags.sweep_request_rate[..],
        &flags.sweep_max_concurrency[..],
    ) {
        ([], []) => return Ok(vec![Load::AsGiven]),
        ([], caps) => (
            "--sweep-max-concurrency",
            caps.iter().map(|cap| Load::MaxConcurrency(*cap)).collect(),
        ),
        (rates, _) => (
            "--sweep-request-rate",
            rates.iter().map(|rate| Load::RequestRate(*rate)).collect(),
        ),
    };
    loads.sort_by(|one, other| one.size().total_cmp(&other.size()));
    if let Some(pair) = loads.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(
            Error::usage(format!("{flag} has a load twice: {}", pair[0]))
                .hint("use --repeat for repeated runs"),
        );
    }
    if let Some(wrong) = loads
        .iter()
        .find(|load| load.size().is_nan() || load.size() <= 0.0)
    {
        return Err(
            Error::usage(format!("{flag} is not above 0: {}", wrong.size()))
                .hint(format!("try {flag} 1,2,4")),
        );
    }
    Ok(loads)
}

fn one_run(
    flags: &BenchArgs,
    dataset: DatasetName,
    all: &[DatasetName],
    load: Load,
    arm: Arm,
) -> Result<RunPlan> {
    let mut flags = flags.clone();
    if dataset != DatasetName::Mix {
        flags.dataset.dataset = vec![dataset.name().to_owned()];
    }
    reset_flags_of_others(&mut flags, dataset, all);
    match load {
        Load::AsGiven => {}
        Load::RequestRate(rate) => flags.traffic.request_rate = rate,
        Load::MaxConcurrency(cap) => flags.traffic.max_concurrency = Some(cap),
    }
    // By default the runs of a comparison have one arm each, as with other datasets.
    let has_default_arms = !dataset.default_arms().is_empty();
    if has_default_arms && flags.constraint.arms.is_empty() {
        flags.constraint.guided_decoding_ratio = Some(1.0);
    }
    if arm == Arm::Control {
        flags.constraint.no_guided_decoding = true;
        flags.constraint.guided_decoding_ratio = None;
        // Thresholds apply to constrained answers, and without constraints no schema is new to the
        // server.
        flags.output.require.clear();
        flags.traffic.cold_schema_every = None;
    }
    RunPlan::new(&flags, environment::api_key)
}

#[cfg(test)]
mod tests;
