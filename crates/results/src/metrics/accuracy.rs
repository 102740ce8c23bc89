//! Accuracy by arm, and the effects of schema and constraint over paired items.
//!
//! An effect is the difference of two arms over the items that both have a grade for. Test and
//! interval are those of [`sobench_statistics::paired`]. Several requests of one item in an arm are
//! copies: they form a cluster.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cells::cell_of;
use super::judgement::is_correct;
use super::registry::Figure;
use super::registry::rates::{ACCURACY, ARMS_BY_ACCURACY};
use sobench_core::case::Arm;
use sobench_core::observation::Outcome;
use sobench_core::scorer::Scorer;
use sobench_facts::Sample;
use sobench_judge::accuracy::{Grade, Leaves};
use sobench_plan::dataset::Cell;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::Rate;
use sobench_statistics::paired::{
    MIN_DISCORDANT, PairedSample, Pairs, SIGNIFICANCE, TestPlan, items_needed,
    smallest_visible_effect,
};

/// The effect that sample sizes are planned for, in percentage points.
pub const PLANNED_EFFECT_PP: f64 = 3.0;

/// Fewest right answers in one of two arms for a statement that they do not differ.
pub const MIN_RIGHT: usize = 10;

/// The accuracy of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct AccuracySummary {
    /// The rules that compare answers with references.
    pub scorers: Vec<Scorer>,
    /// Items that were sent in several arms; 0 without `--arms`.
    pub items: usize,
    /// Requests that count, in all arms.
    pub requests: usize,
    /// The arms with references, in the order of tables.
    pub arms: Vec<ArmAccuracy>,
    pub effects: Vec<Effect>,
    /// `None` unless items were sent in both arms that it compares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescue: Option<Rescue>,
    /// Counts of items for each two arms.
    pub pairs: Vec<ArmPairs>,
    /// The accuracy that a guess among the choices has, if every reference is one of known choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guess_percent: Option<f64>,
}

/// The answers of one arm that have a reference.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ArmAccuracy {
    pub arm: Arm,
    pub accuracy: Option<Rate>,
    /// Valid answers among requests that can be judged by their constraint.
    pub valid: Option<Rate>,
    pub right: usize,
    /// The other requests.
    pub missed: Missed,
    /// Leaves of all answers, of the scorer `leaf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Leaves>,
    /// Output tokens of all answers / right answers.
    pub output_tokens_per_right: Option<f64>,
    /// E2EL of all answers / right answers.
    pub e2el_ms_per_right: Option<f64>,
    /// Price of all tokens / right answers; `None` without a price.
    pub usd_per_right: Option<f64>,
}

/// Requests without a right answer, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Missed {
    /// An answer with another value than the reference.
    pub wrong: usize,
    /// A complete answer in which the scorer found nothing to compare.
    pub unparsed: usize,
    /// An answer that was cut at the token limit.
    pub truncated: usize,
    /// Refused by the server or the model.
    pub refused: usize,
    /// Failed in the server, the stream or the network, or timed out.
    pub failed: usize,
}

/// What an effect compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// The schema in the prompt, in place of a question in prose.
    Prompt,
    /// The constraint beside the schema in the prompt.
    Decoder,
    /// The schema left out of the prompt, with the constraint.
    NoSchema,
    /// Thinking before the constrained answer.
    Thinking,
    /// White space forbidden, in place of any white space.
    Compact,
}

/// The difference of the accuracy of two arms, over the items of both.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Effect {
    pub kind: EffectKind,
    pub from: Arm,
    pub to: Arm,
    /// Items; the first arm is `from`.
    pub sample: PairedSample,
    /// Accuracy of `to` minus that of `from`, in percentage points, with its interval of 95 %.
    pub difference_pp: f64,
    pub low_pp: f64,
    pub high_pp: f64,
    /// Of McNemar's exact test.
    pub p_value: f64,
    /// What the items that are right only in `to` are in `from`.
    pub gained: Missed,
    /// What the items that are right only in `from` are in `to`.
    pub lost: Missed,
    /// The smallest effect that this number of items shows with 80 % power, in percentage points, if the
    /// share of items that differ is the observed one; `None` if they show none.
    pub visible_effect_pp: Option<f64>,
    /// Items needed to see [`PLANNED_EFFECT_PP`] with 80 % power.
    pub items_for_planned_effect: Option<usize>,
    pub verdict: EffectVerdict,
}

