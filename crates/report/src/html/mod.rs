//! The report as one HTML page: figures, charts, and the failing cases.

mod cases;
mod charts;

use super::conditions::{self, lines, notice_text, notices};
use super::tables::{self, all_metrics, is_judged, rates};
use super::text::figure;
use super::view::View;
use super::{
    Report, accuracy, breakdown, canaries, client_overhead, count_marks, latency_table, map,
    server_metrics, sessions, verdict,
};
use sobench_core::case::Arm;
use sobench_core::error::Result;
use sobench_core::printable::{printable, printable_message};
use sobench_render::{self as render, Block, Document, Table, Tone};
use sobench_results::metrics::examples::Group;
use sobench_results::metrics::registry::totals;
use sobench_statistics::Rate;

/// CSS of this page. Cases fold open without a script; the filter is a choice among radio buttons.
const STYLE: &str = "
:root{--fill:#0072b222;--mark:#ffd33d;--on-mark:#1b1f24}
@media(prefers-color-scheme:dark){:root{--fill:#56b4e933;--mark:#d29922;--on-mark:#0d1117}}
.area{fill:var(--fill)}.bad{fill:var(--bad)}.none{fill:var(--c1)}
.swatch-bad{background:var(--bad)}.swatch-none{background:var(--c1)}
.pick{position:absolute;opacity:0}
.pick+label{display:inline-block;margin:.15rem .3rem .15rem 0;padding:.1rem .6rem;border:1px solid var(--line);border-radius:1rem;
cursor:pointer;font-size:.9rem}
.pick:checked+label{background:var(--ink);color:var(--paper)}.pick:focus-visible+label{outline:2px solid var(--c0)}
details.case{border-bottom:1px solid var(--line)}
details.case>summary{display:grid;grid-template-columns:1.2rem minmax(6rem,11rem) minmax(6rem,9rem) 1fr;gap:.25rem .75rem;padding:.3rem 0;
cursor:pointer;font-size:.9rem;list-style:none}
details.case>summary::before{content:'+';color:var(--soft)}details.case[open]>summary::before{content:'\\2212'}
details.case>summary>*{min-width:0;overflow-wrap:anywhere}.what{color:var(--bad)}
details.case>div{padding:0 0 .75rem 1.95rem}
pre{margin:.25rem 0;padding:.6rem;background:var(--band);border:1px solid var(--line);border-radius:4px;white-space:pre-wrap;
overflow-wrap:anywhere;font:13px/1.45 ui-monospace,monospace;max-height:26rem;overflow:auto;unicode-bidi:isolate}
pre .gone{color:var(--soft);font-style:italic}pre .code{color:var(--bad)}
mark{background:var(--mark);color:var(--on-mark);border-radius:2px}
@media(max-width:40rem){
details.case>summary{grid-template-columns:1.2rem 1fr 1fr}details.case>summary>.words{grid-column:2/-1}
details.case>div{padding-left:0}}
";

/// Characters at most of a name in the title, and of a message in a table.
const NAME_MAX_CHARS: usize = 100;
const MESSAGE_MAX_CHARS: usize = 400;

/// The page.
///
/// # Errors
/// An answer that is shown cannot be read from the log.
pub fn render(view: &View<'_>) -> Result<String> {
    Ok(render::html::render(&document(view)?))
}

fn document(view: &View<'_>) -> Result<Document> {
    let report = view.report;
    let record = &report.record;
    let model = printable(&record.server.model_id, NAME_MAX_CHARS);
    let mut page = Document::new(format!(
        "sobench: {model} on {}",
        record.settings.dataset.source.name.as_str()
    ));
    page.style = STYLE;
    add_head(&mut page, report);
    map::add(&mut page, &report.metrics, true);
    if is_judged(report) {
        add_quality(&mut page, report);
    }
    canaries::add(&mut page, &report.metrics);
    sessions::add(&mut page, &report.metrics);
    map::add_turns(&mut page, &report.metrics);
    accuracy::add(&mut page, report);
    if let Some(latencies) = latency_table::latencies(report) {
        page.heading("Latency");
        page.table(latencies);
        page.paragraphs(count_marks::footnotes(report));
        page.push(Block::Charts(charts::curves(view)));
    }
    charts::add_timeline(&mut page, view);
    server_metrics::add(&mut page, &report.metrics);
    add_parts(&mut page, "By kind of constraint", breakdown::by_kind(view));
    add_parts(&mut page, "By tag", breakdown::by_tag(view));
    for (title, table) in breakdown::by_size(view) {
        add_parts(&mut page, &title, (table, 0));
    }
    page.heading("Failing cases");
    page.push(Block::Html(cases::markup(view)?));
    page.heading("All metrics");
    page.table(all_metrics(&report.metrics));
    add_conditions(&mut page, report);
    Ok(page)
}

/// Warnings, and the run in a sentence.
fn add_head(page: &mut Document, report: &Report) {
    page.push(verdict::block(report));
    let values = &report.metrics.values;
    if let Some(stamp) = conditions::warning(report) {
        page.alarm(stamp);
    }
    if report.partial {
        page.alarm("Partial: the run stopped early");
    }
    let seconds = report.metrics.duration_ns as f64 / 1e9;
    let mut sentence = format!(
        "{} requests in {seconds:.2} s: {} answered, {} refused or failed",
        values.count(&totals::REQUESTS),
        values.count(&totals::COMPLETED),
        values.count(&totals::FAILED)
    );
    for (metric, name) in [
        (&totals::CANCELLED, "cancelled"),
        (&totals::ABANDONED, "abandoned"),
    ] {
        let count = values.count(metric);
        if count > 0 {
            sentence.push_str(&format!(", {count} {name}"));
        }
    }
    tables::add_throughput(&mut sentence, &report.metrics);
    page.push(Block::Paragraph {
        tone: Tone::Lead,
        text: sentence.into(),
    });
    if let Some(part) = &report.client {
        page.paragraph(client_overhead::sentence_of(report, part));
    }
    page.paragraphs(tables::sentences(report));
    page.notes(notices(report).iter().map(notice_text).collect());
}

fn add_quality(page: &mut Document, report: &Report) {
    let (metrics, findings) = (&report.metrics, &report.metrics.findings);
    let constrained = metrics.requests_of(Arm::Constrained);
    page.heading("Answer quality");
    page.table(rates(&report.metrics));
    add_groups(
        page,
        "Invalid constrained answers by reason",
        &findings.reasons,
        constrained,
    );
    add_groups(
        page,
        "Constrained requests without a verdict",
        &findings.not_scored,
        constrained,
    );
    tables::add_quality(page, metrics, true);
}

fn add_groups(page: &mut Document, title: &str, groups: &[Group], whole: usize) {
    if groups.is_empty() {
        return;
    }
    page.minor_heading(title);
    let row = |group: &Group| {
        let first = group.examples.first().map_or_else(String::new, |excerpt| {
            printable_message(&format!("{}: {}", excerpt.case_id, excerpt.message))
        });
        let share = figure(Rate::new(group.count, whole).map(|rate| rate.percent));
        [group.name.to_owned(), group.count.to_string(), share, first]
    };
    let heads = ["reason", "count", "share %", "first example"];
    page.table(
        Table::new(heads, 1)
            .left_aligned(3)
            .with_rows(groups.iter().map(row)),
    );
}

fn add_parts(page: &mut Document, title: &str, (parts, left_out): (Table, usize)) {
    if parts.is_empty() {
        return;
    }
    page.heading(title);
    page.table(parts);
    if left_out > 0 {
        page.paragraph(format!("{left_out} smaller groups are left out"));
    }
}

fn add_conditions(page: &mut Document, report: &Report) {
    page.heading("Conditions");
    let shown = |text: &str| printable(text, MESSAGE_MAX_CHARS);
    let metadata = report
        .record
        .settings
        .report
        .metadata
        .iter()
        .map(|(name, value)| (shown(name), shown(value)));
    page.facts(
        lines(report)
            .into_iter()
            .map(|(name, known)| (name.to_owned(), known))
            .chain(metadata),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::with_view;
    use sobench_core::case::Arm;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request};
    use sobench_notices::notice::Notice;
    use sobench_plan::record::testing::record;
    use sobench_render::html::testing::check_well_formed;

    const HOSTILE: &str = "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)> & \" ' \u{0}\u{1b}[31m\u{202e} ]]> <!--";

    fn eventful() -> Vec<TestRequest<'static>> {
        let invalid = Verdict::Invalid {
            reason: Reason::ExtraText {
                byte: 0,
                kind: sobench_core::verdict::ExtraText::Unknown,
                valid_if_stripped: false,
            },
        };
        let reason = Reason::Schema {
            keyword: "<b>".into(),
            instance_path: "/<i>".into(),
            schema_path: String::new(),
            message: HOSTILE.into(),
        };
        vec![
            test_request(),
            TestRequest {
                verdict: invalid.clone(),
                text: HOSTILE,
                ..test_request()
            },
            TestRequest {
                verdict: Verdict::Invalid { reason },
                text: HOSTILE,
                finish_reason: Some(HOSTILE),
                ..test_request()
            },
            TestRequest {
                outcome: Outcome::Rejected {
                    status: 400,
                    body: HOSTILE.into(),
                    advice: None,
                },
                verdict: Verdict::NotScored {
                    why: NotScored::Refused,
                },
                chunks: vec![],
                output: None,
                ..test_request()
            },
            TestRequest {
                arm: Arm::Control,
                verdict: invalid,
                ..test_request()
            },
        ]
    }

    #[test]
    fn the_page_is_well_formed_and_self_contained() {
        let mut hostile = record();
        hostile.server.model_id = HOSTILE.into();
        hostile.server.base_url = HOSTILE.into();
        hostile.settings.report.label = Some(HOSTILE.into());
        hostile.settings.report.metadata = vec![(HOSTILE.into(), HOSTILE.into())];
        hostile.notices = vec![Notice::Other(HOSTILE.into())];
        let page = with_view(&eventful(), hostile, |view| {
            render(&View {
                report: &Report {
                    partial: true,
                    ..view.report.clone()
                },
                ..view
            })
        });
        let page = page.unwrap();
        check_well_formed(&page);
        for word in [
            "<script", "<img", "http:", "https:", "@import", "url(", "<link", "\u{1b}", "\u{0}",
            "\u{202e}", "<b>", "<!--",
        ] {
            assert!(!page.contains(word), "{word:?} is in the page");
        }
        assert!(
            page.contains("&lt;script&gt;") && page.contains("Partial: "),
            "foreign text is escaped"
        );
        assert_eq!(page.matches("<details class=\"case").count(), 3);
        assert_eq!(
            page.matches("<path class=\"curve").count(),
            4 * 2,
            "four latencies in two arms"
        );
    }

    #[test]
    fn a_run_without_requests_has_a_page() {
        let page = with_view(&[], record(), |view| render(&view)).unwrap();
        check_well_formed(&page);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
