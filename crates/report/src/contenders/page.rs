//! The page of a comparison: conditions, the table of `cells.rs`, notices and a legend.

use super::cells::NAME_CHARS;
use super::{ColdFrom, Comparison, JudgedAnswer, Load, Row, capacity, charts, console, verdicts};
use sobench_core::distinct::distinct;
use sobench_core::printable::printable;
use sobench_render::{Block, Document, Table, Text};
use sobench_results::metrics::knee::Knee;
use sobench_results::metrics::registry::{Figure, Metric, Values};
use sobench_statistics::Rate;

/// The longest reason or notice, which may quote a server, in characters.
const REASON_CHARS: usize = 900;

/// Largest number of disagreements on the page. The JSON file has more.
const MAX_DISAGREEMENTS_SHOWN: usize = 5;

/// Largest number of characters of an answer on the page.
const ANSWER_CHARS: usize = 120;

/// The meaning of the short tables.
const SHORT_LEGEND: [&str; 3] = [
    "correct and the shares beside it (invalid, cut at limit, refused, failed) sum to 100 %; compliance: valid among answers that were \
     not cut; columns that say nothing in all rows are left out",
    "the interval counts requests: repeats of a request, and copies of it, count as far as their results vary",
    "added: mean of constrained requests minus that of the same requests without constraints, and the factor; first use: of requests whose constraint \
     the server had not compiled when they came, so that compile time and the wait for it are in it; an interval needs 3 repeats",
];

const STEPS_LEGEND: &str = "in obj.: requests within the objectives (constrained: also valid); *: too few samples for a p99; cold and \
     warm: medians of first and later uses of a constraint";

