//! `--dry-run`: prints the runs in their order, and one complete request of each arm. Sends
//! nothing. Values that only the server knows are placeholders.

use std::fmt::Write as _;

use super::run_order::rounds;
use super::{aggregate, dimensions, run_label};
use crate::commands::bench::dry_run::DryRun;
use crate::commands::matrix::options::{ContenderPlan, ContenderServer, MatrixPlan, PlannedRun};
use crate::commands::output::CommandOutput;
use sobench_core::case::Arm;
use sobench_core::error::Result;
use sobench_core::load::MIN_FINISHED_REQUESTS;
use sobench_data::dataset::{DatasetName, DatasetPlan};
use sobench_results::metrics::cells::{BY_CHANCE, POWER, items_for_loss};
use sobench_statistics::paired::{TestPlan, pairs_needed};

/// The largest number of listed runs.
const LISTED_RUNS: usize = 60;

/// Prints the plan.
///
/// # Errors
/// A dataset cannot be read, or a case cannot be encoded as a request.
pub fn command(plan: &MatrixPlan) -> Result<CommandOutput> {
    let mut page = listing(plan);
    add_error_limits(&mut page, plan);
    for contender in &plan.contenders {
        if let ContenderServer::Launched { command, .. } = &contender.server {
            let _ = writeln!(page, "\nstart command of {}: {command}", contender.name);
        }
        for run in contender.runs.iter().filter(|run| run.load == 0) {
            add_requests(&mut page, plan, contender, run)?;
        }
    }
    Ok(CommandOutput {
        stdout: page,
        ..CommandOutput::default()
    })
}

fn listing(plan: &MatrixPlan) -> String {
    let rounds = rounds(&dimensions(plan));
    let all: usize = rounds.iter().map(Vec::len).sum();
    let mut page = format!("dry run: nothing is sent; runs in order: {all}\n");
    if all > 1 {
        let _ = writeln!(page, "order: {}", aggregate::order(plan));
    }
    let steps = rounds.iter().flat_map(|round| {
        round
            .iter()
            .enumerate()
            .map(|(index, step)| (step, round.len() > 1, index == 0))
    });
    for (index, (step, is_concurrent, is_first)) in steps.enumerate().take(LISTED_RUNS) {
        let requests = plan.contenders[step.contender].run(step.dataset, step.load, step.arm);
        let sent = requests.map_or_else(String::new, |run| sent(&run.settings.dataset));
        let concurrent = match (is_concurrent, is_first) {
            (false, _) => "",
            (true, true) => ", concurrent with the following:",
            (true, false) => ", concurrent",
        };
        let _ = writeln!(
            page,
            "{:>4}  {} ({sent}){concurrent}",
            index + 1,
            run_label(plan, step)
        );
    }
    if all > LISTED_RUNS {
        let _ = writeln!(page, "      further runs: {}", all - LISTED_RUNS);
    }
    if plan.paired.is_some() {
        let first = &plan.contenders[0].runs[0].plan;
        let TestPlan { error, power } = TestPlan::LOSS;
        let title = format!(
            "pairs: {}; number that finds a loss of the second server in {} % (one-sided {} %, McNemar's exact test):",
            first.settings.dataset.num_prompts * plan.repeats,
            100.0 * power,
            100.0 * error,
        );
        page.push_str(&losses_found(&title, pairs_needed));
    }
    let dataset = plan
        .contenders
        .first()
        .and_then(|contender| contender.runs.first());
    let dataset = dataset.map(|run| &run.plan.settings.dataset);
    if let Some(dataset) = dataset.filter(|dataset| dataset.cells.len() > 1) {
        let cells = dataset.cells.len();
        let title = format!(
            "items: {} in {cells} cells; number that finds a loss in a cell in {} % ({} % for all cells together):",
            dataset.num_prompts,
            100.0 * POWER,
            100.0 * BY_CHANCE,
        );
        page.push_str(&losses_found(&title, |loss, noise| {
            items_for_loss(cells, loss, noise)
        }));
    }
    if let Some(rules) = plan.sweep_rules() {
        let _ = writeln!(page, "{rules}");
    }
    page
}

/// What a run sends, such as `100 requests`.
fn sent(dataset: &DatasetPlan) -> String {
    let count = dataset.num_prompts;
    match (dataset.source.name(), dataset.cells.len()) {
        (DatasetName::Sessions, _) => format!("sessions: {count}"),
        (_, cells @ 2..) => format!("items: {count}, cells: {cells}"),
        _ => format!("{count} requests"),
    }
}

/// The numbers of pairs that find losses.
fn losses_found(title: &str, needed: impl Fn(f64, f64) -> Option<usize>) -> String {
    let mut lines = format!(
        "{title}\n{:>6}  if nothing else differs  if 1 % also differ each way by chance\n",
        "loss"
    );
    for points in [0.5, 1.0, 2.0, 5.0, 10.0] {
        let loss = points / 100.0;
        let needed = |noise: f64| needed(loss, noise).unwrap_or_default();
        let [alone, noisy] = [0.0, 0.01].map(needed);
        let _ = writeln!(
            lines,
            "{:>6}  {alone:>23}  {noisy:>38}",
            format!("{points} pp")
        );
    }
    lines
}

/// The error limits, which are the same for all runs.
fn add_error_limits(page: &mut String, plan: &MatrixPlan) {
    let Some(first) = plan
        .contenders
        .first()
        .and_then(|contender| contender.runs.first())
    else {
        return;
    };
    let limits = first.plan.settings.load.error_limits;
    for limit in limits.phrases(&format!("{MIN_FINISHED_REQUESTS} of its requests")) {
        let _ = writeln!(page, "a run gives up {limit}");
    }
}

/// The first request of each arm of a run.
fn add_requests(
    page: &mut String,
    plan: &MatrixPlan,
    contender: &ContenderPlan,
    run: &PlannedRun,
) -> Result<()> {
    let dry = DryRun::new(&run.plan)?;
    for arm in Arm::ALL {
        let Some(case) = dry.first(arm) else { continue };
        let arm = match arm {
            Arm::Control => "control, without its constraint",
            Arm::Free => "without a constraint",
            arm => arm.name(),
        };
        let dataset = &plan.datasets[run.dataset];
        let _ = writeln!(
            page,
            "\n{}, {dataset}, {arm}: request {} of {}",
            contender.name,
            case.id,
            dry.requests()
        );
        page.push_str(&dry.request(case)?);
    }
    Ok(())
}
