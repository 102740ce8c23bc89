//! Compares the output on a page with the printed output by shape: numbers, units, paths and line
//! breaks may differ.

use std::sync::LazyLock;

use regex::Regex;

/// Patterns of variable text, in the order of replacement, each with its placeholder.
static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        // Paths from the root or the home folder.
        (r#"(^|[\s"'(=])~?/[^\s"'),]*"#, "${1}PATH"),
        // Hashes and random suffixes of names.
        (r"\b[0-9a-f]{12,}\b", "#"),
        // Dates in file names.
        (r"[0-9]{8}-[0-9]{6}", "#"),
        // A figure, with an optional mark for too few samples.
        (r"[-+]?\b\d+(?:[.,:]\d+)*[?*]?", "#"),
        (r"# ?(?:ns|us|ms|s|min|h|B|KiB|MiB|GiB)\b", "#"),
        (r"-{2,}", "--"),
        (r"={2,}", "=="),
        (r"[-+]{2,}", "--"),
        (r"\s+", " "),
    ]
    .map(|(pattern, put)| (Regex::new(pattern).expect("the pattern is valid"), put))
    .into()
});

/// Replaces all variable text.
pub(super) fn masked(text: &str) -> String {
    let masked = MASKS.iter().fold(text.to_owned(), |text, (mask, put)| {
        mask.replace_all(&text, *put).into_owned()
    });
    masked.trim().to_owned()
}

/// Compares printed and shown text; a line `...` in `shown` matches any text.
///
/// # Errors
/// Returns the first unmatched part of `shown`, masked.
pub(super) fn compare(shown: &[String], printed: &str) -> Result<(), String> {
    let stretches: Vec<String> = shown
        .split(|line| line.trim() == "...")
        .map(|lines| masked(&lines.join("\n")))
        .collect();
    let printed = masked(printed);
    if let [only] = &stretches[..] {
        return if *only == printed {
            Ok(())
        } else {
            Err(only.clone())
        };
    }
    let mut rest = printed.as_str();
    for (index, stretch) in stretches.iter().enumerate() {
        let at = match index {
            0 => rest.starts_with(stretch).then_some(0),
            last if last == stretches.len() - 1 => {
                rest.ends_with(stretch).then(|| rest.len() - stretch.len())
            }
            _ => rest.find(stretch),
        };
        rest = &rest[at.ok_or_else(|| stretch.clone())? + stretch.len()..];
    }
    Ok(())
}

#[test]
fn only_numbers_paths_and_line_breaks_may_differ() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let printed = "Duration (s):     1.52\n a |  3 |  n/a\n---+----+-----\nlog: /tmp/x/run-20260102.jsonl\ntook 35 ms at\n127.0.0.1:8000";
    let fits = |text: &str| compare(&shown(text), printed).is_ok();
    assert!(fits(
        "Duration (s):  12.5\n a | 33 | n/a\n---+----+-----\nlog: ~/.cache/run-1.jsonl\ntook 3.5 s at 127.0.0.1:8000"
    ));
    assert!(
        fits("Duration (s): 1\n...\ntook 1 s\nat 127.0.0.1:80")
            && fits("...\nlog: /x\n...")
            && fits("...")
    );
    for wrong in [
        "Duration (s): 1",
        "Duration (ms): 1\n...",
        "...\ntook n/a at 127.0.0.1:80",
        "...\nlog: /x\n...\nlog: /x\n...",
        "",
    ] {
        assert!(!fits(wrong), "{wrong}");
    }
}
