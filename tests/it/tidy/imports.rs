//! Module imports, by the paths in the code: circles only shrink, and commands do not use other
//! commands.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_of, is_test, root, sources};

/// Allowed uses of another command: a matrix makes runs and compares pairs, a merge reports, a comparison and a list of
/// runs judge as a report does, and an explanation opens servers as a preflight.
const KNOWN_COMMANDS: [(&str, &str); 10] = [
    ("commands::accept", "commands::bench"),
    ("commands::accept", "commands::matrix"),
    ("commands::accept", "commands::preflight"),
    ("commands::accept", "commands::report"),
    ("commands::compare", "commands::report"),
    ("commands::explain", "commands::preflight"),
    ("commands::matrix", "commands::bench"),
    ("commands::matrix", "commands::compare"),
    ("commands::merge", "commands::report"),
    ("commands::runs", "commands::report"),
];

/// Modules in the commands folder that are not commands.
const SHARED: [&str; 7] = [
    "commands",
    "commands::distinct",
    "commands::flags",
    "commands::large_output",
    "commands::output",
    "commands::parquet",
    "commands::run_cache",
];

/// The circles of modules below each crate: `folder: file file ...`. The list may only shrink.
const CIRCLES: &str = "tests/it/tidy/circles.txt";

/// Modules with the modules that they import outside of tests. A module is a path of names below
/// its crate; the crate's root has the empty path.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The imports of each file of a crate.
fn imports(folder: &str) -> Imports {
    let sources = sources();
    let files: BTreeMap<String, &str> = sources
        .iter()
        .filter(|(name, _)| name.starts_with(folder) && !is_test(name))
        .map(|(name, text)| (module(&name[folder.len()..]), text.as_str()))
        .collect();
    files
        .iter()
        .map(|(module, text)| {
            let found = imported(
                &code_of(text),
                module,
                &files.keys().map(String::as_str).collect(),
            );
            (module.clone(), found)
        })
        .collect()
}

/// The module of a file, by its path below the crate's folder.
fn module(file: &str) -> String {
    let path = file.trim_end_matches(".rs").replace('/', "::");
    let path = path.trim_end_matches("mod").trim_end_matches("::");
    match path {
        "lib" | "main" => String::new(),
        path => path.to_owned(),
    }
}

/// The other modules that the code of a module refers to: by `crate::`, by `super::`, and by the
/// name of a child. A path belongs to the deepest module that it names.
fn imported(code: &str, module: &str, modules: &BTreeSet<&str>) -> BTreeSet<String> {
    let here: Vec<&str> = module.split("::").filter(|name| !name.is_empty()).collect();
    let mut found = Vec::new();
    for rest in paths(code, "crate::") {
        add_names(rest, "", &mut found);
    }
    for mut rest in paths(code, "super::") {
        let mut parents = 1;
        while let Some(further) = rest.strip_prefix("super::") {
            (rest, parents) = (further, parents + 1);
        }
        let base = here[..here.len().saturating_sub(parents)].join("::");
        add_names(rest, &base, &mut found);
    }
    let children = modules
        .iter()
        .filter_map(|child| match module {
            "" => Some(*child),
            _ => child.strip_prefix(module)?.strip_prefix("::"),
        })
        .filter(|child| !child.is_empty() && !child.contains("::"));
    for child in children {
        for rest in paths(code, &format!("{child}::")) {
            add_names(rest, &joined(module, child), &mut found);
        }
    }
    found
        .iter()
        .filter_map(|path| deepest(path, modules))
        .filter(|other| *other != module)
        .map(str::to_owned)
        .collect()
}

/// Adds the paths at the start of a text to `found`, each below `base`: one, or those of a group in
/// braces.
fn add_names(text: &str, base: &str, found: &mut Vec<String>) {
    let Some(group) = text.strip_prefix('{') else {
        let name = &text[..text
            .find(|letter: char| letter != '_' && !letter.is_alphanumeric())
            .unwrap_or(text.len())];
        return match text[name.len()..].strip_prefix("::") {
            Some(rest) if !name.is_empty() => add_names(rest, &joined(base, name), found),
            _ => found.push(joined(base, name)),
        };
    };
    let (mut depth, mut from) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                add_names(group[from..at].trim(), base, found);
                from = at + 1;
                if letter == '}' {
                    return;
                }
            }
            _ => {}
        }
    }
}

fn joined(base: &str, name: &str) -> String {
    [base, name]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("::")
}

