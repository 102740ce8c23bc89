//! Reads selected columns of Parquet files as JSON objects.

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
use sobench_core::input::{self, FileSignature};

/// The rows of a Parquet file, uncompressed or compressed with Snappy, with those of `columns` that
/// exist in the file.
pub fn read(path: &Path, columns: &[&str]) -> Result<Vec<Map<String, Value>>> {
    let bytes = bytes(path)?;
    // The reader panics on some damaged files and on column types that it does not support.
    let read = catch_unwind(AssertUnwindSafe(|| objects(bytes, columns)));
    let rows = read.unwrap_or_else(|_| {
        Err("the file is damaged, or has columns of an unsupported type".to_owned())
    });
    rows.map_err(|error| {
        Error::usage(format!(
            "cannot read {} as Parquet: {error}",
            path.display()
        ))
        .hint("fetch the file again if it is truncated; the only supported compression is Snappy")
    })
}

/// The names of a Parquet file's columns.
pub fn columns(path: &Path) -> Result<Vec<String>> {
    let bytes = bytes(path)?;
    let unreadable = || {
        Error::usage(format!(
            "cannot read {} as Parquet: invalid schema",
            path.display()
        ))
        .hint("fetch the file again: it is damaged or truncated")
    };
    let read = catch_unwind(AssertUnwindSafe(|| SerializedFileReader::new(bytes)))
        .map_err(|_| unreadable())?;
    let reader = read.map_err(|_| unreadable())?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    Ok(fields.iter().map(|field| field.name().to_owned()).collect())
}

fn bytes(path: &Path) -> Result<Bytes> {
    input::check_bytes(path, MAX_DATASET_BYTES, |look| {
        matches!(
            look,
            FileSignature::Parquet
                | FileSignature::Nul
                | FileSignature::Utf16
                | FileSignature::Utf32
        )
    })?;
    let bytes = input::read_bytes(path, MAX_DATASET_BYTES)?;
    if !bytes.starts_with(b"PAR1") {
        return Err(Error::usage(format!(
            "cannot read {} as Parquet: it does not start with PAR1",
            path.display()
        ))
        .hint("give a Parquet file, or use the extension of the actual format: .jsonl, .json"));
    }
    Ok(Bytes::from(bytes))
}

fn objects(bytes: Bytes, columns: &[&str]) -> std::result::Result<Vec<Map<String, Value>>, String> {
    let message = |error: ::parquet::errors::ParquetError| error.to_string();
    let reader = SerializedFileReader::new(bytes).map_err(message)?;
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
            "more than {MAX_DATASET_BYTES} bytes uncompressed: {bytes}"
        ));
    }
    let projection = project(metadata.file_metadata().schema(), columns).map_err(message)?;
    let mut objects = Vec::with_capacity(rows);
    for row in reader.get_row_iter(Some(projection)).map_err(message)? {
        objects.push(object(row.map_err(message)?)?);
    }
    if objects.len() == rows {
        Ok(objects)
    } else {
        Err(format!(
            "the header declares {rows} rows, the file has {}",
            objects.len()
        ))
    }
}

/// The file's schema with only the selected columns: the others may be large or unsupported.
fn project(schema: &Type, columns: &[&str]) -> ::parquet::errors::Result<Type> {
    let selected = schema
        .get_fields()
        .iter()
        .filter(|field| columns.contains(&field.name()));
    Type::group_type_builder(schema.name())
        .with_fields(selected.map(Arc::clone).collect())
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
        _ => return Err("a column is not text, number, list or group".to_owned()),
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
    fn skips_columns_that_are_not_selected() {
        let rows = read(Path::new(FIXTURE), &["schema", "none"]).unwrap();
        assert!(rows.iter().all(|row| row.keys().eq(["schema"])));
    }

    #[track_caller]
    fn check_refused(bytes: &[u8], message: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        std::fs::write(&path, bytes).unwrap();
        let error = read(&path, &COLUMNS).unwrap_err();
        assert!(error.what.contains(message), "{error}");
    }

    #[test]
    fn refuses_other_codecs_and_formats() {
        check_refused(
            include_bytes!("../../../../fixtures/datasets/gzip.parquet"),
            "flate2",
        );
        check_refused(b"", "cannot read");
        check_refused(b"{\"prompt\": []}", "cannot read");
    }

    #[test]
    fn a_damaged_file_never_panics() {
        let good = std::fs::read(FIXTURE).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let (mut refused, mut accepted) = (0, 0);
        for offset in (0..good.len()).step_by(13) {
            let mut bytes = good.clone();
            bytes[offset] ^= 0x5a;
            std::fs::write(&path, &bytes).unwrap();
            match read(&path, &COLUMNS) {
                Ok(_) => accepted += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(
            refused > 50,
            "{refused} damaged files were refused, {accepted} accepted"
        );
        std::fs::write(&path, &good[..good.len() / 2]).unwrap();
        read(&path, &COLUMNS).unwrap_err();
    }
}
