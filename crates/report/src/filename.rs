//! The default name of the result file.

use super::result_layout::ResultFormat;
use sobench_core::schedule::Pace;
use sobench_plan::record::RunRecord;

/// Bytes at most of a part of the name, so that the whole stays within the limit of file systems
/// (255).
const PART_MAX_BYTES: usize = 60;

/// The name of the result file of a run of `requests` requests. sobench's own layout uses the
/// script's name with `stamp` at its end, and `.json`; the other layouts use their tools' names.
/// Characters other than letters, digits, `.`, `_` and `-` become `-`.
///
/// A ramp replaces the rate, as in `vllm bench serve`.
pub fn filename(record: &RunRecord, requests: usize, layout: ResultFormat, stamp: &str) -> String {
    match layout {
        ResultFormat::Sobench => joined(
            script_parts(record, requests)
                .into_iter()
                .chain([Some(stamp.to_owned())]),
            "_",
            "json",
        ),
        // The script writes JSON to `.txt`, and has no stamp.
        ResultFormat::VllmStructured => {
            joined(script_parts(record, requests).into_iter(), "_", "txt")
        }
        ResultFormat::VllmServe => joined(serve_parts(record, stamp).into_iter(), "-", "json"),
    }
}

/// `1.0so_vllm_infqps_MODEL_json_1000_out128`.
fn script_parts(record: &RunRecord, requests: usize) -> [Option<String>; 7] {
    let settings = &record.settings;
    [
        record
            .constrained_ratio()
            .map(|ratio| format!("{}so", python_ratio(ratio))),
        Some(settings.backend.to_string()),
        Some(rate(record)),
        Some(last_path_part(&record.server.model_id).to_owned()),
        Some(last_path_part(settings.dataset.source.name.as_str()).to_owned()),
        Some(requests.to_string()),
        settings.output_len().map(|tokens| format!("out{tokens}")),
    ]
}

/// `vllm-infqps-concurrency8-MODEL-20260102-030405`.
fn serve_parts(record: &RunRecord, stamp: &str) -> [Option<String>; 5] {
    let settings = &record.settings;
    let label = settings
        .report
        .label
        .clone()
        .filter(|label| !label.is_empty());
    [
        label.or_else(|| Some(settings.backend.to_string())),
        Some(rate(record)),
        record.own_cap().map(|cap| format!("concurrency{cap}")),
        Some(last_path_part(&record.server.model_id).to_owned()),
        Some(stamp.to_owned()),
    ]
}

fn rate(record: &RunRecord) -> String {
    match record.settings.load.pace {
        Pace::Steady(_) => format!("{:?}qps", record.own_request_rate()),
        Pace::Ramp(ramp) => format!(
            "ramp-up-{}-{}qps-{}qps",
            ramp.strategy.name(),
            ramp.start_rps,
            ramp.end_rps
        ),
    }
}

fn joined(parts: impl Iterator<Item = Option<String>>, between: &str, ending: &str) -> String {
    let parts: Vec<String> = parts
        .flatten()
        .map(|part| safe(&part))
        .filter(|part| !part.is_empty())
        .collect();
    let name = if parts.is_empty() {
        "sobench".to_owned()
    } else {
        parts.join(between)
    };
    format!("{name}.{ending}")
}

/// Python prints a float as `1.0`; the script sets an integer zero where nothing is constrained.
fn python_ratio(ratio: f64) -> String {
    if ratio == 0.0 {
        "0".to_owned()
    } else {
        format!("{ratio:?}")
    }
}

/// The part after the last separator.
fn last_path_part(path: &str) -> &str {
    path.trim_end_matches(['/', '\\'])
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or(path)
}

/// A part of a name with safe characters only.
fn safe(part: &str) -> String {
    let allowed =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    let spelt: String = part
        .chars()
        .map(|character| if allowed(character) { character } else { '-' })
        .take(PART_MAX_BYTES)
        .collect();
    spelt.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::schedule::Rate;
    use sobench_plan::record::testing::record;

    fn named(record: &RunRecord, stamp: &str) -> String {
        filename(record, 1000, ResultFormat::Sobench, stamp)
    }

    fn qwen() -> RunRecord {
        let mut record = record();
        record.server.model_id = "Qwen/Qwen2.5-7B-Instruct".into();
        record
    }

    #[test]
    fn the_default_name_is_the_scripts_with_a_stamp() {
        assert_eq!(
            named(&qwen(), ""),
            "1.0so_vllm_infqps_Qwen2.5-7B-Instruct_json_1000_out128.json"
        );
        let mut free = qwen();
        free.settings.dataset.constrained_ratio = 0.0;
        free.settings.load.pace = Pace::Steady(Rate::PerSecond(10.0));
        assert_eq!(
            named(&free, "20260102-030405"),
            "0so_vllm_10.0qps_Qwen2.5-7B-Instruct_json_1000_out128_20260102-030405.json"
        );
    }

    #[test]
    fn each_layout_has_the_name_of_its_tool() {
        use ResultFormat::{VllmServe, VllmStructured};
        let stamp = "20260102-030405";
        let mut capped = qwen();
        capped.settings.report.label = Some("night".into());
        capped.settings.load.max_concurrency = Some(8);
        capped.settings.load.pace = Pace::Steady(Rate::PerSecond(2.5));
        for (layout, record, expected) in [
            (
                VllmStructured,
                qwen(),
                "1.0so_vllm_infqps_Qwen2.5-7B-Instruct_json_1000_out128.txt",
            ),
            (
                VllmServe,
                qwen(),
                "vllm-infqps-Qwen2.5-7B-Instruct-20260102-030405.json",
            ),
            (
                VllmServe,
                capped,
                "night-2.5qps-concurrency8-Qwen2.5-7B-Instruct-20260102-030405.json",
            ),
        ] {
            assert_eq!(filename(&record, 1000, layout, stamp), expected);
        }
    }

    #[test]
    fn special_characters_never_leave_the_directory() {
        let model = |id: &str| {
            let mut record = record();
            record.server.model_id = id.into();
            filename(&record, 1000, ResultFormat::VllmServe, "")
        };
        for (id, expected) in [
            ("/models/my model/", "vllm-infqps-my-model.json"),
            ("..", "vllm-infqps.json"),
            ("a:b*c", "vllm-infqps-a-b-c.json"),
            ("C:\\models\\x", "vllm-infqps-x.json"),
            ("日本", "vllm-infqps---.json"),
            ("", "vllm-infqps.json"),
        ] {
            assert_eq!(model(id), expected, "{id}");
        }
        assert_eq!(
            model(&"m".repeat(500)).len(),
            "vllm-infqps-.json".len() + PART_MAX_BYTES
        );
    }
}
