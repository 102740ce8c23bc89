//! Results by constraint and by tag: refusals, added TTFT, and answers that contenders
//! disagree on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Aggregate, Cell, FinishedRun};
use crate::commands::matrix::findings::{Finding, SchemaName};
use crate::commands::matrix::options::MatrixPlan;
use sobench_core::printable::printable_message;
use sobench_report::contenders::{
    Disagreement, JudgedAnswer, MAX_DISAGREEMENTS, MAX_REFUSALS, Refusal, SchemaCell, SchemaRow,
};
use sobench_report::refusals::Refused;
use sobench_results::compare::requests::RequestView;
use sobench_results::metrics::judgement::Cause;
use sobench_results::metrics::registry::latencies;
use sobench_statistics::Summary;

/// Largest number of rows by constraint, and of rows by feature, in the file.
const MAX_SCHEMAS: usize = 1_000;

/// A constraint is slow if its median TTFT is more than this times the median over the contender's
/// other constraints ...
const SLOW_FACTOR: f64 = 3.0;

/// ... and at least this much more.
const SLOW_MS: f64 = 10.0;

/// Smallest number of constraints of which one can be slow.
const MIN_CONSTRAINTS: usize = 3;

/// The distinct messages of refusals, the most frequent first.
pub(super) fn refusals(runs: &[FinishedRun]) -> Vec<Refusal> {
    let mut found: Vec<Refusal> = Vec::new();
    let requests = runs.iter().flat_map(|run| &run.samples.findings);
    for refused in requests.filter_map(|found| found.refusal.as_ref()) {
        let refusal = first_refusal(refused);
        match found
            .iter_mut()
            .find(|known| known.message == refusal.message)
        {
            Some(known) => known.requests += 1,
            None => found.push(refusal),
        }
    }
    found.sort_by_key(|refusal| std::cmp::Reverse(refusal.requests));
    found.truncate(MAX_REFUSALS);
    found
}

fn first_refusal(refused: &Refused) -> Refusal {
    Refusal {
        requests: 1,
        keyword: refused.keyword.as_deref().map(str::to_owned),
        message: printable_message(&refused.message),
    }
}

/// The requests of one constraint and contender.
#[derive(Default)]
struct Collected {
    cell: SchemaCell,
    ttft_ms: Vec<f64>,
    added_ttft_ms: Vec<f64>,
}

impl Collected {
    fn add(&mut self, request: RequestView<'_>, finding: &Finding, control_ttft_ms: Option<f64>) {
        let Some(judged) = finding.judged else {
            return;
        };
        let cell = &mut self.cell;
        cell.requests += 1;
        let message = finding.message.as_ref();
        match judged {
            Ok(()) => cell.correct += 1,
            Err(Cause::Truncated) => cell.truncated += 1,
            Err(Cause::Failed) => cell.failed += 1,
            Err(Cause::Invalid) => {
                cell.invalid += 1;
                if cell.finding.is_none() {
                    cell.finding = message.cloned();
                }
            }
            Err(Cause::Refused) => {
                cell.refused += 1;
                match (&mut cell.refusal, &finding.refusal) {
                    (Some(known), _) => known.requests += 1,
                    (None, Some(refused)) => cell.refusal = Some(first_refusal(refused)),
                    (None, None) => {}
                }
            }
        }
        if let Some(ttft_ms) = request.in_distribution(&latencies::TTFT) {
            self.ttft_ms.push(ttft_ms);
            self.added_ttft_ms
                .extend(control_ttft_ms.map(|control_ms| ttft_ms - control_ms));
        }
    }

    fn into_cell(self, contender: &str) -> SchemaCell {
        let median = |values: Vec<f64>| Summary::new(values, &[]).median;
        SchemaCell {
            contender: contender.to_owned(),
            ttft_ms: median(self.ttft_ms),
            added_ttft_ms: median(self.added_ttft_ms),
            ..self.cell
        }
    }
}

/// The rows by constraint, and the rows by feature.
#[derive(Default)]
pub(super) struct SchemaRows {
    pub(super) schemas: Vec<SchemaRow>,
    pub(super) features: Vec<SchemaRow>,
}

/// A row for each constraint of the datasets with several constraints, and for each of their tags
/// that some of the constraints have. Rows that need attention are first.
pub(super) fn schema_rows(plan: &MatrixPlan, aggregate: &Aggregate) -> SchemaRows {
    let mut rows = SchemaRows::default();
    for dataset in 0..plan.datasets.len() {
        let schemas = grouped_rows(plan, aggregate, dataset, |schema| vec![schema.clone()]);
        if schemas.len() < 2 {
            continue;
        }
        let by_tag = grouped_rows(plan, aggregate, dataset, SchemaName::features);
        let is_shared = |tag: &String| schemas.iter().all(|schema| schema.tags.contains(tag));
        rows.features
            .extend(by_tag.into_iter().filter(|row| !is_shared(&row.name)));
        rows.schemas.extend(schemas);
    }
    rows.schemas.sort_by_key(SchemaRow::attention);
    rows.schemas.truncate(MAX_SCHEMAS);
    let key = |row: &SchemaRow| (row.attention(), row.name.clone());
    rows.features.sort_by_cached_key(key);
    rows.features.truncate(MAX_SCHEMAS);
    rows
}

