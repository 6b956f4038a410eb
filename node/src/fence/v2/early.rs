//! Closes a step from its start. Slurm's rules and the fence come after the hook `user_init`, in which another plugin
//! may run programs as the job's user (pyxis does). So `init` sets up a narrow fence, and the step's final fence
//! replaces it later.

use std::path::Path;

use super::kernel::Kernel;
use super::{Flags, Step, V2Error, Whose, attach, hidden, put_up, put_up_at, query};
use crate::fence::Fence;

/// A temporary fence until the step's own is set up.
#[derive(Debug)]
pub struct Early<K: Kernel> {
    fence: Fence,
    /// The programs attached to the step; they use MULTI, so nothing can be attached in another way.
    attached: Vec<u32>,
    /// The programs of this fence: Slurm's program of the job, if there was one, and ours last.
    programs: Vec<(u32, K::Program)>,
}

/// Closes what `fence` closes; it opens nothing that Slurm closes. The step's tasks and their directories don't exist
/// yet.
///
/// # Errors
/// The same as for [`put_up`].
pub fn close<K: Kernel>(kernel: &K, step: &Path, fence: &Fence) -> Result<Early<K>, V2Error> {
    let narrow = Fence { widens: false, ..fence.clone() };
    let before = query(kernel, step)?.programs;
    put_up(kernel, step, &narrow)?;
    let attached = query(kernel, step)?.programs;
    let ours = attached.iter().filter(|id| !before.contains(id));
    let programs = ours
        .map(|id| match kernel.program(*id) {
            Ok(program) => Ok((*id, program)),
            Err(error) => Err(V2Error::Open(step.to_owned(), *id, error)),
        })
        .collect::<Result<_, _>>()?;
    Ok(Early { fence: narrow, attached, programs })
}

impl<K: Kernel> Early<K> {
    /// Sets up the step's own fence as [`put_up`] does, and afterwards removes the parts of this one that may conflict
    /// with it. So the step is never without a fence.
    ///
    /// # Errors
    /// The same as for [`put_up`]; this fence then stays.
    pub fn replace(&self, kernel: &K, step: &Path, fence: &Fence) -> Result<(), V2Error> {
        if *fence != self.fence {
            let has = self.attached.clone();
            if fence.widens && fence.closed == self.fence.closed {
                // Our program closes nothing that must be open, and removing it would take longer than leaving it.
                let slurms = self.programs.iter().rev().nth(1).map(|(_, program)| program);
                return put_up_at(kernel, &Step { folder: step, has, stale: slurms }, fence);
            }
            put_up_at(kernel, &Step { folder: step, has, stale: None }, fence)?;
            let carried = if fence.widens { None } else { hidden(kernel, step)?.map(|found| found.id) };
            return detach(kernel, step, self.programs.iter().filter(|(id, _)| Some(*id) != carried));
        }
        // Ours stays. Slurm has meanwhile replaced the job's program.
        let Some((_, slurms)) = self.programs.split_last() else { return put_up(kernel, step, fence) };
        let found = hidden(kernel, step)?;
        let carried = found.as_ref().map(|found| found.id);
        if let Some(found) = found.filter(|found| !self.attached.contains(&found.id)) {
            attach(kernel, step, (Whose::Slurms, &found.program), Flags::Multi)?;
        }
        detach(kernel, step, slurms.iter().filter(|(id, _)| Some(*id) != carried))
    }
}

fn detach<'a, K: Kernel>(
    kernel: &K,
    step: &Path,
    mut programs: impl Iterator<Item = &'a (u32, K::Program)>,
) -> Result<(), V2Error>
where
    K::Program: 'a,
{
    programs.try_for_each(|(_, program)| {
        kernel.detach(step, program).map_err(|error| V2Error::Detach(step.to_owned(), error))
    })
}
