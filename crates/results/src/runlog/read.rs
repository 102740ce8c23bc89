//! Reads a run log back: requests in plan order, exact, with or without the texts of their answers.
//! Knows no verdict's meaning.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, value::RawValue};

use super::line::{self, LoggedAnswer, MAX_LINE_BYTES, ReadLine, ReadRequest, words_of};
use super::{Footer, Judged, Source, VERSION};
use crate::metrics::Sample;
use crate::metrics::ledger::{Again, ChunksAndTokens, Ledger};
use crate::record::RunRecord;
use sobench_core::answer::Answer;
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::{self, json};
use sobench_core::observation::Outcome;
use sobench_notices::notice::{LogNotice, Notice};

/// How many requests a record may promise before memory is given out for them.
const MAX_EXPECTED: usize = 1 << 21;

/// How far ahead in the file is read on to, rather than opened anew.
const NEAR_BYTES: u64 = 1 << 16;

/// What becomes of the texts of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// They are in the observations.
    Texts,
    /// They stay in the file: memory does not grow with them.
    WithoutTexts,
    /// They are in the observations of a run whose saved result holds every request.
    AsSaved,
}

/// A run log that was read.
#[derive(Clone, Debug)]
pub struct RunLog {
    pub record: RunRecord,
    /// In plan order. Of a run that was killed, those that had ended. Texts are in it as [`Keep`]
    /// says.
    pub requests: Ledger,
    /// Whether the requests have their verdicts; not so of a run that ended before it could be
    /// judged.
    pub is_judged: bool,
    /// `None` of a run that was killed.
    pub footer: Option<Footer>,
    /// What the reader of a report has to know of the file itself.
    pub notices: Vec<Notice>,
    source: Source,
    chunks: Arc<Chunks>,
}

impl RunLog {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Usage, naming file and line: it cannot be read, is no run log, is of a newer version, or is
    /// damaged anywhere but at its end.
    pub fn read(path: &Path, keep: Keep) -> Result<Self> {
        Self::from_source(Source::file(path), keep)
    }

    /// Reads the log of a run that ends in this process.
    ///
    /// # Errors
    /// As for [`RunLog::read`].
    pub fn from_source(source: Source, keep: Keep) -> Result<Self> {
        if let Some(path) = source.path().filter(|_| source.is_whole_file()) {
            check_begin(path)?;
        }
        let mut lines = Lines::open(&source)?;
        let missing = || {
            no_log(format!(
                "not a run log, for there is no whole line in it: {}",
                source.name()
            ))
        };
        let first = lines.next()?.ok_or_else(missing)?;
        let record = record(first.bytes, &source)?;
        let keep_texts = match keep {
            Keep::Texts => true,
            Keep::WithoutTexts => false,
            Keep::AsSaved => record.settings.report.detailed,
        };
        // What a record promises is no reason to give out memory.
        let expected = record.dataset.requests.min(MAX_EXPECTED);
        let chunks = Arc::new(Chunks::of(&source));
        let requests = Ledger::new(expected, Some(Arc::clone(&chunks) as Arc<dyn Again>));
        let mut reading = Reading {
            keep_texts,
            requests,
            ..Reading::default()
        };
        while let Some(line) = lines.next()? {
            let (number, offset) = (line.number, line.offset);
            reading.line(line.bytes, offset).map_err(|words| {
                Error::usage(format!("{}, line {number}: {words}", source.name()))
                    .hint("the file was changed or damaged; a run log is only ever added to")
            })?;
        }
        let notices = lines
            .torn
            .then(|| {
                LogNotice::TornLine {
                    file: source.name(),
                }
                .into()
            })
            .into_iter()
            .collect();
        let source = source.up_to(lines.offset);
        reading.into_log(record, notices, source, chunks)
    }

