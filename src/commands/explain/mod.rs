//! `sobench explain`: why a request is refused, ignored or slow.

pub mod args;
pub mod cause;
mod cures;
mod explanation;
pub mod failure;
mod files;
mod ignored;
pub mod input;
pub mod json;
mod probe;
mod report;
pub mod target;

use tokio::runtime::Runtime;

use self::args::ExplainArgs;
use self::cause::Target as _;
use self::explanation::{Explanation, REQUIRED, explain};
use self::failure::{Failure, Seen, first_line, time};
use self::input::{Part, Subject};
use self::probe::{Limits, Probe};
use self::target::{ENGINES, EngineServer, asked};
use crate::commands::flags::checks::seconds;
use crate::commands::flags::environment;
use crate::commands::output::CommandOutput;
use crate::commands::preflight::options::{PreflightTarget, TargetPlan};
use crate::commands::preflight::target::Target;
use crate::terminal;
use sobench_backend::ServerKind;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{CHECK_FAILED, INTERRUPTED, SUCCESS, UNDECIDED};
use sobench_engine::EngineName;
use sobench_preflight::runner;
use sobench_preflight::server_label;
use sobench_shutdown::Shutdown;

/// Requests for each keyword that is tempted, on a server and on an embedded engine, whose model
/// writes what is asked for.
const SAMPLES: usize = 4;
const EMBEDDED_SAMPLES: usize = 2;

/// Explains each part of the file on each server.
///
/// # Errors
/// The file is none that can be explained; a server does not answer, or refuses the request without
/// the constraint as well.
pub fn run(flags: &ExplainArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    let subjects = input::read(
        &flags.file,
        flags.case.as_deref(),
        flags.component.as_deref(),
    )?;
    let saved = files::Saved::new(flags)?;
    let slow = seconds("--slow", flags.slow)?;
    let timeout = seconds("--request-timeout", flags.request_timeout)?;
    let limits = Limits {
        max_requests: flags.max_requests.into(),
        slow,
        timeout,
        may_harm: true,
        progress: !flags.target.disable_tqdm,
    };
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    let _listener =
        shutdown.listen(|_| terminal::say("stopping: what was found so far is reported"))?;
    let context = Context {
        flags,
        runtime: &runtime,
        shutdown,
        limits,
    };
    let mut found = match flags.target.base_url.is_empty() {
        true => context.on_engines(&subjects)?,
        false => context.on_servers(&subjects)?,
    };
    if !flags.skip_engines {
        context.ask_engines(&mut found);
    }
    let mut output = CommandOutput {
        stdout: report::printed(flags.format, &found),
        exit_code: exit_code(&found, shutdown),
        ..CommandOutput::default()
    };
    saved.write(&found, &mut output);
    Ok(output)
}

struct Context<'a> {
    flags: &'a ExplainArgs,
    runtime: &'a Runtime,
    shutdown: &'a Shutdown,
    limits: Limits,
}

