//! Calls of very different kinds beside each other: what one takes says nothing of the other.

use super::super::schedule::Arrivals::{Even, Loops, Once, Poisson};
use super::super::schedule::Work;
use super::super::world::{Flow, Shape, Wire, World};
use super::{fast, ms, waves};

pub(super) fn worlds() -> Vec<World> {
    let slow = || Flow::good("slow", "/slow", Poisson(30.0)).takes(ms(400));
    let polls =
        |from, to| Flow::good("poll", "/poll", Loops(100)).works(Work::Between(ms(from), ms(to)));
    vec![
        World::new("mixed", "90 % of calls 3 ms, 10 % 400 ms, 300/s", vec![fast(270.0, 3), slow()])
            .in_short(),
        World::new(
            "mixed-leavers",
            "the same, a third of the slow calls left after 0.1-0.25 s",
            vec![fast(270.0, 3), slow().some_leave(1.0 / 3.0, ms(100), ms(250))],
        ),
        World::new(
            "mixed-hidden",
            "90 % of calls 3 ms, 10 % 400 ms, all of one path, 300/s",
            vec![fast(300.0, 3).works(Work::Either(0.1, ms(3), ms(400)))],
        ),
        World::new(
            "hidden-later",
            "60/s of 3 ms, and on the same path 20/s of 2 s from second 6 on",
            vec![
                Flow::good("quick", "/ask", Poisson(60.0)).takes(ms(3)),
                Flow {
                    from: ms(6_000),
                    ..Flow::good("slow", "/ask", Poisson(20.0)).takes(ms(2_000))
                },
            ],
        ),
        World::new(
            "names",
            "a hundred names, more than there are classes, 60/s of 3 ms, beside 20/s of 2 s",
            vec![
                Flow::good("page", "/{name}", Poisson(60.0)).takes(ms(3)),
                Flow::good("report", "/report", Poisson(20.0)).takes(ms(2_000)),
            ],
        ),
        World::new(
            "polls",
            "200/s of 5 ms beside 100 long polls of 2-4.5 s",
            vec![fast(200.0, 5), polls(2_000, 4_500)],
        )
        .in_short(),
        World::new(
            "polls-long",
            "200/s of 5 ms beside 100 long polls of 20-30 s",
            vec![fast(200.0, 5), polls(20_000, 30_000)],
        )
        .seconds(35),
        World::new(
            "slow-few",
            "5 callers of a 3 s path, who come in a quiet second, beside waves of 100/s of 1 ms",
            vec![
                waves(1),
                Flow { from: ms(4_500), ..Flow::good("slow", "/slow", Loops(5)).takes(ms(3_000)) },
            ],
        )
        .in_short(),
        World::new(
            "late-reply",
            "replies after 50 s beside 50/s of 5 ms",
            vec![fast(50.0, 5), Flow::good("report", "/report", Once(4)).takes(ms(50_000))],
        )
        .seconds(52),
        World::new(
            "lognormal",
            "lognormal times, p50 20 ms, p99 800 ms, 64 workers, 300/s",
            vec![fast(300.0, 0).works(Work::LogNormal { p50: ms(20), p99: ms(800) })],
        )
        .seconds(30)
        .service(Shape { workers: Some(64), ..Shape::default() }),
        World::new(
            "ids",
            "200/s to /users/ID of 5 ms beside 10/s to /users/ID/report of 300 ms",
            vec![
                Flow::good("user", "/users/{id}", Poisson(200.0)).takes(ms(5)),
                Flow::good("report", "/users/{id}/report", Poisson(10.0)).takes(ms(300)),
            ],
        ),
        World::new(
            "grpc",
            "HTTP/2 on both sides: 200/s of 5 ms beside 20/s of 500 ms",
            vec![
                Flow::good("get", "/shop.Cart/Get", Poisson(200.0))
                    .takes(ms(5))
                    .over(Wire::Http2(4)),
                Flow::good("report", "/shop.Cart/Report", Even(20.0))
                    .takes(ms(500))
                    .over(Wire::Http2(2)),
            ],
        )
        .service(Shape { h2c: true, ..Shape::default() }),
    ]
}
