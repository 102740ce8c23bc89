//! What is below a folder.

use std::path::Path;

use super::unreadable;
use crate::error::{Error, Result};

/// The most files that are looked at below a folder.
const MAX_LISTED: usize = 100_000;

/// The names of all files below a folder, sorted, with `/` between the parts.
///
/// # Errors
/// A folder cannot be read, or there are more than 100,000 files: what was left out would not be
/// seen to be missing.
pub fn list(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        let cannot_read = |error: std::io::Error| unreadable(&next, &error);
        for entry in std::fs::read_dir(&next).map_err(cannot_read)? {
            let entry = entry.map_err(cannot_read)?;
            let path = entry.path();
            // A link to a folder could lead in a circle; the cache of the Hub links files only.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                names.push(name.replace('\\', "/"));
            }
        }
        if names.len() > MAX_LISTED {
            return Err(Error::usage(format!(
                "more than {MAX_LISTED} files are below {}",
                folder.display()
            ))
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
        assert!(
            list(&folder.path().join("none"))
                .unwrap_err()
                .what
                .starts_with("cannot read ")
        );
    }
}
