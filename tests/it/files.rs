//! Files that are not what they should be: every reader against every fault. An error names the
//! file, and the line where one makes sense, and says what to do; what real tools take is taken;
//! nothing panics, hangs, or takes memory as the file would have it.

mod logs;
mod readers;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Ran, cache};
use readers::{Reader, Shape, all};

/// Address space of a child, in KiB: what the program maps, and some files of the largest size that
/// fits memory.
const MAX_MEMORY_KIB: u64 = 1536 << 10;
/// A child that does not end within so many polls hangs.
const POLLS: usize = 6000;

/// What has to come of a fault.
enum Due {
    /// As if nothing were wrong.
    Taken,
    /// Exit code 2 or 3, the file in the error, these words in it, and a hint.
    Refused(&'static str),
    /// The same, without words of its own; or it is taken, where the reader has no way to know.
    NoPanic,
}

/// Runs the program within a limit of memory, and of patience.
pub(crate) fn bounded(arguments: &[String]) -> Ran {
    let limited = format!("ulimit -v {MAX_MEMORY_KIB} && ulimit -c 0 && exec \"$@\"");
    let mut command = Command::new("sh");
    command
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_sobench")])
        .args(arguments);
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
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).map(|_| bytes)
    });
    let saying = std::thread::spawn(move || {
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
    let (stdout, stderr) = (text(reading.join().unwrap()), text(saying.join().unwrap()));
    let status = status.unwrap_or_else(|| panic!("{arguments:?} hangs\n{stderr}"));
    Ran {
        code: status
            .code()
            .unwrap_or_else(|| panic!("{arguments:?}: {status}\n{stderr}")),
        stdout,
        stderr,
    }
}

/// The readers with these shapes, each with its file spoilt and read; says all that is wrong at
/// once.
fn check(
    wanted: impl Fn(&Reader) -> bool,
    fault: &str,
    spoil: impl Fn(&Path, &Reader),
    due: impl Fn(&Reader) -> Due,
) {
    let mut wrong = Vec::new();
    for reader in all().iter().filter(|reader| wanted(reader)) {
        let folder = tempfile::tempdir().unwrap();
        reader.furnish(folder.path());
        let path = folder.path().join(reader.file);
        let _ = fs::remove_file(&path);
        spoil(&path, reader);
        let ran = bounded(&reader.arguments(&path));
        if let Err(words) = judge(&ran, &path, &due(reader)) {
            wrong.push(format!(
                "{} on {fault}: {words}; exit code {}\n{}",
                reader.name, ran.code, ran.stderr
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn judge(ran: &Ran, path: &Path, due: &Due) -> Result<(), String> {
    if ["panicked", "overflowed its stack", "memory allocation"]
        .iter()
        .any(|word| ran.stderr.contains(word))
    {
        return Err("it came down".to_owned());
    }
    let is_refused = matches!(ran.code, 2 | 3);
    match due {
        Due::Taken if ran.code == 0 && !ran.stdout.is_empty() => return Ok(()),
        Due::Taken => return Err("it was not taken".to_owned()),
        Due::NoPanic if !is_refused && !ran.stdout.is_empty() => return Ok(()),
        Due::NoPanic | Due::Refused(_) => {}
    }
    let error: Vec<&str> = ran
        .stderr
        .lines()
        .skip_while(|line| !line.starts_with("error: "))
        .collect();
    // Of what stands beside a tokenizer the folder is named where it is not told which of the files
    // has it.
    let name = path.parent().unwrap().to_str().unwrap();
    match (due, &error[..]) {
        _ if !is_refused => Err("it was not refused".to_owned()),
        (_, [what, hint])
            if !hint.starts_with("hint: ") || !(what.contains(name) || hint.contains(name)) =>
        {
            Err("the error does not name the file, or what to do".to_owned())
        }
        (Due::Refused(words), [what, hint]) if !what.contains(words) && !hint.contains(words) => {
            Err(format!("it does not say {words:?}"))
        }
        (_, [_, _]) => Ok(()),
        _ => Err("an error is a line, and a hint is another".to_owned()),
    }
}

fn write(bytes: impl AsRef<[u8]>) -> impl Fn(&Path, &Reader) {
    move |path, _| fs::write(path, &bytes).unwrap()
}

/// The good file, changed.
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
fn what_real_tools_take_is_taken() {
    check(|_| true, "nothing", changed(<[u8]>::to_vec), |_| Due::Taken);
    check(
        is_text,
        "a byte-order mark",
        changed(|good| [b"\xef\xbb\xbf", good].concat()),
        |_| Due::Taken,
    );
    check(
        is_text,
        "CR LF",
        changed(|good| with_ends(good, "\r\n")),
        |_| Due::Taken,
    );
    // As Python reads text; TOML has no such line ends, and run logs are not written by hand.
    let takes_cr =
        |reader: &Reader| is_text(reader) && !matches!(reader.shape, Shape::Toml | Shape::Log);
    check(
        takes_cr,
        "CR",
        changed(|good| with_ends(good, "\r")),
        |_| Due::Taken,
    );
}

#[test]
fn other_things_under_the_name_are_told_for_what_they_are() {
    let tar = [
        b"run.jsonl".as_slice(),
        &[0; 248],
        b"ustar\x0000",
        &[0; 600],
    ]
    .concat();
    for (bytes, words) in [
        (
            b"\x1f\x8b\x08\0\0\0\0\0".as_slice(),
            "it is packed with gzip",
        ),
        (b"\x28\xb5\x2f\xfd\x04\0", "it is packed with Zstandard"),
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
        check(|_| true, words, write(bytes), |_| Due::Refused(words));
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
        |_| Due::Refused("UTF-16"),
    );
    check(
        is_text,
        "UTF-16, big",
        utf16(b"\xfe\xff", u16::to_be_bytes),
        |_| Due::Refused("UTF-16"),
    );
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let link = |to: &'static str| {
        move |path: &Path, _: &Reader| std::os::unix::fs::symlink(to, path).unwrap()
    };
    check(
        |_| true,
        "a folder",
        |path, _| fs::create_dir(path).unwrap(),
        |_| Due::Refused(""),
    );
    check(
        |_| true,
        "a device",
        link("/dev/zero"),
        |_| Due::Refused("it is a pipe or a device"),
    );
    let pipe = |path: &Path, _: &Reader| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success())
    };
    check(
        |_| true,
        "a pipe",
        pipe,
        |_| Due::Refused("it is a pipe or a device"),
    );
    check(
        |_| true,
        "a link to nothing",
        link("/nowhere/at/all"),
        |_| Due::Refused("no"),
    );
    check(
        |_| true,
        "a circle",
        |path, _| std::os::unix::fs::symlink(path, path).unwrap(),
        |_| Due::Refused(""),
    );
    // What may be missing beside a tokenizer is not missed.
    let is_named =
        |reader: &Reader| !["settings of a tokenizer", "chat template"].contains(&reader.name);
    check(
        is_named,
        "a file of /proc",
        link("/proc/self/status"),
        |_| Due::NoPanic,
    );
    check(is_named, "nothing there", |_, _| {}, |_| Due::Refused("no"));
}

#[test]
fn a_file_without_anything_is_an_error() {
    check(|_| true, "an empty file", write(""), |_| Due::Refused(""));
    check(is_text, "blanks", write(" \n\n"), |reader| {
        if reader.name == "sonnet" {
            Due::NoPanic
        } else {
            Due::Refused("")
        }
    });
}

#[test]
fn a_file_that_was_cut_names_the_place() {
    for parts in [1, 2, 3, 5, 6] {
        let cut = changed(move |good| {
            good.trim_ascii_end()[..good.trim_ascii_end().len() * parts / 7].to_vec()
        });
        check(
            |_| true,
            &format!("{parts}/7 of it"),
            cut,
            |reader| match reader.shape {
                Shape::Json => Due::Refused("line "),
                Shape::Parquet => Due::Refused("Parquet"),
                Shape::JsonLines
                | Shape::Csv
                | Shape::Text
                | Shape::Toml
                | Shape::Sound
                | Shape::Log => Due::NoPanic,
            },
        );
    }
    let last = changed(|good| good.trim_ascii_end()[..good.trim_ascii_end().len() - 2].to_vec());
    check(
        |reader| reader.shape == Shape::JsonLines && reader.name != "corpus",
        "all but its end",
        last,
        |_| Due::Refused(", line "),
    );
}

#[test]
fn bytes_that_are_no_text_name_their_line() {
    let put = |bytes: &'static [u8]| {
        changed(move |good| {
            let middle = good.len() / 2;
            [&good[..middle], bytes, &good[middle..]].concat()
        })
    };
    // The log and what parses bytes by itself say it in their own words; a corpus leaves a bad file
    // out, aloud.
    let is_read_as_text = |reader: &Reader| is_text(reader) && !matches!(reader.shape, Shape::Log);
    let says = |reader: &Reader, words: &'static str| match reader.name {
        "tokenizer" | "vocabulary" | "baseline" | "result of vLLM" => Due::Refused(""),
        "corpus" | "corpus by its looks" => Due::NoPanic,
        _ => Due::Refused(words),
    };
    check(is_read_as_text, "Latin-1", put(b"\xe9\xfc"), |reader| {
        says(reader, ": not UTF-8")
    });
    check(is_read_as_text, "a NUL", put(b"\0"), |reader| {
        says(reader, "NUL")
    });
    check(
        |reader| reader.shape == Shape::Log,
        "Latin-1",
        put(b"\xe9\xfc"),
        |_| Due::Refused(", line "),
    );
    check(
        |reader| reader.shape == Shape::Log,
        "a NUL",
        put(b"\0"),
        |_| Due::Refused(", line "),
    );
}

#[test]
fn other_json_is_refused_and_none_is_too_deep() {
    let is_json =
        |reader: &Reader| matches!(reader.shape, Shape::Json | Shape::JsonLines | Shape::Log);
    let deep =
        |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    for text in [
        "[1, 2]",
        "3",
        "null",
        "\"text\"",
        "1e999",
        "-0",
        "18446744073709551616",
        &deep("[", "]"),
    ] {
        check(is_json, &text[..text.len().min(20)], write(text), |_| {
            Due::Refused("")
        });
    }
    // The settings of a tokenizer, and a schema, may be empty; members that nobody asks for may be
    // as deep as they like.
    for text in [
        "{}",
        &format!("{{\"prompt\": {}}}", deep("{\"a\": ", "}")),
        &format!("{{\"schema\": {}, \"tests\": []}}", deep("{\"not\": ", "}")),
        r#"{"prompt": "x", "output_len": 1e999, "json": {"maximum": 1e999}, "type": "object", "properties": {"a": {"maximum": -1e999}}}"#,
        r#"{"prompt": "x", "output_len": 18446744073709551616, "properties": {"a": {"maxLength": 18446744073709551616, "minimum": -0}}}"#,
    ] {
        check(is_json, &text[..text.len().min(30)], write(text), |_| {
            Due::NoPanic
        });
    }
}

#[test]
fn of_a_member_that_stands_twice_the_last_counts_in_every_file() {
    let twice = changed(|good| {
        let text = String::from_utf8(good.to_vec()).unwrap();
        let begin = text.find('{').unwrap() + 1;
        let name = text[begin..].split(':').next().unwrap();
        format!("{}{name}: null, {}", &text[..begin], &text[begin..]).into_bytes()
    });
    let is_of_others = |reader: &Reader| matches!(reader.shape, Shape::Json | Shape::JsonLines);
    // A tokenizer is read by its own library, which does not get past a null.
    check(
        |reader| is_of_others(reader) && reader.name != "tokenizer",
        "a member that stands twice",
        twice,
        |_| Due::Taken,
    );
}

#[test]
fn memory_does_not_grow_with_the_file() {
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
        Due::Refused(if reader.shape == Shape::Sound {
            "26214400"
        } else {
            "larger than"
        })
    });
    let endless = vec![b'a'; sobench_core::input::MAX_LINE_BYTES + 1];
    let is_by_line =
        |reader: &Reader| matches!(reader.shape, Shape::JsonLines | Shape::Csv | Shape::Log);
    let says = |reader: &Reader| match (reader.shape, reader.name) {
        (Shape::Log, _) | (_, "score of rows") => Due::Refused(""),
        _ => Due::Refused("line 1: longer than"),
    };
    check(is_by_line, "a line without an end", write(endless), says);
}

