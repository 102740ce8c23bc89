//! Reads texts by a structural tag, independently of the evaluator: a set of threads is advanced
//! byte by byte.
//!
//! A thread is a place in a format and the formats that follow it. JSON is followed by the machine
//! of [`JsonPrefix`], and its values are checked by `boon`. Regular expressions are automata, and
//! grammars are read by the recogniser. The parameters of XML styles are not read: they may be any
//! text, and a reading through them is not certain.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use regex_automata::util::primitives::StateID;
use serde_json::Value;

use super::json_prefix::JsonPrefix;
use super::oracles::BoonValidator;
use super::syntax::RegularLanguage;
use sobench_core::constraint::GrammarDialect;
use sobench_core::input::json::DuplicateKeys;
use sobench_grammar::{self as grammar, Membership, Recogniser};

/// Maximum threads at one byte. With more, nothing is known about the text.
const MAX_THREADS: usize = 256;

/// Maximum iterations of a repetition whose content may be empty.
const MAX_EMPTY_ITERATIONS: u64 = 64;

/// Maximum nesting of formats.
const MAX_NESTING: usize = 64;

/// A structural tag that can be read.
pub(super) struct TagReader {
    formats: Vec<Format>,
    root: usize,
    has_grammar: bool,
}

enum Format {
    Text(Vec<u8>),
    Json(Box<JsonFormat>),
    /// Any text; readings through it are not certain.
    Unread,
    Regex(Box<RegularLanguage>),
    Grammar(Box<Recogniser>),
    Free(Box<FreeText>),
    Sequence(Vec<usize>),
    Any(Vec<usize>),
    Repeat {
        least: u64,
        most: Option<u64>,
        body: usize,
    },
}

struct JsonFormat {
    schema: Value,
    /// With `format` asserted and as an annotation; `None` if `boon` cannot read the schema.
    validators: OnceCell<Option<(BoonValidator, BoonValidator)>>,
}

/// Free text up to a trigger, or up to any place.
#[derive(Default)]
struct FreeText {
    /// Triggers and the formats after them.
    rules: Vec<(Vec<u8>, usize)>,
    excludes: Vec<Vec<u8>>,
    max_chars: Option<u64>,
    /// Whether free text goes on after the format of a trigger.
    repeats: bool,
    /// A bound on tokens: a text with more bytes than this is not certainly within it.
    max_tokens: Option<u64>,
}

/// Formats that follow, the next one first.
type Rest = Option<Rc<Frame>>;

#[derive(PartialEq, Eq, Hash, Debug)]
enum Frame {
    Then {
        format: usize,
        rest: Rest,
    },
    Again {
        repeat: usize,
        complete: u64,
        rest: Rest,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Place {
    /// The end of the tag.
    Accept,
    Text {
        format: usize,
        read: usize,
    },
    Json {
        format: usize,
        state: JsonPrefix,
        start: usize,
    },
    Unread,
    Regex {
        format: usize,
        state: StateID,
    },
    Grammar {
        format: usize,
        start: usize,
    },
    Free {
        format: usize,
        /// The longest end of the text that is the start of a trigger or excluded text.
        seen: Rc<[u8]>,
        chars: u64,
        bytes: u64,
    },
}

/// What distinguishes threads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct ThreadKey {
    place: Place,
    rest: Rest,
    is_certain: bool,
}

/// One way to read the text so far.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    key: ThreadKey,
    parts: Option<Rc<PartList>>,
}

/// The JSON values that were read, the last one first.
#[derive(Debug)]
struct PartList {
    format: usize,
    range: Range<usize>,
    before: Option<Rc<PartList>>,
}

/// A JSON value in a text, with the white space around it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPart {
    pub(super) range: Range<usize>,
    pub(super) schema: Value,
}

/// How a whole text was read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Some certain reading accepts the text.
    pub(super) surely_matches: bool,
    /// Some reading accepts the text.
    pub(super) may_match: bool,
    /// The JSON values of an accepting reading, or of one that came as far as any.
    pub(super) parts: Vec<JsonPart>,
    /// The last JSON value that its schema refuses.
    pub(super) refused: Option<JsonPart>,
}

/// Checks of values while a text is read.
#[derive(Default)]
struct Checks {
    results: HashMap<(usize, usize, usize), Option<bool>>,
    refused: Option<(usize, Range<usize>)>,
}

