//! The same requests to two servers: what the second one loses is found, placed and gated.

use serde_json::json;

use crate::requests::recording_server;
use crate::support::{Folder, assert_follows, sobench};

const REQUESTS: usize = 120;

/// A valid answer to each request.
const VALID: &str = r#"{"a": ["x"]}"#;

/// Bodies of several schemas; every tenth has `uniqueItems`.
fn requests(folder: &Folder) -> String {
    let body = |index: usize| {
        let mut items =
            json!({"type": "array", "items": {"type": "string"}, "minItems": index % 2});
        if index.is_multiple_of(10) {
            items["uniqueItems"] = json!(true);
        }
        let schema = json!({"type": "object", "properties": {"a": items}, "required": ["a"]});
        json!({
            "model": "old", "messages": [{"role": "user", "content": format!("question {index}")}],
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        })
        .to_string()
    };
    let lines: Vec<String> = (0..REQUESTS).map(body).collect();
    let path = folder.path("requests.jsonl");
    std::fs::write(&path, lines.join("\n")).unwrap();
    path
}

#[test]
fn losses_are_found_with_their_place() {
    let folder = Folder::new();
    let path = requests(&folder);
    let ((a, sent_a), (b, sent_b)) = (
        recording_server(|_| VALID),
        recording_server(|body| match body.contains("uniqueItems") {
            true => r#"{"a": ["x", "x"]}"#,
            false => VALID,
        }),
    );
    let targets = [
        format!("--target=A={}", a.base_url),
        format!("--target=B={}", b.base_url),
    ];
    let [json_file, page_file] = ["pairs.json", "pairs.html"].map(|name| folder.path(name));
    let count = REQUESTS.to_string();
    let arguments = |require: &'static str| {
        [
            "matrix", &targets[0], &targets[1], "--dataset=requests", "--dataset-path", &path,
            "--backend openai-chat --model new --matrix-order paired --skip-preflight --disable-tqdm",
            "--num-warmups 0 --max-concurrency 4 --num-prompts", &count, "--require", require, "--run-log",
        ]
        .map(str::to_owned)
    };
    let logs = format!("{}/", folder.path("logs"));
    let saved = [format!("--save={json_file}"), format!("--save={page_file}")];
    let run = |require: &'static str, saved: &[String]| {
        let typed = [&arguments(require)[..], std::slice::from_ref(&logs), saved].concat();
        let typed: Vec<&str> = typed.iter().map(String::as_str).collect();
        sobench(&typed)
    };
    let ran = run("lost<=0.5", &saved);
    assert_eq!(ran.code, 1, "{}\n{}", ran.stdout, ran.stderr);
    for expected in [
        "worse?",
        "Where: B lost 12 of 12 pairs with keyword uniqueItems, and 0 of the",
        "gate failed: 1 of 1 rules broken: lost<=0.5",
        "curl -sS -N",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}:\n{}", ran.stdout);
    }
    let file = folder.json("pairs.json");
    assert_follows("comparison", &file);
    let pairs = &file["against_first"][0]["pairs"];
    let counts = ["pairs", "lost", "won"].map(|key| pairs[key].as_u64().unwrap());
    assert_eq!(counts, [120, 12, 0], "{pairs}");
    assert_eq!(pairs["ended"]["valid"]["invalid"], 12);
    assert_eq!(pairs["cause"]["value"], "uniqueItems", "{pairs}");
    let case = &file["against_first"][0]["changed"]["cases"][0];
    assert!(
        case["curl"].as_str().unwrap().contains("question "),
        "{case}"
    );
    assert!(folder.read("pairs.html").contains("uniqueItems"));
    // Both servers got the same bodies.
    let [mut first, mut second] = [sent_a, sent_b].map(|sent| sent.lock().unwrap().clone());
    first.sort();
    second.sort();
    assert_eq!(first, second);
    assert!(first.len() >= REQUESTS);

    let kept = run("lost<=50", &[]);
    assert_eq!(kept.code, 0, "{}\n{}", kept.stdout, kept.stderr);
}

#[test]
fn the_plan_has_the_number_of_pairs() {
    let targets = "--target A=http://127.0.0.1:1 --target B=http://127.0.0.1:2";
    let ran = sobench(&[
        "matrix",
        targets,
        "--backend vllm --model m --matrix-order paired --plan --num-prompts 300",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for expected in [
        "pairs: 300;",
        "0.5 pp                     1829",
        "nothing is sent",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}:\n{}", ran.stdout);
    }
    assert!(!ran.stdout.contains("control"), "{}", ran.stdout);
}

#[test]
fn other_numbers_of_servers_and_datasets_are_refused() {
    let two = "--target A=http://127.0.0.1:1 --target B=http://127.0.0.1:2";
    let bad = [
        [
            "--target A=http://127.0.0.1:1",
            "--dataset json",
            "compares two servers",
        ],
        [two, "--dataset json,choice", "compares two servers"],
        [two, "--no-run-log", "reads the run logs"],
        [two, "--require lost>0.5", "invalid rule: lost>0.5"],
    ];
    for [targets, flags, expected] in bad {
        let ran = sobench(&["matrix", targets, flags, "--model m --matrix-order paired"]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{expected}:\n{}", ran.stderr);
    }
    let alone = sobench(&["bench", "--require lost<=0.5"]);
    assert_eq!(alone.code, 2);
    assert!(
        alone.stderr.contains("needs two servers"),
        "{}",
        alone.stderr
    );
}
