//! Collects judged answers in little memory: a row of numbers for each, and the texts of those that
//! can become examples.

use std::collections::HashMap;
use std::sync::Arc;

use super::accuracy::AccuracyTable;
use super::{Agreement, ScorerAccuracy, Stored, UnreadableRow};
use sobench_core::answer::Answer;
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::{Constraint, ConstraintKind};
use sobench_core::observation::{Observation, Outcome, Timing};
use sobench_core::verdict::{NotScored, Reason, ToolCallFault, Verdict};
use sobench_facts::{Judged, Sample};
use sobench_facts::{RequestTable, constraint_hash, content_hash, copy_hash, has_copies};
use sobench_judge::accuracy::Scorer;
use sobench_plan::metrics::MetricsSettings;
use sobench_results::metrics::examples::{Group as Examples, MAX_EXAMPLES};
use sobench_results::metrics::findings::Findings;
use sobench_results::metrics::judgement::{compliance, is_correct};
use sobench_results::metrics::registry::{
    Group, GroupValues, Metric, RunSamples, Values, groups_of_run, rates,
};
use sobench_statistics::Rate;

/// What decides in which groups of a report an answer is counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GroupKey {
    arm: Arm,
    outcome: &'static str,
    verdict: &'static str,
    complied: Option<bool>,
    vllm_correct: Option<bool>,
    claimed: Option<bool>,
}

/// Counts the answers of each group, to find the first ones.
#[derive(Default)]
pub(super) struct FirstOfGroups(HashMap<GroupKey, usize>);

impl FirstOfGroups {
    /// Counts an answer. Whether it is one of the first in its group, which become examples.
    fn add(&mut self, key: GroupKey) -> bool {
        let count = self.0.entry(key).or_default();
        *count += 1;
        *count <= MAX_EXAMPLES
    }
}

/// The id and the text of an answer.
struct Example {
    id: String,
    text: String,
}

/// A judged answer.
pub(super) struct JudgedAnswer {
    key: GroupKey,
    constraint: Option<Arc<Constraint>>,
    outcome: Outcome,
    finish_reason: Option<String>,
    timing: Timing,
    claimed: Option<bool>,
    scorer: Option<Scorer>,
    judged: Judged,
    content: u64,
    /// `None` if it depends on the number of the answer.
    copy: Option<u64>,
    /// `None` if enough answers of its group came before.
    example: Option<Example>,
    id: Option<String>,
}

/// The hashes of constraints by address. The constraints are held, so that no other one gets the
/// address.
#[derive(Default)]
pub(super) struct ConstraintHashes(HashMap<usize, (Arc<Constraint>, u64)>);

/// Number of constraints whose hashes are kept.
const MAX_HASHES: usize = 256;

impl ConstraintHashes {
    fn get(&mut self, constraint: &Arc<Constraint>) -> u64 {
        let address = Arc::as_ptr(constraint) as usize;
        if let Some((_, hash)) = self.0.get(&address) {
            return *hash;
        }
        if self.0.len() == MAX_HASHES {
            self.0.clear();
        }
        let hash = constraint_hash(constraint);
        self.0.insert(address, (Arc::clone(constraint), hash));
        hash
    }
}

impl JudgedAnswer {
    /// Keeps the text of the first answers of each group only; `first` counts those of a batch.
    pub(super) fn new(
        stored: Stored,
        mut judged: Judged,
        first: &mut FirstOfGroups,
        hashes: &mut ConstraintHashes,
    ) -> Self {
        let Stored {
            case,
            observation,
            claimed,
            reference,
            ..
        } = stored;
        let content = content_hash(
            &case,
            case.constraint.as_ref().map(|known| hashes.get(known)),
        );
        let copy =
            has_copies(&observation.outcome).then(|| copy_hash(content, case.arm, &observation));
        let finish_reason = observation.finish_reason.as_deref();
        let key = GroupKey {
            arm: case.arm,
            outcome: observation.outcome.name(),
            verdict: match &judged.verdict {
                Verdict::Valid => "valid",
                Verdict::Invalid { reason } => reason.name(),
                Verdict::NotScored { why } => why.name(),
            },
            complied: compliance(
                case.arm,
                &judged.verdict,
                observation.outcome.name(),
                finish_reason,
            ),
            vllm_correct: judged.vllm_correct,
            claimed,
        };
        let is_example = first.add(key);
        if !is_example {
            judged.verdict = without_details(judged.verdict);
        }
        // Requests of a run are compared by when they were sent, so that any can be the first one of
        // a loss.
        let id = observation.timing.sent_ns.map(|_| case.id.clone());
        let example = is_example.then(|| Example {
            id: case.id,
            text: observation.answer.text().into_owned(),
        });
        Self {
            key,
            constraint: case.constraint,
            outcome: observation.outcome,
            finish_reason: observation.finish_reason,
            timing: first_chunk_only(observation.timing),
            claimed,
            scorer: reference.map(|reference| reference.scorer()),
            judged,
            content,
            copy,
            example,
            id,
        }
    }
}

