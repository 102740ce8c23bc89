//! What a person sees on stderr while a run goes on: a bar on a terminal, plain lines elsewhere.
//! Knows no results.

#![expect(clippy::disallowed_methods, reason = "here the program prints")]

use std::io::{ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::commands::output::CommandOutput;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sobench_core::error::Error;
use sobench_core::exit_codes::COULD_NOT;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A bar that redraws itself.
    Bar,
    /// A line at every tenth of the way.
    Lines,
    /// Nothing.
    Silent,
}

impl Mode {
    /// A bar if stderr is a terminal, else lines; nothing if not wanted.
    pub fn detect(wanted: bool) -> Self {
        match (wanted, std::io::stderr().is_terminal()) {
            (false, _) => Self::Silent,
            (true, true) => Self::Bar,
            (true, false) => Self::Lines,
        }
    }
}

/// Lines are printed at so many even steps of the way.
const LINE_STEPS: usize = 10;

/// Where the end is not known, a line is printed at every so many.
const LINE_EVERY: usize = 1000;

/// Redraws a second, so that drawing never competes with the run.
const BAR_REDRAWS_PER_S: u8 = 5;

/// What is counted, in the words of the lines.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The things that end, e.g. `requests`.
    pub unit: &'static str,
    /// What those that did not end well are called, e.g. `without an answer`.
    pub failed: &'static str,
}

/// The progress of one run.
pub struct Progress {
    words: Words,
    bar: Option<ProgressBar>,
    lines: bool,
    /// `None` where nobody knows how many there will be.
    total: Option<usize>,
    ended: AtomicUsize,
    failed: AtomicUsize,
}

impl Progress {
    /// Progress over `total` things; `None` where their number is not known beforehand.
    pub fn new(mode: Mode, total: impl Into<Option<usize>>, words: Words) -> Self {
        let total = total.into();
        let bar = (mode == Mode::Bar).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(BAR_REDRAWS_PER_S);
            let template = match total {
                Some(_) => "{bar:40} {pos}/{len} ended{msg}  [{elapsed} < {eta}, {per_sec}]",
                None => "{pos} ended{msg}  [{elapsed}, {per_sec}]",
            };
            let style = ProgressStyle::with_template(template).expect("the template is a constant");
            let bar =
                ProgressBar::with_draw_target(total.map(|it| it as u64), target).with_style(style);
            bar.tick();
            bar
        });
        Self {
            words,
            bar,
            lines: mode == Mode::Lines,
            total,
            ended: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
        }
    }

    /// One of them ended, well or not.
    pub fn ended(&self, well: bool) {
        let Words {
            unit,
            failed: failed_words,
        } = self.words;
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        let failed =
            self.failed.fetch_add(usize::from(!well), Ordering::Relaxed) + usize::from(!well);
        if let Some(bar) = &self.bar {
            if !well {
                bar.set_message(format!(", {failed} {failed_words}"));
            }
            bar.inc(1);
        } else if self.lines && is_step(ended, self.total) {
            let of = self
                .total
                .map_or_else(String::new, |total| format!("/{total}"));
            say(&format!(
                "{ended}{of} {unit} ended, {failed} {failed_words}"
            ));
        }
    }

    /// Takes the bar off the screen.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Whether the `ended`-th of `total` requests completes another tenth of the way, or another
/// thousand on a way without an end.
fn is_step(ended: usize, total: Option<usize>) -> bool {
    let steps = |ended: usize| match total {
        Some(total) => ended * LINE_STEPS / total.max(1),
        None => ended / LINE_EVERY,
    };
    steps(ended) != steps(ended - 1)
}

/// Something the user would want to know before reading the result.
pub fn warn(text: &str) {
    say(&format!("warning: {text}"));
}

/// Something that happens now.
pub fn say(text: &str) {
    // Nobody is left to be told that stderr is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Prints what came of a command: its report to stdout, then its lines to stderr. A broken pipe (`|
/// head`) is success.
pub fn print(output: &CommandOutput) -> ExitCode {
    let printed = std::io::stdout().write_all(output.stdout.as_bytes());
    for line in &output.lines {
        say(line);
    }
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            not_printed(&error, output.file_flags)
        }
        _ => ExitCode::from(output.exit_code),
    }
}

/// Prints an error and returns its exit code.
pub fn fail(error: &Error) -> ExitCode {
    say(&format!("error: {error}"));
    ExitCode::from(error.exit_code())
}

/// Says that stdout cannot be written to. `file_flags` write the same to a file; empty where there
/// are none.
pub(crate) fn not_printed(error: &std::io::Error, file_flags: &str) -> ExitCode {
    let with = if file_flags.is_empty() {
        "a redirection"
    } else {
        file_flags
    };
    say(&format!(
        "error: what was asked for could not be printed: {error}\nhint: keep it with {with}"
    ));
    ExitCode::from(COULD_NOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_at_even_steps_and_at_the_end() {
        let steps = |total: usize| {
            (1..=total)
                .filter(|ended| is_step(*ended, Some(total)))
                .collect::<Vec<_>>()
        };
        assert_eq!(steps(20), vec![2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
        assert_eq!(steps(3), vec![1, 2, 3]);
        assert_eq!(steps(1000).len(), 10);
        assert_eq!(
            (1..=2500)
                .filter(|ended| is_step(*ended, None))
                .collect::<Vec<_>>(),
            [1000, 2000]
        );
    }
}
