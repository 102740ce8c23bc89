//! Resources of the client.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resources that the client used during the run; `None` if the system does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ClientCost {
    /// The period of the measurement.
    pub wall_s: f64,
    /// CPU time of all threads of the process.
    pub cpu_s: Option<f64>,
    /// Number of cores that the process may use.
    pub cores: Option<usize>,
    /// Number of client threads; `None` for the number of cores.
    pub threads: Option<usize>,
    /// CPU usage of the machine by all processes.
    pub machine_busy_percent: Option<f64>,
    /// Peak memory of the process since its start.
    pub peak_memory_mib: Option<f64>,
    /// Connections opened since the start of the client.
    pub connections_opened: Option<u64>,
    /// Connections that a request waited for. The wait is part of the send delay, not of TTFT.
    pub connections_waited_for: Option<u64>,
    /// Concurrent runs of a comparison in this process. Threads, CPU and memory include them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_runs: usize,
    /// Whether the embedded server ran in this process. CPU and memory include it.
    pub includes_server: bool,
}

impl ClientCost {
    /// The number of cores that the client's threads can use; all cores if the embedded server's
    /// threads are included.
    pub fn usable_cores(&self) -> Option<usize> {
        let threads = self.threads.filter(|_| !self.includes_server);
        self.cores
            .map(|cores| threads.map_or(cores, |threads| threads.clamp(1, cores.max(1))))
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
