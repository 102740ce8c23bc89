//! The commands whose outputs are frozen, from `fixtures/frozen/commands.txt`.

use std::fs;
use std::path::Path;

/// What is removed from an output before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Everything is stored, with paths replaced.
    Whole,
    /// For outputs that depend on the clock: the paths and value types of JSON, nothing of text.
    Keys,
    /// For measurements with machine-independent outcomes: JSON and text without times, memory,
    /// dates and the machine.
    Outcomes,
}

/// A command of the list.
#[derive(Clone, Debug)]
pub(super) struct FrozenCommand {
    pub(super) name: String,
    /// Lines for `sh`.
    pub(super) script: String,
    pub(super) kept: Kept,
    /// Whether only the hash is stored.
    pub(super) is_hashed: bool,
}

/// All commands. A line is `NAME: SCRIPT` or `NAME (MARK): SCRIPT`; lines that start with blanks
/// continue the script. `{run}` stands for every frozen run. Marks: `hash`, `hash but RUN RUN ...`,
/// `keys`, `outcomes`.
pub(super) fn commands(folder: &Path) -> Vec<FrozenCommand> {
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
    let is_per_run = |name: &str| name.contains("{run}");
    let expand = |(name, script): &(String, String)| -> Vec<FrozenCommand> {
        if is_per_run(name) {
            runs.iter().map(|run| frozen(name, script, run)).collect()
        } else {
            vec![frozen(name, script, "")]
        }
    };
    blocks.iter().flat_map(expand).collect()
}

fn frozen(name: &str, script: &str, run: &str) -> FrozenCommand {
    let (name, mark) = name
        .trim_end()
        .strip_suffix(')')
        .and_then(|rest| rest.split_once(" ("))
        .unwrap_or((name, ""));
    let is_excepted = mark
        .strip_prefix("hash but ")
        .is_some_and(|runs| runs.split(' ').any(|name| name == run));
    let kept = match mark {
        "keys" => Kept::Keys,
        "outcomes" => Kept::Outcomes,
        _ if mark.is_empty() || mark.starts_with("hash") => Kept::Whole,
        _ => panic!("unknown mark: {mark}"),
    };
    FrozenCommand {
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
