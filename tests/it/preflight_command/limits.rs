//! `sobench preflight --limits`: its outputs, files and errors.

use serde_json::Value;
use sobench_testkit::scripted::refusing_url;

use crate::support::{Ran, assert_follows, sobench};

pub(super) fn limits(arguments: &[&str]) -> Ran {
    sobench(&[&["preflight", "--limits --disable-tqdm"], arguments].concat())
}

pub(super) fn read(path: &std::path::Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn limits_are_printed_written_and_reported_together() {
    let folder = tempfile::tempdir().unwrap();
    let [json, html, merged] =
        ["a.json", "a.html", "merged.json"].map(|name| folder.path().join(name));
    let ran = limits(&[
        "--ladder max-items,nesting-depth,tools --limits-step-timeout 60 --json",
        json.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    for text in [
        "guidance: largest nesting 16 in ",
        "32: refused (400)",
        "fails fast",
        "JSON nesting of 65 levels",
        "tools: not supported: unsupported by this server kind",
    ] {
        assert!(ran.stdout.contains(text), "{text} in {}", ran.stdout);
    }
    let file = read(&json);
    assert_follows("preflight-limits", &file);
    assert_eq!(file["servers"][0]["ladders"].as_array().unwrap().len(), 3);
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("nested objects") && page.contains("maxItems"));

    let path = json.to_str().unwrap();
    let together = limits(&["--merge", path, path, "--json", merged.to_str().unwrap()]);
    assert_eq!(together.code, 0, "{}", together.stderr);
    assert!(
        together.stdout.contains("guidance (2): largest"),
        "{}",
        together.stdout
    );
    let [one, two] = [0, 1].map(|index| read(&merged)["servers"][index].clone());
    assert_eq!(one["ladders"], two["ladders"]);
    assert_eq!(one, file["servers"][0]);
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.json");
    std::fs::write(&other, r#"{"format": "sobench-preflight"}"#).unwrap();
    let closed = refusing_url();
    for (arguments, code, message) in [
        (
            &["--base-url http://192.0.2.1:8000"][..],
            2,
            "not on this machine",
        ),
        (&["--base-url", closed.as_str()], 3, "no response from"),
        (
            &["--base-url", closed.as_str(), "--model m"],
            3,
            "no answer to a small request",
        ),
        (
            &["--merge", other.to_str().unwrap()],
            2,
            "no result of preflight --limits",
        ),
        (&["--merge nowhere.json"], 2, "nowhere.json"),
        (&["--ladder height"], 2, "height"),
        (
            &["--base-url", closed.as_str(), "--json /proc/none/a.json"],
            3,
            "cannot write the result",
        ),
    ] {
        let ran = limits(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(message) && ran.stdout.is_empty(),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}
