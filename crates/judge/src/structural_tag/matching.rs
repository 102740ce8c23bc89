//! Runs the automaton of a tag on a text.
//!
//! All ways to read the text are followed at once, byte by byte, so the result does not depend on
//! the order of alternatives. The configurations at one byte are a set: equal ones are followed
//! once.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use regex_automata::hybrid::dfa::Cache;
use sobench_core::verdict::NotScored;

use super::leaf::{LeafMatch, Steps};
use super::program::{FreeText, Program, State, at_path};
use super::triggers::START;

/// Maximum number of expected texts that are collected for a message.
const MAX_EXPECTATIONS: usize = 32;

/// Maximum number of expected texts that a message lists.
const MAX_LISTED: usize = 3;

/// Maximum characters of an expected text in a message.
const MAX_QUOTED_CHARS: usize = 40;

/// What a text is to a tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A whole answer.
    Match,
    NoMatch(Mismatch),
}

/// Where a text stops following a tag.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mismatch {
    /// The path of the format that the text breaks.
    pub path: String,
    pub byte: usize,
    pub message: String,
    /// Whether more text may complete an answer.
    pub may_continue: bool,
}

/// A way to read the text up to some byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Config {
    state: u32,
    /// The counted repetitions around the state, in [`Run::counts`].
    count: u32,
    /// The state of [`Triggers`](super::triggers::Triggers).
    trigger: u32,
    /// Characters of the free text, where they are limited.
    chars: u64,
}

impl Config {
    fn at(state: u32, count: u32) -> Self {
        Self {
            state,
            count,
            trigger: START,
            chars: 0,
        }
    }
}

/// Iterations of a counted repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Count {
    /// The repetition around it.
    outer: u32,
    /// Complete iterations. No more than needed: those over `least` are not counted where there is
    /// no `most`.
    complete: u64,
    /// Whether the current iteration has read text.
    has_read: bool,
}

/// No counted repetition.
const NO_COUNT: u32 = 0;

/// What would have continued the text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    Text(String),
    End,
    Format(String),
}

/// The furthest place where the text stopped following the tag.
#[derive(Default)]
struct Furthest {
    byte: usize,
    may_continue: bool,
    /// Paths, the byte to report, and what was expected there.
    expected: Vec<(u32, usize, Expected)>,
}

struct Run<'p, 't> {
    program: &'p Program,
    text: &'t str,
    /// Configurations at bytes that are still to be processed.
    pending: BTreeMap<usize, Vec<Config>>,
    counts: Vec<Count>,
    count_indices: HashMap<Count, u32>,
    caches: Vec<Option<Cache>>,
    steps: Steps,
    furthest: Furthest,
    is_match: bool,
}

/// Matches the whole of `text`. The error is the reason why this cannot be decided.
pub(super) fn run(program: &Program, text: &str, steps: u64) -> Result<Outcome, NotScored> {
    let outermost = Count {
        outer: NO_COUNT,
        complete: 0,
        has_read: true,
    };
    let mut run = Run {
        program,
        text,
        pending: BTreeMap::from([(0, vec![Config::at(program.start, NO_COUNT)])]),
        counts: vec![outermost],
        count_indices: HashMap::new(),
        caches: program
            .leaves
            .iter()
            .map(super::leaf::Leaf::cache)
            .collect(),
        steps: Steps(steps),
        furthest: Furthest::default(),
        is_match: false,
    };
    while let Some((byte, configs)) = run.pending.pop_first() {
        run.column(byte, configs)?;
        if run.is_match {
            return Ok(Outcome::Match);
        }
    }
    Ok(Outcome::NoMatch(run.into_mismatch()))
}

