//! The routes `/tokenize` and `/detokenize`, as in vLLM.

use serde_json::{Map, Value, json};

use super::failure::Failure;
use super::request::{flag, messages, prompt, wrong};
use sobench_engine::{TokenId, Vocabulary};

/// The tokens of a prompt, or of messages in the server's simple template.
///
/// # Errors
/// Status 400 that names the field.
pub(super) fn tokenize(
    fields: &Map<String, Value>,
    vocabulary: &Vocabulary,
    context: u32,
) -> Result<Value, Failure> {
    let text = if fields.contains_key("messages") {
        messages(fields)?
    } else {
        prompt(fields)?
    };
    let tokens = vocabulary.encode(&text);
    let token_text =
        |token: &TokenId| String::from_utf8_lossy(vocabulary.bytes(*token)).into_owned();
    let strings: Option<Vec<String>> =
        flag(fields, "return_token_strs")?.then(|| tokens.iter().map(token_text).collect());
    Ok(
        json!({"count": tokens.len(), "max_model_len": context, "tokens": tokens, "token_strs": strings}),
    )
}

/// The text of tokens, without special tokens.
///
/// # Errors
/// Status 400 unless the field is a list of token ids of this vocabulary.
pub(super) fn detokenize(
    fields: &Map<String, Value>,
    vocabulary: &Vocabulary,
) -> Result<Value, Failure> {
    let must_be = || {
        wrong(
            "tokens",
            &format!("a list of token ids below {}", vocabulary.len()),
        )
    };
    let known = |token: &Value| {
        let token = TokenId::try_from(token.as_u64()?).ok()?;
        ((token as usize) < vocabulary.len()).then_some(token)
    };
    let tokens: Option<Vec<TokenId>> = fields
        .get("tokens")
        .and_then(Value::as_array)
        .ok_or_else(must_be)?
        .iter()
        .map(known)
        .collect();
    let bytes = vocabulary.decode(&tokens.ok_or_else(must_be)?);
    Ok(json!({"prompt": String::from_utf8_lossy(&bytes)}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_engine::vocabulary::shared;

    fn fields(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn text_survives_the_round_trip() {
        for text in ["", "Hello, world", "日本語 🦀"] {
            let answer = tokenize(
                &fields(&json!({"prompt": text, "return_token_strs": true})),
                &shared(),
                7,
            )
            .unwrap();
            assert_eq!(
                (answer["count"].as_u64(), &answer["max_model_len"]),
                (Some(shared().count(text) as u64), &json!(7))
            );
            assert_eq!(
                answer["token_strs"].as_array().unwrap().len() as u64,
                answer["count"].as_u64().unwrap()
            );
            assert_eq!(
                detokenize(&fields(&answer), &shared()).unwrap(),
                json!({ "prompt": text })
            );
        }
        let chat = tokenize(
            &fields(&json!({"messages": [{"role": "user", "content": "Hi"}]})),
            &shared(),
            7,
        )
        .unwrap();
        assert_eq!(
            detokenize(&fields(&chat), &shared()).unwrap()["prompt"],
            "user: Hi\nassistant:"
        );
    }

    #[test]
    fn invalid_texts_and_tokens_are_refused() {
        assert_eq!(
            tokenize(&fields(&json!({"prompt": [1]})), &shared(), 7)
                .unwrap_err()
                .param,
            Some("prompt")
        );
        for tokens in [
            json!(null),
            json!("1"),
            json!([1, "2"]),
            json!([-1]),
            json!([1.5]),
            json!([200_000]),
        ] {
            assert_eq!(
                detokenize(&fields(&json!({ "tokens": tokens })), &shared())
                    .unwrap_err()
                    .param,
                Some("tokens"),
                "{tokens}"
            );
        }
    }
}
