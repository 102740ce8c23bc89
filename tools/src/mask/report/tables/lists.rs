//! List tables: tags, routes, reasons, wrong masks, disputed instances, engines.

use super::{add_section, by_engine, row};
use crate::mask::report::number::{UNKNOWN, Unit, bytes, count};
use crate::mask::report::outcome::{InstanceClass, OutcomeClass, SchemaOutcome};
use crate::mask::report::reason::Reasons;
use crate::mask::report::witness::Witness;
use crate::mask::report::{EngineSummary, Summary};
use sobench_core::printable::printable;
use sobench_engine::EngineName;
use sobench_render::{Align, Column, Document, Table};

/// Number of rows shown; the JSON report has all.
const TAGS_SHOWN: usize = 20;
const REASONS_SHOWN: usize = 8;
const WITNESSES_SHOWN: usize = 20;
const DISPUTED_SHOWN: usize = 20;

/// Maximum lengths of cells.
const NAME_CHARS: usize = 40;
const MESSAGE_CHARS: usize = 56;
const TOKEN_CHARS: usize = 24;
const BEFORE_CHARS: usize = 12;

/// Pointer to the complete list.
const FILE: &str = "the complete list is in the --json report";

/// Tags, most faults first.
pub(super) fn add_tags(document: &mut Document, summary: &Summary) {
    let sorted = summary.tags.sorted();
    let mut table = by_engine(summary, "tag");
    table.columns.insert(
        1,
        Column {
            head: "schemas".to_owned(),
            align: Align::Right,
            max_chars: None,
        },
    );
    for tag in sorted.iter().take(TAGS_SHOWN) {
        let cells = tag.engines.iter().map(|counts| {
            let is_wrong_mask = |outcome| {
                matches!(
                    outcome,
                    SchemaOutcome::RejectsValid | SchemaOutcome::AcceptsInvalid
                )
            };
            let figures = [
                counts.get(SchemaOutcome::Pass),
                counts.sum(SchemaOutcome::is_declined),
                counts.get(SchemaOutcome::RejectsValid),
                counts.get(SchemaOutcome::AcceptsInvalid),
                counts.sum(|outcome| outcome.is_fault() && !is_wrong_mask(outcome)),
            ];
            figures.map(|figure| figure.to_string()).join(" / ")
        });
        table.row(
            [printable(tag.tag, NAME_CHARS), count(tag.schemas())]
                .into_iter()
                .chain(cells),
        );
    }
    let title = format!(
        "By keyword tag (unit: schema; spelling: {})",
        summary.headline.name()
    );
    let legend = format!(
        "pass / declined / rejects valid / accepts invalid / any other fault; {} of {} tags, most faults first",
        table.rows.len(),
        sorted.len()
    );
    add_section(document, title, table, &[&legend]);
}

/// Engines chosen by `auto`.
pub(super) fn add_routes(document: &mut Document, summary: &Summary) {
    let mut table = Table::new(["engine", "why", "schemas"], 2);
    for auto in summary
        .engines
        .iter()
        .filter(|engine| engine.engine == EngineName::Auto)
    {
        for route in &auto.routes {
            table.row([
                route.engine.name().to_owned(),
                printable(&route.why, 2 * MESSAGE_CHARS),
                count(route.schemas),
            ]);
        }
        let routed: u64 = auto.routes.iter().map(|route| route.schemas).sum();
        let none = auto.schemas.saturating_sub(routed);
        if none > 0 {
            table.row(["none", "no engine accepted it; see --explain", &count(none)]);
        }
    }
    add_section(
        document,
        "Engines chosen by auto (unit: schema)".to_owned(),
        table,
        &[],
    );
}

/// Reasons for declines and stops, one table per engine.
pub(super) fn add_reasons(document: &mut Document, summary: &Summary) {
    for engine in &summary.engines {
        let name = engine.engine.name();
        add_reasons_of(
            document,
            &engine.declines,
            format!("Schemas declined by {name} (unit: schema)"),
        );
        add_reasons_of(
            document,
            &engine.stops,
            format!("Rows of {name} stopped early (unit: schema, any spelling)"),
        );
    }
}

fn add_reasons_of(document: &mut Document, reasons: &Reasons, title: String) {
    let sorted = reasons.sorted();
    let rows = sorted.iter().take(REASONS_SHOWN).map(|reason| {
        let message = [
            reason.outcome.title().to_owned(),
            printable(&reason.reason, MESSAGE_CHARS),
            fit_end(&reason.entry),
        ];
        message.into_iter().chain([count(reason.schemas)])
    });
    let table = Table::new(["outcome", "reason", "first schema", "schemas"], 3).with_rows(rows);
    let shown = table.rows.len();
    let file = if shown < sorted.len() {
        format!("; {FILE}")
    } else {
        String::new()
    };
    let beyond = match reasons.left_out() {
        0 => String::new(),
        left_out => format!("; {} schemas had other reasons", count(left_out)),
    };
    let legend = format!(
        "{shown} of {} reasons, most frequent first{file}{beyond}",
        sorted.len()
    );
    add_section(document, title, table, &[&legend]);
}

