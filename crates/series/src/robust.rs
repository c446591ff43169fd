//! Robust statistics of a few numbers: medians, and distances unmoved by outliers.
//!
//! NaN and infinities are left out.

/// Makes the median absolute deviation an estimate of the standard deviation of normal noise: one over
/// the 0.75 quantile of the standard normal distribution.
const CONSISTENCY: f64 = 1.4826;

/// The median of the finite numbers; the mean of the middle two where their number is even.
pub fn finite_median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut finite_values: Vec<f64> = values.into_iter().filter(|x| x.is_finite()).collect();
    finite_values.sort_unstable_by(f64::total_cmp);
    let middle = finite_values.len() / 2;
    match finite_values.len() {
        0 => None,
        count if count % 2 == 1 => Some(finite_values[middle]),
        _ => Some(finite_values[middle - 1] / 2.0 + finite_values[middle] / 2.0),
    }
}

/// The median absolute deviation from the median, as an estimate of a standard deviation.
pub(super) fn robust_deviation(values: &[f64]) -> Option<f64> {
    let middle = finite_median(values.iter().copied())?;
    let distances = values.iter().map(|x| (x - middle).abs());
    finite_median(distances).map(|distance| distance * CONSISTENCY)
}

/// How far noise moves one number of a series, whatever its trend: the deviation of the differences of neighbours. Each
/// difference has the noise of two numbers.
pub(super) fn estimate_series_noise(series: &[f64]) -> Option<f64> {
    let finite_values: Vec<f64> = series.iter().copied().filter(|x| x.is_finite()).collect();
    let differences: Vec<f64> = finite_values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    robust_deviation(&differences).map(|deviation| deviation / std::f64::consts::SQRT_2)
}

/// The median of the slopes between all pairs of points (Theil 1950, Sen 1968); none where fewer than two
/// differ in `x`.
pub(super) fn theil_sen_slope(points: &[(f64, f64)]) -> Option<f64> {
    let pairs = points.iter().enumerate().flat_map(|(index, a)| {
        points[index + 1..].iter().filter(|b| b.0 != a.0).map(|b| (b.1 - a.1) / (b.0 - a.0))
    });
    finite_median(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_of_what_is_finite() {
        assert_eq!(finite_median([3.0, f64::NAN, 1.0, 2.0, f64::INFINITY]), Some(2.0));
        assert_eq!(finite_median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(finite_median([f64::NAN]), None);
    }

    #[test]
    fn a_deviation_is_that_of_the_noise_and_not_of_an_outlier() {
        // The quantiles of the standard normal distribution at (i + 1/2) / 8.
        let mut values = vec![-1.534, -0.887, -0.489, -0.157, 0.157, 0.489, 0.887, 1.534];
        let without = robust_deviation(&values).unwrap();
        assert!((0.9..1.1).contains(&without), "{without}");
        values.push(1e9);
        assert!((robust_deviation(&values).unwrap() - without).abs() < 0.3);
    }

    #[test]
    fn a_trend_is_no_noise() {
        let line: Vec<f64> = (0..20).map(|i| 3.0 * f64::from(i)).collect();
        assert_eq!(estimate_series_noise(&line), Some(0.0));
        assert_eq!(estimate_series_noise(&[1.0]), None);
    }

    #[test]
    fn an_outlier_does_not_turn_a_slope() {
        let points: Vec<(f64, f64)> =
            (0..9).map(|i| (f64::from(i), if i == 4 { 1e6 } else { 2.0 * f64::from(i) })).collect();
        assert_eq!(theil_sen_slope(&points), Some(2.0));
        assert_eq!(theil_sen_slope(&points[..1]), None);
    }
}
