//! `sobench datasets`: lists the datasets, shows the rows that ship with sobench, and converts
//! recorded requests.

mod convert;

use std::str::FromStr;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::output::{CommandOutput, pretty};
use crate::commands::flags::values::{Described, described};
use sobench_core::constraint::ConstraintKind;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_data::dataset::{DatasetName, SUITE_NAME, SuiteFlags, TOOLS_NAME, shipped_rows};
use sobench_render::{Block, Document, Table, text};
use sobench_shutdown::Shutdown;

/// The flags of `sobench datasets`.
#[derive(Args, Clone, Debug)]
pub struct DatasetsArgs {
    #[command(subcommand)]
    pub command: DatasetsCommand,
}

/// What to print.
#[derive(Clone, Debug, Subcommand)]
pub enum DatasetsCommand {
    /// List the datasets of --dataset
    List(ListArgs),
    /// Show a dataset and its shipped rows: tags, prompts, constraints and examples
    Show(ShowArgs),
    /// Write recorded requests as OpenAI's batch input, and count what was understood
    Convert(convert::ConvertArgs),
}

/// The flags of `sobench datasets list`.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = described(&LIST_FORMATS))]
    pub format: OutputFormat,
}

/// The flags of `sobench datasets show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArgs {
    /// Dataset
    #[arg(value_name = "NAME", default_value = DatasetName::Suite.name(),
          value_parser = PossibleValuesParser::new(DatasetName::ALL.map(DatasetName::name)))]
    pub name: String,
    /// Row of suite or tools, to print in full
    #[arg(value_name = "ROW", conflicts_with = "suite_filter")]
    pub row: Option<String>,
    #[command(flatten)]
    pub suite: SuiteFlags,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = described(&SHOW_FORMATS))]
    pub format: OutputFormat,
}

const LIST_FORMATS: [Described<OutputFormat>; 2] = [
    Described(OutputFormat::Text, "text", "A table"),
    Described(
        OutputFormat::Jsonl,
        "jsonl",
        "One JSON object for each dataset",
    ),
];

const SHOW_FORMATS: [Described<OutputFormat>; 2] = [
    Described(
        OutputFormat::Text,
        "text",
        "Properties, and a table of rows or one row in full",
    ),
    Described(
        OutputFormat::Jsonl,
        "jsonl",
        "The rows in the format of --dataset custom",
    ),
];

/// Widest column of text, in characters.
const COLUMN_CHARS: usize = 48;

/// Prints the list or a dataset.
///
/// # Errors
/// An unknown tag or row, or a row of a dataset without rows.
pub fn run(flags: DatasetsArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || {
        let stdout = match flags.command {
            DatasetsCommand::List(flags) => list(flags.format),
            DatasetsCommand::Show(flags) => show(&flags)?,
            DatasetsCommand::Convert(flags) => convert::convert(&flags)?,
        };
        Ok(CommandOutput {
            stdout,
            ..CommandOutput::default()
        })
    })
}

fn list(format: OutputFormat) -> String {
    if format == OutputFormat::Jsonl {
        return json_lines(DatasetName::ALL.map(listed));
    }
    let heads = ["dataset", "constraints", "content", "answer tokens"];
    let mut table = Table::new(heads, 3).wrapped(2, COLUMN_CHARS);
    for name in DatasetName::ALL {
        table.row([
            name.name().to_owned(),
            constraints(name).to_owned(),
            name.description().to_owned(),
            name.default_output_len().to_string(),
        ]);
    }
    let mut document = Document::new("sobench: datasets");
    document.titled_table("Datasets", Some(table));
    text::render(&document)
}

fn listed(name: DatasetName) -> Value {
    json!({
        "name": name,
        "description": name.description(),
        "constraints": constraints(name),
        "output_len": name.default_output_len(),
        "flags": name.flags(),
    })
}

fn constraints(name: DatasetName) -> &'static str {
    if name.is_unconstrained() {
        "none"
    } else if name.has_row_constraints() {
        "one per row"
    } else {
        "one per run"
    }
}

fn show(flags: &ShowArgs) -> Result<String> {
    let name = DatasetName::from_str(&flags.name)?;
    let shipped = Shipped::from_name(name);
    if name != DatasetName::Suite && !flags.suite.suite_filter.is_empty() {
        let what = "--suite-filter is for the dataset suite";
        return Err(not_for(what, name));
    }
    let filter = match &flags.row {
        Some(_) if shipped.is_none() => {
            return Err(not_for("a row is for the datasets suite and tools", name));
        }
        Some(row) => vec![format!("name:{row}")],
        None => flags.suite.suite_filter.clone(),
    };
    let rows = shipped_rows(name, &filter)?;
    if flags.format == OutputFormat::Jsonl {
        if rows.is_empty() {
            return Err(
                Error::usage(format!("no rows of {name} ship with sobench")).hint(
                    "use --format text for its properties, or --dry-run to see a request of it",
                ),
            );
        }
        return Ok(json_lines(rows.into_iter().map(Value::from)));
    }
    let mut document = Document::new(format!("sobench: dataset {name}"));
    document.facts(properties(name, shipped, rows.len()));
    match &rows[..] {
        [row] => row_in_full(&mut document, row),
        rows => {
            let groups = shipped.map_or(&[][..], |shipped| shipped.tag_groups);
            document.titled_table("Rows", rows_table(rows, groups).non_empty());
        }
    }
    Ok(text::render(&document))
}

