//! Divides the CPU time and the memory of a client into parts, by a fit over loads that differ in
//! streams, requests and tokens.

use serde::Serialize;

use super::{Load, Measured, Row};
use sobench_core::distinct::distinct;
use sobench_statistics::{LinearFit, percentile};

/// Confidence level of the intervals.
const LEVEL: f64 = 0.95;

/// The parts of the CPU time and of the peak memory of a client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    pub client: String,
    /// Measurements in the fit.
    pub points: usize,
    /// Start and end of the process.
    pub start_ms: Part,
    /// Opening, keeping and closing a connection; there is one for each stream.
    pub connection_us: Part,
    pub request_us: Part,
    pub token_us: Part,
    /// Absolute values of the relative residuals, in percent: median and largest.
    pub median_residual_percent: f64,
    pub max_residual_percent: f64,
    /// The CPU time at the largest number of streams as extrapolated from all smaller numbers, less
    /// the measured one, in percent; `None` if the smaller ones have no fit of their own.
    pub extrapolated: Option<Extrapolated>,
    /// Peak memory: of the process, and more for each stream.
    pub memory: Option<Memory>,
}

/// A coefficient and the half-width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Part {
    pub value: f64,
    pub margin: f64,
}

impl Part {
    /// A coefficient of a fit and its margin, times `scale`.
    fn new<const N: usize>(fit: &LinearFit<N>, index: usize, scale: f64) -> Self {
        Self {
            value: fit.coefficients[index] * scale,
            margin: fit.margins[index] * scale,
        }
    }
}

/// How well smaller loads predict the largest one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Extrapolated {
    pub streams: usize,
    /// Mean over the measurements.
    pub error_percent: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Memory {
    pub process_mib: Part,
    pub stream_kib: Part,
    pub request_kib: Part,
}

impl Cost {
    /// Tokens per second at which the tokens alone fill one core.
    pub fn tokens_per_core_s(&self) -> f64 {
        1e6 / self.token_us.value
    }
}

/// The parts of each client whose points separate them.
pub(super) fn costs(rows: &[Row]) -> Vec<Cost> {
    let clients = distinct(rows.iter().map(|row| row.client.as_str()));
    clients
        .into_iter()
        .filter_map(|client| cost(client, rows))
        .collect()
}

/// Start, connections, requests and tokens, and the CPU time in seconds.
type CpuPoint = ([f64; 4], f64);

fn cost(client: &str, rows: &[Row]) -> Option<Cost> {
    let measured: Vec<(usize, &Measured)> = rows
        .iter()
        .filter(|row| row.client == client)
        .filter_map(|row| match row.point.load {
            Load::Streams(streams) => Some((streams, row.measured.as_ref()?)),
            Load::PerSecond(_) => None,
        })
        .collect();
    let cpu_points: Vec<(usize, CpuPoint)> = measured
        .iter()
        .filter_map(|(streams, measured)| {
            let cpu_s = measured.cpu_s_per_million_tokens? * measured.tokens as f64 / 1e6;
            let regressors = [
                1.0,
                *streams as f64,
                measured.arrivals as f64,
                measured.tokens as f64,
            ];
            Some((*streams, (regressors, cpu_s)))
        })
        .collect();
    let points = |is_included: &dyn Fn(usize) -> bool| -> Vec<CpuPoint> {
        cpu_points
            .iter()
            .filter(|(streams, _)| is_included(*streams))
            .map(|(_, point)| *point)
            .collect()
    };
    let all = points(&|_| true);
    let fit = LinearFit::new(&all, LEVEL)?;
    let relative = |fit: &LinearFit<4>, (regressors, cpu_s): &CpuPoint| {
        100.0 * (fit.at(regressors) - cpu_s) / cpu_s
    };
    let mut residuals: Vec<f64> = all
        .iter()
        .map(|point| relative(&fit, point).abs())
        .collect();
    residuals.sort_by(f64::total_cmp);
    let largest = cpu_points.iter().map(|(streams, _)| *streams).max()?;
    let extrapolated = LinearFit::new(&points(&|streams| streams < largest), LEVEL).map(|fit| {
        let at_largest = points(&|streams| streams == largest);
        let errors = at_largest.iter().map(|point| relative(&fit, point));
        Extrapolated {
            streams: largest,
            error_percent: errors.sum::<f64>() / at_largest.len() as f64,
        }
    });
    Some(Cost {
        client: client.to_owned(),
        points: all.len(),
        start_ms: Part::new(&fit, 0, 1e3),
        connection_us: Part::new(&fit, 1, 1e6),
        request_us: Part::new(&fit, 2, 1e6),
        token_us: Part::new(&fit, 3, 1e6),
        median_residual_percent: percentile(&residuals, 50.0)?,
        max_residual_percent: *residuals.last()?,
        extrapolated,
        memory: memory(&measured),
    })
}

