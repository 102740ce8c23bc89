//! All readers of files, each with a valid file and the command that reads it.

use std::path::Path;

use sobench_testkit::repository_path;

/// The file format of a reader, which determines the expected result of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One JSON value per line.
    JsonLines,
    /// One JSON value.
    Json,
    /// CSV.
    Csv,
    /// Any text.
    Text,
    Toml,
    Parquet,
    Sound,
    /// Our own append-only JSON Lines: a truncated last line is not an error.
    Log,
}

pub(crate) struct Reader {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// Required file name.
    pub(crate) file: &'static str,
    pub(crate) good: Vec<u8>,
    /// Arguments of the command, with `{}` for the file and `{folder}` for its folder.
    arguments: Vec<String>,
    /// Other required files, which stay valid.
    required_files: Vec<&'static str>,
}

impl Reader {
    pub(crate) fn arguments(&self, file: &Path) -> Vec<String> {
        let folder = file.parent().unwrap().to_str().unwrap();
        self.arguments
            .iter()
            .map(|argument| {
                argument
                    .replace("{folder}", folder)
                    .replace("{}", file.to_str().unwrap())
            })
            .collect()
    }

    /// Copies the other required files to the folder.
    pub(crate) fn copy_required_files(&self, folder: &Path) {
        for name in &self.required_files {
            std::fs::copy(
                repository_path("fixtures/tokenizer").join(name),
                folder.join(name),
            )
            .unwrap();
        }
    }
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(repository_path("fixtures").join(name)).unwrap()
}

fn reader(
    name: &'static str,
    shape: Shape,
    file: &'static str,
    good: impl Into<Vec<u8>>,
    arguments: &str,
) -> Reader {
    let fixtures = repository_path("fixtures");
    let arguments = arguments
        .split(' ')
        .map(|argument| argument.replace("{fixtures}", fixtures.to_str().unwrap()))
        .collect();
    Reader {
        name,
        shape,
        file,
        good: good.into(),
        arguments,
        required_files: Vec::new(),
    }
}

/// A dataset given by `--dataset-path`.
fn dataset(
    name: &'static str,
    shape: Shape,
    file: &'static str,
    good: impl Into<Vec<u8>>,
    dataset: &str,
) -> Reader {
    let arguments = format!(
        "--dataset {dataset} --dataset-path {{}} --backend openai-chat --num-prompts 3 --dry-run"
    );
    reader(name, shape, file, good, &arguments)
}

