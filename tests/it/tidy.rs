//! Checks the repository against the rules of ARCHITECTURE.md: dependencies of layers, and file
//! headers.

mod imports;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Words that must not occur in files under these paths.
struct Rule {
    within: &'static [&'static str],
    except: &'static [&'static str],
    words: &'static [&'static str],
    why: &'static str,
}

const RULES: [Rule; 3] = [
    Rule {
        within: &["crates/data/src/"],
        except: &["crates/data/src/hub.rs"],
        words: &["hf_hub"],
        why: "only hub.rs uses the client of the Hub",
    },
    Rule {
        within: &["crates/preflight/src/", "tools/src/limits/"],
        except: &[
            "crates/preflight/src/runner.rs",
            "crates/preflight/src/features/probe.rs",
            "tools/src/limits/probe.rs",
            "tools/src/limits/neighbour.rs",
        ],
        words: &["sobench_client"],
        why: "answers are judged without a network",
    },
    Rule {
        within: &["crates/results/src/compare/"],
        except: &["crates/results/src/compare/files.rs"],
        words: &["std::fs", "fs::read", "File::"],
        why: "only files.rs opens files",
    },
];

/// Crates that depend on no network, clock or page layout. This checks their manifests; clippy.toml
/// forbids the standard library's equivalents.
const PURE: [&str; 13] = [
    "backend",
    "core",
    "facts",
    "grammar",
    "judge",
    "notices",
    "plan",
    "pycompat",
    "render",
    "report",
    "results",
    "runlog",
    "statistics",
];
const IMPURE_DEPENDENCIES: [&str; 9] = [
    "axum",
    "hf-hub",
    "hyper",
    "nix",
    "reqwest",
    "rustls",
    "tokenizers",
    "tokio",
    "ureq",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Path from the root (with `/`) and text of every Rust file of the package.
fn sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for folder in ["src", "crates", "tools", "tests"] {
        rust_files(&root().join(folder), &mut paths);
    }
    let name = |path: &Path| {
        path.strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .replace('\\', "/")
    };
    paths
        .iter()
        .map(|path| (name(path), fs::read_to_string(path).unwrap()))
        .collect()
}