/// The rows of a dataset, by the groups of each constraint.
fn grouped_rows(
    plan: &MatrixPlan,
    aggregate: &Aggregate,
    dataset: usize,
    groups: impl Fn(&SchemaName) -> Vec<SchemaName>,
) -> Vec<SchemaRow> {
    let mut names: Vec<SchemaName> = Vec::new();
    let mut positions: HashMap<Arc<str>, usize> = HashMap::new();
    let mut collected: BTreeMap<usize, HashMap<usize, Collected>> = BTreeMap::new();
    for (contender, _, cell) in cells(aggregate, dataset) {
        for run in &cell.constrained {
            let control = cell.control_of(run, &latencies::TTFT);
            for (request, finding) in run.samples.found() {
                let Some(schema) = &finding.schema else {
                    continue;
                };
                for group in groups(schema) {
                    let position = *positions.entry(group.key.clone()).or_insert_with(|| {
                        names.push(group);
                        names.len() - 1
                    });
                    collected
                        .entry(contender)
                        .or_default()
                        .entry(position)
                        .or_default()
                        .add(request, finding, control.get(&finding.case).copied());
                }
            }
        }
    }
    let row = |name: &SchemaName| SchemaRow {
        dataset: plan.datasets[dataset].clone(),
        name: name.name.to_string(),
        tags: name.tags.to_vec(),
        cells: Vec::new(),
    };
    let mut rows: Vec<SchemaRow> = names.iter().map(row).collect();
    for (contender, mut by_schema) in collected {
        let name = &plan.contenders[contender].name;
        let mut cells: Vec<SchemaCell> = (0..rows.len())
            .map(|position| {
                by_schema
                    .remove(&position)
                    .unwrap_or_default()
                    .into_cell(name)
            })
            .collect();
        mark_slow(&mut cells);
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.cells.push(cell);
        }
    }
    rows
}

/// Contender, load and cell of every measured row of a dataset.
fn cells(aggregate: &Aggregate, dataset: usize) -> impl Iterator<Item = (usize, usize, &Cell)> {
    aggregate
        .cells
        .iter()
        .filter(move |((owner, ..), _)| *owner == dataset)
        .map(|((_, contender, load), cell)| (*contender, *load, cell))
}

/// Marks constraints of a contender whose TTFT is far above that of its others.
fn mark_slow(cells: &mut [SchemaCell]) {
    let mut sorted: Vec<f64> = cells.iter().filter_map(|cell| cell.ttft_ms).collect();
    if sorted.len() < MIN_CONSTRAINTS {
        return;
    }
    sorted.sort_by(f64::total_cmp);
    for cell in cells {
        let Some(ttft_ms) = cell.ttft_ms else {
            continue;
        };
        let own = sorted.partition_point(|other| *other < ttft_ms);
        let other = |rank: usize| sorted[if rank < own { rank } else { rank + 1 }];
        let others = sorted.len() - 1;
        let median = (other((others - 1) / 2) + other(others / 2)) / 2.0;
        cell.slow = ttft_ms > SLOW_FACTOR * median && ttft_ms >= median + SLOW_MS;
    }
}

/// The judged answer of a contender: its index, whether the answer is correct, and the finding.
type Judged<'a> = (usize, bool, &'a Finding);

/// Judged answers by request, load and repeat.
type AnswersByRequest<'a> = BTreeMap<(usize, usize, usize), Vec<Judged<'a>>>;

/// The first repeat of each request whose answers are valid for one contender and invalid for
/// another.
pub(super) fn disagreements(plan: &MatrixPlan, aggregate: &Aggregate) -> Vec<Disagreement> {
    let mut found = Vec::new();
    for (dataset, dataset_name) in plan.datasets.iter().enumerate() {
        let mut answers: AnswersByRequest<'_> = BTreeMap::new();
        for (contender, load, cell) in cells(aggregate, dataset) {
            for run in &cell.constrained {
                for finding in &run.samples.findings {
                    if finding.text.is_some() {
                        answers
                            .entry((finding.case, load, run.repeat))
                            .or_default()
                            .push((contender, finding.judged == Some(Ok(())), finding));
                    }
                }
            }
        }
        let mut last_case = None;
        for ((case, load, repeat), judged) in answers {
            let is_correct = |(_, is_correct, _): &Judged<'_>| *is_correct;
            if last_case == Some(case)
                || judged.iter().all(is_correct)
                || !judged.iter().any(is_correct)
            {
                continue;
            }
            last_case = Some(case);
            let first = judged[0].2;
            let answer = |(contender, is_correct, finding): &Judged<'_>| JudgedAnswer {
                contender: plan.contenders[*contender].name.clone(),
                valid: *is_correct,
                finding: finding.message.clone(),
                text: finding.text.clone().unwrap_or_default(),
            };
            found.push(Disagreement {
                dataset: dataset_name.clone(),
                schema: first
                    .schema
                    .as_ref()
                    .map_or_else(|| first.case_id.clone(), |schema| schema.name.to_string()),
                case_id: first.case_id.clone(),
                load: plan.loads[load],
                repeat: repeat + 1,
                answers: judged.iter().map(answer).collect(),
            });
        }
    }
    found.truncate(MAX_DISAGREEMENTS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_far_above_the_others_is_slow() {
        let marked = |ttfts: &[f64]| {
            let mut cells: Vec<SchemaCell> = ttfts
                .iter()
                .map(|ttft_ms| SchemaCell {
                    ttft_ms: Some(*ttft_ms),
                    ..SchemaCell::default()
                })
                .collect();
            mark_slow(&mut cells);
            cells.iter().map(|cell| cell.slow).collect::<Vec<_>>()
        };
        assert_eq!(
            marked(&[10.0, 12.0, 11.0, 40.0]),
            [false, false, false, true]
        );
        assert_eq!(
            marked(&[1.0, 1.0, 9.0]),
            [false; 3],
            "9 ms more is too little"
        );
        assert_eq!(
            marked(&[100.0, 110.0, 290.0]),
            [false; 3],
            "below three times"
        );
        assert_eq!(marked(&[1.0, 100.0]), [false; 2], "too few constraints");
    }
}
