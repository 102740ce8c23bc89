//! Reads invalid files with every reader. An error names the file, the line if possible, and a
//! hint. Valid variants written by real tools are accepted. Nothing panics, hangs, or allocates by
//! the size in the file.

mod logs;
mod readers;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Ran, cache, program_of};
use readers::{Reader, Shape, all};

/// Address space of a child process in KiB: the program's own mappings and a few files of the
/// maximum size.
const MAX_MEMORY_KIB: u64 = 1536 << 10;
/// A child process that has not ended after this many polls counts as hanging.
const POLLS: usize = 6000;

/// Expected result of reading a file.
enum Expected {
    /// Read like a valid file.
    Taken,
    /// Exit code 2 or 3, and an error with the file, this text and a hint.
    Refused(&'static str),
    /// Either a refusal with any text, or accepted if the reader cannot detect the fault.
    NoPanic,
}

/// Runs the program with limited memory and time.
pub(crate) fn bounded(arguments: &[String]) -> Ran {
    let limited = format!("ulimit -v {MAX_MEMORY_KIB} && ulimit -c 0 && exec \"$@\"");
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = Command::new("sh");
    command
        .args(["-c", &limited, "sh"])
        .arg(program_of(&words))
        .args(words);
    command
        .env_remove("OPENAI_API_KEY")
        .env("NO_PROXY", "127.0.0.1")
        .env("XDG_CACHE_HOME", cache())
        .env("HF_HUB_OFFLINE", "1");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading_stdout = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    let reading_stderr = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stderr.read_to_end(&mut bytes).map(|_| bytes)
    });
    let status = (0..POLLS).find_map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        child.try_wait().unwrap()
    });
    if status.is_none() {
        child.kill().unwrap();
    }
    let text =
        |bytes: std::io::Result<Vec<u8>>| String::from_utf8_lossy(&bytes.unwrap()).into_owned();
    let (stdout, stderr) = (
        text(reading_stdout.join().unwrap()),
        text(reading_stderr.join().unwrap()),
    );
    let status = status.unwrap_or_else(|| panic!("{arguments:?} hangs\n{stderr}"));
    Ran {
        code: status
            .code()
            .unwrap_or_else(|| panic!("{arguments:?}: {status}\n{stderr}")),
        stdout,
        stderr,
    }
}

