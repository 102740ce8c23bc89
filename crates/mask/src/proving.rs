//! The jobs of a child that proves errors: an entry under all engines, a finding made small, a
//! finding checked again. Knows no process and no file.

use std::time::Duration;

use super::job::JobError;
use super::protocol::{Done, Event, Job};
use super::prove::Proved;
use super::prove::contender::Bench;
use super::prove::prover::{Tools, Watch, prove};
use super::prove::shrink::{Limits, shrink, stands};
use super::prove::sorted::Sorted;
use super::prove::walks::Guide;
use super::prove::witness::Standing;
use super::worker::{Opened, Output};
use sobench_engine::{EngineName, Vocabulary};

/// What every proof over a vocabulary needs; made when the first job comes.
pub(super) struct Ready {
    sorted: Sorted,
    guide: Guide,
}

impl Ready {
    fn new(vocabulary: &Vocabulary) -> Self {
        Self {
            sorted: Sorted::new(vocabulary),
            guide: Guide::new(vocabulary),
        }
    }

    fn tools<'a>(
        &'a self,
        vocabulary: &'a Vocabulary,
        by_bytes: Option<&'a Tools<'a>>,
    ) -> Tools<'a> {
        Tools {
            vocabulary,
            sorted: &self.sorted,
            guide: &self.guide,
            by_bytes,
        }
    }
}

/// Enough for what a schema of some pages comes to.
const SHRUNK_WITHIN: Limits = Limits {
    tries: 400,
    time: Duration::from_secs(20),
};

/// Does a job; whatever is known is sent as soon as it is.
pub(super) fn run(opened: &Opened, job: &Job, output: &mut Output<'_>) -> Result<(), JobError> {
    let [ready, by_bytes] = opened
        .ready
        .get_or_init(|| [&opened.vocabulary, &opened.bytes].map(|it| Ready::new(it)));
    let by_bytes = by_bytes.tools(&opened.bytes, None);
    let tools = ready.tools(&opened.vocabulary, Some(&by_bytes));
    let mut telling = Telling {
        output,
        at: None,
        gone: false,
    };
    let of = |name: EngineName| opened.benches.iter().find(|it| it.name == name);
    match job {
        Job::Prove(job) => {
            let benches: Vec<&Bench> = opened
                .benches
                .iter()
                .filter(|it| !job.without.contains(&it.name))
                .collect();
            prove(&benches, &tools, &job.entry, job.effort, &mut telling);
        }
        Job::Shrink(job) => {
            let case = job.case.clone();
            let shrunk = of(job.engine)
                .and_then(|engine| shrink(engine, &tools, case, SHRUNK_WITHIN, &mut telling));
            telling.keep(&Event::Shrunk(shrunk));
        }
        Job::Check(job) => {
            telling.at(Some(job.engine));
            let not_open = || Standing::Unknown {
                why: format!("{} is not open", job.engine.name()),
            };
            telling.keep(&Event::Checked(
                of(job.engine).map_or_else(not_open, |engine| stands(engine, &tools, &job.case)),
            ));
        }
        Job::Entry(_) | Job::Batch(_) => {}
    }
    if telling.gone {
        return Err(JobError::Gone);
    }
    output.send(&Event::Done(Done::default()))
}

/// Tells the parent whose work it is, whenever that changes.
struct Telling<'a, 'o> {
    output: &'a mut Output<'o>,
    at: Option<Option<EngineName>>,
    /// Nobody reads any more what is said.
    gone: bool,
}

impl Telling<'_, '_> {
    fn keep(&mut self, event: &Event) {
        self.gone |= self.output.keep(event).is_err();
    }
}

impl Watch for Telling<'_, '_> {
    fn at(&mut self, engine: Option<EngineName>) {
        if self.at != Some(engine) {
            self.at = Some(engine);
            self.gone |= self.output.send(&Event::At(engine)).is_err();
        }
    }

    fn so_far(&mut self, engine: EngineName, proved: &Proved) {
        self.keep(&Event::SoFar {
            engine,
            proved: proved.clone(),
        });
    }
}
