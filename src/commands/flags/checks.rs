//! Checks of flag values that several commands share.

use std::time::Duration;

use serde_json::{Map, Value};

use sobench_core::constraint::GrammarDialect;
use sobench_core::error::{Error, Result};

/// Checks the URL of `--base-url`.
///
/// # Errors
/// The scheme is neither http nor https.
pub(crate) fn checked_url(url: &str) -> Result<String> {
    if url.starts_with("http://") || url.starts_with("https://") {
        return Ok(url.to_owned());
    }
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    Err(
        Error::usage(format!("--base-url is not an http or https URL: {url}"))
            .hint(format!("try http://{address}")),
    )
}

/// Parses the `KEY=VALUE` pairs of a flag, in order.
///
/// # Errors
/// One of them has no `=` or an empty key.
pub(crate) fn key_values(flag: &str, pairs: &[String]) -> Result<Vec<(String, String)>> {
    let split = |pair: &String| {
        let (key, value) = pair
            .split_once('=')
            .filter(|(key, _)| !key.trim().is_empty())
            .ok_or_else(|| {
                Error::usage(format!("{flag} is not KEY=VALUE: {pair}"))
                    .hint(format!("try {flag} name=value"))
            })?;
        Ok((key.trim().to_owned(), value.to_owned()))
    };
    pairs.iter().map(split).collect()
}

/// Parses the JSON object of a flag.
///
/// # Errors
/// The text is not a JSON object.
pub(crate) fn json_object(flag: &str, text: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(text).map_err(|error| {
        Error::usage(format!("{flag} is not a JSON object ({error}): {text}"))
            .hint(format!(r#"try {flag} '{{"seed": 1}}'"#))
    })
}

/// The notation of `--grammar-dialect`; `None` for `auto`.
pub(crate) fn grammar_notation(typed: &str) -> Option<GrammarDialect> {
    [GrammarDialect::Lark, GrammarDialect::Ebnf]
        .into_iter()
        .find(|dialect| dialect.name() == typed)
}

/// Converts seconds to a duration above zero.
///
/// # Errors
/// The value is not above zero, or too large.
pub(crate) fn seconds(flag: &str, value: f64) -> Result<Duration> {
    let time = Duration::try_from_secs_f64(value)
        .ok()
        .filter(|time| !time.is_zero());
    time.ok_or_else(|| {
        Error::usage(format!("{flag} is not a time: {value}")).hint("give seconds above 0")
    })
}