/// The times without those of chunks after the first.
fn first_chunk_only(timing: Timing) -> Timing {
    let mut chunks_ns = timing.chunks_ns;
    chunks_ns.truncate(1);
    Timing {
        due_ns: timing.due_ns,
        ready_ns: timing.ready_ns,
        sent_ns: timing.sent_ns,
        end_ns: timing.end_ns,
        streamed: timing.streamed,
        chunks_ns,
        ..Timing::default()
    }
}

/// A verdict that is counted like this one. Details are only needed in examples.
fn without_details(verdict: Verdict) -> Verdict {
    let text = String::new;
    let reason = match verdict {
        Verdict::Invalid { reason } => reason,
        Verdict::NotScored {
            why: NotScored::Unsupported { .. },
        } => {
            return Verdict::NotScored {
                why: NotScored::Unsupported { what: text() },
            };
        }
        Verdict::NotScored {
            why: NotScored::Limit { .. },
        } => {
            return Verdict::NotScored {
                why: NotScored::Limit { what: text() },
            };
        }
        other => return other,
    };
    let reason = match reason {
        Reason::NotJson { .. } => Reason::NotJson {
            message: text(),
            byte: 0,
        },
        Reason::ExtraText {
            kind,
            valid_if_stripped,
            ..
        } => Reason::ExtraText {
            byte: 0,
            kind,
            valid_if_stripped,
        },
        Reason::Schema { .. } => Reason::Schema {
            keyword: text(),
            instance_path: text(),
            schema_path: text(),
            message: text(),
        },
        Reason::DuplicateKey { .. } => Reason::DuplicateKey {
            key: text(),
            instance_path: text(),
        },
        Reason::LoneSurrogate { .. } => Reason::LoneSurrogate { byte: 0 },
        Reason::Grammar { .. } => Reason::Grammar { byte: 0 },
        Reason::StructuralTag { .. } => Reason::StructuralTag {
            path: text(),
            byte: 0,
            message: text(),
        },
        Reason::OtherRequest { .. } => Reason::OtherRequest { member: text() },
        Reason::ToolCall(ToolCallFault::LeakedMarkup { channel, .. }) => {
            Reason::ToolCall(ToolCallFault::LeakedMarkup {
                channel,
                markup: text(),
                byte: 0,
            })
        }
        other => other,
    };
    Verdict::Invalid { reason }
}

/// All judged answers of a file.
pub(super) struct Tally {
    table: RequestTable,
    claimed: Vec<Option<bool>>,
    /// Number of answers for each of [`ConstraintKind::ALL`].
    kinds: [usize; ConstraintKind::ALL.len()],
    scorers: AccuracyTable,
    first: FirstOfGroups,
    /// One case for each kind of constraint and each `tool_choice`, in place of those of the
    /// answers.
    cases: HashMap<(Option<ConstraintKind>, Option<&'static str>), Case>,
    pub(super) unreadable: Vec<UnreadableRow>,
}

/// The rates that need more than stored answers have.
const OF_RUNS: [&Metric; 3] = [
    &rates::WHOLE_TRUNCATED_RATE,
    &rates::NO_FINISH_REASON_RATE,
    &rates::REASONED,
];

/// The figures of a [`Tally`].
pub(super) struct Figures {
    pub(super) answers: usize,
    pub(super) constraints: Vec<(String, usize)>,
    pub(super) accuracy: Vec<ScorerAccuracy>,
    /// Requests of the constrained arm, and of the control arm.
    pub(super) constrained: usize,
    pub(super) control: usize,
    pub(super) values: Values,
    /// The requests with each `tool_choice`.
    pub(super) groups: Vec<GroupValues>,
    pub(super) findings: Findings,
    pub(super) agreement: Option<Agreement>,
    pub(super) unreadable: Vec<UnreadableRow>,
}

impl Tally {
    /// An empty tally with room for `answers`, which may be an estimate.
    pub(super) fn new(answers: usize) -> Self {
        Self {
            table: RequestTable::new(answers, None),
            claimed: Vec::with_capacity(answers),
            kinds: [0; ConstraintKind::ALL.len()],
            scorers: AccuracyTable::default(),
            first: FirstOfGroups::default(),
            cases: HashMap::new(),
            unreadable: Vec::new(),
        }
    }

