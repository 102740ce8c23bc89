//! Judges the rows of a file in several threads, a batch of rows at a time.

use std::io::Write;
use std::ops::Range;
use std::path::Path;
use std::vec;

use super::read::{self, Line};
use super::report::verdict_line;
use super::row_reader::RowReader;
use super::tally::{ConstraintHashes, FirstOfGroups, JudgedAnswer, Tally};
use super::{LoggedRows, Row, Rows, UnreadableRow, accuracy};
use crate::commands::large_output::cannot_store;
use crate::terminal::{InputProgress, InputUnit, Mode};
use sobench_core::answer::Channel;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;
use sobench_core::input::{LineBatch, LineBatches};
use sobench_core::ordered_work::{in_order, threads};
use sobench_judge::{Evaluator, JudgeSettings};

/// Answers of one batch, of files that are not read line by line.
const BATCH_ANSWERS: usize = 64;

/// Bytes of a file, and answers, for which one more thread is started.
const BYTES_PER_THREAD: u64 = 1 << 20;
const ANSWERS_PER_THREAD: usize = 1000;

/// What the rows of a file have in common.
pub(super) struct Judging<'a> {
    /// The name of the file in messages.
    pub(super) name: &'a str,
    pub(super) evaluate: JudgeSettings,
    /// The channel that the requests asked for the answers in.
    pub(super) channel: Option<Channel>,
    /// Whether a line is written for each row.
    pub(super) with_lines: bool,
    /// Whether the lines name the file.
    pub(super) file_in_lines: bool,
}

/// The result for all rows.
pub(super) enum Outcome {
    /// The answers, and objects with repeated keys in the lines.
    Judged(Box<Tally>, DuplicateKeys),
    /// A line is a result of another tool; the file has to be read as a whole.
    HasResults,
}

/// Rows of one batch.
enum Batch<'a> {
    Lines(LineBatch),
    /// Requests of a run log.
    Requests(&'a LoggedRows, Range<usize>),
    Rows(Vec<Row>),
}

/// The rows of a file, in batches.
enum Batches<'a> {
    Lines(LineBatches),
    RunLog { rows: &'a LoggedRows, next: usize },
    Memory(vec::IntoIter<Row>),
}

/// The rows of a batch after judging.
#[derive(Default)]
struct JudgedBatch {
    answers: Vec<JudgedAnswer>,
    unreadable: Vec<UnreadableRow>,
    repeated: DuplicateKeys,
    lines: String,
    /// Bytes or answers of the input.
    size: u64,
}

/// Why judging has to start again.
#[derive(Clone, Copy)]
enum Restart {
    /// The requests have marks, so that all constraints have to be known before the first verdict.
    Marks,
    HasResults,
}

/// The state of one thread.
struct Worker<'a> {
    judging: &'a Judging<'a>,
    path: &'a Path,
    evaluator: Evaluator,
    /// Whether `evaluator` has the marks of all requests.
    has_all_marks: bool,
    reader: RowReader,
    hashes: ConstraintHashes,
}

