//! The answers that lead every page of a run: is the constraint enforced, and what does it cost?

use super::{Report, map};
use sobench_core::case::Arm;
use sobench_core::distinct::distinct;
use sobench_core::printable::printable_message;
use sobench_core::verdict::ExtraText;
use sobench_notices::enforcement::State;
use sobench_notices::notice::BenchNotice;
use sobench_plan::metrics::Answers;
use sobench_render::{Answer, Block, Tone};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::examples::Group;
use sobench_results::metrics::registry::{Figure, Metric, Stat, latencies, rates, totals};
use sobench_statistics::Rate;
use sobench_statistics::contrast::Difference;

/// Reasons that are named; the others are counted together.
const MAX_REASONS: usize = 3;

/// Times from which a factor says more than a difference, in milliseconds.
pub const MIN_FACTOR_MS: f64 = 1.0;

/// The width of an interval from which on a difference is too uncertain, in differences.
const MAX_WIDTH: f64 = 4.0;

/// How to measure what the constraint does.
const CONTROL_FLAG: &str = "--guided-decoding-ratio 0.5";

/// The verdict block of a run.
pub(crate) fn block(report: &Report) -> Block {
    let enforced = report.enforced();
    let cost = is_constrained(report).then(|| Answer {
        question: "cost",
        tone: Tone::Plain,
        text: cost(report),
    });
    let answers = [
        Some(enforced),
        sessions(&report.metrics),
        map::answer(&report.metrics),
        cost,
    ];
    Block::Verdict(answers.into_iter().flatten().collect())
}

/// How sessions ended; `None` without sessions.
fn sessions(metrics: &Metrics) -> Option<Answer> {
    let sessions = metrics.sessions.as_ref()?;
    let rate = |what: &str, rate: Option<Rate>| {
        let rate = rate?;
        Some(format!(
            "{} of {} {what} ({:.1} %)",
            rate.hits, rate.of, rate.percent
        ))
    };
    let cut_off = (sessions.cut_off > 0)
        .then(|| format!("{} cut off by the end of the run", sessions.cut_off));
    let parts = [
        rate("finished", sessions.finished),
        rate("valid in every turn", sessions.valid),
        rate("with the right end", sessions.right),
        cut_off,
    ];
    Some(Answer {
        question: "sessions",
        tone: Tone::Plain,
        text: parts.into_iter().flatten().collect::<Vec<_>>().join(", "),
    })
}

fn is_constrained(report: &Report) -> bool {
    report.metrics.requests_of(Arm::Constrained) > 0
        && !report.record.dataset.constraint_kinds.is_empty()
}

impl Report {
    /// Whether the constraint is enforced, from every answer and the preflight.
    pub fn enforced(&self) -> Answer {
        let (tone, text) = enforcement(self);
        let accuracy = self.metrics.values.rate(&rates::ACCURACY);
        let right = accuracy.map_or_else(String::new, |rate| {
            format!("; {} of {} right", rate.hits, rate.of)
        });
        let depends = self.metrics.findings.depends_on.as_ref();
        let depends = depends.map_or_else(String::new, |found| format!("; {found}"));
        Answer {
            question: "enforced",
            tone,
            text: text + &depends + &right,
        }
    }
}

