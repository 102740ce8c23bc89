//! `sobench preflight --features` finds by itself what engines are known to accept and break, to
//! refuse, and to hold.

use serde_json::{Value, json};
use sobench_testkit::constrained::{
    Reply, allowed, answering, dying_of, posts, text_of_constraint,
};
use sobench_testkit::in_package;

use crate::support::{Ran, sobench};

/// Verdicts by feature, a map a server.
type Verdicts = Vec<Vec<(String, String)>>;

fn probe(arguments: &[&str]) -> Ran {
    sobench(&[&["preflight", "--features", "--disable-tqdm"], arguments].concat())
}

fn surveyed(arguments: &[&str]) -> (Ran, Value) {
    let ran = probe(&[arguments, &["--format", "json"]].concat());
    assert!(!ran.stdout.is_empty(), "{}", ran.stderr);
    let file: Value = serde_json::from_str(&ran.stdout).unwrap();
    let contract = std::fs::read_to_string(in_package(
        "schemas/contracts/preflight-features.schema.json",
    ))
    .unwrap();
    let contract: Value = serde_json::from_str(&contract).unwrap();
    assert!(jsonschema::is_valid(&contract, &file), "{file}");
    (ran, file)
}

fn verdicts(file: &Value) -> Verdicts {
    let word = |found: &Value, name: &str| found[name].as_str().unwrap().to_owned();
    let of_server = |server: &Value| {
        let found = server["found"].as_array().unwrap().iter();
        found
            .map(|found| (word(found, "id"), word(found, "verdict")))
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
fn what_engines_are_known_for_is_found() {
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
        "--samples",
        "8",
        "--output-len",
        "64",
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
            let [complete, invalid, asked] =
                ["complete", "invalid", "asked"].map(|name| found[name].as_u64().unwrap());
            match found["verdict"].as_str().unwrap() {
                "enforced" => assert!(complete > 0 && invalid == 0 && asked == 8, "{found}"),
                "under_enforced" => assert!(
                    invalid > 0 && found["offending"]["reason"].is_string(),
                    "{found}"
                ),
                _ => assert!(asked == 1 && found["words"] != "", "{found}"),
            }
        }
    }
}

/// The text that a prompt asks for, if it asks for one.
fn asked_for(body: &Value) -> Option<String> {
    let (_, rest) = body["prompt"].as_str()?.split_once("<<<")?;
    rest.rsplit_once(">>>").map(|(text, _)| text.to_owned())
}

#[test]
fn a_server_is_held_to_what_it_answers() {
    // It enforces the plain schema that is asked about first, refuses one keyword, fails at
    // another, cuts the answers to a third, writes valid answers to a fourth, and else whatever it
    // is told to.
    let server = answering(|body| {
        let schema = text_of_constraint(body).unwrap_or_default();
        match asked_for(body) {
            _ if schema.contains("multipleOf") => Reply::Status(
                "400 Bad Request",
                r#"{"error":{"message":"no multipleOf here"}}"#,
            ),
            _ if schema.contains("uniqueItems") => {
                Reply::Status("500 Internal Server Error", "it broke")
            }
            _ if schema.contains("maxLength") => Reply::Cut("{\"v\": \"abc".to_owned()),
            _ if schema.contains("green") => Reply::Say(r#"{"v": "red"}"#.to_owned()),
            Some(text) => Reply::Say(text),
            None => allowed(body).map_or(Reply::Prose, Reply::Say),
        }
    });
    let keywords = "required,multipleOf,uniqueItems,maxLength,enum,maximum";
    let arguments = [
        "--base-url",
        &server.base_url,
        "--keyword",
        keywords,
        "--samples",
        "4",
    ];
    let (ran, file) = surveyed(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let found = file["servers"][0]["found"].as_array().unwrap();
    let of = |id: &str| {
        found
            .iter()
            .find(|found| found["id"] == id)
            .unwrap_or_else(|| panic!("{id} was not asked"))
    };
    for (id, verdict, words) in [
        ("required", "under_enforced", ""),
        ("multipleOf", "rejected", "no multipleOf here"),
        ("uniqueItems", "crashed", "it broke"),
        ("maxLength", "undecided", "4 of 4 cut at the token limit"),
        ("enum", "enforced", ""),
    ] {
        let found = of(id);
        assert!(
            found["verdict"] == verdict && found["words"].as_str().unwrap().contains(words),
            "{found}"
        );
    }
    assert_eq!(
        (
            of("multipleOf")["asked"].as_u64(),
            of("multipleOf")["status"].as_u64()
        ),
        (Some(1), Some(400))
    );
    let offending = &of("maximum")["offending"];
    assert_eq!(
        (&offending["text"], &offending["sample"], &offending["cut"]),
        (&json!(r#"{"v": 101}"#), &json!(0), &json!(false))
    );
    assert!(
        offending["reason"]
            .as_str()
            .unwrap()
            .contains("breaks `maximum` at /v"),
        "{offending}"
    );

    let ran = probe(&arguments);
    for words in [
        "keyword",
        "verdict",
        "evidence",
        "required ",
        "rejected at compile",
        "0/1",
        "400 no multipleOf here",
        "{\"v\": 101}",
    ] {
        assert!(
            ran.stdout.contains(words),
            "{words:?} is not in\n{}",
            ran.stdout
        );
    }
}

#[test]
fn samples_differ_and_carry_the_constraint() {
    let server = answering(|body| allowed(body).map_or(Reply::Prose, Reply::Say));
    surveyed(&[
        "--base-url",
        &server.base_url,
        "--keyword",
        "if-then-else",
        "--samples",
        "8",
        "--seed",
        "5",
    ]);
    let asked: Vec<Value> = posts(&server)
        .into_iter()
        .filter(|body| body["temperature"] == 1.0)
        .collect();
    let mut seeds: Vec<u64> = asked
        .iter()
        .map(|body| body["seed"].as_u64().unwrap())
        .collect();
    seeds.sort_unstable();
    assert_eq!(seeds, (5..13).collect::<Vec<_>>());
    assert!(
        asked
            .iter()
            .all(|body| text_of_constraint(body).is_some_and(|schema| schema.contains("else")))
    );
    assert_eq!(
        asked
            .iter()
            .filter(|body| asked_for(body).is_some())
            .count(),
        6
    );
}

#[test]
fn a_server_that_dies_of_a_schema_is_known_by_it_and_one_that_enforces_nothing_is_not_surveyed() {
    let mortal = dying_of("uniqueItems");
    // One after the other, so that it is known what comes after its death.
    let asked = [
        "--keyword",
        "required,uniqueItems,not",
        "--samples",
        "2",
        "--max-concurrency",
        "1",
    ];
    let (ran, file) = surveyed(
        &[
            &["--base-url", &mortal.base_url(), "--model", "m"],
            &asked[..],
        ]
        .concat(),
    );
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
    assert!(
        notices.contains("the last that it was asked: uniqueItems"),
        "{notices}"
    );

    let ignoring = answering(|_| Reply::Prose);
    let ran = probe(&["--base-url", &ignoring.base_url]);
    assert!(
        ran.code == 3
            && ran
                .stderr
                .contains("no dialect enforces a JSON Schema here"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("ignored in structured-outputs"),
        "{}",
        ran.stderr
    );
}
