//! Renders a document as text for a terminal. `tabled` draws tables, `textwrap` wraps sentences.

use std::sync::atomic::{AtomicUsize, Ordering};

use sobench_core::printable::visible;
use tabled::builder::Builder;
use tabled::settings::formatting::AlignmentStrategy;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::{Align, Block, Cell, Column, Document, Table, Text};

/// Line width of pages, unless a terminal is wider.
pub const WIDTH: usize = 100;

/// The largest line width.
const MAX_WIDTH: usize = 120;

/// See [`set_terminal_width`].
static TERMINAL_WIDTH: AtomicUsize = AtomicUsize::new(0);

/// Uses the width of the terminal on which pages are printed, between [`WIDTH`] and `MAX_WIDTH`.
pub fn set_terminal_width(columns: usize) {
    TERMINAL_WIDTH.store(columns, Ordering::Relaxed);
}

/// The line width of pages.
pub fn width() -> usize {
    let terminal = TERMINAL_WIDTH.load(Ordering::Relaxed);
    terminal.clamp(WIDTH, MAX_WIDTH)
}

/// The indentation of the lines below an item.
const ITEM_INDENT: &str = "    ";

/// Characters of a column of a table beside its text: a space on each side, and a line.
const BORDER: usize = 3;

/// Renders the document, with a final line feed.
pub fn render(document: &Document) -> String {
    let mut page = Page {
        text: String::new(),
        gap_is_due: false,
    };
    page.add_all(&document.blocks);
    visible(&page.text).into_owned()
}

/// The document with lines of at most [`width()`] characters. Wider tables are divided by columns, and
/// each part repeats the leading text columns. Lines of items are wrapped.
pub fn fitted(document: Document) -> Document {
    let blocks = document.blocks.into_iter().flat_map(|block| match block {
        Block::Table(table) => {
            let parts = divided(table).into_iter();
            let blocks = parts.flat_map(|part| [Block::Gap, Block::Table(part)]);
            blocks.skip(1).collect()
        }
        Block::Item { text, below } => {
            let wrapped = |text: &Text| {
                let wrapped = wrap(&text.plain_text(), width() - ITEM_INDENT.len(), "  ");
                wrapped.lines().map(Text::from).collect::<Vec<_>>()
            };
            let mut lines = wrapped(&text).into_iter();
            let text = lines.next().unwrap_or_default();
            let below = lines.chain(below.iter().flat_map(wrapped)).collect();
            vec![Block::Item { text, below }]
        }
        other => vec![other],
    });
    Document {
        blocks: blocks.collect(),
        ..document
    }
}

/// The parts of a table, each at most [`width()`] characters wide.
fn divided(mut table: Table) -> Vec<Table> {
    let of_text = table.columns.iter();
    let keys = match of_text
        .take_while(|column| column.align == Align::Left)
        .count()
    {
        all if all == table.columns.len() => all.min(1),
        keys => keys,
    };
    if table_width(&table, 0..table.columns.len()) <= width() {
        return vec![table];
    }
    // The keys take half of the width at most, and a column the rest.
    let key_chars = (width() / 2 / keys.max(1)).saturating_sub(BORDER).max(1);
    for key in 0..keys {
        narrow(&mut table, key, key_chars);
    }
    let key_width = table_width(&table, 0..keys);
    let value_chars = width().saturating_sub(key_width + BORDER).max(1);
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for value in keys..table.columns.len() {
        narrow(&mut table, value, value_chars);
        let width_with = |part: &[usize]| {
            let columns = (0..keys).chain(part.iter().copied()).chain([value]);
            table_width(&table, columns)
        };
        match parts.last_mut() {
            Some(part) if width_with(part) <= width() => part.push(value),
            _ => parts.push(vec![value]),
        }
    }
    let part = |columns: Vec<usize>| {
        let mut position = 0..;
        let mut part = table.clone();
        part.retain_columns(|_| {
            let position = position.next();
            position.is_some_and(|position| position < keys || columns.contains(&position))
        });
        part
    };
    parts.into_iter().map(part).collect()
}

/// Wraps a column that is wider.
fn narrow(table: &mut Table, column: usize, max_chars: usize) {
    if column_width(table, column) > max_chars {
        let column = &mut table.columns[column];
        column.max_chars = Some(max_chars);
        column.head = column
            .head
            .lines()
            .map(|line| wrap(line, max_chars, ""))
            .collect::<Vec<_>>()
            .join("\n");
    }
}

