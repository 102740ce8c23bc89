//! The report of `sobench calibrate`.

use crate::commands::calibrate::{Calibration, CheckedBound, FLOOR, Load, Measured, Row};
use crate::commands::distinct::distinct;
use sobench_render::{Document, Table};
use sobench_statistics::percentile;

/// The column titles of the table; the first two columns are text.
const COLUMNS: [&str; 11] = [
    "client",
    "load",
    "requests",
    "TTFT error mean (ms)",
    "p50",
    "p99",
    "ITL p99 error (ms)",
    "requests/s",
    "CPU s / 1M tokens",
    "memory (MiB)",
    "first request (s)",
];

/// A table with one row per client and load, and the ratios of the first client to the second.
pub fn document(calibration: &Calibration) -> Document {
    let rows = &calibration.rows;
    let mut document = Document::new("sobench: calibration");
    document.table(Table::new(COLUMNS, 2).with_rows(rows.iter().map(cells)));
    for row in rows {
        if let Some(failure) = &row.failure {
            document.paragraph(format!("{} at {}: {failure}", row.client, row.point.load));
        }
    }
    document.titled_table(
        "Bounds of the client's part, over all repetitions",
        bounds(rows),
    );
    let ratios = ratios(calibration);
    if !ratios.is_empty() {
        document.heading("Ratio of the first client to the second (medians over all repetitions)");
        document.facts(ratios);
    }
    document.gap();
    let server = format!(
        "first token {} ms after the arrival of a request, then one every {} ms; {}",
        calibration.ttft_ms, calibration.itl_ms, calibration.machine
    );
    document.facts([("server", server)]);
    document.definitions([
        (
            "TTFT error",
            "reported TTFT minus that of the server, per request",
        ),
        (
            "ITL p99 error",
            "99th percentile of the client's ITLs minus that of the server's",
        ),
        (
            "bound",
            "the most that the client can have added to a figure, as the run reports it; covered if the error is smaller",
        ),
        (
            "requests",
            "reported requests, + requests that were sent but not reported, such as a trial",
        ),
        (
            "CPU",
            "CPU time of the whole client process, including its start and end",
        ),
    ]);
    if rows.iter().any(|row| row.client == FLOOR) {
        document.definitions([(
            FLOOR,
            "a single-threaded loop that only waits and reads: the lower bound for any client",
        )]);
    }
    document
}

fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![row.client.clone(), row.point.load.to_string()];
    let Some(measured) = &row.measured else {
        cells.push("failed".to_owned());
        cells.resize(COLUMNS.len(), String::new());
        return cells;
    };
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    match &measured.compared {
        Some(compared) => {
            let missing = if compared.missing > 0 {
                format!(" +{}", compared.missing)
            } else {
                String::new()
            };
            let error = compared.ttft_error;
            cells.push(format!("{}{missing}", compared.matched));
            cells.extend([error.mean_ms, error.p50_ms, error.p99_ms].map(|ms| format!("{ms:.3}")));
            cells.push(number(compared.itl_p99_difference_ms, 3));
        }
        None => {
            cells.push(row.point.requests.to_string());
            cells.resize(7, "-".to_owned());
        }
    }
    cells.push(match row.point.load {
        Load::PerSecond(_) => number(measured.achieved_rps, 1),
        Load::Streams(_) => "-".to_owned(),
    });
    cells.push(number(measured.cpu_s_per_million_tokens, 1));
    cells.push(number(measured.peak_memory_mib, 0));
    cells.push(number(measured.first_request_s, 2));
    cells
}

/// For each load and figure: in how many runs the bound covers the real error, and the medians of
/// both.
fn bounds(rows: &[Row]) -> Option<Table> {
    let heads = [
        "load",
        "figure",
        "runs",
        "covered (%)",
        "median bound",
        "median error",
        "largest error",
    ];
    let mut table = Table::new(heads, 2);
    for load in distinct(rows.iter().map(|row| row.point.load)) {
        let checked: Vec<&CheckedBound> = rows
            .iter()
            .filter(|row| row.point.load == load)
            .filter_map(|row| row.measured.as_ref()?.compared.as_ref())
            .flat_map(|compared| &compared.bounds)
            .collect();
        for figure in distinct(checked.iter().map(|one| one.figure)) {
            let runs = || checked.iter().filter(|one| one.figure == figure);
            let sorted = |get: fn(&CheckedBound) -> f64| {
                let mut values: Vec<f64> = runs().map(|one| get(one)).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            let (limits, errors) = (sorted(|one| one.bound), sorted(|one| one.error.abs()));
            let covered = runs().filter(|one| one.covers()).count();
            let number = |value: Option<f64>| format!("{:.3}", value.unwrap_or_default());
            table.row([
                load.to_string(),
                format!("{figure} ({})", figure.metric.unit.name()),
                limits.len().to_string(),
                format!("{:.1}", 100.0 * covered as f64 / limits.len() as f64),
                number(percentile(&limits, 50.0)),
                number(percentile(&errors, 50.0)),
                number(errors.last().copied()),
            ]);
        }
    }
    table.non_empty()
}

/// The ratios at each load that both clients ran.
fn ratios(calibration: &Calibration) -> Vec<(String, String)> {
    let mut names: Vec<&str> = calibration
        .rows
        .iter()
        .map(|row| row.client.as_str())
        .collect();
    names.dedup();
    names.retain(|name| *name != FLOOR);
    let (Some(first), Some(second)) = (names.first(), names.get(1)) else {
        return Vec::new();
    };
    let loads = distinct(calibration.rows.iter().map(|row| row.point.load));
    let ratios = |load: &Load| {
        let median = |client: &str, get: &dyn Fn(&Measured) -> Option<f64>| {
            let rows = calibration
                .rows
                .iter()
                .filter(|row| row.client == client && row.point.load == *load);
            let mut values: Vec<f64> = rows.filter_map(|row| get(row.measured.as_ref()?)).collect();
            values.sort_by(f64::total_cmp);
            percentile(&values, 50.0)
        };
        let ratio = |name: &str, get: &dyn Fn(&Measured) -> Option<f64>| {
            let (first_median, second_median) = (median(first, get)?, median(second, get)?);
            (second_median > 0.0).then(|| format!("{name} {:.2}", first_median / second_median))
        };
        let ratios = [
            ratio("TTFT error mean", &|measured| {
                Some(measured.compared.as_ref()?.ttft_error.mean_ms)
            }),
            ratio("p99", &|measured| {
                Some(measured.compared.as_ref()?.ttft_error.p99_ms)
            }),
            ratio("CPU", &|measured| measured.cpu_s_per_million_tokens),
            ratio("memory", &|measured| measured.peak_memory_mib),
        ];
        let ratios: Vec<String> = ratios.into_iter().flatten().collect();
        (!ratios.is_empty()).then(|| (load.to_string(), ratios.join(", ")))
    };
    loads.iter().filter_map(ratios).collect()
}
