//! `sobench wire`: how recorded streams depart from the API, and what client libraries read of them.

pub(crate) mod json;
pub(crate) mod recording;

use clap::Args;

use self::json::WireFile;
use self::recording::{Recorded, Recording};
use crate::commands::flags::paths::InputPath;
use crate::commands::flags::values::{Described, described};
use crate::commands::output::{CommandOutput, pretty};
use sobench_core::error::Result;
use sobench_core::exit_codes::{CHECK_FAILED, SUCCESS};
use sobench_core::output_format::OutputFormat;
use sobench_core::printable::printable;
use sobench_render::{Document, Table, text};
use sobench_wire::{Read, Reading, are_same, is_same};

/// Widths of the columns of the tables.
const CLIENTS_CHARS: usize = 30;
const READ_CHARS: usize = 60;

const FORMATS: [Described<OutputFormat>; 2] = [
    Described(OutputFormat::Text, "text", "Tables"),
    Described(OutputFormat::Json, "json", "One JSON value"),
];

/// Show how recorded streams depart from the API, and what client libraries read of them.
#[derive(Args, Clone, Debug)]
pub struct WireArgs {
    /// Recorded answers: the events as a server sent them (`data: {...}`), a body, a HAR file, or a
    /// run log
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<InputPath>,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = described(&FORMATS))]
    pub format: OutputFormat,
}

/// Checks the recordings, and reads them with every client.
///
/// # Errors
/// A file is no recording.
pub fn run(flags: &WireArgs) -> Result<CommandOutput> {
    let (mut page, mut all) = (Document::default(), Vec::new());
    let mut is_passed = true;
    for path in &flags.files {
        let Recording { streams, note } = recording::read(path)?;
        if let Some(note) = note {
            page.paragraph(note);
        }
        for stream in streams {
            is_passed &= are_same(&stream.readings) && !stream.departures.has_forbidden();
            show(&mut page, &stream);
            all.push(stream);
        }
    }
    let stdout = match flags.format {
        OutputFormat::Json => pretty(&WireFile::new(&all)),
        _ => text::render(&page),
    };
    Ok(CommandOutput {
        stdout,
        exit_code: if is_passed { SUCCESS } else { CHECK_FAILED },
        ..CommandOutput::default()
    })
}

/// Adds an answer to the page: what clients read, then the departures.
fn show(page: &mut Document, stream: &Recorded) {
    let mut groups: Vec<(Vec<&str>, &Reading)> = Vec::new();
    for (client, reading) in &stream.readings {
        match groups.iter_mut().find(|(_, known)| is_same(known, reading)) {
            Some((clients, _)) => clients.push(client),
            None => groups.push((vec![client], reading)),
        }
    }
    let departures = stream.departures.iter();
    let departs = match departures.clone().count() {
        0 => "no departure from the API".to_owned(),
        1 => "1 departure from the API".to_owned(),
        count => format!("{count} departures from the API"),
    };
    let name = match stream.chunks {
        0 => stream.name.clone(),
        chunks => format!("{} ({chunks} chunks)", stream.name),
    };
    let clients = match clients_read(&groups) {
        Some(text) => format!("{text}; "),
        None => String::new(),
    };
    page.paragraph(format!("{name}: {clients}{departs}"));
    if !groups.is_empty() {
        let mut table = Table::new(["clients", "read"], 2)
            .wrapped(0, CLIENTS_CHARS)
            .wrapped(1, READ_CHARS);
        for (clients, reading) in &groups {
            table.row([clients.join(", "), described_reading(reading)]);
        }
        page.table(table);
    }
    if !stream.departures.is_empty() {
        page.gap();
        let mut table = Table::new(["departure", "forbidden by", "example"], 3)
            .wrapped(0, CLIENTS_CHARS)
            .wrapped(2, READ_CHARS);
        for (departure, example) in departures {
            table.row([
                format!("{}: {departure}", departure.name()),
                departure.forbidden_by().name().to_owned(),
                printable(example, 3 * READ_CHARS),
            ]);
        }
        page.table(table);
    }
}

/// The answer in one line; `None` without clients.
fn clients_read(groups: &[(Vec<&str>, &Reading)]) -> Option<String> {
    let clients = |has_error: bool| {
        let groups = groups.iter().filter(|(_, read)| read.is_err() == has_error);
        groups.clone().count().checked_sub(1).map(|more| {
            let clients: usize = groups.map(|(clients, _)| clients.len()).sum();
            (clients, more + 1)
        })
    };
    Some(match (clients(false), clients(true)) {
        (None, None) => return None,
        (Some((of, 1)), None) => format!("all {of} clients read the same"),
        (Some((of, ways)), None) => format!("{of} clients read it in {ways} ways"),
        (None, Some((of, _))) => format!("all {of} clients raise an error"),
        (Some((others, 1)), Some((errors, _))) => {
            let of = others + errors;
            format!("{errors} of {of} clients raise an error, the others read the same")
        }
        (Some((others, ways)), Some((errors, _))) => {
            let of = others + errors;
            format!("{errors} of {of} clients raise an error, the others read it in {ways} ways")
        }
    })
}

fn described_reading(reading: &Reading) -> String {
    let Read { content, calls } = match reading {
        Ok(read) => read,
        Err(error) => return format!("error: {error}"),
    };
    let content = (!content.is_empty()).then(|| format!("\"{content}\""));
    let calls = calls.iter().map(|call| {
        let arguments = match &call.arguments {
            serde_json::Value::String(text) => text.clone(),
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
