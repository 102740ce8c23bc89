//! The engine `auto`: selects an engine for each constraint by vLLM's rule.
//!
//! The rule checks the constraint with the engines in turn and compiles with the engine that it
//! selects. A vLLM server opens only one engine, that of its first constrained request, and from
//! 0.33 on refuses constraints that the rule would route to another engine.
//! [`EnginePolicy::auto_lock`] reproduces this: the first compile sets the lock, whether or not it
//! succeeds.

mod rule;

use std::sync::{Arc, OnceLock};

use super::{
    Engine, EngineError, EngineName, EnginePolicy, EngineSpec, Grammar, Route, Vocabulary,
    open_unguarded,
};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::Result as SobenchResult;

pub(super) const SPEC: EngineSpec = EngineSpec {
    name: "auto",
    open: Some(|vocabulary, policy| Ok(Arc::new(Auto::new(&vocabulary, policy)?))),
    build_hint: "",
    measured_by_default: false,
    departures: &[],
    listed_keywords: &[],
    relaxations: |_| Vec::new(),
};

/// The engines of the rule, in the order of [`Auto::engines`].
const ENGINES: [EngineName; 3] = [
    EngineName::Xgrammar,
    EngineName::Outlines,
    EngineName::Guidance,
];

/// Three engines and the rule that selects between them.
struct Auto {
    /// In the order of [`ENGINES`].
    engines: [Arc<dyn Engine>; 3],
    /// `None` without a lock. Set by the first compile.
    lock: Option<OnceLock<EngineName>>,
}

impl Auto {
    /// Opens the three engines without guards.
    ///
    /// # Errors
    /// As [`open_unguarded`].
    fn new(vocabulary: &Arc<Vocabulary>, policy: &EnginePolicy) -> SobenchResult<Self> {
        let [first, second, third] = ENGINES.map(|name| open_unguarded(name, vocabulary, policy));
        Ok(Self::with_engines(
            [first?, second?, third?],
            policy.auto_lock,
        ))
    }

    /// Applies the rule to engines in the order of [`ENGINES`].
    fn with_engines(engines: [Arc<dyn Engine>; 3], lock: bool) -> Self {
        Self {
            engines,
            lock: lock.then(OnceLock::new),
        }
    }

    fn engine(&self, name: EngineName) -> &dyn Engine {
        let index = ENGINES
            .iter()
            .position(|engine| *engine == name)
            .expect("the rule selects only engines of this list");
        &*self.engines[index]
    }

    fn select_engine(&self, constraint: &Constraint) -> Result<Route, EngineError> {
        rule::select_engine(constraint, |name| self.engine(name).validate(constraint))
    }

    fn locked(&self) -> Option<EngineName> {
        self.lock.as_ref()?.get().copied()
    }

    /// The engine that may compile the constraint under this state of the lock.
    fn engine_for(
        &self,
        constraint: &Constraint,
        locked: Option<EngineName>,
    ) -> Result<&dyn Engine, EngineError> {
        self.select_engine(constraint)
            .and_then(|route| self.check_lock(&route, locked))
    }

