//! Medians, percentiles, and how a cost grows.

/// The middle value; of two, their mean. `NaN` without any.
pub fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The value that `share` (0 to 1) of all do not exceed.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let sorted = sorted(values);
    let at = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The exponent `b` of the best fit `cost = a · size^b`: least squares on the logarithms. `None` with fewer than two
/// sizes, or with a cost that is not positive.
pub fn growth(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 2 || points.iter().any(|(size, cost)| *size <= 0.0 || *cost <= 0.0) {
        return None;
    }
    let logs: Vec<(f64, f64)> = points.iter().map(|(size, cost)| (size.ln(), cost.ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) =
        (logs.iter().map(|p| p.0).sum::<f64>() / count, logs.iter().map(|p| p.1).sum::<f64>() / count);
    let above: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let below: f64 = logs.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    (below > 0.0).then(|| above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert!(median(&[]).is_nan());
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!((percentile(&hundred, 0.5), percentile(&hundred, 0.99)), (50.0, 99.0));
    }

    #[test]
    fn growth_is_the_exponent() {
        for exponent in [0.0, 1.0, 2.0] {
            let points: Vec<(f64, f64)> = [10.0, 100.0, 1000.0].map(|n: f64| (n, 3.0 * n.powf(exponent))).to_vec();
            assert!((growth(&points).unwrap() - exponent).abs() < 1e-9);
        }
        assert_eq!(growth(&[(10.0, 1.0)]), None);
        assert_eq!(growth(&[(10.0, 1.0), (20.0, 0.0)]), None);
    }
}
