//! `sobench preflight --features`: asks which keywords of JSON Schema a server enforces, prints and
//! writes them.

use std::collections::HashMap;

use tokio::runtime::Runtime;

use crate::commands::output::CommandOutput;
use crate::commands::preflight::options::{FeatureOptions, PreflightOptions, PreflightTarget};
use crate::commands::preflight::output;
use crate::commands::preflight::report::features::{json, page};
use crate::commands::preflight::target::Target;
use crate::terminal::{Mode, Progress, Words};
use sobench_backend::Product;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{COULD_NOT, DONE};
use sobench_preflight::features::probe::survey;
use sobench_preflight::features::{FeatureVerdict, Found, Survey, Surveyed};
use sobench_shutdown::Shutdown;

/// Asks each server in turn, prints, writes.
///
/// # Errors
/// Whatever keeps it from asking: wrong input, no server, one that enforces no JSON Schema at all.
/// A file that cannot be written is told at the end, with exit code 3.
pub(super) fn run(options: &PreflightOptions, features: &FeatureOptions) -> Result<CommandOutput> {
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("no threads to run on: {error}")))?;
    let servers = options
        .targets
        .iter()
        .map(|target| asked(options, target, features, &runtime));
    let mut servers = servers.collect::<Result<Vec<_>>>()?;
    label(&mut servers);
    let survey = Survey {
        settings: features.settings.clone(),
        features: features.features.clone(),
        servers,
    };
    Ok(output(
        options,
        exit_code(&survey),
        &json::render(&survey),
        &page::document(&survey),
    ))
}

fn asked(
    options: &PreflightOptions,
    target: &PreflightTarget,
    features: &FeatureOptions,
    runtime: &Runtime,
) -> Result<Surveyed> {
    let opened = Target::open(options, target, runtime)?;
    let words = Words {
        unit: "keywords",
        failed: "not enforced",
    };
    let progress = Progress::new(
        Mode::detect(options.progress),
        features.features.len(),
        words,
    );
    let told = |found: &Found| progress.ended(found.verdict == FeatureVerdict::Enforced);
    let shutdown = Shutdown::new();
    let asking = survey(
        &opened.client,
        &opened.options,
        &features.settings,
        &features.features,
        &shutdown,
        told,
    );
    let surveyed = runtime.block_on(asking);
    progress.finish();
    let mut surveyed = surveyed?;
    surveyed.label = match target {
        PreflightTarget::Embedded { engine } => engine.name().to_owned(),
        PreflightTarget::Server { .. } => named(&surveyed),
    };
    Ok(surveyed)
}

/// A server by what it says of itself, with its engine where the one name does not say the other.
fn named(surveyed: &Surveyed) -> String {
    let facts = &surveyed.facts;
    let product = facts
        .product
        .map_or(surveyed.backend.name(), Product::label);
    match facts
        .engine
        .as_ref()
        .filter(|engine| !engine.contains(product))
    {
        Some(engine) => format!("{product}, {engine}"),
        None => product.to_owned(),
    }
}

/// Tells servers of one name apart.
fn label(servers: &mut [Surveyed]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for server in servers {
        let count = seen.entry(server.label.clone()).or_default();
        *count += 1;
        if *count > 1 {
            server.label = format!("{} ({count})", server.label);
        }
    }
}

/// A survey is done, whatever it found; one that its server did not live to see the end of is not.
fn exit_code(survey: &Survey) -> u8 {
    if survey
        .servers
        .iter()
        .any(|server| server.count(FeatureVerdict::NotAsked) > 0)
    {
        COULD_NOT
    } else {
        DONE
    }
}
