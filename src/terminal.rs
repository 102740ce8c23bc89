//! Progress and messages on stderr, and the output of commands.

#![expect(clippy::disallowed_methods, reason = "this module prints")]

use std::cell::RefCell;
use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::commands::output::CommandOutput;
use clap::ColorChoice;
use console::{Term, measure_text_width, style, truncate_str};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sobench_core::error::Error;
use sobench_core::exit_codes::ENVIRONMENT;
use sobench_core::printable::visible;
use sobench_core::progress::Progress as WorkProgress;
use sobench_core::secrets::{Redactor, redacted};
use sobench_render::QUESTIONS;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A bar that redraws itself.
    Bar,
    /// A line now and then, and one at the end.
    Lines,
    /// Nothing.
    Silent,
}

impl Mode {
    /// A bar if stderr is a terminal, else a line; nothing if not wanted.
    pub fn detect(wanted: bool) -> Self {
        match (wanted, std::io::stderr().is_terminal()) {
            (false, _) => Self::Silent,
            (true, true) => Self::Bar,
            (true, false) => Self::Lines,
        }
    }
}

/// Whether stderr is a terminal.
pub fn is_interactive() -> bool {
    std::io::stderr().is_terminal()
}

/// Redraws per second, so that drawing does not disturb the run.
const BAR_REDRAWS_PER_S: u8 = 5;

/// The labels of a progress.
#[derive(Clone, Copy, Debug)]
pub struct ProgressLabels {
    /// The counted things, such as `requests`.
    pub unit: &'static str,
    /// The failed ones, such as `without an answer`.
    pub failed: &'static str,
}

/// Seconds between two lines of progress of several runs where stderr is no terminal.
const LINE_INTERVAL_S: u64 = 5;

/// Seconds between two such lines of a single run, which are in the output of jobs on clusters.
const SINGLE_LINE_INTERVAL_S: u64 = 30;

/// Times the lines of progress.
pub struct LineTimer {
    clock: ProgressBar,
    interval_s: u64,
    /// When the last line was printed.
    printed_s: AtomicU64,
}

impl Default for LineTimer {
    fn default() -> Self {
        Self {
            clock: ProgressBar::hidden(),
            interval_s: LINE_INTERVAL_S,
            printed_s: AtomicU64::new(0),
        }
    }
}

