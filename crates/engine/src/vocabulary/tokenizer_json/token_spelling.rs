//! Converts token names to bytes. The decoder of the tokenizer determines the conversion.

use serde_json::Value;

/// Decoders that change only the ends of a text.
const END_DECODERS: [&str; 2] = ["Fuse", "Strip"];

/// Spelling of bytes in token names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenSpelling {
    /// GPT-2's alphabet: one character per byte.
    Bytes,
    /// SentencePiece: text in which another character replaces the space.
    Text {
        space: Option<char>,
        /// `<0x0A>` is the byte 0x0A.
        byte_fallback: bool,
    },
}

impl TokenSpelling {
    /// Reads the spelling from the decoder of a `tokenizer.json`.
    ///
    /// # Errors
    /// An error message for tokenizers whose tokens do not have fixed bytes.
    pub(super) fn from_tokenizer(json: &Value) -> Result<Self, String> {
        let model = &json["model"];
        let kind = model["type"].as_str().unwrap_or_default();
        if ["WordPiece", "WordLevel"].contains(&kind) {
            return Err(format!(
                "token names of this model do not map to bytes: {kind}"
            ));
        }
        for affix in ["continuing_subword_prefix", "end_of_word_suffix"] {
            if model[affix].as_str().is_some_and(|affix| !affix.is_empty()) {
                return Err(format!(
                    "token names do not map to bytes because of {affix}: {}",
                    model[affix]
                ));
            }
        }
        let decoders = steps(&json["decoder"], "decoders");
        let is_byte_level = |step: &&Value| step["type"] == "ByteLevel";
        let pre_tokenizers = steps(&json["pre_tokenizer"], "pretokenizers");
        if decoders.iter().any(is_byte_level)
            || (decoders.is_empty() && pre_tokenizers.iter().any(is_byte_level))
        {
            return Ok(Self::Bytes);
        }
        if decoders.is_empty() {
            return Err("the file has neither a decoder nor a byte-level alphabet, so the bytes of its tokens are unknown".into());
        }
        let (mut space, mut byte_fallback) = (None, model["byte_fallback"] == true);
        for decoder in decoders {
            match decoder["type"].as_str().unwrap_or_default() {
                "ByteFallback" => byte_fallback = true,
                "Metaspace" => space = Some(single_char(&decoder["replacement"])?),
                "Replace" if decoder["content"] == " " => {
                    space = Some(single_char(&decoder["pattern"]["String"])?);
                }
                end_decoder if END_DECODERS.contains(&end_decoder) => {}
                other => return Err(format!("unsupported decoder: {other}")),
            }
        }
        Ok(Self::Text {
            space,
            byte_fallback,
        })
    }

    /// Bytes of a model token.
    pub(super) fn bytes(&self, token: &str) -> Vec<u8> {
        match self {
            // As in the library, a name outside of the alphabet is plain text.
            Self::Bytes => token
                .chars()
                .map(gpt2_byte)
                .collect::<Option<_>>()
                .unwrap_or_else(|| token.as_bytes().to_vec()),
            Self::Text {
                byte_fallback: true,
                ..
            } => fallback_byte(token)
                .map_or_else(|| self.added_token_bytes(token), |byte| vec![byte]),
            Self::Text { .. } => self.added_token_bytes(token),
        }
    }

    /// Bytes of an added token: its text.
    pub(super) fn added_token_bytes(&self, token: &str) -> Vec<u8> {
        match self {
            Self::Text {
                space: Some(space), ..
            } => token.replace(*space, " ").into_bytes(),
            Self::Text { space: None, .. } | Self::Bytes => token.as_bytes().to_vec(),
        }
    }
}

/// The steps of a part that may be a sequence. Empty if the part is missing.
fn steps<'a>(part: &'a Value, members: &str) -> Vec<&'a Value> {
    match part[members].as_array() {
        Some(sequence) => sequence
            .iter()
            .flat_map(|step| steps(step, members))
            .collect(),
        None if part.is_object() => vec![part],
        None => Vec::new(),
    }
}

fn single_char(value: &Value) -> Result<char, String> {
    let mut chars = value.as_str().unwrap_or_default().chars();
    match (chars.next(), chars.next()) {
        (Some(char), None) => Ok(char),
        _ => Err(format!(
            "the replacement of the space is not one character: {value}"
        )),
    }
}

