//! A broken JSON Schema is the same error wherever it is given: exit code 2, with its file.

use crate::support::{Folder, sobench};

#[test]
fn a_broken_schema_is_a_usage_error_with_its_file_and_line() {
    let folder = Folder::new();
    let good = r#"{"prompt":"Hi","json_schema":{"type":"integer"}}"#;
    let bad = r#"{"id":"b","prompt":"Hi","json_schema":{"type":5}}"#;
    let rows = folder.file("rows.jsonl", format!("{good}\n{bad}\n"));
    let schema = folder.file("schema.json", r#"{"type":5}"#);
    let answers = folder.file(
        "answers.jsonl",
        r#"{"id":1,"text":"1","json_schema":{"type":5}}"#,
    );
    for (arguments, place, hint) in [
        (
            ["--dataset custom --dataset-path", &rows],
            format!("{rows}, line 2"),
            "fix the schema of this row",
        ),
        (
            ["--dataset json --json-schema-path", &schema],
            schema.clone(),
            "one valid JSON Schema",
        ),
        (
            ["score", &answers],
            format!("{answers}, line 1"),
            "give a run log",
        ),
    ] {
        let ran = sobench(&arguments);
        let error = "broken JSON Schema: schema at /type: 5 is not valid under any of the schemas";
        ran.assert_exits(2, &[&format!("error: {place}: {error}"), "\nhint: ", hint]);
    }
}
