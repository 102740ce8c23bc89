//! Comments, texts of the program and documentation keep to the words of the glossary.

use std::fs;

use regex::Regex;

use super::{is_test, root, sources};

/// Words that the project's glossary replaces, each with its replacement.
const REPLACED: [(&str, &str); 13] = [
    (
        r"nobody|somebody|no one|whoever|whomever|by whom",
        "name the program, server or user",
    ),
    (r"whatever|whichever", "any, or the condition itself"),
    (r"strangers?", "other programs, other users"),
    (r"wish(es|ed)?", "signal, request"),
    (r"heeds?|heeded", "use, apply, obey"),
    (r"tells?|told|teller", "report, state, show"),
    (r"hears?|heard|overhear\w*", "receive, read"),
    (r"knows? (no|nothing)", "say what the file is for"),
    (r"aloud|without a word", "with a warning; silently"),
    (r"posture|likeness", "name what it is"),
    (r"h[eo]ld against|held against", "compare with"),
    (r"came of|what came", "result"),
    (r"so[- ]many|so much as", "the number"),
];

/// Text that is not the project's own, or that names the word itself.
const QUOTED: [(&str, &str); 1] = [("tests/it/tidy/words.rs", "")];

/// A comment or a string literal, with its line from 1.
#[derive(Debug, PartialEq, Eq)]
struct Text {
    line: usize,
    text: String,
    is_comment: bool,
}

/// The comments and string literals of Rust code.
fn texts(code: &str) -> Vec<Text> {
    let bytes = code.as_bytes();
    let (mut texts, mut at) = (Vec::new(), 0);
    let find = |from: usize, end: &str| code[from..].find(end).map_or(code.len(), |to| from + to);
    let mut push = |start: usize, end: usize, is_comment: bool| {
        let line = code[..start].matches('\n').count() + 1;
        let text = code[start..end].to_owned();
        texts.push(Text {
            line,
            text,
            is_comment,
        });
    };
    while at < bytes.len() {
        let rest = &code[at..];
        if rest.starts_with("//") {
            let end = find(at, "\n");
            push(at, end, true);
            at = end;
        } else if rest.starts_with("/*") {
            let end = find(at, "*/");
            push(at, end, true);
            at = end;
        } else if let Some(hashes) = raw_string(rest) {
            let start = at + rest.find('"').unwrap() + 1;
            let end = find(start, &format!("\"{}", "#".repeat(hashes)));
            push(start, end, false);
            at = end + 1 + hashes;
        } else if bytes[at] == b'"' {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            let end = end.min(bytes.len());
            push(at + 1, end, false);
            at = end + 1;
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            // A character literal that could be taken for the start of a string.
            at = find(at + 2, "'") + 1;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    texts
}

/// The number of `#` of a raw string that starts here.
fn raw_string(code: &str) -> Option<usize> {
    let code = code.strip_prefix("br").or_else(|| code.strip_prefix('r'))?;
    let hashes = code.len() - code.trim_start_matches('#').len();
    code[hashes..].starts_with('"').then_some(hashes)
}

/// The part of a source file before its tests.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}

#[test]
fn comments_and_strings_are_found_in_code() {
    let code = "let a = \"one \\\" two\"; // three\nlet b = r#\"fo\"ur\"#; let c = '\"'; /* five */ 'x: loop {}";
    let texts = texts(code);
    let found: Vec<(usize, &str, bool)> = texts
        .iter()
        .map(|text| (text.line, &*text.text, text.is_comment))
        .collect();
    let expected = [
        (1, "one \\\" two", false),
        (1, "// three", true),
        (2, "fo\"ur", false),
        (2, "/* five ", true),
    ];
    assert_eq!(found, expected);
}

#[test]
fn texts_keep_to_the_glossary() {
    let words: Vec<(Regex, &str)> = REPLACED
        .iter()
        .map(|(words, instead)| {
            (
                Regex::new(&format!(r"(?i)\b({words})\b")).unwrap(),
                *instead,
            )
        })
        .collect();
    let mut found = Vec::new();
    let mut look = |name: &str, line: usize, text: &str| {
        for (word, instead) in &words {
            let quoted = |word: &str| {
                QUOTED
                    .iter()
                    .any(|(file, quote)| *file == name && (quote.is_empty() || *quote == word))
            };
            for hit in word.find_iter(text).filter(|hit| !quoted(hit.as_str())) {
                let line = line + text[..hit.start()].matches('\n').count();
                found.push(format!("{name}:{line}: {:?}: {instead}", hit.as_str()));
            }
        }
    };
    for (name, code) in sources() {
        let shown = if is_test(&name) || name.starts_with("tests/") {
            ""
        } else {
            without_tests(&code)
        };
        for text in texts(&code) {
            let is_shown = || text.line <= shown.lines().count();
            if text.is_comment || is_shown() {
                look(&name, text.line, &text.text);
            }
        }
    }
    for name in pages() {
        look(&name, 1, &fs::read_to_string(root().join(&name)).unwrap());
    }
    assert!(
        found.is_empty(),
        "{} words to replace:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// The pages of the documentation and those for developers.
fn pages() -> Vec<String> {
    let mut pages = vec![
        "README.md".to_owned(),
        "ARCHITECTURE.md".to_owned(),
        "CONTRIBUTING.md".to_owned(),
        "CHANGELOG.md".to_owned(),
    ];
    // The other pages of docs/results quote answers of models.
    for folder in [
        "docs",
        "docs/guides",
        "docs/decisions",
        "docs/reference",
        "docs/results/findings",
    ] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                pages.push(format!("{folder}/{name}"));
            }
        }
    }
    pages.sort();
    pages
}
