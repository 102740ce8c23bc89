//! Answers that are too long, too deep, or empty.

use serde_json::json;

use super::inputs::schema;
use super::{check, items, members};

#[test]
fn answers_of_every_size_are_judged_or_refused_with_the_limit() {
    let any = schema(json!({}));
    let digits = "9".repeat(1 << 20);
    for (what, text, expected) in [
        (
            "50 MB",
            format!("\"{}\"", "x".repeat(50 << 20)),
            "invalid too_long",
        ),
        (
            "a million levels",
            "[".repeat(1_000_000),
            "invalid not_json",
        ),
        (
            "500,000 levels, closed",
            "[".repeat(500_000) + &"]".repeat(500_000),
            "invalid too_deep",
        ),
        ("objects", "{\"a\":".repeat(200_000), "invalid not_json"),
        (
            "prose before depth",
            format!("so {}", "{\"a\":[".repeat(170_000)),
            "invalid not_json",
        ),
        (
            "prose before braces",
            format!("so {}", "{ ".repeat(500_000)),
            "invalid not_json",
        ),
        ("white space", " \n".repeat(500_000), "invalid not_json"),
        (
            "2 MB of white space",
            format!("{{}}{}", " \n".repeat(1 << 20)),
            "invalid runaway_whitespace",
        ),
        ("empty", String::new(), "invalid empty"),
        ("NUL", "\0".to_owned(), "invalid not_json"),
        ("NUL in a string", "\"\0\"".to_owned(), "invalid not_json"),
        ("a BOM", "\u{feff}{}".to_owned(), "invalid extra_text"),
        (
            "a lone surrogate",
            "\"\\ud800\"".to_owned(),
            "invalid lone_surrogate",
        ),
        (
            "100,000 equal names",
            members(100_000, |_| "\"a\":1".into()),
            "invalid duplicate_key",
        ),
        ("a megabyte of digits", digits.clone(), "valid"),
        ("an exponent", "1e999999999".to_owned(), "valid"),
        (
            "an exponent beyond 64 bits",
            "1e99999999999999999999999999".to_owned(),
            "valid",
        ),
        (
            "an unterminated string",
            "\"".to_owned() + &"a".repeat(1_000_000),
            "invalid not_json",
        ),
    ] {
        check(what, &any, &text, expected);
    }
    check(
        "digits under bounds",
        &schema(json!({ "type": "integer", "maximum": 5 })),
        &digits,
        "invalid maximum",
    );
    check(
        "digits under multipleOf",
        &schema(json!({ "multipleOf": 7 })),
        &digits,
        "invalid multipleOf",
    );
    let integers = schema(json!({ "items": { "type": "integer" } }));
    check(
        "many exponents",
        &integers,
        &items(80_000, |_| "1e999999999".into()),
        "valid",
    );
    // The library makes the powers of ten of these.
    for exponent in ["1e9998", "1e-9998"] {
        for rule in [
            json!({ "type": ["number", "null"] }),
            json!({ "not": { "const": 0 } }),
        ] {
            check(
                &format!("many of {exponent} under {rule}"),
                &schema(json!({ "items": rule })),
                &items(100_000, |_| exponent.into()),
                "limit validation over",
            );
        }
    }
}

#[test]
fn unique_items_take_linear_time_for_all_values() {
    let unique = schema(json!({ "uniqueItems": true }));
    for (what, text, expected) in [
        (
            "numbers",
            items(100_000, |index| index.to_string()),
            "valid",
        ),
        (
            "numbers beyond binary64 with equal hashes",
            items(50_000, |index| format!("1e{}", 1_000_000 + index)),
            "valid",
        ),
        (
            "numbers within one binary64",
            items(30_000, |index| format!("9007199254740992.{index:05}1")),
            "valid",
        ),
        (
            "arrays",
            items(100_000, |index| format!("[{index}]")),
            "valid",
        ),
        (
            "objects",
            items(50_000, |index| format!("{{\"a\":{index}}}")),
            "valid",
        ),
        (
            "a duplicate at the end",
            items(100_001, |index| {
                format!("{}", index.max(1) - usize::from(index == 100_000))
            }),
            "invalid uniqueItems",
        ),
        (
            "a duplicate in another spelling",
            items(20, |index| {
                if index == 19 {
                    "10e-1".into()
                } else {
                    index.to_string()
                }
            }),
            "invalid uniqueItems",
        ),
    ] {
        check(what, &unique, &text, expected);
    }
}
