//! The page of a measurement.

use super::conditions::conditions;
use super::definitions::definitions_in;
use super::number::count;
use super::outcome::SchemaOutcome;
use super::{EngineSummary, Summary, charts, tables};
use crate::mask::row::Spelling;
use sobench_core::printable::printable;
use sobench_notices::notice::{MaskNotice, Notice};
use sobench_render::{Block, Document};

/// Maximum length of a notice.
const NOTICE_MAX_CHARS: usize = 600;

/// The order of the sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// For terminals: tables with legends below, then the conditions.
    TablesFirst,
    /// For browsers: conditions, charts, then tables with legends above.
    ConditionsFirst,
}

/// The page.
pub fn document(summary: &Summary, order: Order) -> Document {
    let names: Vec<&str> = summary
        .engines
        .iter()
        .map(|engine| engine.engine.name())
        .collect();
    let mut document = Document::new(format!("sobench-tools mask: {}", names.join(", ")));
    document.style = charts::STYLE;
    if let Some(partial) = partial_warning(summary) {
        document.alarm(partial);
    }
    match order {
        Order::TablesFirst => {
            tables::add(&mut document, summary);
            document.gap();
            add_conditions(&mut document, summary);
        }
        Order::ConditionsFirst => {
            add_conditions(&mut document, summary);
            charts::add(&mut document, summary);
            tables::add(&mut document, summary);
            move_legends_above_tables(&mut document.blocks);
        }
    }
    let definitions: Vec<_> = definitions_in(&document.plain_text()).collect();
    document.heading("Definitions");
    document.definitions(definitions);
    document
}

fn add_conditions(document: &mut Document, summary: &Summary) {
    document.facts(conditions(summary));
    document.gap();
    document.notes(notes(summary).iter().map(note_text).collect());
}

fn move_legends_above_tables(blocks: &mut [Block]) {
    for place in 1..blocks.len() {
        if matches!(
            blocks[place - 1..=place],
            [Block::Table(_), Block::Legend(_)]
        ) {
            blocks.swap(place - 1, place);
        }
    }
}

/// The first line of an interrupted measurement.
fn partial_warning(summary: &Summary) -> Option<String> {
    let planned = summary.measurement.record.selected as u64 * summary.engines.len() as u64;
    let done: u64 = summary.engines.iter().map(|engine| engine.schemas).sum();
    let prefix = "PARTIAL: stopped early, with";
    summary.measurement.interrupted.then(|| {
        format!(
            "{prefix} {} of {} rows; see the notes",
            count(done),
            count(planned)
        )
    })
}

/// The notices of the measurement and of the summary.
fn notes(summary: &Summary) -> Vec<Notice> {
    let measurement = &summary.measurement;
    let selected = measurement.record.selected as u64;
    let mut notes = Vec::new();
    for engine in summary
        .engines
        .iter()
        .filter(|engine| engine.schemas != selected)
    {
        let name = engine.engine.name().to_owned();
        notes.push(MaskNotice::SchemasMissing {
            engine: name,
            rows: engine.schemas,
            schemas: selected,
        });
    }
    for engine in &summary.engines {
        let schemas = engine.stops.schemas(SchemaOutcome::NotJudged);
        if schemas > 0 {
            notes.push(MaskNotice::EvaluatorStopped {
                engine: engine.engine.name().to_owned(),
                schemas,
            });
        }
    }
    if summary.common_schemas == 0 {
        let passes =
            |engine: &&EngineSummary| engine.headline().schemas.get(SchemaOutcome::Pass) > 0;
        let none = summary
            .engines
            .iter()
            .filter(|engine| !passes(engine))
            .map(|engine| engine.engine.name().to_owned());
        notes.push(MaskNotice::NoCommonSchema {
            passing_none: none.collect(),
        });
    }
    if summary.engines.len() == 1 {
        notes.push(MaskNotice::OneEngine);
    }
    if summary.headline == Spelling::Verbatim {
        notes.push(MaskNotice::NoJsonInstance);
    } else if summary.instance_kinds.text > 0 {
        notes.push(MaskNotice::TextInstances);
    }
    if summary.tags.rows_left_out() > 0 {
        notes.push(MaskNotice::TagsLeftOut {
            rows: summary.tags.rows_left_out(),
        });
    }
    measurement
        .notices
        .iter()
        .cloned()
        .chain(notes.into_iter().map(Notice::from))
        .collect()
}

