//! What is written down about a run: begin and end of its log, and the file of its result. Knows no rendering and no formula.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Before, Driven};
use crate::case::Case;
use crate::commands::bench::options::{RunPlan, Target};
use crate::commands::bench::session::Session;
use crate::constraint::{Constraint, sha256_hex};
use crate::dataset::Dataset;
use crate::driver::Cost;
use crate::driver::schedule::{Pace, Ramp, Schedule, Until};
use crate::error::{Error, Result};
use crate::metrics::client::ClientCost;
use crate::metrics::cold_load::COLD_TAG;
use crate::metrics::{MetricsOptions, summarise};
use crate::output_files::{filled, try_file};
use crate::report::saved::{self, Place, ResultFormat};
use crate::report::view::View;
use crate::report::{self, About, DatasetAbout, Host, LoadReport, RampAbout, Report, RequestAbout};
use crate::runlog::{self, ConstraintsAbout, Footer, Header, LoadTerms, RampTerms, ShardAbout};
use crate::tokenizer::Tokenizer;

/// Results of one name that a folder may hold.
const MAX_SAME_NAMES: u32 = 1000;

/// What is known of a run before its first request: the begin of its log.
pub(super) fn header(
    plan: &RunPlan,
    session: &Session,
    dataset: &Dataset,
    schedule: &Schedule,
    tokenizer: &Tokenizer,
    before: Before,
) -> Header {
    let mut known_constraints: Vec<String> = before.known.iter().cloned().collect();
    known_constraints.sort_unstable();
    let mut header = Header {
        version: runlog::VERSION,
        started: String::new(),
        started_unix_ns: 0,
        model: Some(session.model.clone()),
        header_names: header_names(plan),
        constraints: constraints(&dataset.cases),
        load: load(plan, dataset.cases.len()),
        metrics: plan.metrics.clone(),
        percentile_metrics: plan.output.percentile_metrics.clone(),
        queue_metrics: plan.output.queue_metrics.clone(),
        detailed: plan.output.detailed,
        evaluate: plan.evaluate,
        tokenizer: plan.tokenizer.clone(),
        known_constraints,
        shard: plan
            .shard
            .map(|part| ShardAbout { start: plan.start.whose(), ..ShardAbout::new(part, &dataset.cases, &schedule.due) }),
        merged: Vec::new(),
        about: about(plan, session, dataset, tokenizer, before),
    };
    let plan_sha256 = header.plan_sha256();
    if let Some(shard) = &mut header.shard {
        shard.plan_sha256 = plan_sha256;
    }
    header
}

/// How the run ended: the end of its log.
pub(super) fn footer(session: &Session, driven: &Driven) -> Footer {
    Footer {
        requests: driven.ran.cases,
        duration_ns: driven.ran.duration_ns,
        cost: cost(&driven.ran.cost, session.is_embedded()),
        probe: driven.probed.clone(),
        spec_decode: driven.spec_decode.clone(),
        engine: session.engine(),
        interrupted: driven.interrupted,
        broken_off: driven.broken_off.clone(),
        notices: driven.notices.clone(),
        clock: driven.clock,
    }
}

fn header_names(plan: &RunPlan) -> Vec<String> {
    match &plan.target {
        Target::Embedded { .. } => Vec::new(),
        Target::Server(target) => target.endpoint.headers.iter().map(|(name, _)| name.clone()).collect(),
    }
}

/// The constraints of a run as a whole; those that no other run can have are left out.
fn constraints(cases: &[Case]) -> ConstraintsAbout {
    let lasting = cases.iter().filter(|case| !case.tags.iter().any(|tag| tag == COLD_TAG));
    let by_address: BTreeMap<usize, &Arc<Constraint>> =
        lasting.filter_map(|case| case.constraint.as_ref()).map(|it| (Arc::as_ptr(it) as usize, it)).collect();
    let fingerprints: BTreeSet<String> = by_address.into_values().map(|constraint| constraint.fingerprint()).collect();
    let lines: String = fingerprints.iter().map(|fingerprint| format!("{fingerprint}\n")).collect();
    ConstraintsAbout { distinct: fingerprints.len(), sha256: (!lines.is_empty()).then(|| sha256_hex(lines.as_bytes())) }
}

