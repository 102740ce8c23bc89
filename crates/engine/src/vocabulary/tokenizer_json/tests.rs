//! Tests of vocabularies from files: the shipped tokenizer, and generated ones of other kinds.

use serde_json::{Value, json};

use super::*;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tokenizer");

/// Loads a vocabulary from a folder with these files.
fn load_files(files: &[(&str, &Value)], eos: Option<&str>) -> Result<Vocabulary> {
    let folder = tempfile::tempdir().unwrap();
    for (name, json) in files {
        std::fs::write(folder.path().join(name), json.to_string()).unwrap();
    }
    load(folder.path(), eos)
}

/// A SentencePiece vocabulary like Llama 2's: spaces are U+2581, one is prepended to the text,
/// single bytes are fallbacks.
fn pieces() -> Value {
    let mut vocab = json!({"<unk>": 0, "<s>": 1, "</s>": 2});
    for byte in 0..=255 {
        vocab[format!("<0x{byte:02X}>")] = json!(byte + 3);
    }
    for token in ["▁", "a", "b", "▁a", "ab", "▁ab", "é", "{", "\"", "▁▁"] {
        let id = vocab.as_object().unwrap().len();
        vocab[token] = json!(id);
    }
    let added = |id: u32, content: &str, special: bool| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": special})
    };
    json!({
        "version": "1.0",
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true), added(269, "<tool>", false)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ]},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab,
            "merges": [["a", "b"], ["▁", "a"], ["▁", "ab"], ["▁", "▁"]]},
    })
}

/// A Unigram vocabulary with Metaspace and without byte tokens, like T5's.
fn unigram() -> Value {
    let scored = ["<unk>", "</s>", "▁", "a", "b", "▁ab"];
    let vocab: Vec<Value> = scored
        .into_iter()
        .zip(0..)
        .map(|(token, n)| json!([token, -0.5 * f64::from(n)]))
        .collect();
    let metaspace = json!({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true});
    json!({
        "version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Sequence", "pretokenizers": [metaspace]},
        "decoder": metaspace, "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab},
    })
}

#[track_caller]
fn check_round_trip(vocabulary: &Vocabulary, text: &str, uses_fallback: bool) {
    let before = vocabulary.fallback_encodings();
    let tokens = vocabulary
        .encode_exactly(text)
        .unwrap_or_else(|| panic!("cannot encode {text:?}"));
    assert_eq!(vocabulary.decode(&tokens), text.as_bytes(), "{text:?}");
    assert_eq!(tokens, vocabulary.encode(text));
    assert!(
        tokens
            .iter()
            .all(|token| vocabulary.special().iter().all(|(id, _)| id != token)),
        "{text:?}"
    );
    assert_eq!(
        vocabulary.fallback_encodings() - before,
        2 * u64::from(uses_fallback),
        "{text:?}"
    );
}

#[test]
fn the_shipped_tokenizer_is_byte_level() {
    let vocabulary = load(Path::new(FIXTURE), None).unwrap();
    assert_eq!(
        (vocabulary.name(), vocabulary.len()),
        ("tokenizer/tokenizer.json, 600 ids", 600)
    );
    assert_eq!(vocabulary.special().len(), 3);
    assert_eq!(
        vocabulary.eos(),
        2,
        "tokenizer_config.json names <|im_end|>"
    );
    assert_eq!(
        (
            vocabulary.bytes(595),
            vocabulary.bytes(2),
            vocabulary.bytes(600)
        ),
        (&b" wrong"[..], &b""[..], &b""[..])
    );
    for text in [
        "",
        "{\"name\": \"Zoë\"}",
        "日本語 🦀",
        "<|im_end|>",
        "a\u{0}b",
        "  where it is wrong",
        "▁",
    ] {
        check_round_trip(&vocabulary, text, false);
    }
    assert_eq!(vocabulary.encode(" wrong"), [595]);
    assert_eq!(
        load(Path::new(FIXTURE), Some("<|endoftext|>"))
            .unwrap()
            .eos(),
        0
    );
    let long = "wrong ".repeat(100);
    assert!(
        vocabulary.count(&long) > 16,
        "the truncation of the file is disabled"
    );
}

