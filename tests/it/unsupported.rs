//! Promise: a constraint that a kind of server has no field for is not sent without it. Beside
//! others, its case has an outcome of its own; alone, it ends the run before it begins.

use std::io::Write;

use serde_json::{Value, json};
use sobench_testkit::scripted::{Request, Scripted, models, whole};

use crate::support::{Ran, sobench_result};

/// Ollama's way to say `{"a": 1}`; Ollama has a field for schemas and for nothing else.
fn ollama() -> Scripted {
    let event = |text: &str, end: bool| {
        let done = if end { json!("stop") } else { Value::Null };
        format!(
            "{}\n",
            json!({"message": {"role": "assistant", "content": text}, "done": end, "done_reason": done})
        )
    };
    let answer = format!("{}{}", event("{\"a\": 1}", false), event("", true));
    Scripted::answering(move |request| {
        if request.asks_for_models() {
            models()
        } else {
            whole("200 OK", "application/x-ndjson", &answer)
        }
    })
}

fn run(server: &Scripted, rows: &[Value]) -> (Ran, Value) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    rows.iter().for_each(|row| writeln!(file, "{row}").unwrap());
    let path = file.path().to_str().unwrap();
    let arguments = [
        "--backend",
        "ollama",
        "--base-url",
        &server.base_url,
        "--model",
        "m",
        "--dataset",
        "custom",
        "--dataset-path",
    ];
    sobench_result(
        &[
            &arguments[..],
            &[
                path,
                "--num-prompts",
                "4",
                "--skip-preflight",
                "--save-detailed",
            ],
        ]
        .concat(),
    )
}

fn posts(server: &Scripted) -> Vec<Value> {
    let requests: Vec<Request> = server.requests();
    let posts = requests
        .iter()
        .filter(|request| request.line.starts_with("POST "));
    posts
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect()
}

#[test]
fn beside_others_such_a_case_is_an_outcome() {
    let server = ollama();
    let schema = json!({"prompt": "an object", "json": {"type": "object"}});
    let regex = json!({"prompt": "a letter", "regex": "[a-z]"});
    let (ran, result) = run(&server, &[regex.clone(), schema.clone(), regex, schema]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(
        posts(&server).len(),
        3,
        "a trial and the two that can be sent"
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
        own["quality"]["coverage"]["hits"].as_u64(),
        Some(2),
        "{}",
        own["quality"]["coverage"]
    );
    let words =
        "unsupported by this server kind: the ollama backend has no field for a regex constraint";
    let errors: Vec<&str> = result["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error.as_str().unwrap())
        .collect();
    assert_eq!(errors, [words, "", words, ""]);
    assert!(ran.stdout.contains("unsupported |     2"), "{}", ran.stdout);
}

#[test]
fn alone_it_ends_the_run_before_it_begins() {
    let server = ollama();
    let arguments = [
        "--backend",
        "ollama",
        "--base-url",
        &server.base_url,
        "--model",
        "m",
        "--dataset",
        "regex",
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
