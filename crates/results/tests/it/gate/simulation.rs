//! Simulates pairs of sides and evaluates gates on them.
//!
//! The model: every case has an output length, a prompt weight and a probability of a valid answer,
//! equal on both sides. TTFT is log-normal around the value of the case, plus a rare long wait;
//! TPOT is log-normal; both follow the server's load, which drifts from request to request. Runs of
//! the same server differ by a factor on all times (standard deviation 2 %) and by the frequency of
//! long waits (30 %). Sixteen requests are in flight. How valid answers are, and how that varies
//! between runs, is the [`Server`]'s.

use sobench_core::case::Arm;
use sobench_plan::record::condition::Field;
use sobench_results::compare::gate::{ChangeRuling, GateVerdict};
use sobench_results::compare::measure::Resampling;
use sobench_results::compare::requests::{Gaps, Request};
use sobench_results::compare::rules::ChangeRule;
use sobench_results::compare::run_spread::RunSpread;
use sobench_results::compare::side::{FileKind, Run, Side};
use sobench_results::compare::testing::evaluate_rules;
use sobench_results::metrics::registry::{RequestValues, latencies, rates};
use sobench_statistics::bootstrap::{RandomSource, SplitMix};
use sobench_statistics::distributions::proportion_at_most;

/// How valid the answers of the equal server are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Every answer is valid.
    Valid,
    /// 99.5 % of the answers to every case.
    Nearly,
    /// As [`Self::Nearly`]; the validity of each run has a beta distribution with a standard
    /// deviation of 0.25 points.
    NearlyVaries,
    /// 97.4 %: one case in ten is hard.
    Hard,
    /// As [`Self::Hard`]; the logit of each run's validity is shifted by a normal value with a
    /// standard deviation of 0.3.
    HardVaries,
    /// The same with 0.5.
    HardVariesMore,
    /// 97.4 % of the answers to every case; the validity of each run has a beta distribution with a
    /// standard deviation of 0.75 points.
    Varies,
}

/// The rules of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Those of `--gate`.
    Default,
    /// Those of the guide: `correct_rate<-2pp` and `coverage<-2pp`.
    Guide,
}

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Setting {
    pub(crate) rules: Rules,
    /// Runs a side.
    pub(crate) runs: usize,
    /// Requests a run.
    pub(crate) requests: usize,
    pub(crate) server: Server,
    /// Decrease of validity of the second side, in percentage points.
    pub(crate) validity_pp: f64,
    /// Increase of all its times in percent.
    pub(crate) slower_percent: f64,
}

const fn setting(
    rules: Rules,
    runs: usize,
    requests: usize,
    server: Server,
    validity_pp: f64,
    slower_percent: f64,
) -> Setting {
    Setting {
        rules,
        runs,
        requests,
        server,
        validity_pp,
        slower_percent,
    }
}

/// The lines of `fixtures/baselines/gate-power.csv`.
pub(crate) const SETTINGS: [Setting; 31] = [
    setting(Rules::Guide, 1, 600, Server::Valid, 0.0, 0.0),
    setting(Rules::Guide, 1, 600, Server::Nearly, 0.0, 0.0),
    setting(Rules::Guide, 1, 600, Server::NearlyVaries, 0.0, 0.0),
    setting(Rules::Guide, 1, 600, Server::Valid, 5.0, 0.0),
    setting(Rules::Guide, 1, 600, Server::Nearly, 5.0, 0.0),
    setting(Rules::Guide, 1, 600, Server::NearlyVaries, 5.0, 0.0),
    setting(Rules::Guide, 1, 600, Server::Valid, 2.0, 0.0),
    setting(Rules::Guide, 1, 200, Server::Valid, 0.0, 0.0),
    setting(Rules::Guide, 1, 200, Server::Valid, 5.0, 0.0),
    setting(Rules::Default, 3, 60, Server::Valid, 0.0, 0.0),
    setting(Rules::Default, 3, 60, Server::Valid, 5.0, 0.0),
    setting(Rules::Default, 3, 60, Server::Nearly, 5.0, 0.0),
    setting(Rules::Default, 3, 60, Server::HardVaries, 5.0, 0.0),
    setting(Rules::Default, 3, 60, Server::Varies, 5.0, 0.0),
    setting(Rules::Default, 3, 120, Server::Valid, 5.0, 0.0),
    setting(Rules::Default, 3, 200, Server::Valid, 0.0, 0.0),
    setting(Rules::Default, 3, 200, Server::Nearly, 0.0, 0.0),
    setting(Rules::Default, 3, 200, Server::NearlyVaries, 0.0, 0.0),
    setting(Rules::Default, 3, 200, Server::Hard, 0.0, 0.0),
    setting(Rules::Default, 3, 200, Server::HardVaries, 0.0, 0.0),
    setting(Rules::Default, 3, 200, Server::HardVariesMore, 0.0, 0.0),
    setting(Rules::Default, 3, 200, Server::Varies, 0.0, 0.0),
    setting(Rules::Default, 5, 200, Server::Valid, 0.0, 0.0),
    setting(Rules::Default, 5, 200, Server::Nearly, 0.0, 0.0),
    setting(Rules::Default, 3, 200, Server::Nearly, 5.0, 0.0),
    setting(Rules::Default, 3, 300, Server::Hard, 5.0, 0.0),
    setting(Rules::Default, 3, 300, Server::HardVaries, 5.0, 0.0),
    setting(Rules::Default, 3, 200, Server::Valid, 0.0, 20.0),
    setting(Rules::Default, 3, 200, Server::Hard, 0.0, 20.0),
    setting(Rules::Default, 3, 60, Server::Valid, 0.0, 20.0),
    setting(Rules::Default, 3, 200, Server::Valid, 0.0, 10.0),
];

