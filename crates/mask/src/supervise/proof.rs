//! Children that prove errors. Knows jobs and what they say of them, no engine and no corpus.
//!
//! All engines work in the same child, since they are held against each other there. Where one of
//! them ends it, or takes too long, what was proved of it until then is kept, and the entry is
//! begun anew with the others.

use std::collections::BTreeMap;
use std::time::Duration;

use super::child::Child;
use super::turns::Turns;
use super::{Stopwatch, Supervisor, Waited, Worked, death, too_long};
use crate::corpus::Selected;
use crate::plan::Effort;
use crate::protocol::{BROKEN, Event, Job, prove_line};
use crate::prove::Proved;
use sobench_core::error::Result;
use sobench_engine::EngineName;

/// What was proved of an entry, by engine.
type Results = BTreeMap<EngineName, Proved>;

/// What came of a job that has one answer; where the child ended over it, or took too long, the
/// words for that.
type Answered = std::result::Result<Event, String>;

/// How a child's work on a job ended.
enum Ended {
    Done(Box<Child>),
    Interrupted,
    /// The child is gone, for this reason.
    Over(String),
}

impl Supervisor<'_> {
    /// Proves what can be proved of every entry, and hands the results of each to `made`, in
    /// whatever order.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(crate) fn prove(
        &self,
        entries: &[&Selected],
        effort: Effort,
        made: &mut dyn FnMut((usize, Results)) -> Result<()>,
    ) -> Result<()> {
        self.each(
            entries,
            &|child, entry: &&Selected| self.proof(child, entry, effort),
            made,
        )
    }

    /// Has jobs done that have one answer each, and hands each answer to `made` with its job's
    /// number, in whatever order.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(crate) fn ask(
        &self,
        jobs: &[(usize, Job)],
        made: &mut dyn FnMut((usize, Answered)) -> Result<()>,
    ) -> Result<()> {
        let one = |child, (number, job): &(usize, Job)| {
            Ok(self
                .answer(child, job)
                .map(|(answer, left)| ((*number, answer), left)))
        };
        self.each(jobs, &one, made)
    }

    fn proof(
        &self,
        child: Box<Child>,
        entry: &Selected,
        effort: Effort,
    ) -> Result<Option<Worked<(usize, Results)>>> {
        let mut results = Results::new();
        let mut without = Vec::new();
        let mut idle = Some(child);
        while without.len() < self.setup.prove.len() {
            let Some(child) = self.child_or_new(idle.take())? else {
                return Ok(None);
            };
            child.send(prove_line(&entry.json, effort, &without));
            // `None` is the turn of our own oracles.
            let mut turns = Turns::new(self.timeout, None);
            let ended = self.listen(child, &mut |event, now| {
                match event {
                    Event::At(engine) => turns.begin(engine, now),
                    Event::SoFar { engine, proved } => drop(results.insert(engine, proved)),
                    _ => return None,
                }
                Some(turns.deadline())
            });
            let words = match ended {
                Ended::Done(child) => return Ok(Some(((entry.index, results), Some(child)))),
                Ended::Interrupted => return Ok(None),
                Ended::Over(words) => words,
            };
            let who = if turns.turn().is_none() {
                "our own evaluator: "
            } else {
                ""
            };
            let is_over = |name: &EngineName| {
                !without.contains(name) && turns.turn().is_none_or(|engine| engine == *name)
            };
            let over: Vec<EngineName> = self.setup.prove.iter().copied().filter(is_over).collect();
            for engine in over {
                results.entry(engine).or_default().stopped = Some(format!("{who}{words}"));
                without.push(engine);
            }
        }
        Ok(Some(((entry.index, results), None)))
    }

    fn answer(&self, child: Box<Child>, job: &Job) -> Option<Worked<Answered>> {
        child.send(
            serde_json::to_string(job).expect("a job holds only strings, numbers and JSON values"),
        );
        let mut answer = None;
        // The limit is one on each step.
        let mut since = Duration::ZERO;
        let ended = self.listen(child, &mut |event, now| {
            match event {
                Event::At(_) => since = now,
                event => answer = Some(event),
            }
            Some(since.saturating_add(self.timeout))
        });
        match ended {
            Ended::Done(child) => Some((answer.ok_or_else(|| "no answer".to_owned()), Some(child))),
            Ended::Interrupted => None,
            Ended::Over(words) => Some((Err(words), None)),
        }
    }

    /// Takes in what a child says until it is done, or has to be. `taken` gets every event with its
    /// time on the watch, and returns the next deadline there; `None` for an event that has no
    /// place.
    fn listen(
        &self,
        child: Box<Child>,
        taken: &mut dyn FnMut(Event, Duration) -> Option<Duration>,
    ) -> Ended {
        let watch = Stopwatch::start();
        let mut deadline = self.timeout;
        let words = loop {
            match self.wait(&child, watch, deadline) {
                Waited::Event(event) => match *event {
                    Event::Done(_) => return Ended::Done(child),
                    Event::Crashed { words } | Event::Unreadable { words } => break words,
                    event => match taken(event, watch.elapsed()) {
                        Some(next) => deadline = next,
                        None => break BROKEN.to_owned(),
                    },
                },
                Waited::Interrupted => return Ended::Interrupted,
                Waited::TimedOut => break too_long(self.timeout),
                Waited::Ended => return Ended::Over(death::cause(&child.bury()).1),
            }
        };
        child.kill();
        Ended::Over(words)
    }
}
