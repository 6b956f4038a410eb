//! Formats of Slurm's that more than one room reads: lists of hosts, GRES of a node, times; and patterns of names, our own.

pub mod gres;
pub mod hostlist;
pub mod pattern;
pub mod time;