/// What the items say about an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectVerdict {
    /// More right answers, by more than chance.
    Better,
    /// Fewer right answers, by more than chance.
    Worse,
    NoDifferenceSeen,
    /// Both arms have fewer than [`MIN_RIGHT`] right answers.
    TooFewRight,
    /// Fewer items differ than McNemar's exact test needs for p < 0.05, however they differ.
    TooFewDifferences,
}

/// Items that are unparsed with the schema in the prompt only, and right with the constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Rescue {
    /// Items without a right answer in `prompt` because it was unparsed.
    pub unparsed: usize,
    /// Of them, those with a right answer in `prompt+constraint`.
    pub rescued: usize,
}

/// The items of two arms.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ArmPairs {
    pub from: Arm,
    pub to: Arm,
    #[serde(flatten)]
    pub sample: PairedSample,
}

impl EffectKind {
    /// All effects, in the order of tables.
    pub const ALL: [Self; 5] = [
        Self::Prompt,
        Self::Decoder,
        Self::NoSchema,
        Self::Thinking,
        Self::Compact,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "schema in the prompt",
            Self::Decoder => "constraint",
            Self::NoSchema => "no schema in the prompt",
            Self::Thinking => "thinking",
            Self::Compact => "no white space",
        }
    }

    /// The two arms; the effect is the second minus the first.
    pub fn arms(self) -> (Arm, Arm) {
        match self {
            Self::Prompt => (Arm::Free, Arm::Control),
            Self::Decoder => (Arm::Control, Arm::Constrained),
            Self::NoSchema => (Arm::Constrained, Arm::ConstraintOnly),
            Self::Thinking => (Arm::Constrained, Arm::ThinkConstraint),
            Self::Compact => (Arm::Flexible, Arm::Compact),
        }
    }
}

impl Missed {
    fn add(&mut self, sample: &Sample<'_>) {
        let count = match (sample.grade(), sample.outcome()) {
            (None | Some(Grade::Right), _) => return,
            (Some(Grade::Wrong), _) => &mut self.wrong,
            (Some(Grade::Unparsed), _) => &mut self.unparsed,
            (Some(Grade::Truncated), _) => &mut self.truncated,
            (
                Some(Grade::NoAnswer),
                Outcome::Rejected { .. } | Outcome::Refused { .. } | Outcome::Unsupported { .. },
            ) => &mut self.refused,
            (Some(Grade::NoAnswer), _) => &mut self.failed,
        };
        *count += 1;
    }

    /// Number of requests.
    pub fn total(&self) -> usize {
        self.wrong + self.unparsed + self.truncated + self.refused + self.failed
    }

    /// The causes with their names, in the order of tables.
    pub fn causes(&self) -> [(&'static str, usize); 5] {
        [
            ("wrong value", self.wrong),
            ("unparsed", self.unparsed),
            ("truncated", self.truncated),
            ("refused", self.refused),
            ("failed", self.failed),
        ]
    }
}

impl AccuracySummary {
    /// The accuracy of a run; `None` if no request has a reference.
    pub fn new(samples: &[Sample<'_>], options: &MetricsSettings) -> Option<Self> {
        let graded: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| sample.grade().is_some())
            .collect();
        if graded.is_empty() {
            return None;
        }
        let arms = ARMS_BY_ACCURACY;
        let items = Items::new(&graded);
        let of_arms: Vec<ArmAccuracy> = arms
            .iter()
            .filter_map(|arm| ArmAccuracy::new(*arm, samples, options))
            .collect();
        let scorers = Scorer::ALL.into_iter().filter(|scorer| {
            let mut inputs = graded.iter().map(|sample| sample.request_input());
            inputs.any(|input| input.score == Some(*scorer))
        });
        let two_arms = arms.iter().enumerate().flat_map(|(index, from)| {
            let later = arms[index + 1..].iter();
            later.map(move |to| (*from, *to))
        });
        let pairs = two_arms.filter_map(|(from, to)| {
            let sample = items.paired(from, to);
            (sample.clusters > 0).then_some(ArmPairs { from, to, sample })
        });
        Some(Self {
            scorers: scorers.collect(),
            items: items.count(),
            requests: graded.len(),
            pairs: pairs.collect(),
            effects: EffectKind::ALL
                .into_iter()
                .filter_map(|kind| Effect::new(kind, &items))
                .collect(),
            rescue: items.rescue(),
            arms: of_arms,
            guess_percent: guess_percent(&graded),
        })
    }

