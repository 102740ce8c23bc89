//! Options and rows of the datasets that are one repository on the Hub with a fixed layout.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::flags::{HubLengthFlags, OrderFlags, PartFlags, PathFlags, ShortfallFlags};
use super::registry::{ConstraintScope, FlagGroup, Inputs, Spec};
use super::table::{self, Selection};
use super::{DatasetArgs, DatasetPlan, Order, Row, Rows, RowsKind, Shortfall};
use clap::Args;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::DuplicateKeys;

/// The flags of such a dataset.
const FLAGS: &[FlagGroup] = &[
    PathFlags::augment_args,
    OrderFlags::augment_args,
    ShortfallFlags::augment_args,
    PartFlags::augment_args,
    HubLengthFlags::augment_args,
];

/// Such a dataset, with references for its rows.
pub(super) const fn spec(name: &'static str, output_len: u32) -> Spec {
    Spec {
        flags: FLAGS,
        output_len,
        own_output_len: |flags| flags.rows.hf.length.output_len(),
        is_templated: false,
        measures_accuracy: true,
        ..Spec::new(name, ConstraintScope::PerRow)
    }
}

/// The options of such a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RepositoryPlan {
    /// A local path, or a repository of the Hub, `owner/name`.
    pub dataset_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    pub order: Order,
    pub shortfall: Shortfall,
}

/// The layout of a repository.
pub(super) struct Layout {
    /// The repository used without a path.
    pub(super) repository: &'static str,
    /// The folder of the configuration used without `--hf-subset`.
    pub(super) subset: &'static str,
    /// The split used without `--hf-split`.
    pub(super) split: &'static str,
    pub(super) columns: &'static [&'static str],
    /// The columns of a row, for hints.
    pub(super) hint: &'static str,
}

impl RepositoryPlan {
    pub(super) fn new(flags: &DatasetArgs) -> Self {
        let PartFlags {
            hf_subset,
            hf_split,
        } = flags.rows.hf.part.clone();
        Self {
            dataset_path: flags.path.path(),
            subset: hf_subset,
            split: hf_split,
            order: flags.rows.order.order(),
            shortfall: flags.rows.shortfall.shortfall(),
        }
    }

    /// All rows of the split, in the order of the options. `row` reads one, with its name in errors.
    pub(super) fn rows(
        &self,
        layout: &Layout,
        plan: &DatasetPlan,
        inputs: &Inputs<'_>,
        row: impl Fn(&Map<String, Value>) -> std::result::Result<Row, String>,
    ) -> Result<Rows> {
        let name = self.dataset_path.as_deref().unwrap_or(layout.repository);
        // A file or folder of the user may have another layout.
        let is_local = std::path::Path::new(name).exists();
        let given = |given: &Option<String>, default: &str| {
            given.clone().or((!is_local).then(|| default.to_owned()))
        };
        let selection = Selection {
            subset: given(&self.subset, layout.subset),
            split: self.split.clone().or_else(|| Some(layout.split.to_owned())),
            allows_several_subsets: false,
        };
        let found = table::find(name, &selection, inputs.hub)?;
        let (mut rows, mut repeated) = (Vec::new(), DuplicateKeys::default());
        for (_, file) in &found.files {
            for named in table::read(file, layout.columns, &mut repeated, inputs.progress)? {
                let (location, members) = named?;
                let read = row(&members).map_err(|error| {
                    Error::usage(format!("{location}: {error}")).hint(layout.hint)
                })?;
                rows.push(Row {
                    name: location,
                    ..read
                });
            }
        }
        self.order.apply(plan.seed, &mut rows);
        found.into_rows(rows, RowsKind::Sampled(self.shortfall), repeated, &[])
    }
}

/// A member that is a text.
///
/// # Errors
/// It is missing or of another type.
pub(super) fn text<'a>(
    members: &'a Map<String, Value>,
    name: &str,
) -> std::result::Result<&'a str, String> {
    let value = members.get(name).and_then(Value::as_str);
    value.ok_or_else(|| format!("{name} is not a string"))
}
