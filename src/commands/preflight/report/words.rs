//! A server's words without the envelope that they came in. Knows no page.

use serde_json::Value;

/// Where error bodies have their message: OpenAI's and vLLM's, SGLang's and mistral.rs's, FastAPI's, Ollama's and TGI's.
const MESSAGES: [&str; 4] = ["/error/message", "/message", "/detail", "/error"];

/// The message of an error body; the body itself where it has none.
pub(super) fn message(body: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(body).ok();
    let found = parsed.as_ref().and_then(|body| MESSAGES.iter().find_map(|place| body.pointer(place)?.as_str()));
    found.filter(|message| !message.trim().is_empty()).unwrap_or(body).to_owned()
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn messages_are_found_in_the_envelopes_that_servers_use() {
        for (body, expected) in [
            (r#"{"error":{"message":"no","type":"BadRequestError","code":400}}"#, "no"),
            (r#"{"object":"error","message":"no","code":400}"#, "no"),
            (r#"{"detail":"no"}"#, "no"),
            (r#"{"error":"no","error_type":"validation"}"#, "no"),
            (r#"{"error":{"code":400}}"#, r#"{"error":{"code":400}}"#),
            (r#"{"detail":[{"msg":"no"}]}"#, r#"{"detail":[{"msg":"no"}]}"#),
            (r#"{"message":" "}"#, r#"{"message":" "}"#),
            ("Internal Server Error", "Internal Server Error"),
            ("\"no\"", "\"no\""),
            ("", ""),
        ] {
            assert_eq!(message(body), expected);
        }
    }
}
