//! A service: how fast it works, how it queues, and how it behaves when there is too much.

use std::time::Duration;

use crate::config::fields::Fields;
use quell_sim::{
    dist::Dist,
    scenario::{Abandonment, Cold, Order, Queue, Service, Shards, Sharing},
};

use super::time::{curve, needed, spread};

/// Reads the settings of a service; `None` if what it needs is not there. Where there are `kinds`, they say how long it takes.
pub(super) fn read(fields: &Fields<'_>, kinds: bool) -> Option<Service> {
    let workers = needed::<u32>(fields, "workers");
    let mut service = Service::new(workers.unwrap_or(1), Duration::from_millis(1));
    let time = if kinds { untimed(fields) } else { time(fields) };
    if let Some(queue) = fields.table("queue") {
        service.queue = self::queue(&queue);
    }
    service.sharing = sharing(fields);
    service.abandonment = abandonment(fields);
    service.failures = curve(fields, "failures").unwrap_or_default();
    service.crowding = curve(fields, "crowding").unwrap_or_default();
    if let Some(cold) = fields.table("cold") {
        let (factor, over) = (needed(&cold, "factor"), needed(&cold, "over"));
        service.cold = factor.zip(over).map(|(factor, over)| Cold { factor, over });
    }
    fields.set("refusal_cost", &mut service.refusal_cost);
    service.shards = fields.table("shards").and_then(|table| shards(&table));
    fields.set("contended", &mut service.contended);
    fields.set("hint", &mut service.hint);
    workers?;
    Some(Service { time: time?, ..service })
}

/// The kinds of requests say how long each takes, so the service does not.
fn untimed(fields: &Fields<'_>) -> Option<Dist> {
    if fields.has("time") {
        fields.wrong("time", "is what each kind of request says here: write it there, or no kinds");
        let _ = spread(fields, "time");
        return None;
    }
    Some(Dist::Constant(Duration::from_millis(1)))
}

fn time(fields: &Fields<'_>) -> Option<Dist> {
    let time = spread(fields, "time");
    if !fields.has("time") {
        fields.wrong("time", "is missing: write how long a request takes, such as \"100ms\"");
    }
    let exponential = fields.word("spread", &[("constant", false), ("exponential", true)]);
    match (time?, exponential) {
        (Dist::Constant(mean), Some(true)) => Some(Dist::Exponential { mean }),
        (Dist::Constant(time), _) => Some(Dist::Constant(time)),
        (time, None) => Some(time),
        (_, Some(_)) => {
            fields.wrong("spread", "says again what time says: write one of them");
            None
        }
    }
}

fn shards(fields: &Fields<'_>) -> Option<Shards> {
    let mut shards = Shards::new(needed(fields, "count")?);
    fields.set("hit", &mut shards.hit);
    Some(shards)
}

fn queue(fields: &Fields<'_>) -> Queue {
    let orders = [("fifo", Order::Fifo), ("lifo", Order::Lifo), ("adaptive", Order::Adaptive)];
    Queue {
        order: fields.word("order", &orders).unwrap_or_default(),
        max: fields.get("max"),
        wait: fields.get("wait"),
    }
}

/// `"equal"`, or `{ loss = 0.5 }`.
fn sharing(fields: &Fields<'_>) -> Option<Sharing> {
    if !fields.is_table("sharing") {
        return fields.word("sharing", &[("equal", Sharing::default())]);
    }
    let loss = needed(&fields.table("sharing")?, "loss")?;
    Some(Sharing { loss })
}

/// `"serves"`, `{ cancels_after = "10ms" }` or `{ margin = "110ms" }`.
fn abandonment(fields: &Fields<'_>) -> Abandonment {
    if !fields.is_table("abandonment") {
        return fields.word("abandonment", &[("serves", Abandonment::Serves)]).unwrap_or_default();
    }
    let Some(inside) = fields.table("abandonment") else { return Abandonment::Serves };
    match (inside.get("cancels_after"), inside.get("margin")) {
        (Some(after), None) => Abandonment::Cancels { after },
        (None, Some(margin)) => Abandonment::Deadline { margin },
        _ => {
            fields.wrong(
                "abandonment",
                "needs one of two: write { cancels_after = \"10ms\" } for a service that notices, or { margin = \"110ms\" } for one that reads deadlines",
            );
            Abandonment::Serves
        }
    }
}
