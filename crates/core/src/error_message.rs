//! Extracts the server's message from the body of an error response or from an error event.

use serde_json::Value;

/// JSON pointers to the message, in order: OpenAI, vLLM and llama.cpp; SGLang and old vLLM; FastAPI;
/// TGI, Ollama and TensorRT-LLM; a failed response of `/v1/responses`; SGLang's `/generate`.
const POINTERS: [&str; 8] = [
    "/error/message",
    "/message",
    "/detail/message",
    "/detail/error/message",
    "/detail",
    "/error",
    "/response/error/message",
    "/meta_info/finish_reason/message",
];

/// The message of an error body of any kind of server. The body itself if there is none.
pub fn error_message(body: &str) -> String {
    let text = body.trim();
    let json = text.strip_prefix("data:").unwrap_or(text);
    let parsed: Option<Value> = serde_json::from_str(json).ok();
    let message = parsed.as_ref().and_then(|body| {
        let found = POINTERS.iter().filter_map(|pointer| body.pointer(pointer));
        found
            .filter_map(sentence)
            .find(|message| !message.trim().is_empty())
    });
    message
        .or_else(|| page_title(text))
        .unwrap_or_else(|| body.to_owned())
}

/// The title of an HTML page, or its first heading.
fn page_title(text: &str) -> Option<String> {
    let of = |open: &str, close: &str| {
        let (title, _) = text.split_once(open)?.1.split_once(close)?;
        (!title.trim().is_empty()).then(|| title.trim().to_owned())
    };
    let is_page = text.starts_with('<') && text.contains("<html");
    let title = || of("<title>", "</title>").or_else(|| of("<h1>", "</h1>"));
    is_page.then(title).flatten()
}

/// A text, or FastAPI's list of validation errors: the place and the message of each.
fn sentence(value: &Value) -> Option<String> {
    let error = |error: &Value| {
        let message = error.get("msg")?.as_str()?;
        let part = |part: &Value| {
            part.as_str()
                .map_or_else(|| part.to_string(), str::to_owned)
        };
        let place = error.get("loc").and_then(Value::as_array);
        let place = place.map(|parts| parts.iter().map(part).collect::<Vec<_>>().join("."));
        Some(place.map_or_else(String::new, |place| format!("{place}: ")) + message)
    };
    match value {
        Value::String(message) => Some(message.clone()),
        Value::Array(errors) => {
            let errors: Option<Vec<String>> = errors.iter().map(error).collect();
            errors.map(|errors| errors.join("; "))
        }
        _ => None,
    }
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
            (
                r#"{"type":"error","code":"server_error","message":"no"}"#,
                "no",
            ),
            (
                r#"{"type":"response.failed","response":{"id":"r","error":{"code":"server_error","message":"no"}}}"#,
                "no",
            ),
            (r#"{"detail":"no"}"#, "no"),
            (r#"{"detail":{"error":{"message":"no"}}}"#, "no"),
            (r#"{"error":"no","error_type":"validation"}"#, "no"),
            (r#"{"error":{"code":400}}"#, r#"{"error":{"code":400}}"#),
            (
                r#"{"detail":[{"type":"missing","loc":["body","messages",0],"msg":"Field required"},{"msg":"no"}]}"#,
                "body.messages.0: Field required; no",
            ),
            (
                "<html><head><title>502 Bad Gateway</title></head><body/></html>",
                "502 Bad Gateway",
            ),
            (
                "<html><body><h1>413 Too Large</h1></body></html>",
                "413 Too Large",
            ),
            ("data: {\"error\":{\"message\":\"no\"}}\n\n", "no"),
            (r#"{"message":" "}"#, r#"{"message":" "}"#),
            ("Internal Server Error", "Internal Server Error"),
            ("\"no\"", "\"no\""),
            ("", ""),
        ] {
            assert_eq!(error_message(body), expected);
        }
    }
}
