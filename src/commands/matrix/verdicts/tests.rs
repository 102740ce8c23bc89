//! Planted differences, and comparisons about which nothing can be said.

use super::batches::Decoding;
use super::*;
use sobench_plan::record::condition::Field;
use sobench_results::compare::requests::Request;
use sobench_results::metrics::registry::{RequestValues, totals};

const JSON: &str = "json";

/// How a contender behaves in a run of forty requests.
#[derive(Clone, Copy)]
struct Behavior {
    tpot_ms: f64,
    /// The number of first requests with this cause.
    wrong: usize,
    cause: Cause,
    is_refused: bool,
}

const EQUAL: Behavior = Behavior {
    tpot_ms: 8.0,
    wrong: 0,
    cause: Cause::Invalid,
    is_refused: false,
};

const REQUESTS: usize = 40;

/// The requests of a repeat, with what is found of each; times vary a little between repeats.
fn requests(behavior: Behavior, repeat: usize, spread_ms: f64) -> Vec<(Request, Found)> {
    let request = |case: usize| {
        let mut values = RequestValues::default();
        let found = (case < behavior.wrong).then_some(behavior.cause);
        values.set_hit(&rates::CORRECT_RATE, Some(found.is_none()));
        let complied = match found {
            None => Some(true),
            Some(Cause::Invalid) => Some(false),
            Some(_) => None,
        };
        values.set_hit(&rates::COMPLIANCE, complied);
        let answered = !matches!(found, Some(Cause::Refused | Cause::Failed));
        if answered {
            let shift = spread_ms * (repeat as f64 - 1.0);
            values.set_value(&latencies::TTFT, Some(30.0 + shift));
            values.set_value(&latencies::TPOT, Some(behavior.tpot_ms + shift / 10.0));
            values.set_value(&latencies::E2EL, Some(500.0 + shift));
        }
        let words = "schema keyword 'multipleOf' is not supported";
        let request = Request {
            case: Some(case.to_string()),
            answered,
            values,
            ..compare::testing::request()
        };
        let finding = Found {
            case,
            constraint: Some((case % 4) as u32),
            judged: Some(found.map_or(Ok(()), Err)),
            refusal: behavior
                .is_refused
                .then(|| Refused {
                    message: words.into(),
                    keyword: Some("multipleOf".into()),
                })
                .filter(|_| !answered),
            ..Found::default()
        };
        (request, finding)
    };
    (0..REQUESTS).map(request).collect()
}

type Runs = Vec<Vec<(Request, Found)>>;

fn runs(behavior: Behavior, repeats: usize) -> Runs {
    with_spread(behavior, repeats, 0.5)
}

fn with_spread(behavior: Behavior, repeats: usize, spread_ms: f64) -> Runs {
    (0..repeats)
        .map(|repeat| requests(behavior, repeat, spread_ms))
        .collect()
}

fn cell<'a>(contender: &'a str, runs: &'a Runs) -> CellEvidence<'a> {
    let requests = |run: &Vec<(Request, Found)>| {
        let requests = run.iter().map(|(request, _)| request.clone());
        requests.collect()
    };
    CellEvidence {
        dataset: JSON,
        contender,
        load: Load::AsGiven,
        output_len: 96,
        side: compare::testing::side(contender, runs.iter().map(requests).collect()),
        findings: runs.iter().flatten().map(|(_, found)| found).collect(),
        compile_ms: Vec::new(),
        decoding: CellDecoding::default(),
        invalid_reason: None,
        failure: None,
    }
}

fn compared(first: &Runs, second: &Runs) -> Verdicts {
    verdicts(&[cell("xgrammar", first), cell("guidance", second)])
}

fn claims(verdicts: &Verdicts) -> Vec<String> {
    verdicts.claims().map(Verdict::to_string).collect()
}

#[test]
fn right_answers_are_compared() {
    let graded = |wrong_of_ten: usize| {
        let mut runs = runs(EQUAL, 3);
        for (request, found) in runs.iter_mut().flatten() {
            let is_right = found.case % 10 >= wrong_of_ten;
            let rate = &rates::ACCURACY;
            request.values.set_hit(rate, Some(is_right));
        }
        runs
    };
    let found = compared(&graded(5), &graded(1));
    let claims = claims(&found);
    let expected = "accuracy of xgrammar and guidance: 50.0 and 90.0 % (difference -40.0 points, ";
    assert!(
        claims.iter().any(|claim| claim.starts_with(expected)),
        "{claims:?}"
    );
    let equal = compared(&graded(5), &graded(5));
    assert_eq!(equal.comparisons, 6);
}

