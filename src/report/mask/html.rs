//! One page that holds everything: charts, tables, conditions, definitions. No script and nothing from elsewhere; every word that
//! came from outside is escaped. Knows no browser.

use std::fmt::Write as _;

use super::definitions::spoken_of;
use super::distribution::Distribution;
use super::latency::passes;
use super::outcome::{Class, SchemaOutcome};
use super::svg::{self, Bar, COLOURS, Curve, Part, Shares, escape};
use super::tables::{self, Section};
use super::text::{conditions, notes, partial};
use super::{EngineSummary, Summary};

/// Colours by name, light and dark; engines by number, in an order that the colour-blind can tell apart (Okabe and Ito, 2008).
const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#fff;--line:#d1d9e0;--band:#f6f8fa;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#8a6d00;
--good:#4c9f70;--rejects:#e8b93c;--declined:#9aa4b2;--ended:#8e6bbf;--accepts:#c8323c;--apart:#d5dbe2;--on-apart:#1b1f24}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--paper:#0d1117;--line:#3d444d;--band:#161b22;
--c0:#56b4e9;--c1:#ff9a4d;--c2:#2fc79a;--c3:#e6a3c8;--c4:#f0e442;
--good:#3f8f63;--rejects:#b98f1d;--declined:#68727f;--ended:#8e6bbf;--accepts:#e0525b;--apart:#3b434d;--on-apart:#e6edf3}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1.5rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .25rem}h3{font-size:.95rem;margin:.5rem 0 0;font-weight:600}
p{margin:.25rem 0;color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem;margin:.5rem 0}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th{border-bottom:2px solid var(--line);vertical-align:bottom}tbody tr:nth-child(even){background:var(--band)}
th.word,td.word{text-align:left}td.word{white-space:normal;overflow-wrap:break-word;min-width:11rem}
svg.wide{min-width:44rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1rem}
svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}svg .label{fill:var(--ink);font-size:14px}
svg .count{fill:#fff;font-size:13px;font-weight:600}svg .rejects+.count{fill:#1b1f24}svg .apart+.count{fill:var(--on-apart)}
.grid{stroke:var(--line);stroke-width:1}.curve{fill:none;stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:6 4}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}
.good{fill:var(--good);background:var(--good)}.rejects{fill:var(--rejects);background:var(--rejects)}
.declined{fill:var(--declined);background:var(--declined)}.ended{fill:var(--ended);background:var(--ended)}
.accepts{fill:var(--accepts);background:var(--accepts)}.apart{fill:var(--apart);background:var(--apart)}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:.25rem 0 .5rem;color:var(--ink);padding:0;list-style:none}
.legend i{display:inline-block;width:1rem;height:.75rem;margin-right:.4rem;border-radius:2px}
.legend svg{display:inline-block;width:2rem;height:.75rem;margin-right:.4rem}
dt{font-weight:600}dd{margin:0 0 .4rem;color:var(--soft)}
";

/// The whole page.
pub fn render(summary: &Summary) -> String {
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>");
    let names: Vec<&str> = summary.engines.iter().map(|it| it.engine.name()).collect();
    let title = format!("sobench mask: {}", names.join(", "));
    let _ = write!(page, "<title>{0}</title><style>{STYLE}</style></head><body><h1>{0}</h1>", escape(&title));
    if let Some(partial) = partial(summary) {
        let _ = write!(page, "<p><strong>{}</strong></p>", escape(&partial));
    }
    for (name, condition) in conditions(summary) {
        let _ = write!(page, "<p>{}: {}</p>", escape(name), escape(&condition));
    }
    for note in notes(summary) {
        let _ = write!(page, "<p>note: {}</p>", escape(&note));
    }
    add_outcomes(&mut page, summary);
    add_curves(&mut page, summary);
    tables::all(summary).iter().for_each(|it| add_table(&mut page, it));
    let spoken_of: Vec<_> = spoken_of(&page).collect();
    page.push_str("<h2>What the words mean</h2><dl>");
    for (name, meaning) in spoken_of {
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(meaning));
    }
    page.push_str("</dl></body></html>\n");
    page
}

fn add_outcomes(page: &mut String, summary: &Summary) {
    let spelling = summary.headline.name();
    let title = format!("Outcomes of schemas, {spelling} spelling");
    let _ = write!(page, "<h2>{title}</h2><ul class=\"legend\">");
    for (class, name) in [
        ("good", "pass"),
        ("rejects", "rejects valid"),
        ("declined", "declined"),
        ("ended", "dead end, failed, timeout, out of memory or crash"),
        ("accepts", "accepts invalid"),
        ("apart", "no instance, or not judged"),
    ] {
        let _ = write!(page, "<li><i class=\"{class}\"></i>{name}</li>");
    }
    page.push_str("</ul>");
    let bars: Vec<Bar> = summary.engines.iter().map(bar).collect();
    let _ = write!(page, "<div class=\"scroll\">{}</div>", svg::stacked(&format!("{title} (unit: schema)"), &bars));
}

fn bar(engine: &EngineSummary) -> Bar {
    let schemas = &engine.headline().schemas;
    let (apart, judged): (Vec<_>, Vec<_>) = SchemaOutcome::ALL.iter().copied().partition(|it| *it < SchemaOutcome::Pass);
    let part = |it: SchemaOutcome| Part { name: it.title().to_owned(), class: class_of(it), count: schemas.get(it) };
    Bar { name: engine.engine.name().to_owned(), parts: judged.into_iter().chain(apart).map(part).collect() }
}

