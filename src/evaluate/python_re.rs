//! Turns a regular expression in the dialect of Python's `re` into one that Rust's engines read the same way. Matches nothing itself.
//!
//! Everything is parsed and written anew, so that a spelling which means something else in Rust (`{,3}`, `[[a]`, `&&` in a class,
//! `$` before a last newline, `\Z`, `\s`) cannot slip through. Source: "Regular Expression Syntax" in the documentation of
//! CPython's `re`, and its parser `Lib/re/_parser.py`.
//!
//! Taken beyond `re`, because the decoding engines take it: `\p{..}`, `\z`, `(?<name>..)`, look-behind of any width.
//! Refused: `\N{..}`, `(?L)`, flags in mid-pattern, and whatever else `re` refuses. Differing: `\b` goes by Unicode's idea of a word
//! (marks and joiners belong to it), and `(?i)` by Unicode's simple case folding.

use std::fmt::Write as _;

use super::python_class;

/// Whose shorthand classes: the two differ in `\w` and `\s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    /// CPython's `re`: `\w` is `str.isalnum()` or `_`, `\s` is `str.isspace()`.
    Re,
    /// The package `regex`: Unicode's `\w` (UTS 18) and white space.
    RegexPackage,
}

/// How far a match has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// `re.fullmatch`.
    Full,
    /// `re.match`.
    Prefix,
}

/// A pattern that has been read.
pub(super) struct Translated {
    tokens: Vec<Token>,
    flags: String,
    /// Needs look-around, back-references or atomic groups, which only a backtracking engine has.
    backtracking: bool,
}

/// A pattern in Rust's spelling.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub pattern: String,
    pub backtracking: bool,
}

#[derive(Debug)]
enum Token {
    /// Opens a group. `Plain` ones only group or capture; what a match does after an `Other` one is not what follows it.
    Open(Group, String),
    Close,
    Alternate,
    /// `$` without `(?m)`: the end, or before a newline at the end.
    Dollar,
    Repeat(String),
    Piece(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Plain,
    Other,
}

/// Flags that change how the pattern is read; `i`, `m` and `s` are also passed on.
#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub ascii: bool,
    verbose: bool,
    multi_line: bool,
}

/// What a repetition would apply to.
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
    /// Its number, where it captures.
    number: Option<usize>,
}

/// Reads `pattern`; the error says what is wrong with it, without a full stop.
pub(super) fn translate(pattern: &str, flavour: Flavour) -> Result<Translated, String> {
    let mut parser = Parser {
        chars: pattern.chars().collect(),
        at: 0,
        flavour,
        flags: Flags::default(),
        tokens: Vec::new(),
        last: Last::Nothing,
        open: Vec::new(),
        groups: 0,
        names: Vec::new(),
        backtracking: false,
    };
    let flags = parser.leading_flags()?;
    parser.run()?;
    Ok(Translated { tokens: parser.tokens, flags, backtracking: parser.backtracking })
}

impl Translated {
    /// The pattern in Rust's spelling, anchored as `extent` says.
    pub(super) fn write(&self, extent: Extent) -> Written {
        let mut body = String::new();
        let mut backtracking = self.backtracking;
        let is_last = self.is_last();
        for (token, is_last) in self.tokens.iter().zip(is_last) {
            match token {
                Token::Open(_, text) | Token::Repeat(text) | Token::Piece(text) => body.push_str(text),
                Token::Close => body.push(')'),
                Token::Alternate => body.push('|'),
                Token::Dollar if extent == Extent::Full && is_last => body.push_str("\\z"),
                Token::Dollar => {
                    body.push_str("(?=\\n?\\z)");
                    backtracking = true;
                }
            }
        }
        let end = if extent == Extent::Full { "\\z" } else { "" };
        Written { pattern: format!("\\A(?:{}{body}){end}", self.flags), backtracking }
    }

