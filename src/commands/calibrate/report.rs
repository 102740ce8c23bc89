//! The report of `sobench calibrate`.

use super::cost::{Cost, Memory, Part};
use super::{Calibration, CheckedBound, FLOOR, Load, Measured, Point, Row};
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

/// A table with one row per client and point, the ratios of the first client to the others, and the
/// parts of the CPU time.
pub fn document(calibration: &Calibration) -> Document {
    let rows = &calibration.rows;
    let mut document = Document::new("sobench: calibration");
    document.table(Table::new(COLUMNS, 2).with_rows(rows.iter().map(|row| cells(row, rows))));
    for row in rows {
        if let Some(failure) = &row.failure {
            let label = label(row.point, rows);
            document.paragraph(format!("{} at {label}: {failure}", row.client));
        }
    }
    document.titled_table(
        "Bounds of the client's part, over all repetitions",
        bounds(rows),
    );
    let ratios = ratios(calibration);
    if !ratios.is_empty() {
        document.heading("Ratios of the clients (medians over all repetitions)");
        document.facts(ratios);
    }
    document.titled_table(
        "Parts of the CPU time and memory",
        costs(&calibration.costs),
    );
    document.gap();
    let server = format!(
        "first token {} ms after the arrival of a request, then one every {} ms; {}; {}",
        calibration.ttft_ms,
        calibration.itl_ms,
        stamps(rows),
        calibration.machine
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
    if !calibration.costs.is_empty() {
        document.definitions([
            (
                "parts",
                "least squares over all loads with streams, with 95 % intervals; the error is that of the CPU time of a load",
            ),
            (
                "extrapolated",
                "the same fit without the largest number of streams, compared with that number",
            ),
        ]);
    }
    if rows.iter().any(|row| row.client == FLOOR) {
        document.definitions([(
            FLOOR,
            "a single-threaded loop that only waits and reads: the lower bound for any client",
        )]);
    }
    document
}

fn cells(row: &Row, rows: &[Row]) -> Vec<String> {
    let mut cells = vec![row.client.clone(), label(row.point, rows)];
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

/// For each point and figure: in how many runs the bound covers the real error, and the medians of
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
    for point in distinct(rows.iter().map(|row| row.point)) {
        let checked: Vec<&CheckedBound> = rows
            .iter()
            .filter(|row| row.point == point)
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
                label(point, rows),
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

/// The ratios of the first client to each other one, at each point that both ran.
fn ratios(calibration: &Calibration) -> Vec<(String, String)> {
    let rows = &calibration.rows;
    let mut names = distinct(rows.iter().map(|row| row.client.as_str()));
    names.retain(|name| *name != FLOOR);
    let Some((first, others)) = names.split_first() else {
        return Vec::new();
    };
    let ratios = |point: Point, other: &str| {
        let median = |client: &str, get: &dyn Fn(&Measured) -> Option<f64>| {
            let rows = rows
                .iter()
                .filter(|row| row.client == client && row.point == point);
            let mut values: Vec<f64> = rows.filter_map(|row| get(row.measured.as_ref()?)).collect();
            values.sort_by(f64::total_cmp);
            percentile(&values, 50.0)
        };
        let ratio = |name: &str, get: &dyn Fn(&Measured) -> Option<f64>| {
            let (first_median, other_median) = (median(first, get)?, median(other, get)?);
            (other_median > 0.0).then(|| format!("{name} {:.2}", first_median / other_median))
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
        (!ratios.is_empty()).then(|| {
            let title = format!("{first} / {other}, {}", label(point, rows));
            (title, ratios.join(", "))
        })
    };
    let points = distinct(rows.iter().map(|row| row.point));
    points
        .into_iter()
        .flat_map(|point| others.iter().filter_map(move |other| ratios(point, other)))
        .collect()
}

/// The load, and the requests and their lengths if several points have the same load.
fn label(point: Point, rows: &[Row]) -> String {
    let is_ambiguous = rows
        .iter()
        .any(|row| row.point.load == point.load && row.point != point);
    if is_ambiguous {
        let Point {
            load,
            requests,
            output_len,
        } = point;
        format!("{load}, {requests} requests of {output_len} tokens")
    } else {
        point.load.to_string()
    }
}

/// The parts of the CPU time and memory of each client.
fn costs(costs: &[Cost]) -> Option<Table> {
    let heads = [
        "client",
        "start (ms)",
        "per connection (us)",
        "per request (us)",
        "per token (us)",
        "tokens/s that fill a core",
        "error median / largest (%)",
        "extrapolated to",
        "off by (%)",
        "memory (MiB)",
        "+ per stream (KiB)",
        "+ per request (KiB)",
    ];
    let part = |part: Part, digits: usize| {
        format!("{:.digits$} \u{b1} {:.digits$}", part.value, part.margin)
    };
    let mut table = Table::new(heads, 1);
    for cost in costs {
        let extrapolated = cost.extrapolated;
        let memory = |get: fn(&Memory) -> Part| {
            let memory = cost.memory.as_ref();
            memory.map_or_else(|| "-".to_owned(), |memory| part(get(memory), 1))
        };
        table.row([
            cost.client.clone(),
            part(cost.start_ms, 0),
            part(cost.connection_us, 0),
            part(cost.request_us, 0),
            part(cost.token_us, 2),
            format!("{:.0}", cost.tokens_per_core_s()),
            format!(
                "{:.1} / {:.1}",
                cost.median_residual_percent, cost.max_residual_percent
            ),
            extrapolated.map_or_else(
                || "-".to_owned(),
                |extrapolated| format!("{} streams", extrapolated.streams),
            ),
            extrapolated.map_or_else(
                || "-".to_owned(),
                |extrapolated| format!("{:+.1}", extrapolated.error_percent),
            ),
            memory(|memory| memory.process_mib),
            memory(|memory| memory.stream_kib),
            memory(|memory| memory.request_kib),
        ]);
    }
    table.non_empty()
}

/// How many arrivals have the kernel's stamps.
fn stamps(rows: &[Row]) -> String {
    let measured = || rows.iter().filter_map(|row| row.measured.as_ref());
    let all: usize = measured().map(|measured| measured.arrivals).sum();
    let stamped: usize = measured().map(|measured| measured.stamped_arrivals).sum();
    format!("arrivals stamped by the kernel: {stamped} of {all}")
}
