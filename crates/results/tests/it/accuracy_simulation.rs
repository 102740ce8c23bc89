//! Simulated runs with planted accuracies, for the trial of intervals, rules and sample sizes.
//!
//! An item is right in two arms with the planted probabilities and the planted correlation between
//! the arms, so that the true difference is known. Copies of an item repeat its first result with a
//! planted probability. Everything else is what reports and rules compute.

use sobench_results::compare::gate::non_inferiority;
use sobench_results::metrics::accuracy::{EffectVerdict, PLANNED_EFFECT_PP};
use sobench_statistics::Rate;
use sobench_statistics::bootstrap::SplitMix;
use sobench_statistics::contrast::{BROKEN_BY_CHANCE, KEPT_BY_CHANCE, KEPT_LEVEL, broken_level};
use sobench_statistics::paired::{
    PairedSample, Pairs, SIGNIFICANCE, TestPlan, items_needed, smallest_visible_effect,
};

/// The margin of the rules, as in `accuracy(prompt+constraint)>=accuracy(prompt)-3pp`.
const MARGIN: f64 = 0.03;

/// Items that are sent in two arms.
#[derive(Clone, Copy, Debug)]
struct Design {
    items: usize,
    /// The probability of a right answer in each arm.
    right: [f64; 2],
    /// The correlation of the two answers to an item.
    correlation: f64,
    /// Requests of each item in an arm.
    copies: usize,
    /// The probability that a copy has the result of the first one.
    repeated: f64,
}

/// One figure of a trial, in percent of the runs, with its limits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Check {
    pub(crate) what: String,
    pub(crate) percent: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Check {
    /// Whether the figure is within its limits, widened by this many percentage points.
    pub(crate) fn is_met(&self, slack: f64) -> bool {
        (self.least - slack..=self.most + slack).contains(&self.percent)
    }
}

const fn design(items: usize, right: [f64; 2], correlation: f64) -> Design {
    Design {
        items,
        right,
        correlation,
        copies: 1,
        repeated: 0.0,
    }
}

const fn copied(copies: usize, repeated: f64, design: Design) -> Design {
    Design {
        copies,
        repeated,
        ..design
    }
}

/// Designs with planted effects, from weak models to nearly perfect ones.
const DESIGNS: [Design; 9] = [
    design(200, [0.6, 0.6], 0.5),
    design(200, [0.6, 0.7], 0.5),
    design(200, [0.9, 0.94], 0.3),
    design(200, [0.1, 0.15], 0.3),
    design(50, [0.4, 0.55], 0.5),
    design(1000, [0.75, 0.72], 0.7),
    design(500, [0.5, 0.45], 0.0),
    copied(4, 0.5, design(60, [0.5, 0.6], 0.3)),
    copied(5, 1.0, design(100, [0.7, 0.7], 0.4)),
];

/// Designs whose second arm is worse by [`MARGIN`].
const AT_MARGIN: [Design; 7] = [
    design(400, [0.63, 0.6], 0.5),
    design(400, [0.93, 0.9], 0.3),
    design(1000, [0.78, 0.75], 0.7),
    design(200, [0.23, 0.2], 0.4),
    // Few items differ.
    design(200, [0.6, 0.57], 0.9),
    design(400, [0.5, 0.47], 0.93),
    copied(4, 0.5, design(100, [0.53, 0.5], 0.3)),
];

/// Shares of differing items, and effects, that sizes are planned for.
const PLANS: [(f64, f64); 4] = [
    (0.09, 0.05),
    (0.2, PLANNED_EFFECT_PP / 100.0),
    (0.3, 0.1),
    (0.12, 0.12),
];

/// Items, and shares of differing ones, whose smallest visible effect is planted.
const VISIBLE: [(usize, f64); 3] = [(100, 0.15), (200, 0.1), (1000, 0.25)];

