//! The JSON-Schema-Test-Suite: a file is a list of groups, each a schema with tests. Knows no other
//! layout.
//!
//! The folder names the draft, and the suite's schemas are to be read by it. So that engines and
//! our evaluator know it too, a schema that is an object without `$schema` is given that of its
//! draft; a boolean schema stays as it is. Remote references stay unresolved: whoever needs one
//! declines or does not judge. Drafts that our evaluator does not read (3, and `v1`, which is not
//! published) are left out with a notice. The tags are the file's name, which is the keyword under
//! test, the draft, and `optional`.

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

/// Folders and files of the suite that hold no tests to be measured.
const LEFT_OUT: [&str; 7] = [
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
    // The folder `latest` is a link, and a single draft's folder has the draft in its own path.
    let whole = path.canonicalize().map_err(|error| {
        Error::usage(format!("cannot read {}: {error}", path.display()))
            .hint("give a folder or file of the suite")
    })?;
    let mut left_out = 0;
    for (name, path) in files(&whole, &[".json"])? {
        let within: Vec<&str> = name.split('/').collect();
        if within.iter().any(|part| LEFT_OUT.contains(part)) {
            left_out += 1;
            continue;
        }
        let groups = read_document(&path)
            .map_err(|error| error.what)
            .and_then(|text| {
                sink.repeated
                    .look(&text, |line| format!("{name}, line {line}"));
                json::from_text::<Vec<Group>>(&text)
                    .map_err(|error| format!("{name} is no file of tests: {error}"))
            });
        match groups {
            Ok(groups) => groups
                .into_iter()
                .enumerate()
                .for_each(|(number, group)| sink.entry(entry(&path, number, group))),
            Err(words) => sink.unreadable(&words),
        }
    }
    if left_out > 0 {
        let names = LEFT_OUT.map(str::to_owned).to_vec();
        sink.notice(CorpusNotice::FilesLeftOut {
            corpus: path.display().to_string(),
            names,
            files: left_out,
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
            (parts[place..].join("/"), declare(group.schema, declared))
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

/// Puts the draft's `$schema` in front where there is none.
fn declare(schema: Value, declared: &str) -> Value {
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
