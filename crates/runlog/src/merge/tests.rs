//! Run logs of shards, merged and compared with the log of one run with the same observations.

use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

use super::super::tests::{cases, footer, judged, observations, record};
use super::super::write::{Access, LogWriter, event_channel};
use super::*;
use sobench_core::run_event::RunEvent;
use sobench_core::schedule::Until;
use sobench_core::shard::ClockOffset;
use sobench_notices::notice::Notice;
use sobench_plan::record::ShardRecord;

/// Differences of a log from the default.
struct LogOptions<'a> {
    record: &'a dyn Fn(&mut RunRecord),
    /// Selects the requests in the log.
    includes: &'a dyn Fn(usize) -> bool,
    started_unix_ns: u64,
    has_footer: bool,
    clock_before: Option<ClockOffset>,
    clock_after: Option<ClockOffset>,
}

fn default_options() -> LogOptions<'static> {
    LogOptions {
        record: &|_| {},
        includes: &|_| true,
        started_unix_ns: 5_000_000_007,
        has_footer: true,
        clock_before: None,
        clock_after: None,
    }
}

/// Writes the log of a shard, or of the whole run.
fn log(path: &Path, part: Option<Shard>, options: &LogOptions<'_>) -> PathBuf {
    let cases = cases();
    let mut record = record();
    record.dataset.requests = cases.len();
    record.settings.load.until = Until::LastCase;
    record.shard = part.map(|part| ShardRecord::new(part, &cases, &[Duration::ZERO; 5]));
    (options.record)(&mut record);
    let plan_sha256 = record.plan_sha256();
    if let Some(shard) = &mut record.shard {
        shard.plan_sha256 = plan_sha256;
    }
    let (events, receiver) = event_channel();
    let at = UNIX_EPOCH + Duration::from_nanos(options.started_unix_ns);
    events.send(RunEvent::Started {
        at,
        clock: options.clock_before,
    });
    let own = observations()
        .into_iter()
        .filter(|observation| (options.includes)(observation.case_index));
    let own: Vec<_> = own
        .filter(|observation| part.is_none_or(|part| part.takes(observation.case_index)))
        .collect();
    let mut indices: Vec<usize> = own
        .iter()
        .map(|observation| observation.case_index)
        .collect();
    indices.sort_unstable();
    own.into_iter()
        .for_each(|observation| events.send(RunEvent::Ended(Box::new(observation))));
    drop(events);
    let writing = LogWriter {
        record,
        open: &|_| Sink::create(path, Access::Default).unwrap(),
        format_time: |_| "start time".to_owned(),
        case_of: &|index| cases.get(index).map(|case| (case, case.id.clone())),
        on_failure: &|error| panic!("{error}"),
    };
    let (mut sink, _) = writing.write(receiver);
    if options.has_footer {
        let duration_ns = 100 + part.map_or(2, |part| part.number) as u64;
        let footer = Footer {
            requests: indices.len(),
            duration_ns,
            clock: options.clock_after,
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
    Shards::read(paths.iter().map(|path| Source::file(path)), false)
}

fn merge(paths: &[PathBuf], to: &Path) -> RunLog {
    let mut sink = Sink::create(to, Access::Default).unwrap();
    shards(paths)
        .unwrap()
        .write(&mut sink, |ns| format!("at {ns}"))
        .unwrap();
    RunLog::read(to).unwrap()
}

/// The content of every request, including server token counts and the time of response headers,
/// which only the file has.
fn contents(log: &RunLog) -> Vec<String> {
    let text = std::fs::read_to_string(log.source().path().unwrap()).unwrap();
    let mut lines: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with("{\"request\""))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // Numbers of shared parts differ between files.
    lines
        .iter_mut()
        .for_each(|line| line["request"]["numbers"] = Value::Null);
    lines.sort_by_key(|line| line["request"]["index"].as_u64());
    let requests = log.requests.iter();
    requests
        .zip(lines)
        .map(|(request, line)| {
            format!(
                "{:?} {:?} {:?} {line}",
                request.case(),
                request.observation(),
                request.judged()
            )
        })
        .collect()
}

const ONE: Shard = Shard { number: 1, of: 2 };
const TWO: Shard = Shard { number: 2, of: 2 };

#[test]
fn merged_log_equals_the_log_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let whole = log(&at("whole"), None, &default_options());
    let whole = RunLog::read(&whole).unwrap();
    // In any order.
    let paths = [
        log(&at("2"), Some(TWO), &default_options()),
        log(&at("1"), Some(ONE), &default_options()),
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
        started: "start time".to_owned(),
        ..merged.record.clone()
    };
    assert_eq!(same, whole.record);
    let merged_shards: Vec<_> = merged
        .record
        .merged
        .iter()
        .map(|shard| {
            (
                shard.number,
                shard.requests,
                shard.begin_ns,
                shard.uncertainty_ns(),
            )
        })
        .collect();
    assert_eq!(merged_shards, [(1, 3, 0, None), (2, 2, 0, None)]);
    let text = std::fs::read_to_string(at("merged")).unwrap();
    let order: Vec<&str> = text
        .lines()
        .map(|line| &line[2..line[2..].find('"').unwrap() + 2])
        .collect();
    assert_eq!(
        order.iter().filter(|member| **member == "prompt").count(),
        4,
        "parts of several logs are written once: {order:?}"
    );
    assert_eq!(order.last(), Some(&"footer"));
    let indices = text
        .lines()
        .filter_map(|line| line.strip_prefix("{\"request\":{\"index\":"))
        .map(|rest| &rest[..1]);
    assert_eq!(indices.collect::<String>(), "01234", "in plan order");
}

