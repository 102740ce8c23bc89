//! What vLLM looks for in a regex before it hands it to outlines-core. Knows the structure of Python's `re`, not what it matches.
//!
//! vLLM (0.33, `backend_outlines.py`) parses the regex with CPython's own parser, refuses back-references, look-around and word
//! boundaries, and refuses what has an anchor before the first character. It does not look everywhere: capturing groups, lazy and
//! possessive repeats and a lone negated character (`[^a]`) are passed over, and so they are here. Not read: verbose mode (`(?x)`).

use std::iter::Peekable;
use std::str::Chars;

use crate::engine::EngineError;

/// Deepest nesting of groups that is read, the limit of the regex parser that outlines-core uses.
const MAX_NESTING: usize = 250;

/// Checks a regex as vLLM does before it goes to outlines-core.
///
/// # Errors
/// [`EngineError::Unsupported`] for what outlines-core cannot do, [`EngineError::Invalid`] for what Python does not take.
pub(super) fn check(regex: &str) -> Result<(), EngineError> {
    let mut reader = Reader { rest: regex.chars().peekable(), groups: Vec::new(), depth: 0 };
    let items = reader.alternatives()?;
    if reader.rest.peek().is_some() {
        return Err(invalid("unbalanced parenthesis"));
    }
    if let Some(feature) = unsupported(&items) {
        let words = format!("a regex with a {feature} is refused before outlines-core sees it, which has none");
        return Err(EngineError::Unsupported { feature: feature.into(), words });
    }
    if needs_context(&items) {
        let words = "an anchor or look-around before the first character leaves outlines-core without a start state".into();
        return Err(EngineError::Unsupported { feature: "leading anchor".into(), words });
    }
    Ok(())
}

fn invalid(words: &str) -> EngineError {
    EngineError::Invalid { words: format!("Python does not take the regex: {words}") }
}

/// A part of a regex, as far as the check tells parts apart.
enum Item {
    /// A character, a class, `.`.
    Consumer,
    /// What vLLM's check passes over without looking: `[^a]`, a lazy or possessive repeat, an atomic group.
    PassedOver(Passed),
    Anchor,
    WordBoundary,
    LookAround,
    BackReference,
    /// A capturing group or one with flags.
    Group(Vec<Item>),
    Branch(Vec<Vec<Item>>),
    /// A greedy repeat; `never` is `{0}`.
    Repeat {
        never: bool,
        items: Vec<Item>,
    },
}

enum Passed {
    Plain,
    /// Another repeat after it is an error.
    Repeat,
}

fn unsupported(items: &[Item]) -> Option<&'static str> {
    items.iter().find_map(|item| match item {
        Item::BackReference => Some("back-reference"),
        Item::LookAround => Some("look-around"),
        Item::WordBoundary => Some("word boundary"),
        Item::Branch(branches) => branches.iter().find_map(|branch| unsupported(branch)),
        Item::Repeat { items, .. } => unsupported(items),
        Item::Consumer | Item::PassedOver(_) | Item::Anchor | Item::Group(_) => None,
    })
}

fn needs_context(items: &[Item]) -> bool {
    for item in items {
        match item {
            Item::Anchor | Item::WordBoundary | Item::LookAround => return true,
            Item::Consumer => return false,
            Item::PassedOver(_) | Item::BackReference => {}
            Item::Group(inner) | Item::Repeat { items: inner, .. } => {
                if needs_context(inner) {
                    return true;
                }
                if consumes(inner) {
                    return false;
                }
            }
            Item::Branch(branches) => {
                if branches.iter().any(|branch| needs_context(branch)) {
                    return true;
                }
                if branches.iter().any(|branch| consumes(branch)) {
                    return false;
                }
            }
        }
    }
    false
}

fn consumes(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Consumer => true,
        Item::Group(inner) => consumes(inner),
        Item::Repeat { never, items } => !never && consumes(items),
        Item::Branch(branches) => branches.iter().any(|branch| consumes(branch)),
        _ => false,
    })
}

/// What one repeat would repeat.
struct Part {
    /// `(?:...)`: one part to a repeat, otherwise it dissolves into its items.
    grouped: bool,
    items: Vec<Item>,
}

impl Part {
    fn single(item: Item) -> Self {
        Self { grouped: false, items: vec![item] }
    }
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    /// Capturing groups by number from 1, with their names; `true` once closed.
    groups: Vec<(Option<String>, bool)>,
    depth: usize,
}