/// Simulates `runs` runs of each design.
pub(crate) fn simulate(runs: usize, seed: u64) -> Vec<Check> {
    let share = |hits: usize| 100.0 * hits as f64 / runs as f64;
    let mut checks = Vec::new();
    let mut stream = seed;
    let mut samples = |design: Design| -> Vec<PairedSample> {
        stream += 1;
        let run = |index| design.draw(&mut SplitMix::new(stream, index as u64));
        (0..runs).map(run).collect()
    };
    for design in DESIGNS {
        let truth = design.right[1] - design.right[0];
        let drawn = samples(design);
        let covering = drawn.iter().filter(|sample| {
            let interval = sample.interval(1.0 - SIGNIFICANCE);
            interval.is_some_and(|(low, high)| low <= truth && truth <= high)
        });
        checks.push(Check {
            what: format!("95 % intervals cover the effect: {}", design.name()),
            percent: share(covering.count()),
            least: 93.0,
            most: 98.0,
        });
        if design.copies == 1 {
            let covering = drawn.iter().filter(|sample| {
                let pairs = &sample.pairs;
                let rate = Rate::new(pairs.both + pairs.only_a, pairs.total());
                rate.is_some_and(|rate| {
                    let truth = 100.0 * design.right[0];
                    rate.low_percent <= truth && truth <= rate.high_percent
                })
            });
            checks.push(Check {
                what: format!("95 % intervals cover the accuracy: {}", design.name()),
                percent: share(covering.count()),
                least: 93.0,
                most: 98.0,
            });
        }
        if truth == 0.0 {
            let found = drawn.iter().filter(|sample| is_found(sample));
            checks.push(Check {
                what: format!("effects found where none was planted: {}", design.name()),
                percent: share(found.count()),
                least: 0.0,
                most: 6.6,
            });
            checks.push(ruled(
                &drawn,
                false,
                "not met, of equal arms",
                design,
                &share,
            ));
        }
    }
    for design in AT_MARGIN {
        let drawn = samples(design);
        for (is_met, what) in [
            (true, "met, at the margin"),
            (false, "not met, at the margin"),
        ] {
            checks.push(ruled(&drawn, is_met, what, design, &share));
        }
    }
    let planned = PLANS.map(|(discordant, effect)| {
        let items = items_needed(discordant, effect, TestPlan::DIFFERENCE).unwrap_or_default();
        (items, discordant, effect)
    });
    let visible = VISIBLE.map(|(items, discordant)| {
        let effect =
            smallest_visible_effect(items, discordant, TestPlan::DIFFERENCE).unwrap_or(1.0);
        (items, discordant, effect)
    });
    for (items, discordant, effect) in planned.into_iter().chain(visible) {
        let design = Design::from_differing(items, discordant, effect);
        let found = samples(design)
            .iter()
            .filter(|sample| EffectVerdict::new(sample) == EffectVerdict::Better)
            .count();
        checks.push(Check {
            what: format!(
                "{items} items find {:.2} pp ({:.0} % differ)",
                100.0 * effect,
                100.0 * discordant.max(effect)
            ),
            percent: share(found),
            least: 100.0 * TestPlan::DIFFERENCE.power - 3.0,
            most: 100.0 * TestPlan::DIFFERENCE.power + 3.0,
        });
    }
    checks
}

fn is_found(sample: &PairedSample) -> bool {
    let verdict = EffectVerdict::new(sample);
    [EffectVerdict::Better, EffectVerdict::Worse].contains(&verdict)
}

/// How often the rule of [`MARGIN`] is met, or not met, although it is not, or is.
fn ruled(
    drawn: &[PairedSample],
    is_met: bool,
    what: &str,
    design: Design,
    share: &impl Fn(usize) -> f64,
) -> Check {
    let decided = drawn.iter().filter(|sample| {
        let [kept, broken] =
            [KEPT_LEVEL, broken_level(1)].map(|level| sample.one_sided_bounds(level));
        let bounds = kept.zip(broken);
        bounds.and_then(|((low, _), (_, high))| non_inferiority(low, high, MARGIN)) == Some(is_met)
    });
    let error = if is_met {
        KEPT_BY_CHANCE
    } else {
        BROKEN_BY_CHANCE
    };
    Check {
        what: format!("rule {what}: {}", design.name()),
        percent: share(decided.count()),
        least: 0.0,
        most: 100.0 * error + 0.6 * (error / BROKEN_BY_CHANCE).sqrt(),
    }
}

impl Design {
    /// Items of which a share differs, and the second arm is better by `effect`.
    fn from_differing(items: usize, discordant: f64, effect: f64) -> Self {
        let discordant = discordant.max(effect);
        let first = 0.5 - effect / 2.0;
        let second = first + effect;
        let both = (first + second - discordant) / 2.0;
        let spread = (first * (1.0 - first) * second * (1.0 - second)).sqrt();
        design(items, [first, second], (both - first * second) / spread)
    }

    /// The probabilities of an item that is right in both arms, only in the first, only in the
    /// second.
    fn cells(&self) -> [f64; 3] {
        let [a, b] = self.right;
        let spread = (a * (1.0 - a) * b * (1.0 - b)).sqrt();
        let both = a * b + self.correlation * spread;
        assert!(
            both <= a.min(b) + 1e-9 && both >= a + b - 1.0 - 1e-9,
            "the correlation is possible: {self:?}"
        );
        [both, a - both, b - both]
    }

    /// The paired items of a run.
    fn draw(&self, random: &mut SplitMix) -> PairedSample {
        let [both, only_a, only_b] = self.cells();
        let one = |random: &mut SplitMix| match random.unit() {
            place if place < both => (true, true),
            place if place < both + only_a => (true, false),
            place if place < both + only_a + only_b => (false, true),
            _ => (false, false),
        };
        let clusters: Vec<Pairs> = (0..self.items)
            .map(|_| {
                let mut pairs = Pairs::default();
                let first = one(random);
                pairs.add(first.0, first.1);
                for _ in 1..self.copies {
                    let (a, b) = if random.unit() < self.repeated {
                        first
                    } else {
                        one(random)
                    };
                    pairs.add(a, b);
                }
                pairs
            })
            .collect();
        PairedSample::from_clusters(&clusters)
    }

    fn name(&self) -> String {
        let copies = if self.copies == 1 {
            String::new()
        } else {
            format!(
                " x {} copies, {:.0} % repeated",
                self.copies,
                100.0 * self.repeated
            )
        };
        let [a, b] = self.right.map(|right| 100.0 * right);
        format!(
            "{} items{copies}, {a:.0} % and {b:.0} % right, correlation {:.1}",
            self.items, self.correlation
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With fewer runs and wider limits than `examples/accuracy_simulation.rs`.
    #[test]
    fn intervals_rules_and_sizes_keep_their_promises() {
        let checks = simulate(200, 1);
        assert!(checks.len() > 30);
        for check in checks {
            let slack = if check.least > 0.0 { 6.0 } else { 3.0 };
            assert!(check.is_met(slack), "{check:?}");
        }
    }
}
