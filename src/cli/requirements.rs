//! The file of `sobench accept`: what a server must do.
//!
//! ```toml
//! name = "release"
//!
//! [[run]]
//! name = "json"
//! dataset = "json"               # every other key is a flag of sobench bench
//! num-prompts = 600
//! require = ["correct_rate>=99", "refused_rate<=1"]
//!
//! [[preflight]]
//! features = true                # every other key is a flag of sobench preflight
//! require = ["under_enforced<=0"]
//!
//! [[limits]]
//! file = "limits.json"           # of sobench-tools limits
//! require = ["nesting-depth>=32", "dies<=0"]
//! ```

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use toml_edit::{Item, TableLike, Value};

use super::config::{flag, parse_toml, table_flags};
use super::{Cli, Stopped, parse_with};
use crate::cli::Command as Parsed;
use crate::commands::accept::args::AcceptArgs;
use crate::commands::accept::profiles::{PROFILES, profile};
use crate::commands::accept::requirements::{Part, PartFlags, Requirements};
use sobench_core::constraint::sha256_hex;
use sobench_core::error::{Error, Result};
use sobench_core::input;

/// The largest file.
const MAX_BYTES: u64 = 1 << 20;

const SHAPE: &str =
    "write each run as [[run]], with its flags and require = [\"correct_rate>=99\"]";

/// Keys of a part that are no flags.
const OWN_KEYS: [&str; 6] = ["name", "require", "fail-on", "baseline", "runs", "looks"];

/// Reads the requirements that the flags name.
///
/// # Errors
/// The file cannot be read, or says something that cannot be run.
pub fn read(flags: &AcceptArgs) -> Result<Requirements> {
    let name: &str = &flags.requirements;
    let text = match profile(name) {
        Some(text) => text.to_owned(),
        None if Path::new(name).exists() || name.ends_with(".toml") => {
            input::read_text(Path::new(name), MAX_BYTES)?
        }
        None => {
            let known = PROFILES.map(|(name, _)| name).join(", ");
            return Err(Error::usage(format!("no file and no profile: {name}"))
                .hint(format!("give a file of requirements, or one of {known}")));
        }
    };
    let path = Path::new(name);
    let document = parse_toml(&text, path, SHAPE)?;
    let root = document.as_table();
    let file = File {
        path,
        text: &text,
        typed: &flags.typed.arguments,
    };
    let mut requirements = Requirements {
        name: path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        sha256: sha256_hex(text.as_bytes()),
        text: text.clone(),
        parts: Vec::new(),
    };
    for (key, item) in root.iter() {
        match (key, item) {
            ("name", Item::Value(Value::String(text))) => requirements.name = text.value().clone(),
            ("run" | "preflight" | "limits", Item::ArrayOfTables(tables)) => {
                for table in tables {
                    let part = file.part(key, requirements.parts.len(), table)?;
                    requirements.parts.push(part);
                }
            }
            _ => return Err(file.error(&format!("unknown key: {key}")).hint(SHAPE)),
        }
    }
    if requirements.parts.is_empty() {
        return Err(file.error("no run").hint(SHAPE));
    }
    for (index, part) in requirements.parts.iter().enumerate() {
        if requirements.parts[..index]
            .iter()
            .any(|other| other.name == part.name)
        {
            let what = format!("two runs with the same name: {}", part.name);
            return Err(file.error(&what).hint("give each a name of its own"));
        }
    }
    Ok(requirements)
}

struct File<'f> {
    path: &'f Path,
    text: &'f str,
    typed: &'f [OsString],
}

