//! Whether a file can be made where it is wanted: asked before there is anything to write. Knows no content.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// Sees that this file can be written to. What is there stays as it is, and what was not there is not there afterwards.
///
/// # Errors
/// It cannot.
pub fn try_file(path: &Path) -> io::Result<()> {
    let existed = path.exists();
    OpenOptions::new().append(true).create(true).open(path)?;
    if existed { Ok(()) } else { fs::remove_file(path) }
}

/// Makes the folder that a file is wanted in, where it has one and that is missing.
///
/// # Errors
/// It cannot be made.
pub fn make_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        assert_eq!(try_file(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        make_folder(&path).unwrap();
        try_file(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "kept").unwrap();
        try_file(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        make_folder(Path::new("alone.json")).unwrap();
    }
}
