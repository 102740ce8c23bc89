//! The dataset `extract`: documents made from the seed, with the JSON that they state.
//!
//! Documents of four domains (invoices, support tickets, biographies, server logs) are written from
//! drawn facts, so the right answer is known. Each fact is a value of the answer, and the text has
//! it in one of several spellings. Facts that the text leaves out are `null`, or absent where the
//! schema does not require them. Three difficulties: *easy* has 3 flat members and a short text,
//! *medium* has nested members, dates and missing facts, *hard* has arrays of objects and sentences
//! about other things.

mod biographies;
mod draws;
mod invoices;
mod logs;
mod tickets;
mod words;

use std::collections::HashMap;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use self::draws::Draws;
pub(super) use self::words::{FAMILY_NAMES, GIVEN_NAMES};
use super::answer_format::with_schema;
use super::registry::{
    ConstraintScope, DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, ReferenceCheck, Spec,
};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, SHIPPED};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::scorer::{Scorer, without_score_declarations};
use sobench_pycompat::random::PythonRandom;

/// Separates the random stream of documents from other draws: the ASCII codes of `docs`, above the
/// 64 bits of the seed.
const STREAM: u128 = 0x646f_6373 << 64;

/// The difficulty of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Difficulty {
    /// Three flat members and a short text
    Easy,
    /// Nested members, dates, and facts that the text leaves out
    Medium,
    /// Arrays of objects, optional members, and sentences about other things
    Hard,
}

impl Difficulty {
    const ALL: [Self; 3] = [Self::Easy, Self::Medium, Self::Hard];

    fn name(self) -> &'static str {
        match self {
            Self::Easy => "easy",
            Self::Medium => "medium",
            Self::Hard => "hard",
        }
    }
}

/// The flags of `extract`.
#[derive(Args, Clone, Debug, Default)]
pub struct ExtractFlags {
    /// Difficulty of the documents of extract [default: all three, in equal shares]
    #[arg(long, value_name = "DIFFICULTY", value_enum)]
    pub extract_difficulty: Option<Difficulty>,
}

/// The options of `extract`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExtractPlan {
    /// `None` makes documents of all difficulties.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract_difficulty: Option<Difficulty>,
}

impl DatasetKind for ExtractPlan {
    const SPEC: Spec = Spec {
        flags: &[ExtractFlags::augment_args],
        output_len: DOCUMENT_OUTPUT_LEN,
        is_templated: false,
        measures_accuracy: true,
        references: ReferenceCheck::Generated,
        ..Spec::new("extract", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            extract_difficulty: flags.extract.extract_difficulty,
        })
    }

    /// One document for each row. Domains and difficulties have equal shares: each combination is
    /// used once before one is used again, in random order.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let mut draws = Draws(PythonRandom::from_u128(STREAM | u128::from(plan.seed)));
        let difficulties = match self.extract_difficulty {
            Some(difficulty) => vec![difficulty],
            None => Difficulty::ALL.to_vec(),
        };
        let mut combinations: Vec<(Domain, Difficulty)> = Domain::ALL
            .into_iter()
            .flat_map(|domain| {
                difficulties
                    .iter()
                    .map(move |difficulty| (domain, *difficulty))
            })
            .collect();
        let mut constraints = HashMap::new();
        let mut rows = Vec::with_capacity(plan.num_prompts);
        for index in 0..plan.num_prompts {
            let place = index % combinations.len();
            if place == 0 {
                draws.shuffle(&mut combinations);
            }
            let (domain, difficulty) = combinations[place];
            let constraint = constraints.entry((domain, difficulty)).or_insert_with(|| {
                let schema = Arc::new(domain.schema(difficulty));
                Arc::new(Constraint::JsonSchema(schema))
            });
            let document = domain.document(difficulty, &mut draws);
            rows.push(row(domain, difficulty, &document, constraint, index));
        }
        Ok(Rows::new(rows, RowsKind::Complete, SHIPPED))
    }
}

