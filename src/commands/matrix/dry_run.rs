//! What would be run and what would be sent (`--dry-run`): the runs in their order, and one whole request for each arm. Asks no server
//! anything; what only the server can tell is named as such.

use std::fmt::Write as _;

use serde_json::Value;

use super::order::turns;
use super::{extent, gather, words};
use crate::backend::identify::{Server, identify};
use crate::backend::{self, RequestOptions};
use crate::case::{Arm, Case};
use crate::commands::bench::options::{RunPlan, Target};
use crate::commands::bench::run;
use crate::commands::bench::session::grammar_spelling;
use crate::commands::matrix::options::{ContenderPlan, How, MatrixOptions, PlannedRun};
use crate::commands::output::CommandOutput;
use crate::dataset::{self, DatasetPlan};
use crate::error::Result;
use crate::load::MIN_ENDED;
use crate::server::SYNTHETIC_MODEL;
use crate::tokenizer::Tokenizer;

/// Runs that are listed; of more, their number is said.
const LISTED_RUNS: usize = 60;

/// The model where nobody named one.
const UNKNOWN_MODEL: &str = "<the first model that /v1/models lists>";

/// Prints the plan.
///
/// # Errors
/// A dataset cannot be read; a case cannot be put into a request.
pub fn command(plan: &MatrixOptions) -> Result<CommandOutput> {
    let mut page = listing(plan);
    add_error_limits(&mut page, plan);
    for contender in &plan.contenders {
        if let How::Launched { command, .. } = &contender.how {
            let _ = writeln!(page, "\n{} is started with: {command}", contender.name);
        }
        for run in contender.runs.iter().filter(|run| run.load == 0) {
            add_requests(&mut page, plan, contender, run)?;
        }
    }
    Ok(CommandOutput { stdout: page, ..CommandOutput::default() })
}

fn listing(plan: &MatrixOptions) -> String {
    let turns = turns(&extent(plan));
    let all: usize = turns.iter().map(Vec::len).sum();
    let mut page = format!("dry run: nothing is sent; without --dry-run, these runs would be made, in this order: {all}\n");
    if all > 1 {
        let _ = writeln!(page, "order: {}", gather::order(plan));
    }
    let named = turns.iter().flat_map(|turn| turn.iter().enumerate().map(|(place, step)| (step, turn.len() > 1, place == 0)));
    for (number, (step, has_company, is_first)) in named.enumerate().take(LISTED_RUNS) {
        let requests = plan.contenders[step.contender].run(step.dataset, step.load, step.treatment);
        let requests = requests.map_or(0, |run| run.settings.dataset.num_prompts);
        let beside = match (has_company, is_first) {
            (false, _) => "",
            (true, true) => ", at once with those that follow:",
            (true, false) => ", at once",
        };
        let _ = writeln!(page, "{:>4}  {} ({requests} requests){beside}", number + 1, words(plan, step));
    }
    if all > LISTED_RUNS {
        let _ = writeln!(page, "      and more: {}", all - LISTED_RUNS);
    }
    page
}

/// When a run would give up on its server, where that was said; the limits are those of all runs.
fn add_error_limits(page: &mut String, plan: &MatrixOptions) {
    let Some(first) = plan.contenders.first().and_then(|contender| contender.runs.first()) else { return };
    let limits = first.plan.settings.load.error_limits;
    for limit in limits.phrases(&format!("{MIN_ENDED} of its requests")) {
        let _ = writeln!(page, "a run gives up {limit}");
    }
}

/// The first request of each arm of a run.
fn add_requests(page: &mut String, plan: &MatrixOptions, contender: &ContenderPlan, run: &PlannedRun) -> Result<()> {
    let (cases, options) = prepared(&run.plan)?;
    for arm in [Arm::Constrained, Arm::Control, Arm::Free] {
        let Some(case) = cases.iter().find(|case| case.arm == arm) else { continue };
        let what = match arm {
            Arm::Constrained => "constrained",
            Arm::Control => "control, its constraint not sent",
            Arm::Free => "without a constraint",
        };
        let dataset = &plan.datasets[run.dataset];
        let _ = writeln!(page, "\n{}, {dataset}, {what}: request {} of {}", contender.name, case.id, cases.len());
        add_request(page, &run.plan, case, &options)?;
    }
    Ok(())
}

