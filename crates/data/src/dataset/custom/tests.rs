//! Tests of rows: what the loader takes and refuses, and that the published contract agrees.

use super::*;
use crate::dataset::tests::{plan, tokenizer};
use crate::dataset::{DatasetName, Source, load};
use sobench_notices::notice::sentences;

const CONTRACT: &str = include_str!("../../../../../schemas/contracts/dataset-row.schema.json");

/// Rows that are taken.
const GOOD: &[&str] = &[
    r#"{"prompt":"Hi"}"#,
    r#"{"prompt":" "}"#,
    r#"{"messages":[{"role":"user","content":"Hi"}]}"#,
    r#"{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#,
    r#"{"messages":[{"role":"user","content":""}],"json":{"type":"object"}}"#,
    r#"{"prompt":"Hi","json":false}"#,
    r#"{"prompt":"Hi","json":{"multipleOf":0.10,"maximum":1e400}}"#,
    r#"{"prompt":"Hi","json_object":true}"#,
    r#"{"prompt":"Hi","regex":""}"#,
    r#"{"prompt":"Hi","choice":["a"]}"#,
    r#"{"prompt":"Hi","choice":["a","a",""]}"#,
    r#"{"prompt":"Hi","grammar":"root ::= \"a\""}"#,
    r#"{"prompt":"Hi","grammar":{"dialect":"lark","text":"start: \"a\""}}"#,
    r#"{"prompt":"Hi","structural_tag":{"format":{}}}"#,
    r#"{"prompt":"Hi","output_len":1,"completion":"","tags":[]}"#,
    r#"{"prompt":"Hi","output_len":64.0}"#,
    r#"{"prompt":"Hi","output_tokens":7}"#,
    r#"{"prompt":"Hi","output_len":4294967295,"tags":["a","b"]}"#,
];

