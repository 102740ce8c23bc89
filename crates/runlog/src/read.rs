//! Reads a run log: requests in plan order, without the texts of their answers.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::{Value, value::RawValue};

use super::line::{self, LoggedAnswer, MAX_LINE_BYTES, ReadLine, ReadRequest, excerpt};
use super::{Footer, Source, VERSION};
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::{self, json};
use sobench_core::observation::{Observation, Outcome};
use sobench_core::ordered_work::in_order;
use sobench_core::progress::Progress;
use sobench_core::run_event::AnswerForm;
use sobench_core::server_sample::ServerSample;
use sobench_facts::Judged;
use sobench_facts::Sample;
use sobench_facts::parity::{Parity, Response};
use sobench_facts::{ChunkSource, ChunksAndTokens, RequestTable};
use sobench_notices::notice::{LogNotice, Notice};
use sobench_plan::record::RunRecord;

/// Maximum number of requests for which memory is reserved because of the record.
const MAX_EXPECTED: usize = 1 << 21;

/// Lines and bytes of a batch; a batch has at least one line.
const BATCH_LINES: usize = 64;
const BATCH_BYTES: usize = 256 << 10;

/// Maximum distance to a later line that is read over instead of opening the file again.
const NEAR_BYTES: u64 = 1 << 16;

/// A run log in memory, without the texts of answers.
#[derive(Clone, Debug)]
pub struct RunLog {
    pub record: RunRecord,
    /// Requests in plan order; for a killed run, those that had ended.
    pub requests: RequestTable,
    /// Whether the requests have verdicts. A run that was killed before judging has none.
    pub is_judged: bool,
    /// `None` if the run was killed.
    pub footer: Option<Footer>,
    /// Readings of the server's metrics page, in order of time.
    pub server: Vec<ServerSample>,
    /// Notices about the file itself.
    pub notices: Vec<Notice>,
    /// Offsets of the responses to requests that were sent again.
    repeats: HashMap<(usize, AnswerForm), u64>,
    pub(super) parts: SharedParts,
    pub(super) source: Source,
    chunks: Arc<Chunks>,
}

