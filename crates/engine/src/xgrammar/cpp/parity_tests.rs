//! Compares the port of xgrammar with the original: equal refusals, and equal masks token by token.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::Xgrammar;
use super::super::tests::{choice, ebnf, json, lark, regex, tag};
use super::{VERSION, XgrammarCpp};
use crate::vocabulary::shared;
use crate::{Engine, EnginePolicy, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_core::constraint::{AlwaysTrue, Constraint};

/// Known differences, by case, with the reason.
const KNOWN_DIFFERENCES: [(&str, &str); 0] = [];

/// Number of random walks beside the texts. Texts are walked to their end or to the first refusal;
/// random walks take any allowed token.
const RANDOM_WALKS: u64 = 2;

/// Length of a random walk in tokens.
const RANDOM_STEPS: usize = 24;

struct Case {
    name: String,
    constraint: Constraint,
    texts: Vec<String>,
}

fn case(name: &str, constraint: Constraint, texts: &[&str]) -> Case {
    Case {
        name: name.to_owned(),
        constraint,
        texts: texts.iter().map(ToString::to_string).collect(),
    }
}

/// An answer for `user_profile.json`, up to its first optional part.
const NESTED: &str = r#"{"userId": "u1", "personalInfo": {"firstName": "Zoë", "lastName": "\u004b", "age": 4,
 "phoneNumbers": [{"type": "home", "number": "+4912345"}]"#;

/// The shipped workloads.
fn workloads() -> Vec<Case> {
    let profile = include_str!("../../../../../schemas/workloads/user_profile.json");
    let flat = include_str!("../../../../../schemas/workloads/structured_schema_1.json");
    let sql = "SELECT col_2  from table_1  where col_1 = 2 ";
    vec![
        case(
            "user_profile",
            json(profile),
            &[NESTED, r#"{"personalInfo":"#],
        ),
        case(
            "structured_schema_1",
            json(flat),
            &[
                r#"{"name": "Zoë", "email": "z@example.com", "age": 4}"#,
                r#"{"name":1"#,
            ],
        ),
        case(
            "json_object",
            Constraint::JsonObject(AlwaysTrue),
            &[r#"{"a": [true, {"b": -1.5e3}], "é": "\n"}"#, "[1]"],
        ),
        case(
            "regex",
            regex(r"\w+@\w+\.com\n"),
            &[
                "alan_turing@enigma.com\n",
                "alan.turing@enigma.com\n",
                "zoë@x.com\n",
            ],
        ),
        case(
            "choice",
            choice(&["Positive", "Negative", "a\"\\\n\t\u{1}\u{7f}日"]),
            &["Negative", "a\"\\\n\t\u{1}\u{7f}日"],
        ),
        case(
            "sql.ebnf",
            ebnf(include_str!("../../../../../grammars/sql.ebnf")),
            &[sql, "SELECT col_3"],
        ),
        case(
            "sql.lark",
            lark(include_str!("../../../../../grammars/sql.lark")),
            &[sql, "SELECT col_3"],
        ),
    ]
}

/// Texts, and schemas that each text is tried with.
const STRINGS: (&[&str], &[&str]) = (
    &[
        "\"a\\nb\"",
        "\"\\u0041\\ud800\"",
        "\"a\tb\"",
        "\"a\u{1}b\"",
        "\"\u{7f}\\/\"",
        "\"日本 🦀\"",
        " \"x\"",
    ],
    &[
        r#"{"type":"string"}"#,
        r#"{"type":"string","minLength":1,"maxLength":5}"#,
        r#"{"type":"string","pattern":"b"}"#,
        r#"{"type":"string","pattern":"^a|b$"}"#,
        r#"{"type":"string","pattern":"^[^\\n]{2,}\\u0041?$"}"#,
        r#"{"type":"string","pattern":"^(?=a)\\w+$"}"#,
        r#"{"type":"string","pattern":"^[a-z]+$","maxLength":2}"#,
        r#"{"allOf":[{"type":"string"},{"maxLength":2}]}"#,
        r#"{"not":{"type":"string"}}"#,
        r#"{"type":"string","format":"made-up"}"#,
        r##"{"$ref":"#/$defs/s","maxLength":2,"$defs":{"s":{"type":"string"}}}"##,
        r#"{"enum":["a\u007fé","\u2028","a",1,1.0,1e2,12345678901234567890,0.1,-0.0,1e-7,null,{"a":[1]}]}"#,
    ],
);

/// Texts, and schemas that each text is tried with.
const NUMBERS: (&[&str], &[&str]) = (
    &[
        "1",
        "-0",
        "1.0",
        "1e2",
        "0.12345678",
        "12345678901234567890",
        "1E-5",
        "007",
    ],
    &[
        r#"{"type":"integer"}"#,
        r#"{"type":"integer","minimum":5}"#,
        r#"{"type":"integer","minimum":-120,"exclusiveMaximum":1000}"#,
        r#"{"type":"integer","multipleOf":7}"#,
        r#"{"type":"number"}"#,
        r#"{"type":"number","minimum":0,"maximum":1}"#,
        r#"{"type":"number","exclusiveMinimum":-1.5,"maximum":1000.25}"#,
        r#"{"type":"number","multipleOf":0.01}"#,
        r#"{"minimum":5}"#,
        r#"{"oneOf":[{"type":"integer"},{"type":"number"}]}"#,
        r#"{"type":["integer","null"],"maximum":1e3}"#,
    ],
);

/// Texts, and schemas that each text is tried with.
const OBJECTS: (&[&str], &[&str]) = (
    &[
        "{\"a\": 1}",
        "{\"b\":1,\"a\":2}",
        "{\"z\": 1}",
        "{\"a\":1,\"a\":2}",
        "{\"\\u0061\":\"x\"}",
        "{}",
        "\"str\"",
    ],
    &[
        r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#,
        r#"{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}"#,
        r#"{"type":"object","properties":{"a":{"type":"integer"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}"#,
        r#"{"type":"object","additionalProperties":{"type":"integer"}}"#,
        r#"{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"string"}}"#,
        r#"{"type":"object","patternProperties":{"^[a-b]$":{"type":"integer"}},"properties":{"z":{}}}"#,
        r#"{"type":"object","propertyNames":{"pattern":"^[a-y]+$"}}"#,
        r#"{"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":1,"maxProperties":2}"#,
        r#"{"type":"object","properties":{"a\"\\b\u007fé/~":{},"a":{"const":{"a":1,"b":[1.50]}}}}"#,
        r#"{"if":{"required":["a"]},"then":{"required":["b"]}}"#,
        r##"{"type":"object","properties":{"a":{"$ref":"#"},"z":{"$ref":"#/properties/a"}}}"##,
        r#"{"const":{"a":1,"b":2}}"#,
        "true",
        "false",
        "{}",
    ],
);

/// Texts, and schemas that each text is tried with.
const ARRAYS: (&[&str], &[&str]) = (
    &["[1, 1]", "[]", "[1,2,3,4,5,6]", "[\"a\"]"],
    &[
        r#"{"type":"array","uniqueItems":true}"#,
        r#"{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":5}"#,
        r#"{"type":"array","prefixItems":[{"type":"integer"}],"items":false}"#,
        r#"{"type":"array","prefixItems":[{"type":"integer"}]}"#,
        r#"{"type":"array","items":[{"type":"integer"}]}"#,
        r#"{"type":"array","contains":{"type":"integer"}}"#,
        r#"{"type":"strnig"}"#,
        r#"{"type":"array","minItems":3}"#,
    ],
);

/// Schemas, regexes and grammars that engines are known to interpret differently.
fn traps() -> Vec<Case> {
    let schemas = [STRINGS, NUMBERS, OBJECTS, ARRAYS]
        .into_iter()
        .flat_map(|(texts, schemas)| {
            schemas
                .iter()
                .map(move |schema| case(schema, json(schema), texts))
        });
    schemas
        .chain(formats())
        .chain(regexes_and_grammars())
        .collect()
}

fn formats() -> Vec<Case> {
    let texts = |name: &str| match name {
        "date" | "date-time" | "time" => [
            "\"2023-02-30\"",
            "\"2023-02-28T23:59:60Z\"",
            "\"12:00:00+01:00\"",
        ],
        "ipv4" | "ipv6" | "hostname" => {
            ["\"256.1.1.1\"", "\"::ffff:1.2.3.4\"", "\"a-b.example.com\""]
        }
        _ => [
            "\"a@b.example\"",
            "\"https://example.com/a?b#c\"",
            "\"P1DT2H\"",
        ],
    };
    let names = [
        "email",
        "date",
        "time",
        "date-time",
        "duration",
        "ipv4",
        "ipv6",
        "hostname",
        "uuid",
        "uri",
        "uri-reference",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
    ];
    names
        .into_iter()
        .map(|name| {
            case(
                &format!("format {name}"),
                json(&format!(r#"{{"type":"string","format":"{name}"}}"#)),
                &texts(name),
            )
        })
        .collect()
}

fn regexes_and_grammars() -> Vec<Case> {
    let with_tag = r#"{"structures":[{"begin":"<f>","schema":{"type":"integer"},"end":"</f>"}],"triggers":["<f"]}"#;
    vec![
        case(
            "regex classes",
            regex(r"[^a-c\d]{2,4}(\s|\S\W)*x?"),
            &["defg x", "zz\u{a0}éx", "日本語x"],
        ),
        case("regex anchors", regex("a^b$|(c|$)d"), &["ab", "cd", "d"]),
        case(
            "regex groups",
            regex("(?:ab|(?<n>cd)){2}?[\\u0041-\\x5a\\]]*"),
            &["abcdAZ]", "ababa"],
        ),
        case("regex empty", regex(""), &["", "a"]),
        case("regex look-ahead", regex("(?=a)b"), &[]),
        case("regex back-reference", regex(r"(a)\1"), &[]),
        case("regex boundary", regex(r"\bx"), &[]),
        case("regex unclosed", regex("[a-"), &[]),
        case("choice of nothing", choice(&[]), &[]),
        case(
            "ebnf recursion",
            ebnf("root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"\""),
            &["abba", "abab"],
        ),
        case(
            "ebnf repetition",
            ebnf("root ::= ([a-z]{2,3} \",\"){1,200} [^x]*"),
            &["abc,de,f,", "日本"],
        ),
        case("ebnf undefined", ebnf("root ::= other"), &[]),
        case("ebnf unclosed", ebnf("root ::= ("), &[]),
        case(
            "lark ignore",
            lark("start: WORD+\nWORD: /[a-z]+/\n%ignore \" \""),
            &["ab cd", "abcd 1"],
        ),
        case(
            "lark flags",
            lark("start: \"ab\"i /c+/ NUM~1..3\nNUM: /[0-9]{2}/"),
            &["aBcc1234", "ABc12345678"],
        ),
        case("lark undefined", lark("start: other"), &[]),
        case(
            "lark budget",
            lark("start: head \"!\"\nhead[max_tokens=3]: /[a-z ]+/"),
            &["one two three four!", "one!"],
        ),
        case(
            "structural tag",
            tag(with_tag),
            &["It is <f>12</f>.", "<f>x", "<f></f>"],
        ),
        case("structural tag of nothing", tag("{}"), &[]),
    ]
}

/// Matchers of both engines for one constraint.
struct Pair<'a> {
    vocabulary: &'a Vocabulary,
    port: Box<dyn Matcher>,
    original: Box<dyn Matcher>,
    masks: [TokenMask; 2],
    committed: Vec<TokenId>,
}

impl Pair<'_> {
    /// Compares the masks.
    fn compare(&mut self) -> Result<(), String> {
        self.port.mask(&mut self.masks[0]).unwrap();
        self.original.mask(&mut self.masks[1]).unwrap();
        let prefix = String::from_utf8_lossy(&self.vocabulary.decode(&self.committed)).into_owned();
        let [port, original] = &self.masks;
        if port != original {
            let only = |one: &TokenMask, other: &TokenMask| -> Vec<TokenId> {
                one.iter().filter(|token| !other.allows(*token)).collect()
            };
            let shown = |tokens: &[TokenId]| -> Vec<String> {
                tokens
                    .iter()
                    .take(5)
                    .map(|token| {
                        String::from_utf8_lossy(self.vocabulary.bytes(*token)).into_owned()
                    })
                    .collect()
            };
            let (only_port, only_original) = (only(port, original), only(original, port));
            return Err(format!(
                "after {prefix:?}: {} tokens only in the port ({:?}), {} only in the original ({:?})",
                only_port.len(),
                shown(&only_port),
                only_original.len(),
                shown(&only_original)
            ));
        }
        let (port, original) = (self.port.is_accepting(), self.original.is_accepting());
        if port == original {
            Ok(())
        } else {
            Err(format!(
                "after {prefix:?}: accepting {port:?}, {original:?}"
            ))
        }
    }

    /// Commits a token to both matchers. `false` if both refuse it.
    fn commit(&mut self, token: TokenId) -> Result<bool, String> {
        let (port, original) = (self.port.commit(token), self.original.commit(token));
        if port != original {
            return Err(format!(
                "token {token} after {:?}: {port:?}, {original:?}",
                self.committed
            ));
        }
        self.committed.push(token);
        Ok(port.is_ok())
    }
}

/// Returns the first difference between two engines on a case.
fn difference(port: &dyn Engine, original: &dyn Engine, case: &Case) -> Result<(), String> {
    let (validated, validated_by_original) = (
        port.validate(&case.constraint),
        original.validate(&case.constraint),
    );
    if validated != validated_by_original {
        return Err(format!(
            "validate: {validated:?}, {validated_by_original:?}"
        ));
    }
    let (port, original) = match (
        port.compile(&case.constraint),
        original.compile(&case.constraint),
    ) {
        (Ok(port), Ok(original)) => (port, original),
        (Err(port), Err(original)) if port == original => return Ok(()),
        (port, original) => return Err(format!("compile: {:?}, {:?}", port.err(), original.err())),
    };
    let vocabulary = shared();
    let start = || Pair {
        vocabulary: &vocabulary,
        port: port.matcher().unwrap(),
        original: original.matcher().unwrap(),
        masks: [
            TokenMask::new(vocabulary.len()),
            TokenMask::new(vocabulary.len()),
        ],
        committed: Vec::new(),
    };
    for text in &case.texts {
        let mut pair = start();
        pair.compare()?;
        for token in vocabulary.encode(text) {
            if !pair.commit(token)? {
                break;
            }
            pair.compare()?;
        }
    }
    for seed in 0..RANDOM_WALKS {
        let (mut pair, mut random) = (start(), seed);
        for _ in 0..RANDOM_STEPS {
            pair.compare()?;
            // The multiplier and increment of Knuth's MMIX. The walks only have to be reproducible.
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let from = (random >> 33) as TokenId % vocabulary.len() as TokenId;
            let allowed = |start| {
                pair.masks[0]
                    .iter_from(start)
                    .find(|token| *token != vocabulary.eos())
            };
            let Some(token) = allowed(from).or_else(|| allowed(0)) else {
                break;
            };
            assert!(pair.commit(token)?, "the mask allows it");
        }
    }
    Ok(())
}

#[test]
fn the_port_has_the_masks_of_the_original() {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (strict, any_whitespace) in [(true, true), (false, true), (true, false)] {
        let policy = EnginePolicy {
            xgrammar_strict: strict,
            any_whitespace,
            ..EnginePolicy::default()
        };
        let port = Xgrammar::new(shared(), &policy).unwrap();
        let original = XgrammarCpp::new(shared(), &policy).unwrap();
        for case in workloads().into_iter().chain(traps()) {
            // The policy affects only JSON.
            let is_json = case.constraint.is_json();
            if (!strict || !any_whitespace) && !is_json {
                continue;
            }
            if let Err(found_difference) = difference(&port, &original, &case) {
                found.entry(case.name).or_insert(format!(
                    "strict {strict}, any white space {any_whitespace}: {found_difference}"
                ));
            }
        }
    }
    let new: Vec<_> = found
        .iter()
        .filter(|(name, _)| !KNOWN_DIFFERENCES.iter().any(|(known, _)| known == name))
        .collect();
    assert!(new.is_empty(), "{} new differences:\n{new:#?}", new.len());
    let gone: Vec<_> = KNOWN_DIFFERENCES
        .iter()
        .filter(|(name, _)| !found.contains_key(*name))
        .collect();
    assert!(gone.is_empty(), "no longer different: {gone:?}");
}

#[test]
fn the_original_implements_forks_rollbacks_and_the_end() {
    let vocabulary = shared();
    let engine = XgrammarCpp::new(Arc::clone(&vocabulary), &EnginePolicy::default()).unwrap();
    let grammar = engine
        .compile(&json(
            r#"{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}"#,
        ))
        .unwrap();
    assert!(grammar.memory_bytes().unwrap() > 0);
    let mut matcher = grammar.matcher().unwrap();
    let mask = |matcher: &mut dyn Matcher| {
        let mut mask = TokenMask::default();
        matcher.mask(&mut mask).unwrap();
        mask
    };
    let tokens = vocabulary.encode(r#"{"a": 12}"#);
    let before = mask(&mut *matcher);
    let mut fork = matcher.fork();
    for &token in &tokens {
        assert!(mask(&mut *fork).allows(token));
        fork.commit(token).unwrap();
    }
    assert_eq!(mask(&mut *matcher), before, "a fork is independent");
    assert_eq!(fork.is_accepting(), Ok(true));
    fork.commit(vocabulary.eos()).unwrap();
    assert_eq!(
        mask(&mut *fork).iter().collect::<Vec<_>>(),
        [vocabulary.eos()]
    );
    assert!(fork.commit(vocabulary.eos()).is_err() && fork.commit(u32::MAX).is_err());
    assert!(fork.rollback(tokens.len() + 2).is_err());
    fork.rollback(tokens.len() + 1).unwrap();
    assert_eq!(mask(&mut *fork), before);
    assert!(
        before
            .iter()
            .all(|token| (token as usize) < vocabulary.len()),
        "no bits past the vocabulary"
    );
}

#[test]
fn the_version_matches_the_lock_file() {
    let (name, version) = VERSION
        .rsplit_once("through ")
        .unwrap()
        .1
        .split_once(' ')
        .unwrap();
    let lock = include_str!("../../../../../Cargo.lock");
    assert!(
        lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")),
        "{VERSION}"
    );
}
