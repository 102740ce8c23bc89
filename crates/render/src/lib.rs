//! Documents and their forms: a page is written once, as a [`Document`] of headings, sentences,
//! tables and charts, and shown as text ([`text`]), Markdown ([`markdown`]) or HTML ([`html`]); a
//! table also as CSV ([`csv`]).
//!
//! Back ends escape what they are given: a page may hold any text. Text for one line, cut to a
//! length, is made by [`sobench_core::printable`] before.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod axis;
pub mod csv;
pub mod escape;
pub mod html;
pub mod markdown;
pub mod svg;
pub mod text;

/// A page, in reading order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What the page is about. Text does not show it.
    pub title: Text,
    /// CSS beyond what all HTML pages have.
    pub style: &'static str,
    pub blocks: Vec<Block>,
}

/// A piece of a page.
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
    /// Names and what is known under each.
    Facts(Vec<(String, String)>),
    /// What a reader of the figures has to know, a sentence each.
    Notes(Vec<String>),
    /// Explanations below a table, a sentence each.
    Legend(Vec<String>),
    /// Words and what they mean.
    Definitions(Vec<(String, String)>),
    /// A point of a list, and what belongs to it.
    Item {
        text: Text,
        below: Vec<Text>,
    },
    Table(Table),
    /// Charts side by side under one legend; HTML only.
    Charts(Charts),
    /// Text that is laid out already, in columns of equal width.
    Preformatted(String),
    /// Markup for HTML only, made of escaped text.
    Html(String),
    /// What is folded away under a summary. Text leaves it out.
    Details {
        summary: String,
        blocks: Vec<Block>,
    },
    /// A new group of blocks, without a heading.
    Gap,
}

/// How far down in the order of headings one stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Of the whole page.
    Page,
    Section,
    /// Within a section.
    Minor,
}

/// How a paragraph stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// The page in a sentence.
    Lead,
    /// What a reader must not miss.
    Alarm,
}

/// A line of text, parts of which may stand out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub Vec<Span>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    Plain(String),
    Strong(String),
    /// Text of others, or something to be typed.
    Code(String),
}

/// Rows of cells under a head. Every row has as many cells as there are columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Line feeds are kept. A table whose heads are all empty has no head.
    pub head: String,
    pub align: Align,
    /// Text wraps words beyond this many characters; `None` never does.
    pub max_chars: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Words.
    #[default]
    Left,
    /// Figures.
    Right,
}

/// What stands in a cell; each line by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Text(String),
    /// Lines of others' text.
    Code(Vec<String>),
}

/// Charts that share a legend.
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
    /// As many beside each other as there is room for.
    #[default]
    Grid,
    /// Each as wide as the page, which scrolls where that is too narrow.
    Wide,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Shown above; empty where the page's heading says it.
    pub title: String,
    /// Made by [`svg`] or alike, with its text escaped.
    pub svg: String,
}

/// What a colour or a stroke of a chart means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegendEntry {
    /// An area, by its class in the style.
    Area {
        class: &'static str,
        label: String,
    },
    /// A curve, by the number of its colour.
    Curve {
        colour: usize,
        dashed: bool,
        label: String,
    },
    Words(String),
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

    /// Names and what is known under each; nothing where there are none.
    pub fn facts<N: Into<String>>(&mut self, facts: impl IntoIterator<Item = (N, String)>) {
        let facts: Vec<_> = facts
            .into_iter()
            .map(|(name, fact)| (name.into(), fact))
            .collect();
        if !facts.is_empty() {
            self.blocks.push(Block::Facts(facts));
        }
    }

    /// Notes; nothing where there are none.
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
        words: impl IntoIterator<Item = (N, M)>,
    ) {
        let words = words
            .into_iter()
            .map(|(name, meaning)| (name.into(), meaning.into()));
        self.blocks.push(Block::Definitions(words.collect()));
    }

    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// A heading with its table below; nothing where there is no table.
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

    /// All words below the title, a line for each piece of text. Words within drawings and markup
    /// are left out.
    pub fn words(&self) -> String {
        self.blocks.iter().map(Block::words).collect()
    }
}

impl Block {
    fn words(&self) -> String {
        let lines: Vec<String> = match self {
            Self::Heading { text, .. } | Self::Paragraph { text, .. } => vec![text.words()],
            Self::Facts(words) | Self::Definitions(words) => words
                .iter()
                .map(|(name, meaning)| format!("{name}: {meaning}"))
                .collect(),
            Self::Notes(lines) | Self::Legend(lines) => lines.clone(),
            Self::Item { text, below } => std::iter::once(text)
                .chain(below)
                .map(Text::words)
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
                .chain(blocks.iter().map(Self::words))
                .collect(),
            Self::Html(_) | Self::Gap => Vec::new(),
        };
        lines.iter().map(|line| format!("{line}\n")).collect()
    }
}

impl LegendEntry {
    fn label(&self) -> &str {
        match self {
            Self::Area { label, .. } | Self::Curve { label, .. } | Self::Words(label) => label,
        }
    }
}

impl Table {
    /// A table without rows: the first `words` columns hold words, the others figures.
    pub fn new<H: Into<String>>(heads: impl IntoIterator<Item = H>, words: usize) -> Self {
        let align = |place: usize| {
            if place < words {
                Align::Left
            } else {
                Align::Right
            }
        };
        let column = |(place, head): (usize, H)| Column {
            head: head.into(),
            align: align(place),
            max_chars: None,
        };
        Self {
            columns: heads.into_iter().enumerate().map(column).collect(),
            rows: Vec::new(),
        }
    }

    /// Names and values, without a head.
    pub fn of_names_and_values<N: Into<Cell>, V: Into<Cell>>(
        rows: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut table = Self::new(["", ""], 1);
        rows.into_iter()
            .for_each(|(name, value)| table.row([name.into(), value.into()]));
        table
    }

    /// Makes a column hold words.
    #[must_use]
    pub fn words(mut self, column: usize) -> Self {
        self.columns[column].align = Align::Left;
        self
    }

    /// Wraps the words of a column in text.
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

    /// The table, unless it has no rows.
    pub fn if_any(self) -> Option<Self> {
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

    /// The words alone.
    pub fn words(&self) -> String {
        self.0.iter().map(Span::words).collect()
    }
}

impl Span {
    fn words(&self) -> &str {
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
    fn words_of_a_document_are_those_of_all_its_blocks() {
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
            legend: vec![LegendEntry::Words("entry".to_owned())],
            caption: "caption".to_owned(),
            charts: vec![Chart {
                title: "chart".to_owned(),
                svg: "<svg></svg>".to_owned(),
            }],
            layout: Layout::Grid,
        }));
        let words = document.words();
        let lines: Vec<&str> = words.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(
            lines,
            [
                "a b", "head", "n", "cell", "1", "seed: 0", "more", "note", "entry", "caption",
                "chart"
            ]
        );
    }
}
