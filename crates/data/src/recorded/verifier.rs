//! Rows of Kimi's vendor verifier and of MiniMax's provider verifier: request bodies with members
//! that these tools remove, and their results, which have the body in `request`.
//!
//! Both tools send the role `_input` as `system` (`prepare_request` of `tool_calls_eval.py` and
//! `verify.py`, read in November 2026).

use serde_json::{Map, Value};

use super::request::{Found, Members, Read, Request, body_members, is_body};

/// Members that are not part of the request.
const OWN_MEMBERS: [&str; 3] = ["check_type", "expected_tool_call", "scenario_check"];

/// Members of results.
const RESULT_MEMBERS: [&str; 3] = ["request", "response", "data_index"];

const ROLE_INPUT: &str = "_input";

pub(super) fn read<'l>(text: &'l str, members: &Members<'l>) -> Read<'l> {
    if RESULT_MEMBERS
        .iter()
        .all(|name| members.contains_key(*name))
    {
        let body = members["request"].get();
        return Some(body_members(body).and_then(|members| request(body, &members)));
    }
    let has_own = OWN_MEMBERS.iter().any(|name| members.contains_key(*name));
    let is_row = is_body(members) && (has_own || has_input_role(members));
    is_row.then(|| request(text, members))
}

fn request<'l>(text: &'l str, members: &Members<'l>) -> Result<Vec<Found<'l>>, String> {
    let has_own = OWN_MEMBERS.iter().any(|name| members.contains_key(*name));
    if !has_own && !has_input_role(members) {
        return Ok(vec![Found::Request(Request::from_body(text))]);
    }
    let mut body: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    body.retain(|name, _| !OWN_MEMBERS.contains(&&**name));
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for role in messages
        .into_iter()
        .flatten()
        .filter_map(|message| message.get_mut("role"))
    {
        if role == ROLE_INPUT {
            *role = "system".into();
        }
    }
    let body = Value::from(body).to_string();
    Ok(vec![Found::Request(Request::from_body(body))])
}

/// Whether messages may have the role.
fn has_input_role(members: &Members<'_>) -> bool {
    let quoted = format!("{ROLE_INPUT:?}");
    let messages = members.get("messages");
    messages.is_some_and(|messages| messages.get().contains(&quoted))
}
