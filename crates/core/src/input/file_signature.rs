//! Detects file types by their first bytes, to report files that are not text.
//!
//! Signatures: RFC 1952 (gzip), RFC 8878 (Zstandard), APPNOTE.TXT 4.3 (ZIP), POSIX `pax` (`ustar`
//! at byte 257), the tools' own manuals for bzip2, xz and 7z; RFC 2083 (PNG), JFIF, GIF89a, RIFF
//! WebP; ISO 32000 (PDF); the file formats of Apache Parquet and Arrow, SQLite, HDF5, ELF; Python's
//! `pickle` from protocol 2; Unicode 3.10 (byte-order marks); the specification of Git LFS
//! pointers; git-annex's pointer files.

use std::path::Path;

use crate::error::Error;

/// Number of bytes to inspect: the signature of tar ends at 265, and HTML may start with white
/// space.
pub(super) const SIGNATURE_BYTES: u64 = 512;

/// A file type other than text, or a text that stands in for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSignature {
    /// Compression format, and the program to decompress it.
    Packed(&'static str, &'static str),
    /// Archive format, and the program to extract it.
    Archive(&'static str, &'static str),
    Parquet,
    /// Other formats, by name.
    Binary(&'static str),
    Utf16,
    Utf32,
    HtmlPage,
    LfsPointer,
    AnnexPointer,
    /// NUL bytes.
    Nul,
}

