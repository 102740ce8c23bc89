//! The flags of `sobench compare`, checked. Opens no file.

use clap::Args;

use crate::commands::flags::gate::{UNDECIDED, limits};
use crate::commands::flags::paths::{InputNames, OutputPath};
use crate::commands::flags::values::{described, formats};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_results::compare::gate::Undecided;
use sobench_results::compare::rules::Change;
use sobench_results::compare::{Gate, LEAST_RESAMPLES, MAX_RESAMPLES, Options};
use sobench_results::record::condition::{Field, Weight};

/// The most sides of one comparison.
const MAX_SIDES: usize = 16;

/// The most cases that are shown of those that changed.
const MAX_CHANGED: usize = 100_000;

/// Which runs are held against each other, and what must not have changed.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Runs to compare, the baseline first. Each is a file (a run log, a result or a baseline of
    /// sobench, or a result of vllm bench serve or of vLLM's structured-output script), or several
    /// runs of the same thing: a folder, or files with commas between them
    #[arg(value_name = "A B", required = true, num_args = 1..)]
    pub sides: Vec<InputNames>,
    /// Exit with 1 where a figure changed for the worse by more than this and by more than chance:
    /// 'correct_rate<-0.5pp', 'p99_ttft_ms>+10%'
    #[arg(long, value_name = "RULE", help_heading = "Gate")]
    pub fail_on: Vec<String>,
    /// Exit with 1 where a figure of a later side is out of bounds: 'correct_rate>=99.5',
    /// 'p99_ttft_ms<=200'
    #[arg(long, value_name = "RULE", help_heading = "Gate")]
    pub require: Vec<String>,
    /// Gate with the default rules where no --fail-on is given
    #[arg(long, help_heading = "Gate")]
    pub gate: bool,
    /// What a rule counts as that the samples are too few to tell of
    #[arg(long, value_name = "WHAT", default_value = "pass", value_parser = described(&UNDECIDED), help_heading = "Gate")]
    pub undecided: Undecided,
    /// Compare although this differs: model, dataset, ratio, output_len, request_rate, ...
    #[arg(long, value_name = "FIELD")]
    pub allow_different: Vec<String>,
    /// Level of the intervals, in percent
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 99.0,
        allow_negative_numbers = true
    )]
    pub confidence: f64,
    /// How often the requests are drawn again; by default as often as the intervals take
    #[arg(long, value_name = "N")]
    pub resamples: Option<usize>,
    /// Seed of the draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How far, in percent, times and throughput of two runs of the same server may be apart;
    /// counts where a side has only one run
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 5.0,
        allow_negative_numbers = true
    )]
    pub run_spread: f64,
    /// Most cases that are shown of those that changed their verdict
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub changed: usize,
    /// Format of the result
    #[arg(long, default_value = "text", value_parser = formats(&[OutputFormat::Text, OutputFormat::Json, OutputFormat::Markdown]))]
    pub format: OutputFormat,
    /// Write the first side to this file as a baseline: small, without texts, fit for a repository;
    /// it can be compared with later
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<OutputPath>,
}

impl CompareArgs {
    /// Checks the flags, and says how to compare.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn options(&self) -> Result<Options> {
        let sides = self.sides.len();
        if sides < 2 && self.write_baseline.is_none() {
            return Err(Error::usage("nothing to compare with")
                .hint("give a second run; or --write-baseline to keep this one"));
        }
        if sides > MAX_SIDES {
            return Err(Error::usage(format!("too many sides: {sides}"))
                .hint(format!("at most {MAX_SIDES} are compared at once")));
        }
        if !(50.0..=99.99).contains(&self.confidence) {
            return Err(Error::usage(format!(
                "no level that an interval has: {}",
                self.confidence
            ))
            .hint("give --confidence 50 to 99.99"));
        }
        if let Some(resamples) = self
            .resamples
            .filter(|it| !(LEAST_RESAMPLES..=MAX_RESAMPLES).contains(it))
        {
            return Err(
                Error::usage(format!("--resamples is out of bounds: {resamples}"))
                    .hint(format!("give {LEAST_RESAMPLES} to {MAX_RESAMPLES}")),
            );
        }
        if !(0.0..=100.0).contains(&self.run_spread) {
            return Err(Error::usage(format!(
                "--run-spread is out of bounds: {}",
                self.run_spread
            ))
            .hint("give 0 to 100 percent"));
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
                Error::usage("a gate needs two sides").hint("give the baseline and the new run")
            );
        }
        Ok(Options {
            level: self.confidence / 100.0,
            resamples: self.resamples,
            seed: self.seed,
            run_spread: self.run_spread,
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
        .map(|rule| Change::parse(rule))
        .collect::<Result<Vec<Change>>>()?;
    let limits = limits(&flags.require)?;
    if flags.gate && changes.is_empty() {
        changes = Change::defaults()?;
    }
    let undecided = flags.undecided;
    if changes.is_empty() && limits.is_empty() {
        return match undecided {
            Undecided::Pass => Ok(None),
            Undecided::Fail => Err(Error::usage("--undecided fail without a gate")
                .hint("add --gate, --fail-on RULE or --require RULE")),
        };
    }
    Ok(Some(Gate {
        changes,
        limits,
        undecided,
    }))
}

/// A condition that may stop a comparison.
fn field(name: &str) -> Result<Field> {
    // The number of prompts stops only where it is the load.
    let stops = |it: &Field| it.weight() == Weight::Stops || *it == Field::NumPrompts;
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
            Error::usage(format!("nothing that stops a comparison: {name}"))
                .hint(format!("--allow-different takes {}", names.join(", ")))
        })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn options(flags: &[&str]) -> Result<Options> {
        let typed = ["sobench", "compare"].iter().chain(flags);
        match Cli::try_parse_from(typed).unwrap().into_command() {
            Command::Compare(flags) => flags.options(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_gate_has_rules() {
        assert_eq!(options(&["a", "b"]).unwrap().gate, None);
        assert_eq!(
            options(&["a", "b", "--gate"])
                .unwrap()
                .gate
                .unwrap()
                .changes,
            Change::defaults().unwrap()
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
            (1, 1, Undecided::Fail)
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for (flags, what) in [
            (&["a"][..], "nothing to compare with"),
            (
                &["a", "--write-baseline", "x", "--gate"],
                "a gate needs two sides",
            ),
            (
                &["a", "b", "--confidence", "100"],
                "no level that an interval has: 100",
            ),
            (
                &["a", "b", "--confidence", "nan"],
                "no level that an interval has: NaN",
            ),
            (
                &["a", "b", "--resamples", "10"],
                "--resamples is out of bounds: 10",
            ),
            (
                &["a", "b", "--run-spread", "-1"],
                "--run-spread is out of bounds: -1",
            ),
            (
                &["a", "b", "--allow-different", "label"],
                "nothing that stops a comparison: label",
            ),
            (
                &["a", "b", "--fail-on", "speed>+1%"],
                "no such figure: speed",
            ),
            (
                &["a", "b", "--undecided", "fail"],
                "--undecided fail without a gate",
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
