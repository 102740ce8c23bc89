//! Acceptance: rules are met, not met or not decided, and nothing is claimed of a server that is gone.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{
    Folder, Ran, Running, ServeProcess, assert_follows, program, sobench, unwrapped,
};

/// Runs the requirements, and reads the JSON page.
fn accept(folder: &Folder, file: &str, more: &[&str]) -> (Ran, Option<Value>) {
    let path = folder.file("must.toml", file);
    let saved = folder.path("acceptance.json");
    let ran = sobench(&[&["accept", &path, "--disable-tqdm", "--save", &saved], more].concat());
    let found = std::fs::read_to_string(&saved).ok();
    let found = found.map(|text| serde_json::from_str(&text).unwrap());
    (ran, found)
}

/// The decisions on the rules of all parts.
fn decisions(found: &Value) -> Vec<(String, String)> {
    let parts = found["parts"].as_array().unwrap().iter();
    let rules = parts.flat_map(|part| part["rules"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rules
        .map(|rule| (text(&rule["rule"]), text(&rule["decision"])))
        .collect()
}

const RATES: &str = r#"
[[run]]
name = "choice"
dataset = "choice"
num-prompts = 200
require = ["correct_rate>=90", "refused_rate<=5"]
"#;

#[test]
fn a_good_server_is_accepted_early() {
    let folder = Folder::new();
    let badge = folder.path("badge.json");
    let (ran, found) = accept(&folder, RATES, &["--badge", &badge]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.starts_with("accepted? yes: rules met: 2 of 2"),
        "{}",
        ran.stdout
    );
    let found = found.unwrap();
    assert_follows("accept", &found);
    assert_eq!(found["verdict"], "met");
    let part = &found["parts"][0];
    assert!(
        part["requests"].as_u64() < part["planned"].as_u64(),
        "{part}"
    );
    let badge: Value = serde_json::from_str(&std::fs::read_to_string(badge).unwrap()).unwrap();
    assert_eq!(badge["message"], "2 met");
}

#[test]
fn a_bad_server_is_not_accepted_and_the_rule_is_named() {
    let folder = Folder::new();
    let server = ServeProcess::start(&["--fault ignore-constraint@0.5"]);
    let (ran, found) = accept(&folder, RATES, &["--base-url", &server.base_url]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let first = "accepted? NO: rules not met: 1 of 2: choice correct_rate>=90 (";
    assert!(ran.stdout.starts_with(first), "{}", ran.stdout);
    let met = |rule: &str, decision: &str| (rule.to_owned(), decision.to_owned());
    assert_eq!(
        decisions(&found.unwrap())[0],
        met("correct_rate>=90", "not_met")
    );
}

#[test]
fn a_server_without_any_constraint_is_measured_and_not_met() {
    let folder = Folder::new();
    let server = ServeProcess::start(&["--fault ignore-constraint"]);
    let (ran, found) = accept(&folder, RATES, &["--base-url", &server.base_url]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let found = found.unwrap();
    assert!(found["parts"][0]["error"].is_null(), "{found}");
    assert_eq!(decisions(&found)[0].1, "not_met");

    let keywords = r#"
[[preflight]]
name = "keywords"
features = true
keyword = ["minimum", "maximum"]
require = ["under_enforced<=0", "enforced>=1", "crashed<=0"]
"#;
    let (ran, found) = accept(&folder, keywords, &["--base-url", &server.base_url]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    let why = "keywords under_enforced<=0 (1: every JSON Schema is ignored)";
    assert!(unwrapped(&ran.stdout).contains(why), "{}", ran.stdout);
    let decided = decisions(&found.unwrap());
    let decided: Vec<&str> = decided.iter().map(|(_, decision)| &**decision).collect();
    assert_eq!(decided, ["not_met", "not_met", "not_decided"]);
}

#[test]
fn rates_of_sessions_have_rules() {
    let folder = Folder::new();
    let file = r#"
[[run]]
dataset = "sessions"
session-delay-scale = 0
num-prompts = 20
require = ["session_finished_rate>=80", "session_right_rate>=50"]
"#;
    let (ran, found) = accept(&folder, file, &[]);
    let decided: Vec<String> = decisions(&found.unwrap())
        .into_iter()
        .map(|rule| rule.1)
        .collect();
    assert_eq!(decided, ["met", "not_met"], "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn too_few_requests_decide_nothing_and_the_page_says_how_many_do() {
    let folder = Folder::new();
    let file = RATES.replace("200", "20");
    let (ran, found) = accept(&folder, &file, &[]);
    assert_eq!(ran.code, 5, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("requests decide"), "{}", ran.stdout);
    assert!(
        decisions(&found.unwrap())
            .iter()
            .any(|(_, decision)| decision == "not_decided")
    );
    let (ran, _) = accept(&folder, &file, &["--undecided", "fail"]);
    assert_eq!(ran.code, 1);
}

#[test]
fn times_are_decided_over_runs_and_preflights_by_counts() {
    let folder = Folder::new();
    let file = r#"
[[run]]
name = "latency"
dataset = "choice"
num-prompts = 20
runs = 3
require = ["median_ttft_ms<=60000", "correct_rate>=50", "failed<=0"]

[[preflight]]
name = "keywords"
features = true
keyword = ["minimum"]
samples = 4
require = ["crashed<=0"]
"#;
    let (ran, found) = accept(&folder, file, &[]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let found = found.unwrap();
    assert!(
        decisions(&found)
            .iter()
            .all(|(_, decision)| decision == "met")
    );
    assert_eq!(found["parts"][0]["looks"], 3);
}

#[test]
fn saved_limits_decide_rules_of_the_same_server_only() {
    let folder = Folder::new();
    let ladder = |name: &str, end: &str, verdict: &str| {
        json!({
            "ladder": name, "end": end, "verdicts": [verdict],
            "steps": [{"size": 32, "outcome": "accepted"}, {"size": 64, "outcome": "refused"}],
        })
    };
    let file = |model: &str| {
        let ladders = [
            ladder("nesting-depth", "refused", "fails_fast"),
            ladder("tools", "largest_size", "fine"),
        ];
        let server = json!({"base_url": "http://x", "model": model, "version": null, "requests": 9, "ladders": ladders});
        json!({"servers": [server]}).to_string()
    };
    let path = folder.file("limits.json", file("sobench-synthetic"));
    let rules =
        r#"["nesting-depth>=32", "tools>=32", "tools<=40", "dies<=0", "nesting-depth>=64"]"#;
    let must = format!("{RATES}[[limits]]\nfile = \"{path}\"\nrequire = {rules}\n");
    let decided = || -> Vec<String> {
        let (ran, found) = accept(&folder, &must, &["--force"]);
        let found = found.unwrap_or_else(|| panic!("{}", ran.stderr));
        let limits = decisions(&found).into_iter().skip(2);
        limits.map(|(_, decision)| decision).collect()
    };
    assert_eq!(decided(), ["met", "met", "not_decided", "met", "not_met"]);
    folder.file("limits.json", file("another"));
    assert_eq!(decided(), ["not_decided"; 5]);
}

#[test]
fn a_server_that_is_gone_leaves_its_rules_undecided() {
    let folder = Folder::new();
    let file = format!("{RATES}base-url = \"http://127.0.0.1:1\"\n");
    let (ran, found) = accept(&folder, &file, &[]);
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    let found = found.unwrap();
    assert!(
        decisions(&found)
            .iter()
            .all(|(_, decision)| decision == "not_decided")
    );
    assert!(found["parts"][0]["error"].is_string(), "{found}");
}

#[test]
fn a_server_that_dies_in_the_middle_keeps_what_was_decided_before() {
    let folder = Folder::new();
    let server = ServeProcess::start(&[]);
    // The second run takes ten seconds.
    let later = RATES
        .replace("\"choice\"\ndataset", "\"later\"\ndataset")
        .replace("num-prompts", "request-rate = 20\nnum-prompts");
    let path = folder.file("must.toml", format!("{RATES}{later}"));
    let saved = folder.path("acceptance.json");
    let flags = ["--base-url", &server.base_url, "--save", &saved];
    let mut accept = Running::start(&mut program(&[&["accept", &path], &flags[..]].concat()));
    accept.wait_for("choice: refused_rate<=5");
    drop(server);
    let ran = accept.end();
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    let found = folder.json("acceptance.json");
    let decided: Vec<String> = decisions(&found).into_iter().map(|rule| rule.1).collect();
    assert_eq!(decided, ["met", "met", "not_decided", "not_decided"]);
    assert!(found["parts"][0]["error"].is_null(), "{found}");
    assert!(found["parts"][1]["error"].is_string(), "{found}");
}

#[test]
fn wrong_files_say_what_is_wrong() {
    let folder = Folder::new();
    let with = |rules: &str| RATES.replace(r#"["correct_rate>=90", "refused_rate<=5"]"#, rules);
    for (file, what) in [
        (
            with(r#"["corect_rate>=90"]"#),
            "nearest names are correct_rate",
        ),
        (
            with(r#"["correct_rate>=90", "correct_rate<=80"]"#),
            "contradict each other",
        ),
        (
            with(r#"["correct_rate>=100"]"#),
            "no number of requests can show",
        ),
        (with(r#"["correct_rate>=0.95"]"#), "invalid rule"),
        (with("[]"), "no rule"),
        (with("7"), "require is no list of rules"),
        ("name = 1".to_owned(), "unknown key: name"),
        (String::new(), "no run"),
        ("[[run]".to_owned(), "not TOML"),
        (RATES.replace("num-prompts", "num-prompt"), "unknown flag"),
        (format!("{RATES}{RATES}"), "two runs with the same name"),
        (
            format!("{RATES}fail-on = [\"correct_rate<-1pp\"]\n"),
            "without a baseline",
        ),
        (
            format!("{RATES}[[limits]]\nrequire = [\"dies<=0\"]\n"),
            "no file",
        ),
        (
            format!("{RATES}[[limits]]\nfile = \"absent.json\"\nrequire = [\"dies<=0\"]\n"),
            "absent.json",
        ),
        (
            format!("{RATES}looks = 0\n"),
            "looks is no number from 1 to 100",
        ),
    ] {
        let (ran, found) = accept(&folder, &file, &[]);
        assert_eq!(ran.code, 2, "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
        assert!(found.is_none());
    }
}

#[test]
fn a_typed_rule_is_refused_and_not_ignored() {
    let (ran, found) = accept(&Folder::new(), RATES, &["--require", "correct_rate>=99"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr
            .contains("--require correct_rate>=99 is not for accept"),
        "{}",
        ran.stderr
    );
    assert!(found.is_none());
}

fn is_installed(program: &str) -> bool {
    // No command of either program: it prints its usage.
    let mut command = Command::new(program);
    command
        .arg("-?")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok()
}

/// Changes a byte of a report.
fn change(report: &str) {
    let text = std::fs::read_to_string(report).unwrap();
    std::fs::write(report, text.replace("\"met\"", "\"Met\"")).unwrap();
}

#[test]
fn minisign_signs_too() {
    if !is_installed("minisign") {
        return;
    }
    let folder = Folder::new();
    let (key, public) = (folder.path("key"), folder.path("key.pub"));
    let report = folder.path("acceptance.json");
    let minisign = |arguments: &[&str]| {
        let ran = Command::new("minisign").args(arguments).output();
        ran.unwrap().status.success()
    };
    // Without a passphrase.
    assert!(minisign(&["-G", "-W", "-p", &public, "-s", &key]));
    let (ran, _) = accept(&folder, RATES, &["--sign-key", &key]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let verifies = || minisign(&["-V", "-p", &public, "-m", &report]);
    assert!(verifies());
    change(&report);
    assert!(!verifies());
}

#[test]
fn a_signed_report_verifies_and_a_changed_byte_is_found() {
    if !is_installed("ssh-keygen") {
        return;
    }
    let folder = Folder::new();
    let key = folder.path("key");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", &key])
        .status();
    assert!(made.unwrap().success());
    let (ran, _) = accept(&folder, RATES, &["--sign-key", &key]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let public = std::fs::read_to_string(format!("{key}.pub")).unwrap();
    let signers = folder.file("signers", format!("ci@example.org {public}"));
    let report = folder.path("acceptance.json");
    let verifies = || {
        let verify = Command::new("ssh-keygen")
            .args([
                "-Y",
                "verify",
                "-n",
                "sobench",
                "-I",
                "ci@example.org",
                "-f",
                &signers,
                "-s",
            ])
            .arg(format!("{report}.sig"))
            .stdin(std::fs::File::open(&report).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        verify.unwrap().success()
    };
    assert!(verifies());
    change(&report);
    assert!(!verifies());
    folder.file("acceptance.json.sig", "of another program");
    let (ran, _) = accept(&folder, RATES, &["--sign-key", &key]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    // No key is a signature, and a missing one is found before the first request.
    for key in [folder.path("no-key"), folder.file("text", "no key")] {
        let (ran, _) = accept(&folder, RATES, &["--sign-key", &key]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
    }
}

#[test]
fn profiles_are_files_that_can_be_planned() {
    for (profile, _) in sobench::commands::accept::profiles::PROFILES {
        let ran = sobench(&[
            "accept",
            profile,
            "--dry-run",
            "--base-url",
            "http://127.0.0.1:1",
        ]);
        assert_eq!(ran.code, 0, "{profile}: {}", ran.stderr);
        let printed = sobench(&["accept", profile, "--print"]);
        assert!(printed.stdout.contains("[[run]]"), "{profile}");
    }
}
