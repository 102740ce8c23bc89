//! The order of the runs of a comparison.
//!
//! Drift (a machine that warms up, caches that fill, other processes) must not look like a property
//! of the contender that runs first. From repeat to repeat, contenders are therefore ordered by the
//! rows of a Williams design (Williams, "Experimental designs balanced for the estimation of
//! residual effects of treatments", 1949): after one square, each contender was once in every
//! position, and followed every other contender equally often. Concurrent runs take their seats in
//! the same order. The order of control and constrained runs, and of low and high loads, alternates
//! between repeats.

use sobench_core::case::Arm;

/// One run, by its indices in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// From 0.
    pub(super) repeat: usize,
    pub(super) contender: usize,
    pub(super) dataset: usize,
    pub(super) load: usize,
    pub(super) arm: Arm,
}

/// The numbers of contenders, datasets, loads and repeats.
#[derive(Clone, Debug)]
pub(super) struct Dimensions<'a> {
    pub(super) contenders: usize,
    pub(super) datasets: usize,
    pub(super) loads: usize,
    pub(super) repeats: usize,
    pub(super) arms: &'a [Arm],
    pub(super) sequence: Sequence,
}

/// The sequence of contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sequence {
    /// All contenders of a dataset, load and arm run concurrently.
    Concurrent,
    /// One run at a time; all contenders run a dataset and load before the next one.
    Alternating,
    /// One run at a time; a contender finishes its runs of a repeat before the next contender,
    /// because its server is started for them.
    ContenderByContender,
}

/// Contenders that sweep a dataset together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SweepGroup {
    pub(super) contenders: Vec<usize>,
    pub(super) dataset: usize,
}

/// The groups of a sweep in order.
pub(super) fn sweep_groups(dimensions: &Dimensions<'_>, repeat: usize) -> Vec<SweepGroup> {
    let contenders = row(dimensions.contenders, repeat);
    let together: Vec<Vec<usize>> = match dimensions.sequence {
        Sequence::Concurrent | Sequence::Alternating => vec![contenders],
        Sequence::ContenderByContender => contenders.into_iter().map(|one| vec![one]).collect(),
    };
    let datasets = |contenders: Vec<usize>| {
        (0..dimensions.datasets).map(move |dataset| SweepGroup {
            contenders: contenders.clone(),
            dataset,
        })
    };
    together.into_iter().flat_map(datasets).collect()
}

/// One run of every search of a group, in rounds. From turn to turn, contenders and arms are
/// ordered as from repeat to repeat. The loads follow from the searches.
pub(super) fn sweep_turn(
    dimensions: &Dimensions<'_>,
    group: &SweepGroup,
    repeat: usize,
    turn: usize,
) -> Vec<Vec<Step>> {
    let is_of_group =
        |step: &Step| step.dataset == group.dataset && group.contenders.contains(&step.contender);
    rounds_of_repeat(dimensions, repeat + turn)
        .into_iter()
        .map(|round| {
            let steps = round.into_iter().filter(is_of_group);
            steps.map(|step| Step { repeat, ..step }).collect()
        })
        .filter(|round: &Vec<Step>| !round.is_empty())
        .collect()
}

/// Every run in order. The runs of a round are concurrent, and its first run starts first.
pub(super) fn rounds(dimensions: &Dimensions<'_>) -> Vec<Vec<Step>> {
    (0..dimensions.repeats)
        .flat_map(|repeat| rounds_of_repeat(dimensions, repeat))
        .collect()
}

