//! `auto`: vLLM's way of choosing an engine for each constraint.
//!
//! The rule asks engines whether they would take a constraint and compiles with the one that it
//! names. A vLLM server opens one engine only, that of its first constrained request, and from 0.33
//! on refuses what the rule would send elsewhere; with [`EnginePolicy::auto_lock`] so does this
//! one. The first constraint that is compiled decides, whether or not its compile succeeds.

mod table;

use std::sync::{Arc, OnceLock};

use super::{
    Engine, EngineError, EngineName, EnginePolicy, EngineSpec, Grammar, Route, Vocabulary,
    open_bare,
};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::Result as OurResult;

pub(super) const SPEC: EngineSpec = EngineSpec {
    name: "auto",
    open: Some(|vocabulary, policy| Ok(Arc::new(Auto::new(&vocabulary, policy)?))),
    build_hint: "",
    measured: false,
    departures: &[],
    listed_keywords: &[],
    relaxations: |_| Vec::new(),
};

/// The engines that the rule knows, in the order in which they are named.
const ENGINES: [EngineName; 3] = [
    EngineName::Xgrammar,
    EngineName::Outlines,
    EngineName::Guidance,
];

/// Three engines and the rule between them.
struct Auto {
    /// In the order of [`ENGINES`].
    engines: [Arc<dyn Engine>; 3],
    /// `None` without a lock. Set by the first compile.
    lock: Option<OnceLock<EngineName>>,
}

impl Auto {
    /// Opens the three engines, each without a boundary of its own.
    ///
    /// # Errors
    /// As theirs.
    fn new(vocabulary: &Arc<Vocabulary>, policy: &EnginePolicy) -> OurResult<Self> {
        let [first, second, third] = ENGINES.map(|name| open_bare(name, vocabulary, policy));
        Ok(Self::with([first?, second?, third?], policy.auto_lock))
    }

    /// The rule over engines in the order of [`ENGINES`].
    fn with(engines: [Arc<dyn Engine>; 3], lock: bool) -> Self {
        Self {
            engines,
            lock: lock.then(OnceLock::new),
        }
    }

    fn engine(&self, name: EngineName) -> &dyn Engine {
        let index = ENGINES
            .iter()
            .position(|engine| *engine == name)
            .expect("the table names none but these");
        &*self.engines[index]
    }

    fn decide(&self, constraint: &Constraint) -> Result<Route, EngineError> {
        table::decide(constraint, |name| self.engine(name).validate(constraint))
    }

    fn locked(&self) -> Option<EngineName> {
        self.lock.as_ref()?.get().copied()
    }

    /// The engine that may compile the constraint, if the lock stands as given.
    fn allowed(
        &self,
        constraint: &Constraint,
        locked: Option<EngineName>,
    ) -> Result<&dyn Engine, EngineError> {
        self.decide(constraint)
            .and_then(|route| self.permitted(&route, locked))
    }

    fn permitted(
        &self,
        route: &Route,
        locked: Option<EngineName>,
    ) -> Result<&dyn Engine, EngineError> {
        match locked {
            Some(first) if first != route.engine => {
                let words = format!(
                    "auto only supports one backend per engine: locked to {} since the first constraint, and this one goes to {} ({})",
                    first.name(),
                    route.engine.name(),
                    route.why,
                );
                Err(EngineError::unsupported(
                    "second engine under auto's lock",
                    words,
                ))
            }
            _ => Ok(self.engine(route.engine)),
        }
    }
}

