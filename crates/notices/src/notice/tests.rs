//! Tests the sentence and the JSON round trip of every notice.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::*;
use crate::enforcement::{Class, ProbeKind};
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::constraint::{ConstraintKind, GrammarDialect};
use sobench_core::server_sample::ScrapeFault;
use sobench_core::verdict::NotScored;

/// An example of every variant. The match makes a missing variant a compile error.
macro_rules! examples {
    ($area:ident: $($variant:ident { $($fields:tt)* }),* $(,)?) => {{
        let _ = |notice: &$area| match notice { $($area::$variant { .. } => ()),* };
        vec![$(Notice::from($area::$variant { $($fields)* })),*]
    }};
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn examples_bench() -> Vec<Notice> {
    examples!(BenchNotice:
        FlagWithoutEffect { flag: text("best-of"), why: text("every request asks for one answer") },
        IgnoreEosWithConstraints {},
        ShippedPrompt {},
        EndpointUnlikeBackend { endpoint: text("/v1/completions"), backend: ServerKind::OpenaiChat },
        IgnoreEosByDataset { dataset: text("random") },
        ChatTemplateKwargsUnused { dataset: text("json") },
        ResultFlagsUnused {},
        SyntheticModel { embedded: true },
        PlantedKnowledge { free: 0.2, prompt: 0.5, constrained: 0.6, correlation: 0.5 },
        EngineDeclared { engine: text("xgrammar") },
        DialectIgnored { server: "vLLM 0.12".to_owned(), dialect: ConstraintDialect::Guided },
        MaxTokensSent { reason: MaxTokensReason::Known { server: text("Ollama") } },
        LoraModules { modules: texts(&["a", "b"]), at_random: true },
        ColdSchemas { requests: 12, every: 5 },
        UnusableConstraints { requests: 2, first_request: text("custom-3"), why: NotScored::Unsupported { what: text("a keyword") } },
        OpenFileLimit { open_files: 1024, requests: 2000 },
        LocalPortLimit { ports: 28232, requests: 30000 },
        FirstUse { cold_ttft_ms: 31.0, warm_ttft_ms: 4.256 },
        ConcurrentRuns { others: texts(&["xgrammar", "outlines"]), apart_us: 250 },
        ModelMismatch { answered: text("small"), requested: text("large") },
        TrialRefused { request: text("json-0"), reason: text("HTTP 500: engine died") },
        TrialFailed { requests: 3, request: text("json-0"), reason: text("HTTP 500: engine died"), advice: text("check the log of the server") },
        ConstraintRefused {
            request: text("json-0"),
            status: 400,
            message: text("Unimplemented keys: [\"multipleOf\"]"),
            keyword: Some(text("multipleOf")),
            part: Some(RefusedPart {
                tool: Some(text("crawl")),
                keyword: Some((text("maxLength"), text("10000"))),
                accepted: Some(1999),
                path: text("options/prompt"),
            }),
            answers_without: true,
        },
        ProfilerRefused { path: text("/start_profile"), why: text("404 Not Found") },
        NotRecovered { error: text("no answer within 30 s") },
        SlowerAfterCancellation { latency: text("TTFT"), before_ms: 11.25, after_ms: 30.0, factor: 1.5, by_ms: 10.0 },
        WarmupsFailed { failed: 1, sent: 4 },
        RunLogBehind { waiting_mib: 80 },
        NoRunLog { why: text("there is no cache folder") },
        ClockDriftUnknown {},
        ReceiveStampsRefused { count: 7 },
        ServerMetricsUnreadable { page: text("http://127.0.0.1:8000/metrics"), fault: ScrapeFault::TimedOut(2000), failed: 2, scrapes: 40 },
        ServerMetricMissing { name: text("vllm:num_request_running"), page: text("http://127.0.0.1:8000/metrics") },
        DurationEnded { after_s: 10.0, requests: 40, prepared: 100 },
        DurationEndedAfterLaps { after_s: 1.5, requests: 250, prepared: 100, unique_schemas: true },
    )
}

fn examples_preflight() -> Vec<Notice> {
    let finding = |class| ConstraintFinding {
        constraint: text("grammar (ebnf)"),
        dialect: Some(ConstraintDialect::Guided),
        class,
        reason: text("none of the choices"),
        answer: Some(text("Here you go")),
    };
    examples!(PreflightNotice:
        EnforcementUnknown { why: text("the server is gone") },
        DialectChanged {
            chosen: ConstraintDialect::StructuredOutputs,
            expected: ConstraintDialect::Guided,
            not_enforced: vec![
                KindClass { constraint: text("json"), class: Class::Ignored },
                KindClass { constraint: text("regex"), class: Class::WrongWrapper },
            ],
        },
        NotEnforced { 0: finding(Class::Ignored) },
        NotProved { 0: ConstraintFinding { constraint: text("tool call, required"), dialect: None, answer: None, ..finding(Class::Unproven) } },
        Failed { 0: finding(Class::Broken) },
        EnforcedElsewhere {
            constraints: vec![ProbeKind::JSON_SCHEMA, ProbeKind::Text(ConstraintKind::Choice)],
            backend: ServerKind::OpenaiChat,
            path: text("/v1/chat/completions"),
            dialect: ConstraintDialect::StructuredOutputs,
        },
        Enforced { requests: 5, constraints: vec![ProbeKind::JSON_SCHEMA, ProbeKind::Text(ConstraintKind::Regex)], dialect: Some(ConstraintDialect::Guided) },
        ToolsDropped { tokens: 37 },
        ToolCallsDiffer { rows: texts(&["required (enforced, leaked)"]) },
        ThinkingSuppressed { constraint: text("json"), dialect: ConstraintDialect::StructuredOutputs },
        SpellingUnknown { outcome: text("truncated") },
        ControlFailed { why: text("500 Internal Server Error") },
        ServerGone { last_request: text("json in guided") },
        WhiteSpaceRunaway { constraint: text("json"), dialect: ConstraintDialect::StructuredOutputs },
        EngineFixedByPreflight { constraint: text("json"), dialect: ConstraintDialect::StructuredOutputs },
        EngineFixedByProbe {},
    )
}

fn examples_dataset() -> Vec<Notice> {
    let notes = || texts(&["left out priorities (line 2)", "renamed A_B to a-b"]);
    examples!(DatasetNotice:
        CachedCopy { hub: text("https://huggingface.co"), repository: text("owner/name"), commit: text("0123456789ab") },
        RepeatedMembers { objects: 2, first: text("rows.jsonl, line 7: a") },
        GrammarRespelt { notes: notes() },
        AlternativesJoined { grammars: 2 },
        GrammarNotConverted { name: text("g.lark"), notation: GrammarDialect::Lark, expected: GrammarDialect::Ebnf },
        GrammarConverted {
            name: text("g.lark"),
            notation: GrammarDialect::Lark,
            converted_to: GrammarDialect::Ebnf,
            notes: notes(),
        },
        RowGrammarsConverted {
            converted_to: GrammarDialect::Ebnf,
            rows: 2,
            first: ConvertedRow { name: text("line 3 of rows.jsonl"), notation: GrammarDialect::Lark, notes: Vec::new() },
        },
        RowGrammarsNotConverted {
            expected: GrammarDialect::Ebnf,
            rows: 1,
            first_row: text("line 4 of rows.jsonl"),
            why: text("line 1: look-around"),
        },
        ImagesNotSent { prompts: 3 },
        GeneratedSound { clip_s: 2.5 },
        CategoryWithoutAnswers { category: text("simple") },
        RowsWithoutFunctions { rows: 4, category: text("live_irrelevance") },
        RowsLeftOut { rows: 3, lengths: text("shorter than 4 tokens") },
        ReferencesUnreadable { rows: 2, first: text("rows.jsonl, line 1: not JSON") },
        ReferencesBreakSchemas { rows: 1, first: text("rows.jsonl, line 3: /a: not of type integer") },
        RowsUnreadable { rows: 1, first: text("rows.jsonl, line 1: EOF") },
        PromptLengths { excess_tokens: -3 },
        FewerPrompts { prompts: 9, wanted: 11, prefixes: 3 },
        NoChatTemplate {},
        LoggedRequestsDrawn { logged: 8, prompts: 12 },
        TemplateDate { date: text("2024-07-26") },
        FewerRows { rows: 4, prompts: 10 },
        RowsCycled { rows: 4, prompts: 10 },
        RowsDrawnAgain { rows: 4, prompts: 10 },
        PartsNotSent { what: text("the column tools") },
        TimesUnused {},
        RequestsSkipped { rows: 2, reason: text("the prompt is not in the log") },
        RequestsNotJudged { rows: 3, reason: text("tools beside response_format") },
        PartOfMix { dataset: text("sharegpt"), notice: Box::new(DatasetNotice::RowsDrawnAgain { rows: 4, prompts: 10 }.into()) },
    )
}

fn examples_log() -> Vec<Notice> {
    let address = |shard: usize| ShardValue {
        shard,
        value: format!("http://10.0.0.{shard}"),
    };
    examples!(LogNotice:
        TruncatedLastLine { file: text("run.jsonl") },
        TokensNotCounted { why: text("no tokenizer in: folder") },
        Interrupted {},
        GaveUp { why: text("5 requests in a row failed") },
        GaveUpAfterLastRequest { why: text("5 requests in a row failed") },
        Killed { ended: 3, prepared: 10 },
        OneShard { shard: 1, shards: 2, requests: 5, all_requests: 10 },
        ShardKilled { shard: 2, ended: 3, prepared: 5 },
        ShardAddresses { addresses: vec![address(1), address(2)] },
        ShardsStartedApart { last_shard: 2, after_s: 1.25 },
        ShardClocks { within_ms: 0.125, shard: 2, drift_unknown: vec![2, 3] },
        ShardsMissing { shards: vec![2, 4], requests: 5, all_requests: 10 },
        ShardClocksNotMeasured {},
        Shard { shard: 2, notice: Box::new(BenchNotice::WarmupsFailed { failed: 1, sent: 4 }.into()) },
        EndedEarly {},
        DatasetIgnored { dataset: text("json") },
    )
}

fn loss(by: LossVariable) -> LossSplit {
    let answers = |valid, answers| ValidAnswers { valid, answers };
    LossSplit {
        by,
        up_to: 8.0,
        from: 9.5,
        request: (by == LossVariable::Time).then(|| text("json-4")),
        before: answers(4, 4),
        after: answers(0, 6),
    }
}

fn examples_figures() -> Vec<Notice> {
    let span = |to_s| OutageSpan {
        from_s: 1.0,
        to_s,
        requests: 4,
    };
    let breach = |reason: &str| BreachCount {
        reason: text(reason),
        answers: 2,
        first_request: text("json-3"),
    };
    let rise = |latency| LatencyChange {
        latency: text(latency),
        from_ms: 10.0,
        to_ms: 41.26,
        step_at: None,
    };
    let step = LatencyChange {
        step_at: Some(text("json-3")),
        ..rise("TPOT")
    };
    let modes = LatencyModes {
        latency: text("TTFT, constrained"),
        answers: 60,
        low_percent: 50.0,
        low_ms: 20.06,
        high_ms: 201.0,
    };
    let name_change = NameChange {
        of: NameKind::SystemFingerprint,
        request: text("json-31"),
        names: [("a", 48), ("b", 12)]
            .map(|(name, answers)| NameCount {
                name: text(name),
                answers,
            })
            .into(),
        others: 0,
        is_mixed: false,
        answers: 60,
    };
    examples!(FigureNotice:
        RoundedItl { gaps: 2_000_000, within_percent: 0.1 },
        ServerRestarted { times: 2 },
        ServerMemoryGrows { mib: 1.0, low_mib: 0.98, high_mib: 1.02, constraints: 300 },
        Outages { spans: vec![span(Some(2.5)), span(None)], more: 2 },
        NotJudged { requests: 1 },
        OutputTokensUnknown { answers: 2 },
        EmptyAnswers { answers: 3 },
        SingleChunkAnswers { answers: 4 },
        MultiTokenChunks { answers: 5 },
        UnstreamedAnswers { answers: 6 },
        UnsentRequests { requests: 7 },
        ImplausibleUsage { answers: 8 },
        TokenLimitIgnored { field: text("max_completion_tokens"), answers: 3, tokens: 40, limit: 16 },
        ComputedAnswers {},
        NotStreamed {},
        Goodput { ttft_ms: Some(200.0), tpot_ms: Some(12.5), e2el_ms: None, valid: true },
        Throttled { requests: 3, longest_pause_s: Some(30), pauses_named: 2 },
        NoConnection { requests: 3, why: text("too many open files") },
        NoEffect { broken: 1, answers: 10, control_broken: 2, controls: 10, seen_enforced: false },
        EngineFixedByRun { request: text("json-0"), engine: text("xgrammar"), why: text("xgrammar is the first choice") },
        BrokenConstraints { broken: 4, answers: 10, seen_enforced: true, reasons: vec![breach("schema"), breach("not_json")] },
        ConstraintsLost { explanations: vec![loss(LossVariable::Time)] },
        PromptsWithoutTools { requests: 9, input_tokens: 21, tool_bytes: 1800 },
        ControlsCut { controls: 20 },
        Drift { changes: vec![rise("TTFT"), step] },
        TwoModes { latencies: vec![modes] },
        ServerNameChanged { change: name_change },
        Bursts { together_percent: 87.5, interval_ms: 500.0 },
        WhiteSpaceAnswers { answers: 1, truncated: 2 },
        BufferedCalls { buffered: 18, answers: 20, window_ms: 100, silence_s: 1.9, control_buffered: 0, controls: 7 },
    )
}

fn examples_matrix() -> Vec<Notice> {
    let (contender, dataset, arm) = (|| text("xgrammar"), || text("json"), || text("constrained"));
    examples!(MatrixNotice:
        RunNotEnforced { contender: contender(), dataset: dataset(), arm: arm(), load: text("cap 4") },
        ClientOverhead {
            runs: 1,
            all_runs: 4,
            contender: contender(),
            dataset: dataset(),
            arm: arm(),
            why: text("TTFT p99: client may have added up to 3.2 of 20.1 ms"),
        },
        SharedHost { host: text("10.0.0.1") },
        FewCores { cores: 2 },
        SyntheticModels {},
        ControlFirstMoreOften {},
        ColdTtftUnknown {},
        ColdTtftUnknownOfOwnServers {},
        OneTokenAnswers {},
        NoObjectives {},
        RunsLeftOut { contender: contender(), dataset: dataset(), runs: 59 },
        RunFailed { contender: contender(), dataset: dataset(), why: text("no server") },
    )
}

fn examples_mask() -> Vec<Notice> {
    let (engine, file) = (|| text("xgrammar"), || text("rows.jsonl"));
    examples!(MaskNotice:
        MeasurementStopped {},
        OneShardOfEntries { shard: 1, shards: 2 },
        EngineSelectedAgain { engine: engine(), processes: 3, resumed: true },
        NoBatchInstance { engine: engine(), min_tokens: 16 },
        BatchFailed { engine: engine(), sequences: 8, why: text("out of memory") },
        NoRowsFile { file: file() },
        TruncatedRow { file: file() },
        TruncatedRowSkipped { file: file() },
        RowsMissing { shard: 2, shards: 3, rows: 10, planned: 12 },
        DifferentProcessors { processors: vec![ShardValue { shard: 1, value: text("A") }, ShardValue { shard: 2, value: text("B") }] },
        SchemasMissing { engine: engine(), rows: 1200, schemas: 12_345 },
        EvaluatorStopped { engine: engine(), schemas: 3 },
        NoCommonSchema { passing_none: vec![engine()] },
        OneEngine {},
        NoJsonInstance {},
        TextInstances {},
        TagsLeftOut { rows: 1000 },
    )
}

fn examples_corpora() -> Vec<Notice> {
    examples!(CorpusNotice:
        LongInstances { entry: text("d1"), max_bytes: 1 << 20, instances: 2 },
        DuplicateName { name: text("d1") },
        Unreadable { why: format!("d125: \u{1b}{}", "long".repeat(200)) },
        FilesLeftOut { corpus: text("tests"), names: texts(&["draft3", "v1"]), files: 3 },
        RepeatedMembersInCorpora { objects: 2, first: text("a.json, line 7: a") },
        MoreLikeThese { corpus: text("tests"), notices: 10 },
    )
}

fn examples() -> Vec<Notice> {
    [
        examples_bench(),
        examples_preflight(),
        examples_dataset(),
        examples_log(),
        examples_figures(),
        examples_matrix(),
        examples_mask(),
        examples_corpora(),
    ]
    .concat()
}

/// Examples of alternative sentences.
fn alternative_sentences() -> Vec<Notice> {
    vec![
        BenchNotice::SyntheticModel { embedded: false }.into(),
        BenchNotice::LoraModules {
            modules: texts(&["a"]),
            at_random: false,
        }
        .into(),
        BenchNotice::DurationEnded {
            after_s: 0.5,
            requests: 100,
            prepared: 100,
        }
        .into(),
        BenchNotice::DurationEndedAfterLaps {
            after_s: 10.0,
            requests: 250,
            prepared: 100,
            unique_schemas: false,
        }
        .into(),
        DatasetNotice::GrammarRespelt { notes: Vec::new() }.into(),
        DatasetNotice::PromptLengths { excess_tokens: 3 }.into(),
        FigureNotice::Outages {
            spans: vec![OutageSpan {
                from_s: 0.0,
                to_s: None,
                requests: 1,
            }],
            more: 0,
        }
        .into(),
        FigureNotice::Throttled {
            requests: 3,
            longest_pause_s: None,
            pauses_named: 2,
        }
        .into(),
        FigureNotice::Throttled {
            requests: 3,
            longest_pause_s: None,
            pauses_named: 0,
        }
        .into(),
        FigureNotice::ConstraintsLost {
            explanations: LossVariable::ALL.map(loss).into(),
        }
        .into(),
        FigureNotice::ConstraintsLost {
            explanations: vec![LossSplit {
                after: ValidAnswers {
                    valid: 1,
                    answers: 6,
                },
                ..loss(LossVariable::IdleS)
            }],
        }
        .into(),
        FigureNotice::BrokenConstraints {
            broken: 1,
            answers: 2,
            seen_enforced: false,
            reasons: Vec::new(),
        }
        .into(),
        MaskNotice::EngineSelectedAgain {
            engine: text("xgrammar"),
            processes: 2,
            resumed: false,
        }
        .into(),
        MaskNotice::NoCommonSchema {
            passing_none: Vec::new(),
        }
        .into(),
    ]
}

fn kind(notice: &Notice) -> String {
    let value = serde_json::to_value(notice).unwrap();
    value["kind"]
        .as_str()
        .unwrap_or_else(|| panic!("no kind: {value}"))
        .to_owned()
}

#[test]
fn every_notice_has_a_sentence() {
    let mut page = String::new();
    for notice in examples().iter().chain(&alternative_sentences()) {
        writeln!(page, "{}\n  {notice}", kind(notice)).unwrap();
    }
    insta::assert_snapshot!(page);
}

#[test]
fn notices_round_trip_through_json() {
    let notices: Vec<Notice> = examples()
        .into_iter()
        .chain(alternative_sentences())
        .collect();
    let json = serde_json::to_string(&notices).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Notice>>(&json).unwrap(), notices);
    assert_eq!(
        serde_json::from_value::<Vec<Notice>>(serde_json::from_str(&json).unwrap()).unwrap(),
        notices
    );
}

