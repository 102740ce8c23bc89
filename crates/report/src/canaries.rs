//! Tables and sentences about answers to canary requests.

use super::text::figure;
use sobench_core::printable::printable;
use sobench_render::{Document, Table};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::canary::{
    Canaries, CanaryClass, CanaryFinding, CanaryGroup, Excerpt, LoadShift, Shifted, TrendBy,
};
use sobench_statistics::Rate;

const CLASSES: &str = "Answers to canaries by class";
const FINDINGS: &str = "Masks that failed, by request";
const TRENDS: &str = "Trends of classes (Cochran-Armitage)";

/// Findings in the summary.
const MAX_SUMMARY_FINDINGS: usize = 3;

/// Width of a column of excerpts.
const EXCERPT_WIDTH: usize = 34;

/// Characters at most of each side of an excerpt.
const EXCERPT_MAX_CHARS: usize = 40;

/// Classes that prove a failure of the mask.
const FAILURES: [CanaryClass; 4] = [
    CanaryClass::Swapped,
    CanaryClass::MaskOff,
    CanaryClass::Restarted,
    CanaryClass::FailedOpen,
];

/// The lines of the summary.
pub(crate) fn summary(canaries: &Canaries) -> Vec<String> {
    let mut lines = vec![sentence(canaries)];
    let failures = canaries
        .findings
        .iter()
        .filter(|finding| FAILURES.contains(&finding.class));
    lines.extend(failures.take(MAX_SUMMARY_FINDINGS).map(finding_sentence));
    lines.extend(canaries.shifts.iter().filter_map(shift_sentence));
    lines
}

/// Adds every sentence and table to the full text report.
pub(crate) fn add(page: &mut Document, metrics: &Metrics) {
    let Some(canaries) = &metrics.canaries else {
        return;
    };
    page.heading("Canaries");
    page.paragraph(sentence(canaries));
    page.paragraphs(canaries.shifts.iter().filter_map(shift_sentence));
    for (title, table) in tables(metrics) {
        page.titled_table(title, table);
    }
}

/// The tables with their titles; none without canaries.
pub(crate) fn tables(metrics: &Metrics) -> Vec<(&'static str, Option<Table>)> {
    let Some(canaries) = &metrics.canaries else {
        return Vec::new();
    };
    // A single group has the figures of the whole.
    let groups =
        |head: &str, groups: &[CanaryGroup]| (groups.len() > 1).then(|| self::groups(head, groups));
    vec![
        (CLASSES, Some(classes(canaries))),
        (
            "Canaries by kind of constraint (count and 95 % interval in %)",
            groups("kind", &canaries.by_kind),
        ),
        (
            "Canaries by requests in flight when sent (count and 95 % interval in %)",
            groups("in flight", &canaries.by_in_flight),
        ),
        (
            "Canaries by rank among the requests in flight (count and 95 % interval in %)",
            groups("rank", &canaries.by_rank),
        ),
        (
            "Canaries over time (count and 95 % interval in %)",
            groups("sent", &canaries.over_time),
        ),
        (TRENDS, trends(canaries).non_empty()),
        (FINDINGS, findings(canaries).non_empty()),
    ]
}

/// The counts of the classes in one sentence.
fn sentence(canaries: &Canaries) -> String {
    let answers = canaries.answers;
    let counts: Vec<String> = FAILURES
        .into_iter()
        .chain([CanaryClass::EndedEarly, CanaryClass::OtherInvalid])
        .filter_map(|class| {
            let count = canaries.count(class);
            (count > 0).then(|| format!("{count} {}", class.label()))
        })
        .collect();
    if counts.is_empty() {
        let bound = Rate::new(0, answers).map_or_else(String::new, |rate| {
            format!(" (below {:.2} %)", rate.high_percent)
        });
        return format!("canaries: {answers} answers, no mask failed{bound}");
    }
    format!("canaries: {answers} answers, {}", counts.join(", "))
}

fn finding_sentence(finding: &CanaryFinding) -> String {
    let CanaryFinding {
        class,
        case_id,
        kind,
        byte,
        ..
    } = finding;
    let load = finding
        .in_flight
        .map_or_else(String::new, |count| format!(", {count} in flight"));
    let what = match &finding.partner {
        Some(partner) => format!(
            "has the nonce of {} ({}), {:.1} ms at the same time",
            partner.case_id, partner.kind, partner.overlap_ms
        ),
        None => finding.excerpt.as_ref().map_or_else(String::new, quoted),
    };
    format!(
        "{}: {case_id} ({kind}) from byte {byte}{load}: {what}",
        class.label()
    )
}

/// The sentence on a shift; `None` without one.
fn shift_sentence(shift: &LoadShift) -> Option<String> {
    if !shift.is_shift {
        return None;
    }
    let is_fall = shift.high_percent < shift.low_percent;
    let (name, unit) = match (shift.of, is_fall) {
        (Shifted::Length, true) => (
            "answers get shorter with concurrency",
            " of their mean length",
        ),
        (Shifted::Length, false) => (
            "answers get longer with concurrency",
            " of their mean length",
        ),
        (Shifted::Validity, true) => ("validity falls with concurrency", " valid"),
        (Shifted::Validity, false) => ("validity rises with concurrency", " valid"),
    };
    Some(format!(
        "{name}: {:.1} %{unit} up to {} in flight, {:.1} % above (tau-b {:.2}, p {:.1e})",
        shift.low_percent,
        shift.middle.floor(),
        shift.high_percent,
        shift.tau,
        shift.p_value
    ))
}

