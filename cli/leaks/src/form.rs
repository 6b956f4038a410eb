//! How a job requested its GPUs: from its command line if that has the options, otherwise from what Slurm recorded of
//! the request.

use gpushare_judge::past::{Asked, options};
use gpushare_slurm_text::version::Release;

use gpushare_slurm_text::sacct::{Row, gpus};

/// A request, without what differs between users.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Form {
    pub options: Vec<Asked>,
    /// The options were on the command line. Otherwise they show what Slurm counted: the real ones were in the script,
    /// the environment or a program's request, and accounting doesn't have those.
    pub on_line: bool,
}

/// Options that request GPUs.
const ASKING: &str =
    "gres gpus gpus-per-node gpus-per-socket gpus-per-task tres-per-task ntasks-per-gpu exclusive";
/// Options that set the number of tasks.
const TASKS: [&str; 3] = ["ntasks", "ntasks-per-node", "tasks-per-node"];
/// No readable option is longer.
const LONGEST: usize = 120;

impl Form {
    /// The form of a job's request.
    pub fn of(job: &Row, release: Release) -> Form {
        match Form::on_line(job.line, release) {
            // The script may ask for GPUs too.
            Some(Form { mut options, .. })
                if options.iter().all(|(name, _)| *name == "exclusive") && !counted(job).is_empty() =>
            {
                options.extend(counted(job));
                Form { options, on_line: false }
            }
            Some(form) => form,
            None => Form { options: counted(job), on_line: false },
        }
    }

    /// Whether a command line has an option that requests GPUs.
    pub fn is_on(line: &[u8], release: Release) -> bool {
        let form = Form::on_line(line, release);
        form.is_some_and(|form| form.options.iter().any(|(name, _)| *name != "exclusive"))
    }

    fn on_line(line: &[u8], release: Release) -> Option<Form> {
        let mut all = options(line, release)?;
        let asks = |(name, value): &Asked| {
            let named = |text: &Vec<u8>| text.windows(3).any(|part| part.eq_ignore_ascii_case(b"gpu"));
            let of_gpus = !matches!(*name, "gres" | "tres-per-task") || value.as_ref().is_some_and(named);
            ASKING.split(' ').any(|option| option == *name) && of_gpus
        };
        let short = |one: &Asked| one.1.as_ref().is_none_or(|value| value.len() <= LONGEST);
        if !all.iter().any(asks) || !all.iter().filter(|one| asks(one)).all(short) {
            return None;
        }
        let by_tasks =
            all.iter().any(|(name, _)| matches!(*name, "gpus-per-task" | "tres-per-task" | "ntasks-per-gpu"));
        all.retain(|one| {
            let several = one.0 == "nodes" && one.1.as_deref() != Some(b"1");
            asks(one) || (several && short(one)) || (by_tasks && TASKS.contains(&one.0) && short(one))
        });
        Some(Form { options: all, on_line: true })
    }

    /// The options as a user would write them; empty if the job requested no GPUs.
    pub fn text(&self) -> String {
        let one = |(name, value): &Asked| match value {
            Some(value) => format!("--{name}={}", value.escape_ascii()),
            None => format!("--{name}"),
        };
        self.options.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

/// `--gpus=…` with what Slurm counted; if it counted GPUs without a type, only those.
fn counted(job: &Row) -> Vec<Asked> {
    let (mut all, mut typed, mut named) = (0_u32, 0_u32, Vec::new());
    for (gres_type, count) in gpus(job.asked) {
        match gres_type {
            None => all += count,
            Some(gres_type) => {
                typed += count;
                named.push([gres_type, format!(":{count}").as_bytes()].concat());
            }
        }
    }
    let value = match all.saturating_sub(typed) {
        0 => named.join(&b','),
        rest => rest.to_string().into_bytes(),
    };
    Some(value).filter(|value| !value.is_empty()).map(|value| ("gpus", Some(value))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpushare_slurm_text::sacct::{self, Wanted};

    fn form(asked: &str, line: &str) -> (String, bool) {
        let record = format!("1@u@a@q@p@{asked}@gres/gpu=1@n@1@2@X@{line}");
        let mut found = None;
        sacct::read(&mut record.as_bytes(), b"@", Wanted::Requests, |job| {
            found = Some(Form::of(job, Release(24, 11)));
        })
        .unwrap();
        let found = found.unwrap();
        (found.text(), found.on_line)
    }

    #[test]
    fn options_of_the_command_line_are_kept_where_they_ask_for_gpus() {
        for (line, expected) in [
            ("sbatch -o x --gres=gpu:2 -t 1:00 --mem=4G job.sh --gres=gpu:9", "--gres=gpu:2"),
            ("/usr/bin/sbatch -G 2 -N2 -n 8 job.sh", "--gpus=2 --nodes=2"),
            ("srun --pty --mpi=pmix --gpus-per-node=1 -N 1 bash", "--gpus-per-node=1"),
            ("salloc --gpus-per-task=1 -n4 -N1", "--gpus-per-task=1 --ntasks=4"),
            ("sbatch --gres=gpu:2 --wrap a\nb --gres=gpu:3", "--gres=gpu:2"),
        ] {
            assert_eq!(form("gres/gpu=7", line), (expected.to_owned(), true), "{line}");
        }
    }

    #[test]
    fn a_job_on_whole_nodes_may_have_asked_for_gpus_in_its_script() {
        let line = "sbatch --exclusive job.sh";
        assert_eq!(form("cpu=1", line), ("--exclusive".to_owned(), true));
        assert_eq!(form("cpu=1,gres/gpu=2", line), ("--exclusive --gpus=2".to_owned(), false));
    }

    #[test]
    fn else_it_is_what_slurm_counted() {
        for line in [
            "",
            "sbatch job.sh",
            "sbatch -J a b --gres=gpu:2 job.sh",
            "sbatch --gres=lscratch:1 job.sh",
            "sbatch --no-such --gres=gpu:2",
            "srun -n1 --gres=gpu:1 : -n2 hostname",
            "python3 submit.py --gres=gpu:2",
            "sbatch --gres",
        ] {
            assert_eq!(form("cpu=1,gres/gpu=7", line), ("--gpus=7".to_owned(), false), "{line}");
        }
        assert_eq!(form("gres/gpu:h100=1,gres/gpu:a40=2,gres/gpu=3", "sbatch x").0, "--gpus=h100:1,a40:2");
        assert_eq!(form("cpu=1", "sbatch x").0, "");
    }
}