impl LineTimer {
    /// Time since the timer was made.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Whether a line is due. Then the next one is due after the interval.
    fn is_due(&self) -> bool {
        let now_s = self.elapsed().as_secs();
        let printed_s = self.printed_s.load(Ordering::Relaxed);
        now_s >= printed_s + self.interval_s
            && self
                .printed_s
                .compare_exchange(printed_s, now_s, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// The place of a run among several.
#[derive(Clone)]
pub struct ProgressPrefix {
    /// Before the counts, for example `3/12 xgrammar, json, constrained`.
    pub text: String,
    /// Known after the first run.
    pub left: Option<TimeLeft>,
    pub timer: Arc<LineTimer>,
}

/// The estimated time of several runs, since the start of the timer.
#[derive(Clone, Copy, Debug)]
pub struct TimeLeft {
    /// The end of the last run.
    pub end: Duration,
    /// What the runs after the current ones take.
    pub later_runs: Duration,
    /// Whether some of the runs may not be needed.
    pub is_at_most: bool,
}

impl TimeLeft {
    /// What is left after `elapsed`, for example `, 2 min left`. It shrinks during a run, but not
    /// below the time of the later ones.
    pub fn text(self, elapsed: Duration) -> String {
        let left = self.end.saturating_sub(elapsed).max(self.later_runs);
        let at_most = if self.is_at_most { "at most " } else { "" };
        match left.as_secs_f64() {
            seconds if seconds < 60.0 => format!(", {at_most}{seconds:.0} s left"),
            seconds => format!(", {at_most}{:.0} min left", seconds / 60.0),
        }
    }
}

/// The progress of one run.
pub struct Progress {
    labels: ProgressLabels,
    prefix: Option<ProgressPrefix>,
    bar: Option<ProgressBar>,
    /// Times the lines of a single run.
    timer: LineTimer,
    /// Whether a line is due at the end.
    line_is_due: AtomicBool,
    /// `None` where the total is unknown.
    total: Option<usize>,
    ended: AtomicUsize,
    failed: AtomicUsize,
}

impl Progress {
    /// Progress over `total` things; `None` where their number is unknown.
    pub fn new(mode: Mode, total: impl Into<Option<usize>>, labels: ProgressLabels) -> Self {
        let total = total.into();
        let bar = (mode == Mode::Bar).then(|| {
            let target = ProgressDrawTarget::stderr_with_hz(BAR_REDRAWS_PER_S);
            let template = match total {
                Some(_) => "{bar:40} {pos}/{len} ended{msg}  [{elapsed} < {eta}, {per_sec}]",
                None => "{pos} ended{msg}  [{elapsed}, {per_sec}]",
            };
            let style = ProgressStyle::with_template(template).expect("the template is a constant");
            let bar = ProgressBar::with_draw_target(total.map(|total| total as u64), target)
                .with_style(style);
            bar.tick();
            bar
        });
        Self {
            labels,
            prefix: None,
            bar,
            timer: LineTimer {
                interval_s: SINGLE_LINE_INTERVAL_S,
                ..LineTimer::default()
            },
            line_is_due: AtomicBool::new(mode == Mode::Lines),
            total,
            ended: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
        }
    }

    /// Progress of one of several runs: one line that changes, or a line every few seconds.
    pub fn of_several(self, prefix: ProgressPrefix) -> Self {
        let several = Self {
            prefix: Some(prefix),
            ..self
        };
        if let Some(bar) = &several.bar {
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                bar.set_style(style);
            }
            bar.set_message(several.line_of(terminal_width()));
        }
        several
    }

    /// Counts one of them as ended.
    pub fn ended(&self, well: bool) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        let failed =
            self.failed.fetch_add(usize::from(!well), Ordering::Relaxed) + usize::from(!well);
        if let Some(bar) = &self.bar {
            if self.prefix.is_some() {
                bar.set_message(self.line_of(terminal_width()));
            } else if !well {
                bar.set_message(format!(", {failed} {}", self.labels.failed));
            }
            bar.inc(1);
        }
        let several = self.prefix.as_ref().map(|prefix| &*prefix.timer);
        let is_due = || several.unwrap_or(&self.timer).is_due();
        if self.line_is_due.load(Ordering::Relaxed) && is_due() {
            say(&self.line());
        }
    }

    /// Removes the bar, or prints the final line. Later calls do nothing.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.line_is_due.swap(false, Ordering::Relaxed) && self.prefix.is_none() {
            say(&self.line());
        }
    }

    fn line(&self) -> String {
        self.line_of(usize::MAX)
    }

    /// The line in less than `width` columns. The place of the run is shortened if necessary.
    fn line_of(&self, width: usize) -> String {
        let ProgressLabels { unit, failed } = self.labels;
        let ended = self.ended.load(Ordering::Relaxed);
        let total = self
            .total
            .map_or_else(String::new, |total| format!("/{total}"));
        let failures = match self.failed.load(Ordering::Relaxed) {
            0 => String::new(),
            count => format!(", {count} {failed}"),
        };
        match &self.prefix {
            Some(ProgressPrefix { text, left, timer }) => {
                let left = left.map_or_else(String::new, |left| left.text(timer.elapsed()));
                let counts = format!(" {ended}{total}{failures}{left}");
                let room = width.saturating_sub(measure_text_width(&counts) + 1);
                format!("{}{counts}", truncate_str(&redacted(text), room, "..."))
            }
            None => format!("{ended}{total} {unit} ended{failures}"),
        }
    }
}

/// What the progress through an input counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputUnit {
    Bytes,
    Answers,
    /// The constraints of requests.
    Constraints,
}

