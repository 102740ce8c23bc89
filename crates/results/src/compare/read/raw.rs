//! A result file before interpretation: columns as numbers, everything else as JSON.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::baseline::Columns;
use sobench_core::case::Arm;
use sobench_judge::accuracy::Grade;

/// The members of a file. Columns are parsed directly into numbers, because JSON values of a long
/// run would not fit into memory.
#[derive(Debug, Default)]
pub(super) struct Raw {
    pub(super) input_lens: Option<Vec<Option<f64>>>,
    pub(super) output_lens: Option<Vec<Option<f64>>>,
    pub(super) ttfts: Option<Vec<Option<f64>>>,
    pub(super) itls: Option<Vec<Vec<f64>>>,
    pub(super) latencies: Option<Vec<Option<f64>>>,
    pub(super) start_times: Option<Vec<Option<f64>>>,
    pub(super) generated_texts: Option<Vec<Option<String>>>,
    pub(super) errors: Option<Vec<Option<String>>>,
    pub(super) outputs: Option<Vec<Output>>,
    pub(super) requests: Option<Columns>,
    pub(super) rest: Map<String, Value>,
}

/// A record of `outputs`, as written by sobench and vLLM's script.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Output {
    pub(super) generated: Option<String>,
    pub(super) correctness: Option<bool>,
    pub(super) vllm_correctness: Option<bool>,
    pub(super) case: Option<String>,
    pub(super) arm: Option<Arm>,
    pub(super) outcome: Option<Value>,
    pub(super) verdict: Option<Value>,
    pub(super) finish_reason: Option<String>,
    pub(super) accuracy: Option<Grade>,
    pub(super) tokens: Tokens,
}

/// Token counts of a record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
}

impl Raw {
    /// The length of the longest column.
    pub(super) fn longest(&self) -> usize {
        let numbers = [
            &self.input_lens,
            &self.output_lens,
            &self.ttfts,
            &self.latencies,
            &self.start_times,
        ];
        let rows = numbers.into_iter().flatten().map(Vec::len);
        let others = [
            self.itls.as_ref().map(Vec::len),
            self.outputs.as_ref().map(Vec::len),
            self.requests.as_ref().map(Columns::len),
        ];
        rows.chain(others.into_iter().flatten()).max().unwrap_or(0)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a result object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut raw = Raw::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "input_lens" => raw.input_lens = map.next_value()?,
                "output_lens" => raw.output_lens = map.next_value()?,
                "ttfts" => raw.ttfts = map.next_value()?,
                "itls" => raw.itls = map.next_value()?,
                "latencies" => raw.latencies = map.next_value()?,
                "start_times" => raw.start_times = map.next_value()?,
                "generated_texts" => raw.generated_texts = map.next_value()?,
                "errors" => raw.errors = map.next_value()?,
                "outputs" => raw.outputs = map.next_value()?,
                "requests" => raw.requests = map.next_value()?,
                _ => {
                    let value = map.next_value()?;
                    raw.rest.insert(key, value);
                }
            }
        }
        Ok(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_numbers_and_other_members_are_kept() {
        let raw: Raw = serde_json::from_str(
            r#"{"ttfts": [0.5, null], "itls": [[0.1], []], "outputs": [{"generated": "a", "x": 1}], "p99": 3}"#,
        )
        .unwrap();
        assert_eq!(
            (raw.ttfts.as_deref(), raw.longest()),
            (Some(&[Some(0.5), None][..]), 2)
        );
        assert_eq!(raw.outputs.unwrap()[0].generated.as_deref(), Some("a"));
        assert_eq!(raw.rest.len(), 1);
        for invalid in ["[]", "3", r#"{"ttfts": "x"}"#] {
            assert!(serde_json::from_str::<Raw>(invalid).is_err(), "{invalid}");
        }
    }
}
