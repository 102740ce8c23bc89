//! Renders tables as CSV (RFC 4180) with the crate `csv`: a header line, CRLF line ends, quotes
//! where needed.

use std::convert::Infallible;
use std::io::Write;

/// A CSV writer.
pub fn writer<W: Write>(out: W) -> csv::Writer<W> {
    // A row may be shorter than the header.
    csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .flexible(true)
        .from_writer(out)
}

/// Renders a header line and one line for each row.
pub fn render<H, C>(
    header: impl IntoIterator<Item = H>,
    rows: impl IntoIterator<Item = Vec<C>>,
) -> Vec<u8>
where
    H: AsRef<[u8]>,
    C: AsRef<[u8]>,
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
    H: AsRef<[u8]>,
    C: AsRef<[u8]>,
{
    let mut writer = writer(Vec::new());
    writer.write_record(header).expect(IN_MEMORY);
    for row in rows {
        writer.write_record(row?).expect(IN_MEMORY);
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
    fn the_first_error_of_a_row_is_returned() {
        let rows = [Ok(vec!["1"]), Err("broken")];
        assert_eq!(try_render(["a"], rows), Err("broken"));
    }
}