impl RunLog {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Usage errors with file and line: the file is unreadable, not a run log, of an unsupported
    /// version, or damaged before its last line.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_with(path, &())
    }

    /// As [`RunLog::read`], with progress.
    ///
    /// # Errors
    /// The same as [`RunLog::read`].
    pub fn read_with(path: &Path, progress: &dyn Progress) -> Result<Self> {
        Self::from_source(Source::file(path), progress)
    }

    /// Reads a log from a file or from memory.
    ///
    /// # Errors
    /// The same as [`RunLog::read`].
    pub fn from_source(source: Source, progress: &dyn Progress) -> Result<Self> {
        if let Some(path) = source.path().filter(|_| source.is_whole_file()) {
            check_start(path)?;
        }
        let mut lines = Lines::open(&source)?;
        let record = first_record(&mut lines, &source)?;
        // The number in the record is untrusted.
        let expected = record.dataset.requests.min(MAX_EXPECTED);
        let chunks = Arc::new(Chunks::new(&source));
        let requests =
            RequestTable::new(expected, Some(Arc::clone(&chunks) as Arc<dyn ChunkSource>));
        let mut reading = Reading {
            requests,
            ..Reading::default()
        };
        progress.expect(source.len());
        while let Some(line) = lines.next()? {
            let (number, offset) = (line.number, line.offset);
            progress.advance(line.bytes.len() as u64);
            reading.line(line.bytes, offset).map_err(|problem| {
                Error::usage(format!("{}, line {number}: {problem}", source.name()))
                    .hint("restore the original file; it was changed or damaged after the run")
            })?;
        }
        let notices = lines
            .is_truncated
            .then(|| {
                LogNotice::TruncatedLastLine {
                    file: source.name(),
                }
                .into()
            })
            .into_iter()
            .collect();
        let source = source.up_to(lines.offset);
        reading.into_log(record, notices, source, chunks)
    }

    /// Reads the record of a run, without its requests.
    ///
    /// # Errors
    /// The same as [`RunLog::read`].
    pub fn read_record(path: &Path) -> Result<RunRecord> {
        check_start(path)?;
        let source = Source::file(path);
        first_record(&mut Lines::open(&source)?, &source)
    }

    /// Whether a file starts like a run log.
    ///
    /// # Errors
    /// The file is unreadable.
    pub fn is_run_log(path: &Path) -> Result<bool> {
        Ok(is_start(&input::read_prefix(path, u64::MAX)?))
    }

    /// Sets the footer, and adds to the record what the run has shown of its constraints.
    pub fn set_footer(&mut self, footer: Footer) {
        if let Some(early) = &footer.early_breach {
            self.record.enforcement.add_early_breach(early.clone());
        }
        self.footer = Some(footer);
    }

    /// Whether the run ended early. A run that gave up after its last request did not.
    pub fn is_partial(&self) -> bool {
        let is_cut = || {
            self.requests
                .iter()
                .any(|request| *request.outcome() == Outcome::Cancelled)
        };
        // A run with a time limit does not have to send all prepared requests.
        let is_cut_short = || self.record.settings.load.until.time().is_some() || is_cut();
        // A killed shard loses its requests in flight.
        let is_killed =
            self.footer.is_none() || self.record.merged.iter().any(|shard| shard.end.is_none());
        let ended_early =
            |footer: &Footer| footer.interrupted || (footer.broken_off.is_some() && is_cut_short());
        is_killed || self.footer.as_ref().is_some_and(ended_early)
    }

    /// Time from the start to the last end of a sent request; for a killed run, of the requests in
    /// the log.
    pub fn duration_ns(&self) -> u64 {
        let sent = || {
            self.requests
                .iter()
                .map(|moments| moments.request_times())
                .filter(|moments| moments.sent_ns.is_some())
        };
        self.footer.as_ref().map_or_else(
            || {
                sent()
                    .filter_map(|moments| moments.end_ns)
                    .max()
                    .unwrap_or(0)
            },
            |footer| footer.duration_ns,
        )
    }

    /// The source of the log.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The complete answer to the request at this index of `requests`.
    ///
    /// # Errors
    /// The file is unreadable or has changed.
    pub fn answer(&self, index: usize) -> Result<LoggedAnswer> {
        let request = self
            .requests
            .get(index)
            .ok_or_else(|| Error::internal(format!("unknown request: {index}")))?;
        self.answers().read(request)
    }

    /// Reads answers again, efficiently in file order.
    pub fn answers(&self) -> AnswerReader {
        AnswerReader(LineReader::new(&self.source))
    }

    /// Judges every request by its answer, in this many threads, each with a state of its own. A
    /// bounded number of answers is in memory at a time.
    ///
    /// # Errors
    /// The same as [`RunLog::answer`].
    pub fn judge<S>(
        &mut self,
        threads: usize,
        progress: &dyn Progress,
        new_state: impl Fn() -> S + Sync,
        judge: impl Fn(&mut S, Sample<'_>, LoggedAnswer) -> Judged + Sync,
    ) -> Result<()> {
        let source = &self.source;
        let requests = RwLock::new(std::mem::take(&mut self.requests));
        let work = |state: &mut S, batch: Vec<Vec<u8>>| -> Result<(u64, Vec<(usize, Judged)>)> {
            let mut found = Vec::with_capacity(batch.len());
            for line in &batch {
                let Some(answer) = line::answer(line).map_err(|_| changed(source))? else {
                    continue;
                };
                // Locked for one answer, so that verdicts can be added in between.
                let requests = requests.read().unwrap_or_else(PoisonError::into_inner);
                let place = requests.position(answer.index);
                let (index, request) = place
                    .and_then(|index| Some((index, requests.get(index)?)))
                    .ok_or_else(|| changed(source))?;
                found.push((index, judge(state, request, answer)));
            }
            Ok((batch.iter().map(|line| line.len() as u64).sum(), found))
        };
        let mut lines = Lines::open(source)?;
        let mut count = 0;
        progress.expect(source.len());
        let done = in_order(
            threads,
            || lines.next_batch(),
            new_state,
            work,
            |(bytes, found)| {
                let mut requests = requests.write().unwrap_or_else(PoisonError::into_inner);
                count += found.len();
                for (index, judged) in found {
                    requests.judge(index, judged);
                }
                progress.advance(bytes);
                Ok(())
            },
        );
        self.requests = requests
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        done?;
        self.is_judged = count == self.requests.len();
        if self.is_judged {
            Ok(())
        } else {
            Err(self.changed())
        }
    }

    /// Compares the answers of every request that was sent again for its whole answer.
    ///
    /// # Errors
    /// The same as [`RunLog::answer`].
    pub fn judge_parity(&mut self) -> Result<()> {
        if self.repeats.is_empty() {
            return Ok(());
        }
        let mut lines = LineReader::new(&self.source);
        let mut read = |index: usize, offset: u64| -> Result<Response> {
            match line::response(lines.line(offset)?) {
                Ok(Some((found, response))) if found == index => Ok(response),
                _ => Err(changed(&self.source)),
            }
        };
        let mut found = Vec::new();
        for (place, request) in self.requests.iter().enumerate() {
            let index = request.case_index();
            let offset = |form: AnswerForm| self.repeats.get(&(index, form)).copied();
            let Some(whole) = offset(AnswerForm::Whole) else {
                continue;
            };
            let streamed = read(index, request.offset())?;
            let whole = read(index, whole)?;
            let again = offset(AnswerForm::Streamed)
                .map(|offset| read(index, offset))
                .transpose()?;
            found.push((place, Parity::new(&streamed, &whole, again.as_ref())));
        }
        for (place, parity) in found {
            self.requests.set_parity(place, parity);
        }
        Ok(())
    }

    /// Checks that every repeated read of the file succeeded.
    ///
    /// # Errors
    /// A read failed; figures computed from the log since it was read may be wrong.
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
    Error::usage(what).hint("give a file written by --run-log")
}

