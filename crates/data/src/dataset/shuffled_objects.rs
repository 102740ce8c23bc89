//! The dataset `shuffled_objects`: who has which object after some swaps. Rows are drawn from the
//! seed.
//!
//! The task is `tracking_shuffled_objects_three_objects` of BIG-Bench Hard (Suzgun et al., 2022), a
//! quality task of JSONSchemaBench. The answer is one of the three objects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::answer_format::{in_prose, with_choices};
use super::extract::GIVEN_NAMES;
use super::registry::{
    ConstraintScope, DatasetKind, Inputs, PROSE_OUTPUT_LEN, ReferenceCheck, Spec,
};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, SHIPPED};
use sobench_core::case::Prompt;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::scorer::Scorer;
use sobench_pycompat::random::PythonRandom;

/// People, objects and swaps of a row.
const PEOPLE: usize = 3;

/// Separates the random stream of rows from other draws: the ASCII codes of `swap`, above the 64
/// bits of the seed.
const STREAM: u128 = 0x7377_6170 << 64;

const COLOURS: [&str; 8] = [
    "black", "blue", "green", "orange", "pink", "red", "white", "yellow",
];

/// The noun of the objects, and the sentence before the swaps.
const GAMES: [(&str, &str); 4] = [
    ("ball", "As the game goes on, pairs of players trade balls."),
    (
        "present",
        "As the party goes on, pairs of guests swap their presents.",
    ),
    (
        "book",
        "As the term goes on, pairs of readers trade their books.",
    ),
    (
        "hat",
        "As the play goes on, pairs of actors swap their hats.",
    ),
];

/// `shuffled_objects` has no options of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShuffledObjectsPlan {}

impl DatasetKind for ShuffledObjectsPlan {
    const SPEC: Spec = Spec {
        output_len: PROSE_OUTPUT_LEN,
        is_templated: false,
        measures_accuracy: true,
        references: ReferenceCheck::Generated,
        ..Spec::new("shuffled_objects", ConstraintScope::PerRow)
    };

    fn new(_flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {})
    }

    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let mut random = PythonRandom::from_u128(STREAM | u128::from(plan.seed));
        let rows = (0..plan.num_prompts).map(|index| row(index, &mut random));
        Ok(Rows::new(rows.collect(), RowsKind::Complete, SHIPPED))
    }
}

fn row(index: usize, random: &mut PythonRandom) -> Row {
    let people = drawn(&GIVEN_NAMES, random);
    let (noun, opening) = GAMES[random.choice(GAMES.len())];
    let objects = drawn(&COLOURS, random).map(|colour| format!("{colour} {noun}"));
    let mut held = objects.clone();
    let mut sentences = Vec::new();
    for start in ["First", "Then", "Finally"] {
        let pair = random.sample(PEOPLE, 2);
        held.swap(pair[0], pair[1]);
        sentences.push(format!(
            "{start}, {} and {} swap their {noun}s.",
            people[pair[0]], people[pair[1]]
        ));
    }
    let asked = random.choice(PEOPLE);
    let task = format!(
        "{0}, {1} and {2} each have a {noun}: {0} has the {3}, {1} has the {4}, and {2} has the {5}. \
         {opening} {6} Which {noun} does {7} have at the end?",
        people[0],
        people[1],
        people[2],
        objects[0],
        objects[1],
        objects[2],
        sentences.join(" "),
        people[asked]
    );
    let question = in_prose(&task, &format!("the {noun}"));
    let prompt = with_choices(&task, &objects);
    Row {
        constraint: Some(Arc::new(Constraint::Choice(objects.into()))),
        question: Some(Prompt::Text(question.into())),
        completion: Some(held[asked].clone()),
        score: Some(Scorer::Choice),
        name: format!("row {index}"),
        ..Row::unconstrained(Prompt::Text(prompt.into()))
    }
}

/// Three different items, in random order.
fn drawn<'a>(items: &[&'a str], random: &mut PythonRandom) -> [&'a str; PEOPLE] {
    let chosen = random.sample(items.len(), PEOPLE);
    std::array::from_fn(|place| items[chosen[place]])
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;
    use crate::dataset::DatasetName;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use sobench_judge::accuracy::{Grade, Reference};

    /// The holder of each object, followed sentence by sentence as a reader does.
    fn answer_by_reading(text: &str) -> String {
        let (start, _) = text.split_once(". ").unwrap();
        let (_, list) = start.split_once(": ").unwrap();
        let mut held: BTreeMap<String, String> = list
            .split(", ")
            .map(|clause| {
                let (person, object) = clause.split_once(" has the ").unwrap();
                (
                    person.trim_start_matches("and ").to_owned(),
                    object.to_owned(),
                )
            })
            .collect();
        for sentence in text
            .split(". ")
            .filter(|sentence| sentence.contains(" swap their "))
        {
            let Some((_, pair)) = sentence.split_once(", ") else {
                continue;
            };
            let pair = pair.split_once(" swap").unwrap().0;
            let Some((one, other)) = pair.split_once(" and ") else {
                continue;
            };
            let (first, second) = (held[one].clone(), held[other].clone());
            held.insert(one.to_owned(), second);
            held.insert(other.to_owned(), first);
        }
        let asked = text.split_once(" does ").unwrap().1;
        held[asked.split_once(" have").unwrap().0].clone()
    }

    #[test]
    fn references_follow_from_the_swaps() {
        let plan = DatasetPlan {
            num_prompts: 500,
            ..plan(DatasetName::ShuffledObjects)
        };
        let made = rows(&plan, &tokenizer()).unwrap().rows;
        let mut distinct = HashSet::new();
        for row in &made {
            let Some(Prompt::Text(question)) = &row.question else {
                panic!("expected a text")
            };
            distinct.insert(question.to_string());
            let held = row.completion.as_deref().unwrap();
            assert_eq!(answer_by_reading(question), held, "{question}");
            let constraint = row.constraint.as_deref();
            let reference = Reference::new(Scorer::Choice, &held.into(), constraint).unwrap();
            let Some(Constraint::Choice(objects)) = constraint else {
                panic!("expected choices")
            };
            let other = objects.iter().find(|object| *object != held).unwrap();
            for (answer, grade) in [
                (held.to_owned(), Grade::Right),
                (
                    format!("First the {other}. The answer is the {held}."),
                    Grade::Right,
                ),
                (other.clone(), Grade::Wrong),
                ("Nobody knows.".to_owned(), Grade::Unparsed),
            ] {
                assert_eq!(reference.grade(&answer).grade, grade, "{answer}");
            }
        }
        assert!(distinct.len() >= 499, "{}", distinct.len());
    }
}
