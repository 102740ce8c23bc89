//! The list of checks beside the measured requests.

mod parity;
mod probe;
mod profile;
mod recovery;
mod server_metrics;

use super::choose::Chosen;
use super::side_check::SideCheck;
use super::warmup::WarmUps;
use crate::commands::bench::options::RunPlan;
use sobench_core::case::Case;

/// The checks of a run.
pub(super) fn requested<'a>(
    plan: &'a RunPlan,
    cases: &'a [Case],
    chosen: &Chosen<'_>,
    warm_ups: WarmUps,
) -> Vec<Box<dyn SideCheck + 'a>> {
    let (load, request) = (&plan.settings.load, &plan.settings.request);
    // One client of several is enough.
    let is_first = plan.part().number == 1;
    let cancellation = load.cancellation.filter(|_| is_first);
    let probe_rate = load.probe_request_rate.filter(|_| is_first);
    let checks = [
        parity::check(request.stream_parity, cases),
        profile::check(request.profile),
        // Their notice follows that of the profiler.
        warm_ups.check(),
        recovery::check(cancellation, chosen, plan.settings.dataset.seed),
        server_metrics::check(&plan.server_metrics, plan.settings.backend),
        probe::check(probe_rate),
    ];
    checks.into_iter().flatten().collect()
}
