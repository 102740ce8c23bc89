//! Flags to several runs that are held side by side, each complete before anything is sent. Opens
//! nothing.

mod order;

use std::num::NonZero;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum as _;

use self::order::Apart;
pub use self::order::{AtOnce, Order};
use crate::commands::bench::args::BenchArgs;
use crate::commands::bench::matrix_args::WantedOrder;
use crate::commands::bench::options::dataset::leave_out_others;
use crate::commands::bench::options::{RunPlan, ServerTarget, Target, non_generative};
use crate::commands::flags::environment;
use crate::commands::flags::paths::OutputPath;
use crate::commands::matrix::report::{Load, Treatment};
use sobench_backend::ConstraintDialect;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_data::dataset::DatasetName;
use sobench_engine::EngineName;
use sobench_results::metrics::Slo;

/// What stands in a command, or in the URL of a server that is yet to be started, for its port.
pub const PORT: &str = "{port}";

/// What stands in a command for the decoding engine.
const BACKEND: &str = "{backend}";

/// How long a server that we start may take where nobody said; a large model takes minutes to load.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(600);

/// The formats of a comparison.
const FORMATS: [OutputFormat; 4] = [
    OutputFormat::Json,
    OutputFormat::Markdown,
    OutputFormat::Html,
    OutputFormat::Text,
];

/// Runs of one comparison.
const MAX_RUNS: usize = 10_000;

/// What `sobench bench` does.
#[derive(Clone, Debug)]
pub enum Benchmark {
    /// One run.
    Run(Box<RunPlan>),
    /// Several runs, side by side.
    Matrix(Box<MatrixOptions>),
    /// Say what would be done.
    DryRun(Box<MatrixOptions>),
}

/// Several runs that differ in as little as possible.
#[derive(Clone, Debug)]
pub struct MatrixOptions {
    pub contenders: Vec<ContenderPlan>,
    pub order: Order,
    /// Names, in the order of the tables.
    pub datasets: Vec<String>,
    pub loads: Vec<Load>,
    pub repeats: usize,
    /// Constrained, and the control arm where it is wanted.
    pub treatments: Vec<Treatment>,
    pub slo: Option<Slo>,
    /// The share of the requests that have to be valid within the objectives, in percent.
    pub goodput_share: f64,
    /// Files that the comparison is written to.
    pub files: Vec<(PathBuf, OutputFormat)>,
}

/// One of those that are compared.
#[derive(Clone, Debug)]
pub struct ContenderPlan {
    pub name: String,
    pub how: How,
    /// A run for each dataset, load and treatment.
    pub runs: Vec<PlannedRun>,
}

/// Who answers a contender's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// An embedded server of its own for each run.
    Embedded,
    /// A server that runs already.
    Running,
    /// A server that runs already and takes the name of its engine from every request.
    PerRequest,
    /// A server that is started for it by this command, in which only the port is still open.
    Launched {
        command: String,
        ready_timeout: Duration,
    },
}

/// A run, and its place in the comparison.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// Places in [`MatrixOptions::datasets`] and [`MatrixOptions::loads`].
    pub dataset: usize,
    pub load: usize,
    pub treatment: Treatment,
    pub plan: RunPlan,
}

/// A contender before its runs are known: its name, who answers, and the flags that make it so.
struct Entrant {
    name: String,
    how: How,
    flags: BenchArgs,
}

