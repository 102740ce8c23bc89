//! Aggregates the runs of a matrix: repeats are pooled, and constrained requests are paired with
//! their controls.

mod pooled;
mod schemas;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use self::pooled::{pooled_rate, pooled_values, summary};
use self::schemas::{SchemaRows, disagreements, refusals, schema_rows};
use super::run_order::Step;
use crate::commands::bench::options::Target;
use crate::commands::bench::run::{Finished, FirstUse, ServerHistory};
use crate::commands::matrix::findings::{Finding, findings};
use crate::commands::matrix::options::{ContenderServer, InterleavedReason, MatrixPlan, Order};
use crate::commands::matrix::sweep::Decision;
use crate::commands::matrix::sweep::backlog::Backlog;
use crate::commands::matrix::verdicts::batches::{CellDecoding, Decoding};
use crate::commands::matrix::verdicts::{CellEvidence, verdicts};
use sobench_core::case::Arm;
use sobench_core::dates::iso_8601;
use sobench_core::distinct::distinct;
use sobench_core::error::{Error, ErrorKind, Result};
use sobench_core::exit_codes::{CHECK_FAILED, SUCCESS, UNDECIDED};
use sobench_core::printable::printable_message;
use sobench_facts::Sample;
use sobench_notices::enforcement::State;
use sobench_notices::notice::{MatrixNotice, Notice};
use sobench_plan::record::{Engine, RunRecord};
use sobench_report::contenders::capacity::{Capacity, CapacityRow, Sweep, SweepStep};
use sobench_report::contenders::charts::InvalidReason;
use sobench_report::contenders::sides::TAIL;
use sobench_report::contenders::{
    ColdFrom, Comparison, Control, FORMAT, FORMAT_VERSION, Figures, KneeRow, Load,
    MatrixConditions, MatrixRun, Row, RowResult,
};
use sobench_report::refusals::of_only_constraint;
use sobench_results::compare::read::run_from_log;
use sobench_results::compare::requests::{RequestView, Requests};
use sobench_results::compare::side::{Run, Side};
use sobench_results::metrics::cold_load::COLD_TAG;
use sobench_results::metrics::examples::Group;
use sobench_results::metrics::first_uses;
use sobench_results::metrics::knee::knee;
use sobench_results::metrics::pooled::Pooled;
use sobench_results::metrics::registry::{Metric, Value, Values, latencies, rates, totals};
use sobench_runlog::RunLog;
use sobench_statistics::{Rate, Summary, mean};

/// The reason of a run that the user stopped. It does not apply to other runs.
const INTERRUPTED: &str = "interrupted";

/// The values that the comparison needs of one run.
pub(super) struct RunSamples {
    run: Run,
    /// The finding on each of its requests.
    findings: Vec<Finding>,
    /// The values of each pooled metric, by answer.
    pooled: Vec<(&'static Metric, Pooled)>,
    cold_ttft_ms: Vec<f64>,
    warm_ttft_ms: Vec<f64>,
    backlog: Option<Backlog>,
    /// The message with which the server refused the only constraint.
    only_refusal: Option<Arc<str>>,
    /// Fingerprints of the constraints that the server has received so far.
    pub(super) sent: HashSet<String>,
}

impl RunSamples {
    /// Its requests, each with its finding.
    fn found(&self) -> impl Iterator<Item = (RequestView<'_>, &Finding)> {
        let requests = self.run.requests.iter().flat_map(Requests::iter);
        requests.zip(&self.findings)
    }