impl FileSignature {
    /// Detects the type from the first bytes of a file; `None` if it may be text.
    pub fn detect(start: &[u8]) -> Option<Self> {
        let known = SIGNATURES.iter().find(|(position, bytes, _)| {
            start
                .get(*position..)
                .is_some_and(|rest| rest.starts_with(bytes))
        });
        if let Some((_, _, look)) = known {
            return Some(*look);
        }
        let text = start.trim_ascii_start();
        let is_page = ["<!doctype html", "<html>", "<html "].iter().any(|tag| {
            text.get(..tag.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
        });
        match memchr::memchr(0, start) {
            _ if is_page => Some(Self::HtmlPage),
            // ASCII as UTF-16 without a byte order mark.
            Some(0 | 1)
                if start.len() > 3
                    && start
                        .chunks_exact(2)
                        .all(|pair| (pair[0] == 0) != (pair[1] == 0)) =>
            {
                Some(Self::Utf16)
            }
            Some(_) => Some(Self::Nul),
            None => None,
        }
    }

    /// The error for a file of this type.
    pub(super) fn refuse(self, path: &Path) -> Error {
        let problem = match self {
            Self::Packed(name, _) => format!("it is compressed with {name}"),
            Self::Archive(name, _) => format!("it is a {name} archive"),
            Self::Parquet => "it is Parquet".to_owned(),
            Self::Binary(name) => format!("it is {name}"),
            Self::Utf16 => "it is UTF-16, not UTF-8".to_owned(),
            Self::Utf32 => "it is UTF-32, not UTF-8".to_owned(),
            Self::HtmlPage => "it looks like an HTML page".to_owned(),
            Self::LfsPointer => "it is a Git LFS pointer, not the file itself".to_owned(),
            Self::AnnexPointer => "it is a git-annex pointer, not the file itself".to_owned(),
            Self::Nul => "it contains NUL characters and is not text".to_owned(),
        };
        Error::usage(format!("cannot read {}: {problem}", path.display())).hint(self.hint())
    }

    fn hint(self) -> String {
        match self {
            Self::Packed(_, unpacker) | Self::Archive(_, unpacker) => format!("decompress it first: {unpacker}"),
            Self::Parquet => "use --dataset hf, xgrammar_bench or jsonschemabench for Parquet files, with the extension .parquet".to_owned(),
            Self::Binary(_) | Self::Nul => "use a UTF-8 text file".to_owned(),
            Self::Utf16 | Self::Utf32 => "save the file as UTF-8".to_owned(),
            Self::HtmlPage => "check the page (often an error or a login) and download the file again".to_owned(),
            Self::LfsPointer => "fetch the file: git lfs pull".to_owned(),
            Self::AnnexPointer => "fetch the file: git annex get".to_owned(),
        }
    }
}

/// Offset, bytes, type. Longer signatures precede shorter ones with the same start.
const SIGNATURES: [(usize, &[u8], FileSignature); 32] = [
    (0, b"\x1f\x8b", FileSignature::Packed("gzip", "gunzip")),
    (
        0,
        b"\x28\xb5\x2f\xfd",
        FileSignature::Packed("Zstandard", "unzstd"),
    ),
    (0, b"BZh", FileSignature::Packed("bzip2", "bunzip2")),
    (0, b"\xfd7zXZ\0", FileSignature::Packed("xz", "unxz")),
    (
        0,
        b"\x04\x22\x4d\x18",
        FileSignature::Packed("LZ4", "unlz4"),
    ),
    (
        0,
        b"7z\xbc\xaf\x27\x1c",
        FileSignature::Archive("7z", "7z x"),
    ),
    (0, b"PK\x03\x04", FileSignature::Archive("ZIP", "unzip")),
    (0, b"PK\x05\x06", FileSignature::Archive("ZIP", "unzip")),
    (0, b"Rar!\x1a\x07", FileSignature::Archive("RAR", "unrar x")),
    (257, b"ustar\0", FileSignature::Archive("tar", "tar -xf")),
    (257, b"ustar  \0", FileSignature::Archive("tar", "tar -xf")),
    (0, b"PAR1", FileSignature::Parquet),
    (0, b"ARROW1", FileSignature::Binary("an Arrow file")),
    (
        0,
        b"\x89PNG\r\n\x1a\n",
        FileSignature::Binary("an image (PNG)"),
    ),
    (0, b"\xff\xd8\xff", FileSignature::Binary("an image (JPEG)")),
    (0, b"GIF8", FileSignature::Binary("an image (GIF)")),
    (8, b"WEBPVP8", FileSignature::Binary("an image (WebP)")),
    (0, b"%PDF-", FileSignature::Binary("a PDF")),
    (
        0,
        b"SQLite format 3\0",
        FileSignature::Binary("an SQLite database"),
    ),
    (
        0,
        b"\x89HDF\r\n\x1a\n",
        FileSignature::Binary("an HDF5 file"),
    ),
    (0, b"\x7fELF", FileSignature::Binary("a program (ELF)")),
    (0, b"\x80\x02", FileSignature::Binary("a Python pickle")),
    (0, b"\x80\x03", FileSignature::Binary("a Python pickle")),
    (0, b"\x80\x04\x95", FileSignature::Binary("a Python pickle")),
    (0, b"\x80\x05\x95", FileSignature::Binary("a Python pickle")),
    (0, b"GGUF", FileSignature::Binary("a model (GGUF)")),
    (0, b"\xff\xfe\0\0", FileSignature::Utf32),
    (0, b"\0\0\xfe\xff", FileSignature::Utf32),
    (0, b"\xff\xfe", FileSignature::Utf16),
    (0, b"\xfe\xff", FileSignature::Utf16),
    (
        0,
        b"version https://git-lfs.github.com/spec/",
        FileSignature::LfsPointer,
    ),
    (0, b"/annex/objects/", FileSignature::AnnexPointer),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_types_are_detected_by_their_first_bytes() {
        let tar = [b"run.jsonl".as_slice(), &[0; 248], b"ustar\x0000"].concat();
        for (start, expected) in [
            (&b""[..], None),
            (b"{\"a\": 1}", None),
            (&[&[b' '; 256][..], b"mustard"].concat(), None),
            (b"<b>bold</b> lines", None),
            (b"<html> ::= x", Some(FileSignature::HtmlPage)),
            (b"\xef\xbb\xbf[]", None),
            (b"BZ is a word", None),
            (b"\n <!DocType HTML>\n", Some(FileSignature::HtmlPage)),
            (b"<html lang=\"en\">", Some(FileSignature::HtmlPage)),
            (
                b"version https://git-lfs.github.com/spec/v1\noid",
                Some(FileSignature::LfsPointer),
            ),
            (
                b"\x1f\x8b\x08\0",
                Some(FileSignature::Packed("gzip", "gunzip")),
            ),
            (&tar, Some(FileSignature::Archive("tar", "tar -xf"))),
            (b"PAR1\0", Some(FileSignature::Parquet)),
            (b"\xff\xfe{\0}\0", Some(FileSignature::Utf16)),
            (b"\xff\xfe\0\0{\0\0\0", Some(FileSignature::Utf32)),
            (b"{\0}\0", Some(FileSignature::Utf16)),
            (b"\0{\0}", Some(FileSignature::Utf16)),
            (b"abc\0", Some(FileSignature::Nul)),
            (&[0; 512], Some(FileSignature::Nul)),
        ] {
            assert_eq!(
                FileSignature::detect(start),
                expected,
                "{:?}",
                String::from_utf8_lossy(start)
            );
        }
    }

    #[test]
    fn errors_say_how_to_fix_the_file() {
        let message = |look: FileSignature| look.refuse(Path::new("run.jsonl")).to_string();
        let gzip = message(FileSignature::Packed("gzip", "gunzip"));
        assert_eq!(
            gzip,
            "cannot read run.jsonl: it is compressed with gzip\nhint: decompress it first: gunzip"
        );
        assert!(message(FileSignature::LfsPointer).ends_with("fetch the file: git lfs pull"));
        assert!(message(FileSignature::HtmlPage).contains("it looks like an HTML page\n"));
    }
}
