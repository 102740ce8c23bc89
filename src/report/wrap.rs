//! Sentences wrapped at the width of a wide page.

use std::fmt::Write as _;

use tabled::settings::width::Wrap;

/// The width of a wide page, in columns.
pub const PAGE_WIDTH: usize = 110;

/// Adds a sentence, wrapped at the page's width.
pub fn add_wrapped(page: &mut String, sentence: &str) {
    let wrapped = Wrap::wrap(sentence, PAGE_WIDTH, true);
    for line in wrapped.lines() {
        let _ = writeln!(page, "{}", line.trim());
    }
}