    /// Whether the arms that are not comparable by themselves were sent for each item.
    pub fn has_items(&self) -> bool {
        self.items > 0
    }

    /// The number of right answers of the best arm.
    pub fn most_right(&self) -> usize {
        self.arms.iter().map(|arm| arm.right).max().unwrap_or(0)
    }
}

/// The mean of one over the number of choices; `None` if one of the requests has no choices.
fn guess_percent(graded: &[&Sample<'_>]) -> Option<f64> {
    let chance = |sample: &&Sample<'_>| {
        let input = sample.request_input();
        let choices = input.constraint.as_deref()?.choices()?;
        (input.score == Some(Scorer::Choice)).then(|| 1.0 / choices.len() as f64)
    };
    let sum: f64 = graded.iter().map(chance).sum::<Option<f64>>()?;
    Some(100.0 * sum / graded.len() as f64)
}

impl ArmAccuracy {
    /// Whether as many answers are right as a guess would be, as far as the interval shows.
    pub fn is_guess(&self, guess_percent: f64) -> bool {
        self.accuracy.is_some_and(|rate| {
            rate.low_percent <= guess_percent && guess_percent <= rate.high_percent
        })
    }

    fn new(arm: Arm, samples: &[Sample<'_>], options: &MetricsSettings) -> Option<Self> {
        let of_arm: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| sample.arm() == arm && sample.grade().is_some())
            .collect();
        let accuracy = Figure::of(&ACCURACY, Some(arm)).rate(of_arm.iter().copied())?;
        let mut missed = Missed::default();
        let mut leaves: Option<Leaves> = None;
        let (mut valid, mut judged) = (0, 0);
        for sample in &of_arm {
            missed.add(sample);
            if let Some(found) = sample.leaves() {
                leaves.get_or_insert_default().add(&found);
            }
            if let Some(is_valid) = is_correct(sample.verdict()) {
                valid += usize::from(is_valid);
                judged += 1;
            }
        }
        let answers = || of_arm.iter().filter(|sample| sample.outcome().is_answer());
        let sum = |count: fn(&Sample<'_>) -> Option<u64>| -> Option<u64> {
            answers().map(|sample| count(sample)).sum()
        };
        let output = sum(|sample| sample.tokens().output);
        let input = sum(|sample| sample.tokens().input);
        let e2el_ms: Option<f64> = answers()
            .map(|sample| sample.latency(options).e2el_ms)
            .sum();
        let usd = options
            .cost_per_million
            .zip(input.zip(output))
            .map(|(price, (input, output))| price.usd(input, output));
        let per_right = |total: f64| total / accuracy.hits as f64;
        let is_any_right = accuracy.hits > 0;
        Some(Self {
            arm,
            accuracy: Some(accuracy),
            valid: Rate::new(valid, judged).filter(|_| arm.is_judged()),
            right: accuracy.hits,
            missed,
            leaves,
            output_tokens_per_right: output
                .filter(|_| is_any_right)
                .map(|tokens| per_right(tokens as f64)),
            e2el_ms_per_right: e2el_ms.filter(|_| is_any_right).map(per_right),
            usd_per_right: usd.filter(|_| is_any_right).map(per_right),
        })
    }
}

impl Effect {
    fn new(kind: EffectKind, items: &Items<'_, '_>) -> Option<Self> {
        let (from, to) = kind.arms();
        let sample = items.paired(from, to);
        let (mut gained, mut lost) = (Missed::default(), Missed::default());
        for (before, after) in items.both(from, to) {
            match (before.grade(), after.grade()) {
                (Some(Grade::Right), _) => lost.add(after),
                (_, Some(Grade::Right)) => gained.add(before),
                _ => {}
            }
        }
        Self::from_sample(kind, sample, gained, lost)
    }

