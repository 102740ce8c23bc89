//! One page that holds a run: what ran, how right and why not, how fast, when, and the failing cases with a line that sends each again. No
//! script and nothing from elsewhere; every word that came from outside is escaped. Knows no browser.

mod cases;
mod charts;

use std::fmt::Write as _;

use super::breakdown::{self, Parts};
use super::conditions::{lines, notes};
use super::escape::escape;
use super::tables::{RATE_COLUMNS, is_judged, rate_rows};
use super::text::figure;
use super::view::View;
use super::{Report, by_arm, client_sentence, page};
use crate::error::Result;
use crate::metrics::client::ClientVerdict;
use crate::metrics::excerpt::Group;
use crate::metrics::registry;
use crate::printable::printable;
use crate::statistics::Rate;

/// What this page has beyond others. Cases fold open without a script, and a filter is a choice among radio buttons.
const STYLE: &str = "
:root{--bad:#c8323c;--fill:#0072b222;--mark:#ffd33d;--on-mark:#1b1f24}
@media(prefers-color-scheme:dark){:root{--bad:#ff7b72;--fill:#56b4e933;--mark:#d29922;--on-mark:#0d1117}}
.lead{font-size:1.05rem;color:var(--ink)}.alarm{color:var(--bad);font-weight:600}
.said td:last-child,.said th:last-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:9rem}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.5rem 0;font-size:.9rem}
dl.facts dt{font-weight:400;color:var(--soft)}dl.facts dd{margin:0;color:var(--ink);min-width:0;overflow-wrap:anywhere}
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
@media(max-width:40rem){body{padding:1rem}th,td{padding:.2rem .4rem}td.word{min-width:6.5rem}dl.facts{grid-template-columns:1fr}dl.facts dd{margin-bottom:.3rem}
details.case>summary{grid-template-columns:1.2rem 1fr 1fr}details.case>summary>.words{grid-column:2/-1}
details.case>div{padding-left:0}}
";

/// The most characters of a name in the title, and of words in a table.
const NAME_MAX_CHARS: usize = 100;
const WORDS_MAX_CHARS: usize = 400;

/// The whole page.
///
/// # Errors
/// An answer that is shown cannot be read from the log.
pub fn render(view: &View<'_>) -> Result<String> {
    let report = view.report;
    let record = &report.record;
    let model = printable(&record.server.model_id, NAME_MAX_CHARS);
    let title = format!("sobench: {model} on {}", record.settings.dataset.name);
    let mut page = page::open(&title, STYLE);
    add_head(&mut page, report);
    if is_judged(report) {
        add_quality(&mut page, report);
    }
    add_latency(&mut page, view);
    charts::add_timeline(&mut page, view);
    add_parts(&mut page, "By kind of constraint", &breakdown::by_kind(view));
    add_parts(&mut page, "By tag", &breakdown::by_tag(view));
    cases::add(&mut page, view)?;
    add_metrics(&mut page, report);
    add_conditions(&mut page, report);
    Ok(page::close(page))
}

/// What the reader must not miss, and the run in a sentence.
fn add_head(page: &mut String, report: &Report) {
    let overall = &report.metrics.overall;
    if let Some(stamp) = report.record.enforcement.stamp() {
        let _ = write!(page, "<p class=\"alarm\">{}</p>", escape(&stamp));
    }
    if report.partial {
        page.push_str("<p class=\"alarm\">Partial: the run did not come to its end</p>");
    }
    let seconds = report.metrics.duration_ns as f64 / 1e9;
    let mut sentence = format!(
        "{} requests in {seconds:.2} s: {} answered, {} refused or failed",
        overall.requests, overall.completed, overall.failed
    );
    if overall.cancelled > 0 {
        let _ = write!(sentence, ", {} cancelled", overall.cancelled);
    }
    let rates = [("answers/s", overall.throughput.request_throughput), ("output tokens/s", overall.throughput.output_throughput)];
    for (unit, rate) in rates {
        rate.iter().for_each(|rate| sentence.push_str(&format!(", {rate:.2} {unit}")));
    }
    let _ = write!(page, "<p class=\"lead\">{}</p>", escape(&sentence));
    if let Some(part) = &report.client {
        let class = if part.verdict == ClientVerdict::DoNotTrust { " class=\"alarm\"" } else { "" };
        let _ = write!(page, "<p{class}>{}</p>", escape(&client_sentence(part)));
    }
    for note in notes(report) {
        let _ = write!(page, "<p>note: {}</p>", escape(&note));
    }
}

fn add_quality(page: &mut String, report: &Report) {
    let quality = &report.metrics.quality;
    page.push_str("<h2>Quality of the answers</h2>");
    let rows: Vec<Vec<String>> = rate_rows(quality).into_iter().map(Vec::from).collect();
    page.push_str("<div class=\"said\">");
    page::add_table(page, &RATE_COLUMNS.map(str::to_owned), &rows, 1);
    page.push_str("</div>");
    add_groups(page, "Why constrained answers are not valid", &quality.reasons, quality.constrained);
    add_groups(page, "Constrained requests without a verdict", &quality.not_scored, quality.constrained);
}

fn add_metrics(page: &mut String, report: &Report) {
    page.push_str("<h2>All metrics</h2><div class=\"said\">");
    let rows: Vec<Vec<String>> = registry::rows(&report.metrics, registry::Page::Whole).into_iter().map(Vec::from).collect();
    page::add_table(page, &registry::ROW_COLUMNS.map(str::to_owned), &rows, 1);
    page.push_str("</div>");
}

fn add_groups(page: &mut String, title: &str, groups: &[Group], whole: usize) {
    if groups.is_empty() {
        return;
    }
    let head = ["reason", "count", "share %", "the first one"].map(str::to_owned);
    let row = |group: &Group| {
        let first = group
            .excerpts
            .first()
            .map_or_else(String::new, |it| printable(&format!("{}: {}", it.case_id, it.words), WORDS_MAX_CHARS));
        let share = figure(Rate::of(group.count, whole).map(|rate| rate.percent));
        vec![group.name.to_owned(), group.count.to_string(), share, first]
    };
    let _ = write!(page, "<h3>{title}</h3><div class=\"said\">");
    page::add_table(page, &head, &groups.iter().map(row).collect::<Vec<_>>(), 1);
    page.push_str("</div>");
}

fn add_latency(page: &mut String, view: &View<'_>) {
    let (head, rows) = by_arm::latencies(view.report);
    if rows.is_empty() {
        return;
    }
    page.push_str("<h2>Latency</h2>");
    page::add_table(page, &head, &rows, 1);
    charts::add_curves(page, view);
}

fn add_parts(page: &mut String, title: &str, parts: &Parts) {
    if parts.rows.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>{title}</h2>");
    page::add_table(page, &parts.head, &parts.rows, 1);
    if parts.left_out > 0 {
        let _ = write!(page, "<p>{} more, each with fewer requests, are left out</p>", parts.left_out);
    }
}

fn add_conditions(page: &mut String, report: &Report) {
    page.push_str("<h2>What ran</h2><dl class=\"facts\">");
    for (name, known) in lines(report) {
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&known));
    }
    let shown = |text: &str| printable(text, WORDS_MAX_CHARS);
    for (name, value) in &report.record.settings.report.metadata {
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(&shown(name)), escape(&shown(value)));
    }
    page.push_str("</dl>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Arm;
    use crate::metrics::testing::{Made, made};
    use crate::observation::Outcome;
    use crate::record::testing::record;
    use crate::report::page::testing::check_well_formed;
    use crate::report::view::testing::with_view;
    use crate::verdict::{NotScored, Reason, Verdict};

    const HOSTILE: &str =
        "</pre></script><script>alert(1)</script><img src=x onerror=alert(1)> & \" ' \u{0}\u{1b}[31m\u{202e} ]]> <!--";

    fn eventful() -> Vec<Made<'static>> {
        let invalid = Verdict::Invalid { reason: Reason::ExtraText { byte: 0 } };
        let words = Reason::Schema {
            keyword: "<b>".into(),
            instance_path: "/<i>".into(),
            schema_path: String::new(),
            message: HOSTILE.into(),
        };
        vec![
            made(),
            Made { verdict: invalid.clone(), text: HOSTILE, ..made() },
            Made { verdict: Verdict::Invalid { reason: words }, text: HOSTILE, finish_reason: Some(HOSTILE), ..made() },
            Made {
                outcome: Outcome::Rejected { status: 400, body: HOSTILE.into(), advice: None },
                verdict: Verdict::NotScored { why: NotScored::Refused },
                chunks: vec![],
                output: None,
                ..made()
            },
            Made { arm: Arm::Control, verdict: invalid, ..made() },
        ]
    }

    #[test]
    fn a_page_is_well_formed_and_needs_nothing_else() {
        let mut hostile = record();
        hostile.server.model_id = HOSTILE.into();
        hostile.server.base_url = HOSTILE.into();
        hostile.settings.report.label = Some(HOSTILE.into());
        hostile.settings.report.metadata = vec![(HOSTILE.into(), HOSTILE.into())];
        hostile.notices = vec![HOSTILE.into()];
        let page = with_view(&eventful(), hostile, |view| {
            render(&View { report: &Report { partial: true, ..view.report.clone() }, ..view })
        });
        let page = page.unwrap();
        check_well_formed(&page);
        for word in
            ["<script", "<img", "http:", "https:", "@import", "url(", "<link", "\u{1b}", "\u{0}", "\u{202e}", "<b>", "<!--"]
        {
            assert!(!page.contains(word), "{word:?} is in the page");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("Partial: "), "strangers' words are there, escaped");
        assert_eq!(page.matches("<details class=\"case").count(), 3);
        assert_eq!(page.matches("<path class=\"curve").count(), 4 * 2, "four latencies in two arms");
    }

    #[test]
    fn a_run_without_requests_is_a_page() {
        let page = with_view(&[], record(), |view| render(&view)).unwrap();
        check_well_formed(&page);
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
