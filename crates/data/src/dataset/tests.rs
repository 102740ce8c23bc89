//! Tests of all datasets: exact prompts and constraints, arms, repetition, prompt forms, and the
//! hash.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::*;
use sobench_core::case::{Arm, Prompt};
use sobench_core::constraint::{Constraint, GrammarSpelling, sha256_hex};
use sobench_core::scorer::Scorer;
use sobench_notices::notice::sentences;
use sobench_plan::dataset::{MAX_PROMPTS, PromptForm};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

/// A plan with the defaults of the command line.
pub(super) fn plan(name: DatasetName) -> DatasetPlan {
    let source = Source::new(name, &DatasetArgs::default()).unwrap();
    DatasetPlan {
        output_len: 128,
        ..DatasetPlan::with_defaults(source, 10, 128)
    }
}

/// The default plan with a file.
fn plan_with_path(name: DatasetName, path: &str) -> DatasetPlan {
    let path = flags::PathFlags {
        dataset_path: Some(path.to_owned().into()),
    };
    let source = Source::new(
        name,
        &DatasetArgs {
            path,
            ..DatasetArgs::default()
        },
    )
    .unwrap();
    DatasetPlan {
        source,
        ..plan(name)
    }
}

/// The rows of a plan, without access to the Hub.
pub(super) fn rows(plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Rows> {
    plan.source.rows(
        plan,
        &Inputs {
            tokenizer,
            hub: &HubSettings::from_lookup(|_| None),
            progress: &(),
        },
    )
}

/// The small tokenizer of the fixtures. It has a chat template.
pub(super) fn tokenizer() -> Tokenizer {
    Tokenizer::open(&format!("{FIXTURES}/tokenizer")).unwrap()
}

fn loaded(plan: &DatasetPlan) -> Dataset {
    load(plan, &tokenizer()).unwrap()
}

fn prompt_of(case: &Case) -> &str {
    match &case.prompt {
        Prompt::Text(text) => text,
        other => panic!("expected a text, not {}", other.kind()),
    }
}

fn schema_of(case: &Case) -> &Value {
    match case.constraint.as_deref() {
        Some(Constraint::JsonSchema(schema)) => schema,
        other => panic!("expected a schema: {other:?}"),
    }
}

#[track_caller]
fn check_prompt(name: DatasetName, sha256: &str) -> Dataset {
    let dataset = loaded(&plan(name));
    assert_eq!(sha256_hex(prompt_of(&dataset.cases[0]).as_bytes()), sha256);
    assert_eq!(
        (dataset.rows, dataset.cases.len(), dataset.source.as_str()),
        (1, 10, SHIPPED)
    );
    assert_eq!(dataset.notices, []);
    for (index, case) in dataset.cases.iter().enumerate() {
        assert_eq!(case.id, format!("{name}-{index}"));
        assert_eq!((case.arm, case.output_len), (Arm::Constrained, 128));
        assert!(Arc::ptr_eq(
            case.constraint.as_ref().unwrap(),
            dataset.cases[0].constraint.as_ref().unwrap()
        ));
    }
    dataset
}

/// The hashes are of the prompts of vLLM 0.33's `benchmark_serving_structured_output.py`.
#[test]
fn prompts_equal_those_of_the_script() {
    let json = check_prompt(
        DatasetName::Json,
        "14f19e3b1ee90a60e4643a6a47752d08ca18991bbfc0cc1c5dcfb800b60d4838",
    );
    assert_eq!(
        schema_of(&json.cases[0])["required"],
        serde_json::json!(["name", "email"])
    );

    let grammar = check_prompt(
        DatasetName::Grammar,
        "fcb2827489bbb8cec78ba7ea4cd274a2769cd50d59656b8c1d2a6f446f06fa10",
    );
    let Some(Constraint::Grammar {
        dialect: GrammarDialect::Ebnf,
        text,
    }) = grammar.cases[0].constraint.as_deref()
    else {
        panic!("expected EBNF")
    };
    assert_eq!(
        sha256_hex(text.as_bytes()),
        "bb363e37dd3d311bf22f99db8ba3e5d1f588a4b5b0a58b6b577c765d65ff9cc6"
    );
    assert!(
        grammar.cases[0]
            .grammar_oracle
            .as_ref()
            .unwrap()
            .contains("start")
    );

    let regex = check_prompt(
        DatasetName::Regex,
        "db33544fa8ee31ffff14c0b08448ce52cedd5e36ff3514907a6881aea86e464d",
    );
    assert_eq!(
        regex.cases[0].constraint.as_deref(),
        Some(&Constraint::Regex(r"\w+@\w+\.com\n".into()))
    );

    let choice = check_prompt(
        DatasetName::Choice,
        &sha256_hex(b"Classify this sentiment: vLLM is wonderful!"),
    );
    let choices: Arc<[String]> = ["Positive", "Negative"].map(str::to_owned).into();
    assert_eq!(
        choice.cases[0].constraint.as_deref(),
        Some(&Constraint::Choice(choices))
    );
}

fn own_choice() -> DatasetPlan {
    let choice = ChoicePlan {
        choice: Some(vec!["x".to_owned()]),
        ..ChoicePlan::default()
    };
    DatasetPlan {
        source: Source::Choice(choice),
        ..plan(DatasetName::Choice)
    }
}

#[test]
fn a_user_supplied_constraint_keeps_the_prompt() {
    let regex = RegexPlan {
        regex: Some("a+".to_owned()),
        ..RegexPlan::default()
    };
    let dataset = loaded(&DatasetPlan {
        source: Source::Regex(regex),
        ..plan(DatasetName::Regex)
    });
    assert_eq!(
        prompt_of(&dataset.cases[0]),
        prompt_of(&loaded(&plan(DatasetName::Regex)).cases[0])
    );
    assert_eq!(
        dataset.cases[0].constraint.as_deref(),
        Some(&Constraint::Regex("a+".into()))
    );

    let plan = own_choice();
    let expected = Constraint::Choice(vec!["x".to_owned()].into());
    assert_eq!(
        loaded(&plan).cases[0].constraint.as_deref(),
        Some(&expected)
    );
}

#[test]
fn the_nested_profile_has_the_members_of_the_older_script() {
    let nested = JsonPlan {
        json_schema: JsonSchemaSource::Nested,
        ..JsonPlan::default()
    };
    let dataset = loaded(&DatasetPlan {
        source: Source::Json(nested),
        ..plan(DatasetName::Json)
    });
    let schema = schema_of(&dataset.cases[0]);
    let members: Vec<_> = schema["properties"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        members,
        [
            "userId",
            "personalInfo",
            "address",
            "preferences",
            "accountStatus",
            "registrationDate"
        ]
    );
    assert!(jsonschema::validator_for(schema).is_ok());
}

#[test]
fn unique_schemas_come_from_the_seed() {
    let unique = plan(DatasetName::JsonUnique);
    let dataset = loaded(&unique);
    assert_eq!((dataset.rows, dataset.notices.len()), (10, 0));
    let schemas: std::collections::HashSet<_> = dataset
        .cases
        .iter()
        .map(|case| schema_of(case).to_string())
        .collect();
    assert_eq!(schemas.len(), 10);
    let properties = schema_of(&dataset.cases[0])["properties"]
        .as_object()
        .unwrap();
    let (name, member) = properties.iter().next_back().unwrap();
    assert_eq!(
        name,
        "__optional_field_340ac475-31b5-413e-8d17-87ad24882bb7"
    );
    assert_eq!(
        member["description"],
        "An unique optional field to avoid cached schemas"
    );
    assert!(prompt_of(&dataset.cases[0]).contains(&format!(
        "\"{name}\": {{\"type\": \"string\", \"description\": "
    )));
    assert_eq!(loaded(&unique), dataset);
    assert_ne!(
        loaded(&DatasetPlan {
            seed: 1,
            ..unique.clone()
        })
        .sha256,
        dataset.sha256
    );
    // The first requests do not depend on how many follow.
    let longer = loaded(&DatasetPlan {
        num_prompts: 12,
        ..unique
    });
    assert_eq!(longer.cases[..10], dataset.cases[..]);
}

/// Indices by `random.seed(seed); random.sample(range(N), int(N * ratio))` of CPython 3.11, sorted.
#[test]
fn constrained_requests_match_the_script() {
    for (seed, num_prompts, ratio, expected) in [
        (0, 10, 0.5, vec![0, 2, 4, 6, 9]),
        (0, 20, 0.3, vec![1, 6, 8, 12, 13, 15]),
        (1, 10, 0.39, vec![1, 2, 4]),
        (18446744073709551557, 5, 1.0, vec![0, 1, 2, 3, 4]),
        (3, 7, 0.1, vec![]),
    ] {
        for name in [DatasetName::Choice, DatasetName::JsonUnique] {
            let dataset = loaded(&DatasetPlan {
                seed,
                num_prompts,
                constrained_ratio: ratio,
                ..plan(name)
            });
            let is_sent = |index: &usize| dataset.cases[*index].arm == Arm::Constrained;
            let sent: Vec<usize> = (0..num_prompts).filter(is_sent).collect();
            assert_eq!(sent, expected, "{name}, seed {seed}");
            assert!(
                dataset.cases.iter().all(|case| case.constraint.is_some()),
                "a control request keeps its constraint"
            );
        }
    }
}

#[test]
fn the_hash_excludes_the_arms() {
    let base = loaded(&plan(DatasetName::Choice)).sha256;
    let control = DatasetPlan {
        constrained_ratio: 0.0,
        ..plan(DatasetName::Choice)
    };
    assert_eq!(loaded(&control).sha256, base);
    assert_eq!(base.len(), 64);
    for other in [
        DatasetPlan {
            output_len: 64,
            ..plan(DatasetName::Choice)
        },
        DatasetPlan {
            num_prompts: 11,
            ..plan(DatasetName::Choice)
        },
        own_choice(),
        plan(DatasetName::Regex),
    ] {
        assert_ne!(loaded(&other).sha256, base);
    }
}

fn evaluation(file: &str, prompt_form: PromptForm) -> DatasetPlan {
    let plan = plan_with_path(
        DatasetName::XgrammarBench,
        &format!("{FIXTURES}/datasets/{file}"),
    );
    DatasetPlan {
        prompt_form,
        ..plan
    }
}

#[test]
fn chats_are_equal_in_every_format() {
    let parquet = loaded(&evaluation("json_mode_eval.parquet", PromptForm::Messages));
    for file in ["json_mode_eval.jsonl", "json_mode_eval.json"] {
        let other = loaded(&evaluation(file, PromptForm::Messages));
        assert_eq!(other.cases, parquet.cases);
        assert_eq!(other.sha256, parquet.sha256);
    }
    assert_eq!(parquet.rows, 4);
    assert_eq!(
        sentences(&parquet.notices),
        ["4 rows are repeated to make 10 prompts"]
    );
    assert_eq!(parquet.cases[1].prompt, parquet.cases[9].prompt);
    let Prompt::Messages(messages) = &parquet.cases[0].prompt else {
        panic!("expected messages")
    };
    assert_eq!(
        (messages[0].role.as_str(), messages[1].role.as_str()),
        ("system", "user")
    );
    assert_eq!(
        schema_of(&parquet.cases[1])["properties"]["trees"]["minItems"],
        1
    );
    assert!(
        parquet.cases[2]
            .completion
            .as_ref()
            .unwrap()
            .contains("24.9")
    );
}

#[test]
fn text_endpoints_get_templated_chats() {
    let dataset = loaded(&evaluation("json_mode_eval.parquet", PromptForm::Text));
    let prompt = prompt_of(&dataset.cases[3]);
    assert!(
        prompt.starts_with("<|im_start|>system\nYou answer in JSON only."),
        "{prompt}"
    );
    assert!(
        prompt.ends_with("<|im_start|>user\nDescribe a folder src with a folder bin inside.<|im_end|>\n<|im_start|>assistant\n")
    );

    let error = load(
        &evaluation("json_mode_eval.parquet", PromptForm::Text),
        &Tokenizer::embedded(),
    )
    .unwrap_err();
    assert!(
        error
            .what
            .ends_with("/json_mode_eval.parquet, row index 0: messages need a chat template, and this tokenizer has none: cl100k_base (embedded)"),
        "{error}"
    );
    // A chat endpoint needs no template.
    load(
        &evaluation("json_mode_eval.parquet", PromptForm::Messages),
        &Tokenizer::embedded(),
    )
    .unwrap();
}

#[test]
fn a_template_that_prints_the_date_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(
        format!("{FIXTURES}/tokenizer/tokenizer.json"),
        folder.path().join("tokenizer.json"),
    )
    .unwrap();
    let template = "{{ strftime_now('%d %b %Y') }}: {{ messages[1].content }}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let tokenizer = Tokenizer::open(folder.path().to_str().unwrap()).unwrap();
    let dataset = load(
        &evaluation("json_mode_eval.parquet", PromptForm::Text),
        &tokenizer,
    )
    .unwrap();
    assert_eq!(
        prompt_of(&dataset.cases[3]),
        "26 Jul 2024: Describe a folder src with a folder bin inside."
    );
    assert_eq!(
        dataset.notices[1].to_string(),
        "the chat template prints the current date, which is fixed to 2024-07-26 to keep prompts reproducible"
    );
    // For a chat endpoint, the server renders the template.
    let dataset = load(
        &evaluation("json_mode_eval.parquet", PromptForm::Messages),
        &tokenizer,
    )
    .unwrap();
    assert_eq!(dataset.notices.len(), 1);
}

