//! Reads a run log back: requests in plan order, exact, with or without the texts of their answers. Knows no verdict's meaning.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::line::{self, Answer, MAX_LINE_BYTES, ReadLine, ReadRequest, words_of};
use super::{Footer, Header, Judged, Source, VERSION};
use crate::case::{Case, Prompt};
use crate::constraint::Constraint;
use crate::error::{Error, Result};
use crate::observation::Observation;

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
    pub header: Header,
    /// In plan order. Of a run that was killed, those that had ended.
    pub requests: Vec<Request>,
    /// One for each request, beside it; `None` of a run that ended before it could be judged.
    pub judged: Option<Vec<Judged>>,
    /// `None` of a run that was killed.
    pub footer: Option<Footer>,
    /// What the reader of a report has to know of the file itself.
    pub notices: Vec<String>,
    source: Source,
}

/// One request of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub case: Case,
    /// Its text and reasoning are empty where they were left in the file.
    pub observation: Observation,
    /// Where its line begins.
    offset: u64,
}

impl RunLog {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Usage, naming file and line: it cannot be read, is no run log, is of a newer version, or is damaged anywhere but at its end.
    pub fn read(path: &Path, keep: Keep) -> Result<Self> {
        Self::from_source(Source::file(path), keep)
    }

    /// Reads the log of a run that ends in this process.
    ///
    /// # Errors
    /// As for [`RunLog::read`].
    pub fn from_source(source: Source, keep: Keep) -> Result<Self> {
        let mut lines = Lines::open(&source)?;
        let first = lines.next()?.ok_or_else(|| {
            Error::usage(format!("not a run log, for there is no whole line in it: {}", source.name()))
                .hint("give a file that --run-log wrote")
        })?;
        let header = header(first.bytes, &source)?;
        let keep = match keep {
            Keep::AsSaved if header.detailed => Keep::Texts,
            Keep::AsSaved => Keep::WithoutTexts,
            keep => keep,
        };
        let mut reading = Reading { keep, ..Reading::default() };
        while let Some(line) = lines.next()? {
            let (number, offset) = (line.number, line.offset);
            reading.line(line.bytes, offset).map_err(|words| {
                Error::usage(format!("{}, line {number}: {words}", source.name()))
                    .hint("the file was changed or damaged; a run log is only ever added to")
            })?;
        }
        let mut notices = Vec::new();
        notices.extend(lines.torn.then(|| format!("the last line of the run log is torn, and was left out: {}", source.name())));
        reading.into_log(header, notices, source)
    }

    /// Whether the run did not come to its planned end.
    pub fn is_partial(&self) -> bool {
        self.footer.as_ref().is_none_or(|footer| footer.interrupted)
    }

    /// Where the log is.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The whole answer to the request at this place of `requests`.
    ///
    /// # Errors
    /// The file cannot be read any more, or has changed.
    pub fn answer(&self, place: usize) -> Result<Answer> {
        let request = self.requests.get(place).ok_or_else(|| Error::internal(format!("no such request: {place}")))?;
        let observation = &request.observation;
        let index = observation.case_index;
        if !observation.text.is_empty() || !observation.reasoning.is_empty() {
            return Ok(Answer { index, text: observation.text.clone(), reasoning: observation.reasoning.clone() });
        }
        let mut lines = Lines::at(&self.source, request.offset)?;
        let line = lines.next()?.map(|line| line::answer(line.bytes));
        match line {
            Some(Ok(Some(answer))) if answer.index == index => Ok(answer),
            _ => Err(self.changed()),
        }
    }

    /// Shows every answer in turn, in the order of the file; `place` is that of its request in `requests`. One is in memory at a time.
    ///
    /// # Errors
    /// As for [`RunLog::answer`].
    pub fn each_answer(&self, mut show: impl FnMut(usize, Answer)) -> Result<()> {
        let mut lines = Lines::open(&self.source)?;
        while let Some(line) = lines.next()? {
            let Some(answer) = line::answer(line.bytes).map_err(|_| self.changed())? else { continue };
            let place = self.requests.binary_search_by_key(&answer.index, |request| request.observation.case_index);
            show(place.map_err(|_| self.changed())?, answer);
        }
        Ok(())
    }

    fn changed(&self) -> Error {
        Error::usage(format!("the run log changed while it was read: {}", self.source.name())).hint("let nothing write to it")
    }
}

/// The header, whose version is looked at before anything else: a newer one may mean anything.
fn header(line: &[u8], source: &Source) -> Result<Header> {
    let no_log = |words: &str| {
        Error::usage(format!("not a run log ({words}): {}", source.name())).hint("give a file that --run-log wrote")
    };
    let mut value: Value = serde_json::from_slice(line).map_err(|error| no_log(&format!("line 1 is not JSON: {error}")))?;
    let header = value.get_mut("header").map(Value::take).ok_or_else(|| no_log("it does not begin with a header"))?;
    match header.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(Error::usage(format!("this run log has version {version}, and {VERSION} is read: {}", source.name()))
                .hint("use the sobench that wrote it, or a newer one"));
        }
        None => return Err(no_log("its header has no version")),
    }
    serde_json::from_value(header).map_err(|error| no_log(&format!("its header: {error}")))
}

/// What has been read so far.
struct Reading {
    keep: Keep,
    prompts: HashMap<u32, Prompt>,
    constraints: HashMap<u32, Arc<Constraint>>,
    oracles: HashMap<u32, Arc<str>>,
    requests: Vec<Request>,
    seen: HashSet<usize>,
    judged: HashMap<usize, Judged>,
    footer: Option<Footer>,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            keep: Keep::WithoutTexts,
            prompts: HashMap::new(),
            constraints: HashMap::new(),
            oracles: HashMap::new(),
            requests: Vec::new(),
            seen: HashSet::new(),
            judged: HashMap::new(),
            footer: None,
        }
    }
}

