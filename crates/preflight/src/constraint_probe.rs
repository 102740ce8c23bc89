//! Constraint probes: requests whose constrained answer no model gives by chance.
//!
//! Every probe has its own random words of twelve consonants each. They are in no language, differ
//! from the answers to other probes (for example from a caching proxy), and are guessed with a
//! probability of 20 to the power of -12. The prompt requests a plain sentence and never contains
//! the words, so an answer with them shows that the server read the constraint.

use std::sync::Arc;

use serde_json::{Value, json};

use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::{AlwaysTrue, Constraint, ConstraintKind, GrammarDialect};
use sobench_notices::enforcement::ProbeKind;
use sobench_pycompat::random::PythonRandom;

/// The prompt of probes. It contains "JSON", because OpenAI refuses `json_object` otherwise.
pub const PROMPT: &str =
    "Write one short sentence about the weather at sea, in plain words and not as JSON.";

/// A text to continue, for models that answer [`PROMPT`] with nothing: an instruction model often
/// ends at once if its chat template is missing.
pub const UNFINISHED_PROMPT: &str =
    "From the log of a ship, in plain words and not as JSON.\nThe weather at sea today: wind from";

/// Letters of random words. There are no vowels, to avoid words of a language, and no `y`, to avoid
/// common abbreviations.
const LETTERS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";

/// Letters per word.
const WORD_LETTERS: usize = 12;

/// A non-ASCII letter, which servers write or escape.
const NON_ASCII: char = 'ü';

/// Generator of random words, reproducible by seed.
pub struct RandomWords {
    random: PythonRandom,
}

impl RandomWords {
    /// The generator for a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: PythonRandom::new(seed),
        }
    }

    /// A random word.
    pub(super) fn word(&mut self) -> String {
        (0..WORD_LETTERS).map(|_| self.letter()).collect()
    }

    fn letter(&mut self) -> char {
        // `below` returns an index.
        char::from(LETTERS[self.random.below(LETTERS.len() as u64) as usize])
    }
}

/// A constraint to test, and the expected answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstraintProbe {
    pub kind: ProbeKind,
    /// The constraint that is sent.
    pub constraint: Arc<Constraint>,
    /// The constraint that judges the answer: the same one, if the evaluator supports it.
    pub judged_by: Arc<Constraint>,
    /// Its random words.
    pub random_words: Vec<String>,
    allowed: AllowedAnswers,
}

/// The allowed answers.
#[derive(Clone, Debug, PartialEq)]
enum AllowedAnswers {
    /// One of the random words.
    Word,
    /// One document, with any white space.
    Document(String),
    /// Any JSON object.
    AnyObject,
}

impl ConstraintProbe {
    /// A new probe for a kind; a grammar is written in `notation`.
    pub fn random(kind: ProbeKind, notation: GrammarDialect, words: &mut RandomWords) -> Self {
        let pair = [words.word(), words.word()];
        let [first, second] = &pair;
        let ProbeKind::Text(kind) = kind else {
            // Tool calls have requests of their own, and the reasoning boundary uses this schema.
            return Self::document(first, second);
        };
        let choice = || Constraint::Choice(pair.to_vec().into());
        let word = |constraint| Self::new(kind, constraint, pair.to_vec(), AllowedAnswers::Word);
        match kind {
            ConstraintKind::JsonSchema | ConstraintKind::Tools => Self::document(first, second),
            ConstraintKind::JsonObject => {
                let constraint = Constraint::JsonObject(AlwaysTrue);
                Self::new(kind, constraint, Vec::new(), AllowedAnswers::AnyObject)
            }
            ConstraintKind::Regex => word(Constraint::Regex(format!("({first}|{second})").into())),
            ConstraintKind::Choice => word(choice()),
            ConstraintKind::Grammar => {
                let rule = match notation {
                    GrammarDialect::Ebnf => "root ::=",
                    GrammarDialect::Lark => "start:",
                };
                let text = format!("{rule} \"{first}\" | \"{second}\"\n");
                word(Constraint::Grammar {
                    dialect: notation,
                    text: text.into(),
                })
            }
            ConstraintKind::StructuralTag => Self {
                judged_by: Arc::new(choice()),
                ..word(Constraint::StructuralTag(Arc::new(tag(&pair))))
            },
        }
    }

