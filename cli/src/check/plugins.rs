//! Compares the installed plugins with the installed Slurm, and the latter with the running daemons; also checks how
//! plugstack.conf names the plugins.
//!
//! A running daemon has its plugins in memory, so its next start counts: for slurmctld a restart or, since 23.11,
//! `scontrol reconfigure`; for slurmstepd the next job.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::finding::Finding;
use super::fix::Fix;
use super::plugstack::{Line, Plugstack};
use super::version::PluginError;
use super::{CheckError, daemon};
use crate::requirements::{is_plugin, matching};
use crate::slurm::file::ConfFile;
use crate::slurm::{Node, SENT, Settings};
use gpushare_slurm_text::version::Version;

const JOB_SUBMIT: &str = "job_submit_gpushare.so";
const FENCE: &str = "spank_gpushare.so";
const HOOKS: &str = "spank_gpushare_prolog.so";

/// The program that tells Slurm's version where no daemon is installed. srun loads plugstack.conf's plugins even for
/// `-V`, and so says nothing if one of them is wrong.
pub const OF_USERS: &str = "sinfo";
const NO_VERSION: &str = "not compared: no program of Slurm here says its version with -V";

/// Which part of the version Slurm compares.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    /// The whole version, for plugins of slurmctld.
    Micro,
    /// The release, such as 24.11 of 24.11.5, for SPANK plugins.
    Release,
}

/// The program that loads a plugin, and what happens if the plugin doesn't load.
struct Loader<'a> {
    /// The beginning of a sentence, such as "the slurmd installed here is".
    who: &'a str,
    /// The program's version.
    version: Version,
    /// Which part of it the plugin's version must match.
    how: Match,
    /// What happens if it doesn't match.
    otherwise: &'a str,
}

fn fits(about: &'static str, path: &Path, loader: &Loader) -> Finding {
    status(about, &path.display().to_string(), super::version::of_plugin(path), loader)
}

/// Whether a plugin of that version would load.
fn status(about: &'static str, shown: &str, found: Result<Version, PluginError>, loader: &Loader) -> Finding {
    let &Loader { who, version: wanted, how, otherwise } = loader;
    let build = if how == Match::Micro { wanted } else { wanted.release() };
    let fix = format!("install the build for Slurm {build} together with it");
    let found = match found {
        Ok(found) => found,
        Err(PluginError::Read(error)) if error.kind() == io::ErrorKind::NotFound => {
            let package = if how == Match::Micro { "gpushare-slurmctld" } else { "gpushare-slurmd" };
            let fix =
                format!("install the package {package}, or make install, for Slurm {build} on this machine");
            return Finding::wrong(about, format!("{shown}: there is no such file: {otherwise}"), fix);
        }
        Err(why) => return Finding::wrong(about, format!("{shown}: {why}: {otherwise}"), fix),
    };
    let said = format!("{shown} is built for Slurm {found}");
    let same = match how {
        Match::Micro => found.is(wanted),
        Match::Release => Some(found.release == wanted.release),
    };
    match same {
        Some(true) => Finding::ok(about, said),
        Some(false) => Finding::wrong(about, format!("{said}, but {who} {wanted}: {otherwise}"), fix),
        None => {
            let which = format!("say which micro release of {wanted}, since it must be the same");
            Finding::unknown(about, format!("{said}; {which}"))
        }
    }
}

/// Compares a running daemon with the installed one. `first`: which daemon must be upgraded before.
pub fn daemon(
    about: &'static str,
    first: &str,
    running: &str,
    installed: Option<Version>,
) -> Option<Finding> {
    let running = Version::parse(running)?;
    let Some(installed) = installed else {
        let said = format!("{running} runs; '{about} -V' doesn't say which version is installed");
        return Some(Finding::unknown(about, said));
    };
    if running == installed {
        return Some(Finding::ok(about, format!("{running} runs, and the same is installed")));
    }
    let said = format!("{running} runs, but {installed} is installed: its next start upgrades it");
    Some(Finding::wrong(about, said, format!("restart {about}, after {first} and with plugins built for it")))
}

/// Whether slurmctld's plugin is on this machine.
pub fn has_job_submit(settings: &Settings) -> bool {
    in_dirs(settings.get("PluginDir"), JOB_SUBMIT).exists()
}

/// Checks job_submit_gpushare.so on a controller; elsewhere no program loads it. `installed` is slurmctld's version, if
/// it was found.
pub fn job_submit(settings: &Settings, installed: Option<Version>) -> Option<Finding> {
    let path = in_dirs(settings.get("PluginDir"), JOB_SUBMIT);
    let is_named = || settings.list("JobSubmitPlugins").iter().any(|word| is_plugin(word, "gpushare"));
    if !path.exists() && !is_named() {
        return None;
    }
    let Some(version) = installed.or_else(|| Version::parse(settings.get("SLURM_VERSION"))) else {
        return Some(Finding::unknown(JOB_SUBMIT, NO_VERSION));
    };
    let (who, otherwise) = ("slurmctld here is", "it won't start again");
    Some(fits(JOB_SUBMIT, &path, &Loader { who, version, how: Match::Micro, otherwise }))
}

