//! Makes one log of the logs of all shards of a run: which belong together, on which time line, and
//! in which order. Knows no verdict and no rendering.
//!
//! Nothing is lost and nothing is made up: every line of a request and of a verdict is carried
//! over, texts and the server's own counts among it. A shard's instants are moved by one number,
//! the time from the begin of the merged run to its own; where all began at one instant, by
//! nothing. Requests are in the order of the plan.

use std::collections::{BTreeMap, HashMap};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{self, HeaderLine, JudgedLine, Line, Numbers, ReadLine, ReadShared, RequestLine};
use super::read::{Lines, Seeker, changed};
use super::write::Sink;
use super::{Footer, Keep, RunLog, Source, VERSION};
use crate::metrics::client::ClientCost;
use crate::metrics::spec_decode::SpecDecode;
use crate::record::{MergedShard, RunRecord, ShardEnd};
use sobench_core::case::Prompt;
use sobench_core::constraint::sha256_hex;
use sobench_core::error::{Error, Result};
use sobench_core::observation::Timing;
use sobench_core::shard::{Shard, each_once, same_terms};
use sobench_notices::notice::{LogNotice, Notice};

/// The logs of all shards of one run, in their order.
#[derive(Debug)]
pub struct Shards {
    logs: Vec<RunLog>,
    /// When each began, in nanoseconds from the first begin of all.
    begins_ns: Vec<u64>,
}

/// One log, as its lines are carried over.
struct Moving {
    lines: Seeker,
    begin_ns: u64,
    /// Where what requests share is, by the numbers of this log; and its number in the merged log,
    /// once it was carried over.
    shared: HashMap<(Kind, u32), u64>,
    numbers: HashMap<(Kind, u32), u32>,
    /// Where the verdicts are, by request.
    verdicts: HashMap<usize, u64>,
}

/// What requests share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Constraint,
    Prompt,
    Oracle,
}

/// What was carried over already, by its digest, with its number in the merged log.
#[derive(Default)]
struct Known {
    numbers: HashMap<(Kind, String), u32>,
    counts: HashMap<Kind, u32>,
}

/// What several requests have in common, as it stands in a log.
#[derive(Serialize, Deserialize)]
struct RawShared {
    number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    is: Box<RawValue>,
}

/// A line that others refer to: of one member.
type SharedLine = HashMap<Kind, RawShared>;

/// What a line is, without what is in it.
#[derive(Deserialize)]
struct Sort {
    constraint: Option<ReadShared<IgnoredAny>>,
    prompt: Option<ReadShared<IgnoredAny>>,
    oracle: Option<ReadShared<IgnoredAny>>,
    judged: Option<OnlyIndex>,
}

#[derive(Deserialize)]
struct OnlyIndex {
    index: usize,
}

impl Shards {
    /// Reads the logs of all shards of a run, in any order.
    ///
    /// # Errors
    /// Usage, by name: one is no log of a shard, is of another plan, is there twice or is missing;
    /// a request is in a log that it does not belong to, or in none.
    pub fn read(sources: impl IntoIterator<Item = Source>) -> Result<Self> {
        let logs = sources
            .into_iter()
            .map(|source| RunLog::from_source(source, Keep::WithoutTexts));
        Self::of(logs.collect::<Result<_>>()?)
    }

    fn of(mut logs: Vec<RunLog>) -> Result<Self> {
        logs.iter().try_for_each(of_a_shard)?;
        logs.sort_by_key(|log| log.record.part().number);
        if logs.is_empty() {
            return Err(Error::usage("no logs to merge").hint("name the log of every shard"));
        }
        let terms: Vec<_> = logs
            .iter()
            .map(|log| (log.record.plan_terms(), log.source().name()))
            .collect();
        same_terms("the logs are of different plans", "run", &terms)?;
        let named: Vec<(Shard, String)> = logs
            .iter()
            .map(|log| (log.record.part(), log.source().name()))
            .collect();
        each_once(&named)?;
        logs.iter().try_for_each(own_requests)?;
        let first = logs
            .iter()
            .map(|log| log.record.begun_ns())
            .min()
            .unwrap_or_default();
        let since = |log: &RunLog| u64::try_from(log.record.begun_ns() - first).unwrap_or(u64::MAX);
        Ok(Self {
            begins_ns: logs.iter().map(since).collect(),
            logs,
        })
    }

