//! Children that prove errors. Knows jobs and what they say of them, no engine and no corpus.
//!
//! All engines work in the same child, since they are held against each other there. Where one of them ends it, or takes too long, what was
//! proved of it until then is kept, and the entry is begun anew with the others.

use std::collections::BTreeMap;
use std::time::Duration;

use super::child::Child;
use super::{Stopwatch, Supervisor, Waited, Worked, death};
use crate::engine::EngineName;
use crate::error::Result;
use crate::mask::corpus::Selected;
use crate::mask::plan::Effort;
use crate::mask::protocol::{Event, Job, prove_line};
use crate::mask::prove::Proved;

/// What was proved of an entry, by engine.
type Results = BTreeMap<EngineName, Proved>;

/// What came of a job that has one answer.
pub(in crate::mask) enum Answered {
    Event(Box<Event>),
    /// The child ended over it, or took too long, in these words.
    Failed(String),
}

/// How a child's work on an entry ended.
enum Ended {
    Done,
    Interrupted,
    /// With this engine at work; none where it was our own oracles.
    Over(Option<EngineName>, Cause),
}

/// Why a child's work ended early.
enum Cause {
    Words(String),
    /// It ended by itself.
    Died,
}

impl Supervisor<'_> {
    /// Proves what can be proved of every entry, and hands the results of each to `made`, in whatever order.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(in crate::mask) fn prove(
        &self,
        entries: &[&Selected],
        effort: Effort,
        made: &mut dyn FnMut((usize, Results)) -> Result<()>,
    ) -> Result<()> {
        self.each(entries, &|child, entry: &&Selected| self.proof(child, entry, effort), made)
    }

    /// Has jobs done that have one answer each, and hands each answer to `made` with its job's place, in whatever order.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(in crate::mask) fn ask(&self, jobs: &[Job], made: &mut dyn FnMut((usize, Answered)) -> Result<()>) -> Result<()> {
        let numbered: Vec<(usize, &Job)> = jobs.iter().enumerate().collect();
        self.each(&numbered, &|child, (place, job)| Ok(self.answer(child, job)?.map(|(it, left)| ((*place, it), left))), made)
    }

    fn proof(&self, child: Box<Child>, entry: &Selected, effort: Effort) -> Result<Option<Worked<(usize, Results)>>> {
        let mut results = Results::new();
        let mut without = Vec::new();
        let mut idle = Some(child);
        while without.len() < self.setup.prove.len() {
            let Some(child) = idle.take().map_or_else(|| self.reopen(), |child| Ok(Some(child)))? else { return Ok(None) };
            child.send(prove_line(&entry.json, effort, &without));
            match self.listen(&child, &mut results) {
                Ended::Done => return Ok(Some(((entry.index, results), Some(child)))),
                Ended::Interrupted => return Ok(None),
                Ended::Over(engine, cause) => {
                    let words = match cause {
                        Cause::Words(words) => {
                            child.kill();
                            words
                        }
                        Cause::Died => death::cause(&child.bury()).1,
                    };
                    let who = if engine.is_none() { "our own evaluator: " } else { "" };
                    let words = format!("{who}{words}");
                    let left = self.setup.prove.iter().filter(|it| !without.contains(it));
                    let over: Vec<EngineName> = left.filter(|it| engine.is_none_or(|engine| engine == **it)).copied().collect();
                    for engine in over {
                        results.entry(engine).or_default().stopped = Some(words.clone());
                        without.push(engine);
                    }
                }
            }
        }
        Ok(Some(((entry.index, results), None)))
    }

    /// Takes in what a child says until it is done, or has to be.
    fn listen(&self, child: &Child, results: &mut Results) -> Ended {
        let watch = Stopwatch::start();
        let mut spent: BTreeMap<Option<EngineName>, Duration> = BTreeMap::new();
        let (mut at, mut since) = (None, Duration::ZERO);
        loop {
            let deadline = since + self.timeout.saturating_sub(spent.get(&at).copied().unwrap_or_default());
            let words = match self.wait(child, watch, deadline) {
                Waited::Event(event) => match *event {
                    Event::At(engine) => {
                        *spent.entry(at).or_default() += watch.elapsed().saturating_sub(since);
                        (at, since) = (engine, watch.elapsed());
                        continue;
                    }
                    Event::SoFar { engine, proved } => {
                        results.insert(engine, proved);
                        continue;
                    }
                    Event::Done(_) => return Ended::Done,
                    Event::Crashed { words } | Event::Unreadable { words } => words,
                    _ => "the child process broke the protocol".to_owned(),
                },
                Waited::Garbage => "the child process broke the protocol".to_owned(),
                Waited::Interrupted => return Ended::Interrupted,
                Waited::TimedOut => format!("took longer than {} s", self.timeout.as_secs_f64()),
                Waited::Ended if self.is_stopped() => return Ended::Interrupted,
                Waited::Ended => return Ended::Over(at, Cause::Died),
            };
            return Ended::Over(at, Cause::Words(words));
        }
    }

    fn answer(&self, child: Box<Child>, job: &Job) -> Result<Option<Worked<Answered>>> {
        child.send(serde_json::to_string(job).expect("a job holds only strings, numbers and JSON values"));
        // The limit is one on each step.
        let mut watch = Stopwatch::start();
        let mut answer = None;
        loop {
            let words = match self.wait(&child, watch, self.timeout) {
                Waited::Event(event) => match *event {
                    Event::At(_) => {
                        watch = Stopwatch::start();
                        continue;
                    }
                    Event::Done(_) => {
                        let answer = answer.unwrap_or_else(|| Answered::Failed("no answer".to_owned()));
                        return Ok(Some((answer, Some(child))));
                    }
                    Event::Crashed { words } | Event::Unreadable { words } => words,
                    event => {
                        answer = Some(Answered::Event(Box::new(event)));
                        continue;
                    }
                },
                Waited::Garbage => "the child process broke the protocol".to_owned(),
                Waited::Interrupted => return Ok(None),
                Waited::TimedOut => format!("took longer than {} s", self.timeout.as_secs_f64()),
                Waited::Ended if self.is_stopped() => return Ok(None),
                Waited::Ended => {
                    let words = death::cause(&child.bury()).1;
                    return Ok(Some((Answered::Failed(words), None)));
                }
            };
            child.kill();
            return Ok(Some((Answered::Failed(words), None)));
        }
    }
}
