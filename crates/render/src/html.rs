//! Renders a document as one self-contained HTML page, for light and dark mode, without scripts.

use std::fmt::Write as _;

use super::escape::escape;
use super::{
    Align, Answer, Block, Charts, Column, Document, Layout, LegendEntry, Level, Span, Table, Text,
    Tone,
};

/// Colours by name for light and dark mode; curve colours by number, distinguishable by
/// colour-blind readers (Okabe and Ito, 2008). A shade at the edge of a scrolling box marks hidden
/// content. It is behind the content, so row bands are translucent.
const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#fff;--line:#d1d9e0;--band:#1b1f240a;--shade:#0004;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#8a6d00;--bad:#c8323c;--good:#1a7f37}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--paper:#0d1117;--line:#3d444d;--band:#e6edf30a;--shade:#fff4;
--c0:#56b4e9;--c1:#ff9a4d;--c2:#2fc79a;--c3:#e6a3c8;--c4:#f0e442;--bad:#ff7b72;--good:#3fb950}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:92rem;padding:1.5rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;
overflow-wrap:break-word}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .25rem}h3{font-size:.95rem;margin:.5rem 0 0;font-weight:600}
p{margin:.25rem 0;color:var(--soft)}p,dl{max-width:64rem}
.scroll{overflow-x:auto;margin:.5rem 0;background:linear-gradient(90deg,var(--paper) 50%,#0000) 0/1.5rem 100% no-repeat local,
linear-gradient(-90deg,var(--paper) 50%,#0000) 100%/1.5rem 100% no-repeat local,
linear-gradient(90deg,var(--shade),#0000) 0/.75rem 98% no-repeat,linear-gradient(-90deg,var(--shade),#0000) 100%/.75rem 98% no-repeat}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th{border-bottom:2px solid var(--line);vertical-align:bottom;white-space:normal;overflow-wrap:normal}tbody tr:nth-child(even){background:var(--band)}
th.word,td.word{text-align:left}td.word{white-space:normal;overflow-wrap:break-word;min-width:11rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(32rem,100%),1fr));gap:1rem}
svg{width:100%;height:auto;display:block;overflow:visible}svg.wide{min-width:60rem;max-width:76rem;overflow:hidden}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}svg .label{fill:var(--ink);font-size:14px;paint-order:stroke;stroke:var(--paper);stroke-width:4px}
.grid{stroke:var(--line);stroke-width:1}.curve{fill:none;stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:6 4}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}
.dot.c0{fill:var(--c0)}.dot.c1{fill:var(--c1)}.dot.c2{fill:var(--c2)}.dot.c3{fill:var(--c3)}.dot.c4{fill:var(--c4)}
.dot.hollow{fill:var(--paper);stroke-width:2}.reference{stroke:var(--soft);stroke-width:2;stroke-dasharray:2 3}
svg .number{fill:var(--ink);font-size:13px;font-variant-numeric:tabular-nums}
.charts>div{min-width:0}.charts svg{max-width:44rem}details>summary{cursor:pointer}.charts summary{color:var(--soft);font-size:.85rem}
.heat{max-height:32rem;overflow-y:auto}.heat td{text-align:center}.heat th[scope=row]{font-weight:400;border-bottom:1px solid var(--line)}
.heat thead th{position:sticky;top:0;background:var(--paper);vertical-align:bottom}
.heat-valid{background:#0072b222}.heat-slow{background:#e8b93c;color:#1b1f24}.heat-truncated{background:#8fb8d8;color:#1b1f24}
.heat-failed{background:#59636e;color:#fff}.heat-refused{background:#7a4b94;color:#fff}.heat-invalid{background:#c8323c;color:#fff}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:.25rem 0 .5rem;color:var(--ink);padding:0;list-style:none}
.legend i{display:inline-block;width:1rem;height:.75rem;margin-right:.4rem;border-radius:2px}
.legend svg{display:inline-block;width:2rem;height:.75rem;margin-right:.4rem}
dt{font-weight:600}dd{margin:0 0 .4rem;color:var(--soft)}
dl.facts{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:.5rem 0;font-size:.9rem}
dl.facts dt{font-weight:400;color:var(--soft)}dl.facts dd{margin:0;color:var(--ink);min-width:0;overflow-wrap:anywhere}
.lead{font-size:1.05rem;color:var(--ink)}.alarm{color:var(--bad);font-weight:600}
dl.verdict{display:grid;grid-template-columns:max-content 1fr;gap:.3rem 1rem;margin:.75rem 0;padding:.6rem .9rem;font-size:1.05rem;
border:1px solid var(--line);border-radius:6px}
dl.verdict dd{margin:0;color:var(--ink);min-width:0;overflow-wrap:anywhere}
dl.verdict .good{color:var(--good)}dl.verdict .alarm{color:var(--bad)}
@media(max-width:40rem){body{padding:1rem}th,td{padding:.2rem .4rem}td.word:where(:first-child){min-width:6.5rem}
.charts svg text{font-size:16px}svg.wide text{font-size:14px}dl.facts,dl.verdict{grid-template-columns:1fr}dl.facts dd{margin-bottom:.3rem}}
";

/// Content security policy: only the page's own style. If markup were ever injected, it could not
/// fetch or run anything.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Renders the complete page.
pub fn render(document: &Document) -> String {
    let (title, style) = (escape(&document.title.plain_text()), document.style);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>{title}</title><style>{STYLE}{style}</style></head><body><h1>{title}</h1>"
    );
    add_all(&mut page, &document.blocks);
    page.push_str("</body></html>\n");
    page
}

fn add_all(page: &mut String, blocks: &[Block]) {
    blocks.iter().for_each(|block| add(page, block));
}

fn add(page: &mut String, block: &Block) {
    match block {
        Block::Heading { level, text } => {
            let tag = if *level == Level::Minor { "h3" } else { "h2" };
            page.push_str(&format!("<{tag}>{}</{tag}>", inline_html(text)));
        }
        Block::Paragraph { tone, text } => {
            let class = class(*tone);
            page.push_str(&format!("<p{class}>{}</p>", inline_html(text)));
        }
        Block::Facts(facts) => add_definition_list(page, " class=\"facts\"", facts),
        Block::Definitions(definitions) => add_definition_list(page, "", definitions),
        Block::Notes(notes) => notes
            .iter()
            .for_each(|note| add_sentence(page, &format!("note: {note}"))),
        Block::Legend(lines) => lines.iter().for_each(|line| add_sentence(page, line)),
        Block::Item { text, below } => {
            let below: String = below
                .iter()
                .map(|line| format!("<li>{}</li>", inline_html(line)))
                .collect();
            page.push_str(&format!("<p>{}</p><ul>{below}</ul>", inline_html(text)));
        }
        Block::Table(table) => add_table(page, table),
        Block::Charts(charts) => add_charts(page, charts),
        Block::Preformatted(text) => page.push_str(&format!("<pre>{}</pre>", escape(text))),
        Block::Html(markup) => page.push_str(markup),
        Block::Details { summary, blocks } => {
            page.push_str(&format!("<details><summary>{}</summary>", escape(summary)));
            add_all(page, blocks);
            page.push_str("</details>");
        }
        Block::Verdict(answers) => {
            page.push_str("<dl class=\"verdict\">");
            for Answer {
                question,
                tone,
                text,
            } in answers
            {
                // Only the word that answers has a colour.
                let (word, rest) = match tone {
                    Tone::Plain => ("", &text[..]),
                    _ => text.split_at(text.find(':').unwrap_or(0)),
                };
                page.push_str(&format!(
                    "<dt>{question}?</dt><dd><strong{}>{}</strong>{}</dd>",
                    class(*tone),
                    escape(word),
                    escape(rest)
                ));
            }
            page.push_str("</dl>");
        }
        Block::Gap => {}
    }
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Lead => " class=\"lead\"",
        Tone::Good => " class=\"good\"",
        Tone::Alarm => " class=\"alarm\"",
    }
}

