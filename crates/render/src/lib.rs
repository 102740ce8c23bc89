//! Documents: a page is built once, as a [`Document`] of headings, paragraphs, tables and charts,
//! and rendered as text ([`text`]), Markdown ([`markdown`]) or HTML ([`html`]); tables also as CSV
//! ([`csv`]).
//!
//! Renderers escape their input, so a page may contain any text. [`sobench_core::printable`] makes
//! and cuts one-line text.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod axis;
pub mod csv;
pub mod dots;
pub mod escape;
pub mod heat_map;
pub mod html;
pub mod lines;
pub mod markdown;
pub mod svg;
pub mod text;

/// A page, in reading order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Title of the page. Text output omits it.
    pub title: Text,
    /// Additional CSS of this page.
    pub style: &'static str,
    pub blocks: Vec<Block>,
}

/// A block of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Heading {
        level: Level,
        text: Text,
    },
    Paragraph {
        tone: Tone,
        text: Text,
    },
    /// Names with values.
    Facts(Vec<(String, String)>),
    /// Notices, one sentence each.
    Notes(Vec<String>),
    /// Explanations below a table, a sentence each.
    Legend(Vec<String>),
    /// Terms with definitions.
    Definitions(Vec<(String, String)>),
    /// A list item with its sub-items.
    Item {
        text: Text,
        below: Vec<Text>,
    },
    Table(Table),
    /// Charts side by side under one legend; HTML only.
    Charts(Charts),
    /// Preformatted text in a monospaced font.
    Preformatted(String),
    /// HTML markup from escaped text; HTML only.
    Html(String),
    /// Collapsed blocks below a summary. Text output omits them.
    Details {
        summary: String,
        blocks: Vec<Block>,
    },
    /// The answers to the reader's questions, first on a page.
    Verdict(Vec<Answer>),
    /// A new group of blocks, without a heading.
    Gap,
}

/// The questions of [`Answer`], in the order of pages.
pub const QUESTIONS: [&str; 4] = ["accepted", "enforced", "cost", "worse"];

/// The answer to a question of the reader: `enforced? NO: 41 of 60 answers valid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// One word.
    pub question: &'static str,
    pub tone: Tone,
    /// Begins with the word that answers, if there is one.
    pub text: String,
}

/// Level of a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Title of the page.
    Page,
    Section,
    /// Subsection.
    Minor,
}

/// Emphasis of a paragraph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// Summary of the page.
    Lead,
    /// Good news.
    Good,
    /// A critical message.
    Alarm,
}

/// A line of text with optional emphasis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub Vec<Span>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    Plain(String),
    Strong(String),
    /// Quoted text, or text to be typed.
    Code(String),
}

/// A table. Each row has one cell for each column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// May contain line feeds. If all heads are empty, the table has no header.
    pub head: String,
    pub align: Align,
    /// Maximum width in text output, in characters; `None` for no wrapping.
    pub max_chars: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// For text.
    #[default]
    Left,
    /// For numbers.
    Right,
}

/// A cell of one or more lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Text(String),
    /// Quoted lines.
    Code(Vec<String>),
}

/// Charts with a common legend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charts {
    pub legend: Vec<LegendEntry>,
    /// How to read them.
    pub caption: String,
    pub charts: Vec<Chart>,
    pub layout: Layout,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// As many charts per row as fit.
    #[default]
    Grid,
    /// Each chart as wide as the page, with horizontal scrolling if needed.
    Wide,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Shown above the chart; empty if the heading is enough.
    pub title: String,
    /// SVG with escaped text, for example from [`svg`].
    pub svg: String,
    /// The numbers of the chart, collapsed below it.
    pub table: Option<Table>,
}

/// Legend entry for a colour or stroke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegendEntry {
    /// An area, by its CSS class.
    Area {
        class: &'static str,
        label: String,
    },
    /// A curve, by its colour index.
    Curve {
        colour: usize,
        dashed: bool,
        label: String,
    },
    Text(String),
}

