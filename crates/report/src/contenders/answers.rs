//! The answers that lead a comparison of contenders: is the constraint enforced, what does it cost, and
//! who is worse?

use super::capacity::CapacityRow;
use super::verdicts::{Compared, Finding, Tested, Verdict};
use super::{Comparison, Control, Figures, Load, Row};
use crate::verdict::{AddedTime, added, significant};
use sobench_core::distinct::distinct;
use sobench_core::printable::printable;
use sobench_render::{Answer, Block, Tone};
use sobench_results::metrics::constraint_overhead::Added;
use sobench_results::metrics::registry::{Figure, rates};
use sobench_statistics::Rate;
use sobench_statistics::contrast::Share;

use super::cells::NAME_CHARS;

/// The verdict block.
pub(super) fn block(comparison: &Comparison) -> Block {
    let answers = [
        enforced(comparison),
        Some(cost(comparison)),
        worse(comparison),
    ];
    Block::Verdict(answers.into_iter().flatten().collect())
}

/// The valid answers of each contender, over all datasets and loads, and what the others are; `None`
/// without judged ones.
pub fn enforced(comparison: &Comparison) -> Option<Answer> {
    let names = contenders(comparison);
    let of = |name: &&str| -> Option<Enforced> {
        let rows = comparison.rows.iter().filter(|row| row.contender == *name);
        let figures: Vec<&Figures> = rows.filter_map(Row::figures).collect();
        let sum = |rate: fn(&Figures) -> Option<Rate>| -> Share {
            let rates = figures.iter().filter_map(|figures| rate(figures));
            rates
                .map(|rate| Share {
                    hits: rate.hits,
                    of: rate.of,
                })
                .sum()
        };
        let valid = sum(|figures| figures.correct_rate);
        let invalid = sum(|figures| Some(figures.causes.as_ref()?.invalid)).hits;
        let causes = [
            (invalid, "invalid"),
            (
                sum(|figures| Some(figures.causes.as_ref()?.truncated)).hits,
                "cut",
            ),
            (
                sum(|figures| Some(figures.causes.as_ref()?.refused)).hits,
                "refused",
            ),
            (
                sum(|figures| Some(figures.causes.as_ref()?.failed)).hits,
                "failed",
            ),
        ];
        let reason = most_frequent_reason(&figures);
        let causes: Vec<String> = causes
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| match (*name, &reason) {
                ("invalid", Some(reason)) => format!("{count} invalid{reason}"),
                _ => format!("{count} {name}"),
            })
            .collect();
        let others = match causes.is_empty() {
            true => String::new(),
            false => format!(" ({})", causes.join("; ")),
        };
        let name = printable(name, NAME_CHARS);
        let text = format!("{name} {} of {}{others}", valid.hits, valid.of);
        (valid.of > 0).then_some(Enforced {
            name,
            text,
            invalid,
            is_all: valid.hits == valid.of,
        })
    };
    let found: Vec<Enforced> = names.iter().filter_map(of).collect();
    let broken = found.iter().filter(|found| found.invalid > 0);
    let broken: Vec<&str> = broken.map(|found| found.name.as_str()).collect();
    let texts: Vec<&str> = found.iter().map(|found| found.text.as_str()).collect();
    let (tone, word) = match &broken[..] {
        [] if found.iter().all(|found| found.is_all) => (Tone::Good, String::new()),
        [] => (Tone::Plain, String::new()),
        [_] if found.len() == 1 => (Tone::Alarm, "NO: ".to_owned()),
        names => (Tone::Alarm, format!("NO with {}: ", listed(names))),
    };
    let colon = if word.is_empty() { ": " } else { " " };
    (!texts.is_empty()).then(|| Answer {
        question: "enforced",
        tone,
        text: format!("{word}valid answers{colon}{}", texts.join(", ")),
    })
}

/// The most frequent reason of invalid answers: `: duplicate key`, or its number if there are others.
fn most_frequent_reason(figures: &[&Figures]) -> Option<String> {
    let reasons = || figures.iter().flat_map(|figures| &figures.reasons);
    let first = reasons().max_by_key(|reason| reason.count)?;
    let same = reasons().filter(|reason| reason.name == first.name);
    let count: usize = same.map(|reason| reason.count).sum();
    let all: usize = reasons().map(|reason| reason.count).sum();
    let name = first.name.replace('_', " ");
    Some(match count == all {
        true => format!(": {name}"),
        false => format!(", {count} of them: {name}"),
    })
}

