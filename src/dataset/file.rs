//! Input files within the limits of datasets, and what is below a folder. Knows no format.

use std::path::Path;

use crate::error::{Error, Result};
use crate::input::{self, Lines};

/// The largest file of rows, in bytes.
pub const MAX_DATASET_BYTES: u64 = 1 << 30;
/// The largest file of one schema, one grammar or the like, in bytes: a tree of values of it may take fifty times as much.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// The most rows of a dataset.
pub const MAX_ROWS: usize = 1_000_000;
/// The most files that are looked at below a folder.
const MAX_LISTED: usize = 100_000;

/// The text of a file of rows, without a byte-order mark.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    input::read_text(path, MAX_DATASET_BYTES)
}

/// The text of a file that holds one thing, without a byte-order mark.
pub(crate) fn read_document(path: &Path) -> Result<String> {
    input::read_text(path, MAX_DOCUMENT_BYTES)
}

/// The lines of a file of rows.
pub(crate) fn read_lines(path: &Path) -> Result<Lines> {
    Lines::open(path, MAX_DATASET_BYTES)
}

/// Refuses more rows than are taken.
pub(super) fn check_rows(count: usize, source: &str) -> Result<()> {
    match count {
        0 => {
            Err(Error::usage(format!("there are no rows in {source}"))
                .hint("give a file that has some; was it written to its end?"))
        }
        1..=MAX_ROWS => Ok(()),
        _ => Err(Error::usage(format!("more than {MAX_ROWS} rows in {source}: {count}")).hint("split the file")),
    }
}

/// The names of all files below a folder, sorted, with `/` between the parts.
///
/// # Errors
/// A folder cannot be read, or there are more than 100,000 files: what was left out would not be seen to be missing.
pub(crate) fn list(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        let unreadable = |error: std::io::Error| input::unreadable(&next, &error);
        for entry in std::fs::read_dir(&next).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path();
            // A link to a folder could lead in a circle; the cache of the Hub links files only.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                names.push(name.replace('\\', "/"));
            }
        }
        if names.len() > MAX_LISTED {
            return Err(Error::usage(format!("more than {MAX_LISTED} files are below {}", folder.display()))
                .hint("give a folder that holds the dataset alone, or a file of it"));
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_folder_is_listed_and_circles_are_not_walked() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        for name in ["b/two.json", "one.json"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(folder.path(), folder.path().join("b/circle")).unwrap();
        let mut names = list(folder.path()).unwrap();
        names.retain(|name| name != "b/circle");
        assert_eq!(names, ["b/two.json", "one.json"]);
        assert!(list(&folder.path().join("none")).unwrap_err().what.starts_with("cannot read "));
    }
}
