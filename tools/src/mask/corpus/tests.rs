//! Tests of all corpus layouts, with valid and invalid files.

use std::fs;
use std::sync::Arc;

use ::parquet::data_type::{ByteArray, ByteArrayType};
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;

use super::*;

fn plan(source: &str) -> MaskPlan {
    MaskPlan {
        corpora: vec![CorpusSource::parse(source)],
        ..MaskPlan::default()
    }
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn read(source: &str) -> (Corpora, Vec<Entry>) {
    let corpora = load(&plan(source)).unwrap();
    let entries = corpora
        .selected
        .iter()
        .map(|selected| serde_json::from_str(&selected.json).unwrap())
        .collect();
    (corpora, entries)
}

fn names(corpora: &Corpora) -> Vec<&str> {
    corpora.selected.iter().map(|entry| &*entry.name).collect()
}

const FILE: &str = r##"{"description":"d","meta":{"full_size":1,"features":["$ref","enum"]},"schema":{"type":"number","multipleOf":0.10},
    "tests":[{"description":"a","valid":true,"data":
1.50},{"description":"b","valid":false,"data":"x","rust_error":"e"}]}"##;

#[test]
fn maskbench_files_are_read_in_name_order_and_unreadable_ones_counted() {
    let folder = folder(&[
        ("b.json", FILE),
        ("sub/a.json", r#"{"schema":true,"tests":[]}"#),
        ("broken.json", "{"),
        ("c.txt", "no"),
        ("list.json", "[]"),
    ]);
    let (corpora, entries) = read(folder.path().to_str().unwrap());
    assert_eq!(names(&corpora), ["b.json", "sub/a.json"]);
    let record = &corpora.record[0];
    assert_eq!(
        (
            record.kind,
            record.entries,
            record.instances,
            record.unreadable
        ),
        (CorpusKind::Maskbench, 2, 2, 2)
    );
    assert!(
        corpora
            .notices
            .iter()
            .any(|notice| notice.to_string().contains("broken.json")),
        "{:?}",
        corpora.notices
    );
    assert_eq!(entries[0].tags, ["$ref", "enum"]);
    assert_eq!(
        serde_json::to_string(&entries[0].constraint).unwrap(),
        r#"{"json":{"type":"number","multipleOf":0.10}}"#
    );
    assert_eq!(
        serde_json::to_string(&entries[0].instances[0]).unwrap(),
        r#"{"content":{"json":1.50},"label":true}"#
    );
    let (single, _) = read(folder.path().join("b.json").to_str().unwrap());
    assert_eq!(names(&single), ["b.json"]);
    assert!(
        corpora
            .selected
            .iter()
            .all(|entry| !entry.json.contains('\n')),
        "an entry is one line"
    );
    assert_ne!(single.record[0].sha256, record.sha256);
    assert_eq!(
        read(folder.path().to_str().unwrap()).0.record,
        corpora.record,
        "reading twice gives the same result"
    );
}

#[test]
fn test_suite_schemas_get_the_schema_keyword_of_their_draft() {
    let group = r#"[{"description":"g","schema":{"type":"integer"},"tests":[{"description":"t","data":1.0,"valid":true}]},
        {"description":"h","schema":false,"tests":[]}, {"description":"i","schema":{"$schema":"mine"},"tests":[]}]"#;
    let folder = folder(&[
        ("tests/draft7/type.json", group),
        ("tests/draft7/optional/format/date.json", group),
        ("tests/draft2020-12/ref.json", group),
        ("tests/draft3/type.json", group),
        ("remotes/other.json", "{}"),
        ("test-schema.json", "{}"),
    ]);
    let (corpora, entries) = read(folder.path().to_str().unwrap());
    assert_eq!(corpora.record[0].kind, CorpusKind::Jsts);
    let expected = [
        "draft2020-12/ref.json#0",
        "draft2020-12/ref.json#1",
        "draft2020-12/ref.json#2",
        "draft7/optional/format/date.json#0",
    ];
    assert_eq!(names(&corpora)[..4], expected);
    assert_eq!(entries.len(), 9);
    assert!(
        corpora.notices[0].to_string().ends_with("are skipped: 3"),
        "{:?}",
        corpora.notices
    );
    let schemas: Vec<String> = entries[..3]
        .iter()
        .map(|entry| serde_json::to_string(&entry.constraint).unwrap())
        .collect();
    let declared =
        r#"{"json":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"integer"}}"#;
    assert_eq!(
        schemas,
        [
            declared,
            r#"{"json":false}"#,
            r#"{"json":{"$schema":"mine"}}"#
        ]
    );
    assert_eq!(entries[3].tags, ["format:date", "optional", "draft7"]);
    // A folder of one draft, or a file in it, keeps the draft.
    for part in ["tests/draft7", "tests/draft7/type.json"] {
        let (corpora, entries) = read(folder.path().join(part).to_str().unwrap());
        let entry = entries.last().unwrap();
        assert_eq!(
            (&*entry.name, &entry.tags[..]),
            (
                "draft7/type.json#2",
                &["type".to_owned(), "draft7".to_owned()][..]
            )
        );
        assert_eq!(corpora.record[0].kind, CorpusKind::Jsts);
    }
}

