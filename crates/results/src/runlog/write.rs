//! Writes a run log while the run goes on, on a thread of its own. Knows no clock and no server.
//!
//! The timed path hands an observation over by a channel and goes on. What waits there is not
//! bounded, since a disk that stalls must not stall the run; how much ever waited is known
//! afterwards. The buffer goes to the file whenever nothing waits, and at
//! [`FLUSH_BYTES`]: a process that is killed loses what was in flight, and the lines of the last moment of a busy run.
//!
//! Where the file cannot be written any more, the rest of the log goes on in memory, so that the
//! report loses nothing.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::SystemTime;

use super::line::{
    self, HeaderLine, JudgedLine, Line, MAX_LINE_BYTES, Numbers, RequestLine, Shared,
};
use super::{Footer, Judged, Source, VERSION};
use crate::record::RunRecord;
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::Error;
use sobench_core::observation::{Advice, Observation, Outcome};
use sobench_core::run_event::RunEvent;
use sobench_notices::notice::Notice;

/// The buffer goes to the file at this size, though more waits to be written.
const FLUSH_BYTES: usize = 64 << 10;

/// A secret shorter than this is none that could be told from other text.
const MIN_SECRET_BYTES: usize = 8;

/// Who may read the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The user alone: mode 0600 (Unix).
    Private,
    /// As the system has it.
    Usual,
}

/// A log that grows: in a file, in memory, or first in the one and then in the other.
#[derive(Debug, Default)]
pub struct Sink {
    file: Option<File>,
    path: Option<PathBuf>,
    on_disk: u64,
    buffer: Vec<u8>,
    memory: Vec<u8>,
    failure: Option<Error>,
    /// A failure that nobody was told of yet.
    untold: Option<Error>,
}

/// The run's end of the channel.
pub struct EventSender {
    events: Sender<RunEvent>,
    waiting: Arc<Waiting>,
}

/// The writer's end.
pub struct EventReceiver {
    events: Receiver<RunEvent>,
    waiting: Arc<Waiting>,
}

/// How many bytes of answers wait to be written, about.
#[derive(Debug, Default)]
struct Waiting {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Values that must not reach a file: the API key and the values of headers.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

/// A channel from the run to its writer.
pub fn event_channel() -> (EventSender, EventReceiver) {
    let (sender, events) = channel();
    let waiting = Arc::new(Waiting::default());
    (
        EventSender {
            events: sender,
            waiting: Arc::clone(&waiting),
        },
        EventReceiver { events, waiting },
    )
}

impl EventSender {
    /// Hands an event to the writer. The log has lines for the start and for the ends of requests.
    pub fn send(&self, event: RunEvent) {
        let weight = weight(&event);
        let now = self.waiting.now.fetch_add(weight, Ordering::Relaxed) + weight;
        self.waiting.most.fetch_max(now, Ordering::Relaxed);
        // The writer ends after this side only.
        let _ = self.events.send(event);
    }
}

/// The bytes of an event that count: the texts and the instants of its observation.
fn weight(event: &RunEvent) -> usize {
    let RunEvent::Ended(observation) = event else {
        return 0;
    };
    let timing = &observation.timing;
    let instants = timing.chunks_ns.len() + timing.chunk_tokens.len();
    size_of::<Observation>() + observation.answer.len() + instants * size_of::<u64>()
}

impl Secrets {
    /// Keeps what is long enough to be known again; of `Bearer KEY` the key as well.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let words = values
            .into_iter()
            .flat_map(|value| [Some(value), value.split_whitespace().next_back()]);
        let mut secrets: Vec<String> = words
            .flatten()
            .filter(|value| value.len() >= MIN_SECRET_BYTES)
            .map(str::to_owned)
            .collect();
        secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// Takes them out of a text.
    fn redact_text(&self, text: &mut String) {
        if let Some(redacted) = self.redacted(text) {
            *text = redacted;
        }
    }

    /// A text without them.
    pub fn redacted(&self, text: &str) -> Option<String> {
        let found = self.0.iter().any(|secret| text.contains(secret.as_str()));
        found.then(|| {
            self.0.iter().fold(text.to_owned(), |text, secret| {
                text.replace(secret.as_str(), "***")
            })
        })
    }

    /// Takes them out of what a server said before the run.
    fn redact_record(&self, record: &mut RunRecord) {
        for held in &mut record.enforcement.findings {
            self.redact_text(&mut held.words);
        }
        for notice in &mut record.notices {
            if let Some(redacted) = self.redacted(&notice.to_string()) {
                *notice = Notice::Other(redacted);
            }
        }
    }

