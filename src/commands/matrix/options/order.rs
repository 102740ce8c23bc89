//! Whether the contenders of a comparison run concurrently.
//!
//! Concurrent runs are better if possible, because drift then affects all of them in the same
//! second. They need a server for each contender, all up at the same time: a shared server would
//! receive the load of all contenders, and launched servers run one at a time.

use std::fmt;

use reqwest::Url;

use super::{ContenderPlan, ContenderServer};
use crate::commands::bench::matrix_args::MatrixOrder;
use sobench_client::STAGGER;
use sobench_core::error::{Error, Result};

/// Cores per embedded server that concurrent runs need by default. A server computes the masks of
/// its batch on as many threads as there are cores, and answers and compiles on other threads.
const CORES_PER_ENGINE: usize = 4;

/// Cores for the client.
const CORES_FOR_CLIENT: usize = 2;

/// The order of the runs of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The contenders of a dataset, load, arm and repeat run concurrently, each on its own
    /// server.
    Interleaved(InterleavedReason),
    /// Complete runs, one after the other.
    Blocks(BlocksReason),
}

/// Why contenders run concurrently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterleavedReason {
    /// Each contender has its own server.
    SeparateServers {
        /// A host that several of the servers share.
        shared_host: Option<String>,
    },
    /// Each contender has an embedded server, and there are enough cores.
    Cores { cores: usize },
    /// There are too few cores, but the user requested it.
    RequestedOnFewCores { cores: usize },
}

/// Why contenders run one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlocksReason {
    /// The user requested it.
    Requested,
    SingleContender,
    /// The servers are started one at a time.
    Launched,
    /// All contenders share one server.
    PerRequest,
    /// Two contenders have the same server.
    SameServer {
        address: String,
    },
    /// The embedded servers would compete for cores. `None` if the number of cores is unknown.
    FewCores {
        cores: Option<usize>,
        required: usize,
    },
}

impl Order {
    /// The requested order, if possible; `cores` are those of this machine.
    ///
    /// # Errors
    /// The requested order is impossible.
    pub(super) fn new(
        requested: MatrixOrder,
        contenders: &[ContenderPlan],
        cores: Option<usize>,
    ) -> Result<Self> {
        let found = can_interleave(contenders, cores);
        match (requested, found) {
            (MatrixOrder::Blocks, Ok(_) | Err(BlocksReason::FewCores { .. })) => Ok(Self::Blocks(BlocksReason::Requested)),
            (MatrixOrder::Auto | MatrixOrder::Interleaved | MatrixOrder::Paired, Ok(at_once)) => Ok(Self::Interleaved(at_once)),
            (MatrixOrder::Interleaved | MatrixOrder::Paired, Err(BlocksReason::FewCores { cores, .. })) => {
                Ok(Self::Interleaved(InterleavedReason::RequestedOnFewCores { cores: cores.unwrap_or(1) }))
            }
            (MatrixOrder::Interleaved, Err(reason)) => {
                Err(Error::usage(format!("--matrix-order interleaved is impossible: {reason}"))
                    .hint("leave it out, or give each contender its own server: --target NAME=URL --target NAME=URL"))
            }
            (MatrixOrder::Auto | MatrixOrder::Blocks | MatrixOrder::Paired, Err(reason)) => Ok(Self::Blocks(reason)),
        }
    }

    /// Whether contenders run concurrently.
    pub fn is_interleaved(&self) -> bool {
        matches!(self, Self::Interleaved(_))
    }
}

/// Why the contenders can run concurrently, or why not.
fn can_interleave(
    contenders: &[ContenderPlan],
    cores: Option<usize>,
) -> std::result::Result<InterleavedReason, BlocksReason> {
    let [first, _, ..] = contenders else {
        return Err(BlocksReason::SingleContender);
    };
    match &first.server {
        ContenderServer::Launched { .. } => Err(BlocksReason::Launched),
        ContenderServer::PerRequest => Err(BlocksReason::PerRequest),
        ContenderServer::Embedded => {
            let required = CORES_PER_ENGINE * contenders.len() + CORES_FOR_CLIENT;
            cores
                .filter(|cores| *cores >= required)
                .map(|cores| InterleavedReason::Cores { cores })
                .ok_or(BlocksReason::FewCores { cores, required })
        }
        ContenderServer::Running => {
            let addresses: Vec<(String, u16)> = contenders
                .iter()
                .filter_map(ContenderPlan::address)
                .collect();
            match first_duplicate(addresses.iter()) {
                Some((host, port)) => Err(BlocksReason::SameServer {
                    address: format!("{host}:{port}"),
                }),
                None => {
                    let shared_host =
                        first_duplicate(addresses.iter().map(|(host, _)| host)).cloned();
                    Ok(InterleavedReason::SeparateServers { shared_host })
                }
            }
        }
    }
}

impl ContenderPlan {
    /// Host and port of the server, if it has one. All names of the local machine are `127.0.0.1`.
    pub fn address(&self) -> Option<(String, u16)> {
        let url = Url::parse(&self.runs.first()?.plan.endpoint()?.base_url).ok()?;
        let host = url.host_str()?;
        let host = if matches!(host, "localhost" | "[::1]" | "0.0.0.0") || host.starts_with("127.")
        {
            "127.0.0.1"
        } else {
            host
        };
        Some((host.to_owned(), url.port_or_known_default()?))
    }
}

/// The first value that occurs again.
fn first_duplicate<'a, T: PartialEq>(
    mut all: impl Iterator<Item = &'a T> + Clone,
) -> Option<&'a T> {
    let mut rest = all.clone();
    all.find(|value| {
        rest.next();
        rest.clone().any(|other| other == *value)
    })
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interleaved(reason) => write!(
                f,
                "interleaved, request by request ({reason}): the contenders of a dataset and load run concurrently from a common start, \
                 each on its own server and at the requested load; the contender that sends first alternates with each request, and the \
                 others follow at intervals of {} us (requests due at the start are sent immediately)",
                STAGGER.as_micros()
            ),
            Self::Blocks(reason) => write!(f, "complete runs, one after the other ({reason})"),
        }
    }
}

impl fmt::Display for InterleavedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SeparateServers { .. } => write!(f, "each contender has its own server"),
            Self::Cores { cores } => {
                write!(f, "an embedded server for each contender, on {cores} cores")
            }
            Self::RequestedOnFewCores { cores } => {
                let cores = if *cores == 1 {
                    "one core".to_owned()
                } else {
                    format!("{cores} cores")
                };
                write!(
                    f,
                    "requested with --matrix-order, although the embedded servers compete for {cores}"
                )
            }
        }
    }
}

impl fmt::Display for BlocksReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => write!(f, "requested with --matrix-order"),
            Self::SingleContender => write!(f, "there is one contender"),
            Self::Launched => write!(f, "servers are started one at a time"),
            Self::PerRequest => write!(
                f,
                "all contenders share one server, which would receive the load of all"
            ),
            Self::SameServer { address } => {
                write!(
                    f,
                    "two contenders share a server, which would receive the load of both: {address}"
                )
            }
            Self::FewCores { cores, required } => {
                let cores = cores.map_or_else(
                    || "an unknown number of".to_owned(),
                    |cores| cores.to_string(),
                );
                write!(
                    f,
                    "embedded servers would compete for {cores} cores; concurrent runs need {required}"
                )
            }
        }
    }
}
