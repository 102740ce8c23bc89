//! In which order the runs of a comparison are made. Pure.
//!
//! Whatever drifts (a machine that warms up, caches that fill, neighbours that come and go) is not
//! to look like a property of whoever happens to run first. From repeat to repeat contenders
//! therefore change places by the rows of a Williams design (Williams, "Experimental designs
//! balanced for the estimation of residual effects of treatments", 1949): after one square
//! everybody was in every place once, and came right after everybody else as often. Those that run
//! at once take their seats in the same order. With and without the constraint change places from
//! repeat to repeat, and so do low and high loads.

use crate::commands::matrix::report::Treatment;

/// One run to be made, by places in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// From 0.
    pub(super) repeat: usize,
    pub(super) contender: usize,
    pub(super) dataset: usize,
    pub(super) load: usize,
    pub(super) treatment: Treatment,
}

/// How much there is of everything.
#[derive(Clone, Debug)]
pub(super) struct Extent<'a> {
    pub(super) contenders: usize,
    pub(super) datasets: usize,
    pub(super) loads: usize,
    pub(super) repeats: usize,
    pub(super) treatments: &'a [Treatment],
    pub(super) sequence: Sequence,
}

/// How contenders follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequence {
    /// All of a dataset, load and treatment at once.
    AtOnce,
    /// One run after the other, at each dataset and load in turn.
    InTurn,
    /// A contender makes all its runs of a repeat before the next one begins: its server is started
    /// for them.
    OneAtATime,
}

/// Every run in order, those that are made at once together: the first of them begins first.
pub(super) fn turns(extent: &Extent<'_>) -> Vec<Vec<Step>> {
    (0..extent.repeats)
        .flat_map(|repeat| of_repeat(extent, repeat))
        .collect()
}

fn of_repeat(extent: &Extent<'_>, repeat: usize) -> Vec<Vec<Step>> {
    let turned = repeat % 2 == 1;
    let places = |count: usize| -> Vec<usize> {
        if turned {
            (0..count).rev().collect()
        } else {
            (0..count).collect()
        }
    };
    let contenders = row(extent.contenders, repeat);
    let grid: Vec<(usize, usize)> = (0..extent.datasets)
        .flat_map(|dataset| {
            places(extent.loads)
                .into_iter()
                .map(move |load| (dataset, load))
        })
        .collect();
    let treatments: Vec<Treatment> = places(extent.treatments.len())
        .into_iter()
        .map(|place| extent.treatments[place])
        .collect();
    // Those that run at once are one group.
    let size = if extent.sequence == Sequence::AtOnce {
        contenders.len().max(1)
    } else {
        1
    };
    let groups: Vec<&[usize]> = contenders.chunks(size).collect();
    let turns_of = |group: &[usize], (dataset, load): (usize, usize)| -> Vec<Vec<Step>> {
        let turn = |treatment: Treatment| {
            group.iter().map(move |&contender| Step {
                repeat,
                contender,
                dataset,
                load,
                treatment,
            })
        };
        treatments
            .iter()
            .map(|treatment| turn(*treatment).collect())
            .collect()
    };
    match extent.sequence {
        Sequence::AtOnce | Sequence::InTurn => grid
            .iter()
            .flat_map(|cell| groups.iter().flat_map(|group| turns_of(group, *cell)))
            .collect(),
        Sequence::OneAtATime => groups
            .iter()
            .flat_map(|group| grid.iter().flat_map(|cell| turns_of(group, *cell)))
            .collect(),
    }
}

