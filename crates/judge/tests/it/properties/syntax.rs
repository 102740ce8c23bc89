//! Random context-free grammars: written in both notations and as productions for a second
//! recognizer, and enumerated by brute force.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::source::Source;

/// A grammar whose first rule is the start.
#[derive(Debug)]
pub(super) struct Syntax {
    pub(super) rules: Vec<Part>,
}

/// Body of a rule.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(&'static str),
    /// One of some characters.
    Class(&'static str),
    Rule(usize),
    Sequence(Vec<Part>),
    Choice(Vec<Part>),
    /// Repetition with a minimum and an optional maximum.
    Times(Box<Part>, usize, Option<usize>),
}

/// The alphabet, with characters of one to four bytes.
pub(super) const LETTERS: [&str; 3] = ["a", "é", "😀"];

const TEXTS: [&str; 7] = ["a", "é", "😀", "ab", "éa", "a", "b"];

const CLASSES: [&str; 4] = ["aé", "é😀", "a😀b", "é"];

impl Syntax {
    /// Draws a grammar of up to four rules, possibly recursive, ambiguous, empty or infinite.
    pub(super) fn draw(source: &mut Source) -> Self {
        let count = 1 + source.below(4);
        Self {
            rules: (0..count).map(|_| Part::draw(source, count, 3)).collect(),
        }
    }

    /// Writes the grammar as Lark or as EBNF.
    pub(super) fn to_text(&self, lark: bool) -> String {
        let (define, start) = if lark {
            (":", "start")
        } else {
            ("::=", "root")
        };
        let mut text = format!("{start}{define} r0\n");
        for (index, rule) in self.rules.iter().enumerate() {
            writeln!(text, "r{index}{define} {}", rule.to_text(lark))
                .expect("writing to a string does not fail");
        }
        text
    }

    /// Productions of named symbols: nonterminals and single characters. The first one is the
    /// start.
    pub(super) fn productions(&self) -> Vec<(String, Vec<String>)> {
        let mut productions = vec![("start".to_owned(), vec!["r0".to_owned()])];
        let mut fresh = 0;
        for (index, rule) in self.rules.iter().enumerate() {
            let symbols = rule.symbols(&mut productions, &mut fresh);
            productions.push((format!("r{index}"), symbols));
        }
        productions
    }

    /// All sentences of up to `length` characters, and all prefixes of sentences up to that length.
    pub(super) fn enumerate(&self, length: usize) -> Enumerated {
        let mut found = vec![Language::default(); self.rules.len()];
        loop {
            let next: Vec<Language> = self
                .rules
                .iter()
                .map(|rule| rule.language(&found, length))
                .collect();
            if next == found {
                let Language {
                    sentences,
                    prefixes,
                    ..
                } = found.swap_remove(0);
                return Enumerated {
                    sentences,
                    prefixes,
                };
            }
            found = next;
        }
    }

    /// Draws a sentence. `None` if the derivation is too deep.
    pub(super) fn sentence(&self, source: &mut Source) -> Option<String> {
        let mut text = String::new();
        let mut fuel = 60;
        self.rules[0]
            .derive(self, source, &mut fuel, &mut text)
            .then_some(text)
    }
}

#[derive(Debug)]
pub(super) struct Enumerated {
    pub(super) sentences: BTreeSet<String>,
    pub(super) prefixes: BTreeSet<String>,
}

/// The known part of a language, cut at a length.
#[derive(Clone, Debug, Default, PartialEq)]
struct Language {
    /// Whether it has a sentence of any length.
    productive: bool,
    sentences: BTreeSet<String>,
    prefixes: BTreeSet<String>,
}

impl Language {
    fn from_sentence(text: &str) -> Self {
        let ends = text.char_indices().map(|(end, _)| end).chain([text.len()]);
        let prefixes = ends.map(|end| text[..end].to_owned()).collect();
        Self {
            productive: true,
            sentences: BTreeSet::from([text.to_owned()]),
            prefixes,
        }
    }

    fn union(mut self, other: &Self) -> Self {
        self.productive |= other.productive;
        self.sentences.extend(other.sentences.iter().cloned());
        self.prefixes.extend(other.prefixes.iter().cloned());
        self
    }

    /// Concatenation. A prefix of a sequence can be completed only if both parts can.
    fn concat(&self, other: &Self, length: usize) -> Self {
        if !self.productive || !other.productive {
            return Self::default();
        }
        let join = |ends: &BTreeSet<String>| -> BTreeSet<String> {
            let joined = self
                .sentences
                .iter()
                .flat_map(|head| ends.iter().map(move |tail| format!("{head}{tail}")));
            joined
                .filter(|text| text.chars().count() <= length)
                .collect()
        };
        let mut prefixes = join(&other.prefixes);
        prefixes.extend(self.prefixes.iter().cloned());
        Self {
            productive: true,
            sentences: join(&other.sentences),
            prefixes,
        }
    }
}

impl Part {
    fn draw(source: &mut Source, rules: usize, depth: usize) -> Self {
        match source.below(if depth == 0 { 6 } else { 12 }) {
            0 | 1 => Self::Text(TEXTS[source.below(TEXTS.len())]),
            2 => Self::Class(CLASSES[source.below(CLASSES.len())]),
            3..6 => Self::Rule(source.below(rules)),
            6 | 7 => Self::Sequence(
                (0..1 + source.below(3))
                    .map(|_| Self::draw(source, rules, depth - 1))
                    .collect(),
            ),
            8 | 9 => Self::Choice(
                (0..2 + source.below(2))
                    .map(|_| Self::draw(source, rules, depth - 1))
                    .collect(),
            ),
            _ => {
                let (least, most) = *source.pick(&[
                    (0, Some(1)),
                    (0, None),
                    (1, None),
                    (0, Some(2)),
                    (2, Some(3)),
                    (2, None),
                ]);
                Self::Times(Box::new(Self::draw(source, rules, depth - 1)), least, most)
            }
        }
    }

