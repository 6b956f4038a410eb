//! Each share with its members and what is in use of it now.

use std::fmt::Write;
use std::path::Path;

use gpushare::shares::tree::Tree;
use gpushare::shares::usage::{self, Usage};
use gpushare::shares::{Cluster, Members, Share, words};

use super::site;

/// The shares of the file, or those named.
pub fn show(conf: Option<&Path>, names: &[String]) -> Result<String, String> {
    let (path, shares) = site::shares(conf)?;
    for name in names {
        if !shares.iter().any(|share| share.qos.eq_ignore_ascii_case(name)) {
            return Err(format!("{} has no share '{}'", path.display(), name.escape_debug()));
        }
    }
    let cluster = site::cluster_without_nodes()?;
    let tree = site::tree(&cluster.name)?;
    let usages = usage::read(&site::ask("scontrol", &["-o", "show", "assoc_mgr", "flags=qos"])?);
    let wanted =
        |share: &&Share| names.is_empty() || names.iter().any(|name| name.eq_ignore_ascii_case(&share.qos));
    Ok(shares
        .iter()
        .filter(wanted)
        .map(|share| one(share, &cluster, &tree, usages.get(&share.qos)))
        .collect())
}

fn one(share: &Share, cluster: &Cluster, tree: &Tree, usage: Option<&Usage>) -> String {
    let mut text = format!("{}\n", share.qos);
    let mut put = |title: &str, said: &str| {
        if !said.is_empty() {
            let _ = writeln!(text, "    {title:<8} {said}");
        }
    };
    put("owner", &words::members(&share.members));
    put("members", &members(share, tree));
    put("share", &words::group_limit(share));
    put("none of", &words::kept_away(share, cluster));
    put("set", &words::settings(share));
    match usage {
        Some(usage) => {
            let jobs = format!("{} job{}", usage.jobs, if usage.jobs == 1 { "" } else { "s" });
            let used = words::in_use(share, usage);
            put("in use", &if used.is_empty() { jobs } else { format!("{used}; {jobs}") });
        }
        None => put("in use", "not in Slurm's database yet: gpushare qos apply"),
    }
    text
}

/// The users of the owner's accounts who may use it now.
fn members(share: &Share, tree: &Tree) -> String {
    if matches!(share.members, Members::All | Members::Unsaid) {
        return String::new();
    }
    let accounts = share.members.accounts();
    let may = |account: &str| {
        let from_account = tree.account_has(account, &share.qos, &[]);
        let rows = tree.users_of(account).filter(move |row| row.own.says(&share.qos).unwrap_or(from_account));
        rows.map(|row| row.user.as_str()).collect::<Vec<_>>()
    };
    let mut users: Vec<&str> = accounts.flat_map(may).collect();
    users.sort_unstable();
    users.dedup();
    if users.is_empty() { "nobody yet".to_owned() } else { users.join(", ") }
}