impl Run<'_, '_> {
    /// Follows all configurations at a byte.
    fn column(&mut self, byte: usize, mut agenda: Vec<Config>) -> Result<(), NotScored> {
        let program = self.program;
        let mut seen = HashSet::new();
        let mut matches: HashMap<u32, Rc<LeafMatch>> = HashMap::new();
        while let Some(config) = agenda.pop() {
            if !seen.insert(config) {
                continue;
            }
            self.steps.take(1)?;
            match &program.states[config.state as usize] {
                State::Accept if byte == self.text.len() => self.is_match = true,
                State::Accept => self.stop(byte, false, Program::ROOT_PATH, || Expected::End),
                State::Split(states) => {
                    self.steps.take(states.len() as u64)?;
                    // The first one is the next to be followed.
                    let configs = states.iter().rev();
                    agenda.extend(configs.map(|&state| Config::at(state, config.count)));
                }
                State::Text { text, path, next } => {
                    self.literal(byte, config.count, text, *path, *next);
                }
                // A format starts with a whole character.
                State::Leaf { .. } if !self.text.is_char_boundary(byte) => {}
                State::Leaf { leaf, path, next } => {
                    let found = match matches.entry(*leaf) {
                        Entry::Occupied(entry) => Rc::clone(entry.get()),
                        Entry::Vacant(entry) => {
                            let found = self.leaf(byte, *leaf, *path)?;
                            Rc::clone(entry.insert(Rc::new(found)))
                        }
                    };
                    self.steps.take(found.ends.len() as u64)?;
                    for &end in &found.ends {
                        if end == byte {
                            agenda.push(Config::at(*next, config.count));
                        } else {
                            let count = self.after_reading(config.count);
                            self.push(end, Config::at(*next, count));
                        }
                    }
                }
                State::Free(free) => self.free_text(byte, config, free, &mut agenda),
                State::Repeat { .. } => {
                    let count = Count {
                        outer: config.count,
                        complete: 0,
                        has_read: false,
                    };
                    self.iterate(config.state, count, &mut agenda);
                }
                State::Again { repeat } => self.again(*repeat, config.count, &mut agenda),
            }
        }
        Ok(())
    }

    fn push(&mut self, byte: usize, config: Config) {
        self.pending.entry(byte).or_default().push(config);
    }

    fn literal(&mut self, byte: usize, count: u32, expected: &str, path: u32, next: u32) {
        let rest = &self.text.as_bytes()[byte..];
        let common = rest
            .iter()
            .zip(expected.as_bytes())
            .take_while(|(found, expected)| found == expected)
            .count();
        if common == expected.len() {
            let count = self.after_reading(count);
            self.push(byte + common, Config::at(next, count));
        } else {
            let mut shown = byte + common;
            while !self.text.is_char_boundary(shown) {
                shown -= 1;
            }
            let may_continue = common == rest.len();
            self.stop_at(byte + common, shown, may_continue, path, || {
                Expected::Text(expected.to_owned())
            });
        }
    }

    fn leaf(&mut self, byte: usize, leaf: u32, path: u32) -> Result<LeafMatch, NotScored> {
        let program = self.program;
        let cache = self.caches[leaf as usize].as_mut();
        let found = program.leaves[leaf as usize]
            .matches(self.text, byte, cache, &mut self.steps)
            .map_err(|why| at_path(&program.paths[path as usize], why))?;
        // What follows a match explains a failure after it.
        if found.ends.last() != Some(&found.furthest) || found.may_continue {
            let shown = found.shown.unwrap_or(found.furthest);
            self.stop_at(found.furthest, shown, found.may_continue, path, || {
                Expected::Format(found.message.clone())
            });
        }
        Ok(found)
    }

    fn free_text(
        &mut self,
        byte: usize,
        config: Config,
        free: &FreeText,
        agenda: &mut Vec<Config>,
    ) {
        let complete = free.triggers.complete(config.trigger);
        if complete.is_empty() {
            agenda.push(Config::at(free.next, config.count));
        }
        for &trigger in complete {
            agenda.push(Config::at(free.rules[trigger as usize], config.count));
        }
        let Some(&next) = self.text.as_bytes().get(byte) else {
            return self.stop(byte, true, free.path, || {
                Expected::Format("unfinished".to_owned())
            });
        };
        let mut chars = config.chars;
        if let Some(most) = free.max_chars
            && self.text.is_char_boundary(byte)
        {
            if chars == most {
                return self.stop(byte, false, free.path, || {
                    Expected::Format(format!("the text is over {most} characters"))
                });
            }
            chars += 1;
        }
        let Some(trigger) = free.triggers.step(config.trigger, next) else {
            if complete.is_empty() {
                self.stop(byte, false, free.path, || {
                    Expected::Format("contains an excluded text".to_owned())
                });
            }
            return;
        };
        let count = self.after_reading(config.count);
        let config = Config {
            count,
            trigger,
            chars,
            ..config
        };
        self.push(byte + 1, config);
    }

    /// Starts an iteration of a repetition, or leaves it.
    fn iterate(&mut self, repeat: u32, count: Count, agenda: &mut Vec<Config>) {
        let State::Repeat {
            least,
            most,
            body,
            next,
        } = self.program.states[repeat as usize]
        else {
            return;
        };
        if count.complete >= least {
            agenda.push(Config::at(next, count.outer));
        }
        if most.is_none_or(|most| count.complete < most) {
            let index = self.intern(count);
            agenda.push(Config::at(body, index));
        }
    }

