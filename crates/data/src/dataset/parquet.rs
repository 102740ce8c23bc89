//! Parquet files to JSON objects, for the columns that are asked for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::{Field, Row};
use ::parquet::schema::types::Type;
use bytes::Bytes;
use serde_json::{Map, Value};

use super::file::{MAX_DATASET_BYTES, MAX_ROWS};
use sobench_core::error::{Error, Result};
use sobench_core::input::{self, Look};

/// The rows of a Parquet file, uncompressed or compressed with Snappy. Of each row, those of
/// `columns` that the file has.
pub fn read(path: &Path, columns: &[&str]) -> Result<Vec<Map<String, Value>>> {
    let bytes = bytes(path)?;
    // The reader panics on some damaged files and on column types that it does not know.
    let read = catch_unwind(AssertUnwindSafe(|| objects(bytes, columns)));
    let rows = read.unwrap_or_else(|_| {
        Err("the file is damaged, or has columns of a type that is not read".to_owned())
    });
    rows.map_err(|words| {
        Error::usage(format!("cannot read {} as Parquet: {words}", path.display()))
            .hint("a file that was cut off has no end to read it by: fetch it again; of packed ones only Snappy is read")
    })
}

/// The names of a Parquet file's columns.
pub fn columns(path: &Path) -> Result<Vec<String>> {
    let bytes = bytes(path)?;
    let unreadable = || {
        Error::usage(format!(
            "cannot read {} as Parquet: its columns cannot be told",
            path.display()
        ))
        .hint("the file is damaged or was cut off: fetch it again")
    };
    let read = catch_unwind(AssertUnwindSafe(|| SerializedFileReader::new(bytes)))
        .map_err(|_| unreadable())?;
    let reader = read.map_err(|_| unreadable())?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    Ok(fields.iter().map(|field| field.name().to_owned()).collect())
}

fn bytes(path: &Path) -> Result<Bytes> {
    input::check_bytes(path, MAX_DATASET_BYTES, |look| {
        matches!(look, Look::Parquet | Look::Nul | Look::Utf16 | Look::Utf32)
    })?;
    let bytes = input::read_bytes(path, MAX_DATASET_BYTES)?;
    if !bytes.starts_with(b"PAR1") {
        return Err(Error::usage(format!(
            "cannot read {} as Parquet: it does not begin as such",
            path.display()
        ))
        .hint("give a Parquet file, or name the file by what it holds: .jsonl, .json"));
    }
    Ok(Bytes::from(bytes))
}

fn objects(bytes: Bytes, columns: &[&str]) -> std::result::Result<Vec<Map<String, Value>>, String> {
    let words = |error: ::parquet::errors::ParquetError| error.to_string();
    let reader = SerializedFileReader::new(bytes).map_err(words)?;
    let metadata = reader.metadata();
    let rows = usize::try_from(metadata.file_metadata().num_rows())
        .map_err(|_| "a negative number of rows".to_owned())?;
    if rows > MAX_ROWS {
        return Err(format!("more than {MAX_ROWS} rows: {rows}"));
    }
    let bytes: i64 = metadata
        .row_groups()
        .iter()
        .map(|group| group.total_byte_size().max(0))
        .fold(0, i64::saturating_add);
    if bytes.unsigned_abs() > MAX_DATASET_BYTES {
        return Err(format!(
            "more than {MAX_DATASET_BYTES} bytes when unpacked: {bytes}"
        ));
    }
    let projection = project(metadata.file_metadata().schema(), columns).map_err(words)?;
    let mut objects = Vec::with_capacity(rows);
    for row in reader.get_row_iter(Some(projection)).map_err(words)? {
        objects.push(object(row.map_err(words)?)?);
    }
    if objects.len() == rows {
        Ok(objects)
    } else {
        Err(format!(
            "{rows} rows are promised, and {} are there",
            objects.len()
        ))
    }
}

/// The file's schema without the columns that are not asked for: they may be large, or of a kind
/// that cannot be read.
fn project(schema: &Type, columns: &[&str]) -> ::parquet::errors::Result<Type> {
    let kept = schema
        .get_fields()
        .iter()
        .filter(|field| columns.contains(&field.name()));
    Type::group_type_builder(schema.name())
        .with_fields(kept.map(Arc::clone).collect())
        .build()
}

fn object(row: Row) -> std::result::Result<Map<String, Value>, String> {
    row.into_columns()
        .into_iter()
        .map(|(name, field)| Ok((name, value(field)?)))
        .collect()
}

fn value(field: Field) -> std::result::Result<Value, String> {
    Ok(match field {
        Field::Null => Value::Null,
        Field::Bool(value) => Value::from(value),
        Field::Int(value) => Value::from(value),
        Field::Long(value) => Value::from(value),
        Field::Double(value) => Value::from(value),
        Field::Str(text) => Value::from(text),
        Field::Group(row) => Value::Object(object(row)?),
        Field::ListInternal(list) => Value::Array(
            list.elements()
                .iter()
                .map(|item| value(item.clone()))
                .collect::<std::result::Result<_, _>>()?,
        ),
        _ => return Err("a column is neither text, number, list nor group".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/datasets/json_mode_eval.parquet"
    );
    const COLUMNS: [&str; 3] = ["prompt", "schema", "completion"];

    #[test]
    fn reads_the_published_layout() {
        let rows = read(Path::new(FIXTURE), &COLUMNS).unwrap();
        assert_eq!(rows.len(), 4);
        let jsonl = include_str!("../../../../fixtures/datasets/json_mode_eval.jsonl");
        for (row, line) in rows.into_iter().zip(jsonl.lines()) {
            assert_eq!(
                Value::Object(row),
                serde_json::from_str::<Value>(line).unwrap()
            );
        }
    }

    #[test]
    fn leaves_out_columns_that_are_not_asked_for() {
        let rows = read(Path::new(FIXTURE), &["schema", "none"]).unwrap();
        assert!(rows.iter().all(|row| row.keys().eq(["schema"])));
    }

    #[track_caller]
    fn check_refused(bytes: &[u8], words: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path, &COLUMNS).unwrap_err();
        assert!(error.what.contains(words), "{error}");
    }

    #[test]
    fn refuses_other_codecs_and_other_files() {
        check_refused(
            include_bytes!("../../../../fixtures/datasets/gzip.parquet"),
            "flate2",
        );
        check_refused(b"", "cannot read");
        check_refused(b"{\"prompt\": []}", "cannot read");
    }

    #[test]
    fn a_damaged_file_is_an_error_or_other_rows_and_never_a_panic() {
        let good = std::fs::read(FIXTURE).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let (mut refused, mut read_all_the_same) = (0, 0);
        for place in (0..good.len()).step_by(13) {
            let mut bytes = good.clone();
            bytes[place] ^= 0x5a;
            std::fs::write(&path, &bytes).unwrap();
            match read(&path, &COLUMNS) {
                Ok(_) => read_all_the_same += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(
            refused > 50,
            "{refused} damaged files were refused, {read_all_the_same} read"
        );
        std::fs::write(&path, &good[..good.len() / 2]).unwrap();
        read(&path, &COLUMNS).unwrap_err();
    }
}
