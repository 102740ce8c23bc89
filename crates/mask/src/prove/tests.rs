//! A planted bug is found, and nothing is found where there is none.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::along::{Ground, Text, along};
use super::contender::{Bench, Contender, Proved};
use super::finding::{Origin, Proof, Reading};
use super::judges::Judges;
use super::prover::{Tools, Watch, prove};
use super::reference::{Bug, Language, Reference};
use super::shrink::{Case, Limits, shrink, stands};
use super::sorted::Sorted;
use super::syntax::Syntax;
use super::walks::Guide;
use super::witness::Standing;
use crate::corpus::{Content, Entry, Instance};
use crate::plan::{Effort, load_vocabulary};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_engine::{Departure, EngineName, EnginePolicy, TokenId, Vocabulary};

/// Masks for one entry under one engine.
const BUDGET: u64 = 3000;

/// As small as it gets, on whatever machine.
const UNTIMED: Limits = Limits {
    tries: 1000,
    time: Duration::MAX,
};

/// One of these two is the engine with the bug; neither declares anything that could explain one.
const FAITHFUL: EngineName = EngineName::XgrammarCpp;
const PLANTED: EngineName = EngineName::Auto;

fn small_vocabulary() -> (Arc<Vocabulary>, Sorted) {
    let vocabulary = load_vocabulary(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tokenizer"),
        None,
    )
    .unwrap();
    let sorted = Sorted::new(&vocabulary);
    (vocabulary, sorted)
}

struct Nobody;

impl Watch for Nobody {
    fn at(&mut self, _: Option<EngineName>) {}
    fn so_far(&mut self, _: EngineName, _: &Proved) {}
}

/// A constraint, its language by hand, and instances that match it.
struct Small {
    entry: Entry,
    language: Arc<Language>,
}

fn small(
    vocabulary: &Arc<Vocabulary>,
    constraint: Constraint,
    grammar: &str,
    instances: &[&str],
) -> Small {
    let is_json = matches!(constraint, Constraint::JsonSchema(_));
    let content = |text: &&str| {
        if is_json {
            Content::Json(RawValue::from_string((*text).to_owned()).unwrap())
        } else {
            Content::Text((*text).to_owned())
        }
    };
    let instances = instances
        .iter()
        .map(|text| Instance {
            content: content(text),
            label: Some(true),
        })
        .collect();
    let entry = Entry {
        name: grammar.to_owned(),
        tags: Vec::new(),
        constraint,
        instances,
    };
    Small {
        entry,
        language: Arc::new(Language::new(grammar, vocabulary)),
    }
}

const SPACES: &str = "ws ::= [ \\t\\n\\r]*\n";

