//! Benchmarks the overhead of the adapters in `crates/engine/src`: masks of the same documents
//! through `engine::open` and by calling the library, alternating in one process. Prints the ratio,
//! then criterion's figures.
//!
//! Run with `cargo bench --bench engines`. The target is a ratio of at most 1.03.

#![allow(clippy::disallowed_methods)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "benchmarks print, and stop at failures"
)]

mod direct;

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use serde::Deserialize;
use sobench_core::constraint::Constraint;
use sobench_engine::{
    self as engine, EngineName, EnginePolicy, Grammar, Matcher, TokenId, TokenMask, Vocabulary,
};

/// Pairs of passes.
const ROUNDS: usize = 201;

/// Warm-up passes of each side.
const WARM_UP: usize = 20;

/// The benchmarked workloads: one for each constraint kind.
const WORKLOADS: [&str; 7] = [
    "brief profile",
    "nested profile",
    "any object",
    "recursive tree",
    "e-mail regex",
    "sentiment choice",
    "sql in lark",
];

/// Steps through one answer.
trait Stepper {
    /// Computes the mask of the current state.
    fn mask(&mut self);
    fn commit(&mut self, token: TokenId);
}

/// Starts an answer.
type Start = Box<dyn Fn() -> Box<dyn Stepper>>;

/// A line of `fixtures/mask/workloads.jsonl`.
#[derive(Deserialize)]
struct Workload {
    name: String,
    constraint: Constraint,
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
    text: String,
    valid: bool,
}

/// Uses the adapter from `engine::open`.
struct Adapter {
    matcher: Box<dyn Matcher>,
    mask: TokenMask,
}

impl Stepper for Adapter {
    fn mask(&mut self) {
        self.matcher.mask(&mut self.mask).unwrap();
        std::hint::black_box(&self.mask);
    }
    fn commit(&mut self, token: TokenId) {
        self.matcher.commit(token).unwrap();
    }
}

fn adapter(grammar: Arc<dyn Grammar>, tokens: usize) -> Start {
    Box::new(move || {
        Box::new(Adapter {
            matcher: grammar.matcher().unwrap(),
            mask: TokenMask::new(tokens),
        })
    })
}

/// Steps through the documents and returns the time of each mask.
fn pass(start: &Start, documents: &[Vec<TokenId>]) -> Vec<Duration> {
    let mut spent = Vec::with_capacity(documents.iter().map(Vec::len).sum());
    for document in documents {
        let mut stepper = start();
        for &token in document {
            let started = Instant::now();
            stepper.mask();
            spent.push(started.elapsed());
            stepper.commit(token);
        }
    }
    spent
}

/// Results of alternating passes of two sides.
struct Paired {
    /// Quartiles of `tested / base` over all rounds, with the median in the middle.
    ratios: [f64; 3],
    /// The same ratio for the sums of each mask's minimum time, which other load on the machine
    /// affects little.
    least: f64,
    base: Duration,
    tested: Duration,
}

/// Alternates both sides and swaps their order every round, so that a slowdown of the machine
/// affects both.
fn paired(base: &Start, tested: &Start, documents: &[Vec<TokenId>]) -> Paired {
    for _ in 0..WARM_UP {
        pass(base, documents);
        pass(tested, documents);
    }
    let (mut ratios, mut bases, mut testeds) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (base, tested) = if round % 2 == 0 {
            let base = pass(base, documents);
            (base, pass(tested, documents))
        } else {
            let tested = pass(tested, documents);
            (pass(base, documents), tested)
        };
        ratios.push(total(&tested).as_secs_f64() / total(&base).as_secs_f64());
        bases.push(base);
        testeds.push(tested);
    }
    ratios.sort_by(f64::total_cmp);
    let (base, tested) = (least(&bases), least(&testeds));
    let ratios = [ROUNDS / 4, ROUNDS / 2, 3 * ROUNDS / 4].map(|index| ratios[index]);
    Paired {
        ratios,
        least: tested.as_secs_f64() / base.as_secs_f64(),
        base,
        tested,
    }
}

fn total(times: &[Duration]) -> Duration {
    times.iter().sum()
}

/// The sum of each mask's minimum time over all rounds.
fn least(rounds: &[Vec<Duration>]) -> Duration {
    (0..rounds[0].len())
        .filter_map(|mask| rounds.iter().map(|round| round[mask]).min())
        .sum()
}

fn print_row(engine: &str, workload: &str, documents: &[Vec<TokenId>], paired: &Paired) {
    let masks: usize = documents.iter().map(Vec::len).sum();
    let per_mask = |time: Duration| time.as_secs_f64() * 1e9 / masks as f64;
    let [low, median, high] = paired.ratios;
    println!(
        "{engine:<14} {workload:<18} {masks:>5} {:>12.0} {:>12.0} {:>8.4} {median:>8.4} {low:>8.4} {high:>8.4}",
        per_mask(paired.base),
        per_mask(paired.tested),
        paired.least,
    );
}

