//! What a person reads on the console. Knows no terminal: it returns a string.

use std::fmt::Write as _;

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::width::Wrap;
use tabled::settings::{Alignment, Modify, Style};

use super::{EngineSummary, Share, Summary};
use crate::commands::mask::report::text::conditions_of;
use crate::mask::prove::cluster::Cluster;
use crate::mask::prove::departure::DECLARED;
use crate::mask::prove::finding::Proof;
use crate::printable::printable;

/// Clusters and tags that are shown; the JSON report has all.
const CLUSTERS_SHOWN: usize = 20;
const TAGS_SHOWN: usize = 20;

/// Schemas that carry a tag before a share of them is shown.
const MIN_TAGGED: u64 = 5;

/// Proofs of which so few are decided that a rate says less than the counts.
const IS_COUNTED: [Proof; 4] = [Proof::DiffersStrict, Proof::DiffersLoose, Proof::DeadEnd, Proof::Contradicts];

/// Characters of a witness in a line.
const MAX_CHARS: usize = 72;

/// Characters of a notice.
const NOTICE_MAX_CHARS: usize = 300;

/// The whole console output, with a final line feed.
pub fn render(summary: &Summary) -> String {
    let mut page = String::new();
    let proving = &summary.proving;
    if proving.interrupted {
        page.push_str("PARTIAL: stopped before its end; every figure is over the entries that were done by then\n\n");
    }
    add(&mut page, "Proven errors in masks", by_proof(summary));
    page.push_str(
        "P1 to P4: errors per million decisions, a decision being a token or the end after a prefix; P5 to P7: errors of so many \
         that were tried; then schemas with at least one\n",
    );
    add(&mut page, "\nWhat the engines declare, and what it explains", declared(summary));
    page.push_str("findings that are no errors, by the departure that explains them, and the schemas that have any\n");
    add(&mut page, "\nHow far it went", effort(summary));
    let by_tag = tags(summary);
    if by_tag.len() > 1 {
        add(&mut page, "\nSchemas with an error, by keyword", by_tag);
    }
    clusters(&mut page, &proving.clusters);
    page.push_str("\nDeclared departures\n");
    for line in DECLARED.iter().filter(|line| summary.engines.iter().any(|it| it.engine == Some(line.engine))) {
        let _ = writeln!(page, " {} {}: {} ({})", line.engine.name(), line.departure.name(), line.what, line.source);
    }
    page.push('\n');
    for (name, condition) in conditions(summary) {
        let _ = writeln!(page, "{name}: {condition}");
    }
    for notice in &proving.notices {
        let _ = writeln!(page, "note: {}", printable(&notice.to_string(), NOTICE_MAX_CHARS));
    }
    page
}

fn conditions(summary: &Summary) -> Vec<(&'static str, String)> {
    let proving = &summary.proving;
    let mut lines: Vec<(&'static str, String)> = conditions_of(&proving.about, &proving.sobench_version, proving.date.as_deref())
        .into_iter()
        .filter(|(name, _)| *name != "spellings")
        .collect();
    lines.push(("effort", format!("seed {}, {} masks an entry and engine", proving.effort.seed, proving.effort.budget)));
    let rate = summary.decisions_per_second().map(|it| format!(", {it:.0} decisions/s")).unwrap_or_default();
    let shrinking = proving.shrink_ns as f64 / 1e9;
    lines.push((
        "wall time",
        format!("{:.1} s{rate}; {shrinking:.1} s of it to make findings small", proving.wall_ns as f64 / 1e9),
    ));
    if proving.resumed > 0 {
        lines.push(("resumed", format!("{} entries were proved before, in a time of their own", proving.resumed)));
    }
    lines
}

fn add(page: &mut String, title: &str, rows: Vec<Vec<String>>) {
    let mut builder = Builder::default();
    rows.into_iter().for_each(|row| builder.push_record(row));
    let mut table = builder.build();
    table.with(Style::sharp()).with(Modify::new(Columns::new(1..)).with(Alignment::right()));
    table.with(Modify::new(Columns::first()).with(Wrap::new(56).keep_words(true)));
    let _ = writeln!(page, "{title}\n{table}");
}

fn head(summary: &Summary, first: &str) -> Vec<String> {
    let names = summary.engines.iter().map(|it| it.version.clone());
    [first.to_owned()].into_iter().chain(names).collect()
}

fn row(summary: &Summary, label: impl Into<String>, cell: impl Fn(&EngineSummary) -> String) -> Vec<String> {
    [label.into()].into_iter().chain(summary.engines.iter().map(cell)).collect()
}

fn by_proof(summary: &Summary) -> Vec<Vec<String>> {
    let cell = |engine: &EngineSummary, proof: Option<Proof>, schemas: u64| match (engine.per_million(proof), proof) {
        (None, _) => "-".to_owned(),
        (Some(_), Some(proof)) if IS_COUNTED.contains(&proof) => {
            let count = engine.counts.of(proof);
            format!("{} of {}  {schemas}", count.wrong, count.decided)
        }
        (Some(rate), _) => format!("{}  {schemas}", rated(rate)),
    };
    let mut rows = vec![head(summary, "")];
    for proof in Proof::ALL {
        let schemas = |engine: &EngineSummary| engine.wrong_schemas_by_proof.get(&proof).copied().unwrap_or(0);
        let label = format!("{} {}", proof.name(), proof.says());
        rows.push(row(summary, label, |engine| cell(engine, Some(proof), schemas(engine))));
    }
    rows.push(row(summary, "all", |engine| cell(engine, None, engine.wrong_schemas)));
    rows.push(row(summary, "schemas of which something was decided", |engine| engine.decided_schemas.to_string()));
    rows
}

fn rated(rate: f64) -> String {
    if rate == 0.0 || rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.2}") }
}

