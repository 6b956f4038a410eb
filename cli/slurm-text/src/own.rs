//! What `gpushare qos` compares with gpushare.conf: associations with what they say themselves, without what comes down
//! from the accounts above, and QOSes with every setting.

use crate::Question;

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

/// Asks for each [`association`]; of one cluster with `where cluster=`.
pub const ASSOCIATIONS: Question = (
    "sacctmgr",
    &["-nP", "show", "assoc", "WOPInfo", "WithRawQOSLevel", "format=account,user,partition,qos,defaultqos"],
);
/// Asks for each [`parent`], because the other question omits them.
pub const PARENTS: Question = ("sacctmgr", &["-nP", "show", "assoc", "format=account,parentname"]);

/// Reads a line; `None` if it is too short. A coordinator may have named an account `a|b`.
pub fn association(line: &str) -> Option<Association<'_>> {
    let columns: Vec<&str> = line.rsplitn(5, '|').collect();
    let [default_qos, qoses, partition, user, account] = columns.try_into().ok()?;
    Some(Association { account, user, partition, qoses, default_qos })
}

/// An account and the one above it, if there is one. Both may have bars in their names; `is_known` knows all accounts.
pub fn parent(line: &str, is_known: impl Fn(&str) -> bool) -> Option<(&str, &str)> {
    let cuts =
        line.match_indices('|').filter_map(|(at, bar)| Some((line.get(..at)?, line.get(at + bar.len()..)?)));
    { cuts }.find(|(account, parent)| is_known(account) && is_known(parent))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accounts_name_may_have_bars() {
        let of = |line: &'static str| {
            association(line).map(|one| [one.account, one.user, one.partition, one.qoses])
        };
        assert_eq!(of("a|b|alice|p|+q|n"), Some(["a|b", "alice", "p", "+q"]));
        assert_eq!(of("a|b||||"), Some(["a|b", "", "", ""]));
        assert_eq!(of("a|||"), None);
        let known = ["root", "a", "a|b", "c|d", "d|a"];
        let above = |line: &'static str| parent(line, |name| known.contains(&name));
        assert_eq!(above("a|b|root"), Some(("a|b", "root")));
        assert_eq!(above("c|d|a|b"), Some(("c|d", "a|b")));
        assert_eq!(above("a|root"), Some(("a", "root")));
        assert_eq!((above("root|"), above("x|y")), (None, None));
    }
}