fn all(vocabulary: &Arc<Vocabulary>) -> Vec<Small> {
    let schema = |value: Value| Constraint::JsonSchema(Arc::new(value));
    let json = |rules: &str| format!("{rules}\n{SPACES}");
    let object = json(concat!(
        "root ::= ws \"{\" ws (a | a \",\" ws b | b \",\" ws a) \"}\" ws\n",
        "a ::= \"\\\"\" (\"a\" | \"\\\\u0061\") \"\\\"\" ws \":\" ws (\"true\" | \"false\") ws\n",
        "b ::= \"\\\"\" (\"b\" | \"\\\\u0062\") \"\\\"\" ws \":\" ws (zero | ten) ws\n",
        "zero ::= \"-\"? \"0\" (\".\" \"0\"+)? ([eE] [+\\-]? [0-9]+)?\n",
        "ten ::= \"10\" (\".\" \"0\"+)? ([eE] [+\\-]? \"0\"+)?",
    ));
    let any = json(concat!(
        "root ::= ws (\"\\\"\" (\"a\" | \"\\\\u0061\") \"\\\"\" | one | \"true\") ws\n",
        "one ::= \"1\" (\".\" \"0\"+)? ([eE] [+\\-]? \"0\"+)?",
    ));
    let array = json(
        "root ::= ws \"[\" ws (item (\",\" ws item)?)? \"]\" ws\nitem ::= (\"true\" | \"false\") ws",
    );
    let null = json(
        "root ::= ws \"{\" ws \"\\\"\" (\"n\" | \"\\\\u006\" [eE]) \"\\\"\" ws \":\" ws \"null\" ws \"}\" ws",
    );
    let nested = "root ::= \"(\" root \")\" | \"x\" root | \"\"";
    vec![
        small(
            vocabulary,
            schema(json!({"enum": ["a", 1, true]})),
            &any,
            &["\"a\"", "1", "true"],
        ),
        small(
            vocabulary,
            schema(
                json!({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [0, 10]}},
                          "required": ["a"], "additionalProperties": false}),
            ),
            &object,
            &[
                r#"{"a":true,"b":10}"#,
                r#"{"a":false}"#,
                r#"{"b":0,"a":true}"#,
            ],
        ),
        small(
            vocabulary,
            schema(json!({"type": "array", "items": {"type": "boolean"}, "maxItems": 2})),
            &array,
            &["[true,false]", "[]"],
        ),
        small(
            vocabulary,
            schema(
                json!({"type": "object", "properties": {"n": {"type": "null"}}, "required": ["n"], "additionalProperties": false}),
            ),
            &null,
            &[r#"{"n":null}"#],
        ),
        small(
            vocabulary,
            Constraint::Regex("[a-c]{2}(-[0-9])?".into()),
            "root ::= [a-c] [a-c] (\"-\" [0-9])?",
            &["ab-1", "cc"],
        ),
        small(
            vocabulary,
            Constraint::Choice(Arc::new([
                "yes".to_owned(),
                "no".to_owned(),
                "maybe so".to_owned(),
            ])),
            "root ::= \"yes\" | \"no\" | \"maybe so\"",
            &["yes", "maybe so"],
        ),
        small(
            vocabulary,
            Constraint::Grammar {
                dialect: GrammarDialect::Ebnf,
                text: nested.into(),
            },
            nested,
            &["(x)", "x(xx)x", ""],
        ),
    ]
}

fn proved(tools: &Tools<'_>, small: &Small, bug: Option<Bug>) -> Vec<(EngineName, Proved)> {
    let [faithful, planted] = benches(small, bug);
    prove(
        &[&faithful, &planted],
        tools,
        &small.entry,
        Effort {
            seed: 7,
            budget: BUDGET,
        },
        &mut Nobody,
    )
}

fn benches(small: &Small, bug: Option<Bug>) -> [Bench; 2] {
    [(FAITHFUL, None), (PLANTED, bug)].map(|(name, bug)| Bench {
        name,
        engine: Arc::new(Reference {
            language: Arc::clone(&small.language),
            bug,
        }),
        relaxed: Vec::new(),
        by_bytes: None,
    })
}

/// Bugs of all kinds along the instances: a token of the text dropped and another one, a token
/// added that no text goes on with and one that only the constraint refuses, the end dropped and
/// added.
fn bugs(small: &Small, vocabulary: &Vocabulary) -> Vec<Bug> {
    let mut bugs: Vec<Bug> = Vec::new();
    let mut add = |before: &[u8], token: Option<TokenId>| {
        let bug = token.map(|token| Bug {
            before: before.to_vec(),
            token,
        });
        bugs.extend(bug.filter(|bug| !bugs.contains(bug)));
    };
    for instance in &small.entry.instances {
        let text = match &instance.content {
            Content::Json(json) => json.get().to_owned(),
            Content::Text(text) => text.clone(),
        };
        let tokens = vocabulary.encode_exactly(&text).unwrap();
        for place in [0, tokens.len() / 2, tokens.len()] {
            let before = vocabulary.decode(&tokens[..place]);
            let mask = small.language.mask(&before);
            let others = (0..vocabulary.len() as TokenId)
                .filter(|token| !vocabulary.bytes(*token).is_empty() && *token != vocabulary.eos());
            let refused: Vec<TokenId> = others.filter(|token| !mask.allows(*token)).collect();
            add(&before, tokens.get(place).copied());
            add(
                &before,
                mask.iter()
                    .filter(|token| *token != vocabulary.eos())
                    .last(),
            );
            add(&before, refused.first().copied());
            add(&before, refused.get(refused.len() / 2).copied());
            add(&before, Some(vocabulary.eos()));
        }
    }
    bugs
}

