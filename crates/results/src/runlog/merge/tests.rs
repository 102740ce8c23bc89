//! Logs of made-up shards, merged and held against the log of one run with the same observations.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use super::super::tests::{cases, footer, judged, observations, record};
use super::super::write::{Access, Secrets, Writing, event_channel};
use super::*;
use crate::record::ShardRecord;
use sobench_core::run_event::RunEvent;
use sobench_core::schedule::Until;
use sobench_core::shard::ClockOffset;
use sobench_notices::notice::Notice;

/// How a log is made otherwise than the others.
struct Otherwise<'a> {
    record: &'a dyn Fn(&mut RunRecord),
    /// Which requests are in it.
    holds: &'a dyn Fn(usize) -> bool,
    started_unix_ns: u64,
    is_whole: bool,
    clock_before: Option<ClockOffset>,
    clock_after: Option<ClockOffset>,
}

fn as_planned() -> Otherwise<'static> {
    Otherwise {
        record: &|_| {},
        holds: &|_| true,
        started_unix_ns: 5_000_000_007,
        is_whole: true,
        clock_before: None,
        clock_after: None,
    }
}

/// Writes the log of a part, or of the whole.
fn log(path: &Path, part: Option<Shard>, how: &Otherwise<'_>) -> PathBuf {
    let cases = cases();
    let mut record = record();
    record.dataset.requests = cases.len();
    record.settings.load.until = Until::LastCase;
    record.shard = part.map(|part| ShardRecord::new(part, &cases, &[Duration::ZERO; 5]));
    (how.record)(&mut record);
    let plan_sha256 = record.plan_sha256();
    if let Some(shard) = &mut record.shard {
        shard.plan_sha256 = plan_sha256;
    }
    let (events, receiver) = event_channel();
    let at = UNIX_EPOCH + Duration::from_nanos(how.started_unix_ns);
    events.send(RunEvent::Started {
        at,
        clock: how.clock_before,
    });
    let own = observations()
        .into_iter()
        .filter(|it| (how.holds)(it.case_index));
    let own: Vec<_> = own
        .filter(|it| part.is_none_or(|part| part.takes(it.case_index)))
        .collect();
    let mut indices: Vec<usize> = own.iter().map(|it| it.case_index).collect();
    indices.sort_unstable();
    own.into_iter()
        .for_each(|observation| events.send(RunEvent::Ended(Box::new(observation))));
    drop(events);
    let writing = Writing {
        record,
        open: &|_| Sink::create(path, Access::Usual).unwrap(),
        spell: |_| "then".to_owned(),
        case_of: &|index| cases.get(index).map(|case| (case, case.id.clone())),
        secrets: &Secrets::default(),
        failed: &|error| panic!("{error}"),
    };
    let (mut sink, _) = writing.write(receiver);
    if how.is_whole {
        let duration_ns = 100 + part.map_or(2, |part| part.number) as u64;
        let footer = Footer {
            requests: indices.len(),
            duration_ns,
            clock: how.clock_after,
            ..footer()
        };
        assert_eq!(
            sink.finish(indices.into_iter().map(|index| (index, judged())), &footer),
            None
        );
    }
    path.to_owned()
}

fn shards(paths: &[PathBuf]) -> Result<Shards> {
    Shards::read(paths.iter().map(|path| Source::file(path)))
}

fn merge(paths: &[PathBuf], to: &Path) -> RunLog {
    let mut sink = Sink::create(to, Access::Usual).unwrap();
    shards(paths)
        .unwrap()
        .write(&mut sink, |ns| format!("at {ns}"))
        .unwrap();
    RunLog::read(to, Keep::Texts).unwrap()
}

/// Everything of every request, the server's own counts and the head's instant among it, which only
/// the file has.
fn contents(log: &RunLog) -> Vec<String> {
    let text = std::fs::read_to_string(log.source().path().unwrap()).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with("{\"request\""))
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    // Numbers of what is shared are each file's own.
    lines
        .iter_mut()
        .for_each(|line| line["request"]["numbers"] = Value::Null);
    lines.sort_by_key(|line| line["request"]["index"].as_u64());
    let requests = log.requests.iter();
    requests
        .zip(lines)
        .map(|(it, line)| {
            format!(
                "{:?} {:?} {:?} {line}",
                it.case(),
                it.observation(),
                it.judged()
            )
        })
        .collect()
}

