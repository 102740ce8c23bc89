//! Builds cases from rows: applies templates, repeats rows, assigns arms, and hashes the result.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Dataset, DatasetPlan, Row, Rows, RowsKind, Shortfall, references};
use crate::tokenizer::Tokenizer;
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::{Constraint, hex};
use sobench_core::error::{Error, Result};
use sobench_core::recorded::without_constraint;
use sobench_notices::notice::{DatasetNotice, Notice};
use sobench_plan::dataset::{Constraints, OutputLength, PromptForm};
use sobench_pycompat::random::PythonRandom;

/// Separates the random stream of the order of arms from other draws: the ASCII codes of `arms`,
/// above the 64 bits of the seed.
const ARMS_STREAM: u128 = 0x6172_6d73 << 64;

/// Builds the plan's number of cases, or fewer if rows must not be repeated. With several arms, that
/// is the number of items, and each is sent once in each arm.
pub(super) fn build(plan: &DatasetPlan, rows: Rows, tokenizer: &Tokenizer) -> Result<Dataset> {
    let Rows {
        rows,
        available,
        kind,
        source,
        converted_from,
        mut notices,
    } = rows;
    let row_indices = match kind {
        RowsKind::Sessions(_) => (0..rows.len()).collect(),
        _ => row_indices(plan, kind, available),
    };
    notices.extend(repetition(plan.num_prompts, kind, available));
    let is_templated =
        |row: &Row| takes_text(plan.prompt_form) && matches!(row.prompt, Prompt::Messages(_));
    if let Some(date) = tokenizer
        .template_date()
        .filter(|_| rows.iter().any(is_templated))
    {
        notices.push(DatasetNotice::TemplateDate { date }.into());
    }
    let mut rows = rows
        .into_iter()
        .take(match kind {
            RowsKind::Sessions(_) => usize::MAX,
            _ => plan.rows_needed(),
        })
        .map(|row| prepare_row(row, plan, tokenizer))
        .collect::<Result<Vec<_>>>()?;
    notices.extend(references::check(plan, &mut rows)?);
    let rows = match plan.prompt_form {
        PromptForm::Ranking { documents } => ranking_rows(rows, documents),
        PromptForm::Text | PromptForm::Messages | PromptForm::Audio => rows,
    };
    let recorded_s: Option<Vec<f64>> = row_indices.iter().map(|row| rows[*row].at).collect();
    let recorded_s = recorded_s.filter(|_| plan.arms.is_empty());
    let cases = if plan.arms.is_empty() {
        single_cases(plan, &rows, &row_indices)
    } else {
        cases_in_arms(plan, &rows, &row_indices)
    };
    let sha256 = sha256(&cases);
    Ok(Dataset {
        cases,
        rows: available,
        sha256,
        recorded_s: recorded_s.unwrap_or_default(),
        source,
        converted_from,
        notices,
    })
}

/// The index of the row of each case.
///
/// Collected rows repeat in order: case `i` has row `i mod rows`. Of sampled rows, the missing ones
/// are drawn by `random.seed(seed)` and one `random.choice(rows)` each, as in
/// `maybe_oversample_requests` of `vllm bench serve`.
fn row_indices(plan: &DatasetPlan, kind: RowsKind, available: usize) -> Vec<usize> {
    let once = available.min(plan.num_prompts);
    match kind {
        RowsKind::Complete
        | RowsKind::Sessions(_)
        | RowsKind::Collected(Shortfall::FewerRequests)
        | RowsKind::Sampled(Shortfall::FewerRequests) => (0..once).collect(),
        RowsKind::Generated | RowsKind::Collected(Shortfall::RepeatRows) => (0..plan.num_prompts)
            .map(|index| index % available)
            .collect(),
        RowsKind::Sampled(Shortfall::RepeatRows) => {
            let mut random = PythonRandom::new(plan.seed);
            (0..once)
                .chain((once..plan.num_prompts).map(|_| random.choice(available)))
                .collect()
        }
    }
}

