//! What runs come to, put together: repeats are pooled, constrained requests are paired with their
//! controls.

mod pooled;

use std::collections::{BTreeMap, HashMap, HashSet};

use self::pooled::{added, summary, values_of};
use super::order::Step;
use crate::commands::bench::run::{Finished, FirstUse, Past};
use crate::commands::matrix::options::{AtOnce, How, MatrixOptions, Order};
use crate::commands::matrix::report::{
    ColdFrom, Comparison, Control, FORMAT, FORMAT_VERSION, Fate, Figures, KneeRow, Load,
    MatrixConditions, MatrixRun, Row, Treatment,
};
use sobench_core::error::{Error, Kind};
use sobench_core::exit_codes::NOT_KEPT;
use sobench_notices::enforcement::State;
use sobench_notices::notice::{MatrixNotice, Notice};
use sobench_results::metrics::cold_load::COLD_TAG;
use sobench_results::metrics::knee::knee;
use sobench_results::metrics::overhead::Overhead;
use sobench_results::metrics::pooled::Pooled;
use sobench_results::metrics::registry::{Metric, RequestValues, Values, latencies, rates, totals};
use sobench_results::metrics::{Sample, cold};
use sobench_results::record::{Engine, RunRecord};
use sobench_results::runlog::RunLog;
use sobench_statistics::{Rate, Summary};

/// The tail that tables show.
const TAIL: [f64; 1] = [99.0];

/// Why a run that the user stopped is in no figure; it says nothing of other runs.
const INTERRUPTED: &str = "interrupted";

/// What one run brought.
pub(super) struct Seen {
    requests: Vec<RequestOfRun>,
    /// The values of each pooled metric, by answer.
    pooled: Vec<(&'static Metric, Pooled)>,
    cold_ttft_ms: Vec<f64>,
    warm_ttft_ms: Vec<f64>,
    /// Constraints that the server was sent by now, as fingerprints.
    pub(super) sent: HashSet<String>,
}

/// What one request is in every distribution.
struct RequestOfRun {
    case: usize,
    answered: bool,
    values: RequestValues,
}

/// A run with its own metrics.
struct Done {
    repeat: usize,
    seen: Seen,
    duration_s: f64,
    requests: usize,
    values: Values,
    /// Requests that were valid and met every objective.
    within: Option<Rate>,
    first_use: Option<FirstUse>,
    record: RunRecord,
    /// The engine with what it did.
    engine: Option<Engine>,
    /// Whether the client stood in the way.
    is_distrusted: bool,
}

/// The runs of one line of the table.
#[derive(Default)]
struct Cell {
    constrained: Vec<Done>,
    control: Vec<Done>,
    /// The values of each pooled metric in all constrained runs, by answer.
    pooled: Vec<(&'static Metric, Pooled)>,
    failures: Vec<String>,
}

/// Everything that was run so far.
#[derive(Default)]
pub(super) struct Gathered {
    /// By dataset, contender and load.
    cells: BTreeMap<(usize, usize, usize), Cell>,
    runs: Vec<MatrixRun>,
    notices: Vec<Notice>,
    /// Whether a run did not keep a bound, or a client stood in the way that must not.
    pub(super) is_missed: bool,
    /// Whether a result or a log could not be written.
    pub(super) is_lost: bool,
}

impl Seen {
    /// Takes what the table needs of every request of a run.
    pub(super) fn of(log: &RunLog, past: &Past) -> Self {
        let (samples, options) = (log.requests.samples(), &log.record.settings.metrics);
        let known: HashSet<String> = log.record.known_constraints.iter().cloned().collect();
        let (first_ttft_ms, warm_ttft_ms) = cold::ttfts(&samples, options, &known);
        let cold_ttft_ms = if past.is_whole {
            first_ttft_ms
        } else {
            // Of a server that others may have asked before, only what no server can have seen is
            // known to be new to it.
            let is_new =
                |sample: &&Sample<'_>| sample.question().tags.iter().any(|tag| tag == COLD_TAG);
            let new: Vec<Sample<'_>> = samples.iter().filter(is_new).copied().collect();
            cold::ttfts(&new, options, &known).0
        };
        let request = |sample: &Sample<'_>| RequestOfRun {
            case: sample.case_index(),
            answered: sample.outcome().is_answer(),
            values: RequestValues::new(sample, options),
        };
        let requests = samples.iter().map(request).collect();
        let pooled = Metric::ALL
            .iter()
            .filter_map(|metric| Some((*metric, metric.pooled(&samples, options)?)))
            .collect();
        let sent = &cold::fingerprints(&samples) | &known;
        Self {
            requests,
            pooled,
            cold_ttft_ms,
            warm_ttft_ms,
            sent,
        }
    }
}

impl Gathered {
    /// Whether there is nothing to report.
    pub(super) fn is_empty(&self) -> bool {
        self.cells
            .values()
            .all(|cell| cell.constrained.is_empty() && cell.control.is_empty())
    }

