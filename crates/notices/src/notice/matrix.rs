//! Notices of a matrix.

use serde::{Deserialize, Serialize};

#[derive(
    Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize, thiserror::Error,
)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MatrixNotice {
    #[error("CONSTRAINT NOT ENFORCED: {contender}, {dataset}, {arm}, {load}")]
    RunNotEnforced {
        contender: String,
        dataset: String,
        #[serde(rename = "treatment")]
        arm: String,
        load: String,
    },
    #[error(
        "figures of {runs} of {all_runs} runs are not trusted; the first is {contender}, {dataset}, {arm}: {why}"
    )]
    #[serde(rename = "client_in_the_way")]
    ClientOverhead {
        runs: usize,
        all_runs: usize,
        contender: String,
        dataset: String,
        #[serde(rename = "treatment")]
        arm: String,
        why: String,
    },
    #[error(
        "concurrent servers on one machine may slow each other down; use --matrix-order blocks to measure one after the other: {host}"
    )]
    SharedHost { host: String },
    #[error(
        "the embedded servers ran concurrently on {cores} cores and slowed each other down: no latency describes a single engine"
    )]
    FewCores { cores: usize },
    #[error(
        "answers come from the synthetic model of sobench: the figures do not describe a GPU server"
    )]
    SyntheticModels,
    #[error(
        "control runs came first more often than constrained runs, and effects on the server such as a warm prompt cache are part of the \
         overhead; use an even --repeat to balance the order"
    )]
    ControlFirstMoreOften,
    #[error(
        "cold TTFT is unknown for servers that were already running, because they may have compiled the constraints before; use \
         --cold-schema-every K to send never-seen schemas, or --launch to start new servers"
    )]
    ColdTtftUnknown,
    #[error(
        "cold TTFT is unknown where an earlier run sent the constraints to the same server, or where the first answers have no TTFT"
    )]
    ColdTtftUnknownOfOwnServers,
    #[error("answers with one token have no TPOT, and therefore no TPOT overhead")]
    OneTokenAnswers,
    #[error(
        "no objectives; use --goodput ttft:200 tpot:50 to report the highest load that meets them with valid answers"
    )]
    NoObjectives,
    #[error(
        "runs that were left out because the server refuses the only constraint: {runs} of {contender}, {dataset}"
    )]
    RunsLeftOut {
        contender: String,
        dataset: String,
        runs: usize,
    },
    #[error("{contender}, {dataset}: a failed run is not in any figure: {why}")]
    RunFailed {
        contender: String,
        dataset: String,
        why: String,
    },
}
