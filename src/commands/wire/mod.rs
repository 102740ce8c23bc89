//! `sobench wire`: what client libraries read from recorded streams.

use std::path::Path;

use clap::Args;
use serde_json::Value;

use crate::commands::flags::paths::InputPath;
use crate::commands::output::CommandOutput;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{CHECK_FAILED, SUCCESS};
use sobench_core::input;
use sobench_core::printable::printable;
use sobench_render::{Document, Table, text};
use sobench_wire::{CLIENTS, Read, Reading, chunks};

/// The largest recording.
const MAX_BYTES: u64 = 64_000_000;

/// Widths of the columns of the table.
const CLIENTS_CHARS: usize = 30;
const READ_CHARS: usize = 60;

/// Show what client libraries read from recorded streams of chat completions.
#[derive(Args, Clone, Debug)]
pub struct WireArgs {
    /// Recorded streams: the events as a server sent them (`data: {...}`), or HAR files
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<InputPath>,
}

/// Reads the recordings with every client.
///
/// # Errors
/// A file is no recording.
pub fn run(flags: &WireArgs) -> Result<CommandOutput> {
    let mut page = Document::default();
    let mut are_all_equal = true;
    for path in &flags.files {
        for (name, stream) in streams(path)? {
            let readings: Vec<(&str, Reading)> = CLIENTS
                .iter()
                .map(|client| (client.name, client.read(&stream, None)))
                .collect();
            are_all_equal &= show(&mut page, &name, &stream, &readings);
        }
    }
    Ok(CommandOutput {
        stdout: text::render(&page),
        exit_code: if are_all_equal { SUCCESS } else { CHECK_FAILED },
        ..CommandOutput::default()
    })
}

/// The streams of a file, with their names.
fn streams(path: &Path) -> Result<Vec<(String, Vec<Value>)>> {
    let shown = path.display().to_string();
    if input::open(path, u64::MAX)?.1 > MAX_BYTES {
        let what = format!("larger than {} MB: {shown}", MAX_BYTES / 1_000_000);
        return Err(Error::usage(what).hint("cut the recording: one answer is enough"));
    }
    let text = input::read_text(path, MAX_BYTES)?;
    let found: Vec<(String, Vec<Value>)> = match serde_json::from_str::<Value>(&text) {
        Ok(har) => {
            let entries = har["log"]["entries"].as_array();
            let entries = entries.into_iter().flatten().enumerate();
            let body = |(number, entry): (usize, &Value)| {
                let stream = chunks(entry["response"]["content"]["text"].as_str()?)?;
                Some((format!("{shown}, entry {number}"), stream))
            };
            entries.filter_map(body).collect()
        }
        Err(_) => chunks(&text)
            .map(|stream| (shown.clone(), stream))
            .into_iter()
            .collect(),
    };
    if found.is_empty() {
        let what = format!("no stream of chat completions: {shown}");
        return Err(Error::usage(what).hint(
            "record one with: curl -N URL/v1/chat/completions -d '{..., \"stream\": true}' > FILE",
        ));
    }
    Ok(found)
}

/// Adds a stream to the page. Returns whether all clients read the same.
fn show(page: &mut Document, name: &str, stream: &[Value], readings: &[(&str, Reading)]) -> bool {
    let mut groups: Vec<(Vec<&str>, &Reading)> = Vec::new();
    for (client, reading) in readings {
        match groups.iter_mut().find(|(_, known)| is_same(known, reading)) {
            Some((clients, _)) => clients.push(client),
            None => groups.push((vec![client], reading)),
        }
    }
    let errors = readings
        .iter()
        .filter(|(_, reading)| reading.is_err())
        .count();
    let of = readings.len();
    let answer = match (groups.len(), errors) {
        (1, 0) => format!("all {of} clients read the same"),
        (1, _) => format!("all {of} clients raise an error"),
        (groups, 0) => format!("{of} clients read it in {groups} ways"),
        (groups, errors) => {
            let ways = groups - usize::from(groups > 1);
            format!("{errors} of {of} clients raise an error, the others read it in {ways} ways")
        }
    };
    page.paragraph(format!("{name} ({} chunks): {answer}", stream.len()));
    let mut table = Table::new(["clients", "read"], 2)
        .wrapped(0, CLIENTS_CHARS)
        .wrapped(1, READ_CHARS);
    for (clients, reading) in &groups {
        table.row([clients.join(", "), described(reading)]);
    }
    page.table(table);
    groups.len() == 1 && errors == 0
}

/// Whether two clients read the same. Arguments that are parsed are the same as their text.
fn is_same(one: &Reading, other: &Reading) -> bool {
    let parsed = |value: &Value| match value.as_str().map(serde_json::from_str::<Value>) {
        Some(Ok(parsed)) => parsed,
        _ => value.clone(),
    };
    match (one, other) {
        (Err(one), Err(other)) => one == other,
        (Ok(one), Ok(other)) => {
            let mut pairs = one.calls.iter().zip(&other.calls);
            one.content == other.content
                && one.calls.len() == other.calls.len()
                && pairs.all(|(one, other)| {
                    (&one.id, &one.name) == (&other.id, &other.name)
                        && parsed(&one.arguments) == parsed(&other.arguments)
                })
        }
        _ => false,
    }
}

fn described(reading: &Reading) -> String {
    let Read { content, calls } = match reading {
        Ok(read) => read,
        Err(error) => return format!("error: {error}"),
    };
    let content = (!content.is_empty()).then(|| format!("\"{content}\""));
    let calls = calls.iter().map(|call| {
        let arguments = match &call.arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        format!("{}({arguments}) [{}]", call.name, call.id)
    });
    let parts: Vec<String> = content.into_iter().chain(calls).collect();
    match parts.is_empty() {
        true => "nothing".to_owned(),
        false => printable(&parts.join(" "), 4 * READ_CHARS),
    }
}
