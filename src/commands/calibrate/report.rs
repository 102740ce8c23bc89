//! The report of `sobench calibrate`.

use super::cost::{Cost, Memory, Part};
use super::{Calibration, CheckedBound, Compared, FLOOR, Flow, Measured, Point, Row};
use sobench_core::distinct::distinct;
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

/// A table with one row per client and point, the flow of tokens, the ratios of the first client to the others, and the
/// parts of the CPU time.
pub fn document(calibration: &Calibration) -> Document {
    let rows = &calibration.rows;
    let groups = groups(rows);
    let mut document = Document::new("sobench: calibration");
    let cells = groups.iter().map(|group| cells(group, rows));
    document.table(Table::new(COLUMNS, 2).with_rows(cells));
    for row in rows {
        if let Some(failure) = &row.failure {
            let label = label(row.point, rows);
            document.paragraph(format!("{} at {label}: {failure}", row.client));
        }
    }
    document.titled_table("Flow of tokens", flow(&groups, rows));
    document.titled_table(
        "Bounds of the client's part, over all repetitions",
        bounds(rows),
    );
    let ratios = ratios(&groups, rows);
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
        (
            "cores",
            "CPU time from the first request to the last token, divided by that time",
        ),
        (
            "server late",
            "from when a token was due until the server began to write it",
        ),
        (
            "error of an ITL",
            "absolute difference from the server's ITL, token by token",
        ),
        (
            "joined",
            "tokens that the client reported less than a tenth of the server's ITL after the one before: they were read together",
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
    if calibration.repeat > 1 {
        document.definitions([(
            "repetitions",
            format!(
                "medians over {}, with the least and the greatest CPU time",
                calibration.repeat
            ),
        )]);
    }
    if rows.iter().any(|row| row.client == FLOOR) {
        document.definitions([(
            FLOOR,
            "a single-threaded loop that only waits and reads: the lower bound for any client",
        )]);
    }
    document
}

/// The repetitions of one client at one point.
struct Group<'a> {
    client: &'a str,
    point: Point,
    /// Those that did not fail.
    runs: Vec<&'a Measured>,
}

impl Group<'_> {
    /// A value of all runs that have it, in ascending order.
    fn sorted(&self, get: impl Fn(&Measured) -> Option<f64>) -> Vec<f64> {
        let mut values: Vec<f64> = self.runs.iter().filter_map(|run| get(run)).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The median of a value over the runs; `None` if no run has it.
    fn median(&self, get: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
        percentile(&self.sorted(get), 50.0)
    }

    /// The median, with the least and the greatest value if there are several runs.
    fn median_and_range(&self, get: impl Fn(&Measured) -> Option<f64>, digits: usize) -> String {
        let values = self.sorted(get);
        match values[..] {
            [least, .., most] => format!(
                "{} ({least:.digits$} to {most:.digits$})",
                number(percentile(&values, 50.0), digits)
            ),
            _ => number(values.first().copied(), digits),
        }
    }
}

/// The rows by client and point, in the order of first occurrence.
fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let keys = distinct(rows.iter().map(|row| (row.client.as_str(), row.point)));
    let group = |(client, point)| Group {
        client,
        point,
        runs: rows
            .iter()
            .filter(|row| row.client == client && row.point == point)
            .filter_map(|row| row.measured.as_ref())
            .collect(),
    };
    keys.into_iter().map(group).collect()
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn cells(group: &Group<'_>, rows: &[Row]) -> Vec<String> {
    let mut cells = vec![group.client.to_owned(), label(group.point, rows)];
    if group.runs.is_empty() {
        cells.push("failed".to_owned());
        cells.resize(COLUMNS.len(), String::new());
        return cells;
    }
    let compared = |get: fn(&Compared) -> Option<f64>| {
        group.median(|measured| get(measured.compared.as_ref()?))
    };
    cells.push(match compared(|compared| Some(compared.matched as f64)) {
        None => group.point.requests.to_string(),
        Some(matched) => match compared(|compared| Some(compared.missing as f64)) {
            Some(missing) if missing > 0.0 => format!("{matched} +{missing}"),
            _ => matched.to_string(),
        },
    });
    let ttft_errors: [fn(&Compared) -> Option<f64>; 3] = [
        |compared| Some(compared.ttft_error.mean_ms),
        |compared| Some(compared.ttft_error.p50_ms),
        |compared| Some(compared.ttft_error.p99_ms),
    ];
    cells.extend(ttft_errors.map(|get| number(compared(get), 3)));
    cells.push(number(
        compared(|compared| compared.itl_p99_difference_ms),
        3,
    ));
    cells.push(number(group.median(|measured| measured.achieved_rps), 1));
    cells.push(group.median_and_range(|measured| measured.cpu_s_per_million_tokens, 1));
    cells.push(number(group.median(|measured| measured.peak_memory_mib), 0));
    cells.push(number(group.median(|measured| measured.first_request_s), 2));
    cells
}

