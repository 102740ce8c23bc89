//! Renders a document as text for a terminal. `tabled` draws tables, `textwrap` wraps sentences.

use tabled::builder::Builder;
use tabled::settings::formatting::AlignmentStrategy;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::{Align, Block, Document, Table};

/// Line width of sentences.
pub const WIDTH: usize = 100;

/// Renders the document, with a final line feed.
pub fn render(document: &Document) -> String {
    let mut page = Page {
        text: String::new(),
        gap_is_due: false,
    };
    page.add_all(&document.blocks);
    page.text
}

/// Wraps a sentence at `width` characters; later lines start with `indent`. Longer words are
/// broken.
pub fn wrap(sentence: &str, width: usize, indent: &str) -> String {
    let options = Options::new(width)
        .subsequent_indent(indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::fill(sentence, options)
}

struct Page {
    text: String,
    gap_is_due: bool,
}

impl Page {
    fn add_all(&mut self, blocks: &[Block]) {
        blocks.iter().for_each(|block| self.add(block));
    }

    fn add(&mut self, block: &Block) {
        match block {
            Block::Gap => self.gap_is_due = true,
            Block::Heading { text, .. } => {
                self.gap_is_due = true;
                self.line(&text.plain_text());
            }
            Block::Paragraph { text, .. } => self.sentence(&text.plain_text()),
            Block::Facts(facts) => facts
                .iter()
                .for_each(|(name, fact)| self.sentence(&format!("{name}: {fact}"))),
            Block::Definitions(definitions) => definitions
                .iter()
                .for_each(|(name, meaning)| self.sentence(&format!("{name}: {meaning}"))),
            Block::Notes(notes) => notes
                .iter()
                .for_each(|note| self.sentence(&format!("note: {note}"))),
            Block::Legend(lines) => lines.iter().for_each(|line| self.sentence(line)),
            Block::Item { text, below } => {
                self.line(&format!("  {}", text.plain_text()));
                below
                    .iter()
                    .for_each(|line| self.line(&format!("    {}", line.plain_text())));
            }
            Block::Table(table) => self.lines(&draw_table(table)),
            Block::Preformatted(text) => text.lines().for_each(|line| self.raw_line(line)),
            Block::Charts(_) | Block::Html(_) | Block::Details { .. } => {}
        }
    }

    fn sentence(&mut self, sentence: &str) {
        self.lines(&wrap(sentence, WIDTH, "  "));
    }

    fn lines(&mut self, lines: &str) {
        lines.lines().for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &str) {
        self.raw_line(line.trim_end());
    }

    fn raw_line(&mut self, line: &str) {
        if self.gap_is_due && !self.text.is_empty() {
            self.text.push('\n');
        }
        self.gap_is_due = false;
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// Draws a table with lines between columns and below the header.
fn draw_table(table: &Table) -> String {
    let mut builder = Builder::default();
    if table.has_head() {
        builder.push_record(table.columns.iter().map(|column| column.head.as_str()));
    }
    for row in &table.rows {
        builder.push_record(table.columns.iter().zip(row).map(|(column, cell)| {
            let width = column.max_chars.unwrap_or(usize::MAX);
            cell.lines()
                .into_iter()
                .map(|line| wrap(line, width, ""))
                .collect::<Vec<_>>()
                .join("\n")
        }));
    }
    let mut drawn = builder.build();
    if table.has_head() {
        drawn.with(Style::psql());
    } else {
        drawn.with(Style::psql().remove_horizontals());
    }
    for (position, column) in table.columns.iter().enumerate() {
        if column.align == Align::Right {
            drawn.with(
                Modify::new(Columns::one(position))
                    .with(Alignment::right())
                    .with(AlignmentStrategy::PerLine),
            );
        }
    }
    drawn.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::Text;
    use super::*;

    #[test]
    fn gaps_separate_groups_of_blocks() {
        let mut document = Document::new("not shown");
        document.heading("Figures");
        document.table(
            Table::new(["name", "ms\np50"], 1).with_rows([["a", "1.00"], ["b", "10.00\n9"]]),
        );
        document.paragraph(Text::default().plain("all of ").code("x"));
        document.gap();
        document.facts([("seed", "0".to_owned())]);
        document.gap();
        document.notes(vec!["word ".repeat(30)]);
        let expected = "Figures\n name |    ms\n      |   p50\n------+-------\n a    |  1.00\n b    | 10.00\n      |     9\nall of x\n\n\
                        seed: 0\n\nnote: ";
        let page = render(&document);
        assert!(page.starts_with(expected), "{page}");
        assert!(
            page.lines().all(|line| line.len() <= WIDTH) && page.contains("\n  word"),
            "{page}"
        );
    }

    #[test]
    fn tables_of_names_and_values_have_no_header() {
        let mut document = Document::default();
        document.table(Table::from_pairs([("CPU (s)", "1.5"), ("memory", "22.25")]));
        assert_eq!(render(&document), " CPU (s) |   1.5\n memory  | 22.25\n");
    }

    #[test]
    fn long_words_are_broken_and_flags_are_not() {
        assert_eq!(wrap("a abcdefgh", 5, ""), "a\nabcde\nfgh");
        assert_eq!(
            wrap("use --max-concurrency 4", 20, "  "),
            "use\n  --max-concurrency\n  4"
        );
    }
}