    /// A run that did what it should.
    pub(super) fn ran(
        &mut self,
        step: &Step,
        mut seen: Seen,
        finished: &Finished,
        about: MatrixRun,
    ) {
        let report = &finished.report;
        let (metrics, overall) = (&report.metrics, &report.metrics.overall);
        let sent = overall.requests - overall.cancelled - metrics.said.not_sent;
        let pooled = std::mem::take(&mut seen.pooled);
        let done = Done {
            repeat: step.repeat,
            seen,
            duration_s: metrics.duration_ns as f64 / 1e9,
            requests: overall.requests,
            within: overall
                .throughput
                .counts
                .valid_good
                .and_then(|good| Rate::of(good as usize, sent)),
            values: metrics.values.clone(),
            first_use: finished.first_use,
            record: report.record.clone(),
            engine: report.engine.clone(),
            is_distrusted: finished.distrust().is_some(),
        };
        self.is_missed |= finished.exit_code() == NOT_KEPT;
        if report.record.enforcement.state == State::NotEnforced {
            let (contender, dataset) = (about.contender.clone(), about.dataset.clone());
            let (treatment, load) = (step.treatment.name().to_owned(), about.load.to_string());
            self.notices.push(
                MatrixNotice::RunNotEnforced {
                    contender,
                    dataset,
                    treatment,
                    load,
                }
                .into(),
            );
        }
        self.is_lost |= finished.saved.is_err()
            || finished.log_failure.is_some()
            || !finished.write_failures.is_empty();
        let cell = self.cells.entry(place(step)).or_default();
        match step.treatment {
            Treatment::Constrained => {
                cell.add_pooled(pooled);
                cell.constrained.push(done);
            }
            Treatment::Control => cell.control.push(done),
        }
        self.runs.push(MatrixRun {
            distrust: finished.distrust(),
            ..about
        });
    }

