//! Tests of `custom`: the loader and the published contract accept the same rows.

use std::collections::HashSet;

use super::*;
use crate::dataset::file::read_lines;
use crate::dataset::tests::{plan, rows as rows_of, tokenizer};
use crate::dataset::{DatasetName, Source, load};
use sobench_core::case::Arm;
use sobench_core::constraint::{GrammarSpelling, sha256_hex};
use sobench_notices::notice::sentences;
use sobench_plan::dataset::PromptForm;

const CONTRACT: &str = include_str!("../../../../../schemas/contracts/dataset-row.schema.json");

/// Valid rows.
const GOOD: &[&str] = &[
    r#"{"prompt":"Hi"}"#,
    r#"{"prompt":" "}"#,
    r#"{"messages":[{"role":"user","content":"Hi"}]}"#,
    r#"{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#,
    r#"{"messages":[{"role":"user","content":""}],"json":{"type":"object"}}"#,
    r#"{"prompt":"Hi","json":false}"#,
    r#"{"id":"a","prompt":"Hi","json_schema":{"type":"object"}}"#,
    r#"{"id":7,"prompt":"Hi","json_schema":true}"#,
    r#"{"prompt":"Hi","json":{"multipleOf":0.10,"maximum":1e400}}"#,
    r#"{"prompt":"Hi","json_object":true}"#,
    r#"{"prompt":"Hi","regex":""}"#,
    r#"{"prompt":"Hi","choice":["a"]}"#,
    r#"{"prompt":"Hi","choice":["a","a",""]}"#,
    r#"{"prompt":"Hi","grammar":"root ::= \"a\""}"#,
    r#"{"prompt":"Hi","grammar":{"dialect":"lark","text":"start: \"a\""}}"#,
    r#"{"prompt":"Hi","structural_tag":{"format":{}}}"#,
    r#"{"prompt":"Hi","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}],"tool_choice":"required","parallel_tool_calls":false,"completion":"{\"ground_truth\":[]}"}"#,
    r#"{"prompt":"Hi","tools":[{"type":"function","name":"f"},{"type":"custom","name":"g","format":{"type":"text"}}],"tool_choice":{"type":"custom","name":"g"}}"#,
    r#"{"messages":[{"role":"user","content":"Hi","name":"me"},{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"5"}]}"#,
    r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[]}]}"#,
    r#"{"prompt":"Hi","output_len":1,"completion":"","tags":[]}"#,
    r#"{"prompt":"Hi","output_len":64.0}"#,
    r#"{"prompt":"Hi","output_tokens":7}"#,
    r#"{"prompt":"Hi","output_len":4294967295,"tags":["a","b"]}"#,
    r#"{"name":"a","prompt":"Hi","json":{},"instances":[]}"#,
    r#"{"prompt":"Hi","json":{},"instances":[{"data":null,"valid":false},{"text":"","description":"blank"}]}"#,
    r#"{"prompt":"Hi","grammar":"start: \"a\"","grammar_oracle":"start = { \"a\" }"}"#,
    r#"{"prompt":"Hi","question":"Hi?","json":{},"reference":{"a":null}}"#,
    r#"{"prompt":"Hi","question":[{"role":"user","content":"Hi?"}],"choice":["a"],"reference":"a"}"#,
    r#"{"prompt":"Hi","regex":"a","reference":7,"score":"number"}"#,
    r#"{"prompt":"Hi","reference":"7","score":"number"}"#,
    r#"{"prompt":"Hi","json_object":true,"completion":"{}","score":"leaf"}"#,
    r#"{"prompt":"Hi","tools":[{"type":"function","name":"f"}],"reference":{"ground_truth":[]}}"#,
];

