//! Tests of conversion: output, notes, errors, limits.

use super::*;
use crate::{MAX_GRAMMAR_BYTES, Membership, compile};
use sobench_core::constraint::GrammarDialect::{Ebnf, Lark};

#[track_caller]
fn check(from: GrammarDialect, to: GrammarDialect, text: &str, expected: &str, notes: &[&str]) {
    let converted = convert(from, to, text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(converted.text, expected, "{text}");
    let found: Vec<String> = converted.notes.iter().map(ToString::to_string).collect();
    assert_eq!(found, notes, "{text}");
}

#[test]
fn lark_becomes_ebnf() {
    for (text, expected, notes) in [
        (
            "start: \"a\" | B?\nB: \"b\"+\n",
            "root ::= \"a\" | b?\nb ::= \"b\"+\n",
            &[
                "terminals overlap and all derivations count; a longest-match lexer may accept fewer texts",
                "renamed B to b",
            ][..],
        ),
        (
            "?start: a_b -> x\n | [\"c\"] (\"d\" \"e\")~2..3 \"f\"{4} \"g\"{2,}\na_b: \"A\"i \"x\"..\"z\" \"\\\"\\\\\\n\\u00e9\\u0007\"\n",
            "root ::= a-b | \"c\"? \"de\"{2,3} \"f\"{4} \"g\"{2,}\na-b ::= [Aa] [x-z] \"\\\"\\\\\\né\\u0007\"\n",
            &[
                "dropped aliases (line 1)",
                "dropped the prefixes ? and ! (line 1)",
                "renamed a_b to a-b",
            ],
        ),
        (
            "start: \"let\" NAME (\"=\" NUMBER)?\nNAME: /[a-z_][a-z_0-9]*/\n%import common.INT -> NUMBER\n%ignore \" \"\n",
            "root ::= ignore start\nstart ::= \"let\" ignore name ignore (\"=\" ignore number ignore)?\nname ::= [_a-z] [0-9_a-z]*\nnumber ::= [0-9]+\nignore ::= \" \"*\n",
            &[
                "terminals overlap and all derivations count; a longest-match lexer may accept fewer texts",
                "%ignore became a rule, used before, between and after terminals",
                "renamed NAME to name, NUMBER to number",
            ],
        ),
        (
            "start: sum\nsum: sum \"+\" product | sum \"-\" product | product\nproduct: [product \"*\"] \"1\"\nunused: \"u\"\n",
            "root ::= sum\nsum ::= product (\"+\" product | \"-\" product)*\nproduct ::= \"1\" \"*1\"*\n",
            &[
                "dropped unreachable rules: unused",
                "replaced left recursion by repetition: sum, product",
            ],
        ),
        (
            "start: (a b)* \"!\"\na: \"x\"*\nb: \"y\"?\n",
            "root ::= (a-filled b | b-filled)* \"!\"\na-filled ::= \"x\"+\nb-filled ::= \"y\"\nb ::= \"y\"?\n",
            &["rewrote repetition of expressions that can be empty: start"],
        ),
        (
            "start: /[^\"\\\\\\n]*/ /[+-]?[\\]^]/ /./ /x-y/\n",
            "root ::= [^\\n\"\\\\]* [+-]? [\\]\\u005E] [^\\n] \"x-y\"\n",
            &[
                "terminals overlap and all derivations count; a longest-match lexer may accept fewer texts",
            ],
        ),
        (
            "start: start \"a\" |\n",
            "root ::= \"a\"*\n",
            &["replaced left recursion by repetition: start"],
        ),
        (
            "start: root true\nroot: \"a\"\ntrue: \"b\"\n",
            "root ::= root-2 true-2\nroot-2 ::= \"a\"\ntrue-2 ::= \"b\"\n",
            &["renamed root to root-2, true to true-2"],
        ),
    ] {
        check(Lark, Ebnf, text, expected, notes);
    }
}

#[test]
fn ebnf_becomes_lark() {
    let overlap = "split strings into characters to avoid longest-match lexing";
    for (text, expected, notes) in [
        (
            "root ::= \"ab\" | c-d # comment\nc-d ::= [0-9]{2,3} [^\"\\n/]* \"\"\n",
            "start: \"a\" \"b\" | c_d\nc_d: /[0-9]/{2,3} /[^\\n\"\\x{2F}]/*\n",
            vec![
                "renamed c-d to c_d".to_owned(),
                format!("{overlap}: \"ab\""),
            ],
        ),
        (
            "root ::= (\"\\\"x\\\"\" | \"🦀\\x07\")? [x] .",
            "start: (\"\\\"\" \"x\" \"\\\"\" | \"\\ud83e\\udd80\" \"\\u0007\")? \"x\" /[\\x{0}-\\x{D7FF}\\x{E000}-\\x{10FFFF}]/\n",
            vec![format!("{overlap}: \"\\\"x\\\"\", \"🦀\\u{{7}}\"")],
        ),
        (
            "root ::= | \"col_1\" | \"col_10\" [1] | \"other\"",
            "start: \"\" | \"c\" \"o\" \"l\" \"_\" \"1\" | \"c\" \"o\" \"l\" \"_\" \"1\" \"0\" \"1\" | \"o\" \"t\" \"h\" \"e\" \"r\"\n",
            vec![format!("{overlap}: \"col_1\", \"col_10\", \"other\"")],
        ),
        ("root ::= (\"a\" root)*", "start: (\"a\" start)*\n", vec![]),
    ] {
        let notes: Vec<&str> = notes.iter().map(String::as_str).collect();
        check(Ebnf, Lark, text, expected, &notes);
    }
}

#[test]
fn unsupported_constructs_are_refused_by_name_and_line() {
    for (from, to, text, message) in [
        (
            Lark,
            Ebnf,
            "start: a\na: b \"x\" | \"y\"\nb: a \"z\"",
            "unsupported in a grammar: indirect left recursion: a -> b -> a (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: a\na: \"b\"? a \"x\" | \"y\"",
            "unsupported in a grammar: left recursion that is not at the start of an alternative: a -> a (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: (start \"x\")+ \"y\" | \"z\"",
            "unsupported in a grammar: left recursion that is not at the start of an alternative: start -> start (line 1)",
        ),
        (
            Lark,
            Ebnf,
            "start: \"a\" b | \"c\"\nb: b \"x\"",
            "unsupported in a grammar: rule that derives no text: b (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: \"a\" | /[^\\s\\S]/",
            "unsupported in a grammar: empty character class, in start (line 1)",
        ),
        (
            Lark,
            Ebnf,
            "start: A\nA: /a*?/",
            "unsupported in a grammar: lazy repetition in a regular expression (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: A\nA: /^a/",
            "unsupported in a grammar: anchor or word boundary in a regular expression (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: A\nA: /a(?=b)/",
            "unsupported in a grammar: look-around in a regular expression (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: A\nA: /(a)\\1/",
            "unsupported in a grammar: back-reference in a regular expression (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: sep{\"a\", \",\"}",
            "unsupported in a grammar: template {...} (line 1)",
        ),
        (
            Lark,
            Ebnf,
            "start: \"a\"\nb: %json {}",
            "unsupported in a grammar: %json (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: \"a\"\n%import common.NOPE",
            "unsupported in a grammar: %import common.NOPE (line 2)",
        ),
        (
            Lark,
            Ebnf,
            "start: \"a\"\n\n  | \"b\"{2000}",
            "unsupported in a grammar: more than 1999 repetitions: {2000}, in start (line 1)",
        ),
        (
            Lark,
            Ebnf,
            "start: \"a\\u0000\"",
            "unsupported in a grammar: NUL in a string, which llama.cpp cannot match (line 1)",
        ),
        (
            Lark,
            Ebnf,
            "start: missing",
            "undefined rule in the grammar: missing",
        ),
        (Lark, Ebnf, "foo: \"a\"", "no start rule in the grammar"),
        (
            Lark,
            Ebnf,
            "start: (\"a\"",
            "grammar syntax at line 1, column 12: expected repetition operator or braces or or or number",
        ),
        (
            Ebnf,
            Lark,
            "root ::= \"a\" <tool>",
            "unsupported in a grammar: token <tool> (line 1)",
        ),
        (
            Ebnf,
            Lark,
            "root ::= \"a\" (=\"b\")",
            "unsupported in a grammar: look-ahead (=...) (line 1)",
        ),
        (
            Ebnf,
            Lark,
            "root ::= root \"a\"",
            "unsupported in a grammar: rule that derives no text: root (line 1)",
        ),
        (
            Ebnf,
            Ebnf,
            "root ::= (\"\")* (a)*\na ::= \"\"",
            "unsupported in a grammar: repetition of the empty text: a (line 2)",
        ),
    ] {
        let result = convert(from, to, text)
            .map(|converted| converted.text)
            .unwrap_err()
            .to_string();
        let (position, _) = message.split_once(": expected").unwrap_or((message, ""));
        assert!(result.starts_with(position), "{text}: {result}");
    }
}

#[test]
fn counted_groups_become_rules() {
    check(
        Lark,
        Ebnf,
        "start: (\"a\" | b)~2..9 (b \"c\" b)* ((\"x\"~0..60 \"y\")~0..50 b)+\nb: \"q\"",
        "root ::= root-part{2,9} (b \"c\" b)* root-part-2+\nroot-part ::= \"a\" | b\nroot-part-2 ::= root-part-3{0,50} b\n\
         root-part-3 ::= \"x\"{0,60} \"y\"\nb ::= \"q\"\n",
        &[],
    );
}

#[test]
fn converting_to_the_same_notation_gives_portable_names() {
    let sql = include_str!("../../../../grammars/sql.ebnf");
    check(
        Ebnf,
        Ebnf,
        sql,
        "root ::= select-statement\nselect-statement ::= \"SELECT \" column \" from \" table \" where \" condition\n\
         column ::= \"col_1 \" | \"col_2 \"\ntable ::= \"table_1 \" | \"table_2 \"\ncondition ::= column \"= \" number\nnumber ::= \"1 \" | \"2 \"\n",
        &["renamed select_statement to select-statement"],
    );
    let lark = convert(Ebnf, Lark, sql).unwrap();
    let shipped = include_str!("../../../../grammars/sql.lark");
    assert_eq!(lark.text, shipped.split_once('\n').unwrap().1);
    assert_eq!(lark.notes, []);
}

#[test]
fn limits_stop_hostile_grammars() {
    let wide: String = (0..8_000)
        .map(|number| format!("r{number}: r{} \"x\" | \"y\"\n", (number + 1) % 8_000))
        .collect();
    let nullable: Vec<String> = (0..2_000).map(|number| format!("\"{number}\"?")).collect();
    let nested = (0..12).fold("\"a\"?".to_owned(), |inner, _| {
        format!("({inner} {inner})*")
    });
    let deep = |depth: usize| {
        format!(
            "start: {}/{}a{}/{}",
            "(".repeat(depth),
            "(?:b|".repeat(depth),
            ")*".repeat(depth),
            ")+".repeat(depth)
        )
    };
    let names: String = (0..1_000)
        .map(|number| format!("start{}: \"a\"\n", "_".repeat(number % 400)))
        .collect();
    for (text, expected) in [
        (
            format!("start: r0\n{wide}"),
            "indirect left recursion: r0 -> r1 -> ",
        ),
        (
            format!("start: ({})*", nullable.join(" ")),
            "parts of the converted grammar: 200000",
        ),
        (
            format!("start: {nested}"),
            "parts of the converted grammar: 200000",
        ),
        (deep(120), "nested groups: 128"),
        (deep(5_000), "nested groups: 128"),
        (
            format!("start: {}", "/\\w/ ".repeat(60)),
            "bytes of the converted grammar: 262144",
        ),
        (format!("start: \"a\"\n{names}"), "defined twice"),
        (
            " ".repeat(MAX_GRAMMAR_BYTES + 1),
            "bytes of the grammar: 262144",
        ),
        (
            "start: \"".to_owned() + &"é\\".repeat(100),
            "grammar syntax",
        ),
    ] {
        let result = convert(Lark, Ebnf, &text).map(|converted| converted.text.len().to_string());
        let result = result.map_or_else(
            |error| error.to_string(),
            |length| format!("converted to {length} bytes"),
        );
        assert!(
            result.contains(expected) && result.len() < 300,
            "{}: {result}",
            &text[..40.min(text.len())]
        );
    }
    let prefixes: Vec<String> = (1..150)
        .map(|length| format!("\"{}\"", "ab".repeat(length)))
        .collect();
    let chain = convert(Ebnf, Lark, &format!("root ::= {}", prefixes.join(" | "))).unwrap();
    assert_eq!(
        compile(Lark, &chain.text)
            .unwrap()
            .recognise(&"ab".repeat(149)),
        Membership::Member
    );
}