const ONE: Shard = Shard { number: 1, of: 2 };
const TWO: Shard = Shard { number: 2, of: 2 };

#[test]
fn a_merged_log_is_the_log_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let whole = log(&at("whole"), None, &as_planned());
    let whole = RunLog::read(&whole, Keep::Texts).unwrap();
    // In any order.
    let paths = [
        log(&at("2"), Some(TWO), &as_planned()),
        log(&at("1"), Some(ONE), &as_planned()),
    ];
    let merged = merge(&paths, &at("merged"));
    assert_eq!(contents(&merged), contents(&whole));
    assert_eq!(
        (merged.is_judged, merged.is_partial(), merged.record.part()),
        (true, false, Shard::WHOLE)
    );
    let footer = merged.footer.as_ref().unwrap();
    assert_eq!(
        (
            footer.requests,
            footer.duration_ns,
            whole.footer.as_ref().unwrap().duration_ns
        ),
        (5, 102, 102)
    );
    assert_eq!(
        (footer.cost.cpu_s, footer.cost.wall_s, &footer.notices),
        (Some(0.2), 1.1 + 2.2, &vec![Notice::Other("n".to_owned())])
    );
    assert_eq!(
        (&*merged.record.started, merged.record.started_unix_ns),
        ("at 5000000007", 5_000_000_007)
    );
    let same = RunRecord {
        merged: Vec::new(),
        started: "then".to_owned(),
        ..merged.record.clone()
    };
    assert_eq!(same, whole.record);
    let told: Vec<_> = merged
        .record
        .merged
        .iter()
        .map(|it| (it.number, it.requests, it.begin_ns, it.uncertainty_ns()))
        .collect();
    assert_eq!(told, [(1, 3, 0, None), (2, 2, 0, None)]);
    let text = std::fs::read_to_string(at("merged")).unwrap();
    let order: Vec<&str> = text
        .lines()
        .map(|line| &line[2..line[2..].find('"').unwrap() + 2])
        .collect();
    assert_eq!(
        order.iter().filter(|it| **it == "prompt").count(),
        4,
        "what two logs share is there once: {order:?}"
    );
    assert_eq!(order.last(), Some(&"footer"));
    let indices = text
        .lines()
        .filter_map(|line| line.strip_prefix("{\"request\":{\"index\":"))
        .map(|rest| &rest[..1]);
    assert_eq!(
        indices.collect::<String>(),
        "01234",
        "in the order of the plan"
    );
}

#[test]
fn instants_are_on_one_time_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let clock = |offset_ns, uncertainty_ns| {
        Some(ClockOffset {
            offset_ns,
            uncertainty_ns,
            exchanges: 32,
        })
    };
    for (started_unix_ns, begin_ns) in [(5_000_001_007, 0), (5_000_001_507, 500)] {
        let one = log(
            &at("1"),
            Some(ONE),
            &Otherwise {
                clock_before: clock(0, 0),
                ..as_planned()
            },
        );
        let (clock_before, clock_after) = (clock(-1_000, 40), clock(-1_010, 30));
        let two = Otherwise {
            started_unix_ns,
            clock_before,
            clock_after,
            ..as_planned()
        };
        let two = log(&at("2"), Some(TWO), &two);
        let merged = merge(&[one, two], &at("merged"));
        let told = &merged.record.merged[1];
        assert_eq!(
            (told.begin_ns, told.uncertainty_ns()),
            (begin_ns, Some(50)),
            "40 and a drift of 10"
        );
        let sent: Vec<Option<u64>> = merged
            .requests
            .iter()
            .map(|it| it.moments().sent_ns)
            .collect();
        assert_eq!(sent, [Some(3), None, Some(3), Some(3 + begin_ns), Some(3)]);
        assert_eq!(merged.requests.get(3).unwrap().chunks_ns(), [1 + begin_ns]);
        assert_eq!(merged.footer.as_ref().unwrap().duration_ns, 102 + begin_ns);
        assert_eq!(merged.record.started_unix_ns, 5_000_000_007);
    }
}

