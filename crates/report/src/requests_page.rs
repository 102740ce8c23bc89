//! Page with a timeline of every request, as `vllm bench serve --plot-timeline` makes it.

use std::fmt::Write as _;

use super::view::View;
use sobench_core::observation::failure_message;
use sobench_core::printable::printable_message;
use sobench_facts::Sample;
use sobench_render::escape::escape;
use sobench_render::{self as render, Block, Chart, Charts, Document, Layout, LegendEntry, svg};

/// Requests on the page at most; the others are counted.
const MAX_ROWS: usize = 1000;

/// Segments narrower than this merge with the one before, in the colour of the slowest.
const LEAST_WIDTH: f64 = 1.5;

/// The picture, and one of its lines.
const WIDTH: f64 = 1080.0;
const LINE: f64 = 8.0;
const BAR: f64 = 6.0;
const BOTTOM: f64 = 24.0;

/// Lines of the grid over the time.
const TICKS: u32 = 10;

const STYLE: &str = "
.t{fill:var(--c0)}.g0{fill:var(--c2)}.g1{fill:var(--c4)}.g2{fill:var(--c1)}.f{fill:var(--c3)}.w{fill:var(--line)}
i.t{background:var(--c0)}i.g0{background:var(--c2)}i.g1{background:var(--c4)}i.g2{background:var(--c1)}i.f{background:var(--c3)}
i.w{background:var(--line)}
";

/// Limits of the gaps between chunks at which their colour changes, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    pub low_ms: f64,
    pub high_ms: f64,
}

/// Part of a line; slower gaps are later variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Due, not sent yet.
    Waiting,
    /// Up to the first chunk.
    First,
    Fast,
    Middling,
    Slow,
    /// A request without an answer.
    Failed,
}

/// CSS classes, in the order of [`Part`].
const CLASSES: [&str; 6] = ["w", "t", "g0", "g1", "g2", "f"];

/// The page.
pub fn render(view: &View<'_>, thresholds: Thresholds) -> String {
    let mut sent: Vec<&Sample<'_>> = view
        .samples
        .iter()
        .filter(|sample| sample.request_times().sent_ns.is_some())
        .collect();
    sent.sort_by_key(|sample| sample.request_times().sent_ns);
    let shown = &sent[..sent.len().min(MAX_ROWS)];
    let mut page = Document::new("Timeline of requests");
    page.style = STYLE;
    page.paragraph(format!(
        "{} of {} requests, in the order of sending",
        shown.len(),
        view.samples.len()
    ));
    let Thresholds { low_ms, high_ms } = thresholds;
    let parts = [
        (Part::Waiting, "due, not sent".to_owned()),
        (Part::First, "to the first chunk (TTFT)".to_owned()),
        (Part::Fast, format!("gaps below {low_ms} ms")),
        (Part::Middling, format!("gaps up to {high_ms} ms")),
        (Part::Slow, format!("gaps above {high_ms} ms")),
        (Part::Failed, "no answer".to_owned()),
    ];
    page.push(Block::Charts(Charts {
        legend: parts
            .into_iter()
            .map(|(part, label)| LegendEntry::Area {
                class: CLASSES[part as usize],
                label,
            })
            .collect(),
        charts: vec![Chart {
            title: String::new(),
            svg: picture(view, shown, thresholds),
            table: None,
        }],
        layout: Layout::Wide,
        ..Charts::default()
    }));
    render::html::render(&page)
}

fn picture(view: &View<'_>, shown: &[&Sample<'_>], thresholds: Thresholds) -> String {
    let ends = shown.iter().filter_map(|sample| {
        sample
            .request_times()
            .end_ns
            .or(sample.request_times().last_content_ns)
    });
    let last_ns = ends.max().unwrap_or(0).max(1);
    let scale = WIDTH / last_ns as f64;
    let height = shown.len() as f64 * LINE;
    let mut page = svg::open("requests over time", true, WIDTH, height + BOTTOM);
    for tick in 0..=TICKS {
        let at = WIDTH * f64::from(tick) / f64::from(TICKS);
        let seconds = last_ns as f64 / 1e9 * f64::from(tick) / f64::from(TICKS);
        let anchor = if tick == 0 {
            "start"
        } else if tick == TICKS {
            "end"
        } else {
            "middle"
        };
        let label = height + 16.0;
        let _ = write!(
            page,
            "<line class=\"grid\" x1=\"{at:.1}\" y1=\"0\" x2=\"{at:.1}\" y2=\"{height}\"/>"
        );
        let _ = write!(
            page,
            "<text class=\"axis\" x=\"{at:.1}\" y=\"{label}\" text-anchor=\"{anchor}\">{seconds:.2} s</text>"
        );
    }
    for (row, sample) in shown.iter().enumerate() {
        let top = row as f64 * LINE;
        let _ = write!(page, "<g><title>{}</title>", escape(&tooltip(sample, view)));
        for (part, from_ns, to_ns) in stretches(sample, view, thresholds, scale) {
            let (left, wide) = (
                from_ns as f64 * scale,
                (to_ns.saturating_sub(from_ns)) as f64 * scale,
            );
            let class = CLASSES[part as usize];
            let _ = write!(
                page,
                "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top}\" width=\"{wide:.1}\" height=\"{BAR}\"/>"
            );
        }
        page.push_str("</g>");
    }
    page.push_str("</svg>");
    page
}

