//! Flags of `sobench compare`.

use clap::Args;

use crate::commands::flags::gate::{Requirements, UNDECIDED, requirements};
use crate::commands::flags::paths::{InputNames, OutputPath};
use crate::commands::flags::rendering::{DetailArgs, SaveArgs};
use crate::commands::flags::values::{described, formats};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_plan::record::condition::{Field, Weight};
use sobench_results::compare::gate::Undecided;
use sobench_results::compare::rules::ChangeRule;
use sobench_results::compare::run_spread::RunSpread;
use sobench_results::compare::{CompareSettings, Gate, LEVEL, MAX_RESAMPLES, MIN_RESAMPLES};

/// Maximum number of sides of one comparison.
const MAX_SIDES: usize = 16;

/// Maximum number of changed cases to show.
const MAX_CHANGED: usize = 100_000;

/// Flags of `sobench compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Runs to compare, the baseline first. Each is a file (run log, result or baseline of sobench,
    /// or result of vllm bench serve or vLLM's structured-output script), or several runs of the
    /// same configuration: a folder, or files separated by commas
    #[arg(value_name = "A B", required_unless_present = "last", num_args = 1..)]
    pub sides: Vec<InputNames>,
    /// Compare the newest N runs in the cache (sobench runs), the oldest of them first
    #[arg(long, value_name = "N", conflicts_with = "sides")]
    pub last: Option<usize>,
    /// Exit with 1 if a figure is significantly worse by more than this: 'correct_rate<-0.5pp',
    /// 'p99_ttft_ms>+10%'
    #[arg(long, value_name = "RULE", help_heading = "Gate")]
    pub fail_on: Vec<String>,
    /// Exit with 1 if a figure of a later side misses this threshold: 'correct_rate>=99.5',
    /// 'p99_ttft_ms<=200'. 'lost<=0.5': it loses at most half a point of the pairs
    #[arg(long, value_name = "RULE", help_heading = "Gate")]
    pub require: Vec<String>,
    /// Gate with the default rules if there is no --fail-on
    #[arg(long, help_heading = "Gate")]
    pub gate: bool,
    /// Treat undecided rules as pass or fail [default: exit with 5]
    #[arg(long, value_name = "WHAT", value_parser = described(&UNDECIDED), help_heading = "Gate")]
    pub undecided: Option<Undecided>,
    /// Let the gate pass although a run ended early
    #[arg(long, help_heading = "Gate")]
    pub allow_partial: bool,
    /// Compare although this condition differs: model, dataset, ratio, output_len, request_rate,
    /// ...
    #[arg(long, value_name = "FIELD")]
    pub allow_different: Vec<String>,
    /// Confidence level of the intervals, in percent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 100.0 * LEVEL,
        allow_negative_numbers = true
    )]
    pub confidence: f64,
    /// Number of bootstrap resamples [default: as many as the intervals need]
    #[arg(long, hide = true, value_name = "N")]
    pub resamples: Option<usize>,
    /// Seed of the bootstrap
    #[arg(long, hide = true, default_value_t = 0)]
    pub seed: u64,
    /// Largest difference of times and throughput between runs of the same server, in percent, for
    /// all (5) or for one (ttft=8%, p99_ttft_ms=20%); used if a side has less than three runs
    /// [default: 5 for verdicts; rules on times need a given value]
    #[arg(long, value_name = "SPREAD", allow_negative_numbers = true)]
    pub run_spread: Vec<String>,
    /// Maximum number of cases with a changed verdict to show
    #[arg(long, hide = true, value_name = "N", default_value_t = 5)]
    pub changed: usize,
    /// Output format
    #[arg(long, default_value = "text", value_parser = formats(&FORMATS))]
    pub format: OutputFormat,
    #[command(flatten)]
    pub detail: DetailArgs,
    /// Write the first side to this file as a baseline, without texts, for later comparisons
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<OutputPath>,
    #[command(flatten)]
    pub save: SaveArgs,
}

/// Formats of a comparison.
pub(crate) const FORMATS: [OutputFormat; 5] = [
    OutputFormat::Text,
    OutputFormat::Json,
    OutputFormat::Markdown,
    OutputFormat::Html,
    OutputFormat::Junit,
];

impl CompareArgs {
    /// Checks the flags.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn options(&self) -> Result<CompareSettings> {
        let sides = self.last.unwrap_or(self.sides.len());
        if sides < 2 && (self.write_baseline.is_none() || !self.save.save.is_empty()) {
            return Err(Error::usage("nothing to compare")
                .hint("give a second run, or --write-baseline to save this one"));
        }
        if sides > MAX_SIDES {
            return Err(Error::usage(format!("too many sides: {sides}"))
                .hint(format!("give at most {MAX_SIDES}")));
        }
        if !(50.0..=99.99).contains(&self.confidence) {
            return Err(
                Error::usage(format!("--confidence is out of range: {}", self.confidence))
                    .hint("give 50 to 99.99"),
            );
        }
        if let Some(resamples) = self
            .resamples
            .filter(|resamples| !(MIN_RESAMPLES..=MAX_RESAMPLES).contains(resamples))
        {
            return Err(
                Error::usage(format!("--resamples is out of range: {resamples}"))
                    .hint(format!("give {MIN_RESAMPLES} to {MAX_RESAMPLES}")),
            );
        }
        if self.changed > MAX_CHANGED {
            return Err(
                Error::usage(format!("--changed is too large: {}", self.changed))
                    .hint(format!("give at most {MAX_CHANGED}")),
            );
        }
        let gate = gate(self)?;
        if sides < 2 && gate.is_some() {
            return Err(
                Error::usage("a gate needs two sides").hint("give a baseline and a new run")
            );
        }
        Ok(CompareSettings {
            level: self.confidence / 100.0,
            resamples: self.resamples,
            seed: self.seed,
            run_spread: RunSpread::parse(&self.run_spread)?,
            allowed: self
                .allow_different
                .iter()
                .map(|name| field(name))
                .collect::<Result<Vec<Field>>>()?,
            changed: self.changed,
            gate,
        })
    }
}

