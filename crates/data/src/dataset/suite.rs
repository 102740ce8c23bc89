//! The dataset `suite`: constraints of every kind from practical domains, each with a prompt and
//! examples of valid and invalid answers. The rows are in the format of `custom`.

use clap::Args;
use serde::{Deserialize, Serialize};

use super::flags::{OrderFlags, ShortfallFlags};
use super::registry::{
    ConstraintScope, DOCUMENT_OUTPUT_LEN, DatasetKind, Inputs, ReferenceCheck, Spec,
};
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall, custom, notation};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};

/// The name and version of the rows. Published results can be compared if they name the same one,
/// so the file of a version never changes.
pub const SUITE_NAME: &str = "suite-1";
const ROWS: &str = include_str!("../../shipped/suite-1.jsonl");

/// The flags of `suite`.
#[derive(Args, Clone, Debug, Default)]
pub struct SuiteFlags {
    /// Rows of suite with all of these tags, e.g. kind:json,difficulty:hard; sobench datasets show
    /// lists the tags
    #[arg(long, value_name = "TAG,...", value_delimiter = ',')]
    pub suite_filter: Vec<String>,
}

/// The options of `suite`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuitePlan {
    /// Tags that each row must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub suite_filter: Vec<String>,
    pub order: Order,
    pub shortfall: Shortfall,
}

impl DatasetKind for SuitePlan {
    const SPEC: Spec = Spec {
        flags: &[
            SuiteFlags::augment_args,
            OrderFlags::augment_args,
            ShortfallFlags::augment_args,
        ],
        output_len: DOCUMENT_OUTPUT_LEN,
        has_grammars: true,
        references: ReferenceCheck::Generated,
        is_templated: false,
        ..Spec::new("suite", ConstraintScope::PerRow)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        Ok(Self {
            suite_filter: flags.suite.suite_filter.clone(),
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        })
    }

    /// The rows with all tags of the filter, each once, shuffled by the seed.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        let found = matching_rows(&self.suite_filter)?;
        let mut rows: Vec<Row> = found.into_iter().map(|(_, row)| row).collect();
        self.order.apply(plan.seed, &mut rows);
        let rows = Rows::new(
            rows,
            RowsKind::Collected(self.shortfall),
            SUITE_NAME.to_owned(),
        );
        Ok(notation::convert_rows(plan, rows))
    }
}

/// The lines of the rows with all of these tags, in the order of the file.
///
/// # Errors
/// No row has a tag, or all of them.
pub(super) fn matching_lines(filter: &[String]) -> Result<Vec<&'static str>> {
    let found = matching_rows(filter)?;
    Ok(found.into_iter().map(|(line, _)| line).collect())
}

