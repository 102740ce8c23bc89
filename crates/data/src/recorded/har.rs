//! A HAR file (HTTP Archive 1.2): `log.entries`, of which POST requests to the endpoints of language
//! models are read. Headers, cookies and responses are not.

use serde::Deserialize;
use serde_json::Value;

use super::request::{Found, Members, Read, Request, body_members, seconds};

/// The ends of the paths of the endpoints.
const PATHS: [&str; 4] = [
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
];

#[derive(Deserialize)]
struct Log {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: Value,
    request: Posted,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Posted {
    method: String,
    url: String,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: String,
}

pub(super) fn read<'l>(_: &'l str, members: &Members<'l>) -> Read<'l> {
    let log = members.get("log")?.get();
    Some(entries(log))
}

fn entries<'l>(log: &str) -> Result<Vec<Found<'l>>, String> {
    let log: Log = serde_json::from_str(log).map_err(|error| format!("not a HAR file: {error}"))?;
    let mut found = Vec::new();
    for (index, entry) in log.entries.into_iter().enumerate() {
        let Some(path) = path(&entry.request) else {
            continue;
        };
        let body = entry.request.post_data.map(|data| data.text);
        let Some(body) = body.filter(|body| !body.trim().is_empty()) else {
            found.push(Found::Skipped("a HAR entry without the text of its body"));
            continue;
        };
        body_members(&body).map_err(|error| format!("entry {}: {error}", index + 1))?;
        found.push(Found::Request(Request {
            at: seconds(&entry.started_date_time),
            url: Some(path),
            ..Request::from_body(body)
        }));
    }
    Ok(found)
}

/// The path of a request to a known endpoint.
fn path(request: &Posted) -> Option<String> {
    let rest = request
        .url
        .split_once("://")
        .map_or(&*request.url, |(_, rest)| rest);
    let path = &rest[rest.find('/')?..];
    let path = path.split(['?', '#']).next()?.trim_end_matches('/');
    let is_known = request.method == "POST" && PATHS.iter().any(|known| path.ends_with(known));
    is_known.then(|| path.to_owned())
}
