//! Outcomes of schemas and of instances, an engine a column. Knows no durations.

use super::{Counted, Section, head, row};
use crate::commands::mask::report::number::count;
use crate::commands::mask::report::outcome::{Class, Counts, InstanceClass, SchemaOutcome};
use crate::commands::mask::report::{EngineSummary, SpellingSummary, Summary};

/// Outcomes of schemas in the headline spelling.
pub(super) fn schemas(summary: &Summary) -> Section {
    let of = |engine: &EngineSummary, outcome| share(engine.headline().schemas.get(outcome), engine.schemas);
    let mut rows = vec![row(summary, "all that were measured", |it| count(it.schemas))];
    let said = shown(summary, |it| &it.schemas, SchemaOutcome::Pass);
    rows.extend(said.into_iter().map(|it| row(summary, it.title(), |engine| of(engine, it))));
    Section {
        title: format!("Outcomes of schemas (unit: schema; the worst instance decides; spelling: {})", summary.headline.name()),
        notes: vec!["% of all that were measured".to_owned()],
        head: head(summary, "schemas"),
        rows,
        word_columns: 1,
    }
}

/// Outcomes of instances in the headline spelling.
pub(super) fn instances(summary: &Summary) -> Section {
    let mut rows = vec![row(summary, "all that were reached", |it| count(it.headline().instances.total()))];
    rows.extend(shown(summary, |it| &it.instances, InstanceClass::Pass).into_iter().map(|class| {
        row(summary, class.title(), |it| {
            let instances = &it.headline().instances;
            share(instances.get(class), instances.total())
        })
    }));
    let details: [Counted<SpellingSummary>; 2] = [
        ("rejects valid: only the end", |it| it.rejects_valid_at_end),
        ("accepts invalid: valid text, early end", |it| it.accepts_invalid_early_end),
    ];
    for (label, of) in details {
        if summary.engines.iter().any(|it| of(it.headline()) > 0) {
            rows.push(row(summary, label, |it| count(of(it.headline()))));
        }
    }
    Section {
        title: format!("Outcomes of instances (unit: instance; spelling: {})", summary.headline.name()),
        notes: vec!["% of all that were reached; a schema that was declined or stopped has instances that were not".to_owned()],
        head: head(summary, "instances"),
        rows,
        word_columns: 1,
    }
}

/// What the other spellings change in the outcomes of schemas.
pub(super) fn other_spellings(summary: &Summary) -> Option<Section> {
    let others = summary.engines.first().map_or(0, |it| it.spellings.len());
    let mut rows = Vec::new();
    for place in 1..others {
        let name = summary.engines[0].spellings[place].spelling.name();
        let differs = |class: SchemaOutcome| {
            class == SchemaOutcome::Pass
                || summary.engines.iter().any(|it| it.spellings[place].schemas.get(class) != it.spellings[0].schemas.get(class))
        };
        for class in SchemaOutcome::ALL.iter().copied().filter(|it| differs(*it)) {
            rows.push(row(summary, format!("{name}: {}", class.title()), |it| {
                let (here, headline) = (it.spellings[place].schemas.get(class), it.spellings[0].schemas.get(class));
                format!("{} ({:+})", count(here), here as i128 - i128::from(headline))
            }));
        }
    }
    (!rows.is_empty()).then(|| Section {
        title: "Outcomes in the other spellings (unit: schema; only what differs)".to_owned(),
        notes: vec![format!("in brackets: more or fewer than in {}", summary.headline.name())],
        head: head(summary, "schemas"),
        rows,
        word_columns: 1,
    })
}

/// The word that always stands there, then the worse ones that some engine earned, then what says nothing about an engine.
fn shown<K: Class>(summary: &Summary, of: impl Fn(&SpellingSummary) -> &Counts<K>, always: K) -> Vec<K> {
    let earned = |class: K| summary.engines.iter().any(|it| of(it.headline()).get(class) > 0);
    let (apart, judged): (Vec<K>, Vec<K>) =
        K::ALL.iter().copied().filter(|it| *it == always || earned(*it)).partition(|it| *it < always);
    judged.into_iter().chain(apart).collect()
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => count(part),
        _ => format!("{} ({:>5.1} %)", count(part), 100.0 * part as f64 / whole as f64),
    }
}
