//! Many at once, and services that stand still for a moment or change their speed.

use super::super::schedule::Arrivals::{Bursts, Loops, Once, Poisson};
use super::super::schedule::Work;
use super::super::world::{Flow, Pause, Shape, Wire, World};
use super::{fast, ms};

pub(super) fn worlds() -> Vec<World> {
    let bursts = |every| {
        let flow =
            Flow::good("burst", "/burst", Bursts { of: 400, within: ms(50), every: ms(every) });
        vec![flow.takes(ms(50)), Flow::good("usual", "/usual", Poisson(20.0)).takes(ms(50))]
    };
    let workers = |workers| Shape { workers: Some(workers), ..Shape::default() };
    vec![
        World::new(
            "bursts-10",
            "400 calls within 50 ms every 10 s, 200 workers of 50 ms",
            bursts(10_000),
        )
        .seconds(35)
        .service(workers(200))
        .heavy(),
        World::new("bursts-30", "the same every 30 s", bursts(30_000))
            .seconds(65)
            .service(workers(200))
            .heavy(),
        World::new("pauses", "a pause of 0.6 s every 8 s, 200/s of 20 ms", vec![fast(200.0, 20)])
            .seconds(34)
            .service(Shape {
                pause: Some(Pause { every: ms(8_000), lasts: ms(600) }),
                ..Shape::default()
            }),
        World::new(
            "drift",
            "times drift from 10 to 80 ms and back within a minute, 200/s",
            vec![fast(200.0, 0).works(Work::Drifts(ms(10), ms(80), ms(60_000)))],
        )
        .seconds(60),
        World::new(
            "slower",
            "from second 10 on everything takes three times as long, 200/s of 20 ms",
            vec![fast(200.0, 0).works(Work::Steps(ms(20), ms(60), ms(10_000)))],
        ),
        World::new(
            "cold-start",
            "the first 200 calls come at once, then 50/s of 20 ms",
            vec![Flow::good("first", "/fast", Once(200)).takes(ms(20)), fast(50.0, 20)],
        )
        .seconds(10)
        .heavy(),
        World::new(
            "quiet-burst",
            "two calls per second, and 300 at once after 15 s",
            vec![
                fast(2.0, 20),
                Flow { from: ms(15_000), ..Flow::good("burst", "/fast", Once(300)).takes(ms(20)) },
            ],
        )
        .heavy(),
        World::new(
            "cron",
            "100 calls of 200 ms at once every 5 s, beside 100/s of 5 ms",
            vec![
                fast(100.0, 5),
                Flow::good("jobs", "/jobs", Bursts { of: 100, within: ms(0), every: ms(5_000) })
                    .takes(ms(200)),
            ],
        )
        .seconds(26),
        World::new(
            "h2-saturated",
            "100 concurrent calls over HTTP/2, as fast as the machine can",
            vec![Flow::good("call", "/call", Loops(100)).over(Wire::Http2(2))],
        )
        .seconds(10)
        .saturated(),
    ]
}
