//! Random regular expressions for Python's `re` or ECMA-262, and a brute-force matcher that
//! computes all possible ends of a match.

use std::collections::BTreeSet;

use super::source::Source;

/// Notation of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    Python,
    Ecma,
}

/// An expression with its flags.
#[derive(Debug)]
pub(super) struct Expression {
    notation: Notation,
    flags: Flags,
    node: Node,
    groups: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
}

#[derive(Clone, Debug)]
enum Node {
    Character(char, Spelling),
    /// Characters and shorthand letters.
    Class {
        negated: bool,
        characters: Vec<char>,
        shorthands: Vec<char>,
    },
    Shorthand(char),
    Dot,
    Start,
    End,
    Boundary {
        negated: bool,
    },
    Sequence(Vec<Node>),
    Either(Vec<Node>),
    Repeat {
        node: Box<Node>,
        least: usize,
        most: Option<usize>,
        lazy: bool,
    },
    Group(Box<Node>),
    Capture(usize, Box<Node>),
    Look {
        ahead: bool,
        negated: bool,
        node: Box<Node>,
    },
    Reference(usize),
}

#[derive(Clone, Copy, Debug)]
enum Spelling {
    Plain,
    Hexadecimal,
    Unicode,
}

/// Alphabet of the texts: characters that the notations treat differently.
pub(super) const LETTERS: [char; 13] = [
    'a', 'b', 'A', '1', '\n', '_', ' ', 'é', '\u{663}', '\u{2028}', '\r', '-', ']',
];

/// Position, and the capture of each group.
type State = (usize, Vec<Option<(usize, usize)>>);

/// State of the generator.
struct Generator {
    notation: Notation,
    groups: usize,
    /// Closed groups, which references may name.
    closed: Vec<usize>,
    captures: bool,
}

impl Expression {
    pub(super) fn draw(source: &mut Source, notation: Notation) -> Self {
        let python = notation == Notation::Python;
        let flags = Flags {
            ignore_case: source.once_in(6),
            multi_line: python && source.once_in(5),
            dot_all: python && source.once_in(5),
        };
        let mut generator = Generator {
            notation,
            groups: 0,
            closed: Vec::new(),
            captures: true,
        };
        let node = generator.node(source, 3);
        Self {
            notation,
            flags,
            node,
            groups: generator.groups,
        }
    }

    pub(super) fn to_text(&self) -> String {
        let flags = [
            (self.flags.ignore_case, 'i'),
            (self.flags.multi_line, 'm'),
            (self.flags.dot_all, 's'),
        ];
        let flags: String = flags
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, flag)| *flag)
            .collect();
        let mut text = if flags.is_empty() {
            String::new()
        } else {
            format!("(?{flags})")
        };
        self.node.write(&mut text);
        text
    }

    /// Whether all of `text` matches.
    pub(super) fn matches_whole(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.ends(&text, 0)
            .iter()
            .any(|(end, _)| *end == text.len())
    }

    /// Whether some part of `text` matches.
    pub(super) fn matches_within(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        (0..=text.len()).any(|start| !self.ends(&text, start).is_empty())
    }

    fn ends(&self, text: &[char], start: usize) -> BTreeSet<State> {
        let matcher = BruteForce {
            expression: self,
            text,
        };
        matcher.ends(&self.node, &(start, vec![None; self.groups]))
    }
}

impl Generator {
    fn node(&mut self, source: &mut Source, depth: usize) -> Node {
        match source.below(if depth == 0 { 8 } else { 16 }) {
            0 | 1 => Self::character(source),
            2 => self.class(source),
            3 => Node::Shorthand(*source.pick(&['d', 'w', 's', 'D', 'W', 'S'])),
            4 => Node::Dot,
            5 => Node::End,
            6 if source.once_in(2) => Node::Start,
            6 => Node::Boundary {
                negated: source.once_in(2),
            },
            7 if !self.closed.is_empty() => Node::Reference(*source.pick(&self.closed)),
            7 => Self::character(source),
            8..11 => Node::Sequence(
                (0..source.below(4))
                    .map(|_| self.node(source, depth - 1))
                    .collect(),
            ),
            11 => Node::Either(
                (0..2 + source.below(2))
                    .map(|_| self.node(source, depth - 1))
                    .collect(),
            ),
            12 | 13 => self.repeat(source, depth),
            14 if self.captures => {
                self.groups += 1;
                let number = self.groups;
                let node = Box::new(self.node(source, depth - 1));
                self.closed.push(number);
                Node::Capture(number, node)
            }
            14 => Node::Group(Box::new(self.node(source, depth - 1))),
            _ => self.look(source, depth),
        }
    }

    fn character(source: &mut Source) -> Node {
        let spelling = [
            Spelling::Plain,
            Spelling::Plain,
            Spelling::Hexadecimal,
            Spelling::Unicode,
        ][source.below(4)];
        Node::Character(*source.pick(&LETTERS), spelling)
    }

