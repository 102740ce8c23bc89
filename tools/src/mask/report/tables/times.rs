//! Tables of compile, mask and batch times, memory, and MaskBench's columns.

use std::collections::BTreeSet;

use super::{Counted, Labelled, add_section, by_engine, row};
use crate::mask::report::definitions::{PERCENTILE, SLOPE_MIN_MASKS};
use crate::mask::report::latency::{
    BatchSummary, Capacity, CompileSummary, MaskSummary, MemorySummary, Set, passes,
};
use crate::mask::report::maskbench::{DIFFERENCES, MaskbenchColumn, MaskbenchTimes, PERCENTILES};
use crate::mask::report::number::{UNKNOWN, Unit, bytes, count, decimal, percent};
use crate::mask::report::{EngineSummary, Summary};
use sobench_render::{Document, Table};
use sobench_results::metrics::distribution::{Distribution, SLOW_NS, VERY_SLOW_NS};

/// Maximum engines for own and common sets in one table; with more engines, each set gets its own
/// table.
const SIDE_BY_SIDE_ENGINES: usize = 3;

/// A row of a table of durations: its label, and a function that formats a cell.
pub(super) type Line<T> = (String, Box<dyn Fn(&T) -> String>);

/// Compile and first mask, in ms.
pub(super) fn add_compile(document: &mut Document, summary: &Summary) {
    let mut lines: Vec<Line<CompileSummary>> = vec![
        (
            "schemas".into(),
            Box::new(|compile| count(compile.cold.n())),
        ),
        (
            "compile timed out".into(),
            Box::new(|compile| count(compile.cold.censored())),
        ),
    ];
    let parts: [(Labelled<CompileSummary, Distribution>, Unit, &[f64]); 4] = [
        (
            ("cold compile", |compile| &compile.cold),
            Unit::Ms,
            &[50.0, 90.0, 99.0],
        ),
        (
            ("first mask", |compile| &compile.first_mask),
            Unit::Ms,
            &[50.0, 99.0],
        ),
        (
            ("to first mask", |compile| &compile.to_first_mask),
            Unit::Ms,
            &[50.0, 90.0, 99.0],
        ),
        (
            ("cached, us:", |compile| &compile.cached),
            Unit::Us,
            &[50.0, 99.0],
        ),
    ];
    for ((name, of), unit, percentiles) in parts {
        lines.extend(distribution_lines(name, unit, of, percentiles));
    }
    let title = "Compile and time to first mask (unit of n: schema), ms; from the cache, us";
    let own_and_common = own_and_common(summary);
    for (place, table) in over_sets(summary, &lines, |engine, set| engine.compile.get(set))
        .into_iter()
        .enumerate()
    {
        let legend = [own_and_common.as_str(), PERCENTILE];
        add_section(
            document,
            title.to_owned(),
            table,
            if place == 0 { &legend } else { &legend[..1] },
        );
    }
}

/// Masks, commits and steps of the headline spelling, in us.
pub(super) fn add_masks(document: &mut Document, summary: &Summary) {
    let mut lines: Vec<Line<MaskSummary>> = vec![
        ("schemas".into(), Box::new(|masks| count(masks.schemas))),
        (
            "stopped in a walk".into(),
            Box::new(|masks| count(masks.stopped)),
        ),
    ];
    for &(pass, of) in passes(&summary.measurement.record) {
        let name = format!("{pass} mask");
        lines.push((
            format!("{name} n (tokens)"),
            Box::new(move |masks| count(of(masks).mask.n())),
        ));
        lines.extend(distribution_lines(
            &name,
            Unit::Us,
            move |masks| &of(masks).mask,
            &[50.0, 90.0, 99.0, 99.9],
        ));
        for (label, ns) in [("> 1 ms (%)", SLOW_NS), ("> 10 ms (%)", VERY_SLOW_NS)] {
            lines.push((
                format!("{name} {label}"),
                Box::new(move |masks| percent(of(masks).mask.share_above(ns))),
            ));
        }
        let slope = move |masks: &MaskSummary| {
            let mark = if of(masks).mask.n() < SLOPE_MIN_MASKS {
                "*"
            } else {
                ""
            };
            of(masks)
                .slope_ns_per_position
                .map_or_else(|| UNKNOWN.to_owned(), |ns| format!("{}{mark}", decimal(ns)))
        };
        lines.push((format!("{name} slope (ns/token)"), Box::new(slope)));
        lines.extend(distribution_lines(
            &format!("{pass} commit"),
            Unit::Us,
            move |masks| &of(masks).commit,
            &[50.0, 99.0],
        ));
    }
    let title = format!(
        "Masks (unit of n: token; spelling: {}), us",
        summary.headline.name()
    );
    add_mask_section(document, summary, &title, &lines);
}

