//! What is written down about a run: the report's facts, and the file. Knows no rendering and no formula.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Driven;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::metrics::{Sample, summarise};
use crate::plan::RunPlan;
use crate::report::{self, About, DatasetAbout, Details, Host, Report};
use crate::session::Session;
use crate::tokenizer::Tokenizer;
use crate::tokenizer::strftime::strftime;

/// vLLM's spelling of a date; here in UTC.
const DATE_FORMAT: &str = "%Y%m%d-%H%M%S";

/// Puts numbers and circumstances together.
pub(super) fn report(
    plan: &RunPlan,
    session: &Session,
    dataset: &Dataset,
    driven: &Driven,
    tokenizer: &Tokenizer,
    samples: &[Sample<'_>],
) -> Report {
    let metrics = summarise(samples, driven.outcome.duration_ns, &plan.metrics);
    let mut report = Report::new(about(plan, session, dataset, driven, tokenizer), metrics);
    report.percentile_metrics.clone_from(&plan.output.percentile_metrics);
    report.details = plan.output.detailed.then(|| Details::of(samples, &plan.metrics));
    report
}

fn about(plan: &RunPlan, session: &Session, dataset: &Dataset, driven: &Driven, tokenizer: &Tokenizer) -> About {
    let kinds: BTreeSet<&str> = dataset.cases.iter().filter_map(|case| Some(case.constraint.as_ref()?.kind())).collect();
    About {
        date: Some(date(driven.outcome.started)),
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
            rows: Some(dataset.rows),
            sha256: Some(dataset.sha256.clone()),
        },
        num_prompts: Some(dataset.cases.len()),
        output_len: Some(plan.dataset.output_len),
        seed: Some(plan.dataset.seed),
        constrained_ratio: Some(plan.dataset.constrained_ratio),
        request_rate: Some(plan.traffic.rate.per_second()),
        burstiness: Some(plan.traffic.burstiness),
        max_concurrency: plan.traffic.max_concurrency,
        constraint_dialect: Some(session.dialect.to_string()),
        constraint_kinds: kinds.into_iter().map(str::to_owned).collect(),
        guided_decoding_backend: session.engine_choice.clone(),
        engine: session.engine.clone(),
        server_version: session.server_version.clone(),
        label: plan.output.label.clone(),
        metadata: plan.output.metadata.clone(),
        embedded: session.is_embedded(),
        host: host(),
        assert_formats: Some(plan.evaluate.assert_formats),
        trial_requests: driven.trials,
        warmup_requests: plan.traffic.warmups,
        notices: notices(plan, session, dataset, driven),
    }
}

fn notices(plan: &RunPlan, session: &Session, dataset: &Dataset, driven: &Driven) -> Vec<String> {
    let partial =
        driven.interrupted.then(|| "partial: the run was interrupted, what had not ended by then is cancelled".to_owned());
    let sources = [plan.warnings(), session.notices.clone(), dataset.notices.clone(), driven.notices.clone()];
    partial.into_iter().chain(sources.into_iter().flatten()).collect()
}

fn host() -> Host {
    Host {
        os: Some(std::env::consts::OS.to_owned()),
        arch: Some(std::env::consts::ARCH.to_owned()),
        cpus: std::thread::available_parallelism().ok().map(std::num::NonZero::get),
    }
}

fn date(instant: SystemTime) -> String {
    let unix_s = instant.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    strftime(DATE_FORMAT, i64::try_from(unix_s).unwrap_or(i64::MAX)).expect("the format has only directives that are known")
}

/// Makes the result's folder, before anything is sent: a run is not to end in "no such folder".
///
/// # Errors
/// The folder cannot be made.
pub(super) fn make_directory(plan: &RunPlan) -> Result<()> {
    let directory = directory(plan);
    std::fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))
}

/// Writes the result file and tells where.
///
/// # Errors
/// The file cannot be written.
pub(super) fn save(plan: &RunPlan, report: &Report) -> Result<PathBuf> {
    let stamp = report.about.date.as_deref().unwrap_or_default();
    let name = plan.output.filename.clone().unwrap_or_else(|| report::filename(report, stamp));
    let path = directory(plan).join(name);
    let mut text = serde_json::to_string_pretty(&report::json::render(report, plan.output.detailed))
        .map_err(|error| Error::internal(format!("the result is not JSON: {error}")))?;
    text.push('\n');
    std::fs::write(&path, text).map_err(|error| cannot_write(&path, &error))?;
    Ok(path)
}

fn directory(plan: &RunPlan) -> &Path {
    plan.output.directory.as_deref().unwrap_or(Path::new("."))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!("the result cannot be written ({error}): {}", path.display()))
        .hint("give --result-dir a folder that can be written to")
}
