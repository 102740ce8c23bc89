//! Lists the files below a folder.

use std::path::Path;

use super::unreadable;
use crate::error::{Error, Result};

/// Maximum number of files below a folder.
const MAX_LISTED: usize = 100_000;

/// Lists all files below a folder as relative paths with `/`, sorted.
///
/// # Errors
/// A folder cannot be read, or there are more than 100,000 files. A partial list would hide the
/// missing ones.
pub fn list_files(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        let cannot_read = |error: std::io::Error| unreadable(&next, &error);
        for entry in std::fs::read_dir(&next).map_err(cannot_read)? {
            let entry = entry.map_err(cannot_read)?;
            let path = entry.path();
            // Links to folders are not followed, because they may form a cycle; the cache of the
            // Hub only links files.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                names.push(name.replace('\\', "/"));
            }
        }
        if names.len() > MAX_LISTED {
            return Err(Error::usage(format!(
                "more than {MAX_LISTED} files below {}",
                folder.display()
            ))
            .hint("use a folder that contains only the dataset, or one of its files"));
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_a_folder_are_listed_without_following_links() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("b")).unwrap();
        for name in ["b/two.json", "one.json"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), folder.path().join("b/circle")).unwrap();
        let mut names = list_files(folder.path()).unwrap();
        names.retain(|name| name != "b/circle");
        assert_eq!(names, ["b/two.json", "one.json"]);
        assert!(
            list_files(&folder.path().join("none"))
                .unwrap_err()
                .what
                .starts_with("cannot read ")
        );
    }
}
