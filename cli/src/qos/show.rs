//! Each managed QOS with its members and what is in use of it now.

use std::fmt::Write;
use std::path::Path;

use gpushare::config::{ManagedQos, Members};
use gpushare_qos::tree::Tree;
use gpushare_qos::usage::{self, Usage};
use gpushare_qos::{Cluster, table};

use super::site;

/// The managed QOSes of the file, or those named.
pub fn show(conf: Option<&Path>, names: &[String]) -> Result<String, String> {
    let (path, qoses) = site::qoses(conf)?;
    for name in names {
        if !qoses.iter().any(|managed| managed.name.eq_ignore_ascii_case(name)) {
            return Err(format!("{} has no managed QOS '{}'", path.display(), name.escape_debug()));
        }
    }
    let cluster = site::cluster_without_nodes()?;
    let tree = site::tree(&cluster.name)?;
    let usages = usage::read(&site::ask("scontrol", &["-o", "show", "assoc_mgr", "flags=qos"])?);
    let wanted = |managed: &&ManagedQos| {
        names.is_empty() || names.iter().any(|name| name.eq_ignore_ascii_case(&managed.name))
    };
    Ok(qoses
        .iter()
        .filter(wanted)
        .map(|managed| one(managed, &cluster, &tree, usages.get(&managed.name)))
        .collect())
}

fn one(managed: &ManagedQos, cluster: &Cluster, tree: &Tree, usage: Option<&Usage>) -> String {
    let mut text = format!("{}\n", managed.name);
    let mut put = |title: &str, said: &str| {
        if !said.is_empty() {
            let _ = writeln!(text, "    {title:<8} {said}");
        }
    };
    put("owner", &table::members(&managed.members));
    put("members", &members(managed, tree));
    put("quota", &table::group_limit(managed));
    put("none of", &table::kept_away(managed, cluster));
    put("set", &table::settings(managed));
    match usage {
        Some(usage) => {
            let jobs = format!("{} job{}", usage.jobs, if usage.jobs == 1 { "" } else { "s" });
            let used = table::in_use(managed, usage);
            put("in use", &if used.is_empty() { jobs } else { format!("{used}; {jobs}") });
        }
        None => put("in use", "not in Slurm's database yet: gpushare qos apply"),
    }
    text
}

/// The users of the owner's accounts who may use it now.
fn members(managed: &ManagedQos, tree: &Tree) -> String {
    if matches!(managed.members, Members::All | Members::Unsaid) {
        return String::new();
    }
    let accounts = managed.members.accounts();
    let may = |account: &str| {
        let from_account = tree.account_has(account, &managed.name, &[]);
        let rows =
            tree.users_of(account).filter(move |row| row.own.says(&managed.name).unwrap_or(from_account));
        rows.map(|row| row.user.as_str()).collect::<Vec<_>>()
    };
    let mut users: Vec<&str> = accounts.flat_map(may).collect();
    users.sort_unstable();
    users.dedup();
    if users.is_empty() { "nobody yet".to_owned() } else { users.join(", ") }
}