/// The contenders of a repeat in their order: a row of a Williams design. An odd number needs the
/// square and its mirror image.
fn row(contenders: usize, repeat: usize) -> Vec<usize> {
    // 0, 1, n - 1, 2, n - 2, ...: neighbours are at every distance once.
    let zigzag = |place: usize| {
        if place % 2 == 1 {
            place.div_ceil(2)
        } else {
            (contenders - place / 2) % contenders
        }
    };
    let mut row: Vec<usize> = (0..contenders)
        .map(|place| (zigzag(place) + repeat) % contenders)
        .collect();
    if contenders % 2 == 1 && repeat / contenders % 2 == 1 {
        row.reverse();
    }
    row
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn steps(extent: &Extent<'_>) -> Vec<Step> {
        turns(extent).into_iter().flatten().collect()
    }

    #[test]
    fn those_that_can_run_at_once_have_every_turn_together() {
        let treatments = [Treatment::Control, Treatment::Constrained];
        let extent = Extent {
            contenders: 3,
            datasets: 2,
            loads: 2,
            repeats: 6,
            treatments: &treatments,
            sequence: Sequence::AtOnce,
        };
        let found = turns(&extent);
        assert_eq!(found.len(), 2 * 2 * 6 * 2);
        let mut first = BTreeMap::new();
        for turn in &found {
            let same = |it: &Step| (it.repeat, it.dataset, it.load, it.treatment);
            assert!(
                turn.iter().all(|step| same(step) == same(&turn[0])),
                "one constraint, one load at a time: {turn:?}"
            );
            let contenders: BTreeSet<usize> = turn.iter().map(|step| step.contender).collect();
            assert_eq!(contenders.len(), 3);
            *first.entry(turn[0].contender).or_insert(0) += 1;
        }
        assert!(
            first.values().all(|count| *count == found.len() / 3),
            "everybody begins as often: {first:?}"
        );
        let order: Vec<&str> = found
            .iter()
            .filter(|it| it[0].dataset == 0 && it[0].load == 0 && it[0].repeat < 2)
            .map(|it| it[0].treatment.name())
            .collect();
        assert_eq!(order, ["control", "constrained", "constrained", "control"]);
        let mut in_turn = steps(&Extent {
            sequence: Sequence::InTurn,
            ..extent.clone()
        });
        let mut at_once = steps(&extent);
        let key = |it: &Step| {
            (
                it.repeat,
                it.dataset,
                it.load,
                it.contender,
                it.treatment.name(),
            )
        };
        in_turn.sort_by_key(key);
        at_once.sort_by_key(key);
        assert_eq!(at_once, in_turn, "the same runs");
    }

    #[test]
    fn everybody_has_every_place_and_every_predecessor_as_often() {
        for contenders in 1..=7 {
            let repeats = if contenders % 2 == 1 {
                2 * contenders
            } else {
                contenders
            };
            let (mut places, mut neighbours) = (BTreeMap::new(), BTreeMap::new());
            for repeat in 0..repeats {
                let row = row(contenders, repeat);
                row.iter()
                    .enumerate()
                    .for_each(|it| *places.entry((it.0, *it.1)).or_insert(0) += 1);
                row.windows(2)
                    .for_each(|pair| *neighbours.entry((pair[0], pair[1])).or_insert(0) += 1);
            }
            assert_eq!(places.len(), contenders * contenders);
            assert!(
                places.values().all(|count| *count == repeats / contenders),
                "{contenders}: {places:?}"
            );
            assert_eq!(neighbours.len(), contenders * (contenders - 1));
            let often = if contenders % 2 == 1 { 2 } else { 1 };
            assert!(
                neighbours.values().all(|count| *count == often),
                "{contenders}: {neighbours:?}"
            );
        }
    }

    #[test]
    fn two_contenders_and_two_treatments_go_abba() {
        let treatments = [Treatment::Control, Treatment::Constrained];
        let extent = Extent {
            contenders: 2,
            datasets: 1,
            loads: 1,
            repeats: 2,
            treatments: &treatments,
            sequence: Sequence::InTurn,
        };
        let order: Vec<(usize, &str)> = steps(&extent)
            .iter()
            .map(|it| (it.contender, it.treatment.name()))
            .collect();
        let (one, other) = ("control", "constrained");
        assert_eq!(
            order,
            [
                (0, one),
                (0, other),
                (1, one),
                (1, other),
                (1, other),
                (1, one),
                (0, other),
                (0, one)
            ]
        );
    }

    #[test]
    fn a_server_that_is_started_makes_all_its_runs_before_the_next() {
        let treatments = [Treatment::Control, Treatment::Constrained];
        let extent = Extent {
            contenders: 3,
            datasets: 2,
            loads: 2,
            repeats: 2,
            treatments: &treatments,
            sequence: Sequence::OneAtATime,
        };
        let found = steps(&extent);
        assert_eq!(found.len(), 3 * 2 * 2 * 2 * 2);
        let mut starts: Vec<(usize, usize)> =
            found.iter().map(|it| (it.repeat, it.contender)).collect();
        starts.dedup();
        assert_eq!(starts.len(), 6, "one start for each contender and repeat");
        let loads: Vec<usize> = found
            .iter()
            .filter(|it| (it.contender, it.dataset) == (0, 0))
            .map(|it| it.load)
            .collect();
        assert_eq!(loads, [0, 0, 1, 1, 1, 1, 0, 0], "up, then down");
        let beside = steps(&Extent {
            sequence: Sequence::InTurn,
            ..extent
        });
        assert_eq!(
            beside
                .iter()
                .take(6)
                .map(|it| it.contender)
                .collect::<Vec<_>>(),
            [0, 0, 1, 1, 2, 2]
        );
    }
}