impl TagReader {
    /// `None` for a tag with formats that are not known here.
    pub(super) fn new(tag: &Value) -> Option<Self> {
        let mut builder = Builder::default();
        let root = match (tag.get("format"), tag.get("structures")) {
            (Some(format), _) => builder.format(format, &[], 0)?,
            (None, Some(structures)) => {
                let tags = structures.as_array()?.iter().map(|structure| {
                    let schema = match structure.get("schema")? {
                        Value::String(text) => serde_json::from_str(text).ok()?,
                        schema => schema.clone(),
                    };
                    let content = builder.add(Format::json(schema));
                    Some(TagFormat {
                        begin: texts(structure.get("begin"))?.pop()?,
                        content,
                        ends: texts(structure.get("end"))?,
                    })
                });
                let tags: Vec<TagFormat> = tags.collect::<Option<_>>()?;
                let triggers = texts(tag.get("triggers"))?;
                builder.triggered(&triggers, &tags, Vec::new(), (false, false))?
            }
            (None, None) => return None,
        };
        builder.bound_empty_iterations()?;
        let has_grammar = builder
            .formats
            .iter()
            .any(|format| matches!(format, Format::Grammar(_)));
        Some(Self {
            formats: builder.formats,
            root,
            has_grammar,
        })
    }

    /// Whether threads can be advanced without the text that was read.
    pub(super) fn is_stateful(&self) -> bool {
        !self.has_grammar
    }

    /// The threads before the first byte.
    pub(super) fn start(&self) -> Vec<Thread> {
        let mut step = Step::new(self, &[], None);
        step.enter(self.root, None, (true, None));
        step.threads
    }

    /// The threads after the last byte of `text`, by syntax alone: values are not checked by their
    /// schemas. `None` if there are too many.
    pub(super) fn advance(&self, threads: &[Thread], text: &[u8]) -> Option<Vec<Thread>> {
        self.step(threads, text, None)
    }

    /// As [`TagReader::advance`], for one byte after a text that is not known.
    pub(super) fn push(&self, threads: &mut Vec<Thread>, byte: u8) -> bool {
        // Too many threads: the byte is not ruled out.
        if let Some(next) = self.step(threads, &[byte], None) {
            *threads = next;
        }
        !threads.is_empty()
    }

    /// Whether some thread is at the end of the tag.
    pub(super) fn is_complete(threads: &[Thread]) -> bool {
        threads
            .iter()
            .any(|thread| thread.key.place == Place::Accept)
    }

    /// What decides about the next `bytes` bytes.
    pub(super) fn keys(threads: &[Thread], bytes: usize) -> Vec<ThreadKey> {
        let key = |thread: &Thread| {
            let mut key = thread.key.clone();
            match &mut key.place {
                Place::Json { state, start, .. } => (*state, *start) = (state.key(bytes), 0),
                Place::Free { bytes, .. } => *bytes = 0,
                _ => {}
            }
            key.is_certain = true;
            key
        };
        threads.iter().map(key).collect()
    }

    /// Reads a whole text; `None` if it has too many readings.
    pub(super) fn read(&self, text: &[u8]) -> Option<Reading> {
        let mut checks = Checks::default();
        let mut threads = self.start();
        let mut furthest = (threads.clone(), 0);
        for end in 1..=text.len() {
            threads = self.step(&threads, &text[..end], Some(&mut checks))?;
            if threads.is_empty() {
                break;
            }
            furthest = (threads.clone(), end);
        }
        let best = threads
            .iter()
            .filter(|thread: &&Thread| thread.key.place == Place::Accept)
            .max_by_key(|thread| thread.key.is_certain);
        let is_json = |thread: &&Thread| matches!(thread.key.place, Place::Json { .. });
        let shown = best
            .or_else(|| furthest.0.iter().find(is_json))
            .or_else(|| furthest.0.first());
        Some(Reading {
            surely_matches: best.is_some_and(|thread| thread.key.is_certain),
            may_match: best.is_some(),
            parts: shown.map_or_else(Vec::new, |thread| self.parts(thread, furthest.1)),
            refused: checks
                .refused
                .map(|(format, range)| self.part(format, range)),
        })
    }

    fn parts(&self, thread: &Thread, end: usize) -> Vec<JsonPart> {
        let mut parts = Vec::new();
        if let Place::Json { format, start, .. } = thread.key.place {
            parts.push(self.part(format, start..end));
        }
        let mut list = thread.parts.as_ref();
        while let Some(part) = list {
            parts.push(self.part(part.format, part.range.clone()));
            list = part.before.as_ref();
        }
        parts.reverse();
        parts
    }

    fn part(&self, format: usize, range: Range<usize>) -> JsonPart {
        let schema = match &self.formats[format] {
            Format::Json(json) => json.schema.clone(),
            _ => Value::Bool(true),
        };
        JsonPart { range, schema }
    }

    fn step(
        &self,
        threads: &[Thread],
        text: &[u8],
        checks: Option<&mut Checks>,
    ) -> Option<Vec<Thread>> {
        let mut step = Step::new(self, text, checks);
        threads.iter().for_each(|thread| step.advance(thread));
        (step.threads.len() <= MAX_THREADS).then_some(step.threads)
    }

