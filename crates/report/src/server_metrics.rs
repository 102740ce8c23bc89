//! What the client and the server measure, side by side.

use super::text::figure;
use sobench_core::printable::printable;
use sobench_core::server_sample::Quantity;
use sobench_render::{Document, Table};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::registry::{Metric, latencies, totals};
use sobench_results::metrics::server::{GaugeSummary, MIB, ServerMetrics};
use sobench_statistics::Summary;

pub(crate) const TITLE: &str = "Server metrics";

const TIMES_TITLE: &str = "Times that the server reports with each answer (means, ms)";

/// Characters at most of the name of a series.
const SERIES_MAX_CHARS: usize = 80;

/// Width of the column of series.
const SERIES_WIDTH: usize = 44;

/// Adds the table and the sentences on differences; nothing without samples of the server.
pub(crate) fn add(page: &mut Document, metrics: &Metrics) {
    page.titled_table(TIMES_TITLE, times(metrics));
    let Some(server) = &metrics.server else {
        return;
    };
    page.titled_table(TITLE, table(metrics, server).non_empty());
    let source = &server.source;
    let name = source.server.as_deref().and_then(|name| {
        sobench_backend::server_metrics::MetricsPage::named(name).map(|page| page.label())
    });
    page.paragraph(format!(
        "{} readings of {} ({}), the first before the run and the last after it; percentiles are interpolated within a bucket",
        server.samples,
        printable(&source.page, SERIES_MAX_CHARS),
        name.unwrap_or("unknown server"),
    ));
    let known = metrics.values.iter().map(|(metric, _)| metric);
    let names: Vec<&str> = known
        .filter(|metric| metric.is_from_server())
        .map(|metric| metric.name)
        .collect();
    page.paragraph(format!(
        "names for --require and --fail-on: {}",
        names.join(", ")
    ));
    page.paragraphs(server.differences.iter().map(ToString::to_string));
    page.paragraphs(server.memory_growth.iter().map(ToString::to_string));
}

/// The server's times beside the client's; `None` if answers have none.
fn times(metrics: &Metrics) -> Option<Table> {
    let times = metrics.server_times?;
    let cell = |value: Option<f64>| value.map_or_else(String::new, |value| figure(Some(value)));
    let rows = [
        ("queue", None, times.queue_ms),
        ("queue end to first token", None, times.first_token_ms),
        ("TTFT", times.client_ttft_ms, None),
        (
            "TTFT outside of the server's engine",
            times.outside_ms(),
            None,
        ),
        (
            "first token to last",
            times.client_generation_ms,
            times.generation_ms,
        ),
    ];
    let known = rows
        .into_iter()
        .filter(|(_, client, server)| client.is_some() || server.is_some());
    Table::new(["time", "client", "server"], 1)
        .with_rows(
            known.map(|(name, client, server)| [name.to_owned(), cell(client), cell(server)]),
        )
        .non_empty()
}

/// The rows of a table.
struct Rows<'s> {
    server: &'s ServerMetrics,
    rows: Vec<[String; 5]>,
}

impl Rows<'_> {
    /// Adds a row with the series of a quantity. A figure that the client does not have is empty.
    fn add(
        &mut self,
        name: &str,
        quantity: Quantity,
        unit: &str,
        client: Option<String>,
        server: Option<String>,
    ) {
        let series = self.server.source.series.get(&quantity);
        if let Some(value) = server {
            self.rows.push([
                name.to_owned(),
                client.unwrap_or_default(),
                value,
                unit.to_owned(),
                series.map_or_else(String::new, |series| printable(series, SERIES_MAX_CHARS)),
            ]);
        }
    }

    /// Mean and percentiles of durations.
    fn durations(&mut self, name: &str, quantity: Quantity, client: Option<&Summary>) {
        let Some(own) = self.server.duration(quantity).copied() else {
            return;
        };
        let of = |percent: f64| {
            let client = client?;
            let kept = client.percentiles.iter();
            kept.filter(|kept| kept.p == percent)
                .find_map(|kept| kept.value)
        };
        let median = client.and_then(|client| client.median);
        for (stat, client, server) in [
            (
                "mean",
                client.and_then(|client| client.mean),
                Some(own.mean_ms),
            ),
            ("median", median, own.p50_ms),
            ("P90", of(90.0), own.p90_ms),
            ("P99", of(99.0), own.p99_ms),
        ] {
            let name = format!("{name}, {stat}");
            let client = client.map(|value| figure(Some(value)));
            let server = server.map(|value| figure(Some(value)));
            self.add(&name, quantity, "ms", client, server);
        }
    }

    /// A count over the run.
    fn count(&mut self, name: &str, quantity: Quantity, unit: &str, client: Option<u64>) {
        let server = self.server.count(quantity);
        self.add(
            name,
            quantity,
            unit,
            client.map(|count| count.to_string()),
            server.map(|count| format!("{count:.0}")),
        );
    }

    /// Mean and peak of a gauge.
    fn gauge(&mut self, name: &str, quantity: Quantity, unit: &str, client_peak: Option<u64>) {
        let Some(gauge) = self.server.gauge(quantity).copied() else {
            return;
        };
        let mean = Some(figure(gauge.mean));
        self.add(&format!("{name}, mean"), quantity, unit, None, mean);
        let peak = match gauge.peak {
            Some(count) if unit != "%" => format!("{count:.0}"),
            peak => figure(peak),
        };
        let client = client_peak.map(|count| count.to_string());
        self.add(&format!("{name}, peak"), quantity, unit, client, Some(peak));
    }
}

