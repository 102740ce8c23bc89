//! The settings of a measurement.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drafts::MAX_DRAFT_TOKENS;
use super::record::{CorpusKind, Sample};
use super::row::Spelling;
use sobench_core::error::{Error, Result};
use sobench_core::shard::Shard;
use sobench_engine::vocabulary::VocabularySource;
use sobench_engine::{EngineName, EnginePolicy, Vocabulary};

/// Maximum number of concurrent child processes.
pub const MAX_JOBS: usize = 256;

/// Maximum size of an instance's text in bytes, equal to the limit of the evaluator. Longer
/// instances are skipped with a notice.
pub const MAX_INSTANCE_BYTES: usize = sobench_judge::MAX_ANSWER_BYTES;

/// Settings of `sobench-tools mask`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaskPlan {
    pub corpora: Vec<CorpusSource>,
    /// Measured one after another, in this order.
    pub engines: Vec<EngineName>,
    pub policy: EnginePolicy,
    /// Name or path of the vocabulary, as accepted by [`load_vocabulary`].
    pub tokenizer: String,
    /// The end-of-sequence token, if the tokenizer's files do not name one.
    pub eos_token: Option<String>,
    /// Number of concurrent child processes, 1 to [`MAX_JOBS`].
    pub jobs: usize,
    /// Time limit of one entry under one engine. The evaluator has its own limit of the same
    /// length.
    pub timeout_ms: u64,
    /// Address-space limit of one child process, on Linux; 0 means no limit.
    pub memory_limit_bytes: u64,
    /// Spellings of JSON instances, without [`Spelling::Verbatim`], which is for text instances.
    pub spellings: Vec<Spelling>,
    /// Maximum number of entries, taken from the start of the corpora.
    pub limit: Option<usize>,
    /// Random sample of the entries; `None` for all.
    pub sample: Option<Sample>,
    /// Seed of generated corpora.
    #[serde(default)]
    pub seed: u64,
    /// Regular expression on names and tags of entries.
    pub filter: Option<String>,
    /// The rows file; `None` uses a temporary file.
    pub rows: Option<PathBuf>,
    /// Continues the rows file of an interrupted run of the same plan.
    pub resume: bool,
    /// Whether the evaluator asserts `format`.
    pub assert_formats: bool,
    /// Whether every instance is walked a second time, for warm durations.
    pub warm: bool,
    /// Batch sizes to measure; may be empty.
    pub batch_sizes: Vec<usize>,
    /// Tokens of the drafts along every instance, 1 to [`MAX_DRAFT_TOKENS`]; `None` for no drafts.
    #[serde(default)]
    pub drafts: Option<usize>,
    /// Seed and budget of the proof search; `None` measures instead.
    pub prove: Option<Effort>,
    /// Which shard of the selected entries; `None` for all of them.
    #[serde(default)]
    pub shard: Option<Shard>,
}

/// Seed and budget of the proof search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Effort {
    pub seed: u64,
    /// Masks per entry and engine, excluding those for explanations and shrinking.
    pub budget: u64,
    /// Maximum tokens that are rolled back at once.
    #[serde(
        default = "Effort::default_rollback_tokens",
        skip_serializing_if = "Effort::is_default_rollback"
    )]
    pub rollback_tokens: usize,
}

impl Effort {
    /// The default of [`Effort::rollback_tokens`].
    pub const ROLLBACK_TOKENS: usize = 8;

