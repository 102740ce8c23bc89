//! Opens and reads input files within size limits, and recognises wrong file types.
//!
//! Pipes and devices are refused: a pipe without a writer blocks, and a device may never end. Also,
//! files are opened more than once.

mod file_signature;
mod folder;
pub mod json;
mod line_batches;
mod lines;

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

pub use self::folder::list_files;
use crate::error::{Error, Result};
pub use file_signature::FileSignature;
pub use line_batches::{LineBatch, LineBatches};
pub use lines::{Lines, MAX_LINE_BYTES, lines};

/// The UTF-8 byte order mark, which some editors write.
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Opens a file of at most `max_bytes` bytes and returns its length.
///
/// # Errors
/// Usage error with the path: not found, a folder, a pipe or device, or too large.
pub fn open(path: &Path, max_bytes: u64) -> Result<(File, u64)> {
    // Checked before opening, because opening a pipe waits for its writer.
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if metadata.is_dir() {
        return Err(cannot(path, "it is a folder", "use a file in it"));
    }
    if !metadata.is_file() {
        return Err(cannot(
            path,
            "it is a pipe or a device",
            "write its content to a file and use that",
        ));
    }
    if metadata.len() > max_bytes {
        return Err(too_large(path, max_bytes));
    }
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    Ok((file, metadata.len()))
}

/// Reads the bytes of a file.
///
/// # Errors
/// Usage error with the path: as for [`open`], or out of memory.
pub fn read_bytes(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let (file, length) = open(path, max_bytes)?;
    let mut bytes = Vec::new();
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(length).map_err(|_| {
        cannot(
            path,
            &format!("not enough memory for its {length} bytes"),
            "split the file, or use a machine with more memory",
        )
    })?;
    // The file may grow while it is read, and files in `/proc` have length 0.
    file.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    if bytes.len() as u64 > max_bytes {
        Err(too_large(path, max_bytes))
    } else {
        Ok(bytes)
    }
}

/// Reads the bytes of a text file, without a byte order mark. The caller checks that they are
/// UTF-8.
///
/// # Errors
/// Usage error with the path: as for [`read_bytes`], or if the file has another type.
pub fn read_text_bytes(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    check_text(path, max_bytes)?;
    let mut bytes = read_bytes(path, max_bytes)?;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// Opens a text file, to read it in parts, without a byte order mark. The caller checks that it is
/// UTF-8.
///
/// # Errors
/// Usage error with the path: as for [`check_text`].
pub fn open_text(path: &Path, max_bytes: u64) -> Result<impl Read> {
    check_text(path, max_bytes)?;
    let (file, _) = open(path, max_bytes)?;
    let mut file = BufReader::new(file);
    let start = file.fill_buf().map_err(|error| unreadable(path, &error))?;
    if start.starts_with(BYTE_ORDER_MARK) {
        file.consume(BYTE_ORDER_MARK.len());
    }
    Ok(file)
}

/// Reads a text file, without a byte order mark.
///
/// # Errors
/// Usage error with the path and, for bad content, the line: as for [`read_text_bytes`], or if it
/// is not UTF-8 or contains a NUL.
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String> {
    let text = String::from_utf8(read_text_bytes(path, max_bytes)?).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        not_utf8(path, line_of(error.as_bytes(), good))
    })?;
    match memchr::memchr(0, text.as_bytes()) {
        Some(position) => Err(nul(path, line_of(text.as_bytes(), position))),
        None => Ok(text),
    }
}

/// The first byte of a text that is not white space. It distinguishes a JSON array from an object
/// without parsing.
///
/// # Errors
/// As for [`check_text`].
pub fn first_byte(path: &Path, max_bytes: u64) -> Result<Option<u8>> {
    check_text(path, max_bytes)?;
    let start = read_prefix(path, max_bytes)?;
    let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&start);
    Ok(start.trim_ascii_start().first().copied())
}

/// Refuses files whose first bytes show that they are not text.
///
/// # Errors
/// As for [`open`], or if the file has another type.
pub fn check_text(path: &Path, max_bytes: u64) -> Result<()> {
    check_bytes(path, max_bytes, |_| false)
}

/// Refuses compressed files, HTML pages, images and pointer files by their first bytes; `is_meant`
/// accepts expected types.
///
/// # Errors
/// As for [`check_text`].
pub fn check_bytes(
    path: &Path,
    max_bytes: u64,
    is_meant: impl Fn(FileSignature) -> bool,
) -> Result<()> {
    match FileSignature::detect(&read_prefix(path, max_bytes)?).filter(|look| !is_meant(*look)) {
        Some(look) => Err(look.refuse(path)),
        None => Ok(()),
    }
}

/// Reads the first bytes of a file, enough to detect its type.
///
/// # Errors
/// As for [`open`].
pub fn read_prefix(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (file, _) = open(path, max_bytes)?;
    file.take(file_signature::SIGNATURE_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

/// The error for a file that cannot be opened or read.
pub fn unreadable(path: &Path, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path",
        io::ErrorKind::PermissionDenied => "check the permissions of the file",
        _ => "use a file that can be read",
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
        "{}, line {line}: NUL character in text",
        path.display()
    ))
    .hint("the file is damaged or not a text file; create or download it again")
}

/// The line number, from 1, of the byte at `position`.
fn line_of(bytes: &[u8], position: usize) -> usize {
    1 + lines::ends(&bytes[..position])
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
        let message = |error: Error| error.what.replace(&path.display().to_string(), "FILE");
        assert_eq!(
            read.map_err(message).as_ref().map_err(String::as_str),
            expected.as_ref().map_err(|message| *message)
        );
    }

    #[test]
    fn invalid_text_is_reported_with_its_line() {
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
            Err("cannot read FILE: it contains NUL characters and is not text"),
        );
        check(
            &[&[b'\n'; 600], b"\0".as_slice()].concat(),
            Err("FILE, line 601: NUL character in text"),
        );
        check(&[b'a'; 1000], Ok(&"a".repeat(1000)));
        check(
            b"\x1f\x8b\x08",
            Err("cannot read FILE: it is compressed with gzip"),
        );
    }

    #[test]
    fn folders_and_devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| read_bytes(path, LIMIT).unwrap_err();
        assert!(error(folder.path()).what.ends_with("it is a folder"));
        let missing = error(&folder.path().join("none"));
        assert!(
            missing.what.starts_with("cannot read ") && missing.what.contains("none: "),
            "{missing}"
        );
        assert_eq!(missing.hint.as_deref(), Some("check the path"));
        #[cfg(target_os = "linux")]
        {
            let link = folder.path().join("zero");
            std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
            assert!(error(&link).what.ends_with("it is a pipe or a device"));
            assert!(
                !read_text(Path::new("/proc/self/status"), 1 << 20)
                    .unwrap()
                    .is_empty(),
                "its length is 0"
            );
        }
    }
}