    /// The values of its requests in a distribution.
    fn values(&self, metric: &'static Metric) -> impl Iterator<Item = f64> {
        let requests = self.run.requests.iter();
        requests
            .flat_map(|requests| requests.in_distribution(metric))
            .flatten()
    }
}

/// A finished run with its metrics.
struct FinishedRun {
    repeat: usize,
    samples: RunSamples,
    duration_s: f64,
    requests: usize,
    values: Values,
    /// Requests that were valid and met every objective.
    valid_good: Option<Rate>,
    /// Requests that met every objective.
    good: Option<Rate>,
    first_use: Option<FirstUse>,
    record: RunRecord,
    /// The engine with its counters.
    engine: Option<Engine>,
    /// Reasons of invalid constrained answers.
    reasons: Vec<Group>,
    /// Whether the client distorted the latencies.
    is_distrusted: bool,
}

/// The runs of one row of the table.
#[derive(Default)]
struct Cell {
    constrained: Vec<FinishedRun>,
    control: Vec<FinishedRun>,
    /// The values of each pooled metric in all constrained runs, by answer.
    pooled: Vec<(&'static Metric, Pooled)>,
    failures: Vec<String>,
}

/// The runs so far.
#[derive(Default)]
pub(super) struct Aggregate {
    /// By dataset, contender and load.
    cells: BTreeMap<(usize, usize, usize), Cell>,
    runs: Vec<MatrixRun>,
    notices: Vec<Notice>,
    /// Datasets and contenders whose first run met nothing but refusals of its only constraint: the
    /// message, and the number of runs that were left out since.
    refusing: BTreeMap<(usize, usize), (String, usize)>,
    /// The searches of `--sweep`, by dataset, contender and whether they are control runs.
    sweeps: BTreeMap<(usize, usize, bool), Vec<Sweep>>,
    /// The exit code of the runs' thresholds, and of their clients under `--strict-client`.
    pub(super) threshold: u8,
    /// Whether a result or a log could not be written.
    pub(super) has_write_failure: bool,
}

impl RunSamples {
    /// Takes the values of every request of a run.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(super) fn new(log: &RunLog, past: &ServerHistory) -> Result<Self> {
        let (samples, options) = (log.requests.samples(), &log.record.settings.metrics);
        let known: HashSet<String> = log.record.known_constraints.iter().cloned().collect();
        let (first_ttft_ms, warm_ttft_ms) = first_uses::ttfts(&samples, options, &known);
        let cold_ttft_ms = if past.is_whole {
            first_ttft_ms
        } else {
            // Other clients may have used the server before. Only schemas that no server has seen
            // are certainly new to it.
            let is_new = |sample: &&Sample<'_>| {
                let mut tags = sample.request_input().tags.iter();
                tags.any(|tag| tag == COLD_TAG)
            };
            let new: Vec<Sample<'_>> = samples.iter().filter(is_new).copied().collect();
            first_uses::ttfts(&new, options, &known).0
        };
        let pooled = Metric::ALL
            .iter()
            .filter_map(|metric| Some((*metric, metric.pooled(&samples, options)?)))
            .collect();
        let sent = &first_uses::fingerprints(&samples) | &known;
        let times = samples.iter().map(Sample::request_times);
        let backlog = Backlog::new(times.map(|times| (times.due_ns, times.end_ns)).collect());
        Ok(Self {
            backlog,
            only_refusal: of_only_constraint(&samples).map(|refused| refused.message),
            run: run_from_log("this run", log)?,
            findings: findings(&samples, log),
            pooled,
            cold_ttft_ms,
            warm_ttft_ms,
            sent,
        })
    }
}

impl Cell {
    /// The values of a metric in the control run of the same repeat, by case.
    fn control_of(&self, run: &FinishedRun, metric: &'static Metric) -> HashMap<usize, f64> {
        let control = self.control.iter();
        let control = control
            .filter(|control| control.repeat == run.repeat)
            .take(1);
        let requests = control.flat_map(|control| control.samples.found());
        requests
            .filter_map(|(request, found)| Some((found.case, request.in_distribution(metric)?)))
            .collect()
    }

    /// Its runs, with the control runs.
    fn side(&self) -> Side {
        let runs = |runs: &[FinishedRun]| -> Vec<Run> {
            runs.iter().map(|run| run.samples.run.clone()).collect()
        };
        let controls = || Side {
            runs: runs(&self.control),
            ..Side::default()
        };
        Side {
            runs: runs(&self.constrained),
            controls: (!self.control.is_empty()).then(|| Box::new(controls())),
            ..Side::default()
        }
    }

    fn decoding(&self) -> CellDecoding {
        let mean = |runs: &[FinishedRun]| Decoding::mean(runs.iter().map(FinishedRun::decoding));
        CellDecoding {
            constrained: mean(&self.constrained),
            control: mean(&self.control),
        }
    }
}

impl FinishedRun {
    fn decoding(&self) -> Option<Decoding> {
        let tokens_per_s = self.values.number(&totals::OUTPUT_THROUGHPUT);
        Decoding::new(
            self.samples.run.requests.as_ref()?,
            self.duration_s,
            tokens_per_s,
        )
    }
}

