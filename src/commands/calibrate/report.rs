//! The result of `sobench calibrate` as a table or as JSON. Knows no process.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

use crate::commands::calibrate::{Calibration, FLOOR, Load, Measured, Row};
use crate::statistics::percentile;

/// The result as JSON.
pub fn json(calibration: &Calibration) -> String {
    let mut text = serde_json::to_string_pretty(calibration).expect("numbers and words are JSON");
    text.push('\n');
    text
}

/// The result as a table, a row for each client and load, and what the first client is to the second.
pub fn text(calibration: &Calibration) -> String {
    let mut table = Builder::default();
    table.push_record([
        "client",
        "load",
        "requests",
        "TTFT error mean (ms)",
        "p50",
        "p99",
        "ITL p99 off by (ms)",
        "requests/s",
        "CPU s / 1M tokens",
        "memory (MiB)",
        "first request (s)",
    ]);
    for row in &calibration.rows {
        table.push_record(cells(row));
    }
    let mut table = table.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(2..)).with(Alignment::right()));
    let mut text: String = table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect();
    for row in &calibration.rows {
        if let Some(failure) = &row.failure {
            text.push_str(&format!("{} at {}: {failure}\n", row.client, row.point.load));
        }
    }
    let ratios = ratios(calibration);
    if !ratios.is_empty() {
        text.push_str("\nthe first client's part of the second's (medians of all runs of a point)\n");
        text.push_str(&ratios);
    }
    text.push_str(&format!(
        "\nserver: first token {} ms after a request's arrival, then one every {} ms; {}\n\
         TTFT error: what the client reported less what the server did, request by request\n\
         ITL p99 off by: the 99th percentile of the client's ITLs less that of the server's\n\
         requests: those that the client reported, + those that it sent besides, such as a trial\n\
         CPU: of the client's whole process, start and end included\n",
        calibration.ttft_ms, calibration.itl_ms, calibration.machine
    ));
    if calibration.rows.iter().any(|row| row.client == FLOOR) {
        text.push_str(&format!(
            "{FLOOR}: a loop that waits, reads and looks at nothing, in one thread: what no client can go below\n"
        ));
    }
    text
}

fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![row.client.clone(), row.point.load.to_string()];
    let Some(measured) = &row.measured else {
        cells.push("failed".to_owned());
        cells.resize(11, String::new());
        return cells;
    };
    let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"));
    match &measured.compared {
        Some(compared) => {
            let missing = if compared.missing > 0 { format!(" +{}", compared.missing) } else { String::new() };
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

/// A row of ratios for each load at which both clients were measured.
fn ratios(calibration: &Calibration) -> String {
    let mut names: Vec<&str> = calibration.rows.iter().map(|row| row.client.as_str()).collect();
    names.dedup();
    names.retain(|name| *name != FLOOR);
    let (Some(first), Some(second)) = (names.first(), names.get(1)) else { return String::new() };
    let mut loads: Vec<Load> = Vec::new();
    for row in &calibration.rows {
        if !loads.contains(&row.point.load) {
            loads.push(row.point.load);
        }
    }
    let mut text = String::new();
    for load in loads {
        let of = |client: &str, get: &dyn Fn(&Measured) -> Option<f64>| {
            let rows = calibration.rows.iter().filter(|row| row.client == client && row.point.load == load);
            let mut values: Vec<f64> = rows.filter_map(|row| get(row.measured.as_ref()?)).collect();
            values.sort_by(f64::total_cmp);
            percentile(&values, 50.0)
        };
        let ratio = |name: &str, get: &dyn Fn(&Measured) -> Option<f64>| {
            let (ours, theirs) = (of(first, get)?, of(second, get)?);
            (theirs > 0.0).then(|| format!("{name} {:.2}", ours / theirs))
        };
        let parts = [
            ratio("TTFT error mean", &|measured| Some(measured.compared.as_ref()?.ttft_error.mean_ms)),
            ratio("p99", &|measured| Some(measured.compared.as_ref()?.ttft_error.p99_ms)),
            ratio("CPU", &|measured| measured.cpu_s_per_million_tokens),
            ratio("memory", &|measured| measured.peak_memory_mib),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            text.push_str(&format!("{load}: {}\n", parts.join(", ")));
        }
    }
    text
}
