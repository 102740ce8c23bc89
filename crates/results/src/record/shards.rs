//! What a log says of the part of a plan that it is of, and how logs are known to be of one plan.
//! Knows no file and no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Host, RunRecord, Settings};
use crate::metrics::client::ClientCost;
use sobench_core::case::Case;
use sobench_core::constraint::{hex, sha256_hex};
use sobench_core::shard::{ClockOffset, Shard, Start};

/// Which part of a plan a log is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// From 1.
    pub number: usize,
    pub of: usize,
    /// SHA-256 of the plan that all shards of a run have in common ([`RunRecord::plan_terms`]).
    pub plan_sha256: String,
    /// SHA-256 over all requests of the plan: id, arm, model, tags and due time of each. What they
    /// ask is in the dataset's.
    pub cases_sha256: String,
    /// Whose word the begin was.
    pub start: Start,
    /// What this machine's clock was off shard 1's before the run; `None` where nobody measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}

/// What a merged log says of one of the logs that it was merged from. The rest of its header and
/// footer is one with the others'.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MergedShard {
    /// From 1.
    pub number: usize,
    /// Requests of it that are in the log.
    pub requests: usize,
    pub base_url: String,
    pub host: Host,
    /// When it began, in nanoseconds since 1970 by its own clock.
    pub started_unix_ns: u64,
    /// The same, in nanoseconds from the begin of the merged log.
    pub begin_ns: u64,
    pub start: Start,
    /// What its clock was off shard 1's before the run and after it; `None` where nobody measured
    /// it.
    pub clock_before: Option<ClockOffset>,
    pub clock_after: Option<ClockOffset>,
    /// `None` where it was killed.
    pub end: Option<ShardEnd>,
}

/// How a shard ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardEnd {
    /// From its begin.
    pub duration_ns: u64,
    /// What it took from its machine.
    pub cost: ClientCost,
    pub interrupted: bool,
    pub broken_off: Option<String>,
}

impl MergedShard {
    /// The most that its instants may be off the time line that all shards share: what the
    /// exchanges leave open, and what its clock drifted during the run. `None` where nobody
    /// measured it.
    pub fn uncertainty_ns(&self) -> Option<u64> {
        let before = self.clock_before?;
        let Some(after) = self.clock_after else {
            return Some(before.uncertainty_ns);
        };
        let drift_ns = after.offset_ns.abs_diff(before.offset_ns);
        Some(
            before
                .uncertainty_ns
                .max(after.uncertainty_ns)
                .saturating_add(drift_ns),
        )
    }
}

impl ShardRecord {
    /// The begin of what is said of a part: everything but the plan's digest, which needs a header.
    pub fn new(part: Shard, cases: &[Case], due: &[Duration]) -> Self {
        let Shard { number, of } = part;
        Self {
            number,
            of,
            plan_sha256: String::new(),
            cases_sha256: cases_sha256(cases, due),
            start: Start::Own,
            clock: None,
        }
    }

    /// The part.
    pub fn part(&self) -> Shard {
        Shard {
            number: self.number,
            of: self.of,
        }
    }
}

impl RunRecord {
    /// Whether the shards that it names are possible.
    pub fn has_parts(&self) -> bool {
        let is_possible = |shard: &ShardRecord| Shard::new(shard.number, shard.of).is_some();
        self.shard.as_ref().is_none_or(is_possible)
            && self
                .merged
                .iter()
                .map(|shard| shard.number)
                .eq(1..=self.merged.len())
    }

    /// The start by the clock of shard 1, as far as that was measured: in nanoseconds since 1970.
    pub fn begun_ns(&self) -> i128 {
        let offset_ns = self
            .shard
            .as_ref()
            .and_then(|shard| shard.clock)
            .map_or(0, |clock| clock.offset_ns);
        i128::from(self.started_unix_ns) + i128::from(offset_ns)
    }

    /// Everything that shards of one run have in common, by name: what is sent, when and how, and
    /// what is made of it. Where the server is, and what becomes of the report, each shard has for
    /// itself.
    pub fn plan_terms(&self) -> Value {
        let Settings {
            backend,
            dataset,
            load,
            request,
            evaluate,
            metrics,
            ..
        } = &self.settings;
        let (server, loaded) = (&self.server, &self.dataset);
        json!({
            "sobench_version": self.sobench_version,
            "shards": self.part().of,
            "cases_sha256": self.shard.as_ref().map(|shard| &shard.cases_sha256),
            "backend": backend,
            "endpoint": server.endpoint,
            "model": server.model,
            "dataset": {
                "name": dataset.name(),
                "path": dataset.path(),
                "source": loaded.source,
                "rows": loaded.rows,
                "sha256": loaded.sha256,
                "grammar_converted_from": loaded.grammar_converted_from,
            },
            "output_len": self.settings.output_len(),
            "request": {
                "stream": request.stream,
                "sampling": request.sampling,
                "ignore_eos": request.ignore_eos,
                "extra_body": request.extra_body,
                "request_timeout_s": load.request_timeout.as_secs_f64(),
                "idle_timeout_s": load.idle_timeout.map(|limit| limit.as_secs_f64()),
            },
            "constrained_ratio": self.settings.constrained_ratio(),
            "constraint_dialect": server.constraint_dialect,
            "constraint_kinds": loaded.constraint_kinds,
            "guided_decoding_backend": server.engine_choice,
            "load": {
                "requests": loaded.requests,
                "seed": dataset.seed,
                "pace": load.pace,
                "burstiness": if load.burstiness.is_infinite() { json!("inf") } else { json!(load.burstiness) },
                "max_concurrency": load.max_concurrency,
                "until": load.until,
                "steady_state_threshold": load.steady_state_threshold,
                "cold_schema_every": load.cold_schema_every,
                "error_limits": load.error_limits,
            },
            "metrics": metrics,
            "evaluate": evaluate,
            "tokenizer": self.tokenizer_id,
        })
    }

    /// The digest of [`RunRecord::plan_terms`].
    pub fn plan_sha256(&self) -> String {
        sha256_hex(self.plan_terms().to_string().as_bytes())
    }
}

fn cases_sha256(cases: &[Case], due: &[Duration]) -> String {
    let mut hash = Sha256::new();
    for (case, due) in cases.iter().zip(due) {
        let line = json!([
            case.id,
            case.arm,
            case.model,
            case.tags,
            due.as_nanos().to_string()
        ]);
        hash.update(line.to_string());
        hash.update("\n");
    }
    hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::case::{Arm, Prompt};

    #[test]
    fn what_a_plan_sends_and_when_is_in_its_digest() {
        let case =
            |index: usize| Case::new(format!("json-{index}"), Prompt::Text("?".into()), None, 8);
        let (cases, due) = (vec![case(0), case(1)], [0, 5].map(Duration::from_millis));
        let base = cases_sha256(&cases, &due);
        assert_eq!((base.len(), base == cases_sha256(&cases, &due)), (64, true));
        let changed = |change: &dyn Fn(&mut Case)| {
            let mut cases = cases.clone();
            change(&mut cases[1]);
            cases_sha256(&cases, &due)
        };
        let others = [
            changed(&|case| case.id = "json-2".into()),
            changed(&|case| case.arm = Arm::Control),
            changed(&|case| case.model = Some("lora".into())),
            changed(&|case| case.tags = vec!["cold-schema".into()]),
            cases_sha256(&cases, &[0, 6].map(Duration::from_millis)),
            cases_sha256(&cases[..1], &due[..1]),
        ];
        assert!(others.iter().all(|other| *other != base), "{others:?}");
    }
}