    /// The logs, in the order of their shards, to be judged where one is not.
    pub fn logs_mut(&mut self) -> &mut [RunLog] {
        &mut self.logs
    }

    /// The logs, in the order of their shards.
    pub fn logs(&self) -> &[RunLog] {
        &self.logs
    }

    /// Writes the merged log. `spell` spells an instant in nanoseconds since 1970 in ISO 8601.
    ///
    /// # Errors
    /// The file cannot be written, or a log cannot be read again; a log has no verdict on a
    /// request.
    pub fn write(&self, sink: &mut Sink, spell: impl Fn(u64) -> String) -> Result<()> {
        let record = self.record(spell);
        sink.push(&Line::Header(HeaderLine {
            version: VERSION,
            record: &record,
        }));
        let mut moving = self
            .logs
            .iter()
            .zip(&self.begins_ns)
            .map(Moving::of)
            .collect::<Result<Vec<_>>>()?;
        let mut known = Known::default();
        let order = self.in_plan_order();
        for &(shard, place) in &order {
            let offset = self.logs[shard]
                .requests
                .get(place)
                .map_or(0, |request| request.offset());
            moving[shard].request(offset, &mut known, sink)?;
            sink.flush_some().map_or(Ok(()), Err)?;
        }
        for &(shard, place) in &order {
            moving[shard].verdict(&self.logs[shard], place, sink)?;
            sink.flush_some().map_or(Ok(()), Err)?;
        }
        sink.push(&Line::Footer(&self.footer()));
        sink.flush().map_or(Ok(()), Err)
    }

    /// Every request: its log, and its place there.
    fn in_plan_order(&self) -> Vec<(usize, usize)> {
        let of_log = |(shard, log): (usize, &RunLog)| {
            let indices: Vec<usize> = log
                .requests
                .iter()
                .map(|request| request.case_index())
                .collect();
            indices
                .into_iter()
                .enumerate()
                .map(move |(place, index)| (index, (shard, place)))
        };
        let all: BTreeMap<usize, (usize, usize)> =
            self.logs.iter().enumerate().flat_map(of_log).collect();
        all.into_values().collect()
    }

    fn record(&self, spell: impl Fn(u64) -> String) -> RunRecord {
        let records = || self.logs.iter().map(|log| &log.record);
        let begun_ns = records().map(RunRecord::begun_ns).min().unwrap_or_default();
        let started_unix_ns = u64::try_from(begun_ns).unwrap_or_default();
        let mut known_constraints: Vec<String> = records()
            .flat_map(|record| record.known_constraints.clone())
            .collect();
        known_constraints.sort_unstable();
        known_constraints.dedup();
        let mut merged_record = RunRecord {
            started: spell(started_unix_ns),
            started_unix_ns,
            shard: None,
            merged: self
                .logs
                .iter()
                .zip(&self.begins_ns)
                .map(|(log, begin_ns)| merged(log, *begin_ns))
                .collect(),
            known_constraints,
            trial_requests: records().map(|record| record.trial_requests).sum(),
            warmup_requests: records().map(|record| record.warmup_requests).sum(),
            notices: self.said(|log| log.record.notices.clone(), of_shard),
            ..self.logs[0].record.clone()
        };
        merged_record.enforcement.requests =
            records().map(|record| record.enforcement.requests).sum();
        merged_record
    }