/// Whether the plugin's file changed after slurmctld started here, which then has the one from before in memory.
pub fn in_memory(settings: &Settings, proc: &Path) -> Option<Finding> {
    let running = daemon::slurmctld(settings.get("SlurmctldPidFile"), proc)?;
    let started = daemon::started(running, proc)?;
    let changed = daemon::changes(&[in_dirs(settings.get("PluginDir"), JOB_SUBMIT)]);
    let (path, _) = changed.into_iter().find(|(_, at)| *at > started + daemon::SLACK)?;
    let until = "it uses the plugin from before until a restart (since 23.11 also scontrol reconfigure)";
    Some(Finding::unknown(JOB_SUBMIT, format!("{path} changed after slurmctld started: {until}")))
}

/// Checks how a node's plugstack.conf names the fence.
pub fn fence_line(stack: &Plugstack, settings: &Settings) -> Finding {
    let about = "plugstack.conf";
    let shown = stack.path.display();
    // With a required plugin that isn't there, no job starts.
    let is_there = in_dirs(settings.get("PluginDir"), FENCE).exists();
    let first = match (stack.path.starts_with(SENT), is_there) {
        // Every machine gets that file.
        (true, _) => "with gpushare-slurmd on all nodes and gpushare-client on all other machines, ",
        // Login nodes may read the same file without having the plugin.
        (_, true) => "on compute nodes, ",
        _ => "install the package gpushare-slurmd, then on compute nodes, ",
    };
    let fix = || Fix::file(&stack.path, format!("required {FENCE}")).after(first);
    match &stack.fence {
        Some(Line { required: true, .. }) => Finding::ok(about, format!("{shown} requires {FENCE}")),
        Some(_) => {
            let said = "is optional, so jobs would run without a fence if it failed to load";
            Finding::wrong(about, format!("{shown}: {FENCE} {said}"), fix())
        }
        None => Finding::wrong(about, format!("{shown} doesn't name {FENCE}: jobs have no fence"), fix()),
    }
}

/// Checks the SPANK plugins on a node, which slurmstepd loads for each step. `installed` is slurmd's version;
/// slurmstepd has the same release.
pub fn on_node(
    stack: &Plugstack,
    settings: &Settings,
    node: &Node,
    installed: Option<Version>,
) -> Vec<Finding> {
    let running = || Version::parse(&node.version).or_else(|| Version::parse(settings.get("SLURM_VERSION")));
    let named = named(stack, settings, installed.or_else(running), true);
    [vec![fence_line(stack, settings)], named].concat()
}

/// The same for machines without jobs, where srun and sbatch load them. `installed` is Slurm's version there.
pub fn on_login(stack: &Plugstack, settings: &Settings, installed: Option<Version>) -> Vec<Finding> {
    let Some(Line { required, .. }) = stack.fence else { return Vec::new() };
    let path = stack.path.display();
    let said = if required {
        let lost = "no job can be submitted here (gpushare conf plugstack --login)";
        format!("{path} requires {FENCE}: if it fails to load, {lost}")
    } else {
        format!("{path}: {FENCE} is optional, as it may be where no jobs run")
    };
    [vec![Finding::ok("plugstack.conf", said)], named(stack, settings, installed, false)].concat()
}

/// Checks the SPANK plugins that plugstack.conf names although nothing is shared: Slurm loads them anyway.
pub fn named(
    stack: &Plugstack,
    settings: &Settings,
    installed: Option<Version>,
    runs_jobs: bool,
) -> Vec<Finding> {
    let named = [(FENCE, &stack.fence), (HOOKS, &stack.hooks)];
    let named: Vec<_> = named.into_iter().filter_map(|(about, line)| Some((about, line.as_ref()?))).collect();
    let Some(version) = installed else {
        return (!named.is_empty()).then(|| Finding::unknown(FENCE, NO_VERSION)).into_iter().collect();
    };
    let one = |(about, line): (&'static str, &Line)| {
        let (who, otherwise) = match (line.required, runs_jobs) {
            (true, true) => ("slurmd here is", "no job starts here"),
            (true, false) => ("srun here is", "no job can be submitted here"),
            (false, true) => ("slurmd here is", "jobs run WITHOUT A FENCE"),
            (false, false) => ("srun here is", "srun and sbatch print an error, but work"),
        };
        let path = in_dirs(settings.get("PluginDir"), &line.plugin);
        fits(about, &path, &Loader { who, version, how: Match::Release, otherwise })
    };
    named.into_iter().map(one).collect()
}

