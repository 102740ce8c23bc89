//! Run log parser: any file is parsed or refused with a message, and a parsed log can be reported.
//!
//! Bytes: the file.

use sobench::commands::flags::rendering::{DetailArgs, RenderingArgs, SaveArgs};
use sobench::commands::report;
use sobench::commands::report::args::ReportArgs;
use sobench_core::output_format::OutputFormat;
use sobench_report::junit::JunitPer;
use sobench_report::text::Detail;
use sobench_runlog::RunLog;

/// Formats that together use everything that was parsed.
const FORMATS: [OutputFormat; 3] = [OutputFormat::Text, OutputFormat::Json, OutputFormat::Csv];

pub(crate) fn check(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let log = folder.path().join("log.jsonl");
    std::fs::write(&log, bytes).expect("the file");
    let read = match RunLog::read(&log) {
        Ok(read) => read,
        Err(error) => {
            assert!(
                !error.what.is_empty() && error.hint.is_some(),
                "an error without a hint: {error}"
            );
            return;
        }
    };
    let requests = read.into_lines();
    let again = requests.reader().read(0..requests.len());
    assert_eq!(again.map(|read| read.len()), Ok(requests.len()));
    for (format, detail) in FORMATS
        .into_iter()
        .flat_map(|format| Detail::ALL.map(|detail| (format, detail)))
    {
        let rendering = RenderingArgs {
            format,
            junit_per: JunitPer::default(),
            plot: true,
        };
        let flags = ReportArgs {
            log: Some(log.clone().into()),
            last: false,
            save: SaveArgs::default(),
            rendering,
            detail: DetailArgs { detail },
        };
        // Inconsistent settings are an error; must not panic.
        let _ = report::report_of(&flags);
    }
}
