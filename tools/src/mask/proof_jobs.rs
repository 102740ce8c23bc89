//! Proof jobs of a child process: search on an entry, shrinking and rechecking of findings.

use std::time::Duration;

use super::entry_measurer::JobError;
use super::protocol::{Done, Event, Job};
use super::prove::Proved;
use super::prove::engine_session::ProofEngine;
use super::prove::mask_walk::WalkGuide;
use super::prove::prover::{ProofObserver, VocabularyTools, prove};
use super::prove::shrink::{ShrinkLimits, recheck, shrink};
use super::prove::sorted_vocabulary::SortedVocabulary;
use super::prove::witness::WitnessStatus;
use super::worker::{EventWriter, OpenedEngine};
use sobench_engine::{EngineName, Vocabulary};

/// Lookup tables of a vocabulary for the proof search, built at the first job.
pub(super) struct VocabularyIndex {
    sorted: SortedVocabulary,
    guide: WalkGuide,
}

impl VocabularyIndex {
    fn new(vocabulary: &Vocabulary) -> Self {
        Self {
            sorted: SortedVocabulary::new(vocabulary),
            guide: WalkGuide::new(vocabulary),
        }
    }

    fn tools<'a>(
        &'a self,
        vocabulary: &'a Vocabulary,
        by_bytes: Option<&'a VocabularyTools<'a>>,
    ) -> VocabularyTools<'a> {
        VocabularyTools {
            vocabulary,
            sorted: &self.sorted,
            guide: &self.guide,
            by_bytes,
        }
    }
}

/// Sufficient for a schema of a few pages.
const SHRINK_LIMITS: ShrinkLimits = ShrinkLimits {
    tries: 400,
    time: Duration::from_secs(20),
};

/// Runs a job and sends each result as soon as it is available.
pub(super) fn run(
    opened: &OpenedEngine,
    job: &Job,
    output: &mut EventWriter<'_>,
) -> Result<(), JobError> {
    let [ready, by_bytes] = opened.indexes.get_or_init(|| {
        [&opened.vocabulary, &opened.bytes].map(|vocabulary| VocabularyIndex::new(vocabulary))
    });
    let by_bytes = by_bytes.tools(&opened.bytes, None);
    let tools = ready.tools(&opened.vocabulary, Some(&by_bytes));
    let mut reporter = ParentReporter {
        output,
        at: None,
        parent_gone: false,
    };
    let find_engine = |name: EngineName| {
        opened
            .proof_engines
            .iter()
            .find(|engine| engine.name == name)
    };
    match job {
        Job::Prove(job) => {
            let proof_engines: Vec<&ProofEngine> = opened
                .proof_engines
                .iter()
                .filter(|engine| !job.excluded.contains(&engine.name))
                .collect();
            prove(
                &proof_engines,
                &tools,
                &job.entry,
                job.effort,
                &mut reporter,
            );
        }
        Job::Shrink(job) => {
            let case = job.case.clone();
            let shrunk = find_engine(job.engine)
                .and_then(|engine| shrink(engine, &tools, case, SHRINK_LIMITS, &mut reporter));
            reporter.buffer(&Event::Shrunk(shrunk));
        }
        Job::Check(job) => {
            reporter.engine_changed(Some(job.engine));
            let not_open = || WitnessStatus::Unknown {
                why: format!("{} is not open", job.engine.name()),
            };
            reporter.buffer(&Event::Checked(
                find_engine(job.engine)
                    .map_or_else(not_open, |engine| recheck(engine, &tools, &job.case)),
            ));
        }
        Job::Entry(_) | Job::Batch(_) => {}
    }
    if reporter.parent_gone {
        return Err(JobError::ParentGone);
    }
    output.send(&Event::Done(Done::default()))
}

/// Reports the active engine to the parent whenever it changes.
struct ParentReporter<'a, 'o> {
    output: &'a mut EventWriter<'o>,
    at: Option<Option<EngineName>>,
    /// The parent closed its end of the pipe.
    parent_gone: bool,
}

impl ParentReporter<'_, '_> {
    fn buffer(&mut self, event: &Event) {
        self.parent_gone |= self.output.buffer(event).is_err();
    }
}

impl ProofObserver for ParentReporter<'_, '_> {
    fn engine_changed(&mut self, engine: Option<EngineName>) {
        if self.at != Some(engine) {
            self.at = Some(engine);
            self.parent_gone |= self.output.send(&Event::ActiveEngine(engine)).is_err();
        }
    }

    fn so_far(&mut self, engine: EngineName, proved: &Proved) {
        self.buffer(&Event::ProvedSoFar {
            engine,
            proved: proved.clone(),
        });
    }
}
