//! The requests that a side lost, as shell lines that send them again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use sobench_core::error::Result;
use sobench_report::from_log::resend;
use sobench_results::compare::Comparison;
use sobench_results::compare::side::FileKind;
use sobench_runlog::RunLog;

/// Adds a line to each shown case that got worse, if the run log of its side can be sent again. The
/// server of an embedded run has ended.
///
/// # Errors
/// A run log has changed since it was read.
pub(super) fn add_curls(comparison: &mut Comparison) -> Result<()> {
    let Comparison { sides, against, .. } = comparison;
    for found in against {
        let mut logs: HashMap<usize, RunLog> = HashMap::new();
        let cases = found
            .changed
            .iter_mut()
            .flat_map(|changed| &mut changed.cases);
        for case in cases.filter(|case| case.worse) {
            let Some((number, request)) = case.b.place else {
                continue;
            };
            let run = &sides[found.other].runs[number];
            let Some(path) = run
                .path
                .as_ref()
                .filter(|_| run.kind == FileKind::SobenchRunLog)
            else {
                continue;
            };
            let log = match logs.entry(number) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(RunLog::read(path)?),
            };
            let resend = resend(log);
            if let Some(sample) = log.requests.get(request).filter(|_| !resend.server_is_gone) {
                case.curl = resend.line(&sample.case()).ok();
            }
        }
    }
    Ok(())
}
