//! Parses a pattern into tokens.

use super::cursor::Cursor;
use super::{Assertion, Group, Member, Pattern, PatternError, Repeat, Syntax, Token, class};

pub(super) fn parse(
    text: &str,
    syntax: Syntax,
    max_nesting: usize,
) -> Result<Pattern, PatternError> {
    let mut parser = Parser {
        cursor: Cursor { rest: text, syntax },
        flags: Flags::default(),
        tokens: Vec::new(),
        last: Last::Nothing,
        open: Vec::new(),
        groups: 0,
        names: Vec::new(),
    };
    let ignores_case = parser.leading_flags()?;
    parser.run(max_nesting)?;
    Ok(Pattern {
        ignores_case,
        tokens: parser.tokens,
    })
}

/// Flags that affect parsing.
#[derive(Clone, Copy, Default)]
struct Flags {
    ascii: bool,
    verbose: bool,
    multi_line: bool,
    dot_all: bool,
}

/// The operand of a following repetition.
#[derive(Clone, Copy)]
enum Last {
    Nothing,
    /// The index of the atom's first token.
    Atom(usize),
    Repeat,
}

struct OpenGroup {
    token: usize,
    outer_flags: Flags,
    /// Its number, if it captures.
    number: Option<usize>,
}

struct Parser<'t> {
    cursor: Cursor<'t>,
    flags: Flags,
    tokens: Vec<Token>,
    last: Last,
    open: Vec<OpenGroup>,
    /// Number of capturing groups opened so far.
    groups: usize,
    names: Vec<(&'t str, usize)>,
}

impl<'t> Parser<'t> {
    fn run(&mut self, max_nesting: usize) -> Result<(), PatternError> {
        let repeat = |least, most| Repeat {
            least,
            most,
            lazy: false,
        };
        while let Some(character) = self.cursor.next() {
            match character {
                '\\' => self.escape()?,
                '[' => {
                    let class = class::class(&mut self.cursor, self.flags.ascii)?;
                    self.atom(class);
                }
                '(' if self.open.len() >= max_nesting => {
                    return Err(PatternError::Nesting(max_nesting));
                }
                '(' => self.group()?,
                ')' => self.close()?,
                '|' => {
                    self.tokens.push(Token::Alternate);
                    self.last = Last::Nothing;
                }
                '.' => self.dot(),
                '^' if self.flags.multi_line => self.assertion(Assertion::LineStart),
                '^' => self.assertion(Assertion::Start),
                '$' if !self.cursor.is_python() => self.assertion(Assertion::End),
                '$' if self.flags.multi_line => self.assertion(Assertion::LineEnd),
                '$' => self.assertion(Assertion::EndOrLastNewline),
                '*' => self.repeat(repeat(0, None))?,
                '+' => self.repeat(repeat(1, None))?,
                '?' => self.repeat(repeat(0, Some(1)))?,
                '{' => match self.bounds()? {
                    Some((least, most)) => self.repeat(repeat(least, most))?,
                    None => self.atom(Token::Character('{')),
                },
                ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' if self.flags.verbose => {}
                '#' if self.flags.verbose => {
                    self.cursor
                        .take_while(usize::MAX, |character| character != '\n');
                }
                character => self.atom(Token::Character(character)),
            }
        }
        match self.open.last() {
            Some(_) => Err("unclosed group".to_owned().into()),
            None => Ok(()),
        }
    }

    fn atom(&mut self, token: Token) {
        self.last = Last::Atom(self.tokens.len());
        self.tokens.push(token);
    }

    fn assertion(&mut self, assertion: Assertion) {
        self.last = Last::Nothing;
        self.tokens.push(Token::Assertion(assertion));
    }

    fn dot(&mut self) {
        let line_ends: &[char] = match (self.flags.dot_all, self.cursor.is_python()) {
            (true, _) => &[],
            (false, true) => &['\n'],
            (false, false) => &['\n', '\r', '\u{2028}', '\u{2029}'],
        };
        // Ranges, because vLLM distinguishes `.` from `[^\n]`.
        self.atom(Token::Class {
            negated: true,
            members: line_ends
                .iter()
                .map(|end| Member::Range(*end, *end))
                .collect(),
        });
    }

    /// Parses the suffix of a repetition (`?` lazy, Python's `+` possessive) and applies it.
    fn repeat(&mut self, mut repeat: Repeat) -> Result<(), String> {
        let start = match self.last {
            Last::Atom(start) => start,
            Last::Nothing => return Err(format!("nothing to repeat before {repeat}")),
            Last::Repeat => return Err(format!("multiple repeat at {repeat}")),
        };
        repeat.lazy = self.cursor.take("?");
        self.tokens.push(Token::Repeat(repeat));
        if !repeat.lazy && self.cursor.is_python() && self.cursor.take("+") {
            self.tokens.insert(start, Token::Open(Group::Atomic));
            self.tokens.push(Token::Close);
        }
        self.last = Last::Repeat;
        Ok(())
    }

