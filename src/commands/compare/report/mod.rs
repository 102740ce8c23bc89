//! A comparison as text, Markdown and JSON. Knows no statistics: everything was decided before.

mod blocks;
mod json;
mod markdown;
mod text;
mod words;

pub use json::{FORMAT_VERSION, render as json};
pub use markdown::render as markdown;
pub use text::render as text;

use crate::compare::Comparison;
use crate::compare::comparable::Finding;
use crate::compare::gate::{LimitRuling, Ruling, Undecided};
use crate::printable::printable;

/// What is said on stderr of the bounds of a run (`--require`), and whether it keeps them.
pub fn bounds(rulings: &[LimitRuling], undecided: Undecided) -> (Vec<String>, bool) {
    let failed = |it: &&LimitRuling| it.ruling.fails(undecided);
    let lines = rulings.iter().filter(|it| it.ruling != Ruling::Kept).map(|it| format!("require: {}", words::broken_limit(it)));
    (lines.collect(), !rulings.iter().any(|it| failed(&it)))
}

/// What is said on stderr in the end: what stopped the comparison, or what became of the gate.
pub fn closing(comparison: &Comparison) -> Vec<String> {
    if !comparison.is_comparable() {
        let stops = comparison.conditions.iter().filter(|it| it.finding == Finding::Stops);
        let names: Vec<&str> = stops.map(|it| it.field.name()).collect();
        return vec![
            format!("error: not comparable, as these differ: {}", names.join(", ")),
            format!("hint: if that is what you compare, say so: --allow-different {}", names.join(" --allow-different ")),
        ];
    }
    let mut lines = Vec::new();
    let (mut rules, mut broken, mut undecided) = (0, 0, 0);
    for against in &comparison.against {
        let changes = against.changes.iter().map(|it| (words::broken_change(it), it.ruling));
        let limits = against.limits.iter().map(|it| (words::broken_limit(it), it.ruling));
        for (words, ruling) in changes.chain(limits) {
            rules += 1;
            broken += usize::from(matches!(ruling, Ruling::Broken | Ruling::Absent));
            undecided += usize::from(matches!(ruling, Ruling::TooFew | Ruling::Unknown(_)));
            if ruling.fails(comparison.undecided) {
                lines.push(format!("gate: {}: {words}", words::side(against.other)));
            }
        }
    }
    if rules > 0 {
        let result = if comparison.is_failed() { "failed" } else { "passed" };
        lines.push(format!("gate {result}: {broken} of {rules} rules broken, {undecided} undecided"));
        // Whoever reads only the verdict has to know what it rests on.
        let runs = comparison.sides.iter().flat_map(|side| &side.runs);
        lines.extend(
            runs.flat_map(|run| run.notices.iter().map(|notice| format!("note: {}: {notice}", printable(&run.file, 60)))),
        );
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::bounds as ruled;
    use crate::compare::rules::Limit;
    use crate::metrics::testing::{made, with_samples};
    use crate::metrics::{MetricsOptions, summarise};
    use crate::record::testing::record;

    #[test]
    fn a_run_of_its_own_is_held_to_bounds() {
        let run: Vec<_> = (0..20).map(|_| made()).collect();
        let metrics = with_samples(&run, |samples| summarise(samples, 1_000_000_000, &MetricsOptions::default()));
        let rules = ["correct_rate>=99.5", "median_ttft_ms<=9", "p99_ttft_ms<=200", "completed>=20", "valid_throughput>=20"];
        let rules = rules.map(|rule| Limit::parse(rule).unwrap());
        let rulings = ruled(&record(), &metrics, &rules);
        let (lines, kept) = bounds(&rulings, Undecided::Pass);
        let expected =
            ["require: median_ttft_ms<=9: median_ttft_ms is 10.00", "require: p99_ttft_ms<=200: cannot be told: 20 < 662"];
        assert_eq!((lines, kept), (expected.map(str::to_owned).to_vec(), false));
        assert!(bounds(&rulings[2..], Undecided::Pass).1 && !bounds(&rulings[2..], Undecided::Fail).1);
    }
}
