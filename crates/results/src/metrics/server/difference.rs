//! What the server and the client measure differently, by more than the network explains.

use std::fmt;

use super::ServerMetrics;
use crate::metrics::TokenSources;
use crate::metrics::registry::{Values, latencies, totals};
use sobench_core::server_sample::Quantity;

/// Share from which numbers of requests and tokens differ.
const COUNT_SHARE: f64 = 0.01;

/// Time by which the server's TTFT may be above the client's: the resolution of sums.
const RESOLUTION_MS: f64 = 0.5;

/// The client's TTFT has a round trip more than the server's. It is pointed out above this multiple
/// of the shortest scrape, and above this share of the client's.
const ROUND_TRIPS: f64 = 2.0;
const MIN_GAP_MS: f64 = 2.0;
const GAP_SHARE: f64 = 0.1;

/// A difference between the figures of the server and those of the client.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerDifference {
    /// Output tokens that the server generated, and those of the answers.
    OutputTokens { server: f64, client: f64 },
    /// Requests with a first token.
    Requests { server: f64, client: f64 },
    /// The server's mean TTFT is above the client's.
    ServerTtftAbove { server_ms: f64, client_ms: f64 },
    /// The client's mean TTFT is far above the server's.
    ClientTtftAbove {
        server_ms: f64,
        client_ms: f64,
        scrape_ms: f64,
    },
}

impl ServerDifference {
    pub(super) fn all(
        server: &ServerMetrics,
        client: &Values,
        sources: &TokenSources,
    ) -> Vec<Self> {
        // After a restart, the server's figures are not of all requests.
        if server.restarts > 0 {
            return Vec::new();
        }
        let differences = [output_tokens(server, client, sources), ttft(server, client)];
        differences.into_iter().flatten().collect()
    }
}

fn differ(one: f64, other: f64) -> bool {
    (one - other).abs() > (COUNT_SHARE * one.max(other)).max(1.0)
}

fn output_tokens(
    server: &ServerMetrics,
    client: &Values,
    sources: &TokenSources,
) -> Option<ServerDifference> {
    let generated = server.count(Quantity::GeneratedTokens)?;
    // Counts of a tokenizer differ from the server's for another reason.
    let is_counted = sources.output.tokenizer == 0 && sources.output.other_tokenizer == 0;
    let received = client
        .number(&totals::OUTPUT_TOKENS)
        .filter(|_| is_counted)?;
    differ(generated, received).then_some(ServerDifference::OutputTokens {
        server: generated,
        client: received,
    })
}

fn ttft(server: &ServerMetrics, client: &Values) -> Option<ServerDifference> {
    let own = server.duration(Quantity::Ttft)?;
    let measured = client.summary(&latencies::TTFT);
    let client_ms = measured.mean?;
    let server_ms = own.mean_ms;
    if differ(own.count, measured.n as f64) {
        return Some(ServerDifference::Requests {
            server: own.count,
            client: measured.n as f64,
        });
    }
    if server_ms > client_ms + RESOLUTION_MS {
        return Some(ServerDifference::ServerTtftAbove {
            server_ms,
            client_ms,
        });
    }
    let explained_ms = (ROUND_TRIPS * server.shortest_scrape_ms).max(MIN_GAP_MS);
    let gap_ms = client_ms - server_ms;
    (gap_ms > explained_ms && gap_ms > GAP_SHARE * client_ms).then_some(
        ServerDifference::ClientTtftAbove {
            server_ms,
            client_ms,
            scrape_ms: server.shortest_scrape_ms,
        },
    )
}

impl fmt::Display for ServerDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutputTokens { server, client } => write!(
                f,
                "the server generated {server:.0} tokens, the answers have {client:.0}: the server also counts tokens of failed and abandoned \
                 requests, of probes and of other clients"
            ),
            Self::Requests { server, client } => write!(
                f,
                "the server measured the TTFT of {server:.0} requests, the client of {client:.0}: the server's TTFT includes requests of \
                 other clients, or requests whose TTFT the client does not measure, and the two are not compared"
            ),
            Self::ServerTtftAbove {
                server_ms,
                client_ms,
            } => write!(
                f,
                "the server's mean TTFT is {server_ms:.2} ms, above the client's {client_ms:.2} ms: the two are not of the same requests, or \
                 one of the clocks is wrong"
            ),
            Self::ClientTtftAbove {
                server_ms,
                client_ms,
                scrape_ms,
            } => write!(
                f,
                "the client's mean TTFT is {client_ms:.2} ms, {:.2} ms above the server's {server_ms:.2} ms, while reading the metrics page \
                 takes {scrape_ms:.2} ms: the rest is outside of the server's measurement, for example in its HTTP front end, in a proxy or \
                 in the client",
                client_ms - server_ms
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::server::HistogramSummary;
    use crate::metrics::summarise;
    use sobench_facts::testing::{test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;

    /// The differences from 100 answers with a TTFT of 10 ms and three tokens.
    fn differences(count: f64, mean_ms: f64, scrape_ms: f64, tokens: f64) -> Vec<ServerDifference> {
        let server = ServerMetrics {
            shortest_scrape_ms: scrape_ms,
            durations: [(
                Quantity::Ttft,
                HistogramSummary {
                    count,
                    mean_ms,
                    ..HistogramSummary::default()
                },
            )]
            .into(),
            counts: [(Quantity::GeneratedTokens, tokens)].into(),
            ..ServerMetrics::default()
        };
        let run = vec![test_request(); 100];
        with_samples(&run, |samples| {
            let client = summarise(samples, 1, &MetricsSettings::default());
            ServerDifference::all(&server, &client.values, &client.token_sources)
        })
    }

    #[test]
    fn only_what_the_network_does_not_explain_is_a_difference() {
        assert_eq!(differences(100.0, 9.0, 1.0, 300.0), []);
        assert_eq!(differences(100.0, 10.3, 1.0, 301.0), [], "rounding");
        assert_eq!(differences(100.0, 4.0, 3.0, 300.0), [], "a slow network");
        for (found, expected) in [
            (
                differences(100.0, 4.0, 1.0, 300.0),
                "6.00 ms above the server's",
            ),
            (
                differences(100.0, 12.0, 1.0, 300.0),
                "above the client's 10.00 ms",
            ),
            (
                differences(130.0, 4.0, 1.0, 300.0),
                "of 130 requests, the client of 100",
            ),
            (
                differences(100.0, 9.0, 1.0, 330.0),
                "generated 330 tokens, the answers have 300",
            ),
        ] {
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].to_string().contains(expected), "{}", found[0]);
        }
    }
}