fn declared(summary: &Summary) -> Vec<Vec<String>> {
    let mut names: Vec<&String> = summary.engines.iter().flat_map(|it| it.declared_schemas.keys()).collect();
    names.sort();
    names.dedup();
    let mut rows = vec![head(summary, "")];
    for name in names {
        let findings = |engine: &EngineSummary| -> u64 {
            engine.counts.iter().map(|(_, count)| count.declared.get(name).copied().unwrap_or(0)).sum()
        };
        rows.push(row(summary, name.clone(), |engine| match engine.declared_schemas.get(name) {
            None => "-".to_owned(),
            Some(schemas) => format!("{}  {schemas}", findings(engine)),
        }));
    }
    rows.push(row(summary, "texts with two members of one name let through", |engine| {
        format!("{} of {}", engine.duplicates.let_through, engine.duplicates.tried)
    }));
    rows
}

fn effort(summary: &Summary) -> Vec<Vec<String>> {
    let line = |label: &str, of: fn(&EngineSummary) -> u64| row(summary, label, |engine| of(engine).to_string());
    vec![
        head(summary, ""),
        line("schemas", |it| it.schemas),
        line("not compiled", |it| it.declined),
        line("given out later: crashes, limits, time", |it| it.stopped),
        line("masks", |it| it.masks),
        line("texts", |it| it.texts),
        line("decisions", |it| it.counts.totals().0),
        line("ends on which the oracles do not agree", |it| it.open),
        line("differences that led to no whole text", |it| it.unresolved),
    ]
}

fn tags(summary: &Summary) -> Vec<Vec<String>> {
    let part = |shares: &[Share]| shares.iter().map(|it| it.part).sum::<u64>();
    let mut tags: Vec<(&String, &Vec<Share>)> =
        summary.tags.iter().filter(|(_, shares)| part(shares) > 0 && shares.iter().any(|it| it.of >= MIN_TAGGED)).collect();
    tags.sort_by_key(|(_, shares)| std::cmp::Reverse(part(shares)));
    let mut rows = vec![head(summary, "")];
    for (tag, shares) in tags.into_iter().take(TAGS_SHOWN) {
        let cells = shares.iter().map(|it| format!("{} of {}", it.part, it.of));
        rows.push([printable(tag, MAX_CHARS)].into_iter().chain(cells).collect());
    }
    rows
}

fn clusters(page: &mut String, clusters: &[Cluster]) {
    if clusters.is_empty() {
        return;
    }
    let witnesses = clusters.iter().filter(|it| it.witness.is_some()).count();
    let _ = writeln!(
        page,
        "\nKinds of errors: {}, with {witnesses} witnesses; the {} most frequent",
        clusters.len(),
        CLUSTERS_SHOWN.min(clusters.len())
    );
    for (place, cluster) in clusters.iter().take(CLUSTERS_SHOWN).enumerate() {
        let (engine, proof) = (cluster.engine.name(), cluster.proof);
        let keywords = cluster.keywords.join(", ");
        let _ = writeln!(
            page,
            "{:>3}. {engine} {} {}; {} schemas: {} [{}]",
            place + 1,
            proof.name(),
            proof.says(),
            cluster.schemas,
            printable(&cluster.place, MAX_CHARS),
            printable(&keywords, MAX_CHARS)
        );
        let Some(witness) = &cluster.witness else { continue };
        let constraint = serde_json::to_string(&witness.constraint).unwrap_or_default();
        let _ = writeln!(page, "     {}", printable(&constraint, 2 * MAX_CHARS));
        let token = witness.token_text.as_deref().map(|it| format!(" then {it:?}")).unwrap_or_default();
        let _ = writeln!(
            page,
            "     after {}{}",
            printable(&format!("{:?}", witness.prefix_text), MAX_CHARS),
            printable(&token, MAX_CHARS)
        );
    }
}