pub(super) fn changed(source: &Source) -> Error {
    Error::usage(format!(
        "the run log changed while it was being read: {}",
        source.name()
    ))
    .hint("stop other programs from writing to it, and try again")
}

/// Reads lines by offset, efficiently for ascending offsets.
#[derive(Debug)]
pub(super) struct LineReader {
    source: Source,
    /// The lines after the last one read.
    last: Option<Lines>,
}

impl LineReader {
    pub(super) fn new(source: &Source) -> Self {
        Self {
            source: source.clone(),
            last: None,
        }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    /// The line that starts at `offset`.
    ///
    /// # Errors
    /// The line is unreadable.
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

/// Reads answers again.
#[derive(Debug)]
pub struct AnswerReader(LineReader);

impl AnswerReader {
    /// Reads answers of the log at `path`.
    pub fn open(path: &Path) -> Self {
        Self(LineReader::new(&Source::file(path)))
    }

    /// The complete answer in the line at `offset`.
    ///
    /// # Errors
    /// The file is unreadable or has changed.
    pub fn at(&mut self, offset: u64) -> Result<LoggedAnswer> {
        let answer = line::answer(self.0.line(offset)?).ok().flatten();
        answer.ok_or_else(|| changed(self.0.source()))
    }

    /// The complete answer to a request of the log.
    ///
    /// # Errors
    /// The file is unreadable or has changed.
    pub fn read(&mut self, request: Sample<'_>) -> Result<LoggedAnswer> {
        let answer = self.at(request.offset())?;
        if answer.index == request.case_index() {
            Ok(answer)
        } else {
            Err(changed(self.0.source()))
        }
    }
}

/// Reads the times of chunks from the file.
#[derive(Debug)]
struct Chunks {
    lines: Mutex<LineReader>,
    is_lost: AtomicBool,
}

impl Chunks {
    fn new(source: &Source) -> Self {
        Self {
            lines: Mutex::new(LineReader::new(source)),
            is_lost: AtomicBool::new(false),
        }
    }

    fn read(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (index, chunks) = line::chunks(lines.line(offset).ok()?).ok()??;
        (index == case_index).then_some(chunks)
    }
}

impl ChunkSource for Chunks {
    fn chunks(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens> {
        let found = self.read(case_index, offset);
        self.is_lost.fetch_or(found.is_none(), Ordering::Relaxed);
        found
    }
}

/// The first bytes of every run log.
const START: &[u8] = b"{\"header\":";

/// Whether these bytes start a run log, possibly after a byte-order mark from an editor.
fn is_start(bytes: &[u8]) -> bool {
    bytes
        .strip_prefix(input::BYTE_ORDER_MARK)
        .unwrap_or(bytes)
        .starts_with(START)
}

/// Rejects other files before reading a line: a file without line ends may be large.
fn check_start(path: &Path) -> Result<()> {
    let start = input::read_prefix(path, u64::MAX)?;
    if is_start(&start) {
        return Ok(());
    }
    input::check_text(path, u64::MAX)?;
    let name = path.display();
    let (what, hint) = match start.trim_ascii() {
        [] => (
            format!("the file is empty: {name}"),
            "check whether the run started; a run that cannot start writes no log",
        ),
        [b'{', ..] => (
            format!("not a run log (no header): {name}"),
            "give a file written by --run-log; use sobench score or compare for results",
        ),
        _ => (
            format!("not a run log (line 1 is not JSON): {name}"),
            "give a file written by --run-log",
        ),
    };
    Err(Error::usage(what).hint(hint))
}

/// Reads the record from the header. The version is checked first.
/// Reads the record, which is the first line.
fn first_record(lines: &mut Lines, source: &Source) -> Result<RunRecord> {
    let first = lines.next()?.ok_or_else(|| {
        no_log(format!(
            "not a run log (no complete line): {}",
            source.name()
        ))
    })?;
    record(first.bytes, source)
}

fn record(line: &[u8], source: &Source) -> Result<RunRecord> {
    let no_log = |problem: &str| no_log(format!("not a run log ({problem}): {}", source.name()));
    let mut value: Value = serde_json::from_slice(line)
        .map_err(|error| no_log(&format!("line 1 is not JSON: {error}")))?;
    let mut header = value
        .get_mut("header")
        .map(Value::take)
        .ok_or_else(|| no_log("no header"))?;
    match header.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            let hint = match version < u64::from(VERSION) {
                true => {
                    "run the benchmark again; logs of this pre-release version are not supported"
                }
                false => "use the version of sobench that wrote it, or a newer one",
            };
            let what = format!(
                "unsupported run log version {version} (supported: {VERSION}): {}",
                source.name()
            );
            return Err(Error::usage(what).hint(hint));
        }
        None => return Err(no_log("the header has no version")),
    }
    let record = header
        .get_mut("record")
        .map(Value::take)
        .unwrap_or_default();
    let record: RunRecord = serde_json::from_value(record)
        .map_err(|error| no_log(&format!("line 1, header: {error}")))?;
    if record.has_valid_shards() {
        Ok(record)
    } else {
        Err(no_log("line 1, header: invalid shard numbers"))
    }
}

/// Parts that requests refer to by number.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedParts {
    prompts: HashMap<u32, Prompt>,
    constraints: HashMap<u32, Arc<Constraint>>,
    oracles: HashMap<u32, Arc<str>>,
}

