//! Which engines this build has, and how a name is read.

use super::{Departure, EngineName, EnginePolicy};
use sobench_core::error::{Error, Result};

/// Engines without a library that could be built in.
pub const SERVER_ONLY: [&str; 2] = ["lm-format-enforcer", "llama.cpp"];

impl EngineName {
    /// Whether this build has it.
    pub fn is_built_in(self) -> bool {
        self.spec().open.is_some()
    }

    /// The engines that `sobench mask` measures unless some are named.
    pub fn measured() -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(|engine| engine.spec().measured)
    }

    /// Policies under which the engine does not depart in one respect.
    pub fn relaxations(self, policy: &EnginePolicy) -> Vec<(Departure, EnginePolicy)> {
        (self.spec().relaxations)(policy)
    }

    /// Reads a name for use in this process.
    ///
    /// # Errors
    /// A usage error that tells apart an engine that is not built in, one that only a server can
    /// offer, and an unknown name.
    pub fn parse(name: &str) -> Result<Self> {
        let known: Vec<&str> = Self::ALL
            .into_iter()
            .filter(|engine| engine.is_built_in())
            .map(Self::name)
            .collect();
        if SERVER_ONLY.contains(&name) {
            return Err(Error::usage(format!(
                "decoding engine exists only inside a server: {name}"
            ))
            .hint(format!(
                "built in are {}; a server that runs it is measured with sobench --base-url",
                known.join(", ")
            )));
        }
        let engine = Self::ALL.into_iter().find(|engine| engine.name() == name);
        let engine = engine.ok_or_else(|| {
            Error::usage(format!("unknown decoding engine: {name}"))
                .hint(format!("this build has {}", known.join(", ")))
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
    fn names_resolve_or_say_why_not() {
        for engine in EngineName::ALL {
            assert_eq!(
                EngineName::parse(engine.name()).is_ok(),
                engine.is_built_in(),
                "{engine:?}"
            );
            assert_eq!(serde_json::to_value(engine).unwrap(), engine.name());
        }
        for (name, words) in [
            ("lm-format-enforcer", "only inside a server"),
            ("llama.cpp", "only inside"),
            ("guidence", "unknown"),
        ] {
            let error = EngineName::parse(name).unwrap_err();
            assert!(
                error.what.contains(words) && error.what.ends_with(name),
                "{error}"
            );
            assert!(error.hint.is_some_and(|hint| hint.contains("guidance")));
        }
    }
}
