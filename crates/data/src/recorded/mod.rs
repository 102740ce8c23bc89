//! Files of recorded requests, in forms that are recognised by their content: JSON Lines, JSON
//! documents, and vLLM's logs. A form is one file, its `mod` line, and its line in `FORMS`.

mod batch;
mod body;
mod har;
mod otel;
mod python;
mod request;
mod trace;
mod verifier;
mod vllm_log;

use std::path::Path;

use serde_json::value::RawValue;

use self::request::{Members, Read, members};
use self::vllm_log::VllmLog;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::message_without_line;
use sobench_core::input::{self, Lines};
use sobench_core::progress::Progress;

pub use self::request::{BLOCK_TOKENS, Content, Found, Lengths, PROMPTS, Request};

/// A form of JSON objects.
struct Form {
    /// What its objects are, in counts.
    name: &'static str,
    read: for<'l> fn(&'l str, &Members<'l>) -> Read<'l>,
}

/// The forms, in the order in which they are tried.
const FORMS: [Form; 6] = [
    Form {
        name: "entries of HAR files",
        read: har::read,
    },
    Form {
        name: "spans",
        read: otel::read,
    },
    Form {
        name: "lengths of a trace",
        read: trace::read,
    },
    Form {
        name: "rows of a verifier",
        read: verifier::read,
    },
    Form {
        name: "request bodies",
        read: body::read,
    },
    Form {
        name: "lines of batch input",
        read: batch::read,
    },
];

const HINT: &str = "give request bodies or OpenAI's batch input as JSON Lines, OpenTelemetry spans, a HAR file, rows of \
                    a vendor verifier, a trace of lengths, or vLLM's log with --enable-log-requests";

/// Gets each recorded request with the name of its place, such as `log.har, line 1`, and the name
/// of its form.
pub type Take<'t> = dyn FnMut(String, &'static str, Found<'_>) -> Result<()> + 't;

/// Reads a file of at most `max_bytes` bytes. Keeps one line in memory; of a JSON document over
/// several lines, the whole file.
///
/// # Errors
/// The file cannot be read, a value is not JSON or has no known form, or `take` fails.
pub fn read(
    path: &Path,
    max_bytes: u64,
    progress: &dyn Progress,
    take: &mut Take<'_>,
) -> Result<()> {
    let name = path.display();
    let mut lines = Lines::open(path, max_bytes)?;
    progress.expect(lines.file_len());
    let Some((number, first)) = lines.next().transpose()? else {
        return Ok(());
    };
    let parsed: serde_json::Result<&RawValue> = serde_json::from_str(&first);
    let is_open = parsed.as_ref().is_err_and(serde_json::Error::is_eof);
    // Lines of a log may start with a bracket.
    let is_list = first.starts_with('[') && (parsed.is_ok() || is_open);
    let is_json = first.starts_with('{') || is_list;
    if is_json && is_open {
        let text = input::read_text(path, max_bytes)?;
        return document(&text, &name.to_string(), take);
    }
    let mut log = VllmLog::default();
    let mut is_empty = true;
    let rest = lines.inspect(|line| {
        progress.advance(line.as_ref().map_or(0, |(_, line)| line.len() as u64 + 1));
    });
    for line in std::iter::once(Ok((number, first))).chain(rest) {
        let (number, line) = line?;
        let place = format!("{name}, line {number}");
        if is_json {
            json(&line, &place, take)?;
        } else if let Some(found) = log.read(&line) {
            is_empty = false;
            take(place, vllm_log::NAME, found)?;
        }
    }
    match is_empty && !is_json {
        true => Err(Error::usage(format!(
            "{name}, line {number}: not JSON, and no line of the file is of vLLM's log of requests"
        ))
        .hint(HINT)),
        false => Ok(()),
    }
}

/// The values of a document, one after the other.
fn document(text: &str, name: &str, take: &mut Take<'_>) -> Result<()> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let (mut start, mut line) = (0, 1);
    for value in values {
        let value = value.map_err(|error| {
            let what = format!("not JSON: {}", message_without_line(&error));
            Error::usage(format!("{name}, line {}: {what}", error.line())).hint(HINT)
        })?;
        let at = value.get().as_ptr() as usize - text.as_ptr() as usize;
        line += text[start..at].matches('\n').count();
        start = at;
        json(value.get(), &format!("{name}, line {line}"), take)?;
    }
    Ok(())
}

/// The requests of an object, or of the objects of an array.
fn json(text: &str, place: &str, take: &mut Take<'_>) -> Result<()> {
    let wrong = |what: String| Error::usage(format!("{place}: {what}")).hint(HINT);
    if let Ok(items @ [_, ..]) = serde_json::from_str::<Vec<&RawValue>>(text).as_deref() {
        let mut items = items.iter().enumerate();
        return items.try_for_each(|(index, item)| {
            json(item.get(), &format!("{place}, item {}", index + 1), take)
        });
    }
    let members = members(text).map_err(wrong)?;
    for form in &FORMS {
        if let Some(found) = (form.read)(text, &members) {
            let mut found = found.map_err(wrong)?.into_iter();
            return found.try_for_each(|found| take(place.to_owned(), form.name, found));
        }
    }
    Err(wrong("no request body".to_owned()))
}