    fn footer(&self) -> Footer {
        let ends: Vec<&Footer> = self
            .logs
            .iter()
            .filter_map(|log| log.footer.as_ref())
            .collect();
        let given_up = self.said(
            |log| {
                log.footer
                    .as_ref()
                    .and_then(|footer| footer.broken_off.clone())
                    .into_iter()
                    .collect()
            },
            |shard, why| format!("shard {shard}: {why}"),
        );
        Footer {
            requests: self.logs.iter().map(|log| log.requests.len()).sum(),
            duration_ns: self
                .logs
                .iter()
                .zip(&self.begins_ns)
                .map(|(log, begin)| begin + log.duration_ns())
                .max()
                .unwrap_or(0),
            cost: cost_of_all(&ends.iter().map(|footer| footer.cost).collect::<Vec<_>>()),
            // Shard 1 alone sends them.
            probe: ends.iter().find_map(|footer| footer.probe.clone()),
            spec_decode: self.whole_spec_decode(),
            engine: self
                .logs
                .iter()
                .find_map(|log| log.footer.as_ref()?.engine.clone()),
            interrupted: ends.iter().any(|footer| footer.interrupted),
            broken_off: (!given_up.is_empty()).then(|| given_up.join("; ")),
            notices: self.said(
                |log| {
                    log.footer
                        .as_ref()
                        .map(|footer| footer.notices.clone())
                        .unwrap_or_default()
                },
                of_shard,
            ),
            clock: None,
        }
    }

    /// The server's counters are those of all clients, so that they do not add up: those of the
    /// shard that ended last are of the whole, where all began at one instant.
    fn whole_spec_decode(&self) -> Option<SpecDecode> {
        let is_common = self.begins_ns.iter().all(|begin| *begin == 0)
            && self.logs.iter().all(|log| log.footer.is_some());
        let last = self
            .logs
            .iter()
            .max_by_key(|log| log.duration_ns())
            .filter(|_| is_common)?;
        last.footer.as_ref()?.spec_decode.clone()
    }

    /// What the logs say: once where all say it, else with the shard that does.
    fn said<T: Clone + PartialEq>(
        &self,
        of: impl Fn(&RunLog) -> Vec<T>,
        of_shard: impl Fn(usize, T) -> T,
    ) -> Vec<T> {
        let all: Vec<Vec<T>> = self.logs.iter().map(of).collect();
        let mut said: Vec<T> = Vec::new();
        for (place, items) in all.iter().enumerate() {
            for item in items {
                let is_common = all.iter().all(|others| others.contains(item));
                let item = if is_common {
                    item.clone()
                } else {
                    of_shard(place + 1, item.clone())
                };
                if !said.contains(&item) {
                    said.push(item);
                }
            }
        }
        said
    }
}

fn of_shard(shard: usize, notice: Notice) -> Notice {
    LogNotice::Shard {
        shard,
        notice: Box::new(notice),
    }
    .into()
}

/// Refuses what is no shard's log as the shard wrote it.
fn of_a_shard(log: &RunLog) -> Result<()> {
    let name = log.source().name();
    if !log.record.merged.is_empty() {
        return Err(
            Error::usage(format!("this log was merged from shards already: {name}"))
                .hint("name the logs of the shards alone; sobench report reads a merged log"),
        );
    }
    let shard = log.record.shard.as_ref().ok_or_else(|| {
        Error::usage(format!(
            "not the log of a shard, for its run was the whole: {name}"
        ))
        .hint("sobench report reads it; shards are the runs with --shard I/N")
    })?;
    if log.record.plan_sha256() != shard.plan_sha256 {
        return Err(tampered(format!(
            "the header of shard {} does not fit the digest of its own plan: {name}",
            shard.part()
        )));
    }
    Ok(())
}

/// Refuses a log that no run wrote so.
fn tampered(what: String) -> Error {
    Error::usage(what).hint("the file was changed; a run log is only ever added to")
}