#[test]
fn equal_contenders_are_not_said_to_differ() {
    let found = compared(&runs(EQUAL, 3), &runs(EQUAL, 3));
    assert_eq!(found.comparisons, 5);
    assert_eq!(
        found.interval_percent,
        Some(99.0),
        "none of five is rejected"
    );
    assert_eq!(claims(&found), [""; 0]);
    let sentences = found.sentences();
    let rate = "too few requests to decide: correct rate of xgrammar and guidance: 100.0 and 100.0 % (difference 0.0 points, interval -1";
    let ttft = "no difference that matters: median TTFT of xgrammar and guidance: 30.0 and 30.0 ms (difference 0.0 ms, ";
    for expected in [rate, ttft] {
        let mut sentences = sentences.iter();
        assert!(
            sentences.any(|sentence| sentence.starts_with(expected)),
            "{:?}",
            found.sentences()
        );
    }
}

#[test]
fn planted_time_is_claimed_of_the_slower_contender() {
    let slow = Behavior {
        tpot_ms: 9.6,
        ..EQUAL
    };
    for (first, second) in [(EQUAL, slow), (slow, EQUAL)] {
        let found = compared(&runs(first, 3), &runs(second, 3));
        let subject = if first.tpot_ms > 9.0 {
            "xgrammar"
        } else {
            "guidance"
        };
        let [claim] = &claims(&found)[..] else {
            panic!("{:?}", claims(&found));
        };
        assert!(
            claim.starts_with(&format!("median TPOT of {subject} and "))
                && claim.contains(" (difference 1.6 ms, interval "),
            "{claim}"
        );
        assert_eq!(
            found.interval_percent,
            Some(98.75),
            "one of five is rejected"
        );
        assert_eq!(found.sentences()[0], *claim, "claims come first");
        let json = serde_json::to_value(&found).unwrap();
        let differs = json["verdicts"].as_array().unwrap().iter();
        let differs: Vec<_> = differs
            .filter(|verdict| verdict["kind"] == "differs")
            .collect();
        assert_eq!(differs[0]["figure"], "median_tpot_ms");
        assert!((differs[0]["difference"].as_f64().unwrap() - 1.6).abs() < 1e-9);
    }
}

#[test]
fn few_repeats_say_nothing_about_times() {
    for repeats in [1, 2] {
        let slow = Behavior {
            tpot_ms: 80.0,
            ..EQUAL
        };
        let found = compared(&runs(EQUAL, repeats), &runs(slow, repeats));
        assert_eq!(claims(&found), [""; 0]);
        assert_eq!(found.comparisons, 1, "the correct rate");
        let sentences = found.sentences();
        for figure in [
            "median TTFT",
            "median TPOT",
            "median E2EL",
            "request throughput",
        ] {
            let expected = format!("too few repeats to decide about {figure}: 3 are needed");
            let mut sentences = sentences.iter();
            assert!(sentences.any(|sentence| sentence.starts_with(&expected)));
        }
    }
}

#[test]
fn refusals_come_first_with_their_keyword() {
    let some = Behavior {
        wrong: 3,
        cause: Cause::Refused,
        is_refused: true,
        ..EQUAL
    };
    let found = compared(&runs(EQUAL, 3), &runs(some, 3));
    assert_eq!(
        found.sentences()[0],
        "guidance refuses 3 of 4 constraints: schema keyword 'multipleOf' is not supported (3 for `multipleOf`)"
    );
    let all = Behavior {
        wrong: REQUESTS,
        ..some
    };
    let found = compared(&runs(EQUAL, 3), &runs(all, 3));
    let claims = claims(&found);
    assert!(
        claims.is_empty(),
        "a refusal of all is the only finding: {claims:?}"
    );
}