    /// Number of answers.
    pub(super) fn answers(&self) -> usize {
        self.table.len()
    }

    /// Adds the next answer of the file.
    pub(super) fn add(&mut self, answer: JudgedAnswer) {
        let JudgedAnswer {
            key,
            constraint,
            outcome,
            finish_reason,
            timing,
            claimed,
            scorer,
            mut judged,
            content,
            copy,
            example,
            id,
        } = answer;
        // The index in this file: rows of several files may have the same number.
        let index = self.table.len();
        let kind = constraint.as_deref().map(ConstraintKind::from_constraint);
        if let Some(kind) = kind {
            self.kinds[kind as usize] += 1;
        }
        self.scorers.add(scorer, judged.accuracy.as_ref());
        self.claimed.push(claimed);
        let is_example = self.first.add(key);
        let (id, text) = match example.filter(|_| is_example) {
            Some(Example { id, text }) => (Some(id), text),
            None => {
                judged.verdict = without_details(judged.verdict);
                (id, String::new())
            }
        };
        let tools = constraint
            .as_ref()
            .and_then(|constraint| constraint.tools());
        let choice = tools.map(|tools| tools.choice.name());
        let case = self
            .cases
            .entry((kind, choice))
            .or_insert_with(|| Case::new("", Prompt::Text("".into()), constraint, 1));
        case.arm = key.arm;
        case.id = id.unwrap_or_else(|| index.to_string());
        let observation = Observation {
            case_index: index,
            outcome,
            timing,
            answer: Answer::from_text(text),
            finish_reason,
            usage: None,
        };
        let copy = copy.unwrap_or_else(|| copy_hash(content, key.arm, &observation));
        self.table.push_as(case, &observation, copy);
        self.table.judge(index, judged);
    }

    /// The figures of all answers.
    pub(super) fn finish(self) -> Figures {
        let samples = self.table.samples();
        let all: Vec<&Sample<'_>> = samples.iter().collect();
        let options = MetricsSettings::default();
        let wanted = Metric::ALL.iter().copied();
        let wanted = wanted.filter(|metric| metric.is_rate() && !OF_RUNS.contains(metric));
        let wanted: Vec<&Metric> = wanted.collect();
        let values = |members: &[&Sample<'_>], arm| {
            let run = RunSamples::new(members, 0, &options, None).of_arm(arm);
            Values::selected(&wanted, &run)
        };
        let group_values = |group: Group| GroupValues {
            values: values(&group.members(&samples), group.arm),
            group,
        };
        let requests_of = |arm: Arm| samples.iter().filter(|sample| sample.arm() == arm).count();
        let arms = Arm::ALL.into_iter().filter(|arm| requests_of(*arm) > 0);
        let arms: Vec<Arm> = arms.collect();
        let kinds = ConstraintKind::ALL.into_iter().zip(self.kinds);
        Figures {
            answers: samples.len(),
            constraints: kinds
                .filter(|(_, count)| *count > 0)
                .map(|(kind, count)| (kind.name().to_owned(), count))
                .collect(),
            accuracy: self.scorers.finish(),
            constrained: requests_of(Arm::Constrained),
            control: requests_of(Arm::Control),
            values: values(&all, None),
            groups: groups_of_run(&arms, &samples)
                .into_iter()
                .map(group_values)
                .collect(),
            findings: Findings::new(&samples),
            agreement: agreement(&self.claimed, &samples),
            unreadable: self.unreadable,
        }
    }
}

fn agreement(claimed: &[Option<bool>], samples: &[Sample<'_>]) -> Option<Agreement> {
    let both = || {
        let sides = claimed.iter().zip(samples);
        sides.filter_map(|(claimed, sample)| {
            Some(((*claimed)?, is_correct(sample.verdict())?, sample))
        })
    };
    let compared = both().count();
    let mut agreement = Agreement {
        compared,
        claimed: Rate::new(both().filter(|(claimed, ..)| *claimed).count(), compared),
        only_file: Examples::empty("correct in the file only"),
        only_ours: Examples::empty("valid in sobench only"),
    };
    for (claimed, correct, sample) in both() {
        match (claimed, correct) {
            (true, false) => agreement
                .only_file
                .add(sample, &sample.verdict().to_string()),
            (false, true) => agreement.only_ours.add(sample, "valid by its constraint"),
            (true, true) | (false, false) => {}
        }
    }
    (compared > 0).then_some(agreement)
}