/// Refuses a log with requests of other shards, and one that ended without all of its own.
fn own_requests(log: &RunLog) -> Result<()> {
    let (part, whole, name) = (
        log.record.part(),
        log.record.dataset.requests,
        log.source().name(),
    );
    let foreign = log
        .requests
        .iter()
        .find(|request| !part.takes(request.case_index()) || request.case_index() >= whole);
    if let Some(request) = foreign {
        let (id, index) = (request.id(), request.case_index());
        let owner = (1..=part.of).find(|number| index < whole && index % part.of == number - 1);
        let owner = owner.map_or_else(
            || "no shard".to_owned(),
            |number| format!("shard {number}/{}", part.of),
        );
        let place = format!("is in the log of shard {part}, and belongs to {owner}: {name}");
        return Err(tampered(format!("request {id} (index {index}) {place}")));
    }
    if log.footer.is_none() {
        return Ok(());
    }
    let planned = || (0..part.share(whole)).map(|place| part.number - 1 + place * part.of);
    let found = log.requests.iter().map(|request| request.case_index());
    let passed_over = planned()
        .zip(found)
        .find(|(index, found)| index != found)
        .map(|(index, _)| index);
    // Of a run that a time ends, nobody knows here how far it came.
    let left_out = || {
        planned()
            .nth(log.requests.len())
            .filter(|_| log.record.settings.load.until.time().is_none())
    };
    passed_over.or_else(left_out).map_or(Ok(()), |index| {
        Err(tampered(format!(
            "shard {part} ended, and the request of index {index} is not in its log: {name}"
        )))
    })
}

fn merged(log: &RunLog, begin_ns: u64) -> MergedShard {
    let (record, footer) = (&log.record, log.footer.as_ref());
    let shard = record.shard.as_ref();
    MergedShard {
        number: record.part().number,
        requests: log.requests.len(),
        base_url: record.server.base_url.clone(),
        host: record.host.clone(),
        started_unix_ns: record.started_unix_ns,
        begin_ns,
        start: shard.map(|shard| shard.start).unwrap_or_default(),
        clock_before: shard.and_then(|shard| shard.clock),
        clock_after: footer.and_then(|footer| footer.clock),
        end: footer.map(|footer| ShardEnd {
            duration_ns: footer.duration_ns,
            cost: footer.cost,
            interrupted: footer.interrupted,
            broken_off: footer.broken_off.clone(),
        }),
    }
}

/// What all shards took together, each on its machine: sums, and of times and shares the greatest.
/// What one does not know is not known of all.
fn cost_of_all(costs: &[ClientCost]) -> ClientCost {
    fn sum<T: std::iter::Sum>(
        costs: &[ClientCost],
        of: impl Fn(&ClientCost) -> Option<T>,
    ) -> Option<T> {
        costs.iter().map(of).sum()
    }
    ClientCost {
        wall_s: costs.iter().map(|cost| cost.wall_s).fold(0.0, f64::max),
        cpu_s: sum(costs, |cost| cost.cpu_s),
        cores: sum(costs, |cost| cost.cores),
        threads: sum(costs, |cost| cost.threads),
        machine_busy_percent: costs
            .iter()
            .filter_map(|cost| cost.machine_busy_percent)
            .reduce(f64::max),
        peak_memory_mib: sum(costs, |cost| cost.peak_memory_mib),
        connections_opened: sum(costs, |cost| cost.connections_opened),
        connections_waited_for: sum(costs, |cost| cost.connections_waited_for),
        other_runs: 0,
        includes_server: false,
    }
}

impl Moving {
    fn of((log, begin_ns): (&RunLog, &u64)) -> Result<Self> {
        let source = log.source();
        let mut moving = Self {
            lines: Seeker::new(source),
            begin_ns: *begin_ns,
            shared: HashMap::new(),
            numbers: HashMap::new(),
            verdicts: HashMap::new(),
        };
        let mut lines = Lines::open(source)?;
        while let Some(line) = lines.next()? {
            let sort: Sort = serde_json::from_slice(line.bytes).map_err(|_| changed(source))?;
            let shared = [
                (Kind::Constraint, sort.constraint),
                (Kind::Prompt, sort.prompt),
                (Kind::Oracle, sort.oracle),
            ];
            let found = shared
                .into_iter()
                .filter_map(|(kind, it)| Some(((kind, it?.number), line.offset)));
            moving.shared.extend(found);
            moving
                .verdicts
                .extend(sort.judged.map(|it| (it.index, line.offset)));
        }
        Ok(moving)
    }

