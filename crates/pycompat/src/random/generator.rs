//! Port of NumPy's `default_rng`: PCG64 seeded through `SeedSequence`.

/// Words of the pool of `SeedSequence`.
const POOL_WORDS: usize = 4;
/// `PCG_DEFAULT_MULTIPLIER` of `pcg64.h`.
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

/// `numpy.random.default_rng(seed)`: PCG XSL RR 128/64 of O'Neill (2014), as NumPy seeds and reads
/// it since 1.17.
#[derive(Clone, Debug)]
pub struct NumpyGenerator {
    state: u128,
    increment: u128,
    /// The upper half of a 64-bit word, kept for the next draw of 32 bits, as `pcg64_next32` does.
    spare: Option<u32>,
}

impl NumpyGenerator {
    /// `default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let [state_high, state_low, stream_high, stream_low] = seeded(seed);
        let increment = (u128::from(stream_high) << 64 | u128::from(stream_low)) << 1 | 1;
        let mut generator = Self {
            state: 0,
            increment,
            spare: None,
        };
        generator.step();
        generator.state = generator
            .state
            .wrapping_add(u128::from(state_high) << 64 | u128::from(state_low));
        generator.step();
        generator
    }

    /// `integers(low, high, size=count)`: uniform in `low..high`, by Lemire's method ("Fast Random
    /// Integer Generation in an Interval", 2019) on 32 bits. A range of one number draws nothing.
    ///
    /// # Panics
    /// If the range is empty, or has more than 2^32 - 1 numbers.
    pub fn integers(&mut self, low: u64, high: u64, count: usize) -> Vec<u64> {
        let width = high
            .checked_sub(low)
            .filter(|width| *width > 0)
            .expect("the range must not be empty");
        let width = u32::try_from(width).expect("the range must have at most 2^32 - 1 numbers");
        (0..count)
            .map(|_| {
                low + if width == 1 {
                    0
                } else {
                    u64::from(self.below(width))
                }
            })
            .collect()
    }

    fn below(&mut self, width: u32) -> u32 {
        let mut product = u64::from(self.next_u32()) * u64::from(width);
        if (product as u32) < width {
            let threshold = width.wrapping_neg() % width;
            while (product as u32) < threshold {
                product = u64::from(self.next_u32()) * u64::from(width);
            }
        }
        (product >> 32) as u32
    }

    fn next_u32(&mut self) -> u32 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let word = self.next_u64();
        self.spare = Some((word >> 32) as u32);
        word as u32
    }

    fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    fn step(&mut self) {
        self.state = self
            .state
            .wrapping_mul(MULTIPLIER)
            .wrapping_add(self.increment);
    }
}

/// `SeedSequence(seed).generate_state(4, numpy.uint64)`.
fn seeded(seed: u64) -> [u64; 4] {
    let entropy = [seed as u32, (seed >> 32) as u32, 0, 0];
    let mut hash = HashMix {
        constant: 0x43b0_d7e5,
        factor: 0x931e_8875,
    };
    let mut pool: [u32; POOL_WORDS] = entropy.map(|word| hash.mix(word));
    for source in 0..POOL_WORDS {
        for target in (0..POOL_WORDS).filter(|target| *target != source) {
            let word = 0xca01_f9dd_u32
                .wrapping_mul(pool[target])
                .wrapping_sub(0x4973_f715_u32.wrapping_mul(hash.mix(pool[source])));
            pool[target] = word ^ (word >> 16);
        }
    }
    let mut hash = HashMix {
        constant: 0x8b51_f9dd,
        factor: 0x58f3_8ded,
    };
    let mut position = 0;
    [(); 4].map(|()| {
        let low = hash.mix(pool[position % POOL_WORDS]);
        let high = hash.mix(pool[(position + 1) % POOL_WORDS]);
        position += 2;
        u64::from(high) << 32 | u64::from(low)
    })
}

/// `hashmix` of `SeedSequence`, whose constant changes with every word.
struct HashMix {
    constant: u32,
    factor: u32,
}

impl HashMix {
    fn mix(&mut self, word: u32) -> u32 {
        let word = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.factor);
        let word = word.wrapping_mul(self.constant);
        word ^ (word >> 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `default_rng(seed)`: six of `integers(0, 1025)`, three of `integers(5, 6)`, five of
    /// `integers(0, 128256)`; NumPy 2.3.5.
    const DRAWN: &[(u64, [u64; 6], [u64; 5])] = &[
        (
            0,
            [871, 652, 523, 276, 315, 41],
            [9649, 2119, 22479, 104306, 83291],
        ),
        (
            1,
            [485, 524, 774, 974, 35, 147],
            [105547, 121669, 31965, 39994, 111457],
        ),
        (
            42,
            [91, 793, 670, 449, 443, 880],
            [11023, 89441, 25839, 12078, 67524],
        ),
        (
            4294967295,
            [195, 258, 742, 224, 932, 294],
            [27364, 79388, 90705, 119920, 16899],
        ),
        (
            1099511627781,
            [14, 4, 461, 381, 938, 601],
            [115358, 19417, 1266, 53862, 114032],
        ),
    ];

    #[test]
    fn integers_match_numpy() {
        for &(seed, first, then) in DRAWN {
            let mut generator = NumpyGenerator::new(seed);
            assert_eq!(generator.integers(0, 1025, 6), first, "seed {seed}");
            assert_eq!(generator.integers(5, 6, 3), [5; 3]);
            assert_eq!(generator.integers(0, 128256, 5), then, "seed {seed}");
        }
    }
}
