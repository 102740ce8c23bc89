//! The layouts of the result file: sobench's own, and those of vLLM's two tools.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::PrettyFormatter;

use super::view::View;
use super::{format, json, vllm};
use sobench_core::error::Result;

/// A layout of the result file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultFormat {
    /// vLLM's keys, and the object `sobench`.
    #[default]
    Sobench,
    /// The layout of `vllm bench serve`.
    VllmServe,
    /// The layout of vLLM's structured-output script.
    VllmStructured,
}

/// How the result is placed in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The whole file.
    WholeFile,
    /// One line below others.
    Line,
}

impl ResultFormat {
    /// Every layout, in the order in which they are listed to people.
    pub const ALL: [Self; 3] = [Self::Sobench, Self::VllmServe, Self::VllmStructured];

    /// The name in flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sobench => "sobench",
            Self::VllmServe => "vllm-serve",
            Self::VllmStructured => "vllm-structured",
        }
    }
}

/// Writes the result in this layout, with every request in it if `detailed`. The script's layout
/// always has them.
///
/// # Errors
/// An answer cannot be read from the log, or the output cannot be written.
pub fn write(
    view: &View<'_>,
    layout: ResultFormat,
    detailed: bool,
    framing: Framing,
    out: &mut dyn Write,
) -> Result<()> {
    let indent = |whole: &'static [u8]| (framing == Framing::WholeFile).then_some(whole);
    let written = match layout {
        ResultFormat::Sobench => put(&mut *out, &json::document(*view, detailed), indent(b"  ")),
        ResultFormat::VllmServe => put(&mut *out, &vllm::serve::document(*view, detailed), None),
        ResultFormat::VllmStructured => put(
            &mut *out,
            &vllm::structured::document(*view),
            indent(b"    "),
        ),
    };
    written.map_err(|error| format::cannot_write(&error))?;
    // vLLM's tools end their files without a line feed, and start the next line with one.
    if layout == ResultFormat::Sobench {
        format::put(out, "\n")
    } else {
        Ok(())
    }
}

fn put(out: &mut dyn Write, value: &impl Serialize, indent: Option<&[u8]>) -> io::Result<()> {
    match indent {
        None => serde_json::to_writer(out, value)?,
        Some(indent) => {
            value.serialize(&mut serde_json::Serializer::with_formatter(
                out,
                PrettyFormatter::with_indent(indent),
            ))?;
        }
    }
    Ok(())
}