#[test]
fn a_rows_file_of_mask_that_is_something_else_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let tokenizer = sobench_testkit::in_package("fixtures/tokenizer");
    let resume = |path: &Path| {
        let flags = "mask --engine guidance --disable-tqdm --limit 1 --batch 0 --jobs 1 --cold-only --spelling compact --resume";
        let mut words: Vec<String> = flags.split(' ').map(str::to_owned).collect();
        words.extend(
            [
                "--tokenizer",
                tokenizer.to_str().unwrap(),
                "--rows",
                path.to_str().unwrap(),
            ]
            .map(str::to_owned),
        );
        bounded(&words)
    };
    assert_eq!(resume(&path).code, 0);
    let good = fs::read(&path).unwrap();
    let header_alone = [b"{\"sobench_mask_rows\":".as_slice(), &vec![b' '; 1 << 20]].concat();
    for (bytes, words) in [
        (b"".as_slice(), "not a rows file of sobench mask"),
        (b"{\"prompt\": \"x\"}\n", "not a rows file of sobench mask"),
        (b"\x1f\x8b\x08\0", "it is packed with gzip"),
        (b"<html><head>", "it looks like an HTML page"),
        (&header_alone, "not a rows file of sobench mask"),
    ] {
        fs::write(&path, bytes).unwrap();
        let ran = resume(&path);
        assert_eq!(
            judge(&ran, &path, &Due::Refused(words)),
            Ok(()),
            "{}",
            ran.stderr
        );
        assert_eq!(fs::read(&path).unwrap(), bytes, "{words}");
    }
    for good in [
        with_ends(&good, "\r\n"),
        [b"\xef\xbb\xbf", &good[..]].concat(),
    ] {
        fs::write(&path, good).unwrap();
        let ran = resume(&path);
        assert!(
            ran.code == 0 && ran.stderr.contains("1 of 1 rows are there already"),
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
            &Due::Refused("it is a pipe or a device")
        ),
        Ok(())
    );
}
