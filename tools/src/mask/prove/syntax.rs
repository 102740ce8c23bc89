//! The tokens that may follow a prefix by syntax alone: JSON for schemas, also in structural tags,
//! the language itself for regular expressions and choices.
//!
//! For JSON this ignores the schema, so a token outside the mask is wrong under every schema. For a
//! regular expression it is exact: the tokens after which a text of the language still follows.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use regex_automata::Anchored;
use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::{primitives::StateID, start, syntax};

use super::json_prefix::JsonPrefix;
use super::sorted_vocabulary::SortedVocabulary;
use super::tag_reader::{TagReader, Thread, ThreadKey};
use sobench_core::constraint::Constraint;
use sobench_engine::{TokenMask, Vocabulary};
use sobench_grammar::{self as grammar, Membership, Recogniser};
use sobench_judge::{Evaluator, JudgeSettings};

/// Maximum cached masks; each takes 12 KB for a vocabulary of 100,000.
const MAX_CACHED: usize = 4096;

/// Maximum tokens of a mask that are judged after a structural tag has ruled them out.
const MAX_JUDGED_TOKENS: usize = 32;

/// Maximum size of an automaton in bytes; a larger one is not built.
const MAX_AUTOMATON_BYTES: usize = 64 << 20;

/// Classes whose members differ between Python's `re` and the automaton's dialect.
const DIALECT_CLASSES: [&str; 6] = ["\\w", "\\W", "\\d", "\\D", "\\s", "\\S"];

/// Whether a regular expression has classes that differ between dialects beyond ASCII.
pub(super) fn has_dialect_classes(pattern: &str) -> bool {
    DIALECT_CLASSES.iter().any(|class| pattern.contains(class))
}

/// Whether the classes are the same for the text in every dialect.
pub(super) fn is_in_every_dialect(text: &[u8]) -> bool {
    text.iter()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r'))
}

/// The syntax of one constraint, with cached masks.
pub(super) enum Syntax {
    Json(HashMap<JsonPrefix, Arc<TokenMask>>),
    Automaton(Box<RegularLanguage>, HashMap<StateID, Arc<TokenMask>>),
    /// A grammar, which checks one text at a time.
    Grammar(Box<Recogniser>),
    Tag(Box<TagSyntax>),
    /// Nothing is known about prefixes.
    Unknown,
}

/// A regular language, with the states from which a match is reachable.
pub(super) struct RegularLanguage {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
    alive: HashSet<StateID>,
    /// Whether the pattern has classes that differ between Python and Rust beyond ASCII; then only
    /// ASCII is trusted.
    is_ascii_only: bool,
}

impl Syntax {
    /// Builds the syntax of a constraint.
    pub(super) fn new(constraint: &Constraint) -> Self {
        let automaton = |language: Option<RegularLanguage>| {
            language.map_or(Self::Unknown, |language| {
                Self::Automaton(Box::new(language), HashMap::new())
            })
        };
        match constraint {
            Constraint::JsonSchema(_) | Constraint::JsonObject(_) => Self::Json(HashMap::new()),
            Constraint::Regex(pattern) => automaton(RegularLanguage::from_pattern(pattern)),
            Constraint::Choice(choices) => {
                let any: Vec<String> = choices
                    .iter()
                    .map(|choice| regex_syntax::escape(choice))
                    .collect();
                automaton(RegularLanguage::from_pattern(&any.join("|")))
            }
            Constraint::Grammar { dialect, text } => grammar::compile(*dialect, text)
                .map_or(Self::Unknown, |recogniser| {
                    Self::Grammar(Box::new(recogniser))
                }),
            Constraint::StructuralTag(tag) => TagReader::new(tag).map_or(Self::Unknown, |reader| {
                Self::Tag(Box::new(TagSyntax::new(reader, constraint)))
            }),
            Constraint::Tools(_) => Self::Unknown,
        }
    }