    /// Whether the schema accepts the value; `None` if the oracles do not decide.
    fn check(&self, format: usize, text: &[u8]) -> Option<bool> {
        let Format::Json(json) = &self.formats[format] else {
            return None;
        };
        let text = std::str::from_utf8(text).ok()?;
        let value: Value = serde_json::from_str(text).ok()?;
        let mut repeated = DuplicateKeys::default();
        repeated.scan(text, |_| String::new());
        if repeated.found().is_some() {
            return None;
        }
        let (asserting, annotating) = json.validators()?;
        let verdicts = [asserting.accepts(&value)?, annotating.accepts(&value)?];
        (verdicts[0] == verdicts[1]).then_some(verdicts[0])
    }
}

impl Format {
    fn json(schema: Value) -> Self {
        Self::Json(Box::new(JsonFormat {
            schema,
            validators: OnceCell::new(),
        }))
    }
}

impl JsonFormat {
    fn validators(&self) -> Option<&(BoonValidator, BoonValidator)> {
        self.validators
            .get_or_init(|| {
                BoonValidator::new(&self.schema, true).zip(BoonValidator::new(&self.schema, false))
            })
            .as_ref()
    }
}

impl FreeText {
    fn patterns(&self) -> impl Iterator<Item = &[u8]> {
        let triggers = self.rules.iter().map(|(trigger, _)| &trigger[..]);
        triggers.chain(self.excludes.iter().map(|text| &text[..]))
    }

    fn is_start(&self, text: &[u8]) -> bool {
        self.patterns().any(|pattern| pattern.starts_with(text))
    }

    fn has_trigger(&self, seen: &[u8]) -> bool {
        self.rules.iter().any(|(trigger, _)| trigger == seen)
    }

    /// The longest end of the text that is the start of a trigger or excluded text; `None` if the
    /// byte cannot follow. After a complete trigger, only a longer one goes on.
    fn follow(&self, seen: &[u8], byte: u8) -> Option<Rc<[u8]>> {
        let mut text = seen.to_vec();
        text.push(byte);
        if self.has_trigger(seen) && !self.is_start(&text) {
            return None;
        }
        let start = (0..text.len()).find(|start| self.is_start(&text[*start..]));
        let next = &text[start.unwrap_or(text.len())..];
        let is_excluded = self
            .excludes
            .iter()
            .any(|excluded| next.ends_with(excluded));
        (!is_excluded).then(|| next.into())
    }
}

/// Whether a reading is certain, and its JSON values.
type History = (bool, Option<Rc<PartList>>);

/// One step of all threads.
struct Step<'a> {
    reader: &'a TagReader,
    /// The text with the byte of the step.
    text: &'a [u8],
    checks: Option<&'a mut Checks>,
    threads: Vec<Thread>,
    known: HashSet<ThreadKey>,
    entered: HashSet<(usize, Rest, bool)>,
}

impl<'a> Step<'a> {
    fn new(reader: &'a TagReader, text: &'a [u8], checks: Option<&'a mut Checks>) -> Self {
        Self {
            reader,
            text,
            checks,
            threads: Vec::new(),
            known: HashSet::new(),
            entered: HashSet::new(),
        }
    }

    fn push(&mut self, place: Place, rest: Rest, (is_certain, parts): History) {
        let key = ThreadKey {
            place,
            rest,
            is_certain,
        };
        // A few threads are compared faster than hashed.
        let is_new = if self.threads.len() < 4 {
            self.threads.iter().all(|thread| thread.key != key)
        } else {
            if self.known.is_empty() {
                self.known
                    .extend(self.threads.iter().map(|thread| thread.key.clone()));
            }
            self.known.insert(key.clone())
        };
        if is_new && self.threads.len() <= MAX_THREADS {
            self.threads.push(Thread { key, parts });
        }
    }

    /// Starts a format.
    fn enter(&mut self, format: usize, rest: Rest, history: History) {
        let reader = self.reader;
        if self.threads.len() > MAX_THREADS
            || !self.entered.insert((format, rest.clone(), history.0))
        {
            return;
        }
        let at = self.text.len();
        match &reader.formats[format] {
            Format::Text(text) if text.is_empty() => self.leave(&rest, history),
            Format::Text(_) => self.push(Place::Text { format, read: 0 }, rest, history),
            Format::Json(_) => {
                let state = JsonPrefix::default();
                let place = Place::Json {
                    format,
                    state,
                    start: at,
                };
                self.push(place, rest, history);
            }
            Format::Unread => self.unread(rest, history),
            Format::Regex(language) => {
                let state = language.start();
                if language.is_match(state) {
                    self.leave(&rest, history.clone());
                }
                self.push(Place::Regex { format, state }, rest, history);
            }
            Format::Grammar(recogniser) => {
                if recogniser.recognise("") == Membership::Member {
                    self.leave(&rest, history.clone());
                }
                self.push(Place::Grammar { format, start: at }, rest, history);
            }
            Format::Free(free) => {
                self.free(format, free, (Rc::from([]), 0, 0), rest, history);
            }
            Format::Sequence(formats) => {
                let Some((first, others)) = formats.split_first() else {
                    return self.leave(&rest, history);
                };
                let then = |rest, format: &usize| {
                    Some(Rc::new(Frame::Then {
                        format: *format,
                        rest,
                    }))
                };
                let rest = others.iter().rev().fold(rest, then);
                self.enter(*first, rest, history);
            }
            Format::Any(formats) => {
                for format in formats {
                    self.enter(*format, rest.clone(), history.clone());
                }
            }
            Format::Repeat { .. } => self.iterate(format, 0, &rest, history),
        }
    }

