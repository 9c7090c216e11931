//! Shards: one service in several parts, each with workers and a queue of its own.
//!
//! The first shard stands where the service would, the further ones behind all services; `root` says whose they are.

use core::time::Duration;

use super::shop::Shop;
use crate::{
    scenario::{Invalid, Service, Shards},
    verdict::{Tally, Work},
    world::{Below, Origin, Queueing, World},
};

/// Where the shards of a service are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Split {
    shards: Shards,
    /// The second one; the others follow.
    second: u16,
}

impl Shop {
    /// Splits what is to be split, and lets everybody remember what a request is about for those it calls.
    pub(super) fn split_all(shops: &mut Vec<Self>, seed: u64) -> Result<(), Invalid> {
        for root in 0..shops.len() {
            let service = shops[root].service.clone();
            let edges = shops[root].edges.clone();
            let Some(shards) = service.shards else { continue };
            if shops.len() + shards.count as usize > usize::from(u16::MAX) {
                let fix = "are too many over all services: write at most 65535";
                return Err(Invalid::Field { field: "service.shards", fix });
            }
            let second = shops.len() as u16;
            for shard in 0..shards.count {
                let workers = shards.workers(service.workers, shard);
                let part = Service { workers, ..service.clone() };
                let at = if shard == 0 { root } else { shops.len() };
                let mut shop = Self::new(&part, &edges, at as u64, seed)?;
                (shop.root, shop.hit) = (root as u16, shard < shards.hit);
                if shard == 0 {
                    shop.split = Some(Split { shards, second });
                    shops[root] = shop;
                } else {
                    shops.push(shop);
                }
            }
        }
        for shop in shops.iter_mut().filter(|shop| !shop.edges.is_empty()) {
            shop.keeps = true;
        }
        Ok(())
    }
}

impl World {
    /// Where a request about this key goes, and which shard that is.
    pub(super) fn shard(&self, service: u16, key: u32) -> (u16, Option<u32>) {
        let Some(Split { shards, second }) = self.shops[usize::from(service)].split else {
            return (service, None);
        };
        let shard = shards.of(key);
        let at = if shard == 0 { service } else { second + shard as u16 - 1 };
        (at, Some(shard))
    }

    /// What a request is about, while somebody waits for it.
    pub(super) fn key_of(&mut self, from: Origin) -> u32 {
        match from {
            Origin::User(user) => self.users.key_of(user),
            Origin::Call { call, .. } => self.hosts.key_of(call),
        }
    }

    /// What all shards of a service did.
    pub(crate) fn sum(&self, root: usize) -> Below {
        let shards = self.shops.iter().filter(|shop| usize::from(shop.root) == root);
        shards.fold(Below::default(), |sum, shop| sum.and(&shop.below()))
    }

    /// What all shards of a service were asked, did and spent.
    pub(crate) fn tally(&self, root: usize) -> Tally {
        let shards = self.shops.iter().filter(|shop| usize::from(shop.root) == root);
        shards.fold(Tally::default(), |sum, shop| sum.and(shop.tally()))
    }

    /// Requests that wait at the first service.
    pub(crate) fn backlog(&self) -> u64 {
        self.shops.iter().filter(|shop| shop.root == 0).map(Shop::backlog).sum()
    }

    /// What each shard of the first service did; nothing, if it has none.
    pub(crate) fn shards(&self) -> Vec<Below> {
        if self.shops[0].split.is_none() {
            return vec![];
        }
        self.shops.iter().filter(|shop| shop.root == 0).map(Shop::below).collect()
    }
}

impl Below {
    fn and(self, other: &Self) -> Self {
        let (a, b) = (self.queueing, other.queueing);
        Self {
            sent: self.sent + other.sent,
            work: Work {
                served: self.work.served + other.work.served,
                wasted: self.work.wasted + other.work.wasted,
            },
            queueing: Queueing {
                started: a.started + b.started,
                delayed: a.delayed + b.delayed,
                waited: Duration::saturating_add(a.waited, b.waited),
                refused: a.refused + b.refused,
                failed: a.failed + b.failed,
                cancelled: a.cancelled + b.cancelled,
                conflicts: a.conflicts + b.conflicts,
            },
        }
    }
}
