//! Files that are read: opened, held to a limit, and told for what they are where they are not what
//! was meant. Knows no format of the program's own.
//!
//! Nothing is read that cannot end: a pipe without a writer would be waited for, a device may give
//! bytes for ever. Files are opened more than once, too, and a report names them as what was asked.

mod folder;
pub mod json;
mod lines;
mod look;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

pub use self::folder::list;
use crate::error::{Error, Result};
pub use lines::{Lines, MAX_LINE_BYTES, lines};
pub use look::Look;

/// How a text may begin that an editor saved as UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Opens a file of at most so many bytes, and says how many it has.
///
/// # Errors
/// Usage, naming the path: there is none, it is a folder, a pipe or a device, or it is larger.
pub fn open(path: &Path, max_bytes: u64) -> Result<(File, u64)> {
    // Asked before it is opened: opening a pipe waits for who writes to it.
    let about = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if about.is_dir() {
        return Err(cannot(path, "it is a folder", "give a file in it"));
    }
    if !about.is_file() {
        return Err(cannot(
            path,
            "it is a pipe or a device, and no file",
            "write what it gives to a file, and give that",
        ));
    }
    if about.len() > max_bytes {
        return Err(too_large(path, max_bytes));
    }
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    Ok((file, about.len()))
}

/// The bytes of a file.
///
/// # Errors
/// Usage, naming the path: as for [`open`], and where memory does not hold it.
pub fn read_bytes(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let (file, length) = open(path, max_bytes)?;
    let mut bytes = Vec::new();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(length).map_err(|_| {
        cannot(
            path,
            &format!("there is no memory for its {length} bytes"),
            "split it, or read it where there is more memory",
        )
    })?;
    // A file may grow, and those of `/proc` have no length.
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > max_bytes {
        Err(too_large(path, max_bytes))
    } else {
        Ok(bytes)
    }
}

/// The bytes of a file that is a text, without a byte-order mark. Whether they are UTF-8 is for
/// those to see who read them.
///
/// # Errors
/// Usage, naming the path: as for [`read_bytes`], and where it is something else by its looks.
pub fn read_text_bytes(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    check_text(path, max_bytes)?;
    let mut bytes = read_bytes(path, max_bytes)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// The text of a file, without a byte-order mark.
///
/// # Errors
/// Usage, naming the path, and the line where one is wrong: as for [`read_text_bytes`], and where
/// it is not UTF-8 or has a NUL in it.
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String> {
    let text = String::from_utf8(read_text_bytes(path, max_bytes)?).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        not_utf8(path, line_of(error.as_bytes(), good))
    })?;
    match memchr::memchr(0, text.as_bytes()) {
        Some(place) => Err(nul(path, line_of(text.as_bytes(), place))),
        None => Ok(text),
    }
}

/// The first byte of a text that is no white space, which tells a list of JSON from an object
/// before either is read.
///
/// # Errors
/// As for [`check_text`].
pub fn first_byte(path: &Path, max_bytes: u64) -> Result<Option<u8>> {
    check_text(path, max_bytes)?;
    let begin = beginning(path, max_bytes)?;
    let begin = begin.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&begin);
    Ok(begin.trim_ascii_start().first().copied())
}

/// Refuses what is no text by its looks, before it is read as a whole.
///
/// # Errors
/// As for [`open`], and where it is something else.
pub fn check_text(path: &Path, max_bytes: u64) -> Result<()> {
    check_bytes(path, max_bytes, |_| false)
}

/// Refuses what is packed, a page, a picture or a pointer to the file by its looks, where it should
/// be bytes of another kind; `is_meant` says which looks are right.
///
/// # Errors
/// As for [`check_text`].
pub fn check_bytes(path: &Path, max_bytes: u64, is_meant: impl Fn(Look) -> bool) -> Result<()> {
    match Look::of(&beginning(path, max_bytes)?).filter(|look| !is_meant(*look)) {
        Some(look) => Err(look.refuse(path)),
        None => Ok(()),
    }
}

