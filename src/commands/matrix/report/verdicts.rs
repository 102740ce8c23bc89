//! Differences between contenders in words: each with its evidence, the most important first.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::cells::NAME_CHARS;
use super::{Comparison, Load};
use crate::commands::distinct::distinct;
use crate::commands::matrix::verdicts::{MARGIN_POINTS, MIN_REPEATS};
use sobench_core::printable::{printable, printable_message};
use sobench_render::{Block, Document, Tone};

/// Maximum number of sentences above the table. The rest is in the details.
const MAX_SENTENCES: usize = 12;

/// The kind of a difference.
const DIFFERS: &str = "differs";

/// Maximum number of characters of the reason of invalid answers.
const REASON_CHARS: usize = 80;

/// All verdicts of a comparison.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Verdicts {
    /// Number of differences that were tested.
    pub comparisons: usize,
    /// The level of every interval, in percent: Holm's method decides all comparisons with 5 % of
    /// error, and these intervals exclude 0 for exactly those that it finds to differ. `None`
    /// without comparisons.
    pub interval_percent: Option<f64>,
    pub verdicts: Vec<Verdict>,
}

/// A statement on one or several contenders, on a dataset under a load.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(with = "WrittenVerdict")]
pub struct Verdict {
    /// The subject first: of two that differ, the worse.
    pub contenders: Vec<String>,
    pub dataset: String,
    pub load: Load,
    pub finding: Finding,
}

/// What is stated.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// The contender has no figures. The reason may quote the server.
    DidNotRun { reason: String },
    /// The server refused constraints. The words are the server's most frequent ones, for
    /// `with_words` of the constraints; the keywords are those of all refusals.
    Refuses {
        refused: usize,
        constraints: usize,
        words: String,
        with_words: usize,
        keywords: Vec<String>,
    },
    /// No answer is correct though the server accepts requests: the causes with their share in
    /// percent, and a reason of invalid answers.
    NoneCorrect {
        answers: usize,
        causes: Vec<(Cause, f64)>,
        reason: Option<String>,
    },
    /// Answers were cut at the token limit: the share of each contender, in percent.
    Cut {
        shares_percent: Vec<f64>,
        output_len: u32,
    },
    /// A tested difference.
    Tested(Tested),
    /// Times and throughput need more repeats.
    TooFewRepeats { figure: Figure, repeats: usize },
    /// The client may have added more than a tenth of the figure.
    Distrusted { figure: Figure },
    /// Fewer answers were decoded at once with the constraint than without it, so that added TTFT
    /// and TPOT are unknown.
    HeldUp { answers: [f64; 2] },
    /// Fewer answers of one contender were decoded at once.
    FewerAtOnce { figure: Figure, answers: [f64; 2] },
}

/// A tested difference of two contenders.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    pub figure: Figure,
    pub ruling: Ruling,
    /// The figure of each contender, and the first minus the second, with its interval, in the unit
    /// of the figure.
    pub levels: [f64; 2],
    pub difference: f64,
    pub low: f64,
    pub high: f64,
    /// Why correct rates differ, in points: of the first more than of the second.
    pub causes: Vec<(Cause, f64)>,
    /// The most frequent reason of invalid answers of each contender.
    pub invalid_reasons: [Option<String>; 2],
    /// The limit of tokens of an answer.
    pub output_len: u32,
    /// Whether every request has the same constraint.
    pub one_constraint: bool,
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    Differs,
    /// The interval has 0, and no difference that matters.
    DoesNotDiffer,
    /// The interval has 0, and differences that matter.
    Unclear,
}

/// A figure in which contenders are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    CorrectRate,
    /// Of constrained answers with a reference.
    Accuracy,
    Compliance,
    CompileCold,
    FirstTtftAdded,
    TtftAdded,
    TpotAdded,
    /// Without a control arm.
    Ttft,
    Tpot,
    E2el,
    OutputThroughput,
}

/// Why an answer is not correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Invalid,
    Truncated,
    Refused,
    Failed,
}

impl Cause {
    /// The word for answers with this cause.
    fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Truncated => "cut",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

impl Figure {
    pub fn name(self) -> &'static str {
        match self {
            Self::CorrectRate => "correct rate",
            Self::Accuracy => "accuracy",
            Self::Compliance => "compliance",
            Self::CompileCold => "compile time",
            Self::FirstTtftAdded => "added TTFT of first uses",
            Self::TtftAdded => "added TTFT",
            Self::TpotAdded => "added TPOT",
            Self::Ttft => "TTFT",
            Self::Tpot => "TPOT",
            Self::E2el => "E2EL",
            Self::OutputThroughput => "output throughput",
        }
    }

