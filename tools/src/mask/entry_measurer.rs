//! Measures one entry under one engine: evaluator, cold compile, first mask, cached compile, then
//! every instance in every spelling, then drafts along every instance if they are requested.
//!
//! Cold and warm: the compile is the first one of its constraint; the tables of the vocabulary are
//! built before. The first mask is the coldest of all masks. All spellings share one grammar, whose
//! tables grow with use, so the first walk of the first spelling is colder than later walks. The
//! warm walk of an instance runs after the durations of its cold walk are sent.

use std::sync::Arc;

use super::clock::measure;
use super::corpus::Entry;
use super::draft_walk::{DraftText, draft_along};
use super::oracle::Oracle;
use super::protocol::{Done, Event, Pass, PassKind, Setup};
use super::row::{
    Compile, DeclineClass, Declined, InstanceOutcome, InstanceRow, RouteRow, Spelling, Stage,
    last_characters,
};
use super::spelling::{spell, spell_compact};
use super::walk::{self, Halt, Labels, WalkMismatch};
use super::worker::{EventWriter, OpenedEngine};
use sobench_core::constraint::Constraint;
use sobench_engine::cache::CompileCache;
use sobench_engine::{EngineError, Grammar, TokenMask, Vocabulary};

/// Why a job failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JobError {
    /// The parent closed its end of the pipe.
    ParentGone,
    /// The library reported a panic.
    Crashed { message: String },
}

type JobResult<T> = std::result::Result<T, JobError>;

/// An open engine that measures entries.
pub(super) struct EntryMeasurer {
    pub(super) opened: OpenedEngine,
    pub(super) setup: Setup,
    /// Reused for every mask, as a server does.
    mask: TokenMask,
}

impl EntryMeasurer {
    pub(super) fn new(opened: OpenedEngine, setup: Setup) -> Self {
        let mask = TokenMask::new(opened.vocabulary.len());
        Self {
            opened,
            setup,
            mask,
        }
    }

    /// Measures an entry and sends each result as soon as it is available.
    pub(super) fn measure_entry(
        &mut self,
        entry: &Entry,
        output: &mut EventWriter<'_>,
    ) -> JobResult<()> {
        output.stage(Stage::Oracle)?;
        let constraint = Arc::new(entry.constraint.clone());
        let mut oracle = Oracle::new(Arc::clone(&constraint), self.setup.assert_formats);
        let labels = judge_instances(entry, &mut oracle);
        if let Some(route) = self.opened.engine.route(&constraint) {
            output.buffer(&Event::Route(RouteRow {
                engine: route.engine,
                why: route.why,
            }))?;
        }
        let peak = PeakMemory::start();
        if let Some(grammar) = self.compile(&constraint, &peak, output)? {
            self.walk_instances(entry, &labels, &*grammar, &mut oracle, output)?;
            if let Some(length) = self.setup.drafts {
                self.draft_instances(entry, &*grammar, length, output)?;
            }
        }
        let (peak_bytes, peak_rss_bytes) = (peak.growth_bytes(), peak.peak_bytes());
        output.send(&Event::Done(Done {
            peak_bytes,
            peak_rss_bytes,
        }))
    }

    /// Compiles the constraint; `None` if the engine declined it. A failure of the first mask
    /// counts as a decline, since no answer could start.
    fn compile(
        &mut self,
        constraint: &Constraint,
        peak: &PeakMemory,
        output: &mut EventWriter<'_>,
    ) -> JobResult<Option<Arc<dyn Grammar>>> {
        let fingerprint = constraint.fingerprint();
        let cache = CompileCache::new(Arc::clone(&self.opened.engine), 1);
        output.stage(Stage::Compile)?;
        let (compiled, cold_ns) = measure(|| cache.compile(&fingerprint, constraint));
        let grammar = match compiled {
            Ok(grammar) => grammar,
            Err(error) => return report_decline(error, cold_ns, output),
        };
        output.stage(Stage::FirstMask)?;
        let mask = &mut self.mask;
        let (first, first_mask_ns) = measure(|| {
            let mut matcher = grammar.matcher()?;
            matcher.mask(mask)?;
            Ok(matcher)
        });
        match first {
            Ok(matcher) => drop(matcher),
            Err(error) => {
                return report_decline(error, cold_ns.saturating_add(first_mask_ns), output);
            }
        }
        output.stage(Stage::Cached)?;
        let (_again, cached_ns) = measure(|| cache.compile(&fingerprint, constraint));
        let peak_bytes = peak.growth_bytes();
        let compile = Compile {
            cold_ns,
            first_mask_ns,
            cached_ns,
            grammar_bytes: grammar.memory_bytes(),
            peak_bytes,
        };
        output.buffer(&Event::Compiled(compile))?;
        Ok(Some(grammar))
    }

    fn walk_instances(
        &mut self,
        entry: &Entry,
        labels: &[Labels],
        grammar: &dyn Grammar,
        oracle: &mut Oracle,
        output: &mut EventWriter<'_>,
    ) -> JobResult<()> {
        let mut spellings = self.setup.spellings.clone();
        spellings.push(Spelling::Verbatim);
        for spelling in spellings {
            for (index, (instance, labels)) in entry.instances.iter().zip(labels).enumerate() {
                let Some(text) = spell(&instance.content, spelling) else {
                    continue;
                };
                let (label, judged) = (labels.label, labels.judged);
                let outcome = InstanceOutcome::NotJudged { accepted: false };
                let row = InstanceRow {
                    index,
                    spelling,
                    label,
                    judged,
                    outcome,
                    tokens: 0,
                    masks: 0,
                    before: None,
                };
                let row = self.walk_text(&text, row, grammar, oracle, output)?;
                output.buffer(&Event::Walked(row))?;
            }
        }
        Ok(())
    }

