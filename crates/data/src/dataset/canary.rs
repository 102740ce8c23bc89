//! The dataset `canary`: requests whose answers show whether a server applies the mask of the right
//! request, all the way.
//!
//! Each request has a constraint of its own with a nonce ([`Nonce`]) at the start and at the end of
//! its language, and words between them. The prompt asks for prose about something else, so that an
//! answer without a mask has no nonce. Words start with other letters than a nonce, and no bracket,
//! so that an answer that starts again leaves the language at that byte.

use std::collections::HashSet;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::exact_length::check_amount;
use super::registry::{ConstraintScope, DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, SHIPPED};
use crate::tokenizer::Tokenizer;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result};
use sobench_core::nonce::Nonce;
use sobench_pycompat::random::PythonRandom;

/// Separates the random stream of canaries from other draws: the ASCII codes of `cnry`, above the 64
/// bits of the seed.
const STREAM: u128 = 0x636e_7279 << 64;

/// Words of answers. None starts with `c`, as a nonce does.
const WORDS: [&str; 16] = [
    "river", "stone", "meadow", "window", "silver", "garden", "thunder", "yellow", "forest",
    "harbor", "lantern", "marble", "orchard", "pepper", "velvet", "island",
];

/// Ends of choices.
const ENDS: [&str; 4] = ["north", "east", "south", "west"];

/// What prompts ask for.
const TOPICS: [&str; 8] = [
    "Describe in a few sentences how bread is baked.",
    "Explain in a few sentences why the sky looks blue.",
    "Write a short review of a film that you liked.",
    "Write a short story about a dog that finds its way home.",
    "Explain in a few sentences how a bicycle stays upright.",
    "Give a friend some advice for a first visit to a big city.",
    "Describe in a few sentences what a lighthouse keeper does.",
    "Write a short letter that thanks a teacher.",
];

/// Sentences that fill long prompts.
const FILLERS: [&str; 8] = [
    "The morning train was late, and the platform was almost empty.",
    "A box of old photographs stood open on the kitchen table.",
    "Rain had fallen all night, so the path through the park was muddy.",
    "The shop on the corner sells paper, ink and small brass bells.",
    "Her brother repaired clocks and kept one of each kind.",
    "In the valley the harvest had started a week before.",
    "Two boats were tied to the pier, one of them freshly painted.",
    "He read the notice twice and folded it into his pocket.",
];

/// Constraints of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum CanaryKind {
    /// An object with two nonces and an array of words
    Json,
    /// A regular expression
    Regex,
    /// Four texts
    Choice,
    /// A context-free grammar
    Grammar,
}

impl CanaryKind {
    const ALL: [Self; 4] = [Self::Json, Self::Regex, Self::Choice, Self::Grammar];
}

/// Lengths of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Short,
    Medium,
    Long,
}

impl Size {
    const ALL: [Self; 3] = [Self::Short, Self::Medium, Self::Long];

    fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
        }
    }

    /// The fewest and the most words between the nonces.
    fn words(self) -> (usize, usize) {
        match self {
            Self::Short => (1, 3),
            Self::Medium => (6, 10),
            Self::Long => (20, 28),
        }
    }
}

/// The flags of `canary`.
#[derive(Args, Clone, Debug, Default)]
pub struct CanaryFlags {
    /// Kinds of constraints of canary, in equal shares [default: all]
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_enum)]
    pub canary_kinds: Vec<CanaryKind>,
    /// Fill the prompts of canary with other text to about this many tokens
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true)]
    pub canary_prompt_len: Option<u32>,
}

/// The options of `canary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CanaryPlan {
    #[serde(skip_serializing_if = "is_all")]
    pub canary_kinds: Vec<CanaryKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_prompt_len: Option<u32>,
}

impl Default for CanaryPlan {
    fn default() -> Self {
        Self {
            canary_kinds: CanaryKind::ALL.to_vec(),
            canary_prompt_len: None,
        }
    }
}

fn is_all(kinds: &[CanaryKind]) -> bool {
    *kinds == CanaryKind::ALL
}

