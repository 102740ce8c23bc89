//! Datasets and tokenizers come from the Hub or its cache in the same way as with Python's client.
//! Errors say what to do.

mod fake_hub;

use std::path::Path;

use sobench_core::error::{Error, ErrorKind};
use sobench_data::dataset::{
    BfclPlan, Dataset, DatasetPlan, HfPlan, Inputs, Source, XgrammarBenchPlan, load_with,
};
use sobench_data::hub::HubSettings;
use sobench_data::tokenizer::Tokenizer;
use sobench_notices::notice::sentences;
use sobench_plan::dataset::PromptForm;
use sobench_testkit::scripted::refusing_url;

use fake_hub::{COMMIT, Contents, FakeHub};

const REPO: &str = "NousResearch/json-mode-eval";
const FILE: &str = "data/train-00000-of-00001.parquet";
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

fn dataset_hub() -> Contents {
    let parquet = std::fs::read(format!("{FIXTURES}/datasets/json_mode_eval.parquet")).unwrap();
    let files = vec![
        (".gitattributes", b"x".to_vec()),
        ("README.md", b"# rows".to_vec()),
        (FILE, parquet),
    ];
    Contents {
        repo: "datasets/NousResearch/json-mode-eval",
        files,
        ..Contents::default()
    }
}

/// Settings from these environment variables.
fn settings(endpoint: &str, home: &Path, more: &[(&str, &str)]) -> HubSettings {
    HubSettings::from_lookup(|name| match name {
        "HF_ENDPOINT" => Some(endpoint.to_owned()),
        "HF_HOME" => home.to_str().map(str::to_owned),
        _ => more
            .iter()
            .find(|(variable, _)| *variable == name)
            .map(|(_, value)| (*value).to_owned()),
    })
}

fn load(dataset_path: Option<&str>, settings: &HubSettings) -> Result<Dataset, Error> {
    let options = XgrammarBenchPlan {
        dataset_path: dataset_path.map(str::to_owned),
        ..XgrammarBenchPlan::default()
    };
    load_with(
        &plan(Source::XgrammarBench(options)),
        &Inputs {
            tokenizer: &Tokenizer::embedded(),
            hub: settings,
            progress: &(),
        },
    )
}

fn plan(source: Source) -> DatasetPlan {
    DatasetPlan {
        prompt_form: PromptForm::Messages,
        ..DatasetPlan::with_defaults(source, 4, 128)
    }
}

#[test]
fn fetches_with_the_token_and_caches_the_files() {
    let hub = FakeHub::start(Contents {
        token: Some("secret"),
        ..dataset_hub()
    });
    let home = tempfile::tempdir().unwrap();
    let with_token = settings(
        &format!("{}/", hub.endpoint()),
        home.path(),
        &[("HF_TOKEN", "secret")],
    );

    let fetched = load(None, &with_token).unwrap();
    let local = load(
        Some(&format!("{FIXTURES}/datasets/json_mode_eval.parquet")),
        &with_token,
    )
    .unwrap();
    assert_eq!(fetched.cases, local.cases);
    assert_eq!(fetched.source, format!("{REPO} at commit {COMMIT}, {FILE}"));
    let requests = hub.take_requests();
    assert!(
        requests
            .iter()
            .all(|request| request.authorization.as_deref() == Some("Bearer secret")),
        "{requests:?}"
    );
    assert_eq!(
        requests[0].path,
        format!("/api/datasets/{REPO}/revision/main")
    );
    assert!(
        requests[1..]
            .iter()
            .all(|request| request.path.ends_with(FILE)),
        "only the split's file is fetched: {requests:?}"
    );

    // The cache has Python's layout.
    let repo = home
        .path()
        .join("hub/datasets--NousResearch--json-mode-eval");
    assert_eq!(
        std::fs::read_to_string(repo.join("refs/main")).unwrap(),
        COMMIT
    );
    assert!(repo.join("snapshots").join(COMMIT).join(FILE).exists());

    // The second load reads the listing again, and no file.
    assert_eq!(load(None, &with_token).unwrap(), fetched);
    assert_eq!(hub.take_requests().len(), 1);

    // An offline load sends no request.
    let offline = settings(&hub.endpoint(), home.path(), &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(load(Some(REPO), &offline).unwrap(), fetched);
    assert_eq!(hub.take_requests(), []);

    // With an unreachable hub, the cache is used and a notice says so.
    let away = settings(&refusing_url(), home.path(), &[]);
    let cached = load(None, &away).unwrap();
    assert_eq!(cached.cases, fetched.cases);
    let notices = sentences(&cached.notices);
    let [notice] = &notices[..] else {
        panic!("one notice: {:?}", cached.notices)
    };
    assert!(
        notice.contains("cannot reach") && notice.contains("commit 0123456789ab"),
        "{notice}"
    );
}

#[track_caller]
fn check_error(result: Result<Dataset, Error>, kind: ErrorKind, what: &str, hint: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.what.contains(what), "{error}");
    assert!(
        error.hint.as_ref().is_some_and(|text| text.contains(hint)),
        "{error}"
    );
}

