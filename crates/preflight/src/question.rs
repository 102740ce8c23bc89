//! Questions whose constrained answer no model gives by chance. Pure: knows no server and no
//! answer's class.
//!
//! Every question draws its own words: twelve consonants each, so that no language has them, no
//! other question's answer (from a proxy that remembers, say) passes for this one's, and a guess
//! has a chance of 20 to the power of -12. The prompt asks for something else, a plain sentence,
//! and never holds the words: whoever answers with them has read the constraint.

use std::sync::Arc;

use serde_json::{Value, json};

use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::{AlwaysTrue, Constraint, GrammarDialect};
use sobench_notices::enforcement::Kind;
use sobench_pycompat::random::PythonRandom;

/// What every question asks of the model. It says JSON, because OpenAI refuses `json_object` where
/// no message does.
pub const PROMPT: &str =
    "Write one short sentence about the weather at sea, in plain words and not as JSON.";

/// Letters of which words are drawn. Without vowels, no language's words come out; without `y`, no
/// abbreviation that is common.
const LETTERS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";

/// Letters of one word.
const WORD_LETTERS: usize = 12;

/// A letter beyond ASCII, which servers either write or escape.
const NON_ASCII: char = 'ü';

/// Words without a meaning, the same for the same seed.
pub struct Words {
    random: PythonRandom,
}

impl Words {
    /// The words of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            random: PythonRandom::new(seed),
        }
    }

    fn word(&mut self) -> String {
        (0..WORD_LETTERS).map(|_| self.letter()).collect()
    }

    fn letter(&mut self) -> char {
        // The remainder is below 20, so it is an index.
        char::from(LETTERS[self.random.below(LETTERS.len() as u64) as usize])
    }
}

/// One constraint to ask about, and what its answer has to look like.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub kind: Kind,
    /// What is sent.
    pub constraint: Arc<Constraint>,
    /// What the answer is judged by: the constraint itself, where our evaluator judges such
    /// constraints.
    pub judged_by: Arc<Constraint>,
    /// The words that were drawn for it.
    pub secrets: Vec<String>,
    shape: Shape,
}

/// The texts that a constraint allows.
#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// One of the secrets.
    Words,
    /// One document, with whatever white space.
    Document(String),
    /// Any JSON object.
    AnyObject,
}

impl Question {
    /// A question about a kind; a grammar is written in `notation`.
    pub fn draw(kind: Kind, notation: GrammarDialect, words: &mut Words) -> Self {
        let pair = [words.word(), words.word()];
        let [first, second] = &pair;
        let constraint = match kind {
            Kind::Json => return Self::document(first, second),
            Kind::JsonObject => Constraint::JsonObject(AlwaysTrue),
            Kind::Regex => Constraint::Regex(format!("({first}|{second})").into()),
            Kind::Choice => Constraint::Choice(pair.to_vec().into()),
            Kind::Grammar => {
                let rule = match notation {
                    GrammarDialect::Ebnf => "root ::=",
                    GrammarDialect::Lark => "start:",
                };
                let text = format!("{rule} \"{first}\" | \"{second}\"\n");
                Constraint::Grammar {
                    dialect: notation,
                    text: text.into(),
                }
            }
            Kind::StructuralTag => Constraint::StructuralTag(Arc::new(tag(&pair))),
        };
        let constraint = Arc::new(constraint);
        let judged_by = match kind {
            Kind::StructuralTag => Arc::new(Constraint::Choice(pair.to_vec().into())),
            _ => Arc::clone(&constraint),
        };
        let (shape, secrets) = if kind == Kind::JsonObject {
            (Shape::AnyObject, Vec::new())
        } else {
            (Shape::Words, pair.to_vec())
        };
        Self {
            kind,
            constraint,
            judged_by,
            secrets,
            shape,
        }
    }

    /// A schema whose only member has a random name and a random value.
    fn document(name: &str, value: &str) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {name: {"type": "string", "const": value}},
            "required": [name],
            "additionalProperties": false,
        });
        let constraint = Arc::new(Constraint::JsonSchema(Arc::new(schema)));
        Self {
            kind: Kind::Json,
            judged_by: Arc::clone(&constraint),
            constraint,
            secrets: vec![name.to_owned(), value.to_owned()],
            shape: Shape::Document(json!({name: value}).to_string()),
        }
    }

    /// The request that asks it, with at most `output_len` tokens of answer.
    pub fn case(&self, output_len: u32) -> Case {
        case(self.kind.name(), Some(&self.constraint), output_len)
    }

    /// How many drawn letters `text` has, if it is the beginning of a text that the constraint
    /// allows; `None` where it is none, or where the constraint has no drawn letters.
    pub fn letters_of_beginning(&self, text: &str) -> Option<usize> {
        match &self.shape {
            Shape::Words => self
                .secrets
                .iter()
                .any(|word| word.starts_with(text))
                .then_some(text.len()),
            Shape::Document(document) => {
                let dense: String = text
                    .chars()
                    .filter(|it| !it.is_ascii_whitespace())
                    .collect();
                document
                    .starts_with(&dense)
                    .then(|| dense.bytes().filter(u8::is_ascii_lowercase).count())
            }
            Shape::AnyObject => None,
        }
    }

    /// Whether `text` holds a word that was drawn, which it can have from nowhere but the
    /// constraint.
    pub fn shows_in(&self, text: &str) -> bool {
        self.secrets.iter().any(|word| text.contains(word))
    }

    /// Whether its answer is a JSON document.
    pub fn wants_json(&self) -> bool {
        matches!(self.kind, Kind::Json | Kind::JsonObject)
    }
}