/// Progress through an input, as a bar that is removed at the end. Where stderr is no terminal, it
/// is a line every few seconds.
pub struct InputProgress {
    /// Counts also where it is hidden.
    bar: ProgressBar,
    unit: InputUnit,
    /// `None` without lines.
    timer: Option<LineTimer>,
}

impl InputProgress {
    /// Progress through files that are still to be found.
    pub fn of_files() -> Self {
        Self::new(Mode::detect(true), 0, InputUnit::Bytes)
    }

    /// Progress through `total` bytes or other units.
    pub fn new(mode: Mode, total: u64, unit: InputUnit) -> Self {
        let target = match mode {
            Mode::Bar => ProgressDrawTarget::stderr_with_hz(BAR_REDRAWS_PER_S),
            Mode::Lines | Mode::Silent => ProgressDrawTarget::hidden(),
        };
        let template = match unit {
            InputUnit::Bytes => {
                "{bar:40} {bytes}/{total_bytes}  [{elapsed} < {eta}, {bytes_per_sec}]"
            }
            InputUnit::Answers => "{bar:40} {pos}/{len} answers  [{elapsed} < {eta}]",
            InputUnit::Constraints => "{bar:40} {pos}/{len} constraints  [{elapsed} < {eta}]",
        };
        let style = ProgressStyle::with_template(template).expect("the template is a constant");
        Self {
            bar: ProgressBar::with_draw_target(Some(total), target).with_style(style),
            unit,
            timer: (mode == Mode::Lines).then(LineTimer::default),
        }
    }

    /// Counts more bytes or other units.
    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
        if self.timer.as_ref().is_some_and(LineTimer::is_due) {
            say(&self.line());
        }
    }

    fn line(&self) -> String {
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or_default());
        match self.unit {
            InputUnit::Bytes => format!("{} of {} read", HumanBytes(done), HumanBytes(total)),
            InputUnit::Answers => format!("{done} of {total} answers judged"),
            InputUnit::Constraints => format!("{done} of {total} constraints checked"),
        }
    }
}

impl WorkProgress for InputProgress {
    fn expect(&self, more: u64) {
        self.bar.inc_length(more);
    }

    fn advance(&self, by: u64) {
        Self::advance(self, by);
    }
}

impl Drop for InputProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

thread_local! {
    /// The notes of the run that this thread executes, if they are collected.
    static COLLECTED_NOTES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Prints a warning that applies to the whole run, unless notes are collected.
pub fn warn(text: &(impl Display + ?Sized)) {
    note(&format!("warning: {text}"));
}

/// Prints a note that applies to the whole run, unless notes are collected.
pub fn note(text: &str) {
    let is_collected = COLLECTED_NOTES.with_borrow_mut(|notes| match notes {
        Some(notes) => {
            notes.push(text.to_owned());
            true
        }
        None => false,
    });
    if !is_collected {
        say(text);
    }
}

/// Calls `work`, and returns the notes of this thread instead of printing them: the runs of a
/// comparison have the same ones.
pub fn collect_notes<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
    COLLECTED_NOTES.set(Some(Vec::new()));
    let result = work();
    (result, COLLECTED_NOTES.take().unwrap_or_default())
}

/// Columns of the terminal of stderr.
fn terminal_width() -> usize {
    usize::from(Term::stderr().size().1)
}

/// Prints a message.
pub fn say(text: &str) {
    let terminal = Term::stderr();
    if terminal.is_term() {
        // A bar is drawn again below the message.
        let _ = terminal.clear_line();
    }
    // There is no other place to report that stderr is closed.
    let _ = writeln!(std::io::stderr(), "{}", visible(&redacted(text)));
}

/// Prints the report of a command to stdout, then its lines to stderr. A broken pipe (`| head`) is
/// success.
pub fn print(output: &CommandOutput) -> ExitCode {
    let mut text = redacted(&output.stdout);
    let has_colors = console::colors_enabled();
    if std::io::stdout().is_terminal() || has_colors {
        text = visible(&text).into_owned().into();
    }
    if has_colors {
        text = colored(&text).into();
    }
    let printed = std::io::stdout().write_all(text.as_bytes());
    for line in &output.lines {
        say(line);
    }
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            stdout_failed(&error, output.file_flags)
        }
        _ => ExitCode::from(output.exit_code),
    }
}

