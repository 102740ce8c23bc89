//! The conditions that the figures of a measurement or of a proof hold under.

use super::Summary;
use super::number::{bytes, count};
use sobench_core::printable::printable;
use sobench_mask::record::{MaskRecord, RESERVED_BYTES, Sample};

/// The most characters of a name that came from outside.
const NAME_MAX_CHARS: usize = 200;

/// How much of a hash tells two corpora apart at a glance; the file has the whole.
const HASH_SHOWN_CHARS: usize = 12;

/// The conditions of a measurement, by name.
pub(super) fn conditions(summary: &Summary) -> Vec<(&'static str, String)> {
    let measurement = &summary.measurement;
    let mut lines = conditions_of(
        &measurement.about,
        &measurement.sobench_version,
        measurement.date.as_deref(),
    );
    if let Some(ns) = measurement.wall_ns {
        lines.push(("wall time", format!("{:.1} s", ns as f64 / 1e9)));
    }
    lines
}

/// The conditions that measurements and proofs have in common, by name.
pub fn conditions_of(
    about: &MaskRecord,
    version: &str,
    date: Option<&str>,
) -> Vec<(&'static str, String)> {
    let name = |text: &str| printable(text, NAME_MAX_CHARS);
    let mut lines = Vec::new();
    let date = date
        .map(|date| format!(", at {}", name(date)))
        .unwrap_or_default();
    lines.push(("sobench", format!("{}{date}", name(version))));
    for corpus in &about.corpora {
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
    let filter = about
        .filter
        .as_deref()
        .map(|filter| format!(", filter {}", name(filter)))
        .unwrap_or_default();
    let limit = about
        .limit
        .map(|limit| format!(", limit {limit}"))
        .unwrap_or_default();
    let drawn = |sample: Sample| {
        format!(
            ", a sample of {} by seed {}",
            count(sample.entries as u64),
            sample.seed
        )
    };
    let sample = about.sample.map(drawn).unwrap_or_default();
    lines.push((
        "selected",
        format!(
            "{} schemas{filter}{limit}{sample}",
            count(about.selected as u64)
        ),
    ));
    let spellings: Vec<&str> = about
        .spellings
        .iter()
        .map(|spelling| spelling.name())
        .collect();
    let formats = if about.assert_formats {
        "asserted"
    } else {
        "not asserted"
    };
    let walks = if about.warm {
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
            name(&about.vocabulary.name),
            count(about.vocabulary.ids as u64)
        ),
    ));
    let memory = about
        .memory_limit_bytes
        .map(address_space)
        .unwrap_or_default();
    lines.push((
        "limits",
        format!(
            "{} ms a row{memory}; child processes at a time: {}",
            count(about.timeout_ms),
            about.jobs
        ),
    ));
    let host = &about.host;
    let cpu = host
        .cpu
        .as_deref()
        .map(|cpu| format!(", {}", name(cpu)))
        .unwrap_or_default();
    let (os, arch) = (name(&host.os), name(&host.arch));
    let clock = format!(
        "reading the clock takes {} ns, which is part of every duration",
        host.clock_ns
    );
    lines.push((
        "machine",
        format!("{os} {arch}{cpu}, {} threads; {clock}", host.threads),
    ));
    lines
}

/// The whole limit of a child process: the one of the flag, and what every process is granted
/// beyond it.
fn address_space(limit: u64) -> String {
    let [whole, granted] =
        [limit.saturating_add(RESERVED_BYTES), RESERVED_BYTES].map(|size| bytes(Some(size)));
    format!(
        ", {whole} of address space ({} asked for, and {granted} for stacks and threads)",
        bytes(Some(limit))
    )
}
