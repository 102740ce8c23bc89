//! One load from several clients: the union of the shards is, request for request, the run of one client.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use sobench::runlog::{Keep, RunLog};
use sobench::shard::Shard;

use crate::cli::assert_fails;
use crate::scripted::{Request, Scripted, models, whole};
use crate::support::{Ran, sobench};

/// A load with everything in it that is drawn: unique schemas, a control arm, bursts, LoRA modules; and a cap that does not divide evenly.
const LOAD: [&str; 22] = [
    "--dataset",
    "json-unique",
    "--guided-decoding-ratio",
    "0.6",
    "--num-prompts",
    "50",
    "--request-rate",
    "250",
    "--burstiness",
    "0.4",
    "--max-concurrency",
    "7",
    "--num-warmups",
    "6",
    "--lora-modules",
    "one",
    "two",
    "--request-id-prefix",
    "r-",
    "--skip-preflight",
    "--disable-tqdm",
    "--seed=11",
];

/// What a request's body alone decides: the same question has the same answer, whoever asks, and whenever.
fn answer(request: &Request) -> String {
    if request.asks_for_models() {
        return models();
    }
    if request.line.starts_with("GET") {
        return whole("404 Not Found", "text/plain", "");
    }
    let hash = request.body.iter().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(*byte)));
    let event = |text: String, end: &str| {
        format!("data: {{\"choices\":[{{\"text\":{},\"finish_reason\":{end}}}]}}\n\n", Value::from(text))
    };
    let usage = format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":{}}}}}\n\n", 2 + hash % 5);
    let events =
        [event("{\"n\": ".to_owned(), "null"), event(format!("{hash}}}"), "\"stop\""), usage, "data: [DONE]\n\n".to_owned()];
    whole("200 OK", "text/event-stream", &events.concat())
}

/// What the server got of a run, by the number that each request carries: trials and warm-ups have names.
fn asked(server: &Scripted) -> BTreeMap<String, Vec<u8>> {
    let posts = server.requests().into_iter().filter(|it| it.line.starts_with("POST"));
    let mut asked = BTreeMap::new();
    for request in posts {
        let id = request.header("x-request-id").unwrap().to_owned();
        assert_eq!(asked.insert(id.clone(), request.body), None, "two requests have one id: {id}");
    }
    asked
}

/// A run against `server`, or a shard of it, whose log is `log`.
fn run(server: &Scripted, more: &[&str], log: &Path) -> Ran {
    sobench(&[&["--base-url", &server.base_url, "--run-log", log.to_str().unwrap()], &LOAD[..], more].concat())
}

/// All shards at once, each in a process of its own.
fn run_shards(server: &Scripted, of: usize, folder: &Path) -> Vec<RunLog> {
    let shard = |number: usize| {
        let log = folder.join(format!("shard-{number}.jsonl"));
        let ran = run(server, &["--shard", &format!("{number}/{of}")], &log);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(&format!("shard {number} of {of}: ")), "{said}");
        RunLog::read(&log, Keep::Texts).unwrap()
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (1..=of).map(|number| scope.spawn(move || shard(number))).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Everything of a request that does not depend on when it happened.
fn facts(log: &RunLog) -> BTreeMap<usize, [String; 5]> {
    let of_one = |request: sobench::metrics::Sample<'_>| {
        let case = request.case();
        [
            format!("{} {:?} {:?} due {} ns", case.id, case.arm, case.model, request.moments().due_ns),
            format!("{:?}", (&case.prompt, case.output_len, &case.tags)),
            case.constraint.as_ref().map_or_else(String::new, |constraint| constraint.fingerprint()),
            format!("{:?} {:?} {}", request.outcome(), request.finish_reason(), request.text()),
            format!("{:?}", request.judged()),
        ]
    };
    log.requests.iter().map(|request| (request.case_index(), of_one(request))).collect()
}

/// The most requests that were under way at one instant.
fn peak(log: &RunLog) -> usize {
    let spans: Vec<(u64, u64)> =
        log.requests.iter().filter_map(|it| Some((it.moments().sent_ns?, it.moments().end_ns?))).collect();
    spans.iter().map(|(at, _)| spans.iter().filter(|(sent, end)| sent <= at && at < end).count()).max().unwrap_or(0)
}