    fn default_rollback_tokens() -> usize {
        Self::ROLLBACK_TOKENS
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature of serde")]
    fn is_default_rollback(tokens: &usize) -> bool {
        *tokens == Self::ROLLBACK_TOKENS
    }
}

impl Default for MaskPlan {
    fn default() -> Self {
        Self {
            corpora: vec![CorpusSource {
                kind: Some(CorpusKind::Shipped),
                path: "shipped".into(),
            }],
            engines: vec![EngineName::default()],
            policy: EnginePolicy::default(),
            tokenizer: "cl100k_base".to_owned(),
            eos_token: None,
            jobs: 1,
            timeout_ms: 60_000,
            memory_limit_bytes: 8 << 30,
            spellings: Spelling::JSON.to_vec(),
            limit: None,
            sample: None,
            seed: 0,
            filter: None,
            rows: None,
            resume: false,
            assert_formats: true,
            warm: true,
            batch_sizes: vec![1, 8, 32],
            drafts: None,
            prove: None,
            shard: None,
        }
    }
}

impl MaskPlan {
    /// Checks the plan.
    ///
    /// # Errors
    /// A usage error that names the invalid setting.
    pub fn check(&self) -> Result<()> {
        let fail =
            |what: &str, hint: &str| Err(Error::usage(what.to_owned()).hint(hint.to_owned()));
        if self.corpora.is_empty() {
            return fail("no corpus to measure", "name one with --corpus");
        }
        if self.engines.is_empty() {
            return fail("no engine to measure", "name one with --engine");
        }
        if let Some(twice) = self
            .engines
            .iter()
            .enumerate()
            .find(|(place, name)| self.engines[..*place].contains(name))
        {
            return fail(
                &format!("engine named twice: {}", twice.1.name()),
                "name every engine once",
            );
        }
        if self.spellings.is_empty() || self.spellings.contains(&Spelling::Verbatim) {
            return fail(
                "no JSON spelling selected",
                "use one of maskbench, compact, pretty with --spelling",
            );
        }
        if let Some(twice) = self
            .spellings
            .iter()
            .enumerate()
            .find(|(place, name)| self.spellings[..*place].contains(name))
        {
            return fail(
                &format!("spelling named twice: {}", twice.1.name()),
                "name every spelling once",
            );
        }
        if !(1..=MAX_JOBS).contains(&self.jobs) {
            return fail(
                &format!("number of jobs not in 1 to {MAX_JOBS}: {}", self.jobs),
                "use one job per core",
            );
        }
        if self.is_locked(EngineName::Auto) && self.jobs > 1 {
            let what = format!(
                "--auto-lock requires --jobs 1, because each child process would choose its own engine: {}",
                self.jobs
            );
            return fail(&what, "use --jobs 1, or omit --auto-lock");
        }
        if self.is_locked(EngineName::Auto) && self.shard.is_some() {
            return fail(
                "--auto-lock cannot be used with --shard: the first constraint of the whole corpus chooses the engine",
                "omit --shard or --auto-lock",
            );
        }
        if self.limit == Some(0) {
            return fail(
                "--limit leaves nothing to measure: 0",
                "give a positive number of entries, or omit the flag for all",
            );
        }
        if self.sample.is_some_and(|sample| sample.entries == 0) {
            return fail(
                "--sample leaves nothing to measure: 0",
                "give a positive number of entries, or omit the flag for all",
            );
        }
        if self.timeout_ms == 0 {
            return fail(
                "time limit is zero: 0",
                "give --timeout a positive number of seconds",
            );
        }
        let rolled_back = self.prove.map(|effort| effort.rollback_tokens);
        if let Some(tokens) = self.drafts.or(rolled_back)
            && !(1..=MAX_DRAFT_TOKENS).contains(&tokens)
        {
            return fail(
                &format!("--drafts not in 1 to {MAX_DRAFT_TOKENS}: {tokens}"),
                "give the number of tokens that your server drafts, for example 4",
            );
        }
        if self.resume && self.rows.is_none() {
            return fail(
                "--resume without a rows file",
                "name the rows file of the interrupted run with --rows",
            );
        }
        Ok(())
    }

    /// Whether this engine keeps the choice of its first constraint (`--auto-lock`).
    pub(super) fn is_locked(&self, engine: EngineName) -> bool {
        self.policy.auto_lock && engine == EngineName::Auto && self.engines.contains(&engine)
    }

    /// Address-space limit of one child process; `None` if unlimited or unsupported.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        (sobench_process::memory::HAS_LIMIT && self.memory_limit_bytes > 0)
            .then_some(self.memory_limit_bytes)
    }
}

/// A corpus argument: `shipped`, `tags`, `tags:N`, a path, or `KIND:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusSource {
    /// `None` to detect the layout from the files.
    pub kind: Option<CorpusKind>,
    /// A file or a folder; the whole argument for corpora inside the program.
    pub path: PathBuf,
}

impl CorpusSource {
    /// Parses the argument of `--corpus`.
    pub fn parse(typed: &str) -> Self {
        if typed == CorpusKind::Shipped.name() {
            return Self {
                kind: Some(CorpusKind::Shipped),
                path: typed.into(),
            };
        }
        if typed == CorpusKind::Tags.name() {
            return Self {
                kind: Some(CorpusKind::Tags),
                path: typed.into(),
            };
        }
        let forced = typed.split_once(':').and_then(|(name, path)| {
            let kind = CorpusKind::ALL
                .into_iter()
                .find(|kind| kind.name() == name && *kind != CorpusKind::Shipped)?;
            Some(Self {
                kind: Some(kind),
                path: match kind {
                    CorpusKind::Tags => typed.into(),
                    _ => path.into(),
                },
            })
        });
        forced.unwrap_or_else(|| Self {
            kind: None,
            path: typed.into(),
        })
    }
}

