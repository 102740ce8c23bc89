//! Two shares against each other: an exact test and intervals. Knows no request.

use super::side::Share;

/// The same cases on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    pub both: usize,
    pub only_a: usize,
    pub only_b: usize,
    pub neither: usize,
}

impl Pairs {
    /// Adds a case.
    pub fn add(&mut self, a: bool, b: bool) {
        let count = match (a, b) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.only_a,
            (false, true) => &mut self.only_b,
            (false, false) => &mut self.neither,
        };
        *count += 1;
    }

    /// How many.
    pub fn total(&self) -> usize {
        self.both + self.only_a + self.only_b + self.neither
    }

    /// How much larger the second share is, 0 to 1; `None` without pairs.
    pub fn difference(&self) -> Option<f64> {
        (self.total() > 0).then(|| (self.only_b as f64 - self.only_a as f64) / self.total() as f64)
    }

    /// The two-sided p-value of McNemar's exact test (1947; the binomial test of the cases that differ). No mid-p: it is exact, and so
    /// on the careful side.
    pub fn mcnemar(&self) -> f64 {
        let (n, few) = (self.only_a + self.only_b, self.only_a.min(self.only_b));
        // Terms by their logarithms: 2^-n alone is no number from a thousand on.
        let mut term = -(n as f64) * std::f64::consts::LN_2;
        let mut tail = term.exp();
        for hits in 0..few {
            term += ((n - hits) as f64 / (hits + 1) as f64).ln();
            tail += term.exp();
        }
        (2.0 * tail).min(1.0)
    }

    /// The interval of the difference of paired shares: Newcombe, "Improved confidence intervals for the difference between binomial
    /// proportions based on paired data" (Statistics in Medicine 17, 1998), method 10.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        let difference = self.difference()?;
        let z = z_of(level);
        let (both, a, b, neither) = (self.both as f64, self.only_a as f64, self.only_b as f64, self.neither as f64);
        let n = self.total();
        let first = Wilson::of(Share { hits: self.both + self.only_a, of: n }, z);
        let second = Wilson::of(Share { hits: self.both + self.only_b, of: n }, z);
        let margins = (both + a) * (b + neither) * (both + b) * (a + neither);
        let agreement = both * neither - a * b;
        let corrected = if agreement > 0.0 { (agreement - n as f64 / 2.0).max(0.0) } else { agreement };
        let phi = if margins > 0.0 { corrected / margins.sqrt() } else { 0.0 };
        let half = |x: f64, y: f64| (x * x - 2.0 * phi * x * y + y * y).max(0.0).sqrt();
        Some((difference - half(second.down, first.up), difference + half(second.up, first.down)))
    }
}

/// The interval of the difference of two independent shares, second less first: Newcombe, "Interval estimation for the difference
/// between independent proportions" (Statistics in Medicine 17, 1998), method 10, which builds it from Wilson's two.
pub fn independent(first: Share, second: Share, level: f64) -> Option<(f64, f64)> {
    if first.of == 0 || second.of == 0 {
        return None;
    }
    let z = z_of(level);
    let (first, second) = (Wilson::of(first, z), Wilson::of(second, z));
    let difference = second.share - first.share;
    Some((difference - second.down.hypot(first.up), difference + second.up.hypot(first.down)))
}

/// A share, and how far its Wilson interval reaches to each side.
struct Wilson {
    share: f64,
    down: f64,
    up: f64,
}

impl Wilson {
    fn of(share: Share, z: f64) -> Self {
        let (n, p, z2) = (share.of as f64, share.hits as f64 / share.of as f64, z * z);
        let scale = 1.0 + z2 / n;
        let centre = (p + z2 / (2.0 * n)) / scale;
        let half = z / scale * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        Self { share: p, down: (p - centre + half).max(0.0), up: (centre + half - p).max(0.0) }
    }
}

/// The point of the normal distribution that leaves half of `1 - level` beyond it.
pub fn z_of(level: f64) -> f64 {
    -normal_quantile((1.0 - level) / 2.0)
}