impl SharedParts {
    /// The case and the observation of a request.
    pub(super) fn request(
        &self,
        read: ReadRequest,
    ) -> std::result::Result<(Case, Observation), String> {
        let numbers = read.numbers;
        let prompt = self
            .prompts
            .get(&numbers.prompt)
            .ok_or_else(|| format!("unknown prompt: {}", numbers.prompt))?;
        let (mut case, observation) = read
            .into_parts(prompt.clone())
            .map_err(|error| error.to_string())?;
        case.constraint = found(&self.constraints, numbers.constraint, "constraint")?;
        case.grammar_oracle = found(&self.oracles, numbers.oracle, "oracle")?;
        Ok((case, observation))
    }
}

/// The state of reading.
#[derive(Default)]
struct Reading {
    parts: SharedParts,
    /// Requested model names, each once.
    models: HashSet<Arc<str>>,
    requests: RequestTable,
    repeats: HashMap<(usize, AnswerForm), u64>,
    server: Vec<ServerSample>,
    /// Number of verdicts so far; requests are sorted from the first verdict on.
    judged: usize,
    footer: Option<Footer>,
}

impl Reading {
    fn line(&mut self, bytes: &[u8], offset: u64) -> std::result::Result<(), String> {
        if is_start(bytes) {
            return Err("second header: the file contains the logs of two runs".to_owned());
        }
        if self.footer.is_some() {
            return Err(format!("line after the footer: {}", excerpt(bytes)));
        }
        // Without the line end, which a parser would count as another line.
        let read = serde_json::from_slice(bytes.trim_ascii_end());
        let parts = &mut self.parts;
        match read.map_err(|error| {
            format!(
                "not a line of a run log ({}): {}",
                json::message_without_line(&error),
                excerpt(bytes)
            )
        })? {
            ReadLine::Header(_) => return Err("second header".to_owned()),
            ReadLine::Constraint(shared) => once(
                parts.constraints.insert(shared.number, shared.is).as_ref(),
                shared.number,
            )?,
            ReadLine::Prompt(shared) => once(
                parts.prompts.insert(shared.number, shared.is).as_ref(),
                shared.number,
            )?,
            ReadLine::Oracle(shared) => once(
                parts.oracles.insert(shared.number, shared.is).as_ref(),
                shared.number,
            )?,
            ReadLine::Request(request) => self.request(*request, offset)?,
            ReadLine::Repeat(repeat) => {
                self.repeats.insert((repeat.index, repeat.form), offset);
            }
            ReadLine::ServerMetrics(raw) => {
                let sample = by_value(&raw).map_err(|error| format!("server_metrics: {error}"))?;
                self.server.push(sample);
            }
            ReadLine::Judged(raw) => {
                let (index, judged) = line::judged(&raw).map_err(|error| error.to_string())?;
                self.judged(index, judged)?;
            }
            ReadLine::Footer(raw) => {
                self.footer = Some(by_value(&raw).map_err(|error| format!("footer: {error}"))?);
            }
        }
        Ok(())
    }

