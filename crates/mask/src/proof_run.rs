//! Proving errors from plan to clusters, and checking witnesses again. Knows the order of things,
//! not how one is done.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::clock::{Stopwatch, wall_clock};
use super::corpus::{self, Corpora, Selected};
use super::plan::{Effort, MaskPlan, WorkerCommand, load_vocabulary};
use super::protocol::{BROKEN, Event, FindingJob, Job};
use super::prove::Proved;
use super::prove::cluster::{Cluster, Gathered, Gathering, keywords, merged};
use super::prove::shrink::Case;
use super::prove::witness::{self, Standing, Witness};
use super::record::MaskRecord;
use super::rows::{Line, Rows, RowsFile};
use super::run::{about, supervisor};
use super::supervise::Supervisor;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_engine::{EngineName, Vocabulary};
use sobench_notices::notice::Notice;
use sobench_shutdown::Shutdown;

/// Findings that are made small, those of the most schemas; the rest is listed without a witness.
const MAX_SHRUNK: usize = 150;

/// Entries that a cluster names.
const MAX_ENTRIES: usize = 5;

/// What was proved of one entry under one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRow {
    /// The entry's place among all entries of all corpora, from 0.
    pub index: usize,
    pub entry: String,
    pub engine: EngineName,
    /// Keyword tags, such as `$ref` or `format:date-time`.
    pub tags: Vec<String>,
    pub kind: String,
    pub proved: Proved,
}

impl Line for ProofRow {
    fn key(&self) -> (EngineName, usize) {
        (self.engine, self.index)
    }
}

/// What a progress bar is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProofEvent {
    /// So many entries are to be worked on, of which so many were before.
    Started {
        entries: usize,
        resumed: usize,
    },
    EntryDone,
    /// Every entry is done, and so many findings are made small.
    Shrinking {
        findings: usize,
    },
    Shrunk,
}

/// A finished or interrupted proof.
#[derive(Clone, Debug)]
pub struct ProofRun {
    pub about: MaskRecord,
    pub effort: Effort,
    /// The most frequent first.
    pub clusters: Vec<Cluster>,
    pub began: SystemTime,
    pub wall_ns: u64,
    /// Of which so much was spent on making findings small.
    pub shrink_ns: u64,
    /// Entries whose rows were there before.
    pub resumed: usize,
    pub interrupted: bool,
    pub notices: Vec<Notice>,
    rows: Rows<ProofRow>,
}

impl ProofRun {
    /// The rows, read from their file one at a time: by engine in the order asked for, then by the
    /// entry's place in the corpora.
    pub fn rows(&self) -> impl Iterator<Item = Result<ProofRow>> + '_ {
        self.rows.iter()
    }

    /// The file that keeps the rows, if the plan names one.
    pub fn rows_path(&self) -> Option<&Path> {
        self.rows.path()
    }
}

/// Carries out a plan; blocks until it is done or a shutdown is requested. Children are started by
/// `command`.
///
/// # Errors
/// As [`super::run`].
pub fn prove(
    plan: &MaskPlan,
    effort: Effort,
    command: &WorkerCommand,
    shutdown: &Shutdown,
    on_event: &dyn Fn(ProofEvent),
) -> Result<ProofRun> {
    plan.check()?;
    let (began, watch) = (wall_clock(), Stopwatch::start());
    let corpora = corpus::load(plan)?;
    let mut ready = Vec::new();
    for engine in &plan.engines {
        let Some(opened) = supervisor(plan, command, shutdown, *engine, Vec::new()).probe()? else {
            return Err(Error::interrupted("stopped before anything was proved"));
        };
        ready.push(opened);
    }
    let about = about(plan, &corpora, &ready);
    let (file, notice) = RowsFile::<ProofRow>::open(plan.rows.as_deref(), plan.resume, &about)?;
    let mut notices = corpora.notices.clone();
    notices.extend(notice);
    let supervisor = proving(plan, command, shutdown);
    let mut proving = Proving {
        plan,
        corpora: &corpora,
        supervisor: &supervisor,
        about: &about,
        on_event,
        file,
    };
    let resumed = proving.entries(effort)?;
    let proved_ns = watch.elapsed_ns();
    let clusters = if shutdown.is_requested() {
        Vec::new()
    } else {
        proving.clusters()?
    };
    let interrupted = shutdown.is_requested();
    let (wall_ns, rows) = (watch.elapsed_ns(), proving.file.rows());
    let shrink_ns = wall_ns - proved_ns;
    Ok(ProofRun {
        about,
        effort,
        clusters,
        began,
        wall_ns,
        shrink_ns,
        resumed,
        interrupted,
        notices,
        rows,
    })
}

