//! Which tokens can go on from a prefix by syntax alone: JSON for schemas, the language itself for
//! regular expressions and choices. Knows no engine.
//!
//! For JSON this says nothing of the schema, so that a token outside it is wrong under every
//! schema. For a regular expression it is exact: the tokens after which some text of the language
//! still follows.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use regex_automata::Anchored;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::{primitives::StateID, start, syntax};

use super::json_prefix::JsonPrefix;
use super::sorted::Sorted;
use sobench_core::constraint::Constraint;
use sobench_engine::{TokenMask, Vocabulary};
use sobench_grammar::{self as grammar, Membership, Recogniser};

/// Masks that are kept; they are 12 KB each for a vocabulary of 100,000.
const MAX_KEPT: usize = 4096;

/// Bytes of an automaton; a larger one is not built.
const MAX_AUTOMATON_BYTES: usize = 64 << 20;

/// Classes whose members differ between Python's `re` and the automaton's dialect.
const DIALECT_CLASSES: [&str; 6] = ["\\w", "\\W", "\\d", "\\D", "\\s", "\\S"];

/// The syntax of one constraint, and the masks of its states so far.
pub(super) enum Syntax {
    Json(HashMap<JsonPrefix, Arc<TokenMask>>),
    Automaton(Box<Language>, HashMap<StateID, Arc<TokenMask>>),
    /// A grammar, which says of one text after the other whether a sentence begins with it.
    Grammar(Box<Recogniser>),
    /// Nothing is known beyond judging whole texts.
    Unknown,
}

/// A regular language, with the states from which a text of it can still follow.
pub(super) struct Language {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
    alive: HashSet<StateID>,
    /// Whether the pattern has classes on whose characters beyond ASCII Python and Rust differ:
    /// then it is trusted with ASCII alone.
    is_ascii_only: bool,
}

impl Syntax {
    /// The syntax of a constraint.
    pub(super) fn of(constraint: &Constraint) -> Self {
        let automaton = |language: Option<Language>| {
            language.map_or(Self::Unknown, |it| {
                Self::Automaton(Box::new(it), HashMap::new())
            })
        };
        match constraint {
            Constraint::JsonSchema(_) | Constraint::JsonObject(_) => Self::Json(HashMap::new()),
            Constraint::Regex(pattern) => automaton(Language::of(pattern)),
            Constraint::Choice(choices) => {
                let any: Vec<String> = choices
                    .iter()
                    .map(|choice| regex_syntax::escape(choice))
                    .collect();
                automaton(Language::of(&any.join("|")))
            }
            Constraint::Grammar { dialect, text } => grammar::compile(*dialect, text)
                .map_or(Self::Unknown, |recogniser| {
                    Self::Grammar(Box::new(recogniser))
                }),
            Constraint::StructuralTag(_) => Self::Unknown,
        }
    }

    /// The tokens that can follow `prefix`; `None` where nothing is known, or nothing of the syntax
    /// begins with the prefix itself.
    pub(super) fn mask(
        &mut self,
        prefix: &[u8],
        vocabulary: &Vocabulary,
        sorted: &Sorted,
    ) -> Option<Arc<TokenMask>> {
        match self {
            Self::Json(kept) => {
                let state = JsonPrefix::after(prefix)?;
                let key = state.key(sorted.longest());
                Some(kept_or(kept, key, || {
                    sorted.taken_by(vocabulary, &state, JsonPrefix::push)
                }))
            }
            Self::Automaton(language, kept) => {
                let state = language
                    .after(language.start, prefix)
                    .filter(|_| language.is_trusted(prefix))?;
                Some(kept_or(kept, state, || {
                    sorted.taken_by(vocabulary, &state, |state, byte| {
                        *state = language.dfa.next_state(*state, byte);
                        language.alive.contains(state)
                    })
                }))
            }
            Self::Grammar(_) | Self::Unknown => None,
        }
    }

    /// Whether a token that [`Syntax::mask`] leaves out is known to be wrong after a prefix that it
    /// gave a mask for.
    pub(super) fn is_sure_of(&self, token: &[u8]) -> bool {
        match self {
            Self::Automaton(language, _) => language.is_trusted(token),
            Self::Json(_) | Self::Grammar(_) | Self::Unknown => true,
        }
    }