    /// The effect of paired items; `None` without items.
    pub fn from_sample(
        kind: EffectKind,
        sample: PairedSample,
        gained: Missed,
        lost: Missed,
    ) -> Option<Self> {
        let (from, to) = kind.arms();
        let difference = sample.pairs.difference()?;
        let (low, high) = sample.interval(1.0 - SIGNIFICANCE)?;
        let items = sample.pairs.total() as f64;
        let discordant = sample.pairs.discordant() as f64 / items;
        // Copies are worth less than items.
        let worth = sample.effective / items;
        let visible =
            smallest_visible_effect(sample.effective as usize, discordant, TestPlan::DIFFERENCE);
        let planned = items_needed(discordant, PLANNED_EFFECT_PP / 100.0, TestPlan::DIFFERENCE);
        Some(Self {
            kind,
            from,
            to,
            difference_pp: 100.0 * difference,
            low_pp: 100.0 * low,
            high_pp: 100.0 * high,
            p_value: sample.p_value(),
            gained,
            lost,
            visible_effect_pp: visible.map(|effect| 100.0 * effect),
            items_for_planned_effect: planned.map(|items| (items as f64 / worth).ceil() as usize),
            verdict: EffectVerdict::new(&sample),
            sample,
        })
    }
}

impl EffectVerdict {
    /// What paired items say.
    pub fn new(sample: &PairedSample) -> Self {
        let pairs = &sample.pairs;
        let most_right = pairs.both + pairs.only_a.max(pairs.only_b);
        match sample.sign() {
            Some(Ordering::Greater) => Self::Better,
            Some(Ordering::Less) => Self::Worse,
            _ if most_right < MIN_RIGHT => Self::TooFewRight,
            _ if sample.clusters_a + sample.clusters_b < MIN_DISCORDANT => Self::TooFewDifferences,
            _ => Self::NoDifferenceSeen,
        }
    }
}

/// The requests of items by arm.
struct Items<'s, 'a> {
    /// By item, cell of a map, and occurrence in the arm, in the order of items.
    requests: BTreeMap<(u32, Cell, usize), Vec<&'s Sample<'a>>>,
}

impl<'s, 'a> Items<'s, 'a> {
    fn new(graded: &[&'s Sample<'a>]) -> Self {
        let mut occurrences: HashMap<(u32, Cell, Arm), usize> = HashMap::new();
        let mut requests: BTreeMap<(u32, Cell, usize), Vec<&'s Sample<'a>>> = BTreeMap::new();
        for sample in graded {
            let Some(item) = sample.item() else { continue };
            let cell = cell_of(sample);
            let times = occurrences.entry((item, cell, sample.arm())).or_default();
            requests
                .entry((item, cell, *times))
                .or_default()
                .push(sample);
            *times += 1;
        }
        Self { requests }
    }

    /// Number of items with a request that counts.
    fn count(&self) -> usize {
        self.requests
            .keys()
            .filter(|(_, _, times)| *times == 0)
            .count()
    }

    /// The requests of both arms for each item that has them.
    fn both(&self, from: Arm, to: Arm) -> impl Iterator<Item = (&'s Sample<'a>, &'s Sample<'a>)> {
        self.requests.values().filter_map(move |requests| {
            let find = |arm: Arm| {
                let mut requests = requests.iter();
                requests.find(|sample| sample.arm() == arm).copied()
            };
            Some((find(from)?, find(to)?))
        })
    }

