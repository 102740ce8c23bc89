//! Rows to cases: templates, repetition, arms, and the hash of what is asked.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{
    Constraints, Dataset, DatasetPlan, OutputLength, PromptForm, Row, Rows, RowsKind, Shortfall,
};
use crate::tokenizer::Tokenizer;
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::{Constraint, hex};
use sobench_core::error::{Error, Result};
use sobench_notices::notice::{DatasetNotice, Notice};
use sobench_pycompat::random::PythonRandom;

/// Deals the rows into the plan's number of cases, or into fewer where no row is to be asked again.
pub(super) fn deal(plan: &DatasetPlan, rows: Rows, tokenizer: &Tokenizer) -> Result<Dataset> {
    let Rows {
        rows,
        kind,
        source,
        converted_from,
        mut notices,
    } = rows;
    let available = rows.len();
    let places = places(plan, kind, available);
    notices.extend(repetition(plan.num_prompts, kind, available));
    let is_templated =
        |row: &Row| takes_text(plan.prompt_form) && matches!(row.prompt, Prompt::Messages(_));
    if let Some(date) = tokenizer
        .template_date()
        .filter(|_| rows.iter().any(is_templated))
    {
        notices.push(DatasetNotice::TemplateDate { date }.into());
    }
    let asked = rows.into_iter().take(rows_needed(plan));
    let rows = asked
        .map(|row| prepared(row, plan, tokenizer))
        .collect::<Result<Vec<_>>>()?;
    let rows = match plan.prompt_form {
        PromptForm::Ranking { documents } => rankings(rows, documents),
        PromptForm::Text | PromptForm::Messages | PromptForm::Audio => rows,
    };
    let is_constrained = constrained(plan, places.len());
    let mut hash = AskedHash::default();
    let mut cases = Vec::with_capacity(places.len());
    for (index, (place, is_constrained)) in places.into_iter().zip(is_constrained).enumerate() {
        let case = case(&rows[place], plan, index, is_constrained);
        hash.add(&case);
        cases.push(case);
    }
    Ok(Dataset {
        cases,
        rows: available,
        sha256: hash.hex(),
        source,
        converted_from,
        notices,
    })
}

/// Which row each case is about, by its place.
///
/// Rows that go round are row `i mod rows` as case `i`. Of sampled ones, those beyond the last are
/// `random.seed(seed)` and one `random.choice(rows)` each, as `vllm bench serve` fills up
/// (`maybe_oversample_requests`).
fn places(plan: &DatasetPlan, kind: RowsKind, available: usize) -> Vec<usize> {
    let once = available.min(plan.num_prompts);
    match kind {
        RowsKind::Whole
        | RowsKind::Collected(Shortfall::Fewer)
        | RowsKind::Sampled(Shortfall::Fewer) => (0..once).collect(),
        RowsKind::Generated | RowsKind::Collected(Shortfall::AskAgain) => (0..plan.num_prompts)
            .map(|index| index % available)
            .collect(),
        RowsKind::Sampled(Shortfall::AskAgain) => {
            let mut random = PythonRandom::new(plan.seed);
            (0..once)
                .chain((once..plan.num_prompts).map(|_| random.choice(available)))
                .collect()
        }
    }
}

/// What the reader has to know where there are fewer rows than prompts.
fn repetition(prompts: usize, kind: RowsKind, rows: usize) -> Option<Notice> {
    match kind {
        _ if rows >= prompts => None,
        RowsKind::Generated | RowsKind::Whole => None,
        RowsKind::Collected(Shortfall::Fewer) | RowsKind::Sampled(Shortfall::Fewer) => {
            Some(DatasetNotice::FewerRows { rows, prompts }.into())
        }
        RowsKind::Collected(Shortfall::AskAgain) => {
            Some(DatasetNotice::RowsCycled { rows, prompts }.into())
        }
        RowsKind::Sampled(Shortfall::AskAgain) => {
            Some(DatasetNotice::RowsDrawnAgain { rows, prompts }.into())
        }
    }
}

/// Whether chat messages have to be put into a template.
fn takes_text(form: PromptForm) -> bool {
    match form {
        PromptForm::Text | PromptForm::Ranking { .. } => true,
        PromptForm::Messages | PromptForm::Audio => false,
    }
}

/// How many rows the cases can be about.
fn rows_needed(plan: &DatasetPlan) -> usize {
    match plan.prompt_form {
        PromptForm::Ranking { documents } => {
            plan.num_prompts.saturating_mul(documents).saturating_add(1)
        }
        PromptForm::Text | PromptForm::Messages | PromptForm::Audio => plan.num_prompts,
    }
}

