//! Comparisons of several backends: embedded engines, named servers, launched servers, loads, and
//! files of flags.

mod answers;
mod at_once;
mod paired;
mod sweep;

use std::net::TcpStream;
use std::path::Path;

use serde_json::{Value, json};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};

use crate::support::{Folder, Ran, Running, assert_follows, program, sobench, wait_until};

/// Runs a comparison and returns its file, validated against the contract.
#[track_caller]
fn compared(arguments: &[&str]) -> (Ran, Value) {
    let folder = Folder::new();
    let files = ["c.json", "c.md", "c.html"].map(|name| folder.path(name));
    let saved = files.each_ref().map(|file| format!("--save={file}"));
    let fixed = ["--disable-tqdm", &saved[0], &saved[1], &saved[2]];
    let ran = sobench(&[&fixed, arguments].concat());
    assert!(Path::new(&files[0]).exists(), "{}", ran.stderr);
    let value = folder.json("c.json");
    assert_follows("matrix", &value);
    for name in ["c.md", "c.html"] {
        assert!(!folder.read(name).is_empty(), "{name}");
    }
    (ran, value)
}

fn row<'a>(comparison: &'a Value, contender: &str, dataset: &str) -> &'a Value {
    let mut rows = comparison["rows"].as_array().unwrap().iter();
    let found = rows.find(|row| row["contender"] == contender && row["dataset"] == dataset);
    found.expect("the row exists")
}

fn hits(row: &Value) -> Option<u64> {
    row["correct_rate"]["hits"].as_u64()
}

#[test]
fn embedded_engines_are_compared_and_refusals_are_results() {
    let flags = [
        "--guided-decoding-backend xgrammar,outlines --embedded-speed instant",
        "--dataset choice,grammar --num-prompts 12 --repeat 2 --matrix-order blocks",
        // There is no percentage of a control below 1 ms.
        "--embedded-ttft-ms 2",
    ];
    let (ran, found) = compared(&flags);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for (contender, dataset) in [
        ("xgrammar", "choice"),
        ("xgrammar", "grammar"),
        ("outlines", "choice"),
    ] {
        let row = row(&found, contender, dataset);
        assert_eq!(
            (&row["runs"], &row["requests"]),
            (&json!(2), &json!(24)),
            "{row}"
        );
        assert_eq!(
            (hits(row), &row["control"]["requests"]),
            (Some(24), &json!(24)),
            "{row}"
        );
        // Two repeats of twelve requests with equal results are twelve trials at most.
        let effective = row["correct_rate"]["effective"].as_f64();
        assert!(effective.is_some_and(|trials| trials <= 12.0), "{row}");
        // The first use of a constraint is apart from later ones.
        let added = ["ttft_added", "first_ttft_added"].map(|key| &row["control"][key]);
        let pairs = added.map(|added| added["pairs"].as_u64().unwrap_or(0));
        assert_eq!(pairs[0] + pairs[1], 24, "{row}");
    }
    let of_choice = row(&found, "outlines", "choice");
    let uses = ["cold_ttft_ms", "warm_ttft_ms"].map(|key| of_choice[key]["n"].as_u64());
    assert_eq!(
        (&of_choice["cold_from"], uses),
        (&json!("alone"), [Some(2); 2]),
        "{of_choice}"
    );
    let refused = row(&found, "outlines", "grammar");
    let rate = &refused["correct_rate"];
    assert_eq!(
        (&rate["hits"], &rate["of"]),
        (&json!(0), &json!(12)),
        "outlines reads no grammars"
    );
    let runs = found["runs"].as_array().unwrap();
    let has_log = |run: &Value| Path::new(run["run_log"].as_str().unwrap()).exists();
    assert!(runs.iter().all(has_log), "one log per run");
    let is_refused = |run: &&Value| {
        run["contender"] == "outlines"
            && run["dataset"] == "grammar"
            && run["treatment"] == "constrained"
    };
    let refused = runs.iter().filter(is_refused).count();
    assert_eq!(
        refused, 1,
        "a refusal does not end the comparison, and is not repeated"
    );
    let left_out = "runs that were left out because the server refuses the only constraint: 2 of outlines, grammar";
    for part in ["refuses the only constraint: 400: ", left_out] {
        assert!(ran.page().contains(part), "{part}: {}", ran.page());
    }
    let order: Vec<&Value> = runs[..4].iter().map(|run| &run["treatment"]).collect();
    assert_eq!(order, ["control", "constrained", "control", "constrained"]);
}

