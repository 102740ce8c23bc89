//! Rows of made-up shards, merged and refused.

use super::super::tests::{about, keys, row};
use super::*;
use sobench_notices::notice::sentences;

/// The rows file of a shard with these rows; how its header differs from the others'.
fn part(
    folder: &Path,
    name: &str,
    shard: Shard,
    rows: &[(EngineName, usize)],
    change: impl Fn(&mut MaskRecord),
) -> PathBuf {
    let path = folder.join(name);
    let mut about = MaskRecord {
        shard: Some(shard),
        selected: 2,
        ..about()
    };
    change(&mut about);
    let mut file = RowsFile::<Row>::create(Some(&path), &about).unwrap();
    rows.iter()
        .for_each(|(engine, index)| file.append(&row(*engine, *index)).unwrap());
    path
}

const ONE: Shard = Shard { number: 1, of: 2 };
const TWO: Shard = Shard { number: 2, of: 2 };

#[test]
fn rows_of_all_shards_are_those_of_the_whole() {
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
    let merged = merge(
        &[two.clone(), one.clone()],
        Some(&folder.path().join("merged")),
    )
    .unwrap();
    let of = |engine| [0, 3, 5, 7].map(|index| (engine, index));
    assert_eq!(keys(&merged.rows), [of(Outlines), of(Guidance)].concat());
    assert_eq!(
        (
            merged.about.selected,
            merged.about.shard,
            merged.missing,
            merged.notices
        ),
        (4, None, 0, vec![])
    );
    // What a measurement of the whole goes on with, it has.
    let whole = MaskRecord {
        selected: 4,
        ..about()
    };
    let (resumed, notice) = RowsFile::<Row>::resume(&folder.path().join("merged"), &whole).unwrap();
    assert_eq!((resumed.rows().len(), notice), (8, None));
    assert!(
        merge(&[two.clone(), one.clone()], Some(&one))
            .unwrap_err()
            .what
            .contains("exists already")
    );
    assert_eq!(merge(&[one, two], None).unwrap().rows.path(), None);
}

#[test]
fn what_does_not_belong_together_is_refused_by_name() {
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
    let other = part(folder.path(), "other", TWO, &[], |about| {
        about.timeout_ms = 11
    });
    let whole = folder.path().join("whole");
    RowsFile::<Row>::create(Some(&whole), &about()).unwrap();
    for (paths, words) in [
        (vec![], "no rows to merge"),
        (
            vec![one.clone()],
            "of 2 shards the file of shard 2 is missing",
        ),
        (
            vec![one.clone(), two.clone(), again],
            "two files are of shard 2/2: ",
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
        let error = merge(&paths, None).expect_err(words);
        assert!(
            error.what.contains(words) && error.exit_code() == 2,
            "{words}: {error}"
        );
    }
    let torn = std::fs::read_to_string(&two).unwrap();
    std::fs::write(&two, &torn[..torn.len() - 4]).unwrap();
    let merged = merge(&[one, two], None).unwrap();
    let said = sentences(&merged.notices).join("\n");
    assert!(
        said.contains("the last row of ")
            && said.contains("partial: shard 2/2 has 1 of its 4 rows"),
        "{said}"
    );
    assert_eq!((merged.rows.len(), merged.missing), (2, 6));
}
