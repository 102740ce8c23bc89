//! What was found out about one part on one server.

use serde_json::Value;

use super::cause::{Cause, Stop, Target as _, find};
use super::cures::{self, Cure, without_place};
use super::failure::{Failure, Seen};
use super::ignored::{self, Kept};
use super::input::{Part, Subject};
use super::probe::Probe;
use sobench_client::clock::Stopwatch;
use sobench_core::constraint::Constraint;

/// The most causes that are looked for in one part.
const MAX_CAUSES: usize = 5;

/// Requests that decide whether a failure is repeatable, after the first two differ.
const MORE_TRIES: usize = 4;

/// The `tool_choice` with which a server has to enforce the schemas of tools.
pub(super) const REQUIRED: &str = "required";

/// What was found out.
#[derive(Clone, Debug)]
pub(super) struct Explanation {
    /// The part's name, for people.
    pub(super) subject: String,
    /// The server's name, for people.
    pub(super) server: String,
    /// Its product, engine and version.
    pub(super) version: String,
    pub(super) part: Part,
    pub(super) outcome: Outcome,
    pub(super) causes: Vec<Explained>,
    /// Keywords, if the part is accepted.
    pub(super) keywords: Vec<Kept>,
    /// The time to the first token of the whole part, if it is answered, and without the constraint.
    pub(super) times_ms: Option<(f64, f64)>,
    pub(super) requests: usize,
    pub(super) seconds: f64,
    /// Why the search ended early.
    pub(super) stopped: Option<Stop>,
    /// Whether the part is accepted without several causes.
    pub(super) is_cured: bool,
    /// Whether the part came in a request body.
    pub(super) has_body: bool,
    /// Whether a call was required, since the tools are accepted without.
    pub(super) is_required: bool,
    /// The request with the smallest part that fails, as it is sent.
    pub(super) request: Option<Value>,
}

/// A cause with its cures.
#[derive(Clone, Debug)]
pub(super) struct Explained {
    pub(super) cause: Cause,
    pub(super) cures: Vec<Cure>,
    /// What other engines say of the smallest part.
    pub(super) engines: Vec<(String, String)>,
}

/// What the server does with the whole part.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// Not found out.
    Unknown,
    Accepted,
    Fails(Failure),
    /// The same request fails this many times.
    Flaky {
        failed: usize,
        of: usize,
        failure: Failure,
    },
}

impl Explanation {
    /// Whether something is wrong, as far as was seen.
    pub(super) fn has_finding(&self) -> bool {
        matches!(self.outcome, Outcome::Fails(_))
            || self.keywords.iter().any(|kept| kept.violation.is_some())
    }

    /// Whether nothing can be said: a failure without a cause that was confirmed, or one that comes
    /// and goes.
    pub(super) fn is_undecided(&self) -> bool {
        let is_open = |explained: &Explained| !explained.cause.is_checked;
        match &self.outcome {
            Outcome::Unknown | Outcome::Flaky { .. } => true,
            Outcome::Fails(_) => self.causes.is_empty() || self.causes.iter().any(is_open),
            Outcome::Accepted => false,
        }
    }
}

/// Explains one part.
pub(super) fn explain(
    probe: &mut Probe<'_>,
    subject: &Subject,
    (server, version): (&str, &str),
    samples: usize,
) -> Explanation {
    let watch = Stopwatch::start();
    let mut found = Explanation {
        subject: match &subject.part {
            Part::Text(Constraint::Regex(_)) => {
                format!("{} (as a regular expression)", subject.name)
            }
            _ => subject.name.clone(),
        },
        server: server.to_owned(),
        version: version.to_owned(),
        part: subject.part.clone(),
        outcome: Outcome::Unknown,
        causes: Vec::new(),
        keywords: Vec::new(),
        times_ms: None,
        requests: 0,
        seconds: 0.0,
        stopped: None,
        is_cured: false,
        has_body: subject.body.is_some(),
        is_required: false,
        request: None,
    };
    if let Err(stop) = look(probe, &mut found, samples) {
        found.stopped = Some(stop);
    }
    found.requests = probe.requests;
    found.seconds = watch.time().as_secs_f64();
    found
}

