//! What the adapters of `crates/engine/src` cost over the libraries that they wrap: the same masks
//! of the same documents, through `engine::open` and by calling the library, in turns in one run.
//! Prints the ratio of both, then criterion's own figures.
//!
//! `cargo bench --bench engines`; a ratio of 1.03 is the most that is promised.

#![allow(clippy::disallowed_methods)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and one that cannot go on stops"
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

/// Passes of either side before anything is measured.
const WARM_UP: usize = 20;

/// The shipped workloads that are stepped through, with the constraint kinds of the benchmarks.
const WORKLOADS: [&str; 7] = [
    "brief profile",
    "nested profile",
    "any object",
    "recursive tree",
    "e-mail regex",
    "sentiment choice",
    "sql in lark",
];

/// One answer, stepped through in one of the two ways.
trait Stepper {
    /// Computes the mask of the state.
    fn mask(&mut self);
    fn commit(&mut self, token: TokenId);
}

/// Begins an answer.
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

/// The adapter's way: what `engine::open` gives, boundary and all.
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

/// Steps through the documents; the times are those of the masks alone, one after the other.
fn pass(start: &Start, documents: &[Vec<TokenId>]) -> Vec<Duration> {
    let mut spent = Vec::with_capacity(documents.iter().map(Vec::len).sum());
    for document in documents {
        let mut stepper = start();
        for &token in document {
            let begun = Instant::now();
            stepper.mask();
            spent.push(begun.elapsed());
            stepper.commit(token);
        }
    }
    spent
}

/// What alternating passes of two sides showed.
struct Paired {
    /// `tested / base` of a round, over all rounds: the quartiles and, between them, the median.
    ratios: [f64; 3],
    /// The same of sums over each mask's shortest time, which a busy machine does not touch.
    least: f64,
    base: Duration,
    tested: Duration,
}

/// Both sides in turns, the first of a round being the second of the next, so that a machine that
/// gets slower slows down both.
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

/// The sum over all masks of the shortest time that a round took for it.
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

fn print_head(what: &str, base: &str, tested: &str) {
    println!(
        "\n{what}; {ROUNDS} alternating rounds; ns a mask and the first ratio of each mask's shortest time"
    );
    println!(
        "{:<14} {:<18} {:>5} {base:>12} {tested:>12} {:>8} {:>8} {:>8} {:>8}",
        "engine", "workload", "masks", "ratio", "median", "p25", "p75"
    );
}

struct World {
    vocabulary: Arc<Vocabulary>,
    workloads: Vec<Workload>,
}

impl World {
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

    /// The valid documents of a workload that the engine takes.
    fn documents(&self, name: &str, grammar: &dyn Grammar) -> Vec<Vec<TokenId>> {
        let workload = self
            .workloads
            .iter()
            .find(|workload| workload.name == name)
            .unwrap();
        let takes = |tokens: &Vec<TokenId>| {
            let mut matcher = grammar.matcher().unwrap();
            tokens.iter().all(|&token| matcher.commit(token).is_ok())
        };
        let valid = workload.instances.iter().filter(|instance| instance.valid);
        valid
            .map(|instance| self.vocabulary.encode(&instance.text))
            .filter(takes)
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

fn adapter_against_library(world: &World, criterion: &mut Criterion) {
    print_head("adapter over library", "library", "adapter");
    let policy = EnginePolicy::default();
    let mut sides = Vec::new();
    for (name, direct) in direct::libraries(&world.vocabulary) {
        if let Err(error) = engine::open(name, &world.vocabulary, &policy) {
            println!("{:<14} left out: {}", name.name(), error.what);
            continue;
        }
        for workload in WORKLOADS {
            // A library is asked for what it has an own call for; the rest is its adapter's
            // translation.
            let Some(base) = direct(world.constraint(workload)) else {
                continue;
            };
            let Some(grammar) = world.compile(name, &policy, workload) else {
                continue;
            };
            let (tested, documents) = (
                world.adapter(&grammar),
                world.documents(workload, &*grammar),
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

fn slicer_against_none(world: &World) {
    print_head(
        "guidance without slices over with them",
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
            world
                .compile(EngineName::Guidance, policy, workload)
                .unwrap()
        });
        let documents = world.documents(workload, &*with);
        print_row(
            "guidance",
            workload,
            &documents,
            &paired(&world.adapter(&with), &world.adapter(&without), &documents),
        );
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let world = World::load();
    slicer_against_none(&world);
    adapter_against_library(&world, &mut criterion);
    criterion.final_summary();
}
