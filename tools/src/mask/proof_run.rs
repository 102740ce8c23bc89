//! Runs a proof search from plan to clusters, and replays witnesses.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::clock::{Stopwatch, wall_clock};
use super::corpus::{self, Corpora, Selected};
use super::plan::{Effort, MaskPlan, load_vocabulary};
use super::protocol::{BROKEN, Event, FindingJob, Job};
use super::prove::Proved;
use super::prove::cluster::{
    Cluster, FindingGroup, FindingGroups, constraint_keywords, merge_clusters,
};
use super::prove::finding::Proof;
use super::prove::shrink::FindingCase;
use super::prove::witness::{self, Witness, WitnessStatus};
use super::record::MaskRecord;
use super::rows::{KeyedRow, Rows, RowsFile};
use super::run::{mask_record, supervisor};
use super::supervise::Supervisor;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_engine::{EngineName, Vocabulary};
use sobench_notices::notice::Notice;
use sobench_process::child::WorkerCommand;
use sobench_shutdown::Shutdown;

/// Number of findings that are shrunk, those of the most schemas first. Other findings are listed
/// without a witness.
const MAX_SHRUNK: usize = 150;

/// Number of entries named in a cluster.
const MAX_ENTRIES: usize = 5;

/// Proof results of one entry under one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProofRow {
    /// Index of the entry among all entries of all corpora, from 0.
    pub index: usize,
    pub entry: String,
    pub engine: EngineName,
    /// Keyword tags, such as `$ref` or `format:date-time`.
    pub tags: Vec<String>,
    pub kind: String,
    pub proved: Proved,
}

impl KeyedRow for ProofRow {
    fn key(&self) -> (EngineName, usize) {
        (self.engine, self.index)
    }
}

/// Progress events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProofEvent {
    /// Total entries, and entries resumed from the file.
    Started {
        entries: usize,
        resumed: usize,
    },
    EntryDone,
    /// Every entry is done; the findings are shrunk next.
    Shrinking {
        findings: usize,
    },
    Shrunk,
}

/// A finished or interrupted proof search.
#[derive(Clone, Debug)]
pub struct ProofRun {
    pub record: MaskRecord,
    pub effort: Effort,
    /// The most frequent first.
    pub clusters: Vec<Cluster>,
    pub started_at: SystemTime,
    pub wall_ns: u64,
    /// The part of `wall_ns` spent on shrinking findings.
    pub shrink_ns: u64,
    /// Entries resumed from the rows file.
    pub resumed: usize,
    pub interrupted: bool,
    pub notices: Vec<Notice>,
    rows: Rows<ProofRow>,
}

impl ProofRun {
    /// The rows, read from their file one at a time, ordered by engine in the requested order, then
    /// by entry.
    pub fn rows(&self) -> impl Iterator<Item = Result<ProofRow>> + '_ {
        self.rows.iter()
    }

    /// The rows file, if the plan names one.
    pub fn rows_path(&self) -> Option<&Path> {
        self.rows.path()
    }
}

/// Runs a proof search; blocks until it is done or a shutdown is requested. `command` starts child
/// processes.
///
/// # Errors
/// As `run`.
pub fn prove(
    plan: &MaskPlan,
    effort: Effort,
    command: &WorkerCommand,
    shutdown: &Shutdown,
    on_event: &dyn Fn(ProofEvent),
) -> Result<ProofRun> {
    plan.check()?;
    let (started_at, watch) = (wall_clock(), Stopwatch::start());
    let corpora = corpus::load(plan)?;
    let mut ready = Vec::new();
    for engine in &plan.engines {
        let Some(opened) = supervisor(plan, command, shutdown, *engine, Vec::new()).probe()? else {
            return Err(Error::interrupted(
                "interrupted before the first entry was searched",
            ));
        };
        ready.push(opened);
    }
    let record = mask_record(plan, &corpora, &ready);
    let (file, notice) = RowsFile::<ProofRow>::open(plan.rows.as_deref(), plan.resume, &record)?;
    let mut notices = corpora.notices.clone();
    notices.extend(notice);
    let supervisor = proof_supervisor(plan, command, shutdown);
    let mut runner = ProofRunner {
        plan,
        corpora: &corpora,
        supervisor: &supervisor,
        record: &record,
        on_event,
        file,
    };
    let resumed = runner.search_entries(effort)?;
    let proved_ns = watch.elapsed_ns();
    let clusters = if shutdown.is_requested() {
        Vec::new()
    } else {
        runner.build_clusters()?
    };
    let interrupted = shutdown.is_requested();
    let (wall_ns, rows) = (watch.elapsed_ns(), runner.file.rows());
    let shrink_ns = wall_ns - proved_ns;
    Ok(ProofRun {
        record,
        effort,
        clusters,
        started_at,
        wall_ns,
        shrink_ns,
        resumed,
        interrupted,
        notices,
        rows,
    })
}