#[test]
fn unequal_truncation_is_named_and_compliance_is_compared() {
    let cut = |wrong| Behavior {
        wrong,
        cause: Cause::Truncated,
        ..EQUAL
    };
    let found = compared(&runs(cut(8), 3), &runs(cut(24), 3));
    let sentences = found.sentences();
    assert!(
        sentences[0].starts_with("correct rate of guidance and xgrammar: 40.0 and 80.0 % ("),
        "{sentences:?}"
    );
    assert_eq!(
        sentences[1],
        "answers that were cut at 96 tokens: xgrammar 20.0 %, guidance 60.0 %; compare compliance, or run again with --output-len 192"
    );
    let compliance = found
        .verdicts
        .iter()
        .find_map(|verdict| match &verdict.finding {
            Finding::Tested(tested)
                if tested.figure == Compared::Figure(Figure::new(&rates::COMPLIANCE)) =>
            {
                Some(tested)
            }
            _ => None,
        });
    let compliance = compliance.unwrap();
    assert!(compliance.ruling != Ruling::Differs && compliance.difference == 0.0);
}

#[test]
fn what_the_client_may_have_added_is_taken_off() {
    let slow = Behavior {
        tpot_ms: 9.6,
        ..EQUAL
    };
    let (first, second) = (runs(EQUAL, 3), runs(slow, 3));
    let with = |added| {
        let mut cells = [cell("a", &first), cell("b", &second)];
        let tpot = Figure::from_distribution(&latencies::TPOT, Stat::Median);
        cells[1].side.runs[2].distrusted.insert(tpot, added);
        verdicts(&cells)
    };
    // The difference is 1.6 ms.
    let counts = [Some(0.5), Some(2.0), None].map(|added| claims(&with(added)).len());
    assert_eq!(counts, [1, 0, 0]);
    let expected = "not compared: median TPOT of a and b, of which the client may have added more than a tenth";
    let unknown = with(None).sentences();
    assert!(
        unknown.iter().any(|sentence| sentence == expected),
        "{unknown:?}"
    );
}

#[test]
fn at_a_rate_that_both_sustain_throughput_is_not_compared() {
    // Without verdicts there is no throughput of valid answers.
    let mut runs = runs(EQUAL, 3);
    for (request, _) in runs.iter_mut().flatten() {
        request.values.set_hit(&rates::CORRECT_RATE, None);
    }
    let at_rate = |name, rate: &str| {
        let mut cell = cell(name, &runs);
        for run in &mut cell.side.runs {
            run.conditions.insert(Field::RequestRate, rate.to_owned());
        }
        cell
    };
    let throughput = Compared::Figure(Figure::new(&totals::REQUEST_THROUGHPUT));
    // 40 requests in 10 seconds.
    for (rate, is_compared) in [("4", false), ("inf", true)] {
        let found = verdicts(&[at_rate("a", rate), at_rate("b", rate)]);
        let verdicts = found.verdicts.iter();
        let mut figures = verdicts.filter_map(|verdict| verdict.finding.figure());
        assert_eq!(figures.any(|figure| figure == throughput), is_compared);
    }
}

#[test]
fn sentences_have_their_place_if_there_are_several() {
    let slow = Behavior {
        tpot_ms: 9.6,
        ..EQUAL
    };
    let (equal, slow) = (runs(EQUAL, 3), runs(slow, 3));
    let at = |name, runs, rate| CellEvidence {
        load: Load::RequestRate(rate),
        ..cell(name, runs)
    };
    let cells = [
        at("a", &equal, 1.0),
        at("b", &equal, 1.0),
        at("a", &equal, 2.0),
        at("b", &slow, 2.0),
    ];
    let found = verdicts(&cells);
    let [claim] = &claims(&found)[..] else {
        panic!("{:?}", claims(&found));
    };
    assert!(found.sentences()[0] == format!("2 req/s: {claim}"));
}

#[test]
fn contenders_that_did_not_run_have_their_reason() {
    let good = runs(EQUAL, 3);
    let none = Runs::new();
    let failed = CellEvidence {
        failure: Some("no grammars"),
        ..cell("outlines", &none)
    };
    let found = verdicts(&[cell("xgrammar", &good), failed]);
    assert_eq!(found.sentences(), ["outlines did not run: no grammars"]);
    assert_eq!((found.comparisons, found.interval_percent), (0, None));
    assert_eq!(verdicts(&[]), Verdicts::default());
}