impl Reading {
    fn line(&mut self, bytes: &[u8], offset: u64) -> std::result::Result<(), String> {
        if self.footer.is_some() {
            return Err("something follows the footer".to_owned());
        }
        let read = serde_json::from_slice(bytes);
        match read.map_err(|error| format!("not a line of a run log ({error}): {}", words_of(bytes)))? {
            ReadLine::Header(_) => return Err("a second header".to_owned()),
            ReadLine::Constraint(shared) => once(self.constraints.insert(shared.number, shared.is).as_ref(), shared.number)?,
            ReadLine::Prompt(shared) => once(self.prompts.insert(shared.number, shared.is).as_ref(), shared.number)?,
            ReadLine::Oracle(shared) => once(self.oracles.insert(shared.number, shared.is).as_ref(), shared.number)?,
            ReadLine::Request(request) => self.request(*request, offset)?,
            ReadLine::Judged(raw) => {
                let (index, judged) = line::judged(&raw).map_err(|error| error.to_string())?;
                if !self.seen.contains(&index) {
                    return Err(format!("a verdict on a request that is not there: {index}"));
                }
                once(self.judged.insert(index, judged).as_ref(), index)?;
            }
            ReadLine::Footer(raw) => self.footer = Some(by_value(&raw).map_err(|error| error.to_string())?),
        }
        Ok(())
    }

    fn request(&mut self, read: ReadRequest, offset: u64) -> std::result::Result<(), String> {
        let numbers = read.numbers;
        let prompt = self.prompts.get(&numbers.prompt).ok_or_else(|| format!("no such prompt: {}", numbers.prompt))?;
        let (mut case, mut observation) = read.into_parts(prompt.clone()).map_err(|error| error.to_string())?;
        case.constraint = found(&self.constraints, numbers.constraint, "constraint")?;
        case.grammar_oracle = found(&self.oracles, numbers.oracle, "oracle")?;
        if !self.seen.insert(observation.case_index) {
            return Err(format!("a request that was there before: {}", observation.case_index));
        }
        if self.keep == Keep::WithoutTexts {
            (observation.text, observation.reasoning) = (String::new(), String::new());
        }
        self.requests.push(Request { case, observation, offset });
        Ok(())
    }

    fn into_log(self, header: Header, notices: Vec<String>, source: Source) -> Result<RunLog> {
        let Self { mut requests, mut judged, footer, .. } = self;
        requests.sort_unstable_by_key(|request| request.observation.case_index);
        if let Some(footer) = footer.as_ref().filter(|footer| footer.requests != requests.len()) {
            return Err(Error::usage(format!(
                "{} requests are in a run log that ended with {}: {}",
                requests.len(),
                footer.requests,
                source.name()
            ))
            .hint("lines were taken out of it or put into it; a run log is only ever added to"));
        }
        let in_order: Option<Vec<Judged>> =
            requests.iter().map(|request| judged.remove(&request.observation.case_index)).collect();
        Ok(RunLog { header, requests, judged: in_order.filter(|_| footer.is_some()), footer, notices, source })
    }
}

/// What holds numbers that are not whole is read by way of a value, in which they keep every digit.
fn by_value<T: serde::de::DeserializeOwned>(raw: &RawValue) -> serde_json::Result<T> {
    serde_json::from_value(serde_json::from_str(raw.get())?)
}

fn once<T>(earlier: Option<&T>, number: impl std::fmt::Display) -> std::result::Result<(), String> {
    if earlier.is_some() { Err(format!("a number that was there before: {number}")) } else { Ok(()) }
}

fn found<T: ?Sized>(
    known: &HashMap<u32, Arc<T>>,
    number: Option<u32>,
    what: &str,
) -> std::result::Result<Option<Arc<T>>, String> {
    let find = |number: u32| known.get(&number).cloned().ok_or_else(|| format!("no such {what}: {number}"));
    number.map(find).transpose()
}

/// Whole lines, one at a time.
struct Lines<'s> {
    source: &'s Source,
    bytes: Box<dyn BufRead>,
    line: Vec<u8>,
    number: usize,
    offset: u64,
    /// Whether there was something after the last line end.
    torn: bool,
}

struct WholeLine<'l> {
    bytes: &'l [u8],
    number: usize,
    offset: u64,
}

impl<'s> Lines<'s> {
    fn open(source: &'s Source) -> Result<Self> {
        Self::at(source, 0)
    }

    fn at(source: &'s Source, offset: u64) -> Result<Self> {
        Ok(Self { source, bytes: source.open(offset)?, line: Vec::new(), number: 0, offset, torn: false })
    }

    fn next(&mut self) -> Result<Option<WholeLine<'_>>> {
        self.offset += self.line.len() as u64;
        self.line.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = self.bytes.by_ref().take(limit).read_until(b'\n', &mut self.line);
        read.map_err(|error| self.source.unreadable(&error))?;
        self.number += 1;
        if self.line.ends_with(b"\n") {
            return Ok(Some(WholeLine { bytes: &self.line, number: self.number, offset: self.offset }));
        }
        if self.line.len() as u64 == limit {
            let name = self.source.name();
            return Err(Error::usage(format!("{name}, line {}: longer than {MAX_LINE_BYTES} bytes", self.number))
                .hint("give a file that --run-log wrote"));
        }
        self.torn = !self.line.is_empty();
        Ok(None)
    }
}