impl Aggregate {
    /// The runs of both servers of `--matrix-order paired`; `None` if one has none.
    pub(super) fn sides(&self, plan: &MatrixPlan) -> Option<[Side; 2]> {
        let side = |contender: usize| {
            let runs = &self.cells.get(&(0, contender, 0))?.constrained;
            let side = Side {
                name: plan.contenders[contender].name.clone(),
                runs: runs.iter().map(|run| run.samples.run.clone()).collect(),
                controls: None,
            };
            (!side.runs.is_empty()).then_some(side)
        };
        Some([side(0)?, side(1)?])
    }

    /// All finished runs.
    fn finished_runs(&self) -> impl Iterator<Item = &FinishedRun> {
        let cells = self.cells.values();
        cells.flat_map(|cell| cell.control.iter().chain(&cell.constrained))
    }

    /// Whether a run has no figures.
    pub(super) fn has_failed_run(&self) -> bool {
        self.runs.iter().any(|run| run.failure.is_some())
    }

    /// Whether there is nothing to report.
    pub(super) fn is_empty(&self) -> bool {
        self.finished_runs().next().is_none()
    }

    /// Whether to leave out the run, because the server refuses the only constraint. Control runs
    /// beside other contenders are not left out: all contenders have the same load beside them.
    pub(super) fn leaves_out(&mut self, plan: &MatrixPlan, step: &Step) -> bool {
        let is_kept = step.arm == Arm::Control && plan.order.is_interleaved();
        let refusing = self.refusing.get_mut(&(step.dataset, step.contender));
        let Some((_, left_out)) = refusing.filter(|_| !is_kept) else {
            return false;
        };
        *left_out += 1;
        true
    }

    /// Adds a run that succeeded.
    pub(super) fn add_run(
        &mut self,
        step: &Step,
        mut samples: RunSamples,
        finished: &Finished,
        run: MatrixRun,
    ) {
        let report = &finished.report;
        let (metrics, values) = (&report.metrics, &report.metrics.values);
        let count = |metric: &Metric| values.count(metric);
        let sent = count(&totals::REQUESTS)
            - count(&totals::CANCELLED)
            - count(&totals::ABANDONED)
            - metrics.issues.no_connection;
        let share_of_sent = |metric: &Metric| match values.get(metric)? {
            Value::PerSecond(rate) => Rate::new(rate.count? as usize, sent),
            _ => None,
        };
        let pooled = std::mem::take(&mut samples.pooled);
        if let Some(path) = &run.run_log {
            samples.run.file.clone_from(path);
            samples.run.path = Some(path.into());
        }
        let finished_run = FinishedRun {
            repeat: step.repeat,
            samples,
            duration_s: metrics.duration_ns as f64 / 1e9,
            requests: count(&totals::REQUESTS),
            valid_good: share_of_sent(&totals::VALID_GOODPUT),
            good: share_of_sent(&totals::REQUEST_GOODPUT),
            values: values.clone(),
            first_use: finished.first_use,
            record: report.record.clone(),
            engine: report.engine.clone(),
            reasons: metrics.findings.reasons.clone(),
            is_distrusted: finished.distrust().is_some(),
        };
        // A failed threshold comes before an undecided one.
        self.threshold = match (self.threshold, finished.exit_code()) {
            (CHECK_FAILED, _) | (_, CHECK_FAILED) => CHECK_FAILED,
            (UNDECIDED, _) | (_, UNDECIDED) => UNDECIDED,
            _ => SUCCESS,
        };
        if report.record.enforcement.state == State::NotEnforced {
            let notice = MatrixNotice::RunNotEnforced {
                contender: run.contender.clone(),
                dataset: run.dataset.clone(),
                arm: step.arm.name().to_owned(),
                load: run.load.to_string(),
            };
            self.notices.push(notice.into());
        }
        self.has_write_failure |= finished.saved.is_err()
            || finished.log_failure.is_some()
            || !finished.write_failures.is_empty();
        let loads = cell_key(&Step { load: 0, ..*step })..=cell_key(&Step {
            load: usize::MAX,
            ..*step
        });
        let is_first = self
            .cells
            .range(loads)
            .all(|(_, cell)| cell.constrained.is_empty());
        let only_refusal = finished_run
            .samples
            .only_refusal
            .as_ref()
            .filter(|_| is_first);
        if let (Arm::Constrained, Some(message)) = (step.arm, only_refusal) {
            let reason = format!(
                "refuses the only constraint: {}",
                printable_message(message)
            );
            self.refusing
                .insert((step.dataset, step.contender), (reason, 0));
        }
        let cell = self.cells.entry(cell_key(step)).or_default();
        match step.arm {
            Arm::Control => cell.control.push(finished_run),
            _ => {
                cell.add_pooled(pooled);
                cell.constrained.push(finished_run);
            }
        }
        self.runs.push(MatrixRun {
            distrust: finished.distrust(),
            ..run
        });
    }

