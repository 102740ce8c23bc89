//! The answers that lead a comparison: are constraints enforced on each side, and is a side worse?

use super::labels::{self, percent};
use super::pairs;
use sobench_render::{Answer, Block, Tone};
use sobench_report::contenders::verdicts::MARGIN_POINTS;
use sobench_report::contenders::{self as matrix, answers};
use sobench_report::verdict::{MIN_FACTOR_MS, factor as times, significant};
use sobench_results::compare::conditions::ConditionEffect;
use sobench_results::compare::measure::Uncertainty;
use sobench_results::compare::run_spread::RunVariation;
use sobench_results::compare::{
    Comparison, DifferenceVerdict, Row, SideComparison, leading, leading_figures,
};
use sobench_results::metrics::registry::{Figure, Stat, Unit, rates};
use sobench_statistics::contrast::{KEPT_BY_CHANCE, KEPT_LEVEL, MIN_RUNS};

/// Differences of median times that matter, in percent.
const MARGIN_PERCENT: f64 = 20.0;

/// Bounds from which on times say nothing, in percent.
const UNUSABLE_PERCENT: f64 = 100.0;

/// The verdict block.
pub(super) fn block(comparison: &Comparison, rows: &matrix::Comparison) -> Block {
    let worse = if comparison.is_comparable() {
        let sides = comparison.against.iter();
        sides.map(|against| worse(against, comparison)).collect()
    } else {
        vec![not_comparable(comparison)]
    };
    let enforced = answers::enforced(rows);
    let cost = enforced.is_some().then(|| answers::cost(rows));
    let first = [enforced, cost].into_iter().flatten();
    Block::Verdict(first.chain(worse).collect())
}

fn not_comparable(comparison: &Comparison) -> Answer {
    let stops = comparison.conditions.iter();
    let stops = stops.filter(|condition| condition.effect == ConditionEffect::Stops);
    let names: Vec<&str> = stops.map(|condition| condition.field.name()).collect();
    Answer {
        question: "worse",
        tone: Tone::Plain,
        text: format!("not comparable: {} differ", names.join(", ")),
    }
}

/// Whether a side is worse than the first one: its claims, what the correct rate rules out, and what
/// the page cannot say.
fn worse(against: &SideComparison, comparison: &Comparison) -> Answer {
    let names = labels::names(&comparison.sides);
    let (first, name) = (&names[0], &names[against.other]);
    let claims: Vec<&Row> = against
        .claims
        .iter()
        .map(|row| &against.rows[*row])
        .collect();
    let is_measured = |row: &&Row| !matches!(row.measured.variation, RunVariation::Assumed(_));
    let (measured, assumed): (Vec<&Row>, Vec<&Row>) = claims.into_iter().partition(is_measured);
    let runs = [0, against.other].map(|side| comparison.sides[side].runs.len());
    let are_times_tested = runs[0].min(runs[1]) >= MIN_RUNS;
    let loss = correct_rate(against);
    let times = times_within(against);
    let is_loss_open = matches!(&loss, Some((_, bound)) if *bound > MARGIN_POINTS)
        || matches!(&times, Some((_, bound)) if *bound > MARGIN_PERCENT);
    let mut parts = Vec::new();
    if !are_times_tested {
        parts.push(format!("times need {MIN_RUNS} runs a side"));
    }
    for (rows, place) in [
        (&measured, ""),
        (&assumed, "in these runs, perhaps by chance, "),
    ] {
        for (verdict, words) in [
            (DifferenceVerdict::Worse, "worse"),
            (DifferenceVerdict::Better, "better"),
        ] {
            let of_verdict = rows.iter().filter(|row| row.verdict == verdict);
            let changes: Vec<String> = of_verdict.map(|row| change(row)).collect();
            if !changes.is_empty() {
                let changes = changes.join(", ");
                parts.push(format!("{place}{name} is {words} than {first}: {changes}"));
            }
        }
    }
    let place = against.pairs.as_ref().zip(against.cause.as_ref());
    let is_loss = place.is_some_and(|(_, cause)| cause.lost > cause.won);
    if let Some((of_pairs, cause)) = place {
        parts.push(pairs::place(of_pairs, cause, name));
    } else if measured.is_empty() && assumed.is_empty() {
        parts.push(format!("no difference seen between {first} and {name}"));
    }
    parts.extend(against.tokens_percent.map(|percent| {
        let more = if percent < 0.0 { "fewer" } else { "more" };
        format!(
            "{name} writes {} % {more} tokens an answer",
            significant(percent.abs())
        )
    }));
    parts.extend([loss, times].into_iter().flatten().map(|(text, _)| text));
    let has_worse = |row: &&Row| row.verdict == DifferenceVerdict::Worse;
    let is_worse = is_loss || measured.iter().any(has_worse);
    let tested = leading(against.rows.iter().map(|row| &row.measured));
    let (tone, word) = if is_worse {
        parts.rotate_left(usize::from(!are_times_tested));
        (Tone::Alarm, "YES: ")
    } else if !tested.contains(&true) || !are_times_tested || is_loss_open {
        (Tone::Plain, "not known: ")
    } else {
        (Tone::Good, "no: ")
    };
    Answer {
        question: "worse",
        tone,
        text: format!("{word}{}", parts.join("; ")),
    }
}

