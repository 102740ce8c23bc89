//! The effective size of a sample in which some members repeat others.

/// The number of independent members that `members` are worth, where equal members are copies:
/// (sum of cluster sizes)^2 / (sum of their squares), for clusters whose members agree (Kish,
/// "Survey Sampling", 1965). All different: their number; all equal: 1; none: 0.
pub fn effective_size(mut members: Vec<u64>) -> f64 {
    members.sort_unstable();
    let squares: f64 = members
        .chunk_by(|one, other| one == other)
        .map(|cluster| (cluster.len() as f64).powi(2))
        .sum();
    if squares > 0.0 {
        (members.len() as f64).powi(2) / squares
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_worth_one_member() {
        for (members, expected) in [
            (vec![], 0.0),
            (vec![7; 20], 1.0),
            ((0..20).collect(), 20.0),
            // Ten copies and ten single members: 20^2 / (10^2 + 10).
            ([vec![99; 10], (0..10).collect()].concat(), 400.0 / 110.0),
        ] {
            assert_eq!(effective_size(members.clone()), expected, "{members:?}");
        }
    }
}