    /// A probe that is judged by its own constraint.
    fn new(
        kind: ConstraintKind,
        constraint: Constraint,
        random_words: Vec<String>,
        allowed: AllowedAnswers,
    ) -> Self {
        let constraint = Arc::new(constraint);
        Self {
            kind: ProbeKind::Text(kind),
            judged_by: Arc::clone(&constraint),
            constraint,
            random_words,
            allowed,
        }
    }

    /// A schema with one member, which has a random name and a random value.
    fn document(name: &str, value: &str) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {name: {"type": "string", "const": value}},
            "required": [name],
            "additionalProperties": false,
        });
        Self::new(
            ConstraintKind::JsonSchema,
            Constraint::JsonSchema(Arc::new(schema)),
            vec![name.to_owned(), value.to_owned()],
            AllowedAnswers::Document(json!({name: value}).to_string()),
        )
    }

    /// The request with this prompt, and at most `output_len` output tokens.
    pub fn case(&self, prompt: &str, output_len: u32) -> Case {
        case(self.kind.name(), prompt, Some(&self.constraint), output_len)
    }

    /// The number of random letters in `text`, if it is a prefix of an allowed answer; `None`
    /// otherwise, or if the constraint has no random letters.
    pub fn matched_prefix_letters(&self, text: &str) -> Option<usize> {
        match &self.allowed {
            AllowedAnswers::Word => self
                .random_words
                .iter()
                .any(|word| word.starts_with(text))
                .then_some(text.len()),
            AllowedAnswers::Document(document) => {
                let dense: String = text
                    .chars()
                    .filter(|character| !character.is_ascii_whitespace())
                    .collect();
                document
                    .starts_with(&dense)
                    .then(|| dense.bytes().filter(u8::is_ascii_lowercase).count())
            }
            AllowedAnswers::AnyObject => None,
        }
    }

    /// Whether `text` contains a random word, which can only come from the constraint.
    pub fn appears_in(&self, text: &str) -> bool {
        self.random_words.iter().any(|word| text.contains(word))
    }

    /// Whether the answer is a JSON document.
    pub fn expects_json(&self) -> bool {
        self.constraint.is_json()
    }
}

/// The request without a constraint, to compare with.
pub fn control_case(prompt: &str, output_len: u32) -> Case {
    case("control", prompt, None, output_len)
}

/// The probe for JSON formatting: its members are not in alphabetical order, and one value has a
/// non-ASCII letter. Also returns the member names in the declared order.
pub fn json_formatting_probe(words: &mut RandomWords) -> (ConstraintProbe, [String; 3]) {
    let names = ["m", "z", "b"].map(|first| format!("{first}{}", words.word()));
    let value = format!("{NON_ASCII}{}", words.word());
    let [first, second, third] = &names;
    let schema = json!({
        "type": "object",
        "properties": {
            first: {"type": "string", "enum": [words.word()]},
            second: {"type": "string", "enum": [&value]},
            third: {"type": "string", "enum": [words.word()]},
        },
        "required": [first, second, third],
        "additionalProperties": false,
    });
    let probe = ConstraintProbe::new(
        ConstraintKind::JsonSchema,
        Constraint::JsonSchema(Arc::new(schema)),
        names.to_vec(),
        AllowedAnswers::AnyObject,
    );
    (probe, names)
}

fn case(id: &str, prompt: &str, constraint: Option<&Arc<Constraint>>, output_len: u32) -> Case {
    Case::new(
        format!("preflight-{id}"),
        Prompt::Text(prompt.into()),
        constraint.cloned(),
        output_len,
    )
}

