//! Checks that enums of the published contracts (`schemas/contracts`) and tables of the
//! documentation list all kinds of the registries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use sobench_backend::{ConstraintDialect, Product, ServerKind};
use sobench_core::constraint::GrammarDialect;
use sobench_engine::{Departure, EngineName};
use sobench_mask::prove::finding::Proof;
use sobench_mask::record::CorpusKind;
use sobench_preflight::limits::LadderKind;
use sobench_preflight::{Class, Kind};

/// Registries whose names are listed in contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registry {
    Backend,
    Product,
    Dialect,
    Engine,
    Departure,
    Proof,
    Corpus,
    /// Constraint kinds.
    Constraint,
    /// Grammar notations.
    Notation,
    /// Results of preflight for a constraint kind.
    Class,
    /// Ladders of `preflight --limits`.
    Ladder,
}

impl Registry {
    const ALL: [Self; 11] = [
        Self::Backend,
        Self::Product,
        Self::Dialect,
        Self::Engine,
        Self::Departure,
        Self::Proof,
        Self::Corpus,
        Self::Constraint,
        Self::Notation,
        Self::Class,
        Self::Ladder,
    ];

    /// The names as serialised in files.
    fn names(self) -> BTreeSet<String> {
        match self {
            Self::Backend => written(ServerKind::ALL),
            Self::Product => written(Product::all()),
            Self::Dialect => written(ConstraintDialect::ALL),
            Self::Engine => written(EngineName::ALL),
            Self::Departure => written(Departure::ALL),
            Self::Proof => written(Proof::ALL),
            Self::Corpus => written(CorpusKind::ALL),
            Self::Constraint => written(Kind::ALL),
            Self::Notation => written([GrammarDialect::Lark, GrammarDialect::Ebnf]),
            Self::Class => written(Class::ALL),
            Self::Ladder => written(LadderKind::ALL),
        }
    }
}

