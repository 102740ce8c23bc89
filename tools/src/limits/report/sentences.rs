//! Phrases of the report of limits.

use crate::limits::judge::slow_from;
use crate::limits::{
    Cancelled, End, Ladder, LadderKind, Latencies, ServerLimits, Step, StepOutcome, Verdict,
};
use sobench_core::printable::{printable_message, thousands};

/// A line of progress.
pub(crate) fn progress(ladder: LadderKind, step: &Step) -> String {
    let size = thousands(step.size);
    format!("{} {size}: {}", ladder.spec().label, outcome(step))
}

/// How a step ended, with its time.
pub(super) fn outcome(step: &Step) -> String {
    let after = seconds(step.end_ms);
    let message = printable_message(&step.message);
    let status = step
        .status
        .map(|status| format!("{status} "))
        .unwrap_or_default();
    match step.outcome {
        StepOutcome::Accepted => format!(
            "accepted, first token after {}",
            seconds(step.ttft_ms.unwrap_or(step.end_ms))
        ),
        StepOutcome::Refused => format!("refused after {after}: {status}{message}"),
        StepOutcome::ServerError => format!("server error after {after}: {status}{message}"),
        StepOutcome::TimedOut => message,
        StepOutcome::Lost => format!("connection lost after {after}: {message}"),
    }
}

/// The summary of a server: the largest accepted size of each ladder, and what is bad.
pub(super) fn summary(server: &ServerLimits) -> String {
    let largest: Vec<String> = server
        .ladders
        .iter()
        .filter_map(|ladder| {
            let step = ladder.largest()?;
            Some(format!(
                "{} {} in {}",
                ladder.ladder.spec().label,
                thousands(step.size),
                seconds(step.ttft_ms?)
            ))
        })
        .collect();
    let bad: Vec<String> = server
        .bad_ladders()
        .map(|ladder| {
            let verdicts = ladder.verdicts.iter().filter(|verdict| verdict.is_bad());
            let names: Vec<&str> = verdicts.map(|verdict| verdict.name()).collect();
            format!("{} ({})", names.join(", "), ladder.ladder)
        })
        .collect();
    let largest = if largest.is_empty() {
        "no size was accepted".to_owned()
    } else {
        format!("largest {}", largest.join("; "))
    };
    if bad.is_empty() {
        largest
    } else {
        format!("{}. {largest}", bad.join("; "))
    }
}

/// The verdicts, with the size from which on a ladder is slow or stalls others.
pub(super) fn verdicts(ladder: &Ladder, small_constraint: &Latencies) -> String {
    let from = |size: Option<u64>| {
        size.map(|size| format!(" from {}", thousands(size)))
            .unwrap_or_default()
    };
    let words = ladder.verdicts.iter().map(|verdict| {
        let size = match verdict {
            Verdict::Slow => slow_from(&ladder.steps, small_constraint),
            Verdict::StallsOthers => ladder
                .steps
                .iter()
                .find(|step| step.stalls_others)
                .map(|step| step.size),
            _ => None,
        };
        format!("{verdict}{}", from(size))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Why a ladder ended, in a cell.
pub(super) fn end(ladder: &Ladder) -> String {
    let last = ladder.steps.last();
    let at_last = |words: &str| match last {
        Some(step) => format!("{}: {words}", thousands(step.size)),
        None => words.to_owned(),
    };
    match ladder.end {
        End::LargestSize => "largest size".to_owned(),
        End::Refused | End::ServerError => {
            let status = last.and_then(|step| step.status);
            let name = if ladder.end == End::Refused {
                "refused"
            } else {
                "server error"
            };
            at_last(&status.map_or_else(|| name.to_owned(), |status| format!("{name} ({status})")))
        }
        End::TimedOut => at_last("no answer in time"),
        End::Died => at_last("server died"),
        End::RequestSize => "size of request".to_owned(),
        End::Memory => at_last("memory"),
        End::NotCarried | End::NotTested => "-".to_owned(),
    }
}

/// The worst latency of a small request beside any step, in milliseconds.
pub(super) fn worst_neighbour_ms(ladder: &Ladder) -> Option<f64> {
    let worst = ladder
        .steps
        .iter()
        .filter_map(|step| Some(step.neighbours?.worst_ms));
    worst.reduce(f64::max)
}

/// The growth of the server's memory over a ladder, in MB.
pub(super) fn memory_growth(ladder: &Ladder) -> Option<String> {
    let first = ladder.steps.first()?.memory_before_bytes?;
    let last = ladder
        .steps
        .iter()
        .rev()
        .find_map(|step| step.memory_after_bytes)?;
    let growth = (last as f64 - first as f64) / 1e6;
    Some(format!("{growth:+.0} MB"))
}

/// What happened after a cancelled request.
pub(super) fn after_cancel(cancelled: &Cancelled) -> String {
    let watched = seconds(cancelled.watched_ms);
    let recovery = match (cancelled.recovered_ms, cancelled.answered_ms) {
        (Some(ms), _) => format!("back after {}", seconds(ms)),
        (None, Some(_)) => format!("still slow after {watched}"),
        (None, None) => format!("no answer after {watched}"),
    };
    let work = match cancelled.worked_ms {
        None => "work unknown".to_owned(),
        Some(ms) if cancelled.is_working => format!("still at work after {}", seconds(ms)),
        Some(0.0) => "stopped at once".to_owned(),
        Some(ms) => format!("worked on for {}", seconds(ms)),
    };
    format!("{recovery}, {work}")
}

/// A time with two or three digits.
pub(super) fn seconds(ms: f64) -> String {
    let s = ms / 1e3;
    match s {
        _ if s < 0.01 => format!("{ms:.1} ms"),
        _ if s < 1.0 => format!("{ms:.0} ms"),
        _ if s < 10.0 => format!("{s:.2} s"),
        _ => format!("{s:.1} s"),
    }
}
