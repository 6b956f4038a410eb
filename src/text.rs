//! Slurm's formats that more than one room reads: lists of hosts, GRES of a node, times. Also our own patterns of
//! names.

pub mod gres;
pub mod hostlist;
pub mod pattern;
pub mod time;

/// The words between commas; those inside brackets separate nothing.
fn split_outside<const OPEN: char, const CLOSE: char>(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c: char| {
        if c == OPEN {
            depth += 1;
        } else if c == CLOSE {
            depth = depth.saturating_sub(1);
        }
        c == ',' && depth == 0
    })
}
