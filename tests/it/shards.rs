//! Load of several clients: the union of the shards equals the run of one client, request by
//! request.

mod together;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use sobench_core::shard::Shard;
use sobench_plan::record::ShardRecord;
use sobench_runlog::{RunLog, VERSION};
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::runlog::check_lines;
use crate::support::{Ran, check_result, sobench};

/// A load with all random choices (unique schemas, a control arm, bursts, LoRA modules) and a cap
/// that is not divisible by the number of shards.
const LOAD: [&str; 4] = [
    "--dataset json-unique --guided-decoding-ratio 0.6 --num-prompts 50",
    "--request-rate 250 --burstiness 0.4 --max-concurrency 7 --num-warmups 6",
    "--lora-modules one two --request-id-prefix r- --skip-preflight --disable-tqdm",
    "--seed=11",
];

/// The response depends only on the request body.
fn answer(request: &Request) -> String {
    if request.is_model_list() {
        return models();
    }
    if request.line.starts_with("GET") {
        return whole("404 Not Found", "text/plain", "");
    }
    let hash = request.body.iter().fold(0_u32, |hash, byte| {
        hash.wrapping_mul(31).wrapping_add(u32::from(*byte))
    });
    let event = |text: String, end: &str| {
        format!(
            "data: {{\"choices\":[{{\"text\":{},\"finish_reason\":{end}}}]}}\n\n",
            Value::from(text)
        )
    };
    let usage = format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{}}}}}\n\n",
        2 + hash % 5
    );
    let events = [
        event("{\"n\": ".to_owned(), "null"),
        event(format!("{hash}}}"), "\"stop\""),
        usage,
        "data: [DONE]\n\n".to_owned(),
    ];
    whole("200 OK", "text/event-stream", &events.concat())
}

/// Request bodies of a run by request id; trials and warm-ups have non-numeric ids.
fn received(server: &ScriptedServer) -> BTreeMap<String, Vec<u8>> {
    let posts = server
        .requests()
        .into_iter()
        .filter(|request| request.line.starts_with("POST"));
    let mut received = BTreeMap::new();
    for request in posts {
        let id = request.header("x-request-id").unwrap().to_owned();
        assert_eq!(
            received.insert(id.clone(), request.body),
            None,
            "two requests have one id: {id}"
        );
    }
    received
}

/// Runs the load, or a shard of it, against `server` with the run log `log`.
fn run(server: &ScriptedServer, more: &[&str], log: &Path) -> Ran {
    sobench(
        &[
            &[
                "--base-url",
                &server.base_url,
                "--run-log",
                log.to_str().unwrap(),
                "--detail full",
            ],
            &LOAD[..],
            more,
        ]
        .concat(),
    )
}

/// All shards concurrently, each in a process of its own.
fn run_shards(server: &ScriptedServer, count: usize, folder: &Path) -> Vec<RunLog> {
    let shard = |number: usize| {
        let log = folder.join(format!("shard-{number}.jsonl"));
        let ran = run(server, &["--shard", &format!("{number}/{count}")], &log);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            page.contains(&format!("shard {number} of {count}: ")),
            "{page}"
        );
        RunLog::read(&log).unwrap()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (1..=count)
            .map(|number| scope.spawn(move || shard(number)))
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// All parts of a request that do not depend on time.
fn facts(log: &RunLog) -> BTreeMap<usize, [String; 5]> {
    let mut answers = log.answers();
    let mut of_one = |request: sobench_facts::Sample<'_>| {
        let case = request.case();
        let logged = answers.read(request).unwrap();
        [
            format!(
                "{} {:?} {:?} due {} ns",
                case.id,
                case.arm,
                case.model,
                request.request_times().due_ns
            ),
            format!("{:?}", (&case.prompt, case.output_len, &case.tags)),
            case.constraint
                .as_ref()
                .map_or_else(String::new, |constraint| constraint.fingerprint()),
            format!(
                "{:?} {:?} {}",
                request.outcome(),
                request.finish_reason(),
                logged.answer.text()
            ),
            format!("{:?}", request.judged()),
        ]
    };
    log.requests
        .iter()
        .map(|request| (request.case_index(), of_one(request)))
        .collect()
}

