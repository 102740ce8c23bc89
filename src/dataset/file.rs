//! Reading input files within limits. Knows no format beyond lines.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};

/// The largest input file, in bytes: schema, grammar or rows.
pub const MAX_DATASET_BYTES: u64 = 1 << 30;
/// The most rows of a dataset.
pub const MAX_ROWS: usize = 1_000_000;
/// The most files that are looked at below a folder.
const MAX_LISTED: usize = 100_000;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The bytes of a file.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let shown = path.display();
    let fail = |error: std::io::Error| Error::usage(format!("cannot read {shown}: {error}")).hint("give a file that exists");
    let mut bytes = Vec::new();
    File::open(path).map_err(fail)?.take(MAX_DATASET_BYTES + 1).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() as u64 > MAX_DATASET_BYTES {
        return Err(Error::usage(format!("larger than {MAX_DATASET_BYTES} bytes: {shown}")).hint("split the file"));
    }
    Ok(bytes)
}

/// The text of a file, without a byte-order mark.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let bytes = read_bytes(path)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count();
        Error::usage(format!("{}, line {line}: not UTF-8", path.display())).hint("save the file as UTF-8")
    })?;
    Ok(text.strip_prefix(BYTE_ORDER_MARK).map(str::to_owned).unwrap_or(text))
}

/// The lines that are not blank, each with its number from 1.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line.trim())).filter(|(_, line)| !line.is_empty())
}

/// Refuses more rows than are taken.
pub(super) fn check_rows(count: usize, source: &str) -> Result<()> {
    match count {
        0 => Err(Error::usage(format!("there are no rows in {source}"))),
        1..=MAX_ROWS => Ok(()),
        _ => Err(Error::usage(format!("more than {MAX_ROWS} rows in {source}: {count}")).hint("split the file")),
    }
}

/// The names of all files below a folder, sorted, with `/` between the parts; what cannot be read is not there.
pub(crate) fn list(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            // A link to a folder could lead in a circle; the cache of the Hub links files only.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                names.push(name.replace('\\', "/"));
            }
        }
        if names.len() > MAX_LISTED {
            break;
        }
    }
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_numbers_through_blanks_and_carriage_returns() {
        let read: Vec<_> = lines("a\r\n\r\n \nb").collect();
        assert_eq!(read, [(1, "a"), (4, "b")]);
    }

    #[test]
    fn a_bad_byte_is_named_by_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, b"a\nb\xff\n").unwrap();
        assert!(read_text(&path).unwrap_err().what.ends_with("rows.jsonl, line 2: not UTF-8"));
        std::fs::write(&path, "\u{feff}a").unwrap();
        assert_eq!(read_text(&path).unwrap(), "a");
        assert!(read_text(&folder.path().join("none")).unwrap_err().what.starts_with("cannot read"));
    }
}
