//! Masks of several sequences at once, as a server computes them in a step. Knows no process.
//!
//! Every sequence walks its instance and starts again at its end, so that the batch is always full.
//! One step computes the masks of all sequences on all threads, which is what is timed; what was
//! masked is then committed, one after the other, untimed. Sequences start at staggered places,
//! since a batch in step with itself is not what servers see.

use std::sync::Arc;
use std::thread::available_parallelism;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::clock::{Stopwatch, measure};
use super::job::{JobError, Measuring};
use super::protocol::{BatchJob, Done, Event};
use super::record::BatchRow;
use super::spelling::spell;
use super::times::Durations;
use super::worker::Output;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask};

/// Steps that are timed.
const STEPS: usize = 512;

/// Steps before them: threads and tables are warm then.
const WARM_UP_STEPS: usize = 64;

/// Seconds after which a batch has as many steps as it has; its row says how many.
const MAX_SECONDS: u64 = 20;

/// Stack of a thread that masks.
const STACK_BYTES: usize = 16 << 20;

type Step<T> = std::result::Result<T, EngineError>;

/// Runs a batch; one in which an engine gives up is a crash of the job.
pub(super) fn run(
    measuring: &Measuring,
    job: &BatchJob,
    output: &mut Output<'_>,
) -> std::result::Result<(), JobError> {
    let threads = available_parallelism().map_or(1, usize::from);
    let pool = ThreadPoolBuilder::new()
        .num_threads(threads)
        .stack_size(STACK_BYTES)
        .build();
    let pool = pool.map_err(|error| JobError::Crashed {
        words: format!("no threads to mask in: {error}"),
    })?;
    let crashed = |error: EngineError| JobError::Crashed {
        words: error.to_string(),
    };
    let mut sequences = sequences(measuring, job).map_err(crashed)?;
    let step = steps(&pool, &mut sequences).map_err(crashed)?;
    let masks = step.count() * sequences.len() as u64;
    let seconds = step.sum_ns() as f64 / 1e9;
    let row = BatchRow {
        engine: measuring.setup.engine,
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
    output.keep(&Event::Batch(row))?;
    output.send(&Event::Done(Done::default()))
}

struct Sequence {
    grammar: Arc<dyn Grammar>,
    tokens: Arc<[TokenId]>,
    matcher: Box<dyn Matcher>,
    mask: TokenMask,
    position: usize,
}

fn sequences(measuring: &Measuring, job: &BatchJob) -> Step<Vec<Sequence>> {
    let opened = &measuring.opened;
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

fn steps(pool: &ThreadPool, sequences: &mut [Sequence]) -> Step<Durations> {
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
    fn mask(&mut self) -> Step<()> {
        self.matcher.mask(&mut self.mask)
    }

    /// Takes the next token; after the last one, starts again.
    fn advance(&mut self) -> Step<()> {
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
