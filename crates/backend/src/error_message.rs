//! Extracts the message from the body of an error response.

use serde_json::Value;

use super::ServerKind;

/// The message of an error body, found at the JSON pointers of all server kinds, because the server
/// may be of another kind than `--backend`. The body itself if there is none.
pub fn error_message(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let mut pointers = ServerKind::ALL
        .into_iter()
        .flat_map(|kind| kind.spec().error_messages);
    let message = parsed
        .as_ref()
        .and_then(|body| pointers.find_map(|pointer| body.pointer(pointer)?.as_str()));
    message
        .filter(|message| !message.trim().is_empty())
        .unwrap_or(body)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::error_message;

    #[test]
    fn messages_are_found_in_the_envelopes_of_all_servers() {
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
