//! A request body itself.

use super::request::{Found, Members, Read, Request, is_body, seconds, value};

pub(super) fn read<'l>(text: &'l str, members: &Members<'l>) -> Read<'l> {
    is_body(members).then(|| {
        Ok(vec![Found::Request(Request {
            at: seconds(&value(members, "timestamp")),
            ..Request::from_body(text.trim())
        })])
    })
}
