//! The contracts in `schemas/contracts` are those of the types, and their keys stay.
//! `SOBENCH_UPDATE=1` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use sobench_testkit::contract::{self, with_member};
use sobench_testkit::repository_path;

use crate::support::{check_result, sobench};

/// Names the keys that users rely on, one on each line.
const KEYS: &str = "schemas/contracts/keys.txt";

fn is_update() -> bool {
    std::env::var_os("SOBENCH_UPDATE").is_some()
}

/// The contracts of the types of both programs.
fn of_types() -> Vec<(&'static str, Value)> {
    [sobench::contracts::all(), sobench_tools::contracts::all()].concat()
}

/// The contract files with their names.
fn stored() -> impl Iterator<Item = (String, Value)> {
    let folder = fs::read_dir(repository_path("schemas/contracts")).unwrap();
    folder.filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?.strip_suffix(".schema.json")?;
        let contract = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        Some((name.to_owned(), contract))
    })
}

/// The keys of a contract, such as `result: duration` at the top and `result: Rate.hits` in a type,
/// and the texts of enums, such as `result: Arm = control`. `[]` is an item of a list, and `*` any key
/// of a map.
fn keys(name: &str, contract: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(contract, &format!("{name}: "), &mut found);
    for (kind, schema) in contract["$defs"].as_object().into_iter().flatten() {
        walk(schema, &format!("{name}: {kind}."), &mut found);
    }
    found
}

fn walk(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let parent = path.trim_end_matches(['.', ' ']);
    for (keyword, value) in schema.as_object().into_iter().flatten() {
        match (keyword.as_str(), value) {
            ("const", Value::String(text)) => {
                found.insert(format!("{parent} = {text}"));
            }
            ("enum", Value::Array(values)) => {
                let texts = values.iter().filter_map(Value::as_str);
                found.extend(texts.map(|text| format!("{parent} = {text}")));
            }
            ("properties", Value::Object(properties)) => {
                for (key, value) in properties {
                    walk(value, &format!("{path}{key}."), found);
                    found.insert(format!("{path}{key}"));
                }
            }
            ("additionalProperties", value) => walk(value, &format!("{path}*."), found),
            ("patternProperties", Value::Object(patterns)) => {
                patterns
                    .values()
                    .for_each(|value| walk(value, &format!("{path}*."), found));
            }
            ("items", value) => walk(value, &format!("{parent}[]."), found),
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(parts)) => {
                parts.iter().for_each(|part| walk(part, path, found));
            }
            _ => {}
        }
    }
}

/// The removed keys, except for those of a renamed type, and those that a line of the changelog names
/// in backticks, with the word "removed" or "renamed".
fn unexplained<'a>(
    known: &'a BTreeSet<String>,
    current: &'a BTreeSet<String>,
    changelog: &str,
) -> Vec<&'a str> {
    let removals: Vec<&str> = changelog
        .lines()
        .filter(|line| {
            ["removed", "renamed"]
                .iter()
                .any(|word| line.to_lowercase().contains(word))
        })
        .collect();
    let is_named = |key: &&String| {
        let name = key
            .rsplit(['.', ' '])
            .next()
            .unwrap_or(key)
            .trim_end_matches("[]");
        removals
            .iter()
            .any(|line| line.contains(&format!("`{name}`")))
    };
    let (old_types, types) = (types(known), types(current));
    let is_of_a_renamed_type = |key: &&String| {
        let kind = type_of(key);
        !types.contains_key(kind)
            && types
                .values()
                .any(|keys| keys.is_superset(&old_types[kind]))
    };
    let removed = known.difference(current);
    removed
        .filter(|key| !is_named(key) && !is_of_a_renamed_type(key))
        .map(String::as_str)
        .collect()
}

/// The contract and the type of a key.
fn type_of(key: &str) -> &str {
    let start = key.find(": ").map_or(0, |at| at + 2);
    key[start..]
        .find(['.', ' '])
        .map_or(key, |end| &key[..start + end])
}

/// The keys of each type.
fn types(keys: &BTreeSet<String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut types = BTreeMap::<_, BTreeSet<_>>::new();
    for key in keys {
        let kind = type_of(key);
        types.entry(kind).or_default().insert(&key[kind.len()..]);
    }
    types
}