    /// The unit of a difference.
    pub fn unit(self) -> &'static str {
        match self {
            Self::CorrectRate | Self::Accuracy | Self::Compliance => "points",
            Self::OutputThroughput => "tok/s",
            _ => "ms",
        }
    }

    pub fn is_rate(self) -> bool {
        matches!(self, Self::CorrectRate | Self::Accuracy | Self::Compliance)
    }

    /// Whether a larger figure is better.
    pub fn is_gain(self) -> bool {
        self.is_rate() || self == Self::OutputThroughput
    }
}

impl Finding {
    /// The key in JSON.
    fn kind(&self) -> &'static str {
        match self {
            Self::DidNotRun { .. } => "did_not_run",
            Self::Refuses { .. } => "refuses",
            Self::NoneCorrect { .. } => "none_correct",
            Self::Cut { .. } => "cut",
            Self::Tested(tested) => match tested.ruling {
                Ruling::Differs => DIFFERS,
                Ruling::DoesNotDiffer => "does_not_differ",
                Ruling::Unclear => "unclear",
            },
            Self::TooFewRepeats { .. } => "too_few_repeats",
            Self::Distrusted { .. } | Self::HeldUp { .. } | Self::FewerAtOnce { .. } => {
                "not_compared"
            }
        }
    }

    /// The figure, if it is about one.
    pub fn figure(&self) -> Option<Figure> {
        match self {
            Self::Tested(tested) => Some(tested.figure),
            Self::TooFewRepeats { figure, .. }
            | Self::Distrusted { figure }
            | Self::FewerAtOnce { figure, .. } => Some(*figure),
            Self::DidNotRun { .. }
            | Self::Refuses { .. }
            | Self::NoneCorrect { .. }
            | Self::Cut { .. }
            | Self::HeldUp { .. } => None,
        }
    }

    /// The place on the page, and within it the relative size of a difference, largest first.
    fn rank(&self) -> (u8, f64) {
        match self {
            Self::DidNotRun { .. } => (0, 0.0),
            Self::Refuses { .. } => (1, 0.0),
            Self::NoneCorrect { .. } => (1, 1.0),
            Self::Tested(tested) => {
                let size = -tested.difference.abs() / tested.scale();
                match tested.ruling {
                    Ruling::Differs if tested.figure.is_rate() => (2, size),
                    Ruling::Unclear if tested.names_cause() => (3, size),
                    Ruling::Differs if tested.figure == Figure::CompileCold => (5, size),
                    Ruling::Differs => (6, size),
                    Ruling::Unclear if tested.figure.is_rate() => (9, 0.0),
                    Ruling::Unclear => (10, 0.0),
                    Ruling::DoesNotDiffer => (11, 0.0),
                }
            }
            Self::Cut { .. } => (4, 0.0),
            // After the differences in time.
            Self::HeldUp { .. } | Self::FewerAtOnce { .. } => (6, 1.0),
            Self::TooFewRepeats { .. } => (7, 0.0),
            Self::Distrusted { .. } => (8, 0.0),
        }
    }
}

impl Tested {
    fn scale(&self) -> f64 {
        self.levels[0].abs().max(self.levels[1].abs()).max(1e-9)
    }

    /// Whether the difference is a sentence of its own though it is not certain.
    fn names_cause(&self) -> bool {
        self.figure.is_rate() && self.difference.abs() >= MARGIN_POINTS
    }

