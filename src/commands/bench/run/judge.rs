//! Before the clock starts: can the answers be judged at all. After it has stopped: verdicts and
//! token counts, from the run log, an answer at a time. Knows no server and no rendering.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Runtime;

use crate::terminal;
use sobench_core::case::Case;
use sobench_core::error::{Error, Result};
use sobench_core::verdict::NotScored;
use sobench_data::dataset::DatasetName;
use sobench_data::tokenizer::Tokenizer;
use sobench_judge::Evaluator;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_results::runlog::RunLog;
use sobench_results::runlog::judge::judge;
use sobench_shutdown::{Shutdown, unless_left};

/// Looks at the constraints before anything is sent. One that belongs to the whole run and cannot
/// be judged by is an error: no answer would get a verdict. Rows that have their own are named, and
/// run.
///
/// # Errors
/// The run's only constraint is broken, or beyond our evaluator.
pub(super) fn look_ahead(
    dataset: DatasetName,
    cases: &[Case],
    evaluator: &mut Evaluator,
) -> Result<Option<Notice>> {
    let mut why = |case: &Case| {
        evaluator.unusable(case.constraint.as_deref()?, case.grammar_oracle.as_deref())
    };
    if !dataset.has_rows() {
        return cases.first().and_then(why).map_or(Ok(None), |why| {
            Err(Error::usage(format!(
                "no answer could be judged by this constraint: {why}"
            ))
            .hint("correct the schema, regex, grammar or oracle; nothing was sent"))
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

/// What judging takes.
pub(super) struct Judging<'a> {
    pub(super) evaluator: Evaluator,
    pub(super) tokenizer: Arc<Tokenizer>,
    pub(super) runtime: &'a Runtime,
    pub(super) shutdown: &'a Shutdown,
}

impl Judging<'_> {
    /// Judges a log, whose file has this path. The user may walk away from it: then the answers are
    /// in the file.
    ///
    /// # Errors
    /// The user did; the log cannot be read again.
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
            )
            .map(|()| log)
        };
        runtime
            .block_on(unless_left(
                "a run",
                work,
                second_request(shutdown.from_now()),
            ))?
            .unwrap_or_else(|| {
                let error = Error::interrupted("stopped before the answers were judged");
                Err(match path {
                    Some(path) => error.hint(format!(
                        "the answers are in the run log, which sobench report judges: {}",
                        path.display()
                    )),
                    None => error.hint("nothing is kept without a run log"),
                })
            })
    }
}

/// Waits for the second shutdown request; the first one tells the user what is waited for.
async fn second_request(shutdown: Shutdown) {
    shutdown.drain_requested().await;
    terminal::say("judging what was done; press Ctrl-C again to end without a report");
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
