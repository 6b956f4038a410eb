//! Writes man/gpushare.1 from the definition of the command line, and what is said about gpushare.conf's keys from one
//! table. After a change: `GPUSHARE_WRITE_DOCS=1 cargo test -p gpushare-cli generated_docs`

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::Arguments;

mod keys;

const WHERE_ALL_ENDS: &str = r#".SH EXIT STATUS
The same for all commands, which print errors on standard error after
.BR "gpushare: " .
.TP
0
The command succeeded and has nothing bad to report.
.TP
1
The command ran, but the answer is no, or not all is done:
.nf
audit            accepted requests break a rule
check            something is wrong
explain          gpushare or Slurm would refuse the job
gpu              one of the GPUs is drained or in service already
guard            a limit is exceeded; with \-\-waiting: a job would be refused
idle             a job exceeds its limit, or was ended
leaks            a limit was exceeded
metrics          something can't be read or written
qos plan         with \-\-detailed\-exitcode: there is something to do
qos apply        not all is done, or the answer was no
.fi
.TP
2
It can't tell: the command line is wrong, or gpushare.conf, the ledger or Slurm can't be read.
.SH ENVIRONMENT
.TP
SLURM_CONF
The path of slurm.conf, as for Slurm's commands.
.SH FILES
.TP
gpushare.conf
The rules, beside slurm.conf or in /etc/slurm.
.TP
/run/gpushare
The ledger of a node: who has which GPU; in idle, how long jobs haven't used theirs.
.TP
/var/lib/gpushare/drained
The GPUs of a node that are out of service.
.TP
/usr/share/doc/gpushare
A page for each command, messages.md, and examples/ with configurations that work.
.SH SEE ALSO
.BR gpushare.conf (5),
.BR gpushare\-prolog (8),
.BR job_submit_gpushare (8),
.BR spank_gpushare (8),
.BR sacctmgr (1),
.BR scontrol (1)
"#;

fn command() -> Command {
    // These texts would be the same on every page.
    let mut command = Arguments::command()
        .propagate_version(false)
        .disable_version_flag(true)
        .disable_help_flag(true)
        .disable_help_subcommand(true);
    command.build();
    command
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

/// The commands that do something: all except those that only have subcommands.
fn leaves(command: &Command) -> Vec<&Command> {
    let below: Vec<&Command> = shown(command).flat_map(leaves).collect();
    if below.is_empty() { vec![command] } else { below }
}

/// A part of clap_mangen's page of a command, without its heading and the beginning that all pages share.
fn part(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    render(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let kept = text.lines().filter(|line| ![".ie", ".el", ".SH"].iter().any(|start| line.starts_with(start)));
    kept.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn manual_page() -> String {
    let command = command();
    let about = command.get_about().unwrap().to_string();
    let (title, text) = about.split_once(": ").unwrap();
    let mut page = format!(
        ".\\\" Written by `GPUSHARE_WRITE_DOCS=1 cargo test -p gpushare-cli generated_docs`: change cli/src\n\
         .ds Aq \\(aq\n.TH gpushare 1 2026-11-21 gpushare\n.SH NAME\ngpushare \\- {}\n.SH SYNOPSIS\n",
        title.to_lowercase().replace("gpu", "GPU").replace("slurm", "Slurm")
    );
    let synopsis = |leaf: &Command| part(|to| Man::new(leaf.clone()).render_synopsis_section(to));
    page += &leaves(&command).into_iter().map(synopsis).collect::<Vec<_>>().join(".br\n");
    page += &format!(
        ".SH DESCRIPTION\n{}.\n.PP\n.B gpushare\n.I command\n.B \\-\\-help\nshows help, and\n\
         .B gpushare \\-\\-version\nprints the version.\n.SH COMMANDS\n",
        text[..1].to_uppercase() + &text[1..]
    );
    page + &shown(&command).map(section).collect::<String>() + WHERE_ALL_ENDS
}

/// The text about a command, and about its subcommands.
fn section(command: &Command) -> String {
    let man = Man::new(command.clone());
    let about = part(|to| man.render_description_section(to));
    let mut text = format!(".SS {}\n{}.\n", command.get_bin_name().unwrap(), about.trim_end());
    if command.has_subcommands() {
        return text + &shown(command).map(section).collect::<String>();
    }
    text += &part(|to| man.render_options_section(to));
    if command.get_after_help().is_some() {
        text += &format!(".PP\n{}", part(|to| man.render_extra_section(to)));
    }
    text
}

fn is_in_its_file(name: &str, text: &str) {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(name);
    if std::env::var_os("GPUSHARE_WRITE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text, "{name} is not what the code says");
}

#[test]
fn the_manual_page_is_that_of_the_command() {
    is_in_its_file("man/gpushare.1", &manual_page());
}

/// Finds anything that the generator leaves out.
#[test]
fn every_option_is_in_the_manual_page_below_its_command() {
    let (command, page) = (command(), manual_page());
    for leaf in leaves(&command) {
        let heading = format!("\n.SS {}\n", leaf.get_bin_name().unwrap());
        let section = page.split_once(&heading).unwrap().1.split("\n.S").next().unwrap();
        let terms: Vec<&str> =
            section.split("\n.TP\n").skip(1).map(|term| term.lines().next().unwrap()).collect();
        let options: Vec<_> = leaf.get_arguments().filter(|argument| !argument.is_hide_set()).collect();
        assert_eq!(terms.len(), options.len(), "{heading}{terms:?}");
        for option in options {
            let name = option
                .get_long()
                .map_or_else(|| option.get_value_names().unwrap()[0].to_string(), |long| format!("--{long}"));
            let written = name.replace('-', "\\-");
            assert!(terms.iter().any(|term| term.contains(&written)), "{heading}{name}");
        }
    }
}