    /// For every token, whether nothing can be consumed after it, so that a full match has to end right there.
    fn is_last(&self) -> Vec<bool> {
        let groups = self.group_of_close();
        let mut last = vec![false; self.tokens.len()];
        let mut after = true;
        let mut after_group: Vec<bool> = Vec::new();
        for (index, token) in self.tokens.iter().enumerate().rev() {
            last[index] = after;
            after = match token {
                Token::Dollar => after,
                Token::Close => {
                    let ends = after && groups[index] == Group::Plain;
                    after_group.push(ends);
                    ends
                }
                // What follows one alternative is what follows the group.
                Token::Alternate => after_group.last().copied().unwrap_or(true),
                Token::Open(..) => {
                    after_group.pop();
                    false
                }
                Token::Repeat(_) | Token::Piece(_) => false,
            };
        }
        last
    }

    /// For every `Close`, the kind of group that it closes.
    fn group_of_close(&self) -> Vec<Group> {
        let mut groups = vec![Group::Other; self.tokens.len()];
        let mut open = Vec::new();
        for (index, token) in self.tokens.iter().enumerate() {
            match token {
                Token::Open(group, _) => open.push(*group),
                Token::Close => groups[index] = open.pop().expect("the parser closes only what it opened"),
                _ => {}
            }
        }
        groups
    }
}

struct Parser {
    chars: Vec<char>,
    at: usize,
    flavour: Flavour,
    flags: Flags,
    tokens: Vec<Token>,
    last: Last,
    open: Vec<OpenGroup>,
    /// Capturing groups opened so far.
    groups: usize,
    names: Vec<(String, usize)>,
    backtracking: bool,
}

impl Parser {
    fn run(&mut self) -> Result<(), String> {
        while let Some(character) = self.next() {
            match character {
                '\\' => self.escape()?,
                '[' => {
                    let class = python_class::class(&self.chars, &mut self.at, self.flags, self.flavour)?;
                    self.atom(class);
                }
                '(' => self.group()?,
                ')' => self.close()?,
                '|' => {
                    self.tokens.push(Token::Alternate);
                    self.last = Last::Nothing;
                }
                '.' => self.atom(".".to_owned()),
                '^' => self.assertion("^"),
                '$' if self.flags.multi_line => self.assertion("$"),
                '$' => {
                    self.tokens.push(Token::Dollar);
                    self.last = Last::Nothing;
                }
                '*' | '+' | '?' => self.repeat(character.to_string())?,
                '{' => match self.braces()? {
                    Some(range) => self.repeat(range)?,
                    None => self.atom(literal('{')),
                },
                ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' if self.flags.verbose => {}
                '#' if self.flags.verbose => while self.next().is_some_and(|character| character != '\n') {},
                character => self.atom(literal(character)),
            }
        }
        match self.open.last() {
            Some(_) => Err("a group is not closed".to_owned()),
            None => Ok(()),
        }
    }