/// JSON with a line for each value that fits on one.
fn written(value: &Value, indent: usize) -> String {
    const WIDTH: usize = 150;
    let line = value.to_string();
    let (open, parts, close): (_, Vec<String>, _) = match value {
        _ if indent + line.len() <= WIDTH => return line,
        Value::Array(items) => {
            let items = items.iter().map(|item| written(item, indent + 1));
            ("[", items.collect(), "]")
        }
        Value::Object(members) => {
            let member = |(name, value)| format!("{}: {}", json!(name), written(value, indent + 1));
            ("{", members.iter().map(member).collect(), "}")
        }
        _ => return line,
    };
    let [outer, inner] = [indent, indent + 1].map(|indent| " ".repeat(indent));
    format!(
        "{open}\n{inner}{}\n{outer}{close}",
        parts.join(&format!(",\n{inner}"))
    )
}

#[test]
fn contracts_are_those_of_the_types() {
    for (name, mut contract) in of_types() {
        contract["title"] = name.into();
        let path = repository_path("schemas/contracts").join(format!("{name}.schema.json"));
        let text = written(&contract, 0) + "\n";
        if is_update() {
            fs::write(path, text).unwrap();
        } else {
            assert!(
                fs::read_to_string(path).unwrap_or_default() == text,
                "{name}.schema.json is not the schema of its type\n\
                 hint: SOBENCH_UPDATE=1 cargo test -p sobench-tools --test it contracts:: writes it"
            );
        }
    }
}

#[test]
fn keys_are_removed_only_with_a_line_in_the_changelog() {
    let read = |path: &str| fs::read_to_string(repository_path(path)).unwrap_or_default();
    let known = read(KEYS).lines().map(str::to_owned).collect();
    let current = stored()
        .flat_map(|(name, contract)| keys(&name, &contract))
        .collect();
    let lost = unexplained(&known, &current, &read("CHANGELOG.md"));
    assert!(
        lost.is_empty(),
        "keys are removed that files had: {lost:#?}\n\
         hint: keep them, or name them in a line of CHANGELOG.md that says `KEY` is removed or renamed"
    );
    if is_update() {
        let lines: Vec<_> = current.into_iter().collect();
        fs::write(repository_path(KEYS), lines.join("\n") + "\n").unwrap();
    } else {
        assert!(
            known == current,
            "{KEYS} does not list {:?}\n\
             hint: SOBENCH_UPDATE=1 cargo test -p sobench-tools --test it contracts:: writes it",
            known.symmetric_difference(&current).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_removed_key_is_found() {
    let schema = |text: &str| keys("f", &serde_json::from_str(text).unwrap());
    let known = schema(
        r##"{"properties": {"kept": {}, "list": {"items": {"properties": {"gone": {}}}}}, "$defs": {
            "Rate": {"properties": {"hits": {}, "of": {}}}, "Arm": {"enum": ["free", "control"]}}}"##,
    );
    let current = schema(
        r#"{"properties": {"kept": {}, "list": {}, "new": {}}, "$defs": {
            "Share": {"properties": {"hits": {}, "of": {}}}, "Arm": {"enum": ["free"]}}}"#,
    );
    let all = ["f: Arm = control", "f: list[].gone"];
    assert_eq!(unexplained(&known, &current, ""), all);
    assert_eq!(
        unexplained(&known, &current, "- `gone` and `control` are new"),
        all
    );
    assert_eq!(
        unexplained(&known, &current, "- Renamed: `control`"),
        all[1..]
    );
    assert_eq!(
        unexplained(&known, &current, "- `gone` is removed, `kept` too"),
        all[..1]
    );
    let without_hits = schema(r#"{"$defs": {"Share": {"properties": {"of": {}}}}}"#);
    assert!(unexplained(&known, &without_hits, "").contains(&"f: Rate.hits"));
}