fn parquet_file(path: &Path, rows: &[(&str, &str)]) {
    let schema =
        "message m { required binary json_schema (UTF8); required binary unique_id (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = fs::File::create(path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::builder().build()))
            .unwrap();
    let mut group = writer.next_row_group().unwrap();
    for pick in [
        |row: &(&str, &str)| row.0.to_owned(),
        |row: &(&str, &str)| row.1.to_owned(),
    ] {
        let values: Vec<ByteArray> = rows.iter().map(|row| pick(row).as_str().into()).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<ByteArrayType>()
            .write_batch(&values, None, None)
            .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
}

#[test]
fn parquet_rows_become_schemas_without_instances() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test-00000-of-00001.parquet");
    parquet_file(
        &path,
        &[
            (r#"{"enum":[1.0]}"#, "one"),
            ("{", "two"),
            ("true", "three"),
        ],
    );
    for source in [folder.path(), path.as_path()] {
        let (corpora, entries) = read(source.to_str().unwrap());
        assert_eq!(names(&corpora), ["one", "three"]);
        let record = &corpora.record[0];
        assert_eq!(
            (record.kind, record.instances, record.unreadable),
            (CorpusKind::JsonSchemaBench, 0, 1)
        );
        assert_eq!(
            corpora.notices[0].to_string(),
            "test-00000-of-00001.parquet#1: json_schema is not JSON: EOF while parsing an object at line 1 column 1"
        );
        assert_eq!(
            (&entries[0].tags[..], entries[0].instances.len()),
            (&["enum".to_owned()][..], 0)
        );
    }
}

#[test]
fn custom_lines_accept_every_constraint_kind() {
    let lines = [
        r#"{"name":"n","constraint":{"regex":"a+"},"tags":["t"],"instances":[{"text":"aa","valid":true},{"text":"b"}]}"#,
        r#"{"prompt":"p","json":{"minimum":1},"completion":"2","instances":[{"data":1e0,"valid":false},{"data":null}]}"#,
        r#"{"constraint":{"regex":"a"},"instances":[{"data":"a"}]}"#,
        r#"{"constraint":{"regex":"a"},"instances":[{"text":"a","vaild":true}]}"#,
        r#"{"instances":[]}"#,
        "[]",
        r#"{"constraint":{"kind":"json","schema":{}}}"#,
        r#"{"constraint":{}}"#,
        r#"{"constraint":{"regex":"a"},"regex":"b"}"#,
        r#"{"constraint":{"regex":"a"},"instance":[{"text":"a"}]}"#,
        r#"{"name":"n","constraint":{"regex":"b"}}"#,
    ];
    let folder = folder(&[("own.jsonl", &lines.join("\n"))]);
    let (corpora, entries) = read(folder.path().join("own.jsonl").to_str().unwrap());
    assert_eq!(names(&corpora), ["n", "own.jsonl#2", "n"]);
    assert_eq!(
        (corpora.record[0].kind, corpora.record[0].unreadable),
        (CorpusKind::Custom, 8)
    );
    for message in [
        "data is for json",
        "vaild",
        "no constraint: none of json, json_schema, json_object, regex, choice, grammar, structural_tag",
        "must be an object",
        "unknown field in constraint: kind; expected one of json,",
        "constraint is empty",
        "both constraint and regex are given",
        "unknown field: instance; a line has name, tags, constraint, instances",
        "n",
    ] {
        assert!(
            corpora
                .notices
                .iter()
                .any(|notice| notice.to_string().contains(message)),
            "{message}: {:?}",
            corpora.notices
        );
    }
    assert_eq!(
        (
            entries[0].constraint.kind(),
            corpora.selected[0].kind,
            &entries[0].tags[..]
        ),
        ("regex", "regex", &["t".to_owned()][..])
    );
    let labels: Vec<_> = entries
        .iter()
        .flat_map(|entry| entry.instances.iter().map(|instance| instance.label))
        .collect();
    assert_eq!(labels, [Some(true), None, Some(false), None, None]);
    assert!(matches!(&entries[1].instances[0].content, Content::Json(json) if json.get() == "1e0"));
}

#[test]
fn entries_too_deep_for_a_child_are_counted_as_unreadable() {
    let line = |depth: usize| {
        let schema = (0..depth).fold("true".to_owned(), |schema, _| {
            format!(r#"{{"not":{schema}}}"#)
        });
        format!(r#"{{"name":"d{depth}","json":{schema}}}"#)
    };
    let own = folder(&[("own.jsonl", &[line(100), line(125), line(10)].join("\n"))]);
    let (corpora, entries) = read(own.path().join("own.jsonl").to_str().unwrap());
    assert_eq!((names(&corpora), entries.len()), (vec!["d100", "d10"], 2));
    assert_eq!(
        (corpora.record[0].entries, corpora.record[0].unreadable),
        (2, 1)
    );
    assert!(
        corpora.notices[0]
            .to_string()
            .starts_with("d125: entry is nested too deeply"),
        "{:?}",
        corpora.notices
    );
    let long = "x".repeat(usize::try_from(protocol::MAX_LINE_BYTES).unwrap());
    assert!(
        protocol::check_entry(&long)
            .unwrap_err()
            .starts_with("entry is larger than")
    );
}

#[test]
fn filter_limit_and_sample_keep_entry_indexes() {
    let lines = (0..6).map(|number| {
        format!(
            r#"{{"name":"n{number}","tags":["t{}"],"regex":"a"}}"#,
            number % 2
        )
    });
    let folder = folder(&[("own.jsonl", &lines.collect::<Vec<_>>().join("\n"))]);
    let source = CorpusSource::parse(folder.path().join("own.jsonl").to_str().unwrap());
    for (filter, limit, expected) in [
        (None, Some(2), vec![0, 1]),
        (Some("^t1$"), None, vec![1, 3, 5]),
        (Some("n[45]|n0"), Some(2), vec![0, 4]),
        (None, None, vec![0, 1, 2, 3, 4, 5]),
    ] {
        let corpora = vec![source.clone()];
        let plan = MaskPlan {
            corpora,
            filter: filter.map(str::to_owned),
            limit,
            ..MaskPlan::default()
        };
        let corpora = load(&plan).unwrap();
        assert_eq!(
            corpora
                .selected
                .iter()
                .map(|entry| entry.index)
                .collect::<Vec<_>>(),
            expected
        );
        assert_eq!(
            corpora.record[0].entries, 6,
            "the filter does not change the corpus"
        );
    }
    let drawn = |entries, seed, filter: Option<&str>| {
        let (filter, sample) = (filter.map(str::to_owned), Some(Sample { entries, seed }));
        let plan = MaskPlan {
            corpora: vec![source.clone()],
            filter,
            sample,
            ..MaskPlan::default()
        };
        load(&plan)
            .unwrap()
            .selected
            .iter()
            .map(|entry| entry.index)
            .collect::<Vec<_>>()
    };
    // CPython 3: sorted(random.Random(1).sample(range(6), 3)).
    assert_eq!(drawn(3, 1, None), [0, 1, 4]);
    assert_eq!(drawn(3, 1, None), drawn(3, 1, None));
    assert_eq!(
        (drawn(9, 1, None).len(), drawn(9, 1, Some("^t1$"))),
        (6, vec![1, 3, 5]),
        "the sample is drawn after the filter"
    );
}

#[test]
fn corpora_are_concatenated_and_long_instances_skipped() {
    let long = format!(
        r#"{{"regex":"a","instances":[{{"text":"{}"}},{{"text":"a"}}]}}"#,
        "a".repeat(MAX_INSTANCE_BYTES + 1)
    );
    let folder = folder(&[("own.ndjson", &long)]);
    let own = CorpusSource::parse(folder.path().join("own.ndjson").to_str().unwrap());
    let corpora = load(&MaskPlan {
        corpora: vec![CorpusSource::parse("shipped"), own],
        ..MaskPlan::default()
    })
    .unwrap();
    let shipped = corpora.record[0].entries;
    assert!(shipped > 0);
    assert_eq!(
        corpora.selected.last().map(|entry| entry.index),
        Some(shipped)
    );
    assert_eq!(
        (corpora.record[1].instances, corpora.record[0].unreadable),
        (1, 0)
    );
    assert_eq!(
        corpora.notices[0].to_string(),
        "own.ndjson#1: instances over 1048576 bytes are skipped: 1"
    );
}

#[test]
fn notices_are_bounded_and_an_unreadable_corpus_is_an_error() {
    let bad: Vec<(String, &str)> = (0..30)
        .map(|number| (format!("{number}.json"), "{"))
        .collect();
    let mut files: Vec<(&str, &str)> = bad.iter().map(|(name, text)| (&**name, *text)).collect();
    let all_bad = folder(&files);
    let path = all_bad.path().to_str().unwrap();
    files.push(("good.json", FILE));
    let mostly_bad = folder(&files);
    let (corpora, _) = read(mostly_bad.path().to_str().unwrap());
    assert_eq!(
        (corpora.record[0].unreadable, corpora.notices.len()),
        (30, MAX_NOTICES + 1)
    );
    assert!(
        corpora.notices[MAX_NOTICES]
            .to_string()
            .ends_with("10 more notices of this kind")
    );
    let empty = tempfile::tempdir().unwrap();
    let (nothing, other) = (folder(&[("own.jsonl", "\n")]), tempfile::tempdir().unwrap());
    fs::copy(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../fixtures/datasets/json_mode_eval.parquet"
        ),
        other.path().join("b.parquet"),
    )
    .unwrap();
    for (source, message) in [
        (path.to_owned(), "unknown corpus layout"),
        (
            format!("maskbench:{path}"),
            "nothing to measure in the maskbench corpus",
        ),
        (
            format!("jsonschemabench:{path}"),
            "no file ending in .parquet",
        ),
        (empty.path().to_str().unwrap().to_owned(), "empty folder"),
        (
            nothing
                .path()
                .join("own.jsonl")
                .to_str()
                .unwrap()
                .to_owned(),
            "no entry in the file",
        ),
        (
            other.path().join("b.parquet").to_str().unwrap().to_owned(),
            "nothing to measure",
        ),
        (
            "no/such/corpus".to_owned(),
            "no such corpus: no/such/corpus",
        ),
        ("jsts:no/such/corpus".to_owned(), "cannot read"),
        ("custom:no/such/corpus".to_owned(), "nothing to measure"),
    ] {
        let error = load(&plan(&source)).map(|_| ()).unwrap_err();
        assert!(
            error.what.contains(message) && error.hint.is_some(),
            "{source}: {error}"
        );
        let column = error
            .hint
            .unwrap()
            .contains("b.parquet: no column json_schema; it has prompt, ");
        assert_eq!(column, source.ends_with("b.parquet"), "{source}");
    }
    for (filter, message) in [
        ("(", "not a regular expression: ("),
        ("nothing", "no entry matches"),
    ] {
        let error = load(&MaskPlan {
            filter: Some(filter.into()),
            ..plan("shipped")
        })
        .map(|_| ())
        .unwrap_err();
        assert!(error.what.contains(message), "{error}");
    }
}
