//! What compiling, masking and batches took, and memory. Knows no outcome.

use super::{Counted, Labelled, Section, head, row};
use crate::commands::mask::report::definitions::{PERCENTILE, SLOPE_MIN_MASKS};
use crate::commands::mask::report::latency::{BatchSummary, CompileSummary, MaskSummary, PassSummary, Sets, passes};
use crate::commands::mask::report::maskbench::{DIFFERENCES, MaskbenchColumn, PERCENTILES};
use crate::commands::mask::report::number::{UNKNOWN, Unit, bytes, count, decimal, percent};
use crate::commands::mask::report::{EngineSummary, Summary};
use crate::metrics::distribution::{Distribution, SLOW_NS, VERY_SLOW_NS};

/// The most engines whose own and common sets stand side by side; of more, the sets become tables of their own.
const SIDE_BY_SIDE_ENGINES: usize = 3;

/// Which schemas a figure is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Set {
    Own,
    Common,
}

impl Set {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Common => "common",
        }
    }

    fn of<T>(self, sets: &Sets<T>) -> &T {
        match self {
            Self::Own => &sets.own,
            Self::Common => &sets.common,
        }
    }
}

/// A row of a table of durations: its label, and a cell from what one column is about.
type Line<T> = (String, Box<dyn Fn(&T) -> String>);

/// Compile and first mask, in ms.
pub(super) fn compile(summary: &Summary) -> Vec<Section> {
    let mut lines: Vec<Line<CompileSummary>> = vec![
        ("schemas".into(), Box::new(|it| count(it.cold.n()))),
        ("of them, compile timed out".into(), Box::new(|it| count(it.cold.censored()))),
    ];
    let parts: [(Labelled<CompileSummary, Distribution>, Unit, &[f64]); 4] = [
        (("cold compile", |it| &it.cold), Unit::Ms, &[50.0, 90.0, 99.0]),
        (("first mask", |it| &it.first_mask), Unit::Ms, &[50.0, 99.0]),
        (("to first mask", |it| &it.to_first_mask), Unit::Ms, &[50.0, 90.0, 99.0]),
        (("cached, us:", |it| &it.cached), Unit::Us, &[50.0, 99.0]),
    ];
    for ((name, of), unit, percentiles) in parts {
        lines.extend(distribution_lines(name, unit, of, percentiles));
    }
    let title = "Compile and time to first mask (unit of n: schema), ms; from the cache, us";
    let mut sections = sections(summary, title, &lines, |engine, set| set.of(&engine.compile));
    sections.iter_mut().take(1).for_each(|it| it.notes.push(PERCENTILE.to_owned()));
    sections
}

/// Masks, commits and steps of the headline spelling, in us.
pub(super) fn masks(summary: &Summary) -> Vec<Section> {
    let mut lines: Vec<Line<MaskSummary>> = vec![
        ("schemas".into(), Box::new(|it| count(it.schemas))),
        ("of them, stopped in a walk".into(), Box::new(|it| count(it.stopped))),
    ];
    for &(pass, of) in passes(&summary.measurement.about) {
        let name = format!("{pass} mask");
        lines.push((format!("{name} n (tokens)"), Box::new(move |it| count(of(it).mask.n()))));
        lines.extend(distribution_lines(&name, Unit::Us, move |it| &of(it).mask, &[50.0, 90.0, 99.0, 99.9]));
        for (label, ns) in [("> 1 ms (%)", SLOW_NS), ("> 10 ms (%)", VERY_SLOW_NS)] {
            lines.push((format!("{name} {label}"), Box::new(move |it| percent(of(it).mask.share_above(ns)))));
        }
        let slope = move |it: &MaskSummary| {
            let mark = if of(it).mask.n() < SLOPE_MIN_MASKS { "*" } else { "" };
            of(it).slope_ns_per_position().map_or_else(|| UNKNOWN.to_owned(), |ns| format!("{}{mark}", decimal(ns)))
        };
        lines.push((format!("{name} slope (ns/token)"), Box::new(slope)));
        lines.extend(distribution_lines(&format!("{pass} commit"), Unit::Us, move |it| &of(it).commit, &[50.0, 99.0]));
    }
    let title = format!("Masks (unit of n: token; spelling: {}), us", summary.headline.name());
    sections(summary, &title, &lines, |engine, set| set.of(&engine.headline().masks))
}

/// Masks in the other spellings, a few figures each.
pub(super) fn other_spellings(summary: &Summary) -> Option<Section> {
    let spellings = summary.engines.first().filter(|_| summary.common_schemas > 0).map_or(0, |it| it.spellings.len());
    let mut rows = Vec::new();
    let (pass, of) = passes(&summary.measurement.about)[0];
    for place in 1..spellings {
        let name = summary.engines[0].spellings[place].spelling.name();
        let mut push = |label: String, cell: &dyn Fn(&Distribution) -> String| {
            rows.push(row(summary, format!("{name}: {label}"), |it| cell(&of(&it.spellings[place].masks.common).mask)));
        };
        push("n (tokens)".to_owned(), &|it| count(it.n()));
        for percent in [50.0, 99.0, 99.9] {
            push(format!("p{percent}"), &|it| Unit::Us.percentile(it, percent));
        }
        push("max".to_owned(), &|it| Unit::Us.bound(it.max()));
    }
    (!rows.is_empty()).then(|| Section {
        title: format!("Masks in the other spellings ({pass}; common set; unit of n: token), us"),
        notes: Vec::new(),
        head: head(summary, "mask"),
        rows,
        word_columns: 1,
    })
}