/// The contract of an excerpt: every member may be missing.
fn of_excerpts(contract: Value) -> Value {
    match contract {
        Value::Object(members) => {
            let kept = members
                .into_iter()
                .filter(|(key, _)| !["required", "if", "not"].contains(&&**key));
            kept.map(|(key, value)| {
                let key = if key == "oneOf" {
                    "anyOf".to_owned()
                } else {
                    key
                };
                (key, of_excerpts(value))
            })
            .collect()
        }
        Value::Array(items) => items.into_iter().map(of_excerpts).collect(),
        other => other,
    }
}

#[test]
fn examples_follow_their_contracts() {
    let page = fs::read_to_string(repository_path("docs/formats.md")).unwrap();
    let contracts: Vec<(String, Value)> = stored().collect();
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let mut examples = 0;
    for (name, contract) in &contracts {
        let heading = format!("{name}\n");
        let section = sections
            .iter()
            .find(|section| section.starts_with(&heading));
        let section = section.unwrap_or_else(|| panic!("docs/formats.md has no section {name}"));
        let excerpt = of_excerpts(contract.clone()).to_string();
        for block in section.split("```json\n").skip(1) {
            let text = block.split("```").next().unwrap();
            for example in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
                contract::check(&excerpt, &example.unwrap())
                    .unwrap_or_else(|errors| panic!("docs/formats.md, {name}: {errors}"));
                examples += 1;
            }
        }
    }
    assert_eq!(
        sections.len(),
        contracts.len(),
        "a section without a contract"
    );
    assert!(examples > 0);
}

/// The result of a frozen run, with every request.
fn result(run: &Path) -> Value {
    let log = fs::read_to_string(run).unwrap();
    let copy = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        &copy,
        log.replacen("\"detailed\":false", "\"detailed\":true", 1),
    )
    .unwrap();
    let ran = sobench(&["report", copy.path().to_str().unwrap(), "--format", "json"]);
    assert_eq!(ran.code, 0, "{}: {}", run.display(), ran.stderr);
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn results_of_the_frozen_runs_follow_the_contract() {
    let counts = |counts: &Value| {
        let counts = counts.as_object().unwrap().values();
        counts.map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    let mut names = BTreeSet::new();
    for run in fs::read_dir(repository_path("fixtures/frozen/runs")).unwrap() {
        let run = run.unwrap().path();
        let file = result(&run);
        check_result(&file).unwrap_or_else(|errors| panic!("{}: {errors}", run.display()));
        let (own, requests) = (&file["sobench"], file["num_prompts"].as_u64());
        assert_eq!(
            Some(counts(&own["outcomes"])),
            requests,
            "{}",
            run.display()
        );
        for column in ["ttfts", "generated_texts", "outputs"] {
            assert_eq!(
                file[column].as_array().map(|cells| cells.len() as u64),
                requests
            );
        }
        let outcomes = own["outcomes"].as_object().unwrap().iter();
        names.extend(
            outcomes
                .filter(|(_, count)| **count != 0)
                .map(|(name, _)| name.clone()),
        );
    }
    assert!(names.len() > 5, "the frozen runs have only {names:?}");
}

#[test]
fn contract_refuses_changed_results() {
    let file = result(&repository_path("fixtures/frozen/runs/fast-1.jsonl"));
    for (pointer, value) in [
        ("/sobench/extra", json!(1)),
        ("/sobench/quality/extra", json!(1)),
        ("/sobench/outcomes/exploded", json!(1)),
        ("/sobench/format_version", json!("2")),
        ("/correct_rate(%)", json!(101)),
        ("/mean_ttft_ms", json!("fast")),
        ("/p99_tpot_ms", json!("fast")),
        ("/request_rate", json!("Infinity")),
        ("/completed", json!(-1)),
        ("/sobench/metrics/ttft_ms/n", json!(-1)),
        ("/gpu", json!(1)),
        ("/outputs/0/verdict", json!({"verdict": "perhaps"})),
    ] {
        let broken = with_member(&file, pointer, value);
        assert!(check_result(&broken).is_err(), "{pointer} passed");
    }
    for member in ["duration", "mean_e2el_ms", "sobench", "num_prompts"] {
        let mut broken = file.clone();
        broken.as_object_mut().unwrap().remove(member);
        assert!(check_result(&broken).is_err(), "without {member} it passed");
    }
}
