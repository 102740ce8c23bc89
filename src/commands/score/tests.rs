//! Files of every layout.

use std::io::Read as _;

use serde_json::json;

use super::*;
use sobench_core::error::Result;
use sobench_data::dataset::{
    DatasetArgs, DatasetName, DatasetPlan, RegexPlan, Source, XgrammarBenchPlan,
};
use sobench_plan::dataset::PromptForm;
use sobench_results::metrics::registry::rates;

fn dataset(name: DatasetName) -> DatasetPlan {
    let source = Source::new(name, &DatasetArgs::default()).unwrap();
    DatasetPlan {
        prompt_form: PromptForm::Messages,
        ..DatasetPlan::with_defaults(source, 1, 1)
    }
}

fn scored(text: &str, dataset: Option<&DatasetPlan>) -> Result<Score> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers");
    std::fs::write(&path, text).unwrap();
    let input = Input {
        dataset,
        evaluate: JudgeSettings::default(),
        with_lines: false,
        file_in_lines: false,
    };
    let score = input.score(&path, &mut SpooledTempFile::new(0))?;
    Ok(Score {
        file: "answers".to_owned(),
        ..score
    })
}

fn page(score: Score) -> String {
    text::render(&report::document(&[score]))
}

/// Kind, answers, hits of how many, reasons.
type Counts<'a> = (
    FileKind,
    usize,
    Option<(usize, usize)>,
    Vec<(&'a str, usize)>,
);

fn counts(score: &Score) -> Counts<'_> {
    let reasons = score
        .findings
        .reasons
        .iter()
        .map(|group| (group.name, group.count))
        .collect();
    (
        score.kind,
        score.answers,
        score.correct_rate.map(|rate| (rate.hits, rate.of)),
        reasons,
    )
}

/// The layout of the script: its formula ignores the schema, and the standard deviation of one
/// request is `NaN`.
#[test]
fn answers_of_the_script_are_judged_by_the_whole_schema() {
    let output = |generated: &str, correctness: bool| json!({"generated": generated, "expected": null, "correctness": correctness});
    let good = r#"{"name": "a", "email": "b"}"#;
    let file = json!({
        "outputs": [output(good, true), output("{\"name\": 1}", true), output("{}", true), output("Sure! {\"name\": \"a\", \"email\": \"b\"}", true), output("", false)],
        "backend": "vllm",
        "correct_rate(%)": 80.0,
        "tpot_description": {"std": "STD"},
        "errors": ["", "", "", "", "Bad Request"],
    });
    let text = file.to_string().replace("\"STD\"", "NaN");
    let score = scored(&text, Some(&dataset(DatasetName::Json))).unwrap();
    assert_eq!(
        counts(&score),
        (
            FileKind::Outputs,
            5,
            Some((1, 5)),
            vec![("schema", 2), ("extra_text", 1)]
        )
    );
    assert_eq!(
        score.claims,
        [Claim {
            name: "correct_rate(%)".into(),
            percent: 80.0
        }]
    );
    assert_eq!(
        score.values.number(&rates::VLLM_CORRECT_RATE),
        Some(80.0),
        "the script's formula is met"
    );
    let agreement = score.agreement.as_ref().unwrap();
    assert_eq!(
        (
            agreement.compared,
            agreement.only_file.count,
            agreement.only_ours.count
        ),
        (5, 3, 0)
    );
    assert_eq!(agreement.only_file.examples[0].case_id, "outputs[1]");
    assert_eq!(
        (
            score.values.count(&rates::FAILED_RATE),
            score.assumptions.len()
        ),
        (1, 3)
    );
    let page = page(score);
    assert!(
        page.contains("file: correct_rate(%)")
            && page.contains("Differences from the file's verdicts"),
        "{page}"
    );
}

#[test]
fn constrained_requests_are_chosen_as_the_script_does() {
    let outputs: Vec<_> = (0..10).map(|_| json!({"generated": "Positive"})).collect();
    let half = DatasetPlan {
        constrained_ratio: 0.5,
        ..dataset(DatasetName::Choice)
    };
    let score = scored(&json!({"outputs": outputs}).to_string(), Some(&half)).unwrap();
    assert_eq!(
        (score.constrained, score.control, score.agreement),
        (5, 5, None)
    );
}

