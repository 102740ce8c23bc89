//! Charts in characters for a terminal of 80 columns, without colours and escape sequences:
//! latencies, and the run over time.

use std::fmt::Write as _;

use super::Report;
use super::timeline::{Count, Timeline};
use super::view::View;
use sobench_plan::metrics::Answers;
use sobench_render::axis::{decimals, drawn_range, round_step};
use sobench_results::metrics::registry::{Metric, latencies};
use sobench_statistics::percentile;

/// The widest line.
const WIDTH: usize = 80;

/// Bars of a histogram, without the one of the tail.
const BARS: usize = 12;

/// Columns of a bar, and of a line over time.
const BAR_WIDTH: usize = 44;
const TIME_WIDTH: usize = 72;

/// Values beyond this percentile are one bar, so that a few outliers do not squeeze the rest into
/// one.
const TAIL_FROM: f64 = 99.0;

/// Eighths of a cell, for the end of a bar and for levels.
const WIDER: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
const HIGHER: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Histograms of TTFT (where there is one) and E2EL over all answers, and the run over time.
pub fn render(view: &View<'_>) -> String {
    let mut page = String::new();
    let generated = view.report.metrics.options.answers == Answers::Generated;
    let metrics = [&latencies::TTFT, &latencies::E2EL].into_iter();
    for metric in metrics.filter(|metric| generated || **metric == latencies::E2EL) {
        let options = &view.report.metrics.options;
        let mut values: Vec<f64> = view
            .samples
            .iter()
            .filter_map(|sample| metric.value(sample, options))
            .collect();
        values.sort_by(f64::total_cmp);
        add_histogram(&mut page, metric, &values);
    }
    add_time(&mut page, view.report, view);
    page
}

fn add_histogram(page: &mut String, metric: &Metric, sorted: &[f64]) {
    let (Some(&low), Some(tail_from)) = (sorted.first(), percentile(sorted, TAIL_FROM)) else {
        return;
    };
    let (from, to) = drawn_range(low, tail_from);
    let step = round_step(to - from, BARS - 1);
    let start = (low / step).floor() * step;
    let mut bars: Vec<(String, usize)> = Vec::new();
    let decimals = decimals(step);
    let mut from = 0;
    for place in 0..=BARS {
        let (start, end) = (
            start + place as f64 * step,
            start + (place + 1) as f64 * step,
        );
        if start > tail_from || from == sorted.len() {
            break;
        }
        let to = sorted.partition_point(|value| *value < end);
        bars.push((format!("{start:.decimals$} to {end:.decimals$}"), to - from));
        from = to;
    }
    if from < sorted.len() {
        let longest = sorted.last().copied().unwrap_or_default();
        bars.push((
            format!("longer, to {longest:.decimals$}"),
            sorted.len() - from,
        ));
    }
    let most = bars
        .iter()
        .map(|(_, count)| *count)
        .max()
        .unwrap_or(1)
        .max(1);
    let _ = writeln!(
        page,
        "\n{} ({}, ms), {} answers",
        metric.vllm.map_or(metric.label, |names| names.title),
        metric.label,
        sorted.len()
    );
    let width = bars.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let room = BAR_WIDTH.min(WIDTH.saturating_sub(width + 14)).max(8);
    for (name, count) in &bars {
        let _ = writeln!(
            page,
            " {name:>width$} |{:<room$} {count}",
            bar(*count, most, room)
        );
    }
}

/// A bar in eighths of a cell. A value above zero is always visible.
fn bar(count: usize, most: usize, room: usize) -> String {
    let eighths = (count as f64 / most as f64 * (room * 8) as f64).round() as usize;
    let eighths = if count > 0 { eighths.max(1) } else { 0 };
    let mut bar = WIDER[7].to_string().repeat(eighths / 8);
    bar.extend((!eighths.is_multiple_of(8)).then(|| WIDER[eighths % 8 - 1]));
    bar
}

