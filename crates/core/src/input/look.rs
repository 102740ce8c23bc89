//! What a file is by its first bytes, where it is something else than it should be. Knows no path.
//!
//! Signatures: RFC 1952 (gzip), RFC 8878 (Zstandard), APPNOTE.TXT 4.3 (ZIP), POSIX `pax` (`ustar`
//! at byte 257), the tools' own manuals for bzip2, xz and 7z; RFC 2083 (PNG), JFIF, GIF89a, RIFF
//! WebP; ISO 32000 (PDF); the file formats of Apache Parquet and Arrow, SQLite, HDF5, ELF; Python's
//! `pickle` from protocol 2; Unicode 3.10 (byte-order marks); the specification of Git LFS
//! pointers; git-annex's pointer files.

use std::path::Path;

use crate::error::Error;

/// Bytes from the begin in which a signature shows: that of tar ends at 265, and a page may have
/// blanks before it.
pub(super) const LOOKED_AT_BYTES: u64 = 512;

/// Something that is not text, or a text in place of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The packer, and what unpacks it.
    Packed(&'static str, &'static str),
    /// Several files in one.
    Archive(&'static str, &'static str),
    Parquet,
    /// Formats of other programs, by name.
    Binary(&'static str),
    Utf16,
    Utf32,
    HtmlPage,
    LfsPointer,
    AnnexPointer,
    /// Bytes that no text has.
    Nul,
}

