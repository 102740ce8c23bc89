//! The table of requests as Parquet: the columns and values of the format `csv`, with types.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_report::csv::{self, ColumnType};
use sobench_report::format::{self, FormSettings};
use sobench_report::view::View;

/// Writes a report in a format: Parquet here, the others as [`format::write`].
///
/// # Errors
/// As for [`format::write`].
pub(crate) fn write_form(
    view: &View<'_>,
    form: OutputFormat,
    options: FormSettings,
    out: &mut dyn Write,
) -> Result<()> {
    match form {
        OutputFormat::Parquet => write(view, out),
        form => format::write(view, form, options, out),
    }
}

/// Writes every request, in plan order. Values that are unknown are null.
fn write(view: &View<'_>, out: &mut dyn Write) -> Result<()> {
    let mut text = Vec::new();
    csv::write(view, &mut text)?;
    let cannot_write = |why: String| {
        Error::environment(format!("cannot write Parquet: {why}"))
            .hint("free disk space, or name another file")
    };
    let rows: Vec<::csv::StringRecord> = ::csv::Reader::from_reader(&*text)
        .into_records()
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| cannot_write(error.to_string()))?;
    let mut file = Vec::new();
    write_rows(&rows, &mut file).map_err(|error| cannot_write(error.to_string()))?;
    out.write_all(&file)
        .map_err(|error| cannot_write(error.to_string()))
}

fn write_rows(rows: &[::csv::StringRecord], out: &mut Vec<u8>) -> ParquetResult<()> {
    let columns = csv::columns();
    let fields = columns.iter().map(field).collect::<ParquetResult<_>>()?;
    let schema = Type::group_type_builder("requests")
        .with_fields(fields)
        .build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
    let mut group = file.next_row_group()?;
    let mut index = 0;
    while let Some(mut column) = group.next_column()? {
        let cells = || rows.iter().map(|row| &row[index]);
        let levels: Vec<i16> = cells().map(|cell| i16::from(!cell.is_empty())).collect();
        let known = || cells().filter(|cell| !cell.is_empty());
        match column.untyped() {
            ColumnWriter::BoolColumnWriter(writer) => {
                let values: Vec<bool> = known().map(|cell| cell == "true").collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            ColumnWriter::Int64ColumnWriter(writer) => {
                let values: Vec<i64> = known().map(|cell| cell.parse().unwrap_or(0)).collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            ColumnWriter::DoubleColumnWriter(writer) => {
                let values: Vec<f64> = known()
                    .map(|cell| cell.parse().unwrap_or(f64::NAN))
                    .collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            ColumnWriter::ByteArrayColumnWriter(writer) => {
                let values: Vec<ByteArray> = known().map(ByteArray::from).collect();
                writer.write_batch(&values, Some(&levels), None)?;
            }
            _ => {}
        }
        column.close()?;
        index += 1;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn field((name, kind): &(String, ColumnType)) -> ParquetResult<Arc<Type>> {
    let (physical, logical) = match kind {
        ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::Integer => (PhysicalType::INT64, None),
        ColumnType::Number => (PhysicalType::DOUBLE, None),
        ColumnType::Boolean => (PhysicalType::BOOLEAN, None),
    };
    let field = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}