fn gate(flags: &CompareArgs) -> Result<Option<Gate>> {
    let mut changes = flags
        .fail_on
        .iter()
        .map(|rule| ChangeRule::parse(rule))
        .collect::<Result<Vec<ChangeRule>>>()?;
    let Requirements {
        limits,
        changes: lost,
    } = requirements(&flags.require)?;
    if flags.gate && changes.is_empty() {
        changes = ChangeRule::defaults()?;
    }
    changes.extend(lost);
    if changes.is_empty() && limits.is_empty() {
        let idle = [
            (flags.undecided == Some(Undecided::Fail), "--undecided fail"),
            (flags.allow_partial, "--allow-partial"),
        ];
        return match idle.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(None),
            Some((_, flag)) => Err(Error::usage(format!("{flag} has no effect without a gate"))
                .hint("add --gate, --fail-on RULE or --require RULE")),
        };
    }
    Ok(Some(Gate {
        changes,
        limits,
        undecided: flags.undecided,
        allow_partial: flags.allow_partial,
    }))
}

/// A condition that can prevent a comparison.
fn field(name: &str) -> Result<Field> {
    // A different number of prompts prevents a comparison only where it determines the load.
    let stops = |field: &Field| field.weight() == Weight::Stops || *field == Field::NumPrompts;
    let wanted = name.replace('-', "_");
    Field::ALL
        .into_iter()
        .filter(stops)
        .find(|field| field.name() == wanted)
        .ok_or_else(|| {
            let names: Vec<&str> = Field::ALL
                .into_iter()
                .filter(stops)
                .map(Field::name)
                .collect();
            Error::usage(format!("unknown --allow-different condition: {name}"))
                .hint(format!("use one of {}", names.join(", ")))
        })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn options(flags: &[&str]) -> Result<CompareSettings> {
        let typed = ["sobench", "compare"].iter().chain(flags);
        match Cli::try_parse_from(typed).unwrap().into_command() {
            Command::Compare(flags) => flags.options(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn gate_flags_select_rules() {
        assert_eq!(options(&["a", "b"]).unwrap().gate, None);
        assert_eq!(
            options(&["a", "b", "--gate"])
                .unwrap()
                .gate
                .unwrap()
                .changes,
            ChangeRule::defaults().unwrap()
        );
        let own = options(&[
            "a",
            "b",
            "--gate",
            "--fail-on",
            "failed>+3",
            "--require",
            "failed<=9",
            "--undecided",
            "fail",
        ])
        .unwrap();
        let gate = own.gate.unwrap();
        assert_eq!(
            (gate.changes.len(), gate.limits.len(), gate.undecided),
            (1, 1, Some(Undecided::Fail))
        );
        let undecided = |flags: &[&str]| {
            let flags = [&["a", "b", "--gate"], flags].concat();
            options(&flags).unwrap().gate.unwrap().undecided
        };
        assert_eq!(
            (undecided(&[]), undecided(&["--undecided", "pass"])),
            (None, Some(Undecided::Pass)),
            "the default is not the same as a given value"
        );
    }

    #[test]
    fn invalid_flags_are_rejected() {
        for (flags, what) in [
            (&["a"][..], "nothing to compare"),
            (
                &["a", "--write-baseline", "x", "--gate"],
                "a gate needs two sides",
            ),
            (
                &["a", "b", "--confidence", "100"],
                "--confidence is out of range: 100",
            ),
            (
                &["a", "b", "--confidence", "nan"],
                "--confidence is out of range: NaN",
            ),
            (
                &["a", "b", "--resamples", "10"],
                "--resamples is out of range: 10",
            ),
            (
                &["a", "b", "--run-spread", "-1"],
                "invalid --run-spread: -1",
            ),
            (
                &["a", "b", "--run-spread", "speed=5"],
                "unknown figure: speed",
            ),
            (
                &["a", "b", "--allow-different", "label"],
                "unknown --allow-different condition: label",
            ),
            (
                &["a", "b", "--fail-on", "speed>+1%"],
                "unknown figure: speed",
            ),
            (
                &["a", "b", "--undecided", "fail"],
                "--undecided fail has no effect without a gate",
            ),
            (
                &["a", "b", "--allow-partial"],
                "--allow-partial has no effect without a gate",
            ),
        ] {
            let error = options(flags).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        }
        assert_eq!(
            options(&["a", "b", "--allow-different", "output-len"])
                .unwrap()
                .allowed,
            [Field::OutputLen]
        );
        assert!(options(&["a", "--write-baseline", "x"]).is_ok());
    }
}
