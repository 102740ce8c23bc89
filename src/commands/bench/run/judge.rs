//! Checks before the run that answers can be judged, and judges the run log after it.

use std::collections::HashMap;
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
use sobench_runlog::RunLog;
use sobench_runlog::judge::judge;
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
        let constraint = case.constraint.as_deref()?;
        let oracle = case.grammar_oracle.as_deref();
        let compiled = evaluator.compile_request(Some(constraint), oracle, None);
        compiled.not_scorable().cloned()
    };
    if !dataset.has_row_constraints() {
        return cases.first().and_then(why).map_or(Ok(None), |why| {
            Err(Error::usage(format!(
                "no answer could be judged by this constraint: {why}"
            ))
            .hint("fix the schema, regex, grammar or oracle; nothing was sent"))
        });
    }
    // Rows with the same constraint share it, and the evaluator keeps only some.
    let key = |case: &Case| {
        let oracle = case.grammar_oracle.as_ref().map(|oracle| oracle.as_ptr());
        Some((Arc::as_ptr(case.constraint.as_ref()?), oracle))
    };
    let (mut indices, mut different) = (HashMap::new(), Vec::new());
    for case in cases {
        if let Some(key) = key(case) {
            indices.entry(key).or_insert_with(|| {
                different.push(case);
                different.len() - 1
            });
        }
    }
    progress.expect(different.len() as u64);
    let whys: Vec<Option<NotScored>> = different
        .into_iter()
        .map(|case| {
            progress.advance(1);
            why(case)
        })
        .collect();
    let unusable: Vec<(&Case, &NotScored)> = cases
        .iter()
        .filter_map(|case| Some((case, whys[*indices.get(&key(case)?)?].as_ref()?)))
        .collect();
    Ok(unusable.first().map(|(case, why)| {
        let first_request = case.id.clone();
        BenchNotice::UnusableConstraints {
            requests: unusable.len(),
            first_request,
            why: (*why).clone(),
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
        let (mut evaluator, tokenizer) = (self.evaluator, self.tokenizer);
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
        let stopped = second_request(self.shutdown.from_now());
        self.runtime
            .block_on(run_abandonable("a run", work, stopped))?
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use serde_json::json;

    use super::*;
    use sobench_core::case::Prompt;
    use sobench_core::constraint::Constraint;
    use sobench_judge::JudgeSettings;

    #[derive(Default)]
    struct Counted {
        expected: AtomicU64,
        done: AtomicU64,
    }

    impl Progress for Counted {
        fn expect(&self, more: u64) {
            self.expected.fetch_add(more, Ordering::Relaxed);
        }

        fn advance(&self, by: u64) {
            self.done.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// More constraints than the evaluator keeps, in turn.
    #[test]
    fn a_constraint_of_many_requests_is_compiled_once() {
        let broken = |index| match index {
            7 => json!({"pattern": "("}),
            _ => json!({"maxLength": index}),
        };
        let constraints: Vec<_> = (0..300)
            .map(|index| Arc::new(Constraint::JsonSchema(Arc::new(broken(index)))))
            .collect();
        let case = |index: usize| {
            let constraint = Arc::clone(&constraints[index % 300]);
            let prompt = Prompt::Text("Hi".into());
            Case::new(format!("custom-{index}"), prompt, Some(constraint), 8)
        };
        let cases: Vec<Case> = (0..1000).map(case).collect();
        let (counted, mut evaluator) =
            (Counted::default(), Evaluator::new(JudgeSettings::default()));
        let notice = look_ahead(DatasetName::Custom, &cases, &mut evaluator, &counted).unwrap();
        let Some(Notice::Bench(BenchNotice::UnusableConstraints {
            requests,
            first_request,
            ..
        })) = notice
        else {
            panic!("{notice:?}");
        };
        assert_eq!((requests, first_request.as_str()), (4, "custom-7"));
        assert_eq!(counted.expected.into_inner(), 300);
        assert_eq!(counted.done.into_inner(), 300);
    }

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