impl Benchmark {
    /// Checks the flags of a benchmark.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn new(arguments: &BenchArgs) -> Result<Self> {
        let api_key = environment::api_key();
        let flags = &arguments.matrix;
        let is_several = arguments.constraint.guided_decoding_backend.len() > 1
            || arguments.dataset.dataset.len() > 1
            || !flags.target.is_empty()
            || flags.launch.is_some()
            || flags.repeat > 1
            || !flags.sweep_request_rate.is_empty()
            || !flags.sweep_max_concurrency.is_empty()
            || !flags.save_comparison.is_empty();
        if !is_several {
            if flags.matrix_order != WantedOrder::Auto {
                let order = flags
                    .matrix_order
                    .to_possible_value()
                    .map(|value| value.get_name().to_owned())
                    .unwrap_or_default();
                return Err(Error::usage(format!("one run has no order among others: --matrix-order {order}"))
                    .hint("name what is compared, e.g. --target NAME=URL --target NAME=URL, or leave it out"));
            }
            let run = RunPlan::new(arguments, api_key)?;
            return Ok(if flags.dry_run {
                Self::DryRun(Box::new(MatrixOptions::single(run)))
            } else {
                Self::Run(Box::new(run))
            });
        }
        let plan = Box::new(MatrixOptions::new(arguments, api_key.as_deref())?);
        Ok(if flags.dry_run {
            Self::DryRun(plan)
        } else {
            Self::Matrix(plan)
        })
    }
}

impl MatrixOptions {
    fn single(run: RunPlan) -> Self {
        let how = if matches!(run.target, Target::Embedded { .. }) {
            How::Embedded
        } else {
            How::Running
        };
        let dataset = run.settings.dataset.name().name().to_owned();
        let slo = run.settings.metrics.goodput;
        let runs = vec![PlannedRun {
            dataset: 0,
            load: 0,
            treatment: Treatment::Constrained,
            plan: run,
        }];
        Self {
            contenders: vec![ContenderPlan {
                name: "run".to_owned(),
                how,
                runs,
            }],
            order: Order::Blocks(Apart::Alone),
            datasets: vec![dataset],
            loads: vec![Load::AsGiven],
            repeats: 1,
            treatments: vec![Treatment::Constrained],
            slo,
            goodput_share: 100.0,
            files: Vec::new(),
        }
    }

    fn new(arguments: &BenchArgs, api_key: Option<&str>) -> Result<Self> {
        refuse_what_is_for_one_run(arguments)?;
        let flags = &arguments.matrix;
        let share = flags.goodput_share;
        if share.is_nan() || share <= 0.0 || share > 100.0 {
            return Err(Error::usage(format!(
                "--goodput-share is not a share in percent: {share}"
            ))
            .hint("give a number above 0 and up to 100"));
        }
        let entrants = entrants(arguments)?;
        let datasets = datasets(arguments)?;
        let loads = loads(arguments)?;
        let treatments = treatments(flags.no_control_arm, &datasets)?;
        let repeats = flags.repeat as usize;
        let runs = [
            entrants.len(),
            datasets.len(),
            loads.len(),
            treatments.len(),
            repeats,
        ];
        let runs = runs.into_iter().fold(1_usize, usize::saturating_mul);
        if runs > MAX_RUNS {
            return Err(Error::usage(format!(
                "a comparison has at most {MAX_RUNS} runs, and this one would have {runs}"
            ))
            .hint("compare less at a time, or lower --repeat"));
        }
        let contender = |entrant: Entrant| {
            let mut runs = Vec::new();
            for (dataset, name) in datasets.iter().enumerate() {
                for (load, level) in loads.iter().enumerate() {
                    for treatment in &treatments {
                        let plan = one_run(
                            &entrant.flags,
                            *name,
                            &datasets,
                            *level,
                            *treatment,
                            api_key,
                        )?;
                        runs.push(PlannedRun {
                            dataset,
                            load,
                            treatment: *treatment,
                            plan,
                        });
                    }
                }
            }
            Ok(ContenderPlan {
                name: entrant.name,
                how: entrant.how,
                runs,
            })
        };
        let contenders: Vec<ContenderPlan> =
            entrants.into_iter().map(contender).collect::<Result<_>>()?;
        let slo = contenders
            .first()
            .and_then(|it| it.runs.first())
            .and_then(|it| it.plan.settings.metrics.goodput);
        let cores = std::thread::available_parallelism().ok().map(NonZero::get);
        Ok(Self {
            order: Order::of(flags.matrix_order, &contenders, cores)?,
            contenders,
            datasets: datasets.iter().map(|name| name.name().to_owned()).collect(),
            loads,
            repeats,
            treatments,
            slo,
            goodput_share: share,
            files: files(&flags.save_comparison)?,
        })
    }

