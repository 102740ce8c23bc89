//! Assignment of LoRA modules to requests.
//!
//! `vllm bench serve` assigns them round-robin or by `random.choice`. Random assignments differ
//! from vLLM's, whose generator state depends on the dataset.

use std::sync::Arc;

use sobench_core::case::Case;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::{Lora, LoraAssignment};
use sobench_pycompat::random::PythonRandom;

/// Prefix of the tag with the module. Reports have a table by tag.
const TAG: &str = "lora:";

/// Separates this random stream from the dataset's.
const STREAM: u128 = 0x10ba << 64;

/// Sets the module and its tag on each case. Returns a notice.
pub(crate) fn assign(cases: &mut [Case], lora: &Lora, seed: u64) -> Notice {
    let modules: Vec<Arc<str>> = lora
        .modules
        .iter()
        .map(|name| Arc::from(name.as_str()))
        .collect();
    let mut random = PythonRandom::from_u128(STREAM | u128::from(seed));
    for (index, case) in cases.iter_mut().enumerate() {
        let place = match lora.assignment {
            LoraAssignment::RoundRobin => index % modules.len(),
            LoraAssignment::Random => usize::try_from(random.below(modules.len() as u64))
                .expect("the index is below a length"),
        };
        case.model = Some(Arc::clone(&modules[place]));
        case.tags.push(format!("{TAG}{}", modules[place]));
    }
    let at_random = lora.assignment == LoraAssignment::Random;
    BenchNotice::LoraModules {
        modules: lora.modules.clone(),
        at_random,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::test_request;

    fn dealt(assignment: LoraAssignment, seed: u64) -> Vec<String> {
        let mut cases: Vec<Case> = (0..40).map(|index| test_request().parts(index).0).collect();
        let modules = ["a", "b", "c"].map(str::to_owned).to_vec();
        let notice = assign(
            &mut cases,
            &Lora {
                modules,
                assignment,
            },
            seed,
        )
        .to_string();
        assert!(notice.ends_with(": a, b, c"), "{notice}");
        assert!(
            cases
                .iter()
                .all(|case| case.tags == [format!("lora:{}", case.model.as_deref().unwrap())])
        );
        cases
            .into_iter()
            .map(|case| case.model.unwrap().to_string())
            .collect()
    }

    #[test]
    fn modules_are_assigned_round_robin_or_by_the_seed() {
        assert_eq!(
            dealt(LoraAssignment::RoundRobin, 1)[..5],
            ["a", "b", "c", "a", "b"]
        );
        let drawn = dealt(LoraAssignment::Random, 1);
        assert_eq!(drawn, dealt(LoraAssignment::Random, 1));
        assert_ne!(drawn, dealt(LoraAssignment::Random, 2));
        assert!(
            ["a", "b", "c"]
                .iter()
                .all(|name| drawn.iter().any(|module| module == name))
        );
    }
}