fn class_of(outcome: SchemaOutcome) -> &'static str {
    match outcome {
        SchemaOutcome::NoInstance | SchemaOutcome::NotJudged => "apart",
        SchemaOutcome::Pass => "good",
        SchemaOutcome::RejectsValid => "rejects",
        SchemaOutcome::DeclinedUnsupported | SchemaOutcome::DeclinedInvalid | SchemaOutcome::DeclinedTooLarge => "declined",
        SchemaOutcome::DeadEnd
        | SchemaOutcome::Failed
        | SchemaOutcome::Timeout
        | SchemaOutcome::OutOfMemory
        | SchemaOutcome::Crash => "ended",
        SchemaOutcome::AcceptsInvalid => "accepts",
    }
}

/// A chart's distribution over the own set, and over the common one.
type Pair = Box<dyn Fn(&EngineSummary) -> (&Distribution, &Distribution)>;

fn add_curves(page: &mut String, summary: &Summary) {
    page.push_str("<h2>How many are done by when</h2><ul class=\"legend\">");
    for (place, engine) in summary.engines.iter().enumerate() {
        let (colour, name) = (place % COLOURS, engine.engine.name());
        let sets = [("", "own"), (" dashed", "common")];
        for (dashed, set) in sets.into_iter().take(if summary.common_schemas == 0 { 1 } else { 2 }) {
            let line = format!("<line class=\"curve c{colour}{dashed}\" x1=\"0\" y1=\"6\" x2=\"32\" y2=\"6\"/>");
            let _ = write!(page, "<li><svg viewBox=\"0 0 32 12\">{line}</svg>{name}, {set} set</li>");
        }
    }
    page.push_str(
        "</ul><p>share of all that are not longer; a curve that ends below 100 % has timeouts, or goes on beyond 10 s. The lower charts show the \
                   tail: each line up is one nine more.</p><div class=\"charts\">",
    );
    let mut charts: Vec<(String, Shares, Pair)> = vec![
        ("Cold compile (unit: schema)".to_owned(), Shares::Even, Box::new(|it| (&it.compile.own.cold, &it.compile.common.cold))),
        (
            "Compile and first mask (unit: schema)".to_owned(),
            Shares::Even,
            Box::new(|it| (&it.compile.own.to_first_mask, &it.compile.common.to_first_mask)),
        ),
    ];
    for (shares, tail) in [(Shares::Even, ""), (Shares::Nines, ": the tail")] {
        charts.extend(passes(&summary.measurement.about).iter().map(|&(pass, of)| {
            let pair: Pair = Box::new(move |it| {
                let masks = &it.headline().masks;
                (&of(&masks.own).mask, &of(&masks.common).mask)
            });
            (format!("Masks, {pass}{tail} (unit: token)"), shares, pair)
        }));
    }
    for (title, shares, of) in charts {
        let curves: Vec<Curve> = summary.engines.iter().enumerate().flat_map(|(place, it)| curves(it, place, &of)).collect();
        let _ = write!(page, "<div><h3>{title}</h3>{}</div>", svg::cumulative(&title, &curves, shares));
    }
    page.push_str("</div>");
}

fn curves(engine: &EngineSummary, colour: usize, of: &Pair) -> [Curve; 2] {
    let (own, common) = of(engine);
    let curve = |distribution: &Distribution, dashed: bool| {
        let set = if dashed { "common" } else { "own" };
        let name = format!("{}, {set} set, n = {}", engine.engine.name(), distribution.n());
        Curve { name, colour, dashed, points: distribution.cumulative().collect() }
    };
    [curve(own, false), curve(common, true)]
}

fn add_table(page: &mut String, section: &Section) {
    let _ = write!(page, "<h2>{}</h2>", escape(&section.title));
    section.notes.iter().for_each(|note| {
        let _ = write!(page, "<p>{}</p>", escape(note));
    });
    page.push_str("<div class=\"scroll\"><table><thead>");
    add_cells(page, "th", &section.head, section.word_columns);
    page.push_str("</thead><tbody>");
    section.rows.iter().for_each(|row| add_cells(page, "td", row, section.word_columns));
    page.push_str("</tbody></table></div>");
}

fn add_cells(page: &mut String, tag: &str, cells: &[String], word_columns: usize) {
    page.push_str("<tr>");
    for (place, cell) in cells.iter().enumerate() {
        let class = if place < word_columns { " class=\"word\"" } else { "" };
        let _ = write!(page, "<{tag}{class}>{}</{tag}>", escape(cell).replace('\n', "<br/>"));
    }
    page.push_str("</tr>");
}

#[cfg(test)]
mod tests {
    use super::super::testing::eventful;
    use super::*;

    /// Elements without content in this page; all are closed in place.
    fn check_well_formed(page: &str) {
        let mut open: Vec<String> = Vec::new();
        let mut rest = page.strip_prefix("<!DOCTYPE html>\n").expect("the page says what it is");
        while let Some(start) = rest.find('<') {
            let text = &rest[..start];
            assert!(!text.contains('>') || open.last().is_some_and(|it| it == "style"), "a bare > in {text}");
            let end = start + rest[start..].find('>').expect("every tag ends");
            let tag = &rest[start + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes pair up in {tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "</{name}> closes what is open");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap().to_owned());
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }

    #[test]
    fn a_page_is_well_formed_and_needs_nothing_else() {
        let page = render(&eventful());
        check_well_formed(&page);
        for word in ["<script", "http:", "https:", "src=", "@import", "url(", "<link", "\u{1b}", "<b>&"] {
            assert!(!page.contains(word), "{word} is in the page");
        }
        assert!(page.contains("&lt;script&gt;"), "strangers' words are there, escaped");
        let classes = page.matches("<path class=\"curve").count();
        assert_eq!(classes, 6 * 2 * 2, "six charts of two engines over two sets");
    }
}