    /// The tokens that may follow `prefix`; `None` if unknown, or if the prefix itself is
    /// impossible.
    pub(super) fn mask(
        &mut self,
        prefix: &[u8],
        vocabulary: &Vocabulary,
        sorted: &SortedVocabulary,
    ) -> Option<Arc<TokenMask>> {
        match self {
            Self::Json(cache) => {
                let state = JsonPrefix::after(prefix)?;
                let key = state.key(sorted.longest_token_bytes());
                Some(cached_or_insert(cache, key, || {
                    sorted.accepted_by(vocabulary, &state, JsonPrefix::push)
                }))
            }
            Self::Automaton(language, cache) => {
                let state = language
                    .after(language.start, prefix)
                    .filter(|_| language.is_trusted(prefix))?;
                Some(cached_or_insert(cache, state, || {
                    sorted.accepted_by(vocabulary, &state, |state, byte| {
                        *state = language.dfa.next_state(*state, byte);
                        language.alive.contains(state)
                    })
                }))
            }
            Self::Tag(tag) => tag.mask(prefix, vocabulary, sorted),
            Self::Grammar(_) | Self::Unknown => None,
        }
    }

    /// Whether a token missing from [`Syntax::mask`] after `prefix` is certainly wrong.
    pub(super) fn can_rule_out(&mut self, prefix: &[u8], token: &[u8]) -> bool {
        match self {
            Self::Automaton(language, _) => language.is_trusted(token),
            Self::Tag(tag) => token.is_empty() || tag.is_violated_by(&[prefix, token].concat()),
            Self::Json(_) | Self::Grammar(_) | Self::Unknown => true,
        }
    }

    /// Maximum tokens of a mask for which [`Syntax::can_rule_out`] is asked.
    pub(super) fn max_ruled_out(&self) -> usize {
        match self {
            // Each takes a judgement of the whole text.
            Self::Tag(_) => MAX_JUDGED_TOKENS,
            _ => usize::MAX,
        }
    }

    /// Whether no text of the syntax starts with `text`; `None` if unknown.
    pub(super) fn refuses(&mut self, text: &[u8]) -> Option<bool> {
        match self {
            Self::Tag(tag) => {
                let is_read = !tag.threads_after(text)?.is_empty();
                Some(!is_read && tag.is_violated_by(text))
            }
            Self::Json(_) => Some(JsonPrefix::after(text).is_none()),
            Self::Automaton(language, _) if language.is_trusted(text) => {
                Some(language.after(language.start, text).is_none())
            }
            Self::Grammar(recogniser) => refused_by(recogniser, text),
            Self::Automaton(..) | Self::Unknown => None,
        }
    }

    /// Whether `prefix` may be a complete text by syntax; `true` if unknown.
    pub(super) fn is_complete(&self, prefix: &[u8]) -> bool {
        match self {
            Self::Json(_) => JsonPrefix::after(prefix).is_some_and(|state| state.is_complete()),
            Self::Automaton(language, _) => {
                !language.is_trusted(prefix)
                    || language
                        .after(language.start, prefix)
                        .is_some_and(|state| language.is_match(state))
            }
            Self::Tag(tag) => tag
                .threads_after(prefix)
                .is_none_or(|threads| TagReader::is_complete(&threads)),
            Self::Grammar(_) | Self::Unknown => true,
        }
    }

    /// The shortest matching text with this prefix, if the syntax is exact.
    pub(super) fn shortest_completion(&self, prefix: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Automaton(language, _) => language.shortest_completion(prefix),
            Self::Json(_) | Self::Grammar(_) | Self::Tag(_) | Self::Unknown => None,
        }
    }
}

/// The syntax of a structural tag: its texts, with any JSON for its schemas.
pub(super) struct TagSyntax {
    reader: TagReader,
    constraint: Constraint,
    evaluator: Evaluator,
    masks: HashMap<Vec<ThreadKey>, Arc<TokenMask>>,
    /// The last text, and the threads after it.
    last: RefCell<(Vec<u8>, Vec<Thread>)>,
}

