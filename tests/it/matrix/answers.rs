//! Answers of scripted servers: the causes of answers that are not correct, the answers that
//! contenders disagree on, and the results by tag.

use serde_json::{Value, json};
use sobench_testkit::constrained::{Reply, answering, posts};
use sobench_testkit::scripted::ScriptedServer;

use super::{compared, row};
use crate::support::Folder;

/// The prompt of a case of the dataset.
const PROMPT: &str = "case ";

/// A case that the evaluator cannot judge: its schema refers to another document.
const UNJUDGED: usize = 9;

const CASES: usize = 12;

/// The answer of a server to a case.
type Script = fn(usize) -> Reply;

fn valid(case: usize) -> Reply {
    Reply::Text(json!({"n": case}).to_string())
}

fn invalid(case: usize, wrong: f64) -> Reply {
    Reply::Text(json!({"n": case as f64 + wrong}).to_string())
}

fn first(case: usize) -> Reply {
    match case {
        5 => invalid(case, 0.5),
        6 => Reply::Truncated("{\"n\"".to_owned()),
        7 | 8 => Reply::Status("400 Bad Request", r#"{"message":"const is unsupported"}"#),
        10 => Reply::Status("500 Internal Server Error", "no"),
        11 => invalid(case, 0.25),
        _ => valid(case),
    }
}

fn second(case: usize) -> Reply {
    match case {
        4 => Reply::Status("429 Too Many Requests", "later"),
        6 => Reply::Truncated("{\"n\"".to_owned()),
        10 => invalid(case, 0.75),
        11 => invalid(case, 0.125),
        _ => valid(case),
    }
}

fn server(script: Script) -> ScriptedServer {
    answering(move |body| {
        let prompt = body["prompt"].as_str().unwrap();
        let case = prompt.strip_prefix(PROMPT).unwrap();
        script(case.parse().unwrap())
    })
}

/// Rows of the dataset `custom`: the first six have the tag `low`, all have the tag `const`.
fn rows() -> String {
    let row = |case: usize| {
        let schema = match case {
            UNJUDGED => json!({"$ref": "https://example.org/other.json"}),
            _ => json!({"properties": {"n": {"const": case}}, "required": ["n"]}),
        };
        let tags = if case < 6 {
            vec!["const", "low"]
        } else {
            vec!["const", "high"]
        };
        json!({"prompt": format!("{PROMPT}{case}"), "json": schema, "name": format!("row-{case}"), "tags": tags})
    };
    (0..CASES).map(|case| format!("{}\n", row(case))).collect()
}

#[test]
fn causes_disagreements_and_tags_count_every_request() {
    let folder = Folder::new();
    let path = folder.file("rows.jsonl", rows());
    let servers = [server(first), server(second)];
    let [first, second] = servers.each_ref().map(|server| &server.base_url);
    let (ran, found) = compared(&[
        "--model m --num-prompts 12 --no-control-arm --skip-preflight --detail full",
        &format!("--target first={first} --target second={second}"),
        "--dataset custom --dataset-path",
        &path,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for server in &servers {
        assert_eq!(
            posts(server).len(),
            CASES + 1,
            "a trial request, and each case"
        );
    }
    check_causes(&found);
    check_disagreements(&found);
    check_tags(&found);
}

fn check_causes(found: &Value) {
    // Correct, invalid, truncated, refused, failed, not judged.
    for (contender, counts) in [
        ("first", [5, 2, 1, 2, 1, 1]),
        ("second", [7, 2, 1, 0, 1, 1]),
    ] {
        let row = row(found, contender, "custom");
        let hits = |rate: &Value| rate["hits"].as_u64().unwrap();
        let causes = ["invalid", "truncated", "refused", "failed"].map(|name| &row["causes"][name]);
        let judged = row["correct_rate"]["of"].as_u64().unwrap();
        let unjudged = hits(&row["metrics"]["not_judged_rate"]);
        let mut shown = vec![hits(&row["correct_rate"])];
        shown.extend(causes.map(hits));
        shown.push(unjudged);
        assert_eq!(shown, counts, "{contender}: {row}");
        assert_eq!(shown.iter().sum::<u64>(), row["requests"].as_u64().unwrap());
        assert_eq!(judged + unjudged, CASES as u64);
        assert!(causes.iter().all(|cause| cause["of"] == judged), "{row}");
    }
}

fn check_disagreements(found: &Value) {
    // Of case 10 there is one answer, and of case 11 both are invalid.
    let disagreements = found["disagreements"].as_array().unwrap();
    assert_eq!(disagreements.len(), 1, "{found}");
    let only = &disagreements[0];
    assert_eq!(
        (&only["schema"], &only["case_id"]),
        (&json!("row-5"), &json!("custom-5"))
    );
    let answers = [0, 1].map(|index: usize| {
        ["contender", "valid", "text"].map(|name| only["answers"][index][name].clone())
    });
    assert_eq!(
        answers[0],
        [json!("first"), json!(false), json!(r#"{"n":5.5}"#)]
    );
    assert_eq!(
        answers[1],
        [json!("second"), json!(true), json!(r#"{"n":5}"#)]
    );
    assert!(only["answers"][0]["finding"].is_string() && only["answers"][1]["finding"].is_null());
}

fn check_tags(found: &Value) {
    let features = found["features"].as_array().unwrap();
    let names: Vec<&Value> = features.iter().map(|feature| &feature["name"]).collect();
    assert_eq!(names, ["low", "high"], "every constraint has the tag const");
    let counts = |feature: usize, contender: usize| {
        let cell = &features[feature]["cells"][contender];
        [
            "requests",
            "correct",
            "invalid",
            "truncated",
            "refused",
            "failed",
        ]
        .map(|name| cell[name].as_u64().unwrap())
    };
    assert_eq!(counts(0, 0), [6, 5, 1, 0, 0, 0]);
    assert_eq!(counts(0, 1), [6, 5, 0, 0, 0, 1]);
    assert_eq!(counts(1, 0), [5, 0, 1, 1, 2, 1]);
    assert_eq!(counts(1, 1), [5, 2, 2, 1, 0, 0]);
    assert_eq!(features[1]["cells"][0]["refusal"]["keyword"], "const");
}
