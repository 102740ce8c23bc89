//! Tests that every metric is in every output: pages, files, comparisons and thresholds.

use sobench_plan::record::RunRecord;
use sobench_report::view::View;
use sobench_report::{Report, csv, html, json, junit, markdown, text};
use sobench_results::compare::rules::LimitRule;
use sobench_results::compare::{CompareSettings, Side, check_limits, compare, read};
use sobench_results::metrics::registry::testing::{metrics, options, with_eventful_samples};
use sobench_results::metrics::registry::{Figure, Metric};

fn record() -> RunRecord {
    let mut record = sobench_plan::record::testing::record();
    record.settings.metrics = options();
    record.settings.report.percentile_metrics =
        ["ttft", "tpot", "itl", "e2el"].map(str::to_owned).into();
    record
}

/// Calls `check` with a run in which every metric has a value.
fn with_run<T>(check: impl FnOnce(&View<'_>) -> T) -> T {
    with_eventful_samples(|samples| {
        let report = Report::new(record(), metrics());
        let answer = |index: usize| Ok(samples[index].observation().answer);
        check(&View {
            report: &report,
            samples,
            answer: &answer,
            resend: None,
            run_log: None,
            requirements: None,
        })
    })
}

/// The metrics whose name and label are missing in `text`.
fn missing(text: &str) -> Vec<&'static Metric> {
    let text = text.to_lowercase();
    let has =
        |metric: &Metric| text.contains(metric.name) || text.contains(&metric.label.to_lowercase());
    Metric::in_tables().filter(|metric| !has(metric)).collect()
}

#[test]
fn pages_and_files_have_every_metric() {
    with_run(|view| {
        let report = view.report;
        let result = serde_json::to_string(&json::document(*view, false)).unwrap();
        let mut tests = Vec::new();
        junit::write(view, junit::JunitPer::Case, &mut tests).unwrap();
        let tests = String::from_utf8(tests).unwrap();
        for (page, text) in [
            ("text", text::render(view)),
            ("markdown", markdown::render(report)),
            ("html", html::render(view).unwrap().replace("&#39;", "'")),
            ("json", result),
            ("junit", tests),
        ] {
            assert_eq!(missing(&text), Vec::<&Metric>::new(), "{page}");
        }
    });
}

/// Totals of a run are no part of a table of requests.
#[test]
fn tables_of_requests_have_every_metric_of_requests() {
    let mut table = Vec::new();
    with_run(|view| csv::write(view, &mut table)).unwrap();
    let table = String::from_utf8(table).unwrap();
    let header = table.lines().next().unwrap().replace("_mean_ms", "_ms");
    let columns: Vec<&str> = header.split(',').collect();
    let is_per_request = |metric: &&Metric| metric.is_rate() || metric.is_distribution();
    let missing: Vec<_> = Metric::in_tables()
        .filter(is_per_request)
        .filter(|metric| !columns.contains(&metric.name))
        .collect();
    assert_eq!(missing, Vec::<&Metric>::new());
}

#[test]
fn comparisons_and_baselines_have_every_metric() {
    let run = read::run_from_metrics("run", &record(), &metrics());
    let baseline = read::write_baseline(std::slice::from_ref(&run)).unwrap();
    assert_eq!(missing(&baseline), Vec::<&Metric>::new());
    let back = read::parse_runs("baseline", baseline.as_bytes())
        .unwrap()
        .remove(0);
    assert!(run.counts == back.counts && run.means == back.means);
    let sides = ["a", "b"].map(|name| Side {
        name: name.to_owned(),
        runs: vec![run.clone()],
        ..Side::default()
    });
    let options = CompareSettings {
        level: 0.95,
        ..CompareSettings::default()
    };
    let comparison = compare(sides.to_vec(), &options);
    let rows: Vec<&Metric> = comparison.against[0]
        .rows
        .iter()
        .map(|row| row.measured.metric.metric)
        .collect();
    let missing: Vec<_> = Metric::in_tables()
        .filter(|metric| !rows.contains(metric))
        .collect();
    assert_eq!(missing, Vec::<&Metric>::new());
}

#[test]
fn every_metric_can_have_a_threshold() {
    for metric in Metric::in_tables() {
        let name = Figure::in_tables()
            .into_iter()
            .find(|figure| figure.metric == metric)
            .unwrap()
            .to_string();
        let limit = LimitRule::parse(&format!("{name}>=0")).unwrap();
        let ruling = &check_limits(&record(), &metrics(), None, &[limit])[0];
        assert!(
            ruling.ruling != sobench_results::compare::gate::Ruling::Absent,
            "{ruling}"
        );
    }
}
