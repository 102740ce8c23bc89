//! Measures an engine in the worker process of the built executable, on a small corpus.

use sobench_engine::EngineName;
use sobench_shutdown::Shutdown;
use sobench_testkit::repository_path;
use sobench_tools::mask::row::{DeclineClass, InstanceOutcome, Row, Spelling};
use sobench_tools::mask::{CorpusSource, MaskPlan, WorkerCommand, run};

/// The outcomes of a row's instances in one spelling.
fn outcomes(row: &Row, spelling: Spelling) -> Vec<&InstanceOutcome> {
    row.instances
        .iter()
        .filter(|instance| instance.spelling == spelling)
        .map(|instance| &instance.outcome)
        .collect()
}

#[test]
fn llguidance_outcomes_on_the_small_corpus() {
    let corpora = vec![CorpusSource {
        kind: None,
        path: repository_path("fixtures/mask/maskbench"),
    }];
    let plan = MaskPlan {
        corpora,
        batch_sizes: vec![1, 3],
        ..MaskPlan::default()
    };
    let worker = WorkerCommand {
        program: env!("CARGO_BIN_EXE_sobench-tools").into(),
        arguments: vec!["mask-worker".to_owned()],
    };
    let run = run(&plan, &worker, &Shutdown::new(), &|_| ()).unwrap();
    assert!(
        !run.interrupted && run.notices.is_empty(),
        "{:?}",
        run.notices
    );
    let rows: Vec<Row> = run.rows().map(Result::unwrap).collect();
    let names: Vec<&str> = rows.iter().map(|row| &*row.entry).collect();
    assert_eq!(
        names,
        ["not.json", "number.json", "order.json", "outside.json"]
    );
    for (place, feature) in [(0, Some("not")), (3, None)] {
        let declined = rows[place].declined.as_ref().unwrap();
        assert!(
            feature.is_none_or(|feature| declined.feature.as_deref() == Some(feature)),
            "{declined:?}"
        );
        assert!(
            declined.class != DeclineClass::TooLarge && !declined.message.is_empty(),
            "{declined:?}"
        );
        assert!(rows[place].instances.is_empty() && rows[place].compile.is_none());
    }
    for spelling in Spelling::JSON {
        assert_eq!(
            outcomes(&rows[1], spelling),
            [&InstanceOutcome::Pass; 2],
            "every prefix of a number is one, too"
        );
        let order = outcomes(&rows[2], spelling);
        assert_eq!(order[0], &InstanceOutcome::Pass);
        assert!(
            matches!(
                order[1],
                InstanceOutcome::RejectsValid { token: Some(_), .. }
            ),
            "{:?}",
            order[1]
        );
        assert_eq!(
            order[2..],
            [
                &InstanceOutcome::Pass,
                &InstanceOutcome::Disputed { accepted: true }
            ]
        );
    }
    let (row, instance) = (&rows[2], &rows[2].instances[0]);
    assert_eq!(
        instance.masks,
        instance.tokens + 1,
        "a mask for every token and one for the end"
    );
    assert!(
        row.compile
            .is_some_and(|compile| compile.cold_ns > 0 && compile.first_mask_ns > 0)
    );
    assert_eq!(
        row.times
            .iter()
            .map(|times| times.spelling)
            .collect::<Vec<_>>(),
        Spelling::JSON
    );
    for times in &row.times {
        let masks = row
            .instances
            .iter()
            .filter(|instance| instance.spelling == times.spelling)
            .map(|instance| instance.masks);
        assert_eq!(times.cold.mask.count(), u64::from(masks.sum::<u32>()));
        assert_eq!(times.warm.mask.count(), times.cold.mask.count());
    }
    let batches: Vec<_> = run
        .batches
        .iter()
        .map(|batch| (batch.engine, batch.sequences, batch.distinct))
        .collect();
    assert_eq!(
        batches,
        [(EngineName::Guidance, 1, 1), (EngineName::Guidance, 3, 1)]
    );
    assert_eq!(run.record.corpora[0].sha256.len(), 64);
    assert!(run.record.engines[0].version.starts_with("llguidance "));
    #[cfg(target_os = "linux")]
    assert!(
        run.record.engines[0]
            .peak_rss_bytes
            .is_some_and(|bytes| bytes > 1 << 20)
    );
}
