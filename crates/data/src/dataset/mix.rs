//! Several datasets in one run, their requests among each other: what constrained requests do to
//! their neighbours in the batch shows only where both are there.

use serde::{Deserialize, Serialize};

use super::registry::{Constrained, Spec};
use super::{Dataset, DatasetPlan, cases, load_with};
use crate::hub::HubSettings;
use crate::tokenizer::Tokenizer;
use sobench_core::case::DATASET_TAG;
use sobench_core::error::{Error, Result};
use sobench_notices::notice::{DatasetNotice, Notice};
use sobench_pycompat::random::PythonRandom;

/// One dataset of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixPart {
    /// How many of the run's requests are its, beside the others' shares; above 0.
    pub share: f64,
    /// The number of its prompts is the mix's matter.
    pub plan: DatasetPlan,
}

/// The options of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixPlan {
    /// At least two datasets, each once.
    #[serde(rename = "mix")]
    pub parts: Vec<MixPart>,
}

pub(super) const SPEC: Spec = Spec::new("mix", Constrained::ByTheRow);

/// The error where a mix is taken for one of its datasets.
pub(super) fn unnamed() -> Error {
    Error::internal("a mix has no options and rows but those of its parts")
}

/// Loads every part, and shuffles the parts among each other by the seed; each part keeps its own
/// order. Requests are tagged with their dataset's name. `plan` is that of the mix.
///
/// # Errors
/// As for each part, with its name; or a part is so small that it has no request.
pub(super) fn load(
    mix: &MixPlan,
    plan: &DatasetPlan,
    tokenizer: &Tokenizer,
    hub: &HubSettings,
) -> Result<Dataset> {
    let counts = apportioned(
        &mix.parts.iter().map(|part| part.share).collect::<Vec<_>>(),
        plan.num_prompts,
    );
    let mut parts = Vec::new();
    for (part, count) in mix.parts.iter().zip(&counts) {
        let name = part.plan.name();
        if *count == 0 {
            return Err(Error::usage(format!(
                "of {} requests none is of the dataset {name}",
                plan.num_prompts
            ))
            .hint("give it a larger share in --mix, or raise --num-prompts"));
        }
        let of_part = DatasetPlan {
            num_prompts: *count,
            grammar_dialect: plan.grammar_dialect,
            grammar_spelling: plan.grammar_spelling,
            ..part.plan.clone()
        };
        let loaded = load_with(&of_part, tokenizer, hub);
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
        .flat_map(|(place, (_, part))| vec![place; part.cases.len()])
        .collect();
    PythonRandom::new(plan.seed).shuffle(&mut order);
    let (sources, notices): (Vec<String>, Vec<Vec<Notice>>) = parts
        .iter()
        .map(|(name, part)| {
            let of_mix = |notice| {
                DatasetNotice::PartOfMix {
                    dataset: name.to_string(),
                    notice: Box::new(notice),
                }
                .into()
            };
            let notices = part.notices.iter().cloned().map(of_mix).collect();
            (
                format!("{} of {name} from {}", part.cases.len(), part.source),
                notices,
            )
        })
        .unzip();
    let rows = parts.iter().map(|(_, part)| part.rows).sum();
    let converted_from = parts.iter().find_map(|(_, part)| part.converted_from);
    let mut rest: Vec<_> = parts
        .into_iter()
        .map(|(name, part)| (name, part.cases.into_iter()))
        .collect();
    let mut all = Vec::with_capacity(order.len());
    for (index, place) in order.into_iter().enumerate() {
        let (name, cases) = &mut rest[place];
        let mut case = cases
            .next()
            .ok_or_else(|| Error::internal("a mix with more places than cases"))?;
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
        source,
        converted_from,
        notices: notices.concat(),
    })
}

/// Whole numbers in these proportions that add up to `total`: each has its share rounded down, and
/// the largest remainders get one more (Hamilton's method); ties go by place.
fn apportioned(shares: &[f64], total: usize) -> Vec<usize> {
    let sum: f64 = shares.iter().sum();
    let exact: Vec<f64> = shares
        .iter()
        .map(|share| share / sum * total as f64)
        .collect();
    // A hair more, so that 0.7 of 10 is 7 and not, by a rounding error, 6.
    let mut counts: Vec<usize> = exact
        .iter()
        .map(|share| (share + 1e-9).floor() as usize)
        .collect();
    let mut places: Vec<usize> = (0..shares.len()).collect();
    places.sort_by(|one, other| {
        (exact[*other] - counts[*other] as f64).total_cmp(&(exact[*one] - counts[*one] as f64))
    });
    let missing = total.saturating_sub(counts.iter().sum());
    places
        .into_iter()
        .take(missing)
        .for_each(|place| counts[place] += 1);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_are_as_close_to_their_shares_as_whole_numbers_can_be() {
        for (shares, total, expected) in [
            (&[0.7, 0.2, 0.1][..], 10, &[7, 2, 1][..]),
            (&[0.7, 0.2, 0.1], 1000, &[700, 200, 100]),
            (&[1.0, 1.0, 1.0], 10, &[4, 3, 3]),
            (&[7.0, 2.0, 1.0], 11, &[8, 2, 1]),
            (&[0.99, 0.01], 10, &[10, 0]),
            (&[3.0], 5, &[5]),
        ] {
            assert_eq!(
                apportioned(shares, total),
                expected,
                "{shares:?} of {total}"
            );
        }
    }
}