fn matching_rows(filter: &[String]) -> Result<Vec<(&'static str, Row)>> {
    let mut all = Vec::new();
    for (index, line) in ROWS.lines().enumerate() {
        let location = format!("{SUITE_NAME}, line {}", index + 1);
        let row = custom::row(line, &location, &mut custom::SharedConstraints::default())
            .map_err(|error| Error::internal(format!("{location}: {error}")))?;
        let score = row.constraint.as_deref().and_then(Constraint::scorer);
        all.push((line, Row { score, ..row }));
    }
    let has_tag = |row: &Row, tag: &String| row.tags.contains(tag);
    if let Some(unknown) = filter
        .iter()
        .find(|tag| !all.iter().any(|(_, row)| has_tag(row, tag)))
    {
        let tags = all.iter().flat_map(|(_, row)| &row.tags);
        let mut groups: Vec<&str> = tags
            .filter(|tag| !tag.starts_with(custom::NAME_TAG))
            .map(String::as_str)
            .collect();
        groups.sort_unstable();
        groups.dedup();
        return Err(
            Error::usage(format!("no row of {SUITE_NAME} has the tag: {unknown}")).hint(format!(
                "use {}NAME, or tags of this list: {}",
                custom::NAME_TAG,
                groups.join(", ")
            )),
        );
    }
    all.retain(|(_, row)| filter.iter().all(|tag| has_tag(row, tag)));
    if all.is_empty() {
        return Err(Error::usage(format!(
            "no row of {SUITE_NAME} has all of these tags: {}",
            filter.join(", ")
        ))
        .hint("give fewer tags; a row has one kind, one domain and one difficulty"));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::dataset::tests::{plan, tokenizer};
    use crate::dataset::{DatasetName, Source, load};
    use crate::tokenizer::Tokenizer;
    use sobench_core::case::Prompt;
    use sobench_core::constraint::{GrammarDialect, GrammarSpelling, sha256_hex};

    /// Published results name `suite-1`. A change of its rows needs a new version.
    #[test]
    fn the_rows_of_a_version_do_not_change() {
        assert_eq!(
            sha256_hex(ROWS.as_bytes()),
            "ceadae342926c13c4d5d626ec9ad9bee7dba994991e64882603ad5d7ed0e5f49"
        );
        let plan = DatasetPlan {
            num_prompts: 60,
            output_len: DOCUMENT_OUTPUT_LEN,
            ..suite(SuitePlan {
                order: Order::AsStored,
                ..SuitePlan::default()
            })
        };
        let dataset = load(&plan, &tokenizer()).unwrap();
        assert_eq!(
            (dataset.rows, dataset.source.as_str(), &*dataset.sha256),
            (
                60,
                "suite-1",
                "c25368cc8c2d5e226c607a7e20ca7fa93d8602c7667c852de4c9d7245f33d48c"
            )
        );
    }

    fn suite(options: SuitePlan) -> DatasetPlan {
        DatasetPlan {
            source: Source::Suite(options),
            ..plan(DatasetName::Suite)
        }
    }

    fn names(plan: &DatasetPlan) -> Vec<String> {
        let cases = load(plan, &tokenizer()).unwrap().cases;
        let name = |tags: &Vec<String>| tags.last().unwrap().replace("name:", "");
        cases.iter().map(|case| name(&case.tags)).collect()
    }

    #[test]
    fn each_row_is_sent_once_in_the_order_of_the_seed_then_again() {
        let run = |num_prompts, seed| {
            names(&DatasetPlan {
                num_prompts,
                seed,
                ..suite(SuitePlan::default())
            })
        };
        let all = run(130, 0);
        let distinct: BTreeSet<&String> = all[..60].iter().collect();
        assert_eq!((distinct.len(), all.len()), (60, 130));
        assert_eq!(all[..60], all[60..120]);
        assert_eq!(run(20, 0), all[..20]);
        assert_ne!(run(60, 1), all[..60]);
        let once = DatasetPlan {
            num_prompts: 130,
            ..suite(SuitePlan {
                shortfall: Shortfall::FewerRequests,
                ..SuitePlan::default()
            })
        };
        assert_eq!(names(&once), all[..60]);
    }

    #[test]
    fn rows_have_one_kind_domain_and_difficulty_and_features() {
        let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
        for (_, row) in matching_rows(&[]).unwrap() {
            let groups: Vec<&str> = row
                .tags
                .iter()
                .map(|tag| tag.split_once(':').unwrap().0)
                .collect();
            let features = groups.len() - 4;
            assert!(features >= 1, "{}", row.name);
            let expected = [
                &["kind", "domain"][..],
                &vec!["feature"; features],
                &["difficulty", "name"],
            ];
            assert_eq!(groups, expected.concat(), "{}", row.name);
            let kind = row.constraint.as_ref().unwrap().kind();
            assert_eq!(row.tags[0], format!("kind:{kind}"), "{}", row.name);
            assert!(
                ["easy", "medium", "hard"]
                    .map(|difficulty| format!("difficulty:{difficulty}"))
                    .contains(&row.tags[features + 2]),
                "{}",
                row.name
            );
            assert_eq!(row.grammar_oracle.is_some(), kind == "grammar");
            *kinds.entry(kind.to_owned()).or_default() += 1;
        }
        let kinds: Vec<(&str, usize)> = kinds
            .iter()
            .map(|(kind, rows)| (kind.as_str(), *rows))
            .collect();
        assert_eq!(
            kinds,
            [("choice", 8), ("grammar", 10), ("json", 30), ("regex", 12)]
        );
    }

    #[test]
    fn a_filter_keeps_the_rows_with_all_tags() {
        let filtered = |tags: &[&str]| {
            matching_rows(&tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>())
        };
        let hard = filtered(&["kind:json", "difficulty:hard"]).unwrap();
        assert!((5..20).contains(&hard.len()), "{}", hard.len());
        assert!(hard.iter().all(|(_, row)| {
            row.tags.contains(&"kind:json".to_owned())
                && row.tags.contains(&"difficulty:hard".to_owned())
        }));
        assert_eq!(filtered(&["name:invoice"]).unwrap().len(), 1);
        let error = filtered(&["kind:json", "hard"]).unwrap_err();
        assert_eq!(error.what, "no row of suite-1 has the tag: hard");
        assert!(error.hint.unwrap().contains("difficulty:hard"));
        let error = filtered(&["kind:json", "feature:lark"]).unwrap_err();
        assert_eq!(
            error.what,
            "no row of suite-1 has all of these tags: kind:json, feature:lark"
        );
    }

    /// Reference answers fit twice into the default limit, and prompts into a small context.
    #[test]
    fn prompts_and_reference_answers_are_short_enough() {
        let tokenizer = Tokenizer::embedded();
        for (_, row) in matching_rows(&[]).unwrap() {
            let answer = tokenizer.count(row.completion.as_deref().unwrap());
            assert!(
                2 * answer <= DOCUMENT_OUTPUT_LEN as usize,
                "{}: {answer} tokens",
                row.name
            );
            let Prompt::Text(prompt) = &row.prompt else {
                panic!("expected a text")
            };
            let prompt = tokenizer.count(prompt);
            assert!(prompt <= 2000, "{}: {prompt} tokens", row.name);
        }
    }

    #[test]
    fn grammars_are_converted_for_servers_that_read_one_notation() {
        for target in [GrammarDialect::Lark, GrammarDialect::Ebnf] {
            let plan = DatasetPlan {
                grammar_dialect: target,
                grammar_spelling: GrammarSpelling::Converted,
                num_prompts: 60,
                ..suite(SuitePlan {
                    suite_filter: vec!["kind:grammar".to_owned()],
                    ..SuitePlan::default()
                })
            };
            let dataset = load(&plan, &tokenizer()).unwrap();
            for case in &dataset.cases {
                let Some(sobench_core::constraint::Constraint::Grammar { dialect, .. }) =
                    case.constraint.as_deref()
                else {
                    panic!("expected a grammar")
                };
                assert_eq!(*dialect, target, "{:?}", case.tags);
                assert!(case.grammar_oracle.is_some());
            }
        }
    }
}
