//! Breakdown of a run by kind of constraint, by tag and by the sizes of requests.

use std::collections::BTreeMap;

use super::tables::percentile_cell;
use super::text::figure;
use super::view::View;
use sobench_core::case::Arm;
use sobench_core::printable::printable;
use sobench_facts::Sample;
use sobench_render::Table;
use sobench_results::metrics::dependence::Size;
use sobench_results::metrics::registry::{
    self, Figure, RunSamples, Values, latencies, rates, totals,
};
use sobench_statistics::Rate;

/// Rows of a table at most, the largest groups first.
const PARTS_MAX: usize = 60;

/// Ranges of a size at most.
const RANGES: usize = 4;

/// Characters of a tag at most.
const NAME_MAX_CHARS: usize = 80;

/// Table by kind of constraint, and the number of kinds left out.
pub(super) fn by_kind(view: &View<'_>) -> (Table, usize) {
    parts(view, "kind", |sample| vec![registry::kind(sample)])
}

/// Table by tag. A request with several tags is in several rows. Empty without tags.
pub(super) fn by_tag(view: &View<'_>) -> (Table, usize) {
    parts(view, "tag", |sample| {
        sample
            .request_input()
            .tags
            .iter()
            .map(String::as_str)
            .collect()
    })
}

/// A table for each size of requests that varies, by ranges of about as many requests each.
pub(super) fn by_size(view: &View<'_>) -> Vec<(String, Table)> {
    let samples: Vec<&Sample<'_>> = view.samples.iter().collect();
    let of_size = |size: Size| {
        let sizes = size.of(&samples).into_iter().zip(view.samples);
        let mut known: Vec<(u64, Sample<'_>)> = sizes
            .filter_map(|(size, sample)| Some((size?, *sample)))
            .collect();
        known.sort_by_key(|(size, _)| *size);
        let full = known.len().div_ceil(RANGES);
        let mut ranges: Vec<(u64, u64, Vec<Sample<'_>>)> = Vec::new();
        for (size, sample) in known {
            match ranges.last_mut() {
                Some((_, last, members)) if *last == size || members.len() < full => {
                    *last = size;
                    members.push(sample);
                }
                _ => ranges.push((size, size, vec![sample])),
            }
        }
        let named = ranges
            .into_iter()
            .map(|(from, to, members)| match from == to {
                true => (from.to_string(), members),
                false => (format!("{from} to {to}"), members),
            });
        let named: Vec<(String, Vec<Sample<'_>>)> = named.collect();
        let members: Vec<(&str, Vec<Sample<'_>>)> = named
            .iter()
            .map(|(name, members)| (name.as_str(), members.clone()))
            .collect();
        let unit = size.unit();
        (members.len() > 1).then(|| (format!("By {unit}"), table(view, unit, &members)))
    };
    Size::ALL.into_iter().filter_map(of_size).collect()
}

fn parts<'s>(
    view: &View<'s>,
    name: &str,
    names: impl Fn(&Sample<'s>) -> Vec<&'s str>,
) -> (Table, usize) {
    let mut members: BTreeMap<&str, Vec<Sample<'s>>> = BTreeMap::new();
    for sample in view.samples {
        names(sample)
            .into_iter()
            .for_each(|name| members.entry(name).or_default().push(*sample));
    }
    let mut members: Vec<(&str, Vec<Sample<'s>>)> = members.into_iter().collect();
    members.sort_by_key(|(_, samples)| std::cmp::Reverse(samples.len()));
    let left_out = members.len().saturating_sub(PARTS_MAX);
    members.truncate(PARTS_MAX);
    (table(view, name, &members), left_out)
}

/// The figures of each group.
fn table(view: &View<'_>, name: &str, members: &[(&str, Vec<Sample<'_>>)]) -> Table {
    let percentiles = &view
        .report
        .metrics
        .values
        .summary(&latencies::E2EL)
        .percentiles;
    let of_latency = ["TTFT", "E2EL"].map(|latency| {
        let percentiles = percentiles
            .iter()
            .map(|percentile| format!("{latency} p{} (ms)", percentile.label()));
        std::iter::once(format!("{latency} median (ms)"))
            .chain(percentiles)
            .collect::<Vec<_>>()
    });
    let fixed = [
        name,
        "requests",
        "correct %",
        "95 % interval",
        "valid",
        "control %",
        "no answer",
    ]
    .map(str::to_owned);
    let rows = members
        .iter()
        .map(|(name, samples)| row(view, name, samples));
    Table::new(fixed.into_iter().chain(of_latency.concat()), 1).with_rows(rows)
}

fn row(view: &View<'_>, name: &str, samples: &[Sample<'_>]) -> Vec<String> {
    let metrics = &view.report.metrics;
    let members: Vec<&Sample<'_>> = samples.iter().collect();
    let run = RunSamples::new(&members, metrics.duration_ns, &metrics.options, None);
    let wanted = [
        &totals::COMPLETED,
        &rates::CORRECT_RATE,
        &latencies::TTFT,
        &latencies::E2EL,
    ];
    let values = Values::selected(&wanted, &run);
    let correct_rate = values.rate(&rates::CORRECT_RATE);
    let percent = |rate: Option<Rate>| figure(rate.map(|rate| rate.percent));
    let interval = |rate: Option<Rate>| {
        rate.map_or_else(String::new, |rate| {
            format!("{:.2} to {:.2}", rate.low_percent, rate.high_percent)
        })
    };
    let hits = |rate: Option<Rate>| {
        rate.map_or_else(
            || "none".to_owned(),
            |rate| format!("{}/{}", rate.hits, rate.of),
        )
    };
    let no_answer = samples.len() - values.count(&totals::COMPLETED);
    let mut cells = vec![
        printable(name, NAME_MAX_CHARS),
        samples.len().to_string(),
        percent(correct_rate),
        interval(correct_rate),
        hits(correct_rate),
        percent(Figure::of(&rates::CORRECT_RATE, Some(Arm::Control)).rate(samples)),
        no_answer.to_string(),
    ];
    for summary in [&latencies::TTFT, &latencies::E2EL].map(|metric| values.summary(metric)) {
        cells.push(figure(summary.median));
        cells.extend((0..summary.percentiles.len()).map(|place| percentile_cell(summary, place)));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;
    use sobench_render::Cell;

    #[test]
    fn groups_have_their_own_figures_largest_first() {
        let invalid = Verdict::Invalid {
            reason: Reason::Choice,
        };
        let free = Verdict::NotScored {
            why: NotScored::NoConstraint,
        };
        let run = [
            TestRequest {
                arm: Arm::Free,
                verdict: free,
                ..test_request()
            },
            test_request(),
            TestRequest {
                verdict: invalid.clone(),
                chunks: vec![30, 40],
                ..test_request()
            },
            TestRequest {
                arm: Arm::Control,
                verdict: invalid,
                ..test_request()
            },
        ];
        with_view(&run, record(), |view| {
            let (kinds, left_out) = by_kind(&view);
            assert_eq!(kinds.columns.len(), kinds.rows[0].len());
            assert_eq!(
                kinds.rows[0][..7],
                ["regex", "3", "50.00", "5.46 to 94.54", "1/2", "0.00", "0"].map(Cell::from)
            );
            assert_eq!(
                kinds.rows[1][..8],
                ["none", "1", "n/a", "", "none", "n/a", "0", "10.00"].map(Cell::from)
            );
            assert_eq!(left_out, 0);
            assert!(by_tag(&view).0.is_empty());
        });
    }
}