#[test]
fn planted_bugs_are_found_and_nothing_else_is() {
    let (vocabulary, sorted) = small_vocabulary();
    let guide = Guide::new(&vocabulary);
    let tools = Tools {
        vocabulary: &vocabulary,
        sorted: &sorted,
        guide: &guide,
        by_bytes: None,
    };
    let (mut kinds, mut missed) = (0, Vec::new());
    for small in all(&vocabulary) {
        for (engine, proved) in proved(&tools, &small, None) {
            assert_eq!(proved.findings, [], "{} of {engine:?}", small.entry.name);
            assert!(
                proved.counts.totals().0 > 10 && proved.stopped.is_none(),
                "{} of {engine:?}: {proved:?}",
                small.entry.name
            );
        }
        for bug in bugs(&small, &vocabulary) {
            kinds += 1;
            let results = proved(&tools, &small, Some(bug.clone()));
            assert_eq!(
                results[0].1.findings,
                [],
                "{} with {bug:?}",
                small.entry.name
            );
            if results[1].1.findings.is_empty() {
                missed.push((small.entry.name.clone(), bug));
            }
        }
    }
    assert!(kinds >= 50, "{kinds}");
    assert!(
        missed.len() * 20 <= kinds,
        "{} of {kinds}: {missed:?}",
        missed.len()
    );
}

#[test]
fn findings_are_made_small_and_stand() {
    let (vocabulary, sorted) = small_vocabulary();
    let guide = Guide::new(&vocabulary);
    let tools = Tools {
        vocabulary: &vocabulary,
        sorted: &sorted,
        guide: &guide,
        by_bytes: None,
    };
    let small = &all(&vocabulary)[1];
    let tokens = vocabulary.encode_exactly(r#"{"a":true,"b":10}"#).unwrap();
    let bug = Bug {
        before: vocabulary.decode(&tokens[..2]),
        token: tokens[2],
    };
    let results = proved(&tools, small, Some(bug.clone()));
    let finding = results[1]
        .1
        .findings
        .iter()
        .find(|it| it.reading == Reading::Error)
        .unwrap()
        .clone();
    let [faithful, planted] = benches(small, Some(bug));
    let case = Case {
        constraint: small.entry.constraint.clone(),
        finding,
    };
    let smaller = shrink(&planted, &tools, case.clone(), UNTIMED, &mut Nobody).unwrap();
    assert_eq!(stands(&planted, &tools, &smaller), Standing::Holds);
    assert!(matches!(
        stands(&faithful, &tools, &case),
        Standing::Gone { .. }
    ));
    let bytes = |case: &Case| {
        serde_json::to_string(&case.constraint).unwrap().len()
            + case.finding.text.as_ref().map_or(0, String::len)
    };
    assert!(bytes(&smaller) < bytes(&case), "{smaller:?}");
}

/// The first token of a text that the library itself refuses, and the bench that it was found on.
fn refused(
    vocabulary: &Arc<Vocabulary>,
    sorted: &Sorted,
    engine: EngineName,
    schema: &Value,
    text: &str,
) -> (Bench, Case) {
    let bench = Bench::open(
        engine,
        &EnginePolicy::default(),
        vocabulary,
        &Arc::new(Vocabulary::of_bytes()),
    )
    .unwrap();
    let constraint = Arc::new(Constraint::JsonSchema(Arc::new(schema.clone())));
    let contender = Contender::new(&bench, &constraint);
    let (judges, syntax) = (
        Judges::new(Arc::clone(&constraint)),
        Syntax::of(&constraint),
    );
    let mut ground = Ground {
        vocabulary,
        sorted,
        judges,
        syntax,
    };
    let tokens = vocabulary.encode_exactly(text).unwrap();
    let along_it = Text {
        bytes: text.as_bytes(),
        tokens: &tokens,
        matching: Some(text),
        origin: Origin::Other,
    };
    let explainer = contender.explainer(None).unwrap();
    let walked = along(
        &*contender.grammar().unwrap(),
        &mut ground,
        &explainer,
        &along_it,
        BUDGET,
    )
    .unwrap();
    let finding = walked
        .findings
        .into_iter()
        .find(|it| it.proof == Proof::RefusesToken)
        .unwrap();
    (
        bench,
        Case {
            constraint: Constraint::clone(&constraint),
            finding,
        },
    )
}

#[test]
fn a_refusal_is_read_by_what_is_refused_and_not_by_what_comes_after() {
    use Departure::{AdditionalProperties, Characters, Escapes, MemberOrder, Numbers, WhiteSpace};
    let (vocabulary, sorted) = small_vocabulary();
    let two = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]});
    let declared = |departure| (Reading::Declared(vec![departure]), None);
    for (engine, text, expected) in [
        (
            EngineName::Outlines,
            "{\r\n\"b\":\"\",\"a\":1}",
            declared(WhiteSpace),
        ),
        (
            EngineName::Outlines,
            r#"{"b":"","a":1}"#,
            (Reading::Error, Some(MemberOrder)),
        ),
        (
            EngineName::Outlines,
            r#"{"a":1e0,"c":1,"b":""}"#,
            declared(Numbers),
        ),
        (
            EngineName::Outlines,
            r#"{"a":1,"b":"x\u0061","c":1}"#,
            declared(Escapes),
        ),
        (
            EngineName::Outlines,
            r#"{"a":1,"b":"x\u0000"}"#,
            declared(Characters),
        ),
        (
            EngineName::Outlines,
            r#"{"a":1,"b":"x","c":1}"#,
            (Reading::Error, Some(AdditionalProperties)),
        ),
        (
            EngineName::Guidance,
            "{\"a\":1,\"b\":\"x\u{7f}\"}",
            (Reading::Error, Some(Characters)),
        ),
        (
            EngineName::Guidance,
            r#"{"b":"","a":1}"#,
            declared(MemberOrder),
        ),
    ] {
        let (_, case) = refused(&vocabulary, &sorted, engine, &two, text);
        assert_eq!(
            (case.finding.reading, case.finding.cause),
            expected,
            "{engine:?}: {text}"
        );
    }
}