impl TagSyntax {
    fn new(reader: TagReader, constraint: &Constraint) -> Self {
        Self {
            last: RefCell::new((Vec::new(), reader.start())),
            reader,
            constraint: constraint.clone(),
            evaluator: Evaluator::new(JudgeSettings {
                assert_formats: false,
            }),
            masks: HashMap::new(),
        }
    }

    /// The threads after a text; `None` if there are too many.
    fn threads_after(&self, text: &[u8]) -> Option<Vec<Thread>> {
        let mut last = self.last.borrow_mut();
        if !text.starts_with(&last.0) {
            *last = (Vec::new(), self.reader.start());
        }
        for end in last.0.len() + 1..=text.len() {
            let threads = self.reader.advance(&last.1, &text[..end])?;
            *last = (text[..end].to_vec(), threads);
        }
        Some(last.1.clone())
    }

    fn mask(
        &mut self,
        prefix: &[u8],
        vocabulary: &Vocabulary,
        sorted: &SortedVocabulary,
    ) -> Option<Arc<TokenMask>> {
        let threads = self.threads_after(prefix)?;
        if threads.is_empty() || !self.reader.is_stateful() {
            return None;
        }
        let reader = &self.reader;
        let key = TagReader::keys(&threads, sorted.longest_token_bytes());
        Some(cached_or_insert(&mut self.masks, key, || {
            sorted.accepted_by(vocabulary, &threads, |threads, byte| {
                reader.push(threads, byte)
            })
        }))
    }

    /// Whether the evaluator, too, is certain that no text of the tag starts with `text`.
    fn is_violated_by(&mut self, text: &[u8]) -> bool {
        let is_cut = |error: std::str::Utf8Error| error.error_len().is_none();
        if std::str::from_utf8(text).is_err_and(|error| !is_cut(error)) {
            return false;
        }
        let text = String::from_utf8_lossy(text);
        let constraint = self.evaluator.compile(&self.constraint);
        !constraint.may_become_valid(&text)
    }
}

/// An incomplete character at the end is ignored, since its completion is unknown.
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

fn cached_or_insert<K: Eq + Hash>(
    cache: &mut HashMap<K, Arc<TokenMask>>,
    key: K,
    make: impl FnOnce() -> TokenMask,
) -> Arc<TokenMask> {
    if let Some(mask) = cache.get(&key) {
        return Arc::clone(mask);
    }
    let mask = Arc::new(make());
    if cache.len() < MAX_CACHED {
        cache.insert(key, Arc::clone(&mask));
    }
    mask
}

impl RegularLanguage {
    /// `None` for a pattern that is unsupported (look-around, back-references) or too large.
    pub(super) fn from_pattern(pattern: &str) -> Option<Self> {
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
        let mut language = Self {
            dfa,
            start,
            alive: HashSet::new(),
            is_ascii_only: has_dialect_classes(pattern),
        };
        language.find_alive();
        language.alive.contains(&start).then_some(language)
    }

    /// The state before the first byte.
    pub(super) fn start(&self) -> StateID {
        self.start
    }