/// The normal distribution's quantile for a chance below one half, by Acklam's rational approximation (2003; relative error below
/// 1.2e-9).
fn normal_quantile(chance: f64) -> f64 {
    const LOW: f64 = 0.02425;
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0];
    let sum = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let chance = chance.clamp(f64::MIN_POSITIVE, 0.5);
    if chance < LOW {
        let q = (-2.0 * chance.ln()).sqrt();
        return sum(&C, q) / sum(&D, q);
    }
    let q = chance - 0.5;
    q * sum(&A, q * q) / sum(&B, q * q)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: (f64, f64), expected: (f64, f64)) {
        assert!((found.0 - expected.0).abs() < 6e-5 && (found.1 - expected.1).abs() < 6e-5, "{found:?} is not {expected:?}");
    }

    /// Expected: SciPy's `norm.ppf`.
    #[test]
    fn points_of_the_normal_distribution() {
        for (level, expected) in
            [(0.95, 1.959_963_985), (0.99, 2.575_829_304), (0.9, 1.644_853_627), (0.997, 2.967_737_925), (0.5, 0.674_489_75)]
        {
            assert!((z_of(level) - expected).abs() < 1e-7, "{level}");
        }
    }

    /// Expected: table II of Newcombe's paper on independent proportions.
    #[test]
    fn independent_shares_are_newcombes() {
        for (a, b, expected) in [
            ((48, 80), (56, 70), (0.0524, 0.3339)),
            ((3, 10), (9, 10), (0.1705, 0.8090)),
            ((0, 10), (10, 10), (0.6075, 1.0)),
            ((0, 20), (0, 10), (-0.1611, 0.2775)),
        ] {
            let share = |(hits, of)| Share { hits, of };
            near(independent(share(a), share(b), 0.95).unwrap(), expected);
        }
        assert_eq!(independent(Share { hits: 0, of: 0 }, Share { hits: 1, of: 1 }, 0.95), None);
    }

    #[test]
    fn pairs_that_agree_tell_more_than_strangers() {
        let pairs = Pairs { both: 940, only_a: 20, only_b: 20, neither: 20 };
        let (low, high) = pairs.interval(0.95).unwrap();
        let (wide_low, wide_high) = independent(Share { hits: 960, of: 1000 }, Share { hits: 960, of: 1000 }, 0.95).unwrap();
        assert!(wide_low < low && low < 0.0 && 0.0 < high && high < wide_high);
        assert!((low + high).abs() < 1e-12, "equal shares have an even interval");
        // Without any case that fails there is nothing to agree on, and both say the same.
        let all = Pairs { both: 200, ..Pairs::default() };
        near(all.interval(0.95).unwrap(), independent(Share { hits: 200, of: 200 }, Share { hits: 200, of: 200 }, 0.95).unwrap());
        assert_eq!((Pairs::default().interval(0.95), Pairs::default().difference()), (None, None));
    }

    /// Expected: Newcombe's paper on paired data, example 36, 12, 2, 0 (second less first: the other way round).
    #[test]
    fn paired_shares_are_newcombes() {
        let pairs = Pairs { both: 36, only_a: 2, only_b: 12, neither: 0 };
        near(pairs.interval(0.95).unwrap(), (0.0569, 0.3404));
    }

    /// Expected: SciPy's `binomtest(k, n).pvalue`.
    #[test]
    fn mcnemar_is_the_binomial_test() {
        for (only_a, only_b, expected) in
            [(0, 0, 1.0), (1, 0, 1.0), (5, 5, 1.0), (10, 1, 0.011_718_75), (0, 6, 0.031_25), (1200, 1000, 2.181_7e-5)]
        {
            let found = Pairs { only_a, only_b, ..Pairs::default() }.mcnemar();
            assert!((found / expected - 1.0).abs() < 1e-3, "{only_a} {only_b}: {found}");
        }
    }
}
