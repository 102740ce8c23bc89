//! Writes a run log during the run, on a separate thread.
//!
//! The timed path sends observations over a channel. The channel is unbounded, because a slow disk
//! must not delay the run; its largest fill is reported after the run. The buffer is written to the
//! file when the channel is empty and when it reaches `FLUSH_BYTES`. A killed process loses the
//! requests in flight and the buffered lines.
//!
//! If the file cannot be written, the rest of the log is kept in memory, so that the report is
//! complete.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, SystemTime};

use super::line::{
    self, HeaderLine, JudgedLine, Line, MAX_LINE_BYTES, Numbers, RepeatLine, RequestLine, Shared,
};
use super::wire::KnownShapes;
use super::{Footer, Source, VERSION};
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::Error;
use sobench_core::observation::Observation;
use sobench_core::run_event::{Repeat, RunEvent};
use sobench_core::secrets::redacted_bytes;
use sobench_core::server_sample::ServerSample;
use sobench_facts::Judged;
use sobench_plan::record::RunRecord;

/// Buffer size that forces a write while more events are waiting.
const FLUSH_BYTES: usize = 64 << 10;

/// File permissions of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Owner only: mode 0600 (Unix).
    Private,
    /// The system's default.
    Default,
}

/// A log being written: to a file, to memory, or to memory after a failure of the file.
#[derive(Debug, Default)]
pub struct Sink {
    file: Option<File>,
    path: Option<PathBuf>,
    on_disk: u64,
    buffer: Vec<u8>,
    memory: Vec<u8>,
    failure: Option<Error>,
    /// A failure that is not yet reported.
    unreported: Option<Error>,
}

/// The sender of run events.
#[derive(Clone)]
pub struct EventSender {
    events: Sender<RunEvent>,
    waiting: Arc<Waiting>,
}

/// The receiver of run events.
pub struct EventReceiver {
    events: Receiver<RunEvent>,
    waiting: Arc<Waiting>,
}

/// Approximate number of bytes of answers that wait to be written.
#[derive(Debug, Default)]
struct Waiting {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Creates the channel from the run to the log writer.
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
    /// Sends an event. Only the start and the ends of requests become lines.
    pub fn send(&self, event: RunEvent) {
        let weight = weight(&event);
        let now = self.waiting.now.fetch_add(weight, Ordering::Relaxed) + weight;
        self.waiting.most.fetch_max(now, Ordering::Relaxed);
        // The receiver outlives all senders.
        let _ = self.events.send(event);
    }
}

/// The size of an event: the texts and times of its observation.
fn weight(event: &RunEvent) -> usize {
    let observation = match event {
        RunEvent::Ended(observation) => observation,
        RunEvent::Repeated(repeat) => &repeat.observation,
        _ => return 0,
    };
    let timing = &observation.timing;
    let slack = timing.arrival_slack_ns.as_ref().map_or(0, Vec::len);
    let times = timing.chunks_ns.len() + timing.chunk_tokens.len() + 2 * slack;
    size_of::<Observation>()
        + observation.answer.len()
        + observation.answer.frames.len()
        + times * size_of::<u64>()
}

/// Writes the events of a run to a log.
pub struct LogWriter<'w, 'c> {
    /// The record, complete except for the start time.
    pub record: RunRecord,
    /// Opens the log when the run starts. The record contains the start time for its name.
    pub open: &'w (dyn Fn(&RunRecord) -> Sink + Sync),
    /// Formats the start time in ISO 8601 for the header.
    pub format_time: fn(SystemTime) -> String,
    /// The case of a request and its id, which includes the lap if cases are repeated.
    pub case_of: &'w (dyn Fn(usize) -> Option<(&'c Case, String)> + Sync),
    /// Called as soon as the file cannot be written.
    pub on_failure: &'w (dyn Fn(&Error) + Sync),
}