#[test]
fn times_are_shifted_to_the_merged_start() {
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
            &LogOptions {
                clock_before: clock(0, 0),
                ..default_options()
            },
        );
        let (clock_before, clock_after) = (clock(-1_000, 40), clock(-1_010, 30));
        let two = LogOptions {
            started_unix_ns,
            clock_before,
            clock_after,
            ..default_options()
        };
        let two = log(&at("2"), Some(TWO), &two);
        let merged = merge(&[one, two], &at("merged"));
        let shard = &merged.record.merged[1];
        assert_eq!(
            (shard.begin_ns, shard.uncertainty_ns()),
            (begin_ns, Some(50)),
            "40 and a drift of 10"
        );
        let sent: Vec<Option<u64>> = merged
            .requests
            .iter()
            .map(|request| request.request_times().sent_ns)
            .collect();
        assert_eq!(sent, [Some(3), None, Some(3), Some(3 + begin_ns), Some(3)]);
        assert_eq!(merged.requests.get(3).unwrap().chunks_ns(), [1 + begin_ns]);
        assert_eq!(merged.footer.as_ref().unwrap().duration_ns, 102 + begin_ns);
        assert_eq!(merged.record.started_unix_ns, 5_000_000_007);
    }
}

#[test]
fn logs_of_different_runs_are_rejected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let three = |number: usize| {
        log(
            &at(&format!("{number}of3")),
            Shard::new(number, 3),
            &default_options(),
        )
    };
    let whole = log(&at("whole"), None, &default_options());
    let one = log(&at("1"), Some(ONE), &default_options());
    let two = log(&at("2"), Some(TWO), &default_options());
    let again = log(&at("again"), Some(TWO), &default_options());
    let seed = log(
        &at("seed"),
        Some(TWO),
        &LogOptions {
            record: &|record| record.settings.dataset.seed = 7,
            ..default_options()
        },
    );
    let differing = |name: &str, record: &dyn Fn(&mut RunRecord)| {
        let change = |changed: &mut RunRecord| {
            record(changed);
            let shard = changed.shard.as_mut().unwrap();
            shard.cases_sha256 = "5".repeat(64);
        };
        let options = LogOptions {
            record: &change,
            ..default_options()
        };
        log(&at(name), Some(TWO), &options)
    };
    let requests = differing("requests", &|_| {});
    let seed_and_requests = differing("seed2", &|record| record.settings.dataset.seed = 8);
    let explained = differing("explained", &|record| {
        record.settings.constraint.explain = !record.settings.constraint.explain;
    });
    let short = log(
        &at("short"),
        Some(TWO),
        &LogOptions {
            includes: &|index| index != 3,
            ..default_options()
        },
    );
    merge(&[one.clone(), two.clone()], &at("merged"));
    // A log with a request of the other shard, and one with a changed header.
    let text = std::fs::read_to_string(&one).unwrap();
    let foreign = text
        .replace("\"index\":4", "\"index\":1")
        .replace("\"id\":\"json-4\"", "\"id\":\"json-1\"");
    std::fs::write(at("foreign"), foreign).unwrap();
    std::fs::write(at("changed"), text.replacen("\"seed\":0", "\"seed\":1", 1)).unwrap();
    for (paths, message) in [
        (vec![], "no logs to merge"),
        (vec![whole], "not the log of a shard: "),
        (
            vec![one.clone()],
            "missing of 2 shards: the file of shard 2",
        ),
        (
            vec![three(2)],
            "missing of 3 shards: the files of shards 1, 3",
        ),
        (
            vec![one.clone(), two.clone(), again],
            "two files for shard 2/2: ",
        ),
        (
            vec![one.clone(), seed],
            "the logs have different plans: load.seed is 0 in ",
        ),
        (
            vec![one.clone(), three(2)],
            "the logs have different plans: shards is 2 in ",
        ),
        (
            vec![one.clone(), seed_and_requests],
            "the logs have different plans: load.seed is 0 in ",
        ),
        (
            vec![one.clone(), explained],
            "the logs have different plans: constraint.explain is ",
        ),
        (
            vec![one.clone(), requests],
            "the logs have different plans: digest of the ids, models and due times of the requests is ",
        ),
        (
            vec![one, short],
            "request with index 3 is missing in the log of shard 2/2: ",
        ),
        (
            vec![at("foreign"), two.clone()],
            "request json-1 (index 1) is in the log of shard 1/2, but belongs to shard 2/2: ",
        ),
        (
            vec![at("changed"), two.clone()],
            "the header of shard 1/2 does not match the digest of its plan: ",
        ),
        (vec![at("merged"), two], "log is already merged: "),
    ] {
        let error = shards(&paths).expect_err(message);
        assert!(
            error.what.contains(message) && error.hint.is_some() && error.exit_code() == 2,
            "{message}: {error}"
        );
    }
}

