//! Sound that is to be transcribed. Knows neither where it is from nor who is asked.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::constraint::sha256_hex;

/// A file of sound, whole.
///
/// Its record (as JSON) is its name, media type and hash, not its bytes: what is read from a record
/// has none, and cannot be sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Clip {
    name: String,
    media_type: &'static str,
    bytes: Bytes,
    sha256: String,
}

impl Clip {
    /// A clip from the bytes of a file; `name` is the file's, by whose ending the media type is
    /// told.
    pub fn new(name: impl Into<String>, bytes: impl Into<Bytes>) -> Self {
        let (name, bytes) = (name.into(), bytes.into());
        Self {
            media_type: media_type(&name),
            sha256: sha256_hex(&bytes),
            name,
            bytes,
        }
    }

    /// The file's name, without its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The media type that is stated to the server.
    pub fn media_type(&self) -> &'static str {
        self.media_type
    }

    /// The file's bytes; none of a clip that was read from its record.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// SHA-256 of the bytes, in hex.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

/// The media types of what OpenAI's reference says that it takes; what is not known is bytes.
fn media_type(name: &str) -> &'static str {
    let ending = name
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
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

#[derive(Serialize)]
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
    fn a_record_tells_which_sound_it_was_and_holds_none() {
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
    fn media_types_go_by_endings() {
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