    /// Carries a request over, behind what it shares with others where that is new.
    fn request(&mut self, offset: u64, known: &mut Known, sink: &mut Sink) -> Result<()> {
        let line = self.lines.line(offset)?;
        let Ok(ReadLine::Request(read)) = serde_json::from_slice(line.trim_ascii_end()) else {
            return Err(self.changed());
        };
        let Numbers {
            prompt,
            constraint,
            oracle,
        } = read.numbers;
        let numbers = Numbers {
            prompt: self.number(Kind::Prompt, prompt, known, sink)?,
            constraint: constraint
                .map(|number| self.number(Kind::Constraint, number, known, sink))
                .transpose()?,
            oracle: oracle
                .map(|number| self.number(Kind::Oracle, number, known, sink))
                .transpose()?,
        };
        // The prompt itself has a line of its own.
        let nothing = Prompt::Text(String::new().into());
        let (case, mut observation) = read.into_parts(nothing).map_err(|_| self.changed())?;
        later(&mut observation.timing, self.begin_ns);
        sink.push(&Line::Request(Box::new(RequestLine::of(
            &case,
            &case.id,
            numbers,
            &observation,
        ))));
        Ok(())
    }

    /// The number in the merged log of what has this number here. What is the same in several logs,
    /// to the byte, is there once.
    fn number(
        &mut self,
        kind: Kind,
        number: u32,
        known: &mut Known,
        sink: &mut Sink,
    ) -> Result<u32> {
        if let Some(number) = self.numbers.get(&(kind, number)) {
            return Ok(*number);
        }
        let offset = *self
            .shared
            .get(&(kind, number))
            .ok_or_else(|| self.changed())?;
        let line: SharedLine =
            serde_json::from_slice(self.lines.line(offset)?).map_err(|_| self.changed())?;
        let shared = line.into_values().next().ok_or_else(|| self.changed())?;
        let (merged, is_new) = known.number(kind, sha256_hex(shared.is.get().as_bytes()));
        self.numbers.insert((kind, number), merged);
        if is_new {
            let line = SharedLine::from([(
                kind,
                RawShared {
                    number: merged,
                    ..shared
                },
            )]);
            sink.push_bytes(line::bytes(&line));
        }
        Ok(merged)
    }

    /// Carries a verdict over: as it stands in the log, or as it was found just now of a shard that
    /// was killed first.
    fn verdict(&mut self, log: &RunLog, place: usize, sink: &mut Sink) -> Result<()> {
        let request = log.requests.get(place).ok_or_else(|| self.changed())?;
        let index = request.case_index();
        match self.verdicts.get(&index).filter(|_| log.footer.is_some()) {
            Some(offset) => sink.push_bytes(self.lines.line(*offset)?.to_vec()),
            None if request.is_judged() => sink.push(&Line::Judged(JudgedLine {
                index,
                judged: &request.judged(),
            })),
            None => {
                return Err(Error::internal(format!(
                    "a request without a verdict in a log to be merged: {index}"
                )));
            }
        }
        Ok(())
    }

    fn changed(&self) -> Error {
        changed(self.lines.source())
    }
}

impl Known {
    /// Its number, and whether it is new.
    fn number(&mut self, kind: Kind, sha256: String) -> (u32, bool) {
        let next = self.counts.entry(kind).or_default();
        let number = *self.numbers.entry((kind, sha256)).or_insert(*next);
        let is_new = number == *next;
        *next += u32::from(is_new);
        (number, is_new)
    }
}

/// Every instant, so much later.
fn later(timing: &mut Timing, by_ns: u64) {
    let Timing {
        due_ns,
        ready_ns,
        sent_ns,
        headers_ns,
        chunks_ns,
        first_reasoning_ns,
        first_answer_ns,
        end_ns,
        ..
    } = timing;
    let known = [
        ready_ns,
        sent_ns,
        headers_ns,
        first_reasoning_ns,
        first_answer_ns,
        end_ns,
    ]
    .into_iter()
    .flatten();
    for instant in known.chain(chunks_ns).chain([due_ns]) {
        *instant = instant.saturating_add(by_ns);
    }
}

#[cfg(test)]
mod tests;