#[test]
fn texts_of_bench_serve_are_judged_by_the_given_constraint() {
    let line = |texts: [&str; 2]| {
        json!({"generated_texts": texts, "errors": ["", ""], "completed": 2}).to_string()
    };
    let own = || {
        Source::Regex(RegexPlan {
            regex: Some("a+".into()),
            ..RegexPlan::default()
        })
    };
    let regex = || DatasetPlan {
        source: own(),
        ..dataset(DatasetName::Regex)
    };
    let one = scored(&line(["aa", "ab"]), Some(&regex())).unwrap();
    assert_eq!(
        counts(&one),
        (
            FileKind::GeneratedTexts,
            2,
            Some((1, 2)),
            vec![("regex", 1)]
        )
    );
    let appended = scored(
        &format!("{}\n{}\n", line(["aa", "ab"]), line(["a", "a"])),
        Some(&regex()),
    )
    .unwrap();
    assert_eq!(
        counts(&appended),
        (
            FileKind::GeneratedTexts,
            4,
            Some((3, 4)),
            vec![("regex", 1)]
        )
    );
}

#[test]
fn rows_are_judged_by_their_own_constraints() {
    let rows = [
        json!({"constraint": {"json": {"type": "integer"}}, "text": "1", "correct": true}),
        json!({"constraint": {"json_schema": {"type": "integer"}}, "text": "1.5", "correct": true}),
        json!({"regex": "a", "text": "a", "correct": false}),
        json!({"choice": ["x"], "text": "y", "name": "mine"}),
        json!({"grammar": "root ::= \"a\"", "text": "b"}),
        json!({"json_schema": true, "text": "{"}),
        json!({"structural_tag": {}, "text": "?"}),
    ];
    let text: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let score = scored(&text.join("\n"), None).unwrap();
    let reasons = vec![
        ("choice", 1),
        ("grammar", 1),
        ("not_json", 1),
        ("schema", 1),
    ];
    assert_eq!(counts(&score), (FileKind::Rows, 7, Some((2, 6)), reasons));
    let agreement = score.agreement.unwrap();
    assert_eq!(
        (
            agreement.compared,
            agreement.only_file.count,
            agreement.only_ours.count
        ),
        (3, 1, 1)
    );
    assert_eq!(
        score.findings.not_scored[0].count, 1,
        "an answer without a judge is in no rate"
    );
    let single = scored(&text[0], None).unwrap();
    assert_eq!(
        (single.kind, single.answers, single.notices.len()),
        (FileKind::Rows, 1, 0)
    );
    let named = scored(&text[0], Some(&dataset(DatasetName::Json))).unwrap();
    assert_eq!((named.kind, named.notices.len()), (FileKind::Rows, 1));
    assert_eq!(
        named.notices[0].to_string(),
        "--dataset json has no effect: the file contains the constraints, and answers are judged by them"
    );
}