    fn check_lock(
        &self,
        route: &Route,
        locked: Option<EngineName>,
    ) -> Result<&dyn Engine, EngineError> {
        match locked {
            Some(first) if first != route.engine => {
                let message = format!(
                    "auto only supports one backend per engine: the first constraint locked it to {}, this constraint is routed to {} ({})",
                    first.name(),
                    route.engine.name(),
                    route.why,
                );
                Err(EngineError::unsupported(
                    "second engine under auto's lock",
                    message,
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

    /// The versions and settings of the three libraries, and the state of the lock.
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
        self.engine_for(constraint, self.locked()).map(|_| ())
    }

    /// The rule's choice. Under a lock, the reason starts with the locked engine.
    fn route(&self, constraint: &Constraint) -> Option<Route> {
        let mut route = self.select_engine(constraint).ok()?;
        if let Some(first) = self.locked() {
            let refused = if first == route.engine {
                ""
            } else {
                ", this constraint is refused"
            };
            route.why = format!(
                "locked to {} by the first constraint{refused}: {}",
                first.name(),
                route.why
            );
        }
        Some(route)
    }

    fn check_size(&self, constraint: &Constraint) -> Result<(), EngineError> {
        self.engine_for(constraint, self.locked())?
            .check_size(constraint)
    }

    fn check_size_strict(&self, constraint: &Constraint) -> Result<(), EngineError> {
        self.engine_for(constraint, self.locked())?
            .check_size_strict(constraint)
    }

    fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
        let route = self.select_engine(constraint)?;
        let locked = self
            .lock
            .as_ref()
            .map(|first| *first.get_or_init(|| route.engine));
        self.check_lock(&route, locked)?.compile(constraint)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Matcher;
    use crate::vocabulary::shared;

    /// Accepts regexes that contain the first letter of its name, and other constraints if
    /// `accepts_others`.
    struct Fake {
        name: EngineName,
        accepts_others: bool,
    }

    struct EmptyGrammar;

    impl Grammar for EmptyGrammar {
        fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
            Err(EngineError::Invalid {
                message: "no matcher".into(),
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
            let message = format!("{} refuses", self.name());
            let accepts = match constraint {
                Constraint::Regex(text) => text.contains(&self.name()[..1]),
                _ => self.accepts_others,
            };
            if accepts {
                Ok(())
            } else {
                Err(EngineError::Invalid { message })
            }
        }
        fn check_size(&self, _: &Constraint) -> Result<(), EngineError> {
            Err(EngineError::TooLarge {
                message: self.name().into(),
            })
        }
        fn compile(&self, constraint: &Constraint) -> Result<Arc<dyn Grammar>, EngineError> {
            let broken = matches!(constraint, Constraint::Regex(text) if text.contains('!'));
            if broken {
                Err(EngineError::Invalid {
                    message: self.name().into(),
                })
            } else {
                Ok(Arc::new(EmptyGrammar))
            }
        }
    }

    fn auto(lock: bool) -> Auto {
        Auto::with_engines(
            ENGINES.map(|name| {
                Arc::new(Fake {
                    name,
                    accepts_others: true,
                }) as Arc<dyn Engine>
            }),
            lock,
        )
    }

    fn regex(text: &str) -> Constraint {
        Constraint::Regex(text.into())
    }

    #[test]
    fn the_selected_engine_validates_checks_size_and_compiles() {
        let auto = auto(false);
        for (text, engine) in [("xg!", "xgrammar"), ("g!", "guidance"), ("og!", "guidance")] {
            let route = auto.route(&regex(text)).unwrap();
            assert_eq!(route.engine.name(), engine, "{text}");
            assert_eq!(auto.validate(&regex(text)), Ok(()));
            assert_eq!(
                auto.check_size(&regex(text)),
                Err(EngineError::TooLarge {
                    message: engine.into()
                })
            );
            assert_eq!(
                auto.compile(&regex(text)).err(),
                Some(EngineError::Invalid {
                    message: engine.into()
                }),
                "{text}"
            );
        }
        assert_eq!(auto.route(&regex("o")), None);
        let message = "no engine accepts it; xgrammar: xgrammar refuses; outlines: not tried by the rule; guidance: guidance refuses";
        let refusal = Some(EngineError::Invalid {
            message: message.into(),
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
    fn the_first_compile_sets_the_lock_and_checks_do_not() {
        for first in ["g", "g!"] {
            let auto = auto(true);
            assert!(auto.validate(&regex("x")).is_ok() && auto.check_size(&regex("x")).is_err());
            assert_eq!(
                auto.route(&regex("x")).unwrap().why,
                "xgrammar is tried first and accepts it"
            );
            assert!(
                auto.compile(&regex("o")).is_err(),
                "a constraint that no engine accepts sets no lock"
            );
            assert_eq!(auto.compile(&regex(first)).is_ok(), first == "g");
            let route = auto.route(&regex("x")).unwrap();
            assert_eq!(route.engine, EngineName::Xgrammar);
            assert!(
                route.why.starts_with(
                    "locked to guidance by the first constraint, this constraint is refused"
                ),
                "{}",
                route.why
            );
            assert!(
                auto.route(&regex("g"))
                    .unwrap()
                    .why
                    .starts_with("locked to guidance by the first constraint: guidance")
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
    fn settings_list_the_libraries_and_the_lock() {
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
    fn pattern_properties_are_routed_to_outlines() {
        let real =
            open_unguarded(EngineName::Outlines, &shared(), &EnginePolicy::default()).unwrap();
        let fake = |name, accepts_others| {
            Arc::new(Fake {
                name,
                accepts_others,
            }) as Arc<dyn Engine>
        };
        let auto = Auto::with_engines(
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
    fn real_engines_are_selected_as_in_vllm() {
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