/// The deepest module that a path names; the crate's root for one of its own items.
fn deepest<'a>(mut path: &str, modules: &BTreeSet<&'a str>) -> Option<&'a str> {
    loop {
        if let Some(module) = modules.get(path) {
            return Some(module);
        }
        path = path.rsplit_once("::").map_or("", |(parent, _)| parent);
        if path.is_empty() {
            return modules.get("").copied();
        }
    }
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

/// The groups of modules that reach each other.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|module| (module.as_str(), reached(imports, module)))
        .collect();
    reached
        .iter()
        .filter(|(module, others)| others.contains(*module))
        .map(|(module, others)| {
            let leads_back = |other: &&&str| {
                reached
                    .get(**other)
                    .is_some_and(|back| back.contains(module))
            };
            others.iter().filter(leads_back).copied().collect()
        })
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

/// The folders of sources of all crates.
fn crates() -> BTreeSet<String> {
    let folders = sources()
        .into_iter()
        .filter_map(|(name, _)| Some(name[..name.find("src/")? + "src/".len()].to_owned()));
    folders.collect()
}

/// The circles of all crates, each on a line.
fn measured() -> Vec<String> {
    let mut lines = Vec::new();
    for folder in crates() {
        for circle in circles(&imports(&folder)) {
            let names = circle
                .into_iter()
                .map(|module| if module.is_empty() { "crate" } else { module });
            lines.push(format!("{folder}: {}", names.collect::<Vec<_>>().join(" ")));
        }
    }
    lines
}

/// The circles that are not within one of the list.
fn grown<'a>(measured: &'a [String], listed: &[&str]) -> Vec<&'a str> {
    let names = |line: &str| line.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    measured
        .iter()
        .filter(|line| {
            !listed
                .iter()
                .any(|known| names(line).is_subset(&names(known)))
        })
        .map(String::as_str)
        .collect()
}

#[test]
fn circles_of_modules_only_shrink() {
    assert!(crates().len() > 15, "{:?}", crates());
    let path = root().join(CIRCLES);
    let text = std::fs::read_to_string(&path).unwrap();
    let (measured, listed) = (measured(), text.lines().collect::<Vec<_>>());
    let grown = grown(&measured, &listed);
    assert!(
        grown.is_empty(),
        "modules that import each other in a circle: {grown:#?}\nmove what they share to a module of its own; if files moved, change {CIRCLES}"
    );
    if std::env::var_os("SOBENCH_UPDATE").is_some() {
        std::fs::write(&path, measured.join("\n") + "\n").unwrap();
        return;
    }
    assert_eq!(measured, listed, "circles became smaller: run .ci/update");
}

#[test]
fn commands_do_not_use_other_commands() {
    let command = |module: &str| module.split("::").take(2).collect::<Vec<_>>().join("::");
    let is_command = |module: &str| module.starts_with("commands::") && !SHARED.contains(&module);
    for (module, others) in imports("src/") {
        let one = command(&module);
        if one != "commands::flags" && !is_command(&one) {
            continue;
        }
        for other in others
            .iter()
            .map(|module| command(module))
            .filter(|other| *other != one && is_command(other))
        {
            assert!(
                KNOWN_COMMANDS.contains(&(one.as_str(), other.as_str())),
                "{one} uses {other}: move shared code to commands/flags or below"
            );
        }
    }
}

#[test]
fn imports_are_found_in_code() {
    let code = "use crate::a::b;\nuse crate::Error;\nuse super::super::c::{D, e::{F, g}};\nlet x = super::e();\nuse part::G;";
    let modules = [
        "",
        "a",
        "a::b",
        "c",
        "c::e",
        "d",
        "d::here",
        "d::here::part",
    ]
    .into();
    let found: Vec<String> = imported(code, "d::here", &modules).into_iter().collect();
    assert_eq!(found, ["", "a::b", "c", "c::e", "d", "d::here::part"]);
}

#[test]
fn circles_are_found() {
    let imports: Imports = [("a", "b"), ("b", "c"), ("c", "b")]
        .map(|(from, to)| (from.to_owned(), BTreeSet::from([to.to_owned()])))
        .into();
    assert_eq!(circles(&imports), [["b", "c"].into()].into());
}

#[test]
fn a_new_member_of_a_circle_is_found() {
    let measured = ["x/src/: a b", "x/src/: a b c"].map(str::to_owned);
    assert_eq!(grown(&measured, &["x/src/: a b d"]), ["x/src/: a b c"]);
}
