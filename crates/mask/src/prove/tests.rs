//! Tests with planted bugs: all are found, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::engine_session::{EngineSession, ProofEngine, Proved};
use super::finding::{Interpretation, Origin, Proof};
use super::mask_checks::{ConstraintContext, WalkText, check_masks_along};
use super::mask_walk::WalkGuide;
use super::oracles::Oracles;
use super::prover::{ProofObserver, VocabularyTools, prove};
use super::reference::{Bug, Language, Reference};
use super::shrink::{FindingCase, ShrinkLimits, recheck, shrink};
use super::sorted_vocabulary::SortedVocabulary;
use super::syntax::Syntax;
use super::witness::WitnessStatus;
use crate::corpus::{Content, Entry, Instance};
use crate::plan::{Effort, load_vocabulary};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_engine::{Departure, EngineName, EnginePolicy, TokenId, Vocabulary};

/// Masks per entry and engine.
const BUDGET: u64 = 3000;

/// Limits large enough for any machine.
const UNTIMED: ShrinkLimits = ShrinkLimits {
    tries: 1000,
    time: Duration::MAX,
};

/// One of these two engines has the bug; neither declares a departure that could explain it.
const FAITHFUL: EngineName = EngineName::XgrammarCpp;
const PLANTED: EngineName = EngineName::Auto;

fn small_vocabulary() -> (Arc<Vocabulary>, SortedVocabulary) {
    let vocabulary = load_vocabulary(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tokenizer"),
        None,
    )
    .unwrap();
    let sorted = SortedVocabulary::new(&vocabulary);
    (vocabulary, sorted)
}

struct SilentObserver;

impl ProofObserver for SilentObserver {
    fn engine_changed(&mut self, _: Option<EngineName>) {}
    fn so_far(&mut self, _: EngineName, _: &Proved) {}
}

/// A constraint, its handwritten grammar, and matching instances.
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

fn proved(
    tools: &VocabularyTools<'_>,
    small: &Small,
    bug: Option<Bug>,
) -> Vec<(EngineName, Proved)> {
    let [faithful, planted] = proof_engines(small, bug);
    prove(
        &[&faithful, &planted],
        tools,
        &small.entry,
        Effort {
            seed: 7,
            budget: BUDGET,
        },
        &mut SilentObserver,
    )
}

fn proof_engines(small: &Small, bug: Option<Bug>) -> [ProofEngine; 2] {
    [(FAITHFUL, None), (PLANTED, bug)].map(|(name, bug)| ProofEngine {
        name,
        engine: Arc::new(Reference {
            language: Arc::clone(&small.language),
            bug,
        }),
        relaxed: Vec::new(),
        by_bytes: None,
    })
}

