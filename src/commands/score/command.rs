//! `sobench score`: reads, judges again, renders. Knows no layout of files.

use super::{Form, ScorePlan, read, score};
use crate::commands::output::CommandOutput;
use crate::commands::score::report as rendered;
use crate::error::Result;
use crate::exit_codes::DONE;

/// Judges every file.
///
/// # Errors
/// A file cannot be read, is none with answers, or its constraints are not known.
pub fn run(plan: &ScorePlan) -> Result<CommandOutput> {
    let mut scores = Vec::with_capacity(plan.files.len());
    for path in &plan.files {
        let answers = read::answers(path, plan)?;
        scores.push(score(path.display().to_string(), answers, plan.evaluate));
    }
    let stdout = match plan.format {
        Form::Text => rendered::text(&scores),
        Form::Json => rendered::json(&scores, plan.evaluate.assert_formats),
    };
    Ok(CommandOutput { stdout, lines: Vec::new(), exit_code: DONE, ..CommandOutput::default() })
}
