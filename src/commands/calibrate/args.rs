//! The flags of `sobench calibrate`. Clap types only.

use clap::{Args, ValueEnum};

/// What is measured of the client.
#[derive(Args, Clone, Debug)]
pub struct CalibrateArgs {
    /// Streams at a time, a row each
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "100,500,1000,2000", allow_negative_numbers = true)]
    pub streams: Vec<usize>,
    /// Offered requests per second, a row each; 0 leaves them out
    #[arg(long, value_name = "RPS,RPS", value_delimiter = ',', default_value = "50,500,2000", allow_negative_numbers = true)]
    pub request_rate: Vec<f64>,
    /// Tokens of an answer
    #[arg(long, default_value_t = 50, allow_negative_numbers = true)]
    pub output_len: usize,
    /// Requests for each stream
    #[arg(long, value_name = "N", default_value_t = 2, allow_negative_numbers = true)]
    pub rounds: usize,
    /// Seconds for which a rate is offered
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, allow_negative_numbers = true)]
    pub rate_duration: f64,
    /// Milliseconds from a request's arrival at the server to its first token
    #[arg(long, value_name = "MS", default_value_t = 100.0, allow_negative_numbers = true)]
    pub ttft_ms: f64,
    /// Milliseconds from each token to the next
    #[arg(long, value_name = "MS", default_value_t = 50.0, allow_negative_numbers = true)]
    pub itl_ms: f64,
    /// Measure everything so often, the clients taking turns
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub repeat: usize,
    /// Command line of another client, for the same server in the same run. {base_url}, {model}, {requests}, {streams} (or a
    /// large number), {rate} (or inf), {output_len}, {dir} and {file} are filled in; it has to save ttfts, itls and
    /// generated_texts as vLLM's clients do, in {dir}/{file}
    #[arg(long, value_name = "CMD")]
    pub against: Option<String>,
    /// Name of the other client in the table
    #[arg(long, value_name = "NAME", default_value = "the other client")]
    pub against_name: String,
    /// Measure a bare loop of the same system calls as well: what no client of so many streams can go below (Linux)
    #[arg(long)]
    pub floor: bool,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = CalibrateFormat::Text)]
    pub format: CalibrateFormat,
}

/// How the result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CalibrateFormat {
    Text,
    Json,
}

/// The bare loop of `calibrate --floor`.
#[derive(Clone, Copy, Debug, Args)]
pub struct FloorArgs {
    pub port: u16,
    pub streams: usize,
    pub requests: usize,
    pub output_len: usize,
}