#[test]
fn tool_calls_are_judged_by_the_tools_of_their_row() {
    let parameters = json!({"type": "object", "properties": {"city": {"enum": ["Oslo", "Paris"]}}});
    let tools =
        json!([{"type": "function", "function": {"name": "weather", "parameters": parameters}}]);
    let call = |id: &str, arguments: &str| json!({"id": id, "function": {"name": "weather", "arguments": arguments}});
    let expected = r#"{"ground_truth": [{"weather": {"city": ["Oslo"]}}]}"#;
    let (oslo, paris) = (r#"{"city": "Oslo"}"#, r#"{"city": "Paris"}"#);
    let rows = [
        json!({"tools": tools, "tool_calls": [call("a", oslo)], "completion": expected}),
        json!({"tools": tools, "tool_calls": [call("a", paris)], "completion": expected, "finish_reason": "tool_calls"}),
        json!({"tools": tools, "tool_calls": [call("a", r#"{"city": "Rome"}"#)]}),
        json!({"tools": tools, "tool_calls": [call("", oslo)]}),
        json!({"tools": tools, "text": "It rains.", "completion": expected}),
        json!({"tools": tools, "tool_choice": "required", "tool_calls": null}),
        json!({"tools": tools, "regex": "a", "tool_calls": []}),
        json!({"tools": tools, "tool_choice": {"type": "function", "function": {"name": "f"}}}),
        json!({"tools": tools, "tool_calls": [{"id": 1, "function": {}}]}),
    ];
    let text: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, text.join("\n")).unwrap();
    let input = Input {
        dataset: None,
        evaluate: JudgeSettings::default(),
        with_lines: true,
        file_in_lines: false,
    };
    let mut lines = SpooledTempFile::new(0);
    let score = input.score(&path, &mut lines).unwrap();
    let mut text = String::new();
    lines.rewind().unwrap();
    lines.read_to_string(&mut text).unwrap();
    let verdict = |line: &str| {
        let line: Map<String, Value> = serde_json::from_str(line).unwrap();
        let reason = line["reason"].as_str().map(str::to_owned);
        (reason, line.get("right_call").cloned())
    };
    let verdicts: Vec<_> = text.lines().map(verdict).collect();
    let reason = |name: &str| Some(name.to_owned());
    assert_eq!(
        verdicts,
        [
            (None, Some(json!(true))),
            (None, Some(json!(false))),
            (reason("invalid_arguments"), None),
            (reason("missing_call_id"), None),
            (None, Some(json!(false))),
            (reason("missing_call"), None),
            (reason("unreadable"), None),
            (reason("unreadable"), None),
            (reason("unreadable"), None),
        ]
    );
    let messages: Vec<&str> = score.unreadable.iter().map(|row| &*row.message).collect();
    assert_eq!(
        messages,
        [
            "two constraints: `tools` and `regex`",
            "tool_choice names an unknown tool: \"f\"",
            "`tool_calls[0]` is not a call with an id, a name and arguments",
        ]
    );
    assert_eq!(score.constraints, [("tools".to_owned(), 6)]);
}

#[test]
fn answers_are_compared_with_their_references() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let rows = [
        json!({"json": schema, "text": "{\"a\": 1}", "reference": {"a": 1.0}}),
        json!({"json": schema, "text": "a is 1", "reference": {"a": 1}}),
        json!({"json": schema, "text": "{\"a\": 2}", "reference": "{\"a\": 1}", "score": "leaf"}),
        json!({"choice": ["A", "B"], "text": "B", "reference": "A"}),
        json!({"regex": ".*", "text": "so 42.", "reference": 42, "score": "number"}),
        json!({"json": schema, "text": "{}"}),
        json!({"json": schema, "text": "{}", "reference": {"a": "x"}}),
        json!({"json": schema, "text": "{}", "score": "exact"}),
        json!({"regex": "a", "text": "a", "reference": "a"}),
        json!({"regex": "a", "text": "a", "reference": "a", "score": "bleu"}),
    ];
    let text: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let score = scored(&text.join("\n"), None).unwrap();
    let counts: Vec<(&str, usize, usize, usize)> = score
        .accuracy
        .iter()
        .map(|row| {
            let (accuracy, unparsed) = (row.accuracy.unwrap(), row.unparsed.unwrap());
            (row.scorer.name(), accuracy.hits, unparsed.hits, accuracy.of)
        })
        .collect();
    assert_eq!(
        counts,
        [
            ("exact", 1, 1, 2),
            ("leaf", 0, 0, 1),
            ("choice", 0, 0, 1),
            ("number", 1, 0, 1)
        ]
    );
    let leaves = score.accuracy[1].leaves.unwrap();
    assert_eq!((leaves.right, leaves.wrong, leaves.expected()), (0, 1, 1));
    let messages: Vec<&str> = score.unreadable.iter().map(|row| &*row.message).collect();
    assert!(
        messages[0].starts_with("`reference` breaks the schema of its row: "),
        "{messages:?}"
    );
    assert_eq!(
        messages[1..],
        [
            "`score` needs a `reference`",
            "`reference` needs a `score`: one of exact, leaf, choice, number, calls, sql",
            "unknown `score`: bleu; use one of exact, leaf, choice, number, calls, sql",
        ]
    );
    let page = page(score);
    assert!(
        page.contains("accuracy (exact)") && page.contains("invented"),
        "{page}"
    );
}

#[test]
fn rows_of_a_dataset_are_found_by_their_reference_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let row = |completion: &str, kind: &str| {
        let prompt = json!([{"role": "user", "content": "?"}]);
        json!({"prompt": prompt, "schema": json!({"type": kind}).to_string(), "completion": completion}).to_string()
    };
    std::fs::write(
        &path,
        [
            row("1", "integer"),
            row("\"a\"", "string"),
            row("true", "boolean"),
        ]
        .join("\n"),
    )
    .unwrap();
    let own = XgrammarBenchPlan {
        dataset_path: path.to_str().map(str::to_owned),
        ..XgrammarBenchPlan::default()
    };
    let bench = DatasetPlan {
        source: Source::XgrammarBench(own),
        ..dataset(DatasetName::XgrammarBench)
    };
    let output = |generated: &str, expected: &str| json!({"generated": generated, "expected": expected, "correctness": true});
    // The tool left the second row out, and counted on; and the last is of another dataset.
    let file = json!({"outputs": [output("5", "1"), output("false", "true"), output("7", "1"), output("8", "8")]});
    let score = scored(&file.to_string(), Some(&bench)).unwrap();
    assert_eq!(counts(&score), (FileKind::Outputs, 4, Some((3, 3)), vec![]));
    assert_eq!(score.findings.not_scored[0].count, 1);
    assert_eq!(
        score.findings.not_scored[0].examples[0].message,
        "the reference answer is not in the dataset"
    );
}

#[test]
fn unusable_files_are_refused() {
    let outputs = json!({"outputs": [{"generated": "x"}]}).to_string();
    for (text, dataset, words) in [
        (outputs.as_str(), None, "no constraints in this file"),
        (
            &outputs,
            Some(DatasetName::JsonUnique),
            "the schemas of json-unique are random",
        ),
        (
            r#"{"outputs": [{"generated": 1}]}"#,
            Some(DatasetName::Json),
            "`outputs[0].generated` is not a string",
        ),
        (
            r#"{"outputs": {}}"#,
            Some(DatasetName::Json),
            "`outputs` is not an array",
        ),
        (
            r#"{"completed": 3, "request_throughput": 1.0}"#,
            None,
            "a result without answers",
        ),
        (r#"{"hello": 3}"#, None, "no answers in this file"),
        ("", None, "empty file"),
        ("hello", None, "line 1: not a JSON object"),
        (
            "{\"text\":\"a\",\"regx\":\"a\"}",
            None,
            "line 1: no constraint: none of json, ",
        ),
        (
            "{\"text\":\"a\",\"regex\":\"a\",\"constraint\":{\"regex\":\"a\"}}",
            None,
            "two constraints: `constraint` and `regex`",
        ),
        (
            "{\"text\":\"a\",\"json\":true,\"json_schema\":true}",
            None,
            "a row has at most one constraint, not both json and json_schema",
        ),
        (
            "{\"text\":\"a\",\"json_schema\":{\"type\":5}}",
            None,
            "line 1: broken JSON Schema: schema at /type: 5 is not valid",
        ),
        (
            "{\"text\":\"a\",\"regex\":\"a\",\"correct\":1}",
            None,
            "`correct` is not true or false",
        ),
        (
            "{\"regex\":\"a\"}\n{\"text\":1}",
            None,
            "line 1: member `text` is missing",
        ),
        (
            "{\"regex\":\"a\",\"text\":1}\n{}",
            None,
            "line 1: `text` is not a string",
        ),
    ] {
        let error = scored(text, dataset.map(self::dataset).as_ref()).unwrap_err();
        assert!(
            error.what.contains(words) && error.exit_code() == 2 && error.hint.is_some(),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_bad_row_does_not_stop_the_others() {
    let rows = [
        r#"{"regex": "a", "text": null}"#,
        r#"{"regex": "a", "text": "a"}"#,
        r#"{"text": "a"}"#,
        r#"{"regex": "a", "text": "b", "correct": true}"#,
        r#"{"regex": "a", "#,
        "[]",
    ];
    let score = scored(&rows.join("\n"), None).unwrap();
    assert_eq!(
        counts(&score),
        (FileKind::Rows, 2, Some((1, 2)), vec![("regex", 1)])
    );
    let bad: Vec<(&str, &str)> = score
        .unreadable
        .iter()
        .map(|row| (row.id.as_str(), row.message.as_str()))
        .collect();
    assert_eq!(
        bad.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        ["line 1", "line 3", "line 5", "line 6"]
    );
    assert_eq!(bad[0].1, "`text` is not a string");
    assert!(bad[1].1.starts_with("no constraint"), "{bad:?}");
    assert_eq!(score.agreement.as_ref().unwrap().compared, 1);
    let lines = unreadable_rows(std::slice::from_ref(&score));
    assert_eq!(
        lines[0],
        "error: 4 of 6 rows cannot be judged; the first is answers, line 1: `text` is not a string"
    );
    assert_eq!(
        page(score)
            .lines()
            .skip_while(|line| *line != "Unreadable rows")
            .count(),
        14
    );

    let outputs = json!({"outputs": [{"generated": null}, {"generated": "{}"}]}).to_string();
    let score = scored(&outputs, Some(&dataset(DatasetName::Json))).unwrap();
    assert_eq!((score.answers, score.unreadable.len()), (1, 1));
    assert_eq!(score.unreadable[0].id, "outputs[0]");
}

#[test]
fn an_answer_of_another_row_is_recognised() {
    let member = |uuid: &str| format!("__optional_field_{uuid}-31b5-413e-8d17-87ad24882bb7");
    let row = |own: &str, used: &str| {
        json!({"json": {"properties": {member(own): {}}}, "text": json!({member(used): 1}).to_string()})
            .to_string()
    };
    let rows = [row("340ac475", "340ac475"), row("ab890aed", "340ac475")];
    let score = scored(&rows.join("\n"), None).unwrap();
    assert_eq!(
        counts(&score),
        (FileKind::Rows, 2, Some((1, 2)), vec![("other_request", 1)])
    );
}

/// Rows that are read in batches by several threads, in the fast way and as JSON, have the result of
/// rows in memory: counts, examples, intervals of repeated answers, notices and rows with errors.
#[test]
fn batches_have_the_result_of_rows_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let row = |number: usize| {
        let schema = json!({"type": "object", "properties": {"a": {"maximum": number % 5}}});
        let filler = "x".repeat(700);
        let text = match number % 11 {
            0 => "not JSON".to_owned(),
            1 => format!("Sure: {{\"a\": {}}}", number % 7),
            2 => r#"{"a": 1, "a": 2}"#.to_owned(),
            _ => format!("{{\"a\": {}, \"b\": {}}}", number % 7, number % 400),
        };
        let row = json!({"constraint": {"json": schema}, "text": text, "filler": filler});
        match number % 13 {
            0 => "{\"broken\": ".to_owned(),
            1 => row.to_string().replacen('{', "{\"x\": 1, \"x\": 2, ", 1),
            2 => row
                .to_string()
                .replacen('{', "{\"correct\": true, \"id\": \"é\", ", 1),
            3 => json!({"regex": "[a-c]+", "text": "abcd", "finish_reason": "length"}).to_string(),
            _ => row.to_string(),
        }
    };
    // The first line has to be a row.
    let rows: Vec<String> = (4..5000).map(row).collect();
    let text = rows.join("\n");
    assert!(text.len() as u64 > 2 << 20, "more than one thread");
    std::fs::write(&path, &text).unwrap();
    let input = |with_lines| Input {
        dataset: None,
        evaluate: JudgeSettings::default(),
        with_lines,
        file_in_lines: false,
    };
    let in_memory = read::answers_in_memory(&path, "rows", None).unwrap();
    let mut expected_lines = SpooledTempFile::new(0);
    let expected = input(true).judge(in_memory, "rows", &mut expected_lines);
    let mut expected = expected.unwrap().unwrap();
    let mut repeated = sobench_core::input::json::DuplicateKeys::default();
    for (index, line) in rows.iter().enumerate() {
        repeated.scan(line, |_| format!("rows, line {}", index + 1));
    }
    expected.notices = DatasetNotice::repeated_members(repeated)
        .into_iter()
        .collect();
    assert!(!expected.notices.is_empty() && expected.agreement.is_some());
    for with_lines in [false, true] {
        let mut lines = SpooledTempFile::new(0);
        let found = input(with_lines).score_file(&path, "rows", &mut lines);
        assert_eq!(found.unwrap(), expected, "with lines: {with_lines}");
        let mut texts = [String::new(), String::new()];
        for (lines, text) in [&mut expected_lines, &mut lines]
            .into_iter()
            .zip(&mut texts)
        {
            lines.rewind().unwrap();
            lines.read_to_string(text).unwrap();
        }
        assert_eq!(
            texts[1],
            if with_lines {
                texts[0].clone()
            } else {
                String::new()
            }
        );
    }
}

/// 300 answers of two texts: to 300 prompts they are 300 observations, to one prompt two.
#[test]
fn equal_answers_to_different_requests_are_no_copies() {
    let effective = |member: fn(usize) -> Value| {
        let row = |number: usize| {
            let text = ["yes", "no"][number % 2];
            let mut row = json!({"choice": ["yes", "no"], "text": text});
            if let (Some(row), Value::Object(members)) = (row.as_object_mut(), member(number)) {
                row.extend(members);
            }
            row.to_string()
        };
        let rows: Vec<String> = (0..300).map(row).collect();
        let rate = scored(&rows.join("\n"), None).unwrap().correct_rate;
        let rate = rate.unwrap();
        assert_eq!((rate.hits, rate.of), (300, 300));
        rate.effective
    };
    let id = |number| json!({"id": number, "name": "even"});
    assert_eq!(
        effective(|number| json!({"prompt": format!("{number}?")})),
        None
    );
    assert_eq!(
        effective(|number| json!({"messages": [{"content": number}]})),
        None
    );
    assert_eq!(effective(id), None);
    assert_eq!(
        effective(|number| json!({"id": number, "prompt": "?"})),
        Some(2.0)
    );
    assert_eq!(effective(|_| json!({})), Some(2.0));
}

#[test]
fn results_behind_rows_are_refused() {
    let text = "{\"regex\": \"a\", \"text\": \"a\"}\n{\"generated_texts\": [\"a\"]}";
    let error = scored(text, None).unwrap_err();
    assert!(
        error.what.starts_with("results and rows in one file"),
        "{error}"
    );
}
