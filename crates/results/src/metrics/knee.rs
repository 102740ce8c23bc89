//! The valid goodput knee: the highest sustained load of a sweep.
//!
//! A load is sustained if the share of constrained requests that are valid *and* meet every
//! objective reaches the target. Goodput with an attainment target is from DistServe (Zhong et al.,
//! OSDI 2024); the validity condition is ours.

use serde::Serialize;

use sobench_statistics::Rate;

/// The result of a sweep over loads.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Knee<L> {
    /// The highest sustained load of the sweep.
    At {
        load: L,
        share: Rate,
        /// Whether it is the highest load of the sweep, so that the knee may be higher.
        is_highest: bool,
        /// A lower load that is not sustained: the sweep is not monotonic.
        lower_missed: Option<L>,
    },
    /// No load of the sweep is sustained; the share at the lowest load.
    Nowhere { lowest: L, share: Rate },
    /// A load could not be measured, or the objectives could not be checked.
    Unknown,
}

/// Finds the knee of a sweep in ascending order. A load without a share makes the result unknown.
pub fn knee<L: Copy>(sweep: &[(L, Option<Rate>)], share_percent: f64) -> Knee<L> {
    let known: Option<Vec<(L, Rate)>> = sweep
        .iter()
        .map(|(load, share)| Some((*load, (*share)?)))
        .collect();
    let Some(known) = known else {
        return Knee::Unknown;
    };
    let is_sustained = |(_, share): &(L, Rate)| share.percent >= share_percent;
    let (Some((lowest, share)), highest) =
        (known.first().copied(), known.iter().rposition(is_sustained))
    else {
        return Knee::Unknown;
    };
    let Some(index) = highest else {
        return Knee::Nowhere { lowest, share };
    };
    let (load, share) = known[index];
    let lower_missed = known[..index]
        .iter()
        .find(|load_and_share| !is_sustained(load_and_share))
        .map(|(load, _)| *load);
    Knee::At {
        load,
        share,
        is_highest: index + 1 == known.len(),
        lower_missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(hits: usize) -> Option<Rate> {
        Rate::new(hits, 100)
    }

    #[test]
    fn knee_is_the_highest_sustained_load() {
        let at = |load: u32, hits: usize, is_highest: bool, lower_missed: Option<u32>| Knee::At {
            load,
            share: rate(hits).unwrap(),
            is_highest,
            lower_missed,
        };
        for (shares, expected) in [
            (&[Some(100), Some(99), Some(98)][..], at(1, 99, false, None)),
            (&[Some(100), Some(99), Some(99)], at(2, 99, true, None)),
            (&[Some(100), Some(50), Some(99)], at(2, 99, true, Some(1))),
            (
                &[Some(98), Some(97)],
                Knee::Nowhere {
                    lowest: 0,
                    share: rate(98).unwrap(),
                },
            ),
            (&[Some(100), None], Knee::Unknown),
            (&[], Knee::Unknown),
        ] {
            let sweep: Vec<(u32, Option<Rate>)> = (0..)
                .zip(shares.iter().map(|hits| hits.and_then(rate)))
                .collect();
            assert_eq!(knee(&sweep, 99.0), expected, "{shares:?}");
        }
    }
}
