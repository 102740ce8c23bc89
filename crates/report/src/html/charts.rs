//! The charts of a run: cumulative latencies by arm, and a timeline.

use std::fmt::Write as _;

use crate::accuracy::arm_name;
use crate::timeline::{Count, Step, Timeline};
use crate::view::View;
use sobench_core::case::Arm;
use sobench_core::server_sample::Quantity;
use sobench_facts::Sample;
use sobench_facts::latency::chunk_gaps_ms;
use sobench_render::axis::{Axis, Range, decimals};
use sobench_render::svg::{self, Curve, ShareScale};
use sobench_render::{Block, Chart, Charts, Document, Layout, LegendEntry};
use sobench_results::metrics::distribution::Distribution;
use sobench_results::metrics::registry::{Metric, VllmNames, latencies};
use sobench_results::metrics::server::MIB;

/// Steps of the timeline, a few pixels each.
const STEPS: usize = 240;

/// Share of values that may be below the axis. Gaps between chunks of one packet are nanoseconds
/// and would take up most of it.
const AXIS_FROM_SHARE: f64 = 0.05;

/// The frame of the timeline, as wide as the page.
const WIDTH: f64 = 1080.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 14.0;

/// The panels of the server's gauges, with the factor to their unit.
const SERVER_PANELS: [(Quantity, &str, f64); 6] = [
    (Quantity::Running, "server: requests running", 1.0),
    (Quantity::Waiting, "server: requests waiting", 1.0),
    (Quantity::Deferred, "server: requests deferred", 1.0),
    (
        Quantity::CompileQueue,
        "server: requests waiting for a compile",
        1.0,
    ),
    (Quantity::CacheUsage, "server: KV cache use, %", 1.0),
    (Quantity::Memory, "server: resident memory, MiB", 1.0 / MIB),
];

/// Heights of each of the two panels, of the gap between them, and of a row of marks.
const PANEL: f64 = 110.0;
const GAP: f64 = 30.0;
const MARKS: f64 = 14.0;

/// The cumulative distribution of every latency, one curve per arm.
pub(super) fn curves(view: &View<'_>) -> Charts {
    let present: Vec<Arm> = Arm::ALL
        .into_iter()
        .filter(|arm| view.samples.iter().any(|sample| sample.arm() == *arm))
        .collect();
    Charts {
        legend: present.iter().map(|arm: &Arm| LegendEntry::Curve {
        colour: colour(*arm),
        dashed: false,
        label: arm_name(&view.report.metrics, *arm).to_owned(),
    }).collect(),
        caption:
            "cumulative share of requests over a logarithmic axis; a curve that starts above 0 % has values below the axis"
                .to_owned(),
        charts: Metric::of_vllm()
            .filter(|(_, names)| !names.queued)
            .filter_map(|(metric, names)| cumulative(view, &present, metric, names))
            .collect(),
        layout: Layout::Grid,
    }
}

fn cumulative(view: &View<'_>, arms: &[Arm], metric: &Metric, names: VllmNames) -> Option<Chart> {
    let distributions: Vec<(Arm, Distribution)> = arms
        .iter()
        .map(|arm| (*arm, distribution(view, *arm, metric)))
        .filter(|(_, distribution)| distribution.n() > 0)
        .collect();
    let starts = distributions.iter().filter_map(|(_, distribution)| {
        distribution
            .cumulative()
            .find(|(_, share)| *share >= AXIS_FROM_SHARE)
    });
    let ends = distributions
        .iter()
        .filter_map(|(_, distribution)| distribution.cumulative().last());
    let axis = Axis::durations(starts.chain(ends).map(|(ns, _)| ns as f64))?;
    let mut title = format!("{} ({})", names.title, names.row);
    if *metric == latencies::ITL
        && let Some(words) = together(view)
    {
        title.push_str(&format!(", {words}"));
    }
    let curves: Vec<Curve> = distributions
        .iter()
        .map(|(arm, distribution)| {
            let name = arm_name(&view.report.metrics, *arm);
            curve(*arm, name, distribution)
        })
        .collect();
    let svg = svg::cumulative(&title, &curves, ShareScale::Even, &axis);
    Some(Chart {
        title,
        svg,
        table: None,
    })
}

/// Whether a chunk was read together with the one before it: the gap is that of the program, below
/// a microsecond.
fn is_together(gap_ms: f64) -> bool {
    gap_ms < 1e-3
}

