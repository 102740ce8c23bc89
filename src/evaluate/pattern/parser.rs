//! Reads a pattern into tokens in Rust's spelling. Part of `pattern`; matches nothing.

use std::fmt::Write as _;

use super::cursor::Cursor;
use super::{Dialect, Group, Token, Translated, class, rounds};

/// What opens a group that looks around.
const LOOKS: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];

/// Matches anywhere and takes nothing. In a group it is something to repeat: the backtracking engine refuses to repeat a group that is
/// empty or only looks around, which both notations allow.
const NOTHING: &str = "(?:^|)";

/// Reads `pattern`; the error says what is wrong with it, without a full stop.
pub(super) fn translate(pattern: &str, dialect: Dialect) -> Result<Translated, String> {
    let mut parser = Parser {
        cursor: Cursor::new(pattern, dialect),
        ecma: dialect == Dialect::Ecma,
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
    if parser.ecma
        && let Some(group) = rounds::forgotten(&parser.tokens)
    {
        return Err(format!("a reference to group {group} that may go back to an earlier round of a repetition"));
    }
    Ok(Translated { tokens: parser.tokens, flags, backtracking: parser.backtracking })
}

/// Flags that change how the pattern is read; `i`, `m` and `s` are also passed on.
#[derive(Clone, Copy, Default)]
struct Flags {
    ascii: bool,
    verbose: bool,
    multi_line: bool,
    dot_all: bool,
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

struct Parser {
    cursor: Cursor,
    ecma: bool,
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
        while let Some(character) = self.cursor.next() {
            match character {
                '\\' => self.escape()?,
                '[' => {
                    let class = class::class(&mut self.cursor, self.flags.ascii)?;
                    self.atom(class);
                }
                '(' => self.group()?,
                ')' => self.close()?,
                '|' => {
                    self.tokens.push(Token::Alternate);
                    self.last = Last::Nothing;
                }
                '.' => self.dot(),
                '^' => self.assertion("^"),
                '$' => self.dollar(),
                '*' | '+' | '?' => self.repeat(character.to_string())?,
                '{' => match self.braces()? {
                    Some(range) => self.repeat(range)?,
                    None => self.atom(class::literal('{')),
                },
                ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}' if self.flags.verbose => {}
                '#' if self.flags.verbose => {
                    self.cursor.take_while(usize::MAX, |character| character != '\n');
                }
                character => self.atom(class::literal(character)),
            }
        }
        match self.open.last() {
            Some(_) => Err("a group is not closed".to_owned()),
            None => Ok(()),
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

    fn dot(&mut self) {
        // ECMAScript's line terminators are four; to Python and Rust there is one.
        let lines_only = self.ecma && !self.flags.dot_all;
        self.atom(if lines_only { "[^\\x{a}\\x{d}\\x{2028}\\x{2029}]" } else { "." }.to_owned());
    }

    fn dollar(&mut self) {
        match (self.ecma, self.flags.multi_line) {
            (true, _) => self.assertion("\\z"),
            (false, true) => self.assertion("$"),
            (false, false) => {
                self.tokens.push(Token::Dollar);
                self.last = Last::Nothing;
            }
        }
    }

    /// Reads what may follow a repetition (`?` lazy, Python's `+` possessive) and applies it.
    fn repeat(&mut self, mut range: String) -> Result<(), String> {
        let start = match self.last {
            Last::Atom(start) => start,
            Last::Nothing => return Err(format!("nothing to repeat before {range}")),
            Last::Repeat => return Err(format!("multiple repeat at {range}")),
        };
        let lazy = self.cursor.take("?");
        if lazy {
            range.push('?');
        }
        let possessive = !lazy && !self.ecma && self.cursor.take("+");
        if self.is_look_around(start) {
            self.repeat_look_around(start, &range);
            return Ok(());
        }
        if self.takes_nothing(start) {
            self.tokens.insert(start + 1, Token::Piece(NOTHING.to_owned()));
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

    fn is_look_around(&self, start: usize) -> bool {
        matches!(&self.tokens[start], Token::Open(_, text) if LOOKS.contains(&text.as_str()))
    }

    /// Whether the group that begins at `start` only groups, and holds nothing but look-around, if that.
    fn takes_nothing(&self, start: usize) -> bool {
        let mut around: Vec<bool> = Vec::new();
        for token in &self.tokens[start..] {
            match token {
                Token::Open(Group::Plain, text) if text == "(" => return false,
                Token::Open(..) if around.last() == Some(&true) => around.push(true),
                Token::Open(Group::Plain, _) => around.push(false),
                Token::Open(Group::Other, text) => around.push(LOOKS.contains(&text.as_str())),
                Token::Close => drop(around.pop()),
                Token::Dollar => {}
                _ if around.last() != Some(&true) => return false,
                _ => {}
            }
        }
        matches!(&self.tokens[start], Token::Open(..))
    }

    /// Look-around takes nothing, so that once is as good as often; and where none will do, it is one of two alternatives. The
    /// backtracking engine refuses the repetition itself.
    fn repeat_look_around(&mut self, start: usize, range: &str) {
        if range.starts_with(['*', '?']) || range.starts_with("{0,") {
            self.tokens.insert(start, Token::Open(Group::Plain, "(?:".to_owned()));
            self.tokens.extend([Token::Alternate, Token::Close]);
        }
        self.last = Last::Repeat;
    }

    /// Reads what follows `{` if it is a repetition count, which is then given back as Rust spells it.
    fn braces(&mut self) -> Result<Option<String>, String> {
        let start = self.cursor.position();
        let low = self.digits();
        let comma = self.cursor.take(",");
        let high = if comma { self.digits() } else { low.clone() };
        // `{,3}` and even `{,}` count in Python; in ECMAScript they are four characters and three.
        let counts = if self.ecma { !low.is_empty() } else { !low.is_empty() || comma };
        if !counts || !self.cursor.take("}") {
            self.cursor.rewind(start);
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
        self.cursor.take_while(usize::MAX, |digit| digit.is_ascii_digit())
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(character) = self.cursor.next() else { return Err("a backslash at the end".to_owned()) };
        match character {
            'A' if !self.ecma => self.assertion("\\A"),
            'z' | 'Z' if !self.ecma => self.assertion("\\z"),
            'b' | 'B' if self.ecma || self.flags.ascii => {
                self.tokens.push(Token::AsciiBoundary(character));
                self.last = Last::Nothing;
            }
            'b' | 'B' => self.boundary(character),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => self.atom(class::shorthand(character, self.flags.ascii, self.cursor.dialect)),
            'p' | 'P' => {
                let property = self.cursor.property(character)?;
                self.atom(property);
            }
            'k' if self.ecma && self.cursor.take("<") => {
                let name = self.cursor.until('>')?;
                let number = self.named(&name)?;
                self.back_reference(number)?;
            }
            '1'..='9' if !self.is_octal(character) => {
                let most = if self.ecma { usize::MAX } else { 1 };
                let digits = format!("{character}{}", self.cursor.take_while(most, |digit| digit.is_ascii_digit()));
                self.back_reference(digits.parse().map_err(|_| format!("there is no group {digits}"))?)?;
            }
            _ => {
                let escaped = self.cursor.character_escape(character)?;
                self.atom(class::literal(escaped));
            }
        }
        Ok(())
    }

    /// A word boundary, or a place that is none. The engines' own goes by their idea of `\w`, which is the package `regex`'s, not
    /// `re`'s.
    fn boundary(&mut self, letter: char) {
        if self.cursor.dialect == Dialect::RegexPackage {
            return self.assertion(&format!("\\{letter}"));
        }
        self.backtracking = true;
        self.assertion(&class::boundary(letter, &class::shorthand('w', false, Dialect::Re)));
    }

    /// Whether Python takes `\` and `first` for the beginning of an octal escape (three digits), not of a reference.
    fn is_octal(&self, first: char) -> bool {
        let octal = |digit: Option<char>| digit.is_some_and(|digit| ('0'..='7').contains(&digit));
        !self.ecma && octal(Some(first)) && octal(self.cursor.peek()) && octal(self.cursor.peek_past(1))
    }

    fn back_reference(&mut self, number: usize) -> Result<(), String> {
        let still_open = self.open.iter().any(|group| group.number == Some(number));
        if number > self.groups {
            return Err(format!("there is no group {number}"));
        }
        self.backtracking = true;
        match (self.ecma, still_open) {
            (false, false) => self.reference(number, format!("(?:\\{number})")),
            (false, true) => return Err(format!("a reference to group {number}, which is still open")),
            // In ECMAScript a reference to a group that has not matched matches the empty text.
            (true, false) => self.reference(number, format!("(?({number})\\{number}|)")),
            (true, true) => self.atom("(?:)".to_owned()),
        }
        Ok(())
    }

    fn reference(&mut self, number: usize, text: String) {
        self.last = Last::Atom(self.tokens.len());
        self.tokens.push(Token::Reference(number, text));
    }

    fn group(&mut self) -> Result<(), String> {
        if !self.cursor.take("?") {
            return self.capture(None);
        }
        if self.cursor.take(":") {
            self.enter(Group::Plain, "(?:", None);
            return Ok(());
        }
        for look in ["=", "!", "<=", "<!"] {
            if self.cursor.take(look) {
                self.enter(Group::Other, &format!("(?{look}"), None);
                return Ok(());
            }
        }
        if self.cursor.take("<") || !self.ecma && self.cursor.take("P<") {
            let name = self.cursor.until('>')?;
            return self.capture(Some(name));
        }
        if self.ecma { self.flag_group() } else { self.python_group() }
    }

    /// The kinds of groups that only Python has; the cursor is after the question mark.
    fn python_group(&mut self) -> Result<(), String> {
        if self.cursor.take(">") {
            self.enter(Group::Other, "(?>", None);
            return Ok(());
        }
        if self.cursor.take("#") {
            return self.cursor.until(')').map(|_| ());
        }
        if self.cursor.take("P=") {
            let name = self.cursor.until(')')?;
            let number = self.named(&name)?;
            return self.back_reference(number);
        }
        if self.cursor.take("(") {
            let which = self.cursor.until(')')?;
            let number = which.parse().or_else(|_| self.named(&which))?;
            if number == 0 || number > self.groups {
                return Err(format!("there is no group {number}"));
            }
            self.enter(Group::Other, &format!("(?({number})"), None);
            return Ok(());
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
            let head = name.chars().next().is_some_and(|first| first.is_alphabetic() || matches!(first, '_' | '$'));
            if !head || !name.chars().all(|character| character.is_alphanumeric() || matches!(character, '_' | '$')) {
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
            if !self.ecma && self.cursor.take("(?#") {
                self.cursor.until(')')?;
                continue;
            }
            let start = self.cursor.position();
            let letters = if self.cursor.take("(?") { self.letters() } else { String::new() };
            if letters.is_empty() || !self.cursor.take(")") {
                self.cursor.rewind(start);
                return Ok(passed_on);
            }
            let kept = self.set_flags(&letters, true)?;
            if !kept.is_empty() {
                write!(passed_on, "(?{kept})").expect("writing to a string does not fail");
            }
        }
    }

    /// `(?i-s:`; the cursor is after the question mark.
    fn flag_group(&mut self) -> Result<(), String> {
        let outer = self.flags;
        let on = self.letters();
        let off = if self.cursor.take("-") { self.letters() } else { String::new() };
        if !on.is_empty() && self.cursor.take(")") {
            return Err("flags that are not at the start".to_owned());
        }
        if on.is_empty() && off.is_empty() || !self.cursor.take(":") {
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
        self.cursor.take_while(usize::MAX, |letter| letter.is_ascii_alphabetic())
    }

    /// Notes the flags that matter here, and gives back those that Rust has too.
    fn set_flags(&mut self, letters: &str, on: bool) -> Result<String, String> {
        let mut kept = String::new();
        for letter in letters.chars() {
            match letter {
                'i' => kept.push(letter),
                's' => {
                    self.flags.dot_all = on;
                    kept.push(letter);
                }
                'm' if !self.ecma => {
                    self.flags.multi_line = on;
                    kept.push(letter);
                }
                'a' if on && !self.ecma => self.flags.ascii = true,
                'u' if on && !self.ecma => self.flags.ascii = false,
                'x' if !self.ecma => self.flags.verbose = on,
                _ => return Err(format!("a flag that is not known here: {letter}")),
            }
        }
        Ok(kept)
    }
}
