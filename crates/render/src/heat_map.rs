//! A heat map as an HTML table of classes: each cell has a letter and a colour. It scrolls in its
//! own box, and its header stays visible.

use std::fmt::Write as _;

use super::escape::escape;

/// A class of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Distinguishes the classes without colours.
    pub letter: char,
    pub name: &'static str,
    /// CSS class of its colour.
    pub css: &'static str,
}

/// A cell.
pub struct Cell {
    pub class: Class,
    /// In place of the letter of the class.
    pub shown: Option<String>,
    /// What is shown when it is pointed at.
    pub text: String,
}

/// A row with a cell for each column; `None` for no data.
pub struct Row {
    pub name: String,
    pub cells: Vec<Option<Cell>>,
}

/// The markup of a heat map. `corner` is the head of the column of names.
pub fn markup(corner: &str, columns: &[String], rows: &[Row]) -> String {
    let mut page = format!(
        "<div class=\"scroll heat\" tabindex=\"0\"><table><thead><tr><th class=\"word\">{}</th>",
        escape(corner)
    );
    for column in columns {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(column));
    }
    page.push_str("</tr></thead><tbody>");
    for row in rows {
        let _ = write!(
            page,
            "<tr><th scope=\"row\" class=\"word\">{}</th>",
            escape(&row.name)
        );
        for cell in &row.cells {
            let _ = match cell {
                Some(Cell { class, shown, text }) => write!(
                    page,
                    "<td class=\"{}\" title=\"{}\">{}</td>",
                    class.css,
                    escape(&format!("{}: {text}", class.name)),
                    shown
                        .as_deref()
                        .map_or_else(|| class.letter.to_string(), escape)
                ),
                None => write!(page, "<td></td>"),
            };
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div>");
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_letters_and_escaped_text() {
        let class = Class {
            letter: 'I',
            name: "invalid",
            css: "heat-invalid",
        };
        let rows = [Row {
            name: "<row>".to_owned(),
            cells: vec![
                Some(Cell {
                    class,
                    shown: None,
                    text: "\"2\" of 3".to_owned(),
                }),
                None,
            ],
        }];
        let page = markup("schema", &["a&b".to_owned(), "c".to_owned()], &rows);
        for part in [
            "<th scope=\"row\" class=\"word\">&lt;row&gt;</th>",
            "<td class=\"heat-invalid\" title=\"invalid: &quot;2&quot; of 3\">I</td><td></td>",
            "<th scope=\"col\">a&amp;b</th>",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }
}