fn load(plan: &RunPlan, requests: usize) -> LoadTerms {
    let traffic = &plan.traffic;
    let (request_rate, ramp) = match traffic.pace {
        Pace::Steady(rate) => (Some(rate.per_second()), None),
        Pace::Ramp(Ramp { strategy, start_rps, end_rps }) => {
            (None, Some(RampTerms { strategy: strategy.name().to_owned(), start_rps, end_rps }))
        }
    };
    LoadTerms {
        requests,
        seed: plan.dataset.seed,
        request_rate,
        ramp,
        burstiness: traffic.burstiness,
        max_concurrency: traffic.max_concurrency,
        duration_ns: traffic.until.time().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        cycling: matches!(traffic.until, Until::Cycling(_)),
        steady_state_threshold: traffic.steady_state_threshold,
        cold_schema_every: traffic.cold_schema_every,
        max_error_rate: traffic.error_limits.max_rate,
        max_consecutive_errors: traffic.error_limits.max_in_a_row,
    }
}

fn cost(cost: &Cost, includes_server: bool) -> ClientCost {
    ClientCost {
        wall_s: cost.wall.as_secs_f64(),
        cpu_s: cost.cpu.map(|it| it.as_secs_f64()),
        cores: cost.cores,
        threads: cost.threads,
        other_runs: cost.other_runs,
        machine_busy_percent: cost.machine_busy.map(|it| 100.0 * it),
        peak_memory_mib: cost.peak_memory_bytes.map(|it| it as f64 / f64::from(1 << 20)),
        connections_opened: cost.connections_opened,
        connections_waited_for: cost.connections_waited_for,
        includes_server,
    }
}

fn about(plan: &RunPlan, session: &Session, dataset: &Dataset, tokenizer: &Tokenizer, before: Before) -> About {
    let kinds: BTreeSet<&str> = dataset.cases.iter().filter_map(|case| Some(case.constraint.as_ref()?.kind())).collect();
    About {
        // The begin is not known yet, nor how many requests the run comes to: the report has them from the log.
        date: None,
        sobench_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        backend: Some(plan.backend.to_string()),
        endpoint_type: Some(plan.backend.to_string()),
        base_url: Some(session.base_url.clone()),
        endpoint: Some(session.path.clone()),
        model_id: Some(session.model_id.clone()),
        tokenizer_id: Some(tokenizer.id().to_owned()),
        dataset: DatasetAbout {
            name: Some(plan.dataset.name.to_string()),
            path: plan.dataset.dataset_path.clone(),
            source: Some(dataset.source.clone()),
            rows: Some(dataset.rows),
            sha256: Some(dataset.sha256.clone()),
            grammar_converted_from: dataset.converted_from.map(|dialect| dialect.name().to_owned()),
        },
        num_prompts: Some(dataset.cases.len()),
        output_len: output_len(plan),
        seed: Some(plan.dataset.seed),
        request: request(plan),
        constrained_ratio: plan.takes_constraints().then_some(plan.dataset.constrained_ratio),
        request_rate: Some(plan.traffic.pace.steady_rate().per_second()),
        burstiness: Some(plan.traffic.burstiness),
        max_concurrency: plan.traffic.max_concurrency,
        constraint_dialect: plan.takes_constraints().then(|| session.dialect.to_string()),
        constraint_kinds: kinds.into_iter().map(str::to_owned).collect(),
        guided_decoding_backend: session.engine_choice.clone(),
        engine: session.engine(),
        server_version: session.server_version.clone(),
        label: plan.output.label.clone(),
        metadata: plan.output.metadata.clone(),
        embedded: session.is_synthetic(),
        host: host(),
        assert_formats: Some(plan.evaluate.assert_formats),
        trial_requests: before.trials,
        warmup_requests: before.warmups,
        partial: false,
        notices: notices(plan, session, dataset, before.notices),
        enforcement: before.enforcement,
    }
}

/// The most tokens of an answer, where all may have as many.
fn output_len(plan: &RunPlan) -> Option<u32> {
    let of_all = plan.dataset.output_len;
    let is_one = plan.dataset.mix.iter().all(|part| part.plan.output_len == of_all);
    (plan.backend.generates() && is_one).then_some(of_all)
}

fn request(plan: &RunPlan) -> RequestAbout {
    RequestAbout {
        stream: Some(plan.request.stream),
        sampling: plan.request.sampling.clone(),
        ignore_eos: Some(plan.request.ignore_eos),
        extra_body: plan.request.extra_body.clone(),
        request_timeout_s: Some(plan.traffic.request_timeout.as_secs_f64()),
        idle_timeout_s: plan.traffic.idle_timeout.map(|limit| limit.as_secs_f64()),
    }
}

fn notices(plan: &RunPlan, session: &Session, dataset: &Dataset, before: Vec<String>) -> Vec<String> {
    [plan.warnings(), session.notices.clone(), dataset.notices.clone(), before].into_iter().flatten().collect()
}

