//! What a job has, counted in two ways: by AllocTRES, as Slurm's accounting does, and by its devices. The type of a
//! GPU comes from its node, never from a name that a user chose.

use gpushare_slurm_text::{Job, Node, On, Snapshot, Tres, Trust};

use crate::{CountedBy, Rules};

/// What a job has.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// AllocTRES.
    allocated: Tres,
    /// The same TRES by devices; `None` if Slurm doesn't say them, or a user's text may be among what it says.
    devices: Option<Tres>,
    /// Whether the type of each GPU is known.
    pub typed: bool,
    /// Its GPUs on nodes where some have no type.
    pub untyped: u64,
}

impl Held {
    pub fn of(job: &Job, now: &Snapshot, rules: &Rules) -> Held {
        let allocated = job.allocated.clone().unwrap_or_default();
        let mut held = Held { allocated, devices: None, typed: true, untyped: 0 };
        if job.record.trust == Trust::Said {
            let mut sum = Tres::default();
            for on in &job.record.on {
                held.add(on, &mut sum, now, rules);
            }
            held.devices = Some(sum);
        }
        held
    }

    fn add(&mut self, on: &On, sum: &mut Tres, now: &Snapshot, rules: &Rules) {
        for (node, gres) in on.nodes.iter().flat_map(|node| on.gres.iter().map(move |gres| (node, gres))) {
            let node = now.nodes.get(node);
            if gres.name == "gpu" {
                for index in gres.indexes() {
                    sum.add("gres/gpu", 1);
                    match node.and_then(|node| node.type_of(*index)) {
                        Some(gres_type) => sum.add(&format!("gres/gpu:{gres_type}"), 1),
                        None => {
                            self.typed = false;
                            self.untyped += u64::from(node.is_some_and(Node::has_untyped_gpus));
                        }
                    }
                }
            } else if rules.shares.contains(&gres.name) && gres.count > 0 {
                sum.add(&format!("gres/{}", gres.name), gres.count);
                if let Some(gres_type) = node.and_then(|node| node.only_type(&gres.name)) {
                    sum.add(&format!("gres/{}:{gres_type}", gres.name), gres.count);
                }
            }
        }
    }

    /// How many of a TRES it has; `None` if that can't be counted so.
    pub fn by(&self, counted_by: CountedBy, tres: &str) -> Option<u64> {
        match counted_by {
            CountedBy::AllocTres => Some(self.allocated.of(tres).unwrap_or(0)),
            CountedBy::Devices => self
                .devices
                .as_ref()
                .filter(|_| tres.starts_with("gres/"))
                .map(|sum| sum.of(tres).unwrap_or(0)),
        }
    }

    /// The most of a TRES by either count.
    pub fn most(&self, tres: &str) -> u64 {
        let by = |counted_by| self.by(counted_by, tres).unwrap_or(0);
        by(CountedBy::AllocTres).max(by(CountedBy::Devices))
    }

    /// What it has by devices; by AllocTRES if Slurm doesn't say devices.
    pub fn gpus(&self) -> &Tres {
        self.devices.as_ref().unwrap_or(&self.allocated)
    }

    pub fn allocated(&self) -> &Tres {
        &self.allocated
    }

    /// The types of its GPUs by either count.
    pub fn types(&self) -> Vec<&str> {
        let both = self.devices.iter().chain([&self.allocated]).flat_map(Tres::iter);
        let mut types: Vec<&str> = both
            .filter(|(_, count)| *count > 0)
            .filter_map(|(tres, _)| tres.strip_prefix("gres/gpu:"))
            .collect();
        types.sort_unstable();
        types.dedup();
        types
    }
}
