//! Compiles a tree of formats to a nondeterministic automaton.

use std::collections::HashMap;

use sobench_core::verdict::NotScored;

use super::super::JudgeSettings;
use super::leaf::Leaf;
use super::tree::{Format, FormatKind, Tag, unusable};
use super::triggers::Triggers;

/// Maximum number of states.
const MAX_STATES: usize = 200_000;

/// A state of the automaton.
pub(super) enum State {
    /// The end of the tag.
    Accept,
    Text {
        text: String,
        path: u32,
        next: u32,
    },
    /// An entry of [`Program::leaves`].
    Leaf {
        leaf: u32,
        path: u32,
        next: u32,
    },
    Free(Box<FreeText>),
    /// Any of these.
    Split(Vec<u32>),
    /// Between the iterations of a counted repetition, whose body ends in [`State::Again`].
    Repeat {
        least: u64,
        most: Option<u64>,
        body: u32,
        next: u32,
    },
    Again {
        repeat: u32,
    },
}

/// Free text up to a trigger, or up to any place.
pub(super) struct FreeText {
    pub triggers: Triggers,
    /// The state after each trigger.
    pub rules: Vec<u32>,
    pub max_chars: Option<u64>,
    pub path: u32,
    /// The state after free text without a trigger.
    pub next: u32,
}

/// A compiled tag.
pub(super) struct Program {
    pub states: Vec<State>,
    pub start: u32,
    pub leaves: Vec<Leaf>,
    pub paths: Vec<String>,
}

impl Program {
    pub(super) fn compile(format: &Format, options: JudgeSettings) -> Result<Self, NotScored> {
        let mut compiler = Compiler {
            program: Self {
                states: vec![State::Accept],
                start: 0,
                leaves: Vec::new(),
                paths: vec![format.path.clone()],
            },
            leaves: HashMap::new(),
            options,
        };
        compiler.program.start = compiler.format(format, 0, &[])?;
        Ok(compiler.program)
    }

    /// The path of the whole format.
    pub(super) const ROOT_PATH: u32 = 0;
}

struct Compiler {
    program: Program,
    /// The leaf of each path. A tag may be compiled twice.
    leaves: HashMap<String, u32>,
    options: JudgeSettings,
}

impl Compiler {
    fn add(&mut self, state: State) -> Result<u32, NotScored> {
        let index = self.program.states.len();
        if index == MAX_STATES {
            return Err(NotScored::Limit {
                what: format!("structural tag: over {MAX_STATES} states"),
            });
        }
        self.program.states.push(state);
        Ok(index as u32)
    }

    /// A state that [`Self::set`] defines later, for loops.
    fn reserve(&mut self) -> Result<u32, NotScored> {
        self.add(State::Accept)
    }

    fn set(&mut self, index: u32, state: State) {
        self.program.states[index as usize] = state;
    }

    fn path(&mut self, path: &str) -> u32 {
        self.program.paths.push(path.to_owned());
        (self.program.paths.len() - 1) as u32
    }