/// Masks in the other spellings, a few figures each.
pub(super) fn add_other_spellings(document: &mut Document, summary: &Summary) {
    let spellings = summary
        .engines
        .first()
        .filter(|_| summary.common_schemas > 0)
        .map_or(0, |engine| engine.spellings.len());
    let mut table = by_engine(summary, "mask");
    let (pass, of) = passes(&summary.measurement.record)[0];
    for place in 1..spellings {
        let name = summary.engines[0].spellings[place].spelling.name();
        let mut add = |label: &str, cell: &dyn Fn(&Distribution) -> String| {
            let label = format!("{name}: {label}");
            table.row(row(&summary.engines, label, |engine| {
                cell(&of(&engine.spellings[place].masks.common).mask)
            }));
        };
        add("n (tokens)", &|masks| count(masks.n()));
        for percent in [50.0, 99.0, 99.9] {
            add(&format!("p{percent}"), &|masks| {
                Unit::Us.percentile(masks, percent)
            });
        }
        add("max", &|masks| Unit::Us.bound(masks.max()));
    }
    let title = format!("Masks in the other spellings ({pass}; common set; unit of n: token), us");
    add_section(document, title, table, &[]);
}

/// Capacity of one core.
pub(super) fn add_one_core(document: &mut Document, summary: &Summary) {
    let (pass, walk) = passes(&summary.measurement.record)[0];
    let mut lines: Vec<Line<MaskSummary>> = vec![(
        "step n (tokens)".into(),
        Box::new(move |masks| count(walk(masks).step.n())),
    )];
    lines.extend(distribution_lines(
        "step",
        Unit::Us,
        move |masks: &MaskSummary| &walk(masks).step,
        &[50.0, 99.0],
    ));
    let carried = |of: fn(&Capacity) -> u64| -> Box<dyn Fn(&MaskSummary) -> String> {
        Box::new(move |masks| {
            walk(masks)
                .one_core
                .map_or_else(|| UNKNOWN.to_owned(), |capacity| count(of(&capacity)))
        })
    };
    lines.push((
        "masks/s/core".into(),
        carried(|capacity| capacity.masks_per_second.round() as u64),
    ));
    lines.push((
        "sequences in 10 ms, by mean".into(),
        carried(|capacity| capacity.sequences_by_mean),
    ));
    lines.push((
        "sequences in 10 ms, by p99".into(),
        carried(|capacity| capacity.sequences_by_p99),
    ));
    let title = format!("Capacity of one core ({pass}; step: mask and commit of one token), us");
    add_mask_section(document, summary, &title, &lines);
}