    /// Adds a run that failed or was interrupted.
    pub(super) fn add_failure(&mut self, step: &Step, error: &Error, run: MatrixRun) {
        let reason = match &error.hint {
            _ if error.kind == ErrorKind::Interrupted => INTERRUPTED.to_owned(),
            Some(hint) => format!("{} (hint: {hint})", error.what),
            None => error.what.clone(),
        };
        let cell_reason = match step.arm {
            Arm::Control if reason != INTERRUPTED => format!("the control arm: {reason}"),
            _ => reason.clone(),
        };
        self.cells
            .entry(cell_key(step))
            .or_default()
            .failures
            .push(cell_reason);
        self.runs.push(MatrixRun {
            failure: Some(reason),
            ..run
        });
    }
}

impl Aggregate {
    /// The outcome of a run of `--sweep`, or why it failed.
    pub(super) fn sweep_step(
        &self,
        plan: &MatrixPlan,
        step: &Step,
    ) -> std::result::Result<SweepStep, String> {
        let runs = self.cells.get(&cell_key(step)).map(|cell| match step.arm {
            Arm::Control => &cell.control,
            _ => &cell.constrained,
        });
        let run = runs.and_then(|runs| runs.iter().rfind(|run| run.repeat == step.repeat));
        let Some(run) = run else {
            let contender = &plan.contenders[step.contender].name;
            let mut runs = self
                .runs
                .iter()
                .rev()
                .filter(|run| run.contender == *contender);
            let refused = self.refusing.get(&(step.dataset, step.contender));
            let reason = refused.map(|(reason, _)| reason.clone());
            let reason = reason.or_else(|| runs.find_map(|run| run.failure.clone()));
            return Err(reason.unwrap_or_else(|| INTERRUPTED.to_owned()));
        };
        // A control run has no constraint to use.
        let (share, constrained) = match step.arm {
            Arm::Control => (run.good, &[][..]),
            _ => (run.valid_good, std::slice::from_ref(run)),
        };
        let share = share.ok_or_else(|| {
            "the objectives could not be checked: streamed answers with token counts are necessary"
                .to_owned()
        })?;
        let load = plan.loads[step.load];
        let backlog = run.samples.backlog;
        // Without a rate, requests wait for free slots in flight.
        let backlog = backlog.filter(|_| matches!(load, Load::RequestRate(_)));
        let decision = Decision::new(share, plan.goodput_share, backlog.as_ref());
        let (_, [cold_ttft_ms, warm_ttft_ms]) = cold_and_warm(constrained);
        Ok(SweepStep {
            load,
            requests: run.requests,
            share: Some(share),
            is_sustained: decision.is_sustained,
            is_undecided: decision.is_undecided,
            backlog_growth_percent: backlog.map(|backlog| 100.0 * backlog.growth()),
            is_behind: backlog.is_some_and(|backlog| backlog.is_behind()),
            achieved_rps: run.values.number(&totals::REQUEST_THROUGHPUT),
            output_tokens_per_s: run.values.number(&totals::OUTPUT_THROUGHPUT),
            ttft_ms: summary(&run.values, &latencies::TTFT),
            tpot_ms: summary(&run.values, &latencies::TPOT),
            cold_ttft_ms,
            warm_ttft_ms,
            is_distrusted: run.is_distrusted,
        })
    }

    pub(super) fn add_sweep(&mut self, dataset: usize, contender: usize, arm: Arm, sweep: Sweep) {
        let key = (dataset, contender, arm == Arm::Control);
        self.sweeps.entry(key).or_default().push(sweep);
    }

    /// The highest sustained rate of constrained requests.
    fn sustained(&self, dataset: usize, contender: usize) -> Option<Load> {
        let sweeps = self.sweeps.get(&(dataset, contender, false))?;
        Some(Load::RequestRate(sweeps.last()?.sustained_rps?))
    }
}

