//! Compares tokenizers with the results of Python's tokenizers and transformers libraries on the
//! same files.

use serde_json::Value;

use super::*;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tokenizer");

fn offline() -> HubSettings {
    HubSettings::from_lookup(|name| (name == "HF_HUB_OFFLINE").then(|| "1".to_owned()))
}

fn message(role: &str, content: &str) -> Message {
    Message::new(role, content)
}

/// Counts by `tokenizer(text, add_special_tokens=False, truncation=False)` of transformers 5.23.
#[test]
fn counts_match_transformers_without_truncation() {
    let tokenizer = Tokenizer::open_with(FIXTURE, &offline()).unwrap();
    assert_eq!(tokenizer.id(), FIXTURE);
    let chat = "<|im_start|>system\nAnswer in JSON.<|im_end|>\n<|im_start|>user\nName a city.<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(
        tokenizer
            .apply_chat_template(
                &[
                    message("system", "Answer in JSON."),
                    message("user", "Name a city.")
                ],
                true
            )
            .unwrap(),
        chat
    );
    let prompt = "Generate an example of a brief user profile given the following schema: ";
    for (text, tokens) in [
        (chat, 30),
        ("", 0),
        ("Grüße 😀", 7),
        (&chat.repeat(3), 90),
        ("\0\u{1}", 2),
        (prompt, 17),
    ] {
        assert_eq!(tokenizer.count(text), tokens, "{text:?}");
    }
}

/// Counts published in OpenAI's cookbook, "How to count tokens with tiktoken".
#[test]
fn embedded_tokenizer_counts_without_files_and_has_no_template() {
    let tokenizer = Tokenizer::embedded();
    for (text, tokens) in [
        ("", 0),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
    ] {
        assert_eq!(tokenizer.count(text), tokens, "{text:?}");
    }
    assert!(
        tokenizer.count("<|endoftext|>") > 1,
        "special tokens in a text are plain text"
    );
    assert_eq!(tokenizer.chat_template(), None);
    let error = tokenizer
        .apply_chat_template(&[message("user", "Hi")], true)
        .unwrap_err();
    assert_eq!(
        error.hint.unwrap(),
        "give --tokenizer a tokenizer with a template, or use a chat backend, which sends messages unchanged"
    );
}

#[test]
fn can_be_shared_between_threads() {
    fn check<T: Send + Sync>() {}
    check::<Tokenizer>();
}

/// For every chat of `templates.json`: the prompt of transformers, or an error where transformers
/// raises one.
#[test]
fn templates_render_as_in_transformers() {
    let text = std::fs::read_to_string(format!("{FIXTURE}/templates.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let token = |(name, text): (&String, &Value)| (name.clone(), text.as_str().unwrap().to_owned());
    let special_tokens: Vec<_> = file["special_tokens"]
        .as_object()
        .unwrap()
        .iter()
        .map(token)
        .collect();
    let mut rendered = 0;
    for case in file["cases"].as_array().unwrap() {
        let source = file["templates"][case["template"].as_str().unwrap()]
            .as_str()
            .unwrap();
        let template = ChatTemplate::new(source.to_owned(), special_tokens.clone());
        let messages: Vec<Message> = serde_json::from_value(case["messages"].clone()).unwrap();
        let result = template.apply(
            &messages,
            case["add_generation_prompt"].as_bool().unwrap(),
            TEMPLATE_UNIX_TIME_S,
        );
        match (&case["prompt"], &case["error"]) {
            (Value::String(prompt), _) => {
                assert_eq!(&result.unwrap(), prompt, "{}", case["template"]);
                rendered += 1;
            }
            (_, message) => {
                let error = result.expect_err("transformers refuses this");
                assert!(
                    error.what.contains("refuses the messages"),
                    "{error} for {message}"
                );
            }
        }
    }
    assert!(rendered > 10, "only {rendered} chats were rendered");
}

#[test]
fn an_exception_of_a_template_is_reported_with_its_line() {
    let template = ChatTemplate::new(
        "{% if true %}\n{{ raise_exception('no system role') }}{% endif %}".to_owned(),
        vec![],
    );
    let error = template
        .apply(&[message("system", "x")], true, 0)
        .unwrap_err();
    assert_eq!(
        error.what,
        "the tokenizer's chat template refuses the messages (line 2): no system role"
    );
}

#[test]
fn template_steps_are_limited() {
    let loops = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
    let error = ChatTemplate::new(loops.to_owned(), vec![])
        .apply(&[], true, 0)
        .unwrap_err();
    assert_eq!(
        error.what,
        "the tokenizer's chat template refuses the messages (line 1): engine ran out of fuel"
    );
}

#[test]
fn strftime_now_prints_the_given_time() {
    let template = ChatTemplate::new("{{ strftime_now('%d %b %Y') }}".to_owned(), vec![]);
    assert_eq!(
        template.apply(&[], true, 951_868_800).unwrap(),
        "01 Mar 2000"
    );
    let template = ChatTemplate::new("{{ strftime_now('%Q') }}".to_owned(), vec![]);
    assert_eq!(
        template.apply(&[], true, 0).unwrap_err().what,
        "the tokenizer's chat template refuses the messages (line 1): strftime_now does not support the directive %Q"
    );
}

#[track_caller]
fn check_refused(name: &str, message: &str) {
    let error = Tokenizer::open_with(name, &offline()).unwrap_err();
    assert!(error.what.contains(message), "{error}");
}

#[test]
fn refuses_files_that_are_not_tokenizers() {
    check_refused(
        "./no/such/folder/tokenizer.json",
        "no such tokenizer file or folder",
    );
    check_refused(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures"),
        "tokenizer.json",
    );
    check_refused(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"),
        "cannot read the tokenizer",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokenizer.json");
    // A vocabulary of whole words, without an unknown token.
    let vocabulary =
        r#"{"version":"1.0","model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"[UNK]"}}"#;
    std::fs::write(&file, vocabulary).unwrap();
    check_refused(file.to_str().unwrap(), "cannot read the tokenizer");
}

#[test]
fn counts_a_megabyte_of_spaces() {
    let text = " ".repeat(1 << 20);
    assert!(Tokenizer::embedded().count(&text) > 1000);
}