    fn request(&mut self, read: ReadRequest, offset: u64) -> std::result::Result<(), String> {
        let (mut case, observation) = self.parts.request(read)?;
        case.model = case.model.map(|model| self.model(model));
        if self.judged > 0 {
            return Err(format!(
                "request after the first verdict: {}",
                observation.case_index
            ));
        }
        let is_added = self.requests.push_without_text(&case, &observation, offset);
        if !is_added {
            return Err(format!(
                "invalid request number: {}",
                observation.case_index
            ));
        }
        Ok(())
    }

    /// Shares equal model names, so that cases with the same texts have the same addresses.
    fn model(&mut self, name: Arc<str>) -> Arc<str> {
        if let Some(known) = self.models.get(&name) {
            return Arc::clone(known);
        }
        self.models.insert(Arc::clone(&name));
        name
    }

    fn judged(&mut self, index: usize, judged: Judged) -> std::result::Result<(), String> {
        if self.judged == 0 {
            self.sort()?;
        }
        let missing = || format!("verdict for an unknown request: {index}");
        let position = self.requests.position(index).ok_or_else(missing)?;
        if self
            .requests
            .get(position)
            .is_some_and(|request| request.is_judged())
        {
            return Err(format!("second verdict for a request: {index}"));
        }
        self.requests.judge(position, judged);
        self.judged += 1;
        Ok(())
    }

    fn sort(&mut self) -> std::result::Result<(), String> {
        self.requests
            .sort()
            .map_err(|index| format!("duplicate request number: {index}"))
    }

    fn into_log(
        mut self,
        record: RunRecord,
        notices: Vec<Notice>,
        source: Source,
        chunks: Arc<Chunks>,
    ) -> Result<RunLog> {
        self.sort().map_err(|problem| {
            Error::usage(format!("{}: {problem}", source.name()))
                .hint("restore the original file; it was changed after the run")
        })?;
        let Self {
            parts,
            requests,
            judged,
            footer,
            repeats,
            mut server,
            ..
        } = self;
        server.sort_by_key(|sample| sample.offset_ns);
        if let Some(footer) = footer
            .as_ref()
            .filter(|footer| footer.requests != requests.len())
        {
            let (found, expected, name) = (requests.len(), footer.requests, source.name());
            return Err(Error::usage(format!(
                "the run log has {found} requests, but its footer says {expected}: {name}"
            ))
            .hint("restore the original file; lines were removed or added after the run"));
        }
        let is_judged = footer.is_some() && judged == requests.len();
        let mut log = RunLog {
            record,
            requests,
            is_judged,
            footer: None,
            server,
            notices,
            repeats,
            parts,
            source,
            chunks,
        };
        if let Some(footer) = footer {
            log.set_footer(footer);
        }
        Ok(log)
    }
}

/// Parses via [`Value`], which keeps every digit of non-integer numbers.
fn by_value<T: serde::de::DeserializeOwned>(raw: &RawValue) -> serde_json::Result<T> {
    serde_json::from_value(serde_json::from_str(raw.get())?)
}

fn once<T>(earlier: Option<&T>, number: impl std::fmt::Display) -> std::result::Result<(), String> {
    if earlier.is_some() {
        Err(format!("duplicate number: {number}"))
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
            .ok_or_else(|| format!("unknown {what}: {number}"))
    };
    number.map(find).transpose()
}

/// Reads complete lines one at a time.
pub(super) struct Lines {
    source: Source,
    bytes: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: usize,
    offset: u64,
    /// Whether there were bytes after the last line end.
    is_truncated: bool,
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
            is_truncated: false,
        })
    }

    /// The offset of the next line.
    fn next_offset(&self) -> u64 {
        self.offset + self.line.len() as u64
    }

    /// Skips to `offset`, which has not been passed.
    fn skip_to(&mut self, offset: u64) -> std::io::Result<()> {
        let skipped = offset - self.next_offset();
        std::io::copy(&mut self.bytes.by_ref().take(skipped), &mut std::io::sink())?;
        self.line.clear();
        self.offset = offset;
        Ok(())
    }

    /// Some of the next lines; `None` at the end.
    fn next_batch(&mut self) -> Result<Option<Vec<Vec<u8>>>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_LINES && bytes < BATCH_BYTES {
            let Some(line) = self.next()? else { break };
            bytes += line.bytes.len();
            batch.push(line.bytes.to_vec());
        }
        Ok((!batch.is_empty()).then_some(batch))
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
        self.is_truncated = !self.line.is_empty();
        Ok(None)
    }
}
