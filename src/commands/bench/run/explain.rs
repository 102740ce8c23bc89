//! Where `auto` sends each distinct constraint of a run. Knows the rule's words, not the rule.

use std::collections::HashSet;

use crate::case::Case;
use crate::commands::bench::session::Session;
use crate::engine::EngineName;

/// Distinct constraints that are told one by one; of more, how many there are.
const MAX_EXPLAINED: usize = 50;

/// A line for every distinct constraint, named by the first case that carries it; one line where the engine has no choice.
pub(super) fn routes(session: &Session, cases: &[Case]) -> Vec<String> {
    let mut seen = HashSet::new();
    let distinct = cases.iter().filter_map(|case| {
        let constraint = case.constraint.as_ref()?;
        seen.insert(constraint.fingerprint()).then_some((case, constraint))
    });
    if session.engine().is_none_or(|engine| engine.name != EngineName::Auto.name()) {
        return vec!["--explain: this engine takes every constraint itself; only auto has a choice".to_owned()];
    }
    let mut lines = Vec::new();
    let mut left_out = 0_usize;
    for (case, constraint) in distinct {
        if lines.len() == MAX_EXPLAINED {
            left_out += 1;
            continue;
        }
        lines.push(match session.route(constraint) {
            Some(route) => {
                format!("{}: auto sends its {} to {}: {}", case.id, constraint.kind(), route.engine.name(), route.why)
            }
            None => format!("{}: no engine that auto knows takes its {}", case.id, constraint.kind()),
        });
    }
    lines.extend((left_out > 0).then(|| format!("and {left_out} more distinct constraints")));
    lines
}