fn add_sentence(page: &mut String, sentence: &str) {
    page.push_str(&format!("<p>{}</p>", escape(sentence)));
}

fn add_definition_list(page: &mut String, class: &str, entries: &[(String, String)]) {
    let _ = write!(page, "<dl{class}>");
    for (name, meaning) in entries {
        let _ = write!(
            page,
            "<dt>{}</dt><dd>{}</dd>",
            escape(name),
            escape(meaning)
        );
    }
    page.push_str("</dl>");
}

fn inline_html(text: &Text) -> String {
    let span = |span: &Span| match span {
        Span::Plain(text) => escape(text),
        Span::Strong(text) => format!("<strong>{}</strong>", escape(text)),
        Span::Code(text) => format!("<code>{}</code>", escape(text)),
    };
    text.0.iter().map(span).collect()
}

/// Adds a table that scrolls horizontally if needed; line ends are kept.
fn add_table(page: &mut String, table: &Table) {
    page.push_str("<div class=\"scroll\"><table>");
    if table.has_head() {
        page.push_str("<thead>");
        add_cells(
            page,
            "th",
            &table.columns,
            table.columns.iter().map(|column| column.head.clone()),
        );
        page.push_str("</thead>");
    }
    page.push_str("<tbody>");
    for row in &table.rows {
        add_cells(
            page,
            "td",
            &table.columns,
            row.iter().map(|cell| cell.lines().join("\n")),
        );
    }
    page.push_str("</tbody></table></div>");
}

