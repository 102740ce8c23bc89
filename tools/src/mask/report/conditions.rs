//! Conditions of a measurement or proof search.

use super::Summary;
use super::number::{bytes, count};
use crate::mask::record::{MaskRecord, RESERVED_BYTES, Sample};
use sobench_core::printable::printable;

/// Maximum length of an external name.
const NAME_MAX_CHARS: usize = 200;

/// Number of hash characters shown; the JSON report has the whole hash.
const HASH_SHOWN_CHARS: usize = 12;

/// The conditions of a measurement, as name and value.
pub(super) fn conditions(summary: &Summary) -> Vec<(&'static str, String)> {
    let measurement = &summary.measurement;
    let mut lines = run_conditions(
        &measurement.record,
        &measurement.sobench_version,
        measurement.date.as_deref(),
    );
    if let Some(ns) = measurement.wall_ns {
        lines.push(("wall time", format!("{:.1} s", ns as f64 / 1e9)));
    }
    lines
}

/// The conditions common to measurements and proof searches, as name and value.
pub fn run_conditions(
    record: &MaskRecord,
    version: &str,
    date: Option<&str>,
) -> Vec<(&'static str, String)> {
    let name = |text: &str| printable(text, NAME_MAX_CHARS);
    let mut lines = Vec::new();
    let date = date
        .map(|date| format!(", at {}", name(date)))
        .unwrap_or_default();
    lines.push(("sobench", format!("{}{date}", name(version))));
    for corpus in &record.corpora {
        let unreadable = if corpus.unreadable > 0 {
            format!(", {} unreadable", count(corpus.unreadable as u64))
        } else {
            String::new()
        };
        let (source, kind) = (name(&corpus.source), corpus.kind.name());
        let (schemas, instances) = (count(corpus.entries as u64), count(corpus.instances as u64));
        let hash = printable(&corpus.sha256, HASH_SHOWN_CHARS);
        lines.push(("corpus", format!("{source} ({kind}), {schemas} schemas, {instances} instances{unreadable}, sha256 {hash}")));
    }
    let filter = record
        .filter
        .as_deref()
        .map(|filter| format!(", filter {}", name(filter)))
        .unwrap_or_default();
    let limit = record
        .limit
        .map(|limit| format!(", limit {limit}"))
        .unwrap_or_default();
    let drawn = |sample: Sample| {
        format!(
            ", sample of {} with seed {}",
            count(sample.entries as u64),
            sample.seed
        )
    };
    let sample = record.sample.map(drawn).unwrap_or_default();
    lines.push((
        "selected",
        format!(
            "{} schemas{filter}{limit}{sample}",
            count(record.selected as u64)
        ),
    ));
    let spellings: Vec<&str> = record
        .spellings
        .iter()
        .map(|spelling| spelling.name())
        .collect();
    let formats = if record.assert_formats {
        "asserted"
    } else {
        "not asserted"
    };
    let walks = if record.warm {
        "cold and warm"
    } else {
        "cold only"
    };
    lines.push((
        "spellings",
        format!("{}; walks {walks}; format {formats}", spellings.join(", ")),
    ));
    lines.push((
        "vocabulary",
        format!(
            "{}, {} ids",
            name(&record.vocabulary.name),
            count(record.vocabulary.ids as u64)
        ),
    ));
    let memory = record
        .memory_limit_bytes
        .map(address_space)
        .unwrap_or_default();
    lines.push((
        "limits",
        format!(
            "{} ms per row{memory}; concurrent child processes: {}",
            count(record.timeout_ms),
            record.jobs
        ),
    ));
    let host = &record.host;
    let cpu = host
        .cpu
        .as_deref()
        .map(|cpu| format!(", {}", name(cpu)))
        .unwrap_or_default();
    let (os, arch) = (name(&host.os), name(&host.arch));
    let clock = format!(
        "clock overhead {} ns, included in every duration",
        host.clock_ns
    );
    lines.push((
        "machine",
        format!("{os} {arch}{cpu}, {} threads; {clock}", host.threads),
    ));
    lines
}

/// The total address-space limit of a child process: the flag's value plus the reserved part.
fn address_space(limit: u64) -> String {
    let [whole, granted] =
        [limit.saturating_add(RESERVED_BYTES), RESERVED_BYTES].map(|size| bytes(Some(size)));
    format!(
        ", {whole} of address space ({} requested, plus {granted} for stacks and threads)",
        bytes(Some(limit))
    )
}
