//! Rules: which candidate is taken, written before anything is run.

use core::fmt;

use super::{Figure, Figures};

/// How a default is chosen among its candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// What a candidate must not be beyond.
    pub must: &'static [Must],
    /// What the others are then measured by, and how far below the best is still as good.
    pub best: Option<(Figure, f64)>,
    /// Who is taken of those that are as good.
    pub then: Then,
}

/// A bound that must be kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Must(pub Figure, pub f64);

/// Who is taken of several that are as good, by their order in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The first, and the word for it.
    First(&'static str),
    /// The last, and the word for it.
    Last(&'static str),
}

impl Must {
    fn holds(self, figures: &Figures) -> bool {
        let is = figures.get(self.0);
        if self.0.more_is_better() { is >= self.1 } else { is <= self.1 }
    }
}

impl fmt::Display for Must {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0.more_is_better() { '≥' } else { '≤' };
        write!(f, "{} {sign} {}", self.0.as_str(), self.0.says(self.1))
    }
}

impl Rule {
    /// The place of the one that is taken; `None` if none keeps the bounds.
    ///
    /// What is compared is what the page shows: figures that read alike are alike.
    pub fn pick(&self, all: &[Figures]) -> Option<usize> {
        let kept = |figures: &Figures| self.must.iter().all(|must| must.holds(figures));
        let fine: Vec<usize> = (0..all.len()).filter(|&i| kept(&all[i])).collect();
        let score = |i: usize| {
            let (figure, _) = self.best?;
            let value = all[i].get(figure);
            Some(if figure.more_is_better() { value } else { -value })
        };
        let best = fine.iter().filter_map(|&i| score(i)).fold(f64::NEG_INFINITY, f64::max);
        let slack = self.best.map_or(0.0, |(_, slack)| slack) + 1e-9;
        let mut good =
            fine.into_iter().filter(|&i| score(i).is_none_or(|score| score >= best - slack));
        match self.then {
            Then::First(_) => good.next(),
            Then::Last(_) => good.next_back(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Then::First(word) | Then::Last(word)) = self.then;
        let must: Vec<_> = self.must.iter().map(Must::to_string).collect();
        let of = if must.is_empty() {
            "of all".to_owned()
        } else {
            format!("of those with {}", must.join(" and "))
        };
        match self.best {
            None => write!(f, "{of}, {word}"),
            Some((figure, slack)) => {
                let most = if figure.more_is_better() { "highest" } else { "lowest" };
                let within = figure.says(slack);
                write!(
                    f,
                    "{of}, those within {within} of the {most} {}; of these, {word}",
                    figure.as_str()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        must: &[Must(Figure::Load, 1.1)],
        best: Some((Figure::Goodput, 0.01)),
        then: Then::First("the smallest"),
    };

    fn candidate(load: f64, goodput: f64) -> Figures {
        Figures::with(&[(Figure::Load, load), (Figure::Goodput, goodput)])
    }

    #[test]
    fn bounds_come_first_then_what_is_best_then_the_order() {
        let all =
            [candidate(1.0, 0.5), candidate(1.05, 0.795), candidate(1.1, 0.8), candidate(1.5, 0.9)];
        assert_eq!(RULE.pick(&all), Some(1));
        let last = Rule { then: Then::Last("the largest"), ..RULE };
        assert_eq!(last.pick(&all), Some(2));
        assert_eq!(RULE.pick(&all[3..]), None);
    }

    #[test]
    fn a_rule_can_be_read() {
        assert_eq!(
            RULE.to_string(),
            "of those with load in the fault ≤ 1.10, those within 1.0 % of the highest goodput in partial faults; of these, the smallest"
        );
    }
}