fn classes(canaries: &Canaries) -> Table {
    let mut table = Table::new(["class", "%", "95 % interval", "count"], 1);
    for found in &canaries.classes {
        let rate = found.rate;
        table.row([
            found.class.label().to_owned(),
            figure(Some(rate.percent)),
            format!("{:.2} to {:.2}", rate.low_percent, rate.high_percent),
            format!("{}/{}", rate.hits, rate.of),
        ]);
    }
    table
}

fn groups(head: &str, groups: &[CanaryGroup]) -> Table {
    let heads = [head, "answers"]
        .into_iter()
        .chain(FAILURES.map(CanaryClass::label));
    let cell = |rate: &Rate| {
        format!(
            "{} ({:.1} to {:.1})",
            rate.hits, rate.low_percent, rate.high_percent
        )
    };
    let mut table = Table::new(heads, 1);
    for group in groups {
        table.row([
            group.group.clone(),
            group.answers.to_string(),
            cell(&group.swapped),
            cell(&group.mask_off),
            cell(&group.restarted),
            cell(&group.failed_open),
        ]);
    }
    table
}

fn trends(canaries: &Canaries) -> Table {
    let mut table = Table::new(["share", "with", "z", "p"], 2);
    for trend in &canaries.trends {
        let by = match trend.by {
            TrendBy::InFlight => "requests in flight",
            TrendBy::Time => "time",
        };
        table.row([
            trend.class.label().to_owned(),
            by.to_owned(),
            figure(Some(trend.z)),
            format!("{:.1e}", trend.p_value),
        ]);
    }
    table
}

fn findings(canaries: &Canaries) -> Table {
    let heads = [
        "class",
        "request",
        "byte",
        "in flight",
        "rank",
        "partner",
        "overlap ms",
        "answer",
    ];
    let mut table = Table::new(heads, 2)
        .left_aligned(5)
        .left_aligned(7)
        .wrapped(7, EXCERPT_WIDTH);
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    for finding in &canaries.findings {
        let partner = finding.partner.as_ref();
        table.row([
            finding.class.label().to_owned(),
            format!("{} ({})", finding.case_id, finding.kind),
            finding.byte.to_string(),
            number(finding.in_flight),
            number(finding.rank),
            partner.map_or_else(String::new, |partner| {
                format!("{} ({})", partner.case_id, partner.kind)
            }),
            partner.map_or_else(String::new, |partner| format!("{:.1}", partner.overlap_ms)),
            finding.excerpt.as_ref().map_or_else(String::new, quoted),
        ]);
    }
    table
}

/// The text before the byte, and from it on.
fn quoted(excerpt: &Excerpt) -> String {
    let [before, from] =
        [&excerpt.before, &excerpt.from].map(|text| printable(text, EXCERPT_MAX_CHARS));
    if before.is_empty() {
        format!("\"{from}\"")
    } else {
        format!("\"{before}\" then \"{from}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_results::metrics::canary::{CanaryPartner, ClassRate};

    fn canaries(counts: [(CanaryClass, usize); 2], answers: usize) -> Canaries {
        Canaries {
            answers,
            classes: counts
                .into_iter()
                .filter_map(|(class, hits)| {
                    let rate = Rate::new(hits, answers)?;
                    Some(ClassRate { class, rate })
                })
                .collect(),
            by_in_flight: Vec::new(),
            by_rank: Vec::new(),
            by_kind: Vec::new(),
            over_time: Vec::new(),
            trends: Vec::new(),
            shifts: Vec::new(),
            findings: Vec::new(),
        }
    }

    #[test]
    fn summary_has_counts_findings_and_shifts() {
        let fine = canaries([(CanaryClass::Fine, 2000), (CanaryClass::Swapped, 0)], 2000);
        assert_eq!(
            summary(&fine),
            ["canaries: 2000 answers, no mask failed (below 0.19 %)"]
        );
        let mut swapped = canaries([(CanaryClass::Fine, 1999), (CanaryClass::Swapped, 1)], 2000);
        let finding = CanaryFinding {
            class: CanaryClass::Swapped,
            case_id: "canary-7".to_owned(),
            kind: "json",
            byte: 11,
            excerpt: Some(Excerpt {
                before: "{\"start\": \"cn-".to_owned(),
                from: "12\u{7}".to_owned(),
            }),
            in_flight: Some(16),
            rank: Some(4),
            partner: Some(CanaryPartner {
                case_id: "canary-9".to_owned(),
                kind: "regex",
                overlap_ms: 35.25,
                in_flight: Some(15),
                rank: Some(3),
                class: Some(CanaryClass::Fine),
            }),
        };
        let other = CanaryFinding {
            class: CanaryClass::FailedOpen,
            partner: None,
            ..finding.clone()
        };
        swapped.findings = vec![finding, other];
        let shift = LoadShift {
            of: Shifted::Length,
            answers: 2000,
            tau: -0.31,
            p_value: 2e-9,
            middle: 8.5,
            low_percent: 112.0,
            high_percent: 88.0,
            is_shift: true,
        };
        swapped.shifts = vec![
            shift,
            LoadShift {
                of: Shifted::Validity,
                is_shift: false,
                ..shift
            },
        ];
        assert_eq!(
            summary(&swapped),
            [
                "canaries: 2000 answers, 1 swapped",
                "swapped: canary-7 (json) from byte 11, 16 in flight: has the nonce of canary-9 (regex), 35.2 ms at the same time",
                "failed open: canary-7 (json) from byte 11, 16 in flight: \"{\"start\": \"cn-\" then \"12\\u{7}\"",
                "answers get shorter with concurrency: 112.0 % of their mean length up to 8 in flight, 88.0 % above (tau-b -0.31, p 2.0e-9)",
            ]
        );
    }
}
