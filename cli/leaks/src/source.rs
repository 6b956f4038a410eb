//! Where limits and nodes come from: Slurm's own commands, or slurm.conf.

use std::path::Path;

use super::LeaksError;
use gpushare_history::privacy;
use gpushare_judge::past::Tables;
use gpushare_slurm_run::file::{ConfFile, NoSettings};
use gpushare_slurm_run::{self as slurm, ProgramError, run};
use gpushare_slurm_text::version::Release;

/// Everything except the jobs.
#[derive(Debug, Default)]
pub struct Facts {
    /// The output of `sacct --version`.
    pub version: Vec<u8>,
    pub cluster: String,
    pub tables: Tables,
    /// The nodes: from scontrol, otherwise from slurm.conf.
    pub nodes: String,
    pub remarks: Remarks,
}

/// Problems that still leave enough to report.
pub type Remarks = Vec<String>;

impl Facts {
    /// Asks Slurm's commands.
    ///
    /// # Errors
    /// The commands are not here, slurmdbd doesn't answer, or it doesn't show everything.
    pub fn ask() -> Result<Facts, LeaksError> {
        let version = run::ask("sacct", &["--version"]).map_err(LeaksError::NoSacct)?;
        let release = Release::parse(&version)?;
        let (cluster, [partitions, nodes], mut remarks) =
            of_slurmctld().or_else(|asked| of_the_file(&slurm::conf(), asked))?;
        remarks.extend(privacy::of_this_user(release, &privacy::OF_JOBS)?);
        let tables = Tables { partitions: partitions.into_bytes(), ..Tables::ask(None, &cluster)? };
        Ok(Facts { version, cluster, tables, nodes, remarks })
    }
}

/// The cluster's name, its partitions and its nodes.
type Cluster = (String, [String; 2], Remarks);

/// Asks slurmctld first, because it also has the nodes that a cloud has made.
fn of_slurmctld() -> Result<Cluster, ProgramError> {
    let settings = gpushare_slurm_text::Settings::parse(&slurm::ask("scontrol", &["show", "config"])?);
    let all = |what| slurm::ask("scontrol", &["-a", "-o", "show", what]);
    Ok((settings.get("ClusterName").to_owned(), [all("partition")?, all("node")?], Vec::new()))
}

/// Accounting works without slurmctld, and slurm.conf has what is needed.
fn of_the_file(path: &Path, asked: ProgramError) -> Result<Cluster, NoSettings> {
    let remark = format!("partitions and nodes are those of {}: {asked}", path.display());
    let conf = ConfFile::instead(path, asked)?;
    let name = conf.settings().get("ClusterName").to_owned();
    let shown = |name, key| as_scontrol(&conf, name, key);
    Ok((name, [shown("PartitionName", "QoS"), shown("NodeName", "Gres")], vec![remark]))
}

/// The lines with this name, and this key of each, as scontrol prints them: with the value of the last line named
/// DEFAULT before, if they have none.
fn as_scontrol(conf: &ConfFile, name: &str, key: &str) -> String {
    let mut default = "(null)";
    let mut text = String::new();
    for fields in conf.fields() {
        let of = |wanted: &str| {
            fields.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
        };
        let Some(names) = of(name) else { continue };
        let value = of(key).unwrap_or(default);
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
