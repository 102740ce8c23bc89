//! Runs a command in an isolated folder and reads its output and files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use sobench_testkit::repository_path;

use super::commands::FrozenCommand;
use super::steady::steady;

/// Folders of the package under the names that commands use.
const SHIPPED: [(&str, &str); 6] = [
    ("fixtures", "fixtures"),
    ("schemas", "schemas"),
    ("grammars", "grammars"),
    ("runs", "fixtures/frozen/runs"),
    ("results", "fixtures/frozen/results"),
    ("inputs", "fixtures/frozen/inputs"),
];

/// Folder for files that are not frozen.
const SCRATCH: &str = "tmp";

/// Shell functions for scripts: `say` shows a command, its output and its exit code; `ask` does so
/// with a run that sends nothing; `serve` starts a server at `$url`. Free ports have five digits.
const PRELUDE: &str = r#"
say() {
    echo "\$ sobench $*"
    sobench "$@" > tmp/printed 2>&1
    code=$?
    sed 's/127\.0\.0\.1:[0-9]\{5\}/127.0.0.1:PORT/g' tmp/printed
    echo "exit code: $code"
    echo
}
ask() {
    say --dry-run --base-url http://127.0.0.1:9 --model m "$@"
}
serve() {
    : > tmp/serve.log
    sobench serve --port 0 "$@" >> tmp/serve.log 2>&1 &
    server=$!
    trap 'kill $server' EXIT
    until url=$(grep -o 'http://[^ ]*' tmp/serve.log); do
        kill -0 $server || exit 99
        sleep 0.05
    done
}
"#;

/// Stored output of a command or of a file that it wrote.
pub(super) struct Output {
    /// `None` for a file.
    pub(super) code: Option<i32>,
    pub(super) text: String,
    pub(super) is_kept: bool,
}

/// Runs a command and returns its printed output, then its files by name.
pub(super) fn run(command: &FrozenCommand) -> Vec<(String, Output)> {
    let folder = tempfile::tempdir().unwrap();
    for (name, shipped) in SHIPPED {
        symlink(repository_path(shipped), folder.path().join(name)).unwrap();
    }
    fs::create_dir(folder.path().join(SCRATCH)).unwrap();
    let ran = shell(command, folder.path()).output().unwrap();
    let code = ran
        .status
        .code()
        .unwrap_or_else(|| panic!("{}: {}", command.name, ran.status));
    let own = |bytes: &[u8]| {
        let text = without_log_lines(&String::from_utf8_lossy(bytes))
            .replace(folder.path().to_str().unwrap(), "<dir>");
        with_line_end(&steady(
            &text.replace(env!("CARGO_MANIFEST_DIR"), "<package>"),
            command.kept,
        ))
    };
    let printed = format!(
        "{}--- stderr\n{}--- exit code: {code}\n",
        own(&ran.stdout),
        own(&ran.stderr)
    );
    let is_kept = !command.is_hashed;
    let mut found = vec![(
        command.name.clone(),
        Output {
            code: Some(code),
            text: printed,
            is_kept,
        },
    )];
    let mut files = Vec::new();
    written(folder.path(), "", &mut files);
    files.sort();
    for name in files {
        let text = own(&fs::read(folder.path().join(&name)).unwrap());
        found.push((
            format!("{}.{}", command.name, name.replace('/', ".")),
            Output {
                code: None,
                text,
                is_kept,
            },
        ));
    }
    found
}

fn shell(command: &FrozenCommand, folder: &Path) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_sobench"))
        .parent()
        .unwrap()
        .to_str()
        .unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{PRELUDE}{}", command.script)])
        .current_dir(folder)
        .env_clear();
    shell
        .env(
            "PATH",
            format!("{programs}:{}", std::env::var("PATH").unwrap_or_default()),
        )
        .env("HOME", folder.join(SCRATCH))
        .env("XDG_CACHE_HOME", folder.join(SCRATCH))
        .env("TMPDIR", folder.join(SCRATCH))
        .env("HF_HUB_OFFLINE", "1")
        .env("NO_PROXY", "127.0.0.1")
        .env("COLUMNS", "110")
        .env("LC_ALL", "C")
        .env("TZ", "UTC");
    shell
}

fn with_line_end(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n(no line end)\n")
    }
}

/// Files below the folder, except links and scratch files.
fn written(folder: &Path, below: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder.join(below)).unwrap() {
        let entry = entry.unwrap();
        let (kind, name) = (
            entry.file_type().unwrap(),
            entry.file_name().into_string().unwrap(),
        );
        let name = if below.is_empty() {
            name
        } else {
            format!("{below}/{name}")
        };
        if kind.is_dir() && name != SCRATCH {
            written(folder, &name, files);
        } else if kind.is_file() {
            files.push(name);
        }
    }
}

/// Replaces a run log by its number of lines per kind, because the log format may change; returns
/// other texts unchanged.
fn without_log_lines(text: &str) -> String {
    if !text.starts_with("{\"header\":") {
        return text.to_owned();
    }
    let mut kinds: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for line in text.lines() {
        *kinds
            .entry(line.split('"').nth(1).unwrap_or_default())
            .or_default() += 1;
    }
    let lines: Vec<String> = kinds
        .iter()
        .map(|(kind, lines)| format!("{kind}: {lines}\n"))
        .collect();
    format!("run log, lines of each kind\n{}", lines.concat())
}