/// Only the selected configuration, split and categories are fetched.
#[test]
fn selects_parts_of_a_repository() {
    let home = tempfile::tempdir().unwrap();
    let row = |text: &str| format!("{{\"question\": \"{text}\"}}\n").into_bytes();
    let files = vec![
        ("one/test.jsonl", row("first")),
        ("one/train.jsonl", row("second")),
        ("two/test.jsonl", row("third")),
    ];
    let hub = FakeHub::start(Contents {
        repo: "datasets/a/b",
        files,
        ..Contents::default()
    });
    let settings = settings(&hub.endpoint(), home.path(), &[]);
    let load = |subset: Option<&str>| {
        let options = HfPlan {
            dataset_path: Some("a/b".to_owned()),
            subset: subset.map(str::to_owned),
            split: Some("test".to_owned()),
            ..HfPlan::default()
        };
        load_with(
            &plan(Source::Hf(options)),
            &Inputs {
                tokenizer: &Tokenizer::embedded(),
                hub: &settings,
                progress: &(),
            },
        )
    };
    check_error(
        load(None),
        ErrorKind::Usage,
        "several configurations have a split test: one, two",
        "--hf-subset",
    );
    hub.take_requests();
    let two = load(Some("two")).unwrap();
    assert_eq!((two.rows, two.cases.len()), (1, 4));
    assert_eq!(
        two.source,
        format!("a/b at commit {COMMIT}, two/test.jsonl")
    );
    let requests = hub.take_requests();
    assert!(
        requests[1..]
            .iter()
            .all(|request| request.path.ends_with("two/test.jsonl")),
        "{requests:?}"
    );

    let read = |name: &str| std::fs::read(format!("{FIXTURES}/datasets/bfcl/{name}")).unwrap();
    let files = [
        "BFCL_v3_simple.json",
        "BFCL_v3_parallel.json",
        "possible_answer/BFCL_v3_simple.json",
    ]
    .map(|name| (name, read(name)));
    let contents = Contents {
        repo: "datasets/gorilla-llm/Berkeley-Function-Calling-Leaderboard",
        files: files.to_vec(),
        ..Contents::default()
    };
    let hub = FakeHub::start(contents);
    let settings = self::settings(&hub.endpoint(), home.path(), &[]);
    let options = BfclPlan {
        categories: vec!["simple".to_owned()],
        ..BfclPlan::default()
    };
    let calls = load_with(
        &plan(Source::Bfcl(options)),
        &Inputs {
            tokenizer: &Tokenizer::embedded(),
            hub: &settings,
            progress: &(),
        },
    )
    .unwrap();
    assert_eq!(
        (
            calls.rows,
            calls.cases[..3]
                .iter()
                .filter(|case| case.completion.is_some())
                .count()
        ),
        (3, 2)
    );
    let requests = hub.take_requests();
    assert!(
        requests[1..]
            .iter()
            .all(|request| request.path.ends_with("BFCL_v3_simple.json")),
        "{requests:?}"
    );
}

