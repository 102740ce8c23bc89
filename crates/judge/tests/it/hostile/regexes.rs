//! Regexes that backtrack, use look-around, repeat without limit or are invalid.

use super::check;
use super::inputs::regex;

#[test]
fn regexes_are_matched_in_limited_time_or_refused_with_the_limit() {
    let alternatives = |count: usize| {
        (0..count)
            .map(|index| format!("word{index}"))
            .collect::<Vec<_>>()
            .join("|")
    };
    let a = |count: usize| "a".repeat(count);
    for (pattern, text, expected) in [
        ("(a+)+$".to_owned(), a(50_000) + "b", "invalid regex"),
        ("(a|aa)*(?=b)b".to_owned(), a(10_000), "limit regex over"),
        ("(?=a)a(?!b)".to_owned(), a(1), "valid"),
        ("(a*)\\1b".to_owned(), a(5_000), "invalid regex"),
        ("(.*)(.*)\\1\\2x".to_owned(), a(500_000), "limit regex over"),
        ("(?<=a*)b".to_owned(), "b".to_owned(), "valid"),
        (
            "(?:(?=.*b)a)*c".to_owned(),
            a(1_000_000) + "b",
            "limit text over 16384 bytes for a regex with look-around",
        ),
        (
            "(?:(?<=a*)a)*c".to_owned(),
            a(1_000_000),
            "limit text over 16384 bytes for a regex with look-around",
        ),
        (
            "(?:(?=(?:(?=.*b)a)*)a)*c".to_owned(),
            a(10_000),
            "limit text over 512 bytes for a regex with look-around",
        ),
        ("(a{1000}){1000}".to_owned(), a(1), "invalid regex"),
        (
            "((((a{100}){100}){100}){100}){100}".to_owned(),
            a(1),
            "limit regex compiles to over 33554432 bytes",
        ),
        (
            "a{4294967295}".to_owned(),
            a(1),
            "limit regex compiles to over",
        ),
        (
            "a{99999999999999999999}".to_owned(),
            a(1),
            "unsupported regex: repetition count is too large",
        ),
        (
            "(?:(?:){1000000000}){1000000000}".to_owned(),
            String::new(),
            "valid",
        ),
        (
            alternatives(120_000),
            "word5".to_owned(),
            "limit regex over 65536 bytes",
        ),
        (alternatives(6_000), "word5999".to_owned(), "valid"),
        (
            "[\\p{L}\\p{N}]{1000}".to_owned(),
            a(1),
            "limit regex compiles to over",
        ),
        ("\\w".repeat(1000), a(1), "limit regex compiles to over"),
        (
            "\\b\\w".repeat(10_000),
            a(1),
            "limit regex with over 1000 look-arounds",
        ),
        (
            "(".repeat(30_000) + "a" + &")".repeat(30_000),
            a(1),
            "unsupported regex: exceed the maximum number of nested",
        ),
        (
            "(?=a)".to_owned() + &"(".repeat(2_000) + "a" + &")".repeat(2_000),
            a(1),
            "unsupported regex",
        ),
        (
            "(?:$|a)".repeat(9_000),
            a(1),
            "limit regex with over 1000 look-arounds",
        ),
        (
            "(?=".repeat(15_000) + "a" + &")".repeat(15_000),
            a(1),
            "limit regex with over 1000 look-arounds",
        ),
        ("(?:a?){0,100}".repeat(100), a(300), "valid"),
        (
            "(.{0,900}x)*y".to_owned(),
            "x".repeat(1_000_000),
            "invalid regex",
        ),
        ("(a".to_owned(), a(1), "unsupported regex: unclosed group"),
        ("a**".to_owned(), a(1), "unsupported regex: multiple repeat"),
    ] {
        check(
            &pattern.chars().take(40).collect::<String>(),
            &regex(&pattern),
            &text,
            expected,
        );
    }
}
