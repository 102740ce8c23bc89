//! Documents about the logs of servers.

use serde_json::{Value, json};

use super::draws::Draws;
use super::words::SERVICES;
use super::{Difficulty, Document};

pub(super) fn sought(difficulty: Difficulty) -> &'static str {
    match difficulty {
        Difficulty::Easy => "the service, the level and the status of the request",
        Difficulty::Medium => {
            "of the line with the level ERROR: the time, the service, the host, the method, the path, \
             the status, the duration in milliseconds, and the id of the request"
        }
        Difficulty::Hard => {
            "the day, the host, the deployed version, the services that were restarted, and all lines \
             with the level ERROR in their order (each with time, service, method, path, status, \
             duration in milliseconds and the id of the request)"
        }
    }
}

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

const PATHS: [&str; 12] = [
    "/api/items",
    "/api/users",
    "/cart",
    "/export",
    "/files",
    "/health",
    "/invoices",
    "/login",
    "/orders",
    "/search",
    "/settings",
    "/upload",
];

const LEVELS: [&str; 3] = ["INFO", "WARN", "ERROR"];

pub(super) fn schema(difficulty: Difficulty) -> Value {
    let text = || json!({"type": "string"});
    let integer = || json!({"type": "integer"});
    let method = || json!({"enum": METHODS});
    let optional_text = || json!({"type": ["string", "null"]});
    match difficulty {
        Difficulty::Easy => super::object(
            &[
                ("service", text()),
                ("level", json!({"enum": LEVELS})),
                ("status", integer()),
            ],
            &[],
        ),
        Difficulty::Medium => super::object(
            &[
                ("time", text()),
                ("service", text()),
                ("host", text()),
                ("method", method()),
                ("path", text()),
                ("status", integer()),
                ("duration_ms", integer()),
                ("request_id", optional_text()),
            ],
            &[],
        ),
        Difficulty::Hard => {
            let error = super::object(
                &[
                    ("time", text()),
                    ("service", text()),
                    ("method", method()),
                    ("path", text()),
                    ("status", integer()),
                    ("duration_ms", integer()),
                    ("request_id", optional_text()),
                ],
                &[],
            );
            let date = json!({"type": "string", "format": "date", "x-sobench-score": "date"});
            let restarted = json!({"type": "array", "items": text(), "x-sobench-score": "set"});
            super::object(
                &[
                    ("date", date),
                    ("host", text()),
                    ("version", text()),
                    ("restarted", restarted),
                    ("errors", json!({"type": "array", "items": error})),
                ],
                &["version"],
            )
        }
    }
}

/// A logged request.
struct Line {
    time: String,
    service: &'static str,
    level: &'static str,
    method: &'static str,
    path: String,
    status: u64,
    duration_ms: u64,
    request_id: Option<String>,
}

impl Line {
    fn new(hour: u64, level: &'static str, draws: &mut Draws) -> Self {
        let statuses: &[u64] = match level {
            "ERROR" => &[500, 502, 503, 504],
            "WARN" => &[400, 404, 409, 429],
            _ => &[200, 201, 204, 304],
        };
        let path = draws.pick(&PATHS);
        let path = if draws.is_likely(50) {
            format!("{path}/{}", draws.between(10, 9_999))
        } else {
            path.to_owned()
        };
        Self {
            time: draws.time(hour),
            service: draws.pick(&SERVICES),
            level,
            method: draws.pick(&METHODS),
            path,
            status: draws.pick(statuses),
            duration_ms: draws.between(2, 4_000),
            request_id: draws
                .is_likely(60)
                .then(|| format!("req-{:06x}", draws.between(0, 0xff_ffff))),
        }
    }

    /// The line in one of two layouts; all lines of a log have the same one.
    fn text(&self, layout: u64) -> String {
        let Self {
            time,
            service,
            level,
            method,
            path,
            status,
            duration_ms,
            request_id,
        } = self;
        let id = request_id.as_deref();
        match layout {
            0 => {
                let id = id.map(|id| format!(" id={id}")).unwrap_or_default();
                format!(
                    "{time} {level} {service} {method} {path} status={status} {duration_ms}ms{id}"
                )
            }
            _ => {
                let id = id.map(|id| format!(" [{id}]")).unwrap_or_default();
                format!(
                    "[{level}] {time} {service}: \"{method} {path}\" {status} ({duration_ms} ms){id}"
                )
            }
        }
    }
}

fn host(draws: &mut Draws) -> String {
    let place = draws.pick(&["ams", "fra", "lon", "osl", "par", "waw"]);
    format!("{place}-{:02}.internal.example", draws.between(1, 40))
}