    fn next(&mut self) -> Option<char> {
        let character = self.chars.get(self.at).copied();
        self.at += usize::from(character.is_some());
        character
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// Takes `text` if it comes next.
    fn take(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(offset, expected)| self.chars.get(self.at + offset) == Some(&expected));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn until(&mut self, end: char) -> Result<String, String> {
        let mut text = String::new();
        loop {
            match self.next() {
                Some(character) if character == end => return Ok(text),
                Some(character) => text.push(character),
                None => return Err(format!("missing {end}")),
            }
        }
    }

    fn atom(&mut self, text: String) {
        self.last = Last::Atom(self.tokens.len());
        self.tokens.push(Token::Piece(text));
    }

    fn assertion(&mut self, text: &str) {
        self.last = Last::Nothing;
        self.tokens.push(Token::Piece(text.to_owned()));
    }

    /// Reads what may follow a repetition (`?` lazy, `+` possessive) and applies it.
    fn repeat(&mut self, mut range: String) -> Result<(), String> {
        let start = match self.last {
            Last::Atom(start) => start,
            Last::Nothing => return Err(format!("nothing to repeat before {range}")),
            Last::Repeat => return Err(format!("multiple repeat at {range}")),
        };
        let lazy = self.take("?");
        let possessive = !lazy && self.take("+");
        if lazy {
            range.push('?');
        }
        self.tokens.push(Token::Repeat(range));
        if possessive {
            self.tokens.insert(start, Token::Open(Group::Other, "(?>".to_owned()));
            self.tokens.push(Token::Close);
            self.backtracking = true;
        }
        self.last = Last::Repeat;
        Ok(())
    }

    /// Reads what follows `{` if it is a repetition count, which is then given back as Rust spells it.
    fn braces(&mut self) -> Result<Option<String>, String> {
        let start = self.at;
        let low = self.digits();
        let high = if self.take(",") { self.digits() } else { low.clone() };
        let counts = self.at > start && self.take("}");
        if !counts {
            self.at = start;
            return Ok(None);
        }
        let bound = |digits: &str| digits.parse::<u32>().map_err(|_| format!("the repetition count is too large: {digits}"));
        let low = if low.is_empty() { 0 } else { bound(&low)? };
        if high.is_empty() {
            return Ok(Some(format!("{{{low},}}")));
        }
        let high = bound(&high)?;
        if low > high {
            return Err(format!("the least repetition is over the most: {{{low},{high}}}"));
        }
        Ok(Some(format!("{{{low},{high}}}")))
    }

    fn digits(&mut self) -> String {
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
            digits.push(digit);
            self.at += 1;
        }
        digits
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(character) = self.next() else { return Err("a backslash at the end".to_owned()) };
        match character {
            'A' => self.assertion("\\A"),
            'z' | 'Z' => self.assertion("\\z"),
            'b' | 'B' => {
                let boundary = if self.flags.ascii { format!("(?-u:\\{character})") } else { format!("\\{character}") };
                self.assertion(&boundary);
            }
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => self.atom(python_class::shorthand(character, self.flags, self.flavour)),
            'p' | 'P' => {
                let property = python_class::property(&self.chars, &mut self.at, character)?;
                self.atom(property);
            }
            '0'..='9' => self.numeric_escape(character)?,
            _ => {
                let escaped = python_class::character_escape(&self.chars, &mut self.at, character)?;
                self.atom(literal(escaped));
            }
        }
        Ok(())
    }

    /// `\0`, `\012`, `\123` are characters; `\1` to `\99` refer to groups.
    fn numeric_escape(&mut self, first: char) -> Result<(), String> {
        let octal = |digit: Option<char>| digit.is_some_and(|digit| ('0'..='7').contains(&digit));
        let second = self.peek();
        if first == '0' || octal(Some(first)) && octal(second) && octal(self.chars.get(self.at + 1).copied()) {
            self.at -= 1;
            let character = python_class::octal_escape(&self.chars, &mut self.at)?;
            self.atom(literal(character));
            return Ok(());
        }
        let mut digits = first.to_string();
        if let Some(digit) = second.filter(char::is_ascii_digit) {
            digits.push(digit);
            self.at += 1;
        }
        self.back_reference(digits.parse().expect("one or two digits are a number"))
    }

    fn back_reference(&mut self, number: usize) -> Result<(), String> {
        if number > self.groups {
            return Err(format!("there is no group {number}"));
        }
        if self.open.iter().any(|group| group.number == Some(number)) {
            return Err(format!("a reference to group {number}, which is still open"));
        }
        self.backtracking = true;
        self.atom(format!("(?:\\{number})"));
        Ok(())
    }

    fn group(&mut self) -> Result<(), String> {
        if !self.take("?") {
            return self.capture(None);
        }
        for (text, group) in [(":", Group::Plain), (">", Group::Other), ("=", Group::Other), ("!", Group::Other)] {
            if self.take(text) {
                self.enter(group, &format!("(?{text}"), None);
                return Ok(());
            }
        }
        for text in ["<=", "<!"] {
            if self.take(text) {
                self.enter(Group::Other, &format!("(?{text}"), None);
                return Ok(());
            }
        }
        if self.take("#") {
            return self.until(')').map(|_| ());
        }
        if self.take("P=") {
            let name = self.until(')')?;
            let number = self.named(&name)?;
            return self.back_reference(number);
        }
        if self.take("P<") || self.take("<") {
            let name = self.until('>')?;
            return self.capture(Some(name));
        }
        if self.take("(") {
            return self.conditional();
        }
        self.flag_group()
    }