fn enforcement(report: &Report) -> (Tone, String) {
    let metrics = &report.metrics;
    let control = metrics.rate(Figure::of(&rates::CORRECT_RATE, Some(Arm::Control)));
    if !is_constrained(report) {
        let requests = metrics.values.count(&totals::REQUESTS);
        let answered = metrics.values.count(&totals::COMPLETED);
        let valid = match control {
            Some(rate) => format!("{} of {} answers valid without one", rate.hits, rate.of),
            None => format!("{answered} of {requests} requests completed"),
        };
        return (Tone::Plain, format!("none was sent: {valid}"));
    }
    let Some(rate) = metrics.values.rate(&rates::CORRECT_RATE) else {
        let others = after_colon(&others(report));
        return (
            Tone::Plain,
            format!("not known: no answer was judged{others}"),
        );
    };
    let mut valid = format!("{} of {} answers valid", rate.hits, rate.of);
    if rate.hits < rate.of {
        // A share below 100 % never reads as 100.00 %.
        valid.push_str(&format!(" ({:.2} %)", rate.percent.min(99.99)));
    }
    let without = control.map_or_else(String::new, |control| {
        let cut = if metrics.are_controls_all_cut() {
            " (all cut)"
        } else {
            ""
        };
        let (hits, of) = (control.hits, control.of);
        format!("; without the constraint {hits} of {of}{cut}")
    });
    if let Some(refused) = report.constraint_refusal().and_then(refusal) {
        return (Tone::Alarm, format!("NO: {refused}; {valid}{without}"));
    }
    let state = report.record.enforcement.state;
    let broken = metrics.findings.reasons.iter();
    let broken: Vec<&Group> = broken.filter(|group| group.name != "truncated").collect();
    let mut problems = reasons(&broken, report);
    problems.extend(others(report));
    let problems = after_colon(&problems);
    let (tone, word) = match state {
        State::NotEnforced => (Tone::Alarm, "NO: "),
        _ if !broken.is_empty() => (Tone::Alarm, "NO: "),
        _ if rate.hits == 0 => (Tone::Alarm, "not known: "),
        State::Enforced => (Tone::Good, "yes: "),
        _ if control.is_some_and(|control| control.high_percent < rate.low_percent) => {
            (Tone::Good, "yes: ")
        }
        _ if has_engine(report) => (Tone::Good, "yes: "),
        _ => match control {
            Some(control) if control.percent >= rate.percent => (
                Tone::Plain,
                "not known, for unconstrained answers are as valid: ",
            ),
            Some(_) => (Tone::Plain, "not known from so few distinct answers: "),
            None => (Tone::Plain, "not known without a control arm: "),
        },
    };
    (tone, format!("{word}{valid}{problems}{without}"))
}

/// Whether sobench's own engine decodes, which enforces by construction.
fn has_engine(report: &Report) -> bool {
    report.engine.is_some()
}

/// The refusal of the constraint.
fn refusal(notice: &BenchNotice) -> Option<String> {
    let BenchNotice::ConstraintRefused {
        status,
        message,
        keyword,
        part,
        ..
    } = notice
    else {
        return None;
    };
    let tool = part.as_ref().and_then(|part| part.tool.as_ref());
    let of_part = part.as_ref().and_then(|part| part.keyword.as_ref());
    let keyword = keyword.as_ref().or(of_part.map(|(keyword, _)| keyword));
    let named = [("tool", tool), ("keyword", keyword)].into_iter();
    let named = named.filter_map(|(kind, name)| Some(format!("{kind} {}", name?)));
    let why = match named.collect::<Vec<_>>() {
        names if !names.is_empty() => names.join(", "),
        _ => message.clone(),
    };
    Some(format!(
        "the server refused the constraint ({status}: {why})"
    ))
}

/// What is wrong with the answers that break their constraint, in words with a case for each.
fn reasons(broken: &[&Group], report: &Report) -> Vec<String> {
    let (named, rest) = broken.split_at(broken.len().min(MAX_REASONS));
    let kinds = &report.metrics.findings.extra_text;
    let phrase = |group: &&Group| {
        let kind = match &kinds[..] {
            [only] if only.kind == ExtraText::Fence => "a code fence around the JSON",
            [only] if only.kind == ExtraText::SecondDocument => "a second JSON document",
            [only] => only.kind.phrase(),
            _ => "text around the JSON",
        };
        let what = match group.name {
            "extra_text" => format!("have {kind}"),
            name => words(name).to_owned(),
        };
        let case = group.examples.first();
        let case = case.map_or_else(String::new, |example| {
            format!(" (e.g. {})", printable_message(&example.case_id))
        });
        format!("{} {}{case}", group.count, conjugated(&what, group.count))
    };
    let mut phrases: Vec<String> = named.iter().map(phrase).collect();
    let more: usize = rest.iter().map(|group| group.count).sum();
    phrases.extend((more > 0).then(|| {
        let what = conjugated("are invalid for other reasons", more);
        format!("{more} {what}")
    }));
    phrases
}

fn after_colon(parts: &[String]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    format!(": {}", parts.join(", "))
}

/// The other constrained requests without a valid answer.
fn others(report: &Report) -> Vec<String> {
    let count = |metric: &Metric| report.metrics.values.count(metric);
    let counts = [
        (
            count(&rates::TRUNCATED_RATE),
            "cut at the token limit (--output-len)",
        ),
        (count(&rates::REFUSED_RATE), "refused"),
        (count(&rates::FAILED_RATE), "failed"),
        (count(&rates::NOT_JUDGED_RATE), "not judged"),
        (count(&rates::CANCELLED_RATE), "cancelled"),
        (count(&rates::NOT_SENT_RATE), "not sent"),
    ];
    let known = counts.into_iter().filter(|(count, _)| *count > 0);
    known
        .map(|(count, name)| format!("{count} {name}"))
        .collect()
}

