//! A line of OpenAI's batch input: `custom_id`, `url` and `body`; or another object with a body and
//! optionally a `timestamp`. Headers are not read.

use super::request::{Found, Members, Read, Request, body_members, seconds, value};

pub(super) fn read<'l>(_: &'l str, members: &Members<'l>) -> Read<'l> {
    let body = members.get("body")?.get();
    let text = |name| value(members, name).as_str().map(str::to_owned);
    Some(body_members(body).map(|_| {
        vec![Found::Request(Request {
            id: text("custom_id"),
            at: seconds(&value(members, "timestamp")),
            url: text("url"),
            ..Request::from_body(body)
        })]
    }))
}
