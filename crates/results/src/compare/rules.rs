//! Rules of the gate: `correct_rate<-0.5pp`, `p99_ttft_ms>+10%`, `p99_ttft_ms<=200`,
//! `accuracy(prompt+constraint)>=accuracy(prompt)-3pp`.
//!
//! ```text
//! change = metric ("<" ["-"] | ">" ["+"]) number ["pp" | "%" | "ms" | the metric's own unit]
//! limit  = metric (">=" | "<=" | ">" | "<") number [the metric's own unit]
//!        | "lost" "<=" number ["pp"]
//!        | accuracy ">=" accuracy ["-" number "pp"]
//! ```
//! A change without a unit is in the metric's own. White space is allowed between the parts.

use std::fmt;

use crate::metrics::registry::rates::{ACCURACY, CORRECT_RATE};
use crate::metrics::registry::{Better, Figure};
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};

/// A change rule: the largest allowed regression of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeRule {
    pub metric: Figure,
    /// The direction of a regression.
    pub direction: Direction,
    /// The largest allowed change, at least 0.
    pub size: f64,
    pub unit: ChangeUnit,
    pub origin: RuleOrigin,
}

/// Where a change rule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOrigin {
    /// `--fail-on`.
    FailOn,
    /// `--require lost<=SIZE`: the pairs that are correct only on the first side less those only on
    /// the second, which is the loss of the correct rate.
    Lost,
    /// One of [`DEFAULT_RULES`]. If its figure is missing, it does not fail the gate.
    Default,
}

/// A limit rule: a threshold for a figure of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitRule {
    pub metric: Figure,
    pub comparator: Comparator,
    /// With `other`, the change from it in percentage points, at most 0.
    pub value: f64,
    /// The accuracy of another arm, over the same items.
    pub other: Option<Figure>,
}

/// A limit of a count that is no figure of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct CountRule {
    pub name: String,
    pub comparator: Comparator,
    pub value: f64,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

/// The unit of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeUnit {
    /// The metric's own; of rates, percentage points.
    Own,
    /// Percent of the baseline's value.
    Percent,
}

/// The comparison with the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparator {
    AtLeast,
    AtMost,
    Above,
    Below,
}

/// The operators of limits.
const OPERATORS: [(&str, Comparator); 4] = [
    (">=", Comparator::AtLeast),
    ("<=", Comparator::AtMost),
    (">", Comparator::Above),
    ("<", Comparator::Below),
];

/// The rules of `--gate`. Five runs of 200 requests a side decide them. They do not include a p99:
/// long waits are rare, and the p99 differs between runs of the same server by more than a useful
/// threshold.
pub const DEFAULT_RULES: [&str; 6] = [
    "correct_rate<-2pp",
    "coverage<-2pp",
    "median_ttft_ms>+10%",
    "p90_ttft_ms>+15%",
    "median_tpot_ms>+10%",
    "output_throughput<-10%",
];

impl ChangeRule {
    /// Parses a rule of `--fail-on`.
    ///
    /// # Errors
    /// Usage errors that name the rule.
    pub fn parse(rule: &str) -> Result<Self> {
        let (metric, operator, rest) = parts(rule, "'correct_rate<-0.5pp' or 'p99_ttft_ms>+10%'")?;
        let metric = Figure::parse(metric)?;
        let direction = match operator {
            "<" => Direction::Down,
            ">" => Direction::Up,
            _ => {
                return Err(bad(rule).hint(
                    "write a change as `<-SIZE` or `>+SIZE`; use --require for a threshold such as `>=`",
                ));
            }
        };
        let (sign, other) = if direction == Direction::Up {
            ('+', '-')
        } else {
            ('-', '+')
        };
        if rest.starts_with(other) {
            return Err(bad(rule).hint("write a decrease as `<-SIZE`, an increase as `>+SIZE`"));
        }
        let (size, unit) =
            split(rest.strip_prefix(sign).unwrap_or(rest)).ok_or_else(|| number_hint(rule))?;
        if matches!(
            (metric.better(), direction),
            (Better::Up, Direction::Up) | (Better::Down, Direction::Down)
        ) {
            return Err(bad(rule).hint(format!("reverse the sign: this change improves {metric}")));
        }
        let unit = match (metric.unit() == "%", unit) {
            (true, "pp" | "") => ChangeUnit::Own,
            (true, "%") => {
                return Err(
                    bad(rule).hint("use `pp` instead of `%`: rates change by percentage points")
                );
            }
            (_, "%") => ChangeUnit::Percent,
            (_, unit) if unit.is_empty() || unit == metric.unit() => ChangeUnit::Own,
            _ => {
                return Err(bad(rule).hint(format!(
                    "use `%` or `{}` as the unit of {metric}",
                    metric.unit()
                )));
            }
        };
        Ok(Self {
            metric,
            direction,
            size,
            unit,
            origin: RuleOrigin::FailOn,
        })
    }

