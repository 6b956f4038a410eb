//! One run of a job while its lines are read, and what its steps show. Slurm prints a job with those of its steps that
//! ran in the period it was asked for, so a job of several days comes in parts.

use std::collections::HashMap;

use gpushare_slurm_text::sacct::Row;

/// What a step shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub start: u32,
    pub end: u32,
    /// Bytes; `None` if it wasn't recorded.
    pub memory: Option<u64>,
    /// Percent.
    pub utilization: u64,
}

/// A run of a job with GPUs.
#[derive(Debug, Default)]
pub struct Open {
    pub job: u64,
    pub start: u32,
    pub end: Option<u32>,
    pub who: u32,
    pub given: Vec<u8>,
    pub nodes: Vec<u8>,
    pub state: Vec<u8>,
    steps: HashMap<Vec<u8>, Step>,
}

impl Open {
    /// The run that a job's own line is about.
    pub fn of(row: &Row, start: u32, who: u32) -> Open {
        let (given, nodes) = (row.given.to_vec(), row.nodes.to_vec());
        let mut open = Open { job: row.job, start, who, given, nodes, ..Open::default() };
        open.again(row);
        open
    }

    /// The same run on a further day.
    pub fn again(&mut self, row: &Row) {
        self.end = row.end;
        self.state = row.state.to_vec();
    }

    /// Adds a step, or what a further day shows of it.
    pub fn step(&mut self, name: &[u8], row: &Row) {
        let start = row.start.unwrap_or(self.start);
        let end = row.end.or(self.end).unwrap_or(u32::MAX).max(start.saturating_add(1));
        let utilization = row.utilization().unwrap_or(0);
        self.steps.insert(name.to_vec(), Step { start, end, memory: row.memory(), utilization });
    }

    /// The most memory that its steps had at once, in bytes; `None` if none was recorded.
    pub fn memory(&self) -> Option<u64> {
        most_at_once(self.steps.values())
    }

    /// The highest utilization of a GPU that a step shows, in percent.
    pub fn utilization(&self) -> u64 {
        self.steps.values().map(|step| step.utilization).max().unwrap_or(0)
    }

    /// Whether it ended as its user meant it to, or by its time limit. Another job might have used more later.
    pub fn is_whole(&self) -> bool {
        [&b"COMPLETED"[..], b"CANCELLED", b"TIMEOUT"].iter().any(|state| self.state.starts_with(state))
    }
}

/// Steps that ran at the same time add up.
fn most_at_once<'s>(steps: impl Iterator<Item = &'s Step>) -> Option<u64> {
    let mut changes: Vec<(u32, bool, u64)> = Vec::new();
    for step in steps {
        if let Some(memory) = step.memory {
            changes.extend([(step.start, true, memory), (step.end, false, memory)]);
        }
    }
    // A step that begins in the second in which another ends comes after it.
    changes.sort_unstable();
    let (mut now, mut most) = (0_u64, None);
    for (_, begins, memory) in changes {
        now = if begins { now.saturating_add(memory) } else { now.saturating_sub(memory) };
        most = most.max(Some(now));
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_at_the_same_time_add_up() {
        let most = |steps: &[(u32, u32, Option<u64>)]| {
            let steps: Vec<Step> = steps
                .iter()
                .map(|(start, end, memory)| Step {
                    start: *start,
                    end: *end,
                    memory: *memory,
                    utilization: 0,
                })
                .collect();
            most_at_once(steps.iter())
        };
        for (steps, expected) in [
            (&[][..], None),
            (&[(0, 9, None)], None),
            (&[(0, 9, Some(0))], Some(0)),
            (&[(0, 9, Some(5)), (0, 9, None)], Some(5)),
            (&[(0, 5, Some(5)), (5, 9, Some(7))], Some(7)),
            (&[(0, 6, Some(5)), (5, 9, Some(7))], Some(12)),
            (&[(0, 99, Some(1)), (0, 6, Some(5)), (6, 9, Some(7)), (20, 30, Some(2))], Some(8)),
            (&[(0, 9, Some(u64::MAX)), (0, 9, Some(1))], Some(u64::MAX)),
        ] {
            assert_eq!(most(steps), expected, "{steps:?}");
        }
    }
}