/// Bugs of all kinds along the instances: a dropped token of the text and another one, an added
/// token that no text continues with, one that only the constraint refuses, and a dropped or added
/// end.
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
fn planted_bugs_are_found_without_false_positives() {
    let (vocabulary, sorted) = small_vocabulary();
    let guide = WalkGuide::new(&vocabulary);
    let tools = VocabularyTools {
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
fn shrunk_findings_still_reproduce() {
    let (vocabulary, sorted) = small_vocabulary();
    let guide = WalkGuide::new(&vocabulary);
    let tools = VocabularyTools {
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
        .find(|finding| finding.interpretation == Interpretation::Error)
        .unwrap()
        .clone();
    let [faithful, planted] = proof_engines(small, Some(bug));
    let case = FindingCase {
        constraint: small.entry.constraint.clone(),
        finding,
    };
    let smaller = shrink(&planted, &tools, case.clone(), UNTIMED, &mut SilentObserver).unwrap();
    assert_eq!(recheck(&planted, &tools, &smaller), WitnessStatus::Holds);
    assert!(matches!(
        recheck(&faithful, &tools, &case),
        WitnessStatus::Gone { .. }
    ));
    let bytes = |case: &FindingCase| {
        serde_json::to_string(&case.constraint).unwrap().len()
            + case.finding.text.as_ref().map_or(0, String::len)
    };
    assert!(bytes(&smaller) < bytes(&case), "{smaller:?}");
}

/// The first token of a text that the library refuses, and its engine.
fn refused(
    vocabulary: &Arc<Vocabulary>,
    sorted: &SortedVocabulary,
    engine: EngineName,
    schema: &Value,
    text: &str,
) -> (ProofEngine, FindingCase) {
    let proof_engine = ProofEngine::open(
        engine,
        &EnginePolicy::default(),
        vocabulary,
        &Arc::new(Vocabulary::single_bytes()),
    )
    .unwrap();
    let constraint = Arc::new(Constraint::JsonSchema(Arc::new(schema.clone())));
    let session = EngineSession::new(&proof_engine, &constraint);
    let (oracles, syntax) = (
        Oracles::new(Arc::clone(&constraint)),
        Syntax::new(&constraint),
    );
    let mut context = ConstraintContext {
        vocabulary,
        sorted,
        oracles,
        syntax,
    };
    let tokens = vocabulary.encode_exactly(text).unwrap();
    let along_it = WalkText {
        bytes: text.as_bytes(),
        tokens: &tokens,
        matching: Some(text),
        origin: Origin::Other,
    };
    let explainer = session.explainer(None).unwrap();
    let walked = check_masks_along(
        &*session.grammar().unwrap(),
        &mut context,
        &explainer,
        &along_it,
        BUDGET,
    )
    .unwrap();
    let finding = walked
        .findings
        .into_iter()
        .find(|finding| finding.proof == Proof::RefusesToken)
        .unwrap();
    (
        proof_engine,
        FindingCase {
            constraint: Constraint::clone(&constraint),
            finding,
        },
    )
}

#[test]
fn refusals_are_explained_by_the_refused_part_only() {
    use Departure::{AdditionalProperties, Characters, Escapes, MemberOrder, Numbers, WhiteSpace};
    let (vocabulary, sorted) = small_vocabulary();
    let two = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a", "b"]});
    let declared = |departure| (Interpretation::Declared(vec![departure]), None);
    for (engine, text, expected) in [
        (
            EngineName::Outlines,
            "{\r\n\"b\":\"\",\"a\":1}",
            declared(WhiteSpace),
        ),
        (
            EngineName::Outlines,
            r#"{"b":"","a":1}"#,
            (Interpretation::Error, Some(MemberOrder)),
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
            (Interpretation::Error, Some(AdditionalProperties)),
        ),
        (
            EngineName::Guidance,
            "{\"a\":1,\"b\":\"x\u{7f}\"}",
            (Interpretation::Error, Some(Characters)),
        ),
        (
            EngineName::Guidance,
            r#"{"b":"","a":1}"#,
            declared(MemberOrder),
        ),
    ] {
        let (_, case) = refused(&vocabulary, &sorted, engine, &two, text);
        assert_eq!(
            (case.finding.interpretation, case.finding.cause),
            expected,
            "{engine:?}: {text}"
        );
    }
}

#[test]
fn recursion_beyond_the_declared_depth_of_outlines_is_no_error() {
    let (vocabulary, sorted) = small_vocabulary();
    let list = json!({"type": "object", "properties": {"v": {"type": "null"}, "n": {"$ref": "#"}}, "required": ["v"]});
    let nested = |depth: usize| {
        (0..depth).fold(r#"{"v":null}"#.to_owned(), |inner, _| {
            format!(r#"{{"v":null,"n":{inner}}}"#)
        })
    };
    let beyond = (Interpretation::Declared(vec![Departure::References]), None);
    for (depth, expected) in [
        (5, beyond.clone()),
        (7, beyond),
        (9, (Interpretation::Error, None)),
    ] {
        let (_, case) = refused(
            &vocabulary,
            &sorted,
            EngineName::Outlines,
            &list,
            &nested(depth),
        );
        assert_eq!(
            (case.finding.interpretation, case.finding.cause),
            expected,
            "{depth}"
        );
    }
}

#[test]
fn finding_shrunk_over_bytes_reproduces_over_the_original_tokens() {
    let (vocabulary, sorted) = small_vocabulary();
    let (guide, bytes) = (WalkGuide::new(&vocabulary), Vocabulary::single_bytes());
    let (sorted_bytes, guide_bytes) = (SortedVocabulary::new(&bytes), WalkGuide::new(&bytes));
    let by_bytes = VocabularyTools {
        vocabulary: &bytes,
        sorted: &sorted_bytes,
        guide: &guide_bytes,
        by_bytes: None,
    };
    let tools = VocabularyTools {
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
    let (proof_engine, case) = refused(&vocabulary, &sorted, EngineName::Outlines, &schema, text);
    let smaller = shrink(&proof_engine, &tools, case, UNTIMED, &mut SilentObserver).unwrap();
    let Constraint::JsonSchema(schema) = &smaller.constraint else {
        panic!("{smaller:?}")
    };
    assert_eq!(
        **schema,
        json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}})
    );
    assert_eq!(smaller.finding.text.as_deref(), Some(r#"{"b":0,"a":""}"#));
    assert_eq!(
        recheck(&proof_engine, &tools, &smaller),
        WitnessStatus::Holds
    );
}