#[test]
fn four_shards_are_the_run_of_one_request_for_request() {
    let folder = tempfile::tempdir().unwrap();
    let (alone, together) = (Scripted::answering(answer), Scripted::answering(answer));
    let log = folder.path().join("one.jsonl");
    let one = run(&alone, &["--save-detailed", "--result-dir", folder.path().to_str().unwrap()], &log);
    assert_eq!(one.code, 0, "{}", one.stderr);
    let one = RunLog::read(&log, Keep::Texts).unwrap();
    let shards = run_shards(&together, 4, folder.path());

    let (by_one, by_four) = (asked(&alone), asked(&together));
    let is_of_the_plan = |id: &&String| !id.contains("trial");
    let ids = |asked: &BTreeMap<String, Vec<u8>>| asked.keys().filter(is_of_the_plan).cloned().collect::<Vec<_>>();
    assert_eq!(ids(&by_one), ids(&by_four));
    assert!(by_one.iter().filter(|(id, _)| is_of_the_plan(id)).all(|(id, body)| by_four[id] == *body), "the same bytes");
    assert_eq!((ids(&by_one).len(), by_one.len(), by_four.len()), (56, 57, 60), "a trial each, and 6 warm-ups in all");

    let expected = facts(&one);
    let found: Vec<_> = shards.iter().map(facts).collect();
    println!(
        "shard | requests | own | bodies equal | questions equal | due times equal | answers equal | verdicts equal | cap | peak"
    );
    for (place, (log, facts)) in shards.iter().zip(&found).enumerate() {
        let part = Shard::new(place + 1, 4).unwrap();
        let about = log.header.shard.as_ref().unwrap();
        assert_eq!((about.part(), &about.plan_sha256), (part, &shards[0].header.shard.as_ref().unwrap().plan_sha256));
        assert!(facts.keys().copied().eq((0..50).filter(|index| part.takes(*index))), "{part}: {:?}", facts.keys());
        let same =
            |of: &dyn Fn(&[String; 5]) -> String| facts.iter().filter(|(index, facts)| of(facts) == of(&expected[index])).count();
        let bodies = facts.keys().map(|index| format!("r-{index}")).filter(|id| by_one[id] == by_four[id]).count();
        let counts = [
            bodies,
            same(&|it| it[1..3].concat()),
            same(&|it| it[0].clone()),
            same(&|it| it[3].clone()),
            same(&|it| it[4].clone()),
        ];
        let (cap, peak) = (log.header.own_cap().unwrap(), peak(log));
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
        assert!(peak <= cap, "{part}: {peak} under way, {cap} allowed");
    }
    let caps: Vec<usize> = shards.iter().map(|log| log.header.own_cap().unwrap()).collect();
    assert_eq!(caps, [2, 2, 2, 1]);
    let union: BTreeMap<usize, [String; 5]> = found.into_iter().flatten().collect();
    println!("union | {:8} of {}, every one equal: {}", union.len(), expected.len(), union == expected);
    assert_eq!(union, expected);
}

#[test]
fn what_cannot_be_dealt_out_is_refused_with_the_reason() {
    let server = ["--base-url", "http://127.0.0.1:1", "--model", "tiny"];
    for (arguments, words) in [
        (&["--shard", "5/4"][..], "--shard is no shard from 1/4 to 4/4: 5/4"),
        (&["--shard", "auto"], "--shard auto finds neither SOBENCH_SHARD"),
        (&["--shard", "1/4", "--max-concurrency", "3"], "--max-concurrency 3 is too little for the shards of --shard 1/4"),
        (&["--shard", "1/4", "--num-prompts", "3"], "3 requests are too few for the shards of --shard 1/4"),
        (&["--shard", "1/4", "--duration", "5", "--max-concurrency", "8"], "a load in shards has a number of requests"),
        (
            &["--shard", "1/4", "--duration", "5", "--max-concurrency", "8", "--num-prompts", "9"],
            "a load in shards cannot end in the middle of a closed loop",
        ),
        (&["--shard", "1/4", "--profile"], "a load in shards would have every shard begin and end the server's profile"),
        (&["--shard", "1/4", "--require", "correct_rate>=99"], "a load in shards has no bounds on one of them"),
        (&["--shard", "1/4", "--no-run-log"], "a load in shards is put together from the logs of its shards"),
        (&["--shard", "1/4", "--repeat", "2"], "several runs are not dealt out to clients"),
    ] {
        assert_fails(&sobench(&[&server[..], arguments].concat()), 2, &[words, "hint: "]);
    }
    assert_fails(&sobench(&["--shard", "1/4"]), 2, &["needs one server for all of them", "sobench serve"]);
}
