//! `sobench mask --prove` and `--replay` from options to report. Knows no engine and no oracle.

use std::path::Path;
use std::sync::OnceLock;

use crate::commands::mask::measure::{try_file, write_file};
use crate::commands::mask::options::MaskOptions;
use crate::commands::mask::proof_report::{Summary, issue, json, page, replay as replayed};
use crate::commands::output::{CommandOutput, pretty};
use crate::terminal;
use crate::terminal::{Mode, Progress, Words};
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{COULD_NOT, DONE, INTERRUPTED};
use sobench_core::input;
use sobench_core::input::json::in_line;
use sobench_core::input::lines;
use sobench_core::output_format::OutputFormat;
use sobench_mask::WorkerCommand;
use sobench_mask::plan::Effort;
use sobench_mask::proof_run::{self, ProofEvent, ProofRun};
use sobench_mask::prove::witness::{self, Witness};
use sobench_render::text;
use sobench_shutdown::Shutdown;

/// Bytes of a file of witnesses.
const MAX_WITNESSES_BYTES: u64 = 1 << 30;

/// Proves, prints and writes what the options asks for.
///
/// # Errors
/// Whatever keeps the proof from beginning. A file that cannot be written after all is told at the
/// end, with exit code 3.
pub fn run(options: &MaskOptions, effort: Effort, shutdown: &Shutdown) -> Result<CommandOutput> {
    options
        .output
        .json
        .iter()
        .chain(&options.proof.witnesses)
        .try_for_each(|path| try_file(path))?;
    if let Some(folder) = &options.proof.issues {
        std::fs::create_dir_all(folder).map_err(|error| cannot_make(folder, &error))?;
    }
    let _listener = super::listen(shutdown)?;
    let proved = prove(options, effort, shutdown)?;
    let summary = Summary::build(proved)?;
    let proved = &summary.proved;
    let stdout = match options.output.format {
        OutputFormat::Json => pretty(&json::render(&summary)),
        _ => text::render(&page::document(&summary)),
    };
    let mut output = CommandOutput {
        stdout,
        exit_code: if proved.interrupted {
            INTERRUPTED
        } else {
            DONE
        },
        ..CommandOutput::default()
    };
    output.lines.extend(
        proved
            .rows_path()
            .map(|path| format!("rows: {}", path.display())),
    );
    if proved.interrupted {
        output.lines.push("interrupted: the report covers the entries that were done; --rows with --resume goes on".to_owned());
    }
    write_all(options, &summary, &mut output);
    Ok(output)
}

fn prove(options: &MaskOptions, effort: Effort, shutdown: &Shutdown) -> Result<ProofRun> {
    let mode = Mode::detect(!options.output.disable_tqdm);
    let (entries, findings) = (OnceLock::new(), OnceLock::new());
    let proved = proof_run::prove(
        &options.mask,
        effort,
        &WorkerCommand::current()?,
        shutdown,
        &|event| match event {
            ProofEvent::Started {
                entries: count,
                resumed,
            } => {
                if resumed > 0 {
                    terminal::say(&format!("{resumed} of {count} entries are there already"));
                }
                let words = Words {
                    unit: "entries",
                    failed: "stopped early",
                };
                let _ = entries.set(Progress::new(mode, count - resumed, words));
            }
            ProofEvent::EntryDone => {
                entries.get().inspect(|progress| progress.ended(true));
            }
            ProofEvent::Shrinking { findings: count } => {
                entries.get().inspect(|progress| progress.finish());
                let _ = findings.set(Progress::new(
                    mode,
                    count,
                    Words {
                        unit: "findings",
                        failed: "stopped early",
                    },
                ));
            }
            ProofEvent::Shrunk => {
                findings.get().inspect(|progress| progress.ended(true));
            }
        },
    );
    entries
        .get()
        .filter(|_| findings.get().is_none())
        .inspect(|progress| progress.finish());
    findings.get().inspect(|progress| progress.finish());
    let proved = proved?;
    proved
        .notices
        .iter()
        .for_each(|notice| terminal::warn(&notice.to_string()));
    Ok(proved)
}

fn write_all(options: &MaskOptions, summary: &Summary, output: &mut CommandOutput) {
    if let Some(path) = &options.output.json {
        write_file(path, pretty(&json::render(summary)).as_bytes(), output);
    }
    let proved = &summary.proved;
    if let Some(path) = &options.proof.witnesses {
        let lines = proved.clusters.iter().filter_map(|it| it.witness.as_ref());
        let lines = lines.map(|it| {
            serde_json::to_string(it)
                .expect("a witness holds only strings, numbers and JSON values")
                + "\n"
        });
        write_file(path, lines.collect::<String>().as_bytes(), output);
    }
    if let Some(folder) = &options.proof.issues {
        for (number, cluster) in proved.clusters.iter().enumerate() {
            if let Some(text) = issue::render(&proved.about, cluster) {
                write_file(
                    &folder.join(issue::file_name(number + 1, cluster)),
                    text.as_bytes(),
                    output,
                );
            }
        }
    }
}

fn cannot_make(folder: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!(
        "cannot make the folder for issue texts ({error}): {}",
        folder.display()
    ))
    .hint("name a folder in a place that may be written to")
}

/// Checks the witnesses of a file again.
///
/// # Errors
/// A file that holds none, and whatever keeps the engines from being opened.
pub fn replay(options: &MaskOptions, path: &Path, shutdown: &Shutdown) -> Result<CommandOutput> {
    let witnesses = read(path)?;
    options
        .output
        .json
        .iter()
        .try_for_each(|path| try_file(path))?;
    let _listener = super::listen(shutdown)?;
    let standings = proof_run::replay(
        &witnesses,
        &options.mask,
        &WorkerCommand::current()?,
        shutdown,
    )?;
    let value = replayed::json(&witnesses, &standings);
    let stdout = match options.output.format {
        OutputFormat::Json => pretty(&value),
        _ => text::render(&replayed::document(&witnesses, &standings)),
    };
    let tally = replayed::Tally::new(&standings);
    let exit_code = match tally {
        _ if shutdown.is_requested() => INTERRUPTED,
        _ if tally.unknown > 0 => COULD_NOT,
        _ => DONE,
    };
    let mut output = CommandOutput {
        stdout,
        exit_code,
        ..CommandOutput::default()
    };
    if let Some(path) = &options.output.json {
        write_file(path, pretty(&value).as_bytes(), &mut output);
    }
    Ok(output)
}

fn read(path: &Path) -> Result<Vec<Witness>> {
    let refuse = |what: String| {
        Error::usage(what).hint("witnesses are what sobench mask --prove --witnesses writes")
    };
    let text = input::read_text(path, MAX_WITNESSES_BYTES)?;
    let mut witnesses = Vec::new();
    for (number, line) in lines(&text) {
        let witness: Witness = serde_json::from_str(line).map_err(|error| {
            refuse(format!(
                "line {number} of {} is no witness: {}",
                path.display(),
                in_line(&error)
            ))
        })?;
        if witness.sobench_witness != witness::VERSION {
            let version = witness.sobench_witness;
            return Err(refuse(format!(
                "line {number} of {} has a version that is not known: {version}",
                path.display()
            )));
        }
        witnesses.push(witness);
    }
    if witnesses.is_empty() {
        return Err(refuse(format!("no witness in {}", path.display())));
    }
    Ok(witnesses)
}