/// Loads a vocabulary by a name or path accepted by [`VocabularySource::parse`]. `eos_token` is
/// used if the file names no end-of-sequence token.
///
/// # Errors
/// A usage error for a vocabulary that cannot be read.
pub fn load_vocabulary(tokenizer: &str, eos_token: Option<&str>) -> Result<Arc<Vocabulary>> {
    VocabularySource::parse(tokenizer)?
        .load_with_eos(eos_token)
        .map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_source_parses_path_or_kind_and_path() {
        for (typed, kind, path) in [
            ("shipped", Some(CorpusKind::Shipped), "shipped"),
            ("shipped:x", None, "shipped:x"),
            ("tags", Some(CorpusKind::Tags), "tags"),
            ("tags:100", Some(CorpusKind::Tags), "tags:100"),
            ("jsts:tests/draft7", Some(CorpusKind::Jsts), "tests/draft7"),
            ("maskbench:a:b", Some(CorpusKind::Maskbench), "a:b"),
            ("C:\\corpus", None, "C:\\corpus"),
            ("corpus", None, "corpus"),
        ] {
            assert_eq!(
                CorpusSource::parse(typed),
                CorpusSource {
                    kind,
                    path: path.into()
                },
                "{typed}"
            );
        }
    }

    #[test]
    fn invalid_plans_are_rejected() {
        MaskPlan::default().check().unwrap();
        for (message, spoil) in [
            (
                "no corpus",
                (|plan| plan.corpora.clear()) as fn(&mut MaskPlan),
            ),
            ("no engine", |plan| plan.engines.clear()),
            ("engine named twice: guidance", |plan| {
                plan.engines.push(EngineName::Guidance);
            }),
            ("no JSON spelling", |plan| {
                plan.spellings = vec![Spelling::Verbatim];
            }),
            ("spelling named twice: compact", |plan| {
                plan.spellings.push(Spelling::Compact);
            }),
            ("--auto-lock requires --jobs 1", |plan| {
                plan.engines.push(EngineName::Auto);
                plan.policy.auto_lock = true;
                plan.jobs = 2;
            }),
            ("--auto-lock cannot be used with --shard", |plan| {
                plan.engines.push(EngineName::Auto);
                plan.policy.auto_lock = true;
                plan.shard = Some(Shard { number: 1, of: 2 });
            }),
            ("jobs not in 1 to 256: 0", |plan| plan.jobs = 0),
            ("--limit leaves nothing to measure: 0", |plan| {
                plan.limit = Some(0);
            }),
            ("--sample leaves nothing", |plan| {
                plan.sample = Some(Sample {
                    entries: 0,
                    seed: 0,
                });
            }),
            ("--drafts not in 1 to 64: 0", |plan| plan.drafts = Some(0)),
            ("--drafts not in 1 to 64: 65", |plan| plan.drafts = Some(65)),
            ("time limit is zero", |plan| plan.timeout_ms = 0),
            ("--resume without a rows file", |plan| plan.resume = true),
        ] {
            let mut plan = MaskPlan::default();
            spoil(&mut plan);
            let error = plan.check().unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
        assert!(load_vocabulary("no/such/file", None).is_err());
    }

    #[test]
    fn auto_lock_applies_to_auto_only_and_zero_memory_means_no_limit() {
        let mut plan = MaskPlan {
            jobs: 2,
            ..MaskPlan::default()
        };
        plan.policy.auto_lock = true;
        plan.check().expect("without auto there is no lock");
        plan.engines.push(EngineName::Auto);
        plan.jobs = 1;
        plan.check().unwrap();
        assert!(plan.is_locked(EngineName::Auto) && !plan.is_locked(EngineName::Guidance));
        assert_eq!(
            plan.memory_limit(),
            sobench_process::memory::HAS_LIMIT.then_some(8 << 30)
        );
        plan.memory_limit_bytes = 0;
        assert_eq!(plan.memory_limit(), None);
    }
}