/// The text of a note, safe to print.
pub(super) fn note_text(note: &Notice) -> String {
    printable(&note.to_string(), NOTICE_MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MadeRow, drafted, eventful, measurement, row};
    use super::*;
    use crate::mask::report::Measurement;
    use crate::mask::row::{RouteRow, Row, Stage, StopCause};
    use sobench_core::error::Result;
    use sobench_engine::EngineName;
    use sobench_render::html::testing::check_well_formed;
    use sobench_render::{html, text};

    fn render(summary: &Summary) -> String {
        text::render(&document(summary, Order::TablesFirst))
    }

    /// The text of a page with single spaces.
    fn unwrapped(page: &str) -> String {
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn render_html(summary: &Summary) -> String {
        html::render(&document(summary, Order::ConditionsFirst))
    }

    #[test]
    fn a_page_shows_every_figure_with_unit_and_count() {
        insta::assert_snapshot!(render(&eventful()));
    }

    #[test]
    fn drafts_are_shown_with_their_limit_and_their_differences() {
        let page = render(&drafted());
        let start = page.find("Drafts of 4 tokens").unwrap();
        let end = page.find("Memory (unit").unwrap();
        let tables = unwrapped(&page[start..end]);
        for expected in [
            "limit of rollback (tokens) | none | 2 | none",
            "different: mask after rollback | 0 | 0 | 2",
            "stopped in a draft | 0 | 1 | 0",
            "not canonical tokens | 2 | 1 | 1",
        ] {
            assert!(tables.contains(expected), "{expected} is not in:\n{page}");
        }
        assert!(
            page[start..end]
                .lines()
                .all(|line| line.chars().count() <= 100),
            "{page}"
        );
        // A stopped draft does not change the outcome of the walks.
        let stopped = &drafted().engines[1];
        assert_eq!(stopped.headline().schemas.get(SchemaOutcome::Pass), 2);
        assert!(unwrapped(&page).contains("drafts along instance, maskbench: gone"));
        check_well_formed(&render_html(&drafted()));
        assert!(!render(&eventful()).contains("Drafts of"));
    }

    #[test]
    fn empty_report_shows_na_instead_of_zeros() {
        let nothing = Summary::build(measurement(&[EngineName::Guidance]), || {
            Ok(Vec::<Result<Row>>::new())
        })
        .unwrap();
        let page = render(&nothing);
        assert!(
            page.contains("n/a") && !page.contains("NaN") && !page.contains("inf"),
            "{page}"
        );
        assert!(page.contains("has rows for 0 of 5 schemas"));
    }

    #[test]
    fn without_warm_walks_no_figure_is_labelled_warm() {
        let mut measurement = measurement(&[EngineName::Guidance]);
        measurement.record.warm = false;
        let stage = Stage::Instance {
            index: 0,
            spelling: Spelling::Maskbench,
        };
        let rows = [
            row(0, EngineName::Guidance),
            row(1, EngineName::Guidance).stopped_at(StopCause::Timeout, stage),
        ];
        let summary = Summary::build(measurement, || Ok(rows.iter().cloned().map(Ok))).unwrap();
        assert_eq!(summary.engines[0].headline().masks.own.warm.mask.n(), 0);
        let page = render(&summary);
        let tables = page.split("Definitions\n").next().unwrap();
        assert!(
            !tables.contains("warm") && tables.contains("Capacity of one core (cold;"),
            "{page}"
        );
    }

    #[test]
    fn address_space_includes_the_reserved_part() {
        let page = unwrapped(&render(&eventful()));
        assert!(
            page.contains(
                "4.50 GiB of address space (4.00 GiB requested, plus 512 MiB for stacks and threads)"
            ),
            "{page}"
        );
    }

    #[test]
    fn unused_spellings_are_in_no_table() {
        let text = |index| {
            let mut row = row(index, EngineName::Guidance);
            row.instances.truncate(1);
            row.times.truncate(1);
            row.instances[0].spelling = Spelling::Verbatim;
            row.times[0].spelling = Spelling::Verbatim;
            row
        };
        let page = |rows: &[Row]| {
            let rows = || Ok(rows.iter().cloned().map(Ok));
            render(&Summary::build(measurement(&[EngineName::Guidance]), rows).unwrap())
        };
        let (alone, mixed) = (
            page(&[text(0), text(1)]),
            page(&[text(0), row(1, EngineName::Guidance)]),
        );
        assert!(
            alone.contains("spelling: verbatim)") && alone.contains("note: no instance is JSON"),
            "{alone}"
        );
        assert!(
            !alone.contains("in the other spellings") && !alone.contains("spelling: maskbench"),
            "{alone}"
        );
        let walked = alone
            .lines()
            .find(|line| line.contains("warm mask n (tokens)"))
            .unwrap();
        assert!(walked.ends_with(" 6"), "the walks are counted: {walked}");
        assert!(
            mixed.contains("spelling: maskbench)") && mixed.contains("note: "),
            "{mixed}"
        );
        assert!(mixed.contains("in the other spellings"), "{mixed}");
    }

    #[test]
    fn partial_report_starts_with_the_warning() {
        let stopped = Measurement {
            interrupted: true,
            ..measurement(&[EngineName::Guidance])
        };
        let summary = Summary::build(stopped, || Ok([Ok(row(0, EngineName::Guidance))])).unwrap();
        let first = "PARTIAL: stopped early, with 1 of 5 rows; see the notes";
        assert_eq!(render(&summary).lines().next(), Some(first));
        let html = render_html(&summary);
        assert!(
            html.find(first).unwrap() < html.find("<h2>").unwrap(),
            "{html}"
        );
        assert!(!render(&eventful()).contains("PARTIAL"));
    }

    #[test]
    fn missing_common_set_removes_its_columns_and_names_the_engine() {
        let engines = [EngineName::Guidance, EngineName::Outlines];
        let rows = [row(0, engines[0]), row(0, engines[1]).declined_with("no")];
        let page = render(
            &Summary::build(measurement(&engines), || Ok(rows.iter().cloned().map(Ok))).unwrap(),
        );
        assert!(
            unwrapped(&page).contains(
                "no schema passes with every engine; no schema at all passes with outlines"
            ),
            "{page}"
        );
        assert!(
            !page.contains("common: ") && !page.contains("Masks in the other spellings"),
            "{page}"
        );
        assert!(
            !page.contains("common set: schemas") && page.contains("own set: "),
            "only terms on the page are defined: {page}"
        );
        assert!(
            page.lines()
                .all(|line| !(line.contains('|') && line.ends_with(" common"))),
            "{page}"
        );
    }

    #[test]
    fn unrouted_schemas_are_listed_as_none() {
        let route = Some(RouteRow {
            engine: EngineName::Xgrammar,
            why: "it can".into(),
        });
        let rows = [
            Row {
                route,
                ..row(0, EngineName::Auto)
            },
            row(1, EngineName::Auto).declined_with("no"),
        ];
        let page = render(
            &Summary::build(measurement(&[EngineName::Auto]), || {
                Ok(rows.iter().cloned().map(Ok))
            })
            .unwrap(),
        );
        let routes: Vec<&str> = page
            .split("Engines chosen by auto")
            .nth(1)
            .unwrap()
            .lines()
            .skip(3)
            .take(2)
            .collect();
        assert!(
            routes[0].starts_with(" xgrammar ") && routes[0].ends_with(" 1"),
            "{routes:?}"
        );
        assert!(
            routes[1].starts_with(" none ") && routes[1].ends_with(" 1"),
            "{routes:?}"
        );
    }

    #[test]
    fn evaluator_failures_are_noted() {
        let stopped = || row(0, EngineName::Guidance).stopped_at(StopCause::Crash, Stage::Oracle);
        let summary =
            Summary::build(measurement(&[EngineName::Guidance]), || Ok([Ok(stopped())])).unwrap();
        assert!(notes(&summary).iter().map(note_text).any(|note| {
            note.starts_with("the evaluator of sobench stopped") && note.ends_with(": 1")
        }));
    }

    #[test]
    fn pages_respect_width_and_contain_no_control_characters() {
        let engines = EngineName::ALL;
        let long = "\u{1b}[2J\u{202e}".repeat(300);
        let rows = || {
            Ok(engines.map(|engine| {
                let mut row = row(0, engine).declined_with(&long);
                row.entry.clone_from(&long);
                row.tags = vec![long.clone()];
                Ok(row)
            }))
        };
        let mut loud = measurement(&engines);
        loud.notices = vec![Notice::Other(long.clone())];
        loud.record.corpora[0].source.clone_from(&long);
        loud.record.engines[0].version.clone_from(&long);
        for summary in [eventful(), Summary::build(loud, rows).unwrap()] {
            let page = render(&summary);
            assert!(
                !page
                    .chars()
                    .any(|character| character.is_control() && character != '\n')
                    && !page.contains('\u{202e}'),
                "{page}"
            );
            for line in page.lines() {
                assert!(
                    line.chars().count() <= if summary.engines.len() > 3 { 190 } else { 120 },
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn html_page_is_well_formed_and_self_contained() {
        let page = render_html(&eventful());
        check_well_formed(&page);
        for word in [
            "<script", "http:", "https:", "src=", "@import", "url(", "<link", "\u{1b}", "<b>&",
        ] {
            assert!(!page.contains(word), "{word} is in the page");
        }
        assert!(page.contains("&lt;script&gt;"), "external text is escaped");
        let classes = page.matches("<path class=\"curve").count();
        assert_eq!(
            classes,
            6 * 2 * 2,
            "six charts of two engines over two sets"
        );
    }
}
