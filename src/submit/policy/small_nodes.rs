//! Nodes whose GPUs are all smaller than a share. Slurm adds up the units of a node's GPUs, so it would send the share
//! there, and the share would fail.

use super::refusal::plain;
use super::{Accounting, Fault, Judgement, Offer, Rule};
use crate::submit::grammar::Gres;
use crate::text::hostlist;

/// The size of the largest GPU of some nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargestGpu {
    /// The nodes, such as `gpu[01-04],big1`; if several lists name a node, the first counts.
    pub nodes: String,
    /// `None` if gpushare places no shares there.
    pub units: Option<u64>,
}

impl<A: Accounting> Judgement<'_, '_, A> {
    /// A share that is larger than the GPUs of a node that the job names.
    pub(super) fn too_large(&self) -> Option<Fault> {
        let share = self.placed_share()?;
        let mut named = names(self.request.nodes?);
        let (node, units) =
            named.find_map(|node| self.too_small(&node, share.count).map(|units| (node, units)))?;
        let asked = [&plain(share), b" on ".as_slice(), node.as_bytes()].concat();
        let offer = Offer::UpTo(units);
        let refusal = self.site_refusal(Rule::ShareSize, asked);
        Some(refusal.gres(share.name.to_vec()).count(share.count).offer(offer))
    }

    /// The nodes on which an accepted job must not run, including those that it excludes itself; `None` if it already
    /// excludes them all. gpushare.conf may name nodes that this cluster doesn't have, and Slurm refuses a job that
    /// excludes one.
    pub(super) fn nodes_to_exclude(&self) -> Option<Vec<u8>> {
        let share = self.placed_share()?;
        let said = self.request.excluded_nodes.unwrap_or_default();
        let excluded: Vec<String> = names(said).collect();
        let mut added = Vec::new();
        for largest in self.policy.shares.nodes.iter().filter(|largest| largest.is_less_than(share.count)) {
            for node in names(largest.nodes.as_bytes()) {
                let counts = self.too_small(&node, share.count).is_some() && self.accounting.has_node(&node);
                if counts && !excluded.contains(&node) && !added.contains(&node) {
                    added.push(node);
                }
            }
        }
        let said = Some(said).filter(|said| !said.is_empty());
        let all: Vec<&[u8]> = said.into_iter().chain(added.iter().map(String::as_bytes)).collect();
        (!added.is_empty()).then(|| all.join(&b','))
    }

    /// The job's share, if gpushare places it and nodes differ.
    fn placed_share(&self) -> Option<Gres<'_>> {
        let differ = !self.policy.shares.nodes.is_empty();
        // Slurm doesn't change a running job's nodes, so an update without the share must not name any.
        let stays = self.update.is_some_and(|(update, _)| update.request.tres_per_node.is_none());
        (differ && !stays).then(|| self.request.share(self.policy.share_gres.0.as_bytes())).flatten()
    }

    /// The size of a node's largest GPU, if that is smaller than the share.
    fn too_small(&self, node: &str, units: u64) -> Option<u64> {
        let lists = &self.policy.shares.nodes;
        let named = lists.iter().find(|largest| hostlist::contains(&largest.nodes, node) == Some(true));
        let largest = named.map_or(self.policy.shares.elsewhere, |largest| largest.units);
        largest.filter(|largest| *largest < units)
    }
}

impl LargestGpu {
    fn is_less_than(&self, units: u64) -> bool {
        self.units.is_some_and(|largest| largest < units)
    }
}

/// The nodes in a user's or gpushare.conf's list. Text that isn't a list has none; Slurm refuses it.
fn names(list: &[u8]) -> impl Iterator<Item = String> {
    let list = std::str::from_utf8(list).unwrap_or_default();
    hostlist::names::each(list).into_iter()
}