/// What several answers with a reason ([`sobench_core::verdict::Reason::name`]) do.
fn words(reason: &str) -> &str {
    match reason {
        "not_json" => "are no JSON",
        "schema" => "break the schema",
        "duplicate_key" => "have a member twice",
        "lone_surrogate" => "have half a surrogate pair",
        "regex" => "break the regular expression",
        "choice" => "are none of the choices",
        "grammar" => "break the grammar",
        "structural_tag" => "break the structural tag",
        "empty" => "are empty",
        "too_long" => "are too long to judge",
        "too_deep" => "are nested too deeply to judge",
        "runaway_whitespace" => "are endless white space",
        "wrong_channel" => "are in the wrong channel",
        "other_request" => "are another request's",
        "leaked_markup" => "have the markup of a tool call in the text",
        "call_under_none" => "call a tool though none is allowed",
        "unknown_tool" => "call a tool that was not offered",
        "wrong_tool" => "call a tool that is not allowed",
        "missing_call_id" => "have a call without an id",
        "duplicate_call_id" => "have two calls with one id",
        "invalid_arguments" => "have arguments that break the tool's schema",
        "arguments_not_text" => "have arguments that are not a text",
        "too_many_calls" => "have several calls though one is allowed",
        "missing_call" => "have no tool call",
        "wrong_finish_reason" => "have the wrong finish reason",
        other => other,
    }
}

/// The words for this number of answers.
fn conjugated(words: &str, count: usize) -> String {
    let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
    match (count, verb) {
        (1, "are") => format!("is {rest}"),
        (1, "have") => format!("has {rest}"),
        (1, _) => format!("{verb}s {rest}"),
        _ => words.to_owned(),
    }
}

/// What the constraint costs, and which flag measures what is not known.
fn cost(report: &Report) -> String {
    let mut parts: Vec<String> = Vec::new();
    let has_controls = report.metrics.requests_of(Arm::Control) > 0;
    for (metric, what) in [
        (&latencies::TTFT, ("the first token", "to the first token")),
        (&latencies::TPOT, ("a token", "a token")),
    ] {
        let found = report.differences.as_ref().and_then(|all| all.get(metric));
        let control = report.metrics.arm(Arm::Control);
        let without = control.and_then(|values| values.summary(metric).mean);
        parts.extend(found.zip(without).map(|(found, without)| {
            let doubt = doubt(report, metric, &found);
            let time = AddedTime {
                name: String::new(),
                without,
                added: found.difference,
                interval: found.low.zip(found.high),
            };
            added(what, &[time]).unwrap_or_default() + &doubt
        }));
    }
    let first_uses = report
        .load
        .as_ref()
        .and_then(|load| load.first_uses.as_ref());
    let first_use = first_uses.and_then(|uses| uses.paired_difference_ms.or(uses.difference_ms));
    let first_use = first_use.filter(|found| found.low.is_some_and(|low| low > 0.0));
    parts.extend(
        first_use.map(|found| format!("first use of a constraint {} ms", signed(found.difference))),
    );
    if !has_controls {
        let is_generated = report.metrics.options.answers == Answers::Generated;
        let rest = if parts.is_empty() {
            "not known"
        } else {
            "the rest is not known"
        };
        parts.push(if is_generated {
            format!("{rest} without a control arm ({CONTROL_FLAG})")
        } else {
            "nothing is generated".to_owned()
        });
    } else if parts.is_empty() {
        parts.push("not known: an arm has no answers".to_owned());
    } else if report.record.own_request_rate().is_infinite()
        && report.record.settings.load.replay_speed.is_none()
    {
        // Controls wait for constrained requests, so that the difference is too small.
        parts.push("both arms at once (a lower bound; sobench matrix separates them)".to_owned());
    }
    parts.join(", ")
}

/// What a constraint adds to a mean time, in ms.
pub struct AddedTime {
    /// Of a contender or a side; empty for a single run.
    pub name: String,
    pub without: f64,
    pub added: f64,
    pub interval: Option<(f64, f64)>,
}

