//! Everything that reads a file, with a file that it takes and the words that give it one.

use std::path::Path;

use sobench_testkit::in_package;

/// What a reader is made for; says which faults it has to name a line of, and which it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A row a line, each JSON.
    JsonLines,
    /// One JSON value.
    Json,
    /// Lines of a table.
    Csv,
    /// Any text.
    Text,
    Toml,
    Parquet,
    Sound,
    /// JSON Lines of our own, which are only ever added to: what is cut off is the last line, and
    /// no error.
    Log,
}

pub(crate) struct Reader {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// The name that the file needs.
    pub(crate) file: &'static str,
    pub(crate) good: Vec<u8>,
    /// The words of the command, with `{}` for the file and `{folder}` for the folder that it is
    /// in.
    words: Vec<String>,
    /// Files that have to stand beside it, and are no matter of the test.
    beside: Vec<&'static str>,
}

impl Reader {
    pub(crate) fn arguments(&self, file: &Path) -> Vec<String> {
        let folder = file.parent().unwrap().to_str().unwrap();
        self.words
            .iter()
            .map(|word| {
                word.replace("{folder}", folder)
                    .replace("{}", file.to_str().unwrap())
            })
            .collect()
    }

    /// Puts what belongs beside the file there.
    pub(crate) fn furnish(&self, folder: &Path) {
        for name in &self.beside {
            std::fs::copy(
                in_package("fixtures/tokenizer").join(name),
                folder.join(name),
            )
            .unwrap();
        }
    }
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(in_package("fixtures").join(name)).unwrap()
}

fn reader(
    name: &'static str,
    shape: Shape,
    file: &'static str,
    good: impl Into<Vec<u8>>,
    words: &str,
) -> Reader {
    let fixtures = in_package("fixtures");
    let words = words
        .split(' ')
        .map(|word| word.replace("{fixtures}", fixtures.to_str().unwrap()))
        .collect();
    Reader {
        name,
        shape,
        file,
        good: good.into(),
        words,
        beside: Vec::new(),
    }
}

/// A dataset that `--dataset-path` names.
fn dataset(
    name: &'static str,
    shape: Shape,
    file: &'static str,
    good: impl Into<Vec<u8>>,
    of: &str,
) -> Reader {
    let words = format!(
        "--dataset {of} --dataset-path {{}} --backend openai-chat --num-prompts 3 --dry-run"
    );
    reader(name, shape, file, good, &words)
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

/// What makes prompts of three lines of a poem, through the tokenizer's template.
const SONNET: &str = "--dataset sonnet --dataset-path {fixtures}/datasets/sonnet.txt --sonnet-input-len 300 --num-prompts 3 --dry-run";
/// What measures one entry.
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
    let mut beside = |name, file, shape, good: Vec<u8>, beside: Vec<&'static str>| {
        readers.push(Reader {
            beside,
            ..reader(
                name,
                shape,
                file,
                good,
                &format!("{SONNET} --tokenizer {{folder}}"),
            )
        });
    };
    beside(
        "settings of a tokenizer",
        "tokenizer_config.json",
        Json,
        fixture("tokenizer/tokenizer_config.json"),
        vec!["tokenizer.json"],
    );
    beside(
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
