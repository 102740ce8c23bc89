//! Checks of flag values that several commands share.

use std::net::Ipv6Addr;
use std::time::Duration;

use serde_json::{Map, Value};

use sobench_core::constraint::GrammarDialect;
use sobench_core::error::{Error, Result};

/// Checks the URL of `--base-url`.
///
/// # Errors
/// The scheme is neither http nor https; an IPv6 address without brackets.
pub fn checked_url(url: &str) -> Result<String> {
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|scheme| url.starts_with(scheme));
    let error = |what: &str, hint: String| {
        Err(Error::usage(format!("--base-url is {what}: {url}")).hint(hint))
    };
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let Some(scheme) = scheme else {
        let path = url.strip_prefix("unix:").unwrap_or(address);
        if url.starts_with('/') || url.contains("unix:") || path.ends_with(".sock") {
            let path = format!("/{}", path.trim_start_matches('/'));
            return error(
                "a unix socket, but sobench connects by TCP",
                format!(
                    "try socat TCP-LISTEN:8000,fork,reuseaddr UNIX-CONNECT:{path} and http://127.0.0.1:8000"
                ),
            );
        }
        return error("not an http or https URL", format!("try http://{address}"));
    };
    let authority = address.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if !host.starts_with('[') && host.matches(':').count() > 1 {
        let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
        let (ip, port) = match host.rsplit_once(':') {
            Some((ip, port)) if is_address(ip) && port.parse::<u16>().is_ok() => {
                (ip, format!(":{port}"))
            }
            _ => (host, String::new()),
        };
        let bracketed = address.replacen(host, &format!("[{ip}]{port}"), 1);
        return error(
            "an IPv6 address without brackets",
            format!("try {scheme}{bracketed}"),
        );
    }
    Ok(url.to_owned())
}

/// Parses the `KEY=VALUE` pairs of a flag, in order.
///
/// # Errors
/// One of them has no `=` or an empty key.
pub fn key_values(flag: &str, pairs: &[String]) -> Result<Vec<(String, String)>> {
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
pub fn json_object(flag: &str, text: &str) -> Result<Map<String, Value>> {
    serde_json::from_str(text).map_err(|error| {
        Error::usage(format!("{flag} is not a JSON object ({error}): {text}"))
            .hint(format!(r#"try {flag} '{{"seed": 1}}'"#))
    })
}

/// The notation of `--grammar-dialect`; `None` for `auto`.
pub fn grammar_notation(typed: &str) -> Option<GrammarDialect> {
    [GrammarDialect::Lark, GrammarDialect::Ebnf]
        .into_iter()
        .find(|dialect| dialect.name() == typed)
}

/// Converts seconds to a duration above zero.
///
/// # Errors
/// The value is not above zero, or too large.
pub fn seconds(flag: &str, value: f64) -> Result<Duration> {
    let time = Duration::try_from_secs_f64(value)
        .ok()
        .filter(|time| !time.is_zero());
    time.ok_or_else(|| {
        Error::usage(format!("{flag} is not a time: {value}")).hint("give seconds above 0")
    })
}

#[cfg(test)]
mod tests {
    use super::checked_url;

    #[test]
    fn addresses_that_are_no_url_have_a_hint() {
        for (url, what, hint) in [
            (
                "localhost:8000",
                "not an http or https URL",
                "try http://localhost:8000",
            ),
            (
                "http://::1:8000/v1",
                "an IPv6 address without brackets",
                "try http://[::1]:8000/v1",
            ),
            (
                "https://fe80::a",
                "an IPv6 address without brackets",
                "try https://[fe80::a]",
            ),
            (
                "unix:///run/llm.sock",
                "a unix socket",
                "UNIX-CONNECT:/run/llm.sock",
            ),
            (
                "http+unix:///run/llm.sock",
                "a unix socket",
                "UNIX-CONNECT:/run/llm.sock",
            ),
            ("/run/llm", "a unix socket", "UNIX-CONNECT:/run/llm"),
        ] {
            let error = checked_url(url).unwrap_err();
            let shown = format!("{error} {}", error.hint.clone().unwrap_or_default());
            assert!(
                shown.contains(what) && shown.contains(hint),
                "{url}: {shown}"
            );
        }
        for url in ["http://[::1]:8000", "https://user:word@host:1/a:b:c"] {
            assert_eq!(checked_url(url).unwrap(), url);
        }
    }
}