#[test]
fn errors_have_a_cause_and_a_hint() {
    let home = tempfile::tempdir().unwrap();
    let at = |contents: Contents| settings(&FakeHub::start(contents).endpoint(), home.path(), &[]);

    check_error(
        load(None, &settings(&refusing_url(), home.path(), &[])),
        ErrorKind::Environment,
        "cannot reach http://127.0.0.1",
        "--dataset-path",
    );
    let offline = settings(&refusing_url(), home.path(), &[("HF_HUB_OFFLINE", "1")]);
    check_error(
        load(None, &offline),
        ErrorKind::Environment,
        "offline, and not in the cache: dataset NousResearch",
        "HF_HOME",
    );
    check_error(
        load(
            None,
            &at(Contents {
                token: Some("t"),
                ..dataset_hub()
            }),
        ),
        ErrorKind::Environment,
        "refuses access",
        "HF_TOKEN",
    );
    check_error(
        load(Some("no/body"), &at(dataset_hub())),
        ErrorKind::Usage,
        "no such dataset",
        "check the id",
    );
    let broken = Contents {
        status: Some("503 Service Unavailable"),
        ..dataset_hub()
    };
    check_error(
        load(None, &at(broken)),
        ErrorKind::Environment,
        "status 503",
        "--dataset-path",
    );
    let garbage = Contents {
        listing: Some("<html>"),
        ..dataset_hub()
    };
    check_error(
        load(None, &at(garbage)),
        ErrorKind::Environment,
        "not a repository listing",
        "HF_ENDPOINT",
    );
    let plain = FakeHub::start(dataset_hub())
        .endpoint()
        .replace("http:", "https:");
    check_error(
        load(None, &settings(&plain, home.path(), &[])),
        ErrorKind::Environment,
        "cannot reach https://",
        "HF_ENDPOINT",
    );
    let bare = Contents {
        files: vec![("README.md", b"# nothing".to_vec())],
        ..dataset_hub()
    };
    check_error(
        load(None, &at(bare)),
        ErrorKind::Usage,
        "no file of the split train",
        "--dataset-path",
    );
}

#[test]
fn a_hub_cannot_write_outside_the_cache() {
    let home = tempfile::tempdir().unwrap();
    for (name, listing) in [
        ("../../../../evil-train.parquet", None),
        ("/evil/train.parquet", None),
        (
            FILE,
            Some(
                r#"{"sha":"../../evil","siblings":[{"rfilename":"data/train-00000-of-00001.parquet"}]}"#,
            ),
        ),
    ] {
        let contents = Contents {
            files: vec![(name, b"evil".to_vec())],
            listing,
            ..dataset_hub()
        };
        let hub = FakeHub::start(contents);
        check_error(
            load(None, &settings(&hub.endpoint(), home.path(), &[])),
            ErrorKind::Environment,
            "unsafe file name",
            "HF_ENDPOINT",
        );
    }
}

#[test]
fn a_models_tokenizer_includes_its_template() {
    let read = |name: &str| std::fs::read(format!("{FIXTURES}/tokenizer/{name}")).unwrap();
    let files = vec![
        ("config.json", b"{}".to_vec()),
        ("model.safetensors", vec![0; 1 << 16]),
        ("tokenizer.json", read("tokenizer.json")),
        ("tokenizer_config.json", read("tokenizer_config.json")),
    ];
    let hub = FakeHub::start(Contents {
        repo: "models/acme/tiny",
        files,
        ..Contents::default()
    });
    let home = tempfile::tempdir().unwrap();
    let tokenizer =
        Tokenizer::open_with("acme/tiny", &settings(&hub.endpoint(), home.path(), &[])).unwrap();
    assert_eq!(tokenizer.id(), "acme/tiny");
    assert!(tokenizer.chat_template().unwrap().contains("<|im_start|>"));
    let local = Tokenizer::open(&format!("{FIXTURES}/tokenizer")).unwrap();
    assert_eq!(tokenizer.count("Name a city."), local.count("Name a city."));
    let requests = hub.take_requests();
    assert!(
        requests
            .iter()
            .all(|request| !request.path.contains("safetensors")),
        "{requests:?}"
    );

    let files = vec![("tokenizer.model", b"sentencepiece".to_vec())];
    let hub = FakeHub::start(Contents {
        repo: "models/acme/old",
        files,
        ..Contents::default()
    });
    let error =
        Tokenizer::open_with("acme/old", &settings(&hub.endpoint(), home.path(), &[])).unwrap_err();
    assert_eq!(
        error.what,
        "no tokenizer.json in the model repository acme/old"
    );
}