#[test]
fn sentence_pieces_encode_from_the_first_byte() {
    let vocabulary = load_files(&[("tokenizer.json", &pieces())], None).unwrap();
    assert_eq!((vocabulary.len(), vocabulary.eos()), (270, 2));
    let names: Vec<&str> = vocabulary
        .special()
        .iter()
        .map(|(_, name)| name.as_str())
        .collect();
    assert_eq!(names, ["<unk>", "<s>", "</s>"]);
    assert_eq!(
        (
            vocabulary.bytes(13),
            vocabulary.bytes(264),
            vocabulary.bytes(269)
        ),
        (&b"\n"[..], &b" ab"[..], &b"<tool>"[..])
    );
    assert_eq!(
        (vocabulary.encode("ab ab"), vocabulary.encode(" ab")),
        (vec![263, 264], vec![264])
    );
    for text in ["", "ab", " ab", "  a", "é\n日", "</s>", "<tool>"] {
        check_round_trip(&vocabulary, text, false);
    }
    // The space replacement as text: its canonical tokens would decode to a space.
    check_round_trip(&vocabulary, "a▁b", true);
}

#[test]
fn text_outside_of_the_vocabulary_is_reported() {
    let config = json!({"eos_token": {"content": "</s>"}});
    let vocabulary = load_files(
        &[
            ("tokenizer.json", &unigram()),
            ("tokenizer_config.json", &config),
        ],
        None,
    )
    .unwrap();
    assert_eq!(
        vocabulary.special(),
        [(0, "<unk>".to_owned()), (1, "</s>".to_owned())]
    );
    check_round_trip(&vocabulary, "ab a", false);
    assert_eq!(vocabulary.encode_exactly("axb"), None);
    assert_eq!(vocabulary.decode(&vocabulary.encode("axb")), b"ab");
}

#[test]
fn the_end_token_is_found_in_the_files() {
    let (pieces, none) = (pieces(), json!({}));
    let config = |end: &str| json!({ "eos_token": end });
    let generation = |ids: Value| json!({ "eos_token_id": ids });
    for (settings, generation, requested, expected) in [
        (&none, &none, None, Ok(2)),
        (&config("<s>"), &generation(json!(2)), None, Ok(1)),
        (&none, &generation(json!(1)), None, Ok(1)),
        (&none, &generation(json!([269, 2])), None, Ok(269)),
        (&config("<s>"), &none, Some("<tool>"), Ok(269)),
        (&config("<end>"), &none, None, Err("<end>")),
        (
            &none,
            &generation(json!(5000)),
            None,
            Err("not in the vocabulary: 5000"),
        ),
        (&none, &none, Some("<end>"), Err("<end>")),
    ] {
        let files = [
            ("tokenizer.json", &pieces),
            ("tokenizer_config.json", settings),
            ("generation_config.json", generation),
        ];
        match (load_files(&files, requested), expected) {
            (Ok(vocabulary), Ok(id)) => {
                assert_eq!(vocabulary.eos(), id);
                assert_eq!(vocabulary.bytes(id), b"", "the end token has no bytes");
            }
            (Err(error), Err(message)) => {
                assert!(error.what.ends_with(message), "{error}");
                assert!(error.hint.is_some_and(|hint| hint.contains("--eos-token")));
            }
            (loaded, expected) => panic!(
                "{:?} instead of {expected:?}",
                loaded.map(|vocabulary| vocabulary.eos())
            ),
        }
    }
    let mut without_end_token = unigram();
    without_end_token["model"]["vocab"][1][0] = json!("b</s>");
    let error = load_files(&[("tokenizer.json", &without_end_token)], None)
        .err()
        .unwrap();
    assert!(
        error
            .what
            .starts_with("no end token found for the vocabulary: "),
        "{error}"
    );
}

#[test]
fn invalid_tokenizers_are_refused_with_a_message() {
    let word_piece = json!({"model": {"type": "WordPiece", "vocab": {"a": 0}}, "decoder": {"type": "WordPiece"}});
    let decoder = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let empty = json!({"version": "1.0", "decoder": decoder, "model": {"type": "BPE", "vocab": {}, "merges": []}});
    let mut sparse = pieces();
    sparse["model"]["vocab"]["far"] = json!(u32::MAX);
    for (json, message) in [
        (&word_piece, "map to bytes: WordPiece"),
        (&empty, "ids: 0"),
        (&sparse, "ids: 4294967296"),
        (
            &json!({"decoder": {"type": "ByteLevel"}}),
            "cannot read the vocabulary",
        ),
        (&json!([]), "neither a decoder"),
    ] {
        let error = load_files(&[("tokenizer.json", json)], None).err().unwrap();
        assert!(error.what.contains(message), "{error}");
    }
    assert!(load(Path::new("no/such/folder"), None).is_err());
    assert!(load_files(&[], None).is_err(), "a folder without the file");
}
