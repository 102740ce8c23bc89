//! Tables of drafts, of their differences, and of forced tokens.

use super::times::{Line, distribution_lines};
use super::{add_section, by_engine, row};
use crate::mask::drafts::{DraftCheck, ForcedTokens};
use crate::mask::report::definitions::PERCENTILE;
use crate::mask::report::drafts::{CorpusForced, DraftSummary, ForcedSummary};
use crate::mask::report::number::{UNKNOWN, Unit, count, percent};
use crate::mask::report::{EngineSummary, Summary};
use sobench_core::printable::printable;
use sobench_render::{Document, Table};

/// Maximum lengths of cells.
const LABEL_CHARS: usize = 34;
const NAME_CHARS: usize = 20;
const BEFORE_CHARS: usize = 16;
const MESSAGE_CHARS: usize = 40;
const DIFFERENT_CHARS: usize = 28;

/// Differences shown; the JSON report has more.
const DIFFERENCES_SHOWN: usize = 10;

/// A label, and the count of tokens or positions that it shows.
type ForcedCount = (&'static str, fn(&ForcedTokens) -> u64);

/// Adds the tables if the measurement has drafts.
pub(super) fn add(document: &mut Document, summary: &Summary) {
    let Some(tokens) = summary.measurement.record.drafts else {
        return;
    };
    add_drafts(document, summary, tokens);
    add_checks(document, summary);
    add_differences(document, summary);
    add_forced(document, summary);
}

/// A row with a cell for each engine with drafts.
fn draft_row(
    summary: &Summary,
    label: impl Into<String>,
    cell: impl Fn(&DraftSummary) -> String,
) -> Vec<String> {
    row(&summary.engines, label, |engine: &EngineSummary| {
        engine
            .drafts
            .as_ref()
            .map_or_else(|| UNKNOWN.to_owned(), &cell)
    })
}

fn add_drafts(document: &mut Document, summary: &Summary, tokens: usize) {
    let mut lines: Vec<Line<DraftSummary>> = vec![
        ("schemas".into(), Box::new(|drafts| count(drafts.schemas))),
        (
            "stopped in a draft".into(),
            Box::new(|drafts| count(drafts.stopped)),
        ),
        ("texts".into(), Box::new(|drafts| count(drafts.texts))),
        (
            "drafts".into(),
            Box::new(|drafts| count(drafts.along.drafts)),
        ),
        (
            "tokens accepted".into(),
            Box::new(|drafts| count(drafts.along.accepted)),
        ),
        (
            "tokens accepted (%)".into(),
            Box::new(|drafts| {
                let along = drafts.along;
                percent((along.tokens > 0).then(|| along.accepted as f64 / along.tokens as f64))
            }),
        ),
        (
            "whole drafts".into(),
            Box::new(|drafts| count(drafts.times.masks.n())),
        ),
    ];
    lines.extend(distribution_lines(
        &format!("{tokens} masks"),
        Unit::Us,
        |drafts: &DraftSummary| &drafts.times.masks,
        &[50.0, 90.0, 99.0, 99.9],
    ));
    lines.extend(distribution_lines(
        &format!("{tokens} commits"),
        Unit::Us,
        |drafts: &DraftSummary| &drafts.times.commits,
        &[50.0, 99.0],
    ));
    lines.extend(distribution_lines(
        "rollback",
        Unit::Us,
        |drafts: &DraftSummary| &drafts.times.rollback,
        &[50.0, 99.0, 99.9],
    ));
    lines.extend(distribution_lines(
        "fork",
        Unit::Us,
        |drafts: &DraftSummary| &drafts.times.fork,
        &[50.0, 99.0],
    ));
    lines.push((
        "rollbacks refused".into(),
        Box::new(|drafts| count(drafts.refused_rollbacks.rollbacks)),
    ));
    lines.push((
        "limit of rollback (tokens)".into(),
        Box::new(|drafts| {
            drafts
                .refused_rollbacks
                .limit
                .map_or_else(|| "none".to_owned(), |limit| count(limit as u64))
        }),
    ));
    let mut table = by_engine(summary, "drafts").wrapped(0, LABEL_CHARS);
    for (label, cell) in &lines {
        table.row(draft_row(summary, label.as_str(), cell));
    }
    let legend = [
        "at every position: mask and commit of each of the next tokens of the text and of its end, then rollback; times: drafts \
         of which every token is accepted",
        "limit of rollback: the most tokens that were rolled back where more were refused",
        PERCENTILE,
    ];
    let title = format!(
        "Drafts of {tokens} tokens (unit of n: draft; spelling: {}), us",
        summary.headline.name()
    );
    add_section(document, title, table, &legend);
}

/// Comparisons with a matcher that never drafted.
fn add_checks(document: &mut Document, summary: &Summary) {
    let mut table = by_engine(summary, "checks").wrapped(0, LABEL_CHARS);
    table.row(draft_row(summary, "positions", |drafts| {
        count(drafts.positions)
    }));
    table.row(draft_row(summary, "drafts that leave", |drafts| {
        count(drafts.leaving.drafts)
    }));
    table.row(draft_row(summary, "trees", |drafts| {
        count(drafts.trees.trees)
    }));
    table.row(draft_row(summary, "branches", |drafts| {
        count(drafts.trees.branches)
    }));
    for check in DraftCheck::ALL {
        let label = format!("different: {}", check.title());
        table.row(draft_row(summary, label, |drafts| {
            count(drafts.differences[&check])
        }));
    }
    table.row(draft_row(summary, "schemas with a difference", |drafts| {
        count(drafts.different_schemas)
    }));
    let legend = [
        "compared with a matcher that never drafted: mask, end and next token after every rollback, masks along the draft, number \
         of accepted tokens; drafts that leave have a refused token at a known place",
        "branches: two of each tree, by fork and by rollback, compared with a matcher that went there directly",
    ];
    let title = "Rollback, forks and forced tokens, compared".to_owned();
    add_section(document, title, table, &legend);
}

/// The first differences of all engines.
fn add_differences(document: &mut Document, summary: &Summary) {
    let mut table = Table::new(["engine", "schema", "after", "tokens", "different"], 5)
        .wrapped(4, DIFFERENT_CHARS);
    let all = summary.engines.iter().flat_map(|engine| {
        let drafts = engine.drafts.iter();
        drafts
            .flat_map(|drafts| &drafts.first_differences)
            .map(move |found| (engine.engine.name(), found))
    });
    for (engine, found) in all.take(DIFFERENCES_SHOWN) {
        let difference = &found.difference;
        let message = difference
            .message
            .as_deref()
            .map(|message| format!(": {}", printable(message, MESSAGE_CHARS)))
            .unwrap_or_default();
        table.row([
            engine.to_owned(),
            printable(&found.entry, NAME_CHARS),
            printable(&format!("{:?}", difference.before), BEFORE_CHARS),
            difference.drafted.to_string(),
            format!("{}{message}", difference.check.title()),
        ]);
    }
    let legend = "after: the end of the text before the draft; tokens: number of drafted tokens; more are in the --json report";
    add_section(
        document,
        "First differences after drafts".to_owned(),
        table,
        &[legend],
    );
}

/// Forced tokens, by corpus if there are several.
fn add_forced(document: &mut Document, summary: &Summary) {
    const COUNTS: [ForcedCount; 5] = [
        ("positions", |forced| forced.positions),
        ("jumps", |forced| forced.jumps),
        ("canonical tokens", |forced| forced.canonical),
        ("not canonical tokens", |forced| forced.not_canonical),
        ("not compared tokens", |forced| forced.uncompared),
    ];
    let mut corpora: Vec<Option<&str>> = vec![None];
    let named = summary.measurement.record.corpora.iter();
    if named.len() > 1 {
        corpora.extend(named.map(|corpus| Some(corpus.source.as_str())));
    }
    let mut table = by_engine(summary, "forced tokens").wrapped(0, LABEL_CHARS);
    for corpus in corpora {
        let prefix = corpus
            .map(|name| format!("{}: ", printable(name, NAME_CHARS)))
            .unwrap_or_default();
        let mut add = |label: &str, cell: &dyn Fn(&ForcedSummary) -> String| {
            table.row(draft_row(summary, format!("{prefix}{label}"), |drafts| {
                forced_in(drafts, corpus).map_or_else(|| UNKNOWN.to_owned(), cell)
            }));
        };
        add("one token allowed (%)", &|forced| {
            percent(forced.share_one_allowed)
        });
        add("named by the engine (%)", &|forced| {
            percent(forced.share_jumped)
        });
        add("mask time saved (%)", &|forced| {
            forced.share_saved.map_or_else(
                || UNKNOWN.to_owned(),
                |share| format!("{:.2}", 100.0 * share),
            )
        });
        if corpus.is_none() {
            add("masks, all (ms)", &|forced| {
                Unit::Ms.format_ns(Some(forced.tokens.mask_ns as f64))
            });
            add("masks not computed (ms)", &|forced| {
                Unit::Ms.format_ns(Some(forced.tokens.saved_ns as f64))
            });
            add("asking for tokens (ms)", &|forced| {
                Unit::Ms.format_ns(Some(forced.tokens.ask_ns as f64))
            });
            for (label, of) in COUNTS {
                add(label, &|forced| count(of(&forced.tokens)));
            }
        } else {
            add("not canonical tokens", &|forced| {
                count(forced.tokens.not_canonical)
            });
        }
    }
    let legend = [
        "share of the positions at which the mask allows one token, and of those that the engine names in advance, so that no mask \
         is needed; saved: the masks that are not computed, less the time to ask, of all masks",
        "canonical: the tokenizer writes the same tokens for this text; not compared: the text continues differently",
    ];
    let title = "Forced tokens (unit: position or token)".to_owned();
    add_section(document, title, table, &legend);
}

/// The forced tokens in one corpus, or in all.
fn forced_in<'a>(drafts: &'a DraftSummary, corpus: Option<&str>) -> Option<&'a ForcedSummary> {
    let Some(name) = corpus else {
        return Some(&drafts.forced);
    };
    let mut known = drafts.forced_by_corpus.iter();
    known
        .find(|forced: &&CorpusForced| forced.corpus == name)
        .map(|forced| &forced.forced)
}
