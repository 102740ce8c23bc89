//! Merges the logs of all shards of a run into one log.
//!
//! Every line of a request and of a verdict is copied, including texts and server token counts. The
//! times of a shard are shifted by the time from the start of the merged run to the start of the
//! shard, which is zero for a common start. Requests are in plan order.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::line::{self, HeaderLine, JudgedLine, Line, Numbers, ReadLine, ReadShared, RequestLine};
use super::read::{LineReader, Lines, changed};
use super::write::Sink;
use super::{Footer, RunLog, Source, VERSION};
use crate::spec_decode::SpecDecode;
use sobench_core::case::Prompt;
use sobench_core::constraint::sha256_hex;
use sobench_core::error::{Error, Result};
use sobench_core::observation::Timing;
use sobench_core::server_sample::ServerSample;
use sobench_core::shard::{Shard, Start, check_all_present, check_same_settings, missing_shards};
use sobench_notices::notice::{LogNotice, Notice};
use sobench_plan::record::ClientCost;
use sobench_plan::record::{Host, MergedShard, RunRecord, ShardEnd};

/// The logs of all shards of one run, in shard order.
#[derive(Debug)]
pub struct Shards {
    logs: Vec<RunLog>,
    /// Start of each shard, in nanoseconds from the first start.
    starts_ns: Vec<u64>,
    /// Shards without a log.
    missing: Vec<usize>,
}

/// The state of copying one log.
struct ShardCopy {
    lines: LineReader,
    start_ns: u64,
    /// Offsets of shared parts, by their numbers in this log.
    shared: HashMap<(SharedKind, u32), u64>,
    /// Numbers in the merged log of the parts that were copied.
    numbers: HashMap<(SharedKind, u32), u32>,
    /// Offsets of verdicts, by request.
    verdicts: HashMap<usize, u64>,
}

/// The kind of a part that requests share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SharedKind {
    Constraint,
    Prompt,
    Oracle,
}

/// Shared parts in the merged log: their numbers by digest.
#[derive(Default)]
struct SharedNumbers {
    numbers: HashMap<(SharedKind, String), u32>,
    counts: HashMap<SharedKind, u32>,
}

/// A shared part as it is in a log.
#[derive(JsonSchema, Serialize, Deserialize)]
struct RawShared {
    number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    is: Box<RawValue>,
}

/// A line of a shared part, with one member.
type SharedLine = HashMap<SharedKind, RawShared>;

/// The type of a line, without its content.
#[derive(Deserialize)]
struct LineType {
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
    /// Reads the logs of all shards of a run, in any order. With `allow_missing`, logs may be
    /// missing, but not all of them.
    ///
    /// # Errors
    /// Usage errors: a log is not from a shard, has another plan, is a duplicate or is missing; a
    /// request is in the wrong log, or missing.
    pub fn read(sources: impl IntoIterator<Item = Source>, allow_missing: bool) -> Result<Self> {
        let logs = sources
            .into_iter()
            .map(|source| RunLog::from_source(source, &()));
        Self::from_logs(logs.collect::<Result<_>>()?, allow_missing)
    }

    fn from_logs(mut logs: Vec<RunLog>, allow_missing: bool) -> Result<Self> {
        logs.iter().try_for_each(check_is_shard)?;
        logs.sort_by_key(|log| log.record.part().number);
        if logs.is_empty() {
            return Err(Error::usage("no logs to merge").hint("give the log of every shard"));
        }
        check_same_plan(&logs)?;
        let named: Vec<(Shard, String)> = logs
            .iter()
            .map(|log| (log.record.part(), log.source().name()))
            .collect();
        if !allow_missing {
            check_all_present(
                &named,
                "give the log of each shard, also of a killed one, or add --allow-missing for a partial report",
            )?;
        }
        let missing = missing_shards(&named)?;
        logs.iter().try_for_each(check_requests)?;
        let first = logs
            .iter()
            .map(|log| log.record.start_on_shard1_clock_ns())
            .min()
            .unwrap_or_default();
        let since = |log: &RunLog| {
            u64::try_from(log.record.start_on_shard1_clock_ns() - first).unwrap_or(u64::MAX)
        };
        Ok(Self {
            starts_ns: logs.iter().map(since).collect(),
            logs,
            missing,
        })
    }

