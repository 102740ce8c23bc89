//! `sobench accept`: whether a server does what a file of requirements says.

pub mod args;
mod counts;
pub(crate) mod json;
mod limits;
mod page;
mod plan;
pub mod profiles;
pub mod requirements;
pub(crate) mod server;
mod sign;
mod work;

use std::path::PathBuf;

use self::args::AcceptArgs;
use self::json::{AcceptFile, PartResult};
use self::plan::AcceptPlan;
use self::requirements::Requirements;
use crate::commands::bench::run::report_shutdown_stage;
use crate::commands::output::{CommandOutput, check_writable, paths, pretty};
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{CHECK_FAILED, ENVIRONMENT, INTERRUPTED, SUCCESS, UNDECIDED};
use sobench_core::output_files::refuse_foreign;
use sobench_core::output_format::OutputFormat;
use sobench_render::{html, markdown, text};
use sobench_results::accept::Decision;
use sobench_results::compare::gate::Undecided;
use sobench_shutdown::Shutdown;

/// Formats of the page.
const FORMATS: [OutputFormat; 4] = [
    OutputFormat::Text,
    OutputFormat::Json,
    OutputFormat::Markdown,
    OutputFormat::Html,
];

/// Runs the parts, and decides their rules.
///
/// # Errors
/// The requirements cannot be run, or a file cannot be written. What goes wrong in a part is said on the
/// page.
pub fn run(
    flags: &AcceptArgs,
    requirements: Requirements,
    shutdown: &Shutdown,
) -> Result<CommandOutput> {
    if flags.print {
        return Ok(CommandOutput {
            stdout: requirements.text,
            ..CommandOutput::default()
        });
    }
    let typed = &flags.typed.flags;
    if let Some(rule) = typed.output.require.first() {
        return Err(Error::usage(format!("--require {rule} is not for accept"))
            .hint("write the rule into the file, for the run that it is about; --print prints a profile"));
    }
    let files = typed.output.save.files(&FORMATS)?;
    let key = flags
        .sign_key
        .as_ref()
        .map(|key| sign::Key::read(key))
        .transpose()?;
    let signed = match (
        &key,
        files
            .iter()
            .find(|(format, _)| *format == OutputFormat::Json),
    ) {
        (Some(_), None) => {
            return Err(Error::usage("--sign-key without a JSON file to sign")
                .hint("add --save acceptance.json"));
        }
        (Some(key), Some((_, path))) => Some((key, path.clone())),
        (None, _) => None,
    };
    if let Some((key, path)) = signed.as_ref().filter(|_| !typed.output.save.force.force) {
        refuse_foreign(&key.signature(path), "--save")?;
    }
    let plan = AcceptPlan::new(requirements)?;
    if typed.matrix.dry_run {
        return Ok(CommandOutput {
            stdout: text::render(&page::of_plan(&plan)),
            ..CommandOutput::default()
        });
    }
    let badge: Option<PathBuf> = flags.badge.as_ref().map(|path| path.to_path_buf());
    check_writable(paths(&files).chain(badge.as_deref()))?;
    let _listener = shutdown.listen(report_shutdown_stage)?;
    let mut parts: Vec<PartResult> = Vec::new();
    for part in &plan.parts {
        parts.push(work::part(
            part,
            plan.rules,
            typed.output.disable_tqdm,
            shutdown,
        ));
    }
    let file = AcceptFile::new(&plan, parts);
    let document = page::document(&file);
    let rendered = |format: OutputFormat| match format {
        OutputFormat::Text => Ok(text::render(&document)),
        OutputFormat::Json => Ok(pretty(&file)),
        OutputFormat::Markdown => Ok(markdown::render(&document, 1)),
        OutputFormat::Html => Ok(html::render(&document)),
        other => Err(other.unsupported("an acceptance")),
    };
    let is_stopped = shutdown.is_requested();
    let mut output = CommandOutput {
        stdout: rendered(OutputFormat::Text)?,
        exit_code: exit_code(&file, typed.output.undecided, is_stopped),
        ..CommandOutput::default()
    };
    output.save(&files, rendered)?;
    if let Some(path) = badge {
        output.write(&path, &pretty(&file.badge()));
    }
    if let Some((key, path)) = signed {
        match key.sign(&path) {
            Ok(line) => output.lines.push(line),
            Err(error) => {
                output.lines.push(format!("error: {error}"));
                output.exit_code = output.exit_code.max(ENVIRONMENT);
            }
        }
    }
    Ok(output.or_save_with("--save"))
}

/// See [`sobench_core::exit_codes::TABLE`]. A rule that is not met counts more than a part that did
/// not run.
fn exit_code(file: &AcceptFile, undecided: Option<Undecided>, is_stopped: bool) -> u8 {
    match file.verdict {
        _ if is_stopped => INTERRUPTED,
        Decision::NotMet => CHECK_FAILED,
        _ if file.parts.iter().any(|part| part.error.is_some()) => ENVIRONMENT,
        Decision::Met => SUCCESS,
        Decision::NotDecided => match undecided {
            None => UNDECIDED,
            Some(Undecided::Pass) => SUCCESS,
            Some(Undecided::Fail) => CHECK_FAILED,
        },
    }
}
