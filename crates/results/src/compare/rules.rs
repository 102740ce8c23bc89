//! The gate's rules: `correct_rate<-0.5pp`, `p99_ttft_ms>+10%`, `p99_ttft_ms<=200`. Knows no run.
//!
//! ```text
//! change = metric ("<" ["-"] | ">" ["+"]) number ["pp" | "%" | "ms" | the metric's own unit]
//! limit  = metric (">=" | "<=" | ">" | "<") number [the metric's own unit]
//! ```
//! A change without a unit is in the metric's own. White space may stand between the parts.

use std::fmt;

use crate::metrics::registry::{Better, Figure};
use sobench_core::error::{Error, Result};

/// A regression that is not let pass: a metric that moved too far in the bad direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    pub metric: Figure,
    /// Which way is a regression.
    pub way: Way,
    /// At least 0: how far it may go.
    pub size: f64,
    pub unit: Unit,
    /// Nobody named it: not to have its figure is no failure.
    pub is_default: bool,
}

/// A bound on a run of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub metric: Figure,
    pub bound: Bound,
    pub value: f64,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Up,
    Down,
}

/// What a change is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The metric's own; of rates, percentage points.
    Own,
    /// Percent of the baseline's value.
    Percent,
}

/// What a value has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    AtLeast,
    AtMost,
    Above,
    Below,
}

/// How bounds are written.
const BOUNDS: [(&str, Bound); 4] = [
    (">=", Bound::AtLeast),
    ("<=", Bound::AtMost),
    (">", Bound::Above),
    ("<", Bound::Below),
];

/// What `--gate` means without rules. No p99 is among them: how often there is a long wait differs
/// from run to run, and the p99s of two runs of the same server with it, by more than any size
/// worth a rule; that takes several runs a side.
pub const DEFAULT_RULES: [&str; 6] = [
    "correct_rate<-0.5pp",
    "coverage<-0.5pp",
    "median_ttft_ms>+10%",
    "p90_ttft_ms>+15%",
    "median_tpot_ms>+10%",
    "output_throughput<-10%",
];

impl Change {
    /// Reads a rule of `--fail-on`.
    ///
    /// # Errors
    /// Usage errors that name the rule.
    pub fn parse(rule: &str) -> Result<Self> {
        let (metric, operator, rest) = parts(rule)?;
        let metric = Figure::parse(metric)?;
        let way = match operator {
            "<" => Way::Down,
            ">" => Way::Up,
            _ => {
                return Err(bad(rule).hint(
                    "a change is `<-SIZE` or `>+SIZE`; a bound such as `>=` is for --require",
                ));
            }
        };
        let (sign, other) = if way == Way::Up {
            ('+', '-')
        } else {
            ('-', '+')
        };
        if rest.starts_with(other) {
            return Err(bad(rule).hint("a fall is written `<-SIZE`, a rise `>+SIZE`"));
        }
        let (size, unit) =
            split(rest.strip_prefix(sign).unwrap_or(rest)).ok_or_else(|| number_hint(rule))?;
        if matches!(
            (metric.better(), way),
            (Better::Up, Way::Up) | (Better::Down, Way::Down)
        ) {
            return Err(bad(rule).hint(format!(
                "{metric} gets better that way; turn the sign round"
            )));
        }
        let unit = match (metric.is_rate(), unit) {
            (true, "pp" | "") => Unit::Own,
            (true, "%") => {
                return Err(
                    bad(rule).hint("a rate changes by percentage points: write `pp` for `%`")
                );
            }
            (_, "%") => Unit::Percent,
            (_, unit) if unit.is_empty() || unit == metric.unit() => Unit::Own,
            _ => {
                return Err(
                    bad(rule).hint(format!("{metric} changes in `%` or in `{}`", metric.unit()))
                );
            }
        };
        Ok(Self {
            metric,
            way,
            size,
            unit,
            is_default: false,
        })
    }

    /// [`DEFAULT_RULES`].
    ///
    /// # Errors
    /// None: a test reads them.
    pub fn defaults() -> Result<Vec<Self>> {
        DEFAULT_RULES
            .iter()
            .map(|rule| {
                Ok(Self {
                    is_default: true,
                    ..Self::parse(rule)?
                })
            })
            .collect()
    }

    /// Whether a change of this size is past the rule's.
    pub fn is_past(&self, change: f64) -> bool {
        match self.way {
            Way::Up => change > self.size,
            Way::Down => change < -self.size,
        }
    }
}

impl Limit {
    /// Reads a rule of `--require`.
    ///
    /// # Errors
    /// Usage errors that name the rule.
    pub fn parse(rule: &str) -> Result<Self> {
        let (metric, operator, rest) = parts(rule)?;
        let metric = Figure::parse(metric)?;
        let bound = BOUNDS
            .iter()
            .find(|(sign, _)| *sign == operator)
            .map_or(Bound::Below, |(_, bound)| *bound);
        if rest.starts_with('+') || rest.starts_with('-') || rest.ends_with("pp") {
            return Err(bad(rule).hint(
                "--require bounds the value itself; a change from the baseline is for --fail-on",
            ));
        }
        let (value, unit) = split(rest).ok_or_else(|| number_hint(rule))?;
        if !unit.is_empty() && unit != metric.unit() {
            return Err(bad(rule).hint(format!(
                "{metric} is in `{}`; the unit may be left out",
                metric.unit()
            )));
        }
        Ok(Self {
            metric,
            bound,
            value,
        })
    }