    /// Takes them out of a server's own words: a body that refuses a key may quote it.
    fn redact(&self, outcome: &mut Outcome) {
        if let Outcome::Rejected {
            advice: Some(advice),
            ..
        }
        | Outcome::ServerError {
            advice: Some(advice),
            ..
        } = outcome
        {
            let (Advice::RetryAfter(value) | Advice::Location(value)) = advice;
            self.redact_text(value);
        }
        if let Outcome::Rejected { body: words, .. }
        | Outcome::ServerError { body: words, .. }
        | Outcome::StreamError { message: words }
        | Outcome::Transport { message: words, .. } = outcome
        {
            self.redact_text(words);
        }
    }
}

/// How a writer goes about it.
pub struct Writing<'w, 'c> {
    /// Complete except for the start.
    pub record: RunRecord,
    /// Opens the log when the run begins, which may name it.
    pub open: &'w (dyn Fn(&RunRecord) -> Sink + Sync),
    /// The begin in ISO 8601, as the header spells it.
    pub spell: fn(SystemTime) -> String,
    /// The case of a request and its id, which tells the lap where cases go round.
    pub case_of: &'w (dyn Fn(usize) -> Option<(&'c Case, String)> + Sync),
    pub secrets: &'w Secrets,
    /// Is told at once that the file cannot be written.
    pub failed: &'w (dyn Fn(&Error) + Sync),
}

impl Writing<'_, '_> {
    /// Writes until the sender is dropped; returns the log, and the most bytes that ever waited.
    pub fn write(mut self, receiver: EventReceiver) -> (Sink, usize) {
        let EventReceiver { events, waiting } = receiver;
        let mut sink = Sink::in_memory();
        let mut numbering = Numbering::default();
        loop {
            let next = match events.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.flush(&mut sink);
                    events.recv().ok()
                }
                other => other.ok(),
            };
            let Some(event) = next else { break };
            let weight = weight(&event);
            match event {
                RunEvent::Started { at, clock } => {
                    if let Some(shard) = &mut self.record.shard {
                        shard.clock = clock;
                    }
                    self.starts(at);
                    sink = (self.open)(&self.record);
                    sink.push(&Line::Header(HeaderLine {
                        version: VERSION,
                        record: &self.record,
                    }));
                }
                RunEvent::Ended(observation) => self.ended(*observation, &mut numbering, &mut sink),
                RunEvent::Sent { .. } | RunEvent::Tripped(_) => {}
            }
            waiting.now.fetch_sub(weight, Ordering::Relaxed);
            if sink.buffer.len() >= FLUSH_BYTES {
                self.flush(&mut sink);
            }
        }
        self.flush(&mut sink);
        (sink, waiting.most.load(Ordering::Relaxed))
    }

    fn flush(&self, sink: &mut Sink) {
        if let Some(error) = sink.flush() {
            (self.failed)(&error);
        }
    }

    fn starts(&mut self, at: SystemTime) {
        let since = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.record.started_unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.record.started = (self.spell)(at);
        self.secrets.redact_record(&mut self.record);
    }

    fn ended(&self, mut observation: Observation, numbering: &mut Numbering, sink: &mut Sink) {
        self.secrets.redact(&mut observation.outcome);
        // A case that nobody planned cannot come back; were it to, its request would be missing,
        // and the footer's count tell.
        let Some((case, id)) = (self.case_of)(observation.case_index) else {
            return;
        };
        let numbers = numbering.of(case, sink);
        sink.push(&Line::Request(Box::new(RequestLine::of(
            case,
            &id,
            numbers,
            &observation,
        ))));
    }
}

