//! Notices of a matrix: several runs in one comparison.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MatrixNotice {
    #[error("CONSTRAINT NOT ENFORCED: {contender}, {dataset}, {treatment}, {load}")]
    RunNotEnforced {
        contender: String,
        dataset: String,
        treatment: String,
        load: String,
    },
    #[error(
        "in {runs} of {all_runs} runs the client itself stood in the way; the first is {contender}, {dataset}, {treatment}: {why}"
    )]
    ClientInTheWay {
        runs: usize,
        all_runs: usize,
        contender: String,
        dataset: String,
        treatment: String,
        why: String,
    },
    #[error(
        "servers on one machine that run at once may take each other's time (--matrix-order blocks asks one after the other): {host}"
    )]
    SharedHost { host: String },
    #[error(
        "the embedded servers ran at once on so few cores that each makes the others look slow ({cores}): no latency is that of its \
         engine alone"
    )]
    FewCores { cores: usize },
    #[error(
        "answers come from sobench's own synthetic model: the figures are not those of a GPU server"
    )]
    SyntheticModels,
    #[error(
        "control runs came first more often than constrained ones, and what they left behind on the server (a warm cache of prompts) \
         is in the overhead: an even --repeat has each first as often"
    )]
    ControlFirstMoreOften,
    #[error(
        "cold TTFT is not known of servers that were running, as they may have compiled the constraints before: --cold-schema-every K \
         sends schemas that no server has seen, and --launch starts servers anew"
    )]
    ColdTtftUnknown,
    #[error(
        "cold TTFT is not known where an earlier run of the same server had sent the constraints, and where the first answers had no TTFT"
    )]
    ColdTtftUnknownOfOwnServers,
    #[error("answers of one token have no TPOT, and so no overhead in it")]
    OneTokenAnswers,
    #[error(
        "no objectives were given: --goodput ttft:200 tpot:50 names the highest load that meets them with valid answers"
    )]
    NoObjectives,
    #[error("{contender}, {dataset}: a run is in no figure: {why}")]
    RunFailed {
        contender: String,
        dataset: String,
        why: String,
    },
}
