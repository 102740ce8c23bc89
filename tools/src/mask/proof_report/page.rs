//! The page of a proof search.

use std::collections::BTreeSet;

use super::{EngineSummary, Share, Summary};
use crate::mask::prove::cluster::Cluster;
use crate::mask::prove::finding::Proof;
use crate::mask::prove::witness::Witness;
use crate::mask::report::conditions::run_conditions;
use crate::mask::report::tables::row;
use sobench_core::dates::date;
use sobench_core::printable::printable;
use sobench_engine::EngineName;
use sobench_engine::departure::DeclaredDeparture;
use sobench_render::{Block, Document, Table, Text};

/// Number of clusters and tags shown; the JSON report has all.
const CLUSTERS_SHOWN: usize = 20;
const TAGS_SHOWN: usize = 20;

/// Minimum schemas with a tag to show a share.
const MIN_TAGGED: u64 = 5;

/// Proofs with too few decisions for a rate; shown as counts.
const IS_COUNTED: [Proof; 5] = [
    Proof::DiffersStrict,
    Proof::DiffersLoose,
    Proof::DeadEnd,
    Proof::Contradicts,
    Proof::Rollback,
];

/// Separator between a text and the token after it.
const THEN: &str = " then ";

/// Maximum length of a witness on a line.
const MAX_CHARS: usize = 72;

/// Maximum length of a notice.
const NOTICE_MAX_CHARS: usize = 300;

/// Maximum length of a label in a table.
const LABEL_CHARS: usize = 56;

/// The page.
pub fn document(summary: &Summary) -> Document {
    let mut document = Document::new("sobench-tools mask --prove");
    let proved = &summary.proved;
    if proved.interrupted {
        document.alarm("PARTIAL: stopped early; all figures cover only the completed entries");
    }
    document.heading("Proven errors in masks");
    document.table(by_proof(summary));
    document.legend([
        "P1 to P4: errors per million decisions (a decision is a token or the end after a prefix); P5 to P8: errors of all \
         attempts; then the number of schemas with at least one error",
    ]);
    document.heading("Findings explained by declared departures");
    document.table(declared(summary));
    document.legend([
        "findings that a declared departure explains, then the number of schemas with at least one",
    ]);
    document.heading("Search effort");
    document.table(effort(summary));
    document.titled_table(
        "Schemas with an error, by keyword",
        tags(summary).non_empty(),
    );
    add_clusters(&mut document, &proved.clusters);
    document.heading("Declared departures");
    let engines = EngineName::ALL
        .into_iter()
        .filter(|name| summary.engines.iter().any(|engine| engine.engine == *name));
    document.definitions(engines.flat_map(|engine| {
        let line = move |line: &DeclaredDeparture| {
            (
                format!("{engine} {}", line.departure.name()),
                format!("{} ({})", line.what, line.source),
            )
        };
        engine.departures().iter().map(line)
    }));
    document.gap();
    document.facts(conditions(summary));
    document.gap();
    document.notes(
        proved
            .notices
            .iter()
            .map(|notice| printable(&notice.to_string(), NOTICE_MAX_CHARS))
            .collect(),
    );
    document
}

fn conditions(summary: &Summary) -> Vec<(&'static str, String)> {
    let proved = &summary.proved;
    let mut lines = run_conditions(
        &proved.record,
        env!("CARGO_PKG_VERSION"),
        Some(&date(proved.started_at)),
    );
    lines.retain(|(name, _)| *name != "spellings");
    lines.push((
        "effort",
        format!(
            "seed {}, {} masks per entry and engine",
            proved.effort.seed, proved.effort.budget
        ),
    ));
    let rate = summary
        .decisions_per_second()
        .map(|rate| format!(", {rate:.0} decisions/s"))
        .unwrap_or_default();
    let shrinking = proved.shrink_ns as f64 / 1e9;
    let wall = proved.wall_ns as f64 / 1e9;
    lines.push((
        "wall time",
        format!("{wall:.1} s{rate}; {shrinking:.1} s of it for shrinking findings"),
    ));
    if proved.resumed > 0 {
        lines.push((
            "resumed",
            format!(
                "{} entries from an earlier run, not included in the wall time",
                proved.resumed
            ),
        ));
    }
    lines
}

/// A table with a column for each engine.
fn by_engine(summary: &Summary) -> Table {
    let versions = summary.engines.iter().map(|engine| engine.version.clone());
    Table::new(std::iter::once(String::new()).chain(versions), 1).wrapped(0, LABEL_CHARS)
}

fn by_proof(summary: &Summary) -> Table {
    let cell = |engine: &EngineSummary, proof: Option<Proof>, schemas: u64| match (
        engine.per_million(proof),
        proof,
    ) {
        (None, _) => "-".to_owned(),
        (Some(_), Some(proof)) if IS_COUNTED.contains(&proof) => {
            let count = engine.counts.for_proof(proof);
            format!("{} of {}  {schemas}", count.wrong, count.decided)
        }
        (Some(rate), _) => format!("{}  {schemas}", format_rate(rate)),
    };
    let mut table = by_engine(summary);
    for proof in Proof::ALL {
        let schemas = |engine: &EngineSummary| {
            engine
                .wrong_schemas_by_proof
                .get(&proof)
                .copied()
                .unwrap_or(0)
        };
        let label = format!("{} {}", proof.name(), proof.description());
        table.row(row(&summary.engines, label, |engine| {
            cell(engine, Some(proof), schemas(engine))
        }));
    }
    table.row(row(&summary.engines, "all", |engine| {
        cell(engine, None, engine.wrong_schemas)
    }));
    table.row(row(&summary.engines, "schemas with decisions", |engine| {
        engine.decided_schemas.to_string()
    }));
    table
}

