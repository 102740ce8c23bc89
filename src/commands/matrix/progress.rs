//! Progress over the runs of a comparison, and the list of their run logs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::terminal::{LineTimer, ProgressPrefix, TimeLeft};
use sobench_results::to_explain::ToExplain;

/// Run logs that are listed one by one.
const MAX_LISTED_LOGS: usize = 8;

/// The number of runs of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunCount {
    Exactly(usize),
    /// A search ends when its bracket is narrow enough.
    AtMost(usize),
}

/// The time since the start, and the run logs so far.
#[derive(Default)]
pub(super) struct MatrixProgress {
    timer: Arc<LineTimer>,
    logs: Vec<PathBuf>,
    /// The command that explains a failure.
    explanation: Option<String>,
}

impl MatrixProgress {
    /// The prefix of the next round of `round` runs, after `before` of `all`.
    pub(super) fn prefix(
        &self,
        before: usize,
        round: usize,
        all: RunCount,
        labels: &[String],
    ) -> ProgressPrefix {
        ProgressPrefix {
            text: round_label(before, round, all, labels),
            left: time_left(self.timer.elapsed(), before, round, all),
            timer: Arc::clone(&self.timer),
        }
    }

    /// Adds a run log, and a request in it whose failure can be explained.
    pub(super) fn add_log(&mut self, path: Option<&Path>, to_explain: Option<&ToExplain>) {
        self.logs.extend(path.map(Path::to_owned));
        if self.explanation.is_none() {
            self.explanation = path.and_then(|path| Some(to_explain?.line(path)));
        }
    }

    /// The run logs, or their number by folder if there are many, and how to explain a failure.
    pub(super) fn log_lines(&self) -> Vec<String> {
        let mut lines = self.logs_or_folders();
        lines.extend(self.explanation.clone());
        lines
    }

    fn logs_or_folders(&self) -> Vec<String> {
        if self.logs.len() <= MAX_LISTED_LOGS {
            let line = |path: &PathBuf| format!("run log: {}", path.display());
            return self.logs.iter().map(line).collect();
        }
        let mut folders: Vec<(&Path, usize)> = Vec::new();
        for folder in self.logs.iter().filter_map(|path| path.parent()) {
            match folders.iter_mut().find(|(other, _)| *other == folder) {
                Some((_, count)) => *count += 1,
                None => folders.push((folder, 1)),
            }
        }
        let line = |(folder, count): (&Path, usize)| {
            let folder = if folder.as_os_str().is_empty() {
                Path::new(".")
            } else {
                folder
            };
            format!("run logs: {count} in {}", folder.display())
        };
        folders.into_iter().map(line).collect()
    }
}

/// `3/12 xgrammar, json`, or `3-5/12 xgrammar, json, and 2 more` for concurrent runs. In a sweep
/// `3 of at most 12 xgrammar, json`.
fn round_label(before: usize, round: usize, all: RunCount, labels: &[String]) -> String {
    let first = labels.first().map_or("", String::as_str);
    let numbers = match (labels.len(), round) {
        (0 | 1, 0 | 1) => (before + 1).to_string(),
        _ => format!("{}-{}", before + 1, before + round),
    };
    let place = match all {
        RunCount::Exactly(all) => format!("{numbers}/{all}"),
        RunCount::AtMost(all) => format!("{numbers} of at most {all}"),
    };
    match labels.len() {
        0 | 1 => format!("{place} {first}"),
        count => format!("{place} {first}, and {} more", count - 1),
    }
}

/// The estimated time of the runs that are left, by the mean of those before. `elapsed` is the time
/// that those took.
fn time_left(elapsed: Duration, before: usize, round: usize, all: RunCount) -> Option<TimeLeft> {
    let (all, is_at_most) = match all {
        RunCount::Exactly(all) => (all, false),
        RunCount::AtMost(all) => (all, true),
    };
    let per_run_s = (before > 0).then(|| elapsed.as_secs_f64() / before as f64)?;
    let of_runs = |runs: usize| Duration::from_secs_f64(per_run_s * runs as f64);
    let left = all.saturating_sub(before);
    Some(TimeLeft {
        end: elapsed + of_runs(left),
        later_runs: of_runs(left.saturating_sub(round)),
        is_at_most,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_names_the_runs_and_the_time_left() {
        let labels = ["xgrammar, json", "guidance, json"].map(str::to_owned);
        let (all, at_most) = (RunCount::Exactly(12), RunCount::AtMost(12));
        let label = |before, round, all, labels| round_label(before, round, all, labels);
        assert_eq!(label(2, 1, all, &labels[..1]), "3/12 xgrammar, json");
        assert_eq!(
            label(2, 2, all, &labels),
            "3-4/12 xgrammar, json, and 1 more"
        );
        assert_eq!(
            label(2, 2, at_most, &labels[..1]),
            "3-4 of at most 12 xgrammar, json"
        );
        let left = |seconds, before, all, now| {
            let elapsed = Duration::from_secs(seconds);
            time_left(elapsed, before, 1, all).map(|left| left.text(Duration::from_secs(now)))
        };
        let shown = |text: &str| Some(text.to_owned());
        assert_eq!(left(40, 4, all, 40), shown(", 1 min left"));
        assert_eq!(left(4, 4, all, 4), shown(", 8 s left"));
        assert_eq!(left(4, 4, at_most, 4), shown(", at most 8 s left"));
        assert_eq!(left(4, 0, all, 4), None);
        // The last of three runs of 20 minutes, after 11 minutes of it.
        assert_eq!(
            left(2400, 2, RunCount::Exactly(3), 3060),
            shown(", 9 min left")
        );
        // A run that takes longer than those before does not use up the time of later ones.
        assert_eq!(
            left(1200, 1, RunCount::Exactly(3), 9999),
            shown(", 20 min left")
        );
    }

    #[test]
    fn many_run_logs_are_counted_by_folder() {
        let mut progress = MatrixProgress::default();
        for run in 0..8 {
            progress.add_log(Some(Path::new(&format!("logs/{run}.jsonl"))), None);
        }
        assert_eq!(progress.log_lines().len(), 8);
        assert_eq!(progress.log_lines()[0], "run log: logs/0.jsonl");
        progress.add_log(Some(Path::new("other.jsonl")), None);
        progress.add_log(None, None);
        assert_eq!(
            progress.log_lines(),
            ["run logs: 8 in logs", "run logs: 1 in ."]
        );
    }
}
