//! What a run is about to do, in one line on a terminal.

use super::prepare::Prepared;
use crate::commands::bench::options::{RunPlan, Target};
use sobench_core::case::Arm;

/// The line.
pub(super) fn line(plan: &RunPlan, prepared: &Prepared) -> String {
    let cases = &prepared.dataset.cases;
    let with = cases.iter().filter(|case| case.arm == Arm::Constrained);
    let constrained = match (with.count(), cases.len()) {
        (0, _) => "without a constraint".to_owned(),
        (with, all) if with == all => "with a constraint".to_owned(),
        (with, _) => format!("{with} of them with a constraint"),
    };
    let server = match &plan.target {
        Target::Embedded(server) => format!(
            "the embedded server ({} over a synthetic model), because no server is named",
            server.engine.name(),
        ),
        Target::Server(_) => prepared.session.base_url.clone(),
    };
    let settings = &plan.settings;
    format!(
        "sends {} requests of {}, {constrained}, {}, to {server}",
        cases.len(),
        settings.dataset.source.name().name(),
        settings.load,
    )
}
