//! Accuracy by arm, the effects of schema and constraint, and what they say.

use super::Report;
use super::map::interval;
use super::text::figure;
use sobench_core::case::Arm;
use sobench_render::{Document, Table};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::accuracy::{
    AccuracySummary, ArmAccuracy, Effect, EffectVerdict, MIN_RIGHT, Missed, PLANNED_EFFECT_PP,
};
use sobench_statistics::Rate;
use sobench_statistics::paired::MIN_DISCORDANT;

pub(crate) const ARMS: &str = "Accuracy by arm (95 % interval)";
pub(crate) const EFFECTS: &str =
    "Effects on accuracy over paired items (percentage points, 95 % interval)";
pub(crate) const MISSED: &str = "Requests without a right answer (count)";
pub(crate) const LEAVES: &str = "Leaves of answers (share of those of the references)";

/// Width of the column of two arms.
const ARMS_WIDTH: usize = 20;

/// Fewest unparsed answers of an arm without another that have a sentence.
const MIN_UNPARSED: usize = 2;

/// Digits of a cost in USD.
const USD_DIGITS: usize = 6;

/// Adds the tables and sentences.
pub(crate) fn add(page: &mut Document, report: &Report) {
    let Some(accuracy) = &report.metrics.accuracy else {
        return;
    };
    page.heading("Accuracy");
    page.paragraph(requests_sentence(accuracy));
    for (title, table) in tables(report, accuracy) {
        page.minor_heading(title);
        page.table(table);
    }
    page.gap();
    page.paragraphs(sentences(accuracy));
}

/// The tables with their titles.
fn tables(report: &Report, accuracy: &AccuracySummary) -> Vec<(&'static str, Table)> {
    let tables = [
        (ARMS, Some(arms(report, accuracy))),
        (MISSED, Some(missed(report, accuracy))),
        (LEAVES, leaves(report, accuracy)),
        (EFFECTS, effects(accuracy)),
    ];
    let tables = tables.into_iter();
    tables
        .filter_map(|(title, table)| Some((title, table?)))
        .collect()
}

/// The name of an arm: that of `--arms` in a run with several arms of each item.
pub(crate) fn arm_name(metrics: &Metrics, arm: Arm) -> &'static str {
    let has_items = metrics
        .accuracy
        .as_ref()
        .is_some_and(AccuracySummary::has_items);
    if has_items { arm.flag() } else { arm.name() }
}

/// The number of items and requests, and the rules of comparison.
fn requests_sentence(accuracy: &AccuracySummary) -> String {
    let scorers: Vec<&str> = accuracy
        .scorers
        .iter()
        .map(|scorer| scorer.name())
        .collect();
    let (items, requests) = (accuracy.items, accuracy.requests);
    let of_items = if accuracy.has_items() {
        format!("{items} items in {} arms: ", accuracy.arms.len())
    } else {
        String::new()
    };
    format!(
        "{of_items}{requests} requests with a reference, compared by {}",
        scorers.join(", ")
    )
}

pub(crate) fn arms(report: &Report, accuracy: &AccuracySummary) -> Table {
    let has_price = report.metrics.options.cost_per_million.is_some();
    let heads = [
        "arm",
        "right %",
        "95 % interval",
        "right",
        "unparsed %",
        "valid %",
        "tokens/right",
        "ms/right",
    ];
    let heads = heads.into_iter().chain(has_price.then_some("USD/right"));
    Table::new(heads, 1).with_rows(accuracy.arms.iter().map(|arm| {
        let rate = arm.accuracy;
        let mut row = vec![
            arm_name(&report.metrics, arm.arm).to_owned(),
            percent(rate),
            rate.map_or_else(String::new, |rate| interval(&rate)),
            rate.map_or_else(String::new, |rate| format!("{}/{}", rate.hits, rate.of)),
            percent(share(arm, arm.missed.unparsed)),
            percent(arm.valid),
            short(arm.output_tokens_per_right),
            short(arm.e2el_ms_per_right),
        ];
        row.extend(has_price.then(|| {
            arm.usd_per_right
                .map_or_else(|| "n/a".to_owned(), |usd| format!("{usd:.USD_DIGITS$}"))
        }));
        row
    }))
}

fn percent(rate: Option<Rate>) -> String {
    short(rate.map(|rate| rate.percent))
}

/// A figure with one decimal, or `n/a`.
fn short(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.1}"))
}

fn share(arm: &ArmAccuracy, count: usize) -> Option<Rate> {
    Rate::new(count, arm.accuracy?.of)
}

