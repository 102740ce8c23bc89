//! Reads the JSON-Schema-Test-Suite: groups of tests by draft and file.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// A supported draft of JSON Schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft201909,
    Draft202012,
}

impl Draft {
    pub(crate) const ALL: [Self; 5] = [
        Self::Draft4,
        Self::Draft6,
        Self::Draft7,
        Self::Draft201909,
        Self::Draft202012,
    ];

    /// Name in the suite.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Draft4 => "draft4",
            Self::Draft6 => "draft6",
            Self::Draft7 => "draft7",
            Self::Draft201909 => "draft2019-09",
            Self::Draft202012 => "draft2020-12",
        }
    }

    /// Value of `$schema`.
    pub(crate) fn uri(self) -> &'static str {
        match self {
            Self::Draft4 => "http://json-schema.org/draft-04/schema#",
            Self::Draft6 => "http://json-schema.org/draft-06/schema#",
            Self::Draft7 => "http://json-schema.org/draft-07/schema#",
            Self::Draft201909 => "https://json-schema.org/draft/2019-09/schema",
            Self::Draft202012 => "https://json-schema.org/draft/2020-12/schema",
        }
    }
}

/// A schema with valid and invalid documents.
pub(crate) struct Group {
    pub(crate) draft: Draft,
    /// Path in the draft's folder, without `.json`.
    pub(crate) file: String,
    pub(crate) description: String,
    schema: Value,
    pub(crate) tests: Vec<Test>,
}

pub(crate) struct Test {
    pub(crate) description: String,
    pub(crate) data: Value,
    pub(crate) valid: bool,
}

impl Group {
    fn new(draft: Draft, file: &str, group: &Value) -> Self {
        let text = |value: &Value| {
            value["description"]
                .as_str()
                .expect("groups and tests are described")
                .to_owned()
        };
        let tests = group["tests"].as_array().expect("a group has tests").iter();
        let tests = tests.map(|test| Test {
            description: text(test),
            data: test["data"].clone(),
            valid: test["valid"]
                .as_bool()
                .expect("a test states whether its document is valid"),
        });
        Self {
            draft,
            file: file.to_owned(),
            description: text(group),
            schema: group["schema"].clone(),
            tests: tests.collect(),
        }
    }

    /// The schema with `$schema`, which the suite expresses by the folder.
    pub(crate) fn schema(&self) -> Value {
        match &self.schema {
            Value::Object(members) if !members.contains_key("$schema") => {
                let mut named =
                    Map::from_iter([("$schema".to_owned(), Value::from(self.draft.uri()))]);
                named.extend(members.clone());
                Value::Object(named)
            }
            schema => schema.clone(),
        }
    }

    /// The required tests treat `format` as an annotation, the optional tests of formats assert it.
    pub(crate) fn asserts_formats(&self) -> bool {
        self.part() == "format"
    }

    /// `required`, `optional` or `format`.
    pub(crate) fn part(&self) -> &'static str {
        match &self.file {
            file if file.starts_with("optional/format") => "format",
            file if file.starts_with("optional/") => "optional",
            _ => "required",
        }
    }
}

/// All groups of `draft` in the suite at `folder`.
pub(crate) fn whole_suite(folder: &Path, draft: Draft) -> Vec<Group> {
    let root = folder.join("tests").join(draft.folder());
    let mut paths = Vec::new();
    json_files(&root, &mut paths);
    paths.sort();
    let mut groups = Vec::new();
    for path in paths {
        let name = path
            .strip_prefix(&root)
            .unwrap()
            .with_extension("")
            .to_str()
            .unwrap()
            .replace('\\', "/");
        let file: Vec<Value> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        groups.extend(file.iter().map(|group| Group::new(draft, &name, group)));
    }
    groups
}

fn json_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{error}: {}", folder.display()))
    {
        let path = entry.unwrap().path();
        if path.is_dir() {
            json_files(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            found.push(path);
        }
    }
}

/// The shipped groups of `draft`: JSON Lines of `{"file": .., "group": ..}`, each group as in the
/// suite.
pub(crate) fn shipped(folder: &Path, draft: Draft) -> Vec<Group> {
    let text = fs::read_to_string(folder.join(format!("{}.jsonl", draft.folder())))
        .expect("part of the suite ships");
    let group = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        Group::new(draft, row["file"].as_str().unwrap(), &row["group"])
    };
    text.lines().map(group).collect()
}