/// Wrong masks, one table per engine.
pub(super) fn add_witnesses(document: &mut Document, summary: &Summary) {
    for engine in &summary.engines {
        let all: Vec<&Witness> = engine.witnesses.iter().collect();
        let mut kinds: Vec<InstanceClass> = all.iter().map(|witness| witness.class).collect();
        kinds.dedup();
        // Each kind gets an equal share of the rows, so that one kind does not hide the others.
        let each = WITNESSES_SHOWN / kinds.len().max(1);
        let of_kind = |kind: InstanceClass| {
            all.iter()
                .filter(move |witness| witness.class == kind)
                .take(each)
        };
        let mut table = Table::new(
            [
                "kind", "schema", "instance", "spelling", "byte", "after", "error",
            ],
            7,
        );
        kinds
            .iter()
            .flat_map(|kind| of_kind(*kind))
            .for_each(|witness| table.row(witness_cells(witness)));
        let schemas = table.rows.len();
        let file = if schemas < all.len() {
            format!("; {FILE}")
        } else {
            String::new()
        };
        let title = format!(
            "Wrong masks of {} (unit: schema, first of each kind)",
            engine.engine.name()
        );
        let legend = format!(
            "the first {schemas}, at most {each} of each kind{file}; instances count from 0; byte: bytes of the text before the wrong \
             mask; after: the end of that text"
        );
        add_section(document, title, table, &[&legend]);
    }
}

/// Instances whose label and verdict differ.
pub(super) fn add_disputed(document: &mut Document, summary: &Summary) {
    let word = |verdict: Option<bool>| match verdict {
        Some(true) => "valid".to_owned(),
        Some(false) => "invalid".to_owned(),
        None => UNKNOWN.to_owned(),
    };
    let names = |engines: &[EngineName]| {
        let names: Vec<&str> = engines.iter().map(|engine| engine.name()).collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(" ")
        }
    };
    let rows = summary
        .disputes
        .iter()
        .take(DISPUTED_SHOWN)
        .map(|disputed| {
            let place = [fit_end(&disputed.entry), disputed.instance.to_string()];
            place.into_iter().chain([
                word(disputed.label),
                word(disputed.judged),
                names(&disputed.accepted_by),
            ])
        });
    let table = Table::new(
        ["schema", "instance", "label", "evaluator", "accepted by"],
        5,
    )
    .with_rows(rows);
    let legend = format!(
        "{} of {}; instances count from 0; the complete list is in the --json report",
        table.rows.len(),
        count(summary.disputes.total() as u64)
    );
    add_section(
        document,
        "Disputed instances (unit: instance)".to_owned(),
        table,
        &[&legend],
    );
}

/// Settings, open time, wall time and memory of the engines.
pub(super) fn add_engines(document: &mut Document, summary: &Summary) {
    let measured = |engine: &EngineSummary| {
        summary
            .measurement
            .record
            .engines
            .iter()
            .find(|measured| measured.engine == engine.engine)
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in summary
        .measurement
        .record
        .engines
        .iter()
        .flat_map(|measured| &measured.settings)
    {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut table = by_engine(summary, "setting");
    for name in names {
        table.row(row(
            &summary.engines,
            printable(name, NAME_CHARS),
            |engine| {
                let setting = measured(engine)
                    .and_then(|measured| measured.settings.iter().find(|(key, _)| key == name));
                setting.map_or_else(String::new, |(_, value)| printable(value, TOKEN_CHARS))
            },
        ));
    }
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    table.row(row(&summary.engines, "open time (ms)", |engine| {
        Unit::Ms.format_ns(
            measured(engine)
                .and_then(|measured| measured.open_ns)
                .map(|ns| ns as f64),
        )
    }));
    table.row(row(&summary.engines, "wall time (s)", |engine| {
        measured(engine).map_or_else(|| UNKNOWN.to_owned(), |measured| seconds(measured.wall_ns))
    }));
    table.row(row(&summary.engines, "peak resident memory", |engine| {
        bytes(measured(engine).and_then(|measured| measured.peak_rss_bytes))
    }));
    add_section(
        document,
        "Engines and their settings".to_owned(),
        table,
        &[],
    );
}

fn witness_cells(witness: &Witness) -> Vec<String> {
    let token = match (&witness.token, &witness.message, witness.class) {
        (Some(token), _, _) => format!("no {}", printable(&format!("{token:?}"), TOKEN_CHARS)),
        (None, Some(message), _) => printable(message, TOKEN_CHARS),
        (None, None, InstanceClass::RejectsValid) => "no end".to_owned(),
        (None, None, InstanceClass::DeadEnd) => "nothing allowed".to_owned(),
        (None, None, InstanceClass::AcceptsInvalid) => "end allowed".to_owned(),
        (None, None, _) => String::new(),
    };
    let before = witness
        .before
        .as_deref()
        .map(|text| format!("{:?}", last(text, BEFORE_CHARS)))
        .unwrap_or_default();
    vec![
        witness.class.title().to_owned(),
        fit_end(&witness.entry),
        witness.instance.to_string(),
        witness.spelling.name().to_owned(),
        witness.byte.to_string(),
        printable(&before, 2 * BEFORE_CHARS),
        token,
    ]
}

/// The last characters of a text.
fn last(text: &str, characters: usize) -> &str {
    text.char_indices()
        .rev()
        .nth(characters - 1)
        .map_or(text, |(start, _)| &text[start..])
}

/// The end of a name that is too long for its cell: its first folders are usually common to all
/// rows.
fn fit_end(name: &str) -> String {
    let characters = name.chars().count();
    match characters.checked_sub(NAME_CHARS) {
        None | Some(0) => printable(name, NAME_CHARS),
        Some(beyond) => {
            let end: String = name.chars().skip(beyond + 1).collect();
            format!("…{}", printable(&end, NAME_CHARS))
        }
    }
}