fn not_for(what: &str, name: DatasetName) -> Error {
    Error::usage(format!("{what}, not {name}"))
        .hint("use sobench datasets show suite, or leave it out")
}

/// A dataset of many rows that ship with sobench.
#[derive(Clone, Copy)]
struct Shipped {
    /// Name and version of the rows.
    version: &'static str,
    /// The columns of the table of rows: each is a group of tags.
    tag_groups: &'static [&'static str],
}

impl Shipped {
    fn from_name(name: DatasetName) -> Option<Self> {
        match name {
            DatasetName::Suite => Some(Self {
                version: SUITE_NAME,
                tag_groups: &["kind", "domain", "difficulty", "feature"],
            }),
            DatasetName::Tools => Some(Self {
                version: TOOLS_NAME,
                tag_groups: &["group", "calls", "tool_choice", "step", "language"],
            }),
            _ => None,
        }
    }
}

fn properties(
    name: DatasetName,
    shipped: Option<Shipped>,
    rows: usize,
) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("dataset", name.name().to_owned()),
        ("content", name.description().to_owned()),
        ("constraints", constraints(name).to_owned()),
        (
            "answers",
            format!("at most {} tokens", name.default_output_len()),
        ),
        ("flags", name.flags().join(" ")),
    ];
    if let Some(Shipped { version, .. }) = shipped {
        facts.push(("rows", format!("{rows} of {version}")));
    }
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

fn rows_table(rows: &[Map<String, Value>], tag_groups: &[&'static str]) -> Table {
    let heads = ["row"].into_iter().chain(tag_groups.iter().copied());
    let mut table = Table::new(heads, tag_groups.len() + 1).wrapped(tag_groups.len(), COLUMN_CHARS);
    for row in rows {
        let group = |group: &str| {
            let tags = tags(row).filter_map(|tag| tag.split_once(':'));
            let of_group = tags.filter(|(of, _)| *of == group).map(|(_, tag)| tag);
            of_group.collect::<Vec<_>>().join(" ")
        };
        let cells = [member(row, "name")].into_iter();
        table.row(cells.chain(tag_groups.iter().map(|name| group(name))));
    }
    table
}

fn tags(row: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let list = row.get("tags").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// A member that is a text; blank if there is none.
fn member(row: &Map<String, Value>, name: &str) -> String {
    let value = row.get(name).and_then(Value::as_str);
    value.unwrap_or_default().to_owned()
}

/// The tags, the prompt, the constraint, the oracle and the examples of a row.
fn row_in_full(document: &mut Document, row: &Map<String, Value>) {
    let facts = [
        ("row", member(row, "name")),
        ("tags", tags(row).collect::<Vec<_>>().join(" ")),
    ];
    document.facts(facts.into_iter().filter(|(_, value)| !value.is_empty()));
    let mut section = |title: &str, content: String| {
        if !content.is_empty() {
            document.heading(title);
            document.push(Block::Preformatted(content));
        }
    };
    section("Prompt", member(row, "prompt"));
    section(
        "Messages",
        row.get("messages").map(pretty).unwrap_or_default(),
    );
    for kind in ConstraintKind::ALL {
        let content = match row.get(kind.name()) {
            None => continue,
            Some(Value::String(text)) => text.clone(),
            Some(grammar) if kind == ConstraintKind::Grammar => {
                let text = grammar.get("text").and_then(Value::as_str);
                text.unwrap_or_default().to_owned()
            }
            Some(value) => pretty(value),
        };
        section(&format!("Constraint: {kind}"), content);
    }
    section(
        "Pest grammar that judges the answers",
        member(row, "grammar_oracle"),
    );
    section("Reference answer", member(row, "completion"));
    let instances = row.get("instances").and_then(Value::as_array);
    let examples = |valid: bool| {
        let instances = instances.into_iter().flatten();
        let of_kind = instances.filter(|instance| instance["valid"] == valid);
        let text = |instance: &Value| match instance.get("text") {
            Some(text) => format!("{text}\n"),
            None => format!("{}\n", instance["data"]),
        };
        of_kind.map(text).collect::<String>()
    };
    section("Valid answers", examples(true));
    section("Invalid answers", examples(false));
}

fn json_lines(values: impl IntoIterator<Item = Value>) -> String {
    values
        .into_iter()
        .map(|value| format!("{value}\n"))
        .collect()
}
