//! `sobench preflight`, and the preflight of a run.

mod before_run;
mod faults;
mod features;
mod tool_calls;

use serde_json::Value;
use sobench_backend::ServerKind;
use sobench_testkit::constrained::{Reply, answering, sglang_reply};
use sobench_testkit::scripted::{ScriptedServer, refusing_url};

use crate::support::{Folder, Ran, assert_follows, sobench};

fn command(server: Option<&ScriptedServer>, arguments: &[&str]) -> Ran {
    let mut all = vec!["preflight", "--disable-tqdm"];
    if let Some(server) = server {
        all.extend(["--base-url", &server.base_url]);
    }
    all.extend_from_slice(arguments);
    sobench(&all)
}

#[test]
fn preflight_tries_every_dialect_and_reports_the_enforced_one() {
    let server = answering(sglang_reply);
    let ran = command(
        Some(&server),
        &["--backend openai-chat --kind json,regex,grammar --format json"],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let dialects: Vec<&str> = found["record"]["constraint_dialects"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_str().unwrap())
        .collect();
    assert_eq!(
        (dialects.len(), dialects[0]),
        (ServerKind::OpenaiChat.dialects().len(), "response-format")
    );
    let mut classes: Vec<(&str, &str, &str)> = Vec::new();
    for cell in found["cells"].as_array().unwrap() {
        let word = |name: &str| cell[name].as_str().unwrap();
        classes.push((word("constraint_dialect"), word("kind"), word("class")));
    }
    for (dialect, [json, regex, grammar]) in [
        (
            "response-format",
            ["enforced", "not_carried", "not_carried"],
        ),
        ("sglang", ["enforced"; 3]),
        ("structured-outputs", ["ignored"; 3]),
        ("guided", ["ignored"; 3]),
        ("llama-cpp", ["ignored", "not_carried", "ignored"]),
        ("tgi-grammar", ["ignored", "ignored", "not_carried"]),
        ("tool-call", ["ignored", "not_carried", "not_carried"]),
        ("regex-schema", ["enforced", "ignored", "not_carried"]),
    ] {
        for expected in [
            (dialect, "json", json),
            (dialect, "regex", regex),
            (dialect, "grammar", grammar),
        ] {
            assert!(
                classes.contains(&expected),
                "{expected:?} is not in {classes:?}"
            );
        }
    }
    assert_eq!(
        found["recommendation"]["flags"],
        "--constraint-dialect sglang"
    );
}

#[test]
fn preflight_writes_a_file_and_sets_the_exit_code() {
    let folder = Folder::new();
    let ran = command(None, &["--save", &folder.path("preflight.json")]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let file = folder.json("preflight.json");
    assert_follows("preflight", &file);
    assert_eq!(file["passed"], true);

    let ignoring = answering(|_| Reply::Prose);
    let flags = "--format json --kind choice --constraint-dialect auto";
    let ran = command(Some(&ignoring), &[flags]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let printed: Value = serde_json::from_str(&ran.stdout).unwrap();
    let found = (&printed["cells"][0]["class"], &printed["recommendation"]);
    assert_eq!(found, (&Value::from("ignored"), &Value::Null));

    let failing = answering(|_| Reply::Status("500 Internal Server Error", "it broke"));
    assert_eq!(command(Some(&failing), &["--kind json"]).code, 3);
    let ran = sobench(&["preflight", "--base-url", &refusing_url()]);
    ran.assert_fails(3, &["\nhint: "]);
}