fn rounds_of_repeat(dimensions: &Dimensions<'_>, repeat: usize) -> Vec<Vec<Step>> {
    let is_reversed = repeat % 2 == 1;
    let indices = |count: usize| -> Vec<usize> {
        if is_reversed {
            (0..count).rev().collect()
        } else {
            (0..count).collect()
        }
    };
    let contenders = row(dimensions.contenders, repeat);
    let grid: Vec<(usize, usize)> = (0..dimensions.datasets)
        .flat_map(|dataset| {
            indices(dimensions.loads)
                .into_iter()
                .map(move |load| (dataset, load))
        })
        .collect();
    let arms: Vec<Arm> = indices(dimensions.arms.len())
        .into_iter()
        .map(|index| dimensions.arms[index])
        .collect();
    // Concurrent contenders are one group.
    let size = if dimensions.sequence == Sequence::Concurrent {
        contenders.len().max(1)
    } else {
        1
    };
    let groups: Vec<&[usize]> = contenders.chunks(size).collect();
    let group_rounds = |group: &[usize], (dataset, load): (usize, usize)| -> Vec<Vec<Step>> {
        let round = |arm: Arm| {
            group.iter().map(move |&contender| Step {
                repeat,
                contender,
                dataset,
                load,
                arm,
            })
        };
        arms.iter().map(|arm| round(*arm).collect()).collect()
    };
    match dimensions.sequence {
        Sequence::Concurrent | Sequence::Alternating => grid
            .iter()
            .flat_map(|cell| groups.iter().flat_map(|group| group_rounds(group, *cell)))
            .collect(),
        Sequence::ContenderByContender => groups
            .iter()
            .flat_map(|group| grid.iter().flat_map(|cell| group_rounds(group, *cell)))
            .collect(),
    }
}

