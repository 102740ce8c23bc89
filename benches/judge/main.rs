//! Benchmarks the overhead of step counting in schema validation: one document validated by the
//! library (`library`), and by the judge, which counts steps and also parses the text (`judge`).
//! `parse` is the parsing alone, so `judge` minus `parse` is comparable with `library`.
//!
//! `cargo bench --bench judge`

#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use sobench_core::constraint::Constraint;
use sobench_judge::{EvaluateOptions, Evaluator};

/// Array lengths: a typical answer, a long one, and one near the judge's limit.
const SIZES: [usize; 3] = [5, 500, 20_000];

fn schema() -> Value {
    json!({"type": "array", "items": {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0},
            "b": {"type": "string", "maxLength": 10, "enum": ["x", "y"]},
            "c": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        },
        "required": ["a", "b"],
        "additionalProperties": false,
    }})
}

fn document(size: usize) -> String {
    let mut text = String::from("[");
    for index in 0..size {
        let comma = if index == 0 { "" } else { "," };
        write!(
            text,
            "{comma}{{\"a\":{},\"b\":\"x\",\"c\":true}}",
            index % 1000
        )
        .expect("text can be written");
    }
    text + "]"
}

fn judging(criterion: &mut Criterion) {
    let library = jsonschema::options()
        .should_validate_formats(true)
        .build(&schema())
        .expect("the schema is valid");
    let constraint = Constraint::JsonSchema(Arc::new(schema()));
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let mut group = criterion.benchmark_group("judge");
    for size in SIZES {
        let text = document(size);
        let value: Value = serde_json::from_str(&text).expect("the document is JSON");
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_with_input(
            BenchmarkId::new("library", size),
            &value,
            |bencher, value| {
                bencher.iter(|| assert_eq!(library.iter_errors(black_box(value)).count(), 0));
            },
        );
        group.bench_with_input(BenchmarkId::new("parse", size), &text, |bencher, text| {
            bencher.iter(|| {
                serde_json::from_str::<Value>(black_box(text)).expect("the document is JSON")
            });
        });
        group.bench_with_input(BenchmarkId::new("judge", size), &text, |bencher, text| {
            bencher.iter(|| evaluator.judge_text(&constraint, None, black_box(text)));
        });
    }
    group.finish();
}

criterion_group!(benches, judging);
criterion_main!(benches);