    /// Whether the contenders' servers are started one at a time.
    pub fn is_launched(&self) -> bool {
        self.contenders
            .iter()
            .any(|it| matches!(it.how, How::Launched { .. }))
    }
}

impl ContenderPlan {
    /// The run of a place in the comparison.
    pub fn run(&self, dataset: usize, load: usize, treatment: Treatment) -> Option<&RunPlan> {
        let is_it =
            |it: &&PlannedRun| (it.dataset, it.load, it.treatment) == (dataset, load, treatment);
        self.runs.iter().find(is_it).map(|it| &it.plan)
    }
}

impl RunPlan {
    /// The same run against a server whose port is known by now.
    #[must_use]
    pub fn at_port(&self, port: u16) -> Self {
        let mut plan = self.clone();
        if let Target::Server(ServerTarget { endpoint, .. }) = &mut plan.target {
            endpoint.base_url = endpoint.base_url.replace(PORT, &port.to_string());
        }
        plan
    }
}

/// Flags that have a meaning for a single run only.
fn refuse_what_is_for_one_run(arguments: &BenchArgs) -> Result<()> {
    let backend = arguments.server.backend.unwrap_or_default();
    if !backend.takes_constraints() {
        return Err(Error::usage(format!(
            "a comparison is about constraints, which this backend does not take: {backend}"
        ))
        .hint("run it by itself"));
    }
    if let Some(start) = &arguments.shards.start_at {
        return Err(Error::usage(format!(
            "several runs have no one begin: --start-at {start}"
        ))
        .hint("leave it out, or run one at a time"));
    }
    if let Some(shard) = &arguments.shards.shard {
        return Err(Error::usage(format!(
            "several runs are not dealt out to clients, which would have to begin each together: --shard {shard}"
        ))
        .hint("run one at a time in shards, and hold the merged logs against each other with sobench compare"));
    }
    if let Some(path) = &arguments.output.run_log {
        return Err(Error::usage(format!("several runs have no one run log: {}", path.display()))
            .hint("leave --run-log out: each run gets a log of its own, beside its result with --save-result --result-dir"));
    }
    if let Some(name) = arguments.output.result_filename.as_deref() {
        return Err(
            Error::usage(format!("several runs have no one result: {name}"))
                .hint("give --result-dir, or --save-comparison for the comparison itself"),
        );
    }
    let output = &arguments.output;
    if let Some(path) = [&output.html, &output.markdown, &output.csv, &output.junit]
        .into_iter()
        .flatten()
        .next()
    {
        return Err(Error::usage(format!(
            "several runs have no one report: {}",
            path.display()
        ))
        .hint("give --save-comparison for all of them, and sobench report the run log of one"));
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
            "a comparison has runs with all constraints and runs with none: {flag}"
        ))
        .hint("leave it out; --no-control-arm leaves the runs without constraints out")),
    }
}

fn entrants(arguments: &BenchArgs) -> Result<Vec<Entrant>> {
    let engines = &arguments.constraint.guided_decoding_backend;
    let server = &arguments.server;
    let is_named = server.base_url.is_some()
        || server.host.is_some()
        || server.port.is_some()
        || server.model.is_some();
    let found = match (&arguments.matrix.launch, &arguments.matrix.target[..]) {
        (Some(command), _) => launched(arguments, command)?,
        (None, [_, ..]) => targets(arguments)?,
        (None, []) if is_named && engines.len() > 1 => per_request(arguments)?,
        (None, []) if is_named => {
            let name = arguments.constraint.engine().unwrap_or("server").to_owned();
            vec![Entrant {
                name,
                how: How::Running,
                flags: arguments.clone(),
            }]
        }
        (None, []) => {
            let engines = if engines.is_empty() {
                vec![EngineName::default().name().to_owned()]
            } else {
                engines.clone()
            };
            engines
                .into_iter()
                .map(|name| of_engine(arguments, &name, How::Embedded))
                .collect()
        }
    };
    let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
    match names
        .iter()
        .enumerate()
        .find(|(place, name)| names[..*place].contains(name))
    {
        None => Ok(found),
        Some((_, name)) => Err(Error::usage(format!(
            "two of those that are compared have one name: {name}"
        ))
        .hint("name each once; --repeat measures the same again")),
    }
}

