//! What `gpushare qos` compares with gpushare.conf: associations with what they say themselves, without what comes down
//! from the accounts above, and QOSes with every setting.

use crate::{Question, columns};

/// Asks for all QOSes' numbers in the database, for [`number`].
pub const NUMBERS: Question = ("sacctmgr", &["-nP", "show", "qos", "format=id,name"]);

/// The number and the name of a QOS.
pub fn number(line: &str) -> Option<(&str, &str)> {
    line.split_once('|')
}

/// An association as it was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association<'t> {
    /// The account.
    pub account: &'t str,
    /// Empty for an account's own.
    pub user: &'t str,
    /// Empty if it is for all partitions.
    pub partition: &'t str,
    /// `normal,qos_x`, or a change to what the account above has: `+qos_x,-normal`.
    pub qoses: &'t str,
    /// Empty if it sets none.
    pub default_qos: &'t str,
}

/// sacctmgr's arguments for [`association`], of one cluster.
pub fn associations(cluster: &str) -> Vec<String> {
    let cluster = format!("cluster={cluster}");
    let words = [
        "-nP",
        "show",
        "assoc",
        "WOPInfo",
        "WithRawQOSLevel",
        "where",
        &cluster,
        "format=account,user,partition,qos,defaultqos",
    ];
    words.map(str::to_owned).to_vec()
}

/// Reads a line; `None` if it is too short.
pub fn association(line: &str) -> Option<Association<'_>> {
    let mut columns = columns(line);
    let [account, user, partition] = [columns.next()?, columns.next()?, columns.next()?];
    Some(Association { account, user, partition, qoses: columns.next()?, default_qos: columns.next()? })
}

/// sacctmgr's arguments for [`parent`], because the first query omits the accounts' parents.
pub fn parents(cluster: &str) -> Vec<String> {
    let cluster = format!("cluster={cluster}");
    ["-nP", "show", "assoc", "where", &cluster, "user=", "format=account,parentname"]
        .map(str::to_owned)
        .to_vec()
}

/// An account and the one above it, if there is one.
pub fn parent(line: &str) -> Option<(&str, &str)> {
    let (account, parent) = line.split_once('|')?;
    (!parent.is_empty()).then(|| (account, parent.trim_end_matches('|')))
}

/// sacctmgr's arguments for all QOSes with these columns. The description may contain any text, so it comes last.
pub fn qoses<'c>(columns: impl Iterator<Item = &'c str>) -> Vec<String> {
    let format = format!("format=name,{},description", columns.collect::<Vec<_>>().join(","));
    ["-nP", "show", "qos", &format].map(str::to_owned).to_vec()
}

/// A QOS's name, so many columns, and its description; `None` if the line is too short.
pub fn qos(line: &str, count: usize) -> Option<(&str, Vec<&str>, &str)> {
    let mut columns: Vec<&str> = line.splitn(count + 2, '|').collect();
    let description = columns.pop().filter(|_| columns.len() == count + 1)?;
    Some((columns.remove(0), columns, description))
}
