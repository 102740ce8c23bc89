//! Audio files for transcription.

use std::fmt;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::constraint::sha256_hex;

/// An audio file.
///
/// Serialised as name, media type and hash, without the bytes. A deserialised clip has no bytes and
/// cannot be sent.
#[derive(Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "Record")]
pub struct Clip {
    name: String,
    media_type: &'static str,
    bytes: Bytes,
    sha256: String,
}

impl Clip {
    /// Creates a clip from the bytes of a file; the extension of `name` determines the media type.
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        let (name, bytes) = (name.into(), bytes.into());
        Self {
            media_type: media_type(&name),
            sha256: sha256_hex(&bytes),
            name,
            bytes,
        }
    }

    /// The file name, without its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The media type sent to the server.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// The bytes of the file; empty for a deserialised clip.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// SHA-256 of the bytes, in hex.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// Media types of the formats in OpenAI's API reference; others are sent as bytes.
fn media_type(name: &str) -> &'static str {
    let extension = name
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref() {
        Some("wav") => "audio/wav",
        Some("mp3" | "mpeg" | "mpga") => "audio/mpeg",
        Some("flac") => "audio/flac",
        Some("ogg" | "oga" | "opus") => "audio/ogg",
        Some("m4a" | "mp4") => "audio/mp4",
        Some("webm") => "audio/webm",
        _ => "application/octet-stream",
    }
}

impl fmt::Debug for Clip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clip")
            .field("name", &self.name)
            .field("sha256", &self.sha256)
            .finish_non_exhaustive()
    }
}

impl Serialize for Clip {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = Record {
            name: &self.name,
            media_type: self.media_type,
            sha256: &self.sha256,
        };
        record.serialize(serializer)
    }
}

#[derive(JsonSchema, Serialize)]
struct Record<'a> {
    name: &'a str,
    media_type: &'a str,
    sha256: &'a str,
}

#[derive(Deserialize)]
struct ReadRecord {
    name: String,
    sha256: String,
}

impl<'de> Deserialize<'de> for Clip {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ReadRecord { name, sha256 } = ReadRecord::deserialize(deserializer)?;
        Ok(Self {
            media_type: media_type(&name),
            bytes: Bytes::new(),
            sha256,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serialised_clip_has_a_hash_but_no_bytes() {
        let clip = Clip::new("Talk.WAV", vec![1, 2, 3]);
        let record = serde_json::to_string(&clip).unwrap();
        let sha256 = sha256_hex(&[1, 2, 3]);
        assert_eq!(
            record,
            format!(r#"{{"name":"Talk.WAV","media_type":"audio/wav","sha256":"{sha256}"}}"#)
        );
        let read: Clip = serde_json::from_str(&record).unwrap();
        assert_eq!(
            (
                read.name(),
                read.media_type(),
                read.sha256(),
                read.bytes().len()
            ),
            ("Talk.WAV", "audio/wav", &*sha256, 0)
        );
    }

    #[test]
    fn media_types_follow_extensions() {
        for (name, expected) in [
            ("a.mp3", "audio/mpeg"),
            ("a.b.flac", "audio/flac"),
            ("a.opus", "audio/ogg"),
            ("wav", "application/octet-stream"),
            ("a.txt", "application/octet-stream"),
        ] {
            assert_eq!(Clip::new(name, vec![0]).media_type(), expected, "{name}");
        }
    }
}
