//! Tests that converted grammars keep their language: thousands of members and near-members,
//! recognised by both grammars.

use std::collections::BTreeSet;

use super::super::charset::CharSet;
use super::super::read;
use super::*;
use crate::compile;
use sobench_core::constraint::GrammarDialect::{Ebnf, Lark};

/// Maximum derivation depth of a random sentence.
const MAX_DEPTH: u32 = 60;

struct Random(u64);

impl Random {
    /// George Marsaglia's xorshift; a number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn scalar(&mut self, set: &CharSet) -> Option<char> {
        let ranges = set.ranges();
        let (first, last) = ranges[self
            .below(ranges.len().max(1))
            .min(ranges.len().checked_sub(1)?)];
        let offset = self.below((last - first) as usize + 1) as u32;
        char::from_u32(if self.below(3) == 0 {
            first
        } else {
            first + offset
        })
    }
}

/// A random sentence of an expression, with ignored text; `None` beyond the maximum depth. Uses the
/// source grammar, not the converted one.
fn derive(
    grammar: &Grammar<'_>,
    part: &Expression,
    kind: RuleKind,
    depth: u32,
    random: &mut Random,
) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let mut text = match part {
        Expression::Text(text) => text.clone(),
        Expression::Class(set) => random.scalar(set)?.to_string(),
        Expression::Sequence(parts) => {
            let mut text = String::new();
            for part in parts {
                text += &derive(grammar, part, kind, depth, random)?;
            }
            text
        }
        Expression::Choice(parts) => derive(
            grammar,
            &parts[random.below(parts.len())],
            kind,
            depth,
            random,
        )?,
        Expression::Repeat { body, least, most } => {
            let most = most.unwrap_or(least + 2).min(least + 3);
            let mut text = String::new();
            for _ in 0..least + random.below((most - least) as usize + 1) as u32 {
                text += &derive(grammar, body, kind, depth, random)?;
            }
            text
        }
        Expression::Terminal(body) => derive(grammar, body, RuleKind::Terminal, depth, random)?,
        Expression::Reference(name) => {
            let rule = grammar
                .rules
                .iter()
                .find(|rule| rule.name == *name)
                .unwrap();
            derive(grammar, &rule.body, rule.kind, depth, random)?
        }
    };
    let is_terminal = match part {
        Expression::Terminal(_) => true,
        Expression::Reference(name) => grammar
            .rules
            .iter()
            .any(|rule| rule.name == *name && rule.kind == RuleKind::Terminal),
        _ => false,
    };
    if is_terminal && kind == RuleKind::Rule {
        text += &ignored(grammar, depth, random)?;
    }
    Some(text)
}

fn ignored(grammar: &Grammar<'_>, depth: u32, random: &mut Random) -> Option<String> {
    if grammar.ignored.is_empty() || random.below(3) > 0 {
        return Some(String::new());
    }
    derive(
        grammar,
        &grammar.ignored[random.below(grammar.ignored.len())],
        RuleKind::Terminal,
        depth,
        random,
    )
}

/// Random sentences, and texts that differ in one character.
fn texts(grammar: &Grammar<'_>, random: &mut Random) -> BTreeSet<String> {
    let start = Expression::Reference(grammar.start.to_owned());
    let mut found = BTreeSet::from([String::new()]);
    for _ in 0..80 {
        let Some(before) = ignored(grammar, MAX_DEPTH, random) else {
            continue;
        };
        let Some(sentence) = derive(grammar, &start, RuleKind::Rule, MAX_DEPTH, random) else {
            continue;
        };
        let sentence: Vec<char> = (before + &sentence).chars().take(200).collect();
        for _ in 0..4 {
            let mut near = sentence.clone();
            let at = random.below(near.len() + 1);
            let letter = match random.below(3) {
                0 => *near.get(random.below(near.len().max(1))).unwrap_or(&'x'),
                _ => ['a', 'x', '0', ' ', '"', '\n', ',', 'é'][random.below(8)],
            };
            match random.below(4) {
                0 => near.truncate(at),
                1 => near.insert(at, letter),
                2 if at < near.len() => drop(near.remove(at)),
                _ if at < near.len() => near[at] = letter,
                _ => near.push(letter),
            }
            found.insert(near.into_iter().collect());
        }
        found.insert(sentence.into_iter().collect());
    }
    found
}

/// Number of members and of other texts.
#[derive(Default)]
struct Tally {
    members: usize,
    others: usize,
}

/// Compares all conversions of a grammar with the source; `None` if one is refused.
fn check(from: GrammarDialect, text: &str, random: &mut Random, tally: &mut Tally) -> Option<()> {
    let other = if from == Lark { Ebnf } else { Lark };
    let converted = convert(from, other, text).ok()?.text;
    let source = compile(from, text).unwrap();
    let portable = convert(from, from, text).ok()?.text;
    let round_trip = convert(other, from, &converted)
        .unwrap_or_else(|error| panic!("{error}\n{converted}"))
        .text;
    let others: Vec<_> = [(other, &converted), (from, &portable), (from, &round_trip)]
        .map(|(dialect, text)| (compile(dialect, text).unwrap(), text))
        .into_iter()
        .collect();
    for sample in texts(&read(from, text).unwrap(), random) {
        let expected = source.recognise(&sample);
        for (recogniser, result) in &others {
            assert_eq!(
                recogniser.recognise(&sample),
                expected,
                "{sample:?}\nof {text}\nis not of\n{result}"
            );
        }
        if expected == crate::Membership::Member {
            tally.members += 1;
        } else {
            tally.others += 1;
        }
    }
    Some(())
}

