//! Comparisons of several backends: embedded engines, named servers, launched servers, loads, and
//! files of flags.

mod answers;
mod at_once;
mod sweep;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault};
use sobench_testkit::scripted::ScriptedServer;

use crate::cli::assert_fails;
use crate::support::{Ran, cache, sobench, wait_until};

const CONTRACT: &str = include_str!("../../schemas/contracts/matrix.schema.json");

/// Runs a comparison and returns its file, validated against the contract.
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
        .map(|error| format!("{}: {error}", error.instance_path()))
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
        .expect("the row exists")
}

#[test]
fn embedded_engines_are_compared_and_refusals_are_results() {
    let flags = [
        "--guided-decoding-backend",
        "xgrammar,outlines",
        "--embedded-speed",
        "instant",
        "--dataset",
        "choice,grammar",
        "--num-prompts",
        "12",
        "--repeat",
        "2",
        // There is no percentage of a control below 1 ms.
        "--embedded-ttft-ms",
        "2",
    ];
    let (ran, found) = compared(&[&flags[..], &["--matrix-order", "blocks"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
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
        // Two repeats of twelve requests with equal results are twelve trials at most.
        let effective = row["correct_rate"]["effective"].as_f64();
        assert!(effective.is_some_and(|trials| trials <= 12.0), "{row}");
        // The first use of a constraint is apart from later ones.
        let added = ["ttft_added", "first_ttft_added"].map(|key| &row["control"][key]);
        let pairs = added.map(|added| added["pairs"].as_u64().unwrap_or(0));
        assert_eq!(pairs[0] + pairs[1], 24, "{row}");
        assert!(
            added.iter().all(|added| added["low_ms"].is_null()),
            "two repeats have no interval: {row}"
        );
    }
    let of_choice = row(&found, "outlines", "choice");
    let uses = ["cold_ttft_ms", "warm_ttft_ms"].map(|key| of_choice[key]["n"].as_u64());
    assert_eq!(
        (of_choice["cold_from"].as_str(), uses),
        (Some("alone"), [Some(2); 2]),
        "once for each server: {of_choice}"
    );
    let refused = row(&found, "outlines", "grammar");
    assert_eq!(
        (
            refused["correct_rate"]["hits"].as_u64(),
            refused["correct_rate"]["of"].as_u64()
        ),
        (Some(0), Some(24)),
        "outlines reads no grammars: {refused}"
    );
    assert!(!ran.stdout.contains("did not run"), "{}", ran.stdout);
    let runs = found["runs"].as_array().unwrap();
    assert!(
        runs.iter()
            .all(|run| Path::new(run["run_log"].as_str().unwrap_or("/")).exists()),
        "one log per run"
    );
    let of_outlines = runs
        .iter()
        .filter(|run| run["contender"] == "outlines" && run["dataset"] == "grammar");
    assert_eq!(
        of_outlines
            .filter(|run| run["treatment"] == "constrained")
            .count(),
        2,
        "a refusal does not end the comparison"
    );
    let order: Vec<&str> = runs
        .iter()
        .map(|run| run["treatment"].as_str().unwrap())
        .take(4)
        .collect();
    assert_eq!(order, ["control", "constrained", "control", "constrained"]);
}

#[test]
fn differences_are_sentences_above_the_table() {
    let fault = Fault::parse("ignore-constraint").unwrap();
    let servers = [Vec::new(), vec![fault]].map(|faults| {
        EmbeddedServer::start(EmbeddedOptions {
            faults,
            ..EmbeddedOptions::default()
        })
        .unwrap()
    });
    let targets = [
        format!("good={}", servers[0].base_url()),
        format!("bad={}", servers[1].base_url()),
    ];
    let (ran, found) = compared(&[
        "--target",
        &targets[0],
        "--target",
        &targets[1],
        "--dataset",
        "json",
        "--num-prompts",
        "60",
        "--allow-unenforced",
    ]);
    let verdicts = found["verdicts"]["verdicts"].as_array().unwrap();
    let differs: Vec<_> = verdicts
        .iter()
        .filter(|verdict| verdict["kind"] == "differs")
        .collect();
    let correct = differs
        .iter()
        .find(|verdict| verdict["figure"] == "correct_rate")
        .unwrap_or_else(|| panic!("{verdicts:?}\n{}", ran.stderr));
    assert_eq!(correct["contenders"][0], "bad");
    let sentence = correct["sentence"].as_str().unwrap();
    assert!(
        sentence.contains("points fewer correct answers than good"),
        "{sentence}"
    );
    // One run each says nothing about times; on a busy machine the client can be the reason.
    let of_times: Vec<_> = verdicts
        .iter()
        .filter(|verdict| !verdict["figure"].is_null())
        .filter(|verdict| verdict["unit"] != "points")
        .map(|verdict| verdict["kind"].as_str().unwrap())
        .collect();
    // E2EL and throughput; the added times too, unless the control was held up.
    assert!(of_times.len() >= 2, "{verdicts:?}");
    assert!(
        of_times
            .iter()
            .all(|kind| matches!(*kind, "too_few_repeats" | "not_compared")),
        "{verdicts:?}"
    );
    assert!(
        ["too few repeats to decide", "not compared: "]
            .iter()
            .any(|start| ran.stdout.contains(start)),
        "{}",
        ran.stdout
    );
}

#[test]
fn named_servers_have_separate_rows() {
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
        "earlier requests are unknown"
    );
    assert!(
        ran.stdout
            .contains("cold TTFT is unknown for servers that were already running"),
        "{}",
        ran.stdout
    );
    // Without --allow-unenforced, the row of this server has the reason, and the other server is
    // still measured.
    let (ran, found) = compared(&flags);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(row(&found, "good", "json")["outcome"], "measured");
    assert_eq!(row(&found, "bad", "json")["outcome"], "did_not_run");
}

#[test]
fn running_server_has_cold_ttft_only_for_new_schemas() {
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
    // These schemas depend only on the seed: the server knows them after the first run. Before it,
    // that is unknown.
    let (ran, found) = compared(&[&flags[..], &["--dataset", "json-unique"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        row(&found, "server", "json-unique")["cold_from"],
        Value::Null
    );
    let known = |index: usize| {
        let log =
            std::fs::read_to_string(found["runs"][index]["run_log"].as_str().unwrap()).unwrap();
        let header: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        header["header"]["record"]["known_constraints"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(
        (known(0), known(1)),
        (1, 9),
        "only the trial request's, then all"
    );
}

#[test]
fn engine_is_sent_only_in_a_dialect_that_supports_it() {
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
        &["its requests do not select another", "--launch", "--target"],
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
        "the server runs guidance and rejects xgrammar: {}",
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

#[test]
fn wrong_input_files_end_a_comparison_before_its_first_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let not_json = file("schema.json", "{\"type\": ");
    let rows = file("rows.jsonl", "{\"prompt\": 1}\n");
    let broken = file("broken.json", r#"{"type": "strin"}"#);
    for flags in [
        &["--dataset", "json", "--json-schema-path", &not_json][..],
        &["--dataset", "json", "--json-schema-path", &broken],
        &["--dataset", "json", "--json-schema-path", "no-such.json"],
        &["--dataset", "custom", "--dataset-path", &rows],
        &["--dataset", "regex", "--regex", "(a"],
    ] {
        let single = sobench(&[flags, &["--num-prompts", "2"]].concat());
        assert_eq!(single.code, 2, "{flags:?}: {}", single.stderr);
        let error = single.stderr.split("error: ").nth(1).unwrap();
        // The wrong file is not the first dataset's.
        let datasets = format!("choice,{}", flags[1]);
        let several = [&["--dataset", &datasets], &flags[2..]].concat();
        let engines = ["--guided-decoding-backend", "guidance,xgrammar"];
        for comparison in [[flags, &engines].concat(), several] {
            let ran = sobench(&[&comparison[..], &["--num-prompts", "2"]].concat());
            assert_eq!(ran.code, 2, "{comparison:?}: {}", ran.stderr);
            assert!(ran.stdout.is_empty(), "{}", ran.stdout);
            assert_eq!(ran.stderr, format!("error: {error}"));
        }
    }
}

/// The port that a launched server wrote to its log.
fn port_in(log: &str) -> u16 {
    let text = std::fs::read_to_string(log).unwrap();
    let after = text
        .split("http://127.0.0.1:")
        .nth(1)
        .unwrap_or_else(|| panic!("no address in {text}"));
    after
        .split(|character: char| !character.is_ascii_digit())
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn logs_of_servers(stderr: &str) -> Vec<String> {
    stderr
        .lines()
        .filter_map(|line| Some(line.split_once("its log is ")?.1.to_owned()))
        .collect()
}

#[cfg(unix)]
#[test]
fn launched_servers_run_one_at_a_time() {
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
            "launched for this row"
        );
    }
    for dataset in ["json", "regex"] {
        let reason = row(&found, "lm-format-enforcer", dataset)["reason"]
            .as_str()
            .unwrap();
        assert!(
            reason.contains("the server exited before it was ready")
                && reason.contains("exists only inside a server"),
            "{reason}"
        );
    }
    let logs = logs_of_servers(&ran.stderr);
    assert_eq!(logs.len(), 3, "one log per server: {}", ran.stderr);
    for log in [&logs[0], &logs[2]] {
        let gone = TcpStream::connect(("127.0.0.1", port_in(log)));
        assert!(gone.is_err(), "the server of {log} still answers");
    }
}

#[cfg(unix)]
#[test]
fn sigint_ends_the_launched_server() {
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
        .find(|line| line.contains("its log is"))
        .expect("the log of the server is reported");
    let pid = rustix::process::Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
    // The signal may arrive during startup or during the run: the first one ends both.
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
fn launched_server_ends_when_the_program_is_killed() {
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
        .find(|line| line.contains("its log is"))
        .expect("the log of the server is reported");
    let log = &logs_of_servers(&started)[0];
    wait_until("the server reports its address", || {
        std::fs::read_to_string(log)
            .unwrap()
            .contains("http://127.0.0.1:")
    });
    let port = port_in(log);
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_ok(),
        "the server runs"
    );
    // SIGKILL.
    running.kill().unwrap();
    running.wait().unwrap();
    wait_until("the server has ended", || {
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
}

#[test]
fn report_has_validity_and_latency_per_load() {
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
            .contains("guidance, choice: valid goodput knee at 4 in flight"),
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
fn dry_run_shows_every_arm_and_sends_nothing() {
    let server = ScriptedServer::answering(|_| panic!("no request expected"));
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
fn config_file_defines_a_comparison() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"guided-decoding-backend = ['xgrammar', 'guidance']\nembedded-speed = 'instant'\nnum_prompts = 500\ndataset = 'regex'\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let (ran, found) = compared(&["--config", &path, "--num-prompts", "6", "--no-control-arm"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        row(&found, "guidance", "regex")["requests"].as_u64(),
        Some(6),
        "command-line flags take precedence"
    );
    assert_eq!(
        found["record"]["servers"],
        "the embedded server at speed instant, restarted for each run; xgrammar is xgrammar-rs 0.2.8, \
         port, guidance is llguidance 1.9.1"
    );
    file.write_all(b"tempratur = 1\n").unwrap();
    assert_fails(
        &sobench(&["--config", &path]),
        2,
        &["unknown flag in", "tempratur", "try temperature"],
    );
}

#[test]
fn runs_have_separate_logs_and_notes_are_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let template = folder.path().join("{dataset}.jsonl");
    let ran = sobench(&[
        "--dataset",
        "json,choice",
        "--num-prompts",
        "2",
        "--trust-remote-code",
        "--disable-tqdm",
        "--run-log",
        template.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for name in [
        "json-control",
        "json-constrained",
        "choice-control",
        "choice-constrained",
    ] {
        let log = folder.path().join(name).with_extension("jsonl");
        assert!(log.is_file(), "{name}: {}", ran.stderr);
    }
    for note in [
        "warning: flags without effect: --trust-remote-code (all runs)\n",
        "a synthetic model",
    ] {
        assert_eq!(ran.stderr.matches(note).count(), 1, "{}", ran.stderr);
    }
    assert!(ran.stderr.contains("(all runs)"), "{}", ran.stderr);
}