    /// Whether no text of the constraint's syntax begins with `text`, asked of this one text;
    /// `None` where nothing is known.
    pub(super) fn refuses(&self, text: &[u8]) -> Option<bool> {
        match self {
            Self::Json(_) => Some(JsonPrefix::after(text).is_none()),
            Self::Automaton(language, _) if language.is_trusted(text) => {
                Some(language.after(language.start, text).is_none())
            }
            Self::Grammar(recogniser) => refused_by(recogniser, text),
            Self::Automaton(..) | Self::Unknown => None,
        }
    }

    /// Whether `prefix` could be a whole text by syntax; `true` where nothing is known.
    pub(super) fn is_whole(&self, prefix: &[u8]) -> bool {
        match self {
            Self::Json(_) => JsonPrefix::after(prefix).is_some_and(|state| state.is_whole()),
            Self::Automaton(language, _) => {
                !language.is_trusted(prefix)
                    || language
                        .after(language.start, prefix)
                        .is_some_and(|state| language.is_match(state))
            }
            Self::Grammar(_) | Self::Unknown => true,
        }
    }

    /// The shortest text that matches and begins with `prefix`, where the syntax is exact.
    pub(super) fn completed(&self, prefix: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Automaton(language, _) => language.completed(prefix),
            Self::Json(_) | Self::Grammar(_) | Self::Unknown => None,
        }
    }
}

/// Half a character at the end is left out of the question: what it becomes is open.
fn refused_by(recogniser: &Recogniser, text: &[u8]) -> Option<bool> {
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) if error.error_len().is_some() => return Some(true),
        Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).ok()?,
    };
    match recogniser.recognise(text) {
        Membership::Member => Some(false),
        Membership::NotMember { byte } => Some(byte < text.len()),
        Membership::Limit { .. } => None,
    }
}

fn kept_or<K: Eq + Hash>(
    kept: &mut HashMap<K, Arc<TokenMask>>,
    key: K,
    make: impl FnOnce() -> TokenMask,
) -> Arc<TokenMask> {
    if let Some(mask) = kept.get(&key) {
        return Arc::clone(mask);
    }
    let mask = Arc::new(make());
    if kept.len() < MAX_KEPT {
        kept.insert(key, Arc::clone(&mask));
    }
    mask
}

impl Language {
    /// `None` for a pattern that an automaton cannot have (look-around, back-references) or that is
    /// too large.
    fn of(pattern: &str) -> Option<Self> {
        let limits = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .minimize(false)
            .dfa_size_limit(Some(MAX_AUTOMATON_BYTES))
            .determinize_size_limit(Some(MAX_AUTOMATON_BYTES));
        let whole = format!(r"\A(?:{pattern})\z");
        let dfa = dense::Builder::new()
            .configure(limits)
            .syntax(syntax::Config::new().utf8(true))
            .build(&whole)
            .ok()?;
        let start = dfa
            .start_state(&start::Config::new().anchored(Anchored::Yes))
            .ok()?;
        let is_ascii_only = DIALECT_CLASSES.iter().any(|class| pattern.contains(class));
        let mut language = Self {
            dfa,
            start,
            alive: HashSet::new(),
            is_ascii_only,
        };
        language.find_alive();
        language.alive.contains(&start).then_some(language)
    }

    /// A state is alive if a match can be reached: found backwards from those that match.
    fn find_alive(&mut self) {
        let mut reached = vec![self.start];
        let mut seen = HashSet::from([self.start]);
        let mut before: HashMap<StateID, Vec<StateID>> = HashMap::new();
        while let Some(state) = reached.pop() {
            for byte in 0..=u8::MAX {
                let next = self.dfa.next_state(state, byte);
                before.entry(next).or_default().push(state);
                if seen.insert(next) && !self.dfa.is_dead_state(next) {
                    reached.push(next);
                }
            }
        }
        let mut alive: Vec<StateID> = seen
            .into_iter()
            .filter(|state| self.is_match(*state))
            .collect();
        while let Some(state) = alive.pop() {
            if self.alive.insert(state) {
                alive.extend(
                    before
                        .get(&state)
                        .into_iter()
                        .flatten()
                        .filter(|it| !self.alive.contains(it)),
                );
            }
        }
    }