/// Gaps that are left out of the curve of ITL, in words; `None` if there are none.
fn together(view: &View<'_>) -> Option<String> {
    let options = &view.report.metrics.options;
    let (mut all, mut left_out) = (0_usize, 0_usize);
    let is_counted =
        |sample: &&Sample<'_>| sample.outcome().is_answer() && sample.streamed(options);
    for sample in view.samples.iter().filter(is_counted) {
        for gap_ms in chunk_gaps_ms(&sample.chunks_ns()) {
            all += 1;
            left_out += usize::from(is_together(gap_ms));
        }
    }
    let percent = 100.0 * left_out as f64 / all as f64;
    (left_out > 0).then(|| {
        format!("without {percent:.1} % of {all} gaps, below 1 us: chunks that are read at once")
    })
}

fn colour(arm: Arm) -> usize {
    Arm::ALL.iter().position(|other| *other == arm).unwrap_or(0)
}

fn curve(arm: Arm, name: &str, distribution: &Distribution) -> Curve {
    let name = format!("{name}, n = {}", distribution.n());
    Curve {
        name,
        colour: colour(arm),
        dashed: false,
        points: distribution.cumulative().collect(),
    }
}

/// Every value of a latency within 0.1 %, in constant memory.
fn distribution(view: &View<'_>, arm: Arm, metric: &Metric) -> Distribution {
    let options = &view.report.metrics.options;
    let mut distribution = Distribution::default();
    let answers = view
        .samples
        .iter()
        .filter(|sample| sample.arm() == arm && sample.outcome().is_answer());
    for sample in answers {
        let values = metric.values(sample, options).into_iter();
        values
            .filter(|ms| *metric != latencies::ITL || !is_together(*ms))
            .for_each(|ms| distribution.record((ms * 1e6).max(0.0) as u64));
    }
    distribution
}

