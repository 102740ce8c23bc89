//! Lines of comma-separated values (RFC 4180). Knows no column.

/// Adds a line: cells with a quote, a comma or a line end are quoted.
pub(crate) fn add_line(file: &mut String, cells: impl IntoIterator<Item = String>) {
    for (place, cell) in cells.into_iter().enumerate() {
        if place > 0 {
            file.push(',');
        }
        if cell.contains(['"', ',', '\n', '\r']) {
            file.push('"');
            file.push_str(&cell.replace('"', "\"\""));
            file.push('"');
        } else {
            file.push_str(&cell);
        }
    }
    file.push_str("\r\n");
}
