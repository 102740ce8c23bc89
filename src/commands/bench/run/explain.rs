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
    let engine = session.engine();
    if engine.is_none_or(|engine| engine.name != EngineName::Auto.name()) {
        return vec![
            "--explain: no routing: only the engine auto chooses between engines".to_owned(),
        ];
    }
    let mut seen = HashSet::new();
    let constrained = cases
        .iter()
        .filter_map(|case| Some((case, case.constraint.as_ref()?)));
    let distinct: Vec<_> = constrained
        .filter(|(_, constraint)| seen.insert(constraint.fingerprint()))
        .collect();
    let lines = distinct.iter().take(MAX_EXPLAINED);
    let lines = lines.map(|(case, constraint)| {
        let (id, kind) = (&case.id, constraint.kind());
        match session.route(constraint) {
            Some(route) => {
                let engine = route.engine.name();
                format!("{id}: auto sends its {kind} to {engine}: {}", route.why)
            }
            None => format!("{id}: auto has no engine for its {kind}"),
        }
    });
    let left_out = distinct.len().saturating_sub(MAX_EXPLAINED);
    let more = (left_out > 0).then(|| format!("and {left_out} more distinct constraints"));
    lines.chain(more).collect()
}