    /// Starts the next iteration of a repetition, or leaves it.
    fn iterate(&mut self, repeat: usize, complete: u64, rest: &Rest, history: History) {
        let Format::Repeat { least, most, body } = self.reader.formats[repeat] else {
            return;
        };
        if complete >= least {
            self.leave(rest, history.clone());
        }
        if most.is_none_or(|most| complete < most) {
            let again = Frame::Again {
                repeat,
                complete,
                rest: rest.clone(),
            };
            self.enter(body, Some(Rc::new(again)), history);
        }
    }

    /// Goes on after a format.
    fn leave(&mut self, rest: &Rest, history: History) {
        match rest.as_deref() {
            None => self.push(Place::Accept, None, history),
            Some(Frame::Then { format, rest }) => self.enter(*format, rest.clone(), history),
            Some(Frame::Again {
                repeat,
                complete,
                rest,
            }) => {
                let Format::Repeat { least, most, .. } = self.reader.formats[*repeat] else {
                    return;
                };
                // Iterations are counted as far as the count matters.
                let complete = match most {
                    Some(_) => complete + 1,
                    None => (complete + 1).min(least),
                };
                self.iterate(*repeat, complete, rest, history);
            }
        }
    }

    fn unread(&mut self, rest: Rest, (_, parts): History) {
        self.leave(&rest, (false, parts.clone()));
        self.push(Place::Unread, rest, (false, parts));
    }

    /// Goes on in free text, at triggers and after the free text.
    fn free(
        &mut self,
        format: usize,
        free: &FreeText,
        (seen, chars, bytes): (Rc<[u8]>, u64, u64),
        rest: Rest,
        history: History,
    ) {
        let is_within = free.max_tokens.is_none_or(|most| bytes <= most);
        let history = (history.0 && is_within, history.1);
        if free.has_trigger(&seen) {
            let after = if free.repeats {
                let rest = rest.clone();
                Some(Rc::new(Frame::Then { format, rest }))
            } else {
                rest.clone()
            };
            let rules = free.rules.iter().filter(|(trigger, _)| **trigger == *seen);
            for (_, rule) in rules {
                self.enter(*rule, after.clone(), history.clone());
            }
        } else {
            self.leave(&rest, history.clone());
        }
        // Bytes are counted as far as the count matters.
        let bytes = if free.max_tokens.is_some() { bytes } else { 0 };
        let place = Place::Free {
            format,
            seen,
            chars,
            bytes,
        };
        self.push(place, rest, history);
    }

    /// Reads the byte of the step.
    fn advance(&mut self, thread: &Thread) {
        let reader = self.reader;
        let Some(&byte) = self.text.last() else {
            return;
        };
        let ThreadKey {
            place,
            rest,
            is_certain,
        } = &thread.key;
        let history = (*is_certain, thread.parts.clone());
        match place {
            Place::Accept => {}
            Place::Unread => self.unread(rest.clone(), history),
            &Place::Text { format, read } => {
                let Format::Text(text) = &reader.formats[format] else {
                    return;
                };
                if text[read] != byte {
                } else if read + 1 == text.len() {
                    self.leave(rest, history);
                } else {
                    let read = read + 1;
                    self.push(Place::Text { format, read }, rest.clone(), history);
                }
            }
            Place::Json {
                format,
                state,
                start,
            } => self.json((*format, state, *start), byte, rest, history),
            &Place::Regex { format, state } => {
                let Format::Regex(language) = &reader.formats[format] else {
                    return;
                };
                if !language.is_trusted(&[byte]) {
                    return self.unread(rest.clone(), history);
                }
                let Some(state) = language.after(state, &[byte]) else {
                    return;
                };
                if language.is_match(state) {
                    self.leave(rest, history.clone());
                }
                self.push(Place::Regex { format, state }, rest.clone(), history);
            }
            &Place::Grammar { format, start } => {
                let Format::Grammar(recogniser) = &reader.formats[format] else {
                    return;
                };
                let part = self.text.get(start..).unwrap_or_default();
                let membership = match std::str::from_utf8(part) {
                    Ok(text) => recogniser.recognise(text),
                    Err(error) if error.error_len().is_none() => {
                        return self.push(place.clone(), rest.clone(), history);
                    }
                    Err(_) => return,
                };
                match membership {
                    Membership::Member => self.leave(rest, history.clone()),
                    Membership::NotMember { byte } if byte < part.len() => return,
                    Membership::NotMember { .. } => {}
                    Membership::Limit { .. } => return self.unread(rest.clone(), history),
                }
                self.push(place.clone(), rest.clone(), history);
            }
            Place::Free {
                format,
                seen,
                chars,
                bytes,
            } => {
                let Format::Free(free) = &reader.formats[*format] else {
                    return;
                };
                let mut chars = *chars;
                if let Some(most) = free.max_chars
                    && byte & 0xc0 != 0x80
                {
                    if chars == most {
                        return;
                    }
                    chars += 1;
                }
                if let Some(seen) = free.follow(seen, byte) {
                    self.free(
                        *format,
                        free,
                        (seen, chars, bytes + 1),
                        rest.clone(),
                        history,
                    );
                }
            }
        }
    }

