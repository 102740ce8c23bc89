//! Every request of a run in some hundred bytes each, so that a run of a million fits into memory:
//! what the figures are made from. Knows no figure, no file and no clock.
//!
//! What many requests share (question, verdict, outcome) is kept once. Times of chunks are kept as
//! the gaps between them, as far as there is room; what there is no room for, [`Again`] brings back
//! from where it is written.

mod sample;

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use super::gaps::{self, Kept};
use super::{Judged, Sample, TokenSource, Tokens};
use sobench_core::case::{Arm, Asked, Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Observation, Outcome, Timing};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Bytes of chunk instants that stay in memory where they can be read again: some ten million
/// chunks.
const MAX_GAP_BYTES: usize = 32 << 20;

/// Distinct verdicts, and distinct outcomes, that are kept with the words of validator or server. A
/// run in which every answer is wrong in words of its own is told in reasons and places from there
/// on; its log has the words.
const MAX_IN_WORDS: usize = 1 << 16;

/// What stands for words that were left out.
const LEFT_OUT: &str = "…";

/// For "there is none" among instants and counts.
const NONE_NS: u64 = u64::MAX;
const NONE: u32 = u32::MAX;

/// Times of chunks in nanoseconds since the begin, and the tokens up to and with each, where the
/// server counts them.
pub type ChunksAndTokens = (Vec<u64>, Vec<u64>);

/// Brings back what was not kept.
pub trait Again: fmt::Debug + Send + Sync {
    /// The chunks of request `case_index`, whose place is `offset`; `None` where they cannot be had
    /// any more.
    fn chunks(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens>;
}

/// What was asked, which many requests share.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub prompt: Prompt,
    pub constraint: Option<Arc<Constraint>>,
    pub output_len: u32,
    pub completion: Option<String>,
    pub tags: Vec<String>,
    pub grammar_oracle: Option<Arc<str>>,
    pub model: Option<Arc<str>>,
}

/// The instants of a request without those of its chunks but the first and the last; see
/// [`Timing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    pub due_ns: u64,
    pub ready_ns: Option<u64>,
    pub sent_ns: Option<u64>,
    pub first_content_ns: Option<u64>,
    pub last_content_ns: Option<u64>,
    pub first_reasoning_ns: Option<u64>,
    pub first_answer_ns: Option<u64>,
    pub end_ns: Option<u64>,
    /// Chunks with content.
    pub chunks: u64,
    pub streamed: bool,
}

/// All requests of a run.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    rows: Vec<Row>,
    questions: Vec<Question>,
    known_questions: HashMap<QuestionKey, u32>,
    /// Ids but for the number at their end.
    names: Shared<String>,
    /// Ids that do not end in their request's number.
    odd_ids: HashMap<u32, String>,
    outcomes: Shared<Outcome>,
    finish_reasons: Shared<String>,
    verdicts: Shared<Verdict>,
    /// First reasoning and first answer, of requests with reasoning.
    reasoned: HashMap<u32, (Option<u64>, Option<u64>)>,
    /// Counts that do not fit into a row.
    odd_tokens: HashMap<u32, Tokens>,
    texts: HashMap<u32, (String, String)>,
    gaps: Vec<u8>,
    again: Option<Arc<dyn Again>>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    due_ns: u64,
    ready_ns: u64,
    sent_ns: u64,
    first_ns: u64,
    last_ns: u64,
    end_ns: u64,
    offset: u64,
    /// Where the gaps begin; [`NONE`] where they are to be read again.
    gaps_at: u32,
    chunks: u32,
    case_index: u32,
    question: u32,
    name: u32,
    outcome: u32,
    finish_reason: u32,
    verdict: u32,
    input: u32,
    output: u32,
    input_source: TokenSource,
    output_source: TokenSource,
    arm: Arm,
    flags: u16,
}

const STREAMED: u16 = 1;
const IN_ORDER: u16 = 2;
const SCRIPT_SCORES: u16 = 4;
const SCRIPT_CORRECT: u16 = 8;
const WHITE_SPACE_RUN: u16 = 16;
const HAS_CALL: u16 = 32;
const RIGHT_CALL: u16 = 64;
/// Counts that the server stated and that cannot be right: of input, of output tokens, or of either
/// without telling which.
const SENSELESS_INPUT: u16 = 128;
const SENSELESS_OUTPUT: u16 = 256;
const SENSELESS_USAGE: u16 = 512;

/// Distinct values, each with its number.
#[derive(Clone, Debug)]
struct Shared<T> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct QuestionKey {
    asked: Asked,
    oracle: usize,
    completion: Option<String>,
    tags: Vec<String>,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> Shared<T> {
    fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = self.values.len() as u32;
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.values.get(number as usize)
    }
}