fn capacity(plan: &MatrixPlan, aggregate: &Aggregate) -> Vec<CapacityRow> {
    let mut rows = Vec::new();
    for (dataset, dataset_name) in plan.datasets.iter().enumerate() {
        for (contender, contender_plan) in plan.contenders.iter().enumerate() {
            let found = |is_control: bool| {
                let sweeps = aggregate.sweeps.get(&(dataset, contender, is_control))?;
                Some(Capacity::new(sweeps.clone()))
            };
            rows.extend(found(false).map(|constrained| {
                let names = (dataset_name.clone(), contender_plan.name.clone());
                CapacityRow::new(names.0, names.1, constrained, found(true))
            }));
        }
    }
    rows
}

impl Cell {
    fn add_pooled(&mut self, run_values: Vec<(&'static Metric, Pooled)>) {
        if self.pooled.is_empty() {
            self.pooled = run_values;
        } else {
            self.pooled
                .iter_mut()
                .zip(run_values)
                .for_each(|((_, own), (_, other))| own.merge(&other));
        }
    }
}

/// The cell of a run: dataset, contender and load.
fn cell_key(step: &Step) -> (usize, usize, usize) {
    (step.dataset, step.contender, step.load)
}

/// The entry of a run in the comparison, before the run.
pub(super) fn planned_entry(plan: &MatrixPlan, step: &Step) -> MatrixRun {
    MatrixRun {
        contender: plan.contenders[step.contender].name.clone(),
        dataset: plan.datasets[step.dataset].clone(),
        load: plan.loads[step.load],
        arm: step.arm,
        repeat: step.repeat + 1,
        run_log: None,
        result: None,
        distrust: None,
        failure: None,
    }
}

/// The comparison of the runs so far.
pub(super) fn comparison(plan: &MatrixPlan, aggregate: &Aggregate, stopped: bool) -> Comparison {
    let (mut rows, mut keys) = (Vec::new(), Vec::new());
    for (dataset, dataset_name) in plan.datasets.iter().enumerate() {
        for (contender, contender_plan) in plan.contenders.iter().enumerate() {
            for (load, level) in plan.loads.iter().enumerate() {
                // Most rates of a sweep differ between contenders. The first is common to all.
                let is_at_capacity = || aggregate.sustained(dataset, contender) == Some(*level);
                if plan.sweep.is_some() && load > 0 && !is_at_capacity() {
                    continue;
                }
                let key = (dataset, contender, load);
                rows.push(Row {
                    dataset: dataset_name.clone(),
                    contender: contender_plan.name.clone(),
                    load: *level,
                    result: row_result(aggregate, key),
                });
                keys.push(key);
            }
        }
    }
    let SchemaRows { schemas, features } = schema_rows(plan, aggregate);
    Comparison {
        format: FORMAT,
        format_version: FORMAT_VERSION,
        record: conditions(plan, aggregate, stopped),
        knees: knees(plan, &rows),
        capacity: capacity(plan, aggregate),
        schemas,
        features,
        disagreements: disagreements(plan, aggregate),
        notices: notices(plan, aggregate, &rows),
        verdicts: verdicts(&evidence(aggregate, &keys, &rows)),
        rows,
        runs: aggregate.runs.clone(),
    }
}

/// The runs of every row, to compare contenders. `keys` are those of the rows' cells.
fn evidence<'a>(
    aggregate: &'a Aggregate,
    keys: &[(usize, usize, usize)],
    rows: &'a [Row],
) -> Vec<CellEvidence<'a>> {
    let cell_evidence = |(key, row): (&(usize, usize, usize), &'a Row)| {
        let cell = aggregate.cells.get(key);
        let run = cell.and_then(|cell| cell.constrained.first());
        let runs = || cell.into_iter().flat_map(|cell| &cell.constrained);
        CellEvidence {
            side: cell.map(Cell::side).unwrap_or_default(),
            findings: runs().flat_map(|run| &run.samples.findings).collect(),
            compile_ms: runs().filter_map(compile_ms).collect(),
            dataset: &row.dataset,
            contender: &row.contender,
            load: row.load,
            output_len: run.map_or(0, |run| run.record.settings.dataset.output_len),
            decoding: cell.map(Cell::decoding).unwrap_or_default(),
            invalid_reason: row.figures().and_then(|figures| {
                let (_, message) = figures.reasons.first()?.described()?;
                Some(message)
            }),
            failure: match &row.result {
                RowResult::DidNotRun { reason } => Some(reason),
                RowResult::Measured(_) => None,
            },
        }
    };
    keys.iter().zip(rows).map(cell_evidence).collect()
}