fn missed(report: &Report, accuracy: &AccuracySummary) -> Table {
    let names = Missed::default().causes().map(|(name, _)| name);
    let heads = std::iter::once("arm").chain(names);
    Table::new(heads, 1).with_rows(accuracy.arms.iter().map(|arm| {
        let counts = arm.missed.causes().map(|(_, count)| count.to_string());
        std::iter::once(arm_name(&report.metrics, arm.arm).to_owned())
            .chain(counts)
            .collect::<Vec<_>>()
    }))
}

fn leaves(report: &Report, accuracy: &AccuracySummary) -> Option<Table> {
    let heads = [
        "arm",
        "right %",
        "wrong %",
        "of another type %",
        "omitted %",
        "invented %",
    ];
    Table::new(heads, 1)
        .with_rows(accuracy.arms.iter().filter_map(|arm: &ArmAccuracy| {
            let leaves = arm.leaves?;
            let share = |count: usize| {
                let expected = leaves.expected().max(1) as f64;
                format!("{:.2}", 100.0 * count as f64 / expected)
            };
            Some([
                arm_name(&report.metrics, arm.arm).to_owned(),
                share(leaves.right),
                share(leaves.wrong),
                share(leaves.wrong_type),
                share(leaves.omitted),
                share(leaves.invented),
            ])
        }))
        .non_empty()
}

/// The effects; `None` without items in two arms.
pub(crate) fn effects(accuracy: &AccuracySummary) -> Option<Table> {
    let heads = [
        "arms",
        "difference",
        "95 % interval",
        "p",
        "1st/2nd only",
        "items",
        "visible",
    ];
    Table::new(heads, 1)
        .wrapped(0, ARMS_WIDTH)
        .with_rows(accuracy.effects.iter().map(|effect: &Effect| {
            let pairs = &effect.sample.pairs;
            [
                format!("{} - {}", effect.to.flag(), effect.from.flag()),
                format!("{:+.2}", effect.difference_pp),
                format!("{:+.2} to {:+.2}", effect.low_pp, effect.high_pp),
                p_value(effect.p_value),
                format!("{}/{}", pairs.only_b, pairs.only_a),
                pairs.total().to_string(),
                figure(effect.visible_effect_pp),
            ]
        }))
        .non_empty()
}

/// A p-value with three digits.
pub fn p_value(p: f64) -> String {
    if p < 0.001 {
        "<0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}

/// What the figures say, a sentence each.
pub(crate) fn sentences(accuracy: &AccuracySummary) -> Vec<String> {
    let mut sentences: Vec<String> = unparsed(accuracy).into_iter().collect();
    let most_right = accuracy.most_right();
    let is_decided =
        |effect: &Effect| matches!(effect.verdict, EffectVerdict::Better | EffectVerdict::Worse);
    let is_any_decided = accuracy.effects.iter().any(is_decided);
    if most_right < MIN_RIGHT && !is_any_decided {
        sentences.push(format!(
            "too few right answers to decide: no arm has more than {most_right} of {}",
            accuracy
                .items
                .max(accuracy.requests / accuracy.arms.len().max(1))
        ));
        // The sentences of the effects would say the same.
        sentences.extend(power(accuracy));
        return sentences;
    }
    sentences.extend(accuracy.effects.iter().map(effect_sentence));
    sentences.extend(guesses(accuracy));
    if let Some(rescue) = accuracy.rescue.filter(|rescue| rescue.unparsed > 0) {
        sentences.push(format!(
            "rescue: of {} items that are unparsed in {}, {} are right in {}",
            rescue.unparsed,
            Arm::Control.flag(),
            rescue.rescued,
            Arm::Constrained.flag()
        ));
    }
    sentences.extend(power(accuracy));
    sentences
}

/// The arms whose complete answers have nothing that the scorer compares, such as prose where it
/// compares JSON.
fn unparsed(accuracy: &AccuracySummary) -> Option<String> {
    let arms = accuracy.arms.iter().filter(|arm: &&ArmAccuracy| {
        arm.right + arm.missed.wrong == 0 && arm.missed.unparsed >= MIN_UNPARSED
    });
    let names: Vec<&str> = arms.map(|arm| arm.arm.flag()).collect();
    let scorers: Vec<&str> = accuracy
        .scorers
        .iter()
        .map(|scorer| scorer.name())
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "no answer of {} has the form that {} compares, so that its rate is of the form, not of the content",
            names.join(", "),
            scorers.join(", ")
        )
    })
}

