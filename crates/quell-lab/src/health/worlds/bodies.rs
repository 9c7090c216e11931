//! Bodies that take long, on the way there or on the way back, and connections that stay open.

use super::super::schedule::Arrivals::Loops;
use super::super::world::{Flow, Wire, World};
use super::{fast, ms, waves};

pub(super) fn worlds() -> Vec<World> {
    vec![
        World::new(
            "uploads",
            "50 callers upload 1 MB at 50-100 KB/s beside 200/s of 5 ms",
            vec![
                fast(200.0, 5),
                Flow::good("upload", "/upload", Loops(50))
                    .takes(ms(5))
                    .uploads(1_000_000, 50_000, 100_000),
            ],
        )
        .seconds(30),
        World::new(
            "uploads-slow",
            "5 honest uploads of 16 KiB at 2 KiB/s, begun in a quiet second, beside waves of 100/s of 5 ms",
            vec![
                waves(5),
                Flow {
                    from: ms(4_500),
                    ..Flow::good("upload", "/upload", Loops(5))
                        .takes(ms(5))
                        .uploads(16_384, 2_048, 2_048)
                },
            ],
        )
        .in_short(),
        World::new(
            "slow-readers",
            "20 callers read replies of 2 MB at 300 KB/s beside 100/s of 5 ms",
            vec![
                fast(100.0, 5),
                Flow {
                    reply: 2_000_000,
                    reads: Some(300_000),
                    ..Flow::good("reader", "/file", Loops(20)).takes(ms(5))
                },
            ],
        ),
        World::new(
            "events",
            "60 streams of events, 4 s each, beside 200/s of 5 ms",
            vec![
                fast(200.0, 5),
                Flow {
                    events: Some((20, ms(200))),
                    ..Flow::good("stream", "/events", Loops(60)).takes(ms(5))
                },
            ],
        ),
        World::new(
            "upgrades",
            "40 upgraded connections with messages beside 100/s of 5 ms",
            vec![
                fast(100.0, 5),
                Flow::good("tunnel", "/socket", Loops(40)).over(Wire::Tunnel(50, ms(100))),
            ],
        ),
    ]
}
