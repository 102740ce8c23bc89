//! Memory and CPU time of a server: of the process that listens on its port and its descendants, if
//! it runs on this machine (Linux), otherwise as its `/metrics` has them.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sobench_backend::server_metrics::read_page;
use sobench_client::{Client, get_path};
use sobench_core::proc_status::status_bytes;
use sobench_core::server_sample::Quantity;

/// Where memory and CPU time are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessSource {
    /// `/proc` of the listening process and its descendants.
    Proc,
    /// `process_resident_memory_bytes` and `process_cpu_seconds_total` of `/metrics`.
    Metrics,
}

/// Memory, CPU time and work of a server at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    pub memory_bytes: Option<u64>,
    pub cpu_s: Option<f64>,
    /// Constraints that are being compiled or wait for it, if the server has a metric for it.
    pub compiles: Option<f64>,
}

/// The CPU time of a process with a client library of Prometheus.
const CPU: &str = "process_cpu_seconds_total";

/// Ticks per second in `/proc/PID/stat`: `USER_HZ`, which is 100 on all common architectures
/// (time(7)).
const USER_HZ: f64 = 100.0;

/// Programs that listen in place of a server which runs elsewhere.
const FORWARDERS: [&str; 7] = [
    "docker-proxy",
    "rootlessport",
    "slirp4netns",
    "pasta",
    "conmon",
    "ssh",
    "kubectl",
];

/// A server whose process is found.
#[derive(Clone, Debug)]
pub struct ServerProcess {
    /// The listening process.
    pid: Option<u32>,
    has_metrics: bool,
}

impl ServerProcess {
    /// Looks for the process and the metrics of the server.
    pub async fn find(client: &Client) -> Self {
        let endpoint = &client.options().endpoint;
        let port = endpoint.port().ok().flatten();
        let pid = port
            .filter(|_| endpoint.is_loopback().unwrap_or(false))
            .and_then(listening_process);
        let mut found = Self {
            pid,
            has_metrics: true,
        };
        let Reading {
            memory_bytes,
            cpu_s,
            compiles,
        } = found.metrics(client).await;
        found.has_metrics = memory_bytes.is_some() || cpu_s.is_some() || compiles.is_some();
        found
    }

    /// Where [`Self::read`] reads memory and CPU time.
    pub fn source(&self) -> Option<ProcessSource> {
        if self.pid.is_some() {
            Some(ProcessSource::Proc)
        } else {
            self.has_metrics.then_some(ProcessSource::Metrics)
        }
    }

    pub async fn read(&self, client: &Client) -> Reading {
        let metrics = self.metrics(client).await;
        match self.pid.and_then(read_tree) {
            Some((memory_bytes, cpu_s)) => Reading {
                memory_bytes: Some(memory_bytes),
                cpu_s: Some(cpu_s),
                ..metrics
            },
            None => metrics,
        }
    }

    async fn metrics(&self, client: &Client) -> Reading {
        if !self.has_metrics {
            return Reading::default();
        }
        match get_path(client, "/metrics").await {
            Some(page) if page.status == 200 => read_metrics(&page.body),
            _ => Reading::default(),
        }
    }
}

/// Reads a metrics page.
fn read_metrics(page: &str) -> Reading {
    let Ok((sample, _)) = read_page(page, "", &[CPU.to_owned()]) else {
        return Reading::default();
    };
    let value = |quantity: Quantity| sample.values.get(&quantity).copied();
    Reading {
        memory_bytes: value(Quantity::Memory).map(|bytes| bytes as u64),
        cpu_s: sample.named.get(CPU).copied(),
        compiles: value(Quantity::CompileQueue),
    }
}

/// The process that listens on a port of this machine.
fn listening_process(port: u16) -> Option<u32> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .find_map(|table| listening_inode(&table, port))?;
    let socket = format!("socket:[{inode}]");
    let listens = |pid: &u32| {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        let is_socket = |path: &Path| fs::read_link(path).is_ok_and(|to| to == Path::new(&socket));
        files.flatten().any(|file| is_socket(&file.path()))
    };
    processes().find(listens).filter(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        !FORWARDERS.contains(&name.trim())
    })
}

/// The inode of the socket that listens on a port, in a table of `/proc/net/tcp` (proc(5)).
fn listening_inode(table: &str, port: u16) -> Option<u64> {
    /// `TCP_LISTEN` in the kernel.
    const LISTEN: &str = "0A";
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let is_listening = fields.get(3) == Some(&LISTEN);
        (is_listening && u16::from_str_radix(local_port, 16) == Ok(port))
            .then(|| fields.get(9)?.parse().ok())?
    })
}

fn processes() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Resident bytes and CPU seconds of a process and its descendants. `None` if it is gone.
fn read_tree(root: u32) -> Option<(u64, f64)> {
    let read = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, read_stat(&stat)?))
    };
    let all: HashMap<u32, Stat> = processes().filter_map(read).collect();
    all.get(&root)?;
    // A process that has ended and is not yet collected by its parent has no memory.
    status_bytes(&read_status(root), "VmRSS")?;
    let is_descendant = |mut pid: u32| {
        // A parent can be replaced while the table is read, so the way up is limited.
        for _ in 0..all.len() {
            if pid == root {
                return true;
            }
            match all.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        false
    };
    let tree = all.iter().filter(|(pid, _)| is_descendant(**pid));
    Some(tree.fold((0, 0.0), |(bytes, cpu_s), (pid, stat)| {
        (
            bytes + status_bytes(&read_status(*pid), "VmRSS").unwrap_or(0),
            cpu_s + stat.cpu_s,
        )
    }))
}

fn read_status(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

struct Stat {
    parent: u32,
    cpu_s: f64,
}

/// Reads `/proc/PID/stat` (proc(5)). The name in brackets can contain anything.
fn read_stat(stat: &str) -> Option<Stat> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        cpu_s: (ticks(11)? + ticks(12)?) as f64 / USER_HZ,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_read_by_name_and_added_over_labels() {
        let page = "# HELP process_resident_memory_bytes x\n\
            process_resident_memory_bytes 4.096e+03\n\
            process_resident_memory_bytes_other 7\n\
            process_cpu_seconds_total 1.5 1700000000\n\
            sobench:compiles_in_flight{model_name=\"a b} 9\"} 2\n\
            sobench:compiles_in_flight{model_name=\"c\"} 1\n";
        assert_eq!(
            read_metrics(page),
            Reading {
                memory_bytes: Some(4096),
                cpu_s: Some(1.5),
                compiles: Some(3.0),
            }
        );
        for odd in [
            "",
            "<html>",
            "process_resident_memory_bytes NaN",
            "process_resident_memory_bytes -1",
            "process_resident_memory_bytes{",
        ] {
            assert_eq!(read_metrics(odd), Reading::default(), "{odd:?}");
        }
    }

    #[test]
    fn tables_of_the_kernel_are_parsed() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 0100007F:0016 01 00000000:00000000 00:00000000 00000000  1000        0 11 1\n   \
            1: 00000000000000000000000000000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1\n";
        assert_eq!(listening_inode(table, 8080), Some(4242));
        assert_eq!(listening_inode(table, 22), None);
        let stat =
            read_stat("7 (a) b) S 5 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 99 1 2").unwrap();
        assert_eq!((stat.parent, stat.cpu_s), (5, 3.0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_of_a_listening_socket_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = listening_process(port).unwrap();
        assert_eq!(found, std::process::id());
        let (bytes, _) = read_tree(found).unwrap();
        assert!(bytes > 1 << 20);
    }
}