/// Batches, on all threads.
pub(super) fn add_batches(document: &mut Document, summary: &Summary) {
    let distinct = |of: fn(&BatchSummary) -> usize| -> BTreeSet<usize> {
        summary
            .engines
            .iter()
            .flat_map(|engine| engine.batches.iter().map(of))
            .collect()
    };
    let mut table = by_engine(summary, "batch");
    for size in distinct(|batch| batch.sequences) {
        let mut add = |label: &str, of: &dyn Fn(&BatchSummary) -> String| {
            table.row(row(
                &summary.engines,
                format!("batch of {size}: {label}"),
                |engine| {
                    let batch = engine.batches.iter().find(|batch| batch.sequences == size);
                    batch.map_or_else(|| UNKNOWN.to_owned(), of)
                },
            ));
        };
        add("distinct", &|batch| count(batch.distinct as u64));
        add("steps", &|batch| count(batch.step.n()));
        add("step p50 (us)", &|batch| {
            Unit::Us.percentile(&batch.step, 50.0)
        });
        add("step p99 (us)", &|batch| {
            Unit::Us.percentile(&batch.step, 99.0)
        });
        add("masks/s", &|batch| {
            count(batch.masks_per_second.round() as u64)
        });
    }
    let threads: Vec<String> = distinct(|batch| batch.threads)
        .iter()
        .map(usize::to_string)
        .collect();
    let title = format!(
        "Batches (unit: step, one mask of every sequence; threads: {})",
        threads.join(", ")
    );
    let legend = "each engine runs instances that it passes, so engines may mask different instances; \
                  distinct: number of different instances, repeated to fill the batch";
    add_section(document, title, table, &[legend]);
}

/// Memory of compiled grammars and of the process.
pub(super) fn add_memory(document: &mut Document, summary: &Summary) {
    let peak_rss = |engine: &EngineSummary| {
        let measured = summary
            .measurement
            .record
            .engines
            .iter()
            .find(|measured| measured.engine == engine.engine);
        bytes(measured.and_then(|measured| measured.peak_rss_bytes))
    };
    let of_memory = |label: &str, of: fn(&MemorySummary) -> String| {
        row(&summary.engines, label, |engine| of(&engine.memory))
    };
    let table = by_engine(summary, "memory").with_rows([
        of_memory("compiled grammar, n", |memory| {
            count(memory.grammar.n() as u64)
        }),
        of_memory("compiled grammar, p50", |memory| {
            bytes(memory.grammar.percentile(50.0))
        }),
        of_memory("compiled grammar, max", |memory| {
            bytes(memory.grammar.max())
        }),
        of_memory("growth measured, n", |memory| count(memory.peak_known)),
        of_memory("with growth, n", |memory| count(memory.peak.n() as u64)),
        of_memory("with growth (%)", |memory| percent(memory.share_grown())),
        of_memory("growth, p50", |memory| bytes(memory.peak.percentile(50.0))),
        of_memory("growth, p99", |memory| bytes(memory.peak.percentile(99.0))),
        of_memory("growth, max", |memory| bytes(memory.peak.max())),
        row(&summary.engines, "whole process, peak resident", peak_rss),
    ]);
    let legend = [
        "growth: increase of the process's peak memory over the memory before the compile; a schema without growth fitted into memory \
         kept from earlier rows; percentiles cover only schemas with growth, so they describe the process, not \
         the need of a schema",
        "whole process: maximum of all child processes, excluding those that died",
    ];
    add_section(
        document,
        "Memory (unit of n: schema; own set)".to_owned(),
        table,
        &legend,
    );
}

