//! Pages of each kind of server, in excerpts.

use super::*;

const VLLM: &str = include_str!("../../../../fixtures/server-metrics/vllm.txt");
const SGLANG: &str = include_str!("../../../../fixtures/server-metrics/sglang.txt");
const LLAMA_CPP: &str = include_str!("../../../../fixtures/server-metrics/llama_cpp.txt");
const TGI: &str = include_str!("../../../../fixtures/server-metrics/tgi.txt");
const TRTLLM_SERVE: &str = include_str!("../../../../fixtures/server-metrics/trtllm_serve.txt");
const TRITON: &str = include_str!("../../../../fixtures/server-metrics/triton.txt");

fn read(page: &str) -> ServerSample {
    let (sample, fault) = read_page(page, "http://x/metrics", &[]).unwrap();
    assert_eq!(fault, None);
    sample
}

fn value(sample: &ServerSample, quantity: Quantity) -> Option<f64> {
    sample.values.get(&quantity).copied()
}

#[test]
fn vllm() {
    let sample = read(VLLM);
    let source = sample.source.as_deref().unwrap();
    assert_eq!(source.server.as_deref(), Some("vllm"));
    assert_eq!(
        source.series[&Quantity::Deferred],
        "vllm:num_requests_waiting_by_reason{reason=\"deferred\"}"
    );
    // Two engines are added; of shares the highest counts.
    for (quantity, expected) in [
        (Quantity::Running, 5.0),
        (Quantity::Waiting, 3.0),
        (Quantity::Deferred, 2.0),
        (Quantity::Preemptions, 1.0),
        (Quantity::PromptTokens, 5_052_943.0),
        (Quantity::GeneratedTokens, 120_000.0),
        (Quantity::Memory, 1_234_567_168.0),
        (Quantity::Drafts, 30.0),
        (Quantity::DraftTokens, 60.0),
        (Quantity::AcceptedTokens, 35.0),
    ] {
        assert_eq!(value(&sample, quantity), Some(expected), "{quantity:?}");
    }
    assert!((value(&sample, Quantity::CacheUsage).unwrap() - 45.67).abs() < 1e-9);
    assert_eq!(sample.accepted_by_position, [22.0, 13.0]);
    let ttft = &sample.histograms[&Quantity::Ttft];
    assert_eq!((ttft.count, ttft.sum), (4.0, 6000.0));
    assert_eq!(ttft.buckets, [(250.0, 1.0), (500.0, 3.0)]);
    assert_eq!(sample.histograms[&Quantity::QueueTime].count, 4.0);
    assert_eq!(value(&sample, Quantity::CompileQueue), None);
}

#[test]
fn sglang() {
    let sample = read(SGLANG);
    assert_eq!(value(&sample, Quantity::CompileQueue), Some(3.0));
    assert_eq!(value(&sample, Quantity::Preemptions), Some(2.0));
    assert_eq!(value(&sample, Quantity::AcceptanceRate), Some(62.5));
    let compile = &sample.histograms[&Quantity::CompileTime];
    assert_eq!((compile.count, compile.sum), (7.0, 812.5));
    assert_eq!(compile.buckets[1], (10.0, 2.0));
    assert_eq!(
        sample.source.unwrap().series[&Quantity::Waiting],
        "sglang:num_queue_reqs"
    );
}

#[test]
fn llama_cpp() {
    let sample = read(LLAMA_CPP);
    assert_eq!(value(&sample, Quantity::GeneratedTokens), Some(320.0));
    assert_eq!(value(&sample, Quantity::PromptTokens), Some(1234.0));
    assert_eq!(value(&sample, Quantity::Running), Some(1.0));
    assert_eq!(value(&sample, Quantity::Waiting), Some(2.0));
    assert!(sample.histograms.is_empty());
}

#[test]
fn tgi() {
    let sample = read(TGI);
    assert_eq!(value(&sample, Quantity::Running), Some(4.0));
    assert_eq!(value(&sample, Quantity::PromptTokens), Some(512.0));
    let queue = &sample.histograms[&Quantity::QueueTime];
    assert_eq!((queue.count, queue.sum), (16.0, 250.0));
}

#[test]
fn trtllm_serve() {
    let sample = read(TRTLLM_SERVE);
    assert_eq!(sample.histograms[&Quantity::Ttft].sum, 5200.0);
    assert_eq!(value(&sample, Quantity::CacheUsage), Some(62.0));
}

