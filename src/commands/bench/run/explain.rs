//! Routing of each distinct constraint by the embedded `auto` (`--explain`).

use std::collections::HashSet;

use crate::commands::bench::session::Session;
use sobench_core::case::Case;
use sobench_engine::EngineName;

/// Distinct constraints that are listed; the others are counted.
const MAX_EXPLAINED: usize = 50;

/// A line for every distinct constraint, named by its first case; one line where the engine has no
/// choice.
pub(super) fn routes(session: &Session, cases: &[Case]) -> Vec<String> {
    let mut seen = HashSet::new();
    let distinct = cases.iter().filter_map(|case| {
        let constraint = case.constraint.as_ref()?;
        seen.insert(constraint.fingerprint())
            .then_some((case, constraint))
    });
    if session
        .engine()
        .is_none_or(|engine| engine.name != EngineName::Auto.name())
    {
        return vec![
            "--explain: no routing: only the engine auto chooses between engines".to_owned(),
        ];
    }
    let distinct: Vec<_> = distinct.collect();
    let mut lines = Vec::new();
    for (case, constraint) in distinct.iter().take(MAX_EXPLAINED) {
        lines.push(match session.route(constraint) {
            Some(route) => {
                format!(
                    "{}: auto sends its {} to {}: {}",
                    case.id,
                    constraint.kind(),
                    route.engine.name(),
                    route.why
                )
            }
            None => format!(
                "{}: auto has no engine for its {}",
                case.id,
                constraint.kind()
            ),
        });
    }
    let left_out = distinct.len().saturating_sub(MAX_EXPLAINED);
    lines.extend((left_out > 0).then(|| format!("and {left_out} more distinct constraints")));
    lines
}
