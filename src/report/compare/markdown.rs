//! A comparison as Markdown, for a comment on a pull request. Lays out blocks, and knows nothing of what they say.

use super::blocks::{self, Block};
use crate::compare::Comparison;

/// The page, in GitHub's Markdown.
pub fn render(comparison: &Comparison) -> String {
    let mut page = String::new();
    for (place, block) in blocks::all(comparison).into_iter().enumerate() {
        page.push_str(&match block {
            Block::Heading(title) => format!("{} {}\n\n", if place == 0 { "##" } else { "###" }, escaped(&title)),
            Block::Lines(lines) => lines.iter().map(|line| format!("{}\n\n", escaped(line))).collect(),
            Block::Table { rows, figures } => table(&rows, &figures),
            Block::Case { title, seen } => {
                format!("- **{}**\n  - {}\n  - {}\n\n", escaped(&title), code(&seen[0]), code(&seen[1]))
            }
        });
    }
    page.trim_end().to_owned() + "\n"
}

fn table(rows: &[Vec<String>], figures: &std::ops::Range<usize>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| if cell.is_empty() { " ".to_owned() } else { escaped(cell) }).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let rule = (0..head.len()).map(|column| if figures.contains(&column) { "---:" } else { "---" }).collect::<Vec<_>>();
    let body: String = body.iter().map(|row| line(row)).collect();
    format!("{}| {} |\n{body}\n", line(head), rule.join(" | "))
}

/// Text that stays text: what Markdown or HTML would obey is escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '@' => {
                escaped.push('\\');
                escaped.push(character);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// A line as code, fenced by more backticks than it has in a row.
fn code(text: &str) -> String {
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    format!("{fence} {text} {fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_text_cannot_break_out() {
        assert_eq!(escaped("a|b<img> *x* @you"), "a\\|b&lt;img&gt; \\*x\\* \\@you");
        assert_eq!(code("a ``b`` c"), "``` a ``b`` c ```");
        let rows = vec![vec!["h".to_owned(), "i".to_owned()], vec!["x|y".to_owned(), String::new()]];
        assert_eq!(table(&rows, &(1..2)), "| h | i |\n| --- | ---: |\n| x\\|y |   |\n\n");
    }
}