/// TTFT of first uses of constraints minus that of later uses: of the single requests before the
/// run, or else in the run.
fn compile_ms(run: &FinishedRun) -> Option<f64> {
    if let Some(first_use) = run.first_use {
        return Some(first_use.cold_ttft_ms - first_use.warm_ttft_ms);
    }
    Some(mean(&run.samples.cold_ttft_ms)? - mean(&run.samples.warm_ttft_ms)?)
}

/// The result of a cell. A cell without runs takes the reason of another cell of the contender that
/// failed.
fn row_result(aggregate: &Aggregate, cell_key: (usize, usize, usize)) -> RowResult {
    let (dataset, contender, _) = cell_key;
    let cell = aggregate.cells.get(&cell_key);
    let refused = aggregate.refusing.get(&(dataset, contender));
    let refused = refused.map(|(reason, _)| reason);
    if let Some(figures) = cell.and_then(figures) {
        return RowResult::Measured(Box::new(Figures {
            only_refusal: refused.cloned(),
            ..figures
        }));
    }
    let own = cell.and_then(|cell| cell.failures.first()).or(refused);
    let others = || {
        let cells = aggregate.cells.iter();
        cells.filter(|((_, owner, _), _)| *owner == contender)
    };
    let same_dataset = others().filter(|((owner, ..), _)| *owner == dataset);
    let mut failures = same_dataset
        .chain(others())
        .flat_map(|(_, cell)| &cell.failures);
    let reason = own.or_else(|| failures.find(|reason| *reason != INTERRUPTED));
    RowResult::DidNotRun {
        reason: reason
            .map_or("stopped before this run", String::as_str)
            .to_owned(),
    }
}

/// The figures of a row; `None` without a constrained run.
fn figures(cell: &Cell) -> Option<Figures> {
    let runs = &cell.constrained;
    let first = runs.first()?;
    let values = pooled_values(runs, &cell.pooled);
    let (cold_from, [cold_ttft_ms, warm_ttft_ms]) = cold_and_warm(runs);
    let engine = first.engine.as_ref();
    let all_runs = runs.iter().chain(&cell.control);
    let (decoding, found) = (cell.decoding(), Figures::of_side(&cell.side(), true));
    let is_held_up = decoding.held_up().is_some();
    let control = found.control.map(|control| Control {
        decoding: decoding.control.map(|found| found.answers),
        ttft_added: control.ttft_added.filter(|_| !is_held_up),
        first_ttft_added: control.first_ttft_added.filter(|_| !is_held_up),
        tpot_added: control.tpot_added.filter(|_| !is_held_up),
        ..control
    });
    Some(Figures {
        correct_rate: values.rate(&rates::CORRECT_RATE),
        compliance: values.rate(&rates::COMPLIANCE),
        coverage: values.rate(&rates::COVERAGE),
        decoding: decoding.constrained.map(|found| found.answers),
        refusals: refusals(runs),
        reasons: InvalidReason::merged(runs.iter().flat_map(|run| &run.reasons)),
        valid_within_objectives: pooled_rate(runs, |run| run.valid_good),
        cold_ttft_ms,
        warm_ttft_ms,
        cold_from,
        control,
        distrusted_runs: all_runs.filter(|run| run.is_distrusted).count(),
        server_version: first.record.server.version.clone(),
        engine: engine.map(|engine| {
            engine.version.as_ref().map_or_else(
                || engine.name.clone(),
                |version| format!("{} {version}", engine.name),
            )
        }),
        metrics: values,
        ..found
    })
}

/// TTFT of first and later uses of constraints: those in the runs, or, if the runs have no first
/// use, those of the single requests before the runs. The two are never mixed, because only the
/// first are under load.
fn cold_and_warm(runs: &[FinishedRun]) -> (Option<ColdFrom>, [Summary; 2]) {
    let of_runs = |ttft_ms: fn(&RunSamples) -> &Vec<f64>| {
        let values = runs.iter().flat_map(|run| ttft_ms(&run.samples));
        Summary::new(values.copied().collect(), &[TAIL])
    };
    let of_first_uses = |ttft_ms: fn(FirstUse) -> f64| {
        let first_uses = runs.iter().filter_map(|run| run.first_use);
        Summary::new(first_uses.map(ttft_ms).collect(), &[TAIL])
    };
    let in_runs = [
        of_runs(|run| &run.cold_ttft_ms),
        of_runs(|run| &run.warm_ttft_ms),
    ];
    let alone = [
        of_first_uses(|ttft| ttft.cold_ttft_ms),
        of_first_uses(|ttft| ttft.warm_ttft_ms),
    ];
    match (in_runs[0].n, alone[0].n) {
        (1.., _) => (Some(ColdFrom::Run), in_runs),
        (0, 1..) => (Some(ColdFrom::Alone), alone),
        (0, 0) => (None, in_runs),
    }
}