#[test]
fn triton() {
    let sample = read(TRITON);
    let queue = &sample.histograms[&Quantity::QueueTime];
    assert_eq!((queue.count, queue.sum, queue.buckets.len()), (8.0, 4.0, 0));
    assert_eq!(value(&sample, Quantity::Running), Some(1.0));
    assert_eq!(value(&sample, Quantity::Waiting), Some(6.0));
    assert_eq!(value(&sample, Quantity::CacheUsage), Some(25.0));
}

#[test]
fn pages_are_where_their_server_has_them() {
    assert_eq!(addresses(ServerKind::Vllm), [(None, "/metrics")]);
    assert_eq!(
        addresses(ServerKind::TrtllmServe),
        [(None, "/prometheus/metrics"), (None, "/metrics")]
    );
    assert_eq!(
        addresses(ServerKind::TensorrtLlm)[0],
        (Some(8002), "/metrics")
    );
}

#[test]
fn each_quantity_has_a_series_on_some_page_and_names_start_with_their_prefix() {
    let pages = MetricsPage::ALL.map(MetricsPage::spec);
    for quantity in Quantity::ALL {
        let all = pages.iter().flat_map(|page| page.series).chain(&PROCESS);
        assert!(
            all.into_iter().any(|series| series.quantity == quantity),
            "{quantity:?}"
        );
    }
    for page in pages {
        for series in page.series {
            let is_own = series.name.starts_with(page.prefix);
            assert!(is_own || page.name == "embedded", "{}", series.name);
        }
    }
}

#[test]
fn pages_that_are_no_metrics_are_faults() {
    for (page, expected) in [
        ("<!doctype html><p>a 1", ScrapeFault::Html),
        ("\n <html>", ScrapeFault::Html),
        ("", ScrapeFault::NoSeries),
        ("[{\"iter\": 1}]", ScrapeFault::NoSeries),
        ("not found", ScrapeFault::NoSeries),
        ("# HELP a b\n# TYPE a gauge\n", ScrapeFault::NoSeries),
    ] {
        assert_eq!(read_page(page, "u", &[]).unwrap_err(), expected, "{page}");
    }
}

#[test]
fn wrong_values_are_left_out_and_counted() {
    let page = "vllm:num_requests_running NaN\nvllm:num_requests_waiting{a=\"1\"} 2\n\
        vllm:num_requests_waiting{a=\"2\"} +Inf\nvllm:num_preemptions_total -1\nnoise\n\
        vllm:generation_tokens_total 5\nvllm:generation_tokens_total 7\n\
        vllm:time_to_first_token_seconds_count 2\nvllm:time_to_first_token_seconds_sum 1\n\
        vllm:time_to_first_token_seconds_bucket{le=\"NaN\"} 1\n\
        vllm:time_to_first_token_seconds_bucket{le=\"x\"} 1\n\
        vllm:time_to_first_token_seconds_bucket{le=\"+Inf\"} 2\n\
        vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1e300\"} 1\n";
    let (sample, fault) = read_page(page, "u", &[]).unwrap();
    assert_eq!(fault, Some(ScrapeFault::NotFinite(5)));
    assert_eq!(value(&sample, Quantity::Running), None);
    assert_eq!(value(&sample, Quantity::Waiting), Some(2.0));
    assert_eq!(
        value(&sample, Quantity::GeneratedTokens),
        Some(7.0),
        "of a repeated line the last one counts"
    );
    assert!(sample.histograms[&Quantity::Ttft].buckets.is_empty());
}

#[test]
fn sums_beyond_the_range_of_numbers_are_left_out() {
    let page = "vllm:num_requests_running{a=\"1\"} 1e308\nvllm:num_requests_running{a=\"2\"} 1e308\n\
        vllm:time_to_first_token_seconds_sum 1e308\nvllm:time_to_first_token_seconds_count 1\n\
        x{a=\"1\"} 1e308\nx{a=\"2\"} 1e308\n";
    let (sample, fault) = read_page(page, "u", &["x".to_owned()]).unwrap();
    assert_eq!(fault, Some(ScrapeFault::NotFinite(3)));
    assert!(sample.is_empty(), "{sample:?}");
}

#[test]
fn named_series_are_summed_over_their_other_labels() {
    let page = "up 1\nx{a=\"1\",b=\"1\"} 2\nx{a=\"1\",b=\"2\"} -0.5\nx{a=\"2\"} 8\ny NaN\n";
    let named = ["x", "x{a=\"1\"}", "y", "z"].map(str::to_owned);
    let (sample, fault) = read_page(page, "u", &named).unwrap();
    assert_eq!(fault, Some(ScrapeFault::NotFinite(1)));
    let found: Vec<_> = sample.named.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    assert_eq!(found, [("x", 9.5), ("x{a=\"1\"}", 1.5)]);
    assert_eq!(sample.source.unwrap().server, None);
}