/// Code without comments and without the tests at the end of the file.
fn code_of(text: &str) -> String {
    let shipped = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    shipped
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Whether a file of `src` contains only tests or helpers of tests.
fn is_test(name: &str) -> bool {
    name.split('/').any(|part| {
        matches!(part.trim_end_matches(".rs"), "tests" | "testing") || part.ends_with("_tests.rs")
    })
}

#[test]
fn layers_use_only_allowed_items() {
    let mut broken = Vec::new();
    for (name, text) in sources()
        .iter()
        .filter(|(name, _)| !name.starts_with("tests/") && !is_test(name))
    {
        let code = code_of(text);
        for rule in &RULES {
            let bound = rule.within.iter().any(|prefix| name.starts_with(prefix));
            let exempt = rule.except.iter().any(|prefix| name.starts_with(prefix));
            for word in rule
                .words
                .iter()
                .filter(|word| bound && !exempt && code.contains(**word))
            {
                broken.push(format!("{name} contains `{word}`: {}", rule.why));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Names of files in documents: from the root, or CRATE/FILE for `crates/CRATE/src/FILE`.
#[test]
fn files_that_documents_name_exist() {
    let named = regex::Regex::new(r"`((?:\.?[\w-]+/)+[\w.-]+\.\w+)`").unwrap();
    let folders = [
        "crates", "src", "tests", "docs", "fixtures", "benches", ".ci",
    ];
    let crates: Vec<String> = crates().into_iter().map(|(name, _)| name).collect();
    let mut documents = Vec::new();
    for folder in [".", "docs", "docs/guides", "docs/decisions", "docs/results"] {
        let pages = fs::read_dir(root().join(folder)).unwrap();
        documents.extend(pages.map(|page| page.unwrap().path()));
    }
    documents.retain(|path| path.extension() == Some("md".as_ref()));
    let (mut found, mut missing) = (0, Vec::new());
    for document in &documents {
        // Old names stay in the changelog.
        if document.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = fs::read_to_string(document).unwrap();
        for name in named
            .captures_iter(&text)
            .map(|captures| captures[1].to_owned())
        {
            let (first, rest) = name.split_once('/').unwrap();
            let path = match () {
                () if folders.contains(&first) => root().join(&name),
                () if crates.iter().any(|name| name == first) => {
                    root().join("crates").join(first).join("src").join(rest)
                }
                () => continue,
            };
            found += 1;
            // `report/` is a crate, and a folder of commands.
            let beside = document.parent().unwrap().join(&name);
            if !path.exists() && !beside.exists() {
                missing.push(format!("{}: {name}", document.display()));
            }
        }
    }
    assert!(found > 100, "{found}");
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn files_start_with_a_header() {
    let without_header: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(name, _)| name)
        .collect();
    assert!(
        without_header.is_empty(),
        "without a `//!` line at the top: {}",
        without_header.join(", ")
    );
}

/// The crates in the `[dependencies]` section of a manifest.
fn dependencies(manifest: &str) -> Vec<String> {
    let (_, section) = manifest.split_once("\n[dependencies]\n").unwrap();
    let lines = section.lines().take_while(|line| !line.is_empty());
    lines
        .map(|line| line.split(['.', ' ']).next().unwrap().to_owned())
        .collect()
}

/// Every crate by folder name, with its dependencies.
fn crates() -> Vec<(String, Vec<String>)> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let mut crates: Vec<(String, Vec<String>)> = folders
        .map(|folder| {
            let folder = folder.unwrap().path();
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            (
                folder.file_name().unwrap().to_str().unwrap().to_owned(),
                dependencies(&manifest),
            )
        })
        .collect();
    crates.sort();
    crates
}

#[test]
fn architecture_table_lists_crate_dependencies() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (name, dependencies) in crates() {
        let own_crates: Vec<&str> = dependencies
            .iter()
            .filter_map(|name| name.strip_prefix("sobench-"))
            .collect();
        let used_crates = if own_crates.is_empty() {
            "nothing of ours".to_owned()
        } else {
            own_crates.join(", ")
        };
        let row = map
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for the crate {name}"));
        assert!(
            row.ends_with(&format!("| {used_crates} |")),
            "ARCHITECTURE.md on {name}: its manifest lists {used_crates}"
        );
    }
}

/// Everything that a crate is built with, by the manifests of our own crates and the lock file.
fn built_with(of: &str) -> BTreeSet<String> {
    let own: BTreeMap<String, Vec<String>> = crates()
        .into_iter()
        .map(|(name, dependencies)| (format!("sobench-{name}"), dependencies))
        .collect();
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let mut locked: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let mut quoted = package.split('"').skip(1).step_by(2);
        let name = quoted.next().unwrap();
        let (_, dependencies) = package.split_once("dependencies = [").unwrap_or_default();
        let names = dependencies.split('"').skip(1).step_by(2);
        let names = names.map(|name| name.split(' ').next().unwrap());
        locked.entry(name).or_default().extend(names);
    }
    let mut found = BTreeSet::new();
    let mut open = vec![of.to_owned()];
    while let Some(name) = open.pop() {
        let next: Vec<String> = match own.get(&name) {
            Some(own) => own.clone(),
            None => locked[&*name]
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
        };
        open.extend(next.into_iter().filter(|name| found.insert(name.clone())));
    }
    found
}

#[test]
fn pure_crates_need_no_network_and_no_tokenizer() {
    for name in PURE {
        let all = built_with(&format!("sobench-{name}"));
        let found: Vec<&String> = all
            .iter()
            .filter(|name| IMPURE_DEPENDENCIES.contains(&name.as_str()))
            .collect();
        assert!(
            found.is_empty(),
            "{name} is pure, and is built with {found:?}"
        );
    }
    assert!(built_with("sobench-data").contains("rustls"));
}

#[test]
fn witness_requirements_match_the_locked_versions() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages =
        fs::read_to_string(root().join("tests/live/witnesses.requirements.txt")).unwrap();
    let locked = |name: &str| {
        let (_, rest) = lock
            .split_once(&format!("name = \"{name}\"\nversion = \""))
            .unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    for (package, library) in [
        ("llguidance", "llguidance"),
        ("outlines_core", "outlines-core"),
    ] {
        let line = format!("{package}=={}", locked(library));
        assert!(
            packages.lines().any(|package| package == line),
            "{line} is not in witnesses.requirements.txt"
        );
    }
}