impl Judging<'_> {
    /// Judges all rows. `lines` receives the line of each row, in file order.
    ///
    /// # Errors
    /// The file cannot be read, or a line cannot be written.
    pub(super) fn judge(&self, rows: Rows, lines: &mut (dyn Write + Send)) -> Result<Outcome> {
        let mut evaluator = Evaluator::new(self.evaluate);
        match rows {
            Rows::Lines(path) => match self.judge_lines(&path, &evaluator, false, lines)? {
                Ok(judged) => Ok(judged),
                Err(Restart::HasResults) => Ok(Outcome::HasResults),
                Err(Restart::Marks) => {
                    add_requests_of_lines(&path, &mut evaluator)?;
                    let judged = self.judge_lines(&path, &evaluator, true, lines)?;
                    Ok(judged.unwrap_or(Outcome::HasResults))
                }
            },
            Rows::RunLog(rows) => {
                for constraint in rows.requests.constraints() {
                    evaluator.add_request(constraint);
                }
                let answers = rows.requests.len();
                let batches = Batches::RunLog {
                    rows: &rows,
                    next: 0,
                };
                let worker = self.worker(&evaluator, Path::new(""), true);
                self.judge_memory(batches, answers, &worker, lines)
            }
            Rows::Memory(rows) => {
                for row in &rows {
                    if let Row::Answer(stored) = row
                        && let Some(constraint) = &stored.case.constraint
                    {
                        evaluator.add_request(constraint);
                    }
                }
                let answers = rows.len();
                let batches = Batches::Memory(rows.into_iter());
                let worker = self.worker(&evaluator, Path::new(""), true);
                self.judge_memory(batches, answers, &worker, lines)
            }
        }
    }

    fn worker<'a>(
        &'a self,
        evaluator: &Evaluator,
        path: &'a Path,
        has_all_marks: bool,
    ) -> Worker<'a> {
        Worker {
            judging: self,
            path,
            evaluator: evaluator.for_another_thread(),
            has_all_marks,
            reader: RowReader::default(),
            hashes: ConstraintHashes::default(),
        }
    }

    fn judge_memory(
        &self,
        batches: Batches<'_>,
        answers: usize,
        worker: &Worker<'_>,
        lines: &mut (dyn Write + Send),
    ) -> Result<Outcome> {
        let threads = threads(answers / ANSWERS_PER_THREAD);
        let progress = InputProgress::new(Mode::detect(true), answers as u64, InputUnit::Answers);
        let judged = run(threads, batches, answers, worker, &progress, lines)?;
        Ok(judged.unwrap_or(Outcome::HasResults))
    }

    fn judge_lines(
        &self,
        path: &Path,
        evaluator: &Evaluator,
        has_all_marks: bool,
        lines: &mut (dyn Write + Send),
    ) -> Result<std::result::Result<Outcome, Restart>> {
        let batches = LineBatches::open(path)?;
        let bytes = batches.file_len();
        let threads = threads(usize::try_from(bytes / BYTES_PER_THREAD).unwrap_or(usize::MAX));
        let progress = InputProgress::new(Mode::detect(true), bytes, InputUnit::Bytes);
        let worker = self.worker(evaluator, path, has_all_marks);
        run(
            threads,
            Batches::Lines(batches),
            0,
            &worker,
            &progress,
            lines,
        )
    }
}

/// Adds the constraints of all rows of a file.
fn add_requests_of_lines(path: &Path, evaluator: &mut Evaluator) -> Result<()> {
    let mut batches = LineBatches::open(path)?;
    while let Some(batch) = batches.next_batch()? {
        for (number, line) in batch.lines(path)? {
            if let Line::Row(Row::Answer(stored)) = read::line(line, format!("line {number}"))
                && let Some(constraint) = &stored.case.constraint
            {
                evaluator.add_request(constraint);
            }
        }
    }
    Ok(())
}

fn run(
    threads: usize,
    mut batches: Batches<'_>,
    answers: usize,
    worker: &Worker<'_>,
    progress: &InputProgress,
    lines: &mut (dyn Write + Send),
) -> Result<std::result::Result<Outcome, Restart>> {
    let mut tally = Box::new(Tally::new(answers));
    let mut repeated = DuplicateKeys::default();
    let mut restart = None;
    let done = in_order(
        threads,
        || batches.next_batch(),
        || worker.for_another_thread(),
        Worker::judge_batch,
        |batch| {
            let batch = match batch {
                Ok(batch) => batch,
                Err(why) => {
                    restart = Some(why);
                    return Err(Error::internal("judging starts again"));
                }
            };
            batch
                .answers
                .into_iter()
                .for_each(|answer| tally.add(answer));
            tally.unreadable.extend(batch.unreadable);
            repeated.add(batch.repeated);
            progress.advance(batch.size);
            lines
                .write_all(batch.lines.as_bytes())
                .map_err(|error| cannot_store(&error))
        },
    );
    match restart {
        Some(why) => Ok(Err(why)),
        None => done.map(|()| Ok(Outcome::Judged(tally, repeated))),
    }
}

