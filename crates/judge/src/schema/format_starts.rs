//! Starts of strings with a `format`.
//!
//! Each format has a regular expression that matches at least its strings, so a string that is not
//! the start of a match cannot become one. `email`, `regex` and the formats of international names
//! have none: nearly every text may become one.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::pattern::PrefixMatcher;

/// The longest host name in bytes (RFC 1034, section 3.1).
const MAX_HOST_NAME_BYTES: usize = 253;

const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))\
                    |(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";
const TIME: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const DURATION_DAYS: &str = "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)";
const DURATION_HOURS: &str = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
const LABEL: &str = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const OCTET: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const GROUP: &str = "[0-9A-Fa-f]{1,4}";
const UUID: &str = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}";
const URI_CHARACTER: &str = "(?:[A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})";
const IRI_CHARACTER: &str =
    "(?:[A-Za-z0-9._~:/?#\\[\\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2}|[^\\x00-\\x7F])";
const SCHEME: &str = "[A-Za-z][A-Za-z0-9+.-]*:";
const TEMPLATE: &str = "(?:[^\\x00-\\x20\"<>%\\\\^`{|}\\x7F]|%[0-9A-Fa-f]{2}|\\{[+#./;?&=,!@|]?[A-Za-z0-9_.%:*,]+\\})*";
const POINTER: &str = "(?:/(?:[^~/]|~[01])*)*";

static STARTS: LazyLock<HashMap<&str, PrefixMatcher>> = LazyLock::new(|| {
    let address = format!("{OCTET}(?:\\.{OCTET}){{3}}");
    let (days, hours) = (DURATION_DAYS, DURATION_HOURS);
    let formats = [
        ("date", DATE.to_owned()),
        ("time", TIME.to_owned()),
        ("date-time", format!("{DATE}[Tt]{TIME}")),
        (
            "duration",
            format!("P(?:[0-9]+W|{days}(?:{hours})?|{hours})"),
        ),
        ("hostname", format!("{LABEL}(?:\\.{LABEL})*")),
        ("ipv4", address.clone()),
        (
            "ipv6",
            format!(
                "(?:{GROUP}:){{7}}{GROUP}|(?:{GROUP}:){{6}}{address}\
                 |(?:{GROUP}(?::{GROUP}){{0,6}})?::(?:(?:{GROUP}:){{0,6}}(?:{GROUP}|{address}))?"
            ),
        ),
        ("uuid", UUID.to_owned()),
        ("uri", format!("{SCHEME}{URI_CHARACTER}*")),
        ("uri-reference", format!("{URI_CHARACTER}*")),
        ("iri", format!("{SCHEME}{IRI_CHARACTER}*")),
        ("iri-reference", format!("{IRI_CHARACTER}*")),
        ("uri-template", TEMPLATE.to_owned()),
        ("json-pointer", POINTER.to_owned()),
        (
            "relative-json-pointer",
            format!("(?:0|[1-9][0-9]*)(?:#|{POINTER})"),
        ),
    ];
    let matcher = |(name, regular): (_, String)| Some((name, PrefixMatcher::regular(&regular)?));
    formats.into_iter().filter_map(matcher).collect()
});

