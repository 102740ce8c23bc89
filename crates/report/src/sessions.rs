//! The sentence and the table about sessions.

use super::text::figure;
use sobench_render::{Document, Table};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::sessions::{Sessions, TurnFigures};
use sobench_statistics::Rate;

const TITLE: &str = "Turns of sessions (means of answers)";

/// Until when the load was full; `None` without sessions that ended.
pub(crate) fn summary(metrics: &Metrics) -> Option<String> {
    let full = metrics.sessions.as_ref()?.full_load?;
    let mut line = format!(
        "full load until {:.2} s, when a session ended and no other started: {} of {} turns sent",
        full.until_s, full.turns, full.of_turns
    );
    if let Some(throughput) = full.output_throughput {
        line.push_str(&format!(", {throughput:.1} output tokens per second"));
    }
    for (name, p50_ms) in [("TTFT", full.p50_ttft_ms), ("TPOT", full.p50_tpot_ms)] {
        if let Some(ms) = p50_ms {
            line.push_str(&format!(", {name} p50 {ms:.2} ms"));
        }
    }
    Some(line)
}

/// Adds the sentence and the table.
pub(crate) fn add(page: &mut Document, metrics: &Metrics) {
    let Some(sessions) = &metrics.sessions else {
        return;
    };
    page.heading("Sessions");
    page.paragraphs(summary(metrics));
    page.titled_table(TITLE, Some(table(sessions)));
}

fn table(sessions: &Sessions) -> Table {
    let heads = [
        "turn",
        "requests",
        "valid %",
        "right %",
        "TTFT p50 ms",
        "input tokens",
        "cached tokens",
        "output tokens",
        "% of recorded",
    ];
    let percent = |rate: Option<Rate>| figure(rate.map(|rate| rate.percent));
    let tokens =
        |mean: Option<f64>| mean.map_or_else(|| "n/a".to_owned(), |mean| format!("{mean:.1}"));
    let mut table = Table::new(heads, 1);
    for figures in &sessions.turns {
        let TurnFigures {
            turn, and_later, ..
        } = figures;
        table.row([
            format!("{turn}{}", if *and_later { "+" } else { "" }),
            figures.requests.to_string(),
            percent(figures.valid),
            percent(figures.right),
            figure(figures.p50_ttft_ms),
            tokens(figures.mean_input_tokens),
            tokens(figures.mean_cached_tokens),
            tokens(figures.mean_output_tokens),
            tokens(figures.output_percent_of_reference),
        ]);
    }
    table
}