/// What one core carries.
pub(super) fn one_core(summary: &Summary) -> Vec<Section> {
    let (pass, walk) = passes(&summary.measurement.about)[0];
    let mut lines: Vec<Line<MaskSummary>> = vec![("step n (tokens)".into(), Box::new(move |it| count(walk(it).step.n())))];
    lines.extend(distribution_lines("step", Unit::Us, move |it: &MaskSummary| &walk(it).step, &[50.0, 99.0]));
    let carried = |of: fn(&PassSummary) -> Option<String>| -> Box<dyn Fn(&MaskSummary) -> String> {
        Box::new(move |it| of(walk(it)).unwrap_or_else(|| UNKNOWN.to_owned()))
    };
    lines.push(("masks/s/core".into(), carried(|it| it.capacity().map(|it| count(it.masks_per_second.round() as u64)))));
    lines.push(("sequences in 10 ms, by mean".into(), carried(|it| it.capacity().map(|it| count(it.sequences_by_mean)))));
    lines.push(("sequences in 10 ms, by p99".into(), carried(|it| it.capacity().map(|it| count(it.sequences_by_p99)))));
    let title = format!("What one core carries ({pass}; step: mask and commit of one token), us");
    sections(summary, &title, &lines, |engine, set| set.of(&engine.headline().masks))
}

