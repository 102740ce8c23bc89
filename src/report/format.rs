//! The forms that a report can take, each a function from the report to a text. Knows no file.

use super::{Report, json, text};

/// A form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// What a run prints.
    Text,
    /// What `--save-result` saves.
    Json,
}

impl Format {
    /// Every form, in the order in which they are listed to people.
    pub const ALL: [Self; 2] = [Self::Text, Self::Json];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }

    /// Whether it shows every request, whatever the run saved: [`Report::details`] has to be there.
    pub fn shows_requests(self) -> bool {
        match self {
            Self::Text | Self::Json => false,
        }
    }
}

/// Renders a report. `detailed` is whether the saved result holds every request.
pub fn render(report: &Report, format: Format, detailed: bool) -> String {
    match format {
        Format::Text => text::render(report),
        Format::Json => {
            let file = serde_json::to_string_pretty(&json::render(report, detailed)).expect("a value is JSON");
            format!("{file}\n")
        }
    }
}
