//! Checks that output files can be written before a run, and writes them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::secrets::Redactor;

/// Checks that a file can be written. Leaves existing content unchanged.
///
/// # Errors
/// It cannot be written.
pub fn check_writable(path: &Path) -> io::Result<()> {
    match Target::new(path)? {
        Target::Device(_) => Ok(()),
        Target::File { beside, file, .. } => {
            drop(file);
            fs::remove_file(beside)
        }
    }
}

/// Creates the parent folder of a file if it is missing.
///
/// # Errors
/// It cannot be created.
pub fn create_parent_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Maximum number of numbered files with the same stem in a folder.
pub const MAX_SAME_NAMES: u32 = 1000;

/// File names to try in order: `stem.ending`, `stem-2.ending` and so on, because runs that start in
/// the same second get the same stem.
pub fn numbered_names(stem: &str, ending: &str) -> impl Iterator<Item = String> {
    let (stem, ending) = (stem.to_owned(), ending.to_owned());
    (1..=MAX_SAME_NAMES).map(move |number: u32| match number {
        1 => format!("{stem}.{ending}"),
        _ => format!("{stem}-{number}.{ending}"),
    })
}

/// Appends parts to the stem of the file name.
pub fn with_suffix(path: &Path, parts: &[String]) -> PathBuf {
    if parts.is_empty() {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = format!("{stem}-{}", parts.join("-"));
    match path.extension() {
        Some(extension) => path.with_file_name(format!("{name}.{}", extension.to_string_lossy())),
        None => path.with_file_name(name),
    }
}

/// Writes a report, and creates missing folders. See [`replace`].
///
/// # Errors
/// It cannot be created or written, or `fill` fails.
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    create_parent_folder(path).map_err(|error| cannot_write_report(path, &error))?;
    replace(path, fill, |error| cannot_write_report(path, error))
}

/// Writes a file beside the path, and renames it when it is complete: an existing file is whole at
/// any time. `cannot_write` converts I/O errors to an error with the name of the file.
///
/// # Errors
/// It cannot be written, or `fill` fails. An existing file is unchanged.
pub fn replace(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
    cannot_write: impl Fn(&io::Error) -> Error,
) -> Result<()> {
    let (target, beside, file) = match Target::new(path).map_err(|error| cannot_write(&error))? {
        Target::Device(file) => return write_to_open_file(file, fill, cannot_write),
        Target::File {
            target,
            beside,
            file,
        } => (target, beside, file),
    };
    let renamed = || {
        if let Ok(existing) = fs::metadata(&target) {
            fs::set_permissions(&beside, existing.permissions())?;
        }
        fs::rename(&beside, &target)
    };
    let written = write_to_open_file(file, fill, &cannot_write)
        .and_then(|()| renamed().map_err(|error| cannot_write(&error)));
    if written.is_err() {
        // Nothing more can be done about a file that cannot be removed.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Writes a text as [`write()`] does.
///
/// # Errors
/// It cannot be created or written.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    write(path, |out| {
        out.write_all(text.as_bytes())
            .map_err(|error| cannot_write_report(path, &error))
    })
}

/// Where an output is written.
enum Target {
    /// A terminal, a pipe or another device: cannot be replaced.
    Device(File),
    /// `beside` is open, and becomes `target`.
    File {
        target: PathBuf,
        beside: PathBuf,
        file: File,
    },
}

impl Target {
    fn new(path: &Path) -> io::Result<Self> {
        // Of a link, the file it leads to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if target.exists() {
            // A file that must not be written is not replaced either.
            let file = OpenOptions::new().append(true).open(&target)?;
            if !file.metadata()?.is_file() {
                return Ok(Self::Device(file));
            }
        }
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let beside = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = File::create(&beside)?;
        Ok(Self::File {
            target,
            beside,
            file,
        })
    }
}

/// Refuses a path with a file that sobench did not write. `flag` names the file.
///
/// # Errors
/// A usage error.
pub fn refuse_foreign(path: &Path, flag: &str) -> Result<()> {
    let is_foreign = path.is_file() && !is_ours(path).unwrap_or(false);
    if !is_foreign {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{flag} would overwrite a file that sobench did not write: {}",
        path.display()
    ))
    .hint(format!("give {flag} another path, or add --force")))
}

/// Bytes of a file that show its format.
const HEAD_BYTES: u64 = 2 << 10;

