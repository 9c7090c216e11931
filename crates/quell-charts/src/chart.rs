//! A chart over the seconds of a run, with the outage shaded.

use crate::svg::Svg;

/// Room for the words on the left, and around.
const LEFT: f64 = 44.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 18.0;
/// More points than this say no more on a screen.
const POINTS: usize = 480;

/// Where a value stands between bottom and top.
#[derive(Debug, Clone, Copy)]
pub enum Scale {
    /// From 0 to this.
    Linear(f64),
    /// From one to the other, each tenfold the same height.
    Log(f64, f64),
}

impl Scale {
    fn share(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear(max) => value / max.max(1e-9),
            Self::Log(min, max) => (value.max(min) / min).ln() / (max / min).ln().max(1e-9),
        };
        share.clamp(0.0, 1.0)
    }

    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear(max) => {
                let step = step(max / 2.0);
                (0..=4).map(|i| f64::from(i) * step).filter(|tick| *tick <= max * 1.001).collect()
            }
            Self::Log(min, max) => {
                let tens = (0..12).map(|power| min * 10_f64.powi(power));
                tens.take_while(|tick| *tick <= max * 1.001).collect()
            }
        }
    }
}

/// The largest of 1, 2 and 5 times a power of ten that is not above `most`.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf(most.max(1e-9).log10().floor());
    [5.0, 2.0, 1.0]
        .into_iter()
        .map(|n| n * power)
        .find(|step| *step <= most * 1.001)
        .unwrap_or(power)
}

/// See the [module](self).
#[derive(Debug)]
pub struct Chart {
    svg: Svg,
    size: (f64, f64),
    seconds: usize,
    scale: Scale,
    named: f64,
}

impl Chart {
    /// An empty chart of so many seconds. `unit` turns the ticks on the left into words.
    pub fn new(
        says: &str,
        (width, height): (f64, f64),
        seconds: usize,
        scale: Scale,
        unit: fn(f64) -> String,
    ) -> Self {
        let mut chart = Self {
            svg: Svg::new(width, height, says),
            size: (width, height),
            seconds,
            scale,
            named: LEFT,
        };
        for tick in scale.ticks() {
            let y = chart.y(tick);
            chart.svg.stroke("gridline", (LEFT, y), (width - RIGHT, y));
            chart.svg.word("tick", (LEFT - 6.0, y + 3.5), "end", &unit(tick));
        }
        chart
    }

    /// Shades these seconds: the outage.
    pub fn shade(mut self, from: usize, to: usize) -> Self {
        let (left, right) = (self.x(from as f64), self.x(to as f64));
        self.svg.rect("outage", (left, TOP), (right - left, self.size.1 - TOP - BOTTOM));
        self
    }

    /// Marks the seconds along the bottom.
    pub fn seconds(mut self) -> Self {
        let marks = if self.size.0 < 500.0 { 2.0 } else { 3.0 };
        let step = step(self.seconds as f64 / marks).max(1.0);
        let mut at = 0.0;
        while at <= self.seconds as f64 {
            let unit = |at: f64| {
                if at >= 7_200.0 { format!("{:.1} h", at / 3_600.0) } else { format!("{at:.0} s") }
            };
            let anchor = if self.x(at) > self.size.0 - RIGHT - 12.0 { "end" } else { "middle" };
            self.svg.word("tick", (self.x(at), self.size.1 - 4.0), anchor, &unit(at));
            at += step;
        }
        self
    }

    /// A horizontal line, such as the capacity.
    pub fn level(mut self, class: &str, value: f64, name: &str) -> Self {
        let y = self.y(value);
        self.svg.stroke(class, (LEFT, y), (self.size.0 - RIGHT, y));
        self.svg.word("tick", (self.size.0 - RIGHT - 2.0, y - 3.0), "end", name);
        self
    }

    /// A line through one value per second; gaps stay gaps.
    pub fn line(mut self, class: &str, name: &str, values: &[Option<f64>]) -> Self {
        for part in self.parts(values) {
            self.svg.path(&format!("line {class}"), &part, false);
        }
        self.name(class, name)
    }