fn look(probe: &mut Probe<'_>, found: &mut Explanation, samples: usize) -> Result<(), Stop> {
    let part = found.part.clone();
    let mut outcome_of = outcome(probe, &part, found)?;
    if outcome_of == Outcome::Accepted && matches!(part, Part::Tools(_)) && !found.has_body {
        // Servers compile the schemas of tools only if a call must follow them.
        probe.tool_choice = REQUIRED;
        outcome_of = outcome(probe, &part, found)?;
        found.is_required = true;
    }
    match outcome_of {
        Outcome::Unknown => Ok(()),
        Outcome::Accepted => {
            found.outcome = Outcome::Accepted;
            ignored::keywords(probe, &part, samples, &mut found.keywords)
        }
        Outcome::Fails(failure) => {
            found.outcome = Outcome::Fails(failure.clone());
            if failure.is_harmful() && !probe.limits.may_harm {
                return Ok(());
            }
            causes(probe, &part, failure, found)
        }
        flaky @ Outcome::Flaky { .. } => {
            found.outcome = flaky;
            Ok(())
        }
    }
}

/// What the server does with the whole part, twice.
fn outcome(probe: &mut Probe<'_>, part: &Part, found: &mut Explanation) -> Result<Outcome, Stop> {
    let mut failures = Vec::new();
    let mut of = 0;
    while of < 2 || (of < 2 + MORE_TRIES && !failures.is_empty() && failures.len() < of) {
        of += 1;
        match probe.send(part, true)? {
            Seen::Answered { ms, .. } => found.times_ms = Some((ms, probe.without_ms)),
            Seen::Failed(failure) => {
                // The server may be gone after it.
                found.outcome = Outcome::Fails(failure.clone());
                failures.push(failure);
            }
        }
        // A server that may be harmed is not asked again.
        if failures.last().is_some_and(Failure::is_harmful) && !probe.limits.may_harm {
            break;
        }
    }
    let failed = failures.len();
    Ok(match failures.into_iter().next() {
        None => Outcome::Accepted,
        Some(failure) if failed == of => Outcome::Fails(failure),
        Some(failure) => Outcome::Flaky {
            failed,
            of,
            failure,
        },
    })
}

/// Finds a cause, leaves it out, and looks whether another one is left.
fn causes(
    probe: &mut Probe<'_>,
    part: &Part,
    first: Failure,
    found: &mut Explanation,
) -> Result<(), Stop> {
    let (mut left, mut failure) = (part.clone(), first);
    for _ in 0..MAX_CAUSES {
        let cause = find(probe, &left, failure.clone());
        let stopped = cause.stopped.clone();
        if found.request.is_none() {
            found.request = probe.request(&cause.minimal).ok();
        }
        found.causes.push(Explained {
            cause: cause.clone(),
            cures: Vec::new(),
            engines: Vec::new(),
        });
        if let Some(stop) = stopped {
            return Err(stop);
        }
        if let Some(last) = found.causes.last_mut() {
            last.cures = cures::tried(probe, &left, &cause)?;
        }
        // A removal that was tried, or of the last place.
        let cures = found.causes.last().map(|last| last.cures.as_slice());
        let removal = cures.and_then(|cures| cures.iter().find(|cure| cure.is_removal()));
        let without = match (removal, cause.places.last()) {
            (Some(cure), _) => Some(cure.part.clone()),
            (None, place) => place.and_then(|place| without_place(&left, place)),
        };
        let Some(without) = without else {
            return Ok(());
        };
        match probe.send(&without, true)? {
            Seen::Answered { .. } => {
                found.is_cured = found.causes.len() > 1;
                return Ok(());
            }
            // The part that was left out was not the whole cause.
            Seen::Failed(next) if next.is_same(&failure) && without == left => return Ok(()),
            Seen::Failed(next) => (left, failure) = (without, next),
        }
    }
    Ok(())
}
