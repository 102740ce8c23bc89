//! The flags of the format of a report, and of the files that it is written to.

use std::path::PathBuf;

use clap::Args;

use crate::commands::flags::paths::OutputPath;
use crate::commands::flags::values::{formats, named};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_report::junit::JunitPer;
use sobench_report::text::Detail;

/// The format of a report.
#[derive(Args, Clone, Debug)]
pub struct RenderingArgs {
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "text",
          value_parser = formats(&OutputFormat::PRINTED))]
    pub format: OutputFormat,
    /// Content of one test in the format junit
    #[arg(long, value_name = "WHAT", default_value = JunitPer::Case.name(),
          value_parser = named(&JunitPer::ALL, JunitPer::name))]
    pub junit_per: JunitPer,
    /// Print charts of the latencies and of the run over time below the text
    #[arg(long)]
    pub plot: bool,
}

/// What happens to existing files.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ForceArgs {
    /// Overwrite files that sobench did not write
    #[arg(long)]
    pub force: bool,
}

/// A file of `--save`.
pub type SavedFile = (OutputFormat, PathBuf);

/// The files that a command writes beside what it prints.
#[derive(Args, Clone, Debug, Default)]
pub struct SaveArgs {
    /// Write the report to this file, in the format of its extension, e.g. report.html. May be
    /// repeated
    #[arg(long, value_name = "PATH")]
    pub save: Vec<OutputPath>,
    #[command(flatten)]
    pub force: ForceArgs,
}

impl SaveArgs {
    /// The files with their formats, of which the command has some.
    ///
    /// # Errors
    /// No format, or one that the command does not have, has the extension of a file.
    pub fn files(&self, formats: &[OutputFormat]) -> Result<Vec<SavedFile>> {
        let with_format = |path: &OutputPath| {
            let extension = path.extension().and_then(|extension| extension.to_str());
            let format = extension.and_then(OutputFormat::from_extension);
            match format.filter(|format| formats.contains(format)) {
                Some(format) => Ok((format, path.to_path_buf())),
                None => {
                    let extensions = formats.iter().filter_map(|format| format.extension());
                    let known: Vec<String> = extensions.map(|known| format!(".{known}")).collect();
                    let what = format!("--save has no format for this name: {}", path.display());
                    Err(Error::usage(what).hint(format!("end it in one of {}", known.join(", "))))
                }
            }
        };
        self.save.iter().map(with_format).collect()
    }

    /// The file for merged lines (`.jsonl`), and those of the report of a merge, with their formats.
    ///
    /// # Errors
    /// As [`Self::files`], or there are two files for merged lines.
    pub fn merged(&self, formats: &[OutputFormat]) -> Result<(Option<PathBuf>, Vec<SavedFile>)> {
        let files = self.files(formats)?.into_iter();
        let (mut lines, reports): (Vec<_>, Vec<_>) =
            files.partition(|(format, _)| *format == OutputFormat::Jsonl);
        let merged = lines.pop().map(|(_, path)| path);
        if lines.is_empty() {
            return Ok((merged, reports));
        }
        Err(Error::usage("--save has two files for the merged lines")
            .hint("give one that ends in .jsonl"))
    }
}

/// How much a text report shows.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct DetailArgs {
    /// Amount of detail in the text report: one screen, or every table
    #[arg(long, value_name = "DETAIL", default_value = Detail::Summary.name(),
          value_parser = named(&Detail::ALL, Detail::name))]
    pub detail: Detail,
}
