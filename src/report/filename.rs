//! The saved file's name when the user gives none. Knows no directory.

use super::Report;
use super::saved::ResultFormat;

/// The most bytes of a name's parts, so that the whole stays within what file systems take (255).
const PART_MAX_BYTES: usize = 60;

/// The name of the result file. sobench's own is the script's with `stamp`, if that is not empty, at its end, and `.json`; the others
/// are their tools' to the letter, as far as letters go: whatever is not a letter, a digit, `.`, `_` or `-` becomes `-`.
///
/// A ramp stands in the place of the rate, as in `vllm bench serve`. Parts that are not known are left out.
pub fn filename(report: &Report, layout: ResultFormat, stamp: &str) -> String {
    match layout {
        ResultFormat::Sobench => joined(script_parts(report).into_iter().chain([Some(stamp.to_owned())]), "_", "json"),
        // The script writes JSON all the same, and has no stamp.
        ResultFormat::VllmStructured => joined(script_parts(report).into_iter(), "_", "txt"),
        ResultFormat::VllmServe => joined(serve_parts(report, stamp).into_iter(), "-", "json"),
    }
}

/// `1.0so_vllm_infqps_MODEL_json_1000_out128`.
fn script_parts(report: &Report) -> [Option<String>; 7] {
    let about = &report.about;
    [
        about.constrained_ratio.map(|ratio| format!("{}so", python_ratio(ratio))),
        about.backend.clone(),
        ramp(report).or_else(|| about.request_rate.map(|rate| format!("{rate:?}qps"))),
        about.model_id.as_deref().map(last_path_part).map(str::to_owned),
        about.dataset.name.as_deref().map(last_path_part).map(str::to_owned),
        about.num_prompts.map(|count| count.to_string()),
        about.output_len.map(|tokens| format!("out{tokens}")),
    ]
}

/// `vllm-infqps-concurrency8-MODEL-20260102-030405`.
fn serve_parts(report: &Report, stamp: &str) -> [Option<String>; 5] {
    let about = &report.about;
    [
        about.label.clone().filter(|label| !label.is_empty()).or_else(|| about.backend.clone()),
        ramp(report).or_else(|| about.request_rate.map(|rate| format!("{rate:?}qps"))),
        about.max_concurrency.map(|cap| format!("concurrency{cap}")),
        about.model_id.as_deref().map(last_path_part).map(str::to_owned),
        Some(stamp.to_owned()),
    ]
}

fn ramp(report: &Report) -> Option<String> {
    let ramp = report.load.as_ref().and_then(|load| load.ramp.as_ref())?;
    Some(format!("ramp-up-{}-{}qps-{}qps", ramp.strategy, ramp.start_rps, ramp.end_rps))
}

fn joined(parts: impl Iterator<Item = Option<String>>, between: &str, ending: &str) -> String {
    let parts: Vec<String> = parts.flatten().map(|part| safe(&part)).filter(|part| !part.is_empty()).collect();
    let name = if parts.is_empty() { "sobench".to_owned() } else { parts.join(between) };
    format!("{name}.{ending}")
}

/// Python prints a float's ratio as `1.0`; the script sets an integer zero where nothing is constrained.
fn python_ratio(ratio: f64) -> String {
    if ratio == 0.0 { "0".to_owned() } else { format!("{ratio:?}") }
}

/// The part after the last separator, which is empty for no path that names something.
fn last_path_part(path: &str) -> &str {
    path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A part that no file system and no shell takes for anything but a part of a name.
fn safe(part: &str) -> String {
    let allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
    let spelt: String = part.chars().map(|it| if allowed(it) { it } else { '-' }).take(PART_MAX_BYTES).collect();
    spelt.trim_start_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{MetricsOptions, summarise};
    use crate::report::{About, DatasetAbout};

    fn named(about: About, stamp: &str) -> String {
        named_in(ResultFormat::Sobench, about, stamp)
    }

    fn named_in(layout: ResultFormat, about: About, stamp: &str) -> String {
        filename(&Report::new(about, summarise(&[], 0, &MetricsOptions::default())), layout, stamp)
    }

    fn about() -> About {
        About {
            backend: Some("vllm".into()),
            model_id: Some("Qwen/Qwen2.5-7B-Instruct".into()),
            dataset: DatasetAbout { name: Some("json".into()), ..DatasetAbout::default() },
            num_prompts: Some(1000),
            output_len: Some(128),
            constrained_ratio: Some(1.0),
            request_rate: Some(f64::INFINITY),
            ..About::default()
        }
    }

    #[test]
    fn is_the_scripts_name_but_for_its_end() {
        assert_eq!(named(about(), ""), "1.0so_vllm_infqps_Qwen2.5-7B-Instruct_json_1000_out128.json");
        let free = About { constrained_ratio: Some(0.0), request_rate: Some(10.0), ..about() };
        assert_eq!(named(free, "20260102-030405"), "0so_vllm_10.0qps_Qwen2.5-7B-Instruct_json_1000_out128_20260102-030405.json");
    }

    #[test]
    fn is_each_tools_in_its_layout() {
        use ResultFormat::{VllmServe, VllmStructured};
        let stamp = "20260102-030405";
        let capped = About { label: Some("night".into()), max_concurrency: Some(8), request_rate: Some(2.5), ..about() };
        for (layout, about, expected) in [
            (VllmStructured, about(), "1.0so_vllm_infqps_Qwen2.5-7B-Instruct_json_1000_out128.txt"),
            (VllmServe, about(), "vllm-infqps-Qwen2.5-7B-Instruct-20260102-030405.json"),
            (VllmServe, capped, "night-2.5qps-concurrency8-Qwen2.5-7B-Instruct-20260102-030405.json"),
        ] {
            assert_eq!(named_in(layout, about, stamp), expected);
        }
    }

    #[test]
    fn is_one_file_in_the_directory_whatever_the_names_are() {
        let model = |id: &str| named(About { model_id: Some(id.into()), ..About::default() }, "");
        for (id, expected) in [
            ("/models/my model/", "my-model.json"),
            ("..", "sobench.json"),
            ("a:b*c", "a-b-c.json"),
            ("C:\\models\\x", "x.json"),
            ("日本", "--.json"),
            ("", "sobench.json"),
        ] {
            assert_eq!(model(id), expected, "{id}");
        }
        assert_eq!(model(&"m".repeat(500)).len(), PART_MAX_BYTES + ".json".len());
        assert_eq!(named(About::default(), ""), "sobench.json");
    }
}
