//! Runs a measurement from plan to rows.

use std::path::Path;
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime};

use super::clock::{Stopwatch, clock_overhead_ns, wall_clock};
use super::corpus::{self, Corpora, Selected};
use super::plan::MaskPlan;
use super::protocol::{BatchJob, BatchSource, Ready, Setup};
use super::record::{BatchRow, MachineRecord, MaskRecord, MeasuredEngine, VocabularyRecord};
use super::row::{InstanceOutcome, InstanceRow, Row};
use super::rows::{Rows, RowsFile};
use super::supervise::{Batched, Supervisor};
use sobench_core::error::{Error, Result};
use sobench_core::shard::Shard;
use sobench_engine::EngineName;
use sobench_notices::notice::{MaskNotice, Notice};
use sobench_process::child::WorkerCommand;
use sobench_shutdown::Shutdown;

/// Minimum tokens of an instance in a batch; shorter ones measure mostly starts.
const MIN_BATCH_TOKENS: u32 = 16;

/// Maximum compile time in ns of an entry in a batch, since a batch compiles its entries again.
const MAX_BATCH_COMPILE_NS: u64 = 2_000_000_000;

/// Progress events.
#[derive(Clone, Debug, PartialEq)]
pub enum MaskEvent<'a> {
    /// Corpora are read and all engines were opened once: total rows, and rows resumed from the
    /// file.
    Started {
        rows: usize,
        resumed: usize,
    },
    RowDone {
        row: &'a Row,
    },
}

/// A finished or interrupted measurement.
#[derive(Clone, Debug)]
pub struct MaskRun {
    pub record: MaskRecord,
    pub batches: Vec<BatchRow>,
    pub started_at: SystemTime,
    /// Of the whole measurement, including reading corpora and batches.
    pub wall_ns: u64,
    /// Stopped by a signal; rows are missing.
    pub interrupted: bool,
    /// Notices beyond the rows.
    pub notices: Vec<Notice>,
    rows: Rows<Row>,
}

impl MaskRun {
    /// The rows, read from their file one at a time, ordered by engine in the requested order, then
    /// by entry.
    pub fn rows(&self) -> impl Iterator<Item = Result<Row>> + '_ {
        self.rows.iter()
    }

    /// Number of rows.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The rows file, if the plan names one.
    pub fn rows_path(&self) -> Option<&Path> {
        self.rows.path()
    }
}

/// Runs a plan; blocks until it is done or a shutdown is requested. `command` starts child
/// processes.
///
/// # Errors
/// An invalid plan, corpus or rows file; an engine that cannot be opened; a child process that
/// cannot be started. Rows measured before the error are in the rows file.
pub fn run(
    plan: &MaskPlan,
    command: &WorkerCommand,
    shutdown: &Shutdown,
    on_event: &dyn Fn(MaskEvent<'_>),
) -> Result<MaskRun> {
    plan.check()?;
    let (started_at, watch) = (wall_clock(), Stopwatch::start());
    let corpora = corpus::load(plan)?;
    let mut supervisors = Vec::new();
    let mut ready = Vec::new();
    for engine in &plan.engines {
        let supervisor = supervisor(plan, command, shutdown, *engine, Vec::new());
        let Some(opened) = supervisor.probe()? else {
            return Err(Error::interrupted(
                "interrupted before the first entry was measured",
            ));
        };
        supervisors.push(supervisor);
        ready.push(opened);
    }
    let record = mask_record(plan, &corpora, &ready);
    let (file, notice) = RowsFile::open(plan.rows.as_deref(), plan.resume, &record)?;
    let mut notices = corpora.notices.clone();
    notices.extend(notice);
    // Figures of one shard need a notice.
    let of_part = |shard: Shard| MaskNotice::OneShardOfEntries {
        shard: shard.number,
        shards: shard.of,
    };
    notices.extend(plan.shard.map(|shard| of_part(shard).into()));
    let mut runner = MaskRunner {
        plan,
        corpora: &corpora,
        on_event,
        shutdown,
        record,
        file,
        batches: Vec::new(),
        notices,
    };
    let rows = corpora.selected.len() * plan.engines.len();
    on_event(MaskEvent::Started {
        rows,
        resumed: runner.file.rows().len(),
    });
    for (place, supervisor) in supervisors.iter().enumerate() {
        runner.run_engine(place, supervisor)?;
    }
    let MaskRunner {
        record,
        file,
        batches,
        notices,
        ..
    } = runner;
    let interrupted = shutdown.is_requested();
    Ok(MaskRun {
        record,
        batches,
        started_at,
        wall_ns: watch.elapsed_ns(),
        interrupted,
        notices,
        rows: file.rows(),
    })
}

/// The supervisor of child processes that measure an engine, or that run the proof search for the
/// engines in `prove`.
pub(super) fn supervisor<'a>(
    plan: &MaskPlan,
    command: &'a WorkerCommand,
    shutdown: &'a Shutdown,
    engine: EngineName,
    prove: Vec<EngineName>,
) -> Supervisor<'a> {
    let setup = Setup {
        engine,
        policy: plan.policy.clone(),
        tokenizer: plan.tokenizer.clone(),
        eos_token: plan.eos_token.clone(),
        memory_limit_bytes: plan.memory_limit(),
        assert_formats: plan.assert_formats,
        warm: plan.warm,
        spellings: plan.spellings.clone(),
        drafts: plan.drafts,
        prove,
    };
    Supervisor::new(
        command,
        setup,
        Duration::from_millis(plan.timeout_ms),
        plan.jobs,
        shutdown,
    )
}