/// The byte of a character in the alphabet of GPT-2's `bytes_to_unicode`: printable Latin-1
/// characters are their own byte, the other bytes are the characters from U+0100 on, in order.
fn gpt2_byte(char: char) -> Option<u8> {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if let Ok(byte) = u8::try_from(char) {
        return is_printable(byte).then_some(byte);
    }
    let index = u32::from(char).checked_sub(0x100)?;
    (0..=u8::MAX)
        .filter(|&byte| !is_printable(byte))
        .nth(index as usize)
}

/// `<0x0A>`, as the library's `ByteFallback` reads it.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 {
        u8::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_byte_alphabet_has_256_characters() {
        let mut bytes: Vec<u8> = (0..0x200)
            .filter_map(|code| gpt2_byte(char::from_u32(code)?))
            .collect();
        assert_eq!(bytes.len(), 256);
        bytes.sort_unstable();
        assert!(bytes.into_iter().eq(0..=255));
        assert_eq!(
            (
                gpt2_byte('Ġ'),
                gpt2_byte('Ċ'),
                gpt2_byte('a'),
                gpt2_byte(' '),
                gpt2_byte('€')
            ),
            (Some(32), Some(10), Some(97), None, None)
        );
    }

    #[test]
    fn the_decoder_determines_the_spelling() {
        let bpe = json!({"type": "BPE"});
        let sequence = |steps: Value| json!({"model": {"type": "BPE"}, "decoder": {"type": "Sequence", "decoders": steps}});
        let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let text = |space, byte_fallback| {
            Ok(TokenSpelling::Text {
                space,
                byte_fallback,
            })
        };
        for (json, expected) in [
            (
                json!({"model": bpe, "decoder": {"type": "ByteLevel"}}),
                Ok(TokenSpelling::Bytes),
            ),
            (
                json!({"model": bpe, "pre_tokenizer": {"type": "ByteLevel"}}),
                Ok(TokenSpelling::Bytes),
            ),
            (
                json!({"model": bpe, "decoder": {"type": "Metaspace", "replacement": "▁"}}),
                text(Some('▁'), false),
            ),
            (
                sequence(
                    json!([replace, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " "}]),
                ),
                text(Some('▁'), true),
            ),
            (
                sequence(json!([{"type": "ByteFallback"}])),
                text(None, true),
            ),
            (
                sequence(json!([{"type": "CTC"}])),
                Err("unsupported decoder: CTC"),
            ),
            (json!({"model": bpe}), Err("neither a decoder")),
            (
                json!({"model": bpe, "decoder": {"type": "Metaspace", "replacement": "ab"}}),
                Err("not one character"),
            ),
            (
                json!({"model": {"type": "WordPiece"}, "decoder": {"type": "WordPiece"}}),
                Err("map to bytes: WordPiece"),
            ),
            (
                json!({"model": {"end_of_word_suffix": "</w>"}, "decoder": {"type": "BPEDecoder"}}),
                Err("end_of_word_suffix"),
            ),
        ] {
            match (TokenSpelling::from_tokenizer(&json), expected) {
                (Err(message), Err(expected)) => assert!(message.contains(expected), "{message}"),
                (spelling, expected) => {
                    assert_eq!(spelling, expected.map_err(str::to_owned), "{json}");
                }
            }
        }
    }

    #[test]
    fn token_names_are_converted_to_bytes() {
        let pieces = TokenSpelling::Text {
            space: Some('▁'),
            byte_fallback: true,
        };
        for (spelling, token, bytes) in [
            (&TokenSpelling::Bytes, "Ġwrong", &b" wrong"[..]),
            (&TokenSpelling::Bytes, "a b", b"a b"),
            (&pieces, "▁wrong▁", b" wrong "),
            (&pieces, "<0x0A>", b"\n"),
            (&pieces, "<0xff>", &[0xff]),
            (&pieces, "<0xgg>", b"<0xgg>"),
            (&pieces, "日", "日".as_bytes()),
        ] {
            assert_eq!(spelling.bytes(token), bytes, "{token}");
        }
        let without_fallback = TokenSpelling::Text {
            space: None,
            byte_fallback: false,
        };
        assert_eq!(without_fallback.bytes("<0x0A>"), b"<0x0A>");
        assert_eq!(
            (
                TokenSpelling::Bytes.added_token_bytes("é"),
                pieces.added_token_bytes("▁▁")
            ),
            ("é".as_bytes().to_vec(), b"  ".to_vec())
        );
    }
}
