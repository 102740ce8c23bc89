//! `--run-log` of several runs: a folder, or a path with placeholders.

use std::collections::HashSet;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

use super::MatrixPlan;
use crate::commands::bench::options::{RunPlan, Target};
use crate::commands::matrix::run_order::Step;
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};
use sobench_core::output_files::with_suffix;
use sobench_report::contenders::Load;

/// The parts of a run's identity, as placeholders of `--run-log`. A contender is an engine or a
/// server, so that `{engine}` and `{server}` are both its name.
const PLACEHOLDERS: [(&str, Part); 6] = [
    ("{dataset}", Part::Dataset),
    ("{engine}", Part::Contender),
    ("{server}", Part::Contender),
    ("{load}", Part::Load),
    ("{arm}", Part::Arm),
    ("{repeat}", Part::Repeat),
];

/// The order of the parts in a name that is not written by the user.
const PARTS: [Part; 5] = [
    Part::Dataset,
    Part::Contender,
    Part::Load,
    Part::Arm,
    Part::Repeat,
];

/// The ending of names that are not written by the user.
const ENDING: &str = "jsonl";

const HINT: &str =
    "name a folder, e.g. logs/, or use placeholders, e.g. logs/{dataset}-{engine}-{arm}.jsonl";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Dataset,
    Contender,
    Load,
    Arm,
    Repeat,
}

/// The paths of the run logs of several runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunLogPaths {
    /// A file for each run in this folder.
    Folder(PathBuf),
    /// A path with placeholders. Parts that differ between runs and have no placeholder are
    /// appended to the file name.
    Template(String),
}

impl RunLogPaths {
    /// Reads the value of `--run-log`. A folder ends with a separator, or exists.
    ///
    /// # Errors
    /// The path is neither a folder nor has a placeholder, or it has an unknown placeholder.
    pub(super) fn parse(path: &Path) -> Result<Self> {
        let text = path.to_string_lossy();
        if let Some(unknown) = unknown_placeholder(&text) {
            return Err(
                Error::usage(format!("--run-log has an unknown placeholder: {unknown}"))
                    .hint("use {dataset}, {engine} or {server}, {load}, {arm} and {repeat}"),
            );
        }
        if PLACEHOLDERS.iter().any(|(name, _)| text.contains(name)) {
            return Ok(Self::Template(with_file_name(text.into_owned())));
        }
        if text.ends_with(['/', MAIN_SEPARATOR]) || path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        Err(Error::usage(format!(
            "--run-log names one file for several runs: {}",
            path.display()
        ))
        .hint(HINT))
    }

    /// The path of `--run-log` with placeholders for a single run, which has the names of a
    /// comparison of one.
    ///
    /// # Errors
    /// An unknown placeholder.
    pub(super) fn of_single(path: &Path, run: &RunPlan) -> Result<PathBuf> {
        let text = path.to_string_lossy();
        if PLACEHOLDERS.iter().all(|(name, _)| !text.contains(name)) {
            return Ok(path.to_owned());
        }
        let step = Step {
            repeat: 0,
            contender: 0,
            dataset: 0,
            load: 0,
            arm: Arm::Constrained,
        };
        let mut single = MatrixPlan::single(run.clone());
        single.contenders[0].name = match &run.target {
            Target::Embedded(options) => options.engine.name().to_owned(),
            Target::Server(server) => server.endpoint.authority(),
        };
        Ok(Self::parse(path)?.path(&single, &step))
    }

    /// The path of the log of a run.
    pub(super) fn path(&self, plan: &MatrixPlan, step: &Step) -> PathBuf {
        let value = |part: Part| value(plan, step, part);
        let varying = PARTS.into_iter().filter(|part| varies(plan, *part));
        match self {
            Self::Folder(folder) => {
                // The dataset is in every name, so that no name is empty.
                let parts = PARTS
                    .into_iter()
                    .filter(|part| *part == Part::Dataset || varies(plan, *part));
                let stem: Vec<String> = parts.map(value).collect();
                folder.join(format!("{}.{ENDING}", stem.join("-")))
            }
            Self::Template(template) => {
                let has = |part: Part| {
                    let mut names = PLACEHOLDERS.iter().filter(|(_, other)| *other == part);
                    names.any(|(name, _)| template.contains(name))
                };
                let missing: Vec<String> = varying.filter(|part| !has(*part)).map(value).collect();
                let template = with_suffix(Path::new(template), &missing);
                let template = template.to_string_lossy().into_owned();
                let path = PLACEHOLDERS.iter().fold(template, |path, (name, part)| {
                    path.replace(name, &value(*part))
                });
                path.into()
            }
        }
    }

    /// Checks that every run has its own path.
    ///
    /// # Errors
    /// Two runs have the same path, because the names of their contenders differ only in characters
    /// that are replaced in file names.
    pub(super) fn check<'a>(
        &self,
        plan: &MatrixPlan,
        steps: impl IntoIterator<Item = &'a Step>,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        for step in steps {
            let path = self.path(plan, step);
            if seen.contains(&path) {
                return Err(Error::usage(format!(
                    "two runs have the same --run-log: {}",
                    path.display()
                ))
                .hint("give the servers names that differ in letters or digits"));
            }
            seen.insert(path);
        }
        Ok(())
    }
}

/// The first `{...}` that is not a placeholder.
fn unknown_placeholder(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        let end = start + rest[start..].find('}')? + 1;
        let placeholder = &rest[start..end];
        if PLACEHOLDERS.iter().all(|(name, _)| *name != placeholder) {
            return Some(placeholder);
        }
        rest = &rest[end..];
    }
    None
}

/// A template of folders, such as `logs/{dataset}/`, gets a file name.
fn with_file_name(template: String) -> String {
    if template.ends_with(['/', MAIN_SEPARATOR]) {
        format!("{template}run.{ENDING}")
    } else {
        template
    }
}

/// Whether a part differs between runs.
fn varies(plan: &MatrixPlan, part: Part) -> bool {
    match part {
        Part::Dataset => plan.datasets.len() > 1,
        Part::Contender => plan.contenders.len() > 1,
        Part::Load => plan.has_several_loads(),
        Part::Arm => plan.arms.len() > 1,
        Part::Repeat => plan.repeats > 1,
    }
}

fn value(plan: &MatrixPlan, step: &Step, part: Part) -> String {
    match part {
        Part::Dataset => safe(&plan.datasets[step.dataset]),
        Part::Contender => safe(&plan.contenders[step.contender].name),
        Part::Load => match plan.loads[step.load] {
            Load::AsGiven => "load".to_owned(),
            Load::RequestRate(rate) => format!("rate{rate}"),
            Load::MaxConcurrency(cap) => format!("concurrency{cap}"),
        },
        Part::Arm => step.arm.name().to_owned(),
        Part::Repeat => (step.repeat + 1).to_string(),
    }
}

/// A name as a part of a file name.
fn safe(name: &str) -> String {
    name.chars()
        .map(|character| match character {
            '.' | '_' | '-' => character,
            _ if character.is_alphanumeric() => character,
            _ => '-',
        })
        .collect()
}
