//! Renders tables as CSV (RFC 4180) with the crate `csv`: a header line, CRLF line ends, quotes
//! where needed. Untrusted cells are neither formulas for spreadsheets nor control sequences.

use std::borrow::Cow;
use std::convert::Infallible;
use std::io::Write;

use sobench_core::printable::visible;

/// A CSV writer.
pub fn writer<W: Write>(out: W) -> csv::Writer<W> {
    // A row may be shorter than the header.
    csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .flexible(true)
        .from_writer(out)
}

/// Writes a line.
///
/// # Errors
/// The output cannot be written.
pub fn write_row<W: Write, C: AsRef<str>>(
    writer: &mut csv::Writer<W>,
    cells: impl IntoIterator<Item = C>,
) -> csv::Result<()> {
    for text in cells {
        writer.write_field(&*cell(text.as_ref()))?;
    }
    writer.write_record(None::<&[u8]>)
}

/// A cell. An apostrophe precedes a text that a spreadsheet would take for a formula; numbers stay
/// numbers.
fn cell(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if is_formula && text.parse::<f64>().is_err() {
        return format!("'{}", visible(text)).into();
    }
    visible(text)
}

/// Renders a header line and one line for each row.
pub fn render<H, C>(
    header: impl IntoIterator<Item = H>,
    rows: impl IntoIterator<Item = Vec<C>>,
) -> Vec<u8>
where
    H: AsRef<str>,
    C: AsRef<str>,
{
    match try_render(header, rows.into_iter().map(Ok::<_, Infallible>)) {
        Ok(file) => file,
        Err(infallible) => match infallible {},
    }
}

/// As [`render`], for rows that may fail.
///
/// # Errors
/// The error of the first failed row.
pub fn try_render<H, C, E>(
    header: impl IntoIterator<Item = H>,
    rows: impl IntoIterator<Item = Result<Vec<C>, E>>,
) -> Result<Vec<u8>, E>
where
    H: AsRef<str>,
    C: AsRef<str>,
{
    let mut writer = writer(Vec::new());
    write_row(&mut writer, header).expect(IN_MEMORY);
    for row in rows {
        write_row(&mut writer, row?).expect(IN_MEMORY);
    }
    Ok(writer.into_inner().expect(IN_MEMORY))
}

const IN_MEMORY: &str = "writing into memory does not fail";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_need_it() {
        let file = render(["a", "b"], [vec!["1,2", "say \"x\"\n"], vec!["", " z"]]);
        assert_eq!(
            String::from_utf8(file).unwrap(),
            "a,b\r\n\"1,2\",\"say \"\"x\"\"\n\"\r\n, z\r\n"
        );
    }

    #[test]
    fn formulas_and_control_characters_are_text_and_numbers_stay() {
        for (text, expected) in [
            ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
            ("+cmd|x", "'+cmd|x"),
            ("-2+3", "'-2+3"),
            ("@SUM(1)", "'@SUM(1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\\r=1"),
            ("-0.5", "-0.5"),
            ("+1e-9", "+1e-9"),
            ("a=b", "a=b"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("", ""),
        ] {
            assert_eq!(cell(text), expected);
        }
    }

    #[test]
    fn the_first_error_of_a_row_is_returned() {
        let rows = [Ok(vec!["1"]), Err("broken")];
        assert_eq!(try_render(["a"], rows), Err("broken"));
    }
}