    fn json(
        &mut self,
        (format, state, start): (usize, &JsonPrefix, usize),
        byte: u8,
        rest: &Rest,
        history: History,
    ) {
        let mut state = state.clone();
        if !state.push(byte) {
            return;
        }
        if state.is_complete() {
            let end = self.text.len();
            let verdict = self.check(format, start, end);
            if verdict != Some(false) {
                let parts = self.checks.is_some().then(|| {
                    Rc::new(PartList {
                        format,
                        range: start..end,
                        before: history.1.clone(),
                    })
                });
                let is_certain = history.0 && verdict == Some(true);
                self.leave(rest, (is_certain, parts));
            }
        }
        let place = Place::Json {
            format,
            state,
            start,
        };
        self.push(place, rest.clone(), history);
    }

    /// As [`TagReader::check`]; without checks nothing is decided.
    fn check(&mut self, format: usize, start: usize, end: usize) -> Option<bool> {
        let (reader, text) = (self.reader, self.text);
        let checks = self.checks.as_deref_mut()?;
        let value = text[..end].trim_ascii_end();
        let result = *checks
            .results
            .entry((format, start, value.len()))
            .or_insert_with(|| reader.check(format, &value[start..]));
        if result == Some(false) {
            checks.refused = Some((format, start..end));
        }
        result
    }
}

/// `begin`, a content, and one of the `ends`.
struct TagFormat {
    begin: Vec<u8>,
    content: usize,
    ends: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Builder {
    formats: Vec<Format>,
}

impl Builder {
    fn add(&mut self, format: Format) -> usize {
        self.formats.push(format);
        self.formats.len() - 1
    }

    /// `ends` are the ends of the tag around the format.
    fn format(&mut self, format: &Value, ends: &[Vec<u8>], depth: usize) -> Option<usize> {
        if depth == MAX_NESTING {
            return None;
        }
        let members = format.as_object()?;
        let kind = match members.get("type") {
            Some(kind) => kind.as_str()?,
            None => implied_type(format)?,
        };
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let flag = |name: &str| members.get(name).is_some_and(|flag| flag == true);
        let content = |builder: &mut Self| builder.format(members.get("content")?, ends, depth + 1);
        let format = match kind {
            "const_string" => Format::Text(text("value")?.into()),
            "json_schema" if matches!(text("style"), None | Some("json")) => {
                // The strings that a value may not contain are not read.
                match members.get("excludes") {
                    None => Format::json(members.get("json_schema")?.clone()),
                    Some(_) => Format::Unread,
                }
            }
            "json_schema" | "qwen_xml_parameter" => Format::Unread,
            "regex" => {
                let pattern = format!("(?s:{})", text("pattern")?);
                Format::Regex(Box::new(RegularLanguage::from_pattern(&pattern)?))
            }
            "grammar" => {
                let recogniser = grammar::compile(GrammarDialect::Ebnf, text("grammar")?);
                Format::Grammar(Box::new(recogniser.ok()?))
            }
            "any_text" => {
                let max_tokens = members.get("max_tokens").and_then(Value::as_u64);
                if max_tokens == Some(0) {
                    return Some(self.add(Format::Sequence(Vec::new())));
                }
                let mut excludes = optional_texts(members.get("excludes"))?;
                excludes.extend(ends.iter().cloned());
                Format::Free(Box::new(FreeText {
                    excludes,
                    max_chars: members.get("max_chars").and_then(Value::as_u64),
                    max_tokens,
                    ..FreeText::default()
                }))
            }
            "sequence" | "or" => {
                let elements = members.get("elements")?.as_array()?.iter();
                let elements = elements.map(|element| self.format(element, ends, depth + 1));
                let elements = elements.collect::<Option<_>>()?;
                match kind {
                    "or" => Format::Any(elements),
                    _ => Format::Sequence(elements),
                }
            }
            "optional" | "star" | "plus" => Format::Repeat {
                least: u64::from(kind == "plus"),
                most: (kind == "optional").then_some(1),
                body: content(self)?,
            },
            "repeat" => Format::Repeat {
                least: members.get("min")?.as_u64()?,
                most: match members.get("max")?.as_i64()? {
                    -1 => None,
                    most => Some(u64::try_from(most).ok()?),
                },
                body: content(self)?,
            },
            "tag" => {
                let tag = self.tag(format, depth)?;
                return Some(self.whole_tag(&tag, 0));
            }
            "triggered_tags" => {
                let tags = self.tags(members.get("tags")?, depth)?;
                let triggers = texts(members.get("triggers"))?;
                let mut excludes = optional_texts(members.get("excludes"))?;
                excludes.extend(ends.iter().cloned());
                let flags = (flag("at_least_one"), flag("stop_after_first"));
                return self.triggered(&triggers, &tags, excludes, flags);
            }
            "tags_with_separator" => {
                let tags = self.tags(members.get("tags")?, depth)?;
                let tags = tags.iter().map(|tag| self.whole_tag(tag, 0)).collect();
                let first = self.add(Format::Any(tags));
                let mut calls = first;
                if !flag("stop_after_first") {
                    let separator = self.add(Format::Text(text("separator")?.into()));
                    let next = self.add(Format::Sequence(vec![separator, first]));
                    let more = self.add(Format::Repeat {
                        least: 0,
                        most: None,
                        body: next,
                    });
                    calls = self.add(Format::Sequence(vec![first, more]));
                }
                Format::Repeat {
                    least: u64::from(flag("at_least_one")),
                    most: Some(1),
                    body: calls,
                }
            }
            "dispatch" => {
                let mut rules = Vec::new();
                for rule in members.get("rules")?.as_array()? {
                    let trigger = rule.get(0)?.as_str()?;
                    rules.push((trigger.into(), self.format(rule.get(1)?, ends, depth + 1)?));
                }
                Format::Free(Box::new(FreeText {
                    rules,
                    excludes: optional_texts(members.get("excludes"))?,
                    repeats: members.get("loop").is_none_or(|flag| flag == true),
                    ..FreeText::default()
                }))
            }
            _ => return None,
        };
        Some(self.add(format))
    }