impl LogWriter<'_, '_> {
    /// Writes until the sender is dropped. Returns the log and the largest number of waiting bytes.
    pub fn write(mut self, receiver: EventReceiver) -> (Sink, usize) {
        let EventReceiver { events, waiting } = receiver;
        let mut sink = Sink::in_memory();
        let mut numbering = Numbering::default();
        let mut shapes = KnownShapes::default();
        // Readings of the server's page from before the start, until the header is written.
        let mut early = Vec::new();
        let mut started = None;
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
                    self.set_start(at);
                    started = Some(at);
                    sink = (self.open)(&self.record);
                    sink.push(&Line::Header(HeaderLine {
                        version: VERSION,
                        record: &self.record,
                    }));
                    for (read_at, sample) in early.drain(..) {
                        push_sample(&mut sink, at, read_at, sample);
                    }
                }
                RunEvent::ServerSampled { at, sample } => match started {
                    Some(start) => push_sample(&mut sink, start, at, *sample),
                    None => early.push((at, *sample)),
                },
                RunEvent::Ended(mut observation) => {
                    self.ended(&mut observation, &mut shapes, &mut numbering, &mut sink);
                }
                RunEvent::Repeated(repeat) => {
                    let Repeat { form, observation } = *repeat;
                    sink.push(&Line::Repeat(Box::new(RepeatLine::new(form, &observation))));
                }
                RunEvent::Sent { .. } | RunEvent::ErrorLimitReached(_) => {}
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
            (self.on_failure)(&error);
        }
    }

    fn set_start(&mut self, at: SystemTime) {
        let since = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.record.started_unix_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.record.started = (self.format_time)(at);
    }

    fn ended(
        &self,
        observation: &mut Observation,
        shapes: &mut KnownShapes,
        numbering: &mut Numbering,
        sink: &mut Sink,
    ) {
        // An unknown case cannot end. If it did, the footer's count would reveal the missing line.
        let Some((case, id)) = (self.case_of)(observation.case_index) else {
            return;
        };
        shapes.check(case, observation);
        let numbers = numbering.numbers(case, sink);
        sink.push(&Line::Request(Box::new(RequestLine::new(
            case,
            &id,
            numbers,
            observation,
        ))));
    }
}

/// Writes a reading of the server's page.
fn push_sample(sink: &mut Sink, start: SystemTime, at: SystemTime, mut sample: ServerSample) {
    let ns = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
    sample.offset_ns = match at.duration_since(start) {
        Ok(after) => ns(after),
        Err(before) => -ns(before.duration()),
    };
    sink.push(&Line::ServerMetrics(&sample));
}

