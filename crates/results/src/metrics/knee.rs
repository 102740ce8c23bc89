//! The highest load that is carried: the valid goodput knee. Knows no request and no unit.
//!
//! A load is carried where the share of constrained requests that were valid *and* met every
//! objective reaches the share that is asked for. Goodput under a target of attainment is
//! DistServe's notion (Zhong et al., OSDI 2024); that an answer has to be valid is ours.

use serde::Serialize;

use sobench_statistics::Rate;

/// What a sweep over loads says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Knee<L> {
    /// The highest load of the sweep that is carried.
    At {
        load: L,
        share: Rate,
        /// Whether it is the highest of all, so that the knee may lie beyond the sweep.
        is_highest: bool,
        /// A lower load that is not carried: the sweep is not monotonous there.
        lower_missed: Option<L>,
    },
    /// No load of the sweep is carried; the share at the lowest one.
    Nowhere { lowest: L, share: Rate },
    /// Some load could not be measured, or the objectives could not be checked.
    Unknown,
}

/// Reads a sweep, from the lowest load to the highest. A load that could not be measured makes the
/// answer unknown.
pub fn knee<L: Copy>(sweep: &[(L, Option<Rate>)], share_percent: f64) -> Knee<L> {
    let known: Option<Vec<(L, Rate)>> = sweep
        .iter()
        .map(|(load, share)| Some((*load, (*share)?)))
        .collect();
    let Some(known) = known else {
        return Knee::Unknown;
    };
    let carries = |(_, share): &(L, Rate)| share.percent >= share_percent;
    let (Some((lowest, share)), highest) =
        (known.first().copied(), known.iter().rposition(carries))
    else {
        return Knee::Unknown;
    };
    let Some(place) = highest else {
        return Knee::Nowhere { lowest, share };
    };
    let (load, share) = known[place];
    let lower_missed = known[..place]
        .iter()
        .find(|it| !carries(it))
        .map(|(load, _)| *load);
    Knee::At {
        load,
        share,
        is_highest: place + 1 == known.len(),
        lower_missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(hits: usize) -> Option<Rate> {
        Rate::of(hits, 100)
    }

    #[test]
    fn the_highest_load_that_is_carried_is_the_knee() {
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