/// Whether `start` may become a string of the format. True if that is not known.
pub(super) fn may_become(format: &str, start: &str) -> bool {
    let is_too_long = format == "hostname" && start.len() > MAX_HOST_NAME_BYTES;
    let matcher = STARTS.get(format);
    !is_too_long && matcher.is_none_or(|matcher| matcher.may_continue(start))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Strings of each format, and starts that cannot become one.
    const STRINGS: [(&str, &[&str], &[&str]); 15] = [
        (
            "date",
            &[
                "2024-02-29",
                "2000-02-29",
                "1999-12-31",
                "2023-04-30",
                "0004-02-29",
            ],
            &[
                "2023-02-29",
                "1900-02-29",
                "2023-13",
                "2023-00",
                "2023-04-31",
                "20x",
                "2024-02-30",
                "2024-01-011",
            ],
        ),
        (
            "time",
            &[
                "23:59:60Z",
                "00:00:00.123+05:30",
                "12:30:45-00:00",
                "01:02:03z",
            ],
            &[
                "24",
                "12:60",
                "12:30:61",
                "12:30:45.Z",
                "12:30:45+24",
                "12:30:45Z0",
            ],
        ),
        (
            "date-time",
            &["2024-02-29T23:59:60Z", "2024-02-28t00:00:00.5+00:00"],
            &["2024-02-30", "2024-02-29 ", "2024-02-29T25"],
        ),
        (
            "duration",
            &[
                "P1Y2M3DT4H5M6S",
                "P3W",
                "PT5M",
                "P1M",
                "PT1H",
                "P10D",
                "P1DT5S",
            ],
            &["1", "P1D2", "P1W1", "PT1M2H", "PS", "P1H", "PTD"],
        ),
        (
            "hostname",
            &["a", "example.com", "a-b.c1.D", "1.2", "xn--fsqu00a"],
            &["-", "a..", "a_", "a-.", ".a", "é"],
        ),
        (
            "ipv4",
            &["0.0.0.0", "255.249.199.99", "1.20.100.9"],
            &["01", "256", "1..", "1.2.3.4.", "1.2.03", "a", "1.2.3.999"],
        ),
        (
            "ipv6",
            &[
                "::",
                "::1",
                "1::",
                "1:2:3:4:5:6:7:8",
                "fe80::a:b",
                "::ffff:1.2.3.4",
                "1:2:3:4:5:6:1.2.3.4",
                "1::2:3.4.5.6",
            ],
            &[
                "12345",
                "g",
                ":::",
                "1:2:3:4:5:6:7:8:",
                "::1::",
                "::256.",
                "1:2:3:4:5:6:7:8.1",
            ],
        ),
        (
            "uuid",
            &["123e4567-E89b-12d3-a456-426614174000"],
            &[
                "123e45678",
                "123e4567-g",
                "123e4567-E89b-12d3-a456-4266141740000",
            ],
        ),
        (
            "uri",
            &["http://a.b/c?d=e#f", "urn:x:%20", "a:", "mailto:x@y"],
            &["1", "/", "a b", "http://a b", "a:%2g", "a:<"],
        ),
        (
            "uri-reference",
            &["", "/a", "../b?c", "#d", "a:b"],
            &["a b", "%zz", "\\", "^"],
        ),
        ("iri", &["http://é.b/ü", "urn:日本"], &["é", "a b", "a:{"]),
        ("iri-reference", &["é", "/ü?x"], &["a b", "<"]),
        (
            "uri-template",
            &["/a/{b}{?c,d*}", "{+x:3}", "%20"],
            &["}", "a b", "{ ", "{}"],
        ),
        (
            "json-pointer",
            &["", "/", "/a~0b/~1/0", "//"],
            &["a", "/~2", "/~~"],
        ),
        (
            "relative-json-pointer",
            &["0", "10#", "1/a", "0/"],
            &["a", "01", "-1", "0#a", "1/~2"],
        ),
    ];

    fn validator(format: &str) -> jsonschema::Validator {
        jsonschema::options()
            .should_validate_formats(true)
            .build(&json!({ "format": format }))
            .unwrap()
    }

    #[test]
    fn every_format_has_an_automaton() {
        assert_eq!(STARTS.len(), STRINGS.len());
        assert!(
            STRINGS
                .iter()
                .all(|(format, ..)| STARTS.contains_key(format))
        );
    }

    #[test]
    fn starts_of_strings_may_become_one_and_others_may_not() {
        for (format, strings, others) in STRINGS {
            let validator = validator(format);
            for text in strings {
                assert!(validator.is_valid(&Value::from(*text)), "{format} {text:?}");
                for (end, _) in text.char_indices().chain([(text.len(), ' ')]) {
                    assert!(
                        may_become(format, &text[..end]),
                        "{format} {:?}",
                        &text[..end]
                    );
                }
            }
            for start in others {
                assert!(!may_become(format, start), "{format} {start:?}");
            }
        }
        let label = |length: usize| "a".repeat(length);
        assert!(may_become("hostname", &label(63)));
        assert!(!may_become("hostname", &label(64)));
        let name = vec![label(49); 5].join(".") + ".abc";
        assert!(may_become("hostname", &name) && validator("hostname").is_valid(&json!(name)));
        assert!(!may_become("hostname", &(name + "d")));
        assert!(may_become("email", "@") && may_become("no such format", "x"));
    }

    /// Short texts over the characters of a format: what the validator accepts has only starts that
    /// may continue.
    #[test]
    fn no_start_of_an_accepted_text_is_refused() {
        for (format, alphabet, length) in [
            ("duration", "P1YMWDTHS", 6),
            ("ipv4", "0129.", 8),
            ("ipv6", "1f:.", 7),
            ("relative-json-pointer", "01/~#a", 5),
            ("json-pointer", "/~01a", 5),
            ("uri-template", "{}a,?%2*:", 5),
            ("uri", "a:/%2[]", 5),
            ("uri-reference", "a:/%2[]@", 5),
            ("hostname", "a-.1", 6),
        ] {
            let validator = validator(format);
            let mut accepted = 0;
            let mut texts = vec![String::new()];
            for _ in 0..length {
                let longer = |text: &String| {
                    let text = text.clone();
                    alphabet.chars().map(move |next| format!("{text}{next}"))
                };
                texts = texts.iter().flat_map(longer).collect();
                // Not all of the texts: the automaton of a few thousand decides in a second.
                let step = texts.len() / 4000 + 1;
                for text in texts.iter().step_by(step) {
                    if validator.is_valid(&Value::from(text.as_str())) {
                        accepted += 1;
                        assert!(may_become(format, text), "{format} {text:?}");
                    }
                }
                texts.retain(|text| may_become(format, text));
            }
            assert!(accepted > 10, "{format}: {accepted}");
        }
    }
}
