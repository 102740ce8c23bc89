//! The commands whose outputs are frozen, as `fixtures/frozen/commands.txt` has them. Knows no
//! output.

use std::fs;
use std::path::Path;

/// How an output is made steady before it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// As it is, but for paths.
    Whole,
    /// Of JSON its paths and the types of values, of text nothing: for what depends on the clock.
    Keys,
    /// JSON and text without times, memory, dates and the machine: for measurements whose outcomes
    /// are the same everywhere.
    Outcomes,
}

/// A command.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    pub(super) name: String,
    /// Lines for `sh`.
    pub(super) script: String,
    pub(super) kept: Kept,
    /// Only the hash is kept.
    pub(super) is_hashed: bool,
}

/// All commands. A line is `NAME: SCRIPT` or `NAME (MARK): SCRIPT`; lines that begin with blanks go
/// on with the script. `{run}` stands for every frozen run. Marks: `hash`, `hash but RUN RUN ...`,
/// `keys`, `outcomes`.
pub(super) fn commands(folder: &Path) -> Vec<Frozen> {
    let text = fs::read_to_string(folder.join("commands.txt")).unwrap();
    let runs = runs(folder);
    let mut blocks: Vec<(String, String)> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
    {
        if line.starts_with(' ') {
            let (_, script) = blocks.last_mut().expect("a script has a name above it");
            script.push_str(line.trim_start());
            script.push('\n');
        } else {
            let (name, script) = line
                .split_once(':')
                .unwrap_or_else(|| panic!("no name: {line}"));
            blocks.push((name.to_owned(), format!("{}\n", script.trim())));
        }
    }
    let of_a_run = |name: &str| name.contains("{run}");
    let expand = |(name, script): &(String, String)| -> Vec<Frozen> {
        if of_a_run(name) {
            runs.iter().map(|run| frozen(name, script, run)).collect()
        } else {
            vec![frozen(name, script, "")]
        }
    };
    blocks.iter().flat_map(expand).collect()
}

fn frozen(name: &str, script: &str, run: &str) -> Frozen {
    let (name, mark) = name
        .trim_end()
        .strip_suffix(')')
        .and_then(|it| it.split_once(" ("))
        .unwrap_or((name, ""));
    let is_excepted = mark
        .strip_prefix("hash but ")
        .is_some_and(|runs| runs.split(' ').any(|it| it == run));
    let kept = match mark {
        "keys" => Kept::Keys,
        "outcomes" => Kept::Outcomes,
        _ if mark.is_empty() || mark.starts_with("hash") => Kept::Whole,
        _ => panic!("no such mark: {mark}"),
    };
    Frozen {
        name: name.replace("{run}", run),
        script: script.replace("{run}", run),
        kept,
        is_hashed: mark.starts_with("hash") && !is_excepted,
    }
}

/// Names of the frozen runs.
fn runs(folder: &Path) -> Vec<String> {
    let mut runs: Vec<String> = fs::read_dir(folder.join("runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter_map(|name| name.strip_suffix(".jsonl").map(str::to_owned))
        .collect();
    runs.sort();
    runs
}