    fn class(&self, source: &mut Source) -> Node {
        let least = usize::from(self.notation == Notation::Python);
        let characters: Vec<char> = (0..least + source.below(3))
            .map(|_| *source.pick(&LETTERS))
            .collect();
        let shorthands = (0..source.below(2))
            .map(|_| *source.pick(&['d', 'w', 's', 'D', 'W', 'S']))
            .collect();
        Node::Class {
            negated: source.once_in(2),
            characters,
            shorthands,
        }
    }

    fn repeat(&mut self, source: &mut Source, depth: usize) -> Node {
        let (least, most) = *source.pick(&[
            (0, None),
            (1, None),
            (0, Some(1)),
            (2, Some(2)),
            (0, Some(2)),
            (1, Some(3)),
            (2, None),
        ]);
        // Engines differ in the captures after empty iterations.
        let captures = std::mem::replace(&mut self.captures, false);
        let node = Box::new(self.node(source, depth - 1));
        self.captures = captures;
        Node::Repeat {
            node,
            least,
            most,
            lazy: source.once_in(4),
        }
    }

    fn look(&mut self, source: &mut Source, depth: usize) -> Node {
        let ahead = source.once_in(2);
        let captures = std::mem::replace(&mut self.captures, false);
        // Python supports only look-behind of fixed length.
        let node = if ahead {
            self.node(source, depth - 1)
        } else {
            Node::Sequence(
                (0..source.below(3))
                    .map(|_| Self::character(source))
                    .collect(),
            )
        };
        self.captures = captures;
        Node::Look {
            ahead,
            negated: source.once_in(2),
            node: Box::new(node),
        }
    }
}

impl Node {
    fn write(&self, text: &mut String) {
        match self {
            Self::Character(character, spelling) => match spelling {
                Spelling::Plain if *character == '\n' => text.push_str("\\n"),
                Spelling::Plain => text.push(*character),
                Spelling::Hexadecimal if u32::from(*character) < 256 => {
                    *text += &format!("\\x{:02x}", u32::from(*character));
                }
                _ => *text += &format!("\\u{:04X}", u32::from(*character)),
            },
            Self::Class {
                negated,
                characters,
                shorthands,
            } => {
                text.push_str(if *negated { "[^" } else { "[" });
                for character in characters {
                    if matches!(character, '-' | ']') {
                        text.push('\\');
                    }
                    text.push(*character);
                }
                for letter in shorthands {
                    text.extend(['\\', *letter]);
                }
                text.push(']');
            }
            Self::Shorthand(letter) => text.extend(['\\', *letter]),
            Self::Dot => text.push('.'),
            Self::Start => text.push('^'),
            Self::End => text.push('$'),
            Self::Boundary { negated } => text.push_str(if *negated { "\\B" } else { "\\b" }),
            Self::Sequence(nodes) => Self::enclosed(text, "(?:", nodes, ""),
            Self::Either(nodes) => Self::enclosed(text, "(?:", nodes, "|"),
            Self::Repeat {
                node,
                least,
                most,
                lazy,
            } => {
                Self::enclosed(text, "(?:", std::slice::from_ref(node), "");
                text.push_str(&match (least, most) {
                    (0, None) => "*".to_owned(),
                    (1, None) => "+".to_owned(),
                    (0, Some(1)) => "?".to_owned(),
                    (least, None) => format!("{{{least},}}"),
                    (least, Some(most)) if least == most => format!("{{{least}}}"),
                    (least, Some(most)) => format!("{{{least},{most}}}"),
                });
                text.push_str(if *lazy { "?" } else { "" });
            }
            Self::Group(node) => Self::enclosed(text, "(?:", std::slice::from_ref(node), ""),
            Self::Capture(_, node) => Self::enclosed(text, "(", std::slice::from_ref(node), ""),
            Self::Look {
                ahead,
                negated,
                node,
            } => {
                let open = match (ahead, negated) {
                    (true, false) => "(?=",
                    (true, true) => "(?!",
                    (false, false) => "(?<=",
                    (false, true) => "(?<!",
                };
                Self::enclosed(text, open, std::slice::from_ref(node), "");
            }
            // Following digits must not become part of it.
            Self::Reference(number) => *text += &format!("(?:\\{number})"),
        }
    }

    fn enclosed(
        text: &mut String,
        open: &str,
        nodes: &[impl std::borrow::Borrow<Self>],
        between: &str,
    ) {
        text.push_str(open);
        for (index, node) in nodes.iter().enumerate() {
            if index > 0 {
                text.push_str(between);
            }
            node.borrow().write(text);
        }
        text.push(')');
    }
}

/// Matches one expression against one text.
struct BruteForce<'m> {
    expression: &'m Expression,
    text: &'m [char],
}

