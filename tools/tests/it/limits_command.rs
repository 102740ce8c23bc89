//! `sobench-tools limits`: its outputs, files and errors.

use sobench_testkit::scripted::refusing_url;

use crate::support::{Folder, Ran, assert_follows, tools};

pub(super) fn limits(arguments: &[&str]) -> Ran {
    tools(&[&["limits", "--disable-tqdm"], arguments].concat())
}

#[test]
fn limits_are_written_and_reported_together() {
    let folder = Folder::new();
    let [json, html] = ["a.json", "a.html"].map(|name| folder.path(name));
    let ladders = "--ladder max-items,nesting-depth,tools --step-timeout 60";
    let ran = limits(&[ladders, "--save", &json, "--save", &html]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let file = folder.json("a.json");
    assert_follows("limits", &file);
    let ends = file["servers"][0]["ladders"].as_array().unwrap().iter();
    let ends: Vec<_> = ends.map(|ladder| ladder["end"].as_str().unwrap()).collect();
    assert_eq!(ends, ["refused", "largest_size", "not_carried"]);
    assert!(folder.read("a.html").ends_with("</html>\n"));

    let together = limits(&[
        "--merge",
        &json,
        &json,
        "--save",
        &folder.path("merged.json"),
    ]);
    assert_eq!(together.code, 0, "{}", together.stderr);
    let merged = folder.json("merged.json");
    let [one, two] = [0, 1].map(|index: usize| &merged["servers"][index]);
    assert_eq!(
        (one, &one["ladders"]),
        (&file["servers"][0], &two["ladders"])
    );
    assert_eq!(two["label"], "guidance (2)");
}

#[test]
fn bad_input_is_refused_with_a_hint() {
    let folder = Folder::new();
    let other = folder.file("other.json", r#"{"format": "sobench-preflight"}"#);
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
        (&["--merge", &other], 2, "no result of sobench-tools limits"),
        (&["--merge nowhere.json"], 2, "nowhere.json"),
        (&["--ladder height"], 2, "height"),
        (
            &["--base-url", closed.as_str(), "--save /proc/none/a.json"],
            3,
            "cannot write the report",
        ),
    ] {
        limits(arguments).assert_fails(code, &[message]);
    }
}
