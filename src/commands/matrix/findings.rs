//! What a run says of its requests beside their values: the cause of each that is not correct, and its
//! constraint.

use std::collections::HashMap;
use std::sync::Arc;

use sobench_core::constraint::Constraint;
use sobench_core::observation::failure_message;
use sobench_core::printable::{printable, printable_message};
use sobench_core::verdict::Verdict;
use sobench_data::dataset::custom::NAME_TAG;
use sobench_facts::Sample;
use sobench_report::contenders::MAX_MESSAGE_CHARS;
use sobench_report::refusals::Refused;
use sobench_results::metrics::cold_load::COLD_TAG;
use sobench_results::metrics::judgement::{Cause, judged};
use sobench_runlog::RunLog;

/// Largest number of requests of a run whose answers are kept for the list of disagreements.
const MAX_ANSWERS: usize = 2_000;

/// A constraint of a run.
#[derive(Clone, Debug)]
pub struct SchemaName {
    /// The same for every contender.
    pub key: Arc<str>,
    pub name: Arc<str>,
    pub tags: Arc<[String]>,
}

/// What a run says of one request beside its values.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    pub case: usize,
    /// Equal for equal requests with equal answers.
    pub copy: u32,
    /// The number of its constraint in the run.
    pub constraint: Option<u32>,
    /// Whether the answer to a constrained request is correct, or why not; `None` for requests
    /// that the correct rate leaves out.
    pub judged: Option<Result<(), Cause>>,
    /// `None` if the server did not refuse the constraint.
    pub refusal: Option<Refused>,
    /// Why the answer is invalid or the constraint was refused, shortened.
    pub message: Option<String>,
    pub schema: Option<SchemaName>,
    pub case_id: String,
    /// The start of a judged answer; `None` if the run has too many.
    pub text: Option<String>,
}

/// The constraints of a run, by their addresses: the cases of a row share theirs.
#[derive(Default)]
struct SchemaNames(HashMap<usize, SchemaName>);

impl SchemaName {
    /// Its tags, each as a group of constraints.
    pub fn features(&self) -> Vec<Self> {
        let feature = |tag: &String| Self {
            key: tag.as_str().into(),
            name: tag.as_str().into(),
            tags: Arc::default(),
        };
        self.tags.iter().map(feature).collect()
    }
}

impl SchemaNames {
    /// The constraint of a request; `None` without one, and for schemas that are new with every
    /// request.
    fn get(&mut self, sample: &Sample<'_>) -> Option<SchemaName> {
        let input = sample.request_input();
        if input.tags.iter().any(|tag| tag == COLD_TAG) {
            return None;
        }
        let constraint = sample.constraint()?;
        let name = || {
            let named = input.tags.iter().find_map(|tag| tag.strip_prefix(NAME_TAG));
            let tags = input.tags.iter().filter(|tag| !tag.starts_with(NAME_TAG));
            SchemaName {
                key: named.map_or_else(|| constraint.fingerprint().into(), Arc::from),
                name: named.map_or_else(|| sample.id().into(), Arc::from),
                tags: tags.cloned().collect(),
            }
        };
        let address = Arc::as_ptr(constraint) as usize;
        Some(self.0.entry(address).or_insert_with(name).clone())
    }
}

/// The finding on every request of a run.
pub fn findings(samples: &[Sample<'_>], log: &RunLog) -> Vec<Finding> {
    let mut by_address: HashMap<*const Constraint, u32> = HashMap::new();
    let mut by_content: HashMap<String, u32> = HashMap::new();
    let mut number = |constraint: &Arc<Constraint>| {
        *by_address
            .entry(Arc::as_ptr(constraint))
            .or_insert_with(|| {
                let next = by_content.len() as u32;
                *by_content.entry(constraint.fingerprint()).or_insert(next)
            })
    };
    let mut names = SchemaNames::default();
    samples
        .iter()
        .enumerate()
        .map(|(index, sample)| Finding {
            case: sample.case_index(),
            copy: sample.copy_hash() as u32,
            constraint: sample.constraint().map(&mut number),
            refusal: Refused::new(sample),
            ..Finding::judged(sample, log, index, &mut names)
        })
        .collect()
}

impl Finding {
    /// The judgement of the request at this index of the log.
    fn judged(sample: &Sample<'_>, log: &RunLog, index: usize, names: &mut SchemaNames) -> Self {
        let Some(judged) = judged(sample) else {
            return Self::default();
        };
        let shortened = |text: &str| printable(text, MAX_MESSAGE_CHARS);
        let is_kept = log.requests.len() <= MAX_ANSWERS;
        let message = match (judged, sample.verdict()) {
            (Err(Cause::Invalid), Verdict::Invalid { reason }) => {
                Some(shortened(&reason.to_string()))
            }
            (Err(Cause::Refused), _) => Some(printable_message(&failure_message(sample.outcome()))),
            _ => None,
        };
        let text = || {
            let answer = log.answer(index).ok()?;
            Some(shortened(&answer.answer.text()))
        };
        let is_judged = matches!(judged, Ok(()) | Err(Cause::Invalid));
        Self {
            judged: Some(judged),
            message,
            schema: names.get(sample),
            case_id: sample.id(),
            text: if is_kept && is_judged { text() } else { None },
            ..Self::default()
        }
    }
}
