//! A least-squares fit of a value as a sum of parts.

use super::distributions::t_score;

/// The least share of a regressor's squares that the others must leave unexplained. Below it, the
/// regressors grow together and their coefficients cannot be separated.
const MIN_INDEPENDENT: f64 = 1e-4;

/// A positive value as a linear function of `N` regressors, by least squares of relative residuals
/// (ordinary least squares with weights 1 / value^2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearFit<const N: usize> {
    pub coefficients: [f64; N],
    /// Half-widths of the intervals of the coefficients, from the residuals and Student's t.
    pub margins: [f64; N],
}

impl<const N: usize> LinearFit<N> {
    /// The fit of points (regressors, value) at a confidence level such as 0.95; `None` without more
    /// points than regressors, for a value that is not positive, and if the regressors are nearly
    /// collinear.
    pub fn new(points: &[([f64; N], f64)], level: f64) -> Option<Self> {
        if points.len() <= N
            || points
                .iter()
                .any(|(_, value)| value.is_nan() || *value <= 0.0)
        {
            return None;
        }
        let rows: Vec<[f64; N]> = points
            .iter()
            .map(|(regressors, value)| regressors.map(|regressor| regressor / value))
            .collect();
        let norms: [f64; N] = std::array::from_fn(|column| {
            rows.iter()
                .map(|row| row[column].powi(2))
                .sum::<f64>()
                .sqrt()
        });
        // Columns of norm 1, so that the limit on pivots does not depend on units.
        let product = |one: usize, other: usize| {
            let sum: f64 = rows.iter().map(|row| row[one] * row[other]).sum();
            sum / (norms[one] * norms[other])
        };
        let gram: [[f64; N]; N] =
            std::array::from_fn(|one| std::array::from_fn(|other| product(one, other)));
        let inverse = inverse(gram)?;
        let sums: [f64; N] = std::array::from_fn(|column| {
            rows.iter().map(|row| row[column]).sum::<f64>() / norms[column]
        });
        let coefficients: [f64; N] = std::array::from_fn(|one| {
            let scaled: f64 = (0..N).map(|other| inverse[one][other] * sums[other]).sum();
            scaled / norms[one]
        });
        let squares: f64 = rows
            .iter()
            .map(|row| (1.0 - dot(row, &coefficients)).powi(2))
            .sum();
        let degrees = points.len() - N;
        let t = t_score(level, degrees);
        let margins = std::array::from_fn(|one| {
            t * (squares / degrees as f64 * inverse[one][one]).sqrt() / norms[one]
        });
        Some(Self {
            coefficients,
            margins,
        })
    }

    /// The value at these regressors.
    pub fn at(&self, regressors: &[f64; N]) -> f64 {
        dot(regressors, &self.coefficients)
    }
}

fn dot<const N: usize>(one: &[f64; N], other: &[f64; N]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// The inverse of a symmetric positive definite matrix with a diagonal of ones, by Gauss-Jordan
/// elimination; `None` if it is nearly singular.
fn inverse<const N: usize>(mut matrix: [[f64; N]; N]) -> Option<[[f64; N]; N]> {
    let mut inverse: [[f64; N]; N] =
        std::array::from_fn(|row| std::array::from_fn(|column| f64::from(u8::from(row == column))));
    for pivot in 0..N {
        let scale = matrix[pivot][pivot];
        if scale.is_nan() || scale < MIN_INDEPENDENT {
            return None;
        }
        for column in 0..N {
            matrix[pivot][column] /= scale;
            inverse[pivot][column] /= scale;
        }
        let (from_matrix, from_inverse) = (matrix[pivot], inverse[pivot]);
        for row in (0..N).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            for column in 0..N {
                matrix[row][column] -= factor * from_matrix[column];
                inverse[row][column] -= factor * from_inverse[column];
            }
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::SplitMix;

    const TRUE: [f64; 3] = [0.05, 2e-4, 1e-5];

    fn design() -> Vec<[f64; 3]> {
        let mut design = Vec::new();
        for requests in [100.0, 500.0, 2000.0] {
            for tokens in [10.0, 50.0, 200.0] {
                design.push([1.0, requests, requests * tokens]);
            }
        }
        design
    }

    fn value(regressors: &[f64; 3]) -> f64 {
        dot(regressors, &TRUE)
    }

    #[test]
    fn exact_values_return_their_coefficients() {
        let points: Vec<_> = design().into_iter().map(|row| (row, value(&row))).collect();
        let fit = LinearFit::new(&points, 0.95).unwrap();
        for (found, expected) in fit.coefficients.iter().zip(TRUE) {
            assert!((found / expected - 1.0).abs() < 1e-9, "{fit:?}");
        }
        assert!(
            (fit.at(&[1.0, 1000.0, 1e6]) - 10.25).abs() < 1e-8,
            "{fit:?}"
        );
        assert!(
            fit.margins.iter().all(|margin| margin.abs() < 1e-8),
            "{fit:?}"
        );
    }

    #[test]
    fn intervals_cover_the_true_coefficients() {
        let mut random = SplitMix::new(1, 1);
        let runs = 2000;
        let mut covered = [0; 3];
        for _ in 0..runs {
            let noisy = |row: [f64; 3], unit: f64| (row, value(&row) * (1.0 + 0.1 * (unit - 0.5)));
            let points: Vec<_> = design()
                .into_iter()
                .map(|row| noisy(row, random.unit()))
                .collect();
            let fit = LinearFit::new(&points, 0.95).unwrap();
            for (index, count) in covered.iter_mut().enumerate() {
                let error = (fit.coefficients[index] - TRUE[index]).abs();
                *count += i32::from(error <= fit.margins[index]);
            }
        }
        for count in covered {
            let share = f64::from(count) / f64::from(runs);
            assert!((0.93..0.97).contains(&share), "{covered:?}");
        }
    }

    #[test]
    fn inseparable_parts_and_unusable_points_have_no_fit() {
        let together: Vec<_> = [100.0, 500.0, 1000.0, 2000.0, 4000.0]
            .map(|requests| ([1.0, requests, 50.0 * requests], requests))
            .into();
        assert_eq!(LinearFit::new(&together, 0.95), None);
        let exact: Vec<_> = design().into_iter().map(|row| (row, value(&row))).collect();
        assert_eq!(LinearFit::new(&exact[..3], 0.95), None, "no residuals");
        let mut with_zero = exact;
        with_zero[4].1 = 0.0;
        assert_eq!(LinearFit::new(&with_zero, 0.95), None);
    }
}