    fn to_text(&self, lark: bool) -> String {
        let all = |parts: &[Self], between: &str| {
            let parts: Vec<String> = parts.iter().map(|part| part.to_text(lark)).collect();
            format!("({})", parts.join(between))
        };
        match self {
            Self::Text(text) => format!("\"{text}\""),
            Self::Class(class) if lark => format!("/[{class}]/"),
            Self::Class(class) => format!("[{class}]"),
            Self::Rule(rule) => format!("r{rule}"),
            Self::Sequence(parts) => all(parts, " "),
            Self::Choice(parts) => all(parts, " | "),
            Self::Times(part, least, most) => {
                let part = part.to_text(lark);
                match (least, most) {
                    (0, Some(1)) => format!("({part})?"),
                    (0, None) => format!("({part})*"),
                    (1, None) => format!("({part})+"),
                    (least, None) => format!("({part}){{{least},}}"),
                    (least, Some(most)) => format!("({part}){{{least},{most}}}"),
                }
            }
        }
    }

    /// The symbols of this part. Adds their productions.
    fn symbols(
        &self,
        productions: &mut Vec<(String, Vec<String>)>,
        fresh: &mut usize,
    ) -> Vec<String> {
        let mut name = || {
            *fresh += 1;
            format!("n{fresh}")
        };
        match self {
            Self::Text(text) => text.chars().map(String::from).collect(),
            Self::Rule(rule) => vec![format!("r{rule}")],
            Self::Class(class) => {
                let head = name();
                productions.extend(
                    class
                        .chars()
                        .map(|letter| (head.clone(), vec![letter.to_string()])),
                );
                vec![head]
            }
            Self::Sequence(parts) => parts
                .iter()
                .flat_map(|part| part.symbols(productions, fresh))
                .collect(),
            Self::Choice(parts) => {
                let head = name();
                for part in parts {
                    let symbols = part.symbols(productions, fresh);
                    productions.push((head.clone(), symbols));
                }
                vec![head]
            }
            Self::Times(part, least, most) => {
                let (once, more) = (name(), name());
                let symbols = part.symbols(productions, fresh);
                productions.push((once.clone(), symbols));
                let mut found = vec![once.clone(); *least];
                productions.push((more.clone(), Vec::new()));
                match most {
                    None => {
                        productions.push((more.clone(), vec![more.clone(), once]));
                        found.push(more);
                    }
                    Some(most) => {
                        productions.push((more.clone(), vec![once]));
                        found.extend(vec![more; most - least]);
                    }
                }
                found
            }
        }
    }

    fn language(&self, rules: &[Language], length: usize) -> Language {
        let empty = || Language::from_sentence("");
        match self {
            Self::Text(text) => truncate_language(Language::from_sentence(text), length),
            Self::Class(class) => class.chars().fold(Language::default(), |all, letter| {
                all.union(&Language::from_sentence(&letter.to_string()))
            }),
            Self::Rule(rule) => rules[*rule].clone(),
            Self::Sequence(parts) => parts.iter().fold(empty(), |before, part| {
                before.concat(&part.language(rules, length), length)
            }),
            Self::Choice(parts) => parts.iter().fold(Language::default(), |all, part| {
                all.union(&part.language(rules, length))
            }),
            Self::Times(part, least, most) => {
                let once = part.language(rules, length);
                let mut found = (0..*least).fold(empty(), |before, _| before.concat(&once, length));
                // Longer repetitions add nothing below the length.
                for _ in *least..most.unwrap_or(least + length + 1) {
                    let longer = found.concat(&once, length);
                    found = found.union(&longer);
                }
                found
            }
        }
    }

    /// Appends a derivation. `false` if the fuel is used up.
    fn derive(
        &self,
        syntax: &Syntax,
        source: &mut Source,
        fuel: &mut usize,
        text: &mut String,
    ) -> bool {
        let Some(left) = fuel.checked_sub(1) else {
            return false;
        };
        *fuel = left;
        match self {
            Self::Text(literal) => text.push_str(literal),
            Self::Class(class) => text.push(
                class
                    .chars()
                    .nth(source.below(class.chars().count()))
                    .expect("the index is below the number of characters"),
            ),
            Self::Rule(rule) => return syntax.rules[*rule].derive(syntax, source, fuel, text),
            Self::Sequence(parts) => {
                return parts
                    .iter()
                    .all(|part| part.derive(syntax, source, fuel, text));
            }
            Self::Choice(parts) => return source.pick(parts).derive(syntax, source, fuel, text),
            Self::Times(part, least, most) => {
                let times = least + source.below(most.map_or(4, |most| most - least + 1));
                return (0..times).all(|_| part.derive(syntax, source, fuel, text));
            }
        }
        true
    }
}

fn truncate_language(mut language: Language, length: usize) -> Language {
    language
        .sentences
        .retain(|text| text.chars().count() <= length);
    language
        .prefixes
        .retain(|text| text.chars().count() <= length);
    language
}
