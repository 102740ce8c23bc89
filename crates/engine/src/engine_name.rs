//! Engine names: parsing and availability in this build.

use super::{Departure, EngineName, EnginePolicy};
use sobench_core::error::{Error, Result};

/// Engines that exist only inside a server and cannot be built in.
pub const SERVER_ONLY_ENGINES: [&str; 2] = ["lm-format-enforcer", "llama.cpp"];

impl EngineName {
    /// Whether the engine is in this build.
    pub fn is_built_in(self) -> bool {
        self.spec().open.is_some()
    }

    /// Engines that `sobench mask` measures by default.
    pub fn measured_by_default() -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(|engine| engine.spec().measured_by_default)
    }

    /// Policies that disable one departure each.
    pub fn relaxations(self, policy: &EnginePolicy) -> Vec<(Departure, EnginePolicy)> {
        (self.spec().relaxations)(policy)
    }

    /// Parses the name of an engine for use in this process.
    ///
    /// # Errors
    /// A usage error for an engine that is not in this build, an engine that exists only in
    /// servers, or an unknown name.
    pub fn parse(name: &str) -> Result<Self> {
        let built_in: Vec<&str> = Self::ALL
            .into_iter()
            .filter(|engine| engine.is_built_in())
            .map(Self::name)
            .collect();
        if SERVER_ONLY_ENGINES.contains(&name) {
            return Err(Error::usage(format!(
                "decoding engine exists only inside a server: {name}"
            ))
            .hint(format!(
                "use one of {}, or measure a server that runs it with --base-url",
                built_in.join(", ")
            )));
        }
        let engine = Self::ALL.into_iter().find(|engine| engine.name() == name);
        let engine = engine.ok_or_else(|| {
            Error::usage(format!("unknown decoding engine: {name}"))
                .hint(format!("use one of {}", built_in.join(", ")))
        })?;
        if engine.is_built_in() {
            Ok(engine)
        } else {
            Err(engine.not_built_in())
        }
    }

    pub(super) fn not_built_in(self) -> Error {
        Error::usage(format!("decoding engine is not in this build: {self}"))
            .hint(self.spec().build_hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_or_refused_with_a_hint() {
        for engine in EngineName::ALL {
            assert_eq!(
                EngineName::parse(engine.name()).is_ok(),
                engine.is_built_in(),
                "{engine:?}"
            );
            assert_eq!(serde_json::to_value(engine).unwrap(), engine.name());
        }
        for (name, expected) in [
            ("lm-format-enforcer", "only inside a server"),
            ("llama.cpp", "only inside"),
            ("guidence", "unknown"),
        ] {
            let error = EngineName::parse(name).unwrap_err();
            assert!(
                error.what.contains(expected) && error.what.ends_with(name),
                "{error}"
            );
            assert!(error.hint.is_some_and(|hint| hint.contains("guidance")));
        }
    }
}