/// Concurrent requests and output over time, with marks for invalid answers and failed requests.
pub(super) fn add_timeline(page: &mut Document, view: &View<'_>) {
    let Some(timeline) = Timeline::new(view.samples, view.report.metrics.duration_ns, STEPS) else {
        return;
    };
    let totals: [(&'static str, &str, Count); 2] = [
        ("swatch-bad", "invalid answer, when it ended", |step| {
            step.invalid
        }),
        ("swatch-none", "refused or failed, when it ended", |step| {
            step.no_answer
        }),
    ];
    let area = |(class, name, of): (&'static str, &str, Count)| {
        let total: u64 = timeline.steps.iter().map(of).sum();
        LegendEntry::Area {
            class,
            label: format!("{name}: {total}"),
        }
    };
    let most = LegendEntry::Text(format!(
        "at most {} concurrent requests",
        timeline.most_in_flight()
    ));
    page.heading("Over time");
    let requests = Chart {
        title: String::new(),
        svg: chart(&timeline),
        table: None,
    };
    page.push(Block::Charts(Charts {
        legend: totals.into_iter().map(area).chain([most]).collect(),
        charts: [requests]
            .into_iter()
            .chain(server_chart(view, timeline.duration_s()))
            .collect(),
        layout: Layout::Wide,
        ..Charts::default()
    }));
}

/// The gauges of the server under the timeline of the requests, with the same axis; `None` without
/// any.
fn server_chart(view: &View<'_>, duration_s: f64) -> Option<Chart> {
    let server = view.report.metrics.server.as_ref()?;
    let panels: Vec<(&str, Vec<f64>)> = SERVER_PANELS
        .iter()
        .filter_map(|(quantity, name, scale)| {
            let values = server.steps(*quantity, view.report.metrics.duration_ns, STEPS)?;
            let scaled = values.into_iter().map(|value| value * scale).collect();
            Some((*name, scaled))
        })
        .collect();
    if panels.is_empty() {
        return None;
    }
    let top = |place: usize| 14.0 + place as f64 * (PANEL + GAP);
    let bottom = top(panels.len()) - GAP;
    let title = "Metrics of the server over time";
    let mut svg = svg::open(title, true, WIDTH, bottom + 34.0);
    add_seconds(&mut svg, duration_s, top(0), bottom);
    for (place, (name, values)) in panels.iter().enumerate() {
        add_panel(&mut svg, name, values, top(place), place % 3);
    }
    svg.push_str("</svg>");
    Some(Chart {
        title: "Server metrics".to_owned(),
        svg,
        table: None,
    })
}

fn chart(timeline: &Timeline) -> String {
    let tops = [14.0, 14.0 + PANEL + GAP];
    let marks = tops[1] + PANEL + 8.0;
    let height = marks + 2.0 * MARKS + 34.0;
    let mut chart = svg::open(
        "Concurrent requests and output over time",
        true,
        WIDTH,
        height,
    );
    let in_flight: Vec<f64> = timeline
        .steps
        .iter()
        .map(|step| step.in_flight as f64)
        .collect();
    let output: Vec<f64> = timeline.output_per_s().collect();
    add_seconds(
        &mut chart,
        timeline.duration_s(),
        tops[0],
        marks + 2.0 * MARKS,
    );
    add_panel(&mut chart, "concurrent requests", &in_flight, tops[0], 0);
    add_panel(&mut chart, timeline.unit.per_second(), &output, tops[1], 2);
    add_marks(&mut chart, timeline, |step| step.invalid, "bad", marks);
    add_marks(
        &mut chart,
        timeline,
        |step| step.no_answer,
        "none",
        marks + MARKS,
    );
    chart.push_str("</svg>");
    chart
}

fn x_of(part: f64) -> f64 {
    LEFT + part * (WIDTH - LEFT - RIGHT)
}

fn add_seconds(chart: &mut String, duration_s: f64, top: f64, bottom: f64) {
    let axis = Axis::linear([0.0, duration_s].into_iter(), Range::Data);
    let ticks = axis.iter().flat_map(Axis::ticks);
    let inside: Vec<(f64, String)> = ticks
        .filter(|(seconds, _)| *seconds <= duration_s)
        .map(|(seconds, name)| (*seconds, format!("{name} s")))
        .collect();
    let x_of = |seconds| x_of(seconds / duration_s);
    svg::add_columns(chart, &inside, x_of, [top, bottom, bottom + 16.0]);
}

/// One series as a filled step chart with its own axis: from 0, and for shares to 100 %.
fn add_panel(chart: &mut String, name: &str, values: &[f64], top: f64, colour: usize) {
    let whole = name.ends_with('%').then_some(100.0);
    let range = match name.contains("requests") {
        true => Range::Counts,
        false => Range::FromZero,
    };
    let Some(axis) = Axis::linear(values.iter().copied().chain(whole), range) else {
        return;
    };
    let y_of = |value: f64| top + PANEL * (1.0 - axis.position(value));
    svg::add_lines(chart, axis.ticks(), y_of, [LEFT, WIDTH - RIGHT]);
    let mut line = String::new();
    for (place, value) in values.iter().enumerate() {
        let (from, to) = (
            x_of(place as f64 / values.len() as f64),
            x_of((place + 1) as f64 / values.len() as f64),
        );
        let _ = write!(
            line,
            "{}{from:.1} {:.1}H{to:.1}",
            if place == 0 { "M" } else { "L" },
            y_of(*value)
        );
    }
    let (left, right, base) = (x_of(0.0), x_of(1.0), y_of(0.0));
    let _ = write!(
        chart,
        "<path class=\"area\" d=\"{line}L{right:.1} {base:.1}L{left:.1} {base:.1}Z\"/>"
    );
    let _ = write!(chart, "<path class=\"line curve c{colour}\" d=\"{line}\"/>");
    let _ = write!(
        chart,
        "<text class=\"label\" x=\"{LEFT}\" y=\"{:.1}\">{name}</text>",
        top - 3.0
    );
}

/// A mark in each step with failures, with their count as its title.
fn add_marks(
    chart: &mut String,
    timeline: &Timeline,
    of: impl Fn(&Step) -> u64,
    class: &str,
    top: f64,
) {
    let (count, height) = (timeline.steps.len() as f64, MARKS - 4.0);
    for (place, step) in timeline
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| of(step) > 0)
    {
        let (at, width) = (x_of(place as f64 / count), (x_of(1.0) - x_of(0.0)) / count);
        let seconds = place as f64 * timeline.step_s;
        let _ = write!(
            chart,
            "<rect class=\"{class}\" x=\"{at:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height}\"><title>{}, from {seconds:.*} s</title></rect>",
            of(step),
            decimals(timeline.step_s)
        );
    }
}
