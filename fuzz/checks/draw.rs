//! Derives choices from the bytes of a fuzzer.

/// Reads choices from the front. When the bytes are exhausted, each choice is the first one, so
/// that generation ends.
pub(crate) struct Draw<'a>(&'a [u8]);

impl<'a> Draw<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// A number below `count`, which is not 0 and at most 256.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        usize::from(*first) % count
    }

    /// The remaining bytes.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The rest as text up to the first NUL, and the text after it; invalid UTF-8 becomes
    /// replacement characters.
    pub(crate) fn two_texts(self) -> (String, String) {
        let mut parts = self
            .0
            .splitn(2, |byte| *byte == 0)
            .map(|part| String::from_utf8_lossy(part).into_owned());
        (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or_default(),
        )
    }
}

/// Splits `bytes` into pieces whose sizes cycle through `sizes`.
pub(crate) fn pieces<'a>(mut bytes: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut sizes = sizes.iter().cycle();
    while !bytes.is_empty() {
        let size = sizes
            .next()
            .map_or(bytes.len(), |size| usize::from(*size))
            .min(bytes.len());
        let (piece, rest) = bytes.split_at(size.max(1));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}
