//! Pairs of simulated sides: equal ones are rarely said to differ, and planted losses are found with
//! their place at the planned number of pairs.

use std::sync::Arc;

use rayon::prelude::*;
use serde_json::json;
use sobench_core::case::Arm;
use sobench_core::constraint::Constraint;
use sobench_core::tools::{Tool, ToolChoice, ToolSet};
use sobench_facts::constraint_hash;
use sobench_plan::record::condition::Field;
use sobench_results::compare::pair_facts::{ConstraintFacts, PairFacts};
use sobench_results::compare::pairs::GroupBy;
use sobench_results::compare::requests::Request;
use sobench_results::compare::side::{Run, Side};
use sobench_results::compare::{CompareSettings, SideComparison, compare};
use sobench_results::metrics::judgement::Cause;
use sobench_results::metrics::registry::{RequestValues, latencies, rates};
use sobench_statistics::bootstrap::{RandomSource, SplitMix};
use sobench_statistics::paired::pairs_needed;

/// Simulated comparisons of each kind. `SOBENCH_COMPARISONS=1000` makes more.
fn comparisons() -> u64 {
    let given = std::env::var("SOBENCH_COMPARISONS").ok();
    given.map_or(100, |count| count.parse().unwrap())
}

/// The number of `comparisons` that show something of this probability, and three standard
/// deviations.
fn expected(probability: f64) -> (f64, f64) {
    let all = comparisons() as f64;
    let deviation = (all * probability * (1.0 - probability)).sqrt();
    (all * probability, 3.0 * deviation)
}

/// What the second server gets wrong that the first one has right.
#[derive(Clone, Copy, Debug)]
enum Planted {
    Nothing,
    Everywhere,
    /// One keyword of a few schemas.
    Keyword,
    /// One tool of 40.
    Tool,
    /// A share of the streamed answers.
    Streamed,
    /// A share of the answers with more than 8 requests in flight.
    InFlight,
}

/// The requests: half of them with one of 60 schemas, half with one of 40 tools.
struct Traffic {
    schemas: Vec<Arc<ConstraintFacts>>,
    tools: Arc<ConstraintFacts>,
}

fn facts(constraint: &Constraint) -> Arc<ConstraintFacts> {
    let hash = constraint_hash(constraint);
    Arc::new(ConstraintFacts::new(constraint, hash, "x"))
}

impl Traffic {
    fn new() -> Self {
        const KEYWORDS: [&str; 6] = [
            "minLength",
            "pattern",
            "maximum",
            "format",
            "minItems",
            "const",
        ];
        let schema = |index: usize| {
            let mut schema = json!({
                "title": format!("schema {index}"), "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
            });
            schema[KEYWORDS[index % KEYWORDS.len()]] = json!(1);
            if index % 30 == 7 {
                schema["uniqueItems"] = json!(true);
            }
            facts(&Constraint::JsonSchema(Arc::new(schema)))
        };
        let tool = |index| Tool::function(format!("tool_{index}"), json!({"type": "object"}));
        let tools = ToolSet {
            tools: (0..40).map(tool).collect(),
            choice: ToolChoice::Auto,
            parallel_tool_calls: None,
        };
        Self {
            schemas: (0..60).map(schema).collect(),
            tools: facts(&Constraint::Tools(Arc::new(tools))),
        }
    }

    /// Both sides: each answer is wrong by chance with `noise`, and the planted share of all pairs is
    /// lost.
    fn sides(
        &self,
        pairs: usize,
        noise: f64,
        planted: Planted,
        share: f64,
        seed: u64,
    ) -> [Side; 2] {
        let mut random = SplitMix::new(seed, 0);
        let mut sides = [Vec::new(), Vec::new()];
        for index in 0..pairs {
            let tool = (index % 2 == 0).then_some(index / 2 % 40);
            let schema = (index / 2) % self.schemas.len();
            let streamed = random.below(2) == 0;
            let in_flight = 1 + random.below(16) as u64;
            let is_touched = |of_all: f64, random: &mut SplitMix| random.unit() < share / of_all;
            let is_lost = match planted {
                Planted::Nothing => false,
                Planted::Everywhere => is_touched(1.0, &mut random),
                Planted::Keyword => {
                    tool.is_none() && schema % 30 == 7 && is_touched(1.0 / 60.0, &mut random)
                }
                Planted::Tool => tool == Some(11) && is_touched(1.0 / 80.0, &mut random),
                Planted::Streamed => streamed && is_touched(0.5, &mut random),
                Planted::InFlight => in_flight > 8 && is_touched(0.5, &mut random),
            };
            for (number, side) in sides.iter_mut().enumerate() {
                let is_correct = random.unit() >= noise && !(number == 1 && is_lost);
                let mut values = RequestValues::default();
                values.set_hit(&rates::CORRECT_RATE, Some(is_correct));
                values.set_value(&latencies::TTFT, Some(10.0 + random.unit()));
                side.push(Request {
                    case: Some(format!("case-{index}")),
                    arm: Some(Arm::Constrained),
                    answered: true,
                    values,
                    copy: Some(random.below(usize::MAX) as u64),
                    in_flight: Some(in_flight),
                    pair_facts: Some(PairFacts {
                        ended: if is_correct {
                            Ok(())
                        } else {
                            Err(Cause::Invalid)
                        },
                        streamed,
                        tool: tool.map(|tool| format!("tool_{tool}")),
                        constraint: Some(Arc::clone(match tool {
                            Some(_) => &self.tools,
                            None => &self.schemas[schema],
                        })),
                    }),
                    ..Request::default()
                });
            }
        }
        sides.map(|requests| Side {
            name: "side".to_owned(),
            runs: vec![Run {
                conditions: [(Field::Dataset, "d".to_owned())].into(),
                requests: Some(requests.into_iter().collect()),
                duration_s: Some(10.0),
                ..Run::default()
            }],
            controls: None,
        })
    }

