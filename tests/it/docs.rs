//! Runs every command of the README and docs, and compares the output with the page.

mod page;
mod shape;
mod terminal;

use std::fs;
use std::path::Path;

use sobench_core::verdict::{NotScored, Reason};
use sobench_testkit::repository_path;

use page::Command;
use terminal::{Ended, Terminal};

/// The prefix of README commands that run the program before installation.
const FROM_SOURCE: &str = "cargo run --release -- ";

/// The pages of errors of engines and servers.
const FINDINGS: &str = "docs/results/findings";

/// Commands that build or install, which CI runs instead of this test: start of the command, CI
/// file, text in that file.
const CI: [(&str, &str, &str); 7] = [
    ("cargo test", ".ci/run", "cargo test --locked --workspace"),
    (
        "cargo install ",
        ".ci/package",
        "cargo install --locked --path .",
    ),
    ("python3 -m venv ", ".ci/package", "-m venv"),
    (
        "environment/bin/",
        ".ci/package",
        "bin/pip\" install --quiet .",
    ),
    (
        "pip install ",
        ".ci/package",
        "bin/pip\" install --quiet 'maturin",
    ),
    (
        "RUSTFLAGS='-C target-feature=+crt-static' cargo ",
        ".ci/package",
        "cargo build --locked --profile dist --target",
    ),
    (
        "RUSTFLAGS='-C target-feature=+crt-static' maturin ",
        ".ci/package",
        "build --locked --profile dist --target",
    ),
];

/// One test per page, so that pages run in parallel.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        $(
            #[test]
            fn $name() {
                check($path);
            }
        )*

        const PAGES: &[&str] = &[$($path),*];
    };
}

pages! {
    readme: "README.md",
    index: "docs/README.md",
    tutorial: "docs/tutorial.md",
    cookbook: "docs/cookbook.md",
    structured_output: "docs/structured-output.md",
    accuracy: "docs/accuracy.md",
    canaries: "docs/canaries.md",
    clock: "docs/clock.md",
    mask_proofs: "docs/mask-proofs.md",
    installing: "docs/installing.md",
    servers: "docs/servers.md",
    explain: "docs/explain.md",
    wire: "docs/wire.md",
    preflight: "docs/preflight.md",
    limits: "docs/limits.md",
    datasets: "docs/datasets.md",
    formats: "docs/formats.md",
    load: "docs/load.md",
    shards: "docs/shards.md",
    metrics: "docs/metrics.md",
    server_metrics: "docs/server-metrics.md",
    run_log: "docs/run-log.md",
    releasing: "docs/releasing.md",
    reports: "docs/reports.md",
    accept: "docs/accept.md",
    compare: "docs/compare.md",
    side_by_side: "docs/side-by-side.md",
    engines: "docs/engines.md",
    serve: "docs/serve.md",
    calibrate: "docs/calibrate.md",
    score: "docs/score.md",
    other_benchmarks: "docs/other-benchmarks.md",
    guide_to_enforcement: "docs/guides/enforcement.md",
    guide_to_engines: "docs/guides/compare-engines.md",
    guide_to_the_gate: "docs/guides/gate-in-ci.md",
    guide_to_load: "docs/guides/client-load.md",
    guide_to_judging: "docs/guides/judge-answers.md",
    guide_to_own_data: "docs/guides/own-data.md",
    guide_to_failures: "docs/guides/read-a-failure.md",
    results: "docs/results/README.md",
    results_of_engines: "docs/results/engines.md",
    results_of_servers: "docs/results/servers.md",
    results_of_costs: "docs/results/costs.md",
    results_again: "docs/results/reproduce.md",
}

/// The pages in these folders.
fn pages_in(folders: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(repository_path(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found
}

#[test]
fn the_guide_names_every_reason() {
    let guide = repository_path("docs/guides/read-a-failure.md");
    let guide = fs::read_to_string(guide).unwrap();
    for name in Reason::NAMES.iter().chain(&NotScored::NAMES) {
        assert!(guide.contains(&format!("| `{name}` |")), "{name}");
    }
}

/// The pictures of pages are made from stored runs: `docs/make_pictures` keeps the hash of each page.
#[test]
fn pictures_show_the_pages_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let rows = read("docs/pictures/pages.tsv");
    for row in rows.lines() {
        let [name, arguments, hash] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("docs/pictures/pages.tsv: {row}");
        };
        let page = folder.path().join(format!("{name}.html"));
        let words: Vec<&str> = arguments.split(' ').chain(["--save"]).collect();
        let mut command = crate::support::program(&words);
        let ran = crate::support::ran(command.arg(&page).current_dir(repository_path("")));
        assert!(ran.code < 2, "{name}: {}", ran.stderr);
        let found = sobench_core::constraint::sha256_hex(&fs::read(&page).unwrap());
        assert_eq!(
            found, hash,
            "{name}: make the pictures again with docs/make_pictures"
        );
    }
    assert!(rows.lines().count() >= 8);
}

#[test]
fn every_page_is_checked() {
    let mut found = pages_in(&["docs", "docs/guides", "docs/results"]);
    found.push("README.md".to_owned());
    found.sort();
    let mut checked = PAGES.to_vec();
    checked.sort_unstable();
    assert_eq!(found, checked);
}

fn is_run_by_ci(command: &str) -> bool {
    CI.iter().any(|(prefix, ..)| command.starts_with(prefix))
}

fn read(path: &str) -> String {
    fs::read_to_string(repository_path(path)).unwrap()
}

