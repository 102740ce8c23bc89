//! Baselines of disagreements: CSV with key, outcome, verdicts, correct side and reason. The last
//! two are written by hand and kept when the file is updated.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Set this variable to update baselines from the measured results. Review the difference.
const UPDATE: &str = "SOBENCH_UPDATE";

/// Value of unreviewed cells, not allowed in a baseline.
const UNREVIEWED: &str = "?";

/// Disagreements by key.
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
    /// Creates an unreviewed disagreement.
    pub(super) fn new(outcome: &str, says: &str) -> Self {
        Self {
            outcome: outcome.to_owned(),
            says: says.to_owned(),
            right: UNREVIEWED.to_owned(),
            why: UNREVIEWED.to_owned(),
        }
    }
}

pub(super) fn is_update() -> bool {
    std::env::var_os(UPDATE).is_some()
}

/// Returns `measured`, and writes it to `path` if [`UPDATE`] is set. Existing reasons are kept.
pub(super) fn update(path: &Path, header: &str, mut measured: Table) -> Table {
    if !is_update() {
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
        let cells: Vec<String> = cells.map(|cell| quote_cell(cell)).collect();
        writeln!(text, "{}", cells.join(",")).unwrap();
    }
    std::fs::write(path, text).unwrap();
    measured
}

/// Panics if `measured` differs from `baseline`, or if a line of the baseline is not reviewed.
pub(super) fn assert_matches(
    measured: &Table,
    baseline: &Table,
    severity: fn(&str) -> usize,
    file: &str,
) {
    let differences = differences(measured, baseline, severity);
    assert!(
        differences.is_empty(),
        "{differences}if this is expected, run the ignored test with {UPDATE}=1, fill in the columns right and why, and commit {file}"
    );
}

fn differences(measured: &Table, baseline: &Table, severity: fn(&str) -> usize) -> String {
    let mut differences = String::new();
    for (key, old) in baseline {
        let name = key.join(" / ");
        match measured.get(key) {
            None => writeln!(differences, "better: {name}: {} -> agrees", old.outcome),
            Some(new) if new.outcome != old.outcome => {
                let verdict = if severity(&new.outcome) > severity(&old.outcome) {
                    "WORSE"
                } else {
                    "better"
                };
                writeln!(
                    differences,
                    "{verdict}: {name}: {} -> {} ({})",
                    old.outcome, new.outcome, new.says
                )
            }
            Some(new) if new.says != old.says => {
                writeln!(
                    differences,
                    "other verdict: {name}: {} -> {}",
                    old.says, new.says
                )
            }
            Some(_) => Ok(()),
        }
        .unwrap();
        if old.right == UNREVIEWED
            || old.right.is_empty()
            || old.why == UNREVIEWED
            || old.why.is_empty()
        {
            writeln!(
                differences,
                "not reviewed: {name}: {} ({})",
                old.outcome, old.says
            )
            .unwrap();
        }
    }
    for (key, new) in measured
        .iter()
        .filter(|(key, _)| !baseline.contains_key(*key))
    {
        writeln!(
            differences,
            "WORSE: {}: agrees -> {} ({})",
            key.join(" / "),
            new.outcome,
            new.says
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

/// Writes a cell as in RFC 4180. Line breaks become spaces.
fn quote_cell(cell: &str) -> String {
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
fn cells_round_trip() {
    for row in [vec!["a", "b c", ""], vec!["a,b", "\"", "say \"x\", y"]] {
        let line = row
            .iter()
            .map(|cell| quote_cell(cell))
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(cells(&line), row, "{line}");
    }
    assert_eq!(quote_cell("a\nb"), "a b");
}

#[test]
fn differences_are_better_or_worse() {
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
    let unreviewed = Table::from([(vec!["a".to_owned()], Row::new("bad", "says"))]);
    assert_eq!(
        differences(&unreviewed, &unreviewed, |_| 0),
        "not reviewed: a: bad (says)\n"
    );
}
