//! `srun` lines of a batch script that Slurm will refuse in the job: the job's own option sets a variable that names a
//! type for every step, but the step's option names none.
//!
//! We tried on 22.05 to 26.05 which lines these are: see the table in docs/users.md, which `tests/live/test_tools.py`
//! checks. This doesn't evaluate lines as a shell would, so it skips lines with a `$`.

use gpushare_judge::options::Given;
use gpushare_judge::past;
use gpushare_slurm_text::version::Release;

/// The job's options that set a variable for steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sets {
    Gpus,
    PerNode,
    PerTask,
}

/// When a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    No,
    Always,
    Before(Release),
    Since(Release),
}

/// The step's option, whether it names a type, and when it fails together with `--gpus`, `--gpus-per-node` and
/// `--gpus-per-task`.
const TABLE: [(&str, bool, [Fails; 3]); 7] = [
    ("gres", false, [Fails::Always, Fails::Always, Fails::Always]),
    ("gres", true, [Fails::No, Fails::Since(Release(26, 5)), Fails::No]),
    ("gpus", false, [Fails::No, Fails::Before(Release(24, 11)), Fails::Always]),
    ("gpus-per-node", false, [Fails::Always, Fails::No, Fails::Always]),
    ("gpus-per-task", false, [Fails::Always, Fails::Always, Fails::No]),
    ("ntasks-per-gpu", false, [Fails::No, Fails::No, Fails::Always]),
    ("tres-per-task", false, [Fails::Always, Fails::Always, Fails::Before(Release(23, 11))]),
];

/// One note for each `srun` that will fail.
pub fn notes(script: &[u8], job: &[Given], release: Release) -> Vec<String> {
    let said = typed(job);
    if said.is_empty() {
        return Vec::new();
    }
    let mut notes = Vec::new();
    for (number, line) in lines(script) {
        // From here on the script sets the variables itself.
        if line.contains("unset") && line.contains("SLURM_") {
            break;
        }
        for step in steps(&line) {
            let options = past::options(step.as_bytes(), release).unwrap_or_default();
            let fault = options.iter().find_map(|(name, value)| {
                let value = value.as_deref().and_then(|value| std::str::from_utf8(value).ok());
                said.iter().find_map(|(sets, option)| {
                    fails(name, value.unwrap_or_default(), *sets, release).then_some((*sets, option, *name))
                })
            });
            if let Some((sets, option, name)) = fault {
                notes.push(format!(
                    "line {number}: `{step}` will fail: {option} names a GPU type for every step, and this step's \
                     --{name} {}",
                    remedy(name, sets, release)
                ));
            }
        }
    }
    notes
}

/// The job's options that name a type, as they were given; if one was given twice, the last.
fn typed(job: &[Given]) -> Vec<(Sets, String)> {
    let options = [
        ("gpus", Sets::Gpus),
        ("gpus-per-node", Sets::PerNode),
        ("gpus-per-task", Sets::PerTask),
        ("tres-per-task", Sets::PerTask),
    ];
    let last = |name: &str| job.iter().rev().find(|given| given.name == name);
    let found = options.into_iter().filter_map(|(name, sets)| {
        let value = String::from_utf8_lossy(last(name)?.value.as_deref()?).into_owned();
        let has_type = if name == "tres-per-task" { value.contains("gpu:") } else { value.contains(':') };
        has_type.then(|| (sets, format!("--{name}={value}")))
    });
    found.collect()
}

fn fails(name: &str, value: &str, sets: Sets, release: Release) -> bool {
    let Some(typed) = is_typed(name, value) else { return false };
    let row = TABLE.iter().find(|(option, with_type, _)| (*option, *with_type) == (name, typed));
    match row.and_then(|(.., fails)| fails.get(sets as usize)) {
        None | Some(Fails::No) => false,
        Some(Fails::Always) => true,
        Some(Fails::Before(first)) => release < *first,
        Some(Fails::Since(first)) => release >= *first,
    }
}

/// `None` if it requests no GPU, or if that is unknown.
fn is_typed(name: &str, value: &str) -> Option<bool> {
    if value.contains('$') || value.contains('`') {
        return None;
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name {
        "ntasks-per-gpu" => Some(false),
        "gpus" | "gpus-per-node" | "gpus-per-task" => Some(value.contains(':')),
        "gres" | "tres-per-task" => value.split(',').find_map(|part| {
            let part =
                part.strip_prefix("gres").and_then(|rest| rest.strip_prefix(['/', ':'])).unwrap_or(part);
            let rest = part.strip_prefix("gpu")?;
            let count = rest.strip_prefix([':', '=']);
            (rest.is_empty() || count.is_some()).then(|| count.is_some_and(|count| !is_number(count)))
        }),
        _ => None,
    }
}

fn remedy(name: &str, sets: Sets, release: Release) -> String {
    let variable = match sets {
        Sets::Gpus => "SLURM_GPUS",
        Sets::PerNode => "SLURM_GPUS_PER_NODE",
        Sets::PerTask if release < Release(23, 11) => "SLURM_GPUS_PER_TASK",
        Sets::PerTask => "SLURM_TRES_PER_TASK",
    };
    match (name, sets) {
        ("gres", Sets::PerNode) if release >= Release(26, 5) => {
            "can't be combined with it; write --gpus-per-node there".to_owned()
        }
        ("ntasks-per-gpu" | "tres-per-task", _) => {
            format!("names none; put `unset {variable}` before it")
        }
        _ => format!("names none; name it there too, or put `unset {variable}` before it"),
    }
}

/// Lines with their numbers and without comments; a line that ends with a backslash is joined with the next.
fn lines(script: &[u8]) -> Vec<(usize, String)> {
    let text = String::from_utf8_lossy(script);
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let (part, more) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, whole)) => whole.push_str(part),
            None => lines.push((number, part.to_owned())),
        }
        goes_on = more;
    }
    lines.retain(|(_, line)| !line.trim_start().starts_with('#'));
    lines
}