    /// Whether a file begins as a run log does.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn begins(path: &Path) -> Result<bool> {
        Ok(is_begin(&input::beginning(path, u64::MAX)?))
    }

    /// Whether the run did not come to its planned end. One that gave up at the very last of its
    /// requests did.
    pub fn is_partial(&self) -> bool {
        let is_cut = || {
            self.requests
                .iter()
                .any(|request| *request.outcome() == Outcome::Cancelled)
        };
        // Of a run that a time ends, nobody owes what was not sent.
        let is_cut_short = || self.record.settings.load.until.time().is_some() || is_cut();
        // A shard that was killed has lost what was under way.
        let is_killed =
            self.footer.is_none() || self.record.merged.iter().any(|shard| shard.end.is_none());
        let ended_early =
            |footer: &Footer| footer.interrupted || (footer.broken_off.is_some() && is_cut_short());
        is_killed || self.footer.as_ref().is_some_and(ended_early)
    }

    /// From the begin to the last end of a request that was sent; of a run that nobody saw the end
    /// of, of those in the log.
    pub fn duration_ns(&self) -> u64 {
        let sent = || {
            self.requests
                .iter()
                .map(|it| it.moments())
                .filter(|it| it.sent_ns.is_some())
        };
        self.footer.as_ref().map_or_else(
            || sent().filter_map(|it| it.end_ns).max().unwrap_or(0),
            |footer| footer.duration_ns,
        )
    }

    /// Where the log is.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The whole answer to the request at this place of `requests`.
    ///
    /// # Errors
    /// The file cannot be read any more, or has changed.
    pub fn answer(&self, place: usize) -> Result<LoggedAnswer> {
        let request = self
            .requests
            .get(place)
            .ok_or_else(|| Error::internal(format!("no such request: {place}")))?;
        let index = request.case_index();
        if !request.text().is_empty() || !request.reasoning().is_empty() {
            return Ok(LoggedAnswer {
                index,
                answer: request.observation().answer,
                usage: None,
            });
        }
        let mut lines = Lines::at(&self.source, request.offset())?;
        let line = lines.next()?.map(|line| line::answer(line.bytes));
        match line {
            Some(Ok(Some(answer))) if answer.index == index => Ok(answer),
            _ => Err(self.changed()),
        }
    }

    /// Has every request judged by its answer, in the order of the file. One answer is in memory at
    /// a time.
    ///
    /// # Errors
    /// As for [`RunLog::answer`].
    pub fn judge(
        &mut self,
        mut judge: impl FnMut(Sample<'_>, LoggedAnswer) -> Judged,
    ) -> Result<()> {
        let Self {
            requests, source, ..
        } = self;
        let mut lines = Lines::open(source)?;
        let mut count = 0;
        while let Some(line) = lines.next()? {
            let Some(answer) = line::answer(line.bytes).map_err(|_| changed(source))? else {
                continue;
            };
            let place = requests
                .place(answer.index)
                .ok_or_else(|| changed(source))?;
            let judged = judge(requests.get(place).ok_or_else(|| changed(source))?, answer);
            requests.judge(place, judged);
            count += 1;
        }
        self.is_judged = count == self.requests.len();
        if self.is_judged {
            Ok(())
        } else {
            Err(self.changed())
        }
    }

    /// Whether everything could be had from the file that figures asked for.
    ///
    /// # Errors
    /// It could not: what was computed from the log since it was read is not to be believed.
    pub fn check(&self) -> Result<()> {
        if self.chunks.is_lost.load(Ordering::Relaxed) {
            Err(self.changed())
        } else {
            Ok(())
        }
    }

    fn changed(&self) -> Error {
        changed(&self.source)
    }
}

fn no_log(what: String) -> Error {
    Error::usage(what).hint("give a file that --run-log wrote")
}

pub(super) fn changed(source: &Source) -> Error {
    Error::usage(format!(
        "the run log changed while it was read: {}",
        source.name()
    ))
    .hint("let nothing write to it")
}

/// Lines of a log by their places, which are asked for about in the file's order.
#[derive(Debug)]
pub(super) struct Seeker {
    source: Source,
    /// Where the last one was read, to go on from there.
    last: Option<Lines>,
}

