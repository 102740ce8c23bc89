//! Baselines of disagreements: CSV with a key, an outcome, what was said, who is right and why. The
//! last two are written by hand and kept when the file is written anew. Knows no schema.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Set to write baselines anew from what is measured; the difference is then for a person to look
/// at.
const UPDATE: &str = "UPDATE_BASELINES";

/// Stands where nobody has looked yet; no baseline may have it.
const UNEXAMINED: &str = "?";

/// By key: where the disagreement is.
pub(super) type Table = BTreeMap<Vec<String>, Row>;

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    outcome: String,
    says: String,
    right: String,
    why: String,
}

impl Row {
    /// A disagreement that nobody has looked at.
    pub(super) fn new(outcome: &str, says: &str) -> Self {
        Self {
            outcome: outcome.to_owned(),
            says: says.to_owned(),
            right: UNEXAMINED.to_owned(),
            why: UNEXAMINED.to_owned(),
        }
    }
}

pub(super) fn updating() -> bool {
    std::env::var_os(UPDATE).is_some()
}

/// `measured`, written to `path` where that was asked for; reasons that are known there already
/// stay.
pub(super) fn keep(path: &Path, header: &str, mut measured: Table) -> Table {
    if !updating() {
        return measured;
    }
    let known = if path.exists() {
        read(path)
    } else {
        Table::new()
    };
    let mut text = format!("{header}\n");
    for (key, row) in &mut measured {
        if let Some(known) = known.get(key).filter(|known| known.outcome == row.outcome) {
            (row.right, row.why) = (known.right.clone(), known.why.clone());
        }
        let cells = key
            .iter()
            .chain([&row.outcome, &row.says, &row.right, &row.why]);
        let cells: Vec<String> = cells.map(|cell| quoted(cell)).collect();
        writeln!(text, "{}", cells.join(",")).unwrap();
    }
    std::fs::write(path, text).unwrap();
    measured
}

/// Fails where `measured` is not what `baseline` says, and where a line of the baseline does not
/// say who is right.
pub(super) fn hold(measured: &Table, baseline: &Table, badness: fn(&str) -> usize, file: &str) {
    let differences = differences(measured, baseline, badness);
    assert!(
        differences.is_empty(),
        "{differences}if this is as it should be, run the test of the whole with {UPDATE}=1, say who is right, and commit {file}"
    );
}

fn differences(measured: &Table, baseline: &Table, badness: fn(&str) -> usize) -> String {
    let mut differences = String::new();
    for (key, was) in baseline {
        let name = key.join(" / ");
        match measured.get(key) {
            None => writeln!(differences, "better: {name}: {} -> agrees", was.outcome),
            Some(now) if now.outcome != was.outcome => {
                let verdict = if badness(&now.outcome) > badness(&was.outcome) {
                    "WORSE"
                } else {
                    "better"
                };
                writeln!(
                    differences,
                    "{verdict}: {name}: {} -> {} ({})",
                    was.outcome, now.outcome, now.says
                )
            }
            Some(now) if now.says != was.says => {
                writeln!(
                    differences,
                    "other words: {name}: {} -> {}",
                    was.says, now.says
                )
            }
            Some(_) => Ok(()),
        }
        .unwrap();
        if was.right == UNEXAMINED
            || was.right.is_empty()
            || was.why == UNEXAMINED
            || was.why.is_empty()
        {
            writeln!(
                differences,
                "who is right? {name}: {} ({})",
                was.outcome, was.says
            )
            .unwrap();
        }
    }
    for (key, now) in measured
        .iter()
        .filter(|(key, _)| !baseline.contains_key(*key))
    {
        writeln!(
            differences,
            "WORSE: {}: agrees -> {} ({})",
            key.join(" / "),
            now.outcome,
            now.says
        )
        .unwrap();
    }
    differences
}

/// Reads a baseline.
pub(super) fn read(path: &Path) -> Table {
    let text =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{error}: {}", path.display()));
    let row = |line: &str| {
        let mut cells = cells(line);
        let last = cells
            .len()
            .checked_sub(4)
            .unwrap_or_else(|| panic!("fewer than four cells: {line}"));
        let [outcome, says, right, why] = cells
            .split_off(last)
            .try_into()
            .expect("four cells were split off");
        (
            cells,
            Row {
                outcome,
                says,
                right,
                why,
            },
        )
    };
    text.lines().skip(1).map(row).collect()
}

/// A cell as RFC 4180 has it; line breaks become blanks.
fn quoted(cell: &str) -> String {
    let cell = cell.replace(['\n', '\r'], " ");
    if cell.contains([',', '"']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell
    }
}

fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut inside) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if inside && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => inside = !inside,
            ',' if !inside => cells.push(std::mem::take(&mut cell)),
            character => cell.push(character),
        }
    }
    cells.push(cell);
    cells
}

#[test]
fn cells_are_read_as_they_were_written() {
    for row in [vec!["a", "b c", ""], vec!["a,b", "\"", "say \"x\", y"]] {
        let line = row
            .iter()
            .map(|cell| quoted(cell))
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(cells(&line), row, "{line}");
    }
    assert_eq!(quoted("a\nb"), "a b");
}

#[test]
fn what_differs_is_called_better_or_worse() {
    let row = |outcome: &str| Row {
        right: "sobench".to_owned(),
        why: "so".to_owned(),
        ..Row::new(outcome, "says")
    };
    let table = |outcome: &str| Table::from([(vec!["a".to_owned()], row(outcome))]);
    for (measured, baseline, expected) in [
        (table("bad"), table("bad"), ""),
        (
            table("worst"),
            table("bad"),
            "WORSE: a: bad -> worst (says)\n",
        ),
        (
            table("bad"),
            table("worst"),
            "better: a: worst -> bad (says)\n",
        ),
        (Table::new(), table("bad"), "better: a: bad -> agrees\n"),
        (
            table("bad"),
            Table::new(),
            "WORSE: a: agrees -> bad (says)\n",
        ),
    ] {
        assert_eq!(
            differences(&measured, &baseline, |outcome| usize::from(
                outcome == "worst"
            )),
            expected
        );
    }
    let unexamined = Table::from([(vec!["a".to_owned()], Row::new("bad", "says"))]);
    assert_eq!(
        differences(&unexamined, &unexamined, |_| 0),
        "who is right? a: bad (says)\n"
    );
}