/// The paths of gpushare's plugins: the fence's in any case, the others' if the file exists.
pub fn files(settings: &Settings, slurm_conf: &Path) -> Vec<(&'static str, PathBuf)> {
    let dirs = match settings.get("PluginDir") {
        "" => plugin_dir(written(slurm_conf).get("PluginDir"), &prefixes()),
        dirs => dirs.to_owned(),
    };
    let all = [JOB_SUBMIT, FENCE, HOOKS].map(|name| (name, in_dirs(&dirs, name)));
    all.into_iter().filter(|(name, path)| *name == FENCE || path.exists()).collect()
}

/// The same checks for the Slurm that is installed here, from its files alone.
pub fn for_installed(slurm_conf: &Path) -> Vec<Finding> {
    // Without a slurm.conf, it looks for one in the network.
    let of_users = Some(OF_USERS).filter(|_| slurm_conf.exists());
    let installed = ["slurmctld", "slurmd"].into_iter().chain(of_users).find_map(super::version::of_program);
    installed.and_then(|installed| for_another(installed, slurm_conf).ok()).unwrap_or_default()
}

/// Checks whether the installed plugins would load in another Slurm, which needn't exist yet.
///
/// # Errors
/// No plugin is installed.
pub fn for_another(wanted: Version, slurm_conf: &Path) -> Result<Vec<Finding>, CheckError> {
    let conf = written(slurm_conf);
    let dirs = plugin_dir(conf.get("PluginDir"), &prefixes());
    let stack = Plugstack::read(conf.get("PlugStackConfig"), slurm_conf);
    let mut findings = Vec::new();
    let path = in_dirs(&dirs, JOB_SUBMIT);
    if path.exists() {
        let otherwise = "its slurmctld won't start";
        let loader = Loader { who: "not for", version: wanted, how: Match::Micro, otherwise };
        findings.push(fits(JOB_SUBMIT, &path, &loader));
    }
    for (about, line) in [(FENCE, stack.fence), (HOOKS, stack.hooks)] {
        let path = in_dirs(&dirs, line.as_ref().map_or(about, |line| &line.plugin));
        // Even if the fence isn't named yet, it will be.
        if line.is_some() || about == FENCE && path.exists() {
            let otherwise = match line {
                Some(Line { required: false, .. }) => "on a node with it jobs run WITHOUT A FENCE",
                _ => "no job starts on a node with it, and none is submitted",
            };
            let loader = Loader { who: "not for", version: wanted, how: Match::Release, otherwise };
            findings.push(fits(about, &path, &loader));
        }
    }
    if findings.is_empty() {
        return Err(CheckError::NoPlugin { dirs, slurm_conf: slurm_conf.to_owned() });
    }
    Ok(findings)
}

/// Prefixes of installed programs, such as /usr for /usr/bin.
fn prefixes() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> =
        std::env::split_paths(&path).filter_map(|folder| Some(folder.parent()?.to_owned())).collect();
    found.extend(["/usr", "/usr/local"].map(PathBuf::from));
    found
}

/// slurm.conf's PluginDir, if it has one; otherwise the first directory that has Slurm's plugins.
fn plugin_dir(said: &str, prefixes: &[PathBuf]) -> String {
    if !said.is_empty() {
        return said.to_owned();
    }
    let candidates = prefixes.iter().flat_map(|prefix| {
        let in_lib =
            fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten().map(|entry| entry.path());
        // Debian's directory for an architecture: lib/x86_64-linux-gnu.
        let of_debian = in_lib.filter(|path| path.to_string_lossy().contains("-linux-gnu"));
        of_debian.chain(["lib64", "lib"].map(|name| prefix.join(name)))
    });
    let mut folders = candidates.flat_map(|folder| [folder.join("slurm-wlm"), folder.join("slurm")]);
    // Every machine with Slurm has one of these plugins.
    let mut found = || folders.find(|folder| !matching(&folder.join("auth"), "auth_*.so").is_empty());
    found().map_or_else(|| "/usr/lib64/slurm".to_owned(), |found| found.display().to_string())
}

/// The settings in the slurm.conf here.
fn written(slurm_conf: &Path) -> Settings {
    ConfFile::read(slurm_conf).unwrap_or_default().settings()
}

/// The path of a plugin. It may be named by its file in PluginDir, which may be a list, or by its path.
fn in_dirs(dirs: &str, name: &str) -> PathBuf {
    let paths: Vec<PathBuf> = dirs.split(':').map(|dir| Path::new(dir).join(name)).collect();
    paths.iter().find(|path| path.exists()).or(paths.first()).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;