/// The srun commands in a line, up to where the shell ends them.
fn steps(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let begins = |before: Option<&&str>| match before {
        None => true,
        Some(word) => {
            ["&&", "||", "|", "&", "then", "do", "else", "exec", "time", "if", "!", "(", "{"].contains(word)
                || word.ends_with(';')
                || (word.contains('=') && !word.starts_with('-') && !word.contains("SLURM_"))
        }
    };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let is_srun = *word == "srun" || word.ends_with("/srun");
        if is_srun && begins(at.checked_sub(1).and_then(|before| words.get(before))) {
            let ends = |word: &&&str| !word.starts_with(['|', '&', ';', '>', '<']);
            let mut step: Vec<&str> = words.iter().skip(at).take_while(ends).copied().collect();
            // As in `srun a; srun b`.
            if let Some(end) = step.iter().position(|word| word.ends_with([';', ')', '&'])) {
                step.truncate(end + 1);
            }
            found.push(step.join(" ").trim_end_matches([';', ')', '&']).to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpushare_judge::options::Source;

    fn given(line: &str, release: Release) -> Vec<Given> {
        let words: Vec<_> = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
        gpushare_judge::options::split(&words, release, Source::Line).unwrap().0
    }

    fn said(job: &str, step: &str, release: Release) -> Vec<String> {
        notes(format!("#!/bin/bash\n{step}\n").as_bytes(), &given(job, release), release)
    }

    /// The rows and columns of the table in docs/users.md.
    #[test]
    fn the_table_of_the_page_is_the_table_here() {
        let page = include_str!("../../../docs/users.md");
        let mut cells = 0;
        for line in page.lines().filter(|line| line.starts_with("| `--") && line.contains(" | ")) {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, step, gres, gpus, per_node, per_task, _] = columns.as_slice() else { continue };
            if !["yes", "no", "from"].iter().any(|word| gres.contains(word)) {
                continue;
            }
            let step = step.split('`').nth(1).unwrap();
            let jobs = ["--gpus=a40:2", "--gpus-per-node=a40:2", "--gpus-per-task=a40:1"];
            for (cell, job) in [gpus, per_node, per_task].into_iter().zip(jobs) {
                let releases = [(22, 5), (23, 2), (23, 11), (24, 5), (24, 11), (25, 5), (25, 11), (26, 5)];
                for release in releases.map(|(year, month)| Release(year, month)) {
                    // Older releases don't have this option, and report that themselves.
                    if release < Release(23, 11) && step.contains("--tres-per-task") {
                        continue;
                    }
                    let works = match cell.split_once(' ') {
                        Some(("from", since)) => release.to_string().as_str() >= since,
                        Some((_, but)) => release.to_string() != but,
                        None => *cell == "yes",
                    };
                    let found = said(job, &format!("srun {step} true"), release);
                    assert_eq!(found.is_empty(), works, "{job}, {step}, {release}: {cell}; {found:?}");
                    cells += 1;
                }
            }
        }
        assert!(cells > 240, "the table was not found: {cells} cells");
    }

    #[test]
    fn the_line_and_what_mends_it_are_named() {
        let text = "#!/bin/bash\n# srun --gres=gpu:1 x\necho srun --gres=gpu:1\nX=1 srun -n2 \\\n  --gres=gpu:1 ./x; \
                    srun true\nsrun --gres=gpu:$N y\nunset SLURM_GPUS\nsrun --gres=gpu:1 z\n";
        let found = notes(text.as_bytes(), &given("--gpus=a40:2", Release(24, 11)), Release(24, 11));
        assert_eq!(
            found,
            [
                "line 4: `srun -n2 --gres=gpu:1 ./x` will fail: --gpus=a40:2 names a GPU type for every step, and this \
                 step's --gres names none; name it there too, or put `unset SLURM_GPUS` before it"
            ]
        );
        assert!(said("--gres=gpu:a40:2", "srun --gres=gpu:1 x", Release(24, 11)).is_empty());
        assert!(said("--gpus=2", "srun --gres=gpu:1 x", Release(24, 11)).is_empty(), "no type anywhere");
        assert!(
            said("--gpus=a40:2 --gpus=2", "srun --gres=gpu:1 x", Release(24, 11)).is_empty(),
            "the last counts"
        );
    }

    #[test]
    fn commands_of_the_shell_are_taken_apart() {
        for (line, expected) in [
            ("srun a", vec!["srun a"]),
            ("if srun a; then srun b; fi", vec!["srun a", "srun b"]),
            ("a && /usr/bin/srun b >out || srun c &", vec!["/usr/bin/srun b", "srun c"]),
            ("SLURM_GPUS= srun a", vec![]),
            ("echo srun a", vec![]),
            ("mysrun a", vec![]),
        ] {
            assert_eq!(steps(line), expected, "{line}");
        }
    }
}