fn knees(plan: &MatrixPlan, rows: &[Row]) -> Vec<KneeRow> {
    if plan.slo.is_none() || plan.loads == [Load::AsGiven] || plan.sweep.is_some() {
        return Vec::new();
    }
    let share = |row: &Row| {
        (
            row.load,
            row.figures()
                .and_then(|figures| figures.valid_within_objectives),
        )
    };
    rows.chunks(plan.loads.len())
        .filter_map(|sweep: &[Row]| {
            let shares: Vec<_> = sweep.iter().map(share).collect();
            let first = sweep.first()?;
            let knee = knee(&shares, plan.goodput_share);
            Some(KneeRow {
                dataset: first.dataset.clone(),
                contender: first.contender.clone(),
                knee,
            })
        })
        .collect()
}

fn conditions(plan: &MatrixPlan, aggregate: &Aggregate, stopped: bool) -> MatrixConditions {
    let run = plan
        .contenders
        .first()
        .and_then(|contender| contender.runs.first())
        .map(|run| &run.plan);
    let dates = aggregate.finished_runs().map(|run| run.record.date());
    let date = dates.min().and_then(|date| iso_8601(&date));
    MatrixConditions {
        date: date.map(|date| format!("{date}Z")),
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        backend: run
            .map(|run| run.settings.backend.name().to_owned())
            .unwrap_or_default(),
        servers: format!("{}{}", servers(plan), software(aggregate)),
        order: order(plan),
        interleaved: plan.order.is_interleaved(),
        num_prompts: run.map_or(0, |run| run.settings.dataset.num_prompts),
        output_len: run.map_or(0, |run| run.settings.dataset.output_len),
        seed: seed(plan),
        load: run.map_or_else(String::new, |run| run.settings.load.to_string()),
        repeats: plan.repeats,
        control: plan.arms.contains(&Arm::Control),
        goodput: plan.slo,
        goodput_share_percent: plan.goodput_share,
        partial: stopped,
    }
}

fn seed(plan: &MatrixPlan) -> u64 {
    plan.contenders
        .first()
        .and_then(|contender| contender.runs.first())
        .map_or(0, |run| run.plan.settings.dataset.seed)
}

/// The versions of servers and engines, and the model, as far as they are known: the parts of a
/// sentence.
fn software(aggregate: &Aggregate) -> String {
    let servers = || aggregate.finished_runs().map(|run| &run.record.server);
    let engines = distinct(servers().filter_map(|server| {
        let engine = server.engine.as_ref()?;
        Some(match &engine.version {
            Some(version) => format!("{} is {version}", engine.name),
            None => engine.name.clone(),
        })
    }));
    let others = || servers().filter(|server| !server.embedded);
    let versions = distinct(others().filter_map(|server| server.version.clone()));
    let models = distinct(others().map(|server| server.model_id.clone()));
    let named = [("", engines), ("version ", versions), ("model ", models)];
    named
        .iter()
        .filter(|(_, values)| !values.is_empty())
        .map(|(what, values)| format!("; {what}{}", values.join(", ")))
        .collect()
}

fn servers(plan: &MatrixPlan) -> String {
    let contender = plan.contenders.first();
    let target = contender.and_then(|contender| Some(&contender.runs.first()?.plan.target));
    if let Some(Target::Embedded(options)) = target {
        return format!(
            "the embedded server at speed {}, restarted for each run",
            options.speed
        );
    }
    let servers = match contender.map(|contender| &contender.server) {
        Some(ContenderServer::Launched { .. }) => {
            "servers started one at a time for each repeat, and stopped after their runs"
        }
        Some(ContenderServer::PerRequest) => {
            "one running server, which takes its engine from each request"
        }
        Some(ContenderServer::Embedded | ContenderServer::Running) | None => "running servers",
    };
    servers.to_owned()
}

