//! Page of the lengths of prompts and answers, as `vllm bench serve --plot-dataset-stats` makes it.

use std::fmt::Write as _;

use super::text::figure;
use super::view::View;
use sobench_facts::Sample;
use sobench_render::{self as render, Block, Chart, Charts, Document, Table, svg};
use sobench_statistics::Summary;

/// Bars of a histogram.
const BARS: usize = 40;

/// Percentiles of the table.
const PERCENTILES: [f64; 3] = [50.0, 90.0, 99.0];

/// The frame of a histogram.
const WIDTH: f64 = 540.0;
const HEIGHT: f64 = 200.0;
const BOTTOM: f64 = 24.0;

const STYLE: &str = "\nrect.b{fill:var(--c0)}\n";

/// The page.
pub fn render(view: &View<'_>) -> String {
    let mut page = Document::new("Lengths of prompts and answers");
    page.style = STYLE;
    let of = |tokens: fn(&Sample<'_>) -> Option<u64>| -> Vec<u64> {
        view.samples.iter().filter_map(tokens).collect()
    };
    let output: fn(&Sample<'_>) -> Option<u64> = |sample| {
        sample
            .tokens()
            .output
            .filter(|_| sample.outcome().is_answer())
    };
    let both: fn(&Sample<'_>) -> Option<u64> = |sample| {
        let output = sample
            .tokens()
            .output
            .filter(|_| sample.outcome().is_answer())?;
        Some(sample.tokens().input?.saturating_add(output))
    };
    let columns = [
        ("prompt tokens", of(|sample| sample.tokens().input)),
        ("answer tokens", of(output)),
        ("prompt and answer tokens", of(both)),
    ];
    let all = view.samples.len();
    page.paragraph(format!(
        "{all} requests; requests with unknown token counts and without an answer are left out"
    ));
    let heads = ["", "n", "min", "mean", "median", "p90", "p99", "max"];
    page.table(
        Table::new(heads, 1).with_rows(columns.iter().map(|(name, values)| row(name, values))),
    );
    let charts = columns.iter().filter(|(_, values)| !values.is_empty());
    let charts = charts.map(|(name, values)| Chart {
        title: (*name).to_owned(),
        svg: histogram(name, values),
        table: None,
    });
    page.push(Block::Charts(Charts {
        charts: charts.collect(),
        ..Charts::default()
    }));
    render::html::render(&page)
}

fn row(name: &str, values: &[u64]) -> Vec<String> {
    let summary = Summary::new(
        values.iter().map(|value| *value as f64).collect(),
        &PERCENTILES,
    );
    let percentile = |place: usize| {
        figure(
            summary
                .percentiles
                .get(place)
                .and_then(|percentile| percentile.value),
        )
    };
    vec![
        name.to_owned(),
        summary.n.to_string(),
        figure(summary.min),
        figure(summary.mean),
        figure(summary.median),
        percentile(1),
        percentile(2),
        figure(summary.max),
    ]
}

fn histogram(title: &str, values: &[u64]) -> String {
    let mut page = svg::open(title, false, WIDTH, HEIGHT);
    let (least, most) = (
        values.iter().min().copied().unwrap_or(0),
        values.iter().max().copied().unwrap_or(0),
    );
    let counts = counts(values, least, most);
    let tallest = counts.iter().copied().max().unwrap_or(0).max(1);
    let (plot, wide) = (HEIGHT - BOTTOM, WIDTH / counts.len() as f64);
    for (place, count) in counts.iter().enumerate() {
        let tall = plot * *count as f64 / tallest as f64;
        let (left, top, inner) = (place as f64 * wide, plot - tall, (wide - 1.0).max(0.5));
        let _ = write!(
            page,
            "<rect class=\"b\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{inner:.1}\" height=\"{tall:.1}\"><title>{count}</title></rect>"
        );
    }
    let label = HEIGHT - 6.0;
    let _ = write!(
        page,
        "<text class=\"axis\" x=\"0\" y=\"{label}\">{least}</text>"
    );
    let _ = write!(
        page,
        "<text class=\"axis\" x=\"{WIDTH}\" y=\"{label}\" text-anchor=\"end\">{most}</text></svg>"
    );
    page
}

/// Counts of values in bars of equal width, at most one bar per whole number.
fn counts(values: &[u64], least: u64, most: u64) -> Vec<usize> {
    let span = most - least;
    let bars = usize::try_from(span).map_or(BARS, |span| span.saturating_add(1).min(BARS));
    let mut counts = vec![0; bars];
    for value in values {
        let share = (value - least) as f64 / (span as f64 + 1.0);
        counts[((share * bars as f64) as usize).min(bars - 1)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::observation::Outcome;
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;
    use sobench_render::html::testing::check_well_formed;

    #[test]
    fn every_value_is_in_one_bar() {
        assert_eq!(counts(&[5], 5, 5), [1]);
        assert_eq!(counts(&[1, 2, 2, 4], 1, 4), [1, 2, 0, 1]);
        let many: Vec<u64> = (0..1000).collect();
        assert_eq!(counts(&many, 0, 999), vec![25; BARS]);
        assert_eq!(counts(&[0, u64::MAX], 0, u64::MAX).iter().sum::<usize>(), 2);
    }

    #[test]
    fn unknown_token_counts_are_left_out() {
        let failed = TestRequest {
            outcome: Outcome::TimedOut {
                limit_ms: 1,
                limit: Default::default(),
                stage: None,
            },
            ..test_request()
        };
        let run = [
            test_request(),
            TestRequest {
                output: None,
                ..test_request()
            },
            failed,
        ];
        with_view(&run, record(), |view| {
            let page = render(&view);
            check_well_formed(&page);
            let cells = page.replace("</td>", "").replace("<td>", "|");
            assert!(
                cells.contains("prompt tokens|3|7.00") && cells.contains("answer tokens|1|3.00"),
                "{cells}"
            );
            assert!(
                cells.contains("prompt and answer tokens|1|10.00"),
                "{cells}"
            );
        });
        with_view(&[], record(), |view| check_well_formed(&render(&view)));
    }
}