    /// The same with what lies below it filled.
    pub fn area(mut self, class: &str, name: &str, values: &[Option<f64>]) -> Self {
        let floor = self.size.1 - BOTTOM;
        for part in self.parts(values) {
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            let mut bounds = vec![(first.0, floor)];
            bounds.extend(&part);
            bounds.push((last.0, floor));
            self.svg.path(&format!("area {class}"), &bounds, true);
            self.svg.path(&format!("line {class}"), &part, false);
        }
        self.name(class, name)
    }

    /// Says on the right, under the top, what did not fit in.
    pub fn beyond(mut self, class: &str, says: &str) -> Self {
        self.svg.word(&format!("name {class}"), (self.size.0 - RIGHT, TOP - 6.0), "end", says);
        self
    }

    /// The finished picture.
    pub fn finish(self) -> String {
        self.svg.finish()
    }

    /// Names a line in its own colour, one beside the other above the chart.
    fn name(mut self, class: &str, name: &str) -> Self {
        self.svg.word(&format!("name {class}"), (self.named, TOP - 6.0), "start", name);
        let wide = |c: char| if "fijlrt. ".contains(c) { 4.2 } else { 7.0 };
        self.named += name.chars().map(wide).sum::<f64>() + 14.0;
        self
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (self.size.0 - LEFT - RIGHT) * second / self.seconds.max(1) as f64
    }

    fn y(&self, value: f64) -> f64 {
        let height = self.size.1 - TOP - BOTTOM;
        TOP + height * (1.0 - self.scale.share(value))
    }

    /// Points in unbroken parts, few enough to be drawn: where there are many seconds, the highest of each group.
    fn parts(&self, values: &[Option<f64>]) -> Vec<Vec<(f64, f64)>> {
        let group = values.len().div_ceil(POINTS).max(1);
        let points = values.chunks(group).enumerate().map(|(i, group_of)| {
            let highest =
                group_of.iter().flatten().copied().fold(None, |most: Option<f64>, value| {
                    Some(most.map_or(value, |most| most.max(value)))
                });
            let middle = (i * group) as f64 + group_of.len() as f64 / 2.0;
            highest.map(|value| (self.x(middle), self.y(value)))
        });
        let points: Vec<_> = points.collect();
        points.split(Option::is_none).map(|part| part.iter().flatten().copied().collect()).collect()
    }
}

/// A strip of coloured spans over the seconds of a run, such as a breaker's states.
pub fn strip(
    says: &str,
    width: f64,
    name: &str,
    seconds: usize,
    shares: &[(&str, Vec<f64>)],
) -> String {
    let height = 30.0;
    let mut svg = Svg::new(width, height, says);
    let inner = width - LEFT - RIGHT;
    svg.word("tick", (LEFT - 6.0, height / 2.0 + 3.5), "end", name);
    svg.rect("calm", (LEFT, 8.0), (inner, height - 16.0));
    let group = seconds.div_ceil(POINTS).max(1);
    let wide = inner * group as f64 / seconds.max(1) as f64;
    for i in 0..seconds.div_ceil(group) {
        let x = LEFT + wide * i as f64;
        let mut floor = height - 8.0;
        for (class, shares) in shares {
            let part =
                shares.get(i * group..((i + 1) * group).min(shares.len())).unwrap_or_default();
            let share = part.iter().sum::<f64>() / part.len().max(1) as f64;
            let tall = (height - 16.0) * share.clamp(0.0, 1.0);
            if tall > 0.05 {
                floor -= tall;
                svg.rect(class, (x, floor), (wide.min(width - RIGHT - x) + 0.15, tall));
            }
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::short;

    #[test]
    fn steps_are_round() {
        assert_eq!([7.0, 12_000.0, 60.0, 0.5].map(step), [5.0, 10_000.0, 50.0, 0.5]);
    }

    #[test]
    fn gaps_break_a_line_and_hours_are_drawn_with_few_points() {
        let chart = |seconds| Chart::new("", (360.0, 120.0), seconds, Scale::Linear(1.0), short);
        let some = chart(4).parts(&[Some(0.0), None, Some(1.0), Some(1.0)]);
        assert_eq!(some.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        let long = chart(14_400).parts(&vec![Some(0.5); 14_400]);
        assert!(long[0].len() <= POINTS);
        let top = chart(4).y(7.0);
        assert!((top - TOP).abs() < 1e-9, "what does not fit in stays in");
    }
}
