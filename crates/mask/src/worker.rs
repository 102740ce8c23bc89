//! The child process: opens one engine, then measures one entry after another and says so as it
//! goes. Knows no file and no other process than the one at the other end of its pipes.
//!
//! A panic is caught, told and ends the child all the same: what a library leaves half done must
//! not be measured. So does whatever else goes wrong; the parent starts another child for the next
//! entry.

use std::any::Any;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::clock::measure;
use super::job::{JobError, Measuring};
use super::plan::load_vocabulary;
use super::protocol::{Event, Job, MAX_LINE_BYTES, Ready, Setup};
use super::prove::contender::Bench;
use super::record::RESERVED_BYTES;
use super::row::Stage;
use super::{batch, memory, proving};
use sobench_core::error::{Error, Result};
use sobench_engine::{self as engine, Engine, EngineName, Vocabulary};

/// Stack of the thread that works: compilers and validators recurse, and a stack overflow cannot be
/// caught. Only what is used takes memory.
const STACK_BYTES: usize = 256 << 20;

/// The stack has its place in what is granted beyond the limit, and leaves as much for the
/// allocator.
const _: () = assert!(2 * STACK_BYTES as u64 <= RESERVED_BYTES);

/// Answers the lines of `input` on `output` until there are no more; what `sobench mask-worker`
/// does.
///
/// # Errors
/// An input that does not keep to the protocol. That the other end has gone is no error.
pub fn serve(input: impl Read + Send, output: impl Write + Send) -> Result<()> {
    serve_with(input, output, &|setup| {
        let vocabulary = load_vocabulary(&setup.tokenizer, setup.eos_token.as_deref())?;
        let engine = engine::open_bare(setup.engine, &vocabulary, &setup.policy)?;
        let bytes = Arc::new(Vocabulary::of_bytes());
        let bench = |name: &EngineName| Bench::open(*name, &setup.policy, &vocabulary, &bytes);
        let benches = setup.prove.iter().map(bench).collect::<Result<_>>()?;
        Ok(Opened {
            engine,
            vocabulary,
            bytes,
            benches,
            ready: OnceLock::new(),
        })
    })
}

/// An engine and what it masks.
pub(super) struct Opened {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) vocabulary: Arc<Vocabulary>,
    /// The vocabulary of bytes.
    pub(super) bytes: Arc<Vocabulary>,
    /// The engines whose errors are proved.
    pub(super) benches: Vec<Bench>,
    /// For both vocabularies.
    pub(super) ready: OnceLock<[proving::Ready; 2]>,
}

/// [`serve`] with another way to open the engine.
pub(super) fn serve_with(
    input: impl Read + Send,
    output: impl Write + Send,
    open: &(dyn Fn(&Setup) -> Result<Opened> + Sync),
) -> Result<()> {
    thread::scope(|scope| {
        let spawned = thread::Builder::new()
            .name("worker".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || {
                Worker {
                    input: BufReader::new(input),
                    output: Output(BufWriter::new(Box::new(output))),
                }
                .run(open)
            });
        let thread = spawned
            .map_err(|error| Error::environment(format!("no thread to work in: {error}")))?;
        thread
            .join()
            .unwrap_or_else(|_| Err(Error::internal("the worker panicked")))
    })
}

struct Worker<'a, R> {
    input: R,
    output: Output<'a>,
}

/// Where events go. They are sent when the parent may need them: before something that can kill
/// this process, and at the end.
pub(super) struct Output<'a>(BufWriter<Box<dyn Write + 'a>>);

impl Output<'_> {
    /// Keeps an event until the next one that is sent.
    pub(super) fn keep(&mut self, event: &Event) -> std::result::Result<(), JobError> {
        serde_json::to_writer(&mut self.0, event).map_err(|_| JobError::Gone)?;
        self.0.write_all(b"\n").map_err(|_| JobError::Gone)
    }

    pub(super) fn send(&mut self, event: &Event) -> std::result::Result<(), JobError> {
        self.keep(event)?;
        self.0.flush().map_err(|_| JobError::Gone)
    }

    pub(super) fn stage(&mut self, stage: Stage) -> std::result::Result<(), JobError> {
        self.send(&Event::Stage(stage))
    }
}

impl<R: BufRead> Worker<'_, R> {
    fn run(mut self, open: &dyn Fn(&Setup) -> Result<Opened>) -> Result<()> {
        let Some(line) = self.line()? else {
            return Ok(());
        };
        let setup: Setup = serde_json::from_str(&line).map_err(|error| broken(&error))?;
        memory::die_with_parent();
        if let Some(bytes) = setup.memory_limit_bytes {
            memory::limit(bytes.saturating_add(RESERVED_BYTES)).map_err(|error| {
                Error::environment(format!("cannot limit memory to {bytes} bytes: {error}"))
            })?;
        }
        let (opened, open_ns) = measure(|| open(&setup));
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => {
                // The parent has heard it or is gone.
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
        let mut measuring = Measuring::new(opened, setup);
        while let Some(line) = self.line()? {
            let job: Job = match serde_json::from_str(&line) {
                Ok(job) => job,
                Err(error) => {
                    let _ = self.output.send(&Event::Unreadable {
                        words: error.to_string(),
                    });
                    return Err(broken(&error));
                }
            };
            let output = &mut self.output;
            let done = catch_unwind(AssertUnwindSafe(|| match &job {
                Job::Entry(entry) => measuring.entry(entry, output),
                Job::Batch(batch) => batch::run(&measuring, batch, output),
                Job::Prove(_) | Job::Shrink(_) | Job::Check(_) => {
                    proving::run(&measuring.opened, &job, output)
                }
            }));
            let words = match done {
                Ok(Ok(())) => continue,
                Ok(Err(JobError::Gone)) => return Ok(()),
                Ok(Err(JobError::Crashed { words })) => words,
                Err(panic) => panic_words(&*panic),
            };
            let _ = self.output.send(&Event::Crashed { words });
            return Ok(());
        }
        Ok(())
    }

    fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let read = (&mut self.input)
            .take(MAX_LINE_BYTES)
            .read_line(&mut line)
            .map_err(|error| broken(&error))?;
        Ok((read > 0).then_some(line))
    }
}

fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::usage(format!("not the protocol of mask-worker: {error}"))
        .hint("sobench starts this command itself; use sobench mask")
}

fn panic_words(panic: &(dyn Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panic: {}", words.as_deref().unwrap_or("without words"))
}

#[cfg(test)]
mod tests;