/// MaskBench's columns.
pub(super) fn add_maskbench(document: &mut Document, summary: &Summary) {
    if summary
        .engines
        .iter()
        .all(|engine| engine.maskbench.is_none())
    {
        return;
    }
    let mut table = by_engine(summary, "metric");
    let mut add = |label: &str, of: &dyn Fn(&MaskbenchColumn) -> String| {
        table.row(row(&summary.engines, label, |engine| {
            engine
                .maskbench
                .as_ref()
                .map_or_else(|| UNKNOWN.to_owned(), of)
        }));
    };
    let us = |value: Option<f64>| Unit::Us.format_ns(value.map(|us| us * 1e3));
    let times: [Labelled<MaskbenchColumn, MaskbenchTimes>; 2] = [
        ("TBM", |column| &column.tbm),
        ("TTFM", |column| &column.ttfm),
    ];
    for (name, of) in times {
        add(&format!("{name} avg"), &|column| us(of(column).mean_us));
        for (place, percentile) in PERCENTILES.into_iter().enumerate() {
            add(&format!("{name} p{percentile}"), &|column| {
                us(of(column).percentiles[place].us)
            });
        }
    }
    let counts: [Counted<MaskbenchColumn>; 10] = [
        ("tokens", |column| column.tokens),
        ("schemas", |column| column.schemas),
        ("passing", |column| column.passing),
        ("compile error", |column| column.compile_error),
        ("segmentation fault", |column| column.crash),
        ("out of memory", |column| column.out_of_memory),
        ("timeout", |column| column.timeout),
        ("validation error", |column| column.validation_error),
        ("invalidation error", |column| column.invalidation_error),
        ("not judged (sobench)", |column| column.not_judged),
    ];
    for (label, of) in counts {
        add(label, &|column| count(of(column)));
    }
    let title = "MaskBench-compatible figures (us; one outcome per schema, its last wrong test)";
    add_section(document, title.to_owned(), table, &DIFFERENCES);
}

/// Percentiles, maximum and mean of a distribution.
pub(super) fn distribution_lines<T: 'static>(
    name: &str,
    unit: Unit,
    of: impl Fn(&T) -> &Distribution + Copy + 'static,
    percentiles: &[f64],
) -> Vec<Line<T>> {
    let mut lines: Vec<Line<T>> = Vec::new();
    for percent in percentiles.iter().copied() {
        lines.push((
            format!("{name} p{percent}"),
            Box::new(move |part| unit.percentile(of(part), percent)),
        ));
    }
    lines.push((
        format!("{name} max"),
        Box::new(move |part| unit.bound(of(part).max())),
    ));
    lines.push((
        format!("{name} mean"),
        Box::new(move |part| unit.format_ns(of(part).mean_ns())),
    ));
    lines
}

/// Adds rows about the masks of the headline spelling, over both sets.
fn add_mask_section(
    document: &mut Document,
    summary: &Summary,
    title: &str,
    lines: &[Line<MaskSummary>],
) {
    for table in over_sets(summary, lines, |engine, set| {
        engine.headline().masks.get(set)
    }) {
        add_section(
            document,
            title.to_owned(),
            table,
            &[&own_and_common(summary)],
        );
    }
}

/// The rows over both sets: side by side if they fit, otherwise one table per set.
fn over_sets<T>(
    summary: &Summary,
    lines: &[Line<T>],
    of: fn(&EngineSummary, Set) -> &T,
) -> Vec<Table> {
    let sets = summary.sets();
    let sets_of_a_table = if summary.engines.len() <= SIDE_BY_SIDE_ENGINES {
        sets.len()
    } else {
        1
    };
    let table = |sets: &[Set]| {
        let columns: Vec<(&EngineSummary, Set)> = summary
            .engines
            .iter()
            .flat_map(|engine| sets.iter().map(move |set| (engine, *set)))
            .collect();
        let heads = columns
            .iter()
            .map(|(engine, set)| format!("{}\n{}", engine.engine.name(), set.name()));
        let mut table = Table::new(std::iter::once(String::new()).chain(heads), 1);
        for (label, cell) in lines {
            table.row(
                std::iter::once(label.clone())
                    .chain(columns.iter().map(|(engine, set)| cell(of(engine, *set)))),
            );
        }
        table
    };
    sets.chunks(sets_of_a_table).map(table).collect()
}

fn own_and_common(summary: &Summary) -> String {
    let schemas = summary.common_schemas;
    if schemas == 0 {
        return "own: all schemas of this engine; there is no common set, since no schema is passed by every engine".to_owned();
    }
    let noun = if schemas == 1 { "schema" } else { "schemas" };
    format!(
        "own: all schemas of this engine; common: the {} {noun} passed by every engine; see the definitions",
        count(schemas)
    )
}
