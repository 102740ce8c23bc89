//! Backends side by side, as a program: embedded engines, named servers, servers that are started
//! and ended, loads, files of flags.

mod at_once;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault};
use sobench_testkit::scripted::Scripted;

use crate::cli::assert_fails;
use crate::support::{Ran, cache, sobench, wait_until};

const CONTRACT: &str = include_str!("../../schemas/contracts/matrix.schema.json");

/// Runs a comparison, and reads its file back, which keeps the contract.
fn compared(arguments: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let files = [path("c.json"), path("c.md"), path("c.html")];
    let mut all = vec!["--disable-tqdm", "--save-comparison"];
    all.extend(files.iter().map(String::as_str));
    all.extend_from_slice(arguments);
    let ran = sobench(&all);
    let read = |file: &String| {
        std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{file}: {error}\n{}", ran.stderr))
    };
    let value: Value = serde_json::from_str(&read(&files[0])).unwrap();
    let validator = jsonschema::draft202012::new(&serde_json::from_str(CONTRACT).unwrap()).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|it| format!("{}: {it}", it.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    assert!(
        read(&files[1]).contains("| dataset | backend |") && read(&files[2]).contains("</html>")
    );
    (ran, value)
}

fn row<'a>(comparison: &'a Value, contender: &str, dataset: &str) -> &'a Value {
    let rows = comparison["rows"].as_array().unwrap();
    rows.iter()
        .find(|row| row["contender"] == contender && row["dataset"] == dataset)
        .expect("the row is there")
}

#[test]
fn engines_of_the_embedded_server_stand_side_by_side_and_one_that_cannot_is_a_row() {
    let flags = [
        "--guided-decoding-backend",
        "xgrammar,outlines",
        "--dataset",
        "choice,grammar",
        "--num-prompts",
        "12",
        "--repeat",
        "2",
    ];
    let (ran, found) = compared(&[&flags[..], &["--matrix-order", "blocks"]].concat());
    assert_eq!(ran.code, 3, "outlines reads no grammars: {}", ran.stderr);
    for (contender, dataset) in [
        ("xgrammar", "choice"),
        ("xgrammar", "grammar"),
        ("outlines", "choice"),
    ] {
        let row = row(&found, contender, dataset);
        assert_eq!(
            (row["runs"].as_u64(), row["requests"].as_u64()),
            (Some(2), Some(24)),
            "{row}"
        );
        assert_eq!(
            (
                row["correct_rate"]["hits"].as_u64(),
                row["control"]["requests"].as_u64()
            ),
            (Some(24), Some(24)),
            "{row}"
        );
        assert_eq!(
            row["control"]["ttft_overhead"]["pairs"].as_u64(),
            Some(24),
            "{row}"
        );
    }
    let of_choice = row(&found, "outlines", "choice");
    let uses = ["cold_ttft_ms", "warm_ttft_ms"].map(|it| of_choice[it]["n"].as_u64());
    assert_eq!(
        (of_choice["cold_from"].as_str(), uses),
        (Some("alone"), [Some(2); 2]),
        "once for each server: {of_choice}"
    );
    let refused = row(&found, "outlines", "grammar");
    assert!(
        refused["reason"].as_str().unwrap().contains("grammar"),
        "{refused}"
    );
    assert!(
        ran.stdout.contains("(1) did not run:") && ran.stdout.contains("run (1)"),
        "{}",
        ran.stdout
    );
    let runs = found["runs"].as_array().unwrap();
    assert!(
        runs.iter()
            .all(|run| Path::new(run["run_log"].as_str().unwrap_or("/")).exists()),
        "every run keeps its log"
    );
    let of_outlines = runs
        .iter()
        .filter(|run| run["contender"] == "outlines" && run["dataset"] == "grammar");
    assert_eq!(
        of_outlines
            .filter(|run| run["treatment"] == "constrained")
            .count(),
        1,
        "what cannot run is not tried again"
    );
    let order: Vec<&str> = runs
        .iter()
        .map(|run| run["treatment"].as_str().unwrap())
        .take(4)
        .collect();
    assert_eq!(order, ["control", "constrained", "control", "constrained"]);
}

