//! Runs `sobench-tools mask --prove` and `--replay`.

use std::path::Path;
use std::sync::OnceLock;

use crate::mask::WorkerCommand;
use crate::mask::measure::listen;
use crate::mask::options::MaskSettings;
use crate::mask::plan::Effort;
use crate::mask::proof_report::json::ProofFile;
use crate::mask::proof_report::{Summary, issue, page, replay_report};
use crate::mask::proof_run::{self, ProofEvent, ProofRun};
use crate::mask::prove::witness::{self, Witness};
use sobench::commands::output::{CommandOutput, check_writable, paths, pretty};
use sobench::terminal;
use sobench::terminal::{Mode, Progress, ProgressLabels};
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{ENVIRONMENT, INTERRUPTED, SUCCESS};
use sobench_core::input;
use sobench_core::input::json::message_without_line;
use sobench_core::input::lines;
use sobench_core::output_format::OutputFormat;
use sobench_render::text;
use sobench_shutdown::Shutdown;

/// Maximum size of a witness file in bytes.
const MAX_WITNESSES_BYTES: u64 = 1 << 30;

/// Runs the proof search, prints and writes the report.
///
/// # Errors
/// The search cannot start. A file that fails to be written after the search is reported with exit
/// code 3.
pub fn run(options: &MaskSettings, effort: Effort, shutdown: &Shutdown) -> Result<CommandOutput> {
    check_writable(paths(&options.files).chain(options.proof.witnesses.as_deref()))?;
    if let Some(folder) = &options.proof.issues {
        std::fs::create_dir_all(folder).map_err(|error| cannot_create(folder, &error))?;
    }
    let _listener = listen(shutdown)?;
    let proved = prove(options, effort, shutdown)?;
    let summary = Summary::build(proved)?;
    let proved = &summary.proved;
    let mut output = CommandOutput {
        stdout: rendered(options.output.format, &summary),
        exit_code: if proved.interrupted {
            INTERRUPTED
        } else {
            SUCCESS
        },
        ..CommandOutput::default()
    };
    output.lines.extend(
        proved
            .rows_path()
            .map(|path| format!("rows: {}", path.display())),
    );
    if proved.interrupted {
        output.lines.push("interrupted: the report covers the completed entries; continue with --rows and --resume".to_owned());
    }
    write_all(options, &summary, &mut output);
    Ok(output)
}

fn prove(options: &MaskSettings, effort: Effort, shutdown: &Shutdown) -> Result<ProofRun> {
    let mode = Mode::detect(!options.output.disable_tqdm);
    let (entries, findings) = (OnceLock::new(), OnceLock::new());
    let proved = proof_run::prove(
        &options.mask,
        effort,
        &WorkerCommand::current("mask-worker")?,
        shutdown,
        &|event| match event {
            ProofEvent::Started {
                entries: count,
                resumed,
            } => {
                if resumed > 0 {
                    terminal::say(&format!("resuming: {resumed} of {count} entries are done"));
                }
                let labels = ProgressLabels {
                    unit: "entries",
                    failed: "stopped early",
                };
                let _ = entries.set(Progress::new(mode, count - resumed, labels));
            }
            ProofEvent::EntryDone => {
                entries.get().inspect(|progress| progress.ended(true));
            }
            ProofEvent::Shrinking { findings: count } => {
                entries.get().inspect(|progress| progress.finish());
                let _ = findings.set(Progress::new(
                    mode,
                    count,
                    ProgressLabels {
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

fn rendered(format: OutputFormat, summary: &Summary) -> String {
    match format {
        OutputFormat::Json => pretty(&ProofFile::new(summary)),
        _ => text::render(&page::document(summary)),
    }
}

fn write_all(options: &MaskSettings, summary: &Summary, output: &mut CommandOutput) {
    for (format, path) in &options.files {
        output.write(path, &rendered(*format, summary));
    }
    let proved = &summary.proved;
    if let Some(path) = &options.proof.witnesses {
        let lines = proved
            .clusters
            .iter()
            .filter_map(|cluster| cluster.witness.as_ref());
        let lines = lines.map(|witness| {
            serde_json::to_string(witness)
                .expect("a witness holds only strings, numbers and JSON values")
                + "\n"
        });
        output.write(path, &lines.collect::<String>());
    }
    if let Some(folder) = &options.proof.issues {
        for (number, cluster) in proved.clusters.iter().enumerate() {
            if let Some(text) = issue::render(&proved.record, cluster) {
                output.write(&folder.join(issue::file_name(number + 1, cluster)), &text);
            }
        }
    }
}

fn cannot_create(folder: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!(
        "cannot create the folder for issue texts ({error}): {}",
        folder.display()
    ))
    .hint("name a writable folder with --issues")
}

/// Replays the witnesses of a file.
///
/// # Errors
/// The file has no witness, or an engine cannot be opened.
pub fn replay(options: &MaskSettings, path: &Path, shutdown: &Shutdown) -> Result<CommandOutput> {
    let witnesses = read(path)?;
    check_writable(paths(&options.files))?;
    let _listener = listen(shutdown)?;
    let statuses = proof_run::replay(
        &witnesses,
        &options.mask,
        &WorkerCommand::current("mask-worker")?,
        shutdown,
    )?;
    let rendered = |format| match format {
        OutputFormat::Json => pretty(&replay_report::json(&witnesses, &statuses)),
        _ => text::render(&replay_report::document(&witnesses, &statuses)),
    };
    let tally = replay_report::Tally::new(&statuses);
    let exit_code = match tally {
        _ if shutdown.is_requested() => INTERRUPTED,
        _ if tally.unknown > 0 => ENVIRONMENT,
        _ => SUCCESS,
    };
    let mut output = CommandOutput {
        stdout: rendered(options.output.format),
        exit_code,
        ..CommandOutput::default()
    };
    for (format, path) in &options.files {
        output.write(path, &rendered(*format));
    }
    Ok(output)
}

fn read(path: &Path) -> Result<Vec<Witness>> {
    let refuse = |what: String| {
        Error::usage(what).hint("name a file written by sobench-tools mask --prove --witnesses")
    };
    let text = input::read_text(path, MAX_WITNESSES_BYTES)?;
    let mut witnesses = Vec::new();
    for (number, line) in lines(&text) {
        let witness: Witness = serde_json::from_str(line).map_err(|error| {
            refuse(format!(
                "line {number} of {} is not a witness: {}",
                path.display(),
                message_without_line(&error)
            ))
        })?;
        if witness.sobench_witness != witness::VERSION {
            let version = witness.sobench_witness;
            return Err(refuse(format!(
                "line {number} of {} has an unknown version: {version}",
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