fn written<T: Serialize>(all: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    all.into_iter()
        .map(|one| {
            serde_json::to_value(one)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

/// Places where contracts list the names of a registry.
const LISTED: [(Registry, &str, &str); 36] = [
    (
        Registry::Product,
        "preflight-features",
        "/properties/servers/items/properties/server/properties/product",
    ),
    (
        Registry::Product,
        "preflight",
        "/properties/server/properties/product",
    ),
    (
        Registry::Product,
        "result",
        "/$defs/enforcement/properties/server/oneOf/1/properties/product",
    ),
    (
        Registry::Product,
        "run-log",
        "/$defs/enforcement/properties/server/oneOf/1/properties/product",
    ),
    (Registry::Engine, "mask-row", "/$defs/engine"),
    (Registry::Engine, "mask", "/$defs/engine"),
    (
        Registry::Engine,
        "proof",
        "/properties/engines/items/properties/engine",
    ),
    (
        Registry::Engine,
        "proof",
        "/properties/clusters/items/properties/engine",
    ),
    (
        Registry::Engine,
        "proof",
        "/properties/declared/items/properties/engine",
    ),
    (
        Registry::Engine,
        "proof",
        "/$defs/witness/properties/engine",
    ),
    (
        Registry::Engine,
        "proof",
        "/$defs/witness/properties/finding/properties/other",
    ),
    (Registry::Engine, "witness", "/properties/engine"),
    (
        Registry::Engine,
        "witness",
        "/properties/finding/properties/other",
    ),
    (
        Registry::Departure,
        "proof",
        "/$defs/witness/properties/finding/properties/cause",
    ),
    (
        Registry::Departure,
        "witness",
        "/properties/finding/properties/cause",
    ),
    (
        Registry::Proof,
        "proof",
        "/properties/engines/items/properties/wrong_schemas_by_proof/propertyNames",
    ),
    (
        Registry::Proof,
        "proof",
        "/properties/engines/items/properties/counts/propertyNames",
    ),
    (
        Registry::Proof,
        "proof",
        "/properties/engines/items/properties/errors_per_million_by_proof/propertyNames",
    ),
    (
        Registry::Proof,
        "proof",
        "/properties/clusters/items/properties/proof",
    ),
    (
        Registry::Proof,
        "proof",
        "/$defs/witness/properties/finding/properties/proof",
    ),
    (
        Registry::Proof,
        "witness",
        "/properties/finding/properties/proof",
    ),
    (
        Registry::Corpus,
        "mask",
        "/properties/about/properties/corpora/items/properties/kind",
    ),
    (Registry::Constraint, "preflight", "/$defs/kind"),
    (
        Registry::Constraint,
        "result",
        "/$defs/enforcement/properties/findings/items/properties/kind",
    ),
    (
        Registry::Constraint,
        "run-log",
        "/$defs/enforcement/properties/findings/items/properties/kind",
    ),
    (
        Registry::Notation,
        "dataset-row",
        "/properties/grammar/oneOf/1/properties/dialect",
    ),
    (
        Registry::Notation,
        "failures",
        "/$defs/constraint/properties/grammar/properties/dialect",
    ),
    (Registry::Notation, "preflight", "/$defs/notation"),
    (
        Registry::Notation,
        "result",
        "/properties/sobench/properties/dataset/properties/grammar_converted_from",
    ),
    (
        Registry::Notation,
        "run-log",
        "/$defs/record/properties/dataset/properties/grammar_converted_from",
    ),
    (
        Registry::Notation,
        "run-log",
        "/$defs/constraint/properties/grammar/properties/dialect",
    ),
    (
        Registry::Notation,
        "verdict-triple",
        "/properties/constraint/properties/grammar/properties/dialect",
    ),
    (Registry::Class, "preflight", "/$defs/class"),
    (
        Registry::Ladder,
        "preflight-limits",
        "/$defs/ladder/properties/ladder",
    ),
    (
        Registry::Class,
        "result",
        "/$defs/enforcement/properties/findings/items/properties/class",
    ),
    (
        Registry::Class,
        "run-log",
        "/$defs/enforcement/properties/findings/items/properties/class",
    ),
];

/// Other enums that share names with a registry.
const OTHERS: [(&str, &str, &str); 11] = [
    (
        "result",
        "/$defs/sample_source/properties/server",
        "kinds of metrics pages",
    ),
    (
        "run-log",
        "/$defs/sample_source/properties/server",
        "kinds of metrics pages",
    ),
    ("failures", "/properties/failing_as", "reasons of a verdict"),
    (
        "preflight-features",
        "/$defs/verdict",
        "verdicts for a keyword",
    ),
    (
        "result",
        "/$defs/enforcement/properties/state",
        "results of a preflight",
    ),
    (
        "result",
        "/$defs/verdict/properties/reason/properties/reason",
        "reasons of a verdict",
    ),
    (
        "run-log",
        "/properties/judged/properties/reason/properties/reason",
        "reasons of a verdict",
    ),
    (
        "run-log",
        "/$defs/enforcement/properties/state",
        "results of a preflight",
    ),
    (
        "verdict-triple",
        "/properties/reason",
        "reasons of a verdict",
    ),
    ("verdict", "/properties/reason", "reasons of a verdict"),
    (
        "verdict-triple",
        "/allOf/4/then/properties/reason",
        "reasons of a verdict that have a byte",
    ),
];

/// Every enum of the contracts, by file and JSON pointer.
fn enums() -> BTreeMap<(String, String), BTreeSet<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/contracts");
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .trim_end_matches(".schema.json")
            .to_owned();
        let contract: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        walk(&contract, "", &mut |pointer, names| {
            found.insert((name.clone(), pointer), names);
        });
    }
    found
}

/// Calls `found` with the pointer and the texts of each enum; ignores other values such as `null`.
fn walk(value: &Value, pointer: &str, found: &mut impl FnMut(String, BTreeSet<String>)) {
    match value {
        Value::Object(members) => {
            if let Some(Value::Array(values)) = members.get("enum") {
                found(
                    pointer.to_owned(),
                    values
                        .iter()
                        .filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect(),
                );
            }
            members
                .iter()
                .for_each(|(name, value)| walk(value, &format!("{pointer}/{name}"), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| walk(value, &format!("{pointer}/{index}"), found));
        }
        _ => {}
    }
}

#[test]
fn contract_enums_list_the_names_of_their_registry() {
    let enums = enums();
    let mut wrong = Vec::new();
    for (registry, file, pointer) in LISTED {
        let Some(listed) = enums.get(&(file.to_owned(), pointer.to_owned())) else {
            wrong.push(format!(
                "{file} has no enum at {pointer}: remove the line from LISTED"
            ));
            continue;
        };
        let names = registry.names();
        let missing: Vec<_> = names
            .difference(listed)
            .filter(|name| !is_excluded(pointer, name))
            .collect();
        let stray: Vec<_> = listed.difference(&names).collect();
        if !missing.is_empty() || !stray.is_empty() {
            wrong.push(format!(
                "{file}{pointer}: {registry:?} missing {missing:?}, unexpected {stray:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "schemas/contracts:\n{}", wrong.join("\n"));
}

/// Excludes departures that the search for the cause of an error cannot detect.
fn is_excluded(pointer: &str, name: &str) -> bool {
    pointer.ends_with("/cause")
        && ["canonical_tokens", "unlisted_keyword", "references"].contains(&name)
}

#[test]
fn enums_that_resemble_a_registry_are_listed() {
    let known: BTreeSet<(&str, &str)> = LISTED
        .iter()
        .map(|(_, file, pointer)| (*file, *pointer))
        .chain(OTHERS.map(|(file, pointer, _)| (file, pointer)))
        .collect();
    let enums = enums();
    let mut unknown = Vec::new();
    for ((file, pointer), listed) in &enums {
        let shared = |registry: &Registry| registry.names().intersection(listed).count();
        let like = Registry::ALL
            .into_iter()
            .max_by_key(shared)
            .filter(|registry| shared(registry) >= 2);
        if let Some(registry) = like.filter(|_| !known.contains(&(file.as_str(), pointer.as_str())))
        {
            unknown.push(format!("(Registry::{registry:?}, {file:?}, {pointer:?}),"));
        }
    }
    assert!(
        unknown.is_empty(),
        "enums that share names with a registry: add them to LISTED or OTHERS\n{}",
        unknown.join("\n")
    );
    let gone = OTHERS.into_iter().filter(|(file, pointer, _)| {
        !enums.contains_key(&((*file).to_owned(), (*pointer).to_owned()))
    });
    assert_eq!(gone.collect::<Vec<_>>(), [], "no such enums");
}

/// The names in backticks in the first cell of each table row of a page.
fn rows(page: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("docs")
            .join(page),
    )
    .unwrap();
    let first_cells = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    first_cells
        .flat_map(|cell| {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn documentation_tables_have_a_row_for_each_kind() {
    for (page, registry) in [
        ("servers.md", Registry::Backend),
        ("servers.md", Registry::Dialect),
        ("engines.md", Registry::Engine),
        ("limits.md", Registry::Ladder),
    ] {
        let (names, rows) = (registry.names(), rows(page));
        let missing: Vec<_> = names.difference(&rows).collect();
        assert!(
            missing.is_empty(),
            "docs/{page} has no row for {registry:?} {missing:?}"
        );
    }
}
