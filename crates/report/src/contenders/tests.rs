//! The output formats of a comparison that has every kind of row and notice.

use serde_json::Value;

use super::testing::eventful;
use super::*;
use sobench_render::escape::{escape, markdown_text};
use sobench_render::html::testing::check_well_formed;
use sobench_results::metrics::registry::{Figure, Metric};
use sobench_testkit::contract::with_member;

const CONTRACT: &str = include_str!("../../../../schemas/contracts/matrix.schema.json");

#[test]
fn text_page() {
    insta::assert_snapshot!(render(&eventful(), OutputFormat::Text).unwrap());
}

#[test]
fn no_line_of_the_detailed_page_is_wider_than_a_terminal() {
    let wide_names = || {
        let mut comparison = eventful();
        for row in &mut comparison.rows {
            row.dataset = "a-dataset-with-a-very-long-name".repeat(2);
            row.contender = format!("{} of a long name", row.contender.repeat(3));
        }
        for answer in &mut comparison.disagreements[0].answers {
            answer.text = "{\"answer\": 1} ".repeat(20);
        }
        comparison
    };
    for comparison in [eventful(), wide_names()] {
        let page = render(&comparison, OutputFormat::Text).unwrap();
        let wide = page.lines().find(|line| line.chars().count() > text::WIDTH);
        assert_eq!(wide, None, "{page}");
        for head in ["compliance", "TTFT ms", "added TPOT ms", "cold/warm"] {
            assert!(page.contains(head), "{head}: {page}");
        }
    }
}

#[test]
fn markdown_page_and_html_page_have_every_metric() {
    let page = render(&eventful(), OutputFormat::Markdown).unwrap();
    insta::assert_snapshot!(page);
    let is_row = |line: &&str| line.starts_with('|');
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    for table in page
        .split("\n\n")
        .map(|block| block.lines().filter(is_row).map(bars).collect::<Vec<_>>())
    {
        assert!(
            table.iter().all(|row| *row == table[0]),
            "every row has every cell"
        );
    }
    let html = render(&eventful(), OutputFormat::Html).unwrap();
    for metric in Metric::in_tables() {
        let title = Figure::new(metric).title();
        assert!(
            page.contains(&markdown_text(&title)) && html.contains(&escape(&title)),
            "{metric:?}"
        );
    }
}

#[test]
fn html_page_is_self_contained_and_escapes_server_text() {
    let page = render(&eventful(), OutputFormat::Html).unwrap();
    for word in [
        "<script", "http:", "https:", "src=", "@import", "url(", "<link", "\u{1b}", "<b>|",
    ] {
        assert!(!page.contains(word), "{word} is in the page");
    }
    assert!(
        page.contains("&lt;script&gt;"),
        "text of a server is escaped"
    );
    check_well_formed(&page);
}

#[test]
fn json_file_matches_its_schema() {
    let schema: Value = serde_json::from_str(CONTRACT).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let file: Value =
        serde_json::from_str(&render(&eventful(), OutputFormat::Json).unwrap()).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&file)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    for metric in Metric::ALL {
        assert!(
            !file["rows"][0]["metrics"][metric.name].is_null(),
            "{metric:?}"
        );
    }
    for pointer in [
        "/extra",
        "/rows/0/metrics/extra",
        "/record/extra",
        "/rows/0/extra",
        "/rows/0/ttft_ms/extra",
        "/rows/0/control/extra",
        "/knees/0/knee/extra",
        "/capacity/0/extra",
        "/capacity/0/cost/extra",
        "/capacity/0/constrained/sweeps/0/steps/0/extra",
        "/runs/0/extra",
    ] {
        let broken = with_member(&file, pointer, Value::Null);
        assert!(!validator.is_valid(&broken), "{pointer} passed");
    }
}

/// Control runs whose times cannot be compared are not missing.
#[test]
fn a_cost_that_cannot_be_compared_is_not_called_unmeasured() {
    let mut comparison = eventful();
    comparison.capacity.clear();
    for row in &mut comparison.rows {
        if let RowResult::Measured(figures) = &mut row.result
            && let Some(control) = &mut figures.control
        {
            (control.tpot_added, control.ttft_added) = (None, None);
        }
    }
    let cost = answers::cost(&comparison).text;
    assert!(cost.starts_with("not known: no added time"), "{cost}");
    for row in &mut comparison.rows {
        if let RowResult::Measured(figures) = &mut row.result {
            figures.control = None;
        }
    }
    let cost = answers::cost(&comparison).text;
    assert!(cost.starts_with("not known without runs"), "{cost}");
}