/// The segments of a line from left to right. Neighbours of one colour merge, and so do segments
/// that are too narrow.
fn stretches(
    sample: &Sample<'_>,
    view: &View<'_>,
    thresholds: Thresholds,
    scale: f64,
) -> Vec<(Part, u64, u64)> {
    let timing = sample.request_times();
    let Some(sent_ns) = timing.sent_ns else {
        return Vec::new();
    };
    let end_ns = timing.end_ns.or(timing.last_content_ns).unwrap_or(sent_ns);
    let mut raw = vec![(Part::Waiting, timing.due_ns.min(sent_ns), sent_ns)];
    if !sample.outcome().is_answer() {
        raw.push((Part::Failed, sent_ns, end_ns));
    } else if !sample.streamed(&view.report.metrics.options) {
        raw.push((Part::First, sent_ns, end_ns));
    } else {
        let chunks = sample.chunks_ns();
        raw.extend(
            chunks
                .first()
                .map(|&first_ns| (Part::First, sent_ns, first_ns)),
        );
        raw.extend(chunks.windows(2).map(|pair| {
            let gap_ms = pair[1].saturating_sub(pair[0]) as f64 / 1e6;
            let part = if gap_ms < thresholds.low_ms {
                Part::Fast
            } else if gap_ms <= thresholds.high_ms {
                Part::Middling
            } else {
                Part::Slow
            };
            (part, pair[0], pair[1])
        }));
    }
    let mut drawn: Vec<(Part, u64, u64)> = Vec::new();
    for (part, from_ns, to_ns) in raw
        .into_iter()
        .filter(|(_, from_ns, to_ns)| to_ns > from_ns)
    {
        let is_gap = |part: Part| matches!(part, Part::Fast | Part::Middling | Part::Slow);
        let is_narrow =
            |from_ns: u64, to_ns: u64| (to_ns.saturating_sub(from_ns) as f64) * scale < LEAST_WIDTH;
        match drawn.last_mut() {
            Some(last) if last.0 == part => last.2 = to_ns,
            Some(last)
                if is_gap(last.0)
                    && is_gap(part)
                    && (is_narrow(last.1, last.2) || is_narrow(from_ns, to_ns)) =>
            {
                *last = (last.0.max(part), last.1, to_ns);
            }
            _ => drawn.push((part, from_ns, to_ns)),
        }
    }
    drawn
}

/// The tooltip of a line.
fn tooltip(sample: &Sample<'_>, view: &View<'_>) -> String {
    let outcome = sample.outcome();
    if !outcome.is_answer() {
        let why = printable_message(&failure_message(outcome));
        return format!("{}: {why}", sample.id());
    }
    let latency = sample.latency(&view.report.metrics.options);
    let figure =
        |name: &str, value: Option<f64>| value.map(|value| format!("{name} {value:.1} ms"));
    let tokens =
        |name: &str, value: Option<u64>| value.map(|value| format!("{value} {name} tokens"));
    let known = [
        figure("TTFT", latency.ttft_ms),
        figure("E2EL", latency.e2el_ms),
        tokens("input", sample.tokens().input),
        tokens("output", sample.tokens().output),
    ];
    format!(
        "{}: {}",
        sample.id(),
        known.into_iter().flatten().collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::observation::Outcome;
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_plan::record::testing::record;
    use sobench_render::html::testing::check_well_formed;

    const THRESHOLDS: Thresholds = Thresholds {
        low_ms: 25.0,
        high_ms: 50.0,
    };
    const MS: u64 = 1_000_000;

    #[test]
    fn a_line_shows_the_wait_and_gaps_by_length() {
        let run = [TestRequest {
            due: 0,
            sent: Some(5),
            chunks: vec![100, 110, 120, 150, 210],
            end: Some(211),
            ..test_request()
        }];
        with_view(&run, record(), |view| {
            let seen = stretches(&view.samples[0], &view, THRESHOLDS, 1.0);
            let in_ms: Vec<_> = seen
                .into_iter()
                .map(|(part, from, to)| (part, from / MS, to / MS))
                .collect();
            let expected = [
                (Part::Waiting, 0, 5),
                (Part::First, 5, 100),
                (Part::Fast, 100, 120),
                (Part::Middling, 120, 150),
                (Part::Slow, 150, 210),
            ];
            assert_eq!(in_ms, expected);
            let narrow = stretches(&view.samples[0], &view, THRESHOLDS, 1e-9);
            assert_eq!(
                narrow.last(),
                Some(&(Part::Slow, 100 * MS, 210 * MS)),
                "what cannot be seen apart is as slow as its slowest"
            );
        });
    }

    #[test]
    fn the_page_is_well_formed_for_every_outcome() {
        let failed = TestRequest {
            outcome: Outcome::StreamError {
                message: "<cut> & gone".into(),
            },
            chunks: vec![],
            ..test_request()
        };
        let never = TestRequest {
            outcome: Outcome::Cancelled,
            sent: None,
            chunks: vec![],
            end: None,
            ..test_request()
        };
        let whole = TestRequest {
            streamed: false,
            ..test_request()
        };
        with_view(&[test_request(), failed, never, whole], record(), |view| {
            let page = render(&view, THRESHOLDS);
            check_well_formed(&page);
            assert!(
                page.contains("3 of 4 requests") && page.contains("&lt;cut&gt; &amp; gone"),
                "{page}"
            );
            assert_eq!(page.matches("<g>").count(), 3);
        });
        with_view(&[], record(), |view| {
            check_well_formed(&render(&view, THRESHOLDS));
        });
        let many = vec![test_request(); MAX_ROWS + 5];
        with_view(&many, record(), |view| {
            assert!(render(&view, THRESHOLDS).contains("1000 of 1005 requests"));
        });
    }
}