    /// The items of both arms. Items with the same request in the first arm are copies.
    fn paired(&self, from: Arm, to: Arm) -> PairedSample {
        let mut clusters: BTreeMap<u64, Pairs> = BTreeMap::new();
        for (before, after) in self.both(from, to) {
            let is_right = |sample: &Sample<'_>| sample.grade() == Some(Grade::Right);
            let pairs = clusters.entry(before.request_hash()).or_default();
            pairs.add(is_right(before), is_right(after));
        }
        PairedSample::from_clusters(&clusters.into_values().collect::<Vec<_>>())
    }

    fn rescue(&self) -> Option<Rescue> {
        let (from, to) = EffectKind::Decoder.arms();
        let mut rescue = None;
        for (before, after) in self.both(from, to) {
            let Rescue { unparsed, rescued } = rescue.get_or_insert(Rescue {
                unparsed: 0,
                rescued: 0,
            });
            if before.grade() == Some(Grade::Unparsed) {
                *unparsed += 1;
                *rescued += usize::from(after.grade() == Some(Grade::Right));
            }
        }
        rescue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::case::Prompt;
    use sobench_facts::testing::{TestRequest, test_request, with_cases};
    use sobench_judge::accuracy::Accuracy;

    fn graded(arm: Arm, grade: Option<Grade>) -> TestRequest<'static> {
        TestRequest {
            arm,
            outcome: match grade {
                Some(Grade::Truncated) => Outcome::Truncated,
                Some(Grade::NoAnswer) => Outcome::Refused {
                    message: "policy".into(),
                },
                None => Outcome::Cancelled,
                _ => Outcome::Completed,
            },
            accuracy: grade.map(|grade| Accuracy {
                grade,
                leaves: None,
            }),
            ..test_request()
        }
    }

    /// The accuracy of items, each with a grade for `prompt` and one for `prompt+constraint`.
    fn summary(
        grades: &[(Option<Grade>, Option<Grade>)],
        prompts: usize,
        options: &MetricsSettings,
    ) -> Option<AccuracySummary> {
        let run: Vec<TestRequest<'_>> = grades
            .iter()
            .flat_map(|(prompt, constrained)| {
                [
                    graded(Arm::Control, *prompt),
                    graded(Arm::Constrained, *constrained),
                ]
            })
            .collect();
        with_cases(
            &run,
            |index, case| {
                case.item = Some(index as u32 / 2);
                case.score = Some(Scorer::Number);
                case.prompt = Prompt::Text(format!("item {}", index / 2 % prompts).into());
            },
            |samples| AccuracySummary::new(samples, options),
        )
    }

    const RIGHT: Option<Grade> = Some(Grade::Right);
    const WRONG: Option<Grade> = Some(Grade::Wrong);
    const UNPARSED: Option<Grade> = Some(Grade::Unparsed);

