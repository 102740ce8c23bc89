//! `sobench preflight --features`: finds known unsupported, rejected and enforced keywords of
//! engines.

use serde_json::{Value, json};
use sobench_testkit::constrained::{
    Reply, allowed, answering, constraint_text, crashing_server, posts,
};

use crate::support::{Ran, assert_follows, sobench};

/// Verdict by keyword, one map per server.
type Verdicts = Vec<Vec<(String, String)>>;

fn probe(arguments: &[&str]) -> Ran {
    sobench(&[&["preflight", "--features --disable-tqdm"], arguments].concat())
}

fn surveyed(arguments: &[&str]) -> (Ran, Value) {
    let ran = probe(&[arguments, &["--format json"]].concat());
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    let file: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_follows("preflight-features", &file);
    (ran, file)
}

fn verdicts(file: &Value) -> Verdicts {
    let member = |found: &Value, name: &str| found[name].as_str().unwrap().to_owned();
    let of_server = |server: &Value| {
        let found = server["found"].as_array().unwrap().iter();
        found
            .map(|found| (member(found, "id"), member(found, "verdict")))
            .collect()
    };
    file["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(of_server)
        .collect()
}

#[test]
fn known_limits_of_engines_are_detected() {
    let known = [
        ("maxLength", ["enforced", "enforced", "enforced"]),
        ("required", ["enforced", "enforced", "enforced"]),
        (
            "enum-beside-type",
            ["enforced", "under_enforced", "under_enforced"],
        ),
        ("minProperties", ["enforced", "enforced", "under_enforced"]),
        ("propertyNames", ["rejected", "enforced", "under_enforced"]),
        (
            "dependentRequired",
            ["rejected", "under_enforced", "under_enforced"],
        ),
        ("contains", ["rejected", "rejected", "under_enforced"]),
        ("uniqueItems", ["rejected", "rejected", "under_enforced"]),
        (
            "maxLength-control-characters",
            ["enforced", "under_enforced", "enforced"],
        ),
        (
            "pattern-look-ahead",
            ["rejected", "under_enforced", "rejected"],
        ),
        // Impossible days and leap seconds, leading zeros, and labels and names that are too long.
        (
            "format-date-time",
            ["under_enforced", "under_enforced", "under_enforced"],
        ),
        ("format-ipv4", ["enforced", "under_enforced", "rejected"]),
        ("format-ipv6", ["enforced", "under_enforced", "rejected"]),
        (
            "format-hostname",
            ["under_enforced", "under_enforced", "rejected"],
        ),
        ("minimum", ["enforced", "enforced", "under_enforced"]),
        ("multipleOf", ["enforced", "rejected", "under_enforced"]),
        ("allOf-objects", ["enforced", "rejected", "under_enforced"]),
        ("not", ["rejected", "under_enforced", "rejected"]),
        ("if-then", ["rejected", "under_enforced", "under_enforced"]),
        (
            "ref-beside-keyword",
            ["enforced", "under_enforced", "under_enforced"],
        ),
        (
            "duplicate-members",
            ["under_enforced", "under_enforced", "enforced"],
        ),
    ];
    let keywords: Vec<&str> = known.iter().map(|(id, _)| *id).collect();
    let engines = ["guidance", "xgrammar", "outlines"];
    let keywords = keywords.join(",");
    let (ran, file) = surveyed(&[
        "--guided-decoding-backend",
        &engines.join(","),
        "--keyword",
        &keywords,
        "--samples 8 --output-len 64",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let found = verdicts(&file);
    for (id, expected) in known {
        for ((engine, expected), found) in engines.iter().zip(expected).zip(&found) {
            assert!(
                found.contains(&(id.to_owned(), expected.to_owned())),
                "{id} under {engine} is not {expected}: {found:?}"
            );
        }
    }
    for (engine, server) in engines.iter().zip(file["servers"].as_array().unwrap()) {
        assert_eq!(server["label"], **engine);
        for found in server["found"].as_array().unwrap() {
            let [complete, invalid, sent] =
                ["complete", "invalid", "asked"].map(|name| found[name].as_u64().unwrap());
            match found["verdict"].as_str().unwrap() {
                "enforced" => assert!(complete > 0 && invalid == 0 && sent == 8, "{found}"),
                "under_enforced" => assert!(
                    invalid > 0 && found["offending"]["reason"].is_string(),
                    "{found}"
                ),
                _ => assert!(sent == 1 && found["words"] != "", "{found}"),
            }
        }
    }
}

/// The text that the prompt demands, if any.
fn demanded_text(body: &Value) -> Option<String> {
    let (_, rest) = body["prompt"].as_str()?.split_once("<<<")?;
    rest.rsplit_once(">>>").map(|(text, _)| text.to_owned())
}

#[test]
fn features_are_judged_by_the_answers() {
    // The server enforces the plain schema, rejects multipleOf, fails at uniqueItems, truncates
    // answers for maxLength, writes valid answers for enum, and otherwise repeats the demanded
    // text.
    let server = answering(|body| {
        let schema = constraint_text(body).unwrap_or_default();
        match demanded_text(body) {
            _ if schema.contains("multipleOf") => Reply::Status(
                "400 Bad Request",
                r#"{"error":{"message":"no multipleOf here"}}"#,
            ),
            _ if schema.contains("uniqueItems") => {
                Reply::Status("500 Internal Server Error", "it broke")
            }
            _ if schema.contains("maxLength") => Reply::Truncated("{\"v\": \"abc".to_owned()),
            _ if schema.contains("green") => Reply::Text(r#"{"v": "red"}"#.to_owned()),
            Some(text) => Reply::Text(text),
            None => allowed(body).map_or(Reply::Prose, Reply::Text),
        }
    });
    let keywords = "required,multipleOf,uniqueItems,maxLength,enum,maximum";
    let arguments = [
        "--base-url",
        &server.base_url,
        "--keyword",
        keywords,
        "--samples 8",
    ];
    let (ran, file) = surveyed(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let found = file["servers"][0]["found"].as_array().unwrap();
    let finding = |id: &str| {
        found
            .iter()
            .find(|found| found["id"] == id)
            .unwrap_or_else(|| panic!("{id} was not tested"))
    };
    for (id, verdict, words) in [
        ("required", "under_enforced", None),
        (
            "multipleOf",
            "rejected",
            Some(r#"{"error":{"message":"no multipleOf here"}}"#),
        ),
        ("uniqueItems", "crashed", Some("it broke")),
        (
            "maxLength",
            "undecided",
            Some("8 of 8 cut at the token limit, 0 timed out"),
        ),
        ("enum", "enforced", None),
    ] {
        let found = finding(id);
        assert_eq!(found["verdict"], verdict, "{found}");
        assert!(words.is_none_or(|words| found["words"] == words), "{found}");
    }
    assert_eq!(
        (
            finding("multipleOf")["asked"].as_u64(),
            finding("multipleOf")["status"].as_u64()
        ),
        (Some(1), Some(400))
    );
    let offending = &finding("maximum")["offending"];
    assert_eq!(
        (&offending["text"], &offending["sample"], &offending["cut"]),
        (&json!(r#"{"v": 101}"#), &json!(0), &json!(false))
    );
    assert!(offending["reason"].is_string(), "{offending}");
}

#[test]
fn samples_differ_and_are_constrained() {
    let server = answering(|body| allowed(body).map_or(Reply::Prose, Reply::Text));
    surveyed(&[
        "--base-url",
        &server.base_url,
        "--keyword if-then-else --samples 8 --seed 5",
    ]);
    let sent: Vec<Value> = posts(&server)
        .into_iter()
        .filter(|body| body["temperature"] == 1.0)
        .filter(|body| constraint_text(body).is_some_and(|schema| schema.contains("\"if\"")))
        .collect();
    let mut seeds: Vec<u64> = sent
        .iter()
        .map(|body| body["seed"].as_u64().unwrap())
        .collect();
    seeds.sort_unstable();
    assert_eq!(seeds, (5..13).collect::<Vec<_>>());
    assert!(
        sent.iter()
            .all(|body| constraint_text(body).is_some_and(|schema| schema.contains("else")))
    );
    assert_eq!(
        sent.iter()
            .filter(|body| demanded_text(body).is_some())
            .count(),
        6
    );
}

#[test]
fn schema_that_crashes_the_server_is_named_and_unenforcing_server_is_rejected() {
    let mortal = crashing_server("uniqueItems");
    // One request at a time, so that the schema that crashed the server is known.
    let flags = ["--keyword required,uniqueItems,not --samples 2 --max-concurrency 1"];
    let (ran, file) =
        surveyed(&[&["--base-url", &mortal.base_url(), "--model m"], &flags[..]].concat());
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let found: Vec<(String, String)> = verdicts(&file).remove(0);
    let pairs: Vec<(&str, &str)> = found
        .iter()
        .map(|(id, verdict)| (id.as_str(), verdict.as_str()))
        .collect();
    assert!(
        pairs.contains(&("uniqueItems", "crashed")) && pairs.contains(&("not", "not_asked")),
        "{pairs:?}"
    );
    let notices = file["servers"][0]["notices"].to_string();
    assert_eq!(
        notices.matches("last request: uniqueItems").count(),
        1,
        "{notices}"
    );

    let ignoring = answering(|_| Reply::Prose);
    let ran = probe(&["--base-url", &ignoring.base_url]);
    let error = "no dialect enforces a JSON Schema on this server";
    ran.assert_exits(3, &[error, "ignored in structured-outputs"]);
}