#[test]
fn converted_grammars_keep_their_sentences() {
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    for (from, text) in [
        (Ebnf, include_str!("../../../../grammars/sql.ebnf")),
        (Lark, include_str!("../../../../grammars/sql.lark")),
        (
            Lark,
            include_str!("../../../../fixtures/grammars/arithmetic.lark"),
        ),
        (
            Lark,
            include_str!("../../../../fixtures/grammars/json.lark"),
        ),
        (
            Lark,
            include_str!("../../../../fixtures/grammars/settings.lark"),
        ),
        (
            Ebnf,
            include_str!("../../../../fixtures/grammars/json.ebnf"),
        ),
        (
            Ebnf,
            include_str!("../../../../fixtures/grammars/overlap.ebnf"),
        ),
        // Everything is optional and repeated.
        (
            Lark,
            "start: (a b? c*)* \"!\"\na: \"x\"* | b b\nb: [\"y\"] c\nc: (\"z\"? \"w\"?)~0..2 |\n%ignore \" \"*",
        ),
        (
            Lark,
            "start: start start | \"a\" | [\"b\"] | start \"c\"~1..2",
        ),
        (Lark, "start: (start | \"a\") \"b\" | [start] \"c\" | \"\""),
        (Lark, "start: x+\nx: (x (\"a\" | \"b\"?) | \"c\"*)"),
        (
            Lark,
            "start: \"straße\"i /k{2,3}/i /[\\w&&[^a-z]]/ /\\d?\\s/ /[^\\x00-\\x{10FFFE}]?/",
        ),
        (
            Lark,
            "start: \"<\" /[\\]\\[\\^\\-\\\\\\/\"#|&~-]+/ \">\"\n%ignore /\\/\\*([^*]|\\*+[^*\\/])*\\*+\\//",
        ),
        (
            Ebnf,
            "root ::= ((\"a\"?)* | ((\"b\" | \"\")+ \"c\"?){2,3})* (\"\")* [\\x00-\\x02]? .{0,2}",
        ),
        (
            Ebnf,
            "root ::= \"\\U0001F600\\u00e9\\x7f\\\\\\\"\" [\\]\\[\\\\^a-c-]* [^-a]? [+--] \"\"?",
        ),
        (
            Ebnf,
            "root ::= \"if\" \" \"+ name \" \"* (\"=\" | \"==\") [^=] | \"i\" root\nname ::= [a-z]+ name? | \"if\" \"f\"",
        ),
    ] {
        let mut tally = Tally::default();
        check(from, text, &mut random, &mut tally)
            .unwrap_or_else(|| panic!("refused: {:?}\n{text}", convert(from, Ebnf, text)));
        assert!(
            tally.members >= 16 && tally.others >= 16,
            "{} of {} for {text}",
            tally.members,
            tally.others
        );
    }
}

impl Random {
    fn expression(&mut self, rules: usize, depth: u32) -> String {
        let kinds = if depth == 0 { 5 } else { 13 };
        let inner = |random: &mut Self| random.expression(rules, depth.saturating_sub(1));
        match self.below(kinds) {
            0 | 1 => ["\"a\"", "\"b\"", "\"ab\"", "\"ba\""][self.below(4)].to_owned(),
            2 => ["\"\"", "\"b\"", "\"aa\""][self.below(3)].to_owned(),
            3 | 4 => format!("r{}", self.below(rules)),
            5..8 => format!("{} {}", inner(self), inner(self)),
            8 | 9 => format!("({} | {})", inner(self), inner(self)),
            10 => format!("({})*", inner(self)),
            11 => format!("({})?", inner(self)),
            _ => {
                let least = self.below(3);
                format!("({}){{{least},{}}}", inner(self), least + self.below(3))
            }
        }
    }
}

#[test]
fn converted_random_grammars_keep_their_sentences() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut tally, mut converted) = (Tally::default(), 0);
    for _ in 0..300 {
        let rules = 1 + random.below(3);
        let bodies: Vec<String> = (0..rules).map(|_| random.expression(rules, 3)).collect();
        let (from, start, is) = if random.below(2) == 0 {
            (Lark, "start", ":")
        } else {
            (Ebnf, "root", "::=")
        };
        let named = bodies
            .iter()
            .enumerate()
            .map(|(number, body)| format!("r{number} {is} {body}\n"));
        let text = format!("{start} {is} r0\n{}", named.collect::<String>());
        converted += usize::from(check(from, &text, &mut random, &mut tally).is_some());
    }
    assert!(converted > 100, "{converted}");
    assert!(
        tally.members > 1_000 && tally.others > 1_000,
        "{} and {}",
        tally.members,
        tally.others
    );
}