    /// The logs in shard order, for judging logs of killed shards.
    pub fn logs_mut(&mut self) -> &mut [RunLog] {
        &mut self.logs
    }

    /// The logs in shard order.
    pub fn logs(&self) -> &[RunLog] {
        &self.logs
    }

    /// Writes the merged log. `format_time` formats nanoseconds since 1970 in ISO 8601.
    ///
    /// # Errors
    /// The file cannot be written, a log cannot be read, or a request has no verdict.
    pub fn write(&self, sink: &mut Sink, format_time: impl Fn(u64) -> String) -> Result<()> {
        let record = self.record(format_time);
        sink.push(&Line::Header(HeaderLine {
            version: VERSION,
            record: &record,
        }));
        let mut copies = self
            .logs
            .iter()
            .zip(&self.starts_ns)
            .map(ShardCopy::new)
            .collect::<Result<Vec<_>>>()?;
        let mut known = SharedNumbers::default();
        let order = self.in_plan_order();
        for &(shard, index) in &order {
            let offset = self.logs[shard]
                .requests
                .get(index)
                .map_or(0, |request| request.offset());
            copies[shard].request(offset, &mut known, sink)?;
            sink.flush_if_full().map_or(Ok(()), Err)?;
        }
        for sample in self.server_samples() {
            sink.push(&Line::ServerMetrics(&sample));
            sink.flush_if_full().map_or(Ok(()), Err)?;
        }
        for &(shard, index) in &order {
            copies[shard].verdict(&self.logs[shard], index, sink)?;
            sink.flush_if_full().map_or(Ok(()), Err)?;
        }
        sink.push(&Line::Footer(&self.footer()));
        sink.flush().map_or(Ok(()), Err)
    }

    /// The readings of the server's page of the shard with the most of them, since each shard reads
    /// the same page. None if the shards have several servers: their counters and gauges are of
    /// different requests.
    fn server_samples(&self) -> Vec<ServerSample> {
        let address = |log: &RunLog| log.record.server.base_url.clone();
        let is_one_server = self
            .logs
            .windows(2)
            .all(|pair| address(&pair[0]) == address(&pair[1]));
        let logs = self.logs.iter().zip(&self.starts_ns);
        let Some((log, start_ns)) = logs
            .filter(|_| is_one_server)
            .max_by_key(|(log, _)| log.server.len())
        else {
            return Vec::new();
        };
        let start_ns = i64::try_from(*start_ns).unwrap_or(i64::MAX);
        let shifted = |sample: &ServerSample| ServerSample {
            offset_ns: sample.offset_ns.saturating_add(start_ns),
            ..sample.clone()
        };
        log.server.iter().map(shifted).collect()
    }

    /// Every request as the index of its log and its index in the log.
    fn in_plan_order(&self) -> Vec<(usize, usize)> {
        let requests_of = |(shard, log): (usize, &RunLog)| {
            let indices: Vec<usize> = log
                .requests
                .iter()
                .map(|request| request.case_index())
                .collect();
            indices
                .into_iter()
                .enumerate()
                .map(move |(position, index)| (index, (shard, position)))
        };
        let all: BTreeMap<usize, (usize, usize)> =
            self.logs.iter().enumerate().flat_map(requests_of).collect();
        all.into_values().collect()
    }