impl Context<'_> {
    /// The flags of a server: unless another kind is named, of the endpoint that the bodies are for, else
    /// of chat completions.
    fn plan(&self, subjects: &[Subject]) -> Result<TargetPlan> {
        let has = |member: &str| {
            let mut bodies = subjects.iter().filter_map(|subject| subject.body.as_ref());
            bodies.any(|(body, _)| body.contains_key(member))
        };
        let kind = match () {
            () if has("messages") => ServerKind::OpenaiChat,
            () if has("prompt") => ServerKind::Openai,
            () if has("input") => ServerKind::OpenaiResponses,
            () => ServerKind::OpenaiChat,
        };
        let mut target = self.flags.target.clone();
        target.backend = target.backend.or(Some(kind));
        TargetPlan::new(&target, environment::api_key)
    }

    fn on_servers(&self, subjects: &[Subject]) -> Result<Vec<Explanation>> {
        let plan = self.plan(subjects)?;
        let mut found = Vec::new();
        for target in &plan.targets {
            let PreflightTarget::Server { endpoint, .. } = target else {
                continue;
            };
            let limits = Limits {
                may_harm: self.flags.i_own_this_server || endpoint.is_loopback()?,
                ..self.limits
            };
            found.extend(self.on(&plan, target, None, subjects, limits)?);
        }
        Ok(found)
    }

    fn on_engines(&self, subjects: &[Subject]) -> Result<Vec<Explanation>> {
        let plan = self.plan(subjects)?;
        let named = &self.flags.target.guided_decoding_backend;
        let named: Vec<EngineName> = named
            .iter()
            .map(|name| EngineName::parse(name))
            .collect::<Result<_>>()?;
        let engines = if named.is_empty() {
            ENGINES.to_vec()
        } else {
            named
        };
        let mut found = Vec::new();
        for engine in engines {
            for subject in subjects {
                let server = EngineServer::start(engine, self.limits.slow)?;
                let target = server.target(plan.backend.path(plan.stream));
                let one = std::slice::from_ref(subject);
                found.extend(self.on(&plan, &target, Some(server), one, self.limits)?);
            }
        }
        Ok(found)
    }

    fn on(
        &self,
        plan: &TargetPlan,
        target: &PreflightTarget,
        mut engine: Option<EngineServer>,
        subjects: &[Subject],
        limits: Limits,
    ) -> Result<Vec<Explanation>> {
        let is_tools =
            |subject: &&Subject| matches!(subject.part, Part::Tools(_)) && subject.body.is_none();
        if !plan.backend.takes_tools()
            && let Some(subject) = subjects.iter().find(is_tools)
        {
            return Err(Error::usage(format!(
                "{} has tools, which this kind of server does not take: {}",
                subject.name, plan.backend
            ))
            .hint("use --backend openai-chat"));
        }
        let opened = Target::open(plan, target, &asked(self.limits.timeout), self.runtime)?;
        let facts = self.runtime.block_on(runner::facts(&opened.client));
        let product = server_label(&facts, plan.backend);
        let number = facts
            .version
            .as_deref()
            .map(|version| format!(" {version}"));
        let version = product + &number.unwrap_or_default();
        let (label, samples) = match &engine {
            Some(engine) => (engine.engine.name(), EMBEDDED_SAMPLES),
            None => (version.as_str(), SAMPLES),
        };
        let label = label.to_owned();
        let mut found = Vec::new();
        for subject in subjects {
            if plan.progress {
                terminal::say(&format!("explaining {} on {label}", subject.name));
            }
            let context = (self.runtime, self.shutdown);
            let (client, options) = (&opened.client, &opened.options);
            let mut probe = Probe::new(client, options, subject, context, limits, engine.take())?;
            found.push(explain(&mut probe, subject, (&label, &version), samples));
            if self.shutdown.is_requested() {
                break;
            }
        }
        Ok(found)
    }

    /// What the embedded engines say of the smallest part of each cause.
    fn ask_engines(&self, found: &mut [Explanation]) {
        for engine in ENGINES {
            let is_asked = |explanation: &Explanation| {
                explanation.server != engine.name() && !explanation.causes.is_empty()
            };
            if self.shutdown.is_requested() || !found.iter().any(is_asked) {
                continue;
            }
            for explanation in found.iter_mut().filter(|explanation| is_asked(explanation)) {
                for explained in &mut explanation.causes {
                    let said = self.say(engine, &explained.cause.minimal);
                    explained.engines.push((
                        engine.name().to_owned(),
                        said.unwrap_or_else(|error| error.to_string()),
                    ));
                }
            }
        }
    }

    fn say(&self, engine: EngineName, part: &Part) -> Result<String> {
        let mut plan = self.plan(&[])?;
        plan.extra_body = None;
        let server = EngineServer::start(engine, self.limits.slow)?;
        let target = server.target(ServerKind::OpenaiChat.path(plan.stream));
        plan.backend = ServerKind::OpenaiChat;
        let opened = Target::open(&plan, &target, &asked(self.limits.timeout), self.runtime)?;
        let subject = Subject {
            name: String::new(),
            part: part.clone(),
            body: None,
        };
        let context = (self.runtime, self.shutdown);
        let limits = Limits {
            may_harm: false,
            progress: false,
            ..self.limits
        };
        let (client, options) = (&opened.client, &opened.options);
        let mut probe = Probe::new(client, options, &subject, context, limits, Some(server))?;
        probe.tool_choice = REQUIRED;
        Ok(match probe.send(part, true) {
            Ok(Seen::Answered { ms, .. }) => {
                format!("accepts ({})", time((ms - probe.without_ms).max(0.0)))
            }
            Ok(Seen::Failed(Failure::Refused { message, .. })) => {
                format!("refuses: {}", first_line(&message))
            }
            Ok(Seen::Failed(Failure::Hangs { limit_s })) => {
                format!("compiles for over {limit_s} s")
            }
            Ok(Seen::Failed(Failure::Slow { ms, .. })) => format!("takes {}", time(ms)),
            Ok(Seen::Failed(failure)) => failure.to_string(),
            Err(_) => "not asked".to_owned(),
        })
    }
}

fn exit_code(found: &[Explanation], shutdown: &Shutdown) -> u8 {
    let any = |is: fn(&Explanation) -> bool| found.iter().any(is);
    match () {
        () if shutdown.is_requested() => INTERRUPTED,
        () if any(Explanation::is_undecided) => UNDECIDED,
        () if any(Explanation::has_finding) => CHECK_FAILED,
        () => SUCCESS,
    }
}