/// How the tokens came and were read.
fn flow(groups: &[Group<'_>], rows: &[Row]) -> Option<Table> {
    let heads = [
        "client",
        "load",
        "tokens/s",
        "client (cores)",
        "server (cores)",
        "server late p99 (ms)",
        "error of an ITL p99 (ms)",
        "joined (%)",
    ];
    let mut table = Table::new(heads, 2);
    for group in groups {
        let flow = |get: fn(&Flow) -> Option<f64>, digits: usize| {
            number(
                group.median(|measured| get(measured.flow.as_ref()?)),
                digits,
            )
        };
        let compared = |get: fn(&Compared) -> Option<f64>, digits: usize| {
            number(
                group.median(|measured| get(measured.compared.as_ref()?)),
                digits,
            )
        };
        if group.runs.iter().all(|measured| measured.flow.is_none()) {
            continue;
        }
        table.row([
            group.client.to_owned(),
            label(group.point, rows),
            flow(|flow| Some(flow.tokens_per_s), 0),
            flow(|flow| flow.client_cores, 2),
            flow(|flow| flow.server_cores, 2),
            flow(|flow| Some(flow.server_late_p99_ms), 1),
            compared(|compared| compared.itl_error_p99_ms, 3),
            compared(|compared| compared.joined.map(|joined| joined * 100.0), 2),
        ]);
    }
    table.non_empty()
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
fn ratios(groups: &[Group<'_>], rows: &[Row]) -> Vec<(String, String)> {
    let Some(first) = groups.first().map(|group| group.client) else {
        return Vec::new();
    };
    let group = |client: &str, point: Point| {
        groups
            .iter()
            .find(|group| group.client == client && group.point == point)
    };
    let others = groups
        .iter()
        .filter(|group| group.client != first && group.client != FLOOR);
    others
        .filter_map(|other| {
            let (own, floor) = (group(first, other.point)?, group(FLOOR, other.point));
            let title = format!("{first} / {}, {}", other.client, label(other.point, rows));
            let ratios = point_ratios(own, other, floor);
            (!ratios.is_empty()).then(|| (title, ratios.join(", ")))
        })
        .collect()
}

/// The ratios of the medians of two clients at one point.
fn point_ratios(own: &Group<'_>, other: &Group<'_>, floor: Option<&Group<'_>>) -> Vec<String> {
    let cpu_s = |group: &Group<'_>| group.median(|measured| measured.cpu_s_per_million_tokens);
    let floor_cpu_s = floor.and_then(cpu_s);
    let above_floor = |group: &Group<'_>| Some(cpu_s(group)? - floor_cpu_s?);
    let error = |group: &Group<'_>, get: fn(&Compared) -> f64| {
        group.median(|measured| measured.compared.as_ref().map(get))
    };
    let mean = |compared: &Compared| compared.ttft_error.mean_ms;
    let p99 = |compared: &Compared| compared.ttft_error.p99_ms;
    let memory = |group: &Group<'_>| group.median(|measured| measured.peak_memory_mib);
    let pairs = [
        ("TTFT error mean", error(own, mean).zip(error(other, mean))),
        ("p99", error(own, p99).zip(error(other, p99))),
        ("CPU", cpu_s(own).zip(cpu_s(other))),
        (
            "CPU above the bare loop",
            above_floor(own).zip(above_floor(other)),
        ),
        ("memory", memory(own).zip(memory(other))),
    ];
    let ratio = |(name, pair): (&str, Option<(f64, f64)>)| {
        let (own, other) = pair.filter(|(_, other)| *other > 0.0)?;
        Some(format!("{name} {:.2}", own / other))
    };
    pairs.into_iter().filter_map(ratio).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::calibrate::{Load, SOBENCH};

    fn row(client: &str, cpu_s: f64) -> Row {
        Row {
            client: client.to_owned(),
            point: Point {
                load: Load::Streams(10),
                requests: 20,
                output_len: 5,
            },
            measured: Some(Measured {
                compared: None,
                arrivals: 20,
                stamped_arrivals: 20,
                tokens: 100,
                cpu_s_per_million_tokens: Some(cpu_s),
                peak_memory_mib: Some(30.0),
                first_request_s: None,
                achieved_rps: None,
                flow: Some(Flow {
                    tokens_per_s: 200.0,
                    client_cores: None,
                    server_cores: Some(0.25),
                    server_late_p99_ms: 1.5,
                }),
            }),
            failure: None,
        }
    }

    #[test]
    fn repetitions_are_one_row_with_medians() {
        let rows = vec![
            row(SOBENCH, 9.0),
            row("other", 20.0),
            row(FLOOR, 5.0),
            row(SOBENCH, 11.0),
            row("other", 22.0),
            row(FLOOR, 6.0),
        ];
        let calibration = Calibration {
            machine: "a machine".to_owned(),
            ttft_ms: 100.0,
            itl_ms: 50.0,
            repeat: 2,
            rows,
            costs: Vec::new(),
        };
        let page = sobench_render::text::render(&document(&calibration));
        for expected in [
            "10.0 (9.0 to 11.0)",
            "21.0 (20.0 to 22.0)",
            "5.5 (5.0 to 6.0)",
            "CPU 0.48",
            "bare loop 0.29",
            "medians over 2",
        ] {
            assert!(page.contains(expected), "{expected}: {page}");
        }
        let rows = groups(&calibration.rows);
        assert_eq!(rows.len(), 3);
        let table = flow(&rows, &calibration.rows).unwrap();
        assert_eq!(table.rows.len(), 3);
    }

    #[test]
    fn a_client_that_always_failed_has_a_row() {
        let failed = Row {
            measured: None,
            failure: Some("ended".to_owned()),
            ..row(SOBENCH, 0.0)
        };
        let rows = vec![failed.clone(), failed];
        let found = groups(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!(cells(&found[0], &rows)[2], "failed");
        assert!(flow(&found, &rows).is_none());
    }
}