    /// Ends an iteration of a repetition.
    fn again(&mut self, repeat: u32, index: u32, agenda: &mut Vec<Config>) {
        let State::Repeat {
            least, most, next, ..
        } = self.program.states[repeat as usize]
        else {
            return;
        };
        let count = self.counts[index as usize];
        if !count.has_read {
            // The body matches the empty text, so the other iterations may be empty too.
            agenda.push(Config::at(next, count.outer));
            return;
        }
        let complete = match most {
            Some(_) => count.complete + 1,
            None => (count.complete + 1).min(least),
        };
        let count = Count {
            complete,
            has_read: false,
            ..count
        };
        self.iterate(repeat, count, agenda);
    }

    fn intern(&mut self, count: Count) -> u32 {
        let next = self.counts.len() as u32;
        let index = *self.count_indices.entry(count).or_insert(next);
        if index == next {
            self.counts.push(count);
        }
        index
    }

    /// The repetitions of `index` after text was read in their current iterations.
    fn after_reading(&mut self, index: u32) -> u32 {
        let count = self.counts[index as usize];
        if count.has_read {
            // So have the outer ones.
            return index;
        }
        let outer = self.after_reading(count.outer);
        self.intern(Count {
            outer,
            has_read: true,
            ..count
        })
    }

    fn stop(
        &mut self,
        byte: usize,
        may_continue: bool,
        path: u32,
        expected: impl FnOnce() -> Expected,
    ) {
        self.stop_at(byte, byte, may_continue, path, expected);
    }

    /// Records where one way to read the text ended. `shown` is the byte to report.
    fn stop_at(
        &mut self,
        byte: usize,
        shown: usize,
        may_continue: bool,
        path: u32,
        expected: impl FnOnce() -> Expected,
    ) {
        let furthest = &mut self.furthest;
        furthest.may_continue |= may_continue;
        if byte > furthest.byte {
            furthest.byte = byte;
            furthest.expected.clear();
        }
        if byte == furthest.byte && furthest.expected.len() < MAX_EXPECTATIONS {
            furthest.expected.push((path, shown, expected()));
        }
    }

    fn into_mismatch(self) -> Mismatch {
        let Furthest {
            byte,
            may_continue,
            expected,
        } = self.furthest;
        let paths = expected
            .iter()
            .map(|(path, ..)| self.program.paths[*path as usize].as_str());
        let shown = expected.iter().map(|(_, shown, _)| *shown).min();
        let mut kinds: Vec<&Expected> = Vec::new();
        for (.., kind) in &expected {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        Mismatch {
            path: common_ancestor(paths),
            byte: shown.unwrap_or(byte),
            message: message(&kinds, byte == self.text.len()),
            may_continue,
        }
    }
}

/// The longest path that is an ancestor of all, or equal.
fn common_ancestor<'a>(paths: impl Iterator<Item = &'a str>) -> String {
    let mut common: Option<Vec<&str>> = None;
    for path in paths {
        let tokens = path.split('/');
        common = Some(match common {
            None => tokens.collect(),
            Some(common) => common
                .into_iter()
                .zip(tokens)
                .take_while(|(one, other)| one == other)
                .map(|(token, _)| token)
                .collect(),
        });
    }
    common.unwrap_or_default().join("/")
}

fn message(expected: &[&Expected], at_end: bool) -> String {
    let mut texts = Vec::new();
    for kind in expected {
        match kind {
            Expected::Format(message) if !at_end || expected.len() == 1 => return message.clone(),
            Expected::Format(_) => {}
            Expected::Text(text) => texts.push(quoted(text)),
            Expected::End => texts.push("the end of the answer".to_owned()),
        }
    }
    let is_end = if at_end { "the answer ends" } else { "" };
    if texts.is_empty() {
        return is_end.to_owned();
    }
    let comma = if at_end { ", " } else { "" };
    let count = texts.len();
    if count > MAX_LISTED {
        return format!("{is_end}{comma}expected one of {count} texts");
    }
    format!("{is_end}{comma}expected {}", texts.join(" or "))
}

fn quoted(text: &str) -> String {
    if text.chars().count() <= MAX_QUOTED_CHARS {
        return format!("{text:?}");
    }
    let start: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    format!("{:?}", start + "…")
}
