//! What a run is about to do, in one line on a terminal, before anything is loaded.

use crate::commands::bench::options::{RunPlan, Target};

/// The line.
pub(super) fn line(plan: &RunPlan) -> String {
    let dataset = &plan.settings.dataset;
    let parts = [(dataset.cells.len(), "cells"), (dataset.arms.len(), "arms")];
    let parts = parts.iter().filter(|(count, _)| *count > 1);
    let parts: Vec<String> = parts
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let requests = match &parts[..] {
        [] => format!("{} requests", dataset.num_prompts),
        parts => format!("{} items in {}", dataset.num_prompts, parts.join(" and ")),
    };
    let share = match dataset.constrained_ratio {
        ratio if ratio <= 0.0 => "no constraint is sent, ".to_owned(),
        ratio if ratio < 1.0 && dataset.arms.is_empty() => {
            format!("{:.0} % with their constraint, ", 100.0 * ratio)
        }
        _ => String::new(),
    };
    let server = match &plan.target {
        Target::Embedded(server) => format!(
            "the embedded server ({} over a synthetic model), because no server is named",
            server.engine.name(),
        ),
        Target::Server(server) => server.endpoint.base_url.clone(),
    };
    format!(
        "{requests} of {}, {share}{}, to {server}",
        dataset.source.name().name(),
        plan.settings.load,
    )
}