#[test]
fn named_servers_are_told_apart() {
    let good = EmbeddedServer::start(EmbeddedOptions::default()).unwrap();
    let fault = Fault::parse("ignore-constraint").unwrap();
    let bad = EmbeddedServer::start(EmbeddedOptions {
        faults: vec![fault],
        ..EmbeddedOptions::default()
    })
    .unwrap();
    let targets = [
        format!("good={}", good.base_url()),
        format!("bad={}", bad.base_url()),
    ];
    let flags = [
        "--target",
        &targets[0],
        "--target",
        &targets[1],
        "--dataset",
        "json",
        "--num-prompts",
        "15",
        "--request-rate",
        "200",
    ];
    let (ran, found) = compared(&[&flags[..], &["--allow-unenforced"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        row(&found, "good", "json")["correct_rate"]["hits"].as_u64(),
        Some(15)
    );
    assert!(row(&found, "bad", "json")["correct_rate"]["hits"].as_u64() < Some(15));
    assert!(
        ran.stdout
            .contains("CONSTRAINT NOT ENFORCED: bad, json, constrained"),
        "{}",
        ran.stdout
    );
    assert_eq!(
        row(&found, "good", "json")["cold_from"],
        Value::Null,
        "nobody knows what it was asked before"
    );
    assert!(
        ran.stdout
            .contains("cold TTFT is not known of servers that were running"),
        "{}",
        ran.stdout
    );
    // Without leave to measure it, the same server is a row with the reason, and the other one is
    // measured all the same.
    let (ran, found) = compared(&flags);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(row(&found, "good", "json")["fate"], "measured");
    assert_eq!(row(&found, "bad", "json")["fate"], "did_not_run");
}

#[test]
fn a_running_server_has_cold_uses_of_schemas_that_are_new_to_all() {
    let server = EmbeddedServer::start(EmbeddedOptions::default()).unwrap();
    let flags = [
        "--base-url",
        server.base_url(),
        "--no-control-arm",
        "--repeat",
        "2",
        "--max-concurrency",
        "1",
        "--num-prompts",
        "9",
    ];
    let (ran, found) = compared(
        &[
            &flags[..],
            &["--dataset", "json", "--cold-schema-every", "3"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let of_json = row(&found, "server", "json");
    assert_eq!(
        (
            of_json["cold_from"].as_str(),
            of_json["cold_ttft_ms"]["n"].as_u64()
        ),
        (Some("run"), Some(6)),
        "{of_json}"
    );
    assert_eq!(of_json["warm_ttft_ms"]["n"].as_u64(), Some(12));
    // Their schemas are random, and the seed's: after the first run the server knows them, and
    // before it nobody can tell.
    let (ran, found) = compared(&[&flags[..], &["--dataset", "json-unique"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        row(&found, "server", "json-unique")["cold_from"],
        Value::Null
    );
    let known = |place: usize| {
        let log =
            std::fs::read_to_string(found["runs"][place]["run_log"].as_str().unwrap()).unwrap();
        let header: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        header["header"]["record"]["known_constraints"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (known(0), known(1)),
        (1, 9),
        "the trial request's, and then all"
    );
}

#[test]
fn the_engine_goes_with_the_request_only_where_a_server_heeds_it() {
    let server = EmbeddedServer::start(EmbeddedOptions::default()).unwrap();
    let flags = [
        "--base-url",
        server.base_url(),
        "--guided-decoding-backend",
        "guidance,xgrammar",
        "--num-prompts",
        "5",
    ];
    assert_fails(
        &sobench(&flags),
        2,
        &[
            "a request does not tell it which engine to use",
            "--launch",
            "--target",
        ],
    );
    let (ran, found) = compared(
        &[
            &flags[..],
            &["--constraint-dialect", "guided", "--no-control-arm"],
        ]
        .concat(),
    );
    assert_eq!(
        ran.code, 3,
        "the server runs guidance, and refuses the other one: {}",
        ran.stderr
    );
    assert_eq!(
        row(&found, "guidance", "json")["correct_rate"]["hits"].as_u64(),
        Some(5)
    );
    assert_eq!(row(&found, "guidance", "json")["control"], Value::Null);
    assert!(
        row(&found, "xgrammar", "json")["reason"]
            .as_str()
            .unwrap()
            .contains("guidance"),
        "{found}"
    );
}

/// The port that a started server said it has, in the file that it printed to.
fn port_in(log: &str) -> u16 {
    let text = std::fs::read_to_string(log).unwrap();
    let after = text
        .split("http://127.0.0.1:")
        .nth(1)
        .unwrap_or_else(|| panic!("no address in {text}"));
    after
        .split(|it: char| !it.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn logs_of_servers(stderr: &str) -> Vec<String> {
    stderr
        .lines()
        .filter_map(|line| Some(line.split_once("which prints to ")?.1.to_owned()))
        .collect()
}

#[cfg(unix)]
#[test]
fn servers_are_started_one_at_a_time_and_ended() {
    let command = format!(
        "{} serve --port {{port}} --guided-decoding-backend {{backend}}",
        env!("CARGO_BIN_EXE_sobench")
    );
    let flags = [
        "--launch",
        &command,
        "--guided-decoding-backend",
        "xgrammar,lm-format-enforcer,guidance",
    ];
    let (ran, found) = compared(
        &[
            &flags[..],
            &["--dataset", "json,regex", "--num-prompts", "5"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 3, "one engine is not built in: {}", ran.stderr);
    for (contender, dataset) in [
        ("xgrammar", "json"),
        ("guidance", "json"),
        ("xgrammar", "regex"),
        ("guidance", "regex"),
    ] {
        assert_eq!(
            row(&found, contender, dataset)["correct_rate"]["hits"].as_u64(),
            Some(5),
            "{found}"
        );
        assert!(
            row(&found, contender, dataset)["engine"]
                .as_str()
                .unwrap()
                .starts_with(contender)
        );
        assert_eq!(
            row(&found, contender, dataset)["cold_from"],
            "alone",
            "it was started for this"
        );
    }
    for dataset in ["json", "regex"] {
        let reason = row(&found, "lm-format-enforcer", dataset)["reason"]
            .as_str()
            .unwrap();
        assert!(
            reason.contains("the server ended before it was ready")
                && reason.contains("exists only inside a server"),
            "{reason}"
        );
    }
    let logs = logs_of_servers(&ran.stderr);
    assert_eq!(
        logs.len(),
        3,
        "each server has a log of its own: {}",
        ran.stderr
    );
    for log in [&logs[0], &logs[2]] {
        let gone = TcpStream::connect(("127.0.0.1", port_in(log)));
        assert!(gone.is_err(), "the server of {log} still answers");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_server_as_well() {
    use std::process::{Command, Stdio};
    let program = env!("CARGO_BIN_EXE_sobench");
    let command = format!("{program} serve --port {{port}} --embedded-itl-ms 50");
    let mut running = Command::new(program)
        .args([
            "--launch",
            &command,
            "--no-control-arm",
            "--repeat",
            "3",
            "--num-prompts",
            "5000",
            "--max-concurrency",
            "2",
        ])
        .args(["--drain-timeout", "0", "--skip-preflight"])
        .env("XDG_CACHE_HOME", cache())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let started = lines
        .by_ref()
        .find(|line| line.contains("which prints to"))
        .expect("it says where the server prints to");
    let pid = rustix::process::Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
    // While it starts, and while it runs: the first wish ends all.
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(running.wait().unwrap().code(), Some(130), "{rest:?}");
    let log = &logs_of_servers(&started)[0];
    let text = std::fs::read_to_string(log).unwrap();
    let is_gone = !text.contains("http://127.0.0.1:")
        || TcpStream::connect(("127.0.0.1", port_in(log))).is_err();
    assert!(is_gone, "the server of {log} still answers");
}

#[cfg(unix)]
#[test]
fn a_program_that_is_killed_leaves_no_server_behind() {
    use std::process::{Command, Stdio};
    let program = env!("CARGO_BIN_EXE_sobench");
    let command = format!("{program} serve --port {{port}} --embedded-itl-ms 50");
    let mut running = Command::new(program)
        .args([
            "--launch",
            &command,
            "--no-control-arm",
            "--num-prompts",
            "5000",
            "--max-concurrency",
            "2",
        ])
        .env("XDG_CACHE_HOME", cache())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let started = lines
        .by_ref()
        .find(|line| line.contains("which prints to"))
        .expect("it says where the server prints to");
    let log = &logs_of_servers(&started)[0];
    wait_until("the server says where it serves", || {
        std::fs::read_to_string(log)
            .unwrap()
            .contains("http://127.0.0.1:")
    });
    let port = port_in(log);
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_ok(),
        "the server runs"
    );
    // What no program can hear.
    running.kill().unwrap();
    running.wait().unwrap();
    wait_until("the server is gone", || {
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
}

#[test]
fn validity_stands_beside_latency_at_every_load() {
    let flags = [
        "--dataset",
        "choice",
        "--num-prompts",
        "10",
        "--no-control-arm",
        "--sweep-max-concurrency",
        "4,1",
    ];
    let (ran, found) = compared(&[&flags[..], &["--goodput", "e2el:60000"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let loads: Vec<f64> = found["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["load"]["value"].as_f64())
        .collect();
    assert_eq!(loads, [1.0, 4.0]);
    let knee = &found["knees"][0]["knee"];
    assert_eq!(
        (knee["verdict"].as_str(), knee["load"]["value"].as_f64()),
        (Some("at"), Some(4.0)),
        "{knee}"
    );
    assert!(
        ran.stdout
            .contains("guidance, choice: the valid goodput knee is at 4 in flight"),
        "{}",
        ran.stdout
    );
    let (ran, found) = compared(&[&flags[..], &["--goodput", "e2el:0"]].concat());
    assert_eq!(
        (ran.code, found["knees"][0]["knee"]["verdict"].as_str()),
        (0, Some("nowhere"))
    );
    assert!(
        ran.stdout
            .contains("no load of the sweep meets the objectives with 99 % valid answers"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_dry_run_sends_nothing_and_shows_every_arm() {
    let server = Scripted::answering(|_| panic!("nothing is asked"));
    let target = format!("mine={}/v1", server.base_url);
    let flags = [
        "--dry-run",
        "--target",
        &target,
        "--dataset",
        "json,choice",
        "--num-prompts",
        "4",
        "--repeat",
        "2",
    ];
    let ran = sobench(
        &[
            &flags[..],
            &["--header", "x-team=secret-word", "--model", "m"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(server.requests().is_empty());
    let page = &ran.stdout;
    assert_eq!(
        page.matches(&format!("POST {}/v1/completions", server.base_url))
            .count(),
        4,
        "{page}"
    );
    assert_eq!(
        page.matches("\"structured_outputs\": {").count(),
        2,
        "constrained requests carry it, controls do not: {page}"
    );
    assert!(
        page.contains("x-team: ***") && !page.contains("secret-word"),
        "{page}"
    );
    assert!(
        page.contains("   8  mine, choice, control, repeat 2 of 2 (4 requests)"),
        "{page}"
    );
    let one = sobench(&[
        "--dry-run",
        "--num-prompts",
        "10",
        "--guided-decoding-ratio",
        "0.5",
    ]);
    assert_eq!(
        (one.code, one.stdout.matches("POST http://").count()),
        (0, 2),
        "{}",
        one.stdout
    );
}

#[test]
fn a_file_of_flags_is_a_plan() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"guided-decoding-backend = ['xgrammar', 'guidance']\nnum_prompts = 500\ndataset = 'regex'\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let (ran, found) = compared(&["--config", &path, "--num-prompts", "6", "--no-control-arm"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        row(&found, "guidance", "regex")["requests"].as_u64(),
        Some(6),
        "what is typed wins"
    );
    file.write_all(b"tempratur = 1\n").unwrap();
    assert_fails(
        &sobench(&["--config", &path]),
        2,
        &[
            "no flag of a benchmark",
            "tempratur",
            "did you mean temperature?",
        ],
    );
}
