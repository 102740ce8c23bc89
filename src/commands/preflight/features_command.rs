//! `sobench preflight --features`: asks which keywords of JSON Schema a server enforces, prints and writes them.

use std::collections::HashMap;

use tokio::runtime::Runtime;

use crate::commands::output::CommandOutput;
use crate::commands::preflight::options::{FeatureOptions, PreflightOptions, PreflightTarget};
use crate::commands::preflight::output;
use crate::commands::preflight::report::features::{json, text};
use crate::commands::preflight::target::Target;
use crate::error::{Error, Result};
use crate::exit_codes::{COULD_NOT, DONE};
use crate::preflight::Product;
use crate::preflight::features::probe::survey;
use crate::preflight::features::{FeatureVerdict, Found, Settings, Survey, Surveyed};
use crate::shutdown::Shutdown;
use crate::terminal::{Mode, Progress, Words};

/// Asks each server in turn, prints, writes.
///
/// # Errors
/// Whatever keeps it from asking: wrong input, no server, one that enforces no JSON Schema at all. A file that cannot be written is
/// told at the end, with exit code 3.
pub(super) fn run(options: &PreflightOptions, features: &FeatureOptions) -> Result<CommandOutput> {
    let runtime = Runtime::new().map_err(|error| Error::environment(format!("no threads to run on: {error}")))?;
    let settings = Settings {
        samples: features.samples,
        seed: options.seed,
        output_len: options.output_len,
        max_concurrency: features.max_concurrency,
        request_timeout_s: options.timeout.as_secs_f64(),
        stream: options.stream,
    };
    let mut servers = Vec::with_capacity(options.targets.len());
    for target in &options.targets {
        servers.push(asked(options, target, features, &settings, &runtime)?);
    }
    label(&mut servers);
    let survey = Survey { settings, features: features.features.clone(), servers };
    Ok(output(options, exit_code(&survey), &json::render(&survey), || text::render(&survey)))
}

fn asked(
    options: &PreflightOptions,
    target: &PreflightTarget,
    features: &FeatureOptions,
    settings: &Settings,
    runtime: &Runtime,
) -> Result<Surveyed> {
    let opened = Target::open(options, target, runtime)?;
    let words = Words { unit: "keywords", failed: "not enforced" };
    let progress = Progress::new(Mode::detect(options.progress), features.features.len(), words);
    let told = |found: &Found| progress.ended(found.verdict == FeatureVerdict::Enforced);
    let shutdown = Shutdown::new();
    let asking = survey(&opened.client, &opened.options, settings, &features.features, &shutdown, told);
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
    let product = facts.product.map_or(surveyed.backend.name(), Product::name);
    match facts.engine.as_ref().filter(|engine| !engine.contains(product)) {
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
    if survey.servers.iter().any(|server| server.count(FeatureVerdict::NotAsked) > 0) { COULD_NOT } else { DONE }
}