/// The starts of our formats.
const STARTS: [&str; 16] = [
    r#"{"header":{"version":"#,
    r#"{"sobench_mask_rows":"#,
    r#"{"sobench_witness":"#,
    r#"[{"benchmark":"#,
    "{\n    \"outputs\": [\n        {\n            \"generated\":",
    "### sobench: ",
    "accepted? ",
    "# Acceptance: ",
    "-----BEGIN SSH SIGNATURE-----",
    "untrusted comment: signature ",
    "index,case,arm,",
    "index,entry,engine,",
    "tag,engine,schemas,",
    r#"{"method":"POST","custom_id":"#,
    ".TH \"sobench",
    r#"<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"/><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline';"#,
];

/// Words near the start of our other formats, all of which are there.
const MARKS: [&[&str]; 9] = [
    &["<testsuites ", r#" package="sobench""#],
    &["\n  \"format\": \"sobench-"],
    &["\n  \"sobench_baseline\":"],
    &["\"schemaVersion\": 1", "\"label\": \"sobench "],
    &[r#""endpoint_type":"#, r#""num_prompts":"#],
    &[r#"{"case":"#, r#","failing_as":"#],
    &[
        r#""valid":"#,
        r#","reason":"#,
        r#","path":"#,
        r#","message":"#,
    ],
    &["\nsobench: ", "\nservers: ", "\neach row: "],
    &[
        "============ Serving Benchmark Result ============\n",
        "\nSuccessful requests:  ",
    ],
];

/// Whether a file is empty or has one of our formats, which are also those of vLLM's results.
fn is_ours(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    let head = String::from_utf8_lossy(&head);
    let has_all = |words: &&[&str]| words.iter().all(|word| head.contains(word));
    Ok(head.is_empty()
        || STARTS.iter().any(|start| head.starts_with(start))
        || MARKS.iter().any(has_all))
}

/// Writes to an open file, without secrets. `cannot_write` converts I/O errors of the file to an
/// error with its name.
///
/// # Errors
/// It cannot be written, or `fill` fails.
pub fn write_to_open_file(
    file: File,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
    cannot_write: impl Fn(&io::Error) -> Error,
) -> Result<()> {
    let mut out = FailureRecorder {
        inner: Redactor::new(BufWriter::new(file)),
        failure: None,
    };
    let done = fill(&mut out).and_then(|()| out.flush().map_err(|error| cannot_write(&error)));
    match &out.failure {
        Some(error) => Err(cannot_write(error)),
        None => done,
    }
}

/// A writer that records its first I/O error, which callers may replace by another error.
struct FailureRecorder {
    inner: Redactor<BufWriter<File>>,
    failure: Option<io::Error>,
}

impl FailureRecorder {
    fn record(&mut self, error: io::Error) -> io::Error {
        let copy = error
            .raw_os_error()
            .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        self.failure.get_or_insert(copy);
        error
    }
}

impl Write for FailureRecorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).map_err(|error| self.record(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().map_err(|error| self.record(error))
    }
}

/// The error for a report file that cannot be written.
pub fn cannot_write_report(path: &Path, error: &io::Error) -> Error {
    Error::environment(format!(
        "cannot write the report ({error}): {}",
        path.display()
    ))
    .hint("free disk space, or choose a file in a writable folder")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checking_leaves_files_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        assert_eq!(
            check_writable(&path).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        create_parent_folder(&path).unwrap();
        check_writable(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "kept").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        create_parent_folder(Path::new("alone.json")).unwrap();
    }

    #[test]
    fn a_failed_write_keeps_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "kept").unwrap();
        let failed = write(&path, |out| {
            out.write_all(&[b'x'; 1 << 20]).unwrap();
            Err(Error::environment("no space"))
        });
        assert_eq!(failed.unwrap_err().what, "no space");
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_and_permissions_stay_and_devices_are_written() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let new = |out: &mut dyn Write| {
            out.write_all(b"new").unwrap();
            Ok(())
        };
        write(&link, new).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        write(Path::new("/dev/null"), new).unwrap();
        check_writable(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn files_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        for (text, ours) in [
            ("", true),
            ("{\"header\":{\"version\":2,", true),
            ("{\n  \"format\": \"sobench-preflight\",", true),
            ("{\n  \"type\": \"object\"}", false),
            ("{\"id\": \"a\", \"text\": \"{}\"}\n", false),
            ("# Results\n\nof sobench", false),
            ("a,b\n1,2\n", false),
        ] {
            fs::write(&path, text).unwrap();
            let refused = refuse_foreign(&path, "--json");
            assert_eq!(refused.is_ok(), ours, "{text}");
            if let Err(error) = refused {
                assert!(
                    error
                        .what
                        .starts_with("--json would overwrite a file that "),
                    "{error}"
                );
            }
        }
        fs::remove_file(&path).unwrap();
        refuse_foreign(&path, "--json").unwrap();
        refuse_foreign(Path::new("/dev/null"), "--json").unwrap();
    }
}