fn add_time(page: &mut String, report: &Report, view: &View<'_>) {
    let Some(timeline) = Timeline::new(view.samples, report.metrics.duration_ns, TIME_WIDTH) else {
        return;
    };
    let output: Vec<f64> = timeline.output_per_s().collect();
    let highest = output.iter().copied().fold(0.0, f64::max);
    let _ = writeln!(
        page,
        "\nOver time, {:.2} s ({:.1} ms a column)",
        timeline.duration_s(),
        timeline.step_s * 1e3
    );
    let in_flight: Vec<f64> = timeline
        .steps
        .iter()
        .map(|step| step.in_flight as f64)
        .collect();
    let _ = writeln!(
        page,
        " concurrent requests, at most {}\n {}",
        timeline.most_in_flight(),
        levels(&in_flight)
    );
    if highest > 0.0 {
        let _ = writeln!(
            page,
            " {}, at most {highest:.0}\n {}",
            timeline.unit.per_second(),
            levels(&output)
        );
    }
    let marks: [(&str, Count); 2] = [
        ("invalid answers", |step| step.invalid),
        ("refused or failed", |step| step.no_answer),
    ];
    for (name, of) in marks {
        let counts: Vec<f64> = timeline.steps.iter().map(|step| of(step) as f64).collect();
        let total: f64 = counts.iter().sum();
        if total > 0.0 {
            let _ = writeln!(page, " {name}, {total}\n {}", levels(&counts));
        }
    }
}

/// A line of levels. Zero is a blank; a value above zero is always visible.
fn levels(values: &[f64]) -> String {
    let highest = values.iter().copied().fold(0.0, f64::max);
    values
        .iter()
        .map(|value: &f64| {
            if *value <= 0.0 || highest <= 0.0 {
                ' '
            } else {
                HIGHER[((value / highest * 8.0).ceil() as usize).clamp(1, 8) - 1]
            }
        })
        .collect::<String>()
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;

    fn rendered(run: &[TestRequest<'_>]) -> String {
        with_view(run, record(), |view| render(&view))
    }

    #[test]
    fn a_run_is_drawn_within_eighty_columns() {
        let invalid = Verdict::Invalid {
            reason: Reason::Choice,
        };
        let failed = Verdict::NotScored {
            why: NotScored::Failed,
        };
        let mut run: Vec<TestRequest<'_>> = (0..200_u64)
            .map(|number| {
                let (sent, took) = (number * 5, 100 + (number * number) % 97);
                TestRequest {
                    sent: Some(sent),
                    chunks: vec![sent + took, sent + took + 300],
                    end: Some(sent + took + 301),
                    ..test_request()
                }
            })
            .collect();
        run[199].chunks = vec![1900, 1990];
        run[20].verdict = invalid;
        run[150] = TestRequest {
            outcome: Outcome::TimedOut {
                limit_ms: 1,
                limit: Default::default(),
                stage: None,
            },
            verdict: failed,
            chunks: vec![],
            ..run[150].clone()
        };
        let page = rendered(&run);
        assert!(
            page.lines().all(|line| line.chars().count() <= WIDTH),
            "{page}"
        );
        insta::assert_snapshot!(page);
    }

    #[test]
    fn charts_of_unusual_runs_do_not_panic() {
        assert_eq!(rendered(&[]), "");
        let same = rendered(&[test_request(), test_request()]);
        assert_eq!(
            same,
            "\nTime to First Token (TTFT, ms), 2 answers\n 10 to 12 |████████████████████████████████████████████ 2\n\nEnd-to-end Latency (E2EL, ms), 2 answers\n 30 to 40 |████████████████████████████████████████████ 2\n\nOver time, 2.00 s (27.8 ms a column)\n concurrent requests, at most 2\n ██\n output tokens/s, at most 144\n █▄\n"
        );
        let far = TestRequest {
            sent: Some(0),
            chunks: vec![1, u64::MAX / 2_000_000],
            ..test_request()
        };
        let page = rendered(&[far]);
        assert!(
            page.lines().all(|line| line.chars().count() <= WIDTH),
            "{page}"
        );
    }
}
