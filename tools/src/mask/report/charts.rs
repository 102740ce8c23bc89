//! Charts of the report: outcomes as stacked bars, durations as cumulative curves.

use super::latency::{Set, passes};
use super::outcome::{OutcomeClass, SchemaOutcome};
use super::{EngineSummary, Summary};
use sobench_render::axis::Axis;
use sobench_render::svg::{self, Bar, COLOURS, Curve, Part, ShareScale};
use sobench_render::{Block, Chart, Charts, Document, Layout, LegendEntry};
use sobench_results::metrics::distribution::Distribution;

/// Colours of outcomes, for light and dark mode.
pub(super) const STYLE: &str = "
:root{--good:#2f8557;--rejects:#e8b93c;--declined:#6a7583;--ended:#8e6bbf;--accepts:#c8323c;--apart:#d5dbe2;--on-apart:#1b1f24}
@media(prefers-color-scheme:dark){:root{--good:#378a5c;--rejects:#b98f1d;--declined:#68727f;--ended:#8e6bbf;--accepts:#d1434d;
--apart:#3b434d;--on-apart:#e6edf3}}
svg .count{fill:#fff;font-size:13px;font-weight:600}svg .rejects+.count{fill:#1b1f24}svg .apart+.count{fill:var(--on-apart)}
.good{fill:var(--good);background:var(--good)}.rejects{fill:var(--rejects);background:var(--rejects)}
.declined{fill:var(--declined);background:var(--declined)}.ended{fill:var(--ended);background:var(--ended)}
.accepts{fill:var(--accepts);background:var(--accepts)}.apart{fill:var(--apart);background:var(--apart)}
";

/// Adds all charts under two headings.
pub(super) fn add(document: &mut Document, summary: &Summary) {
    let title = format!("Outcomes of schemas, {} spelling", summary.headline.name());
    let outcomes = outcomes(summary, &title);
    document.heading(title);
    document.push(Block::Charts(outcomes));
    document.heading("Cumulative durations");
    document.push(Block::Charts(durations(summary)));
}

fn outcomes(summary: &Summary, title: &str) -> Charts {
    let legend = [
        ("good", "pass"),
        ("rejects", "rejects valid"),
        ("declined", "declined"),
        ("ended", "dead end, failed, timeout, out of memory or crash"),
        ("accepts", "accepts invalid"),
        ("apart", "no instance, or not judged"),
    ];
    let bars: Vec<Bar> = summary.engines.iter().map(bar).collect();
    let svg = svg::stacked(&format!("{title} (unit: schema)"), &bars);
    Charts {
        legend: legend
            .map(|(class, label)| LegendEntry::Area {
                class,
                label: label.to_owned(),
            })
            .to_vec(),
        caption: String::new(),
        charts: vec![Chart {
            title: String::new(),
            svg,
            table: None,
        }],
        layout: Layout::Wide,
    }
}

fn bar(engine: &EngineSummary) -> Bar {
    let schemas = &engine.headline().schemas;
    let (apart, judged): (Vec<_>, Vec<_>) = SchemaOutcome::ALL
        .iter()
        .copied()
        .partition(|outcome| *outcome < SchemaOutcome::Pass);
    let part = |outcome: SchemaOutcome| Part {
        name: outcome.title().to_owned(),
        class: class_of(outcome),
        count: schemas.get(outcome),
    };
    Bar {
        name: engine.engine.name().to_owned(),
        parts: judged.into_iter().chain(apart).map(part).collect(),
    }
}

fn class_of(outcome: SchemaOutcome) -> &'static str {
    match outcome {
        SchemaOutcome::NoInstance | SchemaOutcome::NotJudged => "apart",
        SchemaOutcome::Pass => "good",
        SchemaOutcome::RejectsValid => "rejects",
        SchemaOutcome::AcceptsInvalid => "accepts",
        outcome if outcome.is_declined() => "declined",
        _ => "ended",
    }
}

/// Selects the distribution of an engine over a set.
type Shown = Box<dyn Fn(&EngineSummary, Set) -> &Distribution>;

fn durations(summary: &Summary) -> Charts {
    let mut legend = Vec::new();
    for (place, engine) in summary.engines.iter().enumerate() {
        legend.extend(summary.sets().iter().map(|set| LegendEntry::Curve {
            colour: place % COLOURS,
            dashed: *set == Set::Common,
            label: format!("{}, {} set", engine.engine.name(), set.name()),
        }));
    }
    let caption = "share of durations up to the value; a curve that ends below 100 % has timeouts or values beyond 10 s. \
                   The lower charts show the tail: each grid line adds one nine.";
    Charts {
        legend,
        caption: caption.to_owned(),
        charts: duration_charts(summary),
        layout: Layout::Grid,
    }
}

fn duration_charts(summary: &Summary) -> Vec<Chart> {
    let cold: Shown = Box::new(|engine, set| &engine.compile.get(set).cold);
    let to_first_mask: Shown = Box::new(|engine, set| &engine.compile.get(set).to_first_mask);
    let mut charts = vec![
        (
            "Cold compile (unit: schema)".to_owned(),
            ShareScale::Even,
            cold,
        ),
        (
            "Compile and first mask (unit: schema)".to_owned(),
            ShareScale::Even,
            to_first_mask,
        ),
    ];
    for (shares, tail) in [(ShareScale::Even, ""), (ShareScale::Nines, ": the tail")] {
        charts.extend(
            passes(&summary.measurement.record)
                .iter()
                .map(|&(pass, of)| {
                    let shown: Shown =
                        Box::new(move |engine, set| &of(engine.headline().masks.get(set)).mask);
                    (format!("Masks, {pass}{tail} (unit: token)"), shares, shown)
                }),
        );
    }
    let axis = Axis::microsecond_to_ten_seconds();
    let chart = |(title, shares, shown): (String, ShareScale, Shown)| {
        let engines = summary.engines.iter().enumerate();
        let curves: Vec<Curve> = engines
            .flat_map(|(place, engine)| curves(engine, place, &shown))
            .collect();
        Chart {
            svg: svg::cumulative(&title, &curves, shares, &axis),
            title,
            table: None,
        }
    };
    charts.into_iter().map(chart).collect()
}

fn curves(engine: &EngineSummary, colour: usize, shown: &Shown) -> [Curve; 2] {
    [Set::Own, Set::Common].map(|set| {
        let distribution = shown(engine, set);
        let name = format!(
            "{}, {} set, n = {}",
            engine.engine.name(),
            set.name(),
            distribution.n()
        );
        Curve {
            name,
            colour,
            dashed: set == Set::Common,
            points: distribution.cumulative().collect(),
        }
    })
}