fn format_rate(rate: f64) -> String {
    if rate == 0.0 || rate >= 100.0 {
        format!("{rate:.0}")
    } else {
        format!("{rate:.2}")
    }
}

fn declared(summary: &Summary) -> Table {
    let names: BTreeSet<&String> = summary
        .engines
        .iter()
        .flat_map(|engine| engine.declared_schemas.keys())
        .collect();
    let mut table = by_engine(summary);
    for name in names {
        let findings = |engine: &EngineSummary| -> u64 {
            engine
                .counts
                .iter()
                .map(|(_, count)| count.declared.get(name).copied().unwrap_or(0))
                .sum()
        };
        table.row(row(&summary.engines, name, |engine| {
            match engine.declared_schemas.get(name) {
                None => "-".to_owned(),
                Some(schemas) => format!("{}  {schemas}", findings(engine)),
            }
        }));
    }
    table.row(row(
        &summary.engines,
        "accepted texts with a repeated member name",
        |engine| {
            format!(
                "{} of {}",
                engine.duplicates.accepted, engine.duplicates.tried
            )
        },
    ));
    table
}

fn effort(summary: &Summary) -> Table {
    let line = |label: &str, of: fn(&EngineSummary) -> u64| {
        row(&summary.engines, label, |engine| of(engine).to_string())
    };
    by_engine(summary).with_rows([
        line("schemas", |engine| engine.schemas),
        line("declined", |engine| engine.declined),
        line("stopped later: crash, limit, timeout", |engine| {
            engine.stopped
        }),
        line("masks", |engine| engine.masks),
        line("texts", |engine| engine.texts),
        line("decisions", |engine| engine.counts.totals().0),
        line("ends on which the oracles disagree", |engine| {
            engine.undecided_ends
        }),
        line("differences without a complete text", |engine| {
            engine.unresolved
        }),
    ])
}

/// Tags with errors; empty if there are none.
fn tags(summary: &Summary) -> Table {
    let part = |shares: &[Share]| shares.iter().map(|share| share.part).sum::<u64>();
    let is_shown =
        |shares: &[Share]| part(shares) > 0 && shares.iter().any(|share| share.of >= MIN_TAGGED);
    let mut tags: Vec<(&String, &Vec<Share>)> = summary
        .tags
        .iter()
        .filter(|(_, shares)| is_shown(shares))
        .collect();
    tags.sort_by_key(|(_, shares)| std::cmp::Reverse(part(shares)));
    by_engine(summary).with_rows(tags.into_iter().take(TAGS_SHOWN).map(|(tag, shares)| {
        let cells = shares
            .iter()
            .map(|share| format!("{} of {}", share.part, share.of));
        std::iter::once(printable(tag, MAX_CHARS)).chain(cells)
    }))
}

fn add_clusters(document: &mut Document, clusters: &[Cluster]) {
    if clusters.is_empty() {
        return;
    }
    let witnesses = clusters
        .iter()
        .filter(|cluster| cluster.witness.is_some())
        .count();
    let (all, shown) = (clusters.len(), CLUSTERS_SHOWN.min(clusters.len()));
    document.heading(format!(
        "Kinds of errors: {all}, with {witnesses} witnesses; the {shown} most frequent"
    ));
    for (place, cluster) in clusters.iter().take(CLUSTERS_SHOWN).enumerate() {
        let (number, engine, schemas) = (place + 1, cluster.engine.name(), cluster.schemas);
        let (proof, description) = (cluster.proof.name(), cluster.proof.description());
        let [place, keywords] = [&cluster.place, &cluster.keywords.join(", ")]
            .map(|message| printable(message, MAX_CHARS));
        let text = format!(
            "{number}. {engine} {proof} {description}; {schemas} schemas: {place} [{keywords}]"
        );
        let below = cluster
            .witness
            .as_ref()
            .map(witness_lines)
            .unwrap_or_default();
        document.push(Block::Item {
            text: text.into(),
            below,
        });
    }
}

/// The constraint, then the text before the wrong mask.
fn witness_lines(witness: &Witness) -> Vec<Text> {
    let constraint = serde_json::to_string(&witness.constraint).unwrap_or_default();
    let prefix = printable(&format!("{:?}", witness.prefix_text), MAX_CHARS);
    let mut after = Text::default().plain("after ").code(prefix);
    if let Some(token) = &witness.token_text {
        after = after
            .plain(THEN)
            .code(printable(&format!("{token:?}"), MAX_CHARS - THEN.len()));
    }
    vec![
        Text::default().code(printable(&constraint, 2 * MAX_CHARS)),
        after,
    ]
}