    /// The first state of a format that `next` follows. `ends` are the ends of the innermost tag
    /// around it.
    fn format(&mut self, format: &Format, next: u32, ends: &[String]) -> Result<u32, NotScored> {
        match &format.kind {
            FormatKind::ConstString(text) => self.text(text, &format.path, next),
            FormatKind::JsonSchema { schema, style } => self.leaf(format, next, |options| {
                Leaf::json_schema(schema, *style, options)
            }),
            FormatKind::Grammar(text) => self.leaf(format, next, |_| Leaf::grammar(text)),
            FormatKind::Regex(pattern) => self.leaf(format, next, |_| Leaf::regex(pattern)),
            FormatKind::AnyText {
                max_tokens: Some(0),
                ..
            } => Ok(next),
            FormatKind::AnyText {
                excludes,
                max_chars,
                ..
            } => {
                let triggers = Triggers::new([], excludes.iter().chain(ends).map(String::as_str));
                let path = self.path(&format.path);
                self.add(State::Free(Box::new(FreeText {
                    triggers,
                    rules: Vec::new(),
                    max_chars: *max_chars,
                    path,
                    next,
                })))
            }
            FormatKind::Sequence(elements) => elements
                .iter()
                .rev()
                .try_fold(next, |next, element| self.format(element, next, ends)),
            FormatKind::Or(elements) => {
                let states = elements
                    .iter()
                    .map(|element| self.format(element, next, ends))
                    .collect::<Result<_, _>>()?;
                self.add(State::Split(states))
            }
            FormatKind::Optional(content) => {
                let content = self.format(content, next, ends)?;
                self.add(State::Split(vec![content, next]))
            }
            FormatKind::Star(content) => {
                let start = self.reserve()?;
                let content = self.format(content, start, ends)?;
                self.set(start, State::Split(vec![content, next]));
                Ok(start)
            }
            FormatKind::Plus(content) => {
                let again = self.reserve()?;
                let content = self.format(content, again, ends)?;
                self.set(again, State::Split(vec![content, next]));
                Ok(content)
            }
            FormatKind::Repeat { most: Some(0), .. } => Ok(next),
            FormatKind::Repeat {
                least,
                most,
                content,
            } => {
                let repeat = self.reserve()?;
                let again = self.add(State::Again { repeat })?;
                let body = self.format(content, again, ends)?;
                let (least, most) = (*least, *most);
                self.set(
                    repeat,
                    State::Repeat {
                        least,
                        most,
                        body,
                        next,
                    },
                );
                Ok(repeat)
            }
            FormatKind::Tag(tag) => self.tag(tag, 0, next),
            FormatKind::TriggeredTags {
                triggers,
                tags,
                excludes,
                at_least_one,
                stop_after_first,
            } => {
                let by_trigger = tags_of_triggers(triggers, tags, &format.path)?;
                let any_tag = |compiler: &mut Self, next| {
                    let states = tags
                        .iter()
                        .map(|tag| compiler.tag(tag, 0, next))
                        .collect::<Result<_, _>>()?;
                    compiler.add(State::Split(states))
                };
                if *at_least_one && *stop_after_first {
                    return any_tag(self, next);
                }
                let free = self.reserve()?;
                let after = if *stop_after_first { next } else { free };
                let mut rules = Vec::new();
                for (trigger, tags) in triggers.iter().zip(&by_trigger) {
                    let states = tags
                        .iter()
                        .map(|tag| self.tag(tag, trigger.len(), after))
                        .collect::<Result<_, _>>()?;
                    rules.push(self.add(State::Split(states))?);
                }
                let path = self.path(&format.path);
                let triggers = Triggers::new(
                    triggers.iter().map(String::as_str),
                    excludes.iter().chain(ends).map(String::as_str),
                );
                self.set(
                    free,
                    State::Free(Box::new(FreeText {
                        triggers,
                        rules,
                        max_chars: None,
                        path,
                        next,
                    })),
                );
                if *at_least_one {
                    any_tag(self, free)
                } else {
                    Ok(free)
                }
            }
            FormatKind::TagsWithSeparator {
                tags,
                separator,
                at_least_one,
                stop_after_first,
            } => {
                let after = if *stop_after_first {
                    next
                } else {
                    self.reserve()?
                };
                let states = tags
                    .iter()
                    .map(|tag| self.tag(tag, 0, after))
                    .collect::<Result<_, _>>()?;
                let any_tag = self.add(State::Split(states))?;
                if !stop_after_first {
                    let path = format!("{}/separator", format.path);
                    let separator = self.text(separator, &path, any_tag)?;
                    self.set(after, State::Split(vec![separator, next]));
                }
                if *at_least_one {
                    Ok(any_tag)
                } else {
                    self.add(State::Split(vec![any_tag, next]))
                }
            }
            FormatKind::Dispatch {
                rules,
                repeats,
                excludes,
            } => {
                if rules.iter().any(|(trigger, _)| trigger.is_empty()) {
                    return Err(unusable(&format.path, "an empty trigger"));
                }
                let free = self.reserve()?;
                let after = if *repeats { free } else { next };
                let triggers = Triggers::new(
                    rules.iter().map(|(trigger, _)| trigger.as_str()),
                    excludes.iter().map(String::as_str),
                );
                let rules = rules
                    .iter()
                    .map(|(_, content)| self.format(content, after, ends))
                    .collect::<Result<_, _>>()?;
                let path = self.path(&format.path);
                self.set(
                    free,
                    State::Free(Box::new(FreeText {
                        triggers,
                        rules,
                        max_chars: None,
                        path,
                        next,
                    })),
                );
                Ok(free)
            }
        }
    }

