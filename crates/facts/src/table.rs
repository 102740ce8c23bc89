//! The requests of a run.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::chunks::{ChunkSource, ChunkTimes, Slacks};
use crate::columns::{Column, Dense, Sparse};
use crate::compact_ids::Ids;
use crate::hashes::{constraint_hash, content_hash, copy_hash};
use crate::judged::{Judged, JudgedColumns};
use crate::observed::{Observed, ObservedColumns};
use crate::parity::Parity;
use sobench_core::case::{BodyKey, Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::observation::Observation;
use sobench_core::scorer::Scorer;

/// The input of a request, shared by many requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestInput {
    pub prompt: Prompt,
    pub constraint: Option<Arc<Constraint>>,
    pub output_len: u32,
    pub completion: Option<String>,
    pub score: Option<Scorer>,
    pub tags: Vec<String>,
    pub grammar_oracle: Option<Arc<str>>,
    pub model: Option<Arc<str>>,
}

/// All requests of a run.
#[derive(Clone, Debug, Default)]
pub struct RequestTable {
    rows: u32,
    /// The rows in plan order; those after its end were not sorted.
    order: Vec<u32>,
    pub(crate) observed: ObservedColumns,
    pub(crate) judged: JudgedColumns,
    pub(crate) id: Ids,
    pub(crate) inputs: Inputs,
    /// Numbers of `inputs`.
    pub(crate) input: Dense<usize, u32>,
    /// Equal for equal requests with equal results.
    pub(crate) copy: Dense<u64>,
    pub(crate) chunk_times: ChunkTimes,
    pub(crate) slacks: Slacks,
    /// Answers and reasoning that are in memory.
    pub(crate) texts: Sparse<(String, String)>,
    /// Requests of the control arm by their hash: whether an answer has reasoning.
    pub(crate) controls: OnceLock<HashMap<u64, bool>>,
}

