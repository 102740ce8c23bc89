//! Formats and parses dates in UTC with `chrono`. Instants are arguments, so no clock is read.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, NaiveDateTime, Utc};

/// vLLM's date format.
const VLLM_DATE: &str = "%Y%m%d-%H%M%S";

/// Directives that [`strftime`] accepts: those with the same meaning in `chrono` and C.
const DIRECTIVES: [&str; 24] = [
    "Y", "y", "m", "-m", "b", "h", "B", "d", "-d", "e", "j", "a", "A", "H", "-H", "I", "-I", "M",
    "S", "p", "F", "T", "D", "%",
];

/// Words of a log line in which its time is: processes may write their name first.
const LOG_PREFIX_WORDS: usize = 6;

/// Formats an instant in ISO 8601 with microseconds, as Python's `isoformat` does.
pub fn timestamp(instant: SystemTime) -> String {
    DateTime::<Utc>::from(instant)
        .format("%Y-%m-%dT%H:%M:%S%.6f+00:00")
        .to_string()
}

/// Formats an instant as vLLM does.
pub fn date(instant: SystemTime) -> String {
    DateTime::<Utc>::from(instant).format(VLLM_DATE).to_string()
}

/// Converts a date of [`date`] to ISO 8601 without a zone; `None` if it is malformed.
pub fn iso_8601(date: &str) -> Option<String> {
    let date = NaiveDateTime::parse_from_str(date, VLLM_DATE).ok()?;
    Some(date.format("%Y-%m-%dT%H:%M:%S").to_string())
}

/// Parses an instant in RFC 3339 and UTC, such as `2026-03-01T12:00:00Z`, to the time since 1970;
/// `None` if it is malformed or in another zone.
pub fn parse_unix_time(text: &str) -> Option<Duration> {
    let instant = DateTime::parse_from_rfc3339(text).ok()?;
    // RFC 3339 allows a blank for the `T`, but a shell would split the argument.
    let is_accepted = instant.offset().local_minus_utc() == 0 && !text.contains(' ');
    let whole_s = u64::try_from(instant.timestamp()).ok()?;
    is_accepted.then(|| Duration::new(whole_s, instant.timestamp_subsec_nanos()))
}

/// Seconds since 1970 of an instant in RFC 3339, in any zone; `None` if it is malformed.
pub fn unix_seconds(text: &str) -> Option<f64> {
    let instant = DateTime::parse_from_rfc3339(text).ok()?;
    Some(instant.timestamp_micros() as f64 / 1e6)
}

/// The time in the prefix of a line of vLLM's log, such as `INFO 11-05 12:39:35 [logger.py:40]`, in
/// seconds from an unknown year; `None` if the line has no time.
pub fn log_seconds(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().take(LOG_PREFIX_WORDS).collect();
    words.windows(2).find_map(|pair| {
        // Lines have no year. This one has a 29 February.
        let text = format!("2024-{} {}", pair[0], pair[1]);
        let time = NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S").ok()?;
        Some(time.and_utc().timestamp() as f64)
    })
}

/// `strftime` in C's default locale, for chat templates. `unix_s` counts seconds from 1970-01-01.
///
/// # Errors
/// The first unknown directive.
pub fn strftime(format: &str, unix_s: i64) -> Result<String, String> {
    let mut characters = format.chars();
    while characters.any(|character| character == '%') {
        let mut directive: String = characters.next().into_iter().collect();
        if directive == "-" {
            directive.extend(characters.next());
        }
        if !DIRECTIVES.contains(&directive.as_str()) {
            return Err(format!("%{directive}"));
        }
    }
    Ok(DateTime::from_timestamp(unix_s, 0)
        .unwrap_or_default()
        .format(format)
        .to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: `datetime.fromtimestamp(s, timezone.utc).strftime(...)` of CPython 3.11.
    #[test]
    fn strftime_matches_python() {
        let format = "%Y-%m-%d %b %B %a %A %y %H:%M:%S %I %p %j %e|%-d.%-m.|%F %T %D %%";
        for (unix_s, expected) in [
            (
                0,
                "1970-01-01 Jan January Thu Thursday 70 00:00:00 12 AM 001  1|1.1.|1970-01-01 00:00:00 01/01/70 %",
            ),
            (
                1721952000,
                "2024-07-26 Jul July Fri Friday 24 00:00:00 12 AM 208 26|26.7.|2024-07-26 00:00:00 07/26/24 %",
            ),
            (
                1709251199,
                "2024-02-29 Feb February Thu Thursday 24 23:59:59 11 PM 060 29|29.2.|2024-02-29 23:59:59 02/29/24 %",
            ),
            (
                951868800,
                "2000-03-01 Mar March Wed Wednesday 00 00:00:00 12 AM 061  1|1.3.|2000-03-01 00:00:00 03/01/00 %",
            ),
            (
                4107542399,
                "2100-02-28 Feb February Sun Sunday 00 23:59:59 11 PM 059 28|28.2.|2100-02-28 23:59:59 02/28/00 %",
            ),
            (
                -1,
                "1969-12-31 Dec December Wed Wednesday 69 23:59:59 11 PM 365 31|31.12.|1969-12-31 23:59:59 12/31/69 %",
            ),
        ] {
            assert_eq!(strftime(format, unix_s).unwrap(), expected);
        }
    }

    #[test]
    fn unknown_directives_are_reported() {
        assert_eq!(strftime("%d %Q", 0), Err("%Q".to_owned()));
        assert_eq!(strftime("100%", 0), Err("%".to_owned()));
    }

    #[test]
    fn instants_are_formatted_as_in_python_and_vllm() {
        let instant = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_709_251_199_000_042_999);
        assert_eq!(timestamp(instant), "2024-02-29T23:59:59.000042+00:00");
        assert_eq!(date(instant), "20240229-235959");
    }

    #[test]
    fn dates_in_iso_8601_have_no_zone() {
        assert_eq!(
            iso_8601("20260102-030405").as_deref(),
            Some("2026-01-02T03:04:05")
        );
        for malformed in [
            "",
            "-",
            "2026é02-030405",
            "20260102-03040é",
            "20261302-030405",
        ] {
            assert_eq!(iso_8601(malformed), None, "{malformed}");
        }
    }
}