fn proving<'a>(
    plan: &MaskPlan,
    command: &'a WorkerCommand,
    shutdown: &'a Shutdown,
) -> Supervisor<'a> {
    supervisor(
        plan,
        command,
        shutdown,
        plan.engines[0],
        plan.engines.clone(),
    )
}

struct Proving<'a> {
    plan: &'a MaskPlan,
    corpora: &'a Corpora,
    supervisor: &'a Supervisor<'a>,
    about: &'a MaskRecord,
    on_event: &'a dyn Fn(ProofEvent),
    file: RowsFile<ProofRow>,
}

impl Proving<'_> {
    /// Proves what is not proved yet; how many entries were.
    fn entries(&mut self, effort: Effort) -> Result<usize> {
        let is_done = |entry: &&Selected| {
            self.plan
                .engines
                .iter()
                .all(|engine| self.file.has(*engine, entry.index))
        };
        let selected = &self.corpora.selected;
        let pending: Vec<&Selected> = selected.iter().filter(|entry| !is_done(entry)).collect();
        let resumed = selected.len() - pending.len();
        (self.on_event)(ProofEvent::Started {
            entries: selected.len(),
            resumed,
        });
        let (file, corpora, on_event) = (&mut self.file, self.corpora, self.on_event);
        self.supervisor
            .prove(&pending, effort, &mut |(index, results)| {
                let Some(entry) = corpora.selected(index) else {
                    return Ok(());
                };
                for (engine, proved) in results {
                    let (entry, tags, kind) = (
                        entry.name.clone(),
                        entry.tags.clone(),
                        entry.kind.to_owned(),
                    );
                    file.append(&ProofRow {
                        index,
                        entry,
                        engine,
                        tags,
                        kind,
                        proved,
                    })?;
                }
                on_event(ProofEvent::EntryDone);
                Ok(())
            })?;
        Ok(resumed)
    }

    /// Gathers all findings, and has one of each kind made small.
    fn clusters(&self) -> Result<Vec<Cluster>> {
        let vocabulary = load_vocabulary(&self.plan.tokenizer, self.plan.eos_token.as_deref())?;
        let mut gathering = Gathering::default();
        for row in self.file.rows().iter() {
            let row = row?;
            let bytes = self
                .corpora
                .selected(row.index)
                .map_or(0, |entry| entry.json.len());
            for finding in row.proved.findings {
                gathering.add(
                    row.engine,
                    row.index,
                    (&row.kind, bytes),
                    finding,
                    &vocabulary,
                );
            }
        }
        let gathered = gathering.sorted();
        let mut cases: BTreeMap<usize, Case> = BTreeMap::new();
        let jobs = self.jobs(&gathered, &cases, Job::Shrink);
        (self.on_event)(ProofEvent::Shrinking {
            findings: jobs.len(),
        });
        self.supervisor.ask(&jobs, &mut |(place, answer)| {
            if let Ok(Event::Shrunk(Some(case))) = answer {
                cases.insert(place, case);
            }
            (self.on_event)(ProofEvent::Shrunk);
            Ok(())
        })?;
        // What could not be made small stands as it was found, if it does when it is checked again.
        self.supervisor
            .ask(
                &self.jobs(&gathered, &cases, Job::Check),
                &mut |(place, answer)| {
                    if answer == Ok(Event::Checked(Standing::Holds)) {
                        cases.extend(self.case(&gathered[place]).map(|case| (place, case)));
                    }
                    Ok(())
                },
            )?;
        let clusters = gathered.iter().enumerate().map(|(place, it)| {
            let cluster = self.cluster(it, cases.remove(&place), &vocabulary);
            (cluster, it.schemas.clone())
        });
        Ok(merged(clusters.collect()))
    }

    /// Jobs about the findings that are made small, without those that are known, by their places.
    fn jobs(
        &self,
        gathered: &[Gathered],
        known: &BTreeMap<usize, Case>,
        job: fn(Box<FindingJob>) -> Job,
    ) -> Vec<(usize, Job)> {
        let open = gathered
            .iter()
            .take(MAX_SHRUNK)
            .enumerate()
            .filter(|(place, _)| !known.contains_key(place));
        let jobs = open.filter_map(|(place, it)| {
            Some((
                place,
                job(Box::new(FindingJob {
                    engine: it.key.engine,
                    case: self.case(it)?,
                })),
            ))
        });
        jobs.collect()
    }

    /// The smallest finding as it was found.
    fn case(&self, gathered: &Gathered) -> Option<Case> {
        let (index, finding) = gathered.best.clone();
        Some(Case {
            constraint: constraint_of(self.corpora.selected(index)?)?,
            finding,
        })
    }

    fn cluster(&self, gathered: &Gathered, case: Option<Case>, vocabulary: &Vocabulary) -> Cluster {
        let (engine, schemas) = (gathered.key.engine, gathered.schemas.len() as u64);
        let best = self.corpora.selected(gathered.best.0);
        let keywords = match (&case, best.and_then(constraint_of)) {
            (Some(case), _) => keywords(&case.constraint),
            (None, Some(constraint)) => vec![constraint.kind().to_owned()],
            (None, None) => Vec::new(),
        };
        let entry = best.map(|entry| entry.name.clone());
        let named = gathered
            .schemas
            .iter()
            .filter_map(|index| Some(self.corpora.selected(*index)?.name.clone()));
        let mut entries: Vec<String> = named.take(MAX_ENTRIES).collect();
        if entries.is_empty() {
            entries.extend(entry.clone());
        }
        let finding = case.as_ref().map(|case| &case.finding);
        let place = gathered.key.place(finding, vocabulary);
        let proof = finding.unwrap_or(&gathered.best.1).proof;
        let version = self
            .about
            .engines
            .iter()
            .find(|it| it.engine == engine)
            .map(|it| it.version.clone());
        let text =
            |tokens: &[u32]| String::from_utf8_lossy(&vocabulary.decode(tokens)).into_owned();
        let witness = case.map(
            |Case {
                 constraint,
                 finding,
             }| Witness {
                sobench_witness: witness::VERSION,
                engine,
                found_with: version.unwrap_or_default(),
                policy: self.plan.policy.clone(),
                tokenizer: self.plan.tokenizer.clone(),
                eos_token: self.plan.eos_token.clone(),
                schemas,
                entry: entry.unwrap_or_default(),
                why: finding.why(),
                constraint,
                prefix_text: text(&finding.prefix),
                token_text: finding.token.map(|token| text(&[token])),
                finding,
            },
        );
        Cluster {
            engine,
            proof,
            schemas,
            keywords,
            place,
            witness,
            entries,
        }
    }
}

