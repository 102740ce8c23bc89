//! Progress over the runs of a comparison, and the list of their run logs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::terminal::{LineTimer, ProgressPrefix};

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
            left: time_left(self.timer.elapsed(), before, all),
            timer: Arc::clone(&self.timer),
        }
    }

    pub(super) fn add_log(&mut self, path: Option<&Path>) {
        self.logs.extend(path.map(Path::to_owned));
    }

    /// The run logs, or their number by folder if there are many.
    pub(super) fn log_lines(&self) -> Vec<String> {
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

/// The estimated time of the runs that are left, by the mean of those before.
fn time_left(elapsed: Duration, before: usize, all: RunCount) -> String {
    let (all, at_most) = match all {
        RunCount::Exactly(all) => (all, ""),
        RunCount::AtMost(all) => (all, "at most "),
    };
    if before == 0 {
        return String::new();
    }
    let left_s = elapsed.as_secs_f64() / before as f64 * all.saturating_sub(before) as f64;
    if left_s < 60.0 {
        format!(", {at_most}{left_s:.0} s left")
    } else {
        format!(", {at_most}{:.0} min left", left_s / 60.0)
    }
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
        let left = |seconds, before, all| time_left(Duration::from_secs(seconds), before, all);
        assert_eq!(left(40, 4, all), ", 1 min left");
        assert_eq!(left(4, 4, all), ", 8 s left");
        assert_eq!(left(4, 4, at_most), ", at most 8 s left");
        assert_eq!(left(4, 0, all), "");
    }

    #[test]
    fn many_run_logs_are_counted_by_folder() {
        let mut progress = MatrixProgress::default();
        for run in 0..8 {
            progress.add_log(Some(Path::new(&format!("logs/{run}.jsonl"))));
        }
        assert_eq!(progress.log_lines().len(), 8);
        assert_eq!(progress.log_lines()[0], "run log: logs/0.jsonl");
        progress.add_log(Some(Path::new("other.jsonl")));
        progress.add_log(None);
        assert_eq!(
            progress.log_lines(),
            ["run logs: 8 in logs", "run logs: 1 in ."]
        );
    }
}