impl Ledger {
    /// An empty one, with room for so many requests. What does not fit is had from `again`; without
    /// it, everything is kept.
    pub fn new(requests: usize, again: Option<Arc<dyn Again>>) -> Self {
        Self {
            rows: Vec::with_capacity(requests),
            again,
            ..Self::default()
        }
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a request, with its texts where they are not empty; `offset` is its place for
    /// [`Again`]. One whose number does not fit into 32 bits is refused: false.
    pub fn push(&mut self, case: &Case, observation: &Observation, offset: u64) -> bool {
        let Some(case_index) = u32::try_from(observation.case_index)
            .ok()
            .filter(|index| *index != NONE)
        else {
            return false;
        };
        let timing = &observation.timing;
        if timing.first_reasoning_ns.is_some() {
            self.reasoned.insert(
                case_index,
                (timing.first_reasoning_ns, timing.first_answer_ns),
            );
        }
        let answer = &observation.answer;
        let text = answer.text();
        if !text.is_empty() || !answer.reasoning.is_empty() {
            self.texts
                .insert(case_index, (text.into_owned(), answer.reasoning.clone()));
        }
        let chunks = timing.chunks_ns.len();
        let usage_makes_sense = observation
            .usage
            .is_none_or(|usage| usage.makes_sense(chunks));
        let [senseless_input, senseless_output] = observation
            .usage
            .map_or([false; 2], |usage| usage.senseless(chunks));
        let instant = |at: Option<u64>| at.unwrap_or(NONE_NS);
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        let row = Row {
            due_ns: timing.due_ns,
            ready_ns: instant(timing.ready_ns),
            sent_ns: instant(timing.sent_ns),
            first_ns: instant(timing.first_content_ns()),
            last_ns: instant(timing.last_content_ns()),
            end_ns: instant(timing.end_ns),
            offset,
            gaps_at: self.keep_gaps(timing),
            chunks: u32::try_from(timing.chunks_ns.len()).unwrap_or(NONE),
            case_index,
            question: self.question(case),
            name: self.name(&case.id, case_index),
            outcome: self.outcome(&observation.outcome),
            finish_reason: observation
                .finish_reason
                .as_ref()
                .map_or(NONE, |reason| self.finish_reasons.number(reason.clone())),
            verdict: NONE,
            input: NONE,
            output: NONE,
            input_source: TokenSource::Unknown,
            output_source: TokenSource::Unknown,
            arm: case.arm,
            flags: flag(timing.streamed, STREAMED)
                | flag(timing.is_in_order(), IN_ORDER)
                | flag(!usage_makes_sense, SENSELESS_USAGE)
                | flag(senseless_input, SENSELESS_INPUT)
                | flag(senseless_output, SENSELESS_OUTPUT),
        };
        self.rows.push(row);
        true
    }

    /// Puts the requests into plan order. Two of one number are refused: the number.
    ///
    /// # Errors
    /// The number that two requests have.
    pub fn sort(&mut self) -> Result<(), usize> {
        self.rows.sort_unstable_by_key(|row| row.case_index);
        let twice = self
            .rows
            .windows(2)
            .find(|pair| pair[0].case_index == pair[1].case_index);
        twice.map_or(Ok(()), |pair| Err(pair[0].case_index as usize))
    }

    /// The place of a request, by its number in the plan; the requests have to be in order.
    pub fn place(&self, case_index: usize) -> Option<usize> {
        self.rows
            .binary_search_by_key(&case_index, |row| row.case_index as usize)
            .ok()
    }

    /// Notes what was found out about the request at a place.
    pub fn judge(&mut self, place: usize, judged: Judged) {
        let number = self.verdict(judged.verdict);
        let row = &mut self.rows[place];
        row.verdict = number;
        let Tokens {
            input,
            input_source,
            output,
            output_source,
        } = judged.tokens;
        let fits = |count: Option<u64>| {
            count.map_or(Some(NONE), |it| {
                u32::try_from(it).ok().filter(|it| *it != NONE)
            })
        };
        match (fits(input), fits(output)) {
            (Some(input), Some(output)) => (row.input, row.output) = (input, output),
            _ => {
                self.odd_tokens.insert(row.case_index, judged.tokens);
            }
        }
        (row.input_source, row.output_source) = (input_source, output_source);
        row.flags &= STREAMED | IN_ORDER | SENSELESS_USAGE | SENSELESS_INPUT | SENSELESS_OUTPUT;
        row.flags |= judged.vllm_correct.map_or(0, |correct| {
            SCRIPT_SCORES | if correct { SCRIPT_CORRECT } else { 0 }
        });
        row.flags |= if judged.white_space_run {
            WHITE_SPACE_RUN
        } else {
            0
        };
        row.flags |= judged
            .right_call
            .map_or(0, |right| HAS_CALL | if right { RIGHT_CALL } else { 0 });
    }

    /// The request at a place.
    pub fn get(&self, place: usize) -> Option<Sample<'_>> {
        self.rows.get(place).map(|row| Sample { ledger: self, row })
    }