fn constraint_of(entry: &Selected) -> Option<Constraint> {
    #[derive(Deserialize)]
    struct Bare {
        constraint: Constraint,
    }
    serde_json::from_str::<Bare>(&entry.json)
        .ok()
        .map(|it| it.constraint)
}

/// Checks witnesses again, in the order given; those that were reached if a shutdown was requested.
/// Each is checked with the engine, the policy and the vocabulary that it names.
///
/// # Errors
/// Children that cannot be started, or engines that cannot be opened.
pub fn replay(
    witnesses: &[Witness],
    plan: &MaskPlan,
    command: &WorkerCommand,
    shutdown: &Shutdown,
) -> Result<Vec<Option<Standing>>> {
    let mut standings: Vec<Option<Standing>> = vec![None; witnesses.len()];
    let mut left: Vec<usize> = (0..witnesses.len()).collect();
    while let Some(first) = left.first().map(|place| &witnesses[*place]) {
        let is_alike = |it: &Witness| {
            (it.engine, &it.policy, &it.tokenizer, &it.eos_token)
                == (
                    first.engine,
                    &first.policy,
                    &first.tokenizer,
                    &first.eos_token,
                )
        };
        let (alike, others): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|place| is_alike(&witnesses[**place]));
        let plan = MaskPlan {
            engines: vec![first.engine],
            policy: first.policy.clone(),
            tokenizer: first.tokenizer.clone(),
            eos_token: first.eos_token.clone(),
            ..plan.clone()
        };
        let supervisor = proving(&plan, command, shutdown);
        let jobs: Vec<(usize, Job)> = alike
            .into_iter()
            .map(|place| (place, check_job(&witnesses[place])))
            .collect();
        supervisor.ask(&jobs, &mut |(place, answer)| {
            let standing = match answer {
                Ok(Event::Checked(standing)) => standing,
                Ok(_) => Standing::Unknown {
                    why: BROKEN.to_owned(),
                },
                Err(why) => Standing::Unknown { why },
            };
            standings[place] = Some(standing);
            Ok(())
        })?;
        left = others;
    }
    Ok(standings)
}

fn check_job(witness: &Witness) -> Job {
    let case = Case {
        constraint: witness.constraint.clone(),
        finding: witness.finding.clone(),
    };
    Job::Check(Box::new(FindingJob {
        engine: witness.engine,
        case,
    }))
}