/// A figure on both sides: `median TPOT from 11.2 to 29.7 ms (2.7 times)`.
fn change(row: &Row) -> String {
    let (figure, a, b) = (row.measured.metric, row.measured.a, row.measured.b);
    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
    let is_time = figure.metric.unit == Unit::Milliseconds;
    let factor = match is_time && a >= MIN_FACTOR_MS && b >= MIN_FACTOR_MS {
        true => format!(" ({})", times(b, a)),
        false => String::new(),
    };
    format!(
        "{} from {} to {} {}{factor}",
        figure.words(),
        significant(a),
        significant(b),
        figure.unit()
    )
}

/// The largest difference of median times that their intervals allow, in percent, if none is claimed.
fn times_within(against: &SideComparison) -> Option<(String, f64)> {
    let is_time = |(_, row): &(usize, &Row)| {
        let figure = row.measured.metric;
        figure.stat == Some(Stat::Median)
            && leading_figures().contains(&figure)
            && row.measured.variation == RunVariation::Measured
    };
    let rows: Vec<(usize, &Row)> = against.rows.iter().enumerate().filter(is_time).collect();
    if rows.iter().any(|(place, _)| against.claims.contains(place)) {
        return None;
    }
    let bounds = rows.iter().filter_map(|(_, row)| row.relative);
    let most = bounds
        .map(|(low, high)| low.abs().max(high.abs()))
        .reduce(f64::max)?;
    let shown = significant(most);
    let text = match most {
        most if most > UNUSABLE_PERCENT => "median times vary too much to be compared".to_owned(),
        most if most > MARGIN_PERCENT => {
            format!("median times vary: a change of {shown} % is possible")
        }
        _ => format!("median times are within {shown} %"),
    };
    Some((text, most))
}

/// What the correct rate says where it is no claim, and the loss in points that is not ruled out.
fn correct_rate(against: &SideComparison) -> Option<(String, f64)> {
    let is_correct = |row: &Row| row.measured.metric == Figure::new(&rates::CORRECT_RATE);
    let place = against.rows.iter().position(is_correct)?;
    if against.claims.contains(&place) {
        return None;
    }
    let measured = &against.rows[place].measured;
    let difference = measured.difference?;
    Some(match &measured.spread {
        Uncertainty::None(why) => {
            let why = why.description().unwrap_or_default();
            (format!("correct rate not compared ({why})"), 0.0)
        }
        spread => {
            let (low, _) = spread.bounds(KEPT_LEVEL)?;
            let change = match difference {
                0.0 => "unchanged".to_owned(),
                other => format!("not distinguished ({other:+.1} points)"),
            };
            let loss = (-low).max(0.0);
            let (shown, sure) = (significant(loss), percent(1.0 - KEPT_BY_CHANCE));
            let text = match loss > MARGIN_POINTS {
                true => format!("correct rate {change}, but a loss of {shown} points is possible"),
                false => format!(
                    "correct rate {change}, and a loss above {shown} points is ruled out ({sure} %)"
                ),
            };
            (text, loss)
        }
    })
}