fn host() -> Host {
    Host {
        os: Some(std::env::consts::OS.to_owned()),
        arch: Some(std::env::consts::ARCH.to_owned()),
        cpus: std::thread::available_parallelism().ok().map(std::num::NonZero::get),
    }
}

/// Makes the result's folder and sees that a file can be made there, before anything is sent: a run is not to end in "no such
/// folder".
///
/// # Errors
/// The name is no file's, the folder cannot be made, or no file can be made in it.
pub(super) fn make_room(plan: &RunPlan) -> Result<()> {
    let path = directory(plan).join(plan.output.filename.as_deref().unwrap_or(".sobench-probe"));
    if path.file_name().is_none() || path.is_dir() || plan.output.filename.as_deref() == Some("") {
        return Err(Error::usage(format!("not the name of a file: {}", path.display()))
            .hint("give --result-filename a name, or leave it out for one that says what was run"));
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    try_file(&path).map_err(|error| cannot_write(&path, &error))
}

/// Writes the result file and tells where. A name that the user gave is written over, as vLLM's tools do; one of our own making
/// never is, nor does it stand beside the log of another run: `log` is its own.
///
/// # Errors
/// The file cannot be written, or an answer that belongs into it cannot be read from the log.
pub(super) fn save(plan: &RunPlan, view: &View<'_>, log: Option<&Path>) -> Result<PathBuf> {
    let output = &plan.output;
    let stamp = view.report.about.date.as_deref().unwrap_or_default();
    let path = match &output.filename {
        Some(name) => directory(plan).join(name),
        None => free_path(directory(plan), &report::filename(view.report, output.result_format, stamp), log)?,
    };
    let place = if output.append { Place::Line } else { Place::Whole };
    let opened = if output.append { open_line(&path) } else { File::create(&path) };
    let file = opened.map_err(|error| cannot_write(&path, &error))?;
    let fill = |out: &mut dyn Write| saved::write(view, output.result_format, output.detailed, place, out);
    filled(file, fill, |error| cannot_write(&path, error))?;
    Ok(path)
}

/// Opens a file to add a line to it. A line that was cut short before, or one that vLLM left open, is ended first.
fn open_line(path: &Path) -> std::io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let is_open = file.seek(SeekFrom::End(0))? > 0 && {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        last != *b"\n"
    };
    if is_open {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// The name that the result would have if the run came to what is planned.
pub(super) fn planned_name(about: &About, load: &LoadTerms, layout: ResultFormat, stamp: &str) -> String {
    let ramp = |terms: &RampTerms| RampAbout {
        strategy: terms.strategy.clone(),
        start_rps: terms.start_rps,
        end_rps: terms.end_rps,
        ..RampAbout::default()
    };
    let mut report = Report::new(about.clone(), summarise(&[], 0, &MetricsOptions::default()));
    report.load = Some(LoadReport { ramp: load.ramp.as_ref().map(ramp), ..LoadReport::default() });
    report::filename(&report, layout, stamp)
}

/// Runs that begin in the same second would have the same name: the later ones get a number, by which result and log of each belong
/// together.
fn free_path(directory: &Path, name: &str, log: Option<&Path>) -> Result<PathBuf> {
    let is_of_another = |path: &Path| {
        let beside = super::place::beside(path);
        log != Some(&*beside) && beside.exists()
    };
    let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    let names = std::iter::once(name.to_owned()).chain((2..=MAX_SAME_NAMES).map(|number| format!("{stem}-{number}.{ending}")));
    for path in names.map(|name| directory.join(name)).filter(|path| !is_of_another(path)) {
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_write(&path, &error)),
        }
    }
    Err(Error::environment(format!("{MAX_SAME_NAMES} results have this name: {name}")).hint("give --result-filename a new one"))
}

/// The folder of the saved result.
pub(super) fn directory(plan: &RunPlan) -> &Path {
    plan.output.directory.as_deref().unwrap_or(Path::new("."))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!("the result cannot be written ({error}): {}", path.display()))
        .hint("make room, or give --result-dir a folder that can be written to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_and_log_of_a_run_have_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // Two runs that began in the same second: the log of the second one was there first.
        ["run.jsonl", "run-2.jsonl"].iter().for_each(|name| std::fs::write(at(name), "").unwrap());
        let free = |log: &str| free_path(folder.path(), "run.json", Some(&at(log))).unwrap();
        assert_eq!(free("run-2.jsonl"), at("run-2.json"));
        assert_eq!(free("run.jsonl"), at("run.json"));
        assert_eq!(free_path(folder.path(), "run.json", None).unwrap(), at("run-3.json"), "a run without a log has no other's");
        assert_eq!(free("elsewhere.jsonl"), at("run-4.json"));
    }
}
