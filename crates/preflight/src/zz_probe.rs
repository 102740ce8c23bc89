#[cfg(test)]
mod tests {
    use sobench_core::constraint::Constraint;
    use sobench_judge::*;
    use std::sync::Arc;
    #[test]
    fn timing() {
        for f in std::env::var("FILES").unwrap().split_whitespace() {
            let text = std::fs::read_to_string(f).unwrap();
            let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
            let schema = schema.get("schema").cloned().unwrap_or(schema);
            let mut e = Evaluator::new(JudgeSettings::default());
            let n = schema.to_string().len();
            let t = std::time::Instant::now();
            let c = e.compile(&Constraint::JsonSchema(Arc::new(schema.clone())));
            let t1 = t.elapsed();
            let t = std::time::Instant::now();
            let _ = schema.clone();
            let t2 = t.elapsed();
            let t = std::time::Instant::now();
            let tiny = e.compile(&Constraint::JsonSchema(Arc::new(
                serde_json::json!({"maxLength": 4}),
            )));
            let t3 = t.elapsed();
            let t = std::time::Instant::now();
            let v = judge_text(&c, "{\"a\": 1}");
            let t4 = t.elapsed();
            println!(
                "{f} {n} compile {t1:?} clone {t2:?} tiny {t3:?} judge {t4:?} {:?} {v:?}",
                c.not_scorable()
            );
            let _ = tiny;
        }
    }
}