    fn text(&mut self, text: &str, path: &str, next: u32) -> Result<u32, NotScored> {
        if text.is_empty() {
            return Ok(next);
        }
        let path = self.path(path);
        let text = text.to_owned();
        self.add(State::Text { text, path, next })
    }

    fn leaf(
        &mut self,
        format: &Format,
        next: u32,
        compile: impl FnOnce(JudgeSettings) -> Result<Leaf, NotScored>,
    ) -> Result<u32, NotScored> {
        let leaf = match self.leaves.get(&format.path) {
            Some(leaf) => *leaf,
            None => {
                let leaf = compile(self.options).map_err(|why| at_path(&format.path, why))?;
                self.program.leaves.push(leaf);
                let index = (self.program.leaves.len() - 1) as u32;
                self.leaves.insert(format.path.clone(), index);
                index
            }
        };
        let path = self.path(&format.path);
        self.add(State::Leaf { leaf, path, next })
    }

    /// A tag whose first `skipped` bytes are a trigger that has been read.
    fn tag(&mut self, tag: &Tag, skipped: usize, next: u32) -> Result<u32, NotScored> {
        let end_path = format!("{}/end", tag.path);
        let mut ends = tag
            .ends
            .iter()
            .map(|end| self.text(end, &end_path, next))
            .collect::<Result<Vec<_>, _>>()?;
        let end = if ends.len() == 1 {
            ends.swap_remove(0)
        } else {
            self.add(State::Split(ends))?
        };
        let excludes: Vec<String> = tag
            .ends
            .iter()
            .filter(|end| !end.is_empty())
            .cloned()
            .collect();
        let content = self.format(&tag.content, end, &excludes)?;
        self.text(
            &tag.begin[skipped..],
            &format!("{}/begin", tag.path),
            content,
        )
    }
}

/// The tags that start with each trigger.
fn tags_of_triggers<'a>(
    triggers: &[String],
    tags: &'a [Tag],
    path: &str,
) -> Result<Vec<Vec<&'a Tag>>, NotScored> {
    let mut by_trigger = vec![Vec::new(); triggers.len()];
    for tag in tags {
        let mut matching =
            (0..triggers.len()).filter(|index| tag.begin.starts_with(triggers[*index].as_str()));
        match (matching.next(), matching.next()) {
            (Some(index), None) => by_trigger[index].push(tag),
            (Some(_), Some(_)) => return Err(unusable(&tag.path, "starts with several triggers")),
            (None, _) => return Err(unusable(&tag.path, "starts with no trigger")),
        }
    }
    for (trigger, tags) in triggers.iter().zip(&by_trigger) {
        if trigger.is_empty() {
            return Err(unusable(path, "an empty trigger"));
        }
        if tags.is_empty() {
            return Err(unusable(
                path,
                &format!("no tag for the trigger {trigger:?}"),
            ));
        }
    }
    Ok(by_trigger)
}

/// Adds the path of a format to the reason why it cannot be used.
pub(super) fn at_path(path: &str, why: NotScored) -> NotScored {
    match why {
        NotScored::Unsupported { what } => unusable(path, &what),
        NotScored::Limit { what } => NotScored::Limit {
            what: format!("structural tag at {path}: {what}"),
        },
        why => why,
    }
}
