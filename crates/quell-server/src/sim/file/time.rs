//! Times with their spread, and curves: what takes more than one number to write.

use std::time::Duration;

use crate::config::{
    fields::Fields,
    read::{Raw, Read},
    value,
};
use quell_sim::{
    dist::{Dist, Draw},
    scenario::Curve,
};

/// A time with its spread: `"100ms"`, or a table whose keys say which spread it is.
pub(super) fn spread(fields: &Fields<'_>, name: &'static str) -> Option<Dist> {
    if !fields.is_table(name) {
        return fields.get(name).map(Dist::Constant);
    }
    let inside = fields.table(name)?;
    let Some(dist) = table(&inside) else {
        if !["mean", "from", "to", "p50", "p99", "fast", "slow", "histogram"]
            .iter()
            .any(|key| inside.has(key))
        {
            fields.wrong(name, "is no spread of times: write { mean = … }, { from = …, to = … }, { p50 = …, p99 = … }, { fast = …, slow = …, share = … } or { histogram = … }");
        }
        return None;
    };
    if let Err(error) = Draw::new(&dist) {
        fields.wrong(name, format_args!("makes no sense: {error}"));
        return None;
    }
    Some(dist)
}

/// The first spread that has a key there; what belongs to another is then not known.
fn table(fields: &Fields<'_>) -> Option<Dist> {
    if fields.has("mean") {
        return Some(Dist::Exponential { mean: fields.get("mean")? });
    }
    if fields.has("from") || fields.has("to") {
        return Some(Dist::Uniform { from: needed(fields, "from")?, to: needed(fields, "to")? });
    }
    if fields.has("p50") || fields.has("p99") {
        return Some(Dist::Lognormal { p50: needed(fields, "p50")?, p99: needed(fields, "p99")? });
    }
    if fields.has("fast") || fields.has("slow") {
        let (fast, slow) = (needed(fields, "fast")?, needed(fields, "slow")?);
        return Some(Dist::Bimodal { fast, slow, share: needed(fields, "share")? });
    }
    let buckets = fields.list::<Bucket>("histogram")?;
    Some(Dist::Histogram(buckets.into_iter().map(|Bucket(to, weight)| (to, weight)).collect()))
}

/// A setting that must be there.
pub(super) fn needed<T: Read>(fields: &Fields<'_>, name: &'static str) -> Option<T> {
    let found = fields.get(name);
    if !fields.has(name) {
        fields.wrong(name, format_args!("is missing: write {}", T::expected()));
    }
    found
}

/// A bound and the weight of what lies below it, down to the bound before.
struct Bucket(Duration, f64);

impl Read for Bucket {
    fn expected() -> String {
        "a bound and a weight, such as [\"10ms\", 3]".to_owned()
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        let [bound, weight] = value.parts()?;
        Some(Self(value::duration(bound.text()?)?, weight.number()?))
    }
}

struct Point(f64, f64);

impl Read for Point {
    fn expected() -> String {
        "a point, such as [0.8, 0.5]".to_owned()
    }

    fn read(value: &Raw<'_>) -> Option<Self> {
        let [x, y] = value.parts()?;
        Some(Self(x.number()?, y.number()?))
    }
}

/// A line through points: `[[0.8, 0.0], [1.0, 1.0]]`.
pub(super) fn curve(fields: &Fields<'_>, name: &'static str) -> Option<Curve> {
    let points = fields.list::<Point>(name)?;
    Some(Curve(points.into_iter().map(|Point(x, y)| (x, y)).collect()))
}
