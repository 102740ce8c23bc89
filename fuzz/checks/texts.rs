//! Enumerates short texts for exhaustive checks.

/// All texts of at most `max_length` letters, shorter ones first.
pub(crate) fn texts(letters: &[char], max_length: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..max_length {
        let to = all.len();
        for index in from..to {
            let longer: Vec<String> = letters
                .iter()
                .map(|letter| format!("{}{letter}", all[index]))
                .collect();
            all.extend(longer);
        }
        from = to;
    }
    all
}
