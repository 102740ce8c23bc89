//! Compares all user-visible outputs of frozen runs and command lines with `fixtures/frozen`, which
//! holds each output or its hash.
//!
//! `SOBENCH_UPDATE_FROZEN=1 cargo test --test it frozen` updates the outputs; the diff shows the
//! changes that users will see.

mod commands;
mod run;
mod steady;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};
use sobench_testkit::repository_path;

use commands::{FrozenCommand, commands};
use run::Output;

const UPDATE: &str = "SOBENCH_UPDATE_FROZEN";
const FOLDER: &str = "fixtures/frozen";
/// Maximum length of a line shown in a difference.
const MAX_SHOWN_CHARS: usize = 300;

/// Outputs by name: the printed output of each command, and each file that it wrote.
type Outputs = BTreeMap<String, Output>;

/// A line of the manifest. Hashed outputs have nothing else.
fn manifest_line(name: &str, output: &Output) -> String {
    let code = output
        .code
        .map_or_else(|| "file".to_owned(), |code| code.to_string());
    let hash: String = Sha256::digest(&output.text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!(
        "{name} {code} {} {hash} {}",
        output.text.len(),
        if output.is_kept { "kept" } else { "hashed" }
    )
}

fn stored_at(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.txt"))
}

fn write_at(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs all commands in parallel, one per core.
fn outputs_of(commands: &[FrozenCommand]) -> Outputs {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Outputs::new()));
    let work = || {
        while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
            for (name, output) in run::run(command) {
                let before = found.lock().unwrap().insert(name.clone(), output);
                assert!(before.is_none(), "two outputs are called {name}");
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().unwrap()
}

fn update(folder: &Path, found: &Outputs) {
    let outputs = folder.join("outputs");
    if outputs.exists() {
        fs::remove_dir_all(&outputs).unwrap();
    }
    let mut manifest = String::new();
    for (name, output) in found {
        if output.is_kept {
            write_at(&stored_at(&outputs, name), &output.text);
        }
        writeln!(manifest, "{}", manifest_line(name, output)).unwrap();
    }
    write_at(&folder.join("manifest.txt"), &manifest);
}

fn stored_names(folder: &Path, below: &Path, names: &mut Vec<String>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            stored_names(folder, &path, names);
        } else {
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
            names.push(name.strip_suffix(".txt").unwrap_or(name).to_owned());
        }
    }
}

/// The first different line, with its number from 1.
fn first_difference(expected: &str, found: &str) -> Option<(usize, String, String)> {
    let (mut expected, mut found) = (expected.lines(), found.lines());
    for number in 1.. {
        match (expected.next(), found.next()) {
            (None, None) => break,
            (left, right) if left == right => {}
            (left, right) => {
                let shown = |line: Option<&str>| {
                    line.map_or_else(
                        || "(the end)".to_owned(),
                        |line| line.chars().take(MAX_SHOWN_CHARS).collect(),
                    )
                };
                return Some((number, shown(left), shown(right)));
            }
        }
    }
    None
}

/// The difference between an output and the stored one, if any.
fn difference(name: &str, output: &Output, line: Option<&String>, folder: &Path) -> Option<String> {
    let stored = fs::read_to_string(stored_at(&folder.join("outputs"), name)).ok();
    let expected_line = manifest_line(name, output);
    let Some(line) = line else {
        return Some(format!("{name}: not in the manifest"));
    };
    match stored {
        _ if output.is_kept && stored.is_none() => {
            Some(format!("{name}: the stored output is missing"))
        }
        Some(expected) if expected != output.text => {
            let (number, left, right) = first_difference(&expected, &output.text)?;
            Some(format!(
                "{name}, line {number}\n  expected: {left}\n  found:    {right}"
            ))
        }
        _ if *line != expected_line => Some(format!(
            "{name}\n  expected: {line}\n  found:    {expected_line}"
        )),
        _ => None,
    }
}

#[test]
fn user_visible_outputs_are_frozen() {
    let folder = repository_path(FOLDER);
    let found = outputs_of(&commands(&folder));
    if std::env::var_os(UPDATE).is_some() {
        return update(&folder, &found);
    }
    let manifest = fs::read_to_string(folder.join("manifest.txt")).unwrap();
    let lines: BTreeMap<&str, String> = manifest
        .lines()
        .map(|line| (line.split(' ').next().unwrap(), line.to_owned()))
        .collect();
    let mut differences = Vec::new();
    let differing = Path::new(env!("CARGO_TARGET_TMPDIR")).join("frozen");
    let _ = fs::remove_dir_all(&differing);
    for (name, output) in &found {
        if let Some(message) = difference(name, output, lines.get(name.as_str()), &folder) {
            write_at(&stored_at(&differing, name), &output.text);
            differences.push(message);
        }
    }
    differences.extend(
        lines
            .keys()
            .filter(|name| !found.contains_key(**name))
            .map(|name| format!("{name}: no longer produced")),
    );
    let mut stored = Vec::new();
    stored_names(
        &folder.join("outputs"),
        &folder.join("outputs"),
        &mut stored,
    );
    differences.extend(
        stored
            .iter()
            .filter(|name| !lines.contains_key(name.as_str()))
            .map(|name| format!("{name}: stored, not in the manifest")),
    );
    assert!(
        differences.is_empty(),
        "{} of {} outputs differ:\n{}\n\nThe new outputs are in {}; {UPDATE}=1 accepts them.",
        differences.len(),
        lines.len(),
        differences.join("\n"),
        differing.display()
    );
}

#[test]
fn difference_shows_the_first_different_line() {
    assert_eq!(
        first_difference("a\nb\n", "a\nc\n"),
        Some((2, "b".to_owned(), "c".to_owned()))
    );
    assert_eq!(
        first_difference("a\n", "a\nc\n"),
        Some((2, "(the end)".to_owned(), "c".to_owned()))
    );
    assert_eq!(first_difference("a\n", "a\n"), None);
}