/// The order of the contenders in a repeat: a row of a Williams design. An odd number of contenders
/// needs the square and its mirror image.
fn row(contenders: usize, repeat: usize) -> Vec<usize> {
    // 0, 1, n - 1, 2, n - 2, ...: each distance between neighbors occurs once.
    let zigzag = |position: usize| {
        if position % 2 == 1 {
            position.div_ceil(2)
        } else {
            (contenders - position / 2) % contenders
        }
    };
    let mut row: Vec<usize> = (0..contenders)
        .map(|position| (zigzag(position) + repeat) % contenders)
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

    fn steps(dimensions: &Dimensions<'_>) -> Vec<Step> {
        rounds(dimensions).into_iter().flatten().collect()
    }

    #[test]
    fn concurrent_contenders_share_every_round() {
        let arms = [Arm::Control, Arm::Constrained];
        let dimensions = Dimensions {
            contenders: 3,
            datasets: 2,
            loads: 2,
            repeats: 6,
            arms: &arms,
            sequence: Sequence::Concurrent,
        };
        let found = rounds(&dimensions);
        assert_eq!(found.len(), 2 * 2 * 6 * 2);
        let mut first = BTreeMap::new();
        for round in &found {
            let conditions = |step: &Step| (step.repeat, step.dataset, step.load, step.arm);
            assert!(
                round
                    .iter()
                    .all(|step| conditions(step) == conditions(&round[0])),
                "one dataset, load and arm at a time: {round:?}"
            );
            let contenders: BTreeSet<usize> = round.iter().map(|step| step.contender).collect();
            assert_eq!(contenders.len(), 3);
            *first.entry(round[0].contender).or_insert(0) += 1;
        }
        assert!(
            first.values().all(|count| *count == found.len() / 3),
            "every contender is first equally often: {first:?}"
        );
        let order: Vec<&str> = found
            .iter()
            .map(|round| &round[0])
            .filter(|first| first.dataset == 0 && first.load == 0 && first.repeat < 2)
            .map(|first| first.arm.name())
            .collect();
        assert_eq!(order, ["control", "constrained", "constrained", "control"]);
        let mut alternating = steps(&Dimensions {
            sequence: Sequence::Alternating,
            ..dimensions.clone()
        });
        let mut concurrent = steps(&dimensions);
        let key = |step: &Step| {
            (
                step.repeat,
                step.dataset,
                step.load,
                step.contender,
                step.arm.name(),
            )
        };
        alternating.sort_by_key(key);
        concurrent.sort_by_key(key);
        assert_eq!(concurrent, alternating, "the same runs");
    }

    #[test]
    fn every_position_and_predecessor_is_equally_frequent() {
        for contenders in 1..=7 {
            let repeats = if contenders % 2 == 1 {
                2 * contenders
            } else {
                contenders
            };
            let (mut positions, mut pairs) = (BTreeMap::new(), BTreeMap::new());
            for repeat in 0..repeats {
                let row = row(contenders, repeat);
                row.iter().enumerate().for_each(|(position, contender)| {
                    *positions.entry((position, *contender)).or_insert(0) += 1;
                });
                row.windows(2)
                    .for_each(|pair| *pairs.entry((pair[0], pair[1])).or_insert(0) += 1);
            }
            assert_eq!(positions.len(), contenders * contenders);
            assert!(
                positions
                    .values()
                    .all(|count| *count == repeats / contenders),
                "{contenders}: {positions:?}"
            );
            assert_eq!(pairs.len(), contenders * (contenders - 1));
            let expected = if contenders % 2 == 1 { 2 } else { 1 };
            assert!(
                pairs.values().all(|count| *count == expected),
                "{contenders}: {pairs:?}"
            );
        }
    }

    #[test]
    fn two_contenders_and_two_treatments_follow_abba_order() {
        let arms = [Arm::Control, Arm::Constrained];
        let dimensions = Dimensions {
            contenders: 2,
            datasets: 1,
            loads: 1,
            repeats: 2,
            arms: &arms,
            sequence: Sequence::Alternating,
        };
        let order: Vec<(usize, &str)> = steps(&dimensions)
            .iter()
            .map(|step| (step.contender, step.arm.name()))
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
    fn sweeps_reverse_the_treatments_from_turn_to_turn() {
        let arms = [Arm::Control, Arm::Constrained];
        let dimensions = |sequence| Dimensions {
            contenders: 2,
            datasets: 2,
            loads: 1,
            repeats: 1,
            arms: &arms,
            sequence,
        };
        let alternating = dimensions(Sequence::Alternating);
        let groups = sweep_groups(&alternating, 0);
        assert_eq!(groups.len(), 2, "all contenders sweep a dataset together");
        let order = |turn| -> Vec<(usize, usize, &str)> {
            sweep_turn(&alternating, &groups[1], 3, turn)
                .iter()
                .flatten()
                .map(|step| (step.repeat, step.contender, step.arm.name()))
                .collect()
        };
        let (one, other) = ("control", "constrained");
        assert_eq!(
            order(1),
            [(3, 0, one), (3, 0, other), (3, 1, one), (3, 1, other)]
        );
        assert_eq!(
            order(2),
            [(3, 1, other), (3, 1, one), (3, 0, other), (3, 0, one)]
        );
        let launched = dimensions(Sequence::ContenderByContender);
        let owners: Vec<(Vec<usize>, usize)> = sweep_groups(&launched, 1)
            .into_iter()
            .map(|group| (group.contenders, group.dataset))
            .collect();
        assert_eq!(
            owners,
            [(vec![1], 0), (vec![1], 1), (vec![0], 0), (vec![0], 1)],
            "one start of each server"
        );
        let concurrent = dimensions(Sequence::Concurrent);
        let rounds = sweep_turn(&concurrent, &groups[0], 0, 0);
        assert_eq!(rounds.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn a_launched_server_finishes_its_runs_before_the_next_starts() {
        let arms = [Arm::Control, Arm::Constrained];
        let dimensions = Dimensions {
            contenders: 3,
            datasets: 2,
            loads: 2,
            repeats: 2,
            arms: &arms,
            sequence: Sequence::ContenderByContender,
        };
        let found = steps(&dimensions);
        assert_eq!(found.len(), 3 * 2 * 2 * 2 * 2);
        let mut starts: Vec<(usize, usize)> = found
            .iter()
            .map(|step| (step.repeat, step.contender))
            .collect();
        starts.dedup();
        assert_eq!(starts.len(), 6, "one start for each contender and repeat");
        let loads: Vec<usize> = found
            .iter()
            .filter(|step| (step.contender, step.dataset) == (0, 0))
            .map(|step| step.load)
            .collect();
        assert_eq!(loads, [0, 0, 1, 1, 1, 1, 0, 0], "up, then down");
        let alternating = steps(&Dimensions {
            sequence: Sequence::Alternating,
            ..dimensions
        });
        assert_eq!(
            alternating
                .iter()
                .take(6)
                .map(|step| step.contender)
                .collect::<Vec<_>>(),
            [0, 0, 1, 1, 2, 2]
        );
    }
}