fn of_engine(arguments: &BenchArgs, engine: &str, how: How) -> Entrant {
    let mut flags = arguments.clone();
    flags.constraint.guided_decoding_backend = vec![engine.to_owned()];
    Entrant {
        name: engine.to_owned(),
        how,
        flags,
    }
}

/// Only one dialect has a field for the engine.
fn per_request(arguments: &BenchArgs) -> Result<Vec<Entrant>> {
    let engines = &arguments.constraint.guided_decoding_backend;
    if !arguments
        .constraint
        .dialect()
        .is_some_and(ConstraintDialect::names_engine)
    {
        return Err(Error::usage(format!(
            "one server was named, and a request does not tell it which engine to use: --guided-decoding-backend {}",
            engines.join(",")
        ))
        .hint(
            "start one server for each with --launch '... {backend} ...', or name those that run with --target NAME=URL; only servers \
             that read --constraint-dialect guided (vLLM before 0.8) take the engine from the request",
        ));
    }
    Ok(engines
        .iter()
        .map(|name| of_engine(arguments, name, How::PerRequest))
        .collect())
}

fn targets(arguments: &BenchArgs) -> Result<Vec<Entrant>> {
    let server = &arguments.server;
    let places = [
        ("--base-url", server.base_url.is_some()),
        ("--host", server.host.is_some()),
        ("--port", server.port.is_some()),
    ];
    if let Some((flag, _)) = places.iter().find(|(_, given)| *given) {
        return Err(Error::usage(format!(
            "servers are named twice, by --target and by {flag}"
        ))
        .hint(format!("leave {flag} out")));
    }
    if let [first, _, ..] = &arguments.constraint.guided_decoding_backend[..] {
        return Err(Error::usage(format!(
            "the servers of --target have engines of their own: --guided-decoding-backend {first},..."
        ))
        .hint("leave it out, and name each server after its engine: --target xgrammar=URL"));
    }
    let entrant = |pair: &String| {
        let split = pair
            .split_once('=')
            .filter(|(name, url)| !name.trim().is_empty() && !url.is_empty());
        let (name, url) = split.ok_or_else(|| {
            Error::usage(format!("--target is not NAME=URL: {pair}"))
                .hint("try --target xgrammar=http://127.0.0.1:8000")
        })?;
        let mut flags = arguments.clone();
        flags.server.base_url = Some(url.to_owned());
        Ok(Entrant {
            name: name.trim().to_owned(),
            how: How::Running,
            flags,
        })
    };
    arguments.matrix.target.iter().map(entrant).collect()
}

fn launched(arguments: &BenchArgs, command: &str) -> Result<Vec<Entrant>> {
    if !command.contains(PORT) {
        return Err(Error::usage(format!(
            "--launch does not say where the port goes: {command}"
        ))
        .hint("write {port} where the server takes its port, e.g. --port {port}"));
    }
    let engines = &arguments.constraint.guided_decoding_backend;
    match (command.contains(BACKEND), engines.len()) {
        (true, 0) => {
            return Err(Error::usage(format!(
                "--launch has a place for the engine, and none is named: {command}"
            ))
            .hint("name them with --guided-decoding-backend xgrammar,guidance"));
        }
        (false, 2..) => {
            return Err(Error::usage(format!("--launch would start the same server for each engine: {command}"))
                .hint("write {backend} where the server takes its engine, e.g. --structured-outputs-config.backend {backend}"));
        }
        _ => {}
    }
    let names = if engines.is_empty() {
        vec![None]
    } else {
        engines.iter().map(Some).collect()
    };
    let limit_s = arguments.server.ready_check_timeout_sec;
    let ready_timeout = if limit_s == 0 {
        LAUNCH_TIMEOUT
    } else {
        Duration::from_secs(limit_s)
    };
    let entrant = |name: Option<&String>| {
        let command = command.replace(BACKEND, name.map_or("", String::as_str));
        let how = How::Launched {
            command,
            ready_timeout,
        };
        let mut entrant = match name {
            Some(name) => of_engine(arguments, name, how),
            None => Entrant {
                name: "launched".to_owned(),
                how,
                flags: arguments.clone(),
            },
        };
        entrant.flags.server.base_url = Some(format!("http://127.0.0.1:{PORT}"));
        // Whether it is ready is seen to while it starts.
        entrant.flags.server.ready_check_timeout_sec = 0;
        entrant
    };
    Ok(names.into_iter().map(entrant).collect())
}

