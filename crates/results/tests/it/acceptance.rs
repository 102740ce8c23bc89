//! Simulated acceptances of eight rates: rules are rarely met or not met by chance, and clear servers need
//! few requests.

use rayon::prelude::*;
use sobench_results::accept::{Decision, Design, RateRule};
use sobench_results::compare::rules::LimitRule;
use sobench_statistics::bootstrap::SplitMix;
use sobench_statistics::sequential::Look;

const RULES: usize = 8;
const LOOKS: usize = 5;
const PLANNED: usize = 600;
const DESIGN: Design = Design {
    planned: PLANNED,
    rules: RULES,
};

/// Simulated acceptances. `SOBENCH_COMPARISONS=1000` makes more.
fn acceptances() -> u64 {
    let given = std::env::var("SOBENCH_COMPARISONS").ok();
    given.map_or(20, |count| count.parse().unwrap())
}

/// The decision on a rule of a server with this rate, and the requests that it took.
fn decide(rule: &LimitRule, share: f64, random: &mut SplitMix) -> (Decision, usize) {
    let rate = RateRule::new(rule).unwrap();
    let mut looks = Vec::new();
    let mut hits = 0;
    for look in 1..=LOOKS {
        let new = 0..PLANNED / LOOKS;
        hits += new.filter(|_| random.unit() < share).count();
        let of = look * PLANNED / LOOKS;
        looks.push(Look { hits, of });
        let found = rate.decision(&looks, look == LOOKS, DESIGN);
        if found != Decision::NotDecided {
            return (found, of);
        }
    }
    (Decision::NotDecided, PLANNED)
}

/// Each rule's decisions in all acceptances.
fn simulate(rule: &str, share: f64) -> Vec<[(Decision, usize); RULES]> {
    let rule = LimitRule::parse(rule).unwrap();
    let one = |seed: u64| {
        let mut random = SplitMix::new(seed, 1);
        std::array::from_fn(|_| decide(&rule, share, &mut random))
    };
    (0..acceptances()).into_par_iter().map(one).collect()
}

#[test]
fn rules_at_their_limit_are_rarely_decided() {
    for (rule, share) in [
        ("correct_rate>=99", 0.99),
        ("correct_rate>=95", 0.95),
        ("correct_rate>=90", 0.9),
    ] {
        let all = simulate(rule, share);
        let met = all
            .iter()
            .flatten()
            .filter(|(decision, _)| *decision == Decision::Met)
            .count();
        let is_missed = |rules: &&[(Decision, usize); RULES]| {
            rules
                .iter()
                .any(|(decision, _)| *decision == Decision::NotMet)
        };
        let missed = all.iter().filter(is_missed).count();
        let rules = all.len() * RULES;
        println!(
            "{rule} at the limit: {met} of {rules} rules met, {missed} of {} acceptances not met",
            all.len()
        );
        // 5 % of the rules, and 1 % of the acceptances, with 3 standard errors.
        let most = |share: f64, of: usize| share * of as f64 + 3.0 * (share * of as f64).sqrt();
        assert!(met as f64 <= most(0.05, rules), "{met} of {rules}");
        assert!(
            missed as f64 <= most(0.01, all.len()),
            "{missed} of {}",
            all.len()
        );
    }
}

#[test]
fn clear_servers_need_few_requests() {
    for (share, most) in [
        (1.0, 480.0),
        (0.999, 560.0),
        (0.95, 420.0),
        (0.8, 130.0),
        (0.0, 121.0),
    ] {
        let all = simulate("correct_rate>=99", share);
        let requests = all.iter().flatten().map(|(_, requests)| *requests as f64);
        let mean = requests.sum::<f64>() / (all.len() * RULES) as f64;
        let open = all
            .iter()
            .flatten()
            .filter(|(decision, _)| *decision == Decision::NotDecided);
        println!(
            "rate {share}: {mean:.0} of {PLANNED} requests, {:.1} % not decided",
            100.0 * open.count() as f64 / (all.len() * RULES) as f64
        );
        assert!(mean <= most, "{share}: {mean}");
    }
}