fn add_cells(
    page: &mut String,
    tag: &str,
    columns: &[Column],
    cells: impl Iterator<Item = String>,
) {
    page.push_str("<tr>");
    for (column, cell) in columns.iter().zip(cells) {
        let class = if column.align == Align::Left {
            " class=\"word\""
        } else {
            ""
        };
        let _ = write!(
            page,
            "<{tag}{class}>{}</{tag}>",
            escape(&cell).replace('\n', "<br/>")
        );
    }
    page.push_str("</tr>");
}

fn add_charts(page: &mut String, charts: &Charts) {
    if !charts.legend.is_empty() {
        page.push_str("<ul class=\"legend\">");
        charts
            .legend
            .iter()
            .for_each(|entry| add_legend_entry(page, entry));
        page.push_str("</ul>");
    }
    if !charts.caption.is_empty() {
        add_sentence(page, &charts.caption);
    }
    if charts.layout == Layout::Grid {
        page.push_str("<div class=\"charts\">");
    }
    for chart in &charts.charts {
        let title = if chart.title.is_empty() {
            String::new()
        } else {
            format!("<h3>{}</h3>", escape(&chart.title))
        };
        let class = if charts.layout == Layout::Wide {
            " class=\"scroll\""
        } else {
            ""
        };
        let _ = write!(page, "<div{class}>{title}{}", chart.svg);
        if let Some(table) = &chart.table {
            page.push_str("<details><summary>The same numbers as a table</summary>");
            add_table(page, table);
            page.push_str("</details>");
        }
        page.push_str("</div>");
    }
    if charts.layout == Layout::Grid {
        page.push_str("</div>");
    }
}

fn add_legend_entry(page: &mut String, entry: &LegendEntry) {
    let _ = match entry {
        LegendEntry::Area { class, label } => {
            write!(page, "<li><i class=\"{class}\"></i>{}</li>", escape(label))
        }
        LegendEntry::Curve {
            colour,
            dashed,
            label,
        } => {
            let dashed = if *dashed { " dashed" } else { "" };
            let line = format!(
                "<line class=\"curve c{colour}{dashed}\" x1=\"0\" y1=\"6\" x2=\"32\" y2=\"6\"/>"
            );
            write!(
                page,
                "<li><svg viewBox=\"0 0 32 12\">{line}</svg>{}</li>",
                escape(label)
            )
        }
        LegendEntry::Text(text) => write!(page, "<li>{}</li>", escape(text)),
    };
}

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