/// What constraints add to `what`, `to` which time passes: `a token takes 15.3 ms with xgrammar in
/// place of 6.8 (2.2 times), 13.0 with guidance (1.9 times)`; milliseconds where there is nothing to
/// multiply. `None` without any.
pub fn added((what, to): (&str, &str), found: &[AddedTime]) -> Option<String> {
    let has_factors = found.iter().all(|of| of.without >= MIN_FACTOR_MS);
    let with_name = |of: &AddedTime| match &*of.name {
        "" => String::new(),
        name => format!(" with {name}"),
    };
    let (equal, differing): (Vec<&AddedTime>, Vec<&AddedTime>) = found.iter().partition(|of| {
        of.interval
            .is_some_and(|(low, high)| low <= 0.0 && high >= 0.0)
    });
    let are_all_few = found.iter().all(|of| of.interval.is_none());
    let bases = differing.iter().map(|of| significant(of.without));
    let has_one_base = distinct(bases).len() == 1;
    let phrase = |(index, of): (usize, &&AddedTime)| {
        let (is_first, name) = (index == 0, with_name(of));
        let few = match of.interval {
            None if !are_all_few => ", too few runs to be sure",
            _ => "",
        };
        let (with, without) = (significant(of.without + of.added), significant(of.without));
        let times = factor(of.without + of.added, of.without);
        let (more, unit) = (signed(of.added), if is_first { " ms" } else { "" });
        let what = if is_first {
            format!("{what} takes ")
        } else {
            String::new()
        };
        let sure = of.interval.map_or_else(String::new, |(low, high)| {
            let doubt = match high - low > MAX_WIDTH * of.added.abs() {
                true => "; too uncertain to report",
                false => "",
            };
            format!(" ({} to {}{doubt})", significant(low), significant(high))
        });
        let range = of.interval.map_or_else(String::new, |(low, high)| {
            format!("; {} to {} ms", signed(low), signed(high))
        });
        match (has_factors, is_first || !has_one_base) {
            (true, true) => {
                format!("{what}{with}{unit}{name} in place of {without} ({times}{range}{few})")
            }
            (true, false) => format!("{with}{name} ({times}{range}{few})"),
            (false, _) if is_first => format!("{more} ms {to}{name}{sure}{few}"),
            (false, _) => format!("{more}{name}{sure}{few}"),
        }
    };
    if !equal.is_empty() && !differing.is_empty() {
        return Some(in_one_form(what, found));
    }
    let mut phrases: Vec<String> = differing.iter().enumerate().map(phrase).collect();
    if let Some(last) = phrases.last_mut().filter(|_| are_all_few) {
        last.push_str(", too few runs to be sure");
    }
    let most = equal.iter().filter_map(|of| of.interval);
    let most = most
        .map(|(low, high)| low.abs().max(high.abs()))
        .reduce(f64::max);
    phrases.extend(most.map(|most| {
        let names: Vec<String> = equal.iter().map(|of| with_name(of)).collect();
        let names = names.join(" and").replace(" and with ", " and ");
        format!(
            "no difference seen in {what}{names} (within {} ms)",
            significant(most)
        )
    }));
    (!phrases.is_empty()).then(|| phrases.join(", "))
}

/// `a token: xgrammar +0.97 ms (-0.07 to 2.09), guidance +0.12 ms (0.05 to 0.19)`.
fn in_one_form(what: &str, found: &[AddedTime]) -> String {
    let phrase = |of: &AddedTime| {
        let interval = of.interval.map_or_else(
            || ", too few runs to be sure".to_owned(),
            |(low, high)| format!(" ({} to {})", significant(low), significant(high)),
        );
        format!("{} {} ms{interval}", of.name, signed(of.added))
    };
    let phrases: Vec<String> = found.iter().map(phrase).collect();
    format!("{what}: {}", phrases.join(", "))
}

/// The client's part, if it is as large as the difference.
fn doubt(report: &Report, metric: &'static Metric, found: &Difference) -> String {
    let figure = Figure::from_distribution(metric, Stat::Mean);
    let bounds = report.client.as_ref().map(|client| &client.bounds);
    let bound = bounds.and_then(|bounds| bounds.iter().find(|bound| bound.figure == figure));
    let added = bound.and_then(|bound| bound.added).unwrap_or(0.0);
    if added < found.difference.abs() {
        return String::new();
    }
    format!(
        ", of which the client may have added {}",
        significant(added)
    )
}

/// `2.2 times`, and near 1 with two decimals.
pub fn factor(with: f64, without: f64) -> String {
    match with / without {
        near if (0.9..1.1).contains(&near) => format!("{near:.2} times"),
        other => format!("{} times", significant(other)),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", significant(value.abs()))
}

/// A number with about three digits.
pub fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.5 => 0,
        size if size >= 0.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}
