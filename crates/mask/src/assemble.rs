//! Puts a row together from what a child says of it, be it all or not. Knows no process and no
//! clock.

use super::corpus::Selected;
use super::protocol::{BROKEN, Event, Heat, Pass, Samples};
use super::row::{PassTimes, Row, SpellingTimes, Stage, StopCause, Stopped};
use sobench_engine::EngineName;

/// Characters of a library's words that are kept in a row.
const MAX_WORDS: usize = 2000;

/// A row that is not complete yet.
pub(super) struct Assembly {
    row: Row,
    stage: Stage,
    peak_rss_bytes: Option<u64>,
}

/// Whose time passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// Our own evaluator's.
    Oracle,
    Engine,
}

/// What an event meant for a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    GoesOn,
    /// What follows is this one's time.
    Turn(Turn),
    Complete,
    /// The library panicked, or the event has no place here.
    Crashed(String),
    /// The child could not read its job.
    Unreadable(String),
}

impl Assembly {
    pub(super) fn new(entry: &Selected, engine: EngineName) -> Self {
        let row = Row {
            index: entry.index,
            entry: entry.name.clone(),
            engine,
            tags: entry.tags.clone(),
            kind: entry.kind.to_owned(),
            ..Row::default()
        };
        Self {
            row,
            stage: Stage::Oracle,
            peak_rss_bytes: None,
        }
    }

    /// Takes in an event.
    pub(super) fn event(&mut self, event: Event) -> Progress {
        match event {
            Event::Stage(stage) => {
                self.stage = stage;
                return Progress::Turn(if stage == Stage::Oracle {
                    Turn::Oracle
                } else {
                    Turn::Engine
                });
            }
            Event::Route(route) => self.row.route = Some(route),
            Event::Declined(mut declined) => {
                declined.words = cut(&declined.words);
                self.row.declined = Some(declined);
            }
            Event::Compiled(compile) => self.row.compile = Some(compile),
            Event::Pass(pass) => self.pass(&pass),
            Event::Walked(row) => self.row.instances.push(row),
            Event::Crashed { words } => return Progress::Crashed(words),
            Event::Unreadable { words } => return Progress::Unreadable(words),
            Event::Done(done) => {
                if let Some(compile) = &mut self.row.compile {
                    compile.peak_bytes = done.peak_bytes;
                }
                self.peak_rss_bytes = done.peak_rss_bytes;
                return Progress::Complete;
            }
            Event::Ready(_)
            | Event::CannotOpen { .. }
            | Event::Batch(_)
            | Event::At(_)
            | Event::SoFar { .. }
            | Event::Shrunk(_)
            | Event::Checked(_) => return Progress::Crashed(BROKEN.to_owned()),
        }
        Progress::GoesOn
    }

    fn pass(&mut self, pass: &Pass) {
        let spelling = pass.spelling;
        if pass.samples.mask.is_empty() {
            return;
        }
        let place = self
            .row
            .times
            .iter()
            .position(|times| times.spelling == spelling)
            .unwrap_or_else(|| {
                self.row.times.push(SpellingTimes {
                    spelling,
                    cold: PassTimes::default(),
                    warm: PassTimes::default(),
                });
                self.row.times.len() - 1
            });
        let times = &mut self.row.times[place];
        record(
            if pass.heat == Heat::Cold {
                &mut times.cold
            } else {
                &mut times.warm
            },
            &pass.samples,
        );
    }

    /// The row of a job that was done to its end, and the most resident memory of the child during
    /// it.
    pub(super) fn complete(self) -> (Row, Option<u64>) {
        (self.row, self.peak_rss_bytes)
    }

    /// The row of a job that was not.
    pub(super) fn stopped(mut self, cause: StopCause, words: &str, after_ns: u64) -> Row {
        self.row.stopped = Some(Stopped {
            cause,
            stage: self.stage,
            words: cut(words),
            after_ns,
        });
        self.row
    }
}

fn record(times: &mut PassTimes, samples: &Samples) {
    for (position, &ns) in samples.mask.iter().enumerate() {
        times.mask.record(ns);
        times.slope.record(position, ns);
    }
    samples
        .commit
        .iter()
        .for_each(|&ns| times.commit.record(ns));
    // The last mask of a walk may have no commit: the token was not allowed, or it was the mask of
    // the end.
    samples
        .mask
        .iter()
        .zip(&samples.commit)
        .for_each(|(mask, commit)| times.step.record(mask + commit));
}

