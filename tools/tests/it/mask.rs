//! Tests of the supervisor with faulty child processes, which are shell scripts.

mod children {
    use std::cell::RefCell;
    use std::path::{Path, PathBuf};

    use sobench_engine::EngineName;
    use sobench_shutdown::Shutdown;
    use sobench_tools::mask::row::{Row, Spelling, Stage, StopCause};
    use sobench_tools::mask::{CorpusSource, MaskEvent, MaskPlan, MaskRun, WorkerCommand, run};

    fn rows(run: &MaskRun) -> Vec<Row> {
        run.rows().map(Result::unwrap).collect()
    }

    /// A child that speaks the protocol and behaves as the entry's name requests.
    const CHILD: &str = r#"
        read -r setup
        echo '{"ready":{"version":"fake 1","settings":[["a","b"]],"vocabulary":"v","vocabulary_ids":3,"open_ns":1}}'
        while read -r line; do
            case "$line" in
                '{"batch"'*'"sequences":2'*) echo '{"crashed":{"words":"no batch today"}}'; exit 0;;
                '{"batch"'*) echo '{"batch":{"engine":"guidance","sequences":1,"distinct":1,"threads":1,"step":{"sum_ns":5,"counts":[[5,1]]},"masks":1,"masks_per_second":2e8}}'
                    echo '{"done":{"peak_bytes":null,"peak_rss_bytes":null}}'; continue;;
            esac
            echo '{"stage":{"at":"oracle"}}'
            case "$line" in *'"name":"oracle'*) kill -SEGV $$;; esac
            echo '{"stage":{"at":"compile"}}'
            case "$line" in
                *'"name":"hang'*) sleep 600;;
                *'"name":"garbled'*) echo '{"unreadable":{"words":"hm"}}';;
                *'"name":"exit'*) echo 'last words' >&2; exit 3;;
                *'"name":"memory'*) echo 'memory allocation of 42 bytes failed' >&2; kill -ABRT $$;;
                *'"name":"killed'*) kill -KILL $$;;
                *'"name":"nonsense'*) echo 'hello';;
                *'"name":"wrong'*) echo '{"ready":{"version":"","settings":[],"vocabulary":"","vocabulary_ids":0,"open_ns":0}}';;
                *'"name":"panic'*) echo '{"crashed":{"words":"panic: boom"}}'; exit 0;;
            esac
            echo '{"compiled":{"cold_ns":10,"first_mask_ns":20,"cached_ns":1,"grammar_bytes":null,"peak_bytes":1}}'
            echo '{"stage":{"at":"instance","index":0,"spelling":"verbatim"}}'
            for heat in cold warm; do
                echo '{"pass":{"spelling":"verbatim","heat":"'$heat'","samples":{"mask":[3,4],"commit":[5]}}}'
            done
            echo '{"walked":{"index":0,"spelling":"verbatim","judged":true,"outcome":{"is":"pass"},"tokens":17,"masks":2}}'
            echo '{"stage":{"at":"instance","index":1,"spelling":"verbatim"}}'
            case "$line" in *'"name":"crash'*) kill -SEGV $$;; esac
            echo '{"done":{"peak_bytes":5,"peak_rss_bytes":7}}'
        done"#;

    fn sh() -> WorkerCommand {
        WorkerCommand {
            program: "sh".into(),
            arguments: vec!["-c".to_owned(), CHILD.to_owned()],
        }
    }

    fn plan(folder: &Path, names: &[&str]) -> MaskPlan {
        let lines: Vec<String> = names
            .iter()
            .map(|name| {
                format!(
                    r#"{{"name":"{name}","regex":"a","instances":[{{"text":"a"}},{{"text":"b"}}]}}"#
                )
            })
            .collect();
        let path = folder.join("corpus.jsonl");
        std::fs::write(&path, lines.join("\n")).unwrap();
        MaskPlan {
            corpora: vec![CorpusSource { kind: None, path }],
            batch_sizes: Vec::new(),
            ..MaskPlan::default()
        }
    }

    fn measure(plan: &MaskPlan) -> MaskRun {
        run(plan, &sh(), &Shutdown::new(), &|_| ()).unwrap()
    }

    #[test]
    fn a_dead_child_costs_only_its_own_row() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "fine1", "exit", "memory", "killed", "nonsense", "wrong", "panic", "oracle", "crash",
            "fine2",
        ];
        let run = measure(&MaskPlan {
            jobs: 2,
            ..plan(folder.path(), &names)
        });
        let rows = rows(&run);
        assert_eq!(
            rows.iter()
                .map(|row| row.entry.as_str())
                .collect::<Vec<_>>(),
            names
        );
        for (place, cause, stage, message) in [
            (
                1,
                StopCause::Crash,
                Stage::Compile,
                "last words (exit code 3)",
            ),
            (
                2,
                StopCause::OutOfMemory,
                Stage::Compile,
                "memory allocation of 42 bytes failed (signal 6 SIGABRT)",
            ),
            (
                3,
                StopCause::OutOfMemory,
                Stage::Compile,
                "signal 9 SIGKILL",
            ),
            (4, StopCause::Crash, Stage::Compile, "broke the protocol"),
            (5, StopCause::Crash, Stage::Compile, "broke the protocol"),
            (6, StopCause::Crash, Stage::Compile, "panic: boom"),
            (7, StopCause::Crash, Stage::Oracle, "signal 11 SIGSEGV"),
            (
                8,
                StopCause::Crash,
                Stage::Instance {
                    index: 1,
                    spelling: Spelling::Verbatim,
                },
                "signal 11 SIGSEGV",
            ),
        ] {
            let stopped = rows[place].stopped.as_ref().unwrap();
            assert_eq!(
                (stopped.cause, stopped.stage),
                (cause, stage),
                "{}",
                names[place]
            );
            assert!(stopped.message.contains(message), "{stopped:?}");
        }
        for place in [0, 9] {
            assert_eq!(
                (&rows[place].stopped, rows[place].instances.len()),
                (&None, 1),
                "{}",
                names[place]
            );
            assert_eq!(
                rows[place].compile.and_then(|compile| compile.peak_bytes),
                Some(5)
            );
        }
        let crashed = &rows[8];
        assert_eq!(
            (crashed.instances.len(), crashed.times[0].cold.mask.count()),
            (1, 2),
            "completed data is kept"
        );
        assert!(crashed.compile.is_some_and(|compile| compile.cold_ns == 10));
        assert_eq!(run.record.engines[0].peak_rss_bytes, Some(7));
    }

    #[test]
    fn hanging_child_is_killed_and_the_next_entry_runs() {
        let folder = tempfile::tempdir().unwrap();
        let run = measure(&MaskPlan {
            timeout_ms: 3_000,
            ..plan(folder.path(), &["hang", "fine"])
        });
        let rows = rows(&run);
        let stopped = rows[0].stopped.as_ref().unwrap();
        assert_eq!(
            (stopped.cause, stopped.stage, stopped.message.as_str()),
            (StopCause::Timeout, Stage::Compile, "took longer than 3 s")
        );
        assert!(stopped.after_ns >= 3_000_000_000);
        assert_eq!((rows.len(), rows[1].entry.as_str()), (2, "fine"));
    }

    #[test]
    fn rows_are_ordered_for_any_number_of_children_and_engines() {
        let folder = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..12)
            .map(|number| format!("{}{number}", if number % 3 == 0 { "panic" } else { "fine" }))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let engines = vec![EngineName::Outlines, EngineName::Guidance];
        let base = MaskPlan {
            engines: engines.clone(),
            filter: Some("^[a-z]+([0-46-9]|1[01])$".to_owned()),
            ..plan(folder.path(), &names)
        };
        let row_summaries = |jobs| {
            let rows = rows(&measure(&MaskPlan {
                jobs,
                ..base.clone()
            }));
            rows.into_iter()
                .map(|row| {
                    (
                        row.engine,
                        row.index,
                        row.entry,
                        row.stopped.is_some(),
                        row.instances,
                    )
                })
                .collect::<Vec<_>>()
        };
        let one = row_summaries(1);
        assert_eq!(one, row_summaries(4));
        let places: Vec<usize> = one.iter().map(|row| row.1).collect();
        assert_eq!(places[..11], [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11]);
        assert_eq!(
            (one.len(), one[0].0, one[21].0),
            (22, engines[0], engines[1])
        );
    }

    #[test]
    fn interrupted_run_resumes_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let base = plan(folder.path(), &["fine1", "fine2", "exit", "fine3"]);
        let kept = MaskPlan {
            rows: Some(path.clone()),
            ..base
        };
        let shutdown = Shutdown::new();
        let stopped = run(&kept, &sh(), &shutdown, &|event| {
            if matches!(event, MaskEvent::RowDone { .. }) {
                shutdown.request();
            }
        });
        let stopped = stopped.unwrap();
        let there = stopped.row_count();
        assert!(
            stopped.interrupted && (1..4).contains(&there),
            "{there} rows are there"
        );
        // Truncates the last line, as after a power failure.
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let resumed = MaskPlan {
            resume: true,
            ..kept.clone()
        };
        let started = RefCell::new(None);
        let whole = run(&resumed, &sh(), &Shutdown::new(), &|event| {
            if let MaskEvent::Started { rows, resumed } = event {
                *started.borrow_mut() = Some((rows, resumed));
            }
        });
        let whole = whole.unwrap();
        assert_eq!(*started.borrow(), Some((4, there - 1)));
        assert_eq!(
            (whole.row_count(), whole.interrupted, whole.rows_path()),
            (4, false, Some(path.as_path()))
        );
        assert!(
            whole
                .notices
                .iter()
                .any(|notice| notice.to_string().contains("truncated")),
            "{:?}",
            whole.notices
        );
        for (changed, message) in [
            (
                MaskPlan {
                    timeout_ms: 1,
                    ..resumed.clone()
                },
                "timeout_ms is 60000, expected 1",
            ),
            (
                MaskPlan {
                    limit: Some(2),
                    ..resumed.clone()
                },
                "selected is 4, expected 2",
            ),
            (
                MaskPlan {
                    engines: vec![EngineName::Guidance, EngineName::Outlines],
                    ..resumed
                },
                "engines is guidance, expected guidance,outlines",
            ),
            (kept, "already exists"),
        ] {
            let error = run(&changed, &sh(), &Shutdown::new(), &|_| ()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
    }

    #[test]
    fn failed_batch_becomes_a_notice() {
        let folder = tempfile::tempdir().unwrap();
        let run = measure(&MaskPlan {
            batch_sizes: vec![1, 2],
            ..plan(folder.path(), &["fine"])
        });
        assert_eq!(
            run.batches
                .iter()
                .map(|batch| batch.masks)
                .collect::<Vec<_>>(),
            [1]
        );
        assert_eq!(
            run.notices[0].to_string(),
            "no figures of guidance for batches of 2 sequences: no batch today"
        );
        let none = measure(&MaskPlan {
            batch_sizes: vec![1],
            ..plan(folder.path(), &["panic"])
        });
        assert!(
            none.batches.is_empty()
                && none.notices[0]
                    .to_string()
                    .contains("no valid instance with 16 tokens is accepted")
        );
    }

    #[test]
    fn unreadable_job_fails_the_run_and_blames_no_engine() {
        let folder = tempfile::tempdir().unwrap();
        let error = run(
            &plan(folder.path(), &["fine", "garbled", "fine"]),
            &sh(),
            &Shutdown::new(),
            &|_| (),
        )
        .unwrap_err();
        assert_eq!(
            error.what,
            "child process could not parse its job, garbled: hm"
        );
    }

    #[test]
    fn child_that_cannot_start_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan(folder.path(), &["fine"]);
        let sh = |script: &str| WorkerCommand {
            program: "sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
        };
        for (command, message) in [
            (
                sh("echo dying >&2; exit 1"),
                "ended before guidance was open: dying (exit code 1)",
            ),
            (
                sh(r#"echo '{"cannot_open":{"what":"no such engine","hint":null}}'"#),
                "no such engine",
            ),
            (
                sh(r#"echo '{"crashed":{"words":""}}'"#),
                "broke the protocol",
            ),
            (
                WorkerCommand {
                    program: PathBuf::from("/no/such/program"),
                    arguments: Vec::new(),
                },
                "cannot start",
            ),
        ] {
            let error = run(&plan, &command, &Shutdown::new(), &|_| ()).unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
        let shutdown = Shutdown::new();
        shutdown.request();
        let stopped = run(&plan, &sh("sleep 600"), &shutdown, &|_| ()).unwrap_err();
        assert_eq!(stopped.exit_code(), 130);
    }
}