    /// Parses [`DEFAULT_RULES`].
    ///
    /// # Errors
    /// None: a test parses them.
    pub fn defaults() -> Result<Vec<Self>> {
        DEFAULT_RULES
            .iter()
            .map(|rule| {
                Ok(Self {
                    origin: RuleOrigin::Default,
                    ..Self::parse(rule)?
                })
            })
            .collect()
    }

    /// Parses `lost<=0.5`; `None` for another rule.
    ///
    /// # Errors
    /// Usage errors that name the rule.
    pub fn parse_lost(rule: &str) -> Result<Option<Self>> {
        let Some(rest) = rule.trim().strip_prefix("lost") else {
            return Ok(None);
        };
        let shape = || bad(rule).hint("write the points that may be lost, such as 'lost<=0.5'");
        let rest = rest.trim().strip_prefix("<=").ok_or_else(shape)?;
        let (size, unit) = split(rest).ok_or_else(shape)?;
        if !matches!(unit, "" | "pp") {
            return Err(shape());
        }
        Ok(Some(Self {
            metric: Figure::new(&CORRECT_RATE),
            direction: Direction::Down,
            size,
            unit: ChangeUnit::Own,
            origin: RuleOrigin::Lost,
        }))
    }

    /// The name of the rule's unit.
    pub fn unit_name(&self) -> &'static str {
        match self.unit {
            ChangeUnit::Percent => "%",
            ChangeUnit::Own => self.metric.unit_of_change(),
        }
    }

    /// Whether a change exceeds the threshold.
    pub fn is_past(&self, change: f64) -> bool {
        match self.direction {
            Direction::Up => change > self.size,
            Direction::Down => change < -self.size,
        }
    }
}

impl LimitRule {
    /// Parses a rule of `--require`.
    ///
    /// # Errors
    /// Usage errors that name the rule.
    pub fn parse(rule: &str) -> Result<Self> {
        let (metric, operator, rest) = parts(rule, "'correct_rate>=99.5' or 'p99_ttft_ms<=200'")?;
        let metric = Figure::parse(metric)?;
        let comparator = Comparator::of_operator(operator);
        let is_name = rest.starts_with(|first: char| first.is_ascii_alphabetic());
        if is_name && (accuracy_arm(metric).is_some() || rest.starts_with("accuracy")) {
            return Self::between_arms(rule, metric, comparator, rest);
        }
        if rest.starts_with('+') || rest.starts_with('-') || rest.ends_with("pp") {
            return Err(bad(rule)
                .hint("give a value to --require; use --fail-on for a change from the baseline"));
        }
        let (value, unit) = split(rest).ok_or_else(|| number_hint(rule))?;
        if !unit.is_empty() && unit != metric.unit() {
            return Err(bad(rule).hint(format!(
                "use `{}` as the unit of {metric}, or leave the unit out",
                metric.unit()
            )));
        }
        if metric.unit() == "%" && !comparator.is_upper() && value > 0.0 && value < 1.0 {
            return Err(bad(rule).hint(format!(
                "{metric} is in percent: write {metric}{}{}",
                comparator.sign(),
                100.0 * value
            )));
        }
        Ok(Self {
            metric,
            comparator,
            value,
            other: None,
        })
    }

    /// Parses a rule on the accuracy of two arms; `rest` is the second one with the margin.
    fn between_arms(
        rule: &str,
        metric: Figure,
        comparator: Comparator,
        rest: &str,
    ) -> Result<Self> {
        let shape = || {
            bad(rule).hint(
                "compare the accuracy of two arms, such as \
                 'accuracy(prompt+constraint)>=accuracy(prompt)-3pp'",
            )
        };
        let (other, margin) = match rest.split_once('-') {
            Some((other, margin)) => (other.trim(), margin.trim()),
            None => (rest, "0pp"),
        };
        let other = Figure::parse(other)?;
        let is_accuracy = |figure: Figure| accuracy_arm(figure).is_some();
        let are_arms = is_accuracy(metric) && is_accuracy(other) && metric != other;
        if !are_arms || comparator != Comparator::AtLeast {
            return Err(shape());
        }
        let (margin, unit) = split(margin).ok_or_else(shape)?;
        if !matches!(unit, "pp" | "") {
            return Err(shape());
        }
        Ok(Self {
            metric,
            comparator,
            value: -margin,
            other: Some(other),
        })
    }

