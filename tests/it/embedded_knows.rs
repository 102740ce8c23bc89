//! Planted knowledge of the embedded server (`--embedded-knows`).

use crate::support::sobench;

#[test]
fn knowledge_without_references_or_with_another_server_is_refused_with_a_hint() {
    let knows = ["--embedded-knows", "0.4,0.5,0.6", "--no-run-log"];
    for (more, message, hint) in [
        (
            &["--dataset", "choice", "--num-prompts", "5"][..],
            "error: --embedded-knows has no effect: the dataset has no references",
            "hint: use a dataset with references",
        ),
        (
            &["--dataset", "choice", "--base-url", "http://127.0.0.1:1"],
            "error: --embedded-knows applies to the embedded server only",
            "hint: leave --embedded-knows out",
        ),
        (
            &["--dataset", "choice", "--embedded-knows", "0.4,2"],
            "error: invalid value for --embedded-knows: 0.4,2",
            "expected three or four numbers from 0 to 1",
        ),
    ] {
        let knows = if more.contains(&"--embedded-knows") {
            &knows[2..]
        } else {
            &knows[..]
        };
        let ran = sobench(&[more, knows].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        for text in [message, hint] {
            assert!(ran.stderr.contains(text), "{text}\n{}", ran.stderr);
        }
    }
}
