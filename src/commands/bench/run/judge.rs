//! Checks before the run that answers can be judged, and judges the run log after it.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::terminal;
use sobench_core::case::Case;
use sobench_core::error::{Error, Result};
use sobench_core::progress::Progress;
use sobench_core::verdict::NotScored;
use sobench_data::dataset::DatasetName;
use sobench_data::tokenizer::Tokenizer;
use sobench_judge::Evaluator;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_results::runlog::RunLog;
use sobench_results::runlog::judge::judge;
use sobench_shutdown::{Shutdown, run_abandonable};

/// Checks the constraints before anything is sent. An unusable constraint of the whole run is an
/// error; unusable constraints of rows are notices.
///
/// # Errors
/// The only constraint of the run is broken or unsupported.
pub(crate) fn look_ahead(
    dataset: DatasetName,
    cases: &[Case],
    evaluator: &mut Evaluator,
    progress: &dyn Progress,
) -> Result<Option<Notice>> {
    let mut why = |case: &Case| {
        progress.advance(1);
        evaluator.not_scorable_reason(case.constraint.as_deref()?, case.grammar_oracle.as_deref())
    };
    if !dataset.has_row_constraints() {
        return cases.first().and_then(why).map_or(Ok(None), |why| {
            Err(Error::usage(format!(
                "no answer could be judged by this constraint: {why}"
            ))
            .hint("fix the schema, regex, grammar or oracle; nothing was sent"))
        });
    }
    let unusable: Vec<(&Case, NotScored)> = cases
        .iter()
        .filter_map(|case| Some((case, why(case)?)))
        .collect();
    Ok(unusable.first().map(|(case, why)| {
        let first_request = case.id.clone();
        BenchNotice::UnusableConstraints {
            requests: unusable.len(),
            first_request,
            why: why.clone(),
        }
        .into()
    }))
}

/// The dependencies of judging.
pub(super) struct Judging<'a> {
    pub(super) evaluator: Evaluator,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) runtime: &'a Runtime,
    pub(super) shutdown: &'a Shutdown,
}

impl Judging<'_> {
    /// Judges a log, whose file has this path. After a second signal the answers stay in the file.
    ///
    /// # Errors
    /// The user stopped it; the log cannot be read again.
    pub(super) fn judge(self, mut log: RunLog, path: Option<PathBuf>) -> Result<RunLog> {
        let Self {
            mut evaluator,
            tokenizer,
            runtime,
            shutdown,
        } = self;
        let work = move || {
            judge(
                &mut log,
                &mut evaluator,
                Some(&|text| tokenizer.count(text)),
                // Other runs of a comparison may be under way.
                1,
                &(),
            )
            .map(|()| log)
        };
        runtime
            .block_on(run_abandonable(
                "a run",
                work,
                second_request(shutdown.from_now()),
            ))?
            .unwrap_or_else(|| {
                let error = Error::interrupted("stopped before the answers were judged");
                Err(match path {
                    Some(path) => error.hint(format!(
                        "judge the run log with sobench report: {}",
                        path.display()
                    )),
                    None => error.hint("keep a run log with --run-log"),
                })
            })
    }
}

/// Waits for the second shutdown signal. The first one prints how to stop.
async fn second_request(shutdown: Shutdown) {
    shutdown.drain_requested().await;
    terminal::say("judging the answers; press Ctrl-C again to exit without a report");
    shutdown.abort_requested().await;
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn the_second_request_after_the_run_was_sent_leaves_the_judging() {
        let shutdown = Shutdown::new();
        shutdown.request();
        let mut left = pin!(second_request(shutdown.from_now()));
        for is_left in [false, true] {
            shutdown.request();
            let found = tokio::select! {
                biased;
                () = &mut left => true,
                () = ready(()) => false,
            };
            assert_eq!(found, is_left);
        }
    }
}
