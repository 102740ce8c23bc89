//! Rows and tags as CSV. Missing data is an empty cell.

use serde_json::{Value, json};

use super::outcome::{InstanceClass, OutcomeClass, SchemaOutcome, instances_in};
use super::{Counts, Summary};
use crate::mask::drafts::DraftRow;
use crate::mask::record::MaskRecord;
use crate::mask::row::{PassTimes, Row, Spelling, SpellingTimes};
use crate::mask::times::Durations;
use sobench_core::constraint::ConstraintKind;
use sobench_core::error::Result;
use sobench_render::csv::{render, try_render};
use sobench_results::metrics::distribution::SLOW_NS;

/// Formats a cell from the row and the library's version.
type Cell = fn(&Row, &str) -> String;

/// Columns independent of the spelling.
const COLUMNS: [(&str, Cell); 18] = [
    ("index", |row, _| row.index.to_string()),
    ("entry", |row, _| row.entry.clone()),
    ("engine", |row, _| row.engine.name().to_owned()),
    ("library", |_, library| library.to_owned()),
    ("kind", |row, _| row.kind.clone()),
    ("tags", |row, _| row.tags.join(" ")),
    ("route_engine", |row, _| {
        row.route
            .as_ref()
            .map(|route| route.engine.name().to_owned())
            .unwrap_or_default()
    }),
    ("route_why", |row, _| {
        row.route
            .as_ref()
            .map(|route| route.why.clone())
            .unwrap_or_default()
    }),
    // Enums use their names in the rows file.
    ("declined", |row, _| {
        text(&json!(row.declined.as_ref().map(|declined| declined.class)))
    }),
    ("stopped", |row, _| {
        text(&json!(row.stopped.as_ref().map(|stopped| stopped.cause)))
    }),
    ("stopped_at", |row, _| {
        text(&json!(row.stopped.as_ref().map(|stopped| stopped.stage))["at"])
    }),
    ("words", |row, _| {
        let declined = row
            .declined
            .as_ref()
            .map(|declined| declined.message.clone());
        declined
            .or_else(|| row.stopped.as_ref().map(|stopped| stopped.message.clone()))
            .unwrap_or_default()
    }),
    ("cold_compile_ns", |row, _| {
        number(row.compile.map(|compile| compile.cold_ns))
    }),
    ("first_mask_ns", |row, _| {
        number(row.compile.map(|compile| compile.first_mask_ns))
    }),
    ("to_first_mask_ns", |row, _| {
        number(
            row.compile
                .map(|compile| compile.cold_ns.saturating_add(compile.first_mask_ns)),
        )
    }),
    ("cached_compile_ns", |row, _| {
        number(row.compile.map(|compile| compile.cached_ns))
    }),
    ("grammar_bytes", |row, _| {
        number(row.compile.and_then(|compile| compile.grammar_bytes))
    }),
    ("peak_bytes", |row, _| {
        number(row.compile.and_then(|compile| compile.peak_bytes))
    }),
];