impl DatasetKind for CanaryPlan {
    const SPEC: Spec = Spec {
        flags: &[CanaryFlags::augment_args],
        output_len: DOCUMENT_OUTPUT_LEN,
        has_grammars: true,
        is_templated: false,
        ..Spec::new("canary", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let CanaryFlags {
            canary_kinds,
            canary_prompt_len,
        } = &flags.canary;
        if *canary_prompt_len == Some(0) {
            return Err(Error::usage("--canary-prompt-len is 0")
                .hint("give a number of tokens, or remove the flag for short prompts"));
        }
        let is_chosen = |kind: &CanaryKind| canary_kinds.is_empty() || canary_kinds.contains(kind);
        Ok(Self {
            canary_kinds: CanaryKind::ALL.into_iter().filter(is_chosen).collect(),
            canary_prompt_len: *canary_prompt_len,
        })
    }

    /// One row for each prompt. Each combination of a kind and a size is used once before one is used
    /// again, in random order.
    fn rows(&self, plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Rows> {
        check_amount(
            self.canary_prompt_len.unwrap_or_default().into(),
            plan.num_prompts,
        )?;
        let mut random = PythonRandom::from_u128(STREAM | u128::from(plan.seed));
        let kinds = self.canary_kinds.iter();
        let mut combinations: Vec<(CanaryKind, Size)> = kinds
            .flat_map(|kind| Size::ALL.map(|size| (*kind, size)))
            .collect();
        let mut nonces = HashSet::new();
        let mut rows = Vec::with_capacity(plan.num_prompts);
        for index in 0..plan.num_prompts {
            let place = index % combinations.len();
            if place == 0 {
                random.shuffle(&mut combinations);
            }
            let (kind, size) = combinations[place];
            let nonce = distinct_nonce(&mut random, &mut nonces);
            let prompt = prompt(self.canary_prompt_len, inputs.tokenizer, &mut random);
            rows.push(Row {
                tags: vec![format!("size:{}", size.name())],
                name: format!("canary {index}"),
                ..Row::new(&prompt, constraint(kind, size, nonce, plan.grammar_dialect))
            });
        }
        Ok(Rows::new(rows, RowsKind::Complete, SHIPPED))
    }
}

fn distinct_nonce(random: &mut PythonRandom, drawn: &mut HashSet<Nonce>) -> Nonce {
    loop {
        let nonce = Nonce::new(random.getrandbits(64) as u64);
        if drawn.insert(nonce) {
            return nonce;
        }
    }
}

/// A topic, after other text if the prompt has a length. The other text is different from its start
/// on, so that no cache of prefixes has it.
fn prompt(length: Option<u32>, tokenizer: &Tokenizer, random: &mut PythonRandom) -> String {
    let topic = TOPICS[random.choice(TOPICS.len())];
    let Some(length) = length else {
        return topic.to_owned();
    };
    let task = format!("\n\nLeave the text above aside. {topic}");
    let target = (length as usize).saturating_sub(tokenizer.count(&task));
    let mut filler = format!("Page {}.", random.below(1_000_000_000));
    let mut tokens = tokenizer.count(&filler);
    while tokens < target {
        let sentence = format!(" {}", FILLERS[random.choice(FILLERS.len())]);
        tokens += tokenizer.count(&sentence).max(1);
        filler.push_str(&sentence);
    }
    if tokens > target {
        let mut ids = tokenizer.encode(&filler);
        ids.truncate(target);
        filler = tokenizer.decode(&ids);
    }
    filler + &task
}

/// The constraint of a request. Its language has the nonce, some words, and the nonce.
fn constraint(kind: CanaryKind, size: Size, nonce: Nonce, dialect: GrammarDialect) -> Constraint {
    let (least, most) = size.words();
    match kind {
        CanaryKind::Json => Constraint::JsonSchema(Arc::new(json!({
            "type": "object",
            "properties": {
                "start": {"const": nonce.to_string()},
                "words": {
                    "type": "array",
                    "items": {"type": "string", "enum": WORDS},
                    "minItems": least,
                    "maxItems": most,
                },
                "end": {"type": "string", "enum": [nonce.to_string()]},
            },
            "required": ["start", "words", "end"],
            "additionalProperties": false,
        }))),
        CanaryKind::Regex => {
            Constraint::Regex(format!("{nonce}( [d-z]{{3,8}}){{{least},{most}}} {nonce}").into())
        }
        CanaryKind::Choice => {
            let texts = ENDS.iter().enumerate().map(|(place, end)| {
                let count = least + (most - least) * place / (ENDS.len() - 1);
                let words = WORDS.iter().cycle().skip(place * 4).take(count);
                let words: String = words.map(|word| format!(" {word}")).collect();
                format!("{nonce}{words} {end} {nonce}")
            });
            Constraint::Choice(texts.collect())
        }
        CanaryKind::Grammar => Constraint::Grammar {
            dialect,
            text: grammar(least, most, nonce, dialect).into(),
        },
    }
}

/// A grammar of the nonce, some words, and the nonce.
fn grammar(least: usize, most: usize, nonce: Nonce, dialect: GrammarDialect) -> String {
    let (start, defines) = match dialect {
        GrammarDialect::Lark => ("start", ":"),
        GrammarDialect::Ebnf => ("root", " ::="),
    };
    let required = " word".repeat(least);
    let optional = (least..most).fold(String::new(), |inner, _| format!(" (word{inner})?"));
    let words: Vec<String> = WORDS.iter().map(|word| format!("\" {word}\"")).collect();
    format!(
        "{start}{defines} \"{nonce}\"{required}{optional} \" {nonce}\"\nword{defines} {}\n",
        words.join(" | ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows, tokenizer};
    use crate::dataset::{DatasetName, Source, load};
    use sobench_core::case::Prompt;
    use sobench_core::verdict::Verdict;
    use sobench_judge::{Evaluator, JudgeSettings, judge_text};

    fn plan_with(options: CanaryPlan, num_prompts: usize) -> DatasetPlan {
        DatasetPlan {
            source: Source::Canary(options),
            num_prompts,
            ..plan(DatasetName::Canary)
        }
    }

    fn made(plan: &DatasetPlan) -> Vec<Row> {
        rows(plan, &tokenizer()).unwrap().rows
    }

    fn text(row: &Row) -> &str {
        let Prompt::Text(text) = &row.prompt else {
            panic!("expected a text")
        };
        text
    }

    #[test]
    fn nonces_are_distinct_and_kinds_have_equal_shares() {
        let rows = made(&plan_with(CanaryPlan::default(), 1200));
        let constraints: Vec<&Constraint> = rows
            .iter()
            .flat_map(|row| row.constraint.as_deref())
            .collect();
        let nonces: HashSet<Nonce> = constraints
            .iter()
            .filter_map(|constraint| Nonce::from_constraint(constraint))
            .collect();
        assert_eq!(nonces.len(), 1200);
        for kind in ["json", "regex", "choice", "grammar"] {
            let count = constraints
                .iter()
                .filter(|constraint| constraint.kind() == kind)
                .count();
            assert_eq!(count, 300, "{kind}");
            for size in Size::ALL {
                let tag = format!("size:{}", size.name());
                let is_cell = |(row, constraint): &(&Row, &&Constraint)| {
                    constraint.kind() == kind && row.tags.contains(&tag)
                };
                assert_eq!(rows.iter().zip(&constraints).filter(is_cell).count(), 100);
            }
        }
        assert!(rows.iter().all(|row| !text(row).contains("cn-")));
        let again = made(&plan_with(CanaryPlan::default(), 1200));
        assert_eq!(rows, again);
        let other = made(&DatasetPlan {
            seed: 1,
            ..plan_with(CanaryPlan::default(), 1)
        });
        assert_ne!(rows[0].constraint, other[0].constraint);
    }

    /// The language of each constraint starts and ends with the nonce, and has the words of its size
    /// between them, in both notations of grammars.
    #[test]
    fn languages_have_the_nonce_at_both_ends() {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        let nonce = Nonce::new(0x12ab);
        for dialect in [GrammarDialect::Lark, GrammarDialect::Ebnf] {
            for kind in CanaryKind::ALL {
                for size in Size::ALL {
                    let constraint = constraint(kind, size, nonce, dialect);
                    assert_eq!(Nonce::from_constraint(&constraint), Some(nonce));
                    let (least, most) = size.words();
                    let compiled = evaluator.compile(&constraint);
                    let judge = |text: &str| {
                        let verdict = judge_text(&compiled, text);
                        assert!(!matches!(verdict, Verdict::NotScored { .. }), "{verdict:?}");
                        verdict == Verdict::Valid
                    };
                    let answer = |count: usize| match (kind, &constraint) {
                        (CanaryKind::Json, _) => json!({
                            "start": nonce.to_string(),
                            "words": vec!["river"; count],
                            "end": nonce.to_string(),
                        })
                        .to_string(),
                        (_, Constraint::Choice(choices)) => {
                            let has_count = |text: &&String| text.split(' ').count() == count + 3;
                            choices.iter().find(has_count).cloned().unwrap_or_default()
                        }
                        _ => format!("{nonce}{} {nonce}", " river".repeat(count)),
                    };
                    for (count, is_valid) in [
                        (least, true),
                        (most, true),
                        (least - 1, false),
                        (most + 1, false),
                    ] {
                        assert_eq!(judge(&answer(count)), is_valid, "{constraint:?} {count}");
                    }
                    let whole = answer(least);
                    assert!(!judge(&whole.replacen("12ab", "12ac", 1)));
                    let (start, end) = whole.rsplit_once("12ab").unwrap();
                    assert!(!judge(&format!("{start}12ac{end}")));
                }
            }
        }
    }

    #[test]
    fn prompts_have_about_the_length_of_the_flag() {
        let options = CanaryPlan {
            canary_prompt_len: Some(300),
            ..CanaryPlan::default()
        };
        let (tokenizer, rows) = (tokenizer(), made(&plan_with(options, 40)));
        for row in &rows {
            let tokens = tokenizer.count(text(row));
            assert!(
                (270..=330).contains(&tokens),
                "{tokens} tokens: {}",
                text(row)
            );
        }
        let starts: HashSet<&str> = rows.iter().map(|row| &text(row)[..12]).collect();
        assert!(starts.len() > 35, "the prompts differ from their start on");
        let short = CanaryPlan {
            canary_prompt_len: Some(1),
            ..CanaryPlan::default()
        };
        assert!(text(&made(&plan_with(short, 1))[0]).starts_with("\n\nLeave"));
    }

    #[test]
    fn kinds_are_selected() {
        let flags = DatasetArgs {
            canary: CanaryFlags {
                canary_kinds: vec![CanaryKind::Regex, CanaryKind::Json, CanaryKind::Regex],
                canary_prompt_len: None,
            },
            ..DatasetArgs::default()
        };
        let source = Source::new(DatasetName::Canary, &flags).unwrap();
        let plan = DatasetPlan {
            source,
            ..plan(DatasetName::Canary)
        };
        let dataset = load(&plan, &tokenizer()).unwrap();
        let kinds: HashSet<&str> = dataset
            .cases
            .iter()
            .filter_map(|case| Some(case.constraint.as_ref()?.kind()))
            .collect();
        assert_eq!(kinds, HashSet::from(["json", "regex"]));
        assert_eq!(dataset.rows, 10);
        let error = CanaryPlan::new(&DatasetArgs {
            canary: CanaryFlags {
                canary_prompt_len: Some(0),
                ..CanaryFlags::default()
            },
            ..DatasetArgs::default()
        });
        assert_eq!(
            error.unwrap_err().to_string(),
            "--canary-prompt-len is 0\nhint: give a number of tokens, or remove the flag for short prompts"
        );
    }
}