/// The arms that are right as often as a guess among the choices.
fn guesses(accuracy: &AccuracySummary) -> Option<String> {
    let guess = accuracy.guess_percent?;
    let arms = accuracy.arms.iter().filter(|arm| arm.is_guess(guess));
    let names: Vec<&str> = arms.map(|arm| arm.arm.flag()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "no better than a guess among the choices ({guess:.1} % right): {}",
            names.join(", ")
        )
    })
}

/// The finding on one effect.
pub(crate) fn effect_sentence(effect: &Effect) -> String {
    let name = effect.kind.name();
    let (low, high) = (effect.low_pp, effect.high_pp);
    let pairs = &effect.sample.pairs;
    let (differing, items) = (pairs.discordant(), pairs.total());
    let found = format!("{low:+.2} to {high:+.2} pp");
    let finding = match effect.verdict {
        EffectVerdict::Better => format!(
            "more right answers: {:+.2} pp ({found}){}",
            effect.difference_pp,
            causes(&effect.gained, "gained from")
        ),
        EffectVerdict::Worse => format!(
            "fewer right answers: {:+.2} pp ({found}){}",
            effect.difference_pp,
            causes(&effect.lost, "lost to")
        ),
        EffectVerdict::NoDifferenceSeen => {
            format!("no difference seen; the interval is {found}")
        }
        EffectVerdict::TooFewRight => {
            format!(
                "too few right answers to decide: {} and {} of {items}",
                pairs.both + pairs.only_a,
                pairs.both + pairs.only_b
            )
        }
        EffectVerdict::TooFewDifferences => format!(
            "too few items differ to decide: {differing} of {items}, and a test needs {MIN_DISCORDANT}; the interval is {found}"
        ),
    };
    format!("{name}: {finding}")
}

/// The causes of the missed answers behind a difference.
fn causes(missed: &Missed, what: &str) -> String {
    let shown: Vec<String> = missed
        .causes()
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if shown.is_empty() {
        String::new()
    } else {
        format!("; {what} {}", shown.join(", "))
    }
}

/// What the number of items can and cannot show, for the effect of the constraint or else the first one.
fn power(accuracy: &AccuracySummary) -> Option<String> {
    use sobench_results::metrics::accuracy::EffectKind;
    let effect = accuracy
        .effects
        .iter()
        .find(|effect: &&Effect| effect.kind == EffectKind::Decoder)
        .or(accuracy.effects.first())?;
    let name = effect.kind.name();
    let items = effect.sample.pairs.total();
    let copies = if effect.sample.are_single() {
        String::new()
    } else {
        format!(
            " ({} different ones; all are worth {:.1})",
            effect.sample.clusters, effect.sample.effective
        )
    };
    let visible = match effect.visible_effect_pp {
        Some(visible) => format!(
            "{items} items{copies} cannot be expected to show an effect of the {name} below {visible:.1} pp"
        ),
        None => format!("{items} items{copies} cannot show an effect of the {name}"),
    };
    let needed = effect
        .items_for_planned_effect
        .map_or_else(String::new, |needed| {
            format!("; {PLANNED_EFFECT_PP:.0} pp need {needed} items")
        });
    Some(format!("{visible}{needed} (power 80 %, two-sided 5 %)"))
}

/// The compact table of the summary: a row for each arm.
pub(crate) fn summary_table(report: &Report) -> Option<Table> {
    let accuracy = report.metrics.accuracy.as_ref()?;
    let heads = [
        "accuracy",
        "right %",
        "right",
        "unparsed",
        "truncated",
        "tokens/right",
    ];
    Some(
        Table::new(heads, 1).with_rows(accuracy.arms.iter().map(|arm| {
            [
                arm_name(&report.metrics, arm.arm).to_owned(),
                arm.accuracy.map_or_else(String::new, |rate| {
                    format!(
                        "{:.2} ({:.1} to {:.1})",
                        rate.percent, rate.low_percent, rate.high_percent
                    )
                }),
                arm.accuracy
                    .map_or_else(String::new, |rate| format!("{}/{}", rate.hits, rate.of)),
                arm.missed.unparsed.to_string(),
                arm.missed.truncated.to_string(),
                figure(arm.output_tokens_per_right),
            ]
        })),
    )
}

