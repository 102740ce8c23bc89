//! Renders a document as GitHub Markdown, for a comment on a pull request.

use std::fmt::Write as _;

use super::escape::{markdown_code, markdown_text};
use super::{Align, Block, Cell, Document, Level, Span, Table, Text};

/// Renders the document. `level` is the heading level of the title; sections have one more.
pub fn render(document: &Document, level: usize) -> String {
    let mut page = String::new();
    if !document.title.is_empty() {
        let _ = writeln!(
            page,
            "{} {}\n",
            "#".repeat(level),
            inline_markdown(&document.title)
        );
    }
    add_all(&mut page, &document.blocks, level);
    page.trim_end().to_owned() + "\n"
}

fn add_all(page: &mut String, blocks: &[Block], level: usize) {
    for block in blocks {
        add(page, block, level);
    }
}

fn add(page: &mut String, block: &Block, level: usize) {
    let _ = match block {
        Block::Heading {
            level: Level::Minor,
            text,
        } => writeln!(page, "**{}**\n", inline_markdown(text)),
        Block::Heading {
            level: heading_level,
            text,
        } => {
            let marks = level + usize::from(*heading_level == Level::Section);
            writeln!(page, "{} {}\n", "#".repeat(marks), inline_markdown(text))
        }
        Block::Paragraph {
            tone: super::Tone::Alarm,
            text,
        } => writeln!(page, "> {}\n", inline_alarm(text)),
        Block::Paragraph { text, .. } => writeln!(page, "{}\n", inline_markdown(text)),
        Block::Facts(facts) => list(
            page,
            facts
                .iter()
                .map(|(name, fact)| format!("{}: {}", name, markdown_text(fact))),
        ),
        Block::Definitions(definitions) => list(
            page,
            definitions.iter().map(|(name, meaning)| {
                format!("**{}**: {}", markdown_text(name), markdown_text(meaning))
            }),
        ),
        Block::Notes(notes) => list(page, notes.iter().map(|note| markdown_text(note))),
        Block::Legend(lines) => {
            let lines: String = lines
                .iter()
                .map(|line| format!("{}<br>\n", markdown_text(line)))
                .collect();
            writeln!(page, "<sub>\n{lines}</sub>\n")
        }
        Block::Item { text, below } => {
            let below: String = below
                .iter()
                .map(|line| format!("  - {}\n", inline_markdown(line)))
                .collect();
            writeln!(page, "- {}\n{below}", inline_markdown(text))
        }
        Block::Table(table) => {
            add_table(page, table);
            Ok(())
        }
        Block::Preformatted(text) => writeln!(
            page,
            "```text\n{}\n```\n",
            text.trim_end().replace("```", "'''")
        ),
        Block::Details { summary, blocks } => {
            let _ = writeln!(
                page,
                "<details><summary>{}</summary>\n",
                markdown_text(summary)
            );
            add_all(page, blocks, level);
            writeln!(page, "</details>\n")
        }
        Block::Verdict(answers) => list(
            page,
            answers
                .iter()
                .map(|answer| format!("**{}?** {}", answer.question, markdown_text(&answer.text))),
        ),
        Block::Charts(_) | Block::Html(_) | Block::Gap => Ok(()),
    };
}

fn list(page: &mut String, points: impl Iterator<Item = String>) -> std::fmt::Result {
    for point in points {
        writeln!(page, "- {point}")?;
    }
    writeln!(page)
}

/// A critical message: bold, unless a part of it is bold.
fn inline_alarm(text: &Text) -> String {
    let has_emphasis = text.0.iter().any(|span| matches!(span, Span::Strong(_)));
    if has_emphasis {
        inline_markdown(text)
    } else {
        format!("**{}**", inline_markdown(text))
    }
}

fn inline_markdown(text: &Text) -> String {
    let span = |span: &Span| match span {
        Span::Plain(text) => markdown_text(text),
        Span::Strong(text) => format!("**{}**", markdown_text(text)),
        Span::Code(text) => markdown_code(text, usize::MAX),
    };
    text.0.iter().map(span).collect()
}

fn add_table(page: &mut String, table: &Table) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = table
        .columns
        .iter()
        .map(|column| in_cell(&Cell::Text(column.head.clone())));
    let rules = table.columns.iter().map(|column| match column.align {
        Align::Left => "---".to_owned(),
        Align::Right => "---:".to_owned(),
    });
    page.push_str(&line(heads.collect()));
    page.push_str(&line(rules.collect()));
    table
        .rows
        .iter()
        .for_each(|row| page.push_str(&line(row.iter().map(in_cell).collect())));
    page.push('\n');
}

fn in_cell(cell: &Cell) -> String {
    match cell {
        // An empty cell needs a blank.
        Cell::Text(text) if text.is_empty() => " ".to_owned(),
        Cell::Text(text) => text
            .split('\n')
            .map(markdown_text)
            .collect::<Vec<_>>()
            .join("<br>"),
        Cell::Code(lines) => lines
            .iter()
            .map(|line| markdown_code(line, usize::MAX))
            .collect::<Vec<_>>()
            .join("<br>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_is_escaped() {
        let mut document = Document::new(Text::default().plain("on ").code("a|b`"));
        document.alarm("<b> @you");
        document.table(Table::new(["h", "i"], 1).with_rows([["x|y", ""]]));
        document.push(Block::Item {
            text: "case".into(),
            below: vec![Text::default().code("A: `x`")],
        });
        assert_eq!(
            render(&document, 3),
            "### on `` a\u{2502}b` ``\n\n> **&lt;b&gt; @\u{200b}you**\n\n| h | i |\n| --- | ---: |\n| x\\|y |   |\n\n- case\n  - `` A: `x` ``\n"
        );
    }
}