/// The number of pairs of each line of the table.
pub(crate) const PAIRS: u64 = 1000;

const BETWEEN_RUNS: f64 = 0.02;
const BETWEEN_RUNS_OF_WAITS: f64 = 0.3;
const UNDER_WAY: usize = 16;
const HARD_CASES: f64 = 0.1;
const VALID_IF_HARD: f64 = 0.75;
const VALID: f64 = 0.999;

impl Server {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Valid => "100 %",
            Self::Nearly => "99.5 %",
            Self::NearlyVaries => "99.5 %, runs vary by 0.25 points",
            Self::Hard => "97.4 %, hard cases",
            Self::HardVaries => "97.4 %, hard cases, runs vary by 0.3 in the logit",
            Self::HardVariesMore => "97.4 %, hard cases, runs vary by 0.5 in the logit",
            Self::Varies => "97.4 %, runs vary by 0.75 points",
        }
    }

    fn mean_valid(self) -> f64 {
        match self {
            Self::Valid => 1.0,
            Self::Nearly | Self::NearlyVaries => 0.995,
            Self::Hard | Self::HardVaries | Self::HardVariesMore | Self::Varies => {
                VALID * (1.0 - HARD_CASES) + VALID_IF_HARD * HARD_CASES
            }
        }
    }

    /// The probability of a valid answer in a run, from that of the case.
    fn of_run(self, noise: &mut Noise) -> Box<dyn Fn(&Case) -> f64> {
        let mean = self.mean_valid();
        let beta = |deviation: f64, noise: &mut Noise| {
            // A beta distribution with this mean and deviation of invalid answers, by its quantile.
            let invalid = 1.0 - mean;
            let size = invalid * mean / (deviation * deviation) - 1.0;
            let hits = invalid * size - 1.0;
            1.0 - proportion_at_most(hits / (size - 1.0), size - 1.0, noise.unit())
        };
        let shifted = |deviation: f64, noise: &mut Noise| -> Box<dyn Fn(&Case) -> f64> {
            let shift = deviation * noise.normal();
            Box::new(move |case| 1.0 / (1.0 + (1.0 / case.valid - 1.0) * (-shift).exp()))
        };
        match self {
            Self::Valid | Self::Nearly => Box::new(move |_| mean),
            Self::Hard => Box::new(|case| case.valid),
            Self::HardVaries => shifted(0.3, noise),
            Self::HardVariesMore => shifted(0.5, noise),
            Self::NearlyVaries | Self::Varies => {
                let deviation = if self == Self::Varies { 0.0075 } else { 0.0025 };
                let valid = beta(deviation, noise);
                Box::new(move |_| valid)
            }
        }
    }
}

impl Rules {
    fn rules(self) -> Vec<ChangeRule> {
        let guide = ["correct_rate<-2pp", "coverage<-2pp"];
        match self {
            Self::Default => ChangeRule::defaults().expect("the default rules are valid"),
            Self::Guide => guide
                .map(|rule| ChangeRule::parse(rule).expect("a rule of the guide is valid"))
                .to_vec(),
        }
    }
}

impl Setting {
    /// The cells before the counts.
    pub(crate) fn start_of_line(&self) -> String {
        let rules = match self.rules {
            Rules::Default => "default",
            Rules::Guide => "guide",
        };
        format!(
            "{rules},{},{},\"{}\",{},{},",
            self.runs,
            self.requests,
            self.server.name(),
            self.validity_pp,
            self.slower_percent
        )
    }

    /// The verdict on a pair.
    pub(crate) fn verdict(self, pair: u64) -> GateVerdict {
        let rulings = self.rulings(pair);
        GateVerdict::new(rulings.iter().map(|change| change.ruling), None)
    }

    /// A pair: an equal server, and the one of the setting.
    pub(crate) fn sides(self, pair: u64) -> [Side; 2] {
        let equal = Self {
            validity_pp: 0.0,
            slower_percent: 0.0,
            ..self
        };
        let side = |name: &str, setting: Self, from: u64| Side {
            name: name.to_owned(),
            runs: (0..setting.runs as u64)
                .map(|run| simulated_run(setting, pair, from + run))
                .collect(),
            ..Side::default()
        };
        [side("a", equal, 0), side("b", self, 1000)]
    }

    fn rulings(self, pair: u64) -> Vec<ChangeRuling> {
        // Three runs a side, and rates, need no resamples.
        let resampling = Resampling {
            resamples: 1,
            seed: pair,
        };
        let [a, b] = self.sides(pair);
        let spread = RunSpread::default();
        evaluate_rules(&a, &b, &self.rules.rules(), &spread, resampling)
    }
}

/// A run: the pair determines the cases, the number everything else.
fn simulated_run(setting: Setting, pair: u64, number: u64) -> Run {
    let requests = setting.requests;
    let mut noise = Noise(SplitMix::new(pair.wrapping_mul(7919) + 1, number + 1));
    let speed = (BETWEEN_RUNS * noise.normal()).exp() * (1.0 + setting.slower_percent / 100.0);
    let long_wait = 0.02 * (BETWEEN_RUNS_OF_WAITS * noise.normal()).exp();
    let valid_in_run = setting.server.of_run(&mut noise);
    let broken = setting.validity_pp / 100.0 / setting.server.mean_valid();
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
        let valid = noise.unit() < valid_in_run(&case) && noise.unit() >= broken;
        let mut values = RequestValues::default();
        values.set_hit(&rates::CORRECT_RATE, Some(valid));
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
