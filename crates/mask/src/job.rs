//! Measures one entry under one engine: our evaluator first, then compile, first mask, cached
//! compile, then every instance in every spelling. Knows no process and no file.
//!
//! What is cold and what is not: the compile is the first one of its constraint, over a vocabulary
//! whose tables are ready. The first mask is the coldest of all. All spellings share one grammar,
//! whose tables grow as it is used: the first walk of the first spelling is colder than those after
//! it. The warm walk of an instance follows its cold one, as soon as the durations of that are
//! sent.

use std::sync::Arc;

use super::clock::measure;
use super::corpus::Entry;
use super::memory;
use super::oracle::Oracle;
use super::protocol::{Done, Event, Heat, Pass, Setup};
use super::row::{
    BEFORE_MAX_CHARS, Compile, DeclineClass, Declined, InstanceOutcome, InstanceRow, RouteRow,
    Spelling, Stage,
};
use super::spelling::{spell, spell_compact};
use super::walk::{self, Fault, Halt, Labels};
use super::worker::{Opened, Output};
use sobench_core::constraint::Constraint;
use sobench_engine::cache::CompileCache;
use sobench_engine::{EngineError, Grammar, TokenMask, Vocabulary};

/// Why a job was not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JobError {
    /// Nobody reads what we say.
    Gone,
    /// The library says that it panicked.
    Crashed { words: String },
}

type JobResult<T> = std::result::Result<T, JobError>;

/// An engine ready to be measured.
pub(super) struct Measuring {
    pub(super) opened: Opened,
    pub(super) setup: Setup,
    /// Used for every mask, as a server would.
    mask: TokenMask,
}

impl Measuring {
    pub(super) fn new(opened: Opened, setup: Setup) -> Self {
        let mask = TokenMask::new(opened.vocabulary.len());
        Self {
            opened,
            setup,
            mask,
        }
    }

    /// Measures an entry; whatever is known is sent as soon as it is.
    pub(super) fn entry(&mut self, entry: &Entry, output: &mut Output<'_>) -> JobResult<()> {
        output.stage(Stage::Oracle)?;
        let constraint = Arc::new(entry.constraint.clone());
        let mut oracle = Oracle::new(Arc::clone(&constraint), self.setup.assert_formats);
        let labels = labels(entry, &mut oracle);
        if let Some(route) = self.opened.engine.route(&constraint) {
            output.keep(&Event::Route(RouteRow {
                engine: route.engine,
                why: route.why,
            }))?;
        }
        let peak = Peak::start();
        if let Some(grammar) = self.compile(&constraint, &peak, output)? {
            self.instances(entry, &labels, &*grammar, &mut oracle, output)?;
        }
        let (peak_bytes, peak_rss_bytes) = (peak.above_start(), peak.most());
        output.send(&Event::Done(Done {
            peak_bytes,
            peak_rss_bytes,
        }))
    }

    /// The compiled constraint; `None` where the engine declined it, which a failure of the first
    /// mask counts as: no answer could ever begin.
    fn compile(
        &mut self,
        constraint: &Constraint,
        peak: &Peak,
        output: &mut Output<'_>,
    ) -> JobResult<Option<Arc<dyn Grammar>>> {
        let fingerprint = constraint.fingerprint();
        let cache = CompileCache::new(Arc::clone(&self.opened.engine), 1);
        output.stage(Stage::Compile)?;
        let (compiled, cold_ns) = measure(|| cache.compile(&fingerprint, constraint));
        let grammar = match compiled {
            Ok(grammar) => grammar,
            Err(error) => return declined(error, cold_ns, output),
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
            Err(error) => return declined(error, cold_ns.saturating_add(first_mask_ns), output),
        }
        output.stage(Stage::Cached)?;
        let (_again, cached_ns) = measure(|| cache.compile(&fingerprint, constraint));
        let peak_bytes = peak.above_start();
        let compile = Compile {
            cold_ns,
            first_mask_ns,
            cached_ns,
            grammar_bytes: grammar.memory_bytes(),
            peak_bytes,
        };
        output.keep(&Event::Compiled(compile))?;
        Ok(Some(grammar))
    }

