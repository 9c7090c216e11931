//! A part that fails: a path, a caller's quota, an endpoint. The rest of the service is well.

use super::super::schedule::Arrivals::Poisson;
use super::super::world::{Flow, Odd, Shape, World};
use super::{fast, ms};

pub(super) fn worlds() -> Vec<World> {
    let failing = |rate| Flow {
        status: 500,
        ..Flow::other("failing", "/failing", Poisson(rate)).takes(ms(5))
    };
    let list = |rate| Flow::good("list", "/list", Poisson(rate)).takes(ms(20));
    let one = |name, about, odd| {
        World::new(name, about, vec![fast(100.0, 10)])
            .service(Shape { odd: Some(odd), ..Shape::default() })
    };
    vec![
        World::new(
            "failing-40",
            "a path with 40 % of the traffic always answers 500; only the others count",
            vec![fast(90.0, 5), list(30.0), failing(80.0)],
        ),
        World::new(
            "failing-60",
            "the same with 60 % of the traffic",
            vec![fast(60.0, 5), list(20.0), failing(120.0)],
        )
        .in_short(),
        World::new(
            "failing-name",
            "a hundred names, more than there are classes, and one more with 40 % of the traffic always answers 500",
            vec![Flow::good("page", "/{name}", Poisson(90.0)).takes(ms(5)), failing(60.0)],
        ),
        World::new(
            "quota",
            "one credential gets 429 with Retry-After: 30; 2 % of the others' calls fail once",
            vec![
                Flow {
                    fails_once: 0.02,
                    credential: Some("Bearer within-quota"),
                    ..fast(200.0, 5)
                },
                Flow {
                    status: 429,
                    credential: Some("Bearer over-quota"),
                    ..Flow::other("over", "/fast", Poisson(10.0)).takes(ms(5))
                },
            ],
        )
        .in_short(),
        one("one-slow", "one of three endpoints takes a second longer", Odd::Slow(ms(1_000))),
        one("one-errs", "one of three endpoints answers 503", Odd::Errs),
        one("one-refuses", "nobody listens at one of three endpoints", Odd::Refuses),
    ]
}
