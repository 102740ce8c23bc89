//! What is going to be measured: plain data. Knows no flags, no files' contents and no child
//! process.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::memory;
use super::record::{CorpusKind, Sample};
use super::row::Spelling;
use sobench_core::error::{Error, Result};
use sobench_core::shard::Shard;
use sobench_engine::vocabulary::VocabularySource;
use sobench_engine::{EngineName, EnginePolicy, Vocabulary};

/// Child processes that a measurement may use at the same time.
pub const MAX_JOBS: usize = 256;

/// Bytes of an instance's text; a longer one is left out of the corpus, with a notice. What our
/// evaluator judges.
pub const MAX_INSTANCE_BYTES: usize = sobench_judge::MAX_ANSWER_BYTES;

/// What a measurement of engines is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaskPlan {
    pub corpora: Vec<CorpusSource>,
    /// Measured one after the other, in this order.
    pub engines: Vec<EngineName>,
    pub policy: EnginePolicy,
    /// The vocabulary that is masked, by the name that [`load_vocabulary`] knows.
    pub tokenizer: String,
    /// The token that ends an answer, where the tokenizer's files do not say.
    pub eos_token: Option<String>,
    /// Child processes at the same time, 1 to [`MAX_JOBS`].
    pub jobs: usize,
    /// For one entry under one engine, our own evaluator's time not counted.
    pub timeout_ms: u64,
    /// For one child process: address space, on Linux; 0 for no limit.
    pub memory_limit_bytes: u64,
    /// How JSON instances are written, without [`Spelling::Verbatim`], which is for those that are
    /// text.
    pub spellings: Vec<Spelling>,
    /// At most so many entries, the first ones.
    pub limit: Option<usize>,
    /// Which of them, at random; `None` for all.
    pub sample: Option<Sample>,
    /// A regular expression; an entry is measured where its name or one of its tags matches.
    pub filter: Option<String>,
    /// Where rows are kept; `None` keeps them in a temporary file.
    pub rows: Option<PathBuf>,
    /// Goes on with the rows file of an interrupted run of the same plan.
    pub resume: bool,
    /// Whether our evaluator takes a string that breaks its `format` for invalid.
    pub assert_formats: bool,
    /// Whether every instance is walked a second time, for durations that are warm.
    pub warm: bool,
    /// Sequences masked at once, a figure for each; may be empty.
    pub batch_sizes: Vec<usize>,
    /// How much is done to prove errors, where that is what is wanted.
    pub prove: Option<Effort>,
    /// Which part of the selected entries; `None` for all of them.
    #[serde(default)]
    pub shard: Option<Shard>,
}

/// How much is done to prove an entry's errors, and from which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effort {
    pub seed: u64,
    /// Masks for one entry under one engine, those of explanations and minimising not counted.
    pub budget: u64,
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
            spellings: Spelling::OF_JSON.to_vec(),
            limit: None,
            sample: None,
            filter: None,
            rows: None,
            resume: false,
            assert_formats: true,
            warm: true,
            batch_sizes: vec![1, 8, 32],
            prove: None,
            shard: None,
        }
    }
}

impl MaskPlan {
    /// Refuses what cannot be measured.
    ///
    /// # Errors
    /// A usage error that names the member at fault.
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
                "no spelling to write JSON in",
                "name one of maskbench, compact, pretty",
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
                "one for each core is a good number",
            );
        }
        if self.is_locked(EngineName::Auto) && self.jobs > 1 {
            let what = format!(
                "--auto-lock needs --jobs 1, since every child process would draw a lock of its own: {}",
                self.jobs
            );
            return fail(&what, "measure with --jobs 1, or leave out --auto-lock");
        }
        if self.is_locked(EngineName::Auto) && self.shard.is_some() {
            return fail(
                "--auto-lock is drawn by the first constraint of a whole corpus, which one shard does not have",
                "leave out --shard or --auto-lock",
            );
        }
        if self.limit == Some(0) {
            return fail(
                "--limit leaves nothing to measure: 0",
                "give a number of entries, or leave it out for all",
            );
        }
        if self.sample.is_some_and(|sample| sample.entries == 0) {
            return fail(
                "--sample leaves nothing to measure: 0",
                "give a number of entries, or leave it out for all",
            );
        }
        if self.timeout_ms == 0 {
            return fail("time limit of nothing: 0", "give each schema some seconds");
        }
        if self.resume && self.rows.is_none() {
            return fail(
                "nothing to resume",
                "name the rows file of the interrupted run with --rows",
            );
        }
        Ok(())
    }

    /// Whether an engine of this plan stays with the choice of its first constraint.
    pub(super) fn is_locked(&self, engine: EngineName) -> bool {
        self.policy.auto_lock && engine == EngineName::Auto && self.engines.contains(&engine)
    }

    /// Address space of one child process, where there is such a limit.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        (memory::HAS_LIMIT && self.memory_limit_bytes > 0).then_some(self.memory_limit_bytes)
    }
}