/// Queries with documents, as many as there are rows: as vLLM's `random-rerank` has it, the first
/// text is every request's query and the others are documents, `documents` to a request, in turn. A
/// text that is alone is both.
fn rankings(rows: Vec<Row>, documents: usize) -> Vec<Row> {
    let known: Vec<Arc<str>> = rows
        .iter()
        .filter_map(|row| match &row.prompt {
            Prompt::Text(text) => Some(Arc::clone(text)),
            Prompt::Messages(_) | Prompt::Audio(_) | Prompt::Ranking { .. } => None,
        })
        .collect();
    let Some(query) = known.first().cloned() else {
        return rows;
    };
    let offered = if known.len() > 1 {
        &known[1..]
    } else {
        &known[..]
    };
    let ranked = rows.into_iter().enumerate().map(|(index, row)| {
        let documents = (0..documents)
            .map(|place| Arc::clone(&offered[(index * documents + place) % offered.len()]))
            .collect();
        Row {
            prompt: Prompt::Ranking {
                query: Arc::clone(&query),
                documents,
            },
            ..row
        }
    });
    ranked.collect()
}

/// For each case, whether its constraint is sent: `int(N * ratio)` of them, chosen as
/// `random.seed(seed); random.sample(range(N), int(N * ratio))` of CPython chooses, which is how
/// vLLM's script does it.
fn constrained(plan: &DatasetPlan, cases: usize) -> Vec<bool> {
    let count = (cases as f64 * plan.constrained_ratio) as usize;
    let mut is_constrained = vec![false; cases];
    for index in PythonRandom::new(plan.seed).sample(cases, count) {
        is_constrained[index] = true;
    }
    is_constrained
}

/// A row in the form that the endpoint takes.
fn prepared(mut row: Row, plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Row> {
    if let (Prompt::Messages(messages), true) = (&row.prompt, takes_text(plan.prompt_form)) {
        let text = tokenizer
            .apply_chat_template(messages, true)
            .map_err(|error| at(&row.name, error))?;
        row.prompt = Prompt::Text(text.into());
    }
    if plan.output == OutputLength::OfEveryRow && row.output_len.is_none() {
        return Err(
            Error::usage(format!("{}: no output_len or output_tokens", row.name)).hint(
                "with --custom-output-len -1 every row has to say how long its answer may be",
            ),
        );
    }
    if plan.constraints == Constraints::LeftOut {
        row = Row {
            constraint: None,
            grammar_oracle: None,
            completion: None,
            ..row
        };
    }
    Ok(row)
}

fn case(row: &Row, plan: &DatasetPlan, index: usize, is_constrained: bool) -> Case {
    Case {
        id: format!("{}-{index}", plan.name()),
        prompt: row.prompt.clone(),
        constraint: row.constraint.clone(),
        arm: match (&row.constraint, is_constrained) {
            (None, _) => Arm::Free,
            (Some(_), true) => Arm::Constrained,
            (Some(_), false) => Arm::Control,
        },
        output_len: match plan.output {
            OutputLength::OfThePlan => plan.output_len,
            OutputLength::OfTheRow | OutputLength::OfEveryRow => {
                row.output_len.unwrap_or(plan.output_len)
            }
        },
        completion: row.completion.clone(),
        tags: row.tags.clone(),
        grammar_oracle: row.grammar_oracle.clone(),
        model: None,
    }
}

fn at(row: &str, error: Error) -> Error {
    Error {
        what: format!("{row}: {}", error.what),
        ..error
    }
}

/// The hash of these cases ([`Dataset::sha256`]).
pub(super) fn sha256(cases: &[Case]) -> String {
    let mut hash = AskedHash::default();
    cases.iter().for_each(|case| hash.add(case));
    hash.hex()
}

/// SHA-256 over, for each case, the JSON text of its prompt, the fingerprint of its constraint (`-`
/// for none) and its output length, each followed by a line end.
#[derive(Default)]
struct AskedHash {
    hash: Sha256,
    /// By address: cases of one row share the constraint, and each keeps it alive.
    fingerprints: HashMap<usize, String>,
}

impl AskedHash {
    fn add(&mut self, case: &Case) {
        let prompt = serde_json::to_string(&case.prompt)
            .expect("a prompt holds only strings and JSON values");
        let fingerprint = match &case.constraint {
            Some(constraint) => {
                let address = Arc::as_ptr(constraint) as usize;
                self.fingerprints
                    .entry(address)
                    .or_insert_with(|| Constraint::fingerprint(constraint))
                    .as_str()
            }
            None => "-",
        };
        self.hash
            .update(format!("{prompt}\n{fingerprint}\n{}\n", case.output_len));
    }

    fn hex(self) -> String {
        hex(&self.hash.finalize())
    }
}