impl Engine for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn version(&self) -> &'static str {
        "auto (vLLM 0.33's rule)"
    }

    /// The three libraries with their own settings, and whether the lock is on.
    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings: Vec<(&'static str, String)> = self
            .engines
            .iter()
            .map(|engine| {
                let own: Vec<String> = engine
                    .settings()
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                let own = if own.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", own.join(", "))
                };
                (engine.name(), format!("{}{own}", engine.version()))
            })
            .collect();
        settings.push((
            "lock",
            if self.lock.is_some() {
                "on".into()
            } else {
                "off".into()
            },
        ));
        settings
    }

    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[GrammarDialect::Lark, GrammarDialect::Ebnf]
    }

    fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
        self.allowed(constraint, self.locked()).map(|_| ())
    }

    /// What the rule says; under a lock its reason begins with that.
    fn route(&self, constraint: &Constraint) -> Option<Route> {
        let mut route = self.decide(constraint).ok()?;
        if let Some(first) = self.locked() {
            let refused = if first == route.engine {
                ""
            } else {
                ", so this one is refused"
            };
            route.why = format!(
                "locked to {} since the first constraint{refused}: {}",
                first.name(),
                route.why
            );
        }
        Some(route)
    }

    fn check_size(&self, constraint: &Constraint) -> Result<(), EngineError> {
        self.allowed(constraint, self.locked())?
            .check_size(constraint)
    }

    fn check_quick(&self, constraint: &Constraint) -> Result<(), EngineError> {
        self.allowed(constraint, self.locked())?
            .check_quick(constraint)
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let route = self.decide(constraint)?;
        let locked = self
            .lock
            .as_ref()
            .map(|first| *first.get_or_init(|| route.engine));
        self.permitted(&route, locked)?.compile(constraint)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Matcher;
    use crate::vocabulary::shared;

    /// Takes regexes that hold the first letter of its name, and everything else if it is said to.
    struct Fake {
        name: EngineName,
        takes_the_rest: bool,
    }

    struct Named;

    impl Grammar for Named {
        fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
            Err(EngineError::Invalid {
                words: "no matcher".into(),
            })
        }
    }

    impl Engine for Fake {
        fn name(&self) -> &'static str {
            self.name.name()
        }
        fn version(&self) -> &'static str {
            "fake 1"
        }
        fn settings(&self) -> Vec<(&'static str, String)> {
            if self.name == EngineName::Outlines {
                vec![("whitespace", "none".into())]
            } else {
                Vec::new()
            }
        }
        fn grammar_dialects(&self) -> &'static [GrammarDialect] {
            &[]
        }
        fn validate(&self, constraint: &Constraint) -> Result<(), EngineError> {
            let words = format!("{} refuses", self.name());
            let takes = match constraint {
                Constraint::Regex(text) => text.contains(&self.name()[..1]),
                _ => self.takes_the_rest,
            };
            if takes {
                Ok(())
            } else {
                Err(EngineError::Invalid { words })
            }
        }
        fn check_size(&self, _: &Constraint) -> Result<(), EngineError> {
            Err(EngineError::TooLarge {
                words: self.name().into(),
            })
        }
        fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
            let broken = matches!(constraint, Constraint::Regex(text) if text.contains('!'));
            if broken {
                Err(EngineError::Invalid {
                    words: self.name().into(),
                })
            } else {
                Ok(Arc::new(Named))
            }
        }
    }

    fn auto(lock: bool) -> Auto {
        Auto::with(
            ENGINES.map(|name| {
                Arc::new(Fake {
                    name,
                    takes_the_rest: true,
                }) as Arc<dyn Engine>
            }),
            lock,
        )
    }

    fn regex(text: &str) -> Constraint {
        Constraint::Regex(text.into())
    }

    #[test]
    fn the_engine_that_the_rule_names_validates_measures_and_compiles() {
        let auto = auto(false);
        for (text, engine) in [("xg!", "xgrammar"), ("g!", "guidance"), ("og!", "guidance")] {
            let route = auto.route(&regex(text)).unwrap();
            assert_eq!(route.engine.name(), engine, "{text}");
            assert_eq!(auto.validate(&regex(text)), Ok(()));
            assert_eq!(
                auto.check_size(&regex(text)),
                Err(EngineError::TooLarge {
                    words: engine.into()
                })
            );
            assert_eq!(
                auto.compile(&regex(text)).err(),
                Some(EngineError::Invalid {
                    words: engine.into()
                }),
                "{text}"
            );
        }
        assert_eq!(auto.route(&regex("o")), None);
        let words = "no engine takes it; xgrammar: xgrammar refuses; outlines: not asked by the rule; guidance: guidance refuses";
        let refusal = Some(EngineError::Invalid {
            words: words.into(),
        });
        assert_eq!(
            (
                auto.validate(&regex("o")).err(),
                auto.compile(&regex("o")).err()
            ),
            (refusal.clone(), refusal)
        );
    }

    #[test]
    fn the_first_constraint_that_is_compiled_locks_and_asking_does_not() {
        for first in ["g", "g!"] {
            let auto = auto(true);
            assert!(auto.validate(&regex("x")).is_ok() && auto.check_size(&regex("x")).is_err());
            assert_eq!(
                auto.route(&regex("x")).unwrap().why,
                "xgrammar is asked first and takes it"
            );
            assert!(
                auto.compile(&regex("o")).is_err(),
                "what nobody takes locks nothing"
            );
            assert_eq!(auto.compile(&regex(first)).is_ok(), first == "g");
            let route = auto.route(&regex("x")).unwrap();
            assert_eq!(route.engine, EngineName::Xgrammar);
            assert!(
                route.why.starts_with(
                    "locked to guidance since the first constraint, so this one is refused"
                ),
                "{}",
                route.why
            );
            assert!(
                auto.route(&regex("g"))
                    .unwrap()
                    .why
                    .starts_with("locked to guidance since the first constraint: guidance")
            );
            for error in [
                auto.validate(&regex("x")).err(),
                auto.compile(&regex("x")).err(),
                auto.check_size(&regex("x")).err(),
            ] {
                assert!(error.is_some_and(|error| {
                    error
                        .to_string()
                        .contains("only supports one backend per engine")
                }));
            }
            assert!(auto.validate(&regex("g")).is_ok() && auto.compile(&regex("g")).is_ok());
        }
        let unlocked = auto(false);
        assert!(
            ["g", "x", "g"]
                .iter()
                .all(|text| unlocked.compile(&regex(text)).is_ok())
        );
    }

    #[test]
    fn the_record_names_the_three_libraries_and_the_lock() {
        let settings = |lock| {
            auto(lock)
                .settings()
                .into_iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            settings(false),
            [
                "xgrammar: fake 1",
                "outlines: fake 1 (whitespace=none)",
                "guidance: fake 1",
                "lock: off"
            ]
        );
        assert_eq!(settings(true)[3], "lock: on");
    }

    #[test]
    fn pattern_properties_reach_the_real_outlines() {
        let real = open_bare(EngineName::Outlines, &shared(), &EnginePolicy::default()).unwrap();
        let fake = |name, takes_the_rest| {
            Arc::new(Fake {
                name,
                takes_the_rest,
            }) as Arc<dyn Engine>
        };
        let auto = Auto::with(
            [
                fake(EngineName::Xgrammar, false),
                real,
                fake(EngineName::Guidance, true),
            ],
            false,
        );
        let schema = |value| Constraint::JsonSchema(Arc::new(value));
        for (constraint, engine) in [
            (
                schema(json!({"type": "null", "patternProperties": {"^a": {}}})),
                Some(EngineName::Outlines),
            ),
            (schema(json!({"patternProperties": {"^a": {}}})), None),
            (schema(json!({"type": "null"})), Some(EngineName::Guidance)),
        ] {
            assert_eq!(
                auto.route(&constraint).map(|route| route.engine),
                engine,
                "{constraint:?}"
            );
            assert_eq!(
                auto.compile(&constraint).is_ok(),
                engine.is_some(),
                "{constraint:?}"
            );
        }
    }
    /// With the three real engines.
    #[test]
    fn the_real_engines_share_the_constraints_as_vllm_does() {
        let auto = Auto::new(&shared(), &EnginePolicy::default()).unwrap();
        let schema = |value| Constraint::JsonSchema(Arc::new(value));
        let grammar = |dialect, text: &str| Constraint::Grammar {
            dialect,
            text: text.into(),
        };
        for (constraint, engine) in [
            (
                schema(json!({"type": "object", "properties": {"a": {"type": "integer"}}})),
                EngineName::Xgrammar,
            ),
            (
                schema(json!({"type": "integer", "multipleOf": 5})),
                EngineName::Guidance,
            ),
            (
                schema(json!({"allOf": [{"type": "string"}, {"type": "string", "maxLength": 2}]})),
                EngineName::Guidance,
            ),
            (
                schema(
                    json!({"type": "object", "properties": {"a": {"type": "null"}}, "patternProperties": {"^b": {}}}),
                ),
                EngineName::Outlines,
            ),
            (regex("[ab]+"), EngineName::Xgrammar),
            (
                Constraint::Choice(Arc::new(["a".to_owned(), "b".to_owned()])),
                EngineName::Xgrammar,
            ),
            (
                grammar(GrammarDialect::Ebnf, "root ::= \"a\""),
                EngineName::Xgrammar,
            ),
        ] {
            let route = auto
                .route(&constraint)
                .unwrap_or_else(|| panic!("{constraint:?}: {:?}", auto.validate(&constraint)));
            assert_eq!(route.engine, engine, "{constraint:?}: {}", route.why);
            assert!(auto.compile(&constraint).is_ok(), "{constraint:?}");
        }
    }
}