    fn compared(
        &self,
        pairs: usize,
        noise: f64,
        planted: (Planted, f64),
        seed: u64,
    ) -> SideComparison {
        let sides = self.sides(pairs, noise, planted.0, planted.1, seed);
        let settings = CompareSettings {
            resamples: Some(1),
            ..CompareSettings::default()
        };
        compare(sides.into(), &settings).against.remove(0)
    }

    /// The number of comparisons that show this.
    fn count(
        &self,
        pairs: usize,
        noise: f64,
        planted: (Planted, f64),
        shows: impl Fn(&SideComparison) -> bool + Sync + Send,
    ) -> usize {
        let seeds = (0..comparisons()).into_par_iter();
        let found = seeds.map(|seed| self.compared(pairs, noise, planted, seed));
        found.filter(shows).count()
    }
}

/// At most 5 % of pages claim anything.
#[test]
fn equal_servers_are_rarely_said_to_differ() {
    let traffic = Traffic::new();
    for (pairs, noise) in [(300, 0.0), (300, 0.05), (913, 0.02), (300, 0.4)] {
        let claims = |found: &SideComparison| !found.claims.is_empty() || found.cause.is_some();
        let found = traffic.count(pairs, noise, (Planted::Nothing, 0.0), claims);
        println!("{pairs} pairs, noise {noise}: {found} pages claim something");
        let (most, spread) = expected(0.05);
        assert!(
            found as f64 <= most + spread,
            "{pairs} pairs, noise {noise}: {found}"
        );
    }
}

/// The loss is found in 95 %, and its place in nine of ten; losses everywhere seem to have one in few.
#[test]
fn planted_losses_are_found_at_the_planned_number_of_pairs() {
    let traffic = Traffic::new();
    let pairs = pairs_needed(0.01, 0.0).unwrap();
    for planted in [
        Planted::Keyword,
        Planted::Tool,
        Planted::Streamed,
        Planted::InFlight,
    ] {
        let is_place = |found: &SideComparison| {
            found.cause.as_ref().is_some_and(|cause| match planted {
                Planted::Nothing | Planted::Everywhere => false,
                Planted::Keyword => {
                    cause.by == GroupBy::Keyword && cause.value.to_string() == "uniqueItems"
                }
                Planted::Tool => cause.by == GroupBy::Tool && cause.value.to_string() == "tool_11",
                Planted::Streamed => cause.by == GroupBy::Streaming,
                Planted::InFlight => cause.by == GroupBy::InFlight,
            })
        };
        let lost = traffic.count(pairs, 0.0, (planted, 0.01), |found| {
            !found.claims.is_empty()
        });
        let placed = traffic.count(pairs, 0.0, (planted, 0.01), is_place);
        println!("{planted:?}, {pairs} pairs: {lost} lost, {placed} with the place");
        for (count, probability) in [(lost, 0.95), (placed, 0.9)] {
            let (least, spread) = expected(probability);
            assert!(
                count as f64 >= least - spread,
                "{planted:?}: {lost} {placed}"
            );
        }
    }
    let placed = traffic.count(pairs, 0.0, (Planted::Everywhere, 0.01), |found| {
        found.cause.is_some()
    });
    println!("everywhere, {pairs} pairs: {placed} with a place");
    let (most, spread) = expected(0.15);
    assert!(placed as f64 <= most + spread, "{placed}");
}
