//! Benchmarks of the client: stream decoding for all server formats, schedules, percentiles.
//!
//! Run with `cargo bench --bench client`. Streams are the fixtures of `fixtures/streams` with their
//! content events repeated in turn, split into one event per piece, as from a server that sends
//! each token. criterion prints MB/s; tokens per second follow, with one token per content chunk.

#![allow(clippy::disallowed_methods)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "benchmarks print, and stop at failures"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use serde::Deserialize;
use sobench_backend::{DEFAULT_MAX_EVENT_BYTES, ServerKind, adapter};
use sobench_core::schedule::{Pace, Rate, due_times};
use sobench_statistics::Summary;

/// Chunks with content in a stream.
const TOKENS: usize = 512;

/// Number of passes for tokens per second.
const PASSES: usize = 200;

const FORMATS: [&str; 11] = [
    "vllm-completions.sse",
    "vllm-chat.sse",
    "vllm-chat-continuous-usage.sse",
    "sglang-chat.sse",
    "llamacpp-chat.sse",
    "llamacpp-completion.sse",
    "tgi.sse",
    "trtllm-serve-chat.sse",
    "mistralrs-chat.sse",
    "responses.sse",
    "ollama-chat.ndjson",
];

/// A line of `fixtures/streams/expected.json`.
#[derive(Deserialize)]
struct Row {
    file: String,
    backend: String,
}

/// A stream in pieces, one event each.
struct Stream {
    kind: ServerKind,
    pieces: Vec<Vec<u8>>,
}

impl Stream {
    fn load(file: &str, rows: &[Row]) -> Self {
        let kind: ServerKind = rows
            .iter()
            .find(|row| row.file == file)
            .unwrap()
            .backend
            .parse()
            .unwrap();
        let bytes = std::fs::read(format!(
            "{}/fixtures/streams/{file}",
            env!("CARGO_MANIFEST_DIR")
        ))
        .unwrap();
        let mut pieces = events(
            &bytes,
            if file.ends_with(".sse") {
                b"\n\n"
            } else {
                b"\n"
            },
        );
        let mut decoder = adapter(kind).decoder(true, DEFAULT_MAX_EVENT_BYTES);
        let is_content: Vec<bool> = pieces
            .iter()
            .map(|piece| decoder.push(piece).content_chunks == 1)
            .collect();
        let with_content: Vec<Vec<u8>> = pieces
            .iter()
            .zip(&is_content)
            .filter(|(_, one)| **one)
            .map(|(piece, _)| piece.clone())
            .collect();
        let last = is_content.iter().rposition(|one| *one).unwrap();
        let more = with_content
            .iter()
            .cycle()
            .take(TOKENS - with_content.len())
            .cloned();
        pieces.splice(last..last, more);
        Self { kind, pieces }
    }

    fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    fn decode(&self) -> usize {
        let mut decoder = adapter(self.kind).decoder(true, DEFAULT_MAX_EVENT_BYTES);
        let tokens = self
            .pieces
            .iter()
            .map(|piece| decoder.push(black_box(piece)).content_chunks)
            .sum();
        black_box(decoder.into_decoded());
        tokens
    }
}

fn events(bytes: &[u8], end: &[u8]) -> Vec<Vec<u8>> {
    let (mut events, mut start) = (vec![], 0);
    while let Some(at) = bytes[start..]
        .windows(end.len())
        .position(|window| window == end)
    {
        events.push(bytes[start..start + at + end.len()].to_vec());
        start += at + end.len();
    }
    events.push(bytes[start..].to_vec());
    events
}

fn streams(criterion: &mut Criterion) {
    let rows = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/streams/expected.json"
    ))
    .unwrap();
    let rows: Vec<Row> = serde_json::from_slice(&rows).unwrap();
    let mut group = criterion.benchmark_group("stream");
    for file in FORMATS {
        let stream = Stream::load(file, &rows);
        assert_eq!(
            stream.decode(),
            TOKENS,
            "{file}: each repeated event must be one token"
        );
        group.throughput(Throughput::Bytes(stream.len() as u64));
        group.bench_function(file, |bencher| bencher.iter(|| stream.decode()));
        let start = Instant::now();
        for _ in 0..PASSES {
            black_box(stream.decode());
        }
        let per_token = start.elapsed() / u32::try_from(PASSES * TOKENS).unwrap();
        println!(
            "stream/{file}: {:.2} million tokens/s",
            1e3 / per_token.as_nanos() as f64
        );
    }
    group.finish();
}

fn schedule(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("schedule");
    for requests in [1_000, 100_000] {
        let pace = Pace::Steady(Rate::PerSecond(2000.0));
        group.throughput(Throughput::Elements(requests as u64));
        group.bench_function(format!("{requests} Poisson arrivals"), |bencher| {
            bencher.iter(|| due_times(black_box(requests), pace, 1.0, 0));
        });
    }
    group.finish();
}

fn percentiles(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("percentiles");
    for count in [1_000_u32, 1_000_000] {
        // Golden-ratio sequence: unsorted and without duplicates.
        let values: Vec<f64> = (0..count)
            .map(|index| (f64::from(index) * 0.618_033_988_749_895).fract() * 100.0)
            .collect();
        group.throughput(Throughput::Elements(u64::from(count)));
        group.bench_function(format!("p50, p90, p99 of {count}"), |bencher| {
            bencher.iter(|| Summary::new(black_box(values.clone()), &[50.0, 90.0, 99.0]));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    streams(&mut criterion);
    schedule(&mut criterion);
    percentiles(&mut criterion);
    criterion.final_summary();
}