impl Sink {
    /// A file; one of that name is written over.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path, access: Access) -> io::Result<Self> {
        Self::open(
            OpenOptions::new().write(true).create(true).truncate(true),
            path,
            access,
        )
    }

    /// A new file.
    ///
    /// # Errors
    /// It cannot be made, or there is one of that name.
    pub fn create_new(path: &Path, access: Access) -> io::Result<Self> {
        Self::open(
            OpenOptions::new().write(true).create_new(true),
            path,
            access,
        )
    }

    fn open(options: &mut OpenOptions, path: &Path, access: Access) -> io::Result<Self> {
        #[cfg(unix)]
        if access == Access::Private {
            std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
        }
        #[cfg(not(unix))]
        let _ = access;
        Ok(Self {
            file: Some(options.open(path)?),
            path: Some(path.to_owned()),
            ..Self::default()
        })
    }

    /// A log in memory alone.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// A log in memory, because there is no writing to its file.
    pub fn failed(error: Error) -> Self {
        Self {
            untold: Some(error.clone()),
            failure: Some(error),
            ..Self::default()
        }
    }

    /// The file, whether it could be written to the end or not.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Why the file is not whole.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// The file has another name from now on.
    pub fn renamed(&mut self, path: PathBuf) {
        self.path = Some(path);
    }

    /// Adds the verdicts, the end of the run's log.
    ///
    /// Returns why the file could not be written, if it could not now.
    pub fn finish(
        &mut self,
        judged: impl IntoIterator<Item = (usize, Judged)>,
        footer: &Footer,
    ) -> Option<Error> {
        let mut failed = None;
        for (index, judged) in judged {
            self.push(&Line::Judged(JudgedLine {
                index,
                judged: &judged,
            }));
            failed = self.flush_some().or(failed);
        }
        self.push(&Line::Footer(footer));
        self.flush().or(failed)
    }

    /// What has been written, for reading: the sink is done with once it is read to the end.
    pub fn source(&mut self) -> Source {
        let file = self.path.clone().map(|path| (path, self.on_disk));
        Source::parts(file, std::mem::take(&mut self.memory))
    }

    pub(super) fn push(&mut self, line: &Line<'_>) {
        self.push_bytes(line::bytes(line));
    }

    /// Adds a line with its end.
    pub(super) fn push_bytes(&mut self, mut bytes: Vec<u8>) {
        if bytes.len() > MAX_LINE_BYTES && self.failure.is_none() {
            let place = self.path.as_deref().unwrap_or(Path::new("memory"));
            self.fail(Error::environment(format!(
                "a line of the run log is longer than {MAX_LINE_BYTES} bytes: {}",
                place.display()
            )));
        }
        self.buffer.append(&mut bytes);
    }

    /// Moves the buffer to the file where it is large enough to be worth it.
    pub(super) fn flush_some(&mut self) -> Option<Error> {
        if self.buffer.len() >= FLUSH_BYTES {
            self.flush()
        } else {
            None
        }
    }

    /// Moves the buffer to the file, or to memory where there is none or it failed. Returns a
    /// failure when it happens.
    pub(super) fn flush(&mut self) -> Option<Error> {
        if let Some(file) = &mut self.file {
            match file.write_all(&self.buffer) {
                Ok(()) => {
                    self.on_disk += self.buffer.len() as u64;
                    self.buffer.clear();
                }
                Err(error) => {
                    // Half a line may stand at its end; where it cannot be taken away, readers
                    // leave it out.
                    let _ = file.set_len(self.on_disk);
                    let path = self.path.clone().unwrap_or_default();
                    self.fail(cannot_write(&path, &error));
                }
            }
        }
        // Nothing is left of it where the file took it.
        self.memory.append(&mut self.buffer);
        self.untold.take()
    }

    fn fail(&mut self, error: Error) {
        self.file = None;
        self.untold = Some(error.clone());
        self.failure = Some(error);
    }
}

/// What is said where a file cannot be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::environment(format!(
        "the run log cannot be written ({error}): {}",
        path.display()
    ))
    .hint("give --run-log a file that can be written to, or --no-run-log")
}

/// Numbers of what requests share, by address: the cases keep it alive.
#[derive(Default)]
struct Numbering {
    prompts: HashMap<usize, u32>,
    constraints: HashMap<usize, u32>,
    oracles: HashMap<usize, u32>,
}

impl Numbering {
    /// The numbers of a case's shared parts, which are written where they are new.
    fn of(&mut self, case: &Case, sink: &mut Sink) -> Numbers {
        let prompt = number(
            &mut self.prompts,
            address_of(&case.prompt),
            sink,
            |number| {
                Line::Prompt(Shared {
                    number,
                    sha256: None,
                    is: &case.prompt,
                })
            },
        );
        let constraint = case.constraint.as_ref().map(|constraint| {
            number(
                &mut self.constraints,
                Arc::as_ptr(constraint) as usize,
                sink,
                |number| {
                    Line::Constraint(Shared {
                        number,
                        sha256: Some(Constraint::fingerprint(constraint)),
                        is: constraint,
                    })
                },
            )
        });
        let oracle = case.grammar_oracle.as_ref().map(|oracle| {
            number(
                &mut self.oracles,
                oracle.as_ptr() as usize,
                sink,
                |number| {
                    Line::Oracle(Shared {
                        number,
                        sha256: None,
                        is: oracle,
                    })
                },
            )
        });
        Numbers {
            prompt,
            constraint,
            oracle,
        }
    }
}

fn number<'a>(
    known: &mut HashMap<usize, u32>,
    address: usize,
    sink: &mut Sink,
    line: impl FnOnce(u32) -> Line<'a>,
) -> u32 {
    let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
    *known.entry(address).or_insert_with(|| {
        sink.push(&line(next));
        next
    })
}

fn address_of(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Text(text) => text.as_ptr() as usize,
        Prompt::Messages(messages) => messages.as_ptr() as usize,
        Prompt::Audio(clip) => Arc::as_ptr(clip) as usize,
        // The query is everybody's; the documents are a case's own.
        Prompt::Ranking { documents, .. } => documents.as_ptr() as usize,
    }
}
