//! The JSON-Schema-Test-Suite: a file is a list of groups, each a schema with tests.
//!
//! The folder names the draft of the schemas. An object schema without `$schema` gets that of its
//! draft, so that engines and evaluator know it; boolean schemas are unchanged. Remote references
//! are not resolved: engines decline such a schema, and the evaluator does not judge it. Drafts
//! that the evaluator does not support (3, and the unpublished `v1`) are skipped with a notice. The
//! tags are the file's name (the keyword under test), the draft, and `optional`.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Entry, Instance, Sink, Test, files};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json;
use sobench_data::dataset::file::read_document;
use sobench_notices::notice::CorpusNotice;

/// Folders of drafts and their `$schema`.
const DRAFTS: [(&str, &str); 5] = [
    ("draft4", "http://json-schema.org/draft-04/schema#"),
    ("draft6", "http://json-schema.org/draft-06/schema#"),
    ("draft7", "http://json-schema.org/draft-07/schema#"),
    (
        "draft2019-09",
        "https://json-schema.org/draft/2019-09/schema",
    ),
    (
        "draft2020-12",
        "https://json-schema.org/draft/2020-12/schema",
    ),
];

/// Folders and files of the suite without tests to measure.
const SKIPPED: [&str; 7] = [
    "draft3",
    "v1",
    "latest",
    "remotes",
    "output-tests",
    "annotations",
    "test-schema.json",
];

#[derive(Deserialize)]
struct Group {
    schema: Value,
    tests: Vec<Test>,
}

pub(super) fn read(path: &Path, sink: &mut Sink) -> Result<()> {
    // The folder `latest` is a link, and the folder of a single draft has the draft in its own
    // path.
    let whole = path.canonicalize().map_err(|error| {
        Error::usage(format!("cannot read {}: {error}", path.display()))
            .hint("give a folder or file of the suite")
    })?;
    let mut skipped = 0;
    for (name, path) in files(&whole, &[".json"])? {
        let within: Vec<&str> = name.split('/').collect();
        if within.iter().any(|part| SKIPPED.contains(part)) {
            skipped += 1;
            continue;
        }
        let groups = read_document(&path)
            .map_err(|error| error.what)
            .and_then(|text| {
                sink.repeated
                    .scan(&text, |line| format!("{name}, line {line}"));
                json::from_text::<Vec<Group>>(&text)
                    .map_err(|error| format!("{name}: not a test file: {error}"))
            });
        match groups {
            Ok(groups) => groups
                .into_iter()
                .enumerate()
                .for_each(|(number, group)| sink.add(entry(&path, number, group))),
            Err(message) => sink.report_unreadable(&message),
        }
    }
    if skipped > 0 {
        let names = SKIPPED.map(str::to_owned).to_vec();
        sink.notice(CorpusNotice::FilesLeftOut {
            corpus: path.display().to_string(),
            names,
            files: skipped,
        });
    }
    Ok(())
}

fn entry(path: &Path, number: usize, group: Group) -> Entry {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let found = parts.iter().enumerate().rev().find_map(|(place, part)| {
        DRAFTS
            .iter()
            .find(|(folder, _)| folder == part)
            .map(|(folder, schema)| (place, *folder, *schema))
    });
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let is_format = parts.len() > 1 && parts[parts.len() - 2] == "format";
    let mut tags = vec![if is_format {
        format!("format:{stem}")
    } else {
        stem.to_owned()
    }];
    if parts.contains(&"optional") {
        tags.push("optional".to_owned());
    }
    let (name, schema) = match found {
        Some((place, draft, declared)) => {
            tags.push(draft.to_owned());
            (
                parts[place..].join("/"),
                with_draft_schema(group.schema, declared),
            )
        }
        None => (
            parts.last().copied().unwrap_or_default().to_owned(),
            group.schema,
        ),
    };
    let instances = group.tests.into_iter().map(Instance::from).collect();
    Entry {
        name: format!("{name}#{number}"),
        tags,
        constraint: Constraint::JsonSchema(schema.into()),
        instances,
    }
}

/// Adds the `$schema` of the draft if there is none.
fn with_draft_schema(schema: Value, declared: &str) -> Value {
    match schema {
        Value::Object(members) if !members.contains_key("$schema") => {
            let mut all = Map::new();
            all.insert("$schema".to_owned(), declared.into());
            all.extend(members);
            Value::Object(all)
        }
        other => other,
    }
}