#[test]
fn a_text_is_sent_unchanged_to_a_chat_endpoint() {
    let dataset = loaded(&DatasetPlan {
        prompt_form: PromptForm::Messages,
        ..plan(DatasetName::Json)
    });
    assert!(prompt_of(&dataset.cases[0]).starts_with("Generate an example"));
}

/// Writes a file and loads the plan that `with` makes of its path.
fn with_file(name: &str, text: &str, with: impl Fn(PathBuf) -> DatasetPlan) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    load(&with(path), &tokenizer())
}

fn with_schema(name: DatasetName) -> impl Fn(PathBuf) -> DatasetPlan {
    move |path| {
        let options = JsonPlan {
            json_schema: JsonSchemaSource::Path(path),
            ..JsonPlan::default()
        };
        let source = if name == DatasetName::Json {
            Source::Json(options)
        } else {
            Source::JsonUnique(JsonUniquePlan(options))
        };
        DatasetPlan {
            source,
            ..plan(name)
        }
    }
}

#[test]
fn user_schemas_keep_their_text_and_errors_name_the_position() {
    let dataset = with_file(
        "s.json",
        r#"{"b":1.50,"a":12345678901234567890123,"t":"é"}"#,
        with_schema(DatasetName::Json),
    )
    .unwrap();
    assert!(
        prompt_of(&dataset.cases[0])
            .ends_with(r#"schema: {"b": 1.5, "a": 12345678901234567890123, "t": "\u00e9"}"#)
    );
    assert_eq!(
        schema_of(&dataset.cases[0]).to_string(),
        r#"{"b":1.50,"a":12345678901234567890123,"t":"é"}"#
    );
    for (name, text, message) in [
        (
            DatasetName::Json,
            "{\n \"a\": }",
            "s.json: expected value at line 2 column 7",
        ),
        (
            DatasetName::JsonUnique,
            r#"{"type":"nonsense","properties":{}}"#,
            "s.json: broken JSON Schema: schema at /type: \"nonsense\" is not valid",
        ),
        (
            DatasetName::Json,
            "[]",
            "s.json: a JSON Schema is an object or a boolean",
        ),
        (
            DatasetName::JsonUnique,
            "true",
            "json-unique needs a schema with an object \"properties\"",
        ),
    ] {
        let error = with_file("s.json", text, with_schema(name)).unwrap_err();
        assert!(error.what.contains(message), "{error}");
    }
}

fn own_grammar(grammar_path: Option<PathBuf>, grammar_oracle: Option<PathBuf>) -> DatasetPlan {
    let source = Source::Grammar(GrammarPlan {
        grammar_path,
        grammar_oracle,
        ..GrammarPlan::default()
    });
    DatasetPlan {
        source,
        ..plan(DatasetName::Grammar)
    }
}

#[test]
fn user_grammars_keep_their_dialect_and_have_no_shipped_oracle() {
    let with_grammar = |path| own_grammar(Some(path), None);
    let dataset = with_file("g.lark", "start: \"a\"", with_grammar).unwrap();
    let expected = Constraint::Grammar {
        dialect: GrammarDialect::Lark,
        text: "start: \"a\"".into(),
    };
    assert_eq!(dataset.cases[0].constraint.as_deref(), Some(&expected));
    assert_eq!(dataset.cases[0].grammar_oracle, None);
    assert!(
        dataset.notices[0]
            .to_string()
            .ends_with("g.lark is lark and is sent unchanged, although ebnf is expected")
    );
    let same = with_file("g.gbnf", "root ::= \"a\"", with_grammar).unwrap();
    assert_eq!(same.notices, []);
    assert!(
        with_file("g.lark", " \n", with_grammar)
            .unwrap_err()
            .what
            .starts_with("the grammar is blank: ")
    );

    let with_oracle = |path| own_grammar(None, Some(path));
    let dataset = with_file("o.pest", "start = { \"a\" }", with_oracle).unwrap();
    assert_eq!(
        dataset.cases[0].grammar_oracle.as_deref(),
        Some("start = { \"a\" }")
    );

    let lark = loaded(&DatasetPlan {
        grammar_dialect: GrammarDialect::Lark,
        ..plan(DatasetName::Grammar)
    });
    let Some(Constraint::Grammar { dialect, text }) = lark.cases[0].constraint.as_deref() else {
        panic!("expected a grammar")
    };
    assert!(*dialect == GrammarDialect::Lark && text.contains("start:"));
}

/// The notation and text that are sent, the original notation, and the only notice.
fn sent(dataset: &Dataset) -> (GrammarDialect, &str, Option<GrammarDialect>, String) {
    let Some(Constraint::Grammar { dialect, text }) = dataset.cases[0].constraint.as_deref() else {
        panic!("expected a grammar")
    };
    (
        *dialect,
        text,
        dataset.converted_from,
        dataset
            .notices
            .first()
            .map(ToString::to_string)
            .unwrap_or_default(),
    )
}

#[test]
fn user_grammars_are_converted_to_the_notation_of_the_server() {
    let (lark, ebnf) = (GrammarDialect::Lark, GrammarDialect::Ebnf);
    let to = |grammar_dialect| {
        move |path| {
            let grammar_spelling = GrammarSpelling::Converted;
            DatasetPlan {
                grammar_dialect,
                grammar_spelling,
                ..own_grammar(Some(path), None)
            }
        }
    };
    let dataset = with_file("g.lark", "start: A_B\nA_B.1: /a+/", to(ebnf)).unwrap();
    let (dialect, text, from, notice) = sent(&dataset);
    assert_eq!(
        (dialect, text, from),
        (ebnf, "root ::= a-b\na-b ::= \"a\"+\n", Some(lark))
    );
    let expected = "/g.lark is lark and is converted to ebnf for sending and judging (dropped priorities (line 2); \
                    terminals overlap and all derivations count; a longest-match lexer may accept fewer texts; renamed A_B to a-b)";
    assert!(notice.ends_with(expected), "{notice}");

    let dataset = with_file("g.gbnf", "root ::= \"a\" | \"b\"", to(lark)).unwrap();
    assert_eq!(sent(&dataset).1, "start: \"a\" | \"b\"\n");
    let dataset = with_file("g.gbnf", "root ::= \"a\" a_b <think>", to(ebnf)).unwrap();
    assert_eq!(
        sent(&dataset),
        (ebnf, "root ::= \"a\" a_b <think>", None, String::new())
    );

    let error = with_file("g.lark", "start: A\nA: /a(?=b)/", to(ebnf)).unwrap_err();
    let message = "g.lark is lark, and cannot be converted to ebnf: unsupported in a grammar: look-around in a regular expression (line 2)";
    assert!(
        error.what.ends_with(message) && error.exit_code() == 2,
        "{error}"
    );
    assert_eq!(
        error.hint.unwrap(),
        "rewrite it in ebnf, or use --grammar-dialect lark to send it unchanged"
    );
}

#[test]
fn alternatives_on_lines_of_their_own_are_joined_for_llama_cpp() {
    let written = "root ::= \"a\" # one\n  | \"b\"\n";
    let sent = |grammar_spelling| {
        let plan = |path| DatasetPlan {
            grammar_spelling,
            ..own_grammar(Some(path), None)
        };
        let dataset = with_file("g.gbnf", written, plan).unwrap();
        let Some(Constraint::Grammar { text, .. }) = dataset.cases[0].constraint.as_deref() else {
            panic!("expected a grammar")
        };
        let notices: Vec<String> = dataset.notices.iter().map(ToString::to_string).collect();
        (text.to_string(), notices.join("\n"))
    };
    let (text, notices) = sent(GrammarSpelling::Portable);
    assert_eq!(text, "root ::= \"a\" | \"b\"\n");
    assert_eq!(
        notices,
        "grammars with an alternative that starts a line, which llama.cpp refuses: 1; each is joined to the line before"
    );
    assert_eq!(
        sent(GrammarSpelling::Converted),
        (written.to_owned(), String::new())
    );
}

#[test]
fn the_shipped_grammar_is_renamed_for_servers_without_underscores() {
    let dataset = loaded(&DatasetPlan {
        grammar_spelling: GrammarSpelling::Portable,
        ..plan(DatasetName::Grammar)
    });
    let (dialect, text, from, notice) = sent(&dataset);
    assert_eq!((dialect, from), (GrammarDialect::Ebnf, None));
    assert!(
        text.contains("select-statement ::= ") && !text.contains("select_statement"),
        "{text}"
    );
    assert!(
        notice.ends_with("(renamed select_statement to select-statement)"),
        "{notice}"
    );
}

#[test]
fn row_grammars_that_cannot_be_converted_are_sent_unchanged() {
    let rows = [
        r#"{"prompt": "a", "grammar": "start: \"a\""}"#,
        r#"{"prompt": "b", "grammar": "root ::= \"b\""}"#,
        r#"{"prompt": "c", "grammar": "start: C\nC: /c??/"}"#,
        r#"{"prompt": "d", "regex": "d"}"#,
        r#"{"prompt": "e", "grammar": "start: \"a\""}"#,
    ];
    let with = |grammar_spelling| {
        move |path: PathBuf| {
            let plan = plan_with_path(DatasetName::Custom, path.to_str().unwrap());
            DatasetPlan {
                grammar_spelling,
                num_prompts: 5,
                ..plan
            }
        }
    };
    let dataset = with_file(
        "rows.jsonl",
        &rows.join("\n"),
        with(GrammarSpelling::Converted),
    )
    .unwrap();
    let texts = dataset
        .cases
        .iter()
        .filter_map(|case| match case.constraint.as_deref() {
            Some(Constraint::Grammar { text, .. }) => Some(text.to_string()),
            _ => None,
        });
    let texts: Vec<String> = texts.collect();
    assert_eq!(
        texts,
        [
            "root ::= \"a\"\n",
            "root ::= \"b\"",
            "start: C\nC: /c??/",
            "root ::= \"a\"\n"
        ]
    );
    assert_eq!(dataset.converted_from, Some(GrammarDialect::Lark));
    assert!(dataset.notices[0].to_string().starts_with(
        "rows whose grammar is converted to ebnf for sending and judging: 2; the first: "
    ));
    let failed = dataset.notices[1].to_string();
    assert!(
        failed.starts_with(
            "rows whose grammar cannot be converted to ebnf and is sent unchanged: 1; the first: "
        ),
        "{failed}"
    );
    assert!(
        failed.contains("line 3: unsupported in a grammar: lazy repetition"),
        "{failed}"
    );

    let as_written = with_file(
        "rows.jsonl",
        &rows.join("\n"),
        with(GrammarSpelling::AsWritten),
    )
    .unwrap();
    assert_eq!(
        (as_written.converted_from, as_written.notices.len()),
        (None, 0)
    );
}

#[track_caller]
fn check_refused(plan: &DatasetPlan, message: &str) {
    let error = load(plan, &tokenizer()).unwrap_err();
    assert!(error.what.contains(message), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn invalid_plans_are_refused() {
    let json = || plan(DatasetName::Json);
    check_refused(
        &DatasetPlan {
            num_prompts: 0,
            ..json()
        },
        "number of prompts",
    );
    check_refused(
        &DatasetPlan {
            num_prompts: MAX_PROMPTS + 1,
            ..json()
        },
        "number of prompts",
    );
    check_refused(
        &DatasetPlan {
            output_len: 0,
            ..json()
        },
        "output length",
    );
    for ratio in [-0.1, 1.1, f64::NAN] {
        check_refused(
            &DatasetPlan {
                constrained_ratio: ratio,
                ..json()
            },
            "ratio",
        );
    }
    let empty = Source::Choice(ChoicePlan {
        choice: Some(vec![]),
        ..ChoicePlan::default()
    });
    check_refused(
        &DatasetPlan {
            source: empty,
            ..plan(DatasetName::Choice)
        },
        "choice list is empty",
    );
    let missing = |path: &str| plan_with_path(DatasetName::XgrammarBench, path);
    check_refused(
        &missing("no/such.parquet"),
        "no such dataset file or folder: no/such.parquet",
    );
    check_refused(&missing("./nothing"), "no such dataset file or folder");
    check_refused(
        &missing(&format!("{FIXTURES}/tokenizer/make.py")),
        "not a .parquet, .jsonl or .json file",
    );
    check_refused(
        &missing(&format!("{FIXTURES}/tokenizer")),
        "no file of the split train",
    );
}

/// A truncated file gives an error with the file's name, or complete rows.
#[test]
fn truncated_files_are_refused_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let (tokenizer, hub) = (tokenizer(), HubSettings::from_lookup(|_| None));
    for (name, file, as_file) in [
        (DatasetName::Custom, "custom.jsonl", "rows.jsonl"),
        (
            DatasetName::XgrammarBench,
            "json_mode_eval.jsonl",
            "rows.jsonl",
        ),
        (
            DatasetName::XgrammarBench,
            "json_mode_eval.json",
            "rows.json",
        ),
        (DatasetName::Sharegpt, "sharegpt.json", "rows.json"),
        (DatasetName::Burstgpt, "burstgpt.csv", "rows.csv"),
        (DatasetName::Hf, "hf/chats.jsonl", "rows.jsonl"),
        (DatasetName::Maskbench, "maskbench/port.json", "rows.json"),
        (DatasetName::Maskbench, "maskbench/more.jsonl", "rows.jsonl"),
        (DatasetName::Bfcl, "bfcl/BFCL_v3_simple.json", "rows.json"),
    ] {
        let whole = std::fs::read(format!("{FIXTURES}/datasets/{file}")).unwrap();
        let path = folder.path().join(as_file);
        let plan = DatasetPlan {
            prompt_form: PromptForm::Messages,
            ..plan_with_path(name, path.to_str().unwrap())
        };
        let inputs = Inputs {
            tokenizer: &tokenizer,
            hub: &hub,
            progress: &(),
        };
        let rows = || load_with(&plan, &inputs).map(|dataset| (dataset.rows, dataset.notices));
        std::fs::write(&path, &whole).unwrap();
        let (all, _) = rows().unwrap();
        let is_syntax = |offset: &usize| {
            matches!(
                whole[offset - 1],
                b'{' | b'}' | b'[' | b']' | b'"' | b':' | b',' | b'\\' | b'\n'
            )
        };
        for cut in (1..whole.len()).filter(is_syntax) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            match rows() {
                Ok((left, notices)) => {
                    assert!(left <= all, "{file} cut at {cut}: {left} rows, {notices:?}");
                }
                Err(error) => {
                    assert!(
                        error.what.contains(as_file) && error.hint.is_some(),
                        "{file} cut at {cut}: {error}"
                    );
                    assert!(
                        !error.what.contains('\n') && error.exit_code() == 2,
                        "{file} cut at {cut}: {error}"
                    );
                }
            }
        }
    }
}

fn in_arms(name: DatasetName, arms: &[Arm], num_prompts: usize, seed: u64) -> DatasetPlan {
    DatasetPlan {
        arms: arms.to_vec(),
        num_prompts,
        seed,
        ..plan(name)
    }
}

const THREE_ARMS: [Arm; 3] = [Arm::Control, Arm::Constrained, Arm::ConstraintOnly];

#[test]
fn each_item_is_sent_once_in_each_arm_with_the_same_budget() {
    let dataset = loaded(&in_arms(DatasetName::LastLetters, &THREE_ARMS, 20, 3));
    let single = loaded(&DatasetPlan {
        num_prompts: 20,
        seed: 3,
        ..plan(DatasetName::LastLetters)
    });
    assert_eq!(dataset.cases.len(), 60);
    for (item, cases) in dataset.cases.chunks(3).enumerate() {
        let mut arms: Vec<Arm> = cases.iter().map(|case| case.arm).collect();
        arms.sort_by_key(|arm| THREE_ARMS.iter().position(|known| known == arm));
        assert_eq!(arms, THREE_ARMS);
        for case in cases {
            assert_eq!(case.item, Some(item as u32));
            assert_eq!(case.output_len, single.cases[item].output_len);
            assert_eq!(case.completion, single.cases[item].completion);
            assert_eq!(case.constraint, single.cases[item].constraint);
            assert_eq!(
                case.prompt == single.cases[item].prompt,
                case.arm.shows_schema()
            );
        }
    }
    let ids: std::collections::HashSet<&str> =
        dataset.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids.len(), 60);
    assert_eq!(single.cases[0].item, None);
}

