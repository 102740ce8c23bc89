//! Tests of `pattern` against Python and ECMAScript.

use super::*;
use sobench_core::verdict::NotScored;

fn matches(pattern: &str, text: &str, dialect: Dialect, extent: Extent) -> Result<bool, NotScored> {
    Matcher::new(&parse(pattern, dialect)?, extent)?.is_match(text)
}

/// Pattern, text, and the results of `re.fullmatch` and `re.match` of CPython 3.11.7.
const PYTHON_RESULTS: &[(&str, &str, bool, bool)] = &[
    ("a$", "a", true, true),
    ("a$", "a\n", false, true),
    ("a$\\n", "a\n", true, true),
    ("(a$|b)\\n", "a\n", true, true),
    ("(a$|b)\\n", "b\n", true, true),
    ("(?:a$)?\\n", "a\n", true, true),
    ("(a$)*\\n", "a\n", true, true),
    ("a$$", "a", true, true),
    ("^a$|^b$", "b", true, true),
    ("(?=a$)a\\n", "a\n", true, true),
    ("(?=a$)a", "a", true, true),
    ("(?!a$)a\\n", "a\n", false, false),
    ("(?m)a$\\nb", "a\nb", true, true),
    ("(?m)^b$", "a\nb", false, false),
    ("(?m:a$)\\n", "a\n", true, true),
    ("a\\Z", "a", true, true),
    ("a\\Z\\n", "a\n", false, false),
    ("\\Aa", "a", true, true),
    ("\\w+", "zo\u{eb}_9", true, true),
    ("\\w", "\u{301}", false, false),
    ("\\w", "\u{b2}", true, true),
    ("\\w", "\u{203f}", false, false),
    ("\\w", "\u{2160}", true, true),
    ("\\W", "\u{301}", true, true),
    ("[\\w-]+", "a-b", true, true),
    ("[^\\w]", "\u{301}", true, true),
    ("[\\W]", "\u{301}", true, true),
    ("[\\Wa]+", "\u{301}a", true, true),
    ("\\s", "\u{1f}", true, true),
    ("[\\s]", "\u{1c}", true, true),
    ("\\S", "\u{1f}", false, false),
    ("[^\\s]", "\u{1f}", false, false),
    ("\\s", "\u{85}", true, true),
    ("\\s", "\u{180e}", false, false),
    ("\\d", "\u{664}", true, true),
    ("(?a)\\d", "\u{664}", false, false),
    ("(?a)\\w", "\u{eb}", false, false),
    ("(?a:\\w)\\w", "a\u{eb}", true, true),
    ("(?a)\\s", "\u{a0}", false, false),
    ("(?a)[\\W]", "\u{eb}", true, true),
    ("a{,2}", "aa", true, true),
    ("a{,2}", "aaa", false, true),
    ("a{,}", "aaaa", true, true),
    ("a{2}", "aa", true, true),
    ("a{2,}", "aaa", true, true),
    ("a{2,3}?", "aaa", true, true),
    ("a{}", "a{}", true, true),
    ("a{x}", "a{x}", true, true),
    ("a{1", "a{1", true, true),
    ("{", "{", true, true),
    ("}", "}", true, true),
    ("]", "]", true, true),
    ("a{1,2,3}", "a{1,2,3}", true, true),
    ("a{ 1}", "a{ 1}", true, true),
    ("a|b", "b", true, true),
    ("a|ab", "ab", true, true),
    ("(a|ab)(c|bcd)", "abcd", true, true),
    ("|a", "", true, true),
    ("()", "", true, true),
    ("a??", "a", true, true),
    ("a*?", "aaa", true, true),
    ("a++", "aaa", true, true),
    ("a++a", "aaa", false, false),
    ("a*+b", "aab", true, true),
    ("a?+a", "a", false, false),
    ("(?:ab)++", "abab", true, true),
    ("a{1,2}+a", "aa", false, false),
    ("a{1,2}+a", "aaa", true, true),
    ("(?>a|ab)c", "abc", false, false),
    ("(?>ab|a)c", "abc", true, true),
    ("(a)(b)\\2\\1", "abba", true, true),
    ("(a)\\1\\1", "aaa", true, true),
    ("(a)(?:\\1)0", "aa0", true, true),
    ("(?P<q>[\"'])x(?P=q)", "\"x\"", true, true),
    ("(?P<q>[\"'])x(?P=q)", "\"x'", false, false),
    ("(a)?(?(1)b|c)", "ab", true, true),
    ("(a)?(?(1)b|c)", "c", true, true),
    ("(?P<n>a)?(?(n)b|c)", "ac", false, false),
    ("(?i)(a)\\1", "aA", true, true),
    ("(?=.*\\d)\\w+", "ab1", true, true),
    ("(?!.*x)\\w+", "abx", false, false),
    ("a(?<=a)b", "ab", true, true),
    ("a(?<!a)b", "ab", false, false),
    ("(?#note)a", "a", true, true),
    ("(?i)YES", "yes", true, true),
    ("(?i:y)ES", "yES", true, true),
    ("(?i:y)ES", "yes", false, false),
    ("(?i)stra\u{df}e", "STRASSE", false, false),
    ("(?i-s:a.)", "A\n", false, false),
    ("(?s-i:a.)", "a\n", true, true),
    ("(?s)a.b", "a\nb", true, true),
    ("a.b", "a\rb", true, true),
    ("a.b", "a\u{2028}b", true, true),
    ("(?x) a b \\  [ #] # end\n c", "ab  c", true, true),
    ("(?x) a b \\  [ #] # end\n c", "ab #c", true, true),
    ("(?x:a b)c d", "abc d", true, true),
    ("(?x) a +", "aaa", true, true),
    ("(?i)(?s)A.", "a\n", true, true),
    ("[]a]+", "]a", true, true),
    ("[^]a]", "b", true, true),
    ("[^]a]", "]", false, false),
    ("[[a]+", "[a", true, true),
    ("[a&&b]+", "&ab", true, true),
    ("[a-]+", "-a", true, true),
    ("[-a]+", "-a", true, true),
    ("[a\\-z]+", "-", true, true),
    ("[a\\-z]", "b", false, false),
    ("[\\]]", "]", true, true),
    ("[\\b]", "\u{8}", true, true),
    ("[\\d.]+", "1.5", true, true),
    ("[.]", "x", false, false),
    ("[\\x41-\\u0043]+", "ABC", true, true),
    ("[a~~b|]+", "~|", true, true),
    ("[\\\\]", "\\", true, true),
    ("[\\n\\t]+", "\n\t", true, true),
    ("[^a]", "\n", true, true),
    ("[a-c-e]+", "b-e", true, true),
    ("\\x41\\u00e9\\U0001f600", "A\u{e9}\u{1f600}", true, true),
    ("\\012", "\n", true, true),
    ("\\0", "\u{0}", true, true),
    ("\\08", "\u{0}8", true, true),
    ("\\101", "A", true, true),
    ("[\\101]", "A", true, true),
    ("\\a\\f\\v", "\u{7}\u{c}\u{b}", true, true),
    ("\\.\\/\\-\\@\\\"\\ ", "./-@\" ", true, true),
    ("\\D(?=)+", "²", true, true),
    ("(?=a)?b", "b", true, true),
    ("(?#note)(?i)a", "A", true, true),
    ("\\w\\b", "²", true, true),
    ("\\b", "²", false, true),
    ("a\\b.", "a\u{301}", true, true),
    ("a\\B.", "a\u{301}", false, false),
    ("\\#\\&\\~", "#&~", true, true),
    ("\\b\\w+\\b", "word", true, true),
    ("a\\Bb", "ab", true, true),
    ("(?a)(?=a)\\ba\\b", "a", true, true),
    ("(?a)(?=a)a\\B", "a", false, false),
    ("(?:)*a", "a", true, true),
    ("(?:$)*", "", true, true),
    ("(?:(?=a))+a", "a", true, true),
    ("(?:(?=b))+a", "a", false, false),
    ("(?:(?:(?<!b)))?a", "a", true, true),
    ("(?i:(?=b)){2}a", "a", false, false),
    ("a\\bb", "ab", false, false),
    ("(?a)a\\b\u{eb}", "a\u{eb}", true, true),
    ("\u{e9}+", "\u{e9}\u{e9}", true, true),
    ("#", "#", true, true),
    (" a ", " a ", true, true),
    ("a\nb", "a\nb", true, true),
];

