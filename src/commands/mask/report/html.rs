//! One page that holds everything: charts, tables, conditions, definitions. No script and nothing from elsewhere; every word that
//! came from outside is escaped. Knows no browser.

use std::fmt::Write as _;

use super::definitions::spoken_of;
use super::latency::passes;
use super::outcome::{Class, SchemaOutcome};
use super::tables::{self, Section};
use super::text::{conditions, note_text, notes, partial};
use super::{EngineSummary, Summary};
use crate::metrics::distribution::Distribution;
use crate::report::axis::Axis;
use crate::report::escape::escape;
use crate::report::page;
use crate::report::svg::{self, Bar, COLOURS, Curve, Part, Shares};

/// The colours of outcomes, light and dark.
const STYLE: &str = "
:root{--good:#4c9f70;--rejects:#e8b93c;--declined:#9aa4b2;--ended:#8e6bbf;--accepts:#c8323c;--apart:#d5dbe2;--on-apart:#1b1f24}
@media(prefers-color-scheme:dark){:root{--good:#3f8f63;--rejects:#b98f1d;--declined:#68727f;--ended:#8e6bbf;--accepts:#e0525b;
--apart:#3b434d;--on-apart:#e6edf3}}
svg .count{fill:#fff;font-size:13px;font-weight:600}svg .rejects+.count{fill:#1b1f24}svg .apart+.count{fill:var(--on-apart)}
.good{fill:var(--good);background:var(--good)}.rejects{fill:var(--rejects);background:var(--rejects)}
.declined{fill:var(--declined);background:var(--declined)}.ended{fill:var(--ended);background:var(--ended)}
.accepts{fill:var(--accepts);background:var(--accepts)}.apart{fill:var(--apart);background:var(--apart)}
";

/// The whole page.
pub fn render(summary: &Summary) -> String {
    let names: Vec<&str> = summary.engines.iter().map(|it| it.engine.name()).collect();
    let title = format!("sobench mask: {}", names.join(", "));
    let mut page = page::open(&title, STYLE);
    if let Some(partial) = partial(summary) {
        let _ = write!(page, "<p><strong>{}</strong></p>", escape(&partial));
    }
    for (name, condition) in conditions(summary) {
        let _ = write!(page, "<p>{}: {}</p>", escape(name), escape(&condition));
    }
    for note in notes(summary) {
        let _ = write!(page, "<p>note: {}</p>", escape(&note_text(&note)));
    }
    add_outcomes(&mut page, summary);
    add_curves(&mut page, summary);
    tables::all(summary).iter().for_each(|it| add_table(&mut page, it));
    let spoken_of: Vec<_> = spoken_of(&page).collect();
    page.push_str("<h2>What the words mean</h2><dl>");
    for (name, meaning) in spoken_of {
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(meaning));
    }
    page.push_str("</dl>");
    page::close(page)
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
    let axis = Axis::microsecond_to_ten_seconds();
    for (title, shares, of) in charts {
        let curves: Vec<Curve> = summary.engines.iter().enumerate().flat_map(|(place, it)| curves(it, place, &of)).collect();
        let _ = write!(page, "<div><h3>{title}</h3>{}</div>", svg::cumulative(&title, &curves, shares, &axis));
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
    page::add_table(page, &section.head, &section.rows, section.word_columns);
}

#[cfg(test)]
mod tests {
    use super::super::testing::eventful;
    use super::*;
    use crate::report::page::testing::check_well_formed;

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