impl Seeker {
    pub(super) fn new(source: &Source) -> Self {
        Self {
            source: source.clone(),
            last: None,
        }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// The line that begins at `offset`.
    ///
    /// # Errors
    /// It cannot be read any more.
    pub(super) fn line(&mut self, offset: u64) -> Result<&[u8]> {
        let mut lines = match self.last.take() {
            Some(lines)
                if (lines.next_offset()..lines.next_offset() + NEAR_BYTES).contains(&offset) =>
            {
                lines
            }
            _ => Lines::at(&self.source, offset)?,
        };
        lines
            .skip_to(offset)
            .map_err(|error| self.source.unreadable(&error))?;
        let lines = self.last.insert(lines);
        lines
            .next()?
            .map(|line| line.bytes)
            .ok_or_else(|| changed(&self.source))
    }
}

/// Times of chunks, read from the file once more.
#[derive(Debug)]
struct Chunks {
    lines: Mutex<Seeker>,
    is_lost: AtomicBool,
}

impl Chunks {
    fn of(source: &Source) -> Self {
        Self {
            lines: Mutex::new(Seeker::new(source)),
            is_lost: AtomicBool::new(false),
        }
    }

    fn read(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (index, chunks) = line::chunks(lines.line(offset).ok()?).ok()??;
        (index == case_index).then_some(chunks)
    }
}

impl Again for Chunks {
    fn chunks(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens> {
        let found = self.read(case_index, offset);
        self.is_lost.fetch_or(found.is_none(), Ordering::Relaxed);
        found
    }
}

/// How every run log begins.
const BEGIN: &[u8] = b"{\"header\":";

/// Whether these first bytes are a run log's; an editor may have put a byte-order mark before them.
fn is_begin(bytes: &[u8]) -> bool {
    bytes
        .strip_prefix(input::BYTE_ORDER_MARK)
        .unwrap_or(bytes)
        .starts_with(BEGIN)
}

/// Refuses what does not begin as a run log, before a line of it is looked for: it may be all one
/// line.
fn check_begin(path: &Path) -> Result<()> {
    let begin = input::beginning(path, u64::MAX)?;
    if is_begin(&begin) {
        return Ok(());
    }
    input::check_text(path, u64::MAX)?;
    let name = path.display();
    let (what, hint) = match begin.trim_ascii() {
        [] => (
            format!("there is nothing in this file: {name}"),
            "a run that could not begin leaves no log",
        ),
        [b'{', ..] => (
            format!("not a run log (it does not begin with a header): {name}"),
            "give a file that --run-log wrote; sobench score and compare read results, too",
        ),
        _ => (
            format!("not a run log (line 1 is not JSON): {name}"),
            "give a file that --run-log wrote",
        ),
    };
    Err(Error::usage(what).hint(hint))
}

/// The record in the header, whose version is looked at before anything else: a newer one may mean
/// anything.
fn record(line: &[u8], source: &Source) -> Result<RunRecord> {
    let no_log = |words: &str| no_log(format!("not a run log ({words}): {}", source.name()));
    let mut value: Value = serde_json::from_slice(line)
        .map_err(|error| no_log(&format!("line 1 is not JSON: {error}")))?;
    let mut header = value
        .get_mut("header")
        .map(Value::take)
        .ok_or_else(|| no_log("it does not begin with a header"))?;
    match header.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            let hint = match version < u64::from(VERSION) {
                true => {
                    "logs of this version came before the first release and cannot be read any more; run the benchmark again"
                }
                false => "use the sobench that wrote it, or a newer one",
            };
            let what = format!(
                "this run log has version {version}, and {VERSION} is read: {}",
                source.name()
            );
            return Err(Error::usage(what).hint(hint));
        }
        None => return Err(no_log("its header has no version")),
    }
    let record = header
        .get_mut("record")
        .map(Value::take)
        .unwrap_or_default();
    let record: RunRecord = serde_json::from_value(record)
        .map_err(|error| no_log(&format!("line 1, its header: {error}")))?;
    if record.has_parts() {
        Ok(record)
    } else {
        Err(no_log(
            "line 1, its header, names a shard that there cannot be",
        ))
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    keep_texts: bool,
    prompts: HashMap<u32, Prompt>,
    constraints: HashMap<u32, Arc<Constraint>>,
    oracles: HashMap<u32, Arc<str>>,
    /// Names of models that requests asked for, each once.
    models: HashSet<Arc<str>>,
    requests: Ledger,
    /// Verdicts so far; the requests are in order from the first one on.
    judged: usize,
    footer: Option<Footer>,
}

impl Reading {
    fn line(&mut self, bytes: &[u8], offset: u64) -> std::result::Result<(), String> {
        if is_begin(bytes) {
            return Err("a second header: the logs of two runs are in one file".to_owned());
        }
        if self.footer.is_some() {
            return Err(format!("something follows the footer: {}", words_of(bytes)));
        }
        // Without its end, behind which a parser would see another line.
        let read = serde_json::from_slice(bytes.trim_ascii_end());
        match read.map_err(|error| {
            format!(
                "not a line of a run log ({}): {}",
                json::in_line(&error),
                words_of(bytes)
            )
        })? {
            ReadLine::Header(_) => return Err("a second header".to_owned()),
            ReadLine::Constraint(shared) => once(
                self.constraints.insert(shared.number, shared.is).as_ref(),
                shared.number,
            )?,
            ReadLine::Prompt(shared) => once(
                self.prompts.insert(shared.number, shared.is).as_ref(),
                shared.number,
            )?,
            ReadLine::Oracle(shared) => once(
                self.oracles.insert(shared.number, shared.is).as_ref(),
                shared.number,
            )?,
            ReadLine::Request(request) => self.request(*request, offset)?,
            ReadLine::Judged(raw) => {
                let (index, judged) = line::judged(&raw).map_err(|error| error.to_string())?;
                self.judged(index, judged)?;
            }
            ReadLine::Footer(raw) => {
                self.footer = Some(by_value(&raw).map_err(|error| format!("footer: {error}"))?)
            }
        }
        Ok(())
    }