/// The request without a constraint, against which the others are held.
pub fn control_case(output_len: u32) -> Case {
    case("control", None, output_len)
}

/// The question that shows how a server spells JSON: members declared in neither of the alphabet's
/// directions, and a value with a letter beyond ASCII. Its member names come in the order declared.
pub fn spelling_question(words: &mut Words) -> (Question, [String; 3]) {
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
    let constraint = Arc::new(Constraint::JsonSchema(Arc::new(schema)));
    let question = Question {
        kind: Kind::Json,
        judged_by: Arc::clone(&constraint),
        constraint,
        secrets: names.to_vec(),
        shape: Shape::AnyObject,
    };
    (question, names)
}

fn case(id: &str, constraint: Option<&Arc<Constraint>>, output_len: u32) -> Case {
    Case::new(
        format!("preflight-{id}"),
        Prompt::Text(PROMPT.into()),
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
    use sobench_core::verdict::Verdict;
    use sobench_judge::{EvaluateOptions, Evaluator};

    fn draw(kind: Kind, seed: u64) -> Question {
        Question::draw(kind, GrammarDialect::Lark, &mut Words::new(seed))
    }

    #[test]
    fn the_same_seed_draws_the_same_and_nothing_twice() {
        for kind in Kind::ALL {
            assert_eq!(draw(kind, 7), draw(kind, 7), "{kind}");
            assert_eq!(
                draw(kind, 7) == draw(kind, 8),
                kind == Kind::JsonObject,
                "{kind}"
            );
        }
        let mut words = Words::new(1);
        let drawn: Vec<String> = (0..200).map(|_| words.word()).collect();
        let distinct: std::collections::HashSet<&String> = drawn.iter().collect();
        assert_eq!(distinct.len(), drawn.len());
        assert!(drawn.iter().all(
            |word| word.len() == WORD_LETTERS && !word.contains(['a', 'e', 'i', 'o', 'u', 'y'])
        ));
    }

    #[test]
    fn the_allowed_texts_are_valid_and_the_prompt_tells_none_of_them() {
        let mut evaluator = Evaluator::new(EvaluateOptions::default());
        for notation in [GrammarDialect::Ebnf, GrammarDialect::Lark] {
            for kind in Kind::ALL {
                let question = Question::draw(kind, notation, &mut Words::new(3));
                assert_eq!(Kind::of(&question.constraint), kind);
                let answer = match &question.shape {
                    Shape::Words => question.secrets[1].clone(),
                    Shape::Document(document) => document.clone(),
                    Shape::AnyObject => "{}".to_owned(),
                };
                assert_eq!(
                    evaluator.judge_text(&question.judged_by, None, &answer),
                    Verdict::Valid,
                    "{kind} {notation}"
                );
                assert_ne!(
                    evaluator.judge_text(&question.judged_by, None, "The sea is calm."),
                    Verdict::Valid,
                    "{kind}"
                );
                assert!(!question.shows_in(PROMPT));
            }
        }
    }

    #[test]
    fn beginnings_are_told_from_other_texts() {
        let word = |question: &Question, letters: usize| question.secrets[0][..letters].to_owned();
        let choice = draw(Kind::Choice, 4);
        assert_eq!(choice.letters_of_beginning(&word(&choice, 5)), Some(5));
        assert_eq!(choice.letters_of_beginning(""), Some(0));
        assert_eq!(choice.letters_of_beginning("The"), None);
        let json = draw(Kind::Json, 4);
        assert_eq!(
            json.letters_of_beginning(&format!("{{ \n \"{}", word(&json, 6))),
            Some(6)
        );
        assert_eq!(json.letters_of_beginning("{ \n\n"), Some(0));
        assert_eq!(json.letters_of_beginning("{\"name\""), None);
        assert_eq!(draw(Kind::JsonObject, 4).letters_of_beginning("{"), None);
    }

    #[test]
    fn the_question_of_spelling_declares_its_members_out_of_order() {
        let (question, names) = spelling_question(&mut Words::new(5));
        let Constraint::JsonSchema(schema) = &*question.constraint else {
            panic!("it is a schema")
        };
        let declared: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(declared, names.iter().collect::<Vec<_>>());
        assert!(!declared.is_sorted() && !declared.iter().rev().is_sorted());
        assert!(!schema.to_string().is_ascii());
    }
}
