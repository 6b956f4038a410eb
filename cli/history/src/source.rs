//! What else the reports ask: the release and the cluster, from Slurm's own commands, or slurm.conf.

use std::path::Path;

use gpushare_slurm_run::file::{ConfFile, NoSettings, last};
use gpushare_slurm_run::{self as slurm, ProgramError, run};
use gpushare_slurm_text::Settings;
use gpushare_slurm_text::version::Release;

use crate::{HistoryError, privacy};

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    /// sacct's release.
    pub release: Release,
    /// Its name.
    pub name: String,
    /// Its partitions and its nodes as scontrol prints them, a line each.
    pub partitions: String,
    /// See `partitions`.
    pub nodes: String,
    /// Problems that still leave enough to report.
    pub remarks: Vec<String>,
}

impl Cluster {
    /// Asks Slurm's commands, also whether slurmdbd has a word of [`privacy`]'s.
    ///
    /// # Errors
    /// The commands are not here, slurmdbd doesn't answer, or it doesn't show this user everything.
    pub fn ask(private: &[&'static str]) -> Result<Cluster, HistoryError> {
        let version = run::ask("sacct", &["--version"]).map_err(HistoryError::NoSacct)?;
        let release = Release::parse(&version)?;
        let mut found = of_slurmctld(release).or_else(|asked| of_the_file(release, &slurm::conf(), asked))?;
        found.remarks.extend(privacy::of_this_user(release, private)?);
        Ok(found)
    }
}

/// Asks slurmctld first, because it also has the nodes that a cloud has made.
fn of_slurmctld(release: Release) -> Result<Cluster, ProgramError> {
    let settings = Settings::parse(&slurm::ask("scontrol", &["show", "config"])?);
    let all = |what| slurm::ask("scontrol", &["-a", "-o", "show", what]);
    let (partitions, nodes) = (all("partition")?, all("node")?);
    Ok(Cluster { release, name: settings.cluster().to_owned(), partitions, nodes, remarks: Vec::new() })
}

/// Accounting works without slurmctld, and slurm.conf has what is needed.
fn of_the_file(release: Release, path: &Path, asked: ProgramError) -> Result<Cluster, NoSettings> {
    let remark = format!("partitions and nodes are those of {}: {asked}", path.display());
    let conf = ConfFile::instead(path, asked)?;
    let name = conf.settings().cluster().to_owned();
    let shown = |name, key| as_scontrol(&conf, name, key);
    let (partitions, nodes) = (shown("PartitionName", "QoS"), shown("NodeName", "Gres"));
    Ok(Cluster { release, name, partitions, nodes, remarks: vec![remark] })
}

/// The lines with this name, and this key of each, as scontrol prints them: with the value of the last line named
/// DEFAULT before, if they have none.
fn as_scontrol(conf: &ConfFile, name: &str, key: &str) -> String {
    let mut default = "(null)";
    let mut text = String::new();
    for fields in conf.fields() {
        let Some(names) = last(&fields, name) else { continue };
        let value = last(&fields, key).unwrap_or(default);
        if names.eq_ignore_ascii_case("DEFAULT") {
            default = value;
        } else {
            text += &format!("{name}={names} {key}={value}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_conf_is_read_with_its_defaults_and_in_any_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slurm.conf");
        let text = "PartitionName=a Nodes=n1\nPartitionName=DEFAULT QOS=pq\npartitionname=b\tqos=x\nPartitionName=c\n\
                    NodeName=DEFAULT Gres=gpu:a40:4\nNodeName=n[1-2] CPUs=1\n";
        std::fs::write(&path, text).unwrap();
        let conf = ConfFile::read_whole(&path).unwrap();
        assert_eq!(
            as_scontrol(&conf, "PartitionName", "QoS"),
            "PartitionName=a QoS=(null)\nPartitionName=b QoS=x\nPartitionName=c QoS=pq\n"
        );
        assert_eq!(as_scontrol(&conf, "NodeName", "Gres"), "NodeName=n[1-2] Gres=gpu:a40:4\n");
    }
}
