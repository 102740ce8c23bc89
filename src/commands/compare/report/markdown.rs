//! A comparison as Markdown, for a comment on a pull request. Lays out blocks, and knows nothing of what they say.

use super::blocks::{self, Block};
use crate::compare::Comparison;
use crate::render::escape::{markdown_code, markdown_text};

/// The page, in GitHub's Markdown.
pub fn render(comparison: &Comparison) -> String {
    let mut page = String::new();
    for (place, block) in blocks::all(comparison).into_iter().enumerate() {
        page.push_str(&match block {
            Block::Heading(title) => format!("{} {}\n\n", if place == 0 { "##" } else { "###" }, markdown_text(&title)),
            Block::Lines(lines) => lines.iter().map(|line| format!("{}\n\n", markdown_text(line))).collect(),
            Block::Table { rows, figures } => table(&rows, &figures),
            Block::Case { title, seen } => {
                format!(
                    "- **{}**\n  - {}\n  - {}\n\n",
                    markdown_text(&title),
                    markdown_code(&seen[0], usize::MAX),
                    markdown_code(&seen[1], usize::MAX)
                )
            }
        });
    }
    page.trim_end().to_owned() + "\n"
}

fn table(rows: &[Vec<String>], figures: &std::ops::Range<usize>) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> =
            cells.iter().map(|cell| if cell.is_empty() { " ".to_owned() } else { markdown_text(cell) }).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let rule = (0..head.len()).map(|column| if figures.contains(&column) { "---:" } else { "---" }).collect::<Vec<_>>();
    let body: String = body.iter().map(|row| line(row)).collect();
    format!("{}| {} |\n{body}\n", line(head), rule.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_text_cannot_break_out() {
        let rows = vec![vec!["h".to_owned(), "i".to_owned()], vec!["x|y".to_owned(), String::new()]];
        assert_eq!(table(&rows, &(1..2)), "| h | i |\n| --- | ---: |\n| x\\|y |   |\n\n");
    }
}