/// A corpus as the user names it: `shipped`, a path whose layout shows, or `KIND:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorpusSource {
    /// `None` where the files are to show it.
    pub kind: Option<CorpusKind>,
    /// A file or a folder; nothing for what is shipped.
    pub path: PathBuf,
}

impl CorpusSource {
    /// Reads what the user typed.
    pub fn parse(typed: &str) -> Self {
        if typed == CorpusKind::Shipped.name() {
            return Self {
                kind: Some(CorpusKind::Shipped),
                path: typed.into(),
            };
        }
        let forced = typed.split_once(':').and_then(|(name, path)| {
            let kind = CorpusKind::ALL
                .into_iter()
                .find(|kind| kind.name() == name && *kind != CorpusKind::Shipped)?;
            Some(Self {
                kind: Some(kind),
                path: path.into(),
            })
        });
        forced.unwrap_or_else(|| Self {
            kind: None,
            path: typed.into(),
        })
    }
}

/// The command that starts a child process, which then speaks the protocol of [`super::worker`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

impl WorkerCommand {
    /// This very program, with its hidden subcommand `mask-worker`.
    ///
    /// # Errors
    /// The system does not say where the program is.
    pub fn current() -> Result<Self> {
        let program = std::env::current_exe().map_err(|error| {
            Error::environment(format!(
                "cannot find this program to start it again: {error}"
            ))
        })?;
        Ok(Self {
            program,
            arguments: vec!["mask-worker".to_owned()],
        })
    }
}

/// Loads a vocabulary: a name or path that [`VocabularySource::parse`] knows, and the token that
/// ends an answer where its file does not say.
///
/// # Errors
/// A usage error for what cannot be read.
pub fn load_vocabulary(tokenizer: &str, eos_token: Option<&str>) -> Result<Arc<Vocabulary>> {
    VocabularySource::parse(tokenizer)?
        .load_with_eos(eos_token)
        .map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_is_named_by_path_or_by_kind_and_path() {
        for (typed, kind, path) in [
            ("shipped", Some(CorpusKind::Shipped), "shipped"),
            ("shipped:x", None, "shipped:x"),
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
    fn what_cannot_be_measured_is_refused() {
        MaskPlan::default().check().unwrap();
        for (words, spoil) in [
            (
                "no corpus",
                (|plan| plan.corpora.clear()) as fn(&mut MaskPlan),
            ),
            ("no engine", |plan| plan.engines.clear()),
            ("engine named twice: guidance", |plan| {
                plan.engines.push(EngineName::Guidance)
            }),
            ("no spelling", |plan| {
                plan.spellings = vec![Spelling::Verbatim]
            }),
            ("spelling named twice: compact", |plan| {
                plan.spellings.push(Spelling::Compact)
            }),
            ("--auto-lock needs --jobs 1", |plan| {
                plan.engines.push(EngineName::Auto);
                plan.policy.auto_lock = true;
                plan.jobs = 2;
            }),
            ("--auto-lock is drawn by the first constraint", |plan| {
                plan.engines.push(EngineName::Auto);
                plan.policy.auto_lock = true;
                plan.shard = Some(Shard { number: 1, of: 2 });
            }),
            ("jobs not in 1 to 256: 0", |plan| plan.jobs = 0),
            ("--limit leaves nothing to measure: 0", |plan| {
                plan.limit = Some(0)
            }),
            ("--sample leaves nothing", |plan| {
                plan.sample = Some(Sample {
                    entries: 0,
                    seed: 0,
                })
            }),
            ("time limit", |plan| plan.timeout_ms = 0),
            ("nothing to resume", |plan| plan.resume = true),
        ] {
            let mut plan = MaskPlan::default();
            spoil(&mut plan);
            let error = plan.check().unwrap_err();
            assert!(error.what.contains(words), "{error}");
        }
        assert!(load_vocabulary("no/such/file", None).is_err());
    }

    #[test]
    fn a_lock_is_one_process_s_and_no_memory_is_no_limit() {
        let mut plan = MaskPlan {
            jobs: 2,
            ..MaskPlan::default()
        };
        plan.policy.auto_lock = true;
        plan.check().expect("nobody draws a lock without auto");
        plan.engines.push(EngineName::Auto);
        plan.jobs = 1;
        plan.check().unwrap();
        assert!(plan.is_locked(EngineName::Auto) && !plan.is_locked(EngineName::Guidance));
        assert_eq!(plan.memory_limit(), memory::HAS_LIMIT.then_some(8 << 30));
        plan.memory_limit_bytes = 0;
        assert_eq!(plan.memory_limit(), None);
    }
}
