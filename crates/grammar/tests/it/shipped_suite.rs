//! The grammars of the dataset `suite`: the pest oracle, the recogniser, the converted grammar and
//! llguidance accept the same texts.

use std::fs;

use serde_json::Value;
use sobench_core::constraint::GrammarDialect;
use sobench_grammar::{Membership, PestOracle, compile, convert};
use sobench_testkit::repository_path;

use crate::guidance::{Engine, engine_accepts};

struct Row {
    name: String,
    dialect: GrammarDialect,
    text: String,
    oracle: String,
    valid: Vec<String>,
}

fn rows() -> Vec<Row> {
    let file = fs::read_to_string(repository_path("schemas/workloads/suite-1.jsonl")).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    file.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|row: &Value| row.get("grammar").is_some())
        .map(|row| Row {
            name: text(&row["name"]),
            dialect: serde_json::from_value(row["grammar"]["dialect"].clone()).unwrap(),
            text: text(&row["grammar"]["text"]),
            oracle: text(&row["grammar_oracle"]),
            valid: row["instances"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|instance| instance["valid"] == true)
                .map(|instance| text(&instance["text"]))
                .collect(),
        })
        .collect()
}

/// Characters that the changes insert, in turn.
const LETTERS: [char; 11] = [' ', '0', 'a', '"', '(', ')', '.', ',', '-', '1', '\n'];

/// At each place of a text: the text up to there, and with a character removed, replaced and
/// inserted.
fn changes(text: &str) -> Vec<String> {
    let changed = |(index, (at, character)): (usize, (usize, char))| {
        let (head, tail) = (&text[..at], &text[at + character.len_utf8()..]);
        let letter = LETTERS[index % LETTERS.len()];
        [
            head.to_owned(),
            format!("{head}{tail}"),
            format!("{head}{letter}{tail}"),
            format!("{head}{letter}{}", &text[at..]),
        ]
    };
    text.char_indices().enumerate().flat_map(changed).collect()
}

#[test]
fn oracle_recogniser_conversion_and_engine_accept_the_same_texts() {
    let engine = Engine::new();
    let (mut compared, mut accepted) = (0, 0);
    for row in rows() {
        let other = match row.dialect {
            GrammarDialect::Lark => GrammarDialect::Ebnf,
            GrammarDialect::Ebnf => GrammarDialect::Lark,
        };
        let converted = convert(row.dialect, other, &row.text).unwrap().text;
        let lark = match other {
            GrammarDialect::Lark => &converted,
            GrammarDialect::Ebnf => &row.text,
        };
        let oracle = PestOracle::compile(&row.oracle).unwrap();
        let written = compile(row.dialect, &row.text).unwrap();
        let converted = compile(other, &converted).unwrap();
        let matcher = engine.matcher(lark);
        let matcher = matcher.unwrap_or_else(|error| panic!("{}: {error}", row.name));
        for sentence in row.valid.iter().take(2) {
            for text in changes(sentence).into_iter().chain([sentence.clone()]) {
                let expected = oracle.recognise(&text) == Membership::Member;
                let found = [
                    written.recognise(&text) == Membership::Member,
                    converted.recognise(&text) == Membership::Member,
                    engine_accepts(&matcher, &text),
                ];
                assert_eq!(found, [expected; 3], "{}: {text:?}", row.name);
                compared += 1;
                accepted += usize::from(expected);
            }
        }
    }
    assert!(
        compared > 2_000 && accepted > 200,
        "{accepted} of {compared}"
    );
}