    fn tags(&mut self, tags: &Value, depth: usize) -> Option<Vec<TagFormat>> {
        let tags = tags.as_array()?.iter();
        tags.map(|tag| self.tag(tag, depth)).collect()
    }

    fn tag(&mut self, tag: &Value, depth: usize) -> Option<TagFormat> {
        let ends = texts(tag.get("end"))?;
        let excluded: Vec<Vec<u8>> = ends.iter().filter(|end| !end.is_empty()).cloned().collect();
        Some(TagFormat {
            begin: tag.get("begin")?.as_str()?.into(),
            content: self.format(tag.get("content")?, &excluded, depth + 1)?,
            ends,
        })
    }

    /// A tag without the first `skipped` bytes of its start.
    fn whole_tag(&mut self, tag: &TagFormat, skipped: usize) -> usize {
        let begin = self.add(Format::Text(tag.begin[skipped..].to_vec()));
        let ends = tag.ends.iter().cloned();
        let ends = ends.map(|end| self.add(Format::Text(end))).collect();
        let end = self.add(Format::Any(ends));
        self.add(Format::Sequence(vec![begin, tag.content, end]))
    }

    fn triggered(
        &mut self,
        triggers: &[Vec<u8>],
        tags: &[TagFormat],
        excludes: Vec<Vec<u8>>,
        (at_least_one, stop_after_first): (bool, bool),
    ) -> Option<usize> {
        let any_tag = |builder: &mut Self| {
            let tags = tags.iter().map(|tag| builder.whole_tag(tag, 0)).collect();
            builder.add(Format::Any(tags))
        };
        if at_least_one && stop_after_first {
            return Some(any_tag(self));
        }
        let mut rules = Vec::new();
        for trigger in triggers {
            let started: Vec<usize> = tags
                .iter()
                .filter(|tag| tag.begin.starts_with(trigger))
                .map(|tag| self.whole_tag(tag, trigger.len()))
                .collect();
            if trigger.is_empty() || started.is_empty() {
                return None;
            }
            rules.push((trigger.clone(), self.add(Format::Any(started))));
        }
        let free = self.add(Format::Free(Box::new(FreeText {
            rules,
            excludes,
            repeats: !stop_after_first,
            ..FreeText::default()
        })));
        if !at_least_one {
            return Some(free);
        }
        let first = any_tag(self);
        Some(self.add(Format::Sequence(vec![first, free])))
    }

    /// Iterations that read nothing stand for any number of iterations.
    fn bound_empty_iterations(&mut self) -> Option<()> {
        for at in 0..self.formats.len() {
            let Format::Repeat { most, body, .. } = self.formats[at] else {
                continue;
            };
            if !self.may_be_empty(body) {
                continue;
            }
            if most.is_some_and(|most| most > MAX_EMPTY_ITERATIONS) {
                return None;
            }
            self.formats[at] = Format::Repeat {
                least: 0,
                most,
                body,
            };
        }
        Some(())
    }

