//! Recorded answers: events, bodies, HAR files and run logs.

use std::path::Path;

use serde_json::Value;

use sobench_core::constraint::Constraint;
use sobench_core::departure::Departures;
use sobench_core::error::{Error, Result};
use sobench_core::input;
use sobench_runlog::RunLog;
use sobench_wire::{Reading, Stream, readings};

/// The largest recording.
const MAX_BYTES: u64 = 64_000_000;

/// Requests of a run log that are read at a time.
const BATCH: usize = 64;

/// A recorded answer.
pub(crate) struct Recorded {
    pub(super) name: String,
    /// Frames of chat completions.
    pub(super) chunks: usize,
    pub(super) departures: Departures,
    /// What each client reads of chat completions; empty for other APIs and whole answers.
    pub(super) readings: Vec<(&'static str, Reading)>,
}

/// The answers of a file.
#[derive(Default)]
pub(super) struct Recording {
    pub(super) streams: Vec<Recorded>,
    /// What is not shown.
    pub(super) note: Option<String>,
}

/// Reads a file.
///
/// # Errors
/// It is no recording.
pub(super) fn read(path: &Path) -> Result<Recording> {
    let shown = path.display().to_string();
    if RunLog::is_run_log(path)? {
        return run_log(path, &shown);
    }
    if input::open(path, u64::MAX)?.1 > MAX_BYTES {
        let what = format!("larger than {} MB: {shown}", MAX_BYTES / 1_000_000);
        return Err(Error::usage(what).hint("cut the recording: one answer is enough"));
    }
    let text = input::read_text(path, MAX_BYTES)?;
    let streams: Vec<Recorded> = match serde_json::from_str::<Value>(&text) {
        Ok(json) if json["log"]["entries"].is_array() => {
            let entries = json["log"]["entries"].as_array();
            let entries = entries.into_iter().flatten().enumerate();
            let answer = |(number, entry): (usize, &Value)| {
                let text = entry["response"]["content"]["text"].as_str()?;
                stream(&format!("{shown}, entry {number}"), text, None)
            };
            entries.filter_map(answer).collect()
        }
        _ => stream(&shown, &text, None).into_iter().collect(),
    };
    if streams.is_empty() {
        let what =
            format!("no answer of chat completions, completions, responses or messages: {shown}");
        return Err(Error::usage(what).hint(
            "record one with: curl -N URL/v1/chat/completions -d '{..., \"stream\": true}' > FILE",
        ));
    }
    let note = None;
    Ok(Recording { streams, note })
}

/// The answer of a text: events, or a whole body. `None` if it has none.
fn stream(name: &str, text: &str, constraint: Option<&Constraint>) -> Option<Recorded> {
    let body = text.trim_start().starts_with('{').then(|| {
        let line = text.replace(['\n', '\r'], " ");
        format!("data: {line}\n\n")
    });
    let stream = Stream::new(body.as_deref().unwrap_or(text));
    let departures = stream.departures()?;
    let tools = constraint.and_then(Constraint::tools);
    let chunks = stream.into_chunks().filter(|chunks| {
        let is_delta = |chunk: &Value| chunk["choices"][0].get("delta").is_some();
        chunks.iter().any(is_delta)
    });
    Some(Recorded {
        name: name.to_owned(),
        departures,
        chunks: chunks.as_ref().map_or(0, Vec::len),
        readings: chunks.map_or_else(Vec::new, |chunks| readings(&chunks, tools)),
    })
}

/// The answers of a run log whose frames were kept.
fn run_log(path: &Path, shown: &str) -> Result<Recording> {
    let log = RunLog::read(path)?;
    if !log.record.settings.request.wire {
        let what = format!("a run without the check of frames: {shown}");
        return Err(Error::usage(what).hint("run it again without --wire=off"));
    }
    let lines = log.into_lines();
    let (mut streams, mut alike, mut cut) = (Vec::new(), 0, 0);
    let mut reader = lines.reader();
    for start in (0..lines.len()).step_by(BATCH) {
        for (case, observation) in reader.read(start..lines.len().min(start + BATCH))? {
            let frames = &observation.answer.frames;
            match frames.text().as_deref() {
                Some("") => alike += usize::from(observation.outcome.is_answer()),
                Some(text) => streams.extend(stream(
                    &format!("{shown}, {}", case.id),
                    text,
                    case.constraint.as_deref(),
                )),
                None => cut += 1,
            }
        }
    }
    let cut = match cut {
        0 => String::new(),
        cut => format!("; {cut} answers depart, but their frames were too long to keep"),
    };
    let note =
        format!("{shown}: {alike} answers that all clients read alike, without departures{cut}");
    let note = Some(note);
    Ok(Recording { streams, note })
}
