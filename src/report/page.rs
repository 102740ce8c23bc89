//! What our pages have in common: the frame, the style of words, tables and charts, light and dark. Nothing from elsewhere, and no
//! script. Knows no report.

use std::fmt::Write as _;

use crate::render::escape::escape;

/// Colours by name, light and dark; curves by number, in an order that the colour-blind can tell apart (Okabe and Ito, 2008).
const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#fff;--line:#d1d9e0;--band:#f6f8fa;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#8a6d00}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--paper:#0d1117;--line:#3d444d;--band:#161b22;
--c0:#56b4e9;--c1:#ff9a4d;--c2:#2fc79a;--c3:#e6a3c8;--c4:#f0e442}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1.5rem;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif;
overflow-wrap:break-word}
h1{font-size:1.5rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2rem 0 .25rem}h3{font-size:.95rem;margin:.5rem 0 0;font-weight:600}
p{margin:.25rem 0;color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem;margin:.5rem 0}
th,td{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th{border-bottom:2px solid var(--line);vertical-align:bottom}tbody tr:nth-child(even){background:var(--band)}
th.word,td.word{text-align:left}td.word{white-space:normal;overflow-wrap:break-word;min-width:11rem}
svg.wide{min-width:44rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1rem}
svg{width:100%;height:auto;display:block}
svg text{fill:var(--soft);font:12px system-ui,sans-serif}svg .label{fill:var(--ink);font-size:14px}
.grid{stroke:var(--line);stroke-width:1}.curve{fill:none;stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:6 4}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}.c4{stroke:var(--c4)}
.legend{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:.25rem 0 .5rem;color:var(--ink);padding:0;list-style:none}
.legend i{display:inline-block;width:1rem;height:.75rem;margin-right:.4rem;border-radius:2px}
.legend svg{display:inline-block;width:2rem;height:.75rem;margin-right:.4rem}
dt{font-weight:600}dd{margin:0 0 .4rem;color:var(--soft)}
";

/// What a browser may do with the page: apply the style in it. Should markup of a stranger ever get through, it can fetch and run nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page up to its heading. `style` is added to what all pages have.
pub(crate) fn open(title: &str, style: &str) -> String {
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
         <title>{title}</title><style>{STYLE}{style}</style></head><body><h1>{title}</h1>"
    )
}

/// The whole page.
pub(crate) fn close(mut page: String) -> String {
    page.push_str("</body></html>\n");
    page
}

/// A table that scrolls where it is too wide. The first `word_columns` hold words, the others figures; line ends are kept.
pub(crate) fn add_table(page: &mut String, head: &[String], rows: &[Vec<String>], word_columns: usize) {
    page.push_str("<div class=\"scroll\"><table><thead>");
    add_cells(page, "th", head, word_columns);
    page.push_str("</thead><tbody>");
    rows.iter().for_each(|row| add_cells(page, "td", row, word_columns));
    page.push_str("</tbody></table></div>");
}

fn add_cells(page: &mut String, tag: &str, cells: &[String], word_columns: usize) {
    page.push_str("<tr>");
    for (place, cell) in cells.iter().enumerate() {
        let class = if place < word_columns { " class=\"word\"" } else { "" };
        let _ = write!(page, "<{tag}{class}>{}</{tag}>", escape(cell).replace('\n', "<br/>"));
    }
    page.push_str("</tr>");
}

#[cfg(test)]
pub(crate) mod testing {
    /// Elements without content in this page; all are closed in place.
    pub(crate) fn check_well_formed(page: &str) {
        let mut open: Vec<String> = Vec::new();
        let mut rest = page.strip_prefix("<!DOCTYPE html>\n").expect("the page says what it is");
        while let Some(start) = rest.find('<') {
            let text = &rest[..start];
            assert!(!text.contains('>') || open.last().is_some_and(|it| it == "style"), "a bare > in {text}");
            let end = start + rest[start..].find('>').expect("every tag ends");
            let tag = &rest[start + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes pair up in {tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "</{name}> closes what is open");
            } else if !tag.ends_with('/') {
                open.push(tag.split_whitespace().next().unwrap().to_owned());
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?}");
    }
}
