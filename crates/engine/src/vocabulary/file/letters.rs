//! How a tokenizer writes bytes in the names of its tokens. Decided by its decoder, never by what
//! names look like.

use serde_json::Value;

/// The decoders that join or cut texts at their ends and leave the tokens between alone.
const HARMLESS: [&str; 2] = ["Fuse", "Strip"];

/// From a token's name to the bytes it stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Letters {
    /// GPT-2's alphabet: a character a byte.
    Bytes,
    /// SentencePiece: text in which another character stands for the blank.
    Text {
        space: Option<char>,
        /// `<0x0A>` stands for the byte.
        byte_fallback: bool,
    },
}

impl Letters {
    /// Reads the parts of a `tokenizer.json` that say how tokens become text.
    ///
    /// # Errors
    /// A sentence, for tokenizers whose tokens do not stand for the same bytes wherever they come.
    pub(super) fn of(json: &Value) -> Result<Self, String> {
        let model = &json["model"];
        let kind = model["type"].as_str().unwrap_or_default();
        if ["WordPiece", "WordLevel"].contains(&kind) {
            return Err(format!(
                "tokens of this model do not spell text byte for byte: {kind}"
            ));
        }
        for affix in ["continuing_subword_prefix", "end_of_word_suffix"] {
            if model[affix].as_str().is_some_and(|affix| !affix.is_empty()) {
                return Err(format!(
                    "tokens do not spell text byte for byte, because of {affix}: {}",
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
            return Err("it has neither a decoder nor a byte-level alphabet, so that its tokens' bytes are unknown".into());
        }
        let (mut space, mut byte_fallback) = (None, model["byte_fallback"] == true);
        for decoder in decoders {
            match decoder["type"].as_str().unwrap_or_default() {
                "ByteFallback" => byte_fallback = true,
                "Metaspace" => space = Some(only_char(&decoder["replacement"])?),
                "Replace" if decoder["content"] == " " => {
                    space = Some(only_char(&decoder["pattern"]["String"])?)
                }
                harmless if HARMLESS.contains(&harmless) => {}
                other => return Err(format!("a decoder of this kind is not understood: {other}")),
            }
        }
        Ok(Self::Text {
            space,
            byte_fallback,
        })
    }

    /// The bytes of a token of the model.
    pub(super) fn bytes(&self, token: &str) -> Vec<u8> {
        match self {
            // As in the library: a name outside the alphabet is its own text.
            Self::Bytes => token
                .chars()
                .map(byte_of)
                .collect::<Option<_>>()
                .unwrap_or_else(|| token.as_bytes().to_vec()),
            Self::Text {
                byte_fallback: true,
                ..
            } => fallback_byte(token).map_or_else(|| self.added(token), |byte| vec![byte]),
            Self::Text { .. } => self.added(token),
        }
    }

    /// The bytes of a token that was added beside the model: its text.
    pub(super) fn added(&self, token: &str) -> Vec<u8> {
        match self {
            Self::Text {
                space: Some(space), ..
            } => token.replace(*space, " ").into_bytes(),
            Self::Text { space: None, .. } | Self::Bytes => token.as_bytes().to_vec(),
        }
    }
}

/// A part that may be a sequence of others, as its steps; none where there is no such part.
fn steps<'a>(part: &'a Value, members: &str) -> Vec<&'a Value> {
    match part[members].as_array() {
        Some(members_) => members_
            .iter()
            .flat_map(|step| steps(step, members))
            .collect(),
        None if part.is_object() => vec![part],
        None => Vec::new(),
    }
}

fn only_char(value: &Value) -> Result<char, String> {
    let mut chars = value.as_str().unwrap_or_default().chars();
    match (chars.next(), chars.next()) {
        (Some(char), None) => Ok(char),
        _ => Err(format!(
            "what stands for a blank is not one character: {value}"
        )),
    }
}

/// The byte of a character in the alphabet of GPT-2's `bytes_to_unicode`: printable Latin-1 stands
/// for itself, the other bytes for the characters from U+0100 on, in order.
fn byte_of(char: char) -> Option<u8> {
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
    fn the_alphabet_of_bytes_has_256_letters() {
        let mut bytes: Vec<u8> = (0..0x200)
            .filter_map(|code| byte_of(char::from_u32(code)?))
            .collect();
        assert_eq!(bytes.len(), 256);
        bytes.sort_unstable();
        assert!(bytes.into_iter().eq(0..=255));
        assert_eq!(
            (
                byte_of('Ġ'),
                byte_of('Ċ'),
                byte_of('a'),
                byte_of(' '),
                byte_of('€')
            ),
            (Some(32), Some(10), Some(97), None, None)
        );
    }

    #[test]
    fn the_decoder_decides() {
        let bpe = json!({"type": "BPE"});
        let sequence = |steps: Value| json!({"model": {"type": "BPE"}, "decoder": {"type": "Sequence", "decoders": steps}});
        let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
        let text = |space, byte_fallback| {
            Ok(Letters::Text {
                space,
                byte_fallback,
            })
        };
        for (json, expected) in [
            (
                json!({"model": bpe, "decoder": {"type": "ByteLevel"}}),
                Ok(Letters::Bytes),
            ),
            (
                json!({"model": bpe, "pre_tokenizer": {"type": "ByteLevel"}}),
                Ok(Letters::Bytes),
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
                Err("not understood: CTC"),
            ),
            (json!({"model": bpe}), Err("neither a decoder")),
            (
                json!({"model": bpe, "decoder": {"type": "Metaspace", "replacement": "ab"}}),
                Err("not one character"),
            ),
            (
                json!({"model": {"type": "WordPiece"}, "decoder": {"type": "WordPiece"}}),
                Err("byte for byte: WordPiece"),
            ),
            (
                json!({"model": {"end_of_word_suffix": "</w>"}, "decoder": {"type": "BPEDecoder"}}),
                Err("end_of_word_suffix"),
            ),
        ] {
            match (Letters::of(&json), expected) {
                (Err(words), Err(expected)) => assert!(words.contains(expected), "{words}"),
                (letters, expected) => {
                    assert_eq!(letters, expected.map_err(str::to_owned), "{json}")
                }
            }
        }
    }

    #[test]
    fn names_become_bytes() {
        let pieces = Letters::Text {
            space: Some('▁'),
            byte_fallback: true,
        };
        for (letters, token, bytes) in [
            (&Letters::Bytes, "Ġwrong", &b" wrong"[..]),
            (&Letters::Bytes, "a b", b"a b"),
            (&pieces, "▁wrong▁", b" wrong "),
            (&pieces, "<0x0A>", b"\n"),
            (&pieces, "<0xff>", &[0xff]),
            (&pieces, "<0xgg>", b"<0xgg>"),
            (&pieces, "日", "日".as_bytes()),
        ] {
            assert_eq!(letters.bytes(token), bytes, "{token}");
        }
        let plain = Letters::Text {
            space: None,
            byte_fallback: false,
        };
        assert_eq!(plain.bytes("<0x0A>"), b"<0x0A>");
        assert_eq!(
            (Letters::Bytes.added("é"), pieces.added("▁▁")),
            ("é".as_bytes().to_vec(), b"  ".to_vec())
        );
    }
}
