//! Module imports, by the paths in the code: no cycles, and commands do not use other commands. A
//! module is a folder or file of a crate; each command is a module.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_of, is_test, sources};

/// Allowed uses of another command: a matrix makes runs, a merge reports, and a comparison judges as
/// a report does.
const KNOWN_COMMANDS: [(&str, &str); 4] = [
    ("commands::compare", "commands::report"),
    ("commands::matrix", "commands::bench"),
    ("commands::merge", "commands::mask"),
    ("commands::merge", "commands::report"),
];

/// Modules in the commands folder that are not commands.
const SHARED: [&str; 6] = [
    "commands",
    "commands::distinct",
    "commands::flags",
    "commands::large_output",
    "commands::output",
    "commands::run_cache",
];

/// Sources of crates with several top-level modules. In other crates, the files form one module.
const SIDE_BY_SIDE: [&str; 5] = [
    "src/",
    "crates/core/src/",
    "crates/notices/src/",
    "crates/data/src/",
    "crates/results/src/",
];

/// Modules with the modules that they import outside of tests.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn imports(folder: &str) -> Imports {
    let mut imports = Imports::new();
    for (name, text) in sources()
        .iter()
        .filter(|(name, _)| name.starts_with(folder) && !is_test(name))
    {
        let file = name
            .trim_start_matches(folder)
            .trim_end_matches(".rs")
            .trim_end_matches("/mod");
        let path: Vec<&str> = file.split('/').collect();
        let found = imports.entry(module(&path)).or_default();
        found.extend(
            imported(&code_of(text), &path)
                .into_iter()
                .filter(|other| *other != module(&path)),
        );
    }
    imports
}

/// The module of a path.
fn module(path: &[&str]) -> String {
    let depth = if path[0] == "commands" { 2 } else { 1 };
    path[..depth.min(path.len())].join("::")
}

/// The modules that the code of the file at `path` refers to by `crate::` and `super::`.
fn imported(code: &str, path: &[&str]) -> BTreeSet<String> {
    assert!(
        !code.contains("crate::{"),
        "{}: write one `use` per module",
        path.join("/")
    );
    let mut found: BTreeSet<String> = paths(code, "crate::")
        .map(names)
        .filter(|names| !names.is_empty())
        .map(|names| module(&names))
        .collect();
    for mut rest in paths(code, "super::") {
        let mut parents = 1;
        while let Some(further) = rest.strip_prefix("super::") {
            (rest, parents) = (further, parents + 1);
        }
        let base = &path[..path.len().saturating_sub(parents)];
        let named: Vec<&str> = base.iter().copied().chain(names(rest)).collect();
        found.extend((!named.is_empty()).then(|| module(&named)));
    }
    found
}

/// The text after each path that starts with `prefix`.
fn paths<'a>(code: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let starts_path = |at: usize| {
        !code[..at].ends_with(|last: char| last == ':' || last == '_' || last.is_alphanumeric())
    };
    code.match_indices(prefix)
        .filter(move |(at, _)| starts_path(*at))
        .map(move |(at, _)| &code[at + prefix.len()..])
}

/// The module names at the start of a path.
fn names(path: &str) -> Vec<&str> {
    let is_end = |character: char| !matches!(character, 'a'..='z' | '0'..='9' | '_' | ':');
    path[..path.find(is_end).unwrap_or(path.len())]
        .split("::")
        .filter(|name| !name.is_empty())
        .collect()
}

/// The modules that are reachable from a module.
fn reached<'a>(imports: &'a Imports, from: &'a str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        let next = imports
            .get(module)
            .into_iter()
            .flatten()
            .map(String::as_str);
        open.extend(next.filter(|module| reached.insert(*module)));
    }
    reached
}

/// The modules that are reachable from a module and from which it is reachable.
fn cycle<'a>(imports: &'a Imports, module: &'a str) -> Vec<&'a str> {
    let leads_back = |other: &&str| reached(imports, other).contains(module);
    reached(imports, module)
        .into_iter()
        .filter(leads_back)
        .collect()
}

#[test]
fn module_imports_have_no_cycles() {
    let mut modules = 0;
    for folder in SIDE_BY_SIDE {
        let imports = imports(folder);
        let cycles: BTreeSet<Vec<&str>> = imports
            .keys()
            .map(|module| cycle(&imports, module))
            .filter(|cycle| !cycle.is_empty())
            .collect();
        assert!(cycles.is_empty(), "import cycles in {folder}: {cycles:?}");
        modules += imports.len();
    }
    assert!(modules > 40, "{modules} modules were found");
}

#[test]
fn commands_do_not_use_other_commands() {
    let imports = imports("src/");
    let is_command = |module: &str| module.starts_with("commands::") && !SHARED.contains(&module);
    for (one, others) in imports
        .iter()
        .filter(|(module, _)| module.as_str() == "commands::flags" || is_command(module))
    {
        for other in others.iter().filter(|module| is_command(module)) {
            assert!(
                KNOWN_COMMANDS.contains(&(one, other)),
                "{one} uses {other}: move shared code to commands/flags or below"
            );
        }
    }
}

#[test]
fn paths_are_found_in_code() {
    let code = "use crate::a::b;\nuse crate::Error;\nuse super::super::c::D;\nlet x = super::e();\nuse crate::commands::man::{F, g};";
    let found: Vec<String> = imported(code, &["commands", "bench", "options"])
        .into_iter()
        .collect();
    assert_eq!(
        found,
        ["a", "commands::bench", "commands::c", "commands::man"]
    );
}

#[test]
fn cycles_are_found() {
    let imports: Imports = [("a", "b"), ("b", "c"), ("c", "b")]
        .map(|(from, to)| (from.to_owned(), BTreeSet::from([to.to_owned()])))
        .into();
    assert_eq!(
        (cycle(&imports, "a"), cycle(&imports, "b")),
        (Vec::new(), vec!["b", "c"])
    );
}