impl Document {
    pub fn new(title: impl Into<Text>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    pub fn heading(&mut self, text: impl Into<Text>) {
        self.blocks.push(Block::Heading {
            level: Level::Section,
            text: text.into(),
        });
    }

    pub fn minor_heading(&mut self, text: impl Into<Text>) {
        self.blocks.push(Block::Heading {
            level: Level::Minor,
            text: text.into(),
        });
    }

    pub fn paragraph(&mut self, text: impl Into<Text>) {
        self.blocks.push(Block::Paragraph {
            tone: Tone::Plain,
            text: text.into(),
        });
    }

    pub fn paragraphs<T: Into<Text>>(&mut self, texts: impl IntoIterator<Item = T>) {
        texts.into_iter().for_each(|text| self.paragraph(text));
    }

    pub fn alarm(&mut self, text: impl Into<Text>) {
        self.blocks.push(Block::Paragraph {
            tone: Tone::Alarm,
            text: text.into(),
        });
    }

    /// Adds names with values, unless there are none.
    pub fn facts<N: Into<String>>(&mut self, facts: impl IntoIterator<Item = (N, String)>) {
        let facts: Vec<_> = facts
            .into_iter()
            .map(|(name, fact)| (name.into(), fact))
            .collect();
        if !facts.is_empty() {
            self.blocks.push(Block::Facts(facts));
        }
    }

    /// Adds notices, unless there are none.
    pub fn notes(&mut self, notes: Vec<String>) {
        if !notes.is_empty() {
            self.blocks.push(Block::Notes(notes));
        }
    }

    pub fn legend<L: Into<String>>(&mut self, lines: impl IntoIterator<Item = L>) {
        self.blocks
            .push(Block::Legend(lines.into_iter().map(Into::into).collect()));
    }

    pub fn definitions<N: Into<String>, M: Into<String>>(
        &mut self,
        definitions: impl IntoIterator<Item = (N, M)>,
    ) {
        let definitions = definitions
            .into_iter()
            .map(|(name, meaning)| (name.into(), meaning.into()));
        self.blocks.push(Block::Definitions(definitions.collect()));
    }

    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds a heading and its table, unless there is no table.
    pub fn titled_table(&mut self, title: impl Into<Text>, table: Option<Table>) {
        if let Some(table) = table {
            self.heading(title);
            self.table(table);
        }
    }

    pub fn gap(&mut self) {
        self.blocks.push(Block::Gap);
    }

    pub fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// The text of all blocks, one line for each piece. Excludes the title, charts and markup.
    pub fn plain_text(&self) -> String {
        self.blocks.iter().map(Block::plain_text).collect()
    }
}

impl Block {
    fn plain_text(&self) -> String {
        let lines: Vec<String> = match self {
            Self::Heading { text, .. } | Self::Paragraph { text, .. } => vec![text.plain_text()],
            Self::Facts(pairs) | Self::Definitions(pairs) => pairs
                .iter()
                .map(|(name, meaning)| format!("{name}: {meaning}"))
                .collect(),
            Self::Verdict(answers) => answers
                .iter()
                .map(|answer| format!("{}? {}", answer.question, answer.text))
                .collect(),
            Self::Notes(lines) | Self::Legend(lines) => lines.clone(),
            Self::Item { text, below } => std::iter::once(text)
                .chain(below)
                .map(Text::plain_text)
                .collect(),
            Self::Table(table) => {
                let heads = table.columns.iter().map(|column| column.head.clone());
                heads
                    .chain(
                        table
                            .rows
                            .iter()
                            .flatten()
                            .map(|cell| cell.lines().join("\n")),
                    )
                    .collect()
            }
            Self::Charts(charts) => {
                let legend = charts.legend.iter().map(|entry| entry.label().to_owned());
                let titles = charts.charts.iter().map(|chart| chart.title.clone());
                legend
                    .chain([charts.caption.clone()])
                    .chain(titles)
                    .collect()
            }
            Self::Preformatted(text) => vec![text.clone()],
            Self::Details { summary, blocks } => std::iter::once(summary.clone())
                .chain(blocks.iter().map(Self::plain_text))
                .collect(),
            Self::Html(_) | Self::Gap => Vec::new(),
        };
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

impl LegendEntry {
    fn label(&self) -> &str {
        match self {
            Self::Area { label, .. } | Self::Curve { label, .. } | Self::Text(label) => label,
        }
    }
}

impl Table {
    /// Removes the other columns, with their cells.
    pub fn retain_columns(&mut self, is_kept: impl FnMut(&Column) -> bool) {
        let kept: Vec<bool> = self.columns.iter().map(is_kept).collect();
        let mut columns = kept.iter();
        self.columns.retain(|_| columns.next() == Some(&true));
        for row in &mut self.rows {
            let mut cells = kept.iter();
            row.retain(|_| cells.next() == Some(&true));
        }
    }

    /// An empty table: the first `text_columns` columns are left-aligned, the others right-aligned.
    pub fn new<H: Into<String>>(heads: impl IntoIterator<Item = H>, text_columns: usize) -> Self {
        let align = |position: usize| {
            if position < text_columns {
                Align::Left
            } else {
                Align::Right
            }
        };
        let column = |(position, head): (usize, H)| Column {
            head: head.into(),
            align: align(position),
            max_chars: None,
        };
        Self {
            columns: heads.into_iter().enumerate().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// A table of names and values, without a header.
    pub fn from_pairs<N: Into<Cell>, V: Into<Cell>>(
        rows: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut table = Self::new(["", ""], 1);
        rows.into_iter()
            .for_each(|(name, value)| table.row([name.into(), value.into()]));
        table
    }

    /// Left-aligns a column.
    #[must_use]
    pub fn left_aligned(mut self, column: usize) -> Self {
        self.columns[column].align = Align::Left;
        self
    }

    /// Wraps a column in text output.
    #[must_use]
    pub fn wrapped(mut self, column: usize, max_chars: usize) -> Self {
        self.columns[column].max_chars = Some(max_chars);
        self
    }

    #[must_use]
    pub fn with_rows<C: Into<Cell>, R: IntoIterator<Item = C>>(
        mut self,
        rows: impl IntoIterator<Item = R>,
    ) -> Self {
        rows.into_iter().for_each(|row| self.row(row));
        self
    }

    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table; `None` if it has no rows.
    pub fn non_empty(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }

    pub(crate) fn has_head(&self) -> bool {
        self.columns.iter().any(|column| !column.head.is_empty())
    }
}

impl Text {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn plain(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Plain(text.into()));
        self
    }

    #[must_use]
    pub fn strong(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Strong(text.into()));
        self
    }

    #[must_use]
    pub fn code(mut self, text: impl Into<String>) -> Self {
        self.0.push(Span::Code(text.into()));
        self
    }

    /// The text without emphasis.
    pub fn plain_text(&self) -> String {
        self.0.iter().map(Span::plain_text).collect()
    }
}

impl Span {
    fn plain_text(&self) -> &str {
        match self {
            Self::Plain(text) | Self::Strong(text) | Self::Code(text) => text,
        }
    }
}

impl Cell {
    fn lines(&self) -> Vec<&str> {
        match self {
            Self::Text(text) => text.split('\n').collect(),
            Self::Code(lines) => lines.iter().map(String::as_str).collect(),
        }
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(vec![Span::Plain(text.into())])
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_of_a_document_covers_all_blocks() {
        let mut document = Document::new("not among them");
        document.heading(Text::default().plain("a ").code("b"));
        document.table(Table::new(["head", "n"], 1).with_rows([["cell", "1"]]));
        document.facts([("seed", "0".to_owned())]);
        document.push(Block::Details {
            summary: "more".to_owned(),
            blocks: vec![
                Block::Notes(vec!["note".to_owned()]),
                Block::Html("<b>markup</b>".to_owned()),
            ],
        });
        document.push(Block::Charts(Charts {
            legend: vec![LegendEntry::Text("entry".to_owned())],
            caption: "caption".to_owned(),
            charts: vec![Chart {
                title: "chart".to_owned(),
                svg: "<svg></svg>".to_owned(),
                table: None,
            }],
            layout: Layout::Grid,
        }));
        let text = document.plain_text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(
            lines,
            [
                "a b", "head", "n", "cell", "1", "seed: 0", "more", "note", "entry", "caption",
                "chart"
            ]
        );
    }
}