pub(crate) fn all() -> Vec<Reader> {
    [
        datasets(),
        constraints(),
        tokenizers(),
        corpora(),
        results(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn datasets() -> Vec<Reader> {
    use Shape::{Csv, Json, JsonLines, Parquet, Text};
    let list = r#"[{"prompt": "Which river flows through the town?"}, {"prompt": "How many hills are behind the house?"}]"#;
    let parquet = fixture("datasets/json_mode_eval.parquet");
    vec![
        dataset(
            "custom",
            JsonLines,
            "rows.jsonl",
            fixture("datasets/custom.jsonl"),
            "custom",
        ),
        dataset(
            "hf lines",
            JsonLines,
            "rows.jsonl",
            fixture("datasets/hf/texts.jsonl"),
            "hf",
        ),
        dataset("hf list", Json, "rows.json", list, "hf"),
        dataset("hf parquet", Parquet, "rows.parquet", parquet.clone(), "hf"),
        dataset(
            "xgrammar_bench",
            JsonLines,
            "rows.jsonl",
            fixture("datasets/json_mode_eval.jsonl"),
            "xgrammar_bench",
        ),
        dataset(
            "xgrammar_bench parquet",
            Parquet,
            "rows.parquet",
            parquet,
            "xgrammar_bench",
        ),
        dataset(
            "jsonschemabench",
            JsonLines,
            "rows.jsonl",
            r#"{"json_schema": "{}", "unique_id": "a"}"#,
            "jsonschemabench",
        ),
        dataset(
            "maskbench",
            Json,
            "port.json",
            fixture("datasets/maskbench/port.json"),
            "maskbench",
        ),
        dataset(
            "bfcl",
            JsonLines,
            "BFCL_v3_simple.json",
            fixture("datasets/bfcl/BFCL_v3_simple.json"),
            "bfcl",
        ),
        dataset(
            "sharegpt",
            Json,
            "chats.json",
            fixture("datasets/sharegpt.json"),
            "sharegpt",
        ),
        dataset(
            "burstgpt",
            Csv,
            "trace.csv",
            fixture("datasets/burstgpt.csv"),
            "burstgpt",
        ),
        dataset(
            "sonnet",
            Text,
            "poem.txt",
            fixture("datasets/sonnet.txt"),
            "sonnet",
        ),
    ]
}

fn constraints() -> Vec<Reader> {
    use Shape::{Json, JsonLines, Sound, Text, Toml};
    let schema = r#"{"type": "object", "properties": {"a": {"type": "integer"}}}"#;
    let audio = "--dataset audio --backend openai-audio --base-url http://127.0.0.1:9 --model m --audio-path {} --num-prompts 1 --dry-run";
    vec![
        reader(
            "json",
            Json,
            "schema.json",
            schema,
            "--dataset json --json-schema-path {} --num-prompts 3 --dry-run",
        ),
        reader(
            "json-unique",
            Json,
            "schema.json",
            schema,
            "--dataset json-unique --json-schema-path {} --num-prompts 3 --dry-run",
        ),
        reader(
            "lark",
            Text,
            "g.lark",
            "start: \"a\"\n",
            "--dataset grammar --grammar-path {} --num-prompts 3 --dry-run",
        ),
        reader(
            "ebnf",
            Text,
            "g.ebnf",
            "root ::= \"a\"\n",
            "--dataset grammar --grammar-path {} --num-prompts 3 --dry-run",
        ),
        reader(
            "oracle",
            Text,
            "g.pest",
            "a = { \"a\" }\n",
            "--dataset grammar --grammar-oracle {} --num-prompts 3 --dry-run",
        ),
        reader(
            "mix",
            JsonLines,
            "rows.jsonl",
            fixture("datasets/hf/texts.jsonl"),
            "--mix json:0.5,hf={}:0.5 --num-prompts 4 --dry-run",
        ),
        reader(
            "audio",
            Sound,
            "talk.wav",
            b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0".as_slice(),
            audio,
        ),
        reader(
            "config",
            Toml,
            "bench.toml",
            "num-prompts = 3\n",
            "--config {} --dry-run",
        ),
    ]
}

/// Builds prompts of three lines of a poem with the tokenizer's chat template.
const SONNET: &str = "--dataset sonnet --dataset-path {fixtures}/datasets/sonnet.txt --sonnet-input-len 300 --num-prompts 3 --dry-run";
/// Measures one entry.
const MASK: &str = "mask --engine guidance --disable-tqdm --limit 1 --batch 0 --jobs 1 --cold-only --spelling compact";

fn tokenizers() -> Vec<Reader> {
    use Shape::{Json, Text};
    let template = "{% for message in messages %}{{ message['content'] }}{% endfor %}";
    let mut readers = vec![
        reader(
            "tokenizer",
            Json,
            "tokenizer.json",
            fixture("tokenizer/tokenizer.json"),
            &format!("{SONNET} --tokenizer {{}}"),
        ),
        reader(
            "vocabulary",
            Json,
            "v.json",
            fixture("tokenizer/tokenizer.json"),
            &format!("{MASK} --tokenizer {{}} --eos-token <|im_end|>"),
        ),
    ];
    let mut add = |name, file, shape, good: Vec<u8>, required_files: Vec<&'static str>| {
        readers.push(Reader {
            required_files,
            ..reader(
                name,
                shape,
                file,
                good,
                &format!("{SONNET} --tokenizer {{folder}}"),
            )
        });
    };
    add(
        "settings of a tokenizer",
        "tokenizer_config.json",
        Json,
        fixture("tokenizer/tokenizer_config.json"),
        vec!["tokenizer.json"],
    );
    add(
        "chat template",
        "chat_template.jinja",
        Text,
        template.into(),
        vec!["tokenizer.json", "tokenizer_config.json"],
    );
    readers
}

fn corpora() -> Vec<Reader> {
    use Shape::{Json, JsonLines};
    let suite = r#"[{"description": "x", "schema": {"type": "integer"}, "tests": [{"description": "a", "data": 1, "valid": true}]}]"#;
    let corpus: Vec<u8> = fixture("mask/traps.jsonl")
        .split_inclusive(|byte| *byte == b'\n')
        .take(2)
        .flatten()
        .copied()
        .collect();
    let corpus_of =
        |kind: &str| format!("{MASK} --tokenizer {{fixtures}}/tokenizer --corpus {kind}{{}}");
    vec![
        reader("corpus", JsonLines, "corpus.jsonl", corpus, &corpus_of("")),
        reader(
            "corpus of maskbench",
            Json,
            "port.json",
            fixture("datasets/maskbench/port.json"),
            &corpus_of("maskbench:"),
        ),
        reader(
            "corpus of the suite",
            Json,
            "type.json",
            suite,
            &corpus_of("jsts:"),
        ),
        reader(
            "corpus by its looks",
            Json,
            "port.json",
            fixture("datasets/maskbench/port.json"),
            &corpus_of(""),
        ),
    ]
}

fn results() -> Vec<Reader> {
    use Shape::{Json, JsonLines, Log};
    let vllm = "compare {fixtures}/compare/vllm-bench-serve-b.json {} --resamples 1000";
    vec![
        reader(
            "report",
            Log,
            "run.jsonl",
            fixture("runs/v2.jsonl"),
            "report {}",
        ),
        reader(
            "score of a log",
            Log,
            "run.jsonl",
            fixture("runs/v2.jsonl"),
            "score {}",
        ),
        reader(
            "compare of logs",
            Log,
            "run.jsonl",
            fixture("runs/v2.jsonl"),
            "compare {fixtures}/runs/v2.jsonl {} --resamples 1000",
        ),
        reader(
            "score of rows",
            JsonLines,
            "rows.jsonl",
            fixture("runs/rows.jsonl"),
            "score {}",
        ),
        reader(
            "score of a script",
            Json,
            "script.json",
            fixture("runs/script.json"),
            "score {} --dataset json",
        ),
        reader(
            "baseline",
            Json,
            "base.json",
            fixture("compare/base.json"),
            "compare {} {fixtures}/compare/new.json --resamples 1000",
        ),
        reader(
            "result of vLLM",
            Json,
            "vllm.json",
            fixture("compare/vllm-bench-serve-a.json"),
            vllm,
        ),
    ]
}