    fn request(&mut self, read: ReadRequest, offset: u64) -> std::result::Result<(), String> {
        let numbers = read.numbers;
        let prompt = self
            .prompts
            .get(&numbers.prompt)
            .ok_or_else(|| format!("no such prompt: {}", numbers.prompt))?;
        let (mut case, mut observation) = read
            .into_parts(prompt.clone())
            .map_err(|error| error.to_string())?;
        case.constraint = found(&self.constraints, numbers.constraint, "constraint")?;
        case.grammar_oracle = found(&self.oracles, numbers.oracle, "oracle")?;
        case.model = case.model.map(|model| self.model(model));
        if self.judged > 0 {
            return Err(format!(
                "a request after the first verdict: {}",
                observation.case_index
            ));
        }
        if !self.keep_texts {
            observation.answer = Answer::default();
        }
        if !self.requests.push(&case, &observation, offset) {
            return Err(format!(
                "no number of a request: {}",
                observation.case_index
            ));
        }
        Ok(())
    }

    /// The one that is kept of all equal names: cases with the same texts have the same addresses.
    fn model(&mut self, name: Arc<str>) -> Arc<str> {
        if let Some(known) = self.models.get(&name) {
            return Arc::clone(known);
        }
        self.models.insert(Arc::clone(&name));
        name
    }

    fn judged(&mut self, index: usize, judged: Judged) -> std::result::Result<(), String> {
        if self.judged == 0 {
            self.in_order()?;
        }
        let missing = || format!("a verdict on a request that is not there: {index}");
        let place = self.requests.place(index).ok_or_else(missing)?;
        if self.requests.get(place).is_some_and(|it| it.is_judged()) {
            return Err(format!("a second verdict on a request: {index}"));
        }
        self.requests.judge(place, judged);
        self.judged += 1;
        Ok(())
    }

    fn in_order(&mut self) -> std::result::Result<(), String> {
        self.requests
            .sort()
            .map_err(|index| format!("two requests of one number: {index}"))
    }