    /// Whether what is said of a text holds in the dialect of the constraint, too.
    fn is_trusted(&self, text: &[u8]) -> bool {
        !self.is_ascii_only
            || text
                .iter()
                .all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r'))
    }

    fn is_match(&self, state: StateID) -> bool {
        self.dfa.is_match_state(self.dfa.next_eoi_state(state))
    }

    /// The state after `bytes`, if it is alive.
    fn after(&self, from: StateID, bytes: &[u8]) -> Option<StateID> {
        let state = bytes
            .iter()
            .fold(from, |state, byte| self.dfa.next_state(state, *byte));
        self.alive.contains(&state).then_some(state)
    }

    /// Breadth first, so that the text is as short as can be; of equally short ones the first in
    /// the order of bytes.
    fn completed(&self, prefix: &[u8]) -> Option<Vec<u8>> {
        let start = self.after(self.start, prefix)?;
        let mut from: HashMap<StateID, (StateID, u8)> = HashMap::new();
        let mut queue = std::collections::VecDeque::from([start]);
        while let Some(state) = queue.pop_front() {
            if self.is_match(state) {
                let mut tail = Vec::new();
                let mut at = state;
                while at != start {
                    let (before, byte) = from[&at];
                    tail.push(byte);
                    at = before;
                }
                tail.reverse();
                return Some([prefix, &tail].concat());
            }
            for byte in 0..=u8::MAX {
                let next = self.dfa.next_state(state, byte);
                if next != start && self.alive.contains(&next) && !from.contains_key(&next) {
                    from.insert(next, (state, byte));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::constraint::GrammarDialect;
    use sobench_engine::vocabulary::shared;

    #[test]
    fn a_regular_expression_knows_what_can_follow() {
        let vocabulary = shared();
        let sorted = Sorted::new(&vocabulary);
        let mut syntax = Syntax::of(&Constraint::Regex("a(bc|bd)+".into()));
        let mask = syntax.mask(b"a", &vocabulary, &sorted).unwrap();
        let texts: Vec<_> = mask
            .iter()
            .map(|token| String::from_utf8_lossy(vocabulary.bytes(token)).into_owned())
            .collect();
        assert!(
            texts.iter().any(|text| text == "b") && texts.iter().any(|text| text == "bc"),
            "{texts:?}"
        );
        assert!(
            texts
                .iter()
                .all(|text| text.starts_with('b') && text.chars().all(|it| "bcd".contains(it))),
            "{texts:?}"
        );
        assert!(syntax.mask(b"x", &vocabulary, &sorted).is_none());
        assert_eq!(
            (
                syntax.is_whole(b"abc"),
                syntax.is_whole(b"ab"),
                syntax.refuses(b"ab")
            ),
            (true, false, Some(false))
        );
        assert_eq!(syntax.completed(b"abdb").as_deref(), Some(&b"abdbc"[..]));
    }

    #[test]
    fn choices_and_grammars_are_languages_and_look_around_is_unknown() {
        let choices: Arc<[String]> = Arc::new(["a+b".to_owned(), "c".to_owned()]);
        assert_eq!(
            Syntax::of(&Constraint::Choice(choices))
                .completed(b"a")
                .as_deref(),
            Some(&b"a+b"[..])
        );
        assert_eq!(
            Syntax::of(&Constraint::Regex("(?=a)a".into())).refuses(b"b"),
            None
        );
        let grammar = Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text: "root ::= \"é\" root | \"b\"".into(),
        };
        let syntax = Syntax::of(&grammar);
        for (text, refuses) in [
            (&b"\xc3\xa9"[..], false),
            (b"\xc3", false),
            (b"bb", true),
            (b"\xff", true),
            (b"b", false),
        ] {
            assert_eq!(syntax.refuses(text), Some(refuses), "{text:?}");
        }
    }

    #[test]
    fn classes_of_other_dialects_are_trusted_with_ascii() {
        let syntax = Syntax::of(&Constraint::Regex(r"\w+".into()));
        assert_eq!(
            (syntax.refuses(b"a b"), syntax.refuses("\u{378}".as_bytes())),
            (Some(true), None)
        );
    }
}
