//! Replays the period: every job on its own nodes, from its start to its end, and those that would have fitted a share
//! with that share, on the GPU that the prolog would have chosen.
//!
//! It needs no more GPUs at any time than the jobs held: a share takes at most the GPU that its job had. So no job
//! waits or starts elsewhere, and what is left free is freed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use gpushare_node::choose::{Candidate, PlacementRules, choose};

use super::collect::{Collector, Place, Run};

/// A share on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Share {
    who: u32,
    units: u32,
}

/// A GPU.
#[derive(Debug)]
struct Slot {
    gres_type: u32,
    capacity: u32,
    whole: bool,
    shares: Vec<Share>,
    /// Since when it isn't empty.
    since: u32,
}

impl Slot {
    fn is_empty(&self) -> bool {
        !self.whole && self.shares.is_empty()
    }
}

/// A node while it is replayed.
#[derive(Debug, Default)]
struct Node {
    slots: Vec<Slot>,
    /// The ends of what runs: when, on which GPU, and which share.
    ends: BinaryHeap<Reverse<(u32, usize, Option<Share>)>>,
    /// For how many seconds GPUs weren't empty.
    busy: u64,
}

/// The seconds for which GPUs had a job, each GPU for itself. `users` has each `who`'s user.
pub fn busy(collected: &mut Collector, rules: impl Fn(&str) -> PlacementRules, users: &[u32]) -> u64 {
    let mut places = std::mem::take(&mut collected.places);
    places.sort_unstable();
    let mut busy = 0;
    for of_node in places.chunk_by(|a, b| a.node == b.node) {
        let Some(number) = of_node.first().map(|place| place.node) else { continue };
        let (mut node, rules) = start(collected, number, &rules);
        for place in of_node {
            let Some(run) = collected.runs.get(place.run as usize).copied() else { continue };
            node.end_until(run.start);
            let capacity = collected.gpu(number, run.gres_type).capacity;
            node.begin(&run, place, capacity, rules, users);
        }
        node.end_until(u32::MAX);
        busy += node.busy;
    }
    collected.places = places;
    busy
}

/// The node with its GPUs of today.
fn start(
    collected: &mut Collector,
    number: u32,
    rules: impl Fn(&str) -> PlacementRules,
) -> (Node, PlacementRules) {
    let (mut node, today) = (Node::default(), collected.nodes.get(number).cloned().unwrap_or_default());
    for (name, count) in &today.gpus {
        // A type of which no job had a GPU needs none here.
        let Some(at) = collected.types.get_index_of(name) else { continue };
        let gres_type = u32::try_from(at).unwrap_or(u32::MAX);
        let capacity = collected.gpu(number, gres_type).capacity;
        node.slots.extend((0..*count).map(|_| Slot::new(gres_type, capacity)));
    }
    (node, rules(&today.name))
}

impl Slot {
    fn new(gres_type: u32, capacity: u32) -> Slot {
        Slot { gres_type, capacity, whole: false, shares: Vec::new(), since: 0 }
    }

    fn candidate(&self, index: usize, who: u32, users: &[u32]) -> Candidate {
        let user = |who: u32| users.get(who as usize).copied().unwrap_or(who);
        let mut on_it: Vec<u32> = self.shares.iter().map(|share| user(share.who)).collect();
        on_it.sort_unstable();
        on_it.dedup();
        Candidate {
            index: u32::try_from(index).unwrap_or(u32::MAX),
            capacity: self.capacity,
            assigned: self.shares.iter().map(|share| u64::from(share.units)).sum(),
            users: u32::try_from(on_it.len()).unwrap_or(u32::MAX),
            foreign: on_it.iter().any(|one| *one != user(who)),
            held: self.whole,
            healthy: true,
            memory: None,
            load: None,
        }
    }
}

impl Node {
    fn end_until(&mut self, now: u32) {
        while let Some(Reverse((end, at, share))) = self.ends.peek().copied() {
            if end > now {
                return;
            }
            self.ends.pop();
            let Some(slot) = self.slots.get_mut(at) else { continue };
            match share {
                None => slot.whole = false,
                Some(share) => {
                    let place = slot.shares.iter().position(|one| *one == share);
                    let _ = place.map(|place| slot.shares.swap_remove(place));
                }
            }
            if slot.is_empty() {
                self.busy += u64::from(end.saturating_sub(slot.since));
            }
        }
    }

    fn begin(&mut self, run: &Run, place: &Place, capacity: u32, rules: PlacementRules, users: &[u32]) {
        if run.units > 0 {
            let share = Share { who: run.who, units: run.units };
            let at = self.chosen(run, rules, users).unwrap_or_else(|| self.empty(run.gres_type, capacity));
            self.put(at, run, Some(share));
        } else {
            for _ in 0..place.count {
                let at = self.empty(run.gres_type, capacity);
                self.put(at, run, None);
            }
        }
    }

    fn put(&mut self, at: usize, run: &Run, share: Option<Share>) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        if slot.is_empty() {
            slot.since = run.start;
        }
        slot.whole |= share.is_none();
        slot.shares.extend(share);
        self.ends.push(Reverse((run.end, at, share)));
    }

    fn chosen(&self, run: &Run, rules: PlacementRules, users: &[u32]) -> Option<usize> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.gres_type == run.gres_type);
        let gpus: Vec<Candidate> = slots.map(|(at, slot)| slot.candidate(at, run.who, users)).collect();
        choose(&gpus, run.units, rules).ok().and_then(|choice| usize::try_from(choice.index).ok())
    }

    /// An empty GPU of the type. If accounting has more jobs at once than the node has GPUs today, it had more then.
    fn empty(&mut self, gres_type: u32, capacity: u32) -> usize {
        let found = self.slots.iter().position(|slot| slot.gres_type == gres_type && slot.is_empty());
        found.unwrap_or_else(|| {
            self.slots.push(Slot::new(gres_type, capacity));
            self.slots.len() - 1
        })
    }
}