    /// Every request, in order.
    pub fn iter(&self) -> impl Iterator<Item = Sample<'_>> {
        self.rows.iter().map(|row| Sample { ledger: self, row })
    }

    /// Every request, in order.
    pub fn samples(&self) -> Vec<Sample<'_>> {
        self.iter().collect()
    }

    fn question(&mut self, case: &Case) -> u32 {
        let oracle = case
            .grammar_oracle
            .as_ref()
            .map_or(0, |oracle| oracle.as_ptr() as usize);
        let key = QuestionKey {
            asked: Case::asked(case),
            oracle,
            completion: case.completion.clone(),
            tags: case.tags.clone(),
        };
        let questions = &mut self.questions;
        *self.known_questions.entry(key).or_insert_with(|| {
            questions.push(Question {
                prompt: case.prompt.clone(),
                constraint: case.constraint.clone(),
                output_len: case.output_len,
                completion: case.completion.clone(),
                tags: case.tags.clone(),
                grammar_oracle: case.grammar_oracle.clone(),
                model: case.model.clone(),
            });
            (questions.len() - 1) as u32
        })
    }

    fn name(&mut self, id: &str, case_index: u32) -> u32 {
        if let Some(name) = id.strip_suffix(case_index.to_string().as_str()) {
            return self.names.number(name.to_owned());
        }
        self.odd_ids.insert(case_index, id.to_owned());
        NONE
    }

    fn outcome(&mut self, outcome: &Outcome) -> u32 {
        let mut outcome = outcome.clone();
        if self.outcomes.values.len() >= MAX_IN_WORDS
            && let Outcome::Rejected { body: words, .. }
            | Outcome::ServerError { body: words, .. }
            | Outcome::StreamError { message: words }
            | Outcome::Transport { message: words, .. }
            | Outcome::Unsupported { what: words } = &mut outcome
        {
            LEFT_OUT.clone_into(words);
        }
        self.outcomes.number(outcome)
    }

    fn verdict(&mut self, mut verdict: Verdict) -> u32 {
        if self.verdicts.values.len() >= MAX_IN_WORDS
            && let Verdict::Invalid {
                reason:
                    Reason::NotJson { message: words, .. } | Reason::Schema { message: words, .. },
            }
            | Verdict::NotScored {
                why: NotScored::Limit { what: words } | NotScored::Unsupported { what: words },
            } = &mut verdict
        {
            LEFT_OUT.clone_into(words);
        }
        self.verdicts.number(verdict)
    }

    fn keep_gaps(&mut self, timing: &Timing) -> u32 {
        if self.again.is_some() && self.gaps.len() >= MAX_GAP_BYTES {
            return NONE;
        }
        let at = u32::try_from(self.gaps.len()).unwrap_or(NONE);
        if at != NONE {
            gaps::keep(&mut self.gaps, timing);
        }
        at
    }

    fn chunks(&self, row: &Row) -> ChunksAndTokens {
        if row.chunks == 0 {
            return (Vec::new(), Vec::new());
        }
        let from_ns = if row.sent_ns == NONE_NS {
            0
        } else {
            row.sent_ns
        };
        if row.gaps_at != NONE {
            let kept = Kept {
                bytes: &self.gaps[row.gaps_at as usize..],
                from_ns,
                chunks: row.chunks as usize,
            };
            return kept.read();
        }
        self.again
            .as_ref()
            .and_then(|again| again.chunks(row.case_index as usize, row.offset))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made};

    #[derive(Debug)]
    struct Elsewhere;

    impl Again for Elsewhere {
        fn chunks(&self, case_index: usize, offset: u64) -> Option<ChunksAndTokens> {
            Some((vec![case_index as u64, offset], vec![]))
        }
    }

    fn parts(index: usize) -> (Case, Observation) {
        let (case, observation, _) = made().parts(index);
        (case, observation)
    }

    #[test]
    fn requests_come_back_in_order_whatever_they_are_called() {
        let mut ledger = Ledger::default();
        for (index, id) in [(12, "json-12"), (3, "json-3#2"), (7, "7"), (0, "json-")] {
            let (case, observation) = parts(index);
            assert!(ledger.push(
                &Case {
                    id: id.into(),
                    ..case
                },
                &observation,
                0
            ));
        }
        assert_eq!(ledger.sort(), Ok(()));
        let found: Vec<(usize, String)> =
            ledger.iter().map(|it| (it.case_index(), it.id())).collect();
        assert_eq!(
            found,
            [
                (0, "json-".into()),
                (3, "json-3#2".into()),
                (7, "7".into()),
                (12, "json-12".into())
            ]
        );
        assert_eq!((ledger.place(7), ledger.place(8)), (Some(2), None));
        let (case, observation) = parts(3);
        ledger.push(&case, &observation, 0);
        assert_eq!(ledger.sort(), Err(3));
        let far = Observation {
            case_index: usize::MAX,
            ..observation
        };
        assert!(!ledger.push(&case, &far, 0));
    }

    #[test]
    fn what_many_have_in_common_is_kept_once() {
        let mut ledger = Ledger::default();
        let (case, observation) = parts(0);
        for index in 0..100 {
            let outcome = Outcome::Rejected {
                status: 400,
                body: format!("no {}", index % 3),
                advice: None,
            };
            ledger.push(
                &case,
                &Observation {
                    case_index: index,
                    outcome,
                    ..observation.clone()
                },
                0,
            );
        }
        assert_eq!(
            (
                ledger.questions.len(),
                ledger.outcomes.values.len(),
                ledger.len()
            ),
            (1, 3, 100)
        );
        assert!(size_of::<Row>() <= 104, "{}", size_of::<Row>());
    }

    #[test]
    fn words_are_left_out_where_there_are_too_many_of_them() {
        let mut ledger = Ledger::default();
        let (case, observation) = parts(0);
        for index in 0..MAX_IN_WORDS + 2 {
            ledger.push(
                &case,
                &Observation {
                    case_index: index,
                    ..observation.clone()
                },
                0,
            );
            let message = format!("odd {index}");
            let verdict = Verdict::Invalid {
                reason: Reason::NotJson { message, byte: 1 },
            };
            ledger.judge(
                index,
                Judged {
                    verdict,
                    tokens: Tokens::default(),
                    vllm_correct: None,
                    white_space_run: false,
                    right_call: None,
                },
            );
        }
        let words = |place: usize| format!("{:?}", ledger.get(place).unwrap().verdict());
        assert!(
            words(5).contains("odd 5") && words(MAX_IN_WORDS + 1).contains(LEFT_OUT),
            "{}",
            words(MAX_IN_WORDS + 1)
        );
        assert_eq!(ledger.verdicts.values.len(), MAX_IN_WORDS + 1);
    }

    #[test]
    fn counts_of_any_size_come_back() {
        let mut ledger = Ledger::default();
        for (place, input) in [None, Some(0), Some(u64::from(u32::MAX)), Some(u64::MAX)]
            .into_iter()
            .enumerate()
        {
            let (case, observation) = parts(place);
            ledger.push(&case, &observation, 0);
            let tokens = Tokens {
                input,
                output: Some(4),
                ..Tokens::default()
            };
            ledger.judge(
                place,
                Judged {
                    verdict: Verdict::Valid,
                    tokens,
                    vllm_correct: Some(false),
                    white_space_run: true,
                    right_call: Some(true),
                },
            );
            let found = ledger.get(place).unwrap().judged();
            let judged = (
                found.tokens,
                found.vllm_correct,
                found.white_space_run,
                found.right_call,
            );
            assert_eq!(judged, (tokens, Some(false), true, Some(true)));
        }
    }

    #[test]
    fn instants_that_there_is_no_room_for_are_read_again() {
        let mut ledger = Ledger::new(2, Some(Arc::new(Elsewhere)));
        let (case, observation) = parts(0);
        ledger.push(&case, &observation, 40);
        ledger.gaps.resize(MAX_GAP_BYTES, 0);
        ledger.push(
            &case,
            &Observation {
                case_index: 1,
                ..observation.clone()
            },
            41,
        );
        let found: Vec<Vec<u64>> = ledger.iter().map(|it| it.chunks_ns()).collect();
        assert_eq!(found, [observation.timing.chunks_ns, vec![1, 41]]);
    }

    #[test]
    fn who_gave_no_answer_has_no_chunks() {
        let mut ledger = Ledger::default();
        let (case, observation, _) = Made {
            chunks: vec![],
            sent: None,
            ready: None,
            end: None,
            ..made()
        }
        .parts(0);
        ledger.push(&case, &observation, 0);
        let found = ledger.get(0).unwrap();
        assert_eq!(
            (
                found.moments().first_content_ns,
                found.moments().sent_ns,
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
