//! A side: a proxy, the service behind it and the callers before it, on a thread of their own.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::late::{self, Late};
use super::load::{self, Doors};
use super::service::Service;
use super::tally::Seen;
use super::world::World;

/// See the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Side {
    name: String,
    http1: u16,
    http2: u16,
    services: Vec<u16>,
}

/// What its callers saw.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    proxy: String,
    #[serde(skip)]
    pub(crate) late: Late,
    classes: Vec<Seen>,
}

impl FromStr for Side {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, ports) = text.split_once('=').context("a side is NAME=PORT,PORT,PORT")?;
        let ports: Vec<u16> = ports
            .split(',')
            .map(|port| port.parse().with_context(|| format!("{port:?} is no port")))
            .collect::<Result<_>>()?;
        ensure!(
            ports.len() >= 3,
            "a side has two ports of its proxy and one or more of its service"
        );
        Ok(Self {
            name: name.into(),
            http1: ports[0],
            http2: ports[1],
            services: ports[2..].to_vec(),
        })
    }
}

pub(crate) fn run(
    side: &Side,
    world: &World,
    length: Duration,
    seed: u64,
    begin: std::time::Instant,
) -> Result<Told> {
    ensure!(
        side.services.len() >= world.endpoints(),
        "{} has {} endpoints: give {} a port for each",
        world.name,
        world.endpoints(),
        side.name
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let begin = Instant::from_std(begin);
    runtime.block_on(async {
        let at: Vec<_> =
            side.services.iter().take(world.endpoints()).map(|port| local(*port)).collect();
        Service::new(&world.service, begin).listen(world.service.odd, &at)?;
        let doors = Doors { http1: local(side.http1), http2: local(side.http2) };
        sleep_until(begin).await;
        let watch = tokio::spawn(late::watch(begin + length));
        let classes = load::run(world, length, seed, doors, begin).await;
        let late = watch.await.context("the watch panicked")?;
        Ok(Told { proxy: side.name.clone(), late, classes })
    })
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_name_and_at_least_three_ports() {
        let side: Side = "nginx=1,2,3,4".parse().unwrap();
        assert_eq!((side.name.as_str(), side.http1, side.http2), ("nginx", 1, 2));
        assert_eq!(side.services, [3, 4]);
        for wrong in ["nginx", "nginx=1,2", "nginx=1,2,x", ""] {
            assert!(wrong.parse::<Side>().is_err(), "{wrong}");
        }
    }
}