    /// Whether a value keeps the bound.
    pub fn is_met(&self, value: f64) -> bool {
        match self.bound {
            Bound::AtLeast => value >= self.value,
            Bound::AtMost => value <= self.value,
            Bound::Above => value > self.value,
            Bound::Below => value < self.value,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.way == Way::Up { ">+" } else { "<-" };
        let unit = if self.unit == Unit::Percent {
            "%"
        } else {
            self.metric.unit_of_change()
        };
        write!(f, "{}{sign}{}{unit}", self.metric, self.size)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = BOUNDS
            .iter()
            .find(|(_, bound)| *bound == self.bound)
            .map_or("", |(sign, _)| sign);
        write!(f, "{}{sign}{}", self.metric, self.value)
    }
}

/// The metric's name, the operator, and what comes after it.
fn parts(rule: &str) -> Result<(&str, &str, &str)> {
    let shape = "write a figure's name, a sign and a number, such as 'correct_rate<-0.5pp' or 'p99_ttft_ms<=200'";
    let place = rule.find(['<', '>']).ok_or_else(|| bad(rule).hint(shape))?;
    let width = if rule[place + 1..].starts_with('=') {
        2
    } else {
        1
    };
    let (name, rest) = (rule[..place].trim(), rule[place + width..].trim());
    if name.is_empty() || rest.is_empty() {
        return Err(bad(rule).hint(shape));
    }
    Ok((name, &rule[place..place + width], rest))
}

/// A number that is not negative, and the unit behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(text.len());
    let number = text[..end]
        .parse::<f64>()
        .ok()
        .filter(|number| number.is_finite())?;
    Some((number, text[end..].trim()))
}

fn bad(rule: &str) -> Error {
    Error::usage(format!("this is no rule: {rule}"))
}

fn number_hint(rule: &str) -> Error {
    bad(rule).hint(
        "after the sign comes a number such as 0.5 or 10, then `pp`, `%` or the figure's own unit",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_and_read_back() {
        for (rule, shown) in [
            ("correct_rate<-0.5pp", "correct_rate<-0.5pp"),
            ("correct_rate(%) < 0.5", "correct_rate<-0.5pp"),
            ("p99_ttft_ms>+10%", "p99_ttft_ms>+10%"),
            (" p99.9_ttft_ms > 3 ms ", "p99.9_ttft_ms>+3ms"),
            ("output_throughput<-10%", "output_throughput<-10%"),
            ("failed>+0", "failed>+0"),
            ("control_rate>+5pp", "control_rate>+5pp"),
        ] {
            assert_eq!(Change::parse(rule).unwrap().to_string(), shown);
        }
        for rule in DEFAULT_RULES {
            assert_eq!(Change::parse(rule).unwrap().to_string(), rule);
        }
        for (rule, shown) in [
            ("correct_rate>=99.5", "correct_rate>=99.5"),
            ("p99_ttft_ms<=200ms", "p99_ttft_ms<=200"),
            ("failed < 1", "failed<1"),
        ] {
            assert_eq!(Limit::parse(rule).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn a_bad_rule_says_what_is_wrong() {
        let change = |rule| Change::parse(rule).map(|_| ()).unwrap_err();
        let limit = |rule| Limit::parse(rule).map(|_| ()).unwrap_err();
        for (error, hint) in [
            (change("correct_rate"), "write a figure's name"),
            (change("<-1pp"), "write a figure's name"),
            (change("correct_rate<"), "write a figure's name"),
            (change("corect_rate<-1pp"), "nearest names are correct_rate"),
            (change("correct_rate<=-1pp"), "is for --require"),
            (change("correct_rate<+1pp"), "a fall is written"),
            (change("correct_rate>+1pp"), "gets better that way"),
            (change("p99_ttft_ms<-10%"), "gets better that way"),
            (change("correct_rate<-1%"), "write `pp`"),
            (change("p99_ttft_ms>+10s"), "`%` or in `ms`"),
            (change("p99_ttft_ms>+ten%"), "after the sign comes a number"),
            (
                change("p99_ttft_ms>+1.2.3%"),
                "after the sign comes a number",
            ),
            (limit("p99_ttft_ms<=+10"), "is for --fail-on"),
            (limit("correct_rate>=-1pp"), "is for --fail-on"),
            (limit("p99_ttft_ms<=1s"), "is in `ms`"),
            (limit("p99_ttft_ms<=x"), "after the sign comes a number"),
        ] {
            assert_eq!(error.exit_code(), 2);
            let said = error.hint.clone().unwrap_or_default();
            assert!(said.contains(hint), "{error}");
        }
    }

    #[test]
    fn a_bound_is_met_or_not() {
        for (rule, met, missed) in [
            ("failed>=5", 5.0, 4.9),
            ("failed<=5", 5.0, 5.1),
            ("failed>5", 5.1, 5.0),
            ("failed<5", 4.9, 5.0),
        ] {
            let limit = Limit::parse(rule).unwrap();
            assert!(
                limit.is_met(met) && !limit.is_met(missed) && !limit.is_met(f64::NAN),
                "{rule}"
            );
        }
    }
}