/// Applies the fault to each selected reader's file, runs the reader, and reports all failures
/// together.
fn check(
    wanted: impl Fn(&Reader) -> bool,
    fault: &str,
    damage: impl Fn(&Path, &Reader),
    expected: impl Fn(&Reader) -> Expected,
) {
    let mut wrong = Vec::new();
    for reader in all().iter().filter(|reader| wanted(reader)) {
        let folder = tempfile::tempdir().unwrap();
        reader.copy_required_files(folder.path());
        let path = folder.path().join(reader.file);
        let _ = fs::remove_file(&path);
        damage(&path, reader);
        let ran = bounded(&reader.arguments(&path));
        if let Err(message) = judge(&ran, &path, &expected(reader)) {
            wrong.push(format!(
                "{} on {fault}: {message}; exit code {}\n{}",
                reader.name, ran.code, ran.stderr
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn judge(ran: &Ran, path: &Path, expected: &Expected) -> Result<(), String> {
    if ["panicked", "overflowed its stack", "memory allocation"]
        .iter()
        .any(|word| ran.stderr.contains(word))
    {
        return Err("it crashed".to_owned());
    }
    let is_refused = matches!(ran.code, 2 | 3);
    match expected {
        Expected::Taken if ran.code == 0 && !ran.stdout.is_empty() => return Ok(()),
        Expected::Taken => return Err("it was refused".to_owned()),
        Expected::NoPanic if !is_refused && !ran.stdout.is_empty() => return Ok(()),
        Expected::NoPanic | Expected::Refused(_) => {}
    }
    let error: Vec<&str> = ran
        .stderr
        .lines()
        .skip_while(|line| !line.starts_with("error: "))
        .collect();
    // Errors of a tokenizer may name only the folder, because its library does not report the file.
    let name = path.parent().unwrap().to_str().unwrap();
    match (expected, &error[..]) {
        _ if !is_refused => Err("it was accepted".to_owned()),
        (_, [what, hint])
            if !hint.starts_with("hint: ") || !(what.contains(name) || hint.contains(name)) =>
        {
            Err("no file or no hint in the error".to_owned())
        }
        (Expected::Refused(message), [what, hint])
            if !what.contains(message) && !hint.contains(message) =>
        {
            Err(format!("the error does not contain {message:?}"))
        }
        (_, [_, _]) => Ok(()),
        _ => Err("not one line of error and one of hint".to_owned()),
    }
}

fn write(bytes: impl AsRef<[u8]>) -> impl Fn(&Path, &Reader) {
    move |path, _| fs::write(path, &bytes).unwrap()
}

/// Writes the changed valid file.
fn changed(change: impl Fn(&[u8]) -> Vec<u8>) -> impl Fn(&Path, &Reader) {
    move |path, reader| fs::write(path, change(&reader.good)).unwrap()
}

fn is_text(reader: &Reader) -> bool {
    !matches!(reader.shape, Shape::Parquet | Shape::Sound)
}

fn with_ends(text: &[u8], end: &str) -> Vec<u8> {
    String::from_utf8(text.to_vec())
        .unwrap()
        .replace("\r\n", "\n")
        .replace('\n', end)
        .into_bytes()
}

#[test]
fn byte_order_marks_and_line_ends_are_accepted() {
    check(
        |reader| !is_text(reader),
        "nothing",
        changed(<[u8]>::to_vec),
        |_| Expected::Taken,
    );
    check(
        is_text,
        "a byte-order mark and CR LF",
        changed(|good| [b"\xef\xbb\xbf", &with_ends(good, "\r\n")[..]].concat()),
        |_| Expected::Taken,
    );
    // As Python reads text. TOML has no such line ends, run logs are not edited by hand, and they
    // are white space in JSON.
    let takes_cr =
        |reader: &Reader| matches!(reader.shape, Shape::JsonLines | Shape::Csv | Shape::Text);
    check(
        takes_cr,
        "CR",
        changed(|good| with_ends(good, "\r")),
        |_| Expected::Taken,
    );
}

#[test]
fn other_file_formats_are_recognised() {
    let tar = [
        b"run.jsonl".as_slice(),
        &[0; 248],
        b"ustar\x0000",
        &[0; 600],
    ]
    .concat();
    for (bytes, message) in [
        (
            b"\x1f\x8b\x08\0\0\0\0\0".as_slice(),
            "it is compressed with gzip",
        ),
        (b"\x28\xb5\x2f\xfd\x04\0", "it is compressed with Zstandard"),
        (b"PK\x03\x04\x14\0", "it is a ZIP archive"),
        (&tar, "it is a tar archive"),
        (
            b"\n<!DOCTYPE html>\n<title>Not found</title>",
            "it looks like an HTML page",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
            "it is a Git LFS pointer",
        ),
        (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", "it is an image (PNG)"),
        (b"\x7fELF\x02\x01\x01", "it is a program (ELF)"),
    ] {
        // Every reader recognises two, and one reader all.
        let is_common = message.ends_with("gzip") || message.ends_with("page");
        let wanted = |reader: &Reader| is_common || reader.name == "custom";
        check(wanted, message, write(bytes), |_| {
            Expected::Refused(message)
        });
    }
    let utf16 = |mark: &'static [u8], unit: fn(u16) -> [u8; 2]| {
        changed(move |good| {
            [
                mark,
                &String::from_utf8_lossy(good)
                    .encode_utf16()
                    .flat_map(unit)
                    .collect::<Vec<u8>>(),
            ]
            .concat()
        })
    };
    check(
        is_text,
        "UTF-16, little",
        utf16(b"\xff\xfe", u16::to_le_bytes),
        |_| Expected::Refused("UTF-16"),
    );
    check(
        |reader| reader.name == "custom",
        "UTF-16, big",
        utf16(b"\xfe\xff", u16::to_be_bytes),
        |_| Expected::Refused("UTF-16"),
    );
}

#[test]
fn pipes_devices_and_links_do_not_block() {
    let link = |to: &'static str| {
        move |path: &Path, _: &Reader| std::os::unix::fs::symlink(to, path).unwrap()
    };
    check(
        |_| true,
        "a folder",
        |path, _| fs::create_dir(path).unwrap(),
        |_| Expected::Refused(""),
    );
    check(
        |reader| reader.name == "custom",
        "a device",
        link("/dev/zero"),
        |_| Expected::Refused("it is a pipe or a device"),
    );
    let pipe = |path: &Path, _: &Reader| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    check(
        |_| true,
        "a pipe",
        pipe,
        |_| Expected::Refused("it is a pipe or a device"),
    );
    check(
        |reader| reader.name == "custom",
        "a circular link",
        |path, _| std::os::unix::fs::symlink(path, path).unwrap(),
        |_| Expected::Refused(""),
    );
    // Optional files of a tokenizer may be missing.
    let is_named =
        |reader: &Reader| !["settings of a tokenizer", "chat template"].contains(&reader.name);
    check(
        is_named,
        "a file of /proc",
        link("/proc/self/status"),
        |_| Expected::NoPanic,
    );
    check(
        is_named,
        "a missing file",
        |_, _| {},
        |_| Expected::Refused("no"),
    );
}

#[test]
fn empty_file_is_an_error() {
    check(
        |_| true,
        "an empty file",
        write(""),
        |_| Expected::Refused(""),
    );
    check(is_text, "white space", write(" \n\n"), |reader| {
        if reader.name == "sonnet" {
            Expected::NoPanic
        } else {
            Expected::Refused("")
        }
    });
}

#[test]
fn truncated_file_error_names_the_line() {
    for parts in [2, 5] {
        let cut = changed(move |good| {
            good.trim_ascii_end()[..good.trim_ascii_end().len() * parts / 7].to_vec()
        });
        check(
            |_| true,
            &format!("{parts}/7 of it"),
            cut,
            |reader| match reader.shape {
                Shape::Json => Expected::Refused("line "),
                Shape::Parquet => Expected::Refused("Parquet"),
                Shape::JsonLines
                | Shape::Csv
                | Shape::Text
                | Shape::Toml
                | Shape::Sound
                | Shape::Log => Expected::NoPanic,
            },
        );
    }
    let last = changed(|good| good.trim_ascii_end()[..good.trim_ascii_end().len() - 2].to_vec());
    check(
        |reader| reader.shape == Shape::JsonLines && reader.name != "corpus",
        "all except the last two bytes",
        last,
        |_| Expected::Refused(", line "),
    );
}

#[test]
fn invalid_utf_8_error_names_the_line() {
    let insert = |bytes: &'static [u8]| {
        changed(move |good| {
            let middle = good.len() / 2;
            [&good[..middle], bytes, &good[middle..]].concat()
        })
    };
    // The run log and readers that parse bytes report other texts; a corpus skips invalid files
    // with a warning.
    let is_read_as_text = |reader: &Reader| is_text(reader) && !matches!(reader.shape, Shape::Log);
    let expected = |reader: &Reader, message: &'static str| match reader.name {
        "tokenizer" | "vocabulary" | "baseline" | "result of vLLM" => Expected::Refused(""),
        "corpus" | "corpus by its looks" => Expected::NoPanic,
        _ => Expected::Refused(message),
    };
    check(is_read_as_text, "Latin-1", insert(b"\xe9\xfc"), |reader| {
        expected(reader, ": not UTF-8")
    });
    check(is_read_as_text, "a NUL", insert(b"\0"), |reader| {
        expected(reader, "NUL")
    });
    check(
        |reader| reader.shape == Shape::Log,
        "Latin-1",
        insert(b"\xe9\xfc"),
        |_| Expected::Refused(", line "),
    );
    check(
        |reader| reader.shape == Shape::Log,
        "a NUL",
        insert(b"\0"),
        |_| Expected::Refused(", line "),
    );
}

#[test]
fn wrong_and_deep_json_is_refused() {
    let is_json =
        |reader: &Reader| matches!(reader.shape, Shape::Json | Shape::JsonLines | Shape::Log);
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    for text in ["[1, 2]", "null", "1e999", &deep("[", "]")] {
        check(is_json, &text[..text.len().min(20)], write(text), |_| {
            Expected::Refused("")
        });
    }
    // Settings of a tokenizer and a schema may be empty, and unused members may have any depth.
    for text in [
        "{}",
        &format!("{{\"prompt\": {}}}", deep("{\"a\": ", "}")),
        &format!("{{\"schema\": {}, \"tests\": []}}", deep("{\"not\": ", "}")),
        r#"{"prompt": "x", "output_len": 1e999, "json": {"maximum": 1e999}, "type": "object", "properties": {"a": {"maximum": -1e999}}}"#,
        r#"{"prompt": "x", "output_len": 18446744073709551616, "properties": {"a": {"maxLength": 18446744073709551616, "minimum": -0}}}"#,
    ] {
        check(is_json, &text[..text.len().min(30)], write(text), |_| {
            Expected::NoPanic
        });
    }
}

#[test]
fn last_duplicate_member_wins() {
    let twice = changed(|good| {
        let text = String::from_utf8(good.to_vec()).unwrap();
        let start = text.find('{').unwrap() + 1;
        let name = text[start..].split(':').next().unwrap();
        format!("{}{name}: null, {}", &text[..start], &text[start..]).into_bytes()
    });
    let is_of_others = |reader: &Reader| matches!(reader.shape, Shape::Json | Shape::JsonLines);
    // The tokenizer is read by its own library, which rejects null.
    check(
        |reader| is_of_others(reader) && reader.name != "tokenizer",
        "a duplicate member",
        twice,
        |_| Expected::Taken,
    );
}

#[test]
fn memory_is_bounded_for_large_files() {
    let sparse = |path: &Path, reader: &Reader| {
        fs::write(path, &reader.good).unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(5 << 30)
            .unwrap();
    };
    let is_limited = |reader: &Reader| reader.shape != Shape::Log;
    check(is_limited, "5 GiB", sparse, |reader| {
        Expected::Refused(match (reader.shape, reader.name) {
            (Shape::Sound, _) => "26214400",
            // Read in batches without a limit, up to the first NUL.
            (_, "score of rows") => "NUL characters",
            _ => "larger than",
        })
    });
    let endless = vec![b'a'; sobench_core::input::MAX_LINE_BYTES + 1];
    let is_by_line =
        |reader: &Reader| matches!(reader.shape, Shape::JsonLines | Shape::Csv | Shape::Log);
    let expected = |reader: &Reader| match (reader.shape, reader.name) {
        (Shape::Log, _) | (_, "score of rows") => Expected::Refused(""),
        _ => Expected::Refused("line 1: longer than"),
    };
    check(
        is_by_line,
        "a line without an end",
        write(endless),
        expected,
    );
}

#[test]
fn resume_does_not_overwrite_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let tokenizer = sobench_testkit::repository_path("fixtures/tokenizer");
    let resume = |path: &Path| {
        let flags = "mask --engine guidance --disable-tqdm --limit 1 --batch 0 --jobs 1 --cold-only --spelling compact --resume";
        let mut message: Vec<String> = flags.split(' ').map(str::to_owned).collect();
        message.extend(
            [
                "--tokenizer",
                tokenizer.to_str().unwrap(),
                "--rows",
                path.to_str().unwrap(),
            ]
            .map(str::to_owned),
        );
        bounded(&message)
    };
    assert_eq!(resume(&path).code, 0);
    let good = fs::read(&path).unwrap();
    let header_alone = [b"{\"sobench_mask_rows\":".as_slice(), &vec![b' '; 1 << 20]].concat();
    for (bytes, message) in [
        (b"".as_slice(), "not a rows file of sobench-tools mask"),
        (
            b"{\"prompt\": \"x\"}\n",
            "not a rows file of sobench-tools mask",
        ),
        (b"\x1f\x8b\x08\0", "it is compressed with gzip"),
        (b"<html><head>", "it looks like an HTML page"),
        (&header_alone, "not a rows file of sobench-tools mask"),
    ] {
        fs::write(&path, bytes).unwrap();
        let ran = resume(&path);
        assert_eq!(
            judge(&ran, &path, &Expected::Refused(message)),
            Ok(()),
            "{}",
            ran.stderr
        );
        assert_eq!(fs::read(&path).unwrap(), bytes, "{message}");
    }
    for good in [
        with_ends(&good, "\r\n"),
        [b"\xef\xbb\xbf", &good[..]].concat(),
    ] {
        fs::write(&path, good).unwrap();
        let ran = resume(&path);
        assert!(
            ran.code == 0 && ran.stderr.contains("resuming: 1 of 1 rows are done"),
            "{}",
            ran.stderr
        );
    }
    fs::remove_file(&path).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(
        judge(
            &resume(&path),
            &path,
            &Expected::Refused("it is a pipe or a device")
        ),
        Ok(())
    );
}