fn add_request(page: &mut String, plan: &RunPlan, case: &Case, options: &RequestOptions) -> Result<()> {
    let adapter = backend::adapter(plan.settings.backend);
    let body = adapter.encode(case, options).map_err(|unsendable| unsendable.into_error(case))?;
    let _ = writeln!(page, "POST {}\ncontent-type: {}", url(plan), adapter.content_type());
    if let Target::Server(target) = &plan.target {
        if target.endpoint.api_key.is_some() {
            let _ = writeln!(page, "authorization: Bearer ***");
        }
        target.endpoint.headers.iter().for_each(|(name, _)| {
            let _ = writeln!(page, "{name}: ***");
        });
    }
    if let Some(prefix) = &plan.settings.request.request_id_prefix {
        let _ = writeln!(page, "x-request-id: {prefix}0");
    }
    let _ = match serde_json::from_slice::<Value>(&body) {
        Ok(body) => writeln!(page, "\n{body:#}"),
        Err(_) => writeln!(page, "\n({} bytes of {})", body.len(), adapter.content_type()),
    };
    Ok(())
}

/// Where it would go. A base URL that ends in `/v1` is not given a second one.
fn url(plan: &RunPlan) -> String {
    let (base, path) = match &plan.target {
        Target::Embedded { .. } => ("http://127.0.0.1:<a free port>".to_owned(), plan.settings.backend.default_path().to_owned()),
        Target::Server(target) => (target.endpoint.public_base_url(), target.endpoint.path.clone()),
    };
    let (root, path) = (base.trim_end_matches('/'), path.trim_start_matches('/'));
    let path = if root.ends_with("/v1") { path.strip_prefix("v1/").unwrap_or(path) } else { path };
    format!("{root}/{path}")
}

/// The cases, and what their requests have in common as far as that is known without the server: what it says of itself may change the
/// dialect that `auto` stands for.
fn prepared(plan: &RunPlan) -> Result<(Vec<Case>, RequestOptions)> {
    let server = match &plan.target {
        Target::Embedded { .. } => Server::Embedded,
        Target::Server(_) => identify(plan.settings.backend, None, None),
    };
    let dialect = plan.settings.constraint.dialect.unwrap_or(server.constraint_dialect());
    let model = match &plan.target {
        Target::Embedded { .. } => SYNTHETIC_MODEL.to_owned(),
        Target::Server(target) => {
            target.served_model_name.clone().or_else(|| target.model.clone()).unwrap_or_else(|| UNKNOWN_MODEL.to_owned())
        }
    };
    let dataset = DatasetPlan {
        grammar_dialect: plan.settings.constraint.grammar_dialect.unwrap_or(server.grammar_dialect()),
        grammar_spelling: grammar_spelling(server, dialect, plan.settings.constraint.grammar_dialect),
        ..plan.settings.dataset.clone()
    };
    let tokenizer = plan.settings.tokenizer.as_deref().map_or_else(|| Ok(Tokenizer::embedded()), Tokenizer::open)?;
    let tokenizer = tokenizer.with_template_variables(plan.settings.request.template_variables.clone().unwrap_or_default());
    let options = RequestOptions {
        model,
        stream: plan.settings.request.stream,
        sampling: plan.settings.request.sampling.clone(),
        ignore_eos: plan.settings.request.ignore_eos,
        dialect,
        guided_decoding_backend: plan.settings.constraint.guided_decoding_backend.clone(),
        extra_body: plan.settings.request.extra_body.clone(),
    };
    let mut cases = dataset::load(&dataset, &tokenizer)?.cases;
    if let Some(lora) = &plan.settings.request.lora {
        run::lora::assign(&mut cases, lora, plan.settings.dataset.seed);
    }
    Ok((cases, options))
}
