//! The device filter of cgroup v2: the eBPF program that the kernel runs before it lets a process of the cgroup open or
//! make a device node. [`rules`] has the verdict for each device, [`program`] the bytecode, and [`unblind`] makes a
//! program readable that the kernel shows blinded. Only [`super::v2`] calls the kernel.

#[cfg(test)]
pub(crate) mod interpreter;
pub mod program;
pub mod rules;
#[cfg(test)]
pub(crate) mod slurm;
#[cfg(test)]
mod tests;
pub mod unblind;
