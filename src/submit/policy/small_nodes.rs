//! Nodes whose GPUs are all smaller than a share: Slurm adds up the units of a node's GPUs, so it would send the share
//! there, and the share would fail. And nodes on which its units are less GPU memory than the user requested.

use super::{Accounting, Fault, Judgement, Offer, Rule, plain};
use crate::submit::grammar::Gres;
use crate::text::hostlist;

/// The size of the largest GPU of some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargestGpu {
    /// The nodes, such as `gpu[01-04],big1`; if several lists name a node, the first counts. Empty for all others.
    pub nodes: String,
    /// `None` if gpushare places no shares there.
    pub units: Option<u64>,
    /// `UnitsPerGpu` by type, if it is set by type.
    pub types: Vec<(String, u32)>,
    /// `MemPerUnit`, in MiB, if there is `MemoryGRES`; otherwise 0.
    pub mem_per_unit: u32,
}

impl<'a, A: Accounting> Judgement<'_, 'a, A> {
    /// A share that is larger than the GPUs of a node that the job names.
    pub(super) fn too_large(&self) -> Option<Fault> {
        let share = self.placed_share()?;
        let mut named = names(self.request.nodes?);
        let too_small = |node: &str| self.gpus_of(node).units.filter(|units| *units < share.count);
        let (node, units) = named.find_map(|node| too_small(&node).map(|units| (node, units)))?;
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
        let too_small = |largest: &LargestGpu| largest.is_less_than(&share, self.mebibytes);
        for largest in self.policy.shares.nodes.iter().filter(|largest| too_small(largest)) {
            for node in names(largest.nodes.as_bytes()) {
                let counts = too_small(self.gpus_of(&node)) && self.accounting.has_node(&node);
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

    /// The GPUs of a node.
    pub(super) fn gpus_of(&self, node: &str) -> &'a LargestGpu {
        let lists = &self.policy.shares.nodes;
        let named = lists.iter().find(|largest| hostlist::contains(&largest.nodes, node) == Some(true));
        named.unwrap_or(&self.policy.shares.elsewhere)
    }
}

impl LargestGpu {
    /// Whether its GPUs of the share's type are too small; if it has none of that type, its largest.
    fn is_less_than(&self, share: &Gres, mebibytes: u64) -> bool {
        let most = self.units.map(|largest| self.most(share.gres_type).unwrap_or(largest));
        most.is_some_and(|most| most < share.count || self.memory(share.count) < mebibytes)
    }

    /// The memory of so many units, in MiB.
    pub(super) fn memory(&self, units: u64) -> u64 {
        units.saturating_mul(self.mem_per_unit.into())
    }

    /// The most units of a GPU of this type; `None` if these nodes take no shares of that.
    pub(super) fn most(&self, gres_type: Option<&[u8]>) -> Option<u64> {
        let asked = gres_type.filter(|_| !self.types.is_empty());
        asked.map_or(self.units, |asked| {
            let is_it = |known: &str| known.as_bytes().eq_ignore_ascii_case(asked);
            self.types.iter().find(|(known, _)| is_it(known)).map(|(_, units)| u64::from(*units))
        })
    }
}

/// The nodes in a user's or gpushare.conf's list. Text that isn't a list has none; Slurm refuses it.
pub(super) fn names(list: &[u8]) -> impl Iterator<Item = String> {
    let list = std::str::from_utf8(list).unwrap_or_default();
    hostlist::names::each(list).into_iter()
}