impl<'a> Batches<'a> {
    fn next_batch(&mut self) -> Result<Option<Batch<'a>>> {
        match self {
            Self::Lines(batches) => Ok(batches.next_batch()?.map(Batch::Lines)),
            Self::RunLog { rows, next } => {
                let range = *next..(*next + BATCH_ANSWERS).min(rows.requests.len());
                *next = range.end;
                Ok((!range.is_empty()).then_some(Batch::Requests(rows, range)))
            }
            Self::Memory(rows) => {
                let batch: Vec<Row> = rows.take(BATCH_ANSWERS).collect();
                Ok((!batch.is_empty()).then_some(Batch::Rows(batch)))
            }
        }
    }
}

impl Worker<'_> {
    fn for_another_thread(&self) -> Self {
        let Self {
            judging,
            path,
            has_all_marks,
            ..
        } = *self;
        Self {
            judging,
            path,
            has_all_marks,
            evaluator: self.evaluator.for_another_thread(),
            reader: RowReader::default(),
            hashes: ConstraintHashes::default(),
        }
    }

    fn judge_batch(
        &mut self,
        batch: Batch<'_>,
    ) -> Result<std::result::Result<JudgedBatch, Restart>> {
        let mut judged = JudgedBatch::default();
        let mut first = FirstOfGroups::default();
        match batch {
            Batch::Lines(batch) => {
                judged.size = batch.len() as u64;
                for (number, line) in batch.lines(self.path)? {
                    let Some(row) = self.read_line(number, line, &mut judged.repeated) else {
                        return Ok(Err(Restart::HasResults));
                    };
                    if !self.has_all_marks && self.evaluator.has_marks() {
                        return Ok(Err(Restart::Marks));
                    }
                    self.judge_row(row, &mut first, &mut judged);
                }
            }
            Batch::Requests(rows, range) => {
                judged.size = range.len() as u64;
                let claimed = &rows.claimed[range.clone()];
                let requests = rows.requests.reader().read(range)?;
                for ((case, observation), claimed) in requests.into_iter().zip(claimed) {
                    let row = read::logged_row(case, observation, *claimed);
                    self.judge_row(row, &mut first, &mut judged);
                }
            }
            Batch::Rows(rows) => {
                judged.size = rows.len() as u64;
                for row in rows {
                    self.judge_row(row, &mut first, &mut judged);
                }
            }
        }
        Ok(Ok(judged))
    }

    /// Reads a row; `None` if the line is a result of another tool.
    fn read_line(
        &mut self,
        number: usize,
        line: &str,
        repeated: &mut DuplicateKeys,
    ) -> Option<Row> {
        let place = format!("line {number}");
        // Lines of verdicts repeat the members of their rows.
        if !self.judging.with_lines
            && let Some(stored) = self.reader.read(line, &place)
        {
            return Some(Row::Answer(Box::new(stored)));
        }
        repeated.scan(line, |_| format!("{}, {place}", self.judging.name));
        let Line::Row(mut row) = read::line(line, place) else {
            return None;
        };
        if let Row::Answer(stored) = &mut row {
            if let Some(constraint) = &stored.case.constraint {
                self.evaluator.add_request(constraint);
            }
            self.reader.add(line, stored);
        }
        Some(row)
    }

    fn judge_row(&mut self, row: Row, first: &mut FirstOfGroups, batch: &mut JudgedBatch) {
        let row = accuracy::with_valid_reference(row, &mut self.evaluator);
        let judged = match &row {
            Row::Unreadable(_) => None,
            Row::Answer(stored) => Some(stored.judge(&mut self.evaluator, self.judging.channel)),
        };
        if self.judging.with_lines {
            let file = self.judging.file_in_lines.then_some(self.judging.name);
            let line = verdict_line(&row, judged.as_ref(), file);
            batch.lines.push_str(&line);
        }
        match (row, judged) {
            (Row::Answer(stored), Some(judged)) => {
                let answer = JudgedAnswer::new(*stored, judged, first, &mut self.hashes);
                batch.answers.push(answer);
            }
            (Row::Unreadable(row), _) => batch.unreadable.push(UnreadableRow {
                members: serde_json::Map::new(),
                ..row
            }),
            (Row::Answer(_), None) => {}
        }
    }
}
