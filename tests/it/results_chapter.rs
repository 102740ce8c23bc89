//! The results chapter (`docs/results`) is what its data gives, and the data follows its contracts.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use serde_json::Value;
use sobench_testkit::{contract, repository_path};

/// The uncompressed text of every file of data, with its name.
fn data() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(repository_path("docs/results/data")).unwrap() {
        let path = entry.unwrap().path();
        let unpacked = Command::new("gzip").arg("-dc").arg(&path).output().unwrap();
        assert!(unpacked.status.success(), "{}", path.display());
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        files.push((name, String::from_utf8(unpacked.stdout).unwrap()));
    }
    assert!(!files.is_empty());
    files
}

fn read(path: &str) -> String {
    fs::read_to_string(repository_path(path)).unwrap()
}

#[test]
fn pages_are_what_the_data_gives() {
    let made = Command::new("python3")
        .arg(repository_path("docs/results/make"))
        .arg("--check")
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
}

#[test]
fn data_follows_its_contracts() {
    let about_parts = read("docs/results/data.schema.json");
    for (name, text) in data() {
        let file: Value = serde_json::from_str(&text).unwrap();
        contract::check(&about_parts, &file).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        let part = file["part"].as_str().unwrap();
        assert_eq!(name, format!("{part}.json.gz"));
        let result = match part.split_once('-').unwrap().0 {
            "masks" => "mask",
            "proofs" => "proof",
            "features" => "preflight-features",
            "kinds" | "requests" => "preflight",
            "streams" => "result",
            "costs" => "matrix",
            "gpu" => "comparison",
            _ => continue,
        };
        contract::check(
            &read(&format!("schemas/contracts/{result}.schema.json")),
            &file["result"],
        )
        .unwrap_or_else(|errors| panic!("{name}: result: {errors}"));
    }
}

#[test]
fn data_names_no_path_of_the_machine() {
    for (name, text) in data() {
        for folder in ["/root/", "/home/", "/tmp/", "/work/", "/Users/"] {
            assert!(!text.contains(folder), "{name} contains {folder}");
        }
    }
}

fn conformance() -> Value {
    serde_json::from_str(&read("docs/results/conformance.json")).unwrap()
}

#[test]
fn conformance_follows_its_schema() {
    let schema = read("docs/results/conformance.schema.json");
    contract::check(&schema, &conformance())
        .unwrap_or_else(|errors| panic!("conformance.json: {errors}"));
}

/// The text of a cell of the chart.
fn mark(cell: &Value) -> String {
    let (valid, invalid) = (cell["valid"].as_u64(), cell["invalid"].as_u64());
    let text = match cell["verdict"].as_str().unwrap() {
        "enforced" => match valid {
            Some(valid) => format!("✓ {valid}"),
            None => "✓".to_owned(),
        },
        "no_violation_seen" => format!("○ {}", valid.unwrap()),
        "under_enforced" => match cell["class"].as_str() {
            Some(class) => format!("✗ {}", class.replace('_', " ")),
            None => format!(
                "✗ {} of {}",
                invalid.unwrap(),
                valid.unwrap() + invalid.unwrap()
            ),
        },
        "rejected" => "R".to_owned(),
        "crashed" => "!".to_owned(),
        "undecided" => "?".to_owned(),
        _ => "–".to_owned(),
    };
    let fewer = if cell["is_fewer"] == true { "*" } else { "" };
    let slow = cell["slow_ms"]
        .as_f64()
        .map(|ms| format!(" +{:.0} s", ms / 1000.0));
    format!("{text}{fewer}{}", slow.unwrap_or_default())
}

/// Verdict and text of each cell, by ROW/COLUMN.
type Cells = BTreeMap<String, (String, String)>;

/// The cells of the table: `<td class=VERDICT><a href=#ROW/COLUMN>TEXT</a>`. A changed cell has a second class.
fn cells_of_the_chart(chart: &str) -> Cells {
    let cells = chart.split("<td class=").skip(1).map(|cell| {
        let (class, rest) = cell.split_once("><a href=#").unwrap();
        let (place, rest) = rest.split_once('>').unwrap();
        let (text, _) = rest.split_once("</a>").unwrap();
        let verdict = class.trim_matches('"').split(' ').next().unwrap();
        (place.to_owned(), (verdict.to_owned(), text.to_owned()))
    });
    cells.collect()
}

#[test]
fn chart_agrees_with_conformance() {
    let chart = read("docs/results/chart.html");
    let conformance = conformance();
    let cells = conformance["cells"].as_array().unwrap();
    let text = |cell: &Value, key: &str| cell[key].as_str().unwrap().to_owned();
    let expected: Cells = cells
        .iter()
        .map(|cell| {
            let place = format!("{}/{}", text(cell, "row"), text(cell, "column"));
            (place, (text(cell, "verdict"), mark(cell)))
        })
        .collect();
    assert_eq!(expected.len(), cells.len(), "a cell is there twice");
    assert_eq!(cells_of_the_chart(&chart), expected);
    let evidence = chart.split("<dd id=").skip(1);
    let mut evidence: Vec<&str> = evidence.filter_map(|rest| rest.split('>').next()).collect();
    evidence.sort_unstable();
    assert_eq!(evidence, expected.keys().collect::<Vec<_>>());
}

#[test]
fn chart_is_one_file() {
    let chart = read("docs/results/chart.html");
    for outside in ["<link", "<img", " src=", "@import"] {
        assert!(!chart.contains(outside), "{outside}");
    }
    assert!(chart.len() < 700_000, "{} bytes", chart.len());
}