/// Invalid rows, with a part of the error.
const BAD: &[(&str, &str)] = &[
    (
        r#"{"prompt":"Hi","json":{},"reference":1,"completion":"1"}"#,
        "completion or reference, not both",
    ),
    (
        r#"{"prompt":"Hi","json":{},"reference":1,"score":"bleu"}"#,
        "score must be one of exact, leaf, choice, number, calls",
    ),
    (
        r#"{"prompt":"Hi","json":{},"score":"exact"}"#,
        "score needs a reference or a completion",
    ),
    (
        r#"{"prompt":"Hi","regex":"a","reference":"a"}"#,
        "reference needs a score",
    ),
    (
        r#"{"prompt":"Hi","reference":"a"}"#,
        "reference needs a score",
    ),
    (r#"{"prompt":"Hi","question":""}"#, "question is empty"),
    (r#"{"prompt":"Hi","question":1}"#, "question must be"),
    (
        r#"{"prompt":"Hi","question":[{"role":""}]}"#,
        "question[0]: role",
    ),
    ("[]", "object"),
    ("\"Hi\"", "object"),
    ("{}", "neither prompt nor messages"),
    (r#"{"json":{}}"#, "neither prompt nor messages"),
    (
        r#"{"prompt":"Hi","messages":[{"role":"user","content":"Hi"}]}"#,
        "not both",
    ),
    (r#"{"prompt":1}"#, "prompt must be a string"),
    (r#"{"prompt":null}"#, "prompt must be a string"),
    (r#"{"prompt":""}"#, "prompt is empty"),
    (
        r#"{"prompt":"Hi","output_len":7,"output_tokens":7}"#,
        "not both",
    ),
    (
        r#"{"prompt":"Hi","output_tokens":0}"#,
        "output_tokens must be an integer",
    ),
    (r#"{"prompt":"Hi","schema":{}}"#, "unknown field: schema"),
    (
        r#"{"prompt":"Hi","max_tokens":5}"#,
        "unknown field: max_tokens",
    ),
    (r#"{"messages":[]}"#, "at least one message"),
    (r#"{"messages":"Hi"}"#, "at least one message"),
    (
        r#"{"messages":["Hi"]}"#,
        "messages[0]: a message must be an object",
    ),
    (
        r#"{"messages":[{"role":"user","content":"Hi"},{"role":"","content":"Hi"}]}"#,
        "messages[1]: role",
    ),
    (
        r#"{"messages":[{"content":"Hi"}]}"#,
        "role must be a string",
    ),
    (r#"{"messages":[{"role":"user"}]}"#, "content must be"),
    (
        r#"{"messages":[{"role":"user","content":null}]}"#,
        "content must be",
    ),
    (
        r#"{"messages":[{"role":"user","content":[]}]}"#,
        "content must be",
    ),
    (
        r#"{"messages":[{"role":"user","content":["Hi"]}]}"#,
        "content must be",
    ),
    (
        r#"{"prompt":"Hi","json":"{}"}"#,
        "not a string that contains it",
    ),
    (r#"{"prompt":"Hi","json":null}"#, "object or a boolean"),
    (
        r#"{"prompt":"Hi","json_object":false}"#,
        "json_object must be true",
    ),
    (r#"{"prompt":"Hi","regex":1}"#, "regex must be a string"),
    (r#"{"prompt":"Hi","choice":[]}"#, "at least one string"),
    (r#"{"prompt":"Hi","choice":["a",1]}"#, "list of strings"),
    (r#"{"prompt":"Hi","choice":"a"}"#, "list of strings"),
    (r#"{"prompt":"Hi","grammar":" \n"}"#, "grammar is blank"),
    (r#"{"prompt":"Hi","grammar":1}"#, "grammar must be"),
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
        "text: \"start\"",
    ),
    (
        r#"{"prompt":"Hi","grammar":{"dialect":"lark","text":""}}"#,
        "grammar is blank",
    ),
    (
        r#"{"prompt":"Hi","tools":[]}"#,
        "tools must be a list of at least one tool",
    ),
    (
        r#"{"prompt":"Hi","tools":[{"type":"function","function":{}}]}"#,
        "tools[0]: no name",
    ),
    (
        r#"{"prompt":"Hi","tools":[{"type":"function","function":{"name":"a b"}}]}"#,
        "tools[0]: not a name",
    ),
    (
        r#"{"prompt":"Hi","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"array"}}}]}"#,
        "of type object",
    ),
    (
        r#"{"prompt":"Hi","tools":[{"type":"function","name":"f"}],"tool_choice":"any"}"#,
        "unknown tool_choice: \"any\"",
    ),
    (
        r#"{"prompt":"Hi","tool_choice":"auto"}"#,
        "tool_choice needs tools",
    ),
    (
        r#"{"prompt":"Hi","json":{},"tools":[{"type":"function","name":"f"}]}"#,
        "both json and tools",
    ),
    (
        r#"{"messages":[{"role":"tool","content":"5"}]}"#,
        "messages[0]: a message of the role tool needs a tool_call_id",
    ),
    (
        r#"{"messages":[{"role":"assistant","tool_calls":[{"id":"a"}]}]}"#,
        "messages[0]: tool_calls[0] must be",
    ),
    (
        r#"{"prompt":"Hi","structural_tag":"{}"}"#,
        "structural_tag must be an object",
    ),
    (
        r#"{"prompt":"Hi","json":{},"regex":"a"}"#,
        "both json and regex",
    ),
    (
        r#"{"prompt":"Hi","json":{},"json_schema":{}}"#,
        "both json and json_schema",
    ),
    (
        r#"{"prompt":"Hi","json_schema":"{}"}"#,
        "json_schema must be the schema itself",
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
        "completion must be a string",
    ),
    (r#"{"prompt":"Hi","tags":"a"}"#, "tags must be"),
    (r#"{"prompt":"Hi","name":""}"#, "name is empty"),
    (r#"{"prompt":"Hi","name":1}"#, "name must be a string"),
    (
        r#"{"prompt":"Hi","grammar_oracle":"start = { \"a\" }"}"#,
        "needs a grammar",
    ),
    (
        r#"{"prompt":"Hi","grammar":"start: \"a\"","grammar_oracle":" "}"#,
        "grammar_oracle is blank",
    ),
    (
        r#"{"prompt":"Hi","grammar":"start: \"a\"","grammar_oracle":1}"#,
        "grammar_oracle must be a string",
    ),
    (
        r#"{"prompt":"Hi","instances":{}}"#,
        "instances must be a list",
    ),
    (
        r#"{"prompt":"Hi","instances":[1]}"#,
        "instances[0]: an instance must be an object",
    ),
    (r#"{"prompt":"Hi","instances":[{}]}"#, "data or text"),
    (
        r#"{"prompt":"Hi","instances":[{"data":1,"text":"1"}]}"#,
        "data or text",
    ),
    (
        r#"{"prompt":"Hi","instances":[{"text":1}]}"#,
        "text must be a string",
    ),
    (
        r#"{"prompt":"Hi","instances":[{"text":"a","valid":"yes"}]}"#,
        "valid must be true or false",
    ),
    (
        r#"{"prompt":"Hi","instances":[{"text":"a"},{"text":"b","ok":true}]}"#,
        "instances[1]: unknown field: ok",
    ),
    (r#"{"prompt":"Hi","tags":[1]}"#, "tags must be"),
];

#[test]
fn loader_and_contract_accept_the_same_rows() {
    let contract: Value = serde_json::from_str(CONTRACT).unwrap();
    assert!(jsonschema::meta::is_valid(&contract));
    let contract = jsonschema::validator_for(&contract).unwrap();
    for line in GOOD {
        assert!(
            contract.is_valid(&serde_json::from_str(line).unwrap()),
            "the contract refuses {line}"
        );
        let mut known = SharedConstraints::default();
        let mut read =
            || row(line, "line 1", &mut known).map_err(|error| format!("{error}: {line}"));
        assert_eq!(read().unwrap(), read().unwrap());
    }
    // Rows with constraints that are known have the same errors.
    let mut known = SharedConstraints::default();
    for line in GOOD {
        row(line, "line 1", &mut known).unwrap();
    }
    for (line, message) in BAD {
        assert!(
            !contract.is_valid(&serde_json::from_str(line).unwrap()),
            "the contract accepts {line}"
        );
        let error = row(line, "line 1", &mut known).expect_err(line);
        assert!(
            error.contains(message),
            "{error:?} does not contain {message:?}"
        );
    }
}

fn with_path(path: &str) -> DatasetPlan {
    let options = CustomPlan {
        dataset_path: Some(path.to_owned()),
        ..CustomPlan::default()
    };
    DatasetPlan {
        source: Source::Custom(options),
        ..plan(DatasetName::Custom)
    }
}

#[test]
fn the_shipped_example_is_valid_and_loads() {
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
    assert_eq!(
        sentences(&dataset.notices),
        ["6 rows are repeated to make 8 prompts"]
    );
    let kinds: Vec<_> = dataset
        .cases
        .iter()
        .map(|case| {
            case.constraint
                .as_ref()
                .map_or("-", |constraint| constraint.kind())
        })
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

/// The first rows of the file are sent with every seed, and no other row is read.
#[test]
fn rows_that_are_not_sent_are_only_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let rows = ["a", "b", "c", "d", "e"].map(|prompt| format!(r#"{{"prompt":"{prompt}"}}"#));
    let broken = [
        r#"{"prompt":"x","json":{"type":5}}"#,
        "",
        r#"{"prompt":"#,
        &rows[0],
    ];
    std::fs::write(&path, [&rows.join("\n"), "\n", &broken.join("\n")].concat()).unwrap();
    let load = |num_prompts, prompt_form, seed| {
        let plan = DatasetPlan {
            num_prompts,
            prompt_form,
            seed,
            ..with_path(path.to_str().unwrap())
        };
        let kept = rows_of(&plan, &tokenizer())?;
        Ok::<_, Error>((load(&plan, &tokenizer())?, kept.rows.len()))
    };
    for seed in [0, 7] {
        let (three, kept) = load(3, PromptForm::Text, seed).unwrap();
        assert_eq!((three.rows, kept, &three.notices[..]), (8, 3, &[][..]));
        let sent = ["a", "b", "c"].map(|prompt| format!("{{\"text\":\"{prompt}\"}}\n-\n128\n"));
        assert_eq!(three.sha256, sha256_hex(sent.concat().as_bytes()));
        let ranking = PromptForm::Ranking { documents: 2 };
        let (ranked, kept) = load(2, ranking, seed).unwrap();
        assert_eq!((ranked.rows, ranked.cases.len(), kept), (8, 2, 5));
    }
    assert_eq!(load(5, PromptForm::Text, 0).unwrap().0.cases.len(), 5);
    let error = load(6, PromptForm::Text, 0).unwrap_err();
    assert!(error.what.ends_with("/rows.jsonl, line 6: broken JSON Schema: schema at /type: 5 is not valid under any of the schemas listed in the 'anyOf' keyword"), "{error}");
    // The last row shows whether the file is complete.
    std::fs::write(&path, [&rows.join("\n"), "\n{\"prompt\""].concat()).unwrap();
    let error = load(1, PromptForm::Text, 0).unwrap_err();
    assert!(
        error
            .what
            .ends_with("/rows.jsonl, line 6: not JSON: EOF while parsing an object at column 9"),
        "{error}"
    );
    std::fs::write(&path, b"{\"prompt\":\"a\"}\n\xff\n").unwrap();
    let error = load(1, PromptForm::Text, 0).unwrap_err();
    assert!(error.what.ends_with("line 2: not UTF-8"), "{error}");
}

#[test]
fn a_row_may_have_every_kind_of_constraint() {
    for kind in ConstraintKind::ALL {
        let is_listed = CONSTRAINTS.contains(&kind.name());
        assert_eq!(is_listed, kind.is_of_text(), "{kind}");
        assert!(is_field(kind.name()), "{kind}");
    }
}

/// Rows with the same constraint share it, so that it is checked, hashed and compiled once.
#[test]
fn equal_constraints_are_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let schema = r#""json":{"type":"object","properties":{"a":{},"b":{}}}"#;
    let other_order = r#""json":{"type":"object","properties":{"b":{},"a":{}}}"#;
    let tools = r#""tools":[{"type":"function","name":"f"}]"#;
    let named = format!(r#"{tools},"tool_choice":"required""#);
    let grammar = r#""grammar":"start: \"a\"""#;
    let kinds = [
        schema,
        other_order,
        tools,
        &named,
        grammar,
        r#""regex":"a""#,
        r#""choice":["a"]"#,
    ];
    let line = |index: usize| {
        format!(
            "{{\"prompt\":\"{index}\",{}}}\n",
            kinds[index % kinds.len()]
        )
    };
    std::fs::write(&path, (0..700).map(line).collect::<String>()).unwrap();
    let plan = DatasetPlan {
        num_prompts: 700,
        grammar_dialect: GrammarDialect::Ebnf,
        grammar_spelling: GrammarSpelling::Converted,
        ..with_path(path.to_str().unwrap())
    };
    let dataset = load(&plan, &tokenizer()).unwrap();
    let constraint = |index: usize| dataset.cases[index].constraint.as_ref().unwrap();
    let different: HashSet<_> = (0..700)
        .map(|index| Arc::as_ptr(constraint(index)))
        .collect();
    assert_eq!(different.len(), kinds.len());
    for index in 0..700 {
        let first = constraint(index % kinds.len());
        assert!(Arc::ptr_eq(first, constraint(index)));
    }
    let texts: HashSet<_> = (0..7)
        .map(|index| constraint(index).fingerprint())
        .collect();
    assert_eq!(texts.len(), kinds.len());
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
        "rows.jsonl, line 3: unknown field: top",
    );
    check_error(
        b"{\"prompt\":\"Hi\"}\n{\"id\":\"a\",\"prompt\":\"Hi\",\"json_schema\":{\"type\":5}}",
        "rows.jsonl, line 2: broken JSON Schema: schema at /type: 5 is not valid",
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
    assert_eq!(
        load(&plan(DatasetName::Custom), &tokenizer())
            .unwrap_err()
            .hint
            .unwrap(),
        "give --dataset-path a JSONL file with one row per line"
    );
}

#[test]
fn the_schema_file_applies_to_rows_without_a_constraint() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.jsonl");
    let lines = [
        r#"{"prompt":"a"}"#,
        r#"{"prompt":"b","regex":"b+"}"#,
        r#"{"prompt":"c","json":{"type":"array"}}"#,
    ];
    std::fs::write(&rows, lines.join("\n")).unwrap();
    let schema = folder.path().join("schema.json");
    std::fs::write(&schema, r#"{"type":"object"}"#).unwrap();
    let options = CustomPlan {
        dataset_path: rows.to_str().map(str::to_owned),
        json_schema_path: Some(schema.clone()),
        ..CustomPlan::default()
    };
    let plan = DatasetPlan {
        num_prompts: 3,
        source: Source::Custom(options),
        ..plan(DatasetName::Custom)
    };
    let json = |text: &str| Constraint::JsonSchema(Arc::new(serde_json::from_str(text).unwrap()));
    let dataset = load(&plan, &tokenizer()).unwrap();
    let constraints: Vec<_> = dataset
        .cases
        .iter()
        .map(|case| case.constraint.as_deref().cloned())
        .collect();
    assert_eq!(
        constraints,
        [
            Some(json(r#"{"type":"object"}"#)),
            Some(Constraint::Regex("b+".into())),
            Some(json(r#"{"type":"array"}"#)),
        ]
    );
    assert!(
        dataset
            .cases
            .iter()
            .all(|case| case.arm == Arm::Constrained)
    );

    std::fs::write(&schema, r#"{"type":5}"#).unwrap();
    let error = load(&plan, &tokenizer()).unwrap_err();
    assert!(
        error
            .what
            .ends_with("/schema.json: broken JSON Schema: schema at /type: 5 is not valid under any of the schemas listed in the 'anyOf' keyword"),
        "{error}"
    );
    std::fs::write(&schema, "[]").unwrap();
    let error = load(&plan, &tokenizer()).unwrap_err();
    assert!(
        error
            .what
            .ends_with("schema.json: a JSON Schema is an object or a boolean"),
        "{error}"
    );
}

#[test]
fn the_schema_file_is_a_flag_of_the_dataset() {
    assert!(DatasetName::Custom.reads("json_schema_path"));
    assert!(!DatasetName::Custom.reads("json_schema"));
    let without = serde_json::to_value(plan(DatasetName::Custom)).unwrap();
    assert!(without.get("json_schema_path").is_none());
}

#[test]
fn a_name_is_a_tag_and_the_first_valid_example_the_reference_answer() {
    let line = r#"{"name":"n","tags":["t"],"prompt":"Hi","grammar":"start: \"a\" | \"b\"",
        "grammar_oracle":"start = { \"a\" }","instances":[{"text":"c","valid":false},
        {"text":"b","valid":true},{"text":"a","valid":true}]}"#;
    let named = row(line, "line 1", &mut SharedConstraints::default()).unwrap();
    assert_eq!(named.tags, ["t", "name:n"]);
    assert_eq!(named.completion.as_deref(), Some("b"));
    assert_eq!(named.grammar_oracle.as_deref(), Some("start = { \"a\" }"));
    let line = r#"{"prompt":"Hi","completion":"x","instances":[{"data":[1.0],"valid":true}]}"#;
    assert_eq!(
        row(line, "", &mut SharedConstraints::default())
            .unwrap()
            .completion
            .as_deref(),
        Some("x")
    );
    let line = line.replace("\"completion\":\"x\",", "");
    assert_eq!(
        row(&line, "", &mut SharedConstraints::default())
            .unwrap()
            .completion
            .as_deref(),
        Some("[1.0]")
    );
}