impl File<'_> {
    fn error(&self, what: &str) -> Error {
        Error::usage(format!("{}: {what}", self.path.display()))
    }

    fn part(&self, kind: &str, index: usize, table: &dyn TableLike) -> Result<Part> {
        let name = match table.get("name") {
            None => format!("{kind} {}", index + 1),
            Some(item) => self.text_of("name", item)?,
        };
        let (flags, arguments) = match kind {
            "limits" => self.limits(&name, table)?,
            "run" => self.flags("bench", &name, table)?,
            _ => self.flags("preflight", &name, table)?,
        };
        let part = Part {
            flags,
            arguments,
            require: self.texts("require", table)?,
            fail_on: self.texts("fail-on", table)?,
            baseline: table
                .get("baseline")
                .map(|item| self.text_of("baseline", item))
                .transpose()?,
            runs: self.number("runs", table)?,
            looks: self.number("looks", table)?,
            name,
        };
        if part.require.is_empty() && part.fail_on.is_empty() {
            return Err(self
                .error(&format!("{}: no rule", part.name))
                .hint("add require = [\"correct_rate>=99\"]"));
        }
        Ok(part)
    }

    /// The file of limits that a table names.
    fn limits(&self, name: &str, table: &dyn TableLike) -> Result<(PartFlags, Vec<String>)> {
        let is_known = |key: &str| ["name", "file", "require"].contains(&key);
        if let Some((key, _)) = table.iter().find(|(key, _)| !is_known(key)) {
            return Err(self
                .error(&format!("{name}: unknown key: {key}"))
                .hint("limits have a name, a file and require"));
        }
        let Some(item) = table.get("file") else {
            return Err(self
                .error(&format!("{name}: no file"))
                .hint("add file = \"limits.json\", of sobench-tools limits --save"));
        };
        let file = self.text_of("file", item)?;
        Ok((PartFlags::Limits((&file).into()), vec![file]))
    }

    /// The flags of a table for a command, and as on a command line.
    fn flags(
        &self,
        command: &str,
        name: &str,
        table: &dyn TableLike,
    ) -> Result<(PartFlags, Vec<String>)> {
        let program = Cli::command();
        let parser = program.find_subcommand(command).unwrap_or(&program);
        let typed = self.typed_for(parser);
        let is_flag = |(key, _): &(&str, &Item)| !OWN_KEYS.contains(&&*key.replace('_', "-"));
        let items = table.iter().filter(is_flag);
        let typed_flags: Vec<&Arg> = typed.iter().map(|(flag, _)| *flag).collect();
        let mut arguments: Vec<OsString> = vec!["sobench".into(), command.into()];
        let from_file = table_flags(items, self.text, self.path, parser, &typed_flags)?;
        arguments.extend(from_file);
        arguments.extend(typed.iter().map(|(_, argument)| (*argument).clone()));
        let in_part = |error: Error| {
            let hint = error.hint.clone().unwrap_or_default();
            self.error(&format!("{name}: {}", error.what)).hint(hint)
        };
        let parsed = match parse_with::<Cli>(Cli::command(), &arguments) {
            Ok(cli) => cli.into_command(),
            Err(Stopped::Failed(error)) => return Err(in_part(error)),
            Err(Stopped::Help(_)) => return Err(self.error("help is no run")),
        };
        let flags = match parsed {
            Parsed::Bench(flags) => PartFlags::Run(flags),
            Parsed::Preflight(flags) => PartFlags::Preflight(flags),
            _ => return Err(Error::internal("a part is another command")),
        };
        let shown = arguments
            .iter()
            .skip(2)
            .map(|argument| argument.to_string_lossy().into_owned());
        Ok((flags, shown.collect()))
    }

    /// The typed flags that a command has.
    fn typed_for<'c>(&self, command: &'c Command) -> Vec<(&'c Arg, &OsString)> {
        let known = |argument: &OsString| {
            let text = argument.to_string_lossy();
            let name = text.trim_start_matches("--");
            flag(command, name.split('=').next().unwrap_or(name))
        };
        let typed = self.typed.iter();
        typed
            .filter_map(|argument| Some((known(argument)?, argument)))
            .collect()
    }

    fn text_of(&self, key: &str, item: &Item) -> Result<String> {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| {
            self.error(&format!("{key} is no text"))
                .hint(format!("write {key} = \"...\""))
        })
    }

    fn texts(&self, key: &str, table: &dyn TableLike) -> Result<Vec<String>> {
        let Some(item) = table.get(key) else {
            return Ok(Vec::new());
        };
        let texts = item.as_array().and_then(|values| {
            values
                .iter()
                .map(|value| Some(value.as_str()?.to_owned()))
                .collect()
        });
        texts.ok_or_else(|| {
            self.error(&format!("{key} is no list of rules"))
                .hint(format!("write {key} = [\"correct_rate>=99\"]"))
        })
    }

    fn number(&self, key: &str, table: &dyn TableLike) -> Result<Option<usize>> {
        let Some(item) = table.get(key) else {
            return Ok(None);
        };
        let number = item
            .as_integer()
            .filter(|number| (1..=100).contains(number));
        number.map(|number| Some(number as usize)).ok_or_else(|| {
            self.error(&format!("{key} is no number from 1 to 100"))
                .hint(format!("write {key} = 5"))
        })
    }
}