impl Look {
    /// What these first bytes of a file show; `None` for what may be a text.
    pub fn of(begin: &[u8]) -> Option<Self> {
        let known = SIGNATURES.iter().find(|(place, bytes, _)| {
            begin
                .get(*place..)
                .is_some_and(|rest| rest.starts_with(bytes))
        });
        if let Some((_, _, look)) = known {
            return Some(*look);
        }
        let text = begin.trim_ascii_start();
        let is_page = ["<!doctype html", "<html>", "<html "].iter().any(|tag| {
            text.get(..tag.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
        });
        match memchr::memchr(0, begin) {
            _ if is_page => Some(Self::HtmlPage),
            // ASCII in two bytes each, without a mark.
            Some(0 | 1)
                if begin.len() > 3
                    && begin
                        .chunks_exact(2)
                        .all(|pair| (pair[0] == 0) != (pair[1] == 0)) =>
            {
                Some(Self::Utf16)
            }
            Some(_) => Some(Self::Nul),
            None => None,
        }
    }

    /// What is said of a file that looks so and should not.
    pub(super) fn refuse(self, path: &Path) -> Error {
        let is = match self {
            Self::Packed(name, _) => format!("it is packed with {name}"),
            Self::Archive(name, _) => format!("it is a {name} archive"),
            Self::Parquet => "it is Parquet".to_owned(),
            Self::Binary(name) => format!("it is {name}"),
            Self::Utf16 => "it is UTF-16, and not UTF-8".to_owned(),
            Self::Utf32 => "it is UTF-32, and not UTF-8".to_owned(),
            Self::HtmlPage => "it looks like an HTML page".to_owned(),
            Self::LfsPointer => "it is a Git LFS pointer, and not the file itself".to_owned(),
            Self::AnnexPointer => "it is a git-annex pointer, and not the file itself".to_owned(),
            Self::Nul => "it has NULs in it, and is no text".to_owned(),
        };
        Error::usage(format!("cannot read {}: {is}", path.display())).hint(self.hint())
    }

    fn hint(self) -> String {
        match self {
            Self::Packed(_, unpacker) | Self::Archive(_, unpacker) => format!("unpack it first: {unpacker}"),
            Self::Parquet => "--dataset hf, xgrammar_bench and jsonschemabench read Parquet, by the ending .parquet".to_owned(),
            Self::Binary(_) | Self::Nul => "give the file that was meant, as UTF-8 text".to_owned(),
            Self::Utf16 | Self::Utf32 => "save the file as UTF-8".to_owned(),
            Self::HtmlPage => "look what the page says (often an error, or a login), and download the file again".to_owned(),
            Self::LfsPointer => "fetch the file itself: git lfs pull".to_owned(),
            Self::AnnexPointer => "fetch the file itself: git annex get".to_owned(),
        }
    }
}

/// Place from the begin, bytes there, and what has them. The longer of two that begin alike comes
/// first.
const SIGNATURES: [(usize, &[u8], Look); 32] = [
    (0, b"\x1f\x8b", Look::Packed("gzip", "gunzip")),
    (0, b"\x28\xb5\x2f\xfd", Look::Packed("Zstandard", "unzstd")),
    (0, b"BZh", Look::Packed("bzip2", "bunzip2")),
    (0, b"\xfd7zXZ\0", Look::Packed("xz", "unxz")),
    (0, b"\x04\x22\x4d\x18", Look::Packed("LZ4", "unlz4")),
    (0, b"7z\xbc\xaf\x27\x1c", Look::Archive("7z", "7z x")),
    (0, b"PK\x03\x04", Look::Archive("ZIP", "unzip")),
    (0, b"PK\x05\x06", Look::Archive("ZIP", "unzip")),
    (0, b"Rar!\x1a\x07", Look::Archive("RAR", "unrar x")),
    (257, b"ustar\0", Look::Archive("tar", "tar -xf")),
    (257, b"ustar  \0", Look::Archive("tar", "tar -xf")),
    (0, b"PAR1", Look::Parquet),
    (0, b"ARROW1", Look::Binary("an Arrow file")),
    (0, b"\x89PNG\r\n\x1a\n", Look::Binary("an image (PNG)")),
    (0, b"\xff\xd8\xff", Look::Binary("an image (JPEG)")),
    (0, b"GIF8", Look::Binary("an image (GIF)")),
    (8, b"WEBPVP8", Look::Binary("an image (WebP)")),
    (0, b"%PDF-", Look::Binary("a PDF")),
    (0, b"SQLite format 3\0", Look::Binary("an SQLite database")),
    (0, b"\x89HDF\r\n\x1a\n", Look::Binary("an HDF5 file")),
    (0, b"\x7fELF", Look::Binary("a program (ELF)")),
    (0, b"\x80\x02", Look::Binary("a Python pickle")),
    (0, b"\x80\x03", Look::Binary("a Python pickle")),
    (0, b"\x80\x04\x95", Look::Binary("a Python pickle")),
    (0, b"\x80\x05\x95", Look::Binary("a Python pickle")),
    (0, b"GGUF", Look::Binary("a model (GGUF)")),
    (0, b"\xff\xfe\0\0", Look::Utf32),
    (0, b"\0\0\xfe\xff", Look::Utf32),
    (0, b"\xff\xfe", Look::Utf16),
    (0, b"\xfe\xff", Look::Utf16),
    (
        0,
        b"version https://git-lfs.github.com/spec/",
        Look::LfsPointer,
    ),
    (0, b"/annex/objects/", Look::AnnexPointer),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_how_they_begin() {
        let tar = [b"run.jsonl".as_slice(), &[0; 248], b"ustar\x0000"].concat();
        for (begin, expected) in [
            (&b""[..], None),
            (b"{\"a\": 1}", None),
            (&[&[b' '; 256][..], b"mustard"].concat(), None),
            (b"<b>bold</b> lines", None),
            (b"<html> ::= x", Some(Look::HtmlPage)),
            (b"\xef\xbb\xbf[]", None),
            (b"BZ is a word", None),
            (b"\n <!DocType HTML>\n", Some(Look::HtmlPage)),
            (b"<html lang=\"en\">", Some(Look::HtmlPage)),
            (
                b"version https://git-lfs.github.com/spec/v1\noid",
                Some(Look::LfsPointer),
            ),
            (b"\x1f\x8b\x08\0", Some(Look::Packed("gzip", "gunzip"))),
            (&tar, Some(Look::Archive("tar", "tar -xf"))),
            (b"PAR1\0", Some(Look::Parquet)),
            (b"\xff\xfe{\0}\0", Some(Look::Utf16)),
            (b"\xff\xfe\0\0{\0\0\0", Some(Look::Utf32)),
            (b"{\0}\0", Some(Look::Utf16)),
            (b"\0{\0}", Some(Look::Utf16)),
            (b"abc\0", Some(Look::Nul)),
            (&[0; 512], Some(Look::Nul)),
        ] {
            assert_eq!(
                Look::of(begin),
                expected,
                "{:?}",
                String::from_utf8_lossy(begin)
            );
        }
    }

    #[test]
    fn what_to_do_is_said() {
        let said = |look: Look| look.refuse(Path::new("run.jsonl")).to_string();
        let gzip = said(Look::Packed("gzip", "gunzip"));
        assert_eq!(
            gzip,
            "cannot read run.jsonl: it is packed with gzip\nhint: unpack it first: gunzip"
        );
        assert!(said(Look::LfsPointer).ends_with("fetch the file itself: git lfs pull"));
        assert!(said(Look::HtmlPage).contains("it looks like an HTML page\n"));
    }
}
