//! Files that a run writes beside its result: the same as `report` makes of its log.

use serde_json::Value;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};
use sobench_testkit::repository_path;

use crate::support::{Folder, choice_server, program, ran, sobench};

#[test]
fn run_and_report_write_the_same_files() {
    let faults = ["extra-text@0.3", "error-500@0.1", "truncate@0.1"];
    let server = EmbeddedServer::start(EmbeddedSettings {
        faults: faults.map(|fault| Fault::parse(fault).unwrap()).to_vec(),
        ..EmbeddedSettings::default()
    })
    .unwrap();
    let folder = Folder::new();
    let files = [
        ("html", "a.html"),
        ("markdown", "a.md"),
        ("csv", "a.csv"),
        ("junit", "a.xml"),
    ];
    let new_files =
        files.map(|(_, file)| format!("--save {}", folder.path(&format!("new/{file}"))));
    let run = sobench(&[
        "--num-prompts 60 --skip-preflight --disable-tqdm --max-concurrency 8 --save-failures --plot",
        "--save-result --result-filename run.json --result-dir",
        &folder.path(""),
        &new_files.join(" "),
        "--base-url",
        server.base_url(),
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let log = folder.path("run.jsonl");
    for (form, file) in files {
        let printed = sobench(&["report", &log, "--format", form]).stdout;
        assert!(
            !printed.is_empty() && folder.read(&format!("new/{file}")) == printed,
            "{form}"
        );
    }
    assert_eq!(sobench(&["report", &log, "--plot"]).stdout, run.stdout);

    let failures: Vec<Value> = folder
        .read("run.failures.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let result = folder.json("run.json");
    let valid = result["sobench"]["metrics"]["correct_rate"]["hits"]
        .as_u64()
        .unwrap();
    assert_eq!(failures.len() as u64, 60 - valid);
    let mut failures = failures.iter();
    let extra = failures
        .find(|output| output["failing_as"] == "extra_text")
        .unwrap();
    assert!(
        extra["answer"].is_string() && extra["constraint"]["json"].is_object(),
        "{extra}"
    );
    let curl = extra["curl"].as_str().unwrap();
    assert!(
        curl.starts_with("curl ") && extra["prompt"]["text"].is_string(),
        "{extra}"
    );
}

#[test]
fn append_result_adds_a_line_and_keeps_the_logs() {
    let server = choice_server();
    for format in ["sobench", "vllm-serve"] {
        let folder = Folder::new();
        let open = "{\"left\": \"open\"}";
        folder.file("all.jsonl", open);
        for seed in ["1", "2"] {
            let ran = sobench(&[
                "--dataset choice --num-prompts 3 --skip-preflight --disable-tqdm --base-url",
                &server.base_url,
                "--append-result --result-filename all.jsonl --result-dir",
                &folder.path(""),
                "--result-format",
                format,
                "--seed",
                seed,
            ]);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
        }
        let file = folder.read("all.jsonl");
        // vLLM writes the line feed before the next line.
        assert_eq!(file.ends_with('\n'), format == "sobench");
        let (left, lines) = file.split_once('\n').unwrap();
        assert_eq!(left, open);
        for line in lines.lines() {
            let result: Value = serde_json::from_str(line).unwrap();
            assert_eq!(result["num_prompts"], 3);
        }
        assert_eq!(lines.lines().count(), 2);
        let count = std::fs::read_dir(folder.path("")).unwrap().count();
        assert_eq!(count, 3, "the file and two logs");
    }
}

#[test]
fn pytorch_records_are_written_beside_the_result() {
    let (folder, server) = (Folder::new(), choice_server());
    // Result and log, and with the records the log before it.
    for (switch, files) in [("", 2), ("0", 4)] {
        let mut command = program(&[
            "--dataset choice --num-prompts 3 --skip-preflight --disable-tqdm --base-url",
            &server.base_url,
            "--save-result --result-filename r.json --result-dir",
            &folder.path(""),
        ]);
        let ran = ran(command.env("SAVE_TO_PYTORCH_BENCHMARK_FORMAT", switch));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(
            std::fs::read_dir(folder.path("")).unwrap().count(),
            files,
            "{switch:?}"
        );
    }
    let metric = &folder.json("r.pytorch.json")[0]["metric"];
    assert_eq!(metric["name"], "median_ttft_ms");
    assert!(metric["benchmark_values"][0].as_f64() > Some(0.0));
}

/// The Parquet file has the rows, columns and values of the CSV file.
#[test]
fn parquet_has_the_values_of_csv() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let folder = Folder::new();
    let log = repository_path("fixtures/frozen/runs/calls.jsonl");
    let save = |name: &str| {
        let path = folder.path(name);
        let arguments = ["report", log.to_str().unwrap(), "--save", &path];
        ran(&mut program(&arguments)).assert_exits(0, &[]);
        path
    };
    let mut csv = csv::Reader::from_path(save("x.csv")).unwrap();
    let names = csv.headers().unwrap().clone();
    let file = std::fs::File::open(save("x.parquet")).unwrap();
    let table = SerializedFileReader::new(file).unwrap();
    let mut cells = [0; 4];
    for (row, line) in table.get_row_iter(None).unwrap().zip(csv.records()) {
        let (row, line) = (row.unwrap(), line.unwrap());
        for ((name, field), (known, text)) in row.get_column_iter().zip(names.iter().zip(&line)) {
            assert_eq!(name, known);
            let (kind, value) = match field {
                Field::Null => (0, String::new()),
                Field::Bool(value) => (1, value.to_string()),
                Field::Long(value) => (2, value.to_string()),
                Field::Double(value) => (2, value.to_string()),
                Field::Str(value) => (3, value.clone()),
                other => panic!("{name}: {other}"),
            };
            assert_eq!(value, text, "{name}");
            cells[kind] += 1;
        }
    }
    assert!(cells.iter().all(|count| *count > 100), "{cells:?}");
    assert_eq!(cells.iter().sum::<usize>(), names.len() * 20);
    ran(&mut program(&[
        "report",
        log.to_str().unwrap(),
        "--format",
        "parquet",
    ]))
    .assert_exits(2, &["--format"]);
}