/// The width of these columns as a table.
fn table_width(table: &Table, columns: impl IntoIterator<Item = usize>) -> usize {
    let widths = columns
        .into_iter()
        .map(|column| column_width(table, column));
    widths
        .map(|width| width + BORDER)
        .sum::<usize>()
        .saturating_sub(1)
}

fn column_width(table: &Table, position: usize) -> usize {
    let column = &table.columns[position];
    let cells = table.rows.iter().filter_map(|row| row.get(position));
    let cells = cells.map(|cell| cell_text(column, cell));
    let texts = cells.chain([column.head.clone()]);
    let widths = texts.flat_map(|text| {
        text.lines()
            .map(|line| line.chars().count())
            .collect::<Vec<_>>()
    });
    widths.max().unwrap_or_default()
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
                    .for_each(|line| self.line(&format!("{ITEM_INDENT}{}", line.plain_text())));
            }
            Block::Verdict(answers) => answers
                .iter()
                .for_each(|answer| self.sentence(&format!("{}? {}", answer.question, answer.text))),
            Block::Table(table) => self.lines(&draw_table(table)),
            Block::Preformatted(text) => text.lines().for_each(|line| self.raw_line(line)),
            Block::Charts(_) | Block::Html(_) | Block::Details { .. } => {}
        }
    }

    fn sentence(&mut self, sentence: &str) {
        self.lines(&wrap(sentence, width(), "  "));
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
        builder.push_record(
            table
                .columns
                .iter()
                .zip(row)
                .map(|(column, cell)| cell_text(column, cell)),
        );
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

/// The lines of a cell, wrapped.
fn cell_text(column: &Column, cell: &Cell) -> String {
    let width = column.max_chars.unwrap_or(usize::MAX);
    let lines = cell.lines().into_iter();
    let wrapped: Vec<String> = lines.map(|line| wrap(line, width, "")).collect();
    wrapped.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(page: &str) -> usize {
        let widths = page.lines().map(|line| line.chars().count());
        widths.max().unwrap()
    }

    #[test]
    fn wide_tables_are_divided_and_repeat_their_names() {
        let heads = (0..12).map(|index| format!("figure {index}"));
        let mut table = Table::new(
            ["name", "load"].map(str::to_owned).into_iter().chain(heads),
            2,
        );
        let figures = (0..12).map(|index| format!("{index}.5\n{index}0.0 to {index}1.0"));
        table.row(["x", "4"].map(str::to_owned).into_iter().chain(figures));
        let document = |table: &Table| Document {
            blocks: vec![Block::Table(table.clone())],
            ..Document::default()
        };
        assert!(width(&render(&document(&table))) > WIDTH);
        let page = render(&fitted(document(&table)));
        assert!(width(&page) <= WIDTH, "{page}");
        assert!(
            width(&page) > WIDTH - 20,
            "parts are as wide as possible: {page}"
        );
        assert_eq!(page.matches(" name | load |").count(), 3, "{page}");
        assert_eq!(
            page.matches("\n\n name").count(),
            2,
            "a line between parts: {page}"
        );
        for index in 0..12 {
            assert_eq!(
                page.matches(&format!("{index}0.0 to {index}1.0")).count(),
                1,
                "{page}"
            );
        }
        // Names and single cells that are wider than a page.
        let long = "a-name ".repeat(40);
        let wide = Table::new(["n".repeat(150), "b".to_owned(), "c".to_owned()], 1).with_rows([[
            long.clone(),
            "1".to_owned(),
            long,
        ]]);
        let page = render(&fitted(document(&wide)));
        assert!(width(&page) <= WIDTH, "{page}");
        assert!(page.matches("a-name").count() >= 80, "{page}");
        // A table that fits is unchanged.
        let narrow = Table::new(["a", "b"], 1).with_rows([["1", "2"]]);
        assert_eq!(fitted(document(&narrow)), document(&narrow));
    }

    #[test]
    fn lines_of_items_are_wrapped() {
        let long = "a word and ".repeat(20);
        let item = Block::Item {
            text: Text::from("item ".repeat(30)),
            below: vec![
                Text::default().plain("x: ").code(long.trim()),
                Text::from("y"),
            ],
        };
        let document = fitted(Document {
            blocks: vec![item],
            ..Document::default()
        });
        let page = render(&document);
        assert!(width(&page) <= WIDTH, "{page}");
        assert_eq!(page.matches("word").count(), 20, "{page}");
        assert_eq!(page.matches("item").count(), 30, "{page}");
        assert!(page.ends_with("\n    y\n"), "{page}");
    }

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