fn cut(words: &str) -> String {
    match words.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Done;
    use crate::row::{Compile, InstanceOutcome, InstanceRow, Spelling};

    fn entry() -> Selected {
        Selected {
            index: 3,
            name: "a.json".into(),
            tags: vec!["enum".into()],
            kind: "json",
            json: "{}".into(),
        }
    }

    fn walked(spelling: Spelling, mask: &[u64]) -> [Event; 3] {
        let outcome = InstanceOutcome::Pass;
        let row = InstanceRow {
            index: 0,
            spelling,
            label: None,
            judged: Some(true),
            outcome,
            tokens: 1,
            masks: 2,
            before: None,
        };
        let pass = |heat| {
            Event::Pass(Pass {
                spelling,
                heat,
                samples: Samples {
                    mask: mask.to_vec(),
                    commit: vec![5],
                },
            })
        };
        [pass(Heat::Cold), pass(Heat::Warm), Event::Walked(row)]
    }

    #[test]
    fn a_whole_row_has_everything_and_a_stopped_one_what_it_had() {
        let compile = Compile {
            cold_ns: 1,
            first_mask_ns: 2,
            cached_ns: 3,
            grammar_bytes: None,
            peak_bytes: Some(1),
        };
        let stage = Stage::Instance {
            index: 1,
            spelling: Spelling::Compact,
        };
        let mut events = vec![
            Event::Stage(Stage::Oracle),
            Event::Stage(Stage::Compile),
            Event::Compiled(compile),
        ];
        for (spelling, masks) in [
            (Spelling::Compact, &[10, 20][..]),
            (Spelling::Verbatim, &[]),
            (Spelling::Compact, &[30]),
        ] {
            events.extend(walked(spelling, masks));
        }
        events.push(Event::Stage(stage));
        let assemble = || {
            let mut assembly = Assembly::new(&entry(), EngineName::Guidance);
            let progress: Vec<Progress> = events
                .iter()
                .cloned()
                .map(|event| assembly.event(event))
                .collect();
            assert_eq!(
                progress[..2],
                [Progress::Turn(Turn::Oracle), Progress::Turn(Turn::Engine)]
            );
            assembly
        };
        let mut assembly = assemble();
        let done = Done {
            peak_bytes: Some(9),
            peak_rss_bytes: Some(99),
        };
        assert_eq!(assembly.event(Event::Done(done)), Progress::Complete);
        let (row, peak) = assembly.complete();
        assert_eq!(
            (row.index, row.instances.len(), row.times.len(), peak),
            (3, 3, 1, Some(99))
        );
        assert_eq!(
            row.times[0].cold.mask.iter().collect::<Vec<_>>(),
            [(10, 1), (20, 1), (30, 1)]
        );
        assert_eq!(row.times[0].warm.commit.count(), 2);
        assert_eq!(row.compile.unwrap().peak_bytes, Some(9));
        let long = "é".repeat(MAX_WORDS + 1);
        let row = assemble().stopped(StopCause::Timeout, &long, 7);
        let stopped = row.stopped.unwrap();
        assert_eq!(
            (
                stopped.stage,
                stopped.after_ns,
                stopped.words.chars().count()
            ),
            (stage, 7, MAX_WORDS + 1)
        );
        assert_eq!((row.instances.len(), row.compile), (3, Some(compile)));
        let mut cut_short = assemble();
        cut_short.event(walked(Spelling::Compact, &[40])[0].clone());
        assert_eq!(
            cut_short.event(Event::Stage(Stage::Oracle)),
            Progress::Turn(Turn::Oracle)
        );
        let row = cut_short.stopped(StopCause::Timeout, "", 7);
        assert_eq!(
            (
                row.instances.len(),
                row.times[0].cold.mask.count(),
                row.times[0].warm.mask.count()
            ),
            (3, 4, 3)
        );
        let crash = Event::Crashed {
            words: "boom".into(),
        };
        assert_eq!(assemble().event(crash), Progress::Crashed("boom".into()));
    }
}