/// The valid answers of a contender.
struct Enforced {
    name: String,
    text: String,
    invalid: usize,
    is_all: bool,
}

fn contenders(comparison: &Comparison) -> Vec<&str> {
    distinct(comparison.rows.iter().map(|row| row.contender.as_str()))
}

/// What the constraint costs with each contender, at the last load of each dataset.
pub fn cost(comparison: &Comparison) -> Answer {
    let datasets = distinct(comparison.rows.iter().map(|row| row.dataset.as_str()));
    let mut parts = Vec::new();
    for dataset in &datasets {
        let rows = comparison.rows.iter().filter(|row| row.dataset == *dataset);
        let rows: Vec<&Row> = rows.collect();
        // The first load of a search is common to all; later ones are at its limit.
        let mut with_control = rows.iter().copied().filter(|row| has_control(row));
        let measured = match comparison.capacity.is_empty() {
            true => with_control.next_back(),
            false => with_control.next(),
        };
        let Some(last) = measured else {
            continue;
        };
        let here: Vec<&Row> = rows
            .into_iter()
            .filter(|row| row.load == last.load)
            .collect();
        let of_place = [
            part(&here, ("a token", "a token"), |control| {
                control.tpot_added.as_ref()
            }),
            part(
                &here,
                ("the first token", "to the first token"),
                |control| control.ttft_added.as_ref(),
            ),
        ];
        let of_place: Vec<String> = of_place.into_iter().flatten().collect();
        let mut place = Vec::new();
        if datasets.len() > 1 {
            place.push(printable(dataset, NAME_CHARS));
        }
        match last.load {
            Load::AsGiven => {}
            Load::MaxConcurrency(cap) => place.push(format!("with {cap} requests in flight")),
            load => place.push(format!("at {load}")),
        }
        let place = match place.is_empty() {
            true => String::new(),
            false => format!("{}: ", place.join(", ")),
        };
        if !of_place.is_empty() {
            parts.push(format!("{place}{}", of_place.join("; ")));
        }
    }
    parts.extend(capacity(comparison));
    if parts.is_empty() {
        let mut figures = comparison.rows.iter().filter_map(Row::figures);
        let why = match figures.any(|figures| figures.control.is_some()) {
            true => "not known: no added time can be compared (reasons below)",
            false => {
                "not known without runs that leave the constraint out (sobench matrix makes them)"
            }
        };
        parts.push(why.to_owned());
    }
    Answer {
        question: "cost",
        tone: Tone::Plain,
        text: parts.join("; "),
    }
}

/// The rates that were sustained with and without the constraint.
fn capacity(comparison: &Comparison) -> Option<String> {
    let of_row = |row: &CapacityRow| {
        let control = row.control.as_ref()?.sustained_rps?;
        let constrained = row.constrained.sustained_rps?;
        let name = match contenders(comparison).len() {
            1 => String::new(),
            _ => format!(" with {}", printable(&row.contender, NAME_CHARS)),
        };
        let [with, without] = [constrained, control].map(significant);
        Some(format!(
            "{with} req/s{name}, {without} without the constraint"
        ))
    };
    let found: Vec<String> = comparison.capacity.iter().filter_map(of_row).collect();
    (!found.is_empty()).then(|| format!("capacity {}", found.join("; ")))
}

fn has_control(row: &Row) -> bool {
    let control = row.figures().and_then(|figures| figures.control.as_ref());
    control.is_some_and(|control| control.tpot_added.is_some() || control.ttft_added.is_some())
}

/// A time with each contender.
fn part(
    rows: &[&Row],
    words: (&str, &str),
    time: fn(&Control) -> Option<&Added>,
) -> Option<String> {
    let of_row = |row: &&Row| {
        let added = time(row.figures()?.control.as_ref()?)?;
        Some(AddedTime {
            name: match rows.len() {
                1 => String::new(),
                _ => printable(&row.contender, NAME_CHARS),
            },
            without: added.control_ms,
            added: added.ms,
            interval: added.low_ms.zip(added.high_ms),
        })
        .filter(|_| added.has_enough_pairs())
    };
    added(words, &rows.iter().filter_map(of_row).collect::<Vec<_>>())
}

