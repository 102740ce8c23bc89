//! Unsupported constraints: a case whose constraint the server kind has no field for gets its own
//! outcome, and stops the run if all cases are such.

use std::io::Write;

use serde_json::{Value, json};
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::support::{Ran, sobench_result};

/// A stub of Ollama that answers `{"a": 1}`. Ollama has a field for schemas only.
fn ollama() -> ScriptedServer {
    let event = |text: &str, end: bool| {
        let done = if end { json!("stop") } else { Value::Null };
        format!(
            "{}\n",
            json!({"message": {"role": "assistant", "content": text}, "done": end, "done_reason": done})
        )
    };
    let answer = format!("{}{}", event("{\"a\": 1}", false), event("", true));
    ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            models()
        } else {
            whole("200 OK", "application/x-ndjson", &answer)
        }
    })
}

fn run(server: &ScriptedServer, rows: &[Value]) -> (Ran, Value) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    rows.iter().for_each(|row| writeln!(file, "{row}").unwrap());
    let path = file.path().to_str().unwrap();
    let arguments = [
        "--backend ollama --base-url",
        &server.base_url,
        "--model m --dataset custom --dataset-path",
    ];
    sobench_result(
        &[
            &arguments[..],
            &[path, "--num-prompts 4 --skip-preflight --save-detailed"],
        ]
        .concat(),
    )
}

fn posts(server: &ScriptedServer) -> Vec<Value> {
    let requests: Vec<Request> = server.requests();
    let posts = requests
        .iter()
        .filter(|request| request.line.starts_with("POST "));
    posts
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect()
}

#[test]
fn unsupported_constraint_is_an_outcome_of_its_case() {
    let server = ollama();
    let schema = json!({"prompt": "an object", "json": {"type": "object"}});
    let regex = json!({"prompt": "a letter", "regex": "[a-z]"});
    let (ran, result) = run(&server, &[regex.clone(), schema.clone(), regex, schema]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        posts(&server).len(),
        3,
        "a trial and the two supported requests"
    );
    assert!(posts(&server).iter().all(|body| body["format"].is_object()));
    let own = &result["sobench"];
    assert_eq!(
        (
            own["outcomes"]["unsupported"].as_u64(),
            own["outcomes"]["completed"].as_u64()
        ),
        (Some(2), Some(2))
    );
    assert_eq!(
        own["metrics"]["coverage"]["hits"].as_u64(),
        Some(2),
        "{}",
        own["metrics"]["coverage"]
    );
    let message =
        "unsupported by this server kind: the ollama backend has no field for a regex constraint";
    let errors: Vec<&str> = result["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error.as_str().unwrap())
        .collect();
    assert_eq!(errors, [message, "", message, ""]);
    assert!(ran.stdout.contains("unsupported |     2"), "{}", ran.stdout);
}

#[test]
fn run_with_only_unsupported_constraints_fails_early() {
    let server = ollama();
    let arguments = [
        "--backend ollama --base-url",
        &server.base_url,
        "--model m --dataset regex",
    ];
    let ran = crate::support::sobench(&arguments);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains(
            "unsupported by this server kind: the ollama backend has no field for a regex"
        ),
        "{}",
        ran.stderr
    );
    assert!(posts(&server).is_empty(), "nothing was sent");
}
