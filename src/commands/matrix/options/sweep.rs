//! `--sweep`: the first load, and the plans of runs whose rates are chosen while the comparison
//! runs.

use super::{MatrixPlan, PlannedRun, one_run};
use crate::commands::bench::args::BenchArgs;
use crate::commands::matrix::sweep::{MAX_RUNS, START_CONCURRENCY};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::DatasetName;
use sobench_report::contenders::Load;
use sobench_statistics::Z_95;

/// Bounds of the default of `--num-prompts` in a sweep, the smallest number of requests of a run.
const LEAST_PROMPTS: usize = 100;
const MOST_PROMPTS: usize = 1000;

/// The largest number of requests that `--sweep-duration` gives a run.
const MAX_REQUESTS: f64 = 100_000.0;

/// What is necessary to plan further runs.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    /// Least time of the schedule of each run.
    duration_s: f64,
    /// The flags of each contender.
    flags: Vec<BenchArgs>,
    datasets: Vec<DatasetName>,
}

/// Checks the flags of a sweep. Returns the load of the first run.
///
/// # Errors
/// There is no objective, or a flag does not apply.
pub(super) fn first_load(flags: &BenchArgs) -> Result<Load> {
    if flags.output.goodput.is_empty() {
        return Err(Error::usage("--sweep needs an objective").hint(
            "give the latencies that users accept, in milliseconds, e.g. --goodput ttft:200 tpot:50",
        ));
    }
    if flags.output.goodput.iter().any(|pair| pair == "valid") {
        return Err(Error::usage(
            "--sweep checks validity itself, for constrained requests only: --goodput valid",
        )
        .hint("leave valid out"));
    }
    let duration_s = flags.matrix.sweep_duration;
    if !(duration_s > 0.0 && duration_s <= 86_400.0) {
        return Err(Error::usage(format!(
            "--sweep-duration is not a time in seconds: {duration_s}"
        ))
        .hint("give a number above 0 and up to 86400"));
    }
    let rate = flags.traffic.request_rate;
    Ok(if rate == f64::INFINITY {
        Load::MaxConcurrency(START_CONCURRENCY)
    } else {
        Load::RequestRate(rate)
    })
}

/// The default of `--num-prompts` of a run at a rate: if all of them are good, Wilson's interval of
/// the share is above `share_percent`, within bounds. Fewer requests cannot decide that a rate is
/// sustained.
fn default_prompts(share_percent: f64) -> usize {
    let share = share_percent / 100.0;
    let requests = (Z_95 * Z_95 * share / (1.0 - share)).ceil();
    requests.clamp(LEAST_PROMPTS as f64, MOST_PROMPTS as f64) as usize
}

/// The flags of a run with a number of requests that suits its load.
pub(super) fn with_requests(flags: &BenchArgs, load: Load) -> BenchArgs {
    let mut flags = flags.clone();
    let given = flags.traffic.num_prompts;
    let requests = match load {
        Load::RequestRate(rate) => {
            let scheduled = (rate * flags.matrix.sweep_duration).min(MAX_REQUESTS);
            given
                .unwrap_or_else(|| default_prompts(flags.matrix.goodput_share))
                .max(scheduled.ceil() as usize)
        }
        Load::AsGiven | Load::MaxConcurrency(_) => given.unwrap_or(LEAST_PROMPTS),
    };
    flags.traffic.num_prompts = Some(requests);
    flags
}

impl SweepPlan {
    pub(super) fn new(flags: Vec<BenchArgs>, datasets: &[DatasetName]) -> Option<Self> {
        let first = flags.first().filter(|flags| flags.matrix.sweep)?;
        Some(Self {
            duration_s: first.matrix.sweep_duration,
            datasets: datasets.to_vec(),
            flags,
        })
    }
}

impl MatrixPlan {
    /// The index of a load. Its runs are planned if it is new.
    ///
    /// # Errors
    /// A run with this load is impossible.
    pub(in crate::commands::matrix) fn load_index(&mut self, load: Load) -> Result<usize> {
        if let Some(index) = self.loads.iter().position(|known| *known == load) {
            return Ok(index);
        }
        let sweep = self
            .sweep
            .as_ref()
            .ok_or_else(|| Error::internal("a load outside the plan"))?;
        let mut planned = Vec::new();
        for flags in &sweep.flags {
            let flags = with_requests(flags, load);
            let mut runs = Vec::new();
            for (dataset, name) in sweep.datasets.iter().enumerate() {
                for arm in &self.arms {
                    let all = &sweep.datasets;
                    let plan = one_run(&flags, *name, all, load, *arm)?;
                    runs.push(PlannedRun {
                        dataset,
                        load: self.loads.len(),
                        arm: *arm,
                        plan,
                    });
                }
            }
            planned.push(runs);
        }
        for (contender, runs) in self.contenders.iter_mut().zip(planned) {
            contender.runs.extend(runs);
        }
        self.loads.push(load);
        Ok(self.loads.len() - 1)
    }

    /// The largest number of runs of a sweep.
    pub(in crate::commands::matrix) fn most_sweep_runs(&self) -> usize {
        let searches = self.contenders.len() * self.datasets.len() * self.arms.len();
        searches * self.repeats * MAX_RUNS
    }

    /// What follows the first runs of a sweep; `None` without `--sweep`.
    pub(in crate::commands::matrix) fn sweep_rules(&self) -> Option<String> {
        let sweep = self.sweep.as_ref()?;
        let start = match self.loads[0] {
            Load::RequestRate(rate) => format!("each search starts at {rate} req/s"),
            Load::AsGiven | Load::MaxConcurrency(_) => format!(
                "the first run of each search measures where to start, with {START_CONCURRENCY} requests in flight"
            ),
        };
        Some(format!(
            "sweep: {start}; rates double (or halve) until {} % of the requests are within the objectives at one and not at the next, \
             and are then bisected; a rate is sustained only if the answers keep up with the requests; at most {MAX_RUNS} runs of each search, {} in all; a run at a rate lasts at least {} s, and has more \
             requests if necessary",
            self.goodput_share,
            self.most_sweep_runs(),
            sweep.duration_s
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_statistics::Rate;

    #[test]
    fn the_default_number_of_requests_can_decide() {
        for share in [90.0, 97.5, 99.0, 99.5] {
            let requests = default_prompts(share);
            let low = |requests| Rate::new(requests, requests).unwrap().low_percent;
            assert!(low(requests) >= share, "{share}");
            assert!(
                requests == LEAST_PROMPTS || low(requests - 1) < share,
                "{share}"
            );
        }
        assert_eq!(default_prompts(99.0), 381);
        assert_eq!(default_prompts(1.0), LEAST_PROMPTS);
        for share in [99.99, 100.0] {
            assert_eq!(default_prompts(share), MOST_PROMPTS);
        }
    }
}
