//! Measures batches: the masks of several sequences per step, as a server computes them.
//!
//! Every sequence walks its instance and restarts at its end, so that the batch is always full. The
//! timed part of a step computes the masks of all sequences on all threads. The tokens are then
//! committed one after another, untimed. Sequences start at different positions, since servers do
//! not run sequences in lockstep.

use std::sync::Arc;
use std::thread::available_parallelism;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::clock::{Stopwatch, measure};
use super::commit::EngineResult;
use super::entry_measurer::{EntryMeasurer, JobError};
use super::protocol::{BatchJob, Done, Event};
use super::record::BatchRow;
use super::spelling::spell;
use super::times::Durations;
use super::worker::EventWriter;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask};

/// Timed steps.
const STEPS: usize = 512;

/// Untimed warm-up steps, for threads and tables.
const WARM_UP_STEPS: usize = 64;

/// Time limit of a batch in seconds; the row states how many steps were done.
const MAX_SECONDS: u64 = 20;

/// Stack size of a masking thread.
const STACK_BYTES: usize = 16 << 20;

/// Runs a batch. An engine error counts as a crash of the job.
pub(super) fn run(
    measurer: &EntryMeasurer,
    job: &BatchJob,
    output: &mut EventWriter<'_>,
) -> std::result::Result<(), JobError> {
    let threads = available_parallelism().map_or(1, usize::from);
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .stack_size(STACK_BYTES)
        .build();
    let pool = pool.map_err(|error| JobError::Crashed {
        message: format!("cannot start masking threads: {error}"),
    })?;
    let crashed = |error: EngineError| JobError::Crashed {
        message: error.to_string(),
    };
    let mut sequences = start_sequences(measurer, job).map_err(crashed)?;
    let step = run_steps(&pool, &mut sequences).map_err(crashed)?;
    let masks = step.count() * sequences.len() as u64;
    let seconds = step.sum_ns() as f64 / 1e9;
    let row = BatchRow {
        engine: measurer.setup.engine,
        sequences: sequences.len(),
        distinct: job.sources.len().min(sequences.len()),
        threads,
        masks,
        masks_per_second: if seconds > 0.0 {
            masks as f64 / seconds
        } else {
            0.0
        },
        step,
    };
    output.buffer(&Event::Batch(row))?;
    output.send(&Event::Done(Done::default()))
}

struct Sequence {
    grammar: Arc<dyn Grammar>,
    tokens: Arc<[TokenId]>,
    matcher: Box<dyn Matcher>,
    mask: TokenMask,
    position: usize,
}

fn start_sequences(measurer: &EntryMeasurer, job: &BatchJob) -> EngineResult<Vec<Sequence>> {
    let opened = &measurer.opened;
    let mut sources = Vec::new();
    for source in job.sources.iter().take(job.sequences) {
        let grammar = opened.engine.compile(&source.entry.constraint)?;
        let instance = source.entry.instances.get(source.instance);
        let text = instance
            .and_then(|instance| spell(&instance.content, source.spelling))
            .unwrap_or_default();
        let tokens: Arc<[TokenId]> = opened.vocabulary.encode(&text).into();
        sources.push((grammar, tokens));
    }
    let mut sequences = Vec::new();
    for (number, (grammar, tokens)) in sources.iter().cycle().take(job.sequences).enumerate() {
        let mut sequence = Sequence {
            grammar: Arc::clone(grammar),
            tokens: Arc::clone(tokens),
            matcher: grammar.matcher()?,
            mask: TokenMask::new(opened.vocabulary.len()),
            position: 0,
        };
        for _ in 0..(number * 7) % (tokens.len() + 1) {
            sequence.advance()?;
        }
        sequences.push(sequence);
    }
    Ok(sequences)
}

fn run_steps(pool: &ThreadPool, sequences: &mut [Sequence]) -> EngineResult<Durations> {
    let mut durations = Durations::default();
    let watch = Stopwatch::start();
    for step in 0..WARM_UP_STEPS + STEPS {
        let (masked, ns) =
            pool.install(|| measure(|| sequences.par_iter_mut().try_for_each(Sequence::mask)));
        masked?;
        if step >= WARM_UP_STEPS || watch.elapsed().as_secs() >= MAX_SECONDS {
            durations.record(ns);
        }
        if watch.elapsed().as_secs() >= MAX_SECONDS {
            break;
        }
        sequences.iter_mut().try_for_each(Sequence::advance)?;
    }
    Ok(durations)
}

impl Sequence {
    fn mask(&mut self) -> EngineResult<()> {
        self.matcher.mask(&mut self.mask)
    }

    /// Commits the next token, or restarts after the last one.
    fn advance(&mut self) -> EngineResult<()> {
        match self.tokens.get(self.position) {
            Some(token) => {
                self.matcher.commit(*token)?;
                self.position += 1;
            }
            None => {
                self.matcher = self.grammar.matcher()?;
                self.position = 0;
            }
        }
        Ok(())
    }
}
