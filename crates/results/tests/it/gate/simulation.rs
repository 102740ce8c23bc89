//! Simulates pairs of runs and evaluates the default gate on them.
//!
//! The model: every case has an output length, a prompt weight and a probability of a valid answer,
//! equal on both sides. TTFT is log-normal around the value of the case, plus a rare long wait;
//! TPOT is log-normal; both follow the server's load, which drifts from request to request. Runs of
//! the same server differ by a factor on all times (standard deviation 2 %) and by the frequency of
//! long waits (30 %). Sixteen requests are in flight. One case in ten is hard, so that 97.4 % of
//! answers are valid, unless [`Setting::all_valid`] is set.

use sobench_core::case::Arm;
use sobench_results::compare::Gate;
use sobench_results::compare::gate::{Undecided, evaluate_rules, interval_level};
use sobench_results::compare::measure::Resampling;
use sobench_results::compare::rules::ChangeRule;
use sobench_results::compare::run_spread::RunSpread;
use sobench_results::compare::side::{FileKind, Gaps, Request, Run, Side};
use sobench_results::metrics::registry::{RequestValues, latencies, rates};
use sobench_results::record::condition::Field;
use sobench_statistics::bootstrap::{RandomSource, SplitMix, resamples_for};

/// The regression of the second side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Planted {
    /// Decrease of validity in percentage points.
    pub(crate) validity_pp: f64,
    /// Increase of all times in percent.
    pub(crate) latency_percent: f64,
}

/// The setting of one line of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) planted: Planted,
    /// Requests per run.
    pub(crate) requests: usize,
    /// Runs per side.
    pub(crate) runs: usize,
    /// Whether every answer of the equal server is valid.
    pub(crate) all_valid: bool,
}

/// The sizes of the table: requests a run, runs a side, and whether every answer is valid.
pub(crate) const SIZES: [(usize, usize, bool); 6] = [
    (200, 1, false),
    (1000, 1, false),
    (200, 3, false),
    (200, 5, false),
    (200, 1, true),
    (200, 3, true),
];

/// The regressions of the table; the first is none.
pub(crate) const PLANTED: [Planted; 7] = [
    Planted {
        validity_pp: 0.0,
        latency_percent: 0.0,
    },
    Planted {
        validity_pp: 1.0,
        latency_percent: 0.0,
    },
    Planted {
        validity_pp: 2.0,
        latency_percent: 0.0,
    },
    Planted {
        validity_pp: 5.0,
        latency_percent: 0.0,
    },
    Planted {
        validity_pp: 0.0,
        latency_percent: 5.0,
    },
    Planted {
        validity_pp: 0.0,
        latency_percent: 10.0,
    },
    Planted {
        validity_pp: 0.0,
        latency_percent: 20.0,
    },
];

const BETWEEN_RUNS: f64 = 0.02;
const BETWEEN_RUNS_OF_WAITS: f64 = 0.3;
const UNDER_WAY: usize = 16;
const HARD_CASES: f64 = 0.1;
const VALID_IF_HARD: f64 = 0.75;
const VALID: f64 = 0.999;

/// The default rules that a pair breaks.
pub(crate) fn broken(setting: Setting, pair: u64) -> Vec<ChangeRule> {
    let changes = ChangeRule::defaults().expect("the default rules are valid");
    let gate = Gate {
        changes,
        limits: Vec::new(),
        ..Gate::default()
    };
    let none = PLANTED[0];
    let side = |name: &str, planted: Planted, from: u64| Side {
        name: name.to_owned(),
        runs: (0..setting.runs as u64)
            .map(|run| simulated_run(setting, planted, pair, from + run))
            .collect(),
    };
    let (a, b) = (side("a", none, 0), side("b", setting.planted, 1000));
    let level = interval_level(gate.changes.len());
    let resampling = Resampling {
        resamples: resamples_for(level),
        seed: pair,
    };
    let spread = RunSpread::default();
    let rulings = evaluate_rules(&a, &b, &gate.changes, level, &spread, resampling);
    rulings
        .into_iter()
        .filter(|change| change.ruling.fails(Undecided::Pass))
        .map(|change| change.rule)
        .collect()
}

