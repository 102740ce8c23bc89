//! Proof jobs in child processes.
//!
//! All engines run in the same child, since the search compares them. If one of them ends the child
//! or exceeds its time limit, its results so far are kept, and the entry is restarted with the
//! other engines.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Child;
use super::time_budget::TimeBudget;
use super::{JobOutcome, Stopwatch, Supervisor, WaitResult, timeout_message};
use crate::mask::corpus::Selected;
use crate::mask::plan::Effort;
use crate::mask::protocol::{BROKEN, Event, Job, prove_line};
use crate::mask::prove::Proved;
use sobench_core::error::Result;
use sobench_engine::EngineName;

/// Proof results of an entry, by engine.
type ProofResults = BTreeMap<EngineName, Proved>;

/// The answer of a job, or the reason why the child ended or was stopped.
type JobAnswer = std::result::Result<Event, String>;

/// How a job ended.
enum JobEnd {
    Done(Box<Child>),
    Interrupted,
    /// The child ended, for this reason.
    Failed(String),
}

impl Supervisor<'_> {
    /// Searches every entry for errors and passes the results of each to `on_result`, in order of
    /// completion.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(crate) fn prove(
        &self,
        entries: &[&Selected],
        effort: Effort,
        on_result: &mut dyn FnMut((usize, ProofResults)) -> Result<()>,
    ) -> Result<()> {
        self.run_each(
            entries,
            &|child, entry: &&Selected| self.prove_entry(child, entry, effort),
            on_result,
        )
    }

    /// Runs jobs with one answer each and passes each answer with its job's number to `on_result`,
    /// in order of completion.
    ///
    /// # Errors
    /// As [`Supervisor::run`].
    pub(crate) fn run_jobs(
        &self,
        jobs: &[(usize, Job)],
        on_result: &mut dyn FnMut((usize, JobAnswer)) -> Result<()>,
    ) -> Result<()> {
        let run_job = |child, (number, job): &(usize, Job)| {
            Ok(self
                .run_job(child, job)
                .map(|(answer, left)| ((*number, answer), left)))
        };
        self.run_each(jobs, &run_job, on_result)
    }

    fn prove_entry(
        &self,
        child: Box<Child>,
        entry: &Selected,
        effort: Effort,
    ) -> Result<Option<JobOutcome<(usize, ProofResults)>>> {
        let mut results = ProofResults::new();
        let mut excluded = Vec::new();
        let mut idle = Some(child);
        while excluded.len() < self.setup.prove.len() {
            let Some(child) = self.child_or_new(idle.take())? else {
                return Ok(None);
            };
            child.send(prove_line(&entry.json, effort, &excluded));
            // `None` stands for the oracles.
            let mut budget = TimeBudget::new(self.timeout, None);
            let ended = self.receive_events(child, &mut |event, now| {
                match event {
                    Event::ActiveEngine(engine) => budget.switch_to(engine, now),
                    Event::ProvedSoFar { engine, proved } => drop(results.insert(engine, proved)),
                    _ => return None,
                }
                Some(budget.deadline())
            });
            let message = match ended {
                JobEnd::Done(child) => return Ok(Some(((entry.index, results), Some(child)))),
                JobEnd::Interrupted => return Ok(None),
                JobEnd::Failed(message) => message,
            };
            let prefix = if budget.current().is_none() {
                "evaluator: "
            } else {
                ""
            };
            let is_stopped = |name: &EngineName| {
                !excluded.contains(name) && budget.current().is_none_or(|engine| engine == *name)
            };
            let stopped_engines: Vec<EngineName> = self
                .setup
                .prove
                .iter()
                .copied()
                .filter(is_stopped)
                .collect();
            for engine in stopped_engines {
                results.entry(engine).or_default().stopped = Some(format!("{prefix}{message}"));
                excluded.push(engine);
            }
        }
        Ok(Some(((entry.index, results), None)))
    }

    fn run_job(&self, child: Box<Child>, job: &Job) -> Option<JobOutcome<JobAnswer>> {
        child.send(
            serde_json::to_string(job).expect("a job holds only strings, numbers and JSON values"),
        );
        let mut answer = None;
        // The time limit applies to each step.
        let mut since = Duration::ZERO;
        let ended = self.receive_events(child, &mut |event, now| {
            match event {
                Event::ActiveEngine(_) => since = now,
                event => answer = Some(event),
            }
            Some(since.saturating_add(self.timeout))
        });
        match ended {
            JobEnd::Done(child) => {
                Some((answer.ok_or_else(|| "no answer".to_owned()), Some(child)))
            }
            JobEnd::Interrupted => None,
            JobEnd::Failed(message) => Some((Err(message), None)),
        }
    }

    /// Receives events until the job ends. `on_event` gets every event with its time on the
    /// stopwatch and returns the next deadline, or `None` for an unexpected event.
    fn receive_events(
        &self,
        child: Box<Child>,
        on_event: &mut dyn FnMut(Event, Duration) -> Option<Duration>,
    ) -> JobEnd {
        let watch = Stopwatch::start();
        let mut deadline = self.timeout;
        let message = loop {
            match self.wait(&child, watch, deadline) {
                WaitResult::Event(event) => match *event {
                    Event::Done(_) => return JobEnd::Done(child),
                    Event::Crashed { message } | Event::Unreadable { message } => break message,
                    event => match on_event(event, watch.elapsed()) {
                        Some(next) => deadline = next,
                        None => break BROKEN.to_owned(),
                    },
                },
                WaitResult::Interrupted => return JobEnd::Interrupted,
                WaitResult::TimedOut => break timeout_message(self.timeout),
                WaitResult::Ended => {
                    return JobEnd::Failed(super::classify(&child.wait_then_kill()).1);
                }
            }
        };
        child.kill();
        JobEnd::Failed(message)
    }
}
