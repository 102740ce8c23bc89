//! The text of a result file, which is read in parts: Python's `NaN` is replaced by `null`, and
//! duplicate keys are found.

use std::io::{self, BufReader, Read};

use serde_json::Deserializer;
use serde_json::de::IoRead;

use sobench_core::input::json::KeyScanner;
use sobench_pycompat::nan::WithoutNan;

/// Bytes that are read at once.
const PART_BYTES: usize = 64 << 10;

/// The JSON values of a file.
pub(super) struct JsonText<R> {
    text: WithoutNan<R>,
    keys: KeyScanner,
}

impl<R: Read> JsonText<R> {
    pub(super) fn new(file: R) -> Self {
        Self {
            text: WithoutNan::new(file),
            keys: KeyScanner::default(),
        }
    }

    /// Reads the values one after the other.
    pub(super) fn deserializer(&mut self) -> Deserializer<IoRead<BufReader<&mut Self>>> {
        Deserializer::from_reader(BufReader::with_capacity(PART_BYTES, self))
    }

    /// The duplicate keys of what was read.
    pub(super) fn into_keys(self) -> KeyScanner {
        self.keys
    }
}

impl<R: Read> Read for JsonText<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.text.read(buffer)?;
        self.keys.scan(&buffer[..length]);
        Ok(length)
    }
}