    /// The arms of a rule on the accuracy of two arms: the second one of the rule first.
    pub fn arms(&self) -> Option<(Arm, Arm)> {
        Some((accuracy_arm(self.other?)?, accuracy_arm(self.metric)?))
    }

    /// Whether a value meets the threshold.
    pub fn is_met(&self, value: f64) -> bool {
        self.comparator.holds(value, self.value)
    }
}

impl CountRule {
    /// Parses a rule on one of the named counts.
    ///
    /// # Errors
    /// Usage errors that name the rule.
    pub fn parse(rule: &str, names: &[&str]) -> Result<Self> {
        let known = names.join(", ");
        let example = format!("'{}<=0'", names.last().unwrap_or(&"failed"));
        let (name, operator, rest) = parts(rule, &example)?;
        if !names.contains(&name) {
            return Err(bad(rule).hint(format!("name one of {known}")));
        }
        let (value, unit) = split(rest).ok_or_else(|| number_hint(rule))?;
        if !unit.is_empty() {
            return Err(number_hint(rule));
        }
        Ok(Self {
            name: name.to_owned(),
            comparator: Comparator::of_operator(operator),
            value,
        })
    }

    /// Whether a count meets the limit.
    pub fn is_met(&self, count: usize) -> bool {
        self.comparator.holds(count as f64, self.value)
    }
}

impl Comparator {
    /// Whether it limits from above.
    pub fn is_upper(self) -> bool {
        matches!(self, Self::AtMost | Self::Below)
    }

    fn of_operator(operator: &str) -> Self {
        let mut known = OPERATORS.iter();
        let found = known.find(|(sign, _)| *sign == operator);
        found.map_or(Self::Below, |(_, comparator)| *comparator)
    }

    fn sign(self) -> &'static str {
        let mut known = OPERATORS.iter();
        let found = known.find(|(_, comparator)| *comparator == self);
        found.map_or("", |(sign, _)| sign)
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::AtLeast => value >= limit,
            Self::AtMost => value <= limit,
            Self::Above => value > limit,
            Self::Below => value < limit,
        }
    }
}

impl fmt::Display for ChangeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.direction == Direction::Up {
            ">+"
        } else {
            "<-"
        };
        let unit = self.unit_name();
        match self.origin {
            RuleOrigin::Lost => write!(f, "lost<={}", self.size),
            _ => write!(f, "{}{sign}{}{unit}", self.metric, self.size),
        }
    }
}

impl fmt::Display for LimitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = self.comparator.sign();
        match self.other {
            None => write!(f, "{}{sign}{}", self.metric, self.value),
            Some(other) => write!(f, "{}{sign}{other}-{}pp", self.metric, self.value.abs()),
        }
    }
}

impl fmt::Display for CountRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.name, self.comparator.sign(), self.value)
    }
}

/// The arm whose accuracy a figure is.
fn accuracy_arm(figure: Figure) -> Option<Arm> {
    (*figure.metric == ACCURACY).then(|| figure.arm.unwrap_or(Arm::Constrained))
}

/// Splits a rule into the metric's name, the operator and the rest. An error quotes the examples.
fn parts<'r>(rule: &'r str, examples: &str) -> Result<(&'r str, &'r str, &'r str)> {
    let shape =
        || format!("write the name of a figure, an operator and a number, such as {examples}");
    let position = rule
        .find(['<', '>'])
        .ok_or_else(|| bad(rule).hint(shape()))?;
    let width = if rule[position + 1..].starts_with('=') {
        2
    } else {
        1
    };
    let (name, rest) = (rule[..position].trim(), rule[position + width..].trim());
    if name.is_empty() || rest.is_empty() {
        return Err(bad(rule).hint(shape()));
    }
    Ok((name, &rule[position..position + width], rest))
}

/// Splits a non-negative number from its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let number = text[..end]
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())?;
    Some((number, text[end..].trim()))
}