#[test]
fn requests_of_a_killed_shard_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let one = log(&at("1"), Some(ONE), &default_options());
    let two = log(
        &at("2"),
        Some(TWO),
        &LogOptions {
            includes: &|index| index != 1,
            has_footer: false,
            ..default_options()
        },
    );
    let mut read = shards(&[one, two]).unwrap();
    for log in read.logs_mut().iter_mut().filter(|log| !log.is_judged) {
        log.judge(1, &(), || (), |(), _, _| judged()).unwrap();
    }
    let mut sink = Sink::create(&at("merged"), Access::Default).unwrap();
    read.write(&mut sink, |_| String::new()).unwrap();
    let merged = RunLog::read(&at("merged")).unwrap();
    assert_eq!(
        (merged.requests.len(), merged.is_judged, merged.is_partial()),
        (4, true, true)
    );
    assert!(merged.record.merged[0].end.is_some() && merged.record.merged[1].end.is_none());
}

#[test]
fn missing_logs_make_a_partial_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let paths = [1, 3].map(|number| {
        let part = Shard::new(number, 3);
        log(&at(&number.to_string()), part, &default_options())
    });
    let error = shards(&paths).unwrap_err();
    assert_eq!(error.what, "missing of 3 shards: the file of shard 2");
    assert_eq!(
        error.hint.unwrap(),
        "give the log of each shard, also of a killed one, or add --allow-missing for a partial report"
    );
    let read = |paths: &[PathBuf]| Shards::read(paths.iter().map(|path| Source::file(path)), true);
    assert!(read(&[]).is_err(), "not all of them");
    let mut sink = Sink::create(&at("merged"), Access::Default).unwrap();
    let shards = read(&paths).unwrap();
    shards.write(&mut sink, |_| String::new()).unwrap();
    let merged = RunLog::read(&at("merged")).unwrap();
    let of_shards = merged.record.merged.iter().map(|shard| {
        (
            shard.number,
            shard.requests,
            shard.missing,
            shard.end.is_some(),
        )
    });
    assert_eq!(
        of_shards.collect::<Vec<_>>(),
        [
            (1, 2, false, true),
            (2, 0, true, false),
            (3, 1, false, true)
        ]
    );
    assert!(merged.is_partial() && merged.is_judged && merged.record.has_valid_shards());
    assert_eq!(merged.requests.len(), 3);
}