impl BruteForce<'_> {
    /// All states in which a match of `node` from `state` may end.
    fn ends(&self, node: &Node, state: &State) -> BTreeSet<State> {
        let (at, captured) = state;
        let stay_if = |holds: bool| {
            if holds {
                BTreeSet::from([state.clone()])
            } else {
                BTreeSet::new()
            }
        };
        match node {
            Node::Character(..) | Node::Class { .. } | Node::Shorthand(_) | Node::Dot => {
                let found = self
                    .text
                    .get(*at)
                    .is_some_and(|character| self.matches_character(node, *character));
                if found {
                    BTreeSet::from([(at + 1, captured.clone())])
                } else {
                    BTreeSet::new()
                }
            }
            Node::Start => {
                stay_if(*at == 0 || self.expression.flags.multi_line && self.text[at - 1] == '\n')
            }
            Node::End => stay_if(self.is_end(*at)),
            Node::Boundary { negated } => {
                let word = |at: Option<usize>| {
                    at.and_then(|at| self.text.get(at))
                        .is_some_and(|found| self.matches_shorthand('w', *found))
                };
                stay_if((word(at.checked_sub(1)) != word(Some(*at))) != *negated)
            }
            Node::Sequence(nodes) => nodes
                .iter()
                .fold(stay_if(true), |states, node| self.all_ends(node, &states)),
            Node::Either(nodes) => nodes
                .iter()
                .flat_map(|node| self.ends(node, state))
                .collect(),
            Node::Repeat {
                node, least, most, ..
            } => self.repeat_ends(node, *least, *most, stay_if(true)),
            Node::Group(node) => self.ends(node, state),
            Node::Capture(number, node) => {
                let mut ends = BTreeSet::new();
                for (end, mut captured) in self.ends(node, state) {
                    captured[number - 1] = Some((*at, end));
                    ends.insert((end, captured));
                }
                ends
            }
            Node::Look {
                ahead: true,
                negated,
                node,
            } => stay_if(self.ends(node, state).is_empty() == *negated),
            Node::Look {
                ahead: false,
                negated,
                node,
            } => {
                let found = (0..=*at).any(|start| {
                    self.ends(node, &(start, captured.clone()))
                        .iter()
                        .any(|(end, _)| end == at)
                });
                stay_if(found != *negated)
            }
            Node::Reference(number) => match captured[number - 1] {
                None => stay_if(self.expression.notation == Notation::Ecma),
                Some((start, end)) => {
                    let (group, rest) = (&self.text[start..end], &self.text[*at..]);
                    let equal = rest.len() >= group.len()
                        && group
                            .iter()
                            .zip(rest)
                            .all(|(one, other)| self.equal(*one, *other));
                    if equal {
                        BTreeSet::from([(at + group.len(), captured.clone())])
                    } else {
                        BTreeSet::new()
                    }
                }
            },
        }
    }

    fn all_ends(&self, node: &Node, states: &BTreeSet<State>) -> BTreeSet<State> {
        states
            .iter()
            .flat_map(|state| self.ends(node, state))
            .collect()
    }

    fn repeat_ends(
        &self,
        node: &Node,
        least: usize,
        most: Option<usize>,
        mut states: BTreeSet<State>,
    ) -> BTreeSet<State> {
        for _ in 0..least {
            states = self.all_ends(node, &states);
        }
        let mut found = states.clone();
        // Every further relevant iteration consumes a character.
        for _ in least..most.unwrap_or(least + self.text.len() + 1) {
            states = self.all_ends(node, &states);
            found.extend(states.iter().cloned());
        }
        found
    }

    /// Python's `$` also matches before a final newline.
    fn is_end(&self, at: usize) -> bool {
        let rest = &self.text[at..];
        match self.expression.notation {
            Notation::Ecma => rest.is_empty(),
            Notation::Python if self.expression.flags.multi_line => {
                rest.first().is_none_or(|next| *next == '\n')
            }
            Notation::Python => rest.is_empty() || rest == ['\n'],
        }
    }

    fn matches_character(&self, node: &Node, character: char) -> bool {
        match node {
            Node::Character(expected, _) => self.equal(*expected, character),
            Node::Class {
                negated,
                characters,
                shorthands,
            } => {
                let found = characters
                    .iter()
                    .any(|expected| self.equal(*expected, character))
                    || shorthands
                        .iter()
                        .any(|letter| self.matches_shorthand(*letter, character));
                found != *negated
            }
            Node::Shorthand(letter) => self.matches_shorthand(*letter, character),
            _ => match self.expression.notation {
                Notation::Python => self.expression.flags.dot_all || character != '\n',
                Notation::Ecma => !matches!(character, '\n' | '\r' | '\u{2028}'),
            },
        }
    }

    fn equal(&self, one: char, other: char) -> bool {
        one == other || self.expression.flags.ignore_case && one.eq_ignore_ascii_case(&other)
    }

    /// `\d`, `\w`, `\s` and their opposites, on [`LETTERS`].
    fn matches_shorthand(&self, letter: char, character: char) -> bool {
        let ascii = self.expression.notation == Notation::Ecma;
        let found = match letter.to_ascii_lowercase() {
            'd' => character == '1' || !ascii && character == '\u{663}',
            'w' => {
                matches!(character, 'a' | 'b' | 'A' | '1' | '_')
                    || !ascii && matches!(character, 'é' | '\u{663}')
            }
            _ => matches!(character, '\n' | ' ' | '\r' | '\u{2028}'),
        };
        found != letter.is_ascii_uppercase()
    }
}
