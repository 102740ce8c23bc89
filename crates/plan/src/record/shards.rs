//! Records of shards, and the digest that identifies logs of the same plan.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::ClientCost;
use super::{Host, RunRecord, Settings};
use sobench_core::case::Case;
use sobench_core::constraint::{hex, sha256_hex};
use sobench_core::shard::{ClockOffset, Shard, Start};

/// The shard of a plan that a log belongs to.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ShardRecord {
    /// The number of the shard, from 1.
    pub number: usize,
    pub of: usize,
    /// SHA-256 of the plan that all shards have in common ([`RunRecord::plan_terms`]).
    pub plan_sha256: String,
    /// SHA-256 over all requests of the plan: id, arm, model, tags and due time. The dataset hash
    /// covers prompts and constraints.
    pub cases_sha256: String,
    /// The source of the start time.
    pub start: Start,
    /// Offset of this machine's clock from that of shard 1 before the run; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}

/// One shard of a merged log. Other parts of its header and footer are merged with the others'.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct MergedShard {
    /// The number of the shard, from 1.
    pub number: usize,
    /// Number of its requests in the log.
    pub requests: usize,
    pub base_url: String,
    pub host: Host,
    /// Its start in nanoseconds since 1970 by its own clock.
    pub started_unix_ns: u64,
    /// Its start in nanoseconds from the start of the merged run.
    pub begin_ns: u64,
    pub start: Start,
    /// Offsets of its clock from that of shard 1 before and after the run; `None` if not measured.
    pub clock_before: Option<ClockOffset>,
    pub clock_after: Option<ClockOffset>,
    /// `None` if the shard was killed, or its log is missing.
    pub end: Option<ShardEnd>,
    /// Whether there was no log of the shard.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
}

/// The end of a shard.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ShardEnd {
    /// From its start.
    pub duration_ns: u64,
    /// Resources that the client used.
    pub cost: ClientCost,
    pub interrupted: bool,
    pub broken_off: Option<String>,
}

impl MergedShard {
    /// Maximum error of its times on the common time line: the uncertainty of the clock exchanges
    /// plus the drift during the run if that was measured ([`Self::has_drift`]). `None` if not
    /// measured.
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

    /// Whether the drift of its clock is known. Shard 1 has the clock that all others are compared
    /// with.
    pub fn has_drift(&self) -> bool {
        self.number == 1 || self.clock_after.is_some()
    }
}

impl ShardRecord {
    /// A record without the digest of the plan, which needs a complete header.
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

    /// The shard.
    pub fn part(&self) -> Shard {
        Shard {
            number: self.number,
            of: self.of,
        }
    }
}

impl RunRecord {
    /// Whether the shard numbers are valid.
    pub fn has_valid_shards(&self) -> bool {
        let is_possible = |shard: &ShardRecord| Shard::new(shard.number, shard.of).is_some();
        self.shard.as_ref().is_none_or(is_possible)
            && self
                .merged
                .iter()
                .map(|shard| shard.number)
                .eq(1..=self.merged.len())
    }

    /// The start time in nanoseconds since 1970, by the clock of shard 1 if its offset was
    /// measured.
    pub fn start_on_shard1_clock_ns(&self) -> i128 {
        let offset_ns = self
            .shard
            .as_ref()
            .and_then(|shard| shard.clock)
            .map_or(0, |clock| clock.offset_ns);
        i128::from(self.started_unix_ns) + i128::from(offset_ns)
    }

    /// Everything that shards of one run have in common, by name: requests, schedule, and
    /// evaluation. Server address and report settings may differ.
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
        let mut terms = json!({
            "sobench_version": self.sobench_version,
            "shards": self.part().of,
            "cases_sha256": self.shard.as_ref().map(|shard| &shard.cases_sha256),
            "backend": backend,
            "endpoint": server.endpoint,
            "model": server.model,
            "dataset": {
                "name": dataset.source.name,
                "path": dataset.source.path(),
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
            "constrained_ratio": self.constrained_ratio(),
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
        });
        // Left out where they do not apply, so that the digests of older logs hold.
        if !dataset.arms.is_empty() {
            terms["arms"] = json!(dataset.arms);
        }
        if let Some(cancellation) = load.cancellation {
            terms["cancellation"] = json!(cancellation);
        }
        if !loaded.scorers.is_empty() {
            terms["scorers"] = json!(loaded.scorers);
        }
        terms
    }

    /// The terms of a plan by what a difference says: settings of the plan by name, all settings of
    /// the requests, and digests of the requests.
    pub fn plan_differences(&self) -> [Value; 3] {
        let mut named = self.plan_terms();
        let mut take = |pointer: &str| named.pointer_mut(pointer).map(Value::take);
        let digests = json!({
            "digest of the prompts and constraints": take("/dataset/sha256"),
            "digest of the ids, models and due times of the requests": take("/cases_sha256"),
        });
        let Settings {
            dataset,
            constraint,
            load,
            request,
            ..
        } = &self.settings;
        let settings = json!({
            "dataset": dataset, "constraint": constraint, "load": load, "request": request,
        });
        [named, settings, digests]
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
    fn plan_digest_covers_requests_and_due_times() {
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