fn memory(measured: &[(usize, &Measured)]) -> Option<Memory> {
    let points: Vec<([f64; 3], f64)> = measured
        .iter()
        .filter_map(|(streams, measured)| {
            let regressors = [1.0, *streams as f64, measured.arrivals as f64];
            Some((regressors, measured.peak_memory_mib?))
        })
        .collect();
    let fit = LinearFit::new(&points, LEVEL)?;
    Some(Memory {
        process_mib: Part::new(&fit, 0, 1.0),
        stream_kib: Part::new(&fit, 1, 1024.0),
        request_kib: Part::new(&fit, 2, 1024.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::calibrate::Point;

    fn row(streams: usize, rounds: usize, output_len: usize) -> Row {
        let requests = streams * rounds;
        let tokens = requests * output_len;
        let cpu_s = 0.04 + 100e-6 * streams as f64 + 60e-6 * requests as f64 + 9e-6 * tokens as f64;
        Row {
            client: "one".to_owned(),
            point: Point {
                load: Load::Streams(streams),
                requests,
                output_len,
            },
            measured: Some(Measured {
                compared: None,
                arrivals: requests,
                stamped_arrivals: requests,
                tokens,
                cpu_s_per_million_tokens: Some(cpu_s / tokens as f64 * 1e6),
                peak_memory_mib: Some(20.0 + streams as f64 / 64.0),
                first_request_s: None,
                achieved_rps: None,
                flow: None,
            }),
            failure: None,
        }
    }

    #[test]
    fn parts_are_separated_if_streams_rounds_and_lengths_differ() {
        let mut rows = Vec::new();
        for streams in [100, 500, 2000] {
            for rounds in [1, 4] {
                rows.extend([10, 100].map(|output_len| row(streams, rounds, output_len)));
            }
        }
        let found = costs(&rows);
        let [cost] = found.as_slice() else {
            panic!("{found:?}")
        };
        let memory = cost.memory.unwrap();
        let parts = [
            cost.start_ms,
            cost.connection_us,
            cost.request_us,
            cost.token_us,
            memory.process_mib,
            memory.stream_kib,
        ];
        for (part, expected) in parts.iter().zip([40.0, 100.0, 60.0, 9.0, 20.0, 16.0]) {
            assert!((part.value - expected).abs() < 1e-6, "{cost:?}");
        }
        assert!(memory.request_kib.value.abs() < 1e-6, "{cost:?}");
        assert!(cost.max_residual_percent < 1e-6, "{cost:?}");
        let extrapolated = cost.extrapolated.unwrap();
        assert_eq!(extrapolated.streams, 2000);
        assert!(extrapolated.error_percent.abs() < 1e-6, "{cost:?}");
        assert!((cost.tokens_per_core_s() - 1e6 / 9.0).abs() < 1e-3);
    }

    #[test]
    fn the_default_loads_do_not_separate_the_parts() {
        let rows: Vec<Row> = [100, 500, 1000, 2000, 4000]
            .map(|streams| row(streams, 2, 50))
            .into();
        assert_eq!(costs(&rows), []);
    }
}