fn bad(rule: &str) -> Error {
    Error::usage(format!("invalid rule: {rule}"))
}

fn number_hint(rule: &str) -> Error {
    bad(rule).hint(
        "give a number such as 0.5 or 10, then `pp`, `%` or the figure's own unit, after the operator",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_parse_and_print() {
        for (rule, shown) in [
            ("correct_rate<-0.5pp", "correct_rate<-0.5pp"),
            ("correct_rate(%) < 0.5", "correct_rate<-0.5pp"),
            ("p99_ttft_ms>+10%", "p99_ttft_ms>+10%"),
            (" p99.9_ttft_ms > 3 ms ", "p99.9_ttft_ms>+3ms"),
            ("output_throughput<-10%", "output_throughput<-10%"),
            ("failed>+0", "failed>+0"),
            ("control_rate>+5pp", "correct_rate(control)>+5pp"),
        ] {
            assert_eq!(ChangeRule::parse(rule).unwrap().to_string(), shown);
        }
        for rule in DEFAULT_RULES {
            assert_eq!(ChangeRule::parse(rule).unwrap().to_string(), rule);
        }
        for (rule, shown) in [
            ("correct_rate>=99.5", "correct_rate>=99.5"),
            ("p99_ttft_ms<=200ms", "p99_ttft_ms<=200"),
            ("failed < 1", "failed<1"),
            (
                "accuracy(prompt+constraint) >= accuracy(prompt) - 3 pp",
                "accuracy>=accuracy(control)-3pp",
            ),
            (
                "accuracy_constraint>=accuracy(think+constraint)",
                "accuracy(constraint)>=accuracy(think+constraint)-0pp",
            ),
        ] {
            let limit = LimitRule::parse(rule).unwrap();
            assert_eq!(limit.to_string(), shown);
            assert_eq!(LimitRule::parse(shown).unwrap(), limit);
        }
    }

    #[test]
    fn invalid_rule_names_the_problem() {
        let change = |rule| ChangeRule::parse(rule).map(|_| ()).unwrap_err();
        let limit = |rule| LimitRule::parse(rule).map(|_| ()).unwrap_err();
        for (error, hint) in [
            (change("correct_rate"), "write the name of a figure"),
            (change("<-1pp"), "write the name of a figure"),
            (change("correct_rate<"), "write the name of a figure"),
            (change("corect_rate<-1pp"), "nearest names are correct_rate"),
            (
                change("correct_rate<=-1pp"),
                "use --require for a threshold",
            ),
            (change("correct_rate<+1pp"), "write a decrease as"),
            (change("correct_rate>+1pp"), "reverse the sign"),
            (change("p99_ttft_ms<-10%"), "reverse the sign"),
            (change("correct_rate<-1%"), "use `pp`"),
            (change("p99_ttft_ms>+10s"), "use `%` or `ms`"),
            (change("p99_ttft_ms>+ten%"), "give a number such as"),
            (change("p99_ttft_ms>+1.2.3%"), "give a number such as"),
            (limit("p99_ttft_ms<=+10"), "use --fail-on"),
            (limit("correct_rate>=-1pp"), "use --fail-on"),
            (limit("p99_ttft_ms<=1s"), "use `ms`"),
            (limit("accuracy>=accuracy_prompt-3%"), "of two arms"),
            (limit("accuracy<=accuracy_prompt"), "of two arms"),
            (limit("accuracy>=accuracy"), "of two arms"),
            (limit("accuracy>=correct_rate-3pp"), "of two arms"),
            (limit("p99_ttft_ms>=accuracy"), "of two arms"),
            (limit("p99_ttft_ms<=x"), "give a number such as"),
        ] {
            assert_eq!(error.exit_code(), 2);
            let found = error.hint.clone().unwrap_or_default();
            assert!(found.contains(hint), "{error}");
        }
    }

    #[test]
    fn limit_is_met_or_missed() {
        for (rule, met, missed) in [
            ("failed>=5", 5.0, 4.9),
            ("failed<=5", 5.0, 5.1),
            ("failed>5", 5.1, 5.0),
            ("failed<5", 4.9, 5.0),
        ] {
            let limit = LimitRule::parse(rule).unwrap();
            assert!(
                limit.is_met(met) && !limit.is_met(missed) && !limit.is_met(f64::NAN),
                "{rule}"
            );
        }
    }
}
