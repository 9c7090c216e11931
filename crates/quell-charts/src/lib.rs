//! Draws: tables, sparklines and charts, made of plain data.
//!
//! **Why.** The `quell` command shows what a simulation came to, and the lab shows what a trial came to. Both need the same tables
//! and the same charts, and neither may depend on the other. Nothing here knows the simulator, so a page that shows live figures
//! can draw with it too.
//!
//! **How.** Every writer is a function from numbers to a `String`. It reads no file, no clock and no environment, so the same numbers
//! give the same text. An SVG carries classes and no colours: the page around it brings the style.
//!
//! ```
//! use quell_charts::{Chart, Scale, Table, number::short};
//!
//! let mut table = Table::new("a storm", ["verdict", "goodput"]);
//! table.row("naive", vec!["metastable".into(), "3 %".into()]);
//! assert!(table.to_string().contains("naive  metastable"));
//!
//! let chart = Chart::new("answers per second", (360.0, 120.0), 3, Scale::Linear(10.0), short);
//! let svg = chart.line("c-good", "good", &[Some(1.0), None, Some(9.0)]).seconds().finish();
//! assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
//! ```

pub mod bars;
pub mod chart;
pub mod heat;
pub mod number;
pub mod spark;
pub mod svg;
pub mod table;

pub use chart::{Chart, Scale};
pub use spark::Ink;
pub use svg::Svg;
pub use table::Table;