/// Runs the commands of a page in order in one terminal. A command exits with 0, unless the next
/// command prints its exit code.
fn check(path: &str) {
    let mut terminal = Terminal::open();
    let mut previous: Option<(String, i32)> = None;
    for command in page::commands(&read(path))
        .iter()
        .filter(|command| !is_run_by_ci(&command.text))
    {
        let location = format!("{path}:{}: $ {}", command.line, command.text);
        if command.text == "echo $?" {
            let (_, code) = previous
                .take()
                .unwrap_or_else(|| panic!("{location}: no command before it"));
            assert_eq!(command.shown, [code.to_string()], "{location}");
            continue;
        }
        assert!(
            previous.as_ref().is_none_or(|(_, code)| *code == 0),
            "{}",
            previous.unwrap().0
        );
        let typed = format!("{}{}", command.text, shorter(command));
        let typed = typed.replacen(FROM_SOURCE, "sobench ", 1);
        let ended = terminal.run(&typed);
        assert_printed(&location, command, &typed, &ended);
        previous = Some((format!("{location}\n{}", ended.printed), ended.code));
    }
    assert!(
        previous.as_ref().is_none_or(|(_, code)| *code == 0),
        "{}",
        previous.unwrap().0
    );
}

/// Flags that make a command shorter whose output the page does not show: fewer requests of the main
/// command, a small vocabulary, and engines without the times of a model.
fn shorter(command: &Command) -> &'static str {
    let has = |text: &str| command.text.contains(text);
    let has_server = [
        "--launch",
        "--target",
        "--base-url",
        "--dry-run",
        "--embedded",
    ]
    .into_iter()
    .any(has);
    match () {
        () if !command.shown.is_empty() => "",
        () if has(FROM_SOURCE) => " --num-prompts 200",
        () if has("sobench-tools mask ") && !has("--tokenizer") && !has("--replay") => {
            " --tokenizer fixtures/tokenizer"
        }
        () if has("--guided-decoding-backend xgrammar,guidance") && !has_server => {
            " --embedded-speed instant"
        }
        () => "",
    }
}

#[track_caller]
fn assert_printed(location: &str, command: &Command, typed: &str, ended: &Ended) {
    let Ended { printed, .. } = ended;
    if !command.shown.is_empty() {
        let compared = shape::compare(&command.shown, printed);
        assert!(
            compared.is_ok(),
            "{location}\nnot printed here:\n{}\n\nprinted:\n{printed}",
            compared.unwrap_err()
        );
    } else if let Some(title) = title(typed) {
        assert!(
            printed.contains(title),
            "{location}\n{title} is not in:\n{printed}"
        );
    }
}

/// The expected title of a report that the page does not show; `None` if the command prints
/// nothing.
fn title(typed: &str) -> Option<&'static str> {
    let arguments: Vec<&str> = typed.split_whitespace().collect();
    let has = |flag: &str| arguments.contains(&flag);
    if !["sobench", "sobench-tools"].contains(&arguments[0]) || has(">") {
        return None;
    }
    Some(match arguments[1] {
        "mask" if has("--prove") => "Proven errors in masks",
        "mask" if has("--replay") => "hold, 0 gone, 0 unknown",
        "mask" => "Outcomes of schemas",
        "limits" => "Limits of constraints",
        "preflight" => "enforced",
        "compare" => "worse?",
        "accept" => "accepted?",
        "calibrate" => "TTFT error mean",
        "report" | "score" => "correct",
        "serve" => "at http://",
        _ if has("--dry-run") => "POST http",
        _ if ["--repeat", "--target", "--sweep-max-concurrency"]
            .into_iter()
            .any(has) =>
        {
            "each row: "
        }
        _ => "Serving Benchmark Result",
    })
}

#[test]
fn untested_commands_are_run_by_ci() {
    let readme = read("README.md");
    let commands: Vec<String> = page::commands(&readme)
        .into_iter()
        .map(|command| command.text)
        .collect();
    assert!(
        commands.contains(
            &"cargo run --release -- --dataset json --guided-decoding-ratio 1.0".to_owned()
        ),
        "{commands:?}"
    );
    assert!(
        commands.contains(&"cargo test --workspace".to_owned()),
        "{commands:?}"
    );
    let ci = read(".ci/run");
    assert!(
        ci.contains("cargo run --locked -- --dataset json --guided-decoding-ratio"),
        "CI runs the main command"
    );
    for (command, file, line) in CI {
        assert!(read(file).contains(line), "{file} does not run {command}");
    }
}

#[test]
fn links_between_pages_resolve() {
    let without_commands = pages_in(&["docs/decisions", "docs/reference", FINDINGS]);
    let with_commands = PAGES.iter().map(|path| (*path).to_owned());
    for path in with_commands.chain(without_commands) {
        let folder = Path::new(&path).parent().unwrap();
        for link in read(&path)
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let target = link.split('#').next().unwrap();
            let is_here = target.is_empty()
                || target.starts_with("http")
                || repository_path(folder.join(target).to_str().unwrap()).exists();
            assert!(is_here, "{path} leads to nothing: {link}");
        }
    }
}

/// The list names every finding. Findings have no `console` block, because `check.py` runs their
/// scripts and nothing runs their commands.
#[test]
fn findings_are_listed_and_show_no_command() {
    let list = read(&format!("{FINDINGS}/README.md"));
    for path in pages_in(&[FINDINGS]) {
        let name = Path::new(&path).file_name().unwrap().to_str().unwrap();
        let rows = list
            .lines()
            .filter(|line| line.starts_with("| ") && line.contains(&format!("]({name})")))
            .count();
        assert!(
            name == "README.md" || rows > 0,
            "{FINDINGS}/README.md has no row for {name}"
        );
        assert!(
            page::commands(&read(&path)).is_empty(),
            "{path} has a console block, which no test runs"
        );
    }
}
