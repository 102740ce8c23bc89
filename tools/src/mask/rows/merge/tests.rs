//! Tests of merging and rejecting shards.

use super::super::tests::{keys, record, row};
use super::*;
use sobench_notices::notice::sentences;

/// Writes the rows file of a shard; `change` modifies its header.
fn part(
    folder: &Path,
    name: &str,
    shard: Shard,
    rows: &[(EngineName, usize)],
    change: impl Fn(&mut MaskRecord),
) -> PathBuf {
    let path = folder.join(name);
    let mut record = MaskRecord {
        shard: Some(shard),
        selected: 2,
        ..record()
    };
    change(&mut record);
    let mut file = RowsFile::<Row>::create(Some(&path), &record).unwrap();
    rows.iter()
        .for_each(|(engine, index)| file.append(&row(*engine, *index)).unwrap());
    path
}

const ONE: Shard = Shard { number: 1, of: 2 };
const TWO: Shard = Shard { number: 2, of: 2 };

#[test]
fn merged_shards_equal_the_unsharded_rows() {
    use EngineName::{Guidance, Outlines};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, shard, rows: &[(EngineName, usize)]| {
        part(folder.path(), name, shard, rows, |_| {})
    };
    let two = at(
        "2",
        TWO,
        &[(Outlines, 7), (Guidance, 3), (Guidance, 7), (Outlines, 3)],
    );
    let one = at(
        "1",
        ONE,
        &[(Outlines, 0), (Outlines, 5), (Guidance, 0), (Guidance, 5)],
    );
    let merged = merge_rows(
        &[two.clone(), one.clone()],
        Some(&folder.path().join("merged")),
    )
    .unwrap();
    let keys_of = |engine| [0, 3, 5, 7].map(|index| (engine, index));
    assert_eq!(
        keys(&merged.rows),
        [keys_of(Outlines), keys_of(Guidance)].concat()
    );
    assert_eq!(
        (
            merged.record.selected,
            merged.record.shard,
            merged.missing,
            merged.notices
        ),
        (4, None, 0, vec![])
    );
    // An unsharded run can resume the merged file.
    let whole = MaskRecord {
        selected: 4,
        ..record()
    };
    let (resumed, notice) = RowsFile::<Row>::resume(&folder.path().join("merged"), &whole).unwrap();
    assert_eq!((resumed.rows().len(), notice), (8, None));
    assert!(
        merge_rows(&[two.clone(), one.clone()], Some(&one))
            .unwrap_err()
            .what
            .starts_with("rows file already exists: ")
    );
    assert_eq!(merge_rows(&[one, two], None).unwrap().rows.path(), None);
}

#[test]
fn mismatched_shards_are_rejected_by_name() {
    use EngineName::{Guidance, Outlines};
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, shard, rows: &[(EngineName, usize)]| {
        part(folder.path(), name, shard, rows, |_| {})
    };
    let one = at("1", ONE, &[(Outlines, 0)]);
    let two = at("2", TWO, &[(Outlines, 3), (Guidance, 3)]);
    let again = at("again", TWO, &[]);
    let same = at("same", TWO, &[(Outlines, 0)]);
    let third = at("third", Shard { number: 3, of: 3 }, &[]);
    let other = part(folder.path(), "other", TWO, &[], |record| {
        record.timeout_ms = 11;
    });
    let whole = folder.path().join("whole");
    RowsFile::<Row>::create(Some(&whole), &record()).unwrap();
    for (paths, message) in [
        (vec![], "no rows to merge"),
        (
            vec![one.clone()],
            "missing of 2 shards: the file of shard 2",
        ),
        (
            vec![one.clone(), two.clone(), again],
            "two files for shard 2/2: ",
        ),
        (
            vec![one.clone(), same],
            "entry 0 under outlines is in two files: ",
        ),
        (
            vec![one.clone(), other],
            "the rows are of different measurements: timeout_ms is 10 in ",
        ),
        (
            vec![one.clone(), third],
            "the rows are of different measurements: shards is 2 in ",
        ),
        (vec![one.clone(), whole], "not the rows of a shard"),
        (vec![one.clone(), folder.path().join("none")], "none"),
    ] {
        let error = merge_rows(&paths, None).expect_err(message);
        assert!(
            error.what.contains(message) && error.exit_code() == 2,
            "{message}: {error}"
        );
    }
    let torn = std::fs::read_to_string(&two).unwrap();
    std::fs::write(&two, &torn[..torn.len() - 4]).unwrap();
    let merged = merge_rows(&[one, two], None).unwrap();
    let notices = sentences(&merged.notices).join("\n");
    assert!(
        notices.ends_with(" is truncated and is skipped\npartial: shard 1/2 has 1 of its 4 rows\npartial: shard 2/2 has 1 of its 4 rows"),
        "{notices}"
    );
    assert_eq!((merged.rows.len(), merged.missing), (2, 6));
}
