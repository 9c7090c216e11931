//! A small writer of SVG: shapes with classes, so that the page's style decides their colours.

use std::fmt::Write as _;

/// Text that may stand in HTML and SVG, in attributes too.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

/// A picture that is being drawn. Coordinates are pixels from the upper left corner.
#[derive(Debug)]
pub struct Svg {
    text: String,
}

impl Svg {
    /// An empty picture; `says` is what it shows, for those who do not see it.
    pub fn new(width: f64, height: f64, says: &str) -> Self {
        let says = escape(says);
        Self {
            text: format!(
                "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"{says}\"><title>{says}</title>"
            ),
        }
    }

    /// A line between two points.
    pub fn stroke(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.path(class, &[from, to], false);
    }

    /// A line through all points, closed where it bounds an area.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)], closed: bool) {
        if points.is_empty() {
            return;
        }
        let _ = write!(self.text, "<path class=\"{class}\" d=\"");
        for (i, (x, y)) in points.iter().enumerate() {
            let _ = write!(self.text, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
        }
        self.text.push_str(if closed { "Z\"/>" } else { "\"/>" });
    }

    /// A rectangle.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = write!(
            self.text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        );
    }

    /// A word. `anchor` is `start`, `middle` or `end`.
    pub fn word(&mut self, class: &str, (x, y): (f64, f64), anchor: &str, says: &str) {
        let says = escape(says);
        let _ = write!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{says}</text>"
        );
    }

    /// The finished picture.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_cannot_become_markup() {
        assert_eq!(escape("<b>&\"x'"), "&lt;b&gt;&amp;&quot;x&#39;");
        let mut svg = Svg::new(10.0, 10.0, "a<b");
        svg.word("tick", (1.0, 2.0), "end", "<script>");
        let text = svg.finish();
        assert!(!text.contains("<script") && text.contains("a&lt;b"), "{text}");
    }

    #[test]
    fn a_path_without_points_draws_nothing() {
        let mut svg = Svg::new(10.0, 10.0, "");
        svg.path("line", &[], true);
        assert!(!svg.finish().contains("path"));
    }
}