impl Reader<'_> {
    fn take(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        std::iter::from_fn(|| self.rest.next_if(|&next| wanted(next))).collect()
    }

    fn alternatives(&mut self) -> Result<Vec<Item>, EngineError> {
        if self.depth >= MAX_NESTING {
            return Err(EngineError::TooLarge { words: format!("groups nest deeper than {MAX_NESTING}") });
        }
        self.depth += 1;
        let mut branches = vec![self.sequence()?];
        while self.take('|') {
            branches.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(if branches.len() == 1 { branches.pop().unwrap_or_default() } else { vec![Item::Branch(branches)] })
    }

    fn sequence(&mut self) -> Result<Vec<Item>, EngineError> {
        let mut parts: Vec<Part> = Vec::new();
        while let Some(next) = self.rest.next_if(|&next| next != '|' && next != ')') {
            match next {
                '*' | '+' | '?' => self.repeat(&mut parts, false)?,
                '{' => match self.bounds()? {
                    Some(never) => self.repeat(&mut parts, never)?,
                    None => parts.push(Part::single(Item::Consumer)),
                },
                '^' | '$' => parts.push(Part::single(Item::Anchor)),
                '[' => parts.push(Part::single(self.class()?)),
                '\\' => parts.push(Part::single(self.escape()?)),
                '(' => parts.extend(self.group(parts.is_empty())?),
                _ => parts.push(Part::single(Item::Consumer)),
            }
        }
        Ok(parts.into_iter().flat_map(|part| part.items).collect())
    }

    fn repeat(&mut self, parts: &mut [Part], never: bool) -> Result<(), EngineError> {
        let Some(part) = parts.last_mut() else { return Err(invalid("nothing to repeat")) };
        match part.items.as_slice() {
            _ if part.grouped => {}
            [Item::Anchor | Item::WordBoundary] => return Err(invalid("nothing to repeat")),
            [Item::Repeat { .. } | Item::PassedOver(Passed::Repeat)] => return Err(invalid("multiple repeat")),
            _ => {}
        }
        let items = std::mem::take(&mut part.items);
        let passed = self.take('?') || self.take('+');
        *part = Part::single(if passed { Item::PassedOver(Passed::Repeat) } else { Item::Repeat { never, items } });
        Ok(())
    }

    /// What follows a `{`: whether it allows no repeat at all, or `None` where the brace is an ordinary character.
    fn bounds(&mut self) -> Result<Option<bool>, EngineError> {
        let mut ahead = self.rest.clone();
        let inner: String = std::iter::from_fn(|| ahead.next_if(|&next| next.is_ascii_digit() || next == ',')).collect();
        if ahead.next() != Some('}') || inner.is_empty() || inner.matches(',').count() > 1 {
            return Ok(None);
        }
        self.rest = ahead;
        let (low, high) = inner.split_once(',').unwrap_or((&inner, &inner));
        let number = |text: &str| text.parse::<u32>().map_err(|_| invalid("the repetition number is too large"));
        let low = if low.is_empty() { 0 } else { number(low)? };
        let high = if high.is_empty() { u32::MAX } else { number(high)? };
        if high < low {
            return Err(invalid("min repeat greater than max repeat"));
        }
        Ok(Some(high == 0))
    }

    /// What follows a `(`; `None` for a comment or flags.
    fn group(&mut self, first: bool) -> Result<Option<Part>, EngineError> {
        if !self.take('?') {
            return Ok(Some(Part::single(self.numbered(None)?)));
        }
        let extension = self.rest.next().ok_or_else(|| invalid("unexpected end of pattern"))?;
        let item = match extension {
            'P' if self.take('<') => {
                let name = self.name('>')?;
                if name.starts_with(|first: char| first.is_numeric()) {
                    return Err(invalid("bad character in group name"));
                }
                self.numbered(Some(name))?
            }
            'P' if self.take('=') => {
                let name = self.name(')')?;
                if !self.groups.iter().any(|(group, closed)| *closed && group.as_ref() == Some(&name)) {
                    return Err(invalid("unknown or open group name"));
                }
                Item::BackReference
            }
            ':' => return Ok(Some(Part { grouped: true, items: self.closed()? })),
            '>' => self.closed().map(|_| Item::PassedOver(Passed::Plain))?,
            '=' | '!' => self.closed().map(|_| Item::LookAround)?,
            '<' if self.take('=') || self.take('!') => self.closed().map(|_| Item::LookAround)?,
            '(' => {
                self.name(')')?;
                self.closed().map(|_| Item::BackReference)?
            }
            '#' => {
                self.take_while(|next| next != ')');
                return if self.take(')') { Ok(None) } else { Err(invalid("missing ), unterminated comment")) };
            }
            '-' | 'a' | 'i' | 'L' | 'm' | 's' | 'u' | 'x' => {
                self.take_while(|next| "-aiLmsux".contains(next));
                if first && self.depth == 1 && extension != '-' && self.take(')') {
                    return Ok(None);
                }
                if !self.take(':') {
                    return Err(invalid("global flags not at the start of the expression, or unknown ones"));
                }
                Item::Group(self.closed()?)
            }
            other => return Err(invalid(&format!("unknown extension ?{other}"))),
        };
        Ok(Some(Part::single(item)))
    }

    fn numbered(&mut self, name: Option<String>) -> Result<Item, EngineError> {
        let index = self.groups.len();
        self.groups.push((name, false));
        let items = self.closed()?;
        self.groups[index].1 = true;
        Ok(Item::Group(items))
    }

    fn closed(&mut self) -> Result<Vec<Item>, EngineError> {
        let items = self.alternatives()?;
        if self.take(')') { Ok(items) } else { Err(invalid("missing ), unterminated subpattern")) }
    }

    fn name(&mut self, end: char) -> Result<String, EngineError> {
        let name = self.take_while(|next| next != end);
        if self.take(end) && !name.is_empty() && name.chars().all(|next| next.is_alphanumeric() || next == '_') {
            return Ok(name);
        }
        Err(invalid("bad character in group name"))
    }

    /// What follows a `\` outside a class.
    fn escape(&mut self) -> Result<Item, EngineError> {
        if self.take('A') || self.take('Z') {
            Ok(Item::Anchor)
        } else if self.take('b') || self.take('B') {
            Ok(Item::WordBoundary)
        } else if self.rest.peek().is_some_and(|next| ('1'..='9').contains(next)) {
            self.reference()
        } else {
            self.character().map(|_| Item::Consumer)
        }
    }

    /// A number after `\`: a group before this place, or an octal character of three digits.
    fn reference(&mut self) -> Result<Item, EngineError> {
        let mut ahead = self.rest.clone();
        let digits: String = std::iter::from_fn(|| ahead.next_if(char::is_ascii_digit)).take(3).collect();
        if digits.len() == 3 && digits.bytes().all(|digit| digit < b'8') {
            self.rest.nth(2);
            return if digits.as_bytes()[0] < b'4' { Ok(Item::Consumer) } else { Err(invalid("octal escape out of range")) };
        }
        let number = &digits[..digits.len().min(2)];
        self.rest.nth(number.len() - 1);
        let group = number.parse::<usize>().ok().and_then(|number| self.groups.get(number.checked_sub(1)?));
        match group {
            Some((_, true)) => Ok(Item::BackReference),
            Some((_, false)) => Err(invalid("cannot refer to an open group")),
            None => Err(invalid("invalid group reference")),
        }
    }

    /// The rest of an escape that stands for a character or a class of them; `None` for a class.
    fn character(&mut self) -> Result<Option<u32>, EngineError> {
        let next = self.rest.next().ok_or_else(|| invalid("bad escape (end of pattern)"))?;
        Ok(match next {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => None,
            'x' | 'u' | 'U' => {
                let digits = if next == 'x' {
                    2
                } else if next == 'u' {
                    4
                } else {
                    8
                };
                let hex: String = (0..digits).map_while(|_| self.rest.next_if(char::is_ascii_hexdigit)).collect();
                let value = if hex.len() == digits { u32::from_str_radix(&hex, 16).ok() } else { None };
                Some(value.filter(|value| *value <= 0x0010_FFFF).ok_or_else(|| invalid("incomplete escape"))?)
            }
            '0' => {
                let digits: String = (0..2).map_while(|_| self.rest.next_if(|next| ('0'..='7').contains(next))).collect();
                Some(u32::from_str_radix(&digits, 8).unwrap_or(0))
            }
            'N' if self.take('{') => {
                self.take_while(|next| next != '}');
                if self.take('}') { None } else { return Err(invalid("missing }, unterminated name")) }
            }
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            other if other.is_ascii_alphabetic() => return Err(invalid(&format!("bad escape \\{other}"))),
            other => Some(u32::from(other)),
        })
    }

    /// What follows a `[`.
    fn class(&mut self) -> Result<Item, EngineError> {
        let negated = self.take('^');
        let (mut members, mut single) = (Vec::new(), true);
        loop {
            let Some(next) = self.rest.next() else { return Err(invalid("unterminated character set")) };
            if next == ']' && !members.is_empty() {
                break;
            }
            let low = self.member(next)?;
            members.push(low);
            if self.rest.peek() != Some(&'-') {
                continue;
            }
            let mut ahead = self.rest.clone();
            ahead.next();
            if ahead.peek() == Some(&']') {
                continue;
            }
            self.rest = ahead;
            let Some(next) = self.rest.next() else { return Err(invalid("unterminated character set")) };
            match (low, self.member(next)?) {
                (Some(low), Some(high)) if low <= high => single = false,
                _ => return Err(invalid("bad character range")),
            }
        }
        single &= members.iter().all(|member| member.is_some() && *member == members[0]);
        Ok(if negated && single { Item::PassedOver(Passed::Plain) } else { Item::Consumer })
    }

    fn member(&mut self, next: char) -> Result<Option<u32>, EngineError> {
        match (next, self.rest.peek()) {
            ('\\', Some('b')) => Ok(self.rest.next().map(|_| 8)),
            ('\\', Some('1'..='7')) => {
                let digits: String = (0..3).map_while(|_| self.rest.next_if(|next| ('0'..='7').contains(next))).collect();
                u32::from_str_radix(&digits, 8).map(Some).map_err(|_| invalid("bad escape"))
            }
            ('\\', Some('8' | '9')) => Err(invalid("bad escape")),
            ('\\', _) => self.character(),
            _ => Ok(Some(u32::from(next))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(regex: &str) -> String {
        match check(regex) {
            Ok(()) => "ok".into(),
            Err(EngineError::Unsupported { feature, .. }) => feature,
            Err(EngineError::Invalid { .. }) => "invalid".into(),
            Err(other) => panic!("{regex}: {other:?}"),
        }
    }

    /// The verdicts are what the same check says in CPython 3.11, with its own `re._parser`. Three spaces stand between regexes.
    #[test]
    fn sees_what_cpython_s_parser_sees() {
        let table = [
            (
                "ok",
                r#"a   a$   (?:a|b)$   (foo\b)   (a|foo\B)*   (?:\b)*?   [^ab]$   [^\d]$   x*$   x{0}$   x{0,3}$   a*+
(?:a*)*   a{,3}   a{x}   a{}   {   a{1,2,3}   []a]   [^]a]   [a-]   [\b]   a\Z   \x41   \u00e9
\N{DIGIT ONE}   \/   \-   (?i)a   (?i:a)$   (?-i:a)   (?>a|b)c   \012   \112   (|a)^   (?:a|)$   ()*
(?:)*   a((?=a))   [a-z&&[b]]   \w+@\w+\.com\n   (?:(?:a))   (?:a)(?:b*)*   (?:a*?)*   (?:(?>a))*"#,
            ),
            (
                "leading anchor",
                r#"^a   $   (^a)   (a|^b)   (?:^a)b   [^a]$   [^aa]$   [^\n]^   x*?$   (?:^)*   (^)*   \Aa   (?i:^a)
(?>a)$   (?#c)^a   ()^   (?:(?:^)a)   ((?=a))b   (?:^|a)b   (?:(?:^))*"#,
            ),
            ("look-around", r#"(?=a)b   a(?=b)   a(?!b)   (?<=a)b   (?<!a)b   (?:a(?=b))*   (?:(?=a))*   (?=a)*"#),
            ("back-reference", r#"(a)\1   (?P<n>a)(?P=n)   (a)(?(1)b|c)"#),
            ("word boundary", r#"\bfoo   foo\b   (?:foo\b)   a|foo\b   a*?\b   (?:\b)*"#),
            (
                "invalid",
                r#"(?P<n>a)(?P=m)   \1   a**   a*+*   *a   ^*   a{2,1}   (a   a)   [a   [z-a]   [\d-z]   [\B]   \p{L}
\z   \x4   \U00110000   a(?i)   (?<n>a)   (?#c   (?P<1>a)   (?P<n a>a)   (a\1)   \412   \   a(?"#,
            ),
        ];
        for (expected, regexes) in table {
            for regex in regexes.lines().flat_map(|line| line.split("   ")) {
                assert_eq!(verdict(regex), expected, "{regex}");
            }
        }
        assert_eq!(verdict(""), "ok");
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(check(&"(".repeat(MAX_NESTING - 1)).is_err_and(|error| matches!(error, EngineError::Invalid { .. })));
        assert!(check(&"(".repeat(1 << 20)).is_err_and(|error| matches!(error, EngineError::TooLarge { .. })));
        assert!(check(&format!("{}a{}", "(".repeat(200), ")".repeat(200))).is_ok());
    }
}