    fn record(&self, format_time: impl Fn(u64) -> String) -> RunRecord {
        let records = || self.logs.iter().map(|log| &log.record);
        let start_ns = records()
            .map(RunRecord::start_on_shard1_clock_ns)
            .min()
            .unwrap_or_default();
        let started_unix_ns = u64::try_from(start_ns).unwrap_or_default();
        let mut known_constraints: Vec<String> = records()
            .flat_map(|record| record.known_constraints.clone())
            .collect();
        known_constraints.sort_unstable();
        known_constraints.dedup();
        let logs = self.logs.iter().zip(&self.starts_ns);
        let missing = self.missing.iter().map(|number| MergedShard {
            number: *number,
            requests: 0,
            base_url: self.logs[0].record.server.base_url.clone(),
            host: Host::default(),
            started_unix_ns: 0,
            begin_ns: 0,
            start: Start::default(),
            clock_before: None,
            clock_after: None,
            end: None,
            missing: true,
        });
        let mut merged: Vec<MergedShard> = logs
            .map(|(log, start_ns)| merged(log, *start_ns))
            .chain(missing)
            .collect();
        merged.sort_by_key(|shard| shard.number);
        let mut merged_record = RunRecord {
            started: format_time(started_unix_ns),
            started_unix_ns,
            shard: None,
            merged,
            known_constraints,
            trial_requests: records().map(|record| record.trial_requests).sum(),
            warmup_requests: records().map(|record| record.warmup_requests).sum(),
            notices: self.combined(|log| log.record.notices.clone(), shard_notice),
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
        let given_up = self.combined(
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
                .zip(&self.starts_ns)
                .map(|(log, start)| start + log.duration_ns())
                .max()
                .unwrap_or(0),
            cost: cost_of_all(&ends.iter().map(|footer| footer.cost).collect::<Vec<_>>()),
            // Only shard 1 sends single requests beside the load.
            probe: ends.iter().find_map(|footer| footer.probe.clone()),
            recovery: ends.iter().find_map(|footer| footer.recovery.clone()),
            spec_decode: self.whole_spec_decode(),
            engine: self
                .logs
                .iter()
                .find_map(|log| log.footer.as_ref()?.engine.clone()),
            interrupted: ends.iter().any(|footer| footer.interrupted),
            broken_off: (!given_up.is_empty()).then(|| given_up.join("; ")),
            early_breach: ends.iter().find_map(|footer| footer.early_breach.clone()),
            notices: self.combined(
                |log| {
                    log.footer
                        .as_ref()
                        .map(|footer| footer.notices.clone())
                        .unwrap_or_default()
                },
                shard_notice,
            ),
            clock: None,
        }
    }

    /// Speculative decoding counters cannot be added, because the server counts all clients. With a
    /// common start, the counters of the shard that ended last cover the whole run.
    fn whole_spec_decode(&self) -> Option<SpecDecode> {
        let is_common = self.missing.is_empty()
            && self.starts_ns.iter().all(|start| *start == 0)
            && self.logs.iter().all(|log| log.footer.is_some());
        let last = self
            .logs
            .iter()
            .max_by_key(|log| log.duration_ns())
            .filter(|_| is_common)?;
        last.footer.as_ref()?.spec_decode.clone()
    }

    /// Values of all logs: values common to all logs once, other values with their shard.
    fn combined<T: Clone + PartialEq>(
        &self,
        values: impl Fn(&RunLog) -> Vec<T>,
        with_shard: impl Fn(usize, T) -> T,
    ) -> Vec<T> {
        let all: Vec<Vec<T>> = self.logs.iter().map(values).collect();
        let mut combined: Vec<T> = Vec::new();
        for (index, items) in all.iter().enumerate() {
            for item in items {
                let is_common = all.iter().all(|others| others.contains(item));
                let item = if is_common {
                    item.clone()
                } else {
                    with_shard(self.logs[index].record.part().number, item.clone())
                };
                if !combined.contains(&item) {
                    combined.push(item);
                }
            }
        }
        combined
    }
}

fn shard_notice(shard: usize, notice: Notice) -> Notice {
    LogNotice::Shard {
        shard,
        notice: Box::new(notice),
    }
    .into()
}

/// Rejects logs of different plans: names the first setting that differs, and a digest only where
/// all settings are the same.
fn check_same_plan(logs: &[RunLog]) -> Result<()> {
    let is_same = |pair: &[RunLog]| pair[0].record.plan_terms() == pair[1].record.plan_terms();
    if logs.windows(2).all(is_same) {
        return Ok(());
    }
    (0..3).try_for_each(|level| {
        let of_log = |log: &RunLog| {
            let mut differences = log.record.plan_differences();
            (differences[level].take(), log.source().name())
        };
        let terms: Vec<_> = logs.iter().map(of_log).collect();
        check_same_settings("the logs have different plans", "run", &terms)
    })
}

/// Rejects logs that were not written by a shard.
fn check_is_shard(log: &RunLog) -> Result<()> {
    let name = log.source().name();
    if !log.record.merged.is_empty() {
        return Err(Error::usage(format!("log is already merged: {name}"))
            .hint("give only the logs of the shards; use sobench report for a merged log"));
    }
    let shard = log.record.shard.as_ref().ok_or_else(|| {
        Error::usage(format!("not the log of a shard: {name}"))
            .hint("use sobench report for the log of a whole run; shards are runs with --shard I/N")
    })?;
    if log.record.plan_sha256() != shard.plan_sha256 {
        return Err(tampered(format!(
            "the header of shard {} does not match the digest of its plan: {name}",
            shard.part()
        )));
    }
    Ok(())
}

/// The error for a log that was changed after the run.
fn tampered(what: String) -> Error {
    Error::usage(what).hint("restore the original file; it was changed after the run")
}

/// Rejects a log with requests of other shards, and a complete log without all of its own.
fn check_requests(log: &RunLog) -> Result<()> {
    let (part, whole, name) = (
        log.record.part(),
        log.record.dataset.requests,
        log.source().name(),
    );
    let units = log.record.units();
    let is_foreign = |index: usize| index >= whole || !units.takes(part, index);
    let foreign = log
        .requests
        .iter()
        .find(|request| is_foreign(request.case_index()));
    if let Some(request) = foreign {
        let (id, index) = (request.id(), request.case_index());
        let owner =
            (1..=part.of).find(|number| index < whole && units.unit(index) % part.of == number - 1);
        let owner = owner.map_or_else(
            || "no shard".to_owned(),
            |number| format!("shard {number}/{}", part.of),
        );
        let problem = format!("is in the log of shard {part}, but belongs to {owner}: {name}");
        return Err(tampered(format!("request {id} (index {index}) {problem}")));
    }
    if log.footer.is_none() {
        return Ok(());
    }
    let planned = || units.indices(part, whole);
    let found = log.requests.iter().map(|request| request.case_index());
    let skipped = planned()
        .zip(found)
        .find(|(index, found)| index != found)
        .map(|(index, _)| index);
    // The number of requests of a run with a time limit is unknown here.
    let missing_at_end = || {
        planned()
            .nth(log.requests.len())
            .filter(|_| log.record.settings.load.until.time().is_none())
    };
    skipped.or_else(missing_at_end).map_or(Ok(()), |index| {
        Err(tampered(format!(
            "request with index {index} is missing in the log of shard {part}: {name}"
        )))
    })
}

fn merged(log: &RunLog, start_ns: u64) -> MergedShard {
    let (record, footer) = (&log.record, log.footer.as_ref());
    let shard = record.shard.as_ref();
    MergedShard {
        number: record.part().number,
        requests: log.requests.len(),
        base_url: record.server.base_url.clone(),
        host: record.host.clone(),
        started_unix_ns: record.started_unix_ns,
        begin_ns: start_ns,
        start: shard.map(|shard| shard.start).unwrap_or_default(),
        clock_before: shard.and_then(|shard| shard.clock),
        clock_after: footer.and_then(|footer| footer.clock),
        end: footer.map(|footer| ShardEnd {
            duration_ns: footer.duration_ns,
            cost: footer.cost,
            interrupted: footer.interrupted,
            broken_off: footer.broken_off.clone(),
        }),
        missing: false,
    }
}

/// Combined client cost: sums, and maxima of times and shares. Unknown if any shard's is unknown.
fn cost_of_all(costs: &[ClientCost]) -> ClientCost {
    fn sum<T: std::iter::Sum>(
        costs: &[ClientCost],
        value: impl Fn(&ClientCost) -> Option<T>,
    ) -> Option<T> {
        costs.iter().map(value).sum()
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

impl ShardCopy {
    fn new((log, start_ns): (&RunLog, &u64)) -> Result<Self> {
        let source = log.source();
        let mut copy = Self {
            lines: LineReader::new(source),
            start_ns: *start_ns,
            shared: HashMap::new(),
            numbers: HashMap::new(),
            verdicts: HashMap::new(),
        };
        let mut lines = Lines::open(source)?;
        while let Some(line) = lines.next()? {
            let line_type: LineType =
                serde_json::from_slice(line.bytes).map_err(|_| changed(source))?;
            let shared = [
                (SharedKind::Constraint, line_type.constraint),
                (SharedKind::Prompt, line_type.prompt),
                (SharedKind::Oracle, line_type.oracle),
            ];
            let found = shared
                .into_iter()
                .filter_map(|(kind, part)| Some(((kind, part?.number), line.offset)));
            copy.shared.extend(found);
            copy.verdicts
                .extend(line_type.judged.map(|judged| (judged.index, line.offset)));
        }
        Ok(copy)
    }

    /// Copies a request, after its shared parts if they are new.
    fn request(&mut self, offset: u64, known: &mut SharedNumbers, sink: &mut Sink) -> Result<()> {
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
            prompt: self.number(SharedKind::Prompt, prompt, known, sink)?,
            constraint: constraint
                .map(|number| self.number(SharedKind::Constraint, number, known, sink))
                .transpose()?,
            oracle: oracle
                .map(|number| self.number(SharedKind::Oracle, number, known, sink))
                .transpose()?,
        };
        // The prompt has its own line.
        let nothing = Prompt::Text(String::new().into());
        let (case, mut observation) = read.into_parts(nothing).map_err(|_| self.changed())?;
        shift(&mut observation.timing, self.start_ns);
        sink.push(&Line::Request(Box::new(RequestLine::new(
            &case,
            &case.id,
            numbers,
            &observation,
        ))));
        Ok(())
    }

    /// The number in the merged log of a shared part. Identical parts of several logs are written
    /// once.
    fn number(
        &mut self,
        kind: SharedKind,
        number: u32,
        known: &mut SharedNumbers,
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

    /// Copies a verdict from the log. Verdicts of a killed shard were computed for the merge.
    fn verdict(&mut self, log: &RunLog, position: usize, sink: &mut Sink) -> Result<()> {
        let request = log.requests.get(position).ok_or_else(|| self.changed())?;
        let index = request.case_index();
        match self.verdicts.get(&index).filter(|_| log.footer.is_some()) {
            Some(offset) => sink.push_bytes(self.lines.line(*offset)?.to_vec()),
            None if request.is_judged() => sink.push(&Line::Judged(JudgedLine {
                index,
                judged: &request.judged(),
            })),
            None => {
                return Err(Error::internal(format!(
                    "request without a verdict in a log to merge: {index}"
                )));
            }
        }
        Ok(())
    }

    fn changed(&self) -> Error {
        changed(self.lines.source())
    }
}

impl SharedNumbers {
    /// The number of a part, and whether it is new.
    fn number(&mut self, kind: SharedKind, sha256: String) -> (u32, bool) {
        let next = self.counts.entry(kind).or_default();
        let number = *self.numbers.entry((kind, sha256)).or_insert(*next);
        let is_new = number == *next;
        *next += u32::from(is_new);
        (number, is_new)
    }
}

/// Adds a duration to every time.
fn shift(timing: &mut Timing, by_ns: u64) {
    let Timing {
        due_ns,
        ready_ns,
        sent_ns,
        headers_ns,
        chunks_ns,
        first_reasoning_ns,
        first_answer_ns,
        first_arguments_ns,
        end_ns,
        ..
    } = timing;
    let known = [
        ready_ns,
        sent_ns,
        headers_ns,
        first_reasoning_ns,
        first_answer_ns,
        first_arguments_ns,
        end_ns,
    ]
    .into_iter()
    .flatten();
    for time in known.chain(chunks_ns).chain([due_ns]) {
        *time = time.saturating_add(by_ns);
    }
}

#[cfg(test)]
mod tests;