    /// The bound of the interval that is farther from 0.
    fn farthest_bound(&self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// Numbers with the decimals that the interval needs.
    fn numbers(&self) -> impl Fn(f64) -> String + use<> {
        let size = self.farthest_bound();
        let decimals = match size {
            _ if self.figure.is_rate() => 1,
            100.0.. => 0,
            1.0.. => 1,
            0.1.. => 2,
            _ => 3,
        };
        move |value| {
            let text = format!("{value:.decimals$}");
            // No negative zero.
            if text.trim_start_matches('-').parse() == Ok(0.0) {
                text.trim_start_matches('-').to_owned()
            } else {
                text
            }
        }
    }

    /// `difference 0.1 ms, interval -0.2 to 0.4`.
    fn evidence(&self) -> String {
        let number = self.numbers();
        format!(
            "difference {} {}, interval {} to {}",
            number(self.difference),
            self.figure.unit(),
            number(self.low),
            number(self.high)
        )
    }

    /// The causes of a lower correct rate; empty if there are none.
    fn cause(&self) -> String {
        let total: f64 = -self.difference;
        let phrase = |cause: Cause| match cause {
            Cause::Invalid => match &self.invalid_reasons[0] {
                Some(reason) => {
                    format!("invalid (for example: {})", printable(reason, REASON_CHARS))
                }
                None => "invalid".to_owned(),
            },
            Cause::Truncated => format!("cut at {} tokens: raise --output-len", self.output_len),
            Cause::Refused | Cause::Failed => cause.name().to_owned(),
        };
        let mut causes: Vec<(Cause, f64)> = self
            .causes
            .iter()
            .copied()
            .filter(|(_, points)| *points > 0.05 * total)
            .collect();
        causes.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let fewer = self
            .causes
            .iter()
            .filter(|(_, points)| *points < -0.05 * total)
            .map(|(cause, points)| format!("and {:.1} points fewer {}", -points, cause.name()));
        let fewer: Vec<String> = fewer.collect();
        match &causes[..] {
            [] => String::new(),
            [(cause, _)] if fewer.is_empty() => format!(", all of them {}", phrase(*cause)),
            several => {
                let part = |(cause, points): &(Cause, f64)| {
                    format!("{points:.1} points more {}", phrase(*cause))
                };
                let parts = several.iter().map(part).chain(fewer);
                format!(": {}", parts.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The sentence on two contenders that differ, or may differ.
    fn sentence(&self, first: &str, second: &str) -> String {
        let number = self.numbers();
        let size = format!("{} {}", number(self.difference.abs()), self.figure.unit());
        let [a, b] = self.levels;
        let interval = format!("interval {} to {}", number(self.low), number(self.high));
        if self.ruling == Ruling::Unclear {
            let what = match self.figure {
                Figure::CorrectRate => "fewer correct answers",
                Figure::Accuracy => "fewer right answers",
                _ => "lower compliance",
            };
            return format!(
                "too few requests to decide whether {first} has {what} than {second} \
                 ({a:.1} and {b:.1} %; difference {} points, {interval}){}",
                number(self.difference),
                self.cause()
            );
        }
        match self.figure {
            Figure::CorrectRate => format!(
                "{first}: {size} fewer correct answers than {second} ({a:.1} and {b:.1} %; \
                 {interval}){}",
                self.cause()
            ),
            Figure::Accuracy => format!(
                "{first}: {size} fewer right answers than {second} ({a:.1} and {b:.1} %; \
                 {interval})"
            ),
            Figure::Compliance => format!(
                "{first}: compliance {size} lower than that of {second} ({a:.1} and {b:.1} %; \
                 {interval})"
            ),
            Figure::CompileCold if self.one_constraint => format!(
                "{first} compiles this constraint in {}, {second} in {} (difference {size}, {interval})",
                duration(a),
                duration(b)
            ),
            Figure::CompileCold => format!(
                "{first}: the first answer with a constraint comes {} later than others, that of \
                 {second} {} later (compile time and the wait behind other compiles; difference \
                 {size}, {interval})",
                duration(a),
                duration(b)
            ),
            Figure::TtftAdded | Figure::FirstTtftAdded | Figure::TpotAdded => format!(
                "{first} adds {size} more to {} than {second} ({} and {} ms; {interval})",
                match self.figure {
                    Figure::TtftAdded => "TTFT",
                    Figure::FirstTtftAdded => "TTFT at the first use of a constraint",
                    _ => "TPOT",
                },
                number(a),
                number(b)
            ),
            Figure::Ttft | Figure::Tpot | Figure::E2el => format!(
                "{first}: {} {size} longer than that of {second} ({} and {} ms; {interval})",
                self.figure.name(),
                number(a),
                number(b)
            ),
            Figure::OutputThroughput => format!(
                "{first}: output throughput {size} lower than that of {second} ({a:.1} and \
                 {b:.1} tok/s; {interval})"
            ),
        }
    }
}

fn duration(ms: f64) -> String {
    match ms {
        1000.0.. => format!("{:.1} s", ms / 1000.0),
        10.0.. => format!("{ms:.0} ms"),
        0.95.. => format!("{ms:.1} ms"),
        _ => "less than 1 ms".to_owned(),
    }
}

/// The sentence of one verdict, without its dataset and load.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.contenders.iter().map(|name| shown(name)).collect();
        let first = names.first().map_or("", String::as_str);
        let second = names.get(1).map_or("", String::as_str);
        match &self.finding {
            Finding::DidNotRun { reason } => {
                write!(f, "{first} did not run: {}", printable_message(reason))
            }
            Finding::Refuses {
                refused,
                constraints,
                words,
                with_words,
                keywords,
            } => {
                match constraints {
                    1 => write!(f, "{first} refuses the constraint")?,
                    _ => write!(f, "{first} refuses {refused} of {constraints} constraints")?,
                }
                let words = printable_message(words);
                if with_words == refused {
                    write!(f, ": {words}")?;
                    return match &keywords[..] {
                        [] => Ok(()),
                        [keyword] => write!(f, " (keyword {keyword})"),
                        several => write!(f, " (keywords {})", joined(several)),
                    };
                }
                write!(f, ", {with_words} of them with \"{words}\"")?;
                match &keywords[..] {
                    [] => Ok(()),
                    several => write!(f, "; keywords in all of them: {}", joined(several)),
                }
            }
            Finding::NoneCorrect {
                answers,
                causes,
                reason,
            } => {
                let cause = |(cause, percent): &(Cause, f64)| {
                    let name = match cause {
                        Cause::Truncated => "cut at the token limit",
                        other => other.name(),
                    };
                    match causes.len() {
                        1 => format!("all are {name}"),
                        _ => format!("{percent:.1} % {name}"),
                    }
                };
                let causes: Vec<String> = causes.iter().map(cause).collect();
                write!(
                    f,
                    "none of {answers} answers of {first} is correct: {}",
                    causes.join(", ")
                )?;
                match reason {
                    Some(reason) => {
                        write!(f, " (for example: {})", printable(reason, REASON_CHARS))
                    }
                    None => Ok(()),
                }
            }
            Finding::Cut {
                shares_percent,
                output_len,
            } => {
                let share = |(name, share): (&String, &f64)| format!("{name} {share:.1} %");
                let shares: Vec<String> = names.iter().zip(shares_percent).map(share).collect();
                write!(
                    f,
                    "answers that were cut at {output_len} tokens: {}; compare compliance, or run \
                     again with --output-len {}",
                    shares.join(", "),
                    output_len.saturating_mul(2)
                )
            }
            Finding::Tested(tested)
                if tested.ruling == Ruling::Differs
                    || tested.ruling == Ruling::Unclear && tested.names_cause() =>
            {
                f.write_str(&tested.sentence(first, second))
            }
            Finding::Tested(tested) => {
                let part = format!("{} ({})", tested.figure.name(), tested.evidence());
                f.write_str(&equality(tested, &joined(&names), &part))
            }
            Finding::TooFewRepeats { figure, repeats } => {
                f.write_str(&too_few(figure.name(), *repeats))
            }
            Finding::Distrusted { figure } => {
                f.write_str(&distrusted(figure.name(), &joined(&names)))
            }
            Finding::FewerAtOnce {
                figure,
                answers: [a, b],
            } => {
                write!(
                    f,
                    "not compared: {} of {first} and {second}, which decoded {a:.1} and {b:.1} \
                     answers at once ({SHORTER_STEPS}): compare at a --request-rate that both \
                     sustain",
                    figure.name()
                )
            }
            Finding::HeldUp { answers: [a, b] } => {
                write!(
                    f,
                    "not compared: added TTFT and TPOT of {first}, which decoded {a:.1} answers at \
                     once with the constraint and {b:.1} without ({SHORTER_STEPS}): measure at a \
                     --request-rate that it sustains"
                )
            }
        }
    }
}

/// Why answers that are decoded at once matter.
const SHORTER_STEPS: &str = "steps of fewer answers are shorter";

fn equality(tested: &Tested, names: &str, parts: &str) -> String {
    match tested.ruling {
        Ruling::Unclear if tested.figure.is_rate() => {
            format!("too few requests to decide whether {names} differ in {parts}")
        }
        Ruling::Unclear => {
            format!("runs vary too much to decide whether {names} differ in {parts}")
        }
        _ => format!("{names} do not differ in {parts}"),
    }
}

fn too_few(figures: &str, repeats: usize) -> String {
    let needed = MIN_REPEATS;
    format!(
        "too few repeats to decide about {figures}: {needed} are needed, there {}: add --repeat \
         {needed}",
        if repeats == 1 {
            "is 1".to_owned()
        } else {
            format!("are {repeats}")
        }
    )
}

fn distrusted(figures: &str, names: &str) -> String {
    format!(
        "not compared: {figures} of {names}, of which the client may have added more than a tenth"
    )
}

fn shown(name: &str) -> String {
    printable(name, NAME_CHARS)
}

/// `a`, `a and b`, `a, b and c`.
fn joined(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[derive(JsonSchema, Serialize)]
struct WrittenVerdict<'a> {
    kind: &'static str,
    contenders: &'a [String],
    dataset: &'a str,
    load: Load,
    figure: Option<Figure>,
    unit: Option<&'static str>,
    difference: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    sentence: String,
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tested = match &self.finding {
            Finding::Tested(tested) => Some(tested),
            _ => None,
        };
        WrittenVerdict {
            kind: self.finding.kind(),
            contenders: &self.contenders,
            dataset: &self.dataset,
            load: self.load,
            figure: self.finding.figure(),
            unit: tested.map(|tested| tested.figure.unit()),
            difference: tested.map(|tested| tested.difference),
            low: tested.map(|tested| tested.low),
            high: tested.map(|tested| tested.high),
            sentence: self.to_string(),
        }
        .serialize(serializer)
    }
}

/// A sentence of the page, with the datasets and loads that it is about.
struct Line {
    rank: (u8, f64),
    dataset: String,
    loads: Vec<Load>,
    text: String,
    /// What the numbers of a tested sentence are about; the same at several loads, with other
    /// numbers.
    subject: Option<Subject>,
    /// The difference without its sign, or the farthest bound of the intervals.
    size: f64,
    /// Loads of the same sentence with smaller numbers.
    other_loads: Vec<Load>,
}

/// The contenders and the figures of a tested sentence.
#[derive(Clone, Debug, PartialEq)]
struct Subject {
    /// The first part of [`Finding::rank`].
    kind: u8,
    contenders: Vec<String>,
    figures: Vec<Figure>,
}

/// The sentence of several verdicts of the same kind.
struct Grouped {
    text: String,
    /// Sorted names of contenders.
    contenders: Vec<String>,
    figures: Vec<Figure>,
    /// The farthest bound of the intervals.
    bound: f64,
}

impl Line {
    fn new(verdict: &Verdict) -> Self {
        let figure = verdict.finding.figure();
        let differs = verdict.finding.kind() == DIFFERS;
        let rank = verdict.finding.rank();
        Self {
            rank,
            dataset: verdict.dataset.clone(),
            loads: vec![verdict.load],
            text: verdict.to_string(),
            subject: figure.filter(|_| differs).map(|figure| Subject {
                kind: rank.0,
                contenders: verdict.contenders.clone(),
                figures: vec![figure],
            }),
            size: match &verdict.finding {
                Finding::Tested(tested) => tested.difference.abs(),
                _ => 0.0,
            },
            other_loads: Vec::new(),
        }
    }

    /// The line of a verdict and those that share its sentence.
    fn from_group(verdict: &Verdict, group: Grouped) -> Self {
        let is_tested = matches!(verdict.finding, Finding::Tested(_));
        Self {
            text: group.text,
            subject: is_tested.then_some(Subject {
                kind: verdict.finding.rank().0,
                contenders: group.contenders,
                figures: group.figures,
            }),
            size: group.bound,
            ..Self::new(verdict)
        }
    }

    /// Takes over a line that says the same about other loads; gives it back if it does not.
    fn merge(&mut self, mut other: Self) -> Option<Self> {
        let is_alike = self.subject.is_some() && self.subject == other.subject;
        if self.dataset != other.dataset || (self.text != other.text && !is_alike) {
            return Some(other);
        }
        if self.text == other.text {
            other.loads.retain(|load| !self.loads.contains(load));
            self.loads.append(&mut other.loads);
            return None;
        }
        if other.size > self.size {
            std::mem::swap(self, &mut other);
            self.other_loads = std::mem::take(&mut other.other_loads);
        }
        self.other_loads.append(&mut other.loads);
        None
    }

    /// Whether it claims a difference.
    fn is_difference(&self) -> bool {
        (2..7).contains(&self.rank.0)
    }

    /// With its place, if there are several.
    fn sentence(self, has_several_datasets: bool, loads: &[Load]) -> String {
        let names = |loads: &[Load]| joined(&loads.iter().map(Load::to_string).collect::<Vec<_>>());
        let mut place = Vec::new();
        if has_several_datasets {
            place.push(shown(&self.dataset));
        }
        if loads.len() > 1 {
            place.push(if self.loads.len() == loads.len() {
                "all loads".to_owned()
            } else {
                names(&self.loads)
            });
        }
        let likewise = match &self.other_loads[..] {
            [] => String::new(),
            others if self.is_difference() => format!("; less, but likewise, at {}", names(others)),
            others => format!("; likewise at {}", names(others)),
        };
        let text = format!("{}{likewise}", self.text);
        if place.is_empty() {
            text
        } else {
            format!("{}: {text}", place.join(", "))
        }
    }
}

impl Verdicts {
    /// The verdicts that claim a difference between contenders.
    pub fn claims(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts
            .iter()
            .filter(|verdict| verdict.finding.kind() == DIFFERS)
    }

    /// The sentences of the page, the most important first. The same statement on several loads is
    /// one sentence, with the largest numbers; figures without a difference are grouped.
    pub fn sentences(&self) -> Vec<String> {
        let mut lines: Vec<Line> = Vec::new();
        for verdict in &self.verdicts {
            let new = match verdict.finding.rank().0 {
                7.. => match self.grouped(verdict) {
                    Some(group) => Line::from_group(verdict, group),
                    None => continue,
                },
                _ => Line::new(verdict),
            };
            let left = lines
                .iter_mut()
                .try_fold(new, |new, line| line.merge(new).ok_or(()));
            lines.extend(left.ok());
        }
        lines.sort_by(|one, other| {
            let [one, other] = [one, other].map(|line| line.rank);
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        let datasets = distinct(self.verdicts.iter().map(|verdict| verdict.dataset.as_str()));
        let all_loads = self.verdicts.iter().fold(Vec::new(), |mut loads, verdict| {
            if !loads.contains(&verdict.load) {
                loads.push(verdict.load);
            }
            loads
        });
        let sentence = |line: Line| line.sentence(datasets.len() > 1, &all_loads);
        lines.into_iter().map(sentence).collect()
    }

    /// The sentence of all figures of the same kind as the verdict's: `None` if an earlier verdict
    /// has made it.
    fn grouped(&self, verdict: &Verdict) -> Option<Grouped> {
        let rank = verdict.finding.rank().0;
        let is_alike = |other: &&Verdict| {
            other.dataset == verdict.dataset
                && other.load == verdict.load
                && other.finding.rank().0 == rank
        };
        let alike: Vec<&Verdict> = self.verdicts.iter().filter(is_alike).collect();
        let figures = distinct_figures(&alike);
        match verdict.finding {
            Finding::TooFewRepeats { repeats, .. } => {
                let names: Vec<String> = figures
                    .iter()
                    .map(|figure| figure.name().to_owned())
                    .collect();
                std::ptr::eq(alike[0], verdict).then(|| Grouped {
                    text: too_few(&joined(&names), repeats),
                    contenders: Vec::new(),
                    figures,
                    bound: 0.0,
                })
            }
            _ => {
                // Figures with the same groups of contenders share a sentence.
                let pairs_of = |figure: Figure| -> Vec<&[String]> {
                    alike
                        .iter()
                        .filter(|other| other.finding.figure() == Some(figure))
                        .map(|other| &other.contenders[..])
                        .collect()
                };
                let own_pairs = pairs_of(verdict.finding.figure()?);
                let names = distinct(own_pairs.iter().copied().flatten().map(String::as_str));
                let is_whole = own_pairs.len() == names.len() * (names.len() - 1) / 2;
                let is_own = |other: &&&Verdict| {
                    let pairs = other.finding.figure().map(pairs_of);
                    let both_whole = is_whole && pairs.as_ref() == Some(&own_pairs);
                    let others_whole = pairs.is_some_and(|pairs| {
                        let names = distinct(pairs.iter().copied().flatten().map(String::as_str));
                        pairs.len() == names.len() * (names.len() - 1) / 2
                    });
                    both_whole
                        || !is_whole && !others_whole && other.contenders == verdict.contenders
                };
                let group: Vec<&Verdict> = alike.iter().filter(is_own).copied().collect();
                if !std::ptr::eq(*group.first()?, verdict) {
                    return None;
                }
                let names: Vec<String> = if is_whole {
                    names.iter().map(|name| shown(name)).collect()
                } else {
                    verdict.contenders.iter().map(|name| shown(name)).collect()
                };
                let part = |figure: &Figure| {
                    let of_figure = group
                        .iter()
                        .filter(|other| other.finding.figure() == Some(*figure));
                    let tested: Vec<&Tested> = of_figure
                        .filter_map(|other| match &other.finding {
                            Finding::Tested(tested) => Some(tested),
                            _ => None,
                        })
                        .collect();
                    figure_part(*figure, &tested)
                };
                let figures = distinct_figures(&group);
                let parts: Vec<String> = figures.iter().map(part).collect();
                let text = match &verdict.finding {
                    Finding::Tested(tested) => equality(tested, &joined(&names), &parts.join(", ")),
                    _ => distrusted(&joined(&parts), &joined(&names)),
                };
                let bounds = group.iter().filter_map(|other| match &other.finding {
                    Finding::Tested(tested) => Some(tested.farthest_bound()),
                    _ => None,
                });
                let mut contenders = names;
                contenders.sort_unstable();
                Some(Grouped {
                    text,
                    contenders,
                    figures,
                    bound: bounds.fold(0.0, f64::max),
                })
            }
        }
    }
}

/// `TPOT (difference 0.1 ms, interval -0.2 to 0.4)`; of several pairs the largest difference.
fn figure_part(figure: Figure, tested: &[&Tested]) -> String {
    let evidence = match tested {
        [] => return figure.name().to_owned(),
        [one] => one.evidence(),
        several => {
            let by_size = |one: &&&Tested, other: &&&Tested| {
                one.difference.abs().total_cmp(&other.difference.abs())
            };
            let largest = several
                .iter()
                .max_by(by_size)
                .map_or(several[0], |found| found);
            let bound = several
                .iter()
                .map(|one| one.farthest_bound())
                .fold(0.0, f64::max);
            let widest = Tested {
                low: -bound,
                high: bound,
                ..largest.clone()
            };
            let number = widest.numbers();
            format!(
                "largest difference {} {}, intervals within {} to {}",
                number(largest.difference.abs()),
                figure.unit(),
                number(-bound),
                number(bound)
            )
        }
    };
    format!("{} ({evidence})", figure.name())
}

fn distinct_figures(verdicts: &[&Verdict]) -> Vec<Figure> {
    let mut figures: Vec<Figure> = verdicts
        .iter()
        .filter_map(|verdict| verdict.finding.figure())
        .collect();
    figures.sort_unstable();
    figures.dedup();
    figures
}

/// The line about the intervals; `None` without comparisons.
fn method(verdicts: &Verdicts) -> Option<String> {
    let level = verdicts.interval_percent?;
    Some(match verdicts.comparisons {
        1 => format!(
            "The interval is a {level:.0} % interval. The sentence compares means over the requests \
             that all runs have."
        ),
        comparisons => format!(
            "Sentences compare means over the requests that all runs have; the tables below are \
             over all requests. Intervals in these sentences are {level:.2} % intervals: Holm's \
             method over {comparisons} comparisons keeps the chance that any sentence claims a \
             difference between equal contenders at 5 %."
        ),
    })
}

/// Adds the sentences of a comparison.
pub(super) fn add(document: &mut Document, comparison: &Comparison) {
    let mut sentences = comparison.verdicts.sentences();
    if sentences.is_empty() {
        let contenders = distinct(comparison.rows.iter().map(|row| row.contender.as_str()));
        sentences.push(match contenders.len() {
            0 | 1 => "one contender: there is no other to compare it with".to_owned(),
            _ => {
                "contenders are not compared: fewer than two have figures of the same dataset and \
                  load"
                    .to_owned()
            }
        });
    }
    let rest = sentences.split_off(sentences.len().min(MAX_SENTENCES));
    document.paragraphs(sentences);
    if !rest.is_empty() {
        let count = rest.len();
        document.paragraph(format!(
            "{count} more: in the JSON file, and folded in the HTML page."
        ));
        document.push(Block::Details {
            summary: format!("{count} more comparisons"),
            blocks: rest
                .into_iter()
                .map(|sentence| Block::Paragraph {
                    tone: Tone::Plain,
                    text: sentence.into(),
                })
                .collect(),
        });
    }
    document.paragraphs(method(&comparison.verdicts));
    document.gap();
}