/// Takes the width of the terminal, and whether stdout has colours; [`ColorChoice::Auto`] follows the
/// terminal and `NO_COLOR`.
pub fn set_up(choice: ColorChoice) {
    let stdout = Term::stdout();
    if let Some((_, columns)) = stdout.size_checked().filter(|_| stdout.is_term()) {
        sobench_render::text::set_terminal_width(columns.into());
    }
    match choice {
        ColorChoice::Auto => {}
        ColorChoice::Always => console::set_colors_enabled(true),
        ColorChoice::Never => console::set_colors_enabled(false),
    }
}

/// The text with colours in the lines that answer a question ([`sobench_render::Answer`]): the
/// question bold, and the word that answers green or red.
fn colored(text: &str) -> String {
    let line = |line: &str| {
        let Some((question, answer)) = line
            .split_once("? ")
            .filter(|(question, _)| QUESTIONS.contains(question))
        else {
            return line.to_owned();
        };
        let bold = style(format!("{question}?")).bold();
        let (word, rest) = answer.split_at(answer.find([':', ' ']).unwrap_or(answer.len()));
        let word = match word {
            "NO" | "YES" => style(word).red().bold(),
            "yes" | "no" => style(word).green().bold(),
            _ => style(word),
        };
        format!("{bold} {word}{rest}")
    };
    text.split_inclusive('\n').map(line).collect()
}

/// Prints an error and returns its exit code.
pub fn fail(error: &Error) -> ExitCode {
    say(&format!("error: {error}"));
    ExitCode::from(error.exit_code())
}

/// Copies a file that is too large for memory to stdout. A broken pipe (`| head`) is success.
///
/// # Errors
/// `file` cannot be read, or stdout cannot be written to.
pub fn copy_to_stdout(file: &mut impl Read) -> std::io::Result<()> {
    let mut out = Redactor::new(std::io::stdout().lock());
    match std::io::copy(file, &mut out).and_then(|_| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Reports that stdout cannot be written to. `file_flags` write the same to a file; empty without
/// such flags.
pub(crate) fn stdout_failed(error: &std::io::Error, file_flags: &str) -> ExitCode {
    let with = if file_flags.is_empty() {
        "a redirection"
    } else {
        file_flags
    };
    say(&format!(
        "error: cannot write to stdout: {error}\nhint: use {with} to write a file instead"
    ));
    ExitCode::from(ENVIRONMENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_final_line_counts_what_ended_and_what_failed() {
        let labels = ProgressLabels {
            unit: "requests",
            failed: "without an answer",
        };
        let progress = Progress::new(Mode::Lines, 3, labels);
        progress.ended(true);
        assert_eq!(progress.line(), "1/3 requests ended");
        progress.ended(false);
        assert_eq!(progress.line(), "2/3 requests ended, 1 without an answer");
        let prefix = ProgressPrefix {
            text: "3/12 xgrammar, json, constrained".to_owned(),
            left: Some(TimeLeft {
                end: Duration::ZERO,
                later_runs: Duration::from_secs(120),
                is_at_most: false,
            }),
            timer: Arc::default(),
        };
        let progress = progress.of_several(prefix);
        let whole = "3/12 xgrammar, json, constrained 2/3, 1 without an answer, 2 min left";
        assert_eq!(progress.line(), whole);
        assert_eq!(progress.line_of(70), whole);
        let short = progress.line_of(60);
        assert_eq!(
            short,
            "3/12 xgrammar, json... 2/3, 1 without an answer, 2 min left"
        );
        let input = InputProgress::new(Mode::Silent, 0, InputUnit::Bytes);
        input.expect(3 << 20);
        input.advance(1 << 20);
        assert_eq!(input.line(), "1.00 MiB of 3.00 MiB read");
        let endless = Progress::new(Mode::Lines, None, labels);
        endless.ended(true);
        assert_eq!(endless.line(), "1 requests ended");
    }
}