impl Sink {
    /// Creates a file, and truncates an existing one.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, access: Access) -> io::Result<Self> {
        Self::open(
            OpenOptions::new().write(true).create(true).truncate(true),
            path,
            access,
        )
    }

    /// Creates a new file.
    ///
    /// # Errors
    /// The file cannot be created, or exists.
    pub fn create_new(path: &Path, access: Access) -> io::Result<Self> {
        Self::open(
            OpenOptions::new().write(true).create_new(true),
            path,
            access,
        )
    }

    fn open(options: &mut OpenOptions, path: &Path, access: Access) -> io::Result<Self> {
        if access == Access::Private {
            std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
        }
        Ok(Self {
            file: Some(options.open(path)?),
            path: Some(path.to_owned()),
            ..Self::default()
        })
    }

    /// Creates a log in memory.
    pub fn in_memory() -> Self {
        Self::default()
    }

    /// Creates a log in memory, because its file cannot be created.
    pub fn failed(error: Error) -> Self {
        Self {
            unreported: Some(error.clone()),
            failure: Some(error),
            ..Self::default()
        }
    }

    /// The path of the file, even if writing to it failed.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The error because of which the file is incomplete.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Sets the path after the file was renamed.
    pub fn set_path(&mut self, path: PathBuf) {
        self.path = Some(path);
    }

    /// Writes the verdicts and the footer.
    ///
    /// Returns the error if writing failed now.
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
            failed = self.flush_if_full().or(failed);
        }
        self.push(&Line::Footer(footer));
        self.flush().or(failed)
    }

    /// The written log, for reading. Takes the part in memory out of the sink.
    pub fn source(&mut self) -> Source {
        let file = self.path.clone().map(|path| (path, self.on_disk));
        Source::parts(file, std::mem::take(&mut self.memory))
    }

    pub(super) fn push(&mut self, line: &Line<'_>) {
        self.push_bytes(line::bytes(line));
    }

    /// Appends a line that includes its line end, without secrets.
    pub(super) fn push_bytes(&mut self, bytes: Vec<u8>) {
        let mut bytes = redacted_bytes(bytes);
        if bytes.len() > MAX_LINE_BYTES && self.failure.is_none() {
            let target = self.path.as_deref().unwrap_or(Path::new("memory"));
            self.fail(Error::environment(format!(
                "run log line exceeds {MAX_LINE_BYTES} bytes: {}",
                target.display()
            )));
        }
        self.buffer.append(&mut bytes);
    }

    /// Flushes if the buffer has reached [`FLUSH_BYTES`].
    pub(super) fn flush_if_full(&mut self) -> Option<Error> {
        if self.buffer.len() >= FLUSH_BYTES {
            self.flush()
        } else {
            None
        }
    }

    /// Writes the buffer to the file, or to memory without a usable file. Returns a new failure.
    pub(super) fn flush(&mut self) -> Option<Error> {
        if let Some(file) = &mut self.file {
            match file.write_all(&self.buffer) {
                Ok(()) => {
                    self.on_disk += self.buffer.len() as u64;
                    self.buffer.clear();
                }
                Err(error) => {
                    let end = file.stream_position().unwrap_or(0);
                    let kept = whole_lines(&self.buffer, end.saturating_sub(self.on_disk));
                    self.buffer.drain(..kept);
                    self.on_disk += kept as u64;
                    // Removes a partial line. If that fails, readers skip it.
                    let _ = file.set_len(self.on_disk);
                    let path = self.path.clone().unwrap_or_default();
                    self.fail(cannot_write(&path, &error));
                }
            }
        }
        // Empty if the file took it.
        self.memory.append(&mut self.buffer);
        self.unreported.take()
    }

    fn fail(&mut self, error: Error) {
        self.file = None;
        self.unreported = Some(error.clone());
        self.failure = Some(error);
    }
}

/// Length of the whole lines in the first `written` bytes of `lines`.
fn whole_lines(lines: &[u8], written: u64) -> usize {
    let written = usize::try_from(written).unwrap_or(usize::MAX);
    let part = &lines[..written.min(lines.len())];
    part.iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |end| end + 1)
}

/// The error for a run log that cannot be written.
pub fn cannot_write(path: &Path, error: &io::Error) -> Error {
    Error::environment(format!(
        "cannot write the run log ({error}): {}",
        path.display()
    ))
    .hint("give --run-log a writable path, or use --no-run-log")
}

/// Numbers of shared parts of requests, by address. The cases keep the addresses valid.
#[derive(Default)]
struct Numbering {
    prompts: HashMap<usize, u32>,
    constraints: HashMap<usize, u32>,
    oracles: HashMap<usize, u32>,
}

impl Numbering {
    /// The numbers of a case's shared parts. New parts are written.
    fn numbers(&mut self, case: &Case, sink: &mut Sink) -> Numbers {
        let prompt = number(&mut self.prompts, address(&case.prompt), sink, |number| {
            Line::Prompt(Shared {
                number,
                sha256: None,
                is: &case.prompt,
            })
        });
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

fn address(prompt: &Prompt) -> usize {
    match prompt {
        Prompt::Text(text) | Prompt::Body(text) => text.as_ptr() as usize,
        Prompt::Messages(messages) => messages.as_ptr() as usize,
        Prompt::Audio(clip) => Arc::as_ptr(clip) as usize,
        // All cases share the query; the documents belong to one case.
        Prompt::Ranking { documents, .. } => documents.as_ptr() as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_of_a_part_are_kept() {
        for (lines, written, kept) in [
            ("ab\ncd\n", 0, 0),
            ("ab\ncd\n", 2, 0),
            ("ab\ncd\n", 3, 3),
            ("ab\ncd\n", 5, 3),
            ("ab\ncd\n", 9, 6),
            ("", 1, 0),
        ] {
            let found = whole_lines(lines.as_bytes(), written);
            assert_eq!(found, kept, "{lines:?} {written}");
        }
    }
}