/// xgrammar's structural tag for one of two strings.
fn tag(pair: &[String; 2]) -> Value {
    let strings: Vec<Value> = pair
        .iter()
        .map(|word| json!({"type": "const_string", "value": word}))
        .collect();
    json!({"type": "structural_tag", "format": {"type": "or", "elements": strings}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_judge::{Evaluator, JudgeSettings};

    fn random(kind: ProbeKind, seed: u64) -> ConstraintProbe {
        ConstraintProbe::random(kind, GrammarDialect::Lark, &mut RandomWords::new(seed))
    }

    #[test]
    fn random_words_are_reproducible_and_distinct() {
        for kind in ProbeKind::of_text() {
            assert_eq!(random(kind, 7), random(kind, 7), "{kind}");
            assert_eq!(
                random(kind, 7) == random(kind, 8),
                kind == ProbeKind::Text(ConstraintKind::JsonObject),
                "{kind}"
            );
        }
        let mut words = RandomWords::new(1);
        let drawn: Vec<String> = (0..200).map(|_| words.word()).collect();
        let distinct: std::collections::HashSet<&String> = drawn.iter().collect();
        assert_eq!(distinct.len(), drawn.len());
        assert!(drawn.iter().all(
            |word| word.len() == WORD_LETTERS && !word.contains(['a', 'e', 'i', 'o', 'u', 'y'])
        ));
    }

    #[test]
    fn allowed_answers_are_valid_and_not_in_the_prompt() {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        for notation in [GrammarDialect::Ebnf, GrammarDialect::Lark] {
            for kind in ProbeKind::of_text() {
                let probe = ConstraintProbe::random(kind, notation, &mut RandomWords::new(3));
                assert_eq!(ProbeKind::from_constraint(&probe.constraint), kind);
                let answer = match &probe.allowed {
                    AllowedAnswers::Word => probe.random_words[1].clone(),
                    AllowedAnswers::Document(document) => document.clone(),
                    AllowedAnswers::AnyObject => "{}".to_owned(),
                };
                let constraint = evaluator.compile(&probe.judged_by);
                assert!(constraint.accepts(&answer), "{kind} {notation}");
                assert!(!constraint.accepts("The sea is calm."), "{kind}");
                assert!(!probe.appears_in(PROMPT) && !probe.appears_in(UNFINISHED_PROMPT));
            }
        }
    }

    #[test]
    fn prefixes_are_recognised() {
        let word =
            |probe: &ConstraintProbe, letters: usize| probe.random_words[0][..letters].to_owned();
        let choice = random(ProbeKind::Text(ConstraintKind::Choice), 4);
        assert_eq!(choice.matched_prefix_letters(&word(&choice, 5)), Some(5));
        assert_eq!(choice.matched_prefix_letters(""), Some(0));
        assert_eq!(choice.matched_prefix_letters("The"), None);
        let json = random(ProbeKind::JSON_SCHEMA, 4);
        assert_eq!(
            json.matched_prefix_letters(&format!("{{ \n \"{}", word(&json, 6))),
            Some(6)
        );
        assert_eq!(json.matched_prefix_letters("{ \n\n"), Some(0));
        assert_eq!(json.matched_prefix_letters("{\"name\""), None);
        assert_eq!(
            random(ProbeKind::Text(ConstraintKind::JsonObject), 4).matched_prefix_letters("{"),
            None
        );
    }

    #[test]
    fn the_formatting_probe_declares_its_members_out_of_order() {
        let (probe, names) = json_formatting_probe(&mut RandomWords::new(5));
        let Constraint::JsonSchema(schema) = &*probe.constraint else {
            panic!("it is a schema")
        };
        let declared: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(declared, names.iter().collect::<Vec<_>>());
        assert!(!declared.is_sorted() && !declared.iter().rev().is_sorted());
        assert!(!schema.to_string().is_ascii());
    }
}
