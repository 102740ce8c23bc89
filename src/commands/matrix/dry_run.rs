//! What would be run and what would be sent (`--dry-run`): the runs in their order, and one whole
//! request for each arm. Asks no server anything; what only the server can tell is named as such.

use std::fmt::Write as _;

use super::order::turns;
use super::{extent, gather, words};
use crate::commands::bench::dry_run::DryRun;
use crate::commands::matrix::options::{ContenderPlan, How, MatrixOptions, PlannedRun};
use crate::commands::output::CommandOutput;
use sobench_core::case::Arm;
use sobench_core::error::Result;
use sobench_core::load::MIN_ENDED;

/// Runs that are listed; of more, their number is said.
const LISTED_RUNS: usize = 60;

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
    Ok(CommandOutput {
        stdout: page,
        ..CommandOutput::default()
    })
}

fn listing(plan: &MatrixOptions) -> String {
    let turns = turns(&extent(plan));
    let all: usize = turns.iter().map(Vec::len).sum();
    let mut page = format!(
        "dry run: nothing is sent; without --dry-run, these runs would be made, in this order: {all}\n"
    );
    if all > 1 {
        let _ = writeln!(page, "order: {}", gather::order(plan));
    }
    let named = turns.iter().flat_map(|turn| {
        turn.iter()
            .enumerate()
            .map(|(place, step)| (step, turn.len() > 1, place == 0))
    });
    for (number, (step, has_company, is_first)) in named.enumerate().take(LISTED_RUNS) {
        let requests = plan.contenders[step.contender].run(step.dataset, step.load, step.treatment);
        let requests = requests.map_or(0, |run| run.settings.dataset.num_prompts);
        let beside = match (has_company, is_first) {
            (false, _) => "",
            (true, true) => ", at once with those that follow:",
            (true, false) => ", at once",
        };
        let _ = writeln!(
            page,
            "{:>4}  {} ({requests} requests){beside}",
            number + 1,
            words(plan, step)
        );
    }
    if all > LISTED_RUNS {
        let _ = writeln!(page, "      and more: {}", all - LISTED_RUNS);
    }
    page
}

/// When a run would give up on its server, where that was said; the limits are those of all runs.
fn add_error_limits(page: &mut String, plan: &MatrixOptions) {
    let Some(first) = plan
        .contenders
        .first()
        .and_then(|contender| contender.runs.first())
    else {
        return;
    };
    let limits = first.plan.settings.load.error_limits;
    for limit in limits.phrases(&format!("{MIN_ENDED} of its requests")) {
        let _ = writeln!(page, "a run gives up {limit}");
    }
}

/// The first request of each arm of a run.
fn add_requests(
    page: &mut String,
    plan: &MatrixOptions,
    contender: &ContenderPlan,
    run: &PlannedRun,
) -> Result<()> {
    let dry = DryRun::new(&run.plan)?;
    for arm in [Arm::Constrained, Arm::Control, Arm::Free] {
        let Some(case) = dry.first(arm) else { continue };
        let what = match arm {
            Arm::Constrained => "constrained",
            Arm::Control => "control, its constraint not sent",
            Arm::Free => "without a constraint",
        };
        let dataset = &plan.datasets[run.dataset];
        let _ = writeln!(
            page,
            "\n{}, {dataset}, {what}: request {} of {}",
            contender.name,
            case.id,
            dry.requests()
        );
        page.push_str(&dry.request(case)?);
    }
    Ok(())
}