/// The table is wide, so its cells are narrow. Colours of reasons.
pub const STYLE: &str = "
th,td{padding:.2rem .45rem}th.word,td.word{min-width:4rem}
.ok{fill:#4f8a5b;background:#4f8a5b}.r0{fill:#c8323c;background:#c8323c}.r1{fill:#0072b2;background:#0072b2}.r2{fill:#8a6d00;background:#8a6d00}
.r3{fill:#7a4b94;background:#7a4b94}.r4{fill:#007a5e;background:#007a5e}.r5{fill:#59636e;background:#59636e}
svg .count{fill:#fff;font-size:13px;font-weight:600}
";

/// The whole page with charts.
pub(super) fn document_with_charts(comparison: &Comparison) -> Document {
    whole(comparison, true)
}

/// The page of one screen: the short tables, the refusals, the constraints with findings, notices.
pub(super) fn summary(comparison: &Comparison) -> Document {
    let mut document = Document::new(title(comparison));
    add_summary(&mut document, comparison);
    document.gap();
    document.notes(notices(comparison));
    document.paragraph(
        "all figures, causes, answers and the order of the runs: --detail full, or --save FILE.html",
    );
    document
}

/// The whole page, with the contenders in its title.
pub(super) fn document(comparison: &Comparison) -> Document {
    whole(comparison, false)
}

fn whole(comparison: &Comparison, has_charts: bool) -> Document {
    let mut document = Document {
        style: STYLE,
        ..Document::new(title(comparison))
    };
    add_summary(&mut document, comparison);
    if has_charts {
        charts::add(&mut document, comparison);
    }
    verdicts::add_differences(&mut document, comparison);
    document.titled_table("Constraints by feature", console::features(comparison));
    if !comparison.disagreements.is_empty() {
        document.heading("Disagreements");
    }
    let disagreements = comparison.disagreements.iter();
    for disagreement in disagreements.take(MAX_DISAGREEMENTS_SHOWN) {
        let answer = |answer: &JudgedAnswer| {
            let finding = match &answer.finding {
                Some(finding) => format!("invalid, {finding}"),
                None => "valid".to_owned(),
            };
            let text = printable(&answer.text, ANSWER_CHARS);
            let contender = printable(&answer.contender, NAME_CHARS);
            let start = Text::default().plain(format!("{contender}: {finding}: "));
            start.code(text)
        };
        let schema = printable(&disagreement.schema, NAME_CHARS);
        document.push(Block::Item {
            text: format!("{schema}, {}", disagreement.case_id).into(),
            below: disagreement.answers.iter().map(answer).collect(),
        });
    }
    document.gap();
    document.facts([("order", comparison.record.order.clone())]);
    document.notes(notices(comparison));
    document.legend(legend(comparison));
    let summary = "All metrics (means of distributions)".to_owned();
    document.push(Block::Details {
        summary,
        blocks: vec![Block::Table(all_metrics(comparison))],
    });
    document
}

fn add_summary(document: &mut Document, comparison: &Comparison) {
    let strong = |text: String| Text::default().strong(text);
    if comparison.record.partial {
        document.paragraph(strong(
            "PARTIAL: stopped before the last run; rows without a run have no figures".to_owned(),
        ));
    }
    verdicts::add(document, comparison);
    document.facts(conditions(comparison));
    document.gap();
    document.table(console::table(comparison));
    let notes = console::numbered_notes(comparison);
    let note = |(index, note): (usize, &String)| format!("({}) {}", index + 1, shown(note));
    document.paragraphs(notes.iter().enumerate().map(note));
    document.gap();
    document.paragraphs(knees(comparison).iter().map(|knee| strong(shown(knee))));
    document.titled_table("Capacity at the objectives", capacity::table(comparison));
    let sentences = comparison.capacity.iter().map(ToString::to_string);
    document.paragraphs(sentences.map(|line| shown(&line)));
    if !comparison.capacity.is_empty() {
        document.titled_table("Steps of the search", capacity::steps_table(comparison));
        document.paragraph(STEPS_LEGEND);
    }
    if let Some((table, line)) = console::schemas(comparison) {
        document.gap();
        if let Some(table) = table {
            document.table(table);
        }
        document.paragraph(line);
    }
    document.gap();
    document.legend(SHORT_LEGEND);
}

fn notices(comparison: &Comparison) -> Vec<String> {
    let notices = comparison.notices.iter();
    notices.map(|notice| shown(&notice.to_string())).collect()
}

/// A row for each metric, and a column for each measured row of the comparison.
fn all_metrics(comparison: &Comparison) -> Table {
    let measured: Vec<_> = comparison.measured().collect();
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
    for metric in Metric::in_tables() {
        let number = |values: &Values| {
            let number = values.number(metric);
            number.or_else(|| values.summary(metric).mean)
        };
        let all = measured.iter().map(|(_, figures)| &figures.metrics);
        let numbers: Vec<_> = all.map(number).collect();
        if numbers.iter().any(Option::is_some) {
            let cells = numbers.into_iter();
            let cells = cells.map(|number| Figure::new(metric).text(number));
            table.row(std::iter::once(Figure::new(metric).title()).chain(cells));
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

/// The settings that all rows share.
fn conditions(comparison: &Comparison) -> Vec<(&'static str, String)> {
    let record = &comparison.record;
    let date = record
        .date
        .as_deref()
        .map(|date| format!(", {date}"))
        .unwrap_or_default();
    let repeats = if record.repeats == 1 {
        "one run".to_owned()
    } else {
        format!("{} runs", record.repeats)
    };
    let control = match record.control {
        true => "; control arm: the same cases on the same schedule without constraints",
        false => "; no control arm",
    };
    // A sweep has a load for each row.
    let is_swept = comparison.rows.iter().any(|row| row.load != Load::AsGiven);
    let load = match &record.load {
        load if is_swept || load.is_empty() => String::new(),
        load => format!(", {load}"),
    };
    let datasets = distinct(comparison.rows.iter().map(|row| row.dataset.as_str())).join(", ");
    let mut conditions = vec![
        ("sobench", format!("{}{date}", record.sobench_version)),
        (
            "servers",
            format!("{}; {} API", record.servers, record.backend),
        ),
        (
            "each row",
            format!(
                "{repeats} of {} requests of {datasets}{load}, answers up to {} tokens, seed {}{control}",
                record.num_prompts, record.output_len, record.seed
            ),
        ),
    ];
    if let Some(slo) = record.goodput {
        let limits = [
            ("TTFT", slo.ttft_ms),
            ("TPOT", slo.tpot_ms),
            ("E2EL", slo.e2el_ms),
        ];
        let limits = limits
            .iter()
            .filter_map(|(name, limit)| Some(format!("{name} up to {} ms", (*limit)?)));
        let objectives: Vec<String> = limits
            .chain(slo.valid.then(|| "a valid answer".to_owned()))
            .collect();
        let share = record.goodput_share_percent;
        conditions.push((
            "objectives",
            format!(
                "{}; met if {share} % of the requests are valid within them",
                objectives.join(", ")
            ),
        ));
    }
    conditions
}

/// The meaning of the columns.
fn legend(comparison: &Comparison) -> Vec<&'static str> {
    let mut lines = vec![
        "TTFT and TPOT: median and p99 of constrained requests in ms; *: too few samples for a p99",
    ];
    lines.push(
        "cold, warm: median TTFT of first and later uses of a constraint, with their number; cold only if the server certainly had not \
         received the constraint before",
    );
    if comparison.rows.iter().any(|row: &Row| {
        row.figures()
            .is_some_and(|figures| figures.cold_from == Some(ColdFrom::Alone))
    }) {
        lines.push(
            "+: single requests before each run, because all its requests have the same constraint: its first use on a newly started \
             server, and a second use, both after the same prompt without the constraint. A server with a compile cache on disk may have \
             compiled it before",
        );
    }
    if comparison.runs.iter().any(|run| run.distrust.is_some()) {
        lines.push("?: not trusted: in at least one of the runs the client may have added more than a tenth of a figure");
    }
    lines
}

/// A reason or a notice without control characters, shortened.
fn shown(text: &str) -> String {
    printable(text, REASON_CHARS)
}

/// A sentence for each knee.
fn knees(comparison: &Comparison) -> Vec<String> {
    let required = comparison.record.goodput_share_percent;
    let share = |share: Rate| {
        let Rate {
            percent,
            low_percent,
            high_percent,
            hits,
            of,
            ..
        } = share;
        format!("{percent:.2} % ({hits}/{of}; 95 % interval {low_percent:.2} to {high_percent:.2})")
    };
    let sentence = |verdict: &Knee<super::Load>| {
        match verdict {
        Knee::At { load, share: found, is_highest, lower_missed } => {
            let beyond = if *is_highest { "; this is the highest load of the sweep, so the knee may be higher" } else { "" };
            let lower = lower_missed.map_or_else(String::new, |lower| {
                format!("; unreliable, because a lower load did not meet them: {lower}")
            });
            format!("valid goodput knee at {load}: {} valid within the objectives{beyond}{lower}", share(*found))
        }
        Knee::Nowhere { lowest, share: found } => {
            format!("no load of the sweep meets the objectives with {required} % valid answers: at {lowest}, {} are valid within them", share(*found))
        }
        Knee::Unknown => {
            "valid goodput knee unknown: a load could not be measured, or the objectives could not be checked".to_owned()
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
