//! Marks of figures that rest on token counts which are not the server's, or which contradict the
//! response, with sentences that explain them.

use super::Report;
use sobench_core::printable::{NAME_CHARS, printable};
use sobench_results::metrics::registry::{Metric, latencies, totals};
use sobench_results::metrics::{Metrics, Sources, TokenSources};

/// The metrics that are computed from input tokens, and from output tokens.
const OF_INPUT: [&Metric; 2] = [&totals::INPUT_TOKENS, &totals::TOTAL_TOKEN_THROUGHPUT];
const OF_OUTPUT: [&Metric; 6] = [
    &latencies::TPOT,
    &latencies::ITL_PER_TOKEN,
    &totals::OUTPUT_TOKENS,
    &totals::OUTPUT_THROUGHPUT,
    &totals::MAX_OUTPUT_TOKENS,
    &totals::TOTAL_TOKEN_THROUGHPUT,
];
const GOODPUT: [&Metric; 2] = [&totals::REQUEST_GOODPUT, &totals::VALID_GOODPUT];

/// A figure with the marks of its metric after it.
pub(crate) fn marked(text: impl Into<String>, metrics: &Metrics, metric: &Metric) -> String {
    let tokens = &metrics.token_sources;
    let slo = metrics.options.goodput.unwrap_or_default();
    let of_output =
        OF_OUTPUT.contains(&metric) || (GOODPUT.contains(&metric) && slo.tpot_ms.is_some());
    let marks = [
        (OF_INPUT.contains(&metric), " [in]", input_faults(tokens)),
        (of_output, " [out]", output_faults(tokens)),
    ];
    let marks = marks.into_iter().filter(|(is_computed, _, faults)| {
        *is_computed && faults.iter().any(|(count, _)| *count > 0)
    });
    marks.fold(text.into(), |text, (_, mark, _)| text + mark)
}

/// A sentence for each mark of the report.
pub(crate) fn footnotes(report: &Report) -> impl Iterator<Item = String> {
    let tokens = &report.metrics.token_sources;
    let answers = report.metrics.values.count(&totals::COMPLETED);
    let tokenizer = printable(&report.record.tokenizer_id, NAME_CHARS);
    let sentence = |faults: Vec<(usize, &str)>| {
        let shown = faults.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = shown
            .map(|(count, fault)| format!("{count} {}", fault.replace("{tokenizer}", &tokenizer)))
            .collect();
        let parts = (!parts.is_empty()).then(|| parts.join(", "))?;
        Some(format!("token counts of {answers} answers: {parts}"))
    };
    let notes = [
        ("[in]", sentence(input_faults(tokens))),
        ("[out]", sentence(output_faults(tokens))),
    ];
    let notes = match notes {
        [(_, of_input), (_, of_output)] if of_input == of_output => vec![("[in] [out]", of_input)],
        notes => notes.into(),
    };
    let notes = notes.into_iter();
    notes.filter_map(|(marks, sentence)| Some(format!("{marks} {}", sentence?)))
}

fn input_faults(tokens: &TokenSources) -> Vec<(usize, &'static str)> {
    let mut faults = sources(&tokens.input);
    let none = tokens.contradictions.no_prompt_tokens;
    faults.push((none, "where the server counts 0 tokens of a prompt"));
    faults
}

fn output_faults(tokens: &TokenSources) -> Vec<(usize, &'static str)> {
    let contradictions = &tokens.contradictions;
    let mut faults = sources(&tokens.output);
    faults.extend([
        (
            contradictions.fewer_than_chunks,
            "with fewer tokens than chunks by the server",
        ),
        (
            contradictions.reasoning_above_all,
            "with more tokens of reasoning than of all by the server",
        ),
        (
            contradictions.several_choices,
            "where the server counts several choices together",
        ),
    ]);
    faults
}

/// Counts by other sources than the server.
fn sources(sources: &Sources) -> Vec<(usize, &'static str)> {
    vec![
        (
            sources.tokenizer,
            "by {tokenizer} (--tokenizer), not by the server",
        ),
        (
            sources.other_tokenizer,
            "by {tokenizer}, a tokenizer of another model, not by the server",
        ),
    ]
}
