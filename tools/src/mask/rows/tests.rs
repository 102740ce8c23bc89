//! Tests of creating, resuming and rejecting rows files.

use super::*;
use crate::mask::record::{MachineRecord, MeasuredEngine, VocabularyRecord};
use crate::mask::row::Spelling;
use sobench_engine::EnginePolicy;

pub(super) fn record() -> MaskRecord {
    let engine = |engine: EngineName| MeasuredEngine {
        engine,
        version: "1".into(),
        settings: Vec::new(),
        peak_rss_bytes: Some(9),
        wall_ns: 7,
        open_ns: Some(3),
    };
    MaskRecord {
        engines: vec![engine(EngineName::Outlines), engine(EngineName::Guidance)],
        corpora: Vec::new(),
        selected: 2,
        vocabulary: VocabularyRecord {
            name: "v".into(),
            ids: 3,
        },
        policy: EnginePolicy::default(),
        spellings: vec![Spelling::Compact],
        assert_formats: true,
        warm: true,
        filter: None,
        limit: None,
        sample: None,
        jobs: 1,
        timeout_ms: 10,
        memory_limit_bytes: None,
        drafts: None,
        prove: None,
        shard: None,
        host: MachineRecord {
            os: "o".into(),
            arch: "a".into(),
            cpu: None,
            threads: 1,
            clock_ns: 20,
        },
    }
}

pub(super) fn row(engine: EngineName, index: usize) -> Row {
    Row {
        index,
        entry: "e".into(),
        engine,
        tags: Vec::new(),
        kind: "json".into(),
        route: None,
        declined: None,
        stopped: None,
        compile: None,
        instances: Vec::new(),
        times: Vec::new(),
        drafts: None,
    }
}

pub(super) fn keys(rows: &Rows<Row>) -> Vec<(EngineName, usize)> {
    rows.iter()
        .map(|row| row.map(|row| (row.engine, row.index)).unwrap())
        .collect()
}

/// A file with three rows.
fn written(folder: &Path) -> PathBuf {
    let path = folder.join("rows.jsonl");
    let mut file = RowsFile::<Row>::create(Some(&path), &record()).unwrap();
    for (engine, index) in [
        (EngineName::Guidance, 1),
        (EngineName::Outlines, 1),
        (EngineName::Guidance, 0),
    ] {
        file.append(&row(engine, index)).unwrap();
    }
    assert!(file.append(&row(EngineName::Auto, 0)).is_err());
    path
}

#[test]
fn rows_are_read_in_order_regardless_of_completion_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    // The header of earlier versions.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"record\":", "\"about\":", 1)).unwrap();
    let mut another = record();
    (
        another.engines[0].wall_ns,
        another.engines[1].peak_rss_bytes,
        another.host.clock_ns,
    ) = (8, None, 21);
    let (mut file, notice) = RowsFile::<Row>::resume(&path, &another).unwrap();
    assert_eq!(notice, None);
    assert!(
        file.contains_row(EngineName::Guidance, 0) && !file.contains_row(EngineName::Outlines, 0)
    );
    file.append(&row(EngineName::Outlines, 0)).unwrap();
    let (outlines, guidance) = (EngineName::Outlines, EngineName::Guidance);
    assert_eq!(
        keys(&file.rows()),
        [(outlines, 0), (outlines, 1), (guidance, 0), (guidance, 1)]
    );
    assert_eq!(
        keys(&file.rows_of(guidance)),
        [(guidance, 0), (guidance, 1)]
    );
    assert_eq!(file.rows().path(), Some(path.as_path()));
}

#[test]
fn truncated_last_line_is_dropped_with_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let last_line = 1 + whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap();
    for cut in [1, 2, whole.len() - last_line - 1] {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let (mut file, notice) = RowsFile::<Row>::resume(&path, &record()).unwrap();
        assert!(
            notice
                .unwrap()
                .to_string()
                .ends_with("/rows.jsonl is truncated and is measured again"),
            "{cut} bytes are missing"
        );
        assert_eq!(file.rows().len(), 2);
        file.append(&row(EngineName::Guidance, 0)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn rows_file_of_another_measurement_is_rejected_with_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    for (message, change) in [
        (
            "timeout_ms is 10, expected 11:",
            (|record| record.timeout_ms = 11) as fn(&mut MaskRecord),
        ),
        ("engines.1.version is \"1\", expected \"2\":", |record| {
            record.engines[1].version = "2".into();
        }),
        (
            "policy.xgrammar_strict is true, expected false:",
            |record| record.policy.xgrammar_strict = false,
        ),
        ("filter is null, expected \"a\":", |record| {
            record.filter = Some("a".into());
        }),
        (
            "engines is outlines,guidance, expected outlines:",
            |record| record.engines.truncate(1),
        ),
    ] {
        let mut other = record();
        change(&mut other);
        let error = RowsFile::<Row>::resume(&path, &other)
            .map(|_| ())
            .unwrap_err();
        assert!(
            error.what.contains(message) && error.hint.is_some(),
            "{error}"
        );
    }
    let exists = RowsFile::<Row>::create(Some(&path), &record())
        .map(|_| ())
        .unwrap_err();
    assert!(
        exists.what.starts_with("rows file already exists: "),
        "{exists}"
    );
}

#[test]
fn other_files_are_rejected_as_rows_files() {
    let folder = tempfile::tempdir().unwrap();
    let good = std::fs::read_to_string(written(folder.path())).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let damaged = format!("{}\nhello\n{}\n", lines[0], lines[1]);
    for (text, message) in [
        ("", "not a rows file"),
        ("hello\n", "not a rows file"),
        ("{}\n", "not a rows file"),
        (&damaged, "line 2"),
    ] {
        let path = folder.path().join("other.jsonl");
        std::fs::write(&path, text).unwrap();
        let error = RowsFile::<Row>::resume(&path, &record())
            .map(|_| ())
            .unwrap_err();
        assert!(error.what.contains(message), "{error}");
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            text,
            "the file is unchanged"
        );
    }
}

#[test]
fn temporary_file_is_removed_with_its_last_user() {
    let mut file = RowsFile::<Row>::create(None, &record()).unwrap();
    file.append(&row(EngineName::Guidance, 0)).unwrap();
    let rows = file.rows();
    let path = file.stored.path.clone();
    drop(file);
    assert_eq!((rows.len(), rows.path(), keys(&rows).len()), (1, None, 1));
    drop(rows);
    assert!(!path.exists());
}
