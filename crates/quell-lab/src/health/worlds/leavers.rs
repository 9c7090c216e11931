//! Callers who hang up early: they say nothing of the service, and must not shut others out. And callers who would.

use super::super::schedule::Arrivals::{Bursts, Even, Loops, Once, Poisson};
use super::super::schedule::Work;
use super::super::world::{Flow, Shape, Wire, World};
use super::{fast, ms};

pub(super) fn worlds() -> Vec<World> {
    let together =
        |of, every| Flow::other("leavers", "/fast", Bursts { of, within: ms(0), every: ms(every) });
    vec![
        World::new(
            "leave-together",
            "8 callers hang up together 1 ms after sending, every 200 ms, beside 100/s of 5 ms",
            vec![fast(100.0, 5), together(8, 200).takes(ms(5)).leaves(ms(1), ms(1))],
        )
        .in_short(),
        World::new(
            "leave-64",
            "200/s for 2 s, 64 callers who leave at once, then 2,000/s of next to no time",
            vec![
                Flow { from: ms(3_050), ..fast(2_000.0, 0) },
                Flow::good("before", "/fast", Bursts { of: 400, within: ms(2_000), every: ms(60_000) }),
                Flow {
                    from: ms(2_500),
                    ..Flow::other("leavers", "/fast", Once(64)).takes(ms(5_000)).leaves(ms(500), ms(500))
                },
            ],
        )
        .seconds(6)
        .heavy(),
        World::new(
            "pages",
            "20 streams of one HTTP/2 connection, cancelled together after 0.3 s, beside 100/s of 20 ms",
            vec![
                fast(100.0, 20).over(Wire::Http2(1)),
                together(20, 400)
                    .works(Work::Between(ms(50), ms(1_500)))
                    .leaves(ms(300), ms(300))
                    .over(Wire::Http2(1)),
            ],
        ),
        World::new(
            "probes",
            "25 health probes/s that hang up after 5 ms, beside 100/s of 100 ms",
            vec![
                fast(100.0, 100),
                Flow::other("probe", "/fast", Even(25.0)).takes(ms(100)).leaves(ms(5), ms(5)),
            ],
        )
        .in_short(),
        World::new(
            "hang-ups",
            "2,000 hang-ups/s, of connections and of streams, beside 100/s of 20 ms",
            vec![
                fast(100.0, 20),
                Flow::other("closed", "/fast", Even(400.0)).takes(ms(20)).leaves(ms(1), ms(10)),
                Flow::other("reset", "/fast", Even(1_600.0))
                    .takes(ms(20))
                    .leaves(ms(1), ms(10))
                    .over(Wire::Http2(8)),
            ],
        )
        .seconds(12)
        .heavy(),
        World::new(
            "hang-ups-40",
            "40 hang-ups/s from one address, 1 s after sending to a path of 5 s, beside 50/s of 10 ms",
            vec![
                fast(50.0, 10),
                Flow {
                    address: 2,
                    ..Flow::hostile("attacker", "/heavy", Even(40.0))
                        .takes(ms(5_000))
                        .leaves(ms(1_000), ms(1_000))
                },
            ],
        ),
        World::new(
            "hostile",
            "one address sends 99 % of the load, 990/s of 5 ms, beside 10/s of another",
            vec![
                fast(10.0, 5),
                Flow { address: 2, ..Flow::hostile("greedy", "/fast", Poisson(990.0)).takes(ms(5)) },
            ],
        )
        .heavy(),
        World::new(
            "hostile-full",
            "one address keeps all 20 workers of 20 ms busy with 100 calls at a time, beside 20/s of another",
            vec![
                fast(20.0, 20),
                Flow { address: 2, ..Flow::hostile("greedy", "/fast", Loops(100)).takes(ms(20)) },
            ],
        )
        .service(Shape { workers: Some(20), ..Shape::default() })
        .heavy(),
    ]
}