    /// Drafts along every instance, in the first spelling, and sends the results of each.
    fn draft_instances(
        &self,
        entry: &Entry,
        grammar: &dyn Grammar,
        length: usize,
        output: &mut EventWriter<'_>,
    ) -> JobResult<()> {
        let vocabulary = &self.opened.vocabulary;
        let first = self.setup.spellings.first();
        let spellings = first.into_iter().chain([&Spelling::Verbatim]);
        for (&spelling, (index, instance)) in spellings.flat_map(|spelling| {
            entry
                .instances
                .iter()
                .enumerate()
                .map(move |instance| (spelling, instance))
        }) {
            let Some(text) = spell(&instance.content, spelling) else {
                continue;
            };
            let fallbacks = vocabulary.fallback_encodings();
            let Some(tokens) = vocabulary.encode_exactly(&text) else {
                continue;
            };
            let text = DraftText {
                instance: index,
                text: &text,
                tokens: &tokens,
                is_canonical: vocabulary.fallback_encodings() == fallbacks,
            };
            output.stage(Stage::Drafts { index, spelling })?;
            let drafts = draft_along(grammar, vocabulary, &text, length);
            let drafts = drafts.map_err(|error| JobError::Crashed {
                message: error.to_string(),
            })?;
            output.send(&Event::Drafts(Box::new(drafts)))?;
        }
        Ok(())
    }

    /// Walks one text, cold and optionally warm, sends the durations, and then judges the ends that
    /// were allowed on the way. `row` is returned unchanged for a text that the vocabulary cannot
    /// encode.
    fn walk_text(
        &mut self,
        text: &str,
        mut row: InstanceRow,
        grammar: &dyn Grammar,
        oracle: &mut Oracle,
        output: &mut EventWriter<'_>,
    ) -> JobResult<InstanceRow> {
        let vocabulary: Arc<Vocabulary> = Arc::clone(&self.opened.vocabulary);
        let Some(tokens) = vocabulary.encode_exactly(text) else {
            return Ok(row);
        };
        let spelling = row.spelling;
        output.stage(Stage::Instance {
            index: row.index,
            spelling,
        })?;
        let trace = walk::walk(grammar, &vocabulary, &tokens, &mut self.mask);
        output.send(&Event::Pass(Pass {
            spelling,
            kind: PassKind::Cold,
            samples: trace.samples.clone(),
        }))?;
        if let Halt::Crashed { message } = trace.halt {
            return Err(JobError::Crashed { message });
        }
        let mut mismatch = None;
        if self.setup.warm {
            let second_walk =
                walk::second_walk(grammar, &vocabulary, &tokens, &trace, &mut self.mask);
            output.buffer(&Event::Pass(Pass {
                spelling,
                kind: PassKind::Warm,
                samples: second_walk.samples,
            }))?;
            mismatch = second_walk.mismatch;
        }
        if let Some(WalkMismatch {
            halt: Halt::Crashed { message },
            ..
        }) = mismatch
        {
            return Err(JobError::Crashed { message });
        }
        if !trace.ends.is_empty() {
            output.stage(Stage::Oracle)?;
        }
        let wrong_end = oracle.first_wrong_end(text, &trace.ends);
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        let labels = Labels {
            label: row.label,
            judged: row.judged,
        };
        let differs = mismatch.and_then(|mismatch| mismatch.outcome(&trace.halt));
        row.outcome =
            differs.unwrap_or_else(|| walk::outcome(&trace, labels, wrong_end, &vocabulary));
        row.before = row.outcome.byte().map(|byte| last_characters(text, byte));
        (row.tokens, row.masks) = (count(tokens.len()), count(trace.samples.mask.len()));
        Ok(row)
    }
}

/// Judges each instance once: the verdict does not depend on the spelling.
fn judge_instances(entry: &Entry, oracle: &mut Oracle) -> Vec<Labels> {
    let instances = entry.instances.iter();
    instances
        .map(|instance| Labels {
            label: instance.label,
            judged: oracle.judge(&spell_compact(&instance.content)),
        })
        .collect()
}

fn report_decline(
    error: EngineError,
    after_ns: u64,
    output: &mut EventWriter<'_>,
) -> JobResult<Option<Arc<dyn Grammar>>> {
    let (class, feature, message) = match error {
        EngineError::Unsupported { feature, message } => {
            (DeclineClass::Unsupported, Some(feature), message)
        }
        EngineError::Invalid { message } => (DeclineClass::Invalid, None, message),
        EngineError::TooLarge { message } => (DeclineClass::TooLarge, None, message),
        EngineError::Crashed { message } | EngineError::Busy { message } => {
            return Err(JobError::Crashed { message });
        }
    };
    output.buffer(&Event::Declined(Declined {
        class,
        feature,
        message,
        after_ns,
    }))?;
    Ok(None)
}

/// Growth of resident memory since the start of a job.
struct PeakMemory(Option<sobench_process::memory::Resident>);

impl PeakMemory {
    fn start() -> Self {
        let before = sobench_process::memory::resident("self");
        Self(before.filter(|_| sobench_process::memory::reset_peak()))
    }

    fn growth_bytes(&self) -> Option<u64> {
        let now = sobench_process::memory::resident("self")?;
        self.0
            .map(|start| now.peak_bytes.saturating_sub(start.now_bytes))
    }

    /// Peak since the process started or since the last reset.
    fn peak_bytes(&self) -> Option<u64> {
        let now = sobench_process::memory::resident("self")?.peak_bytes;
        Some(self.0.map_or(now, |start| now.max(start.peak_bytes)))
    }
}