/// The datasets, each once; a flag that none of them reads is a mistake.
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
        .find(|(place, name)| names[..*place].contains(name))
    {
        return Err(Error::usage(format!("--dataset names one twice: {name}"))
            .hint("--repeat measures the same again"));
    }
    let paths = names.iter().filter(|name| name.reads_path()).count();
    if paths > 1 && arguments.dataset.path.dataset_path.is_some() {
        return Err(
            Error::usage("two datasets would read the same --dataset-path")
                .hint("compare them one after the other"),
        );
    }
    Ok(names)
}

/// What is done to the requests of each dataset. Where nothing has a constraint, a control arm
/// would be the same run again, and the difference of the two would look like the cost of a
/// constraint.
fn treatments(no_control_arm: bool, datasets: &[DatasetName]) -> Result<Vec<Treatment>> {
    let plain = datasets.iter().find(|name| name.is_plain());
    match plain {
        _ if no_control_arm => Ok(vec![Treatment::Constrained]),
        None => Ok(vec![Treatment::Control, Treatment::Constrained]),
        Some(_) if datasets.iter().all(|name| name.is_plain()) => Ok(vec![Treatment::Constrained]),
        Some(name) => Err(Error::usage(format!(
            "a dataset without constraints has no control arm: {name}"
        ))
        .hint("give --no-control-arm, or compare it apart from datasets with constraints")),
    }
}

fn loads(arguments: &BenchArgs) -> Result<Vec<Load>> {
    let flags = &arguments.matrix;
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
            Error::usage(format!("{flag} names a load twice: {}", pair[0]))
                .hint("--repeat measures the same again"),
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
    treatment: Treatment,
    api_key: Option<&str>,
) -> Result<RunPlan> {
    let mut flags = flags.clone();
    if dataset != DatasetName::Mix {
        flags.dataset.dataset = vec![dataset.name().to_owned()];
    }
    leave_out_others(&mut flags, dataset, all);
    match load {
        Load::AsGiven => {}
        Load::RequestRate(rate) => flags.traffic.request_rate = rate,
        Load::MaxConcurrency(cap) => flags.traffic.max_concurrency = Some(cap),
    }
    if treatment == Treatment::Control {
        flags.constraint.no_guided_decoding = true;
        flags.constraint.guided_decoding_ratio = None;
        // Bounds are on what the constraint makes of the answers, and nothing is sent that could be
        // new to the server.
        flags.output.require.clear();
        flags.traffic.cold_schema_every = None;
    }
    RunPlan::new(&flags, api_key.map(str::to_owned))
}

fn files(paths: &[OutputPath]) -> Result<Vec<(PathBuf, OutputFormat)>> {
    let with_format = |path: &OutputPath| {
        let extension = path
            .extension()
            .and_then(|extension| extension.to_str())
            .unwrap_or_default();
        let format = OutputFormat::from_extension(extension)
            .filter(|format| FORMATS.contains(format))
            .ok_or_else(|| {
                Error::usage(format!(
                    "--save-comparison does not know this form: {}",
                    path.display()
                ))
                .hint("end the name in .json, .md, .html or .txt")
            })?;
        Ok((path.to_path_buf(), format))
    };
    paths.iter().map(with_format).collect()
}

#[cfg(test)]
mod tests;
