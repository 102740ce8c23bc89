//! The table of free choices in JSON answers.

use super::accuracy::arm_name;
use super::text::figure;
use sobench_render::Table;
use sobench_results::metrics::Metrics;
use sobench_results::metrics::free_choices::ArmFreeChoices;
use sobench_statistics::Rate;

pub(crate) const FREE_CHOICES: &str = "Free choices of the engine and the model (JSON answers)";

/// A share of an arm.
type RateOf = fn(&ArmFreeChoices) -> Option<Rate>;

const RATES: [(&str, RateOf); 7] = [
    ("members in the order of the schema", |arm| {
        arm.declared_order
    }),
    ("no white space", |arm| arm.compact),
    ("spaces after commas and colons", |arm| arm.spaced),
    ("several lines", |arm| arm.lines),
    ("other white space", |arm| arm.mixed),
    ("white space around the document", |arm| {
        arm.outer_white_space
    }),
    ("non-ASCII characters escaped", |arm| arm.non_ascii_escaped),
];

/// Shares by arm; `None` without JSON answers.
pub(crate) fn table(metrics: &Metrics) -> Option<Table> {
    let choices = metrics.free_choices.as_ref()?;
    let mut table = Table::new(["choice", "arm", "%", "95 % interval", "count"], 2);
    for (name, rate_of) in RATES {
        for arm in &choices.arms {
            let Some(rate) = rate_of(arm) else { continue };
            table.row([
                name.to_owned(),
                arm_name(metrics, arm.arm).to_owned(),
                figure(Some(rate.percent)),
                format!("{:.2} to {:.2}", rate.low_percent, rate.high_percent),
                format!("{}/{}", rate.hits, rate.of),
            ]);
        }
    }
    for arm in &choices.arms {
        table.row([
            "bytes over the compact spelling".to_owned(),
            arm_name(metrics, arm.arm).to_owned(),
            figure(Some(arm.over_compact_percent)),
            String::new(),
            arm.answers.to_string(),
        ]);
    }
    table.non_empty()
}
