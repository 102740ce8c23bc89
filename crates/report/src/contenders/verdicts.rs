//! Differences between contenders in words: each with its evidence, the most important first.

use std::fmt;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::cells::NAME_CHARS;
use super::{Comparison, Load, answers};
use sobench_core::distinct::distinct;

use sobench_core::printable::{printable, printable_message};
use sobench_render::{Cell, Document, Table};
use sobench_results::compare::measure::Measured;
use sobench_results::metrics::judgement::Cause;
use sobench_results::metrics::registry::{Better, Figure};
use sobench_statistics::contrast::MIN_RUNS;

/// Maximum number of sentences above the table.
const MAX_SENTENCES: usize = 3;

/// Differences of rates that matter, in points.
pub const MARGIN_POINTS: f64 = 5.0;

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
    /// `with_words` of the constraints; the keywords, with their counts, are those of all refusals.
    Refuses {
        refused: usize,
        constraints: usize,
        words: String,
        with_words: usize,
        by_keyword: Option<String>,
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
    TooFewRepeats { figure: Compared, repeats: usize },
    /// The client may have added more than a tenth of the figure.
    Distrusted { figure: Compared },
    /// Fewer answers were decoded at once with the constraint than without it, so that added TTFT
    /// and TPOT are unknown.
    HeldUp { answers: [f64; 2] },
    /// Fewer answers of one contender were decoded at once.
    FewerAtOnce { figure: Compared, answers: [f64; 2] },
}

/// A tested difference of two contenders.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    pub figure: Compared,
    pub ruling: Ruling,
    /// The figure of each contender, and the first minus the second, with its interval, in the unit
    /// of the figure.
    pub levels: [f64; 2],
    pub difference: f64,
    pub low: f64,
    pub high: f64,
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

/// What two contenders are compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    Figure(Figure),
    /// TTFT of first uses of a constraint minus that of later uses.
    CompileTime,
}

impl Compared {
    /// The words for it in a sentence.
    pub fn name(self) -> String {
        match self {
            Self::Figure(figure) => figure.words(),
            Self::CompileTime => "compile time".to_owned(),
        }
    }

    /// The unit of a difference.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Figure(figure) if figure.is_rate() => "points",
            Self::Figure(figure) => figure.unit(),
            Self::CompileTime => "ms",
        }
    }

    pub fn is_rate(self) -> bool {
        matches!(self, Self::Figure(figure) if figure.is_rate())
    }

    /// Whether a larger figure is better.
    pub fn is_gain(self) -> bool {
        matches!(self, Self::Figure(figure) if figure.better() == Better::Up)
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Figure(figure) => write!(f, "{figure}"),
            Self::CompileTime => f.write_str("compile_ms"),
        }
    }
}