    /// A state is alive if a match is reachable: computed backwards from the matching states.
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
                        .filter(|state| !self.alive.contains(state)),
                );
            }
        }
    }

    /// Whether the result for a text is valid in the constraint's dialect.
    pub(super) fn is_trusted(&self, text: &[u8]) -> bool {
        !self.is_ascii_only || is_in_every_dialect(text)
    }

    pub(super) fn is_match(&self, state: StateID) -> bool {
        self.dfa.is_match_state(self.dfa.next_eoi_state(state))
    }

    /// The state after `bytes`, if alive.
    pub(super) fn after(&self, from: StateID, bytes: &[u8]) -> Option<StateID> {
        let state = bytes
            .iter()
            .fold(from, |state, byte| self.dfa.next_state(state, *byte));
        self.alive.contains(&state).then_some(state)
    }

    /// Breadth-first search, so the text is the shortest, and the first in byte order among equals.
    fn shortest_completion(&self, prefix: &[u8]) -> Option<Vec<u8>> {
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
    use serde_json::json;

    use super::*;
    use sobench_core::constraint::GrammarDialect;
    use sobench_engine::vocabulary::shared;

    #[test]
    fn regex_masks_hold_exactly_the_viable_tokens() {
        let vocabulary = shared();
        let sorted = SortedVocabulary::new(&vocabulary);
        let mut syntax = Syntax::new(&Constraint::Regex("a(bc|bd)+".into()));
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
            texts.iter().all(|text| text.starts_with('b')
                && text.chars().all(|character| "bcd".contains(character))),
            "{texts:?}"
        );
        assert!(syntax.mask(b"x", &vocabulary, &sorted).is_none());
        assert_eq!(
            (
                syntax.is_complete(b"abc"),
                syntax.is_complete(b"ab"),
                syntax.refuses(b"ab")
            ),
            (true, false, Some(false))
        );
        assert_eq!(
            syntax.shortest_completion(b"abdb").as_deref(),
            Some(&b"abdbc"[..])
        );
    }

    #[test]
    fn choices_and_grammars_are_supported_and_look_around_is_unknown() {
        let choices: Arc<[String]> = Arc::new(["a+b".to_owned(), "c".to_owned()]);
        assert_eq!(
            Syntax::new(&Constraint::Choice(choices))
                .shortest_completion(b"a")
                .as_deref(),
            Some(&b"a+b"[..])
        );
        assert_eq!(
            Syntax::new(&Constraint::Regex("(?=a)a".into())).refuses(b"b"),
            None
        );
        let grammar = Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text: "root ::= \"é\" root | \"b\"".into(),
        };
        let mut syntax = Syntax::new(&grammar);
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
    fn tags_rule_out_what_no_text_continues_with() {
        let vocabulary = shared();
        let sorted = SortedVocabulary::new(&vocabulary);
        let tag = json!({"format": {"type": "triggered_tags", "triggers": ["<f="], "stop_after_first": true, "tags": [
            {"begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "</f>"}]}});
        let mut syntax = Syntax::new(&Constraint::StructuralTag(Arc::new(tag)));
        for (text, refuses, is_complete) in [
            ("", false, true),
            ("any <f text", false, true),
            ("any <f=", false, false),
            ("any <f=b", true, false),
            ("<f=a> [1, \"x", false, false),
            ("<f=a>[1}", true, false),
            ("<f=a>1</f>", false, true),
            ("<f=a>1</f>.", true, false),
        ] {
            let decided = (
                syntax.refuses(text.as_bytes()),
                syntax.is_complete(text.as_bytes()),
            );
            assert_eq!(decided, (Some(refuses), is_complete), "{text}");
        }
        let allows = |mask: &TokenMask, text: &str| {
            let mut ids = 0..vocabulary.len() as u32;
            let id = ids
                .find(|id| vocabulary.bytes(*id) == text.as_bytes())
                .unwrap();
            mask.allows(id)
        };
        let mask = syntax.mask(b"any <f=", &vocabulary, &sorted).unwrap();
        assert!(allows(&mask, "a") && !allows(&mask, "b") && !allows(&mask, "ab"));
        assert!(syntax.can_rule_out(b"any <f=", b"b") && !syntax.can_rule_out(b"any <f=", b"a"));
        let in_value = syntax.mask(b"<f=a>", &vocabulary, &sorted).unwrap();
        assert!(allows(&in_value, "1") && allows(&in_value, "[") && !allows(&in_value, "</"));
        let later = syntax.mask(b"<f=a>12", &vocabulary, &sorted).unwrap();
        assert!(allows(&later, "3") && allows(&later, "</") && !allows(&later, "["));
        assert!(syntax.mask(b"<f=b", &vocabulary, &sorted).is_none());
    }

    #[test]
    fn dialect_dependent_classes_are_trusted_for_ascii_only() {
        let mut syntax = Syntax::new(&Constraint::Regex(r"\w+".into()));
        assert_eq!(
            (syntax.refuses(b"a b"), syntax.refuses("\u{378}".as_bytes())),
            (Some(true), None)
        );
    }
}