#[test]
fn a_contender_that_decodes_fewer_answers_is_not_compared_in_tpot() {
    let (slow, fast) = (
        Behavior {
            tpot_ms: 8.0,
            ..EQUAL
        },
        Behavior {
            tpot_ms: 11.0,
            ..EQUAL
        },
    );
    let (held_up, other) = (runs(slow, 3), runs(fast, 3));
    let busy = Decoding {
        answers: 16.0,
        tokens_per_s: 1600.0,
    };
    let light = Decoding {
        answers: 1.2,
        tokens_per_s: 28.0,
    };
    let with = |contender, runs, decoding, control| CellEvidence {
        decoding: CellDecoding {
            constrained: Some(decoding),
            control,
        },
        ..cell(contender, runs)
    };
    let compared = |control| {
        let found = verdicts(&[
            with("outlines", &held_up, light, control),
            with("xgrammar", &other, busy, control),
        ]);
        let tpot = found.claims().filter(|verdict| {
            matches!(
                verdict.finding.figure(),
                Some(Compared::Figure(figure)) if *figure.metric == latencies::TPOT
            )
        });
        (tpot.count(), found.sentences())
    };
    let (claims, sentences) = compared(Some(busy));
    assert_eq!(
        (claims, sentences[0].as_str()),
        (
            0,
            "not compared: added TTFT and TPOT of outlines, which decoded 1.2 answers at once \
             with the constraint and 16.0 without (steps of fewer answers are shorter): measure \
             at a --request-rate that it sustains"
        )
    );
    // The control arms are no reason.
    let (claims, sentences) = compared(None);
    assert_eq!(
        (claims, sentences[1].as_str()),
        (
            0,
            "not compared: median TPOT of outlines and xgrammar, which decoded 1.2 and 16.0 \
             answers at once (steps of fewer answers are shorter): compare at a --request-rate \
             that both sustain"
        )
    );
    // At the same load, both figures are compared.
    let tpot = Compared::Figure(Figure::from_distribution(&latencies::TPOT, Stat::Median));
    let equal = verdicts(&[
        with("outlines", &held_up, busy, Some(busy)),
        with("xgrammar", &other, busy, Some(busy)),
    ]);
    assert!(
        equal
            .claims()
            .any(|verdict| verdict.finding.figure() == Some(tpot))
    );
}

#[test]
fn two_compile_times_that_differ_much_need_no_third() {
    let equal = runs(EQUAL, 2);
    let with = |first: &[f64], second: &[f64]| {
        let mut cells = [cell("a", &equal), cell("b", &equal)];
        cells[0].compile_ms = first.to_vec();
        cells[1].compile_ms = second.to_vec();
        claims(&verdicts(&cells))
    };
    let decisive = with(&[15.0, 16.0], &[1200.0, 1250.0]);
    assert!(
        decisive[0].starts_with("compile time of b and a: 1225 and 16 ms (difference 1210 ms, "),
        "{decisive:?}"
    );
    assert_eq!(with(&[15.0, 16.0], &[17.0, 19.0]), [""; 0]);
    assert_eq!(with(&[15.0], &[1200.0]), [""; 0], "one does not vary");
}

#[test]
fn a_contender_without_a_correct_answer_is_a_sentence() {
    let none = Behavior {
        wrong: REQUESTS,
        ..EQUAL
    };
    let (bad, good) = (runs(none, 3), runs(EQUAL, 3));
    let mut cell_of_bad = cell("outlines", &bad);
    cell_of_bad.invalid_reason = Some("breaks `minimum` at /price: 2".to_owned());
    let sentences = verdicts(&[cell("xgrammar", &good), cell_of_bad]).sentences();
    assert_eq!(
        sentences[0],
        format!(
            "none of {} answers of outlines is correct: all are invalid (for example: breaks \
             `minimum` at /price: 2)",
            3 * REQUESTS
        )
    );
}

#[test]
fn refusals_with_several_messages_have_the_most_frequent_one_with_its_count() {
    let refused = Behavior {
        wrong: REQUESTS,
        cause: Cause::Refused,
        is_refused: true,
        ..EQUAL
    };
    let mut one_run = runs(refused, 1);
    for (_, found) in one_run[0].iter_mut().step_by(4) {
        found.refusal = Some(Refused {
            message: "compile took too long".into(),
            keyword: None,
        });
    }
    let sentences = verdicts(&[cell("guidance", &one_run)]).sentences();
    assert_eq!(
        sentences[0],
        "guidance refuses 4 of 4 constraints, 3 of them with \"schema keyword 'multipleOf' is not \
         supported\" (3 for `multipleOf`, 1 without a named keyword)"
    );
}