    fn capture(&mut self, name: Option<String>) -> Result<(), String> {
        self.groups += 1;
        let number = self.groups;
        if let Some(name) = name {
            if self.named(&name).is_ok() {
                return Err(format!("two groups of the name {name}"));
            }
            let head = name.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_');
            if !head || !name.chars().all(|character| character.is_alphanumeric() || character == '_') {
                return Err(format!("not a group name: {name}"));
            }
            self.names.push((name, number));
        }
        self.enter(Group::Plain, "(", Some(number));
        Ok(())
    }

    fn named(&self, name: &str) -> Result<usize, String> {
        let known = self.names.iter().find(|(known, _)| known == name);
        known.map(|(_, number)| *number).ok_or_else(|| format!("there is no group {name}"))
    }

    /// `(?(1)yes|no)` or `(?(name)yes|no)`.
    fn conditional(&mut self) -> Result<(), String> {
        let which = self.until(')')?;
        let number = match which.parse() {
            Ok(number) => number,
            Err(_) => self.named(&which)?,
        };
        if number == 0 || number > self.groups {
            return Err(format!("there is no group {number}"));
        }
        self.enter(Group::Other, &format!("(?({number})"), None);
        Ok(())
    }

    fn enter(&mut self, group: Group, text: &str, number: Option<usize>) {
        self.backtracking |= group == Group::Other;
        self.open.push(OpenGroup { token: self.tokens.len(), outer_flags: self.flags, number });
        self.tokens.push(Token::Open(group, text.to_owned()));
        self.last = Last::Nothing;
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(group) = self.open.pop() else { return Err("a parenthesis closes nothing".to_owned()) };
        self.tokens.push(Token::Close);
        self.flags = group.outer_flags;
        self.last = Last::Atom(group.token);
        Ok(())
    }

    /// `(?i)` and the like, where they are allowed: before everything else. What Rust has to know is given back.
    fn leading_flags(&mut self) -> Result<String, String> {
        let mut passed_on = String::new();
        loop {
            let start = self.at;
            if !self.take("(?") {
                return Ok(passed_on);
            }
            let letters = self.letters();
            if letters.is_empty() || !self.take(")") {
                self.at = start;
                return Ok(passed_on);
            }
            let kept = self.set_flags(&letters, true)?;
            if !kept.is_empty() {
                write!(passed_on, "(?{kept})").expect("writing to a string does not fail");
            }
        }
    }

    /// `(?i-s:`; the reader stands after the question mark.
    fn flag_group(&mut self) -> Result<(), String> {
        let outer = self.flags;
        let on = self.letters();
        let off = if self.take("-") { self.letters() } else { String::new() };
        if self.take(")") && !on.is_empty() {
            return Err("flags that are not at the start".to_owned());
        }
        if on.is_empty() && off.is_empty() || !self.take(":") {
            return Err("an unknown kind of group".to_owned());
        }
        let on = self.set_flags(&on, true)?;
        let off = self.set_flags(&off, false)?;
        let minus = if off.is_empty() { "" } else { "-" };
        let inner = self.flags;
        self.flags = outer;
        self.enter(Group::Plain, &format!("(?{on}{minus}{off}:"), None);
        self.flags = inner;
        Ok(())
    }

    fn letters(&mut self) -> String {
        let mut letters = String::new();
        while let Some(letter) = self.peek().filter(char::is_ascii_alphabetic) {
            letters.push(letter);
            self.at += 1;
        }
        letters
    }

    /// Notes the flags that matter here, and gives back those that Rust has too.
    fn set_flags(&mut self, letters: &str, on: bool) -> Result<String, String> {
        let mut kept = String::new();
        for letter in letters.chars() {
            match letter {
                'a' if on => self.flags.ascii = true,
                'u' if on => self.flags.ascii = false,
                'x' => self.flags.verbose = on,
                'i' | 's' => kept.push(letter),
                'm' => {
                    self.flags.multi_line = on;
                    kept.push(letter);
                }
                _ => return Err(format!("a flag that is not for text: {letter}")),
            }
        }
        Ok(kept)
    }
}

/// `character` as itself, in a spelling that means the same everywhere.
fn literal(character: char) -> String {
    python_class::literal(character)
}
