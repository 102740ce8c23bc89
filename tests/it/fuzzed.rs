//! The promises that fuzzing holds, on every input that once broke one and on a few that did not.
//! Knows no promise.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use sobench_testkit::in_package;

#[path = "../../fuzz/checks/mod.rs"]
mod checks;

#[test]
fn what_fuzzing_found_stays_mended() {
    let mut broken = Vec::new();
    for (name, _) in checks::CHECKS {
        let folder = in_package("fixtures/fuzz").join(name);
        let mut inputs: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(
            !inputs.is_empty(),
            "nothing to check in {}",
            folder.display()
        );
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
fn every_check_is_a_target_and_every_target_a_check() {
    let manifest = fs::read_to_string(in_package("fuzz/Cargo.toml")).unwrap();
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
            fs::read_to_string(in_package("fuzz/targets").join(format!("{name}.rs"))).unwrap();
        assert!(
            target.contains(&format!("checks::run(\"{name}\", bytes)")),
            "{target}"
        );
    }
}