#[test]
fn what_refers_on_beyond_the_depth_that_outlines_follows_is_no_error() {
    let (vocabulary, sorted) = small_vocabulary();
    let list = json!({"type": "object", "properties": {"v": {"type": "null"}, "n": {"$ref": "#"}}, "required": ["v"]});
    let nested = |depth: usize| {
        (0..depth).fold(r#"{"v":null}"#.to_owned(), |inner, _| {
            format!(r#"{{"v":null,"n":{inner}}}"#)
        })
    };
    let beyond = (Reading::Declared(vec![Departure::References]), None);
    for (depth, expected) in [
        (5, beyond.clone()),
        (7, beyond),
        (9, (Reading::Error, None)),
    ] {
        let (_, case) = refused(
            &vocabulary,
            &sorted,
            EngineName::Outlines,
            &list,
            &nested(depth),
        );
        assert_eq!(
            (case.finding.reading, case.finding.cause),
            expected,
            "{depth}"
        );
    }
}

#[test]
fn a_finding_is_made_small_over_bytes_and_stands_over_the_tokens_it_was_found_with() {
    let (vocabulary, sorted) = small_vocabulary();
    let (guide, bytes) = (Guide::new(&vocabulary), Vocabulary::of_bytes());
    let (sorted_bytes, guide_bytes) = (Sorted::new(&bytes), Guide::new(&bytes));
    let by_bytes = Tools {
        vocabulary: &bytes,
        sorted: &sorted_bytes,
        guide: &guide_bytes,
        by_bytes: None,
    };
    let tools = Tools {
        vocabulary: &vocabulary,
        sorted: &sorted,
        guide: &guide,
        by_bytes: Some(&by_bytes),
    };
    let person = json!({"type": "object", "title": "Person", "properties": {
        "first name": {"type": "string", "description": "As in the passport"}, "age": {"type": "integer", "minimum": 0}},
        "required": ["first name", "age"]});
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
        "people": {"type": "array", "items": person}, "of": {"type": "string"}}, "required": ["people"]});
    let text =
        r#"{"people":[{"first name":"Ada","age":36},{"age":30,"first name":"Bob"}],"of":"x"}"#;
    let (bench, case) = refused(&vocabulary, &sorted, EngineName::Outlines, &schema, text);
    let smaller = shrink(&bench, &tools, case, UNTIMED, &mut Nobody).unwrap();
    let Constraint::JsonSchema(schema) = &smaller.constraint else {
        panic!("{smaller:?}")
    };
    assert_eq!(
        **schema,
        json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}})
    );
    assert_eq!(smaller.finding.text.as_deref(), Some(r#"{"b":0,"a":""}"#));
    assert_eq!(stands(&bench, &tools, &smaller), Standing::Holds);
}