    fn may_be_empty(&self, format: usize) -> bool {
        match &self.formats[format] {
            Format::Text(text) => text.is_empty(),
            Format::Json(_) => false,
            Format::Unread | Format::Free(_) => true,
            Format::Regex(language) => language.is_match(language.start()),
            Format::Grammar(recogniser) => recogniser.recognise("") == Membership::Member,
            Format::Sequence(formats) => formats.iter().all(|format| self.may_be_empty(*format)),
            Format::Any(formats) => formats.iter().any(|format| self.may_be_empty(*format)),
            Format::Repeat { least, body, .. } => *least == 0 || self.may_be_empty(*body),
        }
    }
}

/// The type of a format without `type`, as xgrammar implies it.
fn implied_type(format: &Value) -> Option<&'static str> {
    let has = |names: &[&str]| names.iter().all(|name| format.get(*name).is_some());
    [
        ("tag", &["begin", "content", "end"][..]),
        ("const_string", &["value"]),
        ("json_schema", &["json_schema"]),
        ("any_text", &["excludes"]),
        ("sequence", &["elements"]),
        ("triggered_tags", &["triggers", "tags"]),
        ("tags_with_separator", &["tags", "separator"]),
        ("optional", &["content"]),
        ("dispatch", &["rules"]),
    ]
    .into_iter()
    .find_map(|(kind, names)| has(names).then_some(kind))
}

/// A text or a list of texts.
fn texts(value: Option<&Value>) -> Option<Vec<Vec<u8>>> {
    match value? {
        Value::String(text) => Some(vec![text.as_bytes().to_vec()]),
        Value::Array(texts) => texts
            .iter()
            .map(|text| Some(text.as_str()?.as_bytes().to_vec()))
            .collect(),
        _ => None,
    }
}