impl Tested {
    /// Before the level of its interval is known.
    pub fn new(figure: Compared, measured: &Measured) -> Self {
        Self {
            figure,
            ruling: Ruling::Unclear,
            levels: [measured.a, measured.b].map(Option::unwrap_or_default),
            difference: -measured.difference.unwrap_or_default(),
            low: f64::NAN,
            high: f64::NAN,
        }
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
    pub fn figure(&self) -> Option<Compared> {
        match self {
            Self::Tested(tested) => Some(tested.figure),
            Self::TooFewRepeats { figure, .. }
            | Self::Distrusted { figure }
            | Self::FewerAtOnce { figure, .. } => Some(*figure),
            _ => None,
        }
    }

    pub(super) fn tested(&self) -> Option<&Tested> {
        match self {
            Self::Tested(tested) => Some(tested),
            _ => None,
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
                    Ruling::Differs if tested.figure == Compared::CompileTime => (5, size),
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
    pub(super) fn farthest_bound(&self) -> f64 {
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

    /// `TPOT of a and b: 7.1 and 5.5 ms (difference 1.6 ms, interval 1.2 to 2.0)`.
    fn sentence(&self, names: &[String]) -> String {
        let number = self.numbers();
        let unit = if self.figure.is_rate() {
            "%"
        } else {
            self.figure.unit()
        };
        let levels: Vec<String> = self.levels.iter().map(|level| number(*level)).collect();
        let doubt = match self.ruling {
            Ruling::Differs => "",
            Ruling::DoesNotDiffer => "no difference that matters: ",
            Ruling::Unclear if self.figure.is_rate() => "too few requests to decide: ",
            Ruling::Unclear => "runs vary too much to decide: ",
        };
        format!(
            "{doubt}{} of {}: {} {unit} ({})",
            self.figure.name(),
            joined(names),
            joined(&levels),
            self.evidence()
        )
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
                by_keyword,
            } => {
                match constraints {
                    1 => write!(f, "{first} refuses the constraint")?,
                    _ => write!(f, "{first} refuses {refused} of {constraints} constraints")?,
                }
                let words = printable_message(words);
                match with_words == refused {
                    true => write!(f, ": {words}")?,
                    false => write!(f, ", {with_words} of them with \"{words}\"")?,
                }
                by_keyword.iter().try_for_each(|sum| write!(f, " ({sum})"))
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
            Finding::Tested(tested) => f.write_str(&tested.sentence(&names)),
            Finding::TooFewRepeats { figure, repeats } => {
                f.write_str(&too_few(&figure.name(), *repeats))
            }
            Finding::Distrusted { figure } => {
                f.write_str(&distrusted(&figure.name(), &joined(&names)))
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

fn too_few(figures: &str, repeats: usize) -> String {
    let needed = MIN_RUNS;
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
pub(super) fn joined(parts: &[String]) -> String {
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
    figure: Option<String>,
    unit: Option<&'static str>,
    difference: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    sentence: String,
}

impl Serialize for Verdict {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tested = self.finding.tested();
        WrittenVerdict {
            kind: self.finding.kind(),
            contenders: &self.contenders,
            dataset: &self.dataset,
            load: self.load,
            figure: self.finding.figure().map(|figure| figure.to_string()),
            unit: tested.map(|tested| tested.figure.unit()),
            difference: tested.map(|tested| tested.difference),
            low: tested.map(|tested| tested.low),
            high: tested.map(|tested| tested.high),
            sentence: self.to_string(),
        }
        .serialize(serializer)
    }
}

impl Verdicts {
    /// The verdicts that claim a difference between contenders.
    pub fn claims(&self) -> impl Iterator<Item = &Verdict> {
        let is_claim = |verdict: &&Verdict| verdict.finding.kind() == DIFFERS;
        self.verdicts.iter().filter(is_claim)
    }

    /// The sentence of each verdict with its place, the most important first.
    pub fn sentences(&self) -> Vec<String> {
        self.sorted()
            .map(|verdict| self.sentence(verdict))
            .collect()
    }

    fn sorted(&self) -> impl Iterator<Item = &Verdict> {
        let mut sorted: Vec<&Verdict> = self.verdicts.iter().collect();
        sorted.sort_by(|one, other| {
            let [one, other] = [one, other].map(|verdict| verdict.finding.rank());
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
        sorted.into_iter()
    }

    /// The dataset and the load of a verdict, each if there are several.
    fn place(&self, verdict: &Verdict) -> Vec<String> {
        let is_other_dataset = |other: &Verdict| other.dataset != verdict.dataset;
        let is_other_load = |other: &Verdict| other.load != verdict.load;
        let mut place = Vec::new();
        if self.verdicts.iter().any(is_other_dataset) {
            place.push(shown(&verdict.dataset));
        }
        if self.verdicts.iter().any(is_other_load) {
            place.push(verdict.load.to_string());
        }
        place
    }

    fn sentence(&self, verdict: &Verdict) -> String {
        match &self.place(verdict)[..] {
            [] => verdict.to_string(),
            place => format!("{}: {verdict}", place.join(", ")),
        }
    }

    /// A row for each tested difference, the most important first; `None` without one.
    fn differences(&self) -> Option<Table> {
        let heads = [
            "",
            "figure",
            "first, second",
            "difference\n(interval)",
            "verdict",
        ];
        let row = |verdict: &Verdict| {
            let Finding::Tested(tested) = &verdict.finding else {
                return None;
            };
            let names: Vec<String> = verdict.contenders.iter().map(|name| shown(name)).collect();
            let number = tested.numbers();
            let [a, b] = tested.levels.map(&number);
            let unit = tested.figure.unit();
            Some([
                self.place(verdict).join(", "),
                tested.figure.name(),
                format!("{} {a}, {} {b}", names[0], names[1]),
                format!(
                    "{} {unit}\n({} to {})",
                    number(tested.difference),
                    number(tested.low),
                    number(tested.high)
                ),
                match tested.ruling {
                    Ruling::Differs => "differ",
                    Ruling::DoesNotDiffer => "no difference that matters",
                    Ruling::Unclear => "not distinguished",
                }
                .to_owned(),
            ])
        };
        let mut table = Table::new(heads, 3)
            .left_aligned(4)
            .with_rows(self.sorted().filter_map(row));
        if table.rows.iter().all(|row| row[0] == Cell::from("")) {
            let mut columns = 0..;
            table.retain_columns(|_| columns.next() != Some(0));
        }
        table.non_empty()
    }
}

/// The line about the intervals; `None` without comparisons.
fn method(verdicts: &Verdicts) -> Option<String> {
    let level = verdicts.interval_percent?;
    Some(format!(
        "Contenders are compared as the sides of sobench compare, with {level:.2} % intervals: Holm's method \
         over {} comparisons keeps the chance that any claims a difference between equal contenders at 5 %.",
        verdicts.comparisons
    ))
}

/// Adds the verdict of a comparison, and what is said of contenders without a test: that they did not
/// run, refuse constraints, or cannot be compared.
pub(super) fn add(document: &mut Document, comparison: &Comparison) {
    let verdicts = &comparison.verdicts;
    document.push(answers::block(comparison));
    let untested = |verdict: &&Verdict| !matches!(verdict.finding, Finding::Tested(_));
    let sentences = verdicts.sorted().filter(untested);
    let sentences = distinct(sentences.map(|verdict| verdicts.sentence(verdict)));
    let more = sentences.len().saturating_sub(MAX_SENTENCES);
    document.paragraphs(sentences.into_iter().take(MAX_SENTENCES));
    if more > 0 {
        document.paragraph(format!("{more} more in the JSON file"));
    }
    document.gap();
}

/// Adds every tested difference.
pub(super) fn add_differences(document: &mut Document, comparison: &Comparison) {
    document.titled_table("Differences", comparison.verdicts.differences());
    document.paragraphs(method(&comparison.verdicts));
}