    fn into_log(
        mut self,
        record: RunRecord,
        notices: Vec<Notice>,
        source: Source,
        chunks: Arc<Chunks>,
    ) -> Result<RunLog> {
        self.in_order().map_err(|words| {
            Error::usage(format!("{}: {words}", source.name()))
                .hint("a run log is only ever added to, by one run")
        })?;
        let Self {
            requests,
            judged,
            footer,
            ..
        } = self;
        if let Some(footer) = footer
            .as_ref()
            .filter(|footer| footer.requests != requests.len())
        {
            let (found, ended_with, name) = (requests.len(), footer.requests, source.name());
            return Err(Error::usage(format!(
                "{found} requests are in a run log that ended with {ended_with}: {name}"
            ))
            .hint("lines were taken out of it or put into it; a run log is only ever added to"));
        }
        let is_judged = footer.is_some() && judged == requests.len();
        Ok(RunLog {
            record,
            requests,
            is_judged,
            footer,
            notices,
            source,
            chunks,
        })
    }
}

/// What holds numbers that are not whole is read by way of a value, in which they keep every digit.
fn by_value<T: serde::de::DeserializeOwned>(raw: &RawValue) -> serde_json::Result<T> {
    serde_json::from_value(serde_json::from_str(raw.get())?)
}

fn once<T>(earlier: Option<&T>, number: impl std::fmt::Display) -> std::result::Result<(), String> {
    if earlier.is_some() {
        Err(format!("a number that was there before: {number}"))
    } else {
        Ok(())
    }
}

fn found<T: ?Sized>(
    known: &HashMap<u32, Arc<T>>,
    number: Option<u32>,
    what: &str,
) -> std::result::Result<Option<Arc<T>>, String> {
    let find = |number: u32| {
        known
            .get(&number)
            .cloned()
            .ok_or_else(|| format!("no such {what}: {number}"))
    };
    number.map(find).transpose()
}

/// Whole lines, one at a time.
pub(super) struct Lines {
    source: Source,
    bytes: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: usize,
    offset: u64,
    /// Whether there was something after the last line end.
    torn: bool,
}

pub(super) struct WholeLine<'l> {
    pub(super) bytes: &'l [u8],
    number: usize,
    pub(super) offset: u64,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines")
            .field("source", &self.source)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Lines {
    pub(super) fn open(source: &Source) -> Result<Self> {
        Self::at(source, 0)
    }

    fn at(source: &Source, offset: u64) -> Result<Self> {
        Ok(Self {
            source: source.clone(),
            bytes: source.open(offset)?,
            line: Vec::new(),
            number: 0,
            offset,
            torn: false,
        })
    }

    /// Where the next line begins.
    fn next_offset(&self) -> u64 {
        self.offset + self.line.len() as u64
    }

    /// Goes on to what begins at `offset`, which has not been passed.
    fn skip_to(&mut self, offset: u64) -> std::io::Result<()> {
        let skipped = offset - self.next_offset();
        std::io::copy(&mut self.bytes.by_ref().take(skipped), &mut std::io::sink())?;
        self.line.clear();
        self.offset = offset;
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<WholeLine<'_>>> {
        self.offset += self.line.len() as u64;
        self.line.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = self
            .bytes
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut self.line);
        read.map_err(|error| self.source.unreadable(&error))?;
        self.number += 1;
        if self.line.ends_with(b"\n") {
            let mark = if self.offset == 0 {
                input::BYTE_ORDER_MARK
            } else {
                b""
            };
            let bytes = self.line.strip_prefix(mark).unwrap_or(&self.line);
            return Ok(Some(WholeLine {
                bytes,
                number: self.number,
                offset: self.offset,
            }));
        }
        if self.line.len() as u64 == limit {
            let name = self.source.name();
            return Err(no_log(format!(
                "{name}, line {}: longer than {MAX_LINE_BYTES} bytes",
                self.number
            )));
        }
        self.torn = !self.line.is_empty();
        Ok(None)
    }
}
