//! The flags of `sobench compare`, checked and turned into a plan. Opens no file.

use crate::commands::compare::args::{CompareArgs, CompareFormat};
use crate::commands::compare::{Format, Plan};
use crate::commands::flags::gate::limits;
use crate::compare::gate::Undecided;
use crate::compare::rules::Change;
use crate::compare::side::{Field, Weight};
use crate::compare::{Gate, LEAST_RESAMPLES, MAX_RESAMPLES, Options};
use crate::error::{Error, Result};

/// The most sides of one comparison.
const MAX_SIDES: usize = 16;

/// The most cases that are shown of those that changed.
const MAX_CHANGED: usize = 100_000;

/// Checks the flags of `sobench compare`.
///
/// # Errors
/// Usage errors that name the flag and its value.
pub fn compare_plan(flags: &CompareArgs) -> Result<Plan> {
    let sides = flags.sides.len();
    if sides < 2 && flags.write_baseline.is_none() {
        return Err(Error::usage("nothing to compare with").hint("give a second run; or --write-baseline to keep this one"));
    }
    if sides > MAX_SIDES {
        return Err(Error::usage(format!("too many sides: {sides}")).hint(format!("at most {MAX_SIDES} are compared at once")));
    }
    if !(50.0..=99.99).contains(&flags.confidence) {
        return Err(
            Error::usage(format!("no level that an interval has: {}", flags.confidence)).hint("give --confidence 50 to 99.99")
        );
    }
    if let Some(resamples) = flags.resamples.filter(|it| !(LEAST_RESAMPLES..=MAX_RESAMPLES).contains(it)) {
        return Err(Error::usage(format!("--resamples is out of bounds: {resamples}"))
            .hint(format!("give {LEAST_RESAMPLES} to {MAX_RESAMPLES}")));
    }
    if !(0.0..=100.0).contains(&flags.run_spread) {
        return Err(Error::usage(format!("--run-spread is out of bounds: {}", flags.run_spread)).hint("give 0 to 100 percent"));
    }
    if flags.changed > MAX_CHANGED {
        return Err(
            Error::usage(format!("--changed is too large: {}", flags.changed)).hint(format!("give at most {MAX_CHANGED}"))
        );
    }
    let gate = gate(flags)?;
    if sides < 2 && gate.is_some() {
        return Err(Error::usage("a gate needs two sides").hint("give the baseline and the new run"));
    }
    Ok(Plan {
        sides: flags.sides.clone(),
        options: Options {
            level: flags.confidence / 100.0,
            resamples: flags.resamples,
            seed: flags.seed,
            run_spread: flags.run_spread,
            allowed: flags.allow_different.iter().map(|name| field(name)).collect::<Result<Vec<Field>>>()?,
            changed: flags.changed,
            gate,
        },
        format: match flags.format {
            CompareFormat::Text => Format::Text,
            CompareFormat::Json => Format::Json,
            CompareFormat::Markdown => Format::Markdown,
        },
        write_baseline: flags.write_baseline.clone(),
    })
}

fn gate(flags: &CompareArgs) -> Result<Option<Gate>> {
    let mut changes = flags.fail_on.iter().map(|rule| Change::parse(rule)).collect::<Result<Vec<Change>>>()?;
    let limits = limits(&flags.require)?;
    if flags.gate && changes.is_empty() {
        changes = Change::defaults()?;
    }
    let undecided = flags.undecided;
    if changes.is_empty() && limits.is_empty() {
        return match undecided {
            Undecided::Pass => Ok(None),
            Undecided::Fail => {
                Err(Error::usage("--undecided fail without a gate").hint("add --gate, --fail-on RULE or --require RULE"))
            }
        };
    }
    Ok(Some(Gate { changes, limits, undecided }))
}

/// A condition that may stop a comparison.
fn field(name: &str) -> Result<Field> {
    // The number of prompts stops only where it is the load.
    let stops = |it: &Field| it.weight() == Weight::Stops || *it == Field::NumPrompts;
    let wanted = name.replace('-', "_");
    Field::ALL.into_iter().filter(stops).find(|field| field.name() == wanted).ok_or_else(|| {
        let names: Vec<&str> = Field::ALL.into_iter().filter(stops).map(Field::name).collect();
        Error::usage(format!("nothing that stops a comparison: {name}"))
            .hint(format!("--allow-different takes {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn plan(flags: &[&str]) -> Result<Plan> {
        let typed = ["sobench", "compare"].iter().chain(flags);
        match Cli::try_parse_from(typed).unwrap().into_command() {
            Command::Compare(flags) => compare_plan(&flags),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_gate_has_rules() {
        assert_eq!(plan(&["a", "b"]).unwrap().options.gate, None);
        assert_eq!(plan(&["a", "b", "--gate"]).unwrap().options.gate.unwrap().changes, Change::defaults().unwrap());
        let own = plan(&["a", "b", "--gate", "--fail-on", "failed>+3", "--require", "failed<=9", "--undecided", "fail"]).unwrap();
        let gate = own.options.gate.unwrap();
        assert_eq!((gate.changes.len(), gate.limits.len(), gate.undecided), (1, 1, Undecided::Fail));
    }

    #[test]
    fn nonsense_is_refused() {
        for (flags, what) in [
            (&["a"][..], "nothing to compare with"),
            (&["a", "--write-baseline", "x", "--gate"], "a gate needs two sides"),
            (&["a", "b", "--confidence", "100"], "no level that an interval has: 100"),
            (&["a", "b", "--confidence", "nan"], "no level that an interval has: NaN"),
            (&["a", "b", "--resamples", "10"], "--resamples is out of bounds: 10"),
            (&["a", "b", "--run-spread", "-1"], "--run-spread is out of bounds: -1"),
            (&["a", "b", "--allow-different", "label"], "nothing that stops a comparison: label"),
            (&["a", "b", "--fail-on", "speed>+1%"], "no such figure: speed"),
            (&["a", "b", "--undecided", "fail"], "--undecided fail without a gate"),
        ] {
            let error = plan(flags).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        }
        assert_eq!(plan(&["a", "b", "--allow-different", "output-len"]).unwrap().options.allowed, [Field::OutputLen]);
        assert!(plan(&["a", "--write-baseline", "x"]).is_ok());
    }
}
