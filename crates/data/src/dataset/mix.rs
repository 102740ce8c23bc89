//! Several datasets interleaved in one run, for example to measure the effect of constrained
//! requests on unconstrained ones in the same batch.

use serde::{Deserialize, Serialize};

use super::registry::{ConstraintScope, Spec};
use super::{Dataset, DatasetPlan, Inputs, Source, cases, load_with};
use sobench_core::case::DATASET_TAG;
use sobench_core::error::{Error, Result};
use sobench_notices::notice::{DatasetNotice, Notice};
use sobench_pycompat::random::PythonRandom;

/// One dataset of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixPart {
    /// Relative share of the run's requests. Above 0.
    pub share: f64,
    /// The plan of the part. Its number of prompts is set by the mix.
    pub plan: DatasetPlan,
}

/// The options of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixPlan {
    /// At least two datasets, all different.
    #[serde(rename = "mix")]
    pub parts: Vec<MixPart>,
}

pub(super) const SPEC: Spec = Spec::new("mix", ConstraintScope::PerRow);

/// The error for a mix in place of a single dataset.
pub(super) fn not_a_single_dataset() -> Error {
    Error::internal("a mix has only the options and rows of its parts")
}

/// Loads every part, and interleaves the parts at random by the seed. Each part keeps its own
/// order. Requests are tagged with the name of their dataset. `plan` is the plan of the mix.
///
/// # Errors
/// The errors of each part, with its name, and a part without a request.
pub(super) fn load(mix: &MixPlan, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Dataset> {
    let counts = apportion(
        &mix.parts.iter().map(|part| part.share).collect::<Vec<_>>(),
        plan.num_prompts,
    );
    let mut parts = Vec::new();
    for (part, count) in mix.parts.iter().zip(&counts) {
        let name = part.plan.source.name();
        if *count == 0 {
            return Err(Error::usage(format!(
                "the dataset {name} has none of the {} requests",
                plan.num_prompts
            ))
            .hint("give it a larger share in --mix, or raise --num-prompts"));
        }
        let part_plan = DatasetPlan {
            num_prompts: *count,
            grammar_dialect: plan.grammar_dialect,
            grammar_spelling: plan.grammar_spelling,
            ..part.plan.clone()
        };
        let loaded = load_with(&part_plan, inputs);
        if matches!(part_plan.source, Source::Sessions(_)) {
            return Err(Error::usage("--mix with the dataset sessions")
                .hint("run sessions alone: --dataset sessions"));
        }
        parts.push((
            name,
            loaded.map_err(|error| Error {
                what: format!("--mix, {name}: {}", error.what),
                ..error
            })?,
        ));
    }
    let mut order: Vec<usize> = parts
        .iter()
        .enumerate()
        .flat_map(|(part_index, (_, part))| vec![part_index; part.cases.len()])
        .collect();
    PythonRandom::new(plan.seed).shuffle(&mut order);
    let (sources, notices): (Vec<String>, Vec<Vec<Notice>>) = parts
        .iter()
        .map(|(name, part)| {
            let with_part_name = |notice| {
                DatasetNotice::PartOfMix {
                    dataset: name.to_string(),
                    notice: Box::new(notice),
                }
                .into()
            };
            let notices = part.notices.iter().cloned().map(with_part_name).collect();
            (
                format!("{} of {name} from {}", part.cases.len(), part.source),
                notices,
            )
        })
        .unzip();
    let rows = parts.iter().map(|(_, part)| part.rows).sum();
    let converted_from = parts.iter().find_map(|(_, part)| part.converted_from);
    let mut remaining: Vec<_> = parts
        .into_iter()
        .map(|(name, part)| (name, part.cases.into_iter()))
        .collect();
    let mut all = Vec::with_capacity(order.len());
    for (index, part_index) in order.into_iter().enumerate() {
        let (name, cases) = &mut remaining[part_index];
        let mut case = cases
            .next()
            .ok_or_else(|| Error::internal("the order of a mix is longer than its cases"))?;
        case.id = format!("{name}-{index}");
        case.tags.push(format!("{DATASET_TAG}{name}"));
        all.push(case);
    }
    let sha256 = cases::sha256(&all);
    let source = sources.join("; ");
    Ok(Dataset {
        cases: all,
        rows,
        sha256,
        recorded_s: Vec::new(),
        source,
        converted_from,
        notices: notices.concat(),
    })
}

/// Whole numbers in these proportions with the sum `total`: the shares are rounded down, and the
/// largest remainders get one more (Hamilton's method). Of equal remainders the first wins.
fn apportion(shares: &[f64], total: usize) -> Vec<usize> {
    let sum: f64 = shares.iter().sum();
    let exact: Vec<f64> = shares
        .iter()
        .map(|share| share / sum * total as f64)
        .collect();
    // The small addition corrects rounding errors, so that 0.7 of 10 is 7 and not 6.
    let mut counts: Vec<usize> = exact
        .iter()
        .map(|share| (share + 1e-9).floor() as usize)
        .collect();
    let mut by_remainder: Vec<usize> = (0..shares.len()).collect();
    by_remainder.sort_by(|one, other| {
        (exact[*other] - counts[*other] as f64).total_cmp(&(exact[*one] - counts[*one] as f64))
    });
    let missing = total.saturating_sub(counts.iter().sum());
    by_remainder
        .into_iter()
        .take(missing)
        .for_each(|part_index| counts[part_index] += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_are_closest_to_the_shares() {
        for (shares, total, expected) in [
            (&[0.7, 0.2, 0.1][..], 10, &[7, 2, 1][..]),
            (&[0.7, 0.2, 0.1], 1000, &[700, 200, 100]),
            (&[1.0, 1.0, 1.0], 10, &[4, 3, 3]),
            (&[7.0, 2.0, 1.0], 11, &[8, 2, 1]),
            (&[0.99, 0.01], 10, &[10, 0]),
            (&[3.0], 5, &[5]),
        ] {
            assert_eq!(apportion(shares, total), expected, "{shares:?} of {total}");
        }
    }
}
