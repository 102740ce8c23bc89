//! Validated options of `sobench-tools mask`.

use std::path::PathBuf;
use std::thread;

use crate::mask::args::{FORMATS, MaskArgs, MaskOutputArgs, ProofArgs};
use crate::mask::plan::{CorpusSource, Effort, MAX_JOBS, MaskPlan};
use crate::mask::record::Sample;
use sobench::commands::flags::environment::variable;
use sobench::commands::flags::{embedded, shard};
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_core::shard::Shard;
use sobench_engine::EngineName;

/// The plan, the outputs and the proof flags.
#[derive(Clone, Debug)]
pub struct MaskSettings {
    pub mask: MaskPlan,
    pub output: MaskOutputArgs,
    pub files: Vec<(OutputFormat, PathBuf)>,
    pub proof: ProofArgs,
}

/// Default time limits of one entry, for measuring and for proving.
const TIMEOUT_S: f64 = 60.0;
const PROOF_TIMEOUT_S: f64 = 10.0;

/// Maximum time limit of one entry: a day.
const LONGEST_TIMEOUT_S: f64 = 86_400.0;

impl MaskSettings {
    /// Validates the flags.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn new(flags: &MaskArgs) -> Result<Self> {
        let engines = flags
            .engine
            .iter()
            .map(|name| EngineName::parse(name))
            .collect::<Result<Vec<_>>>()?;
        if flags.output.explain && !engines.contains(&EngineName::Auto) {
            return Err(Error::usage("--explain requires the engine auto")
                .hint("add --engine auto, or omit --explain"));
        }
        check_proof(flags, &engines)?;
        let proves = flags.proof.prove;
        let mask = MaskPlan {
            corpora: flags
                .corpus
                .iter()
                .map(|typed| CorpusSource::parse(typed))
                .collect(),
            engines,
            policy: embedded::policy(&flags.policy),
            tokenizer: flags.tokenizer.to_string(),
            eos_token: flags.eos_token.clone(),
            jobs: flags.jobs.map_or_else(
                || default_jobs(usize::from(!proves && flags.proof.replay.is_none())),
                usize::from,
            ),
            timeout_ms: timeout_ms(flags.timeout.unwrap_or(if proves {
                PROOF_TIMEOUT_S
            } else {
                TIMEOUT_S
            }))?,
            memory_limit_bytes: memory_limit(flags.memory_limit_mib)?,
            spellings: flags.spelling.clone(),
            limit: flags.limit,
            seed: flags.seed,
            sample: flags.sample.map(|entries| Sample {
                entries,
                seed: flags.seed,
            }),
            filter: flags.filter.clone(),
            rows: flags.output.rows.clone().map(Into::into),
            resume: flags.output.resume,
            assert_formats: !flags.no_format_assertion,
            warm: !flags.cold_only,
            drafts: flags.drafts.filter(|_| !proves),
            batch_sizes: flags.batch.iter().copied().map(usize::from).collect(),
            prove: proves.then_some(Effort {
                seed: flags.seed,
                budget: flags.proof.budget,
                rollback_tokens: flags.drafts.unwrap_or(Effort::ROLLBACK_TOKENS),
            }),
            shard: shard(flags)?,
        };
        mask.check()?;
        let mut output = flags.output.clone();
        if let Some((shard, rows)) = mask.shard.zip(output.rows.as_mut()) {
            let own = shard::path_of_shard(rows, shard, flags.shard.as_deref(), &variable);
            *rows = own.into();
        }
        let is_proof = proves || flags.proof.replay.is_some();
        Ok(Self {
            mask,
            files: (output.save).files(if is_proof { &FORMATS[..2] } else { &FORMATS })?,
            output,
            proof: flags.proof.clone(),
        })
    }
}

/// The requested shard. It requires --rows, since a shard is only useful when merged.
fn shard(flags: &MaskArgs) -> Result<Option<Shard>> {
    let shard = shard::shard(flags.shard.as_deref(), &variable)?;
    let fail = |what: String, hint: &str| Err(Error::usage(what).hint(hint.to_owned()));
    match shard {
        Some(shard) if flags.proof.replay.is_some() => fail(
            format!("--shard cannot be used with --replay: {shard}"),
            "omit --shard",
        ),
        Some(shard) if flags.output.rows.is_none() => fail(
            format!("--shard requires --rows, to merge the shards: {shard}"),
            "name a file with --rows",
        ),
        shard => Ok(shard),
    }
}

/// Rejects flags that have no effect with --prove or --replay, and a seed without --sample or
/// --prove.
fn check_proof(flags: &MaskArgs, engines: &[EngineName]) -> Result<()> {
    if !flags.proof.prove && flags.proof.replay.is_none() {
        if flags.seed != 0 && flags.sample.is_none() {
            return Err(Error::usage(format!(
                "--seed has no effect without --sample or --prove: {}",
                flags.seed
            ))
            .hint("add --sample or --prove, or omit --seed"));
        }
        return Ok(());
    }
    let output = &flags.output;
    let unused = [
        ("--csv-tags", output.csv_tags.is_some()),
        ("--explain", output.explain),
        ("--format csv", output.format == OutputFormat::Csv),
        ("--format html", output.format == OutputFormat::Html),
    ];
    if let Some((flag, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
        return Err(
            Error::usage(format!("unsupported output for proofs: {flag}"))
                .hint("use --format text, --format json or --save PATH.json"),
        );
    }
    if flags.proof.prove && engines.contains(&EngineName::Auto) {
        return Err(Error::usage("--prove does not support the engine auto")
            .hint("name the engines that auto chooses from"));
    }
    Ok(())
}

/// When masks are timed, one core is left to the parent and the system, so that they do not disturb
/// the measurement.
fn default_jobs(left: usize) -> usize {
    thread::available_parallelism().map_or(1, |cores| (cores.get() - left).clamp(1, MAX_JOBS))
}

fn timeout_ms(seconds: f64) -> Result<u64> {
    if seconds.is_finite() && (0.001..=LONGEST_TIMEOUT_S).contains(&seconds) {
        return Ok((seconds * 1e3).round() as u64);
    }
    Err(
        Error::usage(format!("invalid --timeout: {seconds}")).hint(format!(
            "give a positive number of seconds up to {LONGEST_TIMEOUT_S}"
        )),
    )
}

fn memory_limit(mib: u64) -> Result<u64> {
    mib.checked_mul(1 << 20).ok_or_else(|| {
        Error::usage(format!("--memory-limit-mib is too large: {mib}"))
            .hint("give a number of MiB, e.g. 4096")
    })
}
