//! Whether those that are compared run at once, and why or why not. Opens nothing.
//!
//! At once is better where it is possible: whatever drifts then meets all of them in the same
//! second. It is possible where each has a server of its own that is up at the same time as the
//! others'. One server for all would be asked for so many times the load, and servers that are
//! started one at a time never meet.

use std::fmt;

use reqwest::Url;

use super::{ContenderPlan, How};
use crate::commands::bench::matrix_args::WantedOrder;
use sobench_client::PHASE;
use sobench_core::error::{Error, Result};

/// Cores that an embedded server is left with before several run at once without being asked to: it
/// computes the masks of its batch on as many threads as there are cores, and answers and compiles
/// on others.
const CORES_PER_ENGINE: usize = 4;

/// Cores for the client beside them.
const CORES_FOR_CLIENT: usize = 2;

/// In which order the runs of a comparison are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The contenders of a dataset, load, treatment and repeat run at once, each on its own server.
    Interleaved(AtOnce),
    /// Whole runs, one after the other.
    Blocks(Apart),
}

/// Why contenders run at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// Each names a server of its own.
    ServersOfTheirOwn {
        /// One machine that several of them name.
        shared_host: Option<String>,
    },
    /// There is an embedded server for each, and a core for everything that they do.
    Cores { cores: usize },
    /// There are fewer cores, and the user wants it so.
    InSpiteOfCores { cores: usize },
}

/// Why they do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apart {
    /// The user wants it so.
    Asked,
    Alone,
    /// Their servers are started one at a time.
    Launched,
    /// One server does the work of all.
    PerRequest,
    /// Two of them name one server.
    SameServer {
        address: String,
    },
    /// So many embedded servers would take each other's time. `None` where the system does not tell
    /// its cores.
    FewCores {
        cores: Option<usize>,
        wanted: usize,
    },
}

impl Order {
    /// The order that the user wants, as far as it is possible; `cores` are those of this machine.
    ///
    /// # Errors
    /// It is not possible.
    pub(super) fn of(
        wanted: WantedOrder,
        contenders: &[ContenderPlan],
        cores: Option<usize>,
    ) -> Result<Self> {
        let found = possible(contenders, cores);
        match (wanted, found) {
            (WantedOrder::Blocks, Ok(_) | Err(Apart::FewCores { .. })) => Ok(Self::Blocks(Apart::Asked)),
            (WantedOrder::Auto | WantedOrder::Interleaved, Ok(at_once)) => Ok(Self::Interleaved(at_once)),
            (WantedOrder::Interleaved, Err(Apart::FewCores { cores, .. })) => {
                Ok(Self::Interleaved(AtOnce::InSpiteOfCores { cores: cores.unwrap_or(1) }))
            }
            (WantedOrder::Interleaved, Err(apart)) => {
                Err(Error::usage(format!("--matrix-order interleaved is not possible: {apart}"))
                    .hint("leave it out, or give each a server of its own: --target NAME=URL --target NAME=URL"))
            }
            (WantedOrder::Auto | WantedOrder::Blocks, Err(apart)) => Ok(Self::Blocks(apart)),
        }
    }

    /// Whether contenders run at once.
    pub fn is_interleaved(&self) -> bool {
        matches!(self, Self::Interleaved(_))
    }
}

/// Why the contenders can run at once, or why not.
fn possible(
    contenders: &[ContenderPlan],
    cores: Option<usize>,
) -> std::result::Result<AtOnce, Apart> {
    let [first, _, ..] = contenders else {
        return Err(Apart::Alone);
    };
    match &first.how {
        How::Launched { .. } => Err(Apart::Launched),
        How::PerRequest => Err(Apart::PerRequest),
        How::Embedded => {
            let wanted = CORES_PER_ENGINE * contenders.len() + CORES_FOR_CLIENT;
            cores
                .filter(|cores| *cores >= wanted)
                .map(|cores| AtOnce::Cores { cores })
                .ok_or(Apart::FewCores { cores, wanted })
        }
        How::Running => {
            let addresses: Vec<(String, u16)> = contenders
                .iter()
                .filter_map(ContenderPlan::address)
                .collect();
            match twice(addresses.iter()) {
                Some((host, port)) => Err(Apart::SameServer {
                    address: format!("{host}:{port}"),
                }),
                None => {
                    let shared_host = twice(addresses.iter().map(|(host, _)| host)).cloned();
                    Ok(AtOnce::ServersOfTheirOwn { shared_host })
                }
            }
        }
    }
}

impl ContenderPlan {
    /// Host and port of its server, if it names one; this machine has one name here.
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

/// The first that is there a second time.
fn twice<'a, T: PartialEq>(mut all: impl Iterator<Item = &'a T> + Clone) -> Option<&'a T> {
    let mut rest = all.clone();
    all.find(|it| {
        rest.next();
        rest.clone().any(|other| other == *it)
    })
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interleaved(why) => write!(
                f,
                "interleaved, request by request ({why}): the contenders of a dataset and load run at once, each on its own server and \
                 at the load that was asked for, from one begin; at each request another one goes first, and the others follow \
                 {} us apart (those due at the very begin leave as fast as they can)",
                PHASE.as_micros()
            ),
            Self::Blocks(why) => write!(f, "whole runs, one after the other ({why})"),
        }
    }
}

impl fmt::Display for AtOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServersOfTheirOwn { .. } => write!(f, "each names a server of its own"),
            Self::Cores { cores } => write!(f, "an embedded server for each, on {cores} cores"),
            Self::InSpiteOfCores { cores } => {
                let cores = if *cores == 1 {
                    "one core".to_owned()
                } else {
                    format!("{cores} cores")
                };
                write!(
                    f,
                    "as --matrix-order asks, although the embedded servers share {cores}, and take each other's time"
                )
            }
        }
    }
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asked => write!(f, "as --matrix-order asks"),
            Self::Alone => write!(f, "there is nobody to run beside"),
            Self::Launched => write!(f, "servers are started one at a time"),
            Self::PerRequest => write!(
                f,
                "one server does the work of all, and would be asked for so many times the load"
            ),
            Self::SameServer { address } => {
                write!(
                    f,
                    "two name one server, which would be asked for so many times the load: {address}"
                )
            }
            Self::FewCores { cores, wanted } => {
                let cores = cores.map_or_else(
                    || "an unknown number of".to_owned(),
                    |cores| cores.to_string(),
                );
                write!(
                    f,
                    "embedded servers on {cores} cores would take each other's time, on {wanted} they would run at once"
                )
            }
        }
    }
}