    fn instances(
        &mut self,
        entry: &Entry,
        labels: &[Labels],
        grammar: &dyn Grammar,
        oracle: &mut Oracle,
        output: &mut Output<'_>,
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
                let row = self.walked(&text, row, grammar, oracle, output)?;
                output.keep(&Event::Walked(row))?;
            }
        }
        Ok(())
    }

    /// Walks one text, cold and perhaps warm, sends the durations, and then has the ends judged
    /// that were allowed on the way. `row` says nothing of the walk yet; it stays so for a text
    /// that the vocabulary cannot spell, for which no engine is blamed.
    fn walked(
        &mut self,
        text: &str,
        mut row: InstanceRow,
        grammar: &dyn Grammar,
        oracle: &mut Oracle,
        output: &mut Output<'_>,
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
            heat: Heat::Cold,
            samples: trace.samples.clone(),
        }))?;
        if let Halt::Crashed { words } = trace.halt {
            return Err(JobError::Crashed { words });
        }
        let mut fault = None;
        if self.setup.warm {
            let again = walk::again(grammar, &vocabulary, &tokens, &trace, &mut self.mask);
            output.keep(&Event::Pass(Pass {
                spelling,
                heat: Heat::Warm,
                samples: again.samples,
            }))?;
            fault = again.fault;
        }
        if let Some(Fault {
            halt: Halt::Crashed { words },
            ..
        }) = fault
        {
            return Err(JobError::Crashed { words });
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
        let differs = fault.and_then(|fault| fault.outcome(&trace.halt));
        row.outcome =
            differs.unwrap_or_else(|| walk::outcome(&trace, labels, wrong_end, &vocabulary));
        row.before = row.outcome.byte().map(|byte| end_of(text, byte));
        (row.tokens, row.masks) = (count(tokens.len()), count(trace.samples.mask.len()));
        Ok(row)
    }
}

/// The end of the first `bytes` of a text; what is left of a character in the middle of which they
/// end is not in it.
fn end_of(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let before = &text[..end.unwrap_or(0)];
    let start = before
        .char_indices()
        .rev()
        .nth(BEFORE_MAX_CHARS - 1)
        .map_or(0, |(start, _)| start);
    before[start..].to_owned()
}

/// Judges each instance once: all spellings of a value have the same verdict.
fn labels(entry: &Entry, oracle: &mut Oracle) -> Vec<Labels> {
    let instances = entry.instances.iter();
    instances
        .map(|it| Labels {
            label: it.label,
            judged: oracle.judge(&spell_compact(&it.content)),
        })
        .collect()
}

fn declined(
    error: EngineError,
    after_ns: u64,
    output: &mut Output<'_>,
) -> JobResult<Option<Arc<dyn Grammar>>> {
    let (class, feature, words) = match error {
        EngineError::Unsupported { feature, words } => {
            (DeclineClass::Unsupported, Some(feature), words)
        }
        EngineError::Invalid { words } => (DeclineClass::Invalid, None, words),
        EngineError::TooLarge { words } => (DeclineClass::TooLarge, None, words),
        EngineError::Crashed { words } | EngineError::Busy { words } => {
            return Err(JobError::Crashed { words });
        }
    };
    output.keep(&Event::Declined(Declined {
        class,
        feature,
        words,
        after_ns,
    }))?;
    Ok(None)
}

/// How far memory rises above where it was.
struct Peak(Option<memory::Resident>);

impl Peak {
    fn start() -> Self {
        let before = memory::resident("self");
        Self(before.filter(|_| memory::forget_peak()))
    }

    fn above_start(&self) -> Option<u64> {
        let now = memory::resident("self")?;
        self.0
            .map(|start| now.peak_bytes.saturating_sub(start.now_bytes))
    }

    /// The most since the process began or a job before this one forgot its own.
    fn most(&self) -> Option<u64> {
        let now = memory::resident("self")?.peak_bytes;
        Some(self.0.map_or(now, |start| now.max(start.peak_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_before_a_wrong_mask_is_told_by_its_end() {
        let long = "é".repeat(100);
        for (text, bytes, expected) in [
            ("abc", 2, "ab"),
            ("abc", 0, ""),
            ("abc", 9, "abc"),
            ("aé", 2, "a"),
            (&long, 200, &"é".repeat(BEFORE_MAX_CHARS)),
        ] {
            assert_eq!(end_of(text, bytes), expected);
        }
    }
}
