//! Compares datasets with the results of vLLM's own classes for the same files and seed:
//! `fixtures/datasets/golden.json`.

use serde_json::Value;

use super::tests::tokenizer;
use super::{Dataset, DatasetPlan, load};
use sobench_core::case::{Arm, Prompt};
use sobench_core::constraint::sha256_hex;

const GOLDEN: &str = include_str!("../../../../fixtures/datasets/golden.json");

/// Loads the plan, and compares every prompt, its length and the answer length with
/// `golden[dataset][name]`.
#[track_caller]
pub(super) fn check(plan: &DatasetPlan, dataset: &str, name: &str) -> Dataset {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let expected = golden[dataset][name].as_array().unwrap();
    let loaded = load(plan, &tokenizer()).unwrap();
    assert_eq!(loaded.cases.len(), expected.len(), "{dataset} {name}");
    for (index, (case, expected)) in loaded.cases.iter().zip(expected).enumerate() {
        let Prompt::Text(text) = &case.prompt else {
            panic!("expected a text, not {}", case.prompt.kind())
        };
        assert_eq!(
            expected[0],
            sha256_hex(text.as_bytes()),
            "{dataset} {name} {index}: {text:?}"
        );
        assert_eq!(
            expected[2].as_u64(),
            Some(u64::from(case.output_len)),
            "{dataset} {name} {index}"
        );
        assert_eq!((case.arm, &case.constraint), (Arm::Free, &None));
    }
    loaded
}

/// The prompt lengths that vLLM reports.
pub(super) fn lengths(dataset: &str, name: &str) -> Vec<u64> {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    golden[dataset][name]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|request| request[1].as_u64())
        .collect()
}