impl RequestTable {
    /// An empty table with room for `requests`. Chunks beyond a memory limit are read from
    /// `chunk_source`; without it, all are kept in memory.
    pub fn new(requests: usize, chunk_source: Option<Arc<dyn ChunkSource>>) -> Self {
        let mut table = Self {
            chunk_times: ChunkTimes::new(chunk_source),
            ..Self::default()
        };
        table.order.reserve_exact(requests);
        table.observed.reserve(requests);
        table.judged.reserve(requests);
        table.id.reserve(requests);
        table.input.reserve(requests);
        table.copy.reserve(requests);
        table.chunk_times.reserve(requests);
        table
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.rows as usize
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds a request, with its texts if they are not empty. `offset` is the offset of its line.
    /// Returns false if its number does not fit into 32 bits.
    pub fn push(&mut self, case: &Case, observation: &Observation, offset: u64) -> bool {
        let row = self.rows;
        let is_added = self.push_without_text(case, observation, offset);
        let answer = &observation.answer;
        let text = answer.text();
        if is_added && !(text.is_empty() && answer.reasoning.is_empty()) {
            let texts = (text.into_owned(), answer.reasoning.clone());
            self.texts.set(row, Some(texts));
        }
        is_added
    }

    /// As [`RequestTable::push`], for a case that stands for many: `copy` is the hash of the request
    /// itself with its result ([`copy_hash`]).
    pub fn push_as(&mut self, case: &Case, observation: &Observation, copy: u64) -> bool {
        let row = self.rows;
        let is_added = self.push(case, observation, 0);
        if is_added {
            self.copy.set(row, copy);
        }
        is_added
    }

    /// As [`RequestTable::push`], without keeping texts.
    pub fn push_without_text(
        &mut self,
        case: &Case,
        observation: &Observation,
        offset: u64,
    ) -> bool {
        let row = self.rows;
        let fits = |number: usize| u32::try_from(number).is_ok_and(|number| number != u32::MAX);
        if row == u32::MAX || !fits(observation.case_index) {
            return false;
        }
        self.observed
            .set(row, Observed::new(case, observation, offset));
        self.id.set(row, Some(case.id.clone()));
        let input = self.inputs.number(case);
        self.input.set(row, input);
        let copy = copy_hash(self.inputs.hashes[input], case.arm, observation);
        self.copy.set(row, copy);
        self.chunk_times.set(row, &observation.timing);
        self.slacks.set(row, &observation.timing);
        self.rows += 1;
        self.controls.take();
        true
    }

    /// Sorts the requests into plan order.
    ///
    /// # Errors
    /// The duplicate number, if two requests have the same.
    pub fn sort(&mut self) -> Result<(), usize> {
        let case_index = |row: &u32| self.observed.case_index.get(*row);
        self.order.clear();
        self.order.extend(0..self.rows);
        self.order.sort_unstable_by_key(case_index);
        let mut pairs = self.order.windows(2);
        let duplicate = pairs.find(|pair| case_index(&pair[0]) == case_index(&pair[1]));
        duplicate.map_or(Ok(()), |pair| Err(case_index(&pair[0])))
    }

    /// The index of a request by its number in the plan. The table has to be sorted.
    pub fn position(&self, case_index: usize) -> Option<usize> {
        self.order
            .binary_search_by_key(&case_index, |row| self.observed.case_index.get(*row))
            .ok()
    }

    /// Sets the verdict, counts and checks of the request at an index.
    pub fn judge(&mut self, index: usize, judged: Judged) {
        self.judged.set(self.row(index), judged);
    }

    /// Sets whether the streamed answer to the request at an index equals the whole one.
    pub fn set_parity(&mut self, index: usize, parity: Parity) {
        self.judged.parity.set(self.row(index), Some(parity));
    }

    /// The row of the request at an index.
    pub(crate) fn row(&self, index: usize) -> u32 {
        self.order.get(index).copied().unwrap_or(index as u32)
    }
}

/// The distinct inputs of requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) all: Vec<RequestInput>,
    /// A hash of the content of each.
    pub(crate) hashes: Vec<u64>,
    known: HashMap<InputKey, usize>,
    /// Hashes of constraints by address; the inputs keep them alive.
    constraints: HashMap<usize, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct InputKey {
    body: BodyKey,
    oracle: usize,
    completion: Option<String>,
    score: Option<Scorer>,
    tags: Vec<String>,
}

impl Inputs {
    /// The number of the input of a case.
    fn number(&mut self, case: &Case) -> usize {
        let oracle = case
            .grammar_oracle
            .as_ref()
            .map_or(0, |oracle| oracle.as_ptr() as usize);
        let key = InputKey {
            body: Case::body_key(case),
            oracle,
            completion: case.completion.clone(),
            score: case.score,
            tags: case.tags.clone(),
        };
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let number = self.all.len();
        self.all.push(RequestInput {
            prompt: case.prompt.clone(),
            constraint: case.constraint.clone(),
            output_len: case.output_len,
            completion: case.completion.clone(),
            score: case.score,
            tags: case.tags.clone(),
            grammar_oracle: case.grammar_oracle.clone(),
            model: case.model.clone(),
        });
        let constraint = case.constraint.as_ref().map(|constraint| {
            *self
                .constraints
                .entry(Arc::as_ptr(constraint) as usize)
                .or_insert_with(|| constraint_hash(constraint))
        });
        self.hashes.push(content_hash(case, constraint));
        self.known.insert(key, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestRequest, test_request};
    use sobench_core::verdict::{NotScored, Verdict};

    fn parts(index: usize) -> (Case, Observation) {
        let (case, observation, _) = test_request().parts(index);
        (case, observation)
    }

    #[test]
    fn requests_are_sorted_and_ids_round_trip() {
        let mut table = RequestTable::default();
        let ids = [
            (12, "json-12"),
            (3, "json-3#2"),
            (7, "7"),
            (0, "json-"),
            (9, "json-09"),
            (10, "json-0"),
            (11, "json-4294967295"),
            (13, "json-99999999999"),
        ];
        for (index, id) in ids {
            let (case, observation) = parts(index);
            assert!(table.push(
                &Case {
                    id: id.into(),
                    ..case
                },
                &observation,
                0
            ));
        }
        assert_eq!(table.sort(), Ok(()));
        let found: Vec<(usize, String)> = table
            .iter()
            .map(|sample| (sample.case_index(), sample.id()))
            .collect();
        assert_eq!(
            found,
            [
                (0, "json-".into()),
                (3, "json-3#2".into()),
                (7, "7".into()),
                (9, "json-09".into()),
                (10, "json-0".into()),
                (11, "json-4294967295".into()),
                (12, "json-12".into()),
                (13, "json-99999999999".into()),
            ]
        );
        assert_eq!((table.position(7), table.position(8)), (Some(2), None));
        let (case, observation) = parts(3);
        table.push(&case, &observation, 0);
        assert_eq!(table.sort(), Err(3));
        let far = Observation {
            case_index: usize::MAX,
            ..observation
        };
        assert!(!table.push(&case, &far, 0));
    }

    #[test]
    fn request_without_an_answer_has_no_chunks() {
        let mut table = RequestTable::default();
        let (case, observation, _) = TestRequest {
            chunks: vec![],
            sent: None,
            ready: None,
            end: None,
            ..test_request()
        }
        .parts(0);
        table.push(&case, &observation, 0);
        let found = table.get(0).unwrap();
        assert_eq!(
            (
                found.request_times().first_content_ns,
                found.request_times().sent_ns,
                found.chunks_ns()
            ),
            (None, None, vec![])
        );
        assert_eq!(
            (found.is_judged(), found.verdict()),
            (
                false,
                &Verdict::NotScored {
                    why: NotScored::Cancelled
                }
            )
        );
    }
}