#[test]
fn only_the_first_run_of_a_refused_constraint_is_sent() {
    let flags =
        "--guided-decoding-backend xgrammar,outlines --embedded-speed instant --dataset grammar";
    let loads = "--num-prompts 4 --repeat 2 --sweep-max-concurrency 1,2 --matrix-order interleaved";
    let runs = |found: &Value, contender: &str, arm: &str| {
        let runs = found["runs"].as_array().unwrap().iter();
        runs.filter(|run| run["contender"] == contender && run["treatment"] == arm)
            .count()
    };
    let (ran, found) = compared(&[flags, loads]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let counts = |contender| ["constrained", "control"].map(|arm| runs(&found, contender, arm));
    // Its control runs are the load beside those of the other contender.
    assert_eq!((counts("xgrammar"), counts("outlines")), ([4; 2], [1, 4]));
    let of_outlines = |row: &&Value| row["contender"] == "outlines";
    let rows: Vec<&Value> = found["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(of_outlines)
        .collect();
    assert_eq!(
        (&rows[0]["outcome"], &rows[0]["runs"]),
        (&json!("measured"), &json!(1))
    );
    let reason = rows[1]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("refuses the only constraint: 400: "),
        "{reason}"
    );
    assert!(
        ran.page()
            .contains("refuses the only constraint: 3 of outlines, grammar")
    );
    // A search ends at once.
    let sweep = "--sweep --sweep-duration 0.0001 --num-prompts 2 --goodput e2el:600000";
    let (_, found) = compared(&[flags, sweep]);
    assert_eq!(runs(&found, "outlines", "constrained"), 1);
    let end = found["capacity"][1]["constrained"]["sweeps"][0]["end"].to_string();
    assert!(end.contains("refuses the only constraint: 400: "), "{end}");
}

#[test]
fn named_servers_have_separate_rows() {
    let good = EmbeddedServer::start(EmbeddedSettings::default()).unwrap();
    let bad = EmbeddedServer::start(EmbeddedSettings {
        faults: vec![Fault::parse("ignore-constraint").unwrap()],
        ..EmbeddedSettings::default()
    })
    .unwrap();
    let targets = format!(
        "--target good={} --target bad={}",
        good.base_url(),
        bad.base_url()
    );
    let load = "--dataset json --num-prompts 15 --request-rate 200";
    let (ran, found) = compared(&[&targets, load, "--allow-unenforced"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(hits(row(&found, "good", "json")), Some(15));
    assert!(hits(row(&found, "bad", "json")) < Some(15));
    assert!(
        ran.page()
            .contains("CONSTRAINT NOT ENFORCED: bad, json, constrained")
    );
    // Earlier requests of a running server are unknown.
    assert_eq!(row(&found, "good", "json")["cold_from"], Value::Null);
    // Without --allow-unenforced, the row of this server has the reason, and the other server is
    // still measured.
    let (ran, found) = compared(&[&targets, load]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert_eq!(row(&found, "good", "json")["outcome"], "measured");
    assert_eq!(row(&found, "bad", "json")["outcome"], "did_not_run");
}

#[test]
fn running_server_has_cold_ttft_only_for_new_schemas() {
    let server = EmbeddedServer::start(EmbeddedSettings::default()).unwrap();
    let load = "--no-control-arm --repeat 2 --max-concurrency 1 --num-prompts 9 --base-url";
    let (ran, found) = compared(&[
        "--dataset json --cold-schema-every 3",
        load,
        server.base_url(),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let of_json = row(&found, "server", "json");
    let counts = [&of_json["cold_ttft_ms"]["n"], &of_json["warm_ttft_ms"]["n"]];
    assert_eq!(
        (&of_json["cold_from"], counts),
        (&json!("run"), [&json!(6), &json!(12)])
    );
    // These schemas depend only on the seed: the server knows them after the first run. Before it,
    // that is unknown.
    let (ran, found) = compared(&["--dataset json-unique", load, server.base_url()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        row(&found, "server", "json-unique")["cold_from"],
        Value::Null
    );
    let known = [0, 1].map(|index: usize| {
        let log =
            std::fs::read_to_string(found["runs"][index]["run_log"].as_str().unwrap()).unwrap();
        let header: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
        let known = &header["header"]["record"]["known_constraints"];
        known.as_array().unwrap().len()
    });
    assert_eq!(known, [1, 9], "only the trial request's, then all");
}

#[test]
fn engine_is_sent_only_in_a_dialect_that_supports_it() {
    let server = EmbeddedServer::start(EmbeddedSettings::default()).unwrap();
    let flags = "--guided-decoding-backend guidance,xgrammar --num-prompts 5 --base-url";
    let refused = sobench(&[flags, server.base_url()]);
    refused.assert_fails(
        2,
        &["its requests do not select another", "--launch", "--target"],
    );
    let guided = "--constraint-dialect guided --no-control-arm";
    let (ran, found) = compared(&[flags, server.base_url(), guided]);
    assert_eq!(
        ran.code, 3,
        "the server runs guidance and rejects xgrammar: {}",
        ran.stderr
    );
    let [guidance, xgrammar] = ["guidance", "xgrammar"].map(|engine| row(&found, engine, "json"));
    assert_eq!(
        (hits(guidance), &guidance["control"]),
        (Some(5), &Value::Null)
    );
    assert!(
        xgrammar["reason"].as_str().unwrap().contains("guidance"),
        "{found}"
    );
}

#[test]
fn wrong_input_files_end_a_comparison_before_its_first_run() {
    let folder = Folder::new();
    let broken = folder.file("broken.json", r#"{"type": "strin"}"#);
    let rows = folder.file("rows.jsonl", "{\"prompt\": 1}\n");
    for (dataset, flags) in [
        ("json", ["--json-schema-path", broken.as_str()]),
        ("custom", ["--dataset-path", &rows]),
    ] {
        let single = sobench(&["--num-prompts 2 --dataset", dataset, flags[0], flags[1]]);
        assert_eq!(single.code, 2, "{flags:?}: {}", single.stderr);
        let (_, error) = single.stderr.split_once("error: ").unwrap();
        // The wrong file is not the first dataset's.
        let engines = format!("--dataset {dataset} --guided-decoding-backend guidance,xgrammar");
        let datasets = format!("--dataset choice,{dataset}");
        for comparison in [engines, datasets] {
            let ran = sobench(&["--num-prompts 2", &comparison, flags[0], flags[1]]);
            assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{comparison:?}");
            assert_eq!(ran.stderr, format!("error: {error}"));
        }
    }
}

/// The port that a launched server wrote to its log.
fn port_in(log: &str) -> Option<u16> {
    let text = std::fs::read_to_string(log).unwrap();
    let (_, after) = text.split_once("http://127.0.0.1:")?;
    let digits = after
        .split(|character: char| !character.is_ascii_digit())
        .next();
    Some(digits.unwrap().parse().unwrap())
}

fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// The log of a server by the line that names it.
fn log_in(line: &str) -> Option<&str> {
    Some(line.split_once("its log is ")?.1)
}

#[test]
fn launched_servers_run_one_at_a_time() {
    let program = env!("CARGO_BIN_EXE_sobench");
    let command = format!("{program} serve --port {{port}} --guided-decoding-backend {{backend}}");
    let (ran, found) = compared(&[
        "--dataset json,regex --num-prompts 5 --launch",
        &command,
        "--guided-decoding-backend xgrammar,lm-format-enforcer,guidance",
    ]);
    assert_eq!(ran.code, 3, "one engine is not built in: {}", ran.stderr);
    for dataset in ["json", "regex"] {
        for contender in ["xgrammar", "guidance"] {
            let row = row(&found, contender, dataset);
            assert_eq!(hits(row), Some(5), "{found}");
            assert!(row["engine"].as_str().unwrap().starts_with(contender));
            assert_eq!(row["cold_from"], "alone", "launched for this row");
        }
        let reason = row(&found, "lm-format-enforcer", dataset)["reason"]
            .as_str()
            .unwrap();
        assert!(
            reason.starts_with("the control arm: the server exited before it was ready"),
            "{reason}"
        );
        assert!(reason.contains("exists only inside a server"), "{reason}");
    }
    let logs: Vec<&str> = ran.stderr.lines().filter_map(log_in).collect();
    assert_eq!(logs.len(), 3, "one log per server: {}", ran.stderr);
    for log in [logs[0], logs[2]] {
        assert!(
            !answers(port_in(log).unwrap()),
            "the server of {log} still answers"
        );
    }
}

/// A long run on a server that it launches, and the log of the server.
fn launched() -> (Running, String) {
    let command = format!(
        "{} serve --port {{port}} --embedded-itl-ms 50",
        env!("CARGO_BIN_EXE_sobench")
    );
    let flags = "--num-prompts 5000 --max-concurrency 2 --drain-timeout 0 --skip-preflight";
    let flags = ["--no-control-arm --repeat 3", flags, "--launch", &command];
    let mut running = Running::start(&mut program(&flags));
    let started = running.wait_for("its log is");
    (running, log_in(&started).unwrap().to_owned())
}

#[test]
fn sigint_ends_the_launched_server() {
    let (running, log) = launched();
    // The signal may arrive during startup or during the run: the first one ends both.
    running.signal(rustix::process::Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let is_gone = port_in(&log).is_none_or(|port| !answers(port));
    assert!(is_gone, "the server of {log} still answers");
}

#[test]
fn launched_server_ends_when_the_program_is_killed() {
    let (mut running, log) = launched();
    running.wait_until("the server reports its address", || port_in(&log).is_some());
    let port = port_in(&log).unwrap();
    assert!(answers(port), "the server runs");
    running.signal(rustix::process::Signal::KILL);
    running.child.wait().unwrap();
    wait_until("the server has ended", || !answers(port));
}

#[test]
fn config_file_defines_a_comparison() {
    let folder = Folder::new();
    let flags = "guided-decoding-backend = ['xgrammar', 'guidance']\nembedded-speed = 'instant'\nnum_prompts = 500\ndataset = 'regex'\n";
    let path = folder.file("flags.toml", flags);
    let (ran, found) = compared(&["--num-prompts 6 --no-control-arm --config", &path]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let requests = &row(&found, "guidance", "regex")["requests"];
    assert_eq!(requests, 6, "command-line flags take precedence");
    folder.file("flags.toml", format!("{flags}tempratur = 1\n"));
    let ran = sobench(&["--config", &path]);
    ran.assert_fails(2, &["unknown flag in", "tempratur", "try temperature"]);
}

#[test]
fn runs_have_separate_logs_and_notes_are_printed_once() {
    let folder = Folder::new();
    let ran = sobench(&[
        "--dataset json,choice --num-prompts 2 --trust-remote-code --disable-tqdm --run-log",
        &folder.path("{dataset}.jsonl"),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for name in [
        "json-control",
        "json-constrained",
        "choice-control",
        "choice-constrained",
    ] {
        assert!(
            Path::new(&folder.path(&format!("{name}.jsonl"))).is_file(),
            "{name}"
        );
    }
    let note = "warning: flags without effect: --trust-remote-code (all runs)\n";
    assert_eq!(ran.stderr.matches(note).count(), 1, "{}", ran.stderr);
}