#[test]
fn re_matches_agree_with_python() {
    let mut differences = Vec::new();
    for (pattern, text, full, prefix) in PYTHON_RESULTS {
        let actual = (
            matches(pattern, text, Dialect::Re, Extent::Full),
            matches(pattern, text, Dialect::Re, Extent::Prefix),
        );
        if actual != (Ok(*full), Ok(*prefix)) {
            differences.push(format!("{pattern:?} on {text:?}: {actual:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Patterns that `re.compile` of CPython 3.11.7 refuses.
#[test]
fn patterns_that_python_refuses_are_refused() {
    for pattern in [
        "a**",
        "a*{2}",
        "^*",
        "*a",
        "a|*",
        "(",
        "a(",
        ")",
        "[",
        "[]",
        "[^]",
        "[a--b]",
        "[\\w-a]",
        "[z-a]",
        "a{2,1}",
        "\\",
        "\\1",
        "(a)\\10",
        "(\\1a)",
        "\\e",
        "\\Q",
        "[\\z]",
        "a(?i)b",
        "(?<!",
        "(?P<1>a)",
        "(?P=n)",
        "(?P<n>a)(?P<n>b)",
        "(?(1)a|b)",
        "(?L)a",
        "(?y)a",
        "(?",
        "(?P",
        "\\x4",
        "\\u12",
        "\\400",
        "a+++",
        "(?Pa)",
        "\\U00110000",
        "(?-:a)",
    ] {
        let refused = matches(pattern, "", Dialect::Re, Extent::Full);
        assert!(
            matches!(refused, Err(NotScored::Unsupported { .. })),
            "{pattern:?}: {refused:?}"
        );
    }
}

/// Constructs that engines accept and `re` refuses.
#[test]
fn constructs_of_engines_are_accepted() {
    for (pattern, text) in [
        ("\\p{Lu}\\P{Lu}", "Éé"),
        ("\\pL", "é"),
        ("a\\z", "a"),
        ("(?<n>a)(?P=n)", "aa"),
        ("a(?<=x*a)", "a"),
    ] {
        assert_eq!(
            matches(pattern, text, Dialect::Re, Extent::Full),
            Ok(true),
            "{pattern:?}"
        );
    }
}

/// Not scored if ECMAScript resets a capture that the engine keeps. Scored if both keep or set it.
#[test]
fn captures_of_earlier_iterations_are_not_scored() {
    for (pattern, text, expected) in [
        ("^(?:(a)|b\\1)+$", "ab", None),
        ("^(?:\\1b(a)?)*$", "bab", None),
        ("^(?:(a)?b\\1)+$", "abab", None),
        ("^(?:(a|b)\\1)+$", "aabb", Some(true)),
        ("^(?:(a|b)\\1)+$", "abba", Some(false)),
        ("^(a)(?:b\\1)*$", "abaXba", Some(false)),
        ("^(a)(?:b\\1|c)*$", "abacba", Some(true)),
        ("^(?:(a)|b)\\1$", "b", Some(true)),
    ] {
        let found = matches(pattern, text, Dialect::Ecma, Extent::Search);
        assert_eq!(
            found.as_ref().ok().copied(),
            expected,
            "{pattern:?} on {text:?}: {found:?}"
        );
    }
}

/// Results by ECMA-262 (with Annex B), for a search.
#[test]
fn ecma_matches_agree_with_the_standard() {
    for (pattern, text, expected) in [
        ("b", "abc", true),
        ("^a|b$", "ax", true),
        ("a$", "a\n", false),
        ("^.$", "\r", false),
        ("^.$", "\u{2028}", false),
        ("^.$", "\u{85}", true),
        ("^.$", "😀", true),
        ("(?s:^.$)", "\n", true),
        ("^\\d$", "٣", false),
        ("^(?=\\d).$", "٣", false),
        ("^\\w$", "é", false),
        ("^(?!x)\\w$", "é", false),
        ("^\\W$", "é", true),
        ("^\\s$", "\u{feff}", true),
        ("^\\s$", "\u{85}", false),
        ("^\\S$", "\u{a0}", false),
        ("\\bfoo\\b", "éfooé", true),
        ("^(?=.*\\d)\\b\\w+\\b$", "foo1", true),
        ("(?!x)\\bfoo\\b", "éfooé", true),
        ("(?!x)\\Bfoo", "éfoo", false),
        ("^(?:(?=a))*a", "a", true),
        ("^(?:)*a", "a", true),
        ("^[^]$", "\n", true),
        ("[]", "a", false),
        ("^[\\w-.]+$", "a-b.c", true),
        ("^[[a]+$", "[a", true),
        ("^[a&&b]+$", "&", true),
        ("^[\\b]$", "\u{8}", true),
        ("^a{,2}$", "a{,2}", true),
        ("^{a}$", "{a}", true),
        ("^]}$", "]}", true),
        ("^\\cJ\\0\\x41\\u0042\\u{43}$", "\n\0ABC", true),
        ("^\\ud83d\\ude00$", "😀", true),
        ("^[\\ud83d\\ude00]$", "😀", true),
        ("^(?<y>a|b)-\\k<y>$", "b-b", true),
        ("^(?<y>a|b)-\\k<y>$", "a-b", false),
        ("^(?:(a)|b)\\1$", "b", true),
        ("^(a\\1)$", "a", true),
        ("^(?<!x)a(?<=a)$", "a", true),
        ("^\\p{Script=Greek}\\p{L}$", "αb", true),
        ("^\\/\\-\\_$", "/-_", true),
        ("(?i)^YES$", "yes", true),
    ] {
        assert_eq!(
            matches(pattern, text, Dialect::Ecma, Extent::Search),
            Ok(expected),
            "{pattern:?} on {text:?}"
        );
    }
    for pattern in [
        "a\\Z", "\\A", "a++", "(?>a)", "(?#x)", "(?P<n>a)", "(?(1)a)", "\\a", "\\2", "\\k<n>",
        "[z-a]", "(?m)a", "a**",
    ] {
        let refused = matches(pattern, "", Dialect::Ecma, Extent::Search);
        assert!(
            matches!(refused, Err(NotScored::Unsupported { .. })),
            "{pattern:?}: {refused:?}"
        );
    }
}

#[test]
fn limits_are_not_scored() {
    let assert_limited = |pattern: &str, text: &str| {
        let result = matches(pattern, text, Dialect::Re, Extent::Full);
        assert!(matches!(result, Err(NotScored::Limit { .. })), "{result:?}");
    };
    assert_limited(&"a".repeat(70_000), "a");
    assert_limited("(\\w{500}){500}", "a");
    assert_limited("(?=(\\w{500}){500})a", "a");
    assert_limited("(?=(a+)+$)(a|aa)+\\1b", &"a".repeat(40));
}