/// Several sequences at once, on all threads.
pub(super) fn batches(summary: &Summary) -> Option<Section> {
    let mut sizes: Vec<usize> = summary.engines.iter().flat_map(|it| it.batches.iter().map(|it| it.sequences)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows = Vec::new();
    for size in sizes {
        let mut push = |label: &str, of: &dyn Fn(&BatchSummary) -> String| {
            let cell =
                |it: &EngineSummary| it.batches.iter().find(|it| it.sequences == size).map_or_else(|| UNKNOWN.to_owned(), of);
            rows.push(row(summary, format!("{size} at once: {label}"), cell));
        };
        push("distinct", &|it| count(it.distinct as u64));
        push("steps", &|it| count(it.step.n()));
        push("step p50 (us)", &|it| Unit::Us.percentile(&it.step, 50.0));
        push("step p99 (us)", &|it| Unit::Us.percentile(&it.step, 99.0));
        push("masks/s", &|it| count(it.masks_per_second.round() as u64));
    }
    let mut threads: Vec<usize> = summary.engines.iter().flat_map(|it| it.batches.iter().map(|it| it.threads)).collect();
    threads.sort_unstable();
    threads.dedup();
    let threads: Vec<String> = threads.iter().map(usize::to_string).collect();
    (!rows.is_empty()).then(|| Section {
        title: format!("Several sequences at once (unit: step, a mask of every sequence; threads: {})", threads.join(", ")),
        notes: vec![
            "each engine runs its own documents, those that it passes, so that engines differ in what they mask here; distinct: \
             different documents among the sequences, the others run again"
                .to_owned(),
        ],
        head: head(summary, "batch"),
        rows,
        word_columns: 1,
    })
}

/// Compiled grammars and the process.
pub(super) fn memory(summary: &Summary) -> Section {
    let peak_rss = |it: &EngineSummary| {
        let about = summary.measurement.about.engines.iter().find(|about| about.engine == it.engine);
        bytes(about.and_then(|it| it.peak_rss_bytes))
    };
    Section {
        title: "Memory (unit of n: schema; own set)".to_owned(),
        notes: vec![
            "growth: how far the process peaked above what it had before the compile; a schema without growth fitted into memory \
             kept from earlier rows, and percentiles are over those with growth alone, so that they tell of the process and not \
             of what a schema needs"
                .to_owned(),
            "whole process: the most of any child process; children that died are not in it".to_owned(),
        ],
        head: head(summary, "memory"),
        rows: vec![
            row(summary, "compiled grammar, n", |it| count(it.memory.grammar.n() as u64)),
            row(summary, "compiled grammar, p50", |it| bytes(it.memory.grammar.percentile(50.0))),
            row(summary, "compiled grammar, max", |it| bytes(it.memory.grammar.max())),
            row(summary, "growth measured, n", |it| count(it.memory.peak_known)),
            row(summary, "with growth, n", |it| count(it.memory.peak.n() as u64)),
            row(summary, "with growth (%)", |it| percent(it.memory.share_grown())),
            row(summary, "growth, p50", |it| bytes(it.memory.peak.percentile(50.0))),
            row(summary, "growth, p99", |it| bytes(it.memory.peak.percentile(99.0))),
            row(summary, "growth, max", |it| bytes(it.memory.peak.max())),
            row(summary, "whole process, most resident", peak_rss),
        ],
        word_columns: 1,
    }
}

/// MaskBench's own columns.
pub(super) fn maskbench(summary: &Summary) -> Option<Section> {
    summary.engines.first()?.maskbench.as_ref()?;
    let cell = |it: &EngineSummary, of: &dyn Fn(&MaskbenchColumn) -> String| {
        it.maskbench.as_ref().map_or_else(|| UNKNOWN.to_owned(), of)
    };
    let us = |value: Option<f64>| Unit::Us.of_ns(value.map(|us| us * 1e3));
    let mut rows = vec![row(summary, "TBM avg", |it| cell(it, &|it| us(it.tbm.mean_us)))];
    for (place, percentile) in PERCENTILES.into_iter().enumerate() {
        rows.push(row(summary, format!("TBM p{percentile}"), |it| cell(it, &|it| us(it.tbm.percentiles[place].us))));
    }
    rows.push(row(summary, "TTFM avg", |it| cell(it, &|it| us(it.ttfm.mean_us))));
    for (place, percentile) in PERCENTILES.into_iter().enumerate() {
        rows.push(row(summary, format!("TTFM p{percentile}"), |it| cell(it, &|it| us(it.ttfm.percentiles[place].us))));
    }
    let counts: [Counted<MaskbenchColumn>; 10] = [
        ("tokens", |it| it.tokens),
        ("schemas", |it| it.schemas),
        ("passing", |it| it.passing),
        ("compile error", |it| it.compile_error),
        ("segmentation fault", |it| it.crash),
        ("out of memory", |it| it.out_of_memory),
        ("timeout", |it| it.timeout),
        ("validation error", |it| it.validation_error),
        ("invalidation error", |it| it.invalidation_error),
        ("not judged (ours)", |it| it.not_judged),
    ];
    rows.extend(counts.map(|(label, of)| row(summary, label, |it| cell(it, &|it| count(of(it))))));
    Some(Section {
        title: "As MaskBench counts (us; one outcome a schema, its last wrong test), to compare with its published table"
            .to_owned(),
        notes: DIFFERENCES.map(str::to_owned).to_vec(),
        head: head(summary, "metric"),
        rows,
        word_columns: 1,
    })
}

/// Percentiles, the longest, and the mean of one thing.
fn distribution_lines<T: 'static>(
    name: &str,
    unit: Unit,
    of: impl Fn(&T) -> &Distribution + Copy + 'static,
    percentiles: &[f64],
) -> Vec<Line<T>> {
    let mut lines: Vec<Line<T>> = Vec::new();
    for percent in percentiles.iter().copied() {
        lines.push((format!("{name} p{percent}"), Box::new(move |it| unit.percentile(of(it), percent))));
    }
    lines.push((format!("{name} max"), Box::new(move |it| unit.bound(of(it).max()))));
    lines.push((format!("{name} mean"), Box::new(move |it| unit.of_ns(of(it).mean_ns()))));
    lines
}

/// The lines over both sets: side by side where there is room, otherwise a table for each.
fn sections<T>(summary: &Summary, title: &str, lines: &[Line<T>], of: fn(&EngineSummary, Set) -> &T) -> Vec<Section> {
    let sets = if summary.common_schemas == 0 { vec![Set::Own] } else { vec![Set::Own, Set::Common] };
    let tables: Vec<Vec<Set>> =
        if summary.engines.len() <= SIDE_BY_SIDE_ENGINES { vec![sets] } else { sets.into_iter().map(|it| vec![it]).collect() };
    let section = |sets: Vec<Set>| {
        let columns: Vec<(&EngineSummary, Set)> =
            summary.engines.iter().flat_map(|engine| sets.iter().map(move |set| (engine, *set))).collect();
        let heads = columns.iter().map(|(engine, set)| format!("{}\n{}", engine.engine.name(), set.name()));
        let values: Vec<&T> = columns.iter().map(|(engine, set)| of(engine, *set)).collect();
        let rows =
            lines.iter().map(|(label, cell)| std::iter::once(label.clone()).chain(values.iter().map(|it| cell(it))).collect());
        Section {
            title: title.to_owned(),
            notes: vec![own_and_common(summary)],
            head: std::iter::once(String::new()).chain(heads).collect(),
            rows: rows.collect(),
            word_columns: 1,
        }
    };
    tables.into_iter().map(section).collect()
}

fn own_and_common(summary: &Summary) -> String {
    let schemas = summary.common_schemas;
    if schemas == 0 {
        return "own: all of this engine's; no schema is passed by every engine, so that there is no common set".to_owned();
    }
    let them = if schemas == 1 { "schema" } else { "schemas" };
    format!("own: all of this engine's; common: the {} {them} that every engine passes; see the definitions", count(schemas))
}
