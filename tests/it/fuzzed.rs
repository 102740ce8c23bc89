//! Runs the fuzz checks on every input that ever failed, and on some that passed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use sobench_testkit::repository_path;

#[path = "../../fuzz/checks/mod.rs"]
mod checks;

#[test]
fn inputs_found_by_fuzzing_pass() {
    let mut broken = Vec::new();
    for (name, _) in checks::CHECKS {
        let folder = repository_path("fixtures/fuzz").join(name);
        let mut inputs: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "no inputs in {}", folder.display());
        for input in inputs {
            let bytes = fs::read(&input).unwrap();
            if catch_unwind(AssertUnwindSafe(|| checks::run(name, &bytes))).is_err() {
                broken.push(format!("{name}: {}", input.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn fuzz_checks_and_targets_match() {
    let manifest = fs::read_to_string(repository_path("fuzz/Cargo.toml")).unwrap();
    let mut targets: Vec<_> = manifest
        .lines()
        .filter_map(|line| {
            line.strip_prefix("path = \"targets/")?
                .strip_suffix(".rs\"")
        })
        .collect();
    let mut checks = checks::CHECKS.map(|(name, _)| name);
    targets.sort_unstable();
    checks.sort_unstable();
    assert_eq!(targets, checks);
    for name in checks {
        let target =
            fs::read_to_string(repository_path("fuzz/targets").join(format!("{name}.rs"))).unwrap();
        assert!(
            target.contains(&format!("checks::run(\"{name}\", bytes)")),
            "{target}"
        );
    }
}
