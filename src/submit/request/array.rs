//! `--array`: its tasks, and how many may run at once.

use super::Batch;

/// The array with at most `tasks` at once; `None` if it is short, small or already throttled.
pub(crate) fn throttled(batch: &Batch<&[u8]>, tasks: u32, over_minutes: u32) -> Option<Vec<u8>> {
    let array = batch.array.filter(|array| !array.is_empty())?;
    if batch.time_limit.is_some_and(|minutes| minutes <= over_minutes) {
        return None;
    }
    let mut halves = array.splitn(2, |byte| *byte == b'%');
    let indices = halves.next()?;
    // Slurm refuses text that isn't a number; 0 means "all at once".
    let own =
        halves.next().map(|text| std::str::from_utf8(text).ok().and_then(|text| text.parse::<u32>().ok()));
    let few = match own {
        Some(None) => true,
        Some(Some(own)) => own != 0 && own <= tasks,
        None => false,
    };
    if few || size(indices)? <= u64::from(tasks) {
        return None;
    }
    Some([indices, format!("%{tasks}").as_bytes()].concat())
}

/// How many tasks `0-15:4,20` has; `None` if Slurm wouldn't read it.
fn size(indices: &[u8]) -> Option<u64> {
    let number = |text: &str| text.parse::<u32>().ok().map(u64::from);
    std::str::from_utf8(indices).ok()?.split(',').try_fold(0_u64, |sum, part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let steps = number(last)?.checked_sub(number(first)?)?.checked_div(number(step)?)?;
        sum.checked_add(steps + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arrays_are_throttled() {
        for (array, minutes, expected) in [
            ("0-127", Some(121), Some("0-127%8")),
            ("0-127", None, Some("0-127%8")),
            ("0-127", Some(120), None),
            ("0-127%16", None, Some("0-127%8")),
            ("0-127%0", None, Some("0-127%8")),
            ("0-127%4", None, None),
            ("0-127%8", None, None),
            ("0-127%9", None, Some("0-127%8")),
            ("0-8", None, Some("0-8%8")),
            ("0-3,5-9", None, Some("0-3,5-9%8")),
            ("0-127%x", None, None),
            ("0-7", None, None),
            ("1,3,5", None, None),
            ("0-100:10", None, Some("0-100:10%8")),
            ("0-70:10", None, None),
            ("9-1", None, None),
            ("0-127:0", None, None),
            ("junk", None, None),
            ("", None, None),
        ] {
            let batch = Batch { array: Some(array.as_bytes()), time_limit: minutes, ..Batch::default() };
            let found = throttled(&batch, 8, 120).map(|text| String::from_utf8(text).unwrap());
            assert_eq!(found.as_deref(), expected, "{array} {minutes:?}");
        }
    }
}
