//! The message in the body of a server's error, without the JSON around it.

use serde_json::Value;

use super::ServerKind;

/// The message of an error body, by the places where servers of any kind have it: a server may be
/// another one than the user named. The body itself where it has none.
pub fn error_message(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let mut places = ServerKind::ALL
        .into_iter()
        .flat_map(|kind| kind.spec().error_messages);
    let found = parsed
        .as_ref()
        .and_then(|body| places.find_map(|place| body.pointer(place)?.as_str()));
    found
        .filter(|message| !message.trim().is_empty())
        .unwrap_or(body)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::error_message;

    #[test]
    fn messages_are_found_in_the_envelopes_that_servers_use() {
        for (body, expected) in [
            (
                r#"{"error":{"message":"no","type":"BadRequestError","code":400}}"#,
                "no",
            ),
            (r#"{"object":"error","message":"no","code":400}"#, "no"),
            (r#"{"detail":"no"}"#, "no"),
            (r#"{"error":"no","error_type":"validation"}"#, "no"),
            (r#"{"error":{"code":400}}"#, r#"{"error":{"code":400}}"#),
            (
                r#"{"detail":[{"msg":"no"}]}"#,
                r#"{"detail":[{"msg":"no"}]}"#,
            ),
            (r#"{"message":" "}"#, r#"{"message":" "}"#),
            ("Internal Server Error", "Internal Server Error"),
            ("\"no\"", "\"no\""),
            ("", ""),
        ] {
            assert_eq!(error_message(body), expected);
        }
    }
}
