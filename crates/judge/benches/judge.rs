//! Benchmarks judging beside the libraries alone, on the same documents.
//!
//! - `judge`: the judge's verdict on a text, which reads it and counts steps.
//! - `read`: the same under the schema `true`, which is little more than reading.
//! - `jsonschema`, `boon`: a validator alone, on a value that was read before.
//! - `serde_json`: reading alone, into a value.
//!
//! All crates have the features that sobench builds with: exact numbers, and members in their order.
//! Python's validators: `benches/peers.py`, after a run of
//!
//! `cargo bench --bench judge`

#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::Value;
use sobench_core::answer::Answer;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::Verdict;
use sobench_judge::{Ending, Evaluator, JudgeSettings, judge};

/// Array lengths: 120 bytes, 1 KB, 12 KB, and half a megabyte, which is half the judge's limit.
const SIZES: [usize; 4] = [5, 50, 500, 20_000];

fn schema() -> Value {
    serde_json::from_str(include_str!("schema.json")).expect("the schema is JSON")
}

/// `peers.py` makes the same documents.
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
    let mut schemas = boon::Schemas::new();
    let mut compiler = boon::Compiler::new();
    compiler
        .add_resource("urn:bench", schema())
        .expect("the schema can be added");
    let boon_schema = compiler
        .compile("urn:bench", &mut schemas)
        .expect("the schema is valid");
    let constraint = Constraint::JsonSchema(Arc::new(schema()));
    let anything = Constraint::JsonSchema(Arc::new(Value::Bool(true)));
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let mut group = criterion.benchmark_group("judge");
    for size in SIZES {
        let text = document(size);
        let value: Value = serde_json::from_str(&text).expect("the document is JSON");
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_with_input(
            BenchmarkId::new("jsonschema", size),
            &value,
            |bencher, value| bencher.iter(|| assert!(library.is_valid(black_box(value)))),
        );
        group.bench_with_input(BenchmarkId::new("boon", size), &value, |bencher, value| {
            bencher.iter(|| assert!(schemas.validate(black_box(value), boon_schema).is_ok()));
        });
        group.bench_with_input(
            BenchmarkId::new("serde_json", size),
            &text,
            |bencher, text| {
                bencher.iter(|| {
                    serde_json::from_str::<Value>(black_box(text)).expect("the document is JSON")
                });
            },
        );
        for (name, constraint) in [("read", &anything), ("judge", &constraint)] {
            let answer = Answer::from_text(text.clone());
            group.bench_with_input(BenchmarkId::new(name, size), &answer, |bencher, answer| {
                bencher.iter(|| {
                    let constraint = evaluator.compile(constraint);
                    let verdict = judge(&constraint, black_box(answer), Ending::COMPLETED);
                    assert_eq!(verdict, Verdict::Valid);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, judging);
criterion_main!(benches);
