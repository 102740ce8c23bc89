//! Builds a row from the events of a child process.

use super::corpus::Selected;
use super::protocol::{BROKEN, Event, Pass, PassKind, Samples};
use super::row::{PassTimes, Row, SpellingTimes, Stage, StopCause, Stopped};
use sobench_engine::EngineName;

/// Maximum length of a library's message in a row.
const MAX_MESSAGE_CHARS: usize = 2000;

/// A row under construction.
pub(super) struct RowBuilder {
    row: Row,
    stage: Stage,
    peak_rss_bytes: Option<u64>,
}

/// The component whose time limit is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimeOwner {
    /// The evaluator of sobench.
    Oracle,
    Engine,
    /// The engine with drafts, which take several times as long as the walks.
    Drafts,
}

/// The effect of an event on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Continue,
    /// The time limit of this component is running from now on.
    TimeOwner(TimeOwner),
    Complete,
    /// The library panicked, or the event violates the protocol.
    Crashed(String),
    /// The child could not parse its job.
    Unreadable(String),
}

impl RowBuilder {
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

    /// Processes an event.
    pub(super) fn event(&mut self, event: Event) -> Progress {
        match event {
            Event::Stage(stage) => {
                self.stage = stage;
                return Progress::TimeOwner(match stage {
                    Stage::Oracle => TimeOwner::Oracle,
                    Stage::Drafts { .. } => TimeOwner::Drafts,
                    _ => TimeOwner::Engine,
                });
            }
            Event::Route(route) => self.row.route = Some(route),
            Event::Declined(mut declined) => {
                declined.message = truncate(&declined.message);
                self.row.declined = Some(declined);
            }
            Event::Compiled(compile) => self.row.compile = Some(compile),
            Event::Pass(pass) => self.pass(&pass),
            Event::Walked(row) => self.row.instances.push(row),
            Event::Drafts(drafts) => self.row.drafts.get_or_insert_default().merge(&drafts),
            Event::Crashed { message } => return Progress::Crashed(message),
            Event::Unreadable { message } => return Progress::Unreadable(message),
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
            | Event::ActiveEngine(_)
            | Event::ProvedSoFar { .. }
            | Event::Shrunk(_)
            | Event::Checked(_) => return Progress::Crashed(BROKEN.to_owned()),
        }
        Progress::Continue
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
            if pass.kind == PassKind::Cold {
                &mut times.cold
            } else {
                &mut times.warm
            },
            &pass.samples,
        );
    }

    /// The row of a completed job, and the peak resident memory of the child during it.
    pub(super) fn complete(self) -> (Row, Option<u64>) {
        (self.row, self.peak_rss_bytes)
    }

    /// The row of a job that was stopped.
    pub(super) fn stopped(mut self, cause: StopCause, message: &str, after_ns: u64) -> Row {
        self.row.stopped = Some(Stopped {
            cause,
            stage: self.stage,
            message: truncate(message),
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
    // The last mask of a walk may have no commit: the token was refused, or it was the mask at the
    // end.
    samples
        .mask
        .iter()
        .zip(&samples.commit)
        .for_each(|(mask, commit)| times.step.record(mask + commit));
}

fn truncate(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::protocol::Done;
    use crate::mask::row::{Compile, InstanceOutcome, InstanceRow, Spelling};

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
        let pass = |kind| {
            Event::Pass(Pass {
                spelling,
                kind,
                samples: Samples {
                    mask: mask.to_vec(),
                    commit: vec![5],
                },
            })
        };
        [
            pass(PassKind::Cold),
            pass(PassKind::Warm),
            Event::Walked(row),
        ]
    }

    #[test]
    fn complete_rows_have_all_data_and_stopped_rows_keep_partial_data() {
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
        let build = || {
            let mut builder = RowBuilder::new(&entry(), EngineName::Guidance);
            let progress: Vec<Progress> = events
                .iter()
                .cloned()
                .map(|event| builder.event(event))
                .collect();
            assert_eq!(
                progress[..2],
                [
                    Progress::TimeOwner(TimeOwner::Oracle),
                    Progress::TimeOwner(TimeOwner::Engine)
                ]
            );
            builder
        };
        let mut builder = build();
        let done = Done {
            peak_bytes: Some(9),
            peak_rss_bytes: Some(99),
        };
        assert_eq!(builder.event(Event::Done(done)), Progress::Complete);
        let (row, peak) = builder.complete();
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
        let long = "é".repeat(MAX_MESSAGE_CHARS + 1);
        let row = build().stopped(StopCause::Timeout, &long, 7);
        let stopped = row.stopped.unwrap();
        assert_eq!(
            (
                stopped.stage,
                stopped.after_ns,
                stopped.message.chars().count()
            ),
            (stage, 7, MAX_MESSAGE_CHARS + 1)
        );
        assert_eq!((row.instances.len(), row.compile), (3, Some(compile)));
        let mut interrupted = build();
        interrupted.event(walked(Spelling::Compact, &[40])[0].clone());
        assert_eq!(
            interrupted.event(Event::Stage(Stage::Oracle)),
            Progress::TimeOwner(TimeOwner::Oracle)
        );
        let row = interrupted.stopped(StopCause::Timeout, "", 7);
        assert_eq!(
            (
                row.instances.len(),
                row.times[0].cold.mask.count(),
                row.times[0].warm.mask.count()
            ),
            (3, 4, 3)
        );
        let crash = Event::Crashed {
            message: "boom".into(),
        };
        assert_eq!(build().event(crash), Progress::Crashed("boom".into()));
    }
}