fn proof_supervisor<'a>(
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

struct ProofRunner<'a> {
    plan: &'a MaskPlan,
    corpora: &'a Corpora,
    supervisor: &'a Supervisor<'a>,
    record: &'a MaskRecord,
    on_event: &'a dyn Fn(ProofEvent),
    file: RowsFile<ProofRow>,
}

impl ProofRunner<'_> {
    /// Searches the remaining entries; returns the number of resumed entries.
    fn search_entries(&mut self, effort: Effort) -> Result<usize> {
        let is_done = |entry: &&Selected| {
            self.plan
                .engines
                .iter()
                .all(|engine| self.file.contains_row(*engine, entry.index))
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

    /// Groups all findings and shrinks one of each group.
    fn build_clusters(&self) -> Result<Vec<Cluster>> {
        let vocabulary = load_vocabulary(&self.plan.tokenizer, self.plan.eos_token.as_deref())?;
        let mut groups = FindingGroups::default();
        for row in self.file.rows().iter() {
            let row = row?;
            let bytes = self
                .corpora
                .selected(row.index)
                .map_or(0, |entry| entry.json.len());
            for finding in row.proved.findings {
                groups.add(
                    row.engine,
                    row.index,
                    (&row.kind, bytes),
                    finding,
                    &vocabulary,
                );
            }
        }
        let groups = groups.sorted();
        let mut cases: BTreeMap<usize, FindingCase> = BTreeMap::new();
        let jobs = self.jobs(&groups, &cases, Job::Shrink);
        (self.on_event)(ProofEvent::Shrinking {
            findings: jobs.len(),
        });
        self.supervisor.run_jobs(&jobs, &mut |(place, answer)| {
            if let Ok(Event::Shrunk(Some(case))) = answer {
                cases.insert(place, case);
            }
            (self.on_event)(ProofEvent::Shrunk);
            Ok(())
        })?;
        // A finding that could not be shrunk is kept unchanged if it reproduces.
        self.supervisor
            .run_jobs(
                &self.jobs(&groups, &cases, Job::Check),
                &mut |(place, answer)| {
                    if answer == Ok(Event::Checked(WitnessStatus::Holds)) {
                        cases.extend(self.case(&groups[place]).map(|case| (place, case)));
                    }
                    Ok(())
                },
            )?;
        let clusters = groups.iter().enumerate().map(|(place, group)| {
            let cluster = self.build_cluster(group, cases.remove(&place), &vocabulary);
            (cluster, group.schemas.clone())
        });
        Ok(merge_clusters(clusters.collect()))
    }

    /// Jobs for the findings to shrink, with their indexes, except those in `known`.
    fn jobs(
        &self,
        groups: &[FindingGroup],
        known: &BTreeMap<usize, FindingCase>,
        job: fn(Box<FindingJob>) -> Job,
    ) -> Vec<(usize, Job)> {
        let open = groups
            .iter()
            .take(MAX_SHRUNK)
            .enumerate()
            .filter(|(place, _)| !known.contains_key(place));
        let jobs = open.filter_map(|(place, group)| {
            Some((
                place,
                job(Box::new(FindingJob {
                    engine: group.key.engine,
                    case: self.case(group)?,
                })),
            ))
        });
        jobs.collect()
    }

    /// The smallest finding of a group, unshrunk.
    fn case(&self, group: &FindingGroup) -> Option<FindingCase> {
        let (index, finding) = group.smallest.clone();
        Some(FindingCase {
            constraint: constraint_of(self.corpora.selected(index)?)?,
            finding,
        })
    }

    fn build_cluster(
        &self,
        group: &FindingGroup,
        case: Option<FindingCase>,
        vocabulary: &Vocabulary,
    ) -> Cluster {
        let (engine, schemas) = (group.key.engine, group.schemas.len() as u64);
        let best = self.corpora.selected(group.smallest.0);
        let keywords = match (&case, best.and_then(constraint_of)) {
            (Some(case), _) => constraint_keywords(&case.constraint),
            (None, Some(constraint)) => vec![constraint.kind().to_owned()],
            (None, None) => Vec::new(),
        };
        let entry = best.map(|entry| entry.name.clone());
        let named = group
            .schemas
            .iter()
            .filter_map(|index| Some(self.corpora.selected(*index)?.name.clone()));
        let mut entries: Vec<String> = named.take(MAX_ENTRIES).collect();
        if entries.is_empty() {
            entries.extend(entry.clone());
        }
        let finding = case.as_ref().map(|case| &case.finding);
        let place = group.key.place(finding, vocabulary);
        let proof = finding.unwrap_or(&group.smallest.1).proof;
        let version = self
            .record
            .engines
            .iter()
            .find(|measured| measured.engine == engine)
            .map(|measured| measured.version.clone());
        let text =
            |tokens: &[u32]| String::from_utf8_lossy(&vocabulary.decode(tokens)).into_owned();
        let witness = case.map(
            |FindingCase {
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
                why: finding.summary(),
                constraint,
                prefix_text: text(&finding.prefix),
                token_text: finding.token.map(|token| match finding.proof {
                    Proof::Rollback => text(&finding.rolled_back()),
                    _ => text(&[token]),
                }),
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
        .map(|bare| bare.constraint)
}

/// Replays witnesses in order; returns `None` for those not reached before a shutdown request. Each
/// witness is checked with the engine, policy and vocabulary that it names.
///
/// # Errors
/// A child process cannot be started, or an engine cannot be opened.
pub fn replay(
    witnesses: &[Witness],
    plan: &MaskPlan,
    command: &WorkerCommand,
    shutdown: &Shutdown,
) -> Result<Vec<Option<WitnessStatus>>> {
    let mut statuses: Vec<Option<WitnessStatus>> = vec![None; witnesses.len()];
    let mut left: Vec<usize> = (0..witnesses.len()).collect();
    while let Some(first) = left.first().map(|place| &witnesses[*place]) {
        let has_same_engine = |witness: &Witness| {
            (
                witness.engine,
                &witness.policy,
                &witness.tokenizer,
                &witness.eos_token,
            ) == (
                first.engine,
                &first.policy,
                &first.tokenizer,
                &first.eos_token,
            )
        };
        let (selected, others): (Vec<usize>, Vec<usize>) = left
            .iter()
            .partition(|place| has_same_engine(&witnesses[**place]));
        let plan = MaskPlan {
            engines: vec![first.engine],
            policy: first.policy.clone(),
            tokenizer: first.tokenizer.clone(),
            eos_token: first.eos_token.clone(),
            ..plan.clone()
        };
        let supervisor = proof_supervisor(&plan, command, shutdown);
        let jobs: Vec<(usize, Job)> = selected
            .into_iter()
            .map(|place| (place, check_job(&witnesses[place])))
            .collect();
        supervisor.run_jobs(&jobs, &mut |(place, answer)| {
            let status = match answer {
                Ok(Event::Checked(status)) => status,
                Ok(_) => WitnessStatus::Unknown {
                    why: BROKEN.to_owned(),
                },
                Err(why) => WitnessStatus::Unknown { why },
            };
            statuses[place] = Some(status);
            Ok(())
        })?;
        left = others;
    }
    Ok(statuses)
}

fn check_job(witness: &Witness) -> Job {
    let case = FindingCase {
        constraint: witness.constraint.clone(),
        finding: witness.finding.clone(),
    };
    Job::Check(Box::new(FindingJob {
        engine: witness.engine,
        case,
    }))
}