/// A description of the order of the runs.
pub(super) fn order(plan: &MatrixPlan) -> String {
    if plan.sweep.is_some() {
        return format!(
            "{}; each search of --sweep makes one run in turn, and the order of contenders and of control and constrained runs changes from \
             turn to turn",
            plan.order
        );
    }
    let balance = match plan.repeats {
        1 => "one repeat, in the order of the table".to_owned(),
        repeats => format!(
            "over {repeats} repeats, contenders are ordered by a Williams design, and loads alternate between ascending and descending"
        ),
    };
    let arms = match (plan.arms.contains(&Arm::Control), plan.repeats) {
        (false, _) => "",
        (true, 1) => {
            "; each control run precedes its constrained run, because they share a server and one batch would hide the cost"
        }
        (true, _) => {
            "; control and constrained runs are separate, because they share a server and one batch would hide the cost; their order \
             alternates between repeats"
        }
    };
    format!("{}; {balance}{arms}", plan.order)
}

fn notices(plan: &MatrixPlan, aggregate: &Aggregate, rows: &[Row]) -> Vec<Notice> {
    let measured = || rows.iter().filter_map(Row::figures);
    let runs = || aggregate.finished_runs();
    let mut notices = aggregate.notices.clone();
    notices.extend(client_notice(&aggregate.runs));
    notices.extend(shared_machine_notice(plan));
    let mut add =
        |applies: bool, notice: MatrixNotice| notices.extend(applies.then(|| Notice::from(notice)));
    add(
        runs().any(|run| run.record.server.embedded),
        MatrixNotice::SyntheticModels,
    );
    add(
        plan.repeats % 2 == 1
            && plan.arms.len() > 1
            && plan.sweep.is_none()
            && plan
                .contenders
                .iter()
                .any(|contender| contender.server != ContenderServer::Embedded),
        MatrixNotice::ControlFirstMoreOften,
    );
    let cold_is_unknown = measured().any(|figures| figures.cold_from.is_none());
    let are_own_servers = plan.contenders.iter().all(|contender| {
        matches!(
            contender.server,
            ContenderServer::Embedded | ContenderServer::Launched { .. }
        )
    });
    let unknown = match are_own_servers {
        true => MatrixNotice::ColdTtftUnknownOfOwnServers,
        false => MatrixNotice::ColdTtftUnknown,
    };
    add(cold_is_unknown, unknown);
    add(
        measured().any(|figures| figures.ttft_ms.n > 0 && figures.tpot_ms.n == 0),
        MatrixNotice::OneTokenAnswers,
    );
    add(
        plan.loads != [Load::AsGiven] && plan.slo.is_none(),
        MatrixNotice::NoObjectives,
    );
    for ((dataset, contender), (_, runs)) in &aggregate.refusing {
        let notice = MatrixNotice::RunsLeftOut {
            contender: plan.contenders[*contender].name.clone(),
            dataset: plan.datasets[*dataset].clone(),
            runs: *runs,
        };
        add(*runs > 0, notice);
    }
    for ((dataset, contender, _), cell) in aggregate
        .cells
        .iter()
        .filter(|(_, cell)| !cell.constrained.is_empty())
    {
        for why in &cell.failures {
            let notice = MatrixNotice::RunFailed {
                contender: plan.contenders[*contender].name.clone(),
                dataset: plan.datasets[*dataset].clone(),
                why: why.clone(),
            };
            add(true, notice);
        }
    }
    notices
}

/// Warns about concurrent servers that share a machine.
fn shared_machine_notice(plan: &MatrixPlan) -> Option<Notice> {
    match &plan.order {
        Order::Interleaved(InterleavedReason::SeparateServers {
            shared_host: Some(host),
        }) => Some(MatrixNotice::SharedHost { host: host.clone() }.into()),
        Order::Interleaved(InterleavedReason::RequestedOnFewCores { cores }) => {
            Some(MatrixNotice::FewCores { cores: *cores }.into())
        }
        Order::Interleaved(_) | Order::Blocks(_) => None,
    }
}

/// Warns about runs whose latencies the client distorted.
fn client_notice(runs: &[MatrixRun]) -> Option<Notice> {
    let mut distrusted = runs
        .iter()
        .filter_map(|run| Some((run, run.distrust.as_ref()?)));
    let (run, sentence) = distrusted.next()?;
    let notice = MatrixNotice::ClientOverhead {
        runs: distrusted.count() + 1,
        all_runs: runs.len(),
        contender: run.contender.clone(),
        dataset: run.dataset.clone(),
        arm: run.arm.name().to_owned(),
        why: sentence.clone(),
    };
    Some(notice.into())
}