fn optional_texts(value: Option<&Value>) -> Option<Vec<Vec<u8>>> {
    value.map_or_else(|| Some(Vec::new()), |value| texts(Some(value)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use sobench_core::constraint::Constraint;
    use sobench_judge::{Evaluator, JudgeSettings};
    use sobench_pycompat::random::PythonRandom;

    use super::*;

    fn text(value: &str) -> Value {
        json!({"type": "const_string", "value": value})
    }

    fn integer() -> Value {
        json!({"type": "json_schema", "json_schema": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}})
    }

    /// Formats of all kinds, with fragments of their texts.
    fn formats() -> Vec<(Value, Vec<&'static str>)> {
        let any = json!({"type": "any_text"});
        let tag = |begin: &str, content: &Value, end: Value| json!({"type": "tag", "begin": begin, "content": content, "end": end});
        let tags = json!([
            tag("<f=a>", &integer(), json!("</f>")),
            tag(
                "<f=b>",
                &json!({"type": "regex", "pattern": "[a-c]+"}),
                json!(["</f>", ";"])
            )
        ]);
        let pieces = vec![
            "<f=a>",
            "<f=b>",
            "<f",
            "</f>",
            ";",
            "{\"x\":1}",
            "{\"x\": 2 }",
            "{\"x\":\"\"}",
            "ab",
            " ",
            "<",
            ",",
            "{\"x\":1}</f>",
        ];
        let mut all = Vec::new();
        for at_least_one in [false, true] {
            for stop_after_first in [false, true] {
                let flags = json!({"at_least_one": at_least_one, "stop_after_first": stop_after_first, "tags": tags});
                let with = |members: Value| {
                    let mut format = flags.clone();
                    let members = members.as_object().unwrap().clone();
                    format.as_object_mut().unwrap().extend(members);
                    format
                };
                all.push((
                    with(json!({"type": "triggered_tags", "triggers": ["<f="]})),
                    pieces.clone(),
                ));
                all.push((
                    with(json!({"type": "tags_with_separator", "separator": ","})),
                    pieces.clone(),
                ));
            }
        }
        let repeat = |least: u64, most: i64, content: &Value| json!({"type": "repeat", "min": least, "max": most, "content": content});
        let optional = json!({"type": "optional", "content": text("a")});
        all.extend([
            (repeat(2, 3, &text("ab")), vec!["ab", "a", "b"]),
            (repeat(3, 3, &optional), vec!["a", "b"]),
            (repeat(2, -1, &json!({"type": "plus", "content": text("a")})), vec!["a", "b"]),
            (json!({"type": "star", "content": {"type": "star", "content": text("ab")}}), vec!["ab", "a"]),
            (json!({"type": "sequence", "elements": [any, integer(), text("!")]}), vec!["{\"x\":1}", "x", "!", " "]),
            (json!({"type": "any_text", "excludes": ["ab"], "max_chars": 3}), vec!["a", "b", "é", "c"]),
            (json!({"type": "dispatch", "rules": [["<a", text(">")], ["<ab", integer()]], "excludes": ["x"]}), vec!["<a", "b", ">", "{\"x\":1}", "x", "<"]),
            (json!({"type": "dispatch", "rules": [["<a", text(">")]], "loop": false}), vec!["<a", "b", ">", "<"]),
            (json!({"type": "sequence", "elements": [{"type": "or", "elements": [text("a"), text("ab")]}, {"type": "grammar", "grammar": "root ::= \"b\" root | \"é\""}]}), vec!["a", "b", "é"]),
            (tag("<think>", &any, json!("</think>")), vec!["<think>", "</think>", "<", "x"]),
        ]);
        all
    }

    #[test]
    fn reader_and_judge_agree_on_drawn_texts_and_their_prefixes() {
        let mut random = PythonRandom::new(11);
        let (mut valid, mut invalid, mut dead) = (0, 0, 0);
        for (format, pieces) in formats() {
            let tag = json!({ "format": format });
            let reader = TagReader::new(&tag).unwrap();
            let constraint = Constraint::StructuralTag(Arc::new(tag));
            let compiled = Evaluator::new(JudgeSettings::default()).compile(&constraint);
            for _ in 0..150 {
                let count = random.choice(7);
                let text: String = (0..count)
                    .map(|_| pieces[random.choice(pieces.len())])
                    .collect();
                let reading = reader.read(text.as_bytes()).unwrap();
                let is_valid = compiled.accepts(&text);
                assert_eq!(
                    (reading.surely_matches, reading.may_match),
                    (is_valid, is_valid),
                    "{format} {text:?}"
                );
                *(if is_valid { &mut valid } else { &mut invalid }) += 1;
                // By syntax, more texts go on than by the schemas.
                let mut threads = reader.start();
                for end in 1..=text.len() {
                    threads = reader.advance(&threads, &text.as_bytes()[..end]).unwrap();
                    if threads.is_empty() && text.is_char_boundary(end) {
                        let is_alive = compiled.may_become_valid(&text[..end]);
                        assert!(!is_alive, "{format} {text:?} at {end}");
                        dead += 1;
                        break;
                    }
                }
            }
        }
        assert!(
            valid > 200 && invalid > 500 && dead > 200,
            "{valid} {invalid} {dead}"
        );
    }

    #[test]
    fn json_values_are_found_with_their_schemas() {
        let tag = json!({"format": {"type": "triggered_tags", "triggers": ["<f>"], "tags": [
            {"begin": "<f>", "content": integer(), "end": "</f>"}]}});
        let reader = TagReader::new(&tag).unwrap();
        let text = "a <f>{\"x\":1} </f> b <f> {\"x\":2}</f>";
        let reading = reader.read(text.as_bytes()).unwrap();
        let shown: Vec<&str> = reading
            .parts
            .iter()
            .map(|part| &text[part.range.clone()])
            .collect();
        assert_eq!(shown, ["{\"x\":1} ", " {\"x\":2}"]);
        assert_eq!(reading.parts[0].schema, integer()["json_schema"]);
        let cut = reader.read("<f>{\"x\":".as_bytes()).unwrap();
        assert_eq!((cut.may_match, cut.parts[0].range.clone()), (false, 3..8));
        let refused = reader.read(b"<f>{\"y\":1}</f>").unwrap();
        assert!(!refused.may_match && refused.refused.is_some());
    }

    #[test]
    fn what_is_not_known_is_possible_but_not_certain() {
        let read = |content: Value, text: &str| {
            let tag = json!({"format": {"type": "tag", "begin": "<f>", "content": content, "end": "</f>"}});
            let reading = TagReader::new(&tag).unwrap().read(text.as_bytes()).unwrap();
            (reading.surely_matches, reading.may_match)
        };
        let date =
            json!({"type": "json_schema", "json_schema": {"type": "string", "format": "date"}});
        let xml = json!({"type": "json_schema", "style": "qwen_xml", "json_schema": {}});
        let words = json!({"type": "regex", "pattern": "\\w+"});
        let short = json!({"type": "any_text", "max_tokens": 2});
        for (content, text, expected) in [
            (&integer(), "<f>{\"x\":1,\"x\":1}</f>", (false, true)),
            (
                &integer(),
                "<f>{\"x\":1,\"y\":\"\\ud800\"}</f>",
                (false, true),
            ),
            (&date, "<f>\"2026-11-24\"</f>", (true, true)),
            (&date, "<f>\"today\"</f>", (false, true)),
            (&date, "<f>1</f>", (false, false)),
            (&xml, "<f><parameter=a>1</parameter></f>", (false, true)),
            (&xml, "<f><parameter=a>1</parameter>", (false, false)),
            (&words, "<f>ab</f>", (true, true)),
            (&words, "<f>é</f>", (false, true)),
            (&short, "<f>ab</f>", (true, true)),
            (&short, "<f>abc</f>", (false, true)),
        ] {
            assert_eq!(read(content.clone(), text), expected, "{content} {text}");
        }
        for unknown in [
            json!({"format": {"type": "any_tokens"}}),
            json!({"format": {"type": "repeat", "min": 0, "max": 1000, "content": {"type": "any_text"}}}),
            json!({"format": {"type": "regex", "pattern": "a(?=b)"}}),
        ] {
            assert!(TagReader::new(&unknown).is_none(), "{unknown}");
        }
    }
}
