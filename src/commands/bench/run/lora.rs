//! LoRA modules dealt out to the requests of a run. Knows no server.
//!
//! `vllm bench serve` deals them out in turn or by `random.choice`; which request gets which by
//! chance is not the same here, as the state of its generator depends on what the dataset drew
//! before.

use std::sync::Arc;

use sobench_core::case::Case;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_pycompat::random::PythonRandom;
use sobench_results::record::{Lora, LoraAssignment};

/// What the tag of a request begins with; the module follows. Reports have a table by tag.
const TAG: &str = "lora:";

/// Keeps what is drawn here apart from what the dataset draws by the same seed.
const STREAM: u128 = 0x10ba << 64;

/// Gives each case its module, and a tag that says so. Returns what the reader of the result has to
/// know.
pub(crate) fn assign(cases: &mut [Case], lora: &Lora, seed: u64) -> Notice {
    let modules: Vec<Arc<str>> = lora
        .modules
        .iter()
        .map(|name| Arc::from(name.as_str()))
        .collect();
    let mut random = PythonRandom::from_big(STREAM | u128::from(seed));
    for (index, case) in cases.iter_mut().enumerate() {
        let place = match lora.assignment {
            LoraAssignment::RoundRobin => index % modules.len(),
            LoraAssignment::Random => {
                usize::try_from(random.below(modules.len() as u64)).expect("it is below a length")
            }
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
    use sobench_results::metrics::testing::made;

    fn dealt(assignment: LoraAssignment, seed: u64) -> Vec<String> {
        let mut cases: Vec<Case> = (0..40).map(|index| made().parts(index).0).collect();
        let modules = ["a", "b", "c"].map(str::to_owned).to_vec();
        let words = assign(
            &mut cases,
            &Lora {
                modules,
                assignment,
            },
            seed,
        )
        .to_string();
        assert!(words.ends_with(": a, b, c"), "{words}");
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
    fn modules_are_dealt_out_in_turn_or_by_the_seed() {
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
                .all(|name| drawn.iter().any(|it| it == name))
        );
    }
}