/// Rows that are refused, with a word of the reason.
const BAD: &[(&str, &str)] = &[
    ("[]", "object"),
    ("\"Hi\"", "object"),
    ("{}", "neither prompt nor messages"),
    (r#"{"json":{}}"#, "neither prompt nor messages"),
    (
        r#"{"prompt":"Hi","messages":[{"role":"user","content":"Hi"}]}"#,
        "not both",
    ),
    (r#"{"prompt":1}"#, "prompt has to be a text"),
    (r#"{"prompt":null}"#, "prompt has to be a text"),
    (r#"{"prompt":""}"#, "prompt is empty"),
    (
        r#"{"prompt":"Hi","output_len":7,"output_tokens":7}"#,
        "not both",
    ),
    (
        r#"{"prompt":"Hi","output_tokens":0}"#,
        "output_tokens has to be an integer",
    ),
    (r#"{"prompt":"Hi","schema":{}}"#, "no such field: schema"),
    (
        r#"{"prompt":"Hi","max_tokens":5}"#,
        "no such field: max_tokens",
    ),
    (r#"{"messages":[]}"#, "at least one message"),
    (r#"{"messages":"Hi"}"#, "at least one message"),
    (
        r#"{"messages":["Hi"]}"#,
        "messages[0]: a message has to be an object",
    ),
    (
        r#"{"messages":[{"role":"user","content":"Hi"},{"role":"","content":"Hi"}]}"#,
        "messages[1]: role",
    ),
    (
        r#"{"messages":[{"content":"Hi"}]}"#,
        "role has to be a text",
    ),
    (r#"{"messages":[{"role":"user"}]}"#, "content has to be"),
    (
        r#"{"messages":[{"role":"user","content":null}]}"#,
        "content has to be",
    ),
    (
        r#"{"messages":[{"role":"user","content":[]}]}"#,
        "content has to be",
    ),
    (
        r#"{"messages":[{"role":"user","content":["Hi"]}]}"#,
        "content has to be",
    ),
    (
        r#"{"messages":[{"role":"user","content":"Hi","name":"a"}]}"#,
        "no \"name\"",
    ),
    (r#"{"prompt":"Hi","json":"{}"}"#, "not a text that holds it"),
    (r#"{"prompt":"Hi","json":null}"#, "object or a boolean"),
    (
        r#"{"prompt":"Hi","json_object":false}"#,
        "json_object has to be true",
    ),
    (r#"{"prompt":"Hi","regex":1}"#, "regex has to be a text"),
    (r#"{"prompt":"Hi","choice":[]}"#, "at least one text"),
    (r#"{"prompt":"Hi","choice":["a",1]}"#, "list of texts"),
    (r#"{"prompt":"Hi","choice":"a"}"#, "list of texts"),
    (r#"{"prompt":"Hi","grammar":" \n"}"#, "more than blanks"),
    (r#"{"prompt":"Hi","grammar":1}"#, "grammar has to be"),
    (
        r#"{"prompt":"Hi","grammar":{"dialect":"gbnf","text":"root ::= \"a\""}}"#,
        "grammar.dialect",
    ),
    (
        r#"{"prompt":"Hi","grammar":{"text":"root ::= \"a\""}}"#,
        "grammar.dialect",
    ),
    (
        r#"{"prompt":"Hi","grammar":{"dialect":"lark"}}"#,
        "grammar.text",
    ),
    (
        r#"{"prompt":"Hi","grammar":{"dialect":"lark","text":"start: \"a\"","start":"a"}}"#,
        "no \"start\"",
    ),
    (
        r#"{"prompt":"Hi","grammar":{"dialect":"lark","text":""}}"#,
        "more than blanks",
    ),
    (
        r#"{"prompt":"Hi","structural_tag":"{}"}"#,
        "structural_tag has to be an object",
    ),
    (
        r#"{"prompt":"Hi","json":{},"regex":"a"}"#,
        "both json and regex",
    ),
    (
        r#"{"prompt":"Hi","json_object":true,"choice":["a"]}"#,
        "both json_object and choice",
    ),
    (r#"{"prompt":"Hi","output_len":0}"#, "output_len"),
    (r#"{"prompt":"Hi","output_len":-1}"#, "output_len"),
    (r#"{"prompt":"Hi","output_len":1.5}"#, "output_len"),
    (r#"{"prompt":"Hi","output_len":"5"}"#, "output_len"),
    (r#"{"prompt":"Hi","output_len":4294967296}"#, "output_len"),
    (
        r#"{"prompt":"Hi","completion":1}"#,
        "completion has to be a text",
    ),
    (r#"{"prompt":"Hi","tags":"a"}"#, "tags has to be"),
    (r#"{"prompt":"Hi","tags":[1]}"#, "tags has to be"),
];

#[test]
fn the_loader_and_the_contract_take_and_refuse_the_same_rows() {
    let contract: Value = serde_json::from_str(CONTRACT).unwrap();
    assert!(jsonschema::meta::is_valid(&contract));
    let contract = jsonschema::validator_for(&contract).unwrap();
    for line in GOOD {
        assert!(
            contract.is_valid(&serde_json::from_str(line).unwrap()),
            "the contract refuses {line}"
        );
        row(line, "line 1").unwrap_or_else(|words| panic!("{words}: {line}"));
    }
    for (line, words) in BAD {
        assert!(
            !contract.is_valid(&serde_json::from_str(line).unwrap()),
            "the contract takes {line}"
        );
        let refusal = row(line, "line 1").expect_err(line);
        assert!(
            refusal.contains(words),
            "{refusal:?} does not say {words:?}"
        );
    }
}

fn with_path(path: &str) -> DatasetPlan {
    let own = CustomPlan {
        dataset_path: Some(path.to_owned()),
        ..CustomPlan::default()
    };
    DatasetPlan {
        source: Source::Custom(own),
        ..plan(DatasetName::Custom)
    }
}

#[test]
fn the_shipped_example_fits_the_contract_and_loads() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/datasets/custom.jsonl"
    );
    let contract = jsonschema::validator_for(&serde_json::from_str(CONTRACT).unwrap()).unwrap();
    for line in read_lines(Path::new(path)).unwrap() {
        let (number, line) = line.unwrap();
        assert!(
            contract.is_valid(&serde_json::from_str(&line).unwrap()),
            "line {number}"
        );
    }
    let plan = DatasetPlan {
        num_prompts: 8,
        ..with_path(path)
    };
    let dataset = load(&plan, &tokenizer()).unwrap();
    assert_eq!((dataset.rows, dataset.cases.len()), (6, 8));
    assert_eq!(sentences(&dataset.notices), ["6 rows cycled to 8 prompts"]);
    let kinds: Vec<_> = dataset
        .cases
        .iter()
        .map(|case| case.constraint.as_ref().map_or("-", |kept| kept.kind()))
        .collect();
    assert_eq!(
        kinds,
        [
            "json",
            "regex",
            "choice",
            "grammar",
            "json_object",
            "-",
            "json",
            "regex"
        ]
    );
    assert_eq!(
        (dataset.cases[0].output_len, dataset.cases[1].output_len),
        (64, 128)
    );
    assert_eq!(
        dataset.cases[0].completion.as_deref(),
        Some(r#"{"city": "Turin"}"#)
    );
    assert_eq!(dataset.cases[2].tags, ["sentiment", "short"]);
}

#[track_caller]
fn check_error(file: &[u8], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, file).unwrap();
    let plan = with_path(path.to_str().unwrap());
    let error = load(&plan, &tokenizer()).unwrap_err();
    assert!(error.what.contains(expected), "{error}");
}

#[test]
fn errors_name_file_and_line() {
    check_error(b"", "no rows in");
    check_error(b"\n \r\n", "no rows in");
    check_error(
        b"\xef\xbb\xbf{\"prompt\":\"Hi\"}\r\n\r\n{\"prompt\":\"Hi\",\"top\":1}\r\n",
        "rows.jsonl, line 3: no such field: top",
    );
    check_error(
        b"{\"prompt\":\"Hi\"}\n{\"prompt\":",
        "rows.jsonl, line 2: not JSON: EOF while parsing a value",
    );
    check_error(
        b"{\"prompt\":\"Hi\"} {\"prompt\":\"Hi\"}",
        "line 1: not JSON: trailing characters",
    );
    let deep = format!(
        "{{\"prompt\":\"Hi\",\"json\":{}{}}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    check_error(
        deep.as_bytes(),
        "line 1: not JSON: recursion limit exceeded",
    );
    assert!(
        load(&plan(DatasetName::Custom), &tokenizer())
            .unwrap_err()
            .hint
            .unwrap()
            .contains("--dataset-path")
    );
}
