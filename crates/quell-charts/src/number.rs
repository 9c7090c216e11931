//! Numbers as people read them.

/// A share, for people.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A number without fractions, its thousands apart.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number in as few characters as it can be read in.
pub fn short(value: f64) -> String {
    let trim = |number: f64, unit: &str| {
        let text = if number < 9.95 { format!("{number:.1}") } else { format!("{number:.0}") };
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    match value {
        _ if value >= 999_500.0 => trim(value / 1e6, "M"),
        _ if value >= 999.5 => trim(value / 1e3, "k"),
        _ if value >= 0.95 || value == 0.0 => trim(value, ""),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [0.0, 999.6, 12_000.0, 1e6].map(thousands),
            ["0", "1,000", "12,000", "1,000,000"]
        );
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 1.0, 2.54, 12.0, 1_000.0, 12_400.0, 2e6].map(short);
        assert_eq!(shown, ["0", "0.25", "1", "2.5", "12", "1k", "12k", "2M"]);
    }
}