    /// A run that did not. That the user stopped it says nothing of whoever is compared.
    pub(super) fn failed(&mut self, step: &Step, error: &Error, about: MatrixRun) {
        let reason = match &error.hint {
            _ if error.kind == Kind::Interrupted => INTERRUPTED.to_owned(),
            Some(hint) => format!("{} (hint: {hint})", error.what),
            None => error.what.clone(),
        };
        let words = match step.treatment {
            Treatment::Control if reason != INTERRUPTED => format!("the control arm: {reason}"),
            Treatment::Control | Treatment::Constrained => reason.clone(),
        };
        self.cells
            .entry(place(step))
            .or_default()
            .failures
            .push(words);
        self.runs.push(MatrixRun {
            failure: Some(reason),
            ..about
        });
    }
}

impl Cell {
    fn add_pooled(&mut self, of_run: Vec<(&'static Metric, Pooled)>) {
        if self.pooled.is_empty() {
            self.pooled = of_run;
        } else {
            self.pooled
                .iter_mut()
                .zip(of_run)
                .for_each(|((_, own), (_, other))| own.merge(&other));
        }
    }
}

fn place(step: &Step) -> (usize, usize, usize) {
    (step.dataset, step.contender, step.load)
}

/// A run by its place in the plan.
pub(super) fn run_about(plan: &MatrixOptions, step: &Step) -> MatrixRun {
    MatrixRun {
        contender: plan.contenders[step.contender].name.clone(),
        dataset: plan.datasets[step.dataset].clone(),
        load: plan.loads[step.load],
        treatment: step.treatment,
        repeat: step.repeat + 1,
        run_log: None,
        result: None,
        distrust: None,
        failure: None,
    }
}

/// The table, and everything around it.
pub(super) fn comparison(plan: &MatrixOptions, gathered: &Gathered, stopped: bool) -> Comparison {
    let mut rows = Vec::new();
    for (dataset, dataset_name) in plan.datasets.iter().enumerate() {
        for (contender, it) in plan.contenders.iter().enumerate() {
            for (load, level) in plan.loads.iter().enumerate() {
                let fate = fate(plan, gathered, (dataset, contender, load));
                rows.push(Row {
                    dataset: dataset_name.clone(),
                    contender: it.name.clone(),
                    load: *level,
                    fate,
                });
            }
        }
    }
    Comparison {
        format: FORMAT,
        format_version: FORMAT_VERSION,
        about: about(plan, gathered, stopped),
        knees: knees(plan, &rows),
        notices: notices(plan, gathered, &rows),
        rows,
        runs: gathered.runs.clone(),
    }
}

/// A cell that has no run of its own may belong to a contender that was given up at another one.
fn fate(plan: &MatrixOptions, gathered: &Gathered, place: (usize, usize, usize)) -> Fate {
    let (dataset, contender, _) = place;
    let cell = gathered.cells.get(&place);
    if let Some(figures) = cell.and_then(|cell| figures(plan, cell)) {
        return Fate::Measured(Box::new(figures));
    }
    let own = cell.and_then(|cell| cell.failures.first());
    let others = || {
        gathered
            .cells
            .iter()
            .filter(|((_, owner, _), _)| *owner == contender)
    };
    let failures = |cell: &'_ Cell| {
        cell.failures
            .iter()
            .find(|reason| *reason != INTERRUPTED)
            .cloned()
    };
    let of_dataset = || {
        others()
            .filter(|((owner, ..), _)| *owner == dataset)
            .find_map(|(_, cell)| failures(cell))
    };
    let of_anywhere = || others().find_map(|(_, cell)| failures(cell));
    let reason = own.cloned().or_else(of_dataset).or_else(of_anywhere);
    Fate::DidNotRun {
        reason: reason.unwrap_or_else(|| "stopped before its turn".to_owned()),
    }
}

/// What the runs of a line came to; `None` without a constrained run.
fn figures(plan: &MatrixOptions, cell: &Cell) -> Option<Figures> {
    let runs = &cell.constrained;
    let first = runs.first()?;
    let values = values_of(runs, &cell.control, &cell.pooled);
    let (cold_from, [cold_ttft_ms, warm_ttft_ms]) = uses(runs);
    let engine = first.engine.as_ref();
    Some(Figures {
        runs: runs.len(),
        requests: runs.iter().map(|run| run.requests).sum(),
        correct_rate: values.rate(&rates::CORRECT_RATE),
        compliance: values.rate(&rates::COMPLIANCE),
        coverage: values.rate(&rates::COVERAGE),
        valid_within_objectives: added(runs, |run| run.within),
        ttft_ms: summary(&values, &latencies::TTFT),
        tpot_ms: summary(&values, &latencies::TPOT),
        e2el_ms: summary(&values, &latencies::E2EL),
        request_throughput: values.number(&totals::REQUEST_THROUGHPUT),
        output_throughput: values.number(&totals::OUTPUT_THROUGHPUT),
        valid_throughput: values.number(&totals::VALID_THROUGHPUT),
        cold_ttft_ms,
        warm_ttft_ms,
        cold_from,
        control: control(plan, cell),
        distrusted_runs: runs
            .iter()
            .chain(&cell.control)
            .filter(|run| run.is_distrusted)
            .count(),
        server_version: first.record.server.version.clone(),
        engine: engine.map(|it| {
            it.version.as_ref().map_or_else(
                || it.name.clone(),
                |version| format!("{} {version}", it.name),
            )
        }),
        metrics: values,
    })
}

/// First and later uses of constraints: those of the runs themselves, or where none was cold there,
/// those that were asked for alone. The two are never mixed, as one has a load around it and the
/// other has not.
fn uses(runs: &[Done]) -> (Option<ColdFrom>, [Summary; 2]) {
    let summary = |values: Vec<f64>| Summary::of(values, &TAIL);
    let of_runs = |of: fn(&Seen) -> &Vec<f64>| {
        summary(runs.iter().flat_map(|run| of(&run.seen).clone()).collect())
    };
    let cold = of_runs(|seen| &seen.cold_ttft_ms);
    let alone = |of: fn(FirstUse) -> f64| {
        summary(
            runs.iter()
                .filter_map(|run| run.first_use)
                .map(of)
                .collect(),
        )
    };
    let alone_cold = alone(|it| it.cold_ttft_ms);
    match (cold.n, alone_cold.n) {
        (1.., _) => (
            Some(ColdFrom::Run),
            [cold, of_runs(|seen| &seen.warm_ttft_ms)],
        ),
        (0, 1..) => (
            Some(ColdFrom::Alone),
            [alone_cold, alone(|it| it.warm_ttft_ms)],
        ),
        (0, 0) => (None, [cold, of_runs(|seen| &seen.warm_ttft_ms)]),
    }
}

fn control(plan: &MatrixOptions, cell: &Cell) -> Option<Control> {
    let runs = &cell.control;
    runs.first()?;
    let seed = seed(plan);
    let values = values_of(runs, runs, &[]);
    let overhead = |metric: &Metric| Overhead::of(&pairs(cell, metric), seed);
    Some(Control {
        runs: runs.len(),
        requests: runs.iter().map(|run| run.requests).sum(),
        control_rate: values.rate(&rates::CONTROL_RATE),
        ttft_ms: summary(&values, &latencies::TTFT),
        tpot_ms: summary(&values, &latencies::TPOT),
        output_throughput: values.number(&totals::OUTPUT_THROUGHPUT),
        ttft_overhead: overhead(&latencies::TTFT),
        tpot_overhead: overhead(&latencies::TPOT),
    })
}

/// The same request with and without its constraint, in the same repeat, where both have a value.
fn pairs(cell: &Cell, metric: &Metric) -> Vec<Vec<(f64, f64)>> {
    let value = |request: &RequestOfRun| request.values.value(metric).filter(|_| request.answered);
    let of_run = |run: &Done| {
        let control = cell
            .control
            .iter()
            .find(|control| control.repeat == run.repeat)?;
        let of_control = control.seen.requests.iter();
        let by_case: HashMap<usize, f64> = of_control
            .filter_map(|request| Some((request.case, value(request)?)))
            .collect();
        let pair = |request: &RequestOfRun| Some((value(request)?, *by_case.get(&request.case)?));
        Some(run.seen.requests.iter().filter_map(pair).collect())
    };
    cell.constrained.iter().filter_map(of_run).collect()
}

fn knees(plan: &MatrixOptions, rows: &[Row]) -> Vec<KneeRow> {
    if plan.slo.is_none() || plan.loads == [Load::AsGiven] {
        return Vec::new();
    }
    let share = |row: &Row| {
        (
            row.load,
            row.figures()
                .and_then(|figures| figures.valid_within_objectives),
        )
    };
    let of_sweep = |sweep: &[Row]| {
        let shares: Vec<_> = sweep.iter().map(share).collect();
        let first = sweep.first()?;
        let knee = knee(&shares, plan.goodput_share);
        Some(KneeRow {
            dataset: first.dataset.clone(),
            contender: first.contender.clone(),
            knee,
        })
    };
    rows.chunks(plan.loads.len()).filter_map(of_sweep).collect()
}

fn about(plan: &MatrixOptions, gathered: &Gathered, stopped: bool) -> MatrixConditions {
    let run = plan
        .contenders
        .first()
        .and_then(|it| it.runs.first())
        .map(|it| &it.plan);
    let first = gathered
        .cells
        .values()
        .flat_map(|cell| cell.control.iter().chain(&cell.constrained));
    MatrixConditions {
        date: first.map(|run| run.record.date()).min(),
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        backend: run
            .map(|run| run.settings.backend.name().to_owned())
            .unwrap_or_default(),
        servers: servers(plan).to_owned(),
        order: order(plan),
        interleaved: plan.order.is_interleaved(),
        num_prompts: run.map_or(0, |run| run.settings.dataset.num_prompts),
        output_len: run.map_or(0, |run| run.settings.dataset.output_len),
        seed: seed(plan),
        repeats: plan.repeats,
        control: plan.treatments.contains(&Treatment::Control),
        goodput: plan.slo,
        goodput_share_percent: plan.goodput_share,
        partial: stopped,
    }
}

fn seed(plan: &MatrixOptions) -> u64 {
    plan.contenders
        .first()
        .and_then(|it| it.runs.first())
        .map_or(0, |it| it.plan.settings.dataset.seed)
}

fn servers(plan: &MatrixOptions) -> &'static str {
    match plan.contenders.first().map(|it| &it.how) {
        Some(How::Embedded) => "the embedded server, started anew for each run",
        Some(How::Launched { .. }) => {
            "servers that were started one at a time, anew for each repeat, and ended after their runs"
        }
        Some(How::PerRequest) => {
            "one server that was running, which takes its engine from each request"
        }
        Some(How::Running) | None => "servers that were running",
    }
}