/// Texts of hard documents, without end.
pub(super) fn texts(seed: u128) -> impl Iterator<Item = String> {
    let mut draws = Draws(PythonRandom::from_u128(seed));
    let domains = Domain::ALL.into_iter().cycle();
    domains.map(move |domain| domain.document(Difficulty::Hard, &mut draws).text)
}

/// What documents are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Domain {
    Invoices,
    Tickets,
    Biographies,
    Logs,
}

impl Domain {
    const ALL: [Self; 4] = [Self::Invoices, Self::Tickets, Self::Biographies, Self::Logs];

    fn name(self) -> &'static str {
        match self {
            Self::Invoices => "invoices",
            Self::Tickets => "tickets",
            Self::Biographies => "biographies",
            Self::Logs => "logs",
        }
    }

    /// The facts to report, in words.
    fn sought(self, difficulty: Difficulty) -> &'static str {
        match self {
            Self::Invoices => invoices::sought(difficulty),
            Self::Tickets => tickets::sought(difficulty),
            Self::Biographies => biographies::sought(difficulty),
            Self::Logs => logs::sought(difficulty),
        }
    }

    fn schema(self, difficulty: Difficulty) -> Value {
        match self {
            Self::Invoices => invoices::schema(difficulty),
            Self::Tickets => tickets::schema(difficulty),
            Self::Biographies => biographies::schema(difficulty),
            Self::Logs => logs::schema(difficulty),
        }
    }

    fn document(self, difficulty: Difficulty, draws: &mut Draws) -> Document {
        match self {
            Self::Invoices => invoices::document(difficulty, draws),
            Self::Tickets => tickets::document(difficulty, draws),
            Self::Biographies => biographies::document(difficulty, draws),
            Self::Logs => logs::document(difficulty, draws),
        }
    }
}

/// A text, and the facts in it.
struct Document {
    text: String,
    reference: Value,
}

/// The schema of an object with these members and no others. All are required but the optional ones.
pub(super) fn object(members: &[(&str, Value)], optional: &[&str]) -> Value {
    let properties: Map<String, Value> = members
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    let names = members.iter().map(|(name, _)| *name);
    let required: Vec<&str> = names.filter(|name| !optional.contains(name)).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Removes an optional member that is null, because the text does not state it.
fn drop_absent(reference: &mut Value, member: &str) {
    if let Some(members) = reference.as_object_mut()
        && members.get(member).is_some_and(Value::is_null)
    {
        members.shift_remove(member);
    }
}

fn row(
    domain: Domain,
    difficulty: Difficulty,
    document: &Document,
    constraint: &Arc<Constraint>,
    index: usize,
) -> Row {
    let question = format!(
        "Read the text and report {}.{}\n\nText:\n{}",
        domain.sought(difficulty),
        match difficulty {
            Difficulty::Easy => "",
            Difficulty::Medium | Difficulty::Hard =>
                " Some of these facts may not be in the text; do not guess them.",
        },
        document.text
    );
    let schema = constraint.schema().map_or(Value::Null, |schema| {
        without_score_declarations(schema).unwrap_or_else(|| Value::clone(schema))
    });
    let rules = match difficulty {
        Difficulty::Easy => "",
        Difficulty::Medium | Difficulty::Hard => {
            " Write days as YYYY-MM-DD. Use null for a fact that the text does not state, or leave the \
             member out if it is not required."
        }
    };
    let prompt = with_schema(&question, &schema, rules);
    Row {
        constraint: Some(Arc::clone(constraint)),
        question: Some(Prompt::Text(question.into())),
        completion: Some(document.reference.to_string()),
        score: Some(Scorer::Leaf),
        tags: vec![
            format!("difficulty:{}", difficulty.name()),
            format!("domain:{}", domain.name()),
        ],
        name: format!("document {index}"),
        ..Row::unconstrained(Prompt::Text(prompt.into()))
    }
}

#[cfg(test)]
mod tests;