    /// Parses the bounds after `{`; `None` if they are not a repetition.
    fn bounds(&mut self) -> Result<Option<(u32, Option<u32>)>, String> {
        let start = self.cursor.rest;
        let low = self.digits(usize::MAX);
        let comma = self.cursor.take(",");
        let high = if comma { self.digits(usize::MAX) } else { low };
        // `{,3}` and even `{,}` are repetitions in Python; in ECMAScript they are literal.
        let counts = !low.is_empty() || comma && self.cursor.is_python();
        if !counts || !self.cursor.take("}") {
            self.cursor.rest = start;
            return Ok(None);
        }
        let bound = |digits: &str| {
            digits
                .parse::<u32>()
                .map_err(|_| format!("repetition count is too large: {digits}"))
        };
        let least = if low.is_empty() { 0 } else { bound(low)? };
        let most = if high.is_empty() {
            None
        } else {
            Some(bound(high)?)
        };
        match most {
            Some(most) if least > most => {
                Err(format!("reversed repetition bounds: {{{least},{most}}}"))
            }
            _ => Ok(Some((least, most))),
        }
    }

    fn digits(&mut self, most: usize) -> &'t str {
        self.cursor.take_while(most, |digit| digit.is_ascii_digit())
    }

    fn escape(&mut self) -> Result<(), String> {
        let python = self.cursor.is_python();
        let Some(letter) = self.cursor.next() else {
            return Err("backslash at the end".to_owned());
        };
        match letter {
            'A' if python => self.assertion(Assertion::Start),
            'Z' if python => self.assertion(Assertion::End),
            'z' if self.cursor.syntax == Syntax::Engines => self.assertion(Assertion::End),
            'b' | 'B' => {
                self.assertion(Assertion::Boundary {
                    negated: letter == 'B',
                    ascii: self.flags.ascii || !python,
                });
            }
            'k' if !python && self.cursor.take("<") => {
                let number = self.cursor.until('>').and_then(|name| self.named(name))?;
                self.reference(number)?;
            }
            '1'..='9' if !self.is_octal(letter) => {
                let digits = format!(
                    "{letter}{}",
                    self.digits(if python { 1 } else { usize::MAX })
                );
                self.reference(
                    digits
                        .parse()
                        .map_err(|_| format!("no such group: {digits}"))?,
                )?;
            }
            _ => {
                let token = match self.cursor.escape(letter, self.flags.ascii)? {
                    Member::Character(character) => Token::Character(character),
                    member => Token::Class {
                        negated: false,
                        members: vec![member],
                    },
                };
                self.atom(token);
            }
        }
        Ok(())
    }

    /// Whether Python parses `\` and `first` as an octal escape (three digits), not as a reference.
    fn is_octal(&self, first: char) -> bool {
        let octal = |digit: u8| (b'0'..=b'7').contains(&digit);
        let next = self.cursor.rest.as_bytes();
        self.cursor.is_python()
            && first < '8'
            && next.len() >= 2
            && next[..2].iter().all(|digit| octal(*digit))
    }

    fn reference(&mut self, number: usize) -> Result<(), String> {
        let still_open = self.open.iter().any(|group| group.number == Some(number));
        if number > self.groups {
            return Err(format!("no such group: {number}"));
        }
        match (still_open, self.cursor.is_python()) {
            (false, _) => self.atom(Token::Reference(number)),
            (true, true) => {
                return Err(format!("reference to open group {number}"));
            }
            // In ECMAScript a reference to a group that has not matched matches the empty text.
            (true, false) => {
                self.atom(Token::Open(Group::Plain));
                self.tokens.push(Token::Close);
            }
        }
        Ok(())
    }

    fn group(&mut self) -> Result<(), String> {
        if !self.cursor.take("?") {
            return self.capture(None);
        }
        if self.cursor.take(":") {
            self.enter(Group::Plain, None);
            return Ok(());
        }
        if let Some(look) = ["=", "!", "<=", "<!"]
            .into_iter()
            .find(|look| self.cursor.take(look))
        {
            self.enter(Group::Look(look), None);
            return Ok(());
        }
        let python = self.cursor.is_python();
        if self.cursor.syntax != Syntax::Python && self.cursor.take("<")
            || python && self.cursor.take("P<")
        {
            let name = self.cursor.until('>')?;
            return self.capture(Some(name));
        }
        if python {
            self.python_group()
        } else {
            self.flag_group()
        }
    }

    /// Parses groups that only Python has; the cursor is after the question mark.
    fn python_group(&mut self) -> Result<(), String> {
        if self.cursor.take(">") {
            self.enter(Group::Atomic, None);
        } else if self.cursor.take("#") {
            self.cursor.until(')')?;
        } else if self.cursor.take("P=") {
            let number = self.cursor.until(')').and_then(|name| self.named(name))?;
            self.reference(number)?;
        } else if self.cursor.take("(") {
            let which = self.cursor.until(')')?;
            let number = which.parse().or_else(|_| self.named(which))?;
            if number == 0 || number > self.groups {
                return Err(format!("no such group: {number}"));
            }
            self.enter(Group::Condition(number), None);
        } else {
            self.flag_group()?;
        }
        Ok(())
    }

    fn capture(&mut self, name: Option<&'t str>) -> Result<(), String> {
        self.groups += 1;
        let number = self.groups;
        if let Some(name) = name {
            if self.named(name).is_ok() {
                return Err(format!("duplicate group name: {name}"));
            }
            let sign =
                |character: char| character == '_' || character == '$' && !self.cursor.is_python();
            let is_name = name.starts_with(|first: char| first.is_alphabetic() || sign(first))
                && name
                    .chars()
                    .all(|character| character.is_alphanumeric() || sign(character));
            if !is_name {
                return Err(format!("invalid group name: {name}"));
            }
            self.names.push((name, number));
        }
        self.enter(Group::Capture(number), Some(number));
        Ok(())
    }

    fn named(&self, name: &str) -> Result<usize, String> {
        let known = self.names.iter().find(|(known, _)| *known == name);
        known
            .map(|(_, number)| *number)
            .ok_or_else(|| format!("no such group: {name}"))
    }

    fn enter(&mut self, group: Group, number: Option<usize>) {
        self.open.push(OpenGroup {
            token: self.tokens.len(),
            outer_flags: self.flags,
            number,
        });
        self.tokens.push(Token::Open(group));
        self.last = Last::Nothing;
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(group) = self.open.pop() else {
            return Err("unmatched closing parenthesis".to_owned());
        };
        self.tokens.push(Token::Close);
        self.flags = group.outer_flags;
        self.last = Last::Atom(group.token);
        Ok(())
    }

    /// Parses leading `(?i)` and similar; returns whether case is ignored.
    fn leading_flags(&mut self) -> Result<bool, String> {
        let mut ignores_case = false;
        loop {
            if self.cursor.is_python() && self.cursor.take("(?#") {
                self.cursor.until(')')?;
                continue;
            }
            let start = self.cursor.rest;
            let letters = if self.cursor.take("(?") {
                self.letters()
            } else {
                ""
            };
            if letters.is_empty() || !self.cursor.take(")") {
                self.cursor.rest = start;
                return Ok(ignores_case);
            }
            ignores_case |= self.set_flags(letters, true)?;
        }
    }

    /// `(?i-s:`; the cursor is after the question mark.
    fn flag_group(&mut self) -> Result<(), String> {
        let outer = self.flags;
        let on = self.letters();
        let off = if self.cursor.take("-") {
            self.letters()
        } else {
            ""
        };
        if !on.is_empty() && self.cursor.take(")") {
            return Err("flags must be at the start".to_owned());
        }
        if on.is_empty() && off.is_empty() || !self.cursor.take(":") {
            return Err("unknown kind of group".to_owned());
        }
        if let Some(letter) = on.chars().find(|letter| off.contains(*letter)) {
            return Err(format!("flag turned on and off: {letter}"));
        }
        let case = match (self.set_flags(on, true)?, self.set_flags(off, false)?) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        self.enter(Group::Flags(case), None);
        if let Some(group) = self.open.last_mut() {
            group.outer_flags = outer;
        }
        Ok(())
    }

    fn letters(&mut self) -> &'t str {
        self.cursor
            .take_while(usize::MAX, |letter| letter.is_ascii_alphabetic())
    }

    /// Applies the flags; returns whether `i` is one of them.
    fn set_flags(&mut self, letters: &str, on: bool) -> Result<bool, String> {
        let python = self.cursor.is_python();
        for letter in letters.chars() {
            match letter {
                'i' => {}
                's' => self.flags.dot_all = on,
                'm' if python => self.flags.multi_line = on,
                'x' if python => self.flags.verbose = on,
                'a' if on && python => self.flags.ascii = true,
                'u' if on && python => self.flags.ascii = false,
                _ => return Err(format!("unknown flag: {letter}")),
            }
        }
        Ok(letters.contains('i'))
    }
}