/// In which order the runs are made, in words.
pub(super) fn order(plan: &MatrixOptions) -> String {
    let balance = match plan.repeats {
        1 => "one repeat, in the order of the table".to_owned(),
        repeats => format!(
            "over {repeats} repeats contenders change places by a Williams design, and low and high loads from repeat to repeat"
        ),
    };
    let treatments = match (plan.treatments.contains(&Treatment::Control), plan.repeats) {
        (false, _) => "",
        (true, 1) => {
            "; each control run before its constrained one, as they share a server, and a batch would hide the cost"
        }
        (true, _) => {
            "; control and constrained runs take turns, as they share a server, and a batch would hide the cost: which is first changes \
             from repeat to repeat"
        }
    };
    format!("{}; {balance}{treatments}", plan.order)
}

fn notices(plan: &MatrixOptions, gathered: &Gathered, rows: &[Row]) -> Vec<Notice> {
    let measured = || rows.iter().filter_map(Row::figures);
    let runs = || {
        gathered
            .cells
            .values()
            .flat_map(|cell| cell.constrained.iter().chain(&cell.control))
    };
    let mut notices = gathered.notices.clone();
    notices.extend(distrusted(&gathered.runs));
    notices.extend(neighbours(plan));
    let mut add =
        |applies: bool, notice: MatrixNotice| notices.extend(applies.then(|| Notice::from(notice)));
    add(
        runs().any(|run| run.record.server.embedded),
        MatrixNotice::SyntheticModels,
    );
    add(
        plan.repeats % 2 == 1 && plan.treatments.len() > 1,
        MatrixNotice::ControlFirstMoreOften,
    );
    let has_unknown = measured().any(|figures| figures.cold_from.is_none());
    let is_ours = plan
        .contenders
        .iter()
        .all(|it| matches!(it.how, How::Embedded | How::Launched { .. }));
    add(has_unknown && !is_ours, MatrixNotice::ColdTtftUnknown);
    add(
        has_unknown && is_ours,
        MatrixNotice::ColdTtftUnknownOfOwnServers,
    );
    add(
        measured().any(|figures| figures.ttft_ms.n > 0 && figures.tpot_ms.n == 0),
        MatrixNotice::OneTokenAnswers,
    );
    add(
        plan.loads != [Load::AsGiven] && plan.slo.is_none(),
        MatrixNotice::NoObjectives,
    );
    for ((dataset, contender, _), cell) in gathered
        .cells
        .iter()
        .filter(|(_, cell)| !cell.constrained.is_empty())
    {
        for why in &cell.failures {
            let (contender, dataset) = (
                plan.contenders[*contender].name.clone(),
                plan.datasets[*dataset].clone(),
            );
            notices.push(
                MatrixNotice::RunFailed {
                    contender,
                    dataset,
                    why: why.clone(),
                }
                .into(),
            );
        }
    }
    notices
}

/// What servers that run at once may do to each other.
fn neighbours(plan: &MatrixOptions) -> Option<Notice> {
    match &plan.order {
        Order::Interleaved(AtOnce::ServersOfTheirOwn {
            shared_host: Some(host),
        }) => Some(MatrixNotice::SharedHost { host: host.clone() }.into()),
        Order::Interleaved(AtOnce::InSpiteOfCores { cores }) => {
            Some(MatrixNotice::FewCores { cores: *cores }.into())
        }
        Order::Interleaved(_) | Order::Blocks(_) => None,
    }
}

/// Runs in which the client stood in the way.
fn distrusted(runs: &[MatrixRun]) -> Option<Notice> {
    let mut distrusted = runs
        .iter()
        .filter_map(|run| Some((run, run.distrust.as_ref()?)));
    let (run, sentence) = distrusted.next()?;
    let notice = MatrixNotice::ClientInTheWay {
        runs: distrusted.count() + 1,
        all_runs: runs.len(),
        contender: run.contender.clone(),
        dataset: run.dataset.clone(),
        treatment: run.treatment.name().to_owned(),
        why: sentence.clone(),
    };
    Some(notice.into())
}