#[test]
fn each_arm_is_equally_often_first_second_and_last() {
    for arms in [&THREE_ARMS[..], &Arm::ALL, &THREE_ARMS[..1]] {
        let items = 10 * arms.len();
        let dataset = loaded(&in_arms(DatasetName::ShuffledObjects, arms, items, 5));
        for arm in arms {
            for place in 0..arms.len() {
                let of_place = dataset.cases.iter().skip(place).step_by(arms.len());
                let count = of_place.filter(|case| case.arm == *arm).count();
                assert_eq!(count, items / arms.len(), "{arm:?} at {place}");
            }
        }
    }
    let order = |seed| -> Vec<Arm> {
        let plan = in_arms(DatasetName::ShuffledObjects, &THREE_ARMS, 30, seed);
        loaded(&plan).cases.iter().map(|case| case.arm).collect()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn arms_that_a_dataset_cannot_have_are_refused() {
    for (name, arms, expected) in [
        (
            DatasetName::Choice,
            &[Arm::Constrained, Arm::Free][..],
            "the dataset choice has no prompt without the schema, which the arm free needs",
        ),
        (
            DatasetName::Suite,
            &[Arm::ConstraintOnly],
            "the dataset suite has no prompt without the schema, which the arm constraint needs",
        ),
        (
            DatasetName::Extract,
            &[Arm::Free, Arm::Control, Arm::Free],
            "--arms has an arm twice: free",
        ),
    ] {
        let error = load(&in_arms(name, arms, 4, 0), &tokenizer()).unwrap_err();
        assert!(error.what.starts_with(expected), "{error}");
        assert!(error.hint.is_some());
    }
    let both = in_arms(DatasetName::Suite, &[Arm::Constrained, Arm::Control], 4, 0);
    assert_eq!(loaded(&both).cases.len(), 8);
    let too_many = in_arms(DatasetName::Extract, &THREE_ARMS, MAX_PROMPTS / 2, 0);
    let error = load(&too_many, &tokenizer()).unwrap_err();
    assert_eq!(
        error.what,
        "the number of prompts must be from 1 to 3333333: 5000000"
    );
}

#[test]
fn the_scorers_of_datasets_are_known() {
    let chats = evaluation("json_mode_eval.jsonl", PromptForm::Messages);
    let scorers = |plan: &DatasetPlan| -> Vec<Option<Scorer>> {
        let mut scorers: Vec<_> = loaded(plan).cases.iter().map(|case| case.score).collect();
        scorers.sort_by_key(|scorer| scorer.map(Scorer::name));
        scorers.dedup();
        scorers
    };
    assert_eq!(scorers(&chats), [Some(Scorer::Exact)]);
    let suite = DatasetPlan {
        num_prompts: 60,
        ..plan(DatasetName::Suite)
    };
    assert_eq!(
        scorers(&suite),
        [None, Some(Scorer::Choice), Some(Scorer::Exact)]
    );
    let leaf = DatasetPlan {
        score: Some(Scorer::Leaf),
        ..chats
    };
    assert_eq!(scorers(&leaf), [Some(Scorer::Leaf)]);
    let error = load(
        &DatasetPlan {
            score: Some(Scorer::Leaf),
            ..plan(DatasetName::Json)
        },
        &tokenizer(),
    )
    .unwrap_err();
    assert_eq!(
        error.what,
        "the dataset json has no references: --score leaf"
    );
    assert_eq!(
        error.hint.unwrap(),
        "leave --score out, or use a dataset with references, such as extract or gsm8k; rows of custom have the member reference"
    );
    let error = load(
        &DatasetPlan {
            score: Some(Scorer::Leaf),
            ..plan(DatasetName::LastLetters)
        },
        &tokenizer(),
    )
    .unwrap_err();
    assert!(
        error
            .what
            .starts_with("no reference of the dataset last_letters can be compared by leaf"),
        "{error}"
    );
}

#[test]
fn references_of_custom_rows_are_checked_with_file_and_line() {
    let custom = |path: PathBuf| plan_with_path(DatasetName::Custom, path.to_str().unwrap());
    let schema = r#""json":{"type":"object","properties":{"a":{"type":"integer"}}}"#;
    let good = format!(r#"{{"prompt":"p","question":"q",{schema},"reference":{{"a":1}}}}"#);
    for (line, expected) in [
        (
            format!(r#"{{"prompt":"p",{schema},"reference":{{"a":"x"}}}}"#),
            "rows.jsonl, line 2: the reference breaks the schema of its row: ",
        ),
        (
            format!(r#"{{"prompt":"p",{schema},"reference":"{{"}}"#),
            "rows.jsonl, line 2: the scorer exact cannot read the reference: not JSON",
        ),
        (
            r#"{"prompt":"p","choice":["A","B"],"reference":"C"}"#.to_owned(),
            "rows.jsonl, line 2: the scorer choice cannot read the reference: not one of the choices",
        ),
        (
            r#"{"prompt":"p","reference":"none","score":"number"}"#.to_owned(),
            "rows.jsonl, line 2: the scorer number cannot read the reference: no number",
        ),
        (
            r#"{"prompt":"p","json":{},"reference":{"a":1},"score":"calls"}"#.to_owned(),
            "rows.jsonl, line 2: the scorer calls cannot read the reference: not {\"ground_truth\"",
        ),
    ] {
        let error = with_file("rows.jsonl", &format!("{good}\n{line}"), custom).unwrap_err();
        assert!(error.what.contains(expected), "{error}");
        assert!(error.hint.is_some());
    }
    let dataset = with_file("rows.jsonl", &good, |path| DatasetPlan {
        arms: THREE_ARMS.to_vec(),
        num_prompts: 1,
        ..custom(path)
    })
    .unwrap();
    let case = &dataset.cases[0];
    assert_eq!(
        (case.score, case.completion.as_deref()),
        (Some(Scorer::Exact), Some(r#"{"a":1}"#))
    );
    let prompts: Vec<&str> = dataset.cases.iter().map(prompt_of).collect();
    assert_eq!(prompts.iter().filter(|prompt| **prompt == "q").count(), 1);
}
