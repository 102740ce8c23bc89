//! Checks what commands print and write against `fixtures/frozen/outputs`, and that `tests/outputs.py`
//! finds a planted difference between two programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use sobench_testkit::repository_path;

const PROGRAM: &str = env!("CARGO_BIN_EXE_sobench");

fn outputs(arguments: &[&str]) -> Output {
    Command::new("python3")
        .arg(repository_path("tests/outputs.py"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn user_visible_outputs_are_frozen() {
    let task = match std::env::var_os("SOBENCH_UPDATE") {
        Some(_) => "update",
        None => "check",
    };
    let differing = Path::new(env!("CARGO_TARGET_TMPDIR")).join("frozen");
    let ran = outputs(&[task, PROGRAM, "--differing", differing.to_str().unwrap()]);
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
}

/// A program that prints as sobench does, with another digit, word or name.
fn program_with(folder: &Path, planted: &str) -> String {
    let path = folder.join("changed");
    fs::write(
        &path,
        format!(
            "#!/bin/sh\n{PROGRAM} \"$@\" > out\ncode=$?\nsed '{planted}' out\nrm out\nexit $code\n"
        ),
    )
    .unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, permissions).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn two_programs_are_compared_by_value() {
    let folder = tempfile::tempdir().unwrap();
    let renamed = folder.path().join("renamed");
    fs::write(&renamed, "# old new\nverdict decision\n").unwrap();
    let renamed = renamed.to_str().unwrap();
    for (planted, flags, differing) in [
        // Layout and line breaks do not count, nor does the fifteenth digit of a number.
        ("s/  */ /g", &[][..], ""),
        (r"s/\(\.[0-9]\{14\}\)[0-9]*/\1/", &["--digits", "6"][..], ""),
        ("s/\"verdict\"/\"decision\"/", &["--renamed", renamed], ""),
        ("s/\"verdict\"/\"decision\"/", &[], "verdict: gone"),
        ("s/Successful/Succesful/", &[], "now [Succesful]"),
        ("s/\"requests\": 60,/\"requests\": 61,/", &[], "60, now 61"),
        ("s/0\\.72/0.73/", &[], "now [0.73]"),
    ] {
        let program = program_with(folder.path(), planted);
        let only = r"^(compare/gate-broken\.json|report/arms\.text)$";
        let ran = outputs(&[&["compare", PROGRAM, &program, "--only", only], flags].concat());
        let printed = String::from_utf8_lossy(&ran.stdout);
        assert_eq!(
            ran.status.success(),
            differing.is_empty(),
            "{planted}: {printed}"
        );
        assert!(printed.contains(differing), "{planted}: {printed}");
    }
}
