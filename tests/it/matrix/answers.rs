//! Answers of scripted servers: the causes of answers that are not correct, the answers that
//! contenders disagree on, and the results by tag.

use serde_json::{Value, json};
use sobench_testkit::constrained::{Reply, answering, posts};
use sobench_testkit::scripted::ScriptedServer;

use super::{compared, row};

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

/// The comparison of both servers, with all figures.
fn comparison() -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, rows()).unwrap();
    let servers = [server(first), server(second)];
    let targets = ["first", "second"].map(str::to_owned);
    let targets: Vec<String> = targets
        .iter()
        .zip(&servers)
        .map(|(name, server)| format!("{name}={}", server.base_url))
        .collect();
    let flags = [
        "--target",
        &targets[0],
        "--target",
        &targets[1],
        "--model",
        "m",
        "--dataset",
        "custom",
        "--dataset-path",
        path.to_str().unwrap(),
        "--num-prompts",
        "12",
        "--no-control-arm",
        "--skip-preflight",
        "--detail",
        "full",
    ];
    let (ran, found) = compared(&flags);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for server in &servers {
        assert_eq!(
            posts(server).len(),
            CASES + 1,
            "a trial request, and each case"
        );
    }
    (ran.stdout, found)
}

#[test]
fn causes_and_correct_answers_and_those_not_judged_are_all_requests() {
    let (_, found) = comparison();
    // Correct, invalid, truncated, refused, failed, not judged.
    for (contender, counts) in [
        ("first", [5, 2, 1, 2, 1, 1]),
        ("second", [7, 2, 1, 0, 1, 1]),
    ] {
        let row = row(&found, contender, "custom");
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
        let percent = |rate: &Value| rate["percent"].as_f64().unwrap();
        let sum = percent(&row["correct_rate"]) + causes.map(percent).iter().sum::<f64>();
        assert!((sum - 100.0).abs() < 1e-9, "{contender}: {sum}");
        assert!(causes.iter().all(|cause| cause["of"] == judged), "{row}");
    }
}

#[test]
fn disagreements_name_the_case_and_both_answers() {
    let (page, found) = comparison();
    let disagreements = found["disagreements"].as_array().unwrap();
    // Of case 10 there is one answer, and of case 11 both are invalid.
    assert_eq!(disagreements.len(), 1, "{found}");
    let [only] = &disagreements[..] else {
        unreachable!()
    };
    assert_eq!(only["schema"], "row-5");
    assert_eq!(only["case_id"], "custom-5");
    let answer = |index: usize, name: &str| &only["answers"][index][name];
    assert_eq!(
        [
            answer(0, "contender"),
            answer(0, "valid"),
            answer(0, "text")
        ],
        [&json!("first"), &json!(false), &json!(r#"{"n":5.5}"#)]
    );
    assert_eq!(
        [
            answer(1, "contender"),
            answer(1, "valid"),
            answer(1, "text")
        ],
        [&json!("second"), &json!(true), &json!(r#"{"n":5}"#)]
    );
    assert!(answer(0, "finding").as_str().unwrap().contains("const"));
    assert!(answer(1, "finding").is_null());
    let (_, listed) = page.split_once("\nDisagreements\n").unwrap();
    let lines: Vec<&str> = listed.lines().take(3).map(str::trim).collect();
    assert_eq!(lines[0], "row-5, custom-5", "{listed}");
    assert!(
        lines[1].starts_with("first: invalid, ") && lines[1].ends_with(r#"{"n":5.5}"#),
        "{listed}"
    );
    assert_eq!(lines[2], r#"second: valid: {"n":5}"#);
}

#[test]
fn results_by_tag_count_the_requests_of_its_constraints() {
    let (page, found) = comparison();
    let features = found["features"].as_array().unwrap();
    let names: Vec<&str> = features
        .iter()
        .map(|feature| feature["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["low", "high"], "every constraint has the tag const");
    let counts = |feature: &Value, contender: usize| {
        let cell = &feature["cells"][contender];
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
    assert_eq!(counts(&features[0], 0), [6, 5, 1, 0, 0, 0]);
    assert_eq!(counts(&features[0], 1), [6, 5, 0, 0, 0, 1]);
    assert_eq!(counts(&features[1], 0), [5, 0, 1, 1, 2, 1]);
    assert_eq!(counts(&features[1], 1), [5, 2, 2, 1, 0, 0]);
    assert_eq!(features[1]["cells"][0]["refusal"]["keyword"], "const");
    let (_, table) = page.split_once("\nConstraints by feature\n").unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(2)
        .take(2)
        .map(|line| line.split(" | ").map(str::trim).collect())
        .collect();
    assert_eq!(rows[0], ["low", "invalid 1/6", "failed 1/6"], "{table}");
    assert_eq!(rows[1][0], "high", "{table}");
    assert!(rows[1][1].starts_with("refused 2/5 (const);"), "{table}");
    let wide = page.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None, "{page}");
}