/// The notice about fewer rows than prompts.
fn repetition(prompts: usize, kind: RowsKind, rows: usize) -> Option<Notice> {
    match kind {
        _ if rows >= prompts => None,
        RowsKind::Generated | RowsKind::Complete => None,
        RowsKind::Collected(Shortfall::FewerRequests)
        | RowsKind::Sessions(Shortfall::FewerRequests)
        | RowsKind::Sampled(Shortfall::FewerRequests) => {
            Some(DatasetNotice::FewerRows { rows, prompts }.into())
        }
        RowsKind::Collected(Shortfall::RepeatRows) | RowsKind::Sessions(Shortfall::RepeatRows) => {
            Some(DatasetNotice::RowsCycled { rows, prompts }.into())
        }
        RowsKind::Sampled(Shortfall::RepeatRows) => {
            Some(DatasetNotice::RowsDrawnAgain { rows, prompts }.into())
        }
    }
}

/// Whether chat messages need a template.
fn takes_text(form: PromptForm) -> bool {
    match form {
        PromptForm::Text | PromptForm::Ranking { .. } => true,
        PromptForm::Messages | PromptForm::Audio => false,
    }
}

/// Turns texts into rerank requests, as vLLM's `random-rerank` does: the first text is the query of
/// every request, and the others are distributed as documents in turn. A single text is query and
/// document.
fn ranking_rows(rows: Vec<Row>, documents: usize) -> Vec<Row> {
    let texts: Vec<Arc<str>> = rows
        .iter()
        .filter_map(|row| match &row.prompt {
            Prompt::Text(text) => Some(Arc::clone(text)),
            Prompt::Messages(_) | Prompt::Audio(_) | Prompt::Body(_) | Prompt::Ranking { .. } => {
                None
            }
        })
        .collect();
    let Some(query) = texts.first().cloned() else {
        return rows;
    };
    let candidates = if texts.len() > 1 {
        &texts[1..]
    } else {
        &texts[..]
    };
    let ranked = rows.into_iter().enumerate().map(|(index, row)| {
        let documents = (0..documents)
            .map(|document| {
                Arc::clone(&candidates[(index * documents + document) % candidates.len()])
            })
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

/// For each case, whether its constraint is sent: `int(N * ratio)` of them, chosen like vLLM's
/// script by CPython's `random.seed(seed); random.sample(range(N), int(N * ratio))`.
fn constrained_cases(plan: &DatasetPlan, cases: usize) -> Vec<bool> {
    let count = (cases as f64 * plan.constrained_ratio) as usize;
    let mut is_constrained = vec![false; cases];
    for index in PythonRandom::new(plan.seed).sample(cases, count) {
        is_constrained[index] = true;
    }
    is_constrained
}

/// One request for each row: with its constraint, or without it in the control arm.
fn single_cases(plan: &DatasetPlan, rows: &[Row], row_indices: &[usize]) -> Vec<Case> {
    let constrained = constrained_cases(plan, row_indices.len());
    let rows = row_indices.iter().map(|row_index| &rows[*row_index]);
    rows.zip(constrained)
        .enumerate()
        .map(|(index, (row, is_constrained))| {
            let arm = match (&row.constraint, is_constrained) {
                (None, _) => Arm::Free,
                (Some(_), true) => Arm::Constrained,
                (Some(_), false) => Arm::Control,
            };
            case(row, plan, index, arm, None)
        })
        .collect()
}

/// Each row in each arm of the plan. The requests of a row are neighbours.
fn cases_in_arms(plan: &DatasetPlan, rows: &[Row], row_indices: &[usize]) -> Vec<Case> {
    let orders = orders(
        &plan.arms,
        row_indices.len(),
        ARMS_STREAM | u128::from(plan.seed),
    );
    let mut cases = Vec::with_capacity(orders.len());
    for (item, (row_index, arms)) in row_indices
        .iter()
        .zip(orders.chunks(plan.arms.len()))
        .enumerate()
    {
        for arm in arms {
            let item = u32::try_from(item).ok();
            cases.push(case(&rows[*row_index], plan, cases.len(), *arm, item));
        }
    }
    cases
}

/// The arms (or cells) of all items, one item after the other. Of as many items as there are arms,
/// each arm is once the first, once the second and so on: the items of such a block have the
/// rotations of one random order, in random sequence.
pub(super) fn orders<T: Copy>(arms: &[T], items: usize, seed: u128) -> Vec<T> {
    let mut random = PythonRandom::from_u128(seed);
    let mut order = arms.to_vec();
    let mut rotations: Vec<usize> = (0..arms.len()).collect();
    let mut all = Vec::with_capacity(items * arms.len());
    for item in 0..items {
        let place = item % arms.len();
        if place == 0 {
            random.shuffle(&mut order);
            random.shuffle(&mut rotations);
        }
        let (end, start) = order.split_at(rotations[place]);
        all.extend_from_slice(start);
        all.extend_from_slice(end);
    }
    all
}

/// Refuses a row that cannot be sent in an arm of the plan.
fn check_arms(row: &Row, plan: &DatasetPlan) -> Result<()> {
    for arm in &plan.arms {
        let (name, flag) = (plan.source.name(), arm.flag());
        if !arm.shows_schema() && row.question.is_none() {
            return Err(Error::usage(format!(
                "the dataset {name} has no prompt without the schema, which the arm {flag} needs: {}",
                row.name
            ))
            .hint(
                "leave the arms free and constraint out of --arms; rows of custom have such a \
                 prompt in the member question",
            ));
        }
        if *arm != Arm::Free && row.constraint.is_none() {
            return Err(Error::usage(format!(
                "the dataset {name} has a row without a constraint, which the arm {flag} needs: {}",
                row.name
            ))
            .hint("give every row a constraint, or leave --arms out"));
        }
    }
    Ok(())
}

/// A prompt in the form that the endpoint accepts.
fn prepare_prompt(
    prompt: Prompt,
    row: &str,
    form: PromptForm,
    tokenizer: &Tokenizer,
) -> Result<Prompt> {
    match &prompt {
        Prompt::Messages(messages) if takes_text(form) => {
            let text = tokenizer
                .apply_chat_template(messages, true)
                .map_err(|error| with_row_name(row, error))?;
            Ok(Prompt::Text(text.into()))
        }
        _ => Ok(prompt),
    }
}

/// Converts a row to the form that the endpoint accepts.
fn prepare_row(mut row: Row, plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Row> {
    check_arms(&row, plan)?;
    row.prompt = prepare_prompt(row.prompt, &row.name, plan.prompt_form, tokenizer)?;
    row.question = row
        .question
        .map(|question| prepare_prompt(question, &row.name, plan.prompt_form, tokenizer))
        .transpose()?;
    if let Some(scorer) = plan.score {
        row.score = row.completion.is_some().then_some(scorer);
    }
    if plan.output == OutputLength::RowRequired && row.output_len.is_none() {
        return Err(
            Error::usage(format!("{}: no output_len or output_tokens", row.name))
                .hint("add output_len to every row, or remove --custom-output-len -1"),
        );
    }
    if plan.constraints == Constraints::Dropped {
        if let Prompt::Body(body) = &row.prompt {
            let body = without_constraint(body).expect("a recorded body is an object");
            row.prompt = Prompt::Body(body.into());
        }
        row = Row {
            constraint: None,
            grammar_oracle: None,
            completion: None,
            score: None,
            ..row
        };
    }
    Ok(row)
}

fn case(row: &Row, plan: &DatasetPlan, index: usize, arm: Arm, item: Option<u32>) -> Case {
    let question = row.question.as_ref().filter(|_| !arm.shows_schema());
    Case {
        id: format!("{}-{index}", plan.source.name()),
        // Without --arms, the arm free is of rows without a constraint, whose prompt is sent.
        prompt: question
            .filter(|_| item.is_some())
            .unwrap_or(&row.prompt)
            .clone(),
        constraint: row.constraint.clone(),
        arm,
        output_len: match plan.output {
            OutputLength::Fixed => plan.output_len,
            OutputLength::RowOrDefault | OutputLength::RowRequired => {
                row.output_len.unwrap_or(plan.output_len)
            }
        },
        completion: row.completion.clone(),
        score: row.score,
        item,
        tags: row.tags.clone(),
        grammar_oracle: row.grammar_oracle.clone(),
        model: row.model.clone(),
        cancel_after: None,
        turn: row.turn.clone(),
    }
}

fn with_row_name(row: &str, error: Error) -> Error {
    Error {
        what: format!("{row}: {}", error.what),
        ..error
    }
}

/// The hash of these cases ([`Dataset::sha256`]).
pub(super) fn sha256(cases: &[Case]) -> String {
    let mut hash = CasesHash::default();
    cases.iter().for_each(|case| hash.add(case));
    hash.hex()
}

/// SHA-256 over the JSON text of each case's prompt, the fingerprint of its constraint (`-` for
/// none) and its output length, each followed by a line end.
#[derive(Default)]
struct CasesHash {
    hash: Sha256,
    /// Keyed by address: cases of one row share the constraint, and each keeps it alive.
    fingerprints: HashMap<usize, String>,
}

impl CasesHash {
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
