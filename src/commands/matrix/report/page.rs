//! The comparison as a page: the conditions, the table of `cells.rs`, and the sentences below it.

use super::cells::{NAME_CHARS, reasons, table};
use super::{ColdFrom, Comparison, Load, Row};
use crate::commands::distinct::distinct;
use sobench_core::printable::printable;
use sobench_render::{Block, Document, Table, Text};
use sobench_results::metrics::knee::Knee;
use sobench_results::metrics::registry::{Figure, Metric, Values};
use sobench_statistics::Rate;

/// The most characters of a reason or a notice, which may quote a server.
const REASON_CHARS: usize = 900;

/// The one table is wide: its words are short, and it gets the room.
const STYLE: &str =
    "body{max-width:92rem}th,td{padding:.2rem .45rem}th.word,td.word{min-width:4rem}";

/// The page. Its title names the contenders.
pub(super) fn document(comparison: &Comparison) -> Document {
    let mut document = Document {
        style: STYLE,
        ..Document::new(title(comparison))
    };
    let strong = |words: String| Text::default().strong(words);
    if comparison.about.partial {
        document.paragraph(strong(
            "PARTIAL: stopped before its end; what did not run has no figure".to_owned(),
        ));
    }
    document.facts(conditions(comparison));
    document.gap();
    document.table(table(comparison));
    let reasons = reasons(comparison);
    let reason = |(place, reason): (usize, &String)| {
        format!("({}) did not run: {}", place + 1, shown(reason))
    };
    document.paragraphs(reasons.iter().enumerate().map(reason));
    document.gap();
    document.paragraphs(knees(comparison).iter().map(|knee| strong(shown(knee))));
    document.gap();
    document.notes(
        comparison
            .notices
            .iter()
            .map(|notice| shown(&notice.to_string()))
            .collect(),
    );
    document.legend(legend(comparison));
    let summary = "All metrics (of distributions the mean)".to_owned();
    document.push(Block::Details {
        summary,
        blocks: vec![Block::Table(all_metrics(comparison))],
    });
    document
}

/// A row for each metric, a column for each line of the comparison that was measured.
fn all_metrics(comparison: &Comparison) -> Table {
    let measured: Vec<_> = comparison
        .rows
        .iter()
        .filter_map(|row| Some((row, row.figures()?)))
        .collect();
    let heads = measured.iter().map(|(row, _)| {
        let load = if row.load == Load::AsGiven {
            String::new()
        } else {
            format!("\n{}", row.load)
        };
        format!(
            "{}\n{}{load}",
            printable(&row.dataset, NAME_CHARS),
            printable(&row.contender, NAME_CHARS)
        )
    });
    let mut table = Table::new(std::iter::once("metric".to_owned()).chain(heads), 1);
    for metric in Metric::ALL {
        let number = |values: &Values| {
            values
                .number(metric)
                .or_else(|| values.summary(metric)?.mean)
        };
        let numbers: Vec<_> = measured
            .iter()
            .map(|(_, figures)| number(&figures.metrics))
            .collect();
        if numbers.iter().any(Option::is_some) {
            let cells = numbers
                .into_iter()
                .map(|number| Figure::new(metric).text(number));
            table.row(std::iter::once(metric.title()).chain(cells));
        }
    }
    table
}

fn title(comparison: &Comparison) -> String {
    format!(
        "sobench: {}",
        distinct(comparison.rows.iter().map(|row| row.contender.as_str())).join(", ")
    )
}