/// Who is worse than whom, who is not distinguished, and what the page cannot say.
fn worse(comparison: &Comparison) -> Option<Answer> {
    let names = contenders(comparison);
    if names.len() < 2 {
        return None;
    }
    let verdicts = &comparison.verdicts;
    let claims: Vec<(&Verdict, &Tested)> = verdicts
        .claims()
        .filter_map(|verdict| Some((verdict, verdict.finding.tested()?)))
        .collect();
    let mut parts = Vec::new();
    for name in &names {
        // Those that it is worse than in the same figures share a sentence.
        let mut groups: Vec<(Vec<&str>, Vec<&Tested>)> = Vec::new();
        for second in &names {
            let pair = [*name, *second];
            let found = claims
                .iter()
                .filter(|(verdict, _)| verdict.contenders == pair);
            let found: Vec<&Tested> = found.map(|(_, tested)| *tested).collect();
            let figures = |group: &[&Tested]| distinct(group.iter().map(|tested| tested.figure));
            match groups
                .iter_mut()
                .find(|(_, known)| figures(known) == figures(&found))
            {
                _ if found.is_empty() => {}
                Some((seconds, known)) => {
                    seconds.push(second);
                    known.extend(found);
                }
                None => groups.push((vec![second], found)),
            }
        }
        parts.extend(groups.into_iter().map(|(seconds, found)| {
            let figures = distinct(found.iter().map(|tested| tested.figure));
            let figures: Vec<String> = figures
                .into_iter()
                .map(|figure| {
                    let of = found.iter().filter(|tested| tested.figure == figure);
                    against(figure, &of.copied().collect::<Vec<_>>())
                })
                .collect();
            format!(
                "{} is worse than {}: {}",
                printable(name, NAME_CHARS),
                listed(&seconds),
                figures.join(", ")
            )
        }));
    }
    let pairs = names.iter().enumerate().flat_map(|(index, one)| {
        let later = names[index + 1..].iter();
        later.map(move |other| [*one, *other])
    });
    let is_pair = |verdict: &Verdict, pair: &[&str; 2]| {
        let mut names = verdict.contenders.iter().map(String::as_str);
        verdict.contenders.len() == 2 && names.all(|name| pair.contains(&name))
    };
    let equal: Vec<String> = pairs
        .filter(|pair| !claims.iter().any(|(verdict, _)| is_pair(verdict, pair)))
        .filter(|pair| {
            verdicts
                .verdicts
                .iter()
                .any(|verdict| is_pair(verdict, pair))
        })
        .map(|pair| format!("{} are not distinguished", listed(&pair)))
        .collect();
    parts.extend(equal);
    let correct_rate = Compared::Figure(Figure::new(&rates::CORRECT_RATE));
    let is_rate_claimed = claims
        .iter()
        .any(|(_, tested)| tested.figure == correct_rate);
    let rates = verdicts
        .verdicts
        .iter()
        .filter_map(|verdict| match &verdict.finding {
            Finding::Tested(tested) if tested.figure == correct_rate => Some(tested),
            _ => None,
        });
    let bound = rates.map(Tested::farthest_bound).reduce(f64::max);
    parts.extend(bound.filter(|_| !is_rate_claimed).map(|bound| {
        format!(
            "correct rates: a difference above {} points is ruled out",
            significant(bound)
        )
    }));
    let few = verdicts
        .verdicts
        .iter()
        .find_map(|verdict| match &verdict.finding {
            Finding::TooFewRepeats { .. } => Some("times need three runs (--repeat 3)".to_owned()),
            _ => None,
        });
    parts.extend(few);
    if parts.is_empty() {
        parts.push("not known: fewer than two contenders have figures".to_owned());
    }
    Some(Answer {
        question: "worse",
        tone: Tone::Plain,
        text: parts.join("; "),
    })
}

/// A figure of a contender beside those of others: `median TPOT 112 ms against 15.8 and 13.5`; only
/// the figure on several datasets or loads.
fn against(figure: Compared, found: &[&Tested]) -> String {
    let own = distinct(found.iter().map(|tested| significant(tested.levels[0])));
    let [own] = &own[..] else {
        return figure.name();
    };
    let others: Vec<String> = found
        .iter()
        .map(|tested| significant(tested.levels[1]))
        .collect();
    let unit = if figure.is_rate() { "%" } else { figure.unit() };
    format!(
        "{} {own} {unit} against {}",
        figure.name(),
        super::verdicts::joined(&others)
    )
}

/// `a`, `a and b`, `a, b and c`.
fn listed(parts: &[&str]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|part| printable(part, NAME_CHARS))
        .collect();
    super::verdicts::joined(&parts)
}