/// A part of a column name, with its accessor.
type Part<Whole, Found> = (&'static str, fn(&Whole) -> &Found);

/// The passes of a spelling, and the kinds of durations in each.
const PASSES: [Part<SpellingTimes, PassTimes>; 2] =
    [("cold", |times| &times.cold), ("warm", |times| &times.warm)];
const PARTS: [Part<PassTimes, Durations>; 3] = [
    ("mask", |pass| &pass.mask),
    ("commit", |pass| &pass.commit),
    ("step", |pass| &pass.step),
];

/// The name of a figure in columns, with its formatter.
type DurationFigure = (&'static str, fn(&Durations) -> String);

/// Figures of each kind of duration in each pass.
const FIGURES: [DurationFigure; 6] = [
    ("n", |durations| durations.count().to_string()),
    ("mean_ns", |durations| {
        durations
            .mean_ns()
            .map(|ns| format!("{ns:.1}"))
            .unwrap_or_default()
    }),
    ("p50_ns", |durations| number(durations.quantile_ns(0.5))),
    ("p99_ns", |durations| number(durations.quantile_ns(0.99))),
    ("max_ns", |durations| number(durations.max_ns())),
    ("over_1_ms", |durations| {
        durations.count_above(SLOW_NS).to_string()
    }),
];

/// Formats a cell of a row's drafts.
type DraftCell = fn(&DraftRow) -> String;

/// Columns of a measurement with drafts; the unit of the durations is the draft.
const DRAFT_COLUMNS: [(&str, DraftCell); 19] = [
    ("drafts_n", |drafts| drafts.along.drafts.to_string()),
    ("drafts_tokens", |drafts| drafts.along.tokens.to_string()),
    ("drafts_accepted", |drafts| {
        drafts.along.accepted.to_string()
    }),
    ("drafts_whole", |drafts| {
        drafts.times.masks.count().to_string()
    }),
    ("drafts_masks_p50_ns", |drafts| {
        number(drafts.times.masks.quantile_ns(0.5))
    }),
    ("drafts_masks_p99_ns", |drafts| {
        number(drafts.times.masks.quantile_ns(0.99))
    }),
    ("drafts_rollback_p50_ns", |drafts| {
        number(drafts.times.rollback.quantile_ns(0.5))
    }),
    ("drafts_rollback_p99_ns", |drafts| {
        number(drafts.times.rollback.quantile_ns(0.99))
    }),
    ("drafts_refused_rollbacks", |drafts| {
        drafts.refused_rollbacks.rollbacks.to_string()
    }),
    ("drafts_rollback_limit", |drafts| {
        number(drafts.refused_rollbacks.limit.map(|limit| limit as u64))
    }),
    ("drafts_positions", |drafts| drafts.positions.to_string()),
    ("drafts_trees", |drafts| drafts.trees.trees.to_string()),
    ("drafts_differences", |drafts| {
        drafts.differences.values().sum::<u64>().to_string()
    }),
    ("forced_positions", |drafts| {
        drafts.forced.positions.to_string()
    }),
    ("forced_one_allowed", |drafts| {
        drafts.forced.one_allowed.to_string()
    }),
    ("forced_jumped", |drafts| drafts.forced.jumped.to_string()),
    ("forced_not_canonical", |drafts| {
        drafts.forced.not_canonical.to_string()
    }),
    ("forced_saved_ns", |drafts| {
        drafts.forced.saved_ns.to_string()
    }),
    ("forced_ask_ns", |drafts| drafts.forced.ask_ns.to_string()),
];

fn number(value: Option<u64>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// One line per row, in the given order, with the outcomes and durations of each measured spelling,
/// then of verbatim text, then of drafts if there are any. Cells of spellings that the row does not
/// have are empty.
///
/// # Errors
/// Rows cannot be read.
pub fn render_rows(
    rows: impl IntoIterator<Item = Result<Row>>,
    record: &MaskRecord,
) -> Result<Vec<u8>> {
    let with_text: Vec<Spelling> = record
        .spellings
        .iter()
        .copied()
        .chain([Spelling::Verbatim])
        .collect();
    let draft_columns: &[(&str, DraftCell)] = match record.drafts {
        Some(_) => &DRAFT_COLUMNS,
        None => &[],
    };
    let line = |row: Row| {
        let library = record
            .engines
            .iter()
            .find(|engine| engine.engine == row.engine)
            .map_or("", |engine| &engine.version);
        let mut cells = cells(&row, library, &record.spellings);
        cells.extend(draft_columns.iter().map(|(_, cell)| {
            let drafts = row.drafts.as_ref();
            drafts.map(cell).unwrap_or_default()
        }));
        cells
    };
    let draft_names = draft_columns.iter().map(|(name, _)| (*name).to_owned());
    try_render(
        header(&with_text).into_iter().chain(draft_names),
        rows.into_iter().map(|row| row.map(line)),
    )
}

/// One line per tag and engine; the unit is the schema.
pub fn render_tags(summary: &Summary) -> Vec<u8> {
    let header = ["tag", "engine", "schemas"]
        .into_iter()
        .chain(SchemaOutcome::ALL.iter().map(|outcome| outcome.name()));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for tag in summary.tags.sorted() {
        for (engine, counts) in summary.engines.iter().zip(tag.engines) {
            let names = [
                tag.tag.to_owned(),
                engine.engine.name().to_owned(),
                counts.total().to_string(),
            ];
            let counts = SchemaOutcome::ALL
                .iter()
                .map(|outcome| counts.get(*outcome).to_string());
            rows.push(names.into_iter().chain(counts).collect());
        }
    }
    render(header, rows)
}

fn header(spellings: &[Spelling]) -> Vec<String> {
    let mut names: Vec<String> = COLUMNS.map(|(name, _)| name.to_owned()).to_vec();
    for spelling in spellings {
        let spelling = spelling.name();
        names.push(format!("{spelling}_outcome"));
        names.extend(
            InstanceClass::ALL
                .iter()
                .map(|class| format!("{spelling}_instances_{}", class.name())),
        );
        for (pass, _) in PASSES {
            for (part, _) in PARTS {
                names.extend(
                    FIGURES.map(|(figure, _)| format!("{spelling}_{pass}_{part}_{figure}")),
                );
            }
        }
    }
    names
}

fn cells(row: &Row, library: &str, spellings: &[Spelling]) -> Vec<String> {
    let mut cells = COLUMNS.map(|(_, cell)| cell(row, library)).to_vec();
    let (is_json, is_text) = json_and_text(row);
    for spelling in spellings.iter().copied().chain([Spelling::Verbatim]) {
        if !(if spelling == Spelling::Verbatim {
            is_text
        } else {
            is_json
        }) {
            cells.extend(vec![
                String::new();
                header(&[spelling]).len() - COLUMNS.len()
            ]);
            continue;
        }
        cells.push(
            SchemaOutcome::from_row(row, spelling, spellings)
                .name()
                .to_owned(),
        );
        let mut counts = Counts::default();
        instances_in(row, spelling)
            .for_each(|instance| counts.add(InstanceClass::from_outcome(&instance.outcome)));
        cells.extend(
            InstanceClass::ALL
                .iter()
                .map(|class| counts.get(*class).to_string()),
        );
        let times = row
            .times
            .iter()
            .find(|times| times.spelling == spelling || times.spelling == Spelling::Verbatim);
        for (_, pass) in PASSES {
            for (_, part) in PARTS {
                let durations = times.map(|times| part(pass(times)));
                cells.extend(FIGURES.map(|(_, figure)| durations.map(figure).unwrap_or_default()));
            }
        }
    }
    cells
}

/// Whether a row has JSON instances, and whether it has text instances. Without instances, the
/// constraint's kind decides.
fn json_and_text(row: &Row) -> (bool, bool) {
    let is_json = ConstraintKind::from_name(&row.kind).is_some_and(|kind| kind.is_json());
    let has_text = row
        .instances
        .iter()
        .any(|instance| instance.spelling == Spelling::Verbatim);
    let has_json = row
        .instances
        .iter()
        .any(|instance| instance.spelling != Spelling::Verbatim);
    if row.instances.is_empty() {
        (is_json, !is_json)
    } else {
        (has_json, has_text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MadeRow, drafted_rows, measurement, row};
    use super::*;
    use sobench_engine::EngineName;

    fn read(file: &[u8]) -> Vec<Vec<String>> {
        let lines = ::csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(file)
            .into_deserialize();
        lines.collect::<std::result::Result<_, _>>().unwrap()
    }

    #[test]
    fn drafts_have_columns_if_the_measurement_has_them() {
        let engines = [EngineName::Guidance, EngineName::Xgrammar];
        let mut record = measurement(&engines).record;
        let rows = || drafted_rows().into_iter().map(Ok);
        let without = read(&render_rows(rows(), &record).unwrap());
        assert!(!without[0].contains(&"drafts_n".to_owned()));
        record.drafts = Some(4);
        let lines = read(&render_rows(rows(), &record).unwrap());
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        let cell = |line: usize, name: &str| {
            let place = lines[0].iter().position(|head| head == name).unwrap();
            lines[line][place].as_str()
        };
        assert_eq!(
            (cell(1, "drafts_n"), cell(1, "drafts_rollback_limit")),
            ("6", "")
        );
        assert_eq!(
            (cell(3, "drafts_rollback_limit"), cell(3, "drafts_whole")),
            ("2", "0")
        );
        assert_eq!((cell(4, "drafts_n"), cell(4, "stopped_at")), ("", "drafts"));
        assert_eq!(cell(5, "drafts_differences"), "3");
    }

    #[test]
    fn csv_rows_have_all_columns_and_parse_back() {
        let mut odd = row(0, EngineName::Guidance);
        odd.entry = "a,\"b\"\r\nc".to_owned();
        let mut declined = row(1, EngineName::Xgrammar).declined_with("no `not`, sorry");
        declined.tags = vec!["not".to_owned(), "$ref".to_owned()];
        let record = measurement(&[EngineName::Guidance, EngineName::Xgrammar]).record;
        let lines = read(&render_rows([Ok(odd.clone()), Ok(declined)], &record).unwrap());
        assert_eq!(lines.len(), 3);
        assert!(
            lines.iter().all(|line| line.len() == lines[0].len()),
            "{lines:?}"
        );
        let cell = |line: usize, column: &str| {
            let place = lines[0]
                .iter()
                .position(|name| name == column)
                .unwrap_or_else(|| panic!("no column {column}"));
            lines[line][place].as_str()
        };
        assert_eq!(cell(1, "entry"), odd.entry);
        assert_eq!(cell(2, "library"), record.engines[1].version);
        assert_eq!(
            (cell(1, "maskbench_outcome"), cell(2, "maskbench_outcome")),
            ("pass", "declined_unsupported")
        );
        assert_eq!(
            (cell(2, "declined"), cell(2, "words"), cell(2, "tags")),
            ("unsupported", "no `not`, sorry", "not $ref")
        );
        assert_eq!(
            (
                cell(2, "cold_compile_ns"),
                cell(2, "maskbench_warm_mask_p50_ns")
            ),
            ("", "")
        );
        assert_eq!(cell(1, "to_first_mask_ns"), "1500000");
        assert_eq!(
            (cell(1, "verbatim_outcome"), cell(2, "verbatim_outcome")),
            ("", "")
        );
    }

    #[test]
    fn text_rows_have_empty_cells_for_json_spellings() {
        let mut text = row(0, EngineName::Guidance);
        text.instances.truncate(1);
        text.instances[0].spelling = Spelling::Verbatim;
        let mut declined = row(1, EngineName::Guidance).declined_with("no");
        declined.kind = "regex".to_owned();
        let lines = read(
            &render_rows(
                [Ok(text), Ok(declined)],
                &measurement(&[EngineName::Guidance]).record,
            )
            .unwrap(),
        );
        let place = |column: &str| lines[0].iter().position(|name| name == column).unwrap();
        for (line, outcome) in [(1, "pass"), (2, "declined_unsupported")] {
            assert_eq!(lines[line].len(), lines[0].len());
            let json = &lines[line][place("maskbench_outcome")..place("verbatim_outcome")];
            assert!(json.iter().all(String::is_empty), "{json:?}");
            assert_eq!(lines[line][place("verbatim_outcome")], outcome);
        }
    }

    #[test]
    fn tags_csv_has_one_line_per_engine() {
        let summary = Summary::build(
            measurement(&[EngineName::Guidance, EngineName::Outlines]),
            || {
                Ok([
                    Ok(row(0, EngineName::Guidance)),
                    Ok(row(0, EngineName::Outlines).declined_with("no")),
                ])
            },
        );
        let lines = read(&render_tags(&summary.unwrap()));
        assert_eq!(lines[1][..3], ["type", "guidance", "1"]);
        assert_eq!(lines[2][..3], ["type", "outlines", "1"]);
        assert_eq!(lines.len(), 3);
    }
}
