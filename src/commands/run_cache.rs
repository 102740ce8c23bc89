//! The folder of run logs in the user's cache, and its limit of size.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::commands::flags::environment::cache_folder;

/// Extension of run logs.
pub(crate) const EXTENSION: &str = "jsonl";

/// How many run logs the cache keeps, and of how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheLimit {
    pub(crate) logs: usize,
    pub(crate) bytes: u64,
}

impl CacheLimit {
    /// The limit that every run applies after it has opened its log: the newest 200 logs, and of
    /// these the newest 2 GiB.
    pub(crate) const DEFAULT: Self = Self {
        logs: 200,
        bytes: 2 << 30,
    };
}

/// A run log in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedLog {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    /// The last write. The log of a run that is still going on is therefore among the newest.
    pub(crate) modified: SystemTime,
}

/// The folder of the run logs; it may not exist yet.
///
/// # Errors
/// The system has no cache folder.
pub(crate) fn folder() -> io::Result<PathBuf> {
    cache_folder("runs")
}

/// The run logs in a folder, newest first; none if the folder does not exist.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn logs(folder: &Path) -> io::Result<Vec<CachedLog>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut logs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_none_or(|extension| extension != EXTENSION)
        {
            continue;
        }
        // Another process may have removed the file since.
        let Ok(file) = fs::symlink_metadata(&path) else {
            continue;
        };
        if file.is_file() {
            let modified = file.modified()?;
            logs.push(CachedLog {
                path,
                bytes: file.len(),
                modified,
            });
        }
    }
    logs.sort_by(|one, other| {
        let newest_first = other.modified.cmp(&one.modified);
        newest_first.then_with(|| other.path.cmp(&one.path))
    });
    Ok(logs)
}

/// The logs, newest first, that exceed the limit. The newest log never exceeds the limit of bytes:
/// it may be that of the run that asks.
pub(crate) fn over_limit(logs: &[CachedLog], limit: CacheLimit) -> &[CachedLog] {
    let mut total_bytes = 0;
    let kept = logs
        .iter()
        .take(limit.logs)
        .enumerate()
        .take_while(|(index, log)| {
            total_bytes += log.bytes;
            *index == 0 || total_bytes <= limit.bytes
        });
    &logs[kept.count()..]
}

/// Removes the logs that exceed the default limit. Logs that cannot be removed stay.
pub(crate) fn enforce_limit(folder: &Path) {
    let Ok(logs) = logs(folder) else {
        return;
    };
    for log in over_limit(&logs, CacheLimit::DEFAULT) {
        let _ = fs::remove_file(&log.path);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn log(name: &str, bytes: u64) -> CachedLog {
        CachedLog {
            path: name.into(),
            bytes,
            modified: UNIX_EPOCH,
        }
    }

    #[test]
    fn the_limit_keeps_the_newest_logs() {
        let logs = [log("c", 30), log("b", 20), log("a", 10)];
        let removed = |logs: &[CachedLog], count: usize, bytes: u64| -> String {
            let removed = over_limit(logs, CacheLimit { logs: count, bytes });
            removed
                .iter()
                .map(|log| log.path.display().to_string())
                .collect()
        };
        assert_eq!(removed(&logs, 3, 60), "");
        assert_eq!(removed(&logs, 3, 59), "a");
        assert_eq!(removed(&logs, 2, 60), "a");
        assert_eq!(removed(&logs, 9, 1), "ba", "the newest log stays");
        assert_eq!(removed(&logs, 0, 60), "cba");
        assert_eq!(removed(&[], 0, 0), "");
    }

    #[test]
    fn only_run_logs_are_listed_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        for (name, age_s) in [("old.jsonl", 20), ("new.jsonl", 10), ("other.json", 5)] {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            let modified = UNIX_EPOCH + Duration::from_secs(1_000 - age_s);
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(modified).unwrap();
        }
        fs::create_dir(folder.path().join("folder.jsonl")).unwrap();
        let names: Vec<_> = logs(folder.path())
            .unwrap()
            .into_iter()
            .map(|log| log.path.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["new.jsonl", "old.jsonl"]);
        assert_eq!(logs(&folder.path().join("missing")).unwrap(), []);
    }
}
