//! `sobench preflight --features`: tests which JSON Schema keywords a server enforces.

use tokio::runtime::Runtime;

use crate::commands::output::CommandOutput;
use crate::commands::preflight::options::{FeaturePlan, PreflightPlan, PreflightTarget};
use crate::commands::preflight::report::features::json::FeaturesFile;
use crate::commands::preflight::report::features::page;
use crate::commands::preflight::target::Target;
use crate::commands::preflight::{number_duplicates, output};
use crate::terminal::{self, Mode, Progress, ProgressLabels};
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{ENVIRONMENT, INTERRUPTED, SUCCESS};
use sobench_preflight::features::probe::{self, NoSurvey};
use sobench_preflight::features::{FeatureResult, FeatureVerdict, ServerSurvey, Survey};
use sobench_preflight::server_label;
use sobench_shutdown::Shutdown;

/// Tests each server in turn, until a shutdown signal. Results so far are then reported.
///
/// # Errors
/// Invalid input, no server, or a server that enforces no JSON Schema; interrupted before there was
/// a result. If a file can no longer be written, that is reported at the end with exit code 3.
pub(super) fn run(
    options: &PreflightPlan,
    features: &FeaturePlan,
    shutdown: &Shutdown,
) -> Result<CommandOutput> {
    let _listener =
        shutdown.listen(|_| terminal::say("stopping: the tested keywords are reported"))?;
    let survey = survey(options, features, shutdown)?;
    Ok(output(
        options.format,
        &options.files,
        exit_code(&survey, shutdown),
        &FeaturesFile::new(&survey),
        &page::document(&survey),
    ))
}

/// Tests each server in turn, until a shutdown signal.
///
/// # Errors
/// As [`run`].
pub(crate) fn survey(
    options: &PreflightPlan,
    features: &FeaturePlan,
    shutdown: &Shutdown,
) -> std::result::Result<Survey, NoSurvey> {
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    let mut servers = Vec::new();
    for target in &options.servers.targets {
        match survey_target(options, target, features, &runtime, shutdown) {
            Ok(survey) => servers.push(survey),
            Err(_) if shutdown.is_requested() && !servers.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    number_duplicates(servers.iter_mut().map(|server| &mut server.label));
    Ok(Survey {
        settings: features.settings.clone(),
        features: features.features.clone(),
        servers,
    })
}

fn survey_target(
    options: &PreflightPlan,
    target: &PreflightTarget,
    features: &FeaturePlan,
    runtime: &Runtime,
    shutdown: &Shutdown,
) -> std::result::Result<ServerSurvey, NoSurvey> {
    let opened = Target::open(&options.servers, target, &options.asked, runtime)?;
    let progress_words = ProgressLabels {
        unit: "keywords",
        failed: "not enforced",
    };
    let progress = Progress::new(
        Mode::detect(options.servers.progress),
        features.features.len(),
        progress_words,
    );
    let on_feature = |found: &FeatureResult| {
        let is_valid = matches!(
            found.verdict,
            FeatureVerdict::Enforced | FeatureVerdict::NoViolationSeen
        );
        progress.ended(is_valid);
    };
    let survey_future = probe::survey(
        &opened.client,
        &opened.options,
        &features.settings,
        &features.features,
        shutdown,
        on_feature,
    );
    let result = runtime.block_on(survey_future);
    progress.finish();
    let mut result = result?;
    result.label = match target {
        PreflightTarget::Embedded { engine } => engine.name().to_owned(),
        PreflightTarget::Server { .. } => server_label(&result.facts, result.backend),
    };
    Ok(result)
}

/// A survey succeeds with any result, unless it was interrupted or the server was lost before its
/// end.
fn exit_code(survey: &Survey, shutdown: &Shutdown) -> u8 {
    if shutdown.is_requested() {
        INTERRUPTED
    } else if survey
        .servers
        .iter()
        .any(|server| server.count(FeatureVerdict::NotAsked) > 0)
    {
        ENVIRONMENT
    } else {
        SUCCESS
    }
}