pub(super) fn document(difficulty: Difficulty, draws: &mut Draws) -> Document {
    let hour = draws.between(0, 19);
    let layout = draws.between(0, 1);
    match difficulty {
        Difficulty::Easy => easy(hour, layout, draws),
        Difficulty::Medium => medium(hour, layout, draws),
        Difficulty::Hard => hard(hour, layout, draws),
    }
}

fn easy(hour: u64, layout: u64, draws: &mut Draws) -> Document {
    let level = draws.pick(&LEVELS);
    let line = Line::new(hour, level, draws);
    let (service, status) = (line.service, line.status);
    let text = match draws.between(0, 3) {
        0 => format!(
            "The log of the server has this line:\n{}",
            line.text(layout)
        ),
        1 => format!("One line of the log:\n{}", line.text(layout)),
        2 => format!(
            "At {}, the service {service} answered {} {} with the status {status}. The level of the \
             message is {level}.",
            line.time, line.method, line.path
        ),
        _ => format!(
            "The service {service} logged a message of the level {level} at {}: the status of {} {} \
             was {status}.",
            line.time, line.method, line.path
        ),
    };
    Document {
        text,
        reference: json!({"service": service, "level": level, "status": status}),
    }
}

fn medium(hour: u64, layout: u64, draws: &mut Draws) -> Document {
    let host = host(draws);
    let error_at = draws.between(0, 2);
    let lines: Vec<Line> = (0..3)
        .map(|index| {
            let level = if index == error_at {
                "ERROR"
            } else {
                draws.pick(&LEVELS[..2])
            };
            Line::new(hour + index, level, draws)
        })
        .collect();
    let error = &lines[error_at as usize];
    let reference = json!({
        "time": error.time,
        "service": error.service,
        "host": host,
        "method": error.method,
        "path": error.path,
        "status": error.status,
        "duration_ms": error.duration_ms,
        "request_id": error.request_id,
    });
    let opening = match draws.between(0, 1) {
        0 => format!("These lines are from the log of the host {host}:"),
        _ => format!("The host {host} logged:"),
    };
    Document {
        text: with_lines(&opening, &lines, layout, None),
        reference,
    }
}

fn hard(hour: u64, layout: u64, draws: &mut Draws) -> Document {
    let (host, day) = (host(draws), draws.date(2023, 2026));
    let spelled = draws.spelled(day);
    let opening = format!("The log of the host {host} on {spelled}:");
    let count = draws.between(5, 7);
    let mut levels: Vec<&'static str> = (0..count)
        .map(|index| match index {
            0 | 1 => "ERROR",
            2 => "WARN",
            _ => draws.pick(&LEVELS),
        })
        .collect();
    draws.shuffle(&mut levels);
    // Hours do not go beyond the day.
    let lines: Vec<Line> = levels
        .into_iter()
        .enumerate()
        .map(|(index, level)| Line::new(hour + index as u64 / 2, level, draws))
        .collect();
    let lines = sorted(lines);
    let version = draws.is_likely(60).then(|| {
        format!(
            "{}.{}.{}",
            draws.between(1, 9),
            draws.between(0, 30),
            draws.between(0, 9)
        )
    });
    let restarts = draws.between(0, 2) as usize;
    let restarted = draws.sample(&SERVICES, restarts);
    let mut remarks = Vec::new();
    if let Some(version) = &version {
        remarks.push(format!(
            "Before these lines, the version {version} was deployed."
        ));
    }
    remarks.push(match &restarted[..] {
        [] => "No service was restarted.".to_owned(),
        [one] => format!("Afterwards, the service {one} was restarted."),
        several => format!(
            "Afterwards, these services were restarted: {}.",
            several.join(", ")
        ),
    });
    let errors: Vec<Value> = lines
        .iter()
        .filter(|line| line.level == "ERROR")
        .map(|line| {
            json!({
                "time": line.time,
                "service": line.service,
                "method": line.method,
                "path": line.path,
                "status": line.status,
                "duration_ms": line.duration_ms,
                "request_id": line.request_id,
            })
        })
        .collect();
    let mut reference = json!({
        "date": day.iso(),
        "host": host,
        "version": version,
        "restarted": restarted,
        "errors": errors,
    });
    super::drop_absent(&mut reference, "version");
    Document {
        text: with_lines(&opening, &lines, layout, Some(&remarks.join(" "))),
        reference,
    }
}

/// The lines by time, each time once.
fn sorted(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|one, other| one.time.cmp(&other.time));
    lines.dedup_by(|one, other| one.time == other.time);
    lines
}

fn with_lines(opening: &str, lines: &[Line], layout: u64, remarks: Option<&str>) -> String {
    let lines = lines.iter().map(|line| line.text(layout));
    let all = std::iter::once(opening.to_owned()).chain(lines);
    all.chain(remarks.map(str::to_owned))
        .collect::<Vec<_>>()
        .join("\n")
}
