//! The device filter of cgroup v2: the eBPF program that the kernel asks before it lets a process of the cgroup open or
//! make a device node. Which verdict for which device ([`rules`]), the bytecode for it ([`program`]), and making a
//! program readable that the kernel shows blinded ([`unblind`]). Nothing here calls the kernel; [`super::v2`] does.

#[cfg(test)]
pub(crate) mod interpreter;
pub mod program;
pub mod rules;
#[cfg(test)]
pub(crate) mod slurm;
#[cfg(test)]
mod tests;
pub mod unblind;