#[test]
fn kinds_are_unique_over_all_areas() {
    let kinds: BTreeSet<String> = examples().iter().map(kind).collect();
    assert_eq!(kinds.len(), examples().len());
}

#[test]
fn unknown_kinds_and_sentences_are_kept() {
    for (json, sentence) in [
        (
            "\"a sentence of another program\"",
            "a sentence of another program",
        ),
        (
            "{\"kind\":\"of_tomorrow\",\"count\":3}",
            "unknown notice: {\"kind\":\"of_tomorrow\",\"count\":3}",
        ),
        (
            "{\"kind\":\"warmups_failed\",\"failed\":\"x\"}",
            "unknown notice: {\"kind\":\"warmups_failed\",\"failed\":\"x\"}",
        ),
    ] {
        let notice: Notice = serde_json::from_str(json).unwrap();
        assert_eq!(
            (
                notice.to_string().as_str(),
                serde_json::to_string(&notice).unwrap().as_str()
            ),
            (sentence, json)
        );
    }
    assert!(serde_json::from_str::<Notice>("3").is_err());
}

#[test]
fn unknown_members_are_ignored() {
    let notice: Notice =
        serde_json::from_str("{\"kind\":\"warmups_failed\",\"failed\":1,\"sent\":2,\"why\":\"x\"}")
            .unwrap();
    assert_eq!(
        notice,
        BenchNotice::WarmupsFailed { failed: 1, sent: 2 }.into()
    );
}