/// The title of the compact table.
pub(crate) fn summary_title(accuracy: &AccuracySummary) -> String {
    format!("Accuracy: {} (95 % interval)", requests_sentence(accuracy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::scorer::Scorer;
    use sobench_facts::testing::{Accuracy, Grade, Leaves, TestRequest, test_request, with_cases};
    use sobench_plan::metrics::MetricsSettings;
    use sobench_plan::metrics::TokenPrice;
    use sobench_plan::record::testing::record;
    use sobench_results::metrics::summarise;

    #[test]
    fn arms_without_the_form_of_the_scorer_have_a_sentence() {
        let of = |unparsed: Grade| {
            let grade = |_, arm| match arm {
                Arm::Free => unparsed,
                _ => Grade::Right,
            };
            sentences(report(12, grade).metrics.accuracy.as_ref().unwrap())
        };
        let expected = "no answer of free has the form that leaf compares, so that its rate is of the form, not of the content";
        assert_eq!(of(Grade::Unparsed)[0], expected);
        assert!(!of(Grade::Wrong).contains(&expected.to_owned()));
    }

    /// A report of items in all arms; `is_right` of an item and an arm.
    fn report(items: usize, grade: impl Fn(usize, Arm) -> Grade) -> Report {
        let arms = Arm::ALL;
        let run: Vec<TestRequest<'_>> = (0..items)
            .flat_map(|item| {
                arms.map(|arm| TestRequest {
                    arm,
                    accuracy: Some(Accuracy {
                        grade: grade(item, arm),
                        leaves: Some(Leaves {
                            right: 3,
                            omitted: 1,
                            ..Leaves::default()
                        }),
                    }),
                    ..test_request()
                })
            })
            .collect();
        let options = MetricsSettings {
            cost_per_million: Some(TokenPrice {
                input: 1.0,
                output: 2.0,
            }),
            ..MetricsSettings::default()
        };
        with_cases(
            &run,
            |index, case| {
                let item = index / arms.len();
                case.item = Some(item as u32);
                case.score = Some(Scorer::Leaf);
                case.prompt = sobench_core::case::Prompt::Text(format!("item {item}").into());
            },
            |samples| Report::new(record(), summarise(samples, 2_000_000_000, &options)),
        )
    }

    fn page(report: &Report) -> String {
        let mut page = Document::default();
        add(&mut page, report);
        sobench_render::text::render(&page)
    }

    #[test]
    fn effects_are_stated_with_causes_and_power() {
        let found = report(200, |item, arm| match (arm, item) {
            (Arm::Free, 0..80) | (Arm::Control, 0..60) | (Arm::Constrained, 0..100) => Grade::Right,
            (Arm::ConstraintOnly, 0..98) | (Arm::ThinkConstraint, 0..190) => Grade::Right,
            (Arm::Control, _) => Grade::Unparsed,
            _ => Grade::Wrong,
        });
        insta::assert_snapshot!(page(&found));
        let summary = sobench_render::text::render(&{
            let mut page = Document::default();
            let accuracy = found.metrics.accuracy.as_ref().unwrap();
            page.heading(summary_title(accuracy));
            page.table(summary_table(&found).unwrap());
            page
        });
        assert!(
            summary.lines().all(|line| line.chars().count() <= 100),
            "{summary}"
        );
    }

    #[test]
    fn arms_that_are_right_as_often_as_a_guess_are_named() {
        let found = report(200, |item, arm| match (arm, item) {
            (Arm::Constrained, 0..67) | (Arm::ConstraintOnly, 0..180) => Grade::Right,
            _ => Grade::Wrong,
        });
        let mut accuracy = found.metrics.accuracy.unwrap();
        assert_eq!(guesses(&accuracy), None);
        accuracy.guess_percent = Some(100.0 / 3.0);
        assert_eq!(
            guesses(&accuracy).unwrap(),
            "no better than a guess among the choices (33.3 % right): prompt+constraint"
        );
    }

    #[test]
    fn a_weak_model_is_too_weak_to_tell() {
        let found = report(200, |item, arm| match (arm, item) {
            (Arm::Control, 0..3) | (Arm::Constrained, 0..7) => Grade::Right,
            (Arm::ConstraintOnly | Arm::ThinkConstraint, 2..9) => Grade::Right,
            _ => Grade::Wrong,
        });
        let sentences = sentences(found.metrics.accuracy.as_ref().unwrap());
        assert_eq!(
            sentences[0],
            "too few right answers to decide: no arm has more than 7 of 200"
        );
        assert_eq!(
            sentences[1],
            "200 items cannot be expected to show an effect of the constraint below 3.9 pp; 3 pp need 263 items (power 80 %, two-sided 5 %)"
        );
    }

    #[test]
    fn equal_arms_differ_too_little_to_tell() {
        let found = report(100, |item, _| match item {
            0..50 => Grade::Right,
            _ => Grade::Wrong,
        });
        let sentences = sentences(found.metrics.accuracy.as_ref().unwrap());
        assert!(
            sentences[0].starts_with(
                "schema in the prompt: too few items differ to decide: 0 of 100, and a test needs 6"
            ),
            "{sentences:?}"
        );
    }
}
