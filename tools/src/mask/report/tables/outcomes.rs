//! Tables of schema and instance outcomes, one column per engine.

use super::{Counted, add_section, by_engine, row};
use crate::mask::report::number::count;
use crate::mask::report::outcome::{Counts, InstanceClass, OutcomeClass, SchemaOutcome};
use crate::mask::report::{EngineSummary, SpellingSummary, Summary};
use sobench_render::Document;

/// Outcomes of schemas in the headline spelling.
pub(super) fn add_schemas(document: &mut Document, summary: &Summary) {
    let cell = |engine: &EngineSummary, outcome| {
        share(engine.headline().schemas.get(outcome), engine.schemas)
    };
    let mut table = by_engine(summary, "schemas");
    table.row(row(&summary.engines, "measured schemas", |engine| {
        count(engine.schemas)
    }));
    for outcome in relevant_outcomes(summary, |spelling| &spelling.schemas, SchemaOutcome::Pass) {
        table.row(row(&summary.engines, outcome.title(), |engine| {
            cell(engine, outcome)
        }));
    }
    let title = format!(
        "Outcomes of schemas (unit: schema; the worst instance decides; spelling: {})",
        summary.headline.name()
    );
    add_section(document, title, table, &["% of the measured schemas"]);
}

/// Outcomes of instances in the headline spelling.
pub(super) fn add_instances(document: &mut Document, summary: &Summary) {
    let mut table = by_engine(summary, "instances");
    table.row(row(&summary.engines, "reached instances", |engine| {
        count(engine.headline().instances.total())
    }));
    for class in relevant_outcomes(summary, |spelling| &spelling.instances, InstanceClass::Pass) {
        table.row(row(&summary.engines, class.title(), |engine| {
            let instances = &engine.headline().instances;
            share(instances.get(class), instances.total())
        }));
    }
    let details: [Counted<SpellingSummary>; 2] = [
        ("rejects valid: end only", |spelling| {
            spelling.rejects_valid_at_end
        }),
        ("accepts invalid: valid text, early end", |spelling| {
            spelling.accepts_invalid_early_end
        }),
    ];
    for (label, of) in details {
        if summary
            .engines
            .iter()
            .any(|engine| of(engine.headline()) > 0)
        {
            table.row(row(&summary.engines, label, |engine| {
                count(of(engine.headline()))
            }));
        }
    }
    let title = format!(
        "Outcomes of instances (unit: instance; spelling: {})",
        summary.headline.name()
    );
    let legend = "% of the reached instances; declined or stopped schemas have unreached instances";
    add_section(document, title, table, &[legend]);
}

/// Differences of schema outcomes in the other spellings.
pub(super) fn add_other_spellings(document: &mut Document, summary: &Summary) {
    let others = summary
        .engines
        .first()
        .map_or(0, |engine| engine.spellings.len());
    let mut table = by_engine(summary, "schemas");
    for place in 1..others {
        let name = summary.engines[0].spellings[place].spelling.name();
        let counts = |engine: &EngineSummary, outcome| {
            (
                engine.spellings[place].schemas.get(outcome),
                engine.spellings[0].schemas.get(outcome),
            )
        };
        let differs = |outcome: SchemaOutcome| {
            outcome == SchemaOutcome::Pass
                || summary.engines.iter().any(|engine| {
                    let (here, headline) = counts(engine, outcome);
                    here != headline
                })
        };
        for outcome in SchemaOutcome::ALL
            .iter()
            .copied()
            .filter(|outcome| differs(*outcome))
        {
            table.row(row(
                &summary.engines,
                format!("{name}: {}", outcome.title()),
                |engine| {
                    let (here, headline) = counts(engine, outcome);
                    format!(
                        "{} ({:+})",
                        count(here),
                        i128::from(here) - i128::from(headline)
                    )
                },
            ));
        }
    }
    let title = "Outcomes in the other spellings (unit: schema; differences only)".to_owned();
    let legend = format!("in brackets: difference from {}", summary.headline.name());
    add_section(document, title, table, &[&legend]);
}

/// The outcome `always`, then the worse ones that occur, then those that do not concern the engine.
fn relevant_outcomes<K: OutcomeClass>(
    summary: &Summary,
    of: impl Fn(&SpellingSummary) -> &Counts<K>,
    always: K,
) -> Vec<K> {
    let earned = |class: K| {
        summary
            .engines
            .iter()
            .any(|engine| of(engine.headline()).get(class) > 0)
    };
    let (apart, judged): (Vec<K>, Vec<K>) = K::ALL
        .iter()
        .copied()
        .filter(|class| *class == always || earned(*class))
        .partition(|class| *class < always);
    judged.into_iter().chain(apart).collect()
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => count(part),
        _ => format!(
            "{} ({:>5.1} %)",
            count(part),
            100.0 * part as f64 / whole as f64
        ),
    }
}