/// Maximum number of requests in flight.
fn peak(log: &RunLog) -> usize {
    let spans: Vec<(u64, u64)> = log
        .requests
        .iter()
        .filter_map(|request| {
            Some((
                request.request_times().sent_ns?,
                request.request_times().end_ns?,
            ))
        })
        .collect();
    spans
        .iter()
        .map(|(at, _)| {
            spans
                .iter()
                .filter(|(sent, end)| sent <= at && at < end)
                .count()
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn four_shards_equal_one_client_request_by_request() {
    let folder = tempfile::tempdir().unwrap();
    let (alone, together) = (
        ScriptedServer::answering(answer),
        ScriptedServer::answering(answer),
    );
    let log = folder.path().join("one.jsonl");
    let one = run(
        &alone,
        &[
            "--save-detailed",
            "--result-dir",
            folder.path().to_str().unwrap(),
        ],
        &log,
    );
    assert_eq!(one.code, 0, "{}", one.stderr);
    let one = RunLog::read(&log).unwrap();
    let shards = run_shards(&together, 4, folder.path());

    let (by_one, by_four) = (received(&alone), received(&together));
    let is_planned = |id: &&String| !id.contains("trial");
    let ids = |received: &BTreeMap<String, Vec<u8>>| {
        received
            .keys()
            .filter(is_planned)
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&by_one), ids(&by_four));
    assert!(
        by_one
            .iter()
            .filter(|(id, _)| is_planned(id))
            .all(|(id, body)| by_four[id] == *body),
        "equal bodies"
    );
    assert_eq!(
        (ids(&by_one).len(), by_one.len(), by_four.len()),
        (56, 57, 60),
        "one trial per shard, and 6 warm-ups in total"
    );

    let expected = facts(&one);
    let found: Vec<_> = shards.iter().map(facts).collect();
    println!(
        "shard | requests | own | bodies equal | prompts equal | due times equal | answers equal | verdicts equal | cap | peak"
    );
    for (place, (log, facts)) in shards.iter().zip(&found).enumerate() {
        let part = Shard::new(place + 1, 4).unwrap();
        let about = log.record.shard.as_ref().unwrap();
        assert_eq!(
            (about.part(), &about.plan_sha256),
            (part, &shards[0].record.shard.as_ref().unwrap().plan_sha256)
        );
        assert!(
            facts
                .keys()
                .copied()
                .eq((0..50).filter(|index| part.takes(*index))),
            "{part}: {:?}",
            facts.keys()
        );
        let same = |select: &dyn Fn(&[String; 5]) -> String| {
            facts
                .iter()
                .filter(|(index, facts)| select(facts) == select(&expected[index]))
                .count()
        };
        let bodies = facts
            .keys()
            .map(|index| format!("r-{index}"))
            .filter(|id| by_one[id] == by_four[id])
            .count();
        let counts = [
            bodies,
            same(&|facts| facts[1..3].concat()),
            same(&|facts| facts[0].clone()),
            same(&|facts| facts[3].clone()),
            same(&|facts| facts[4].clone()),
        ];
        let (cap, peak) = (log.record.own_cap().unwrap(), peak(log));
        println!(
            "{part}   | {:8} | {:3} | {:12} | {:15} | {:15} | {:13} | {:14} | {cap:3} | {peak:4}",
            log.requests.len(),
            part.share(50),
            counts[0],
            counts[1],
            counts[2],
            counts[3],
            counts[4]
        );
        assert_eq!(counts, [part.share(50); 5]);
        assert!(peak <= cap, "{part}: {peak} in flight, cap {cap}");
    }
    let caps: Vec<usize> = shards
        .iter()
        .map(|log| log.record.own_cap().unwrap())
        .collect();
    assert_eq!(caps, [2, 2, 2, 1]);
    let union: BTreeMap<usize, [String; 5]> = found.into_iter().flatten().collect();
    println!(
        "union | {:8} of {}, all equal: {}",
        union.len(),
        expected.len(),
        union == expected
    );
    assert_eq!(union, expected);
    check_merged_shards(folder.path(), &expected);
}

/// Compares the merged log of [`run_shards`] and its result with the run of one client.
fn check_merged_shards(folder: &Path, expected: &BTreeMap<usize, [String; 5]>) {
    let (paths, merged) = (paths(folder, 4), folder.join("merged.jsonl"));
    let ran = merge(
        &paths,
        &["--save", merged.to_str().unwrap(), "--format json"],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_lines(&merged);
    paths.iter().for_each(|path| check_lines(path.as_ref()));
    let log = RunLog::read(&merged).unwrap();
    let instants_moved = facts(&log);
    // Shards start when they are ready, so due times are shifted.
    let but_due = |facts: &BTreeMap<usize, [String; 5]>| {
        facts
            .values()
            .map(|facts| facts[1..].to_vec())
            .collect::<Vec<_>>()
    };
    assert_eq!(but_due(&instants_moved), but_due(expected));
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(check_result(&result), Ok(()));
    let own = &result["sobench"];
    assert_eq!(
        (
            result["num_prompts"].as_u64(),
            result["max_concurrency"].as_u64(),
            result["request_rate"].as_f64()
        ),
        (Some(50), Some(7), Some(250.0))
    );
    assert_eq!(
        (
            own["trial_requests"].as_u64(),
            own["warmup_requests"].as_u64()
        ),
        (Some(4), Some(6))
    );
    assert_eq!(
        own["shards"]
            .as_array()
            .unwrap()
            .iter()
            .map(|shard| shard["requests"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [13, 13, 12, 12]
    );
    let notices = own["notices"].to_string();
    assert!(
        notices.contains("clock offsets of the shards were not measured")
            && notices.contains("did not start together"),
        "{notices}"
    );
    let alone: Value = serde_json::from_str(
        &sobench(&["report", log_of_one(folder).as_str(), "--format json"]).stdout,
    )
    .unwrap();
    for place in [
        "/sobench/quality",
        "/sobench/outcomes",
        "/sobench/token_sources",
        "/sobench/metrics/correct_rate",
        "/sobench/groups/1/metrics/correct_rate",
        "/total_output_tokens",
    ] {
        let found = result.pointer(place);
        assert!(found.is_some(), "{place}");
        assert_eq!(found, alone.pointer(place), "{place}");
    }
}

fn log_of_one(folder: &Path) -> String {
    folder.join("one.jsonl").to_str().unwrap().to_owned()
}

/// Paths of the logs of [`run_shards`].
fn paths(folder: &Path, count: usize) -> Vec<String> {
    (1..=count)
        .map(|number| {
            folder
                .join(format!("shard-{number}.jsonl"))
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

fn merge(paths: &[String], more: &[&str]) -> Ran {
    let paths = paths.iter().map(String::as_str);
    sobench(
        &["merge"]
            .into_iter()
            .chain(paths)
            .chain(more.iter().copied())
            .collect::<Vec<_>>(),
    )
}

/// Splits the lines of a log into logs of `count` shards: each request with its verdict and
/// everything it refers to, and a header and a footer for each.
fn split(log: &Path, count: usize, folder: &Path) -> Vec<String> {
    let whole = RunLog::read(log).unwrap();
    let text = std::fs::read_to_string(log).unwrap();
    let one = |number: usize| {
        let part = Shard::new(number, count).unwrap();
        let mut record = whole.record.clone();
        let mut shard = ShardRecord::new(part, &[], &[]);
        if number > 1 {
            (record.trial_requests, record.warmup_requests) = (0, 0);
        }
        record.shard = Some(shard.clone());
        shard.plan_sha256 = record.plan_sha256();
        record.shard = Some(shard);
        let own = || {
            whole
                .requests
                .iter()
                .filter(|request| part.takes(request.case_index()))
        };
        let mut footer = whole.footer.clone().unwrap();
        footer.requests = own().count();
        footer.duration_ns = own()
            .filter_map(|request| request.request_times().end_ns)
            .max()
            .unwrap();
        let lines = text.lines().filter(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            let index = value
                .pointer("/request/index")
                .or(value.pointer("/judged/index"));
            let is_shared = ["constraint", "prompt", "oracle"]
                .iter()
                .any(|name| value.get(*name).is_some());
            is_shared
                || index.is_some_and(|index| {
                    part.takes(usize::try_from(index.as_u64().unwrap()).unwrap())
                })
        });
        let (header, footer) = (
            json!({"header": {"version": VERSION, "record": record}}).to_string(),
            json!({"footer": footer}).to_string(),
        );
        let all: Vec<&str> = std::iter::once(header.as_str())
            .chain(lines)
            .chain([footer.as_str()])
            .collect();
        let path = folder.join(format!("shard-{number}.jsonl"));
        std::fs::write(&path, all.join("\n") + "\n").unwrap();
        check_lines(&path);
        path.to_str().unwrap().to_owned()
    };
    (1..=count).map(one).collect()
}

/// A result without parts that are specific to a client.
fn without_clients(text: &str) -> Value {
    let mut result: Value = serde_json::from_str(text).unwrap();
    let own = result["sobench"].as_object_mut().unwrap();
    ["client", "shards", "notices"]
        .iter()
        .for_each(|name| drop(own.remove(*name)));
    let record = own["record"].as_object_mut().unwrap();
    ["merged", "notices"]
        .iter()
        .for_each(|name| drop(record.remove(*name)));
    result
}

/// A page without tables of clients and shards, and without notes.
fn page_without_clients(page: &str) -> String {
    let parts = page.split("\n\n");
    let is_client_specific = |part: &&str| {
        [
            "Client overhead",
            "Bounds of the client",
            "Shards",
            "note:",
            "Notes",
            "client ",
        ]
        .iter()
        .any(|prefix| part.starts_with(prefix))
    };
    // The cost names the part of the client.
    let without_cost = |part: &str| part.split("\ncost?").next().unwrap().to_owned();
    parts
        .filter(|part| !is_client_specific(part))
        .map(without_cost)
        .collect::<Vec<_>>()
        .join("\n\n")
}

#[test]
fn split_and_merged_run_gives_identical_figures() {
    let server = ScriptedServer::answering(answer);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("one.jsonl");
    for detailed in [
        &[][..],
        &[
            "--save-detailed --result-dir",
            folder.path().to_str().unwrap(),
            "--goodput ttft:3",
        ],
    ] {
        let ran = run(&server, detailed, &log);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let parts = folder.path().join(format!("parts-{}", detailed.len()));
        std::fs::create_dir(&parts).unwrap();
        let shards = split(&log, 4, &parts);
        let merged = parts.join("merged.jsonl");
        let json = merge(
            &shards,
            &["--save", merged.to_str().unwrap(), "--format json"],
        );
        assert_eq!(json.code, 0, "{}", json.stderr);
        let before = sobench(&["report", log.to_str().unwrap(), "--format json"]).stdout;
        let (found, expected) = (without_clients(&json.stdout), without_clients(&before));
        for (name, value) in expected["sobench"].as_object().unwrap() {
            assert_eq!(&found["sobench"][name], value, "{name}");
        }
        assert_eq!(found, expected, "all figures, and all requests if included");
        let page = sobench(&["report", merged.to_str().unwrap(), "--detail full"]).stdout;
        assert_eq!(
            page,
            merge(&shards, &["--detail full"]).stdout,
            "merge and report print the same page"
        );
        println!("{page}");
        assert_eq!(
            page_without_clients(&page),
            page_without_clients(&ran.stdout)
        );
        assert_eq!(
            facts(&RunLog::read(&merged).unwrap()),
            facts(&RunLog::read(&log).unwrap())
        );
    }
}

#[test]
fn mismatched_logs_are_not_merged() {
    let server = ScriptedServer::answering(answer);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("one.jsonl");
    assert_eq!(run(&server, &[], &log).code, 0);
    let shards = split(&log, 3, folder.path());
    merge(&shards[..2], &[])
        .assert_fails(2, &["missing of 3 shards: the file of shard 3", "hint: "]);
    merge(&[&shards[..], &shards[..1]].concat(), &[])
        .assert_fails(2, &["two files for shard 1/3: ", "hint: "]);
    merge(&[log.to_str().unwrap().to_owned()], &[])
        .assert_fails(2, &["not the log of a shard", "use sobench report"]);
    let taken = folder.path().join("one.jsonl");
    merge(&shards, &["--save", taken.to_str().unwrap()])
        .assert_fails(2, &["output file exists already"]);
    merge(&shards, &["--save=a.jsonl --save=b.jsonl"])
        .assert_fails(2, &["--save has two files for the merged lines"]);
    merge(&shards, &["--save", &shards[1]])
        .assert_fails(2, &["--save would overwrite an input file"]);
    // The log of a killed shard is used up to its last request.
    let text = std::fs::read_to_string(&shards[1]).unwrap();
    let last = text
        .lines()
        .collect::<Vec<_>>()
        .iter()
        .rposition(|line| line.starts_with("{\"request\""))
        .unwrap();
    let kept_lines: Vec<&str> = text.lines().take(last).collect();
    std::fs::write(&shards[1], kept_lines.join("\n") + "\n{\"reque").unwrap();
    let merged = folder.path().join("merged.jsonl");
    let ran = merge(
        &shards,
        &["--save", merged.to_str().unwrap(), "--format json"],
    );
    assert_eq!(ran.code, 3, "a partial run: {}", ran.stderr);
    assert!(
        ran.stderr
            .contains("the last line of the run log is truncated"),
        "{}",
        ran.stderr
    );
    check_lines(&merged);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(check_result(&result), Ok(()));
    let own = &result["sobench"];
    assert_eq!(
        (
            &own["partial"],
            &own["shards"][1]["end"],
            &own["shards"][1]["client"]
        ),
        (&json!(true), &json!("killed"), &Value::Null)
    );
    let notices = own["notices"].to_string();
    assert!(
        notices.contains("partial: the log of shard 2 has no footer")
            && notices.contains("16 of its 17 requests had ended"),
        "{notices}"
    );
    assert_eq!(result["num_prompts"].as_u64(), Some(49));
    // A log that is lost or empty.
    merge(&shards[..2], &[]).assert_fails(
        2,
        &[
            "missing of 3 shards: the file of shard 3",
            "--allow-missing",
        ],
    );
    std::fs::remove_file(&shards[0]).unwrap();
    std::fs::write(&shards[1], "").unwrap();
    let ran = merge(&shards, &["--allow-missing --format json"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(check_result(&result), Ok(()));
    let own = &result["sobench"];
    let ends: Vec<&Value> = (0..3).map(|shard| &own["shards"][shard]["end"]).collect();
    assert_eq!(ends, ["missing", "missing", "whole"]);
    assert_eq!(own["partial"], true);
    assert_ne!(own["client"]["verdict"], "not_the_bottleneck");
    let notices = own["notices"].to_string();
    assert!(
        notices.contains("the logs of shards are missing: 1, 2; 34 of 50 requests"),
        "{notices}"
    );
}

#[test]
fn loads_that_cannot_be_sharded_are_rejected() {
    let server = ["--base-url http://127.0.0.1:1 --model tiny"];
    for (arguments, expected) in [
        (
            &["--shard 5/4"][..],
            "--shard is not a shard from 1/4 to 4/4: 5/4",
        ),
        (
            &["--shard auto"],
            "--shard auto finds neither SOBENCH_SHARD",
        ),
        (
            &["--shard 1/4 --max-concurrency 3"],
            "--max-concurrency 3 is too low for --shard 1/4",
        ),
        (
            &["--shard 1/4 --num-prompts 3"],
            "3 requests are too few for --shard 1/4",
        ),
        (
            &["--shard 1/4 --duration 5 --max-concurrency 8"],
            "--shard needs a number of requests",
        ),
        (
            &["--shard 1/4 --duration 5 --max-concurrency 8 --num-prompts 9"],
            "--shard cannot be combined with --duration in a closed loop",
        ),
        (
            &["--shard 1/4 --profile"],
            "--shard cannot be combined with --profile",
        ),
        (
            &["--shard 1/4 --require correct_rate>=99"],
            "--require does not apply to a single shard",
        ),
        (&["--shard 1/4 --no-run-log"], "--shard needs a run log"),
        (
            &["--shard 1/4 --repeat 2"],
            "--shard applies to a single run, not to a comparison",
        ),
    ] {
        sobench(&[&server[..], arguments].concat()).assert_fails(2, &[expected, "hint: "]);
    }
    sobench(&["--shard 1/4"]).assert_fails(2, &["--shard needs a server", "sobench serve"]);
}
