//! A broken JSON Schema is the same error wherever it is given: exit code 2, with its file.

use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::sobench;

#[test]
fn a_broken_schema_is_a_usage_error_with_its_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = r#"{"prompt":"Hi","json_schema":{"type":"integer"}}"#;
    let bad = r#"{"id":"b","prompt":"Hi","json_schema":{"type":5}}"#;
    let rows = file("rows.jsonl", &format!("{good}\n{bad}\n"));
    let schema = file("schema.json", r#"{"type":5}"#);
    let answers = file(
        "answers.jsonl",
        r#"{"id":1,"text":"1","json_schema":{"type":5}}"#,
    );
    let custom = ["--dataset", "custom", "--dataset-path", &rows];
    let by_flag = ["--dataset", "json", "--json-schema-path", &schema];
    let of_rows = format!("{rows}, line 2");
    let of_answers = format!("{answers}, line 1");
    for (arguments, place, hint) in [
        (&custom[..], &of_rows, "fix the schema of this row"),
        (&by_flag, &schema, "one valid JSON Schema"),
        (&["score", &answers], &of_answers, "give a run log"),
    ] {
        let ran = sobench(arguments);
        let expected = format!(
            "error: {place}: broken JSON Schema: schema at /type: 5 is not valid under any of the schemas"
        );
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
        let (error, advice) = ran.stderr.split_once("\nhint: ").unwrap();
        assert!(
            error.contains(&expected) && advice.contains(hint),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn rows_with_an_id_run_and_are_scored_by_the_same_members() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let row = r#"{"id":"a","prompt":"Hi","json_schema":{"enum":[7]},"text":"7"}"#;
    std::fs::write(&path, row.replace(r#","text":"7""#, "")).unwrap();
    let file = path.to_str().unwrap();
    let run = ["--num-prompts", "2", "--no-run-log"];
    let custom = ["--dataset", "custom", "--dataset-path", file];
    let ran = sobench(&[&custom[..], &run].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("2 of 2 valid"), "{}", ran.stdout);
    std::fs::write(&path, row).unwrap();
    let ran = sobench(&["score", file, "--format", "jsonl"]);
    assert!(ran.stdout.contains(r#""valid":true"#), "{}", ran.stdout);
}

#[test]
fn a_schema_without_a_value_is_at_fault_even_of_one_answer() {
    let server = ScriptedServer::answering(|request| match request.is_model_list() {
        true => models(),
        false => {
            let text = r#"{\"x\": }"#;
            let event = format!(
                r#"data: {{"choices":[{{"index":0,"text":"{text}","finish_reason":"stop"}}]}}"#
            );
            let events = format!("{event}\n\ndata: [DONE]\n\n");
            whole("200 OK", "text/event-stream", &events)
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let row = r#"{"prompt":"Hi","json_schema":{"type":"object","properties":{"x":{"enum":[]}},"required":["x"]}}"#;
    std::fs::write(&path, row).unwrap();
    let ran = sobench(&[
        "--base-url",
        &server.base_url,
        "--dataset",
        "custom",
        "--dataset-path",
        path.to_str().unwrap(),
        "--num-prompts",
        "1",
        "--skip-preflight",
    ]);
    let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "none of 1 constrained answers follows its constraint: no value satisfies the schema at \
                    /properties/x: the list of `enum` is empty; the schema is at fault, not the server";
    assert!(page.contains(expected), "{page}");
}
