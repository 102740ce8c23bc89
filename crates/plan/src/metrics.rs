//! Options of the metrics of a run.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sobench_core::error::{Error, Result};

/// Settings of the computation.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[schemars(rename = "MetricsOptions")]
pub struct MetricsSettings {
    /// Percentiles of every latency, each from 0 to 100.
    pub percentiles: Vec<f64>,
    /// The objectives of goodput.
    pub goodput: Option<Slo>,
    /// Whether answers were requested as streams; otherwise there is no TTFT, TPOT or ITL. The
    /// server may still not stream.
    pub streamed: bool,
    pub answers: Answers,
    /// Prices for the cost of right answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_million: Option<TokenPrice>,
}

/// The kind of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// Text, token by token.
    #[default]
    Generated,
    /// Vectors or scores, computed in one piece: there are no output tokens, and the only latency
    /// is E2EL.
    Computed,
}

/// Service level objectives, in milliseconds. An answer is good if it meets all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Slo {
    pub ttft_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2el_ms: Option<f64>,
    /// Whether an answer with a constraint has to be valid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub valid: bool,
}

impl Default for MetricsSettings {
    /// vLLM's defaults: p99, no goodput, streaming.
    fn default() -> Self {
        Self {
            percentiles: vec![99.0],
            goodput: None,
            streamed: true,
            answers: Answers::Generated,
            cost_per_million: None,
        }
    }
}

/// USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct TokenPrice {
    pub input: f64,
    pub output: f64,
}

impl TokenPrice {
    /// The price of tokens in USD.
    pub fn usd(&self, input: u64, output: u64) -> f64 {
        (self.input * input as f64 + self.output * output as f64) / 1e6
    }
}

impl FromStr for TokenPrice {
    type Err = Error;

    /// Parses `IN,OUT`.
    fn from_str(text: &str) -> Result<Self> {
        let price = |text: &str| {
            let price = text.trim().parse::<f64>().ok();
            price.filter(|price| price.is_finite() && *price >= 0.0)
        };
        let prices = text.split_once(',');
        let prices = prices.and_then(|(input, output)| Some((price(input)?, price(output)?)));
        let (input, output) = prices.ok_or_else(|| {
            Error::usage(format!("not two prices: {text}"))
                .hint("give USD per million input and output tokens, such as 0.25,2")
        })?;
        Ok(Self { input, output })
    }
}

impl fmt::Display for TokenPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.input, self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_two_numbers() {
        let price: TokenPrice = "0.25, 2".parse().unwrap();
        assert_eq!((price.input, price.output), (0.25, 2.0));
        assert_eq!(price.to_string().parse::<TokenPrice>().unwrap(), price);
        for text in ["1", "1,-2", "a,b", "1,2,3", "inf,1"] {
            let error = text.parse::<TokenPrice>().unwrap_err();
            assert!(error.hint.is_some(), "{text}");
        }
    }
}
