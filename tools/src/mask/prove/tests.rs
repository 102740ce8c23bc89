//! Tests with planted bugs: all are found, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::engine_session::{EngineSession, ProofEngine, Proved};
use super::finding::{Contradiction, Finding, Interpretation, Origin, Proof};
use super::mask_checks::{ConstraintContext, WalkText, check_masks_along};
use super::mask_walk::WalkGuide;
use super::oracles::Oracles;
use super::prover::{ProofObserver, VocabularyTools, prove};
use super::reference_tests::{Bug, Language, Reference, RollbackBug};
use super::shrink::{FindingCase, ShrinkLimits, recheck, shrink};
use super::sorted_vocabulary::SortedVocabulary;
use super::syntax::Syntax;
use super::witness::WitnessStatus;
use crate::mask::corpus::{Content, Entry, Instance};
use crate::mask::plan::{Effort, load_vocabulary};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_engine::{
    Departure, Engine, EngineError, EngineName, EnginePolicy, Grammar, TokenId, Vocabulary,
};

/// Masks per entry and engine.
const BUDGET: u64 = 1500;

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
        concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/tokenizer"),
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
    let tag = |format: Value| Constraint::StructuralTag(Arc::new(json!({ "format": format })));
    let call = json(concat!(
        "root ::= \"x<a>\" ws (one | \"true\") ws \"</a>\"\n",
        "one ::= \"1\" (\".\" \"0\"+)? ([eE] [+\\-]? \"0\"+)?",
    ));
    let calls =
        "root ::= call (\",\" call)*\ncall ::= \"<a\" [ab]+ \">\" | \"<yes\" (\">\" | \"!\")";
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
        small(
            vocabulary,
            tag(json!({"type": "sequence", "elements": [
                {"type": "const_string", "value": "x"},
                {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": {"enum": [1, true]}}, "end": "</a>"}]})),
            &call,
            &["x<a>1</a>", "x<a>true</a>"],
        ),
        small(
            vocabulary,
            tag(
                json!({"type": "tags_with_separator", "separator": ",", "at_least_one": true, "tags": [
                {"begin": "<a", "content": {"type": "regex", "pattern": "[ab]+"}, "end": ">"},
                {"begin": "<", "content": {"type": "const_string", "value": "yes"}, "end": [">", "!"]}]}),
            ),
            calls,
            &["<aab>,<yes!", "<yes>"],
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
            rollback_tokens: Effort::ROLLBACK_TOKENS,
        },
        &mut SilentObserver,
    )
}

fn proof_engines(small: &Small, bug: Option<Bug>) -> [ProofEngine; 2] {
    [(FAITHFUL, None), (PLANTED, bug)].map(|(name, bug)| reference_engine(name, small, bug, None))
}

fn reference_engine(
    name: EngineName,
    small: &Small,
    bug: Option<Bug>,
    rollback_bug: Option<RollbackBug>,
) -> ProofEngine {
    ProofEngine {
        name,
        engine: Arc::new(Reference {
            language: Arc::clone(&small.language),
            bug,
            rollback_bug,
        }),
        relaxed: Vec::new(),
        by_bytes: None,
    }
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
fn wrong_rollbacks_are_p8_and_nothing_else() {
    let (vocabulary, sorted) = small_vocabulary();
    let guide = WalkGuide::new(&vocabulary);
    let tools = VocabularyTools {
        vocabulary: &vocabulary,
        sorted: &sorted,
        guide: &guide,
        by_bytes: None,
    };
    let effort = |rollback_tokens| Effort {
        seed: 7,
        budget: BUDGET,
        rollback_tokens,
    };
    // The text may end after its first token.
    let small = small(
        &vocabulary,
        Constraint::Regex("[a-c]+(-[0-9])?".into()),
        "root ::= [a-c]+ (\"-\" [0-9])?",
        &["ab-1"],
    );
    let faithful = reference_engine(FAITHFUL, &small, None, None);
    for (bug, longest, expected) in [
        (RollbackBug::Short(1), 8, Some(Contradiction::Rollback)),
        (RollbackBug::Short(3), 8, Some(Contradiction::Rollback)),
        (RollbackBug::Short(3), 2, None),
        (RollbackBug::LostEnd(2), 8, Some(Contradiction::RollbackEnd)),
        (
            RollbackBug::Refuses(1),
            8,
            Some(Contradiction::RollbackToken),
        ),
        (RollbackBug::Limit(1), 8, None),
    ] {
        let planted = reference_engine(PLANTED, &small, None, Some(bug));
        let results = prove(
            &[&faithful, &planted],
            &tools,
            &small.entry,
            effort(longest),
            &mut SilentObserver,
        );
        assert_eq!(results[0].1.findings, [], "{bug:?}");
        assert!(results[0].1.counts.for_proof(Proof::Rollback).decided > 5);
        let proved = &results[1].1;
        let kinds: Vec<_> = proved
            .findings
            .iter()
            .map(|finding| (finding.proof, finding.contradiction))
            .collect();
        let Some(expected) = expected else {
            assert_eq!(kinds, [], "{bug:?} with {longest}");
            continue;
        };
        assert!(!kinds.is_empty(), "{bug:?}");
        assert!(
            kinds
                .iter()
                .all(|kind| *kind == (Proof::Rollback, Some(expected))),
            "{bug:?}: {kinds:?}"
        );
        let case = FindingCase {
            constraint: small.entry.constraint.clone(),
            finding: proved.findings[0].clone(),
        };
        assert_eq!(recheck(&planted, &tools, &case), WitnessStatus::Holds);
        assert!(matches!(
            recheck(&faithful, &tools, &case),
            WitnessStatus::Gone { .. }
        ));
        let smaller = shrink(&planted, &tools, case, UNTIMED, &mut SilentObserver).unwrap();
        assert_eq!(recheck(&planted, &tools, &smaller), WitnessStatus::Holds);
        assert_eq!(smaller.finding.proof, Proof::Rollback);
    }
}

#[test]
fn rollback_witnesses_of_older_versions_are_read() {
    let (vocabulary, sorted) = small_vocabulary();
    let guide = WalkGuide::new(&vocabulary);
    let tools = VocabularyTools {
        vocabulary: &vocabulary,
        sorted: &sorted,
        guide: &guide,
        by_bytes: None,
    };
    let small = &all(&vocabulary)[4];
    let token = vocabulary.encode_exactly("a").unwrap()[0];
    let finding = Finding {
        contradiction: Some(Contradiction::Rollback),
        ..Finding::new(Proof::Contradicts, &[], Some(token), Origin::Instance(0))
    };
    let case = FindingCase {
        constraint: small.entry.constraint.clone(),
        finding,
    };
    let planted = reference_engine(PLANTED, small, None, Some(RollbackBug::Short(1)));
    assert_eq!(recheck(&planted, &tools, &case), WitnessStatus::Holds);
    let faithful = reference_engine(FAITHFUL, small, None, None);
    assert!(matches!(
        recheck(&faithful, &tools, &case),
        WitnessStatus::Gone { .. }
    ));
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
    constraint: &Constraint,
    text: &str,
) -> (ProofEngine, FindingCase) {
    let proof_engine = ProofEngine::open(
        engine,
        &EnginePolicy::default(),
        vocabulary,
        &Arc::new(Vocabulary::single_bytes()),
    )
    .unwrap();
    let constraint = Arc::new(constraint.clone());
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
        let schema = Constraint::JsonSchema(Arc::new(two.clone()));
        let (_, case) = refused(&vocabulary, &sorted, engine, &schema, text);
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
            &Constraint::JsonSchema(Arc::new(list.clone())),
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
    let constraint = Constraint::JsonSchema(Arc::new(schema));
    let (proof_engine, case) = refused(
        &vocabulary,
        &sorted,
        EngineName::Outlines,
        &constraint,
        text,
    );
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

/// A tag with two tools.
fn two_tools() -> Value {
    json!({"format": {"type": "triggered_tags", "triggers": ["<f="], "tags": [
        {"begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}}, "end": "</f>"},
        {"begin": "<f=b>", "content": {"type": "json_schema", "json_schema": {"type": "boolean"}}, "end": "</f>"}]}})
}

/// xgrammar with another tag than it is given.
struct WithOtherTag {
    engine: Arc<dyn Engine>,
    tag: Constraint,
}

impl Engine for WithOtherTag {
    fn name(&self) -> &'static str {
        "broken"
    }
    fn version(&self) -> &'static str {
        "broken 1"
    }
    fn settings(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
    fn compile(&self, _: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        self.engine.compile(&self.tag)
    }
    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[]
    }
}

#[test]
fn faults_of_tags_are_found_and_their_witnesses_shrink() {
    let (vocabulary, sorted) = small_vocabulary();
    let guide = WalkGuide::new(&vocabulary);
    let tools = VocabularyTools {
        vocabulary: &vocabulary,
        sorted: &sorted,
        guide: &guide,
        by_bytes: None,
    };
    let texts = [
        r#"see <f=a>{"a":1,"b":"x"}</f> and <f=b>true</f>."#,
        r#"<f=a>{}</f>"#,
        "<f=b>1</f>",
    ];
    let entry = Entry {
        name: "two tools".to_owned(),
        tags: Vec::new(),
        constraint: Constraint::StructuralTag(Arc::new(two_tools())),
        instances: texts
            .map(|text| Instance {
                content: Content::Text(text.to_owned()),
                label: None,
            })
            .into(),
    };
    let effort = Effort {
        seed: 7,
        budget: BUDGET,
        rollback_tokens: Effort::ROLLBACK_TOKENS,
    };
    let changed = |path: &str, value: Value| {
        let mut tag = two_tools();
        *tag.pointer_mut(path).unwrap() = value;
        tag
    };
    let tags = "/format/tags";
    for (tag, expected) in [
        (two_tools(), None),
        (
            changed("/format/tags/0/content/json_schema/required", json!([])),
            Some((Proof::AllowsEnd, Some("required"))),
        ),
        (
            changed(tags, json!([two_tools().pointer("/format/tags/0")])),
            Some((Proof::RefusesToken, None)),
        ),
        (
            changed("/format/tags/1/begin", json!("<f=c>")),
            Some((Proof::AllowsToken, None)),
        ),
        (
            changed("/format/tags/0/end", json!(["</f>", "</g>"])),
            Some((Proof::AllowsToken, None)),
        ),
    ] {
        let opened = ProofEngine::open(
            EngineName::Xgrammar,
            &EnginePolicy::default(),
            &vocabulary,
            &Arc::new(Vocabulary::single_bytes()),
        )
        .unwrap();
        let broken = ProofEngine {
            engine: Arc::new(WithOtherTag {
                engine: Arc::clone(&opened.engine),
                tag: Constraint::StructuralTag(Arc::new(tag.clone())),
            }),
            by_bytes: None,
            ..opened
        };
        let results = prove(&[&broken], &tools, &entry, effort, &mut SilentObserver);
        let proved = &results[0].1;
        assert!(proved.stopped.is_none(), "{proved:?}");
        // In free text before a trigger, xgrammar allows bytes that are no UTF-8, and the end after
        // them.
        let errors: Vec<_> = proved
            .findings
            .iter()
            .filter(|finding| finding.interpretation == Interpretation::Error)
            .filter(|finding| finding.breaks.as_deref() != Some("not_text"))
            .collect();
        let Some((proof, breaks)) = expected else {
            assert!(errors.is_empty(), "{errors:?}");
            assert!(
                proved.counts.totals().0 > 1000 && proved.texts > 20,
                "{proved:?}"
            );
            continue;
        };
        let found = errors
            .iter()
            .find(|finding| finding.proof == proof && finding.breaks.as_deref() == breaks);
        let case = FindingCase {
            constraint: entry.constraint.clone(),
            finding: Finding::clone(found.unwrap_or_else(|| panic!("{tag}: {errors:?}"))),
        };
        assert_eq!(recheck(&broken, &tools, &case), WitnessStatus::Holds);
        let gone = recheck(
            &ProofEngine::open(
                EngineName::Xgrammar,
                &EnginePolicy::default(),
                &vocabulary,
                &Arc::new(Vocabulary::single_bytes()),
            )
            .unwrap(),
            &tools,
            &case,
        );
        assert!(matches!(gone, WitnessStatus::Gone { .. }), "{gone:?}");
        let smaller = shrink(&broken, &tools, case.clone(), UNTIMED, &mut SilentObserver).unwrap();
        assert_eq!(recheck(&broken, &tools, &smaller), WitnessStatus::Holds);
        let bytes = |case: &FindingCase| serde_json::to_string(&case.constraint).unwrap().len();
        assert!(bytes(&smaller) < bytes(&case), "{smaller:?}");
    }
}

#[test]
fn differences_about_the_json_in_tags_are_declared() {
    use Departure::{AdditionalProperties, MemberOrder, Numbers, OuterWhiteSpace};
    let (vocabulary, sorted) = small_vocabulary();
    let tag = Constraint::StructuralTag(Arc::new(two_tools()));
    for (text, expected) in [
        (r#"<f=a> {"a":1}</f>"#, OuterWhiteSpace),
        (r#"<f=b>true </f>"#, OuterWhiteSpace),
        (r#"<f=b>true</f><f=a>{"b":"","a":1}</f>"#, MemberOrder),
        (r#"<f=a>{"a":1.0}</f>"#, Numbers),
        (r#"<f=a>{"a":1,"c":2}</f>"#, AdditionalProperties),
    ] {
        let (_, case) = refused(&vocabulary, &sorted, EngineName::Xgrammar, &tag, text);
        let declared = Interpretation::Declared(vec![expected]);
        assert_eq!(
            (case.finding.interpretation, case.finding.cause),
            (declared, None),
            "{text}"
        );
    }
}

#[test]
fn any_order_explains_a_missing_required_member_and_nothing_else() {
    let (vocabulary, sorted) = small_vocabulary();
    let mut any_order = two_tools();
    any_order["format"]["tags"][0]["content"]["any_order"] = true.into();
    for (tag, text, expected) in [
        (
            &any_order,
            r#"<f=a>{"b":"x"}</f>"#,
            Interpretation::Declared(vec![Departure::AnyOrder]),
        ),
        // xgrammar ignores `uniqueItems`, with and without `any_order`.
        (
            &{
                let mut tag = any_order.clone();
                tag["format"]["tags"][0]["content"]["json_schema"]["properties"]["a"] =
                    json!({"type": "array", "items": {"type": "integer"}, "uniqueItems": true});
                tag
            },
            r#"<f=a>{"a":[1,1]}</f>"#,
            Interpretation::Error,
        ),
    ] {
        let proof_engine = ProofEngine::open(
            EngineName::Xgrammar,
            &EnginePolicy::default(),
            &vocabulary,
            &Arc::new(Vocabulary::single_bytes()),
        )
        .unwrap();
        let constraint = Arc::new(Constraint::StructuralTag(Arc::new(tag.clone())));
        let session = EngineSession::new(&proof_engine, &constraint);
        let mut context = ConstraintContext::new(&vocabulary, &sorted, &constraint);
        let tokens = vocabulary.encode_exactly(text).unwrap();
        let walked = check_masks_along(
            &*session.grammar().unwrap(),
            &mut context,
            &session.explainer(None).unwrap(),
            &WalkText {
                bytes: text.as_bytes(),
                tokens: &tokens,
                matching: None,
                origin: Origin::Other,
            },
            BUDGET,
        )
        .unwrap();
        let finding = walked
            .findings
            .iter()
            .find(|finding| finding.proof == Proof::AllowsEnd)
            .unwrap_or_else(|| panic!("{text}: {walked:?}"));
        assert_eq!(finding.interpretation, expected, "{text}");
    }
}