/// As much of a file as its looks show in.
///
/// # Errors
/// As for [`open`].
pub fn beginning(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let mut begin = Vec::new();
    let (file, _) = open(path, max_bytes)?;
    file.take(look::LOOKED_AT_BYTES)
        .read_to_end(&mut begin)
        .map_err(|error| unreadable(path, &error))?;
    Ok(begin)
}

/// What is said of a file that cannot be opened or read.
pub fn unreadable(path: &Path, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "give a file that exists",
        io::ErrorKind::PermissionDenied => "give a file that you may read",
        _ => "give a file that can be read",
    };
    cannot(path, &error.to_string(), hint)
}

fn cannot(path: &Path, why: &str, hint: &str) -> Error {
    Error::usage(format!("cannot read {}: {why}", path.display())).hint(hint)
}

fn too_large(path: &Path, max_bytes: u64) -> Error {
    cannot(
        path,
        &format!("it is larger than {max_bytes} bytes"),
        "split the file",
    )
}

fn not_utf8(path: &Path, line: usize) -> Error {
    Error::usage(format!("{}, line {line}: not UTF-8", path.display()))
        .hint("save the file as UTF-8")
}

fn nul(path: &Path, line: usize) -> Error {
    Error::usage(format!(
        "{}, line {line}: a NUL, which is in no text",
        path.display()
    ))
    .hint("the file is damaged, or is no text; make or fetch it again")
}

/// The number of the line, from 1, that the byte at `place` is in.
fn line_of(bytes: &[u8], place: usize) -> usize {
    1 + lines::ends(&bytes[..place])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 1000;

    #[track_caller]
    fn check(bytes: &[u8], expected: std::result::Result<&str, &str>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.txt");
        fs::write(&path, bytes).unwrap();
        let read = read_text(&path, LIMIT);
        let expected = expected.map(str::to_owned);
        let words = |error: Error| error.what.replace(&path.display().to_string(), "FILE");
        assert_eq!(
            read.map_err(words).as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|it| *it)
        );
    }

    #[test]
    fn a_text_is_read_whole_or_told_where_it_is_none() {
        check(b"", Ok(""));
        check(b"a\r\nb", Ok("a\r\nb"));
        check("\u{feff}a".as_bytes(), Ok("a"));
        check(
            &[b'a'; 1001],
            Err("cannot read FILE: it is larger than 1000 bytes"),
        );
        check(b"a\nb\xff\n", Err("FILE, line 2: not UTF-8"));
        check(b"a\rb\r\n\xff", Err("FILE, line 3: not UTF-8"));
        check(
            b"a\n\0",
            Err("cannot read FILE: it has NULs in it, and is no text"),
        );
        check(
            &[&[b'\n'; 600], b"\0".as_slice()].concat(),
            Err("FILE, line 601: a NUL, which is in no text"),
        );
        check(&[b'a'; 1000], Ok(&"a".repeat(1000)));
        check(
            b"\x1f\x8b\x08",
            Err("cannot read FILE: it is packed with gzip"),
        );
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| read_bytes(path, LIMIT).unwrap_err();
        assert!(error(folder.path()).what.ends_with("it is a folder"));
        let missing = error(&folder.path().join("none"));
        assert!(
            missing.what.starts_with("cannot read ") && missing.what.contains("none: "),
            "{missing}"
        );
        assert_eq!(missing.hint.as_deref(), Some("give a file that exists"));
        #[cfg(target_os = "linux")]
        {
            let link = folder.path().join("zero");
            std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
            assert!(
                error(&link)
                    .what
                    .ends_with("it is a pipe or a device, and no file")
            );
            assert!(
                !read_text(Path::new("/proc/self/status"), 1 << 20)
                    .unwrap()
                    .is_empty(),
                "its length is 0"
            );
        }
    }
}
