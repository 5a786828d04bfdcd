//! What model answers have used, added up.

/// Tokens and cost of one answer or of many.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TokenUsage {
    /// Uncached input.
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
    /// In dollars.
    pub cost_usd: f64,
}

impl TokenUsage {
    /// Input as the ledger counts it: cache reads would count the cached prefix once per turn (LED-54).
    pub const fn tokens_in(&self) -> u64 {
        self.input.saturating_add(self.cache_write)
    }

    /// Adds another answer.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cost_usd += other.cost_usd;
    }
}

/// A count of tokens as a transcript holds it; `None` when it is negative, not whole or not a number.
pub fn token_count(reading: f64) -> Option<u64> {
    // 2^53: above it a float does not hold every whole number.
    let whole = reading.is_finite() && reading.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&reading);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range by the check")]
    whole.then_some(reading as u64)
}

/// A cost as a transcript holds it; `None` when it is negative or not a number.
pub fn cost_reading(reading: f64) -> Option<f64> {
    (reading.is_finite() && reading >= 0.0).then_some(reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LED-54, and the bad readings of part 06.
    #[test]
    fn readings_are_whole_and_not_negative() {
        assert_eq!(token_count(12.0), Some(12));
        assert_eq!(token_count(0.0), Some(0));
        for bad in [-1.0, 1.5, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(token_count(bad), None);
        }
        assert_eq!(cost_reading(0.25), Some(0.25));
        assert_eq!(cost_reading(-0.25), None);
        assert_eq!(cost_reading(f64::NAN), None);
    }

    #[test]
    fn cache_reads_are_not_input() {
        let mut total = TokenUsage::default();
        let answer = TokenUsage { input: 10, output: 5, cache_read: 1000, cache_write: 3, cost_usd: 0.5 };
        total.add(&answer);
        total.add(&answer);
        assert_eq!((total.tokens_in(), total.output, total.cache_read), (26, 10, 2000));
    }
}