/// The settings that all lines share.
fn conditions(comparison: &Comparison) -> Vec<(&'static str, String)> {
    let about = &comparison.about;
    let date = about
        .date
        .as_deref()
        .map(|date| format!(", at {date}"))
        .unwrap_or_default();
    let repeats = if about.repeats == 1 {
        "one run".to_owned()
    } else {
        format!("{} runs", about.repeats)
    };
    let control = match about.control {
        true => "; control arm: the same cases on the same schedule, constraints not sent",
        false => "; no control arm",
    };
    let mut conditions = vec![
        ("sobench", format!("{}{date}", about.sobench_version)),
        (
            "servers",
            format!("{}; backend {}", about.servers, about.backend),
        ),
        (
            "each line",
            format!(
                "{repeats} of {} requests, answers up to {} tokens, seed {}{control}",
                about.num_prompts, about.output_len, about.seed
            ),
        ),
        ("order", about.order.clone()),
    ];
    if let Some(slo) = about.goodput {
        let bounds = [
            ("TTFT", slo.ttft_ms),
            ("TPOT", slo.tpot_ms),
            ("E2EL", slo.e2el_ms),
        ];
        let bounds: Vec<String> = bounds
            .iter()
            .filter_map(|(name, bound)| Some(format!("{name} up to {} ms", (*bound)?)))
            .collect();
        let bounds: Vec<String> = bounds
            .into_iter()
            .chain(slo.valid.then(|| "a valid answer".to_owned()))
            .collect();
        let share = about.goodput_share_percent;
        conditions.push((
            "objectives",
            format!(
                "{}; met if {share} % of the requests are valid within them",
                bounds.join(", ")
            ),
        ));
    }
    conditions
}

/// What the columns mean.
fn legend(comparison: &Comparison) -> Vec<&'static str> {
    let mut lines = vec![
        "correct: valid answers of all constrained requests that can be judged, with a 95 % Wilson interval; compl.: of those that ended by \
         themselves; cover.: accepted by the server",
        "TTFT and TPOT: median and p99 of constrained requests (ms; * where there are too few for a p99)",
    ];
    if comparison.about.control {
        lines.push(
            "overhead: mean of constrained requests over that of the same requests in the control arm, in %, with the 95 % interval of a \
             bootstrap over repeats and pairs, at least Student's over the repeats (with one repeat it does not know what varies between \
             runs); below it, the figure of each repeat",
        );
    }
    lines.push(
        "cold, warm: median TTFT of first and of later uses of a constraint (number of them); cold only where the server is known not to \
         have had it before",
    );
    let is_alone = |row: &Row| {
        row.figures()
            .is_some_and(|figures| figures.cold_from == Some(ColdFrom::Alone))
    };
    if comparison.rows.iter().any(is_alone) {
        lines.push(
            "+: alone, before each run, since all its requests have one constraint: the first use of it on a server that had just been \
             started, and the same request once more, both after the same prompt without it. A server that keeps what it compiles on disk \
             may have had it before",
        );
    }
    if comparison.runs.iter().any(|run| run.distrust.is_some()) {
        lines.push("?: the client itself stood in the way in a run that the figure is of; it is no evidence");
    }
    lines
}

/// A reason or a notice, fit to be shown.
fn shown(words: &str) -> String {
    printable(words, REASON_CHARS)
}

/// The knees, a sentence each.
fn knees(comparison: &Comparison) -> Vec<String> {
    let wanted = comparison.about.goodput_share_percent;
    let share = |share: Rate| {
        let Rate {
            percent,
            low_percent,
            high_percent,
            hits,
            of,
        } = share;
        format!("{percent:.2} % ({hits}/{of}; 95 % interval {low_percent:.2} to {high_percent:.2})")
    };
    let sentence = |verdict: &Knee<super::Load>| {
        match verdict {
        Knee::At { load, share: found, is_highest, lower_missed } => {
            let beyond = if *is_highest { "; it is the highest that was tried, the knee may lie above it" } else { "" };
            let lower = lower_missed.map_or_else(String::new, |lower| {
                format!("; but a lower load did not: {lower}, so that it is not to be relied on")
            });
            format!("the valid goodput knee is at {load}: {} valid within the objectives{beyond}{lower}", share(*found))
        }
        Knee::Nowhere { lowest, share: found } => {
            format!("no load of the sweep meets the objectives with {wanted} % valid answers: at {lowest}, {} do", share(*found))
        }
        Knee::Unknown => {
            "the valid goodput knee is not known: a load could not be measured, or the objectives could not be checked".to_owned()
        }
    }
    };
    comparison
        .knees
        .iter()
        .map(|row| {
            format!(
                "{}, {}: {}",
                row.contender,
                row.dataset,
                sentence(&row.knee)
            )
        })
        .collect()
}