/// The figures of both sides under a row for each.
fn table(metrics: &Metrics, server: &ServerMetrics) -> Table {
    let count = |metric: &Metric| metrics.values.known_count(metric);
    let mut rows = Rows {
        server,
        rows: Vec::new(),
    };
    let ttft = metrics.values.summary(&latencies::TTFT);
    rows.durations("TTFT", Quantity::Ttft, Some(ttft).filter(|ttft| ttft.n > 0));
    rows.durations("queue time", Quantity::QueueTime, None);
    rows.durations("compile time", Quantity::CompileTime, None);
    rows.durations("wait for compile", Quantity::CompileWait, None);
    rows.count(
        "prompt tokens",
        Quantity::PromptTokens,
        "tokens",
        count(&totals::INPUT_TOKENS),
    );
    rows.count(
        "output tokens",
        Quantity::GeneratedTokens,
        "tokens",
        count(&totals::OUTPUT_TOKENS),
    );
    let in_flight = count(&totals::MAX_IN_FLIGHT);
    rows.gauge("running", Quantity::Running, "requests", in_flight);
    rows.gauge("waiting", Quantity::Waiting, "requests", None);
    rows.gauge("deferred", Quantity::Deferred, "requests", None);
    rows.gauge("compile queue", Quantity::CompileQueue, "requests", None);
    rows.gauge("KV cache use", Quantity::CacheUsage, "%", None);
    rows.count("preemptions", Quantity::Preemptions, "", None);
    rows.count("draft tokens", Quantity::DraftTokens, "tokens", None);
    let acceptance = server.draft_acceptance_percent();
    let source = match server.count(Quantity::AcceptedTokens) {
        Some(_) => Quantity::AcceptedTokens,
        None => Quantity::AcceptanceRate,
    };
    let accepted = acceptance.map(|percent| figure(Some(percent)));
    rows.add("accepted draft tokens", source, "%", None, accepted);
    if let Some(memory) = server.gauge(Quantity::Memory).copied() {
        for (name, bytes) in [
            ("memory, first reading", Some(memory.first)),
            ("memory, peak", memory.peak),
            ("memory, last reading", Some(memory.last)),
        ] {
            let mib = Some(figure(bytes.map(|bytes| bytes / MIB)));
            rows.add(name, Quantity::Memory, "MiB", None, mib);
        }
    }
    if let Some(growth) = &server.memory_growth {
        let mib = |bytes: f64| format!("{:.4}", bytes / MIB);
        let slope = format!(
            "{} ({} to {})",
            mib(growth.bytes_per_constraint),
            mib(growth.low),
            mib(growth.high)
        );
        let name = "memory per distinct constraint";
        rows.add(name, Quantity::Memory, "MiB", None, Some(slope));
    }
    let named = server.named.iter().map(|(name, gauge)| named(name, gauge));
    Table::new(["figure", "client", "server", "unit", "series"], 1)
        .left_aligned(3)
        .left_aligned(4)
        .wrapped(4, SERIES_WIDTH)
        .with_rows(rows.rows.into_iter().chain(named))
}

/// A series that the user named: its levels, of which a counter has no other use than the ends.
fn named(name: &str, gauge: &GaugeSummary) -> [String; 5] {
    let GaugeSummary {
        first,
        last,
        peak,
        mean,
        ..
    } = *gauge;
    [
        "first, mean, peak, last".to_owned(),
        String::new(),
        [Some(first), mean, peak, Some(last)].map(figure).join(", "),
        String::new(),
        printable(name, SERIES_MAX_CHARS),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_results::metrics::registry::testing::metrics;
    use sobench_results::metrics::server_times::ServerTimesSummary;

    #[test]
    fn both_sides_are_in_a_row_with_unit_and_series() {
        let mut metrics = metrics();
        let server = metrics.server.as_mut().unwrap();
        server.source.server = Some("sglang".to_owned());
        server
            .source
            .series
            .insert(Quantity::QueueTime, "sglang:queue_time_seconds".to_owned());
        server.named.insert("x".to_owned(), GaugeSummary::default());
        let mut page = Document::default();
        add(&mut page, &metrics);
        let text = sobench_render::text::render(&page);
        for expected in [
            "sglang:queue_time_seconds",
            "TTFT, mean",
            "running, peak",
            "memory per distinct constraint",
            "first, mean, peak, last",
            "79 readings of",
            "(SGLang)",
            "grows by",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        metrics.server = None;
        let mut page = Document::default();
        add(&mut page, &metrics);
        assert!(page.blocks.is_empty());
        metrics.server_times = Some(ServerTimesSummary {
            answers: 2,
            queue_ms: Some(1.0),
            first_token_ms: Some(2.0),
            generation_ms: None,
            client_ttft_ms: Some(3.5),
            client_generation_ms: None,
        });
        add(&mut page, &metrics);
        let text = sobench_render::text::render(&page);
        assert!(
            text.contains("outside of the server's engine") && text.contains("0.50"),
            "{text}"
        );
    }
}
