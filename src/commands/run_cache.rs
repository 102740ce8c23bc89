//! The folder of run logs in the user's cache, and its limit of size.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::commands::flags::environment::cache_folder;
use crate::terminal;
use sobench_core::error::{Error, Result};
use sobench_plan::record::RunRecord;

/// Extension of run logs.
pub(crate) const EXTENSION: &str = "jsonl";

/// The longest name of a log; file systems allow 255 bytes.
const MAX_NAME_CHARS: usize = 150;

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

/// The name of a run's log in the cache, without its ending: date, dataset and model.
pub(crate) fn stem(record: &RunRecord) -> String {
    let model = record
        .server
        .model_id
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let dataset = &record.settings.dataset.source.name;
    let shard = record.shard.as_ref().map_or_else(String::new, |shard| {
        format!("-shard-{}-of-{}", shard.number, shard.of)
    });
    let stem = format!("{}-{dataset}-{model}{shard}", record.date());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let plain = stem.chars().map(|c| if is_plain(c) { c } else { '-' });
    plain.take(MAX_NAME_CHARS).collect()
}

/// The newest run logs of the cache, newest first.
///
/// # Errors
/// There are fewer, or the cache cannot be read.
pub(crate) fn newest(count: usize) -> Result<Vec<PathBuf>> {
    let (folder, logs) = cached()?;
    if logs.len() < count || count == 0 {
        let found = logs.len();
        return Err(Error::usage(format!(
            "--last wants {count} run logs, and the cache has {found}: {}",
            folder.display()
        ))
        .hint("run sobench first, or name the files; a run with --run-log is not in the cache"));
    }
    let newest: Vec<PathBuf> = logs.into_iter().take(count).map(|log| log.path).collect();
    for path in newest.iter().rev() {
        terminal::say(&format!("from the cache: {}", path.display()));
    }
    Ok(newest)
}

/// The folder of the cache, and the run logs in it, newest first.
///
/// # Errors
/// The cache cannot be read.
pub(crate) fn cached() -> Result<(PathBuf, Vec<CachedLog>)> {
    let cannot_read = |folder: &Path, error: io::Error| {
        Error::environment(format!("cannot read {}: {error}", folder.display()))
            .hint("set XDG_CACHE_HOME to a readable folder, or name logs with --run-log")
    };
    let folder = folder().map_err(|error| cannot_read(Path::new("the cache folder"), error))?;
    let logs = logs(&folder).map_err(|error| cannot_read(&folder, error))?;
    Ok((folder, logs))
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