fn print_header(title: &str, base: &str, tested: &str) {
    println!(
        "\n{title}; {ROUNDS} alternating rounds; ns per mask and the first ratio use each mask's minimum time"
    );
    println!(
        "{:<14} {:<18} {:>5} {base:>12} {tested:>12} {:>8} {:>8} {:>8} {:>8}",
        "engine", "workload", "masks", "ratio", "median", "p25", "p75"
    );
}

struct Setup {
    vocabulary: Arc<Vocabulary>,
    workloads: Vec<Workload>,
}

impl Setup {
    fn load() -> Self {
        let lines = include_str!("../../fixtures/mask/workloads.jsonl").lines();
        let workloads = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        Self {
            vocabulary: Arc::new(Vocabulary::cl100k().unwrap()),
            workloads,
        }
    }

    fn constraint(&self, name: &str) -> &Constraint {
        &self
            .workloads
            .iter()
            .find(|workload| workload.name == name)
            .unwrap()
            .constraint
    }

    /// The valid documents of a workload that the engine accepts.
    fn documents(&self, name: &str, grammar: &dyn Grammar) -> Vec<Vec<TokenId>> {
        let workload = self
            .workloads
            .iter()
            .find(|workload| workload.name == name)
            .unwrap();
        let accepts = |tokens: &Vec<TokenId>| {
            let mut matcher = grammar.matcher().unwrap();
            tokens.iter().all(|&token| matcher.commit(token).is_ok())
        };
        let valid = workload.instances.iter().filter(|instance| instance.valid);
        valid
            .map(|instance| self.vocabulary.encode(&instance.text))
            .filter(accepts)
            .collect()
    }

    fn compile(
        &self,
        name: EngineName,
        policy: &EnginePolicy,
        workload: &str,
    ) -> Option<Arc<dyn Grammar>> {
        engine::open(name, &self.vocabulary, policy)
            .ok()?
            .compile(self.constraint(workload))
            .ok()
    }

    fn adapter(&self, grammar: &Arc<dyn Grammar>) -> Start {
        adapter(Arc::clone(grammar), self.vocabulary.len())
    }
}

fn compare_adapters(setup: &Setup, criterion: &mut Criterion) {
    print_header("adapter / library", "library", "adapter");
    let policy = EnginePolicy::default();
    let mut sides = Vec::new();
    for (name, direct) in direct::libraries(&setup.vocabulary) {
        if let Err(error) = engine::open(name, &setup.vocabulary, &policy) {
            println!("{:<14} skipped: {}", name.name(), error.what);
            continue;
        }
        for workload in WORKLOADS {
            // Only constraint kinds with a direct API of the library; the adapter translates the
            // others.
            let Some(base) = direct(setup.constraint(workload)) else {
                continue;
            };
            let Some(grammar) = setup.compile(name, &policy, workload) else {
                continue;
            };
            let (tested, documents) = (
                setup.adapter(&grammar),
                setup.documents(workload, &*grammar),
            );
            print_row(
                name.name(),
                workload,
                &documents,
                &paired(&base, &tested, &documents),
            );
            sides.push((name, workload, base, tested, documents));
        }
    }
    for (name, workload, base, tested, documents) in sides {
        let mut group = criterion.benchmark_group(format!("masks of {workload}, {}", name.name()));
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_secs(1));
        for (side, start) in [("library", &base), ("adapter", &tested)] {
            group.bench_function(side, |bencher| {
                bencher.iter_custom(|passes| {
                    (0..passes).map(|_| total(&pass(start, &documents))).sum()
                });
            });
        }
        group.finish();
    }
}

fn compare_slicer(setup: &Setup) {
    print_header(
        "guidance without slicer / with slicer",
        "slicer",
        "no slicer",
    );
    let (with, without) = (
        EnginePolicy::default(),
        EnginePolicy {
            guidance_slicer: false,
            ..EnginePolicy::default()
        },
    );
    for workload in WORKLOADS {
        let [with, without] = [&with, &without].map(|policy| {
            setup
                .compile(EngineName::Guidance, policy, workload)
                .unwrap()
        });
        let documents = setup.documents(workload, &*with);
        print_row(
            "guidance",
            workload,
            &documents,
            &paired(&setup.adapter(&with), &setup.adapter(&without), &documents),
        );
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let setup = Setup::load();
    compare_slicer(&setup);
    compare_adapters(&setup, &mut criterion);
    criterion.final_summary();
}
