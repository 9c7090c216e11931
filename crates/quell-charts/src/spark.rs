//! Sparklines: a course of things in one line of text.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PLAIN: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// How to draw for whoever reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// A terminal that shows blocks and colours.
    Rich,
    /// A file, a pipe, or somebody who asked for plain text with `NO_COLOR`.
    Plain,
}

impl Ink {
    /// A verdict in two characters.
    pub fn verdict(self, verdict: &str, goodput: f64) -> String {
        let letter = match verdict {
            "healed" => 'H',
            "draining" => 'd',
            "sheds" => 's',
            "metastable" => 'M',
            _ => '?',
        };
        if self == Self::Plain {
            return format!("{letter}{letter}");
        }
        // The 256 colours every terminal has: green, amber or red, and how high its goodput is.
        let colour = match verdict {
            "healed" => 29,
            "draining" | "sheds" => 172,
            "metastable" => 124,
            _ => 240,
        };
        let level = BLOCKS[((goodput * 8.0) as usize).min(7)];
        format!("\x1b[48;5;{colour};38;5;255m{letter}{level}\x1b[0m")
    }

    /// Shares from 0 to 1 over time, in `width` characters: each shows the mean of its part.
    pub fn line(self, shares: &[f64], width: usize) -> String {
        let levels = if self == Self::Rich { BLOCKS } else { PLAIN };
        let width = width.min(shares.len());
        let level = |i: usize| {
            let part = &shares[i * shares.len() / width..(i + 1) * shares.len() / width];
            let mean = part.iter().sum::<f64>() / part.len().max(1) as f64;
            levels[((mean * 8.0) as usize).min(7)]
        };
        (0..width).map(level).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_every_part_at_its_height() {
        assert_eq!(Ink::Rich.line(&[0.0, 0.0, 0.5, 1.0], 4), "▁▁▅█");
        assert_eq!(Ink::Plain.line(&[0.0, 0.0, 0.5, 1.0], 2), "_*");
        assert_eq!(Ink::Plain.line(&[2.0], 9), "#");
        assert_eq!(Ink::Plain.line(&[], 9), "");
    }
}