/// A run: the pair determines the cases, the number everything else.
fn simulated_run(setting: Setting, planted: Planted, pair: u64, number: u64) -> Run {
    let requests = setting.requests;
    let mut noise = Noise(SplitMix::new(pair.wrapping_mul(7919) + 1, number + 1));
    let speed = (BETWEEN_RUNS * noise.normal()).exp() * (1.0 + planted.latency_percent / 100.0);
    let long_wait = 0.02 * (BETWEEN_RUNS_OF_WAITS * noise.normal()).exp();
    let mean_valid = match setting.all_valid {
        true => 1.0,
        false => VALID * (1.0 - HARD_CASES) + VALID_IF_HARD * HARD_CASES,
    };
    let broken = planted.validity_pp / 100.0 / mean_valid;
    let mut free_s = vec![0.0_f64; UNDER_WAY];
    let mut load = 0.0;
    let mut all = Vec::with_capacity(requests);
    for index in 0..requests {
        let case = Case::new(pair, index as u64);
        load = 0.8 * load + 0.06 * noise.normal();
        let wait_ms = if noise.unit() < long_wait {
            (80.0_f64.ln() + 0.4 * noise.normal()).exp()
        } else {
            0.0
        };
        let ttft_ms =
            speed * (40.0 * (0.25 * case.weight + load + 0.2 * noise.normal()).exp() + wait_ms);
        let tpot_ms = speed * 10.0 * (0.5 * load + 0.08 * noise.normal()).exp();
        let e2el_ms = ttft_ms + tpot_ms * (case.tokens - 1) as f64;
        let slot = (0..UNDER_WAY)
            .min_by(|a, b| free_s[*a].total_cmp(&free_s[*b]))
            .expect("there are slots");
        let sent_s = free_s[slot];
        free_s[slot] += e2el_ms / 1000.0;
        let valid = (noise.unit() < case.valid || setting.all_valid) && noise.unit() >= broken;
        let mut values = RequestValues::default();
        values.set_correct(Some(valid));
        values.set_hit(&rates::COMPLIANCE, Some(valid));
        values.set_hit(&rates::COVERAGE, Some(true));
        for (metric, value) in [
            (&latencies::TTFT, ttft_ms),
            (&latencies::TPOT, tpot_ms),
            (&latencies::E2EL, e2el_ms),
        ] {
            values.set_value(metric, Some(value));
        }
        all.push(Request {
            case: Some(format!("case-{index}")),
            arm: Some(Arm::Constrained),
            answered: true,
            values,
            gaps: Gaps::Sum {
                n: case.tokens - 1,
                total_ms: e2el_ms - ttft_ms,
            },
            sent_s: Some(sent_s),
            input_tokens: Some(100),
            output_tokens: Some(case.tokens),
            ..Request::default()
        });
    }
    Run {
        file: format!("simulated-{pair}-{number}"),
        kind: FileKind::SobenchResult,
        conditions: [(Field::Dataset, "simulated".to_owned())].into(),
        requests: Some(all.into_iter().collect()),
        duration_s: free_s.into_iter().reduce(f64::max),
        ..Run::default()
    }
}

/// A case, equal in every run of a pair.
struct Case {
    tokens: u64,
    weight: f64,
    valid: f64,
}

impl Case {
    fn new(pair: u64, index: u64) -> Self {
        let mut noise = Noise(SplitMix::new(pair.wrapping_mul(104_729) + 5, index));
        let tokens = 20 + noise.0.below(60) as u64;
        let valid = if noise.unit() < HARD_CASES {
            VALID_IF_HARD
        } else {
            VALID
        };
        Self {
            tokens,
            weight: noise.normal(),
            valid,
        }
    }
}

struct Noise(SplitMix);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A standard normal value, by Box and Muller (1958).
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (
            (-2.0 * (1.0 - self.unit()).ln()).sqrt(),
            std::f64::consts::TAU * self.unit(),
        );
        radius * angle.cos()
    }
}