#[test]
fn what_does_not_belong_together_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let three = |number: usize| {
        log(
            &at(&format!("{number}of3")),
            Shard::new(number, 3),
            &as_planned(),
        )
    };
    let whole = log(&at("whole"), None, &as_planned());
    let one = log(&at("1"), Some(ONE), &as_planned());
    let two = log(&at("2"), Some(TWO), &as_planned());
    let again = log(&at("again"), Some(TWO), &as_planned());
    let seed = log(
        &at("seed"),
        Some(TWO),
        &Otherwise {
            record: &|record| record.settings.dataset.seed = 7,
            ..as_planned()
        },
    );
    let short = log(
        &at("short"),
        Some(TWO),
        &Otherwise {
            holds: &|index| index != 3,
            ..as_planned()
        },
    );
    merge(&[one.clone(), two.clone()], &at("merged"));
    // A log with a request of the other part; one whose header was changed.
    let text = std::fs::read_to_string(&one).unwrap();
    let foreign = text
        .replace("\"index\":4", "\"index\":1")
        .replace("\"id\":\"json-4\"", "\"id\":\"json-1\"");
    std::fs::write(at("foreign"), foreign).unwrap();
    std::fs::write(at("changed"), text.replacen("\"seed\":0", "\"seed\":1", 1)).unwrap();
    for (paths, words) in [
        (vec![], "no logs to merge"),
        (
            vec![whole],
            "not the log of a shard, for its run was the whole: ",
        ),
        (
            vec![one.clone()],
            "of 2 shards the file of shard 2 is missing",
        ),
        (
            vec![three(2)],
            "of 3 shards the files of shards 1, 3 are missing",
        ),
        (
            vec![one.clone(), two.clone(), again],
            "two files are of shard 2/2: ",
        ),
        (
            vec![one.clone(), seed],
            "the logs are of different plans: load.seed is 0 in ",
        ),
        (
            vec![one.clone(), three(2)],
            "the logs are of different plans: ",
        ),
        (
            vec![one, short],
            "shard 2/2 ended, and the request of index 3 is not in its log: ",
        ),
        (
            vec![at("foreign"), two.clone()],
            "request json-1 (index 1) is in the log of shard 1/2, and belongs to shard 2/2: ",
        ),
        (
            vec![at("changed"), two.clone()],
            "the header of shard 1/2 does not fit the digest of its own plan: ",
        ),
        (
            vec![at("merged"), two],
            "this log was merged from shards already: ",
        ),
    ] {
        let error = shards(&paths).expect_err(words);
        assert!(
            error.what.contains(words) && error.hint.is_some() && error.exit_code() == 2,
            "{words}: {error}"
        );
    }
}

#[test]
fn a_shard_that_was_killed_counts_as_far_as_it_went() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let one = log(&at("1"), Some(ONE), &as_planned());
    let two = log(
        &at("2"),
        Some(TWO),
        &Otherwise {
            holds: &|index| index != 1,
            is_whole: false,
            ..as_planned()
        },
    );
    let mut read = shards(&[one, two]).unwrap();
    for log in read.logs_mut().iter_mut().filter(|log| !log.is_judged) {
        log.judge(|_, _| judged()).unwrap();
    }
    let mut sink = Sink::create(&at("merged"), Access::Usual).unwrap();
    read.write(&mut sink, |_| String::new()).unwrap();
    let merged = RunLog::read(&at("merged"), Keep::WithoutTexts).unwrap();
    assert_eq!(
        (merged.requests.len(), merged.is_judged, merged.is_partial()),
        (4, true, true)
    );
    assert!(merged.record.merged[0].end.is_some() && merged.record.merged[1].end.is_none());
}