pub(super) fn mask_record(plan: &MaskPlan, corpora: &Corpora, ready: &[Ready]) -> MaskRecord {
    let engines = plan
        .engines
        .iter()
        .zip(ready)
        .map(|(engine, ready)| MeasuredEngine {
            engine: *engine,
            version: ready.version.clone(),
            settings: ready.settings.clone(),
            peak_rss_bytes: None,
            wall_ns: 0,
            open_ns: Some(ready.open_ns),
        });
    let first = ready.first();
    MaskRecord {
        engines: engines.collect(),
        corpora: corpora.record.clone(),
        selected: corpora.selected.len(),
        vocabulary: VocabularyRecord {
            name: first
                .map(|ready| ready.vocabulary.clone())
                .unwrap_or_default(),
            ids: first.map(|ready| ready.vocabulary_ids).unwrap_or_default(),
        },
        policy: plan.policy.clone(),
        spellings: plan.spellings.clone(),
        assert_formats: plan.assert_formats,
        warm: plan.warm,
        filter: plan.filter.clone(),
        limit: plan.limit,
        sample: plan.sample,
        jobs: plan.jobs,
        timeout_ms: plan.timeout_ms,
        memory_limit_bytes: plan.memory_limit(),
        drafts: plan.drafts,
        prove: plan.prove,
        shard: plan.shard,
        host: host(),
    }
}

fn host() -> MachineRecord {
    let cpu = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix("model name"))?;
            Some(line.trim_start_matches([' ', '\t', ':']).to_owned())
        });
    MachineRecord {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cpu,
        threads: available_parallelism().map_or(1, usize::from),
        clock_ns: clock_overhead_ns(),
    }
}

struct MaskRunner<'a> {
    plan: &'a MaskPlan,
    corpora: &'a Corpora,
    on_event: &'a dyn Fn(MaskEvent<'_>),
    shutdown: &'a Shutdown,
    record: MaskRecord,
    file: RowsFile<Row>,
    batches: Vec<BatchRow>,
    notices: Vec<Notice>,
}

impl MaskRunner<'_> {
    fn run_engine(&mut self, place: usize, supervisor: &Supervisor<'_>) -> Result<()> {
        if self.shutdown.is_requested() {
            return Ok(());
        }
        let engine = self.plan.engines[place];
        let pending: Vec<&Selected> = self
            .corpora
            .selected
            .iter()
            .filter(|entry| !self.file.contains_row(engine, entry.index))
            .collect();
        let watch = Stopwatch::start();
        let mut peak_rss_bytes = None;
        supervisor.run(&pending, &mut |made| {
            peak_rss_bytes = peak_rss_bytes.max(made.peak_rss_bytes);
            self.file.append(&made.row)?;
            (self.on_event)(MaskEvent::RowDone { row: &made.row });
            Ok(())
        })?;
        let resumed = pending.len() < self.corpora.selected.len();
        let started = supervisor.started() + usize::from(resumed);
        if self.plan.is_locked(engine) && started > 1 {
            let engine = engine.name().to_owned();
            self.notices.push(
                MaskNotice::EngineSelectedAgain {
                    engine,
                    processes: started,
                    resumed,
                }
                .into(),
            );
        }
        let record = &mut self.record.engines[place];
        record.peak_rss_bytes = peak_rss_bytes;
        record.wall_ns = watch.elapsed_ns();
        self.run_batches(engine, supervisor)
    }

    fn run_batches(&mut self, engine: EngineName, supervisor: &Supervisor<'_>) -> Result<()> {
        let largest = self.plan.batch_sizes.iter().copied().max().unwrap_or(0);
        // Batches select from the whole corpus.
        if largest == 0 || self.plan.shard.is_some() || self.shutdown.is_requested() {
            return Ok(());
        }
        let select_batch_sources = self.select_batch_sources(engine, largest)?;
        if select_batch_sources.is_empty() {
            let engine = engine.name().to_owned();
            self.notices.push(
                MaskNotice::NoBatchInstance {
                    engine,
                    min_tokens: MIN_BATCH_TOKENS,
                }
                .into(),
            );
            return Ok(());
        }
        for &sequences in self.plan.batch_sizes.iter().filter(|size| **size > 0) {
            let sources = select_batch_sources
                .iter()
                .take(sequences)
                .cloned()
                .collect();
            match supervisor.run_batch(BatchJob { sequences, sources })? {
                Batched::Row(row) => self.batches.push(row),
                Batched::Failed(notice) => self.notices.push(notice.into()),
                Batched::Interrupted => return Ok(()),
            }
        }
        Ok(())
    }

    /// The first valid instance of each of the first entries that the engine passes, in the first
    /// available spelling.
    fn select_batch_sources(&self, engine: EngineName, largest: usize) -> Result<Vec<BatchSource>> {
        let mut select_batch_sources = Vec::new();
        for row in self.file.rows_of(engine).iter() {
            let row = row?;
            let is_quick = row
                .compile
                .is_some_and(|compile| compile.cold_ns <= MAX_BATCH_COMPILE_NS);
            if let Some(instance) = row
                .instances
                .iter()
                .find(|instance| is_quick && is_batch_instance(instance))
                && let Some(selected) = self.corpora.selected(row.index)
            {
                let entry = serde_json::from_str(&selected.json)
                    .expect("an entry is read as it was written");
                select_batch_sources.push(BatchSource {
                    entry,
                    instance: instance.index,
                    spelling: instance.spelling,
                });
            }
            if select_batch_sources.len() == largest {
                break;
            }
        }
        Ok(select_batch_sources)
    }
}

fn is_batch_instance(instance: &InstanceRow) -> bool {
    let is_valid = instance.label != Some(false) && instance.judged != Some(false);
    is_valid && instance.outcome == InstanceOutcome::Pass && instance.tokens >= MIN_BATCH_TOKENS
}
