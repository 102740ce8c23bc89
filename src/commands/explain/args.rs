//! Flags of `sobench explain`.

use clap::Args;

use crate::commands::flags::paths::{InputPath, OutputPath};
use crate::commands::flags::rendering::ForceArgs;
use crate::commands::flags::values::formats;
use crate::commands::preflight::args::{FORMATS, PreflightArgs, TargetArgs};
use sobench_core::output_format::OutputFormat;

/// Find out why a constraint is refused, ignored or slow.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// A JSON Schema, a list of tools, a request body, a run log, rows of a dataset, an OpenAPI
    /// document, a regular expression or a grammar
    #[arg(value_name = "FILE")]
    pub file: InputPath,
    /// Id of a request in a run log, or number of a row, e.g. json-15
    #[arg(long, value_name = "ID")]
    pub case: Option<String>,
    /// Name of a schema in an OpenAPI document
    #[arg(long, value_name = "NAME")]
    pub component: Option<String>,
    #[command(flatten)]
    pub target: TargetArgs,
    /// Maximum number of requests to each server
    #[arg(long, value_name = "N", default_value_t = MAX_REQUESTS, value_parser = clap::value_parser!(u16).range(10..))]
    pub max_requests: u16,
    /// Seconds above the same request without the constraint from which one is slow
    #[arg(long, value_name = "SECONDS", default_value_t = SLOW_S)]
    pub slow: f64,
    /// Request timeout, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub request_timeout: f64,
    /// Also look for the cause if requests are slow, hang or end the server, which may harm others
    /// who use it. Servers on this machine are always tested
    #[arg(long)]
    pub i_own_this_server: bool,
    /// Do not ask the embedded engines about the smallest input
    #[arg(long)]
    pub skip_engines: bool,
    /// Write a folder with the smallest input, the request and a bug report, or a file
    /// (.json, .sarif). May be repeated
    #[arg(long, value_name = "PATH")]
    pub save: Vec<OutputPath>,
    #[command(flatten)]
    pub force: ForceArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(&FORMATS[..2]))]
    pub format: OutputFormat,
}

/// The defaults of `--max-requests` and `--slow`.
const MAX_REQUESTS: u16 = 200;
const SLOW_S: f64 = 1.0;

impl ExplainArgs {
    /// The flags of a preflight of a file; `None` without one.
    pub fn of_preflight(flags: &PreflightArgs) -> Option<Self> {
        Some(Self {
            file: flags.json_schema_path.clone()?,
            case: None,
            component: None,
            target: flags.target.clone(),
            max_requests: MAX_REQUESTS,
            slow: SLOW_S,
            request_timeout: flags.request_timeout,
            i_own_this_server: false,
            skip_engines: false,
            save: flags.save.save.clone(),
            force: flags.save.force,
            format: flags.format,
        })
    }
}