    #[test]
    fn arms_are_counted_and_paired_by_item() {
        let mut grades = vec![(RIGHT, RIGHT); 20];
        grades.extend(vec![(UNPARSED, RIGHT); 8]);
        grades.extend([
            (WRONG, RIGHT),
            (RIGHT, Some(Grade::Truncated)),
            (WRONG, Some(Grade::NoAnswer)),
            (UNPARSED, WRONG),
            (RIGHT, None),
        ]);
        let options = MetricsSettings {
            cost_per_million: Some(sobench_plan::metrics::TokenPrice {
                input: 1.0,
                output: 10.0,
            }),
            ..MetricsSettings::default()
        };
        let found = summary(&grades, 1000, &options).unwrap();
        assert_eq!((found.items, found.requests), (33, 65));
        assert_eq!(found.scorers, [Scorer::Number]);
        let names: Vec<_> = found.arms.iter().map(|arm| arm.arm.flag()).collect();
        assert_eq!(names, ["prompt", "prompt+constraint"]);
        let [prompt, constrained] = &found.arms[..] else {
            panic!("two arms");
        };
        assert_eq!((prompt.right, prompt.missed.total()), (22, 11));
        assert_eq!((constrained.right, constrained.missed.total()), (29, 3));
        assert_eq!(
            constrained.missed,
            Missed {
                wrong: 1,
                truncated: 1,
                refused: 1,
                ..Missed::default()
            }
        );
        // 31 answers of 3 tokens and 30 ms, 7 tokens of input.
        let near = |found: Option<f64>, expected: f64| {
            assert!((found.unwrap() - expected).abs() < 1e-9, "{found:?}");
        };
        near(constrained.output_tokens_per_right, 31.0 * 3.0 / 29.0);
        near(constrained.e2el_ms_per_right, 31.0 * 30.0 / 29.0);
        near(constrained.usd_per_right, 31.0 * (7.0 + 30.0) / 1e6 / 29.0);
        let [effect] = &found.effects[..] else {
            panic!("one effect");
        };
        assert_eq!(effect.kind, EffectKind::Decoder);
        let pairs = &effect.sample.pairs;
        assert_eq!(
            [pairs.both, pairs.only_a, pairs.only_b, pairs.neither],
            [20, 1, 9, 2]
        );
        assert_eq!((effect.gained.unparsed, effect.gained.wrong), (8, 1));
        assert_eq!(effect.lost.truncated, 1);
        near(Some(effect.difference_pp), 100.0 * 8.0 / 32.0);
        assert_eq!(effect.verdict, EffectVerdict::Better);
        assert_eq!(
            found.rescue,
            Some(Rescue {
                unparsed: 9,
                rescued: 8
            })
        );
        assert_eq!(found.pairs.len(), 1);
    }

    #[test]
    fn few_right_answers_and_few_differences_decide_nothing() {
        let verdict = |right: usize, wrong: usize, gained: usize, lost: usize| {
            let grades = [
                vec![(RIGHT, RIGHT); right],
                vec![(WRONG, WRONG); wrong],
                vec![(WRONG, RIGHT); gained],
                vec![(RIGHT, WRONG); lost],
            ]
            .concat();
            let found = summary(&grades, 10_000, &MetricsSettings::default()).unwrap();
            found.effects[0].verdict
        };
        assert_eq!(verdict(2, 195, 2, 1), EffectVerdict::TooFewRight);
        assert_eq!(verdict(0, 190, 10, 0), EffectVerdict::Better);
        assert_eq!(verdict(198, 0, 1, 1), EffectVerdict::TooFewDifferences);
        assert_eq!(verdict(90, 90, 10, 10), EffectVerdict::NoDifferenceSeen);
        assert_eq!(verdict(90, 90, 1, 19), EffectVerdict::Worse);
    }

    #[test]
    fn copies_of_an_item_are_a_cluster() {
        let grades: Vec<_> = (0..200)
            .map(|index| match index % 20 {
                0..10 => (RIGHT, RIGHT),
                10..12 => (WRONG, RIGHT),
                _ => (WRONG, WRONG),
            })
            .collect();
        let options = MetricsSettings::default();
        let single = summary(&grades, 200, &options).unwrap();
        let copied = summary(&grades, 20, &options).unwrap();
        let [single, copied] = [&single, &copied].map(|summary| &summary.effects[0]);
        assert_eq!(single.sample.pairs, copied.sample.pairs);
        assert_eq!((single.sample.clusters, copied.sample.clusters), (200, 20));
        assert!(copied.p_value > single.p_value);
        assert!(copied.high_pp - copied.low_pp > 2.0 * (single.high_pp - single.low_pp));
        assert_eq!(single.verdict, EffectVerdict::Better);
        assert_eq!(copied.verdict, EffectVerdict::TooFewDifferences);
    }

    #[test]
    fn runs_without_references_have_no_accuracy() {
        assert_eq!(
            summary(&[(None, None)], 1, &MetricsSettings::default()),
            None
        );
    }
}
