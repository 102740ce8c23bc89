//! The results chapter (`docs/results`) is what its data gives, and the data follows its contracts.

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
            "costs" => "matrix",
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
