//! The child process: opens one engine, then measures entries and reports events.
//!
//! A panic is caught and reported, and then the child exits, since a library in an inconsistent
//! state must not be measured. The child also exits after any other error. The parent starts
//! another child for the next entry.

use std::any::Any;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::clock::measure;
use super::entry_measurer::{EntryMeasurer, JobError};
use super::plan::load_vocabulary;
use super::protocol::{Event, Job, MAX_LINE_BYTES, Ready, Setup};
use super::prove::engine_session::ProofEngine;
use super::record::RESERVED_BYTES;
use super::row::Stage;
use super::{batch, proof_jobs};
use sobench_core::error::{Error, Result};
use sobench_engine::{self as engine, Engine, EngineName, Vocabulary};

/// Stack size of the working thread: compilers and validators recurse, and a stack overflow cannot
/// be caught. Only used pages take memory.
const STACK_BYTES: usize = 256 << 20;

/// The stack is part of the reserved address space, which leaves the same amount for the allocator.
const _: () = assert!(2 * STACK_BYTES as u64 <= RESERVED_BYTES);

/// Serves jobs from `input` on `output` until the end of input: `sobench-tools mask-worker`.
///
/// # Errors
/// Input that violates the protocol. A closed output is no error.
pub fn serve(input: impl Read + Send, output: impl Write + Send) -> Result<()> {
    serve_with(input, output, &|setup| {
        let vocabulary = load_vocabulary(&setup.tokenizer, setup.eos_token.as_deref())?;
        let engine = engine::open_unguarded(setup.engine, &vocabulary, &setup.policy)?;
        let bytes = Arc::new(Vocabulary::single_bytes());
        let proof_engine =
            |name: &EngineName| ProofEngine::open(*name, &setup.policy, &vocabulary, &bytes);
        let proof_engines = setup
            .prove
            .iter()
            .map(proof_engine)
            .collect::<Result<_>>()?;
        Ok(OpenedEngine {
            engine,
            vocabulary,
            bytes,
            proof_engines,
            indexes: OnceLock::new(),
        })
    })
}

/// An open engine with its vocabulary.
pub(super) struct OpenedEngine {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) vocabulary: Arc<Vocabulary>,
    /// The vocabulary of bytes.
    pub(super) bytes: Arc<Vocabulary>,
    /// Engines of the proof search.
    pub(super) proof_engines: Vec<ProofEngine>,
    /// For the engine's vocabulary and for the vocabulary of bytes.
    pub(super) indexes: OnceLock<[proof_jobs::VocabularyIndex; 2]>,
}

/// [`serve`] with a custom function that opens the engine.
pub(super) fn serve_with(
    input: impl Read + Send,
    output: impl Write + Send,
    open: &(dyn Fn(&Setup) -> Result<OpenedEngine> + Sync),
) -> Result<()> {
    thread::scope(|scope| {
        let spawned = thread::Builder::new()
            .name("worker".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || {
                Worker {
                    input: BufReader::new(input),
                    output: EventWriter(BufWriter::new(Box::new(output))),
                }
                .run(open)
            });
        let thread = spawned.map_err(|error| {
            Error::environment(format!("cannot start the worker thread: {error}"))
        })?;
        thread
            .join()
            .unwrap_or_else(|_| Err(Error::internal("the worker panicked")))
    })
}

struct Worker<'a, R> {
    input: R,
    output: EventWriter<'a>,
}

/// Writes events to the parent. The buffer is flushed before each step that can kill this process,
/// and at the end.
pub(super) struct EventWriter<'a>(BufWriter<Box<dyn Write + 'a>>);

impl EventWriter<'_> {
    /// Buffers an event until the next flush.
    pub(super) fn buffer(&mut self, event: &Event) -> std::result::Result<(), JobError> {
        serde_json::to_writer(&mut self.0, event).map_err(|_| JobError::ParentGone)?;
        self.0.write_all(b"\n").map_err(|_| JobError::ParentGone)
    }

    pub(super) fn send(&mut self, event: &Event) -> std::result::Result<(), JobError> {
        self.buffer(event)?;
        self.0.flush().map_err(|_| JobError::ParentGone)
    }

    pub(super) fn stage(&mut self, stage: Stage) -> std::result::Result<(), JobError> {
        self.send(&Event::Stage(stage))
    }
}

impl<R: BufRead> Worker<'_, R> {
    fn run(mut self, open: &dyn Fn(&Setup) -> Result<OpenedEngine>) -> Result<()> {
        let Some(line) = self.line()? else {
            return Ok(());
        };
        let setup: Setup = serde_json::from_str(&line).map_err(|error| protocol_error(&error))?;
        sobench_process::memory::die_with_parent();
        if let Some(bytes) = setup.memory_limit_bytes {
            sobench_process::memory::limit(bytes.saturating_add(RESERVED_BYTES)).map_err(
                |error| {
                    Error::environment(format!("cannot limit memory to {bytes} bytes: {error}"))
                },
            )?;
        }
        let (opened, open_ns) = measure(|| open(&setup));
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // The parent may have exited.
                let _ = self.output.send(&Event::CannotOpen {
                    what: error.what,
                    hint: error.hint,
                });
                return Ok(());
            }
        };
        let settings = opened
            .engine
            .settings()
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let ready = Ready {
            version: opened.engine.version().to_owned(),
            settings: settings.collect(),
            vocabulary: opened.vocabulary.name().to_owned(),
            vocabulary_ids: opened.vocabulary.len(),
            open_ns,
        };
        if self.output.send(&Event::Ready(ready)).is_err() {
            return Ok(());
        }
        let mut measurer = EntryMeasurer::new(opened, setup);
        while let Some(line) = self.line()? {
            let job: Job = match serde_json::from_str(&line) {
                Ok(job) => job,
                Err(error) => {
                    let _ = self.output.send(&Event::Unreadable {
                        message: error.to_string(),
                    });
                    return Err(protocol_error(&error));
                }
            };
            let output = &mut self.output;
            let done = catch_unwind(AssertUnwindSafe(|| match &job {
                Job::Entry(entry) => measurer.measure_entry(entry, output),
                Job::Batch(batch) => batch::run(&measurer, batch, output),
                Job::Prove(_) | Job::Shrink(_) | Job::Check(_) => {
                    proof_jobs::run(&measurer.opened, &job, output)
                }
            }));
            let message = match done {
                Ok(Ok(())) => continue,
                Ok(Err(JobError::ParentGone)) => return Ok(()),
                Ok(Err(JobError::Crashed { message })) => message,
                Err(panic) => panic_message(&*panic),
            };
            let _ = self.output.send(&Event::Crashed { message });
            return Ok(());
        }
        Ok(())
    }

    fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let read = (&mut self.input)
            .take(MAX_LINE_BYTES)
            .read_line(&mut line)
            .map_err(|error| protocol_error(&error))?;
        Ok((read > 0).then_some(line))
    }
}

fn protocol_error(error: &dyn std::fmt::Display) -> Error {
    Error::usage(format!("invalid input for mask-worker: {error}"))
        .hint("use sobench-tools mask, which starts this command itself")
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", message.as_deref().unwrap_or("no message"))
}

#[cfg(test)]
mod tests;
