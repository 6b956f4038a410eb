//! Limits and what is in use of them, as slurmctld counts: `scontrol -o show assoc_mgr`.

use std::collections::BTreeMap;

use crate::Question;

/// Asks for all QOSes.
pub const QOSES: Question = ("scontrol", &["-o", "show", "assoc_mgr", "flags=qos"]);

/// Asks for associations, also of all accounts; of a user with `users=`, of accounts with `accounts=`.
pub const ASSOCIATIONS: Question = ("scontrol", &["-o", "show", "assoc_mgr", "flags=assoc"]);
/// Asks for both; `qos=` chooses QOSes.
pub const BOTH: Question = ("scontrol", &["-o", "show", "assoc_mgr", "flags=qos,assoc"]);

/// By TRES, or for a number of jobs `jobs`: the limit, if any, and how much is in use. Memory is in MiB.
pub type Counts = BTreeMap<String, (Option<u64>, u64)>;

/// A QOS: `QOS=q(2) GrpJobs=N(2) … Account Limits= acct={…} User Limits= alice(2001)={…}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos<'t> {
    /// Its name.
    pub name: &'t str,
    /// Its number in the database.
    pub number: &'t str,
    own: &'t str,
    accounts: &'t str,
    users: &'t str,
}

/// All QOSes.
pub fn qoses(text: &str) -> impl Iterator<Item = Qos<'_>> {
    text.lines().filter_map(Qos::read)
}

impl<'t> Qos<'t> {
    fn read(line: &'t str) -> Option<Qos<'t>> {
        let rest = line.strip_prefix("QOS=")?;
        let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (name, number) = first.strip_suffix(')')?.rsplit_once('(')?;
        let (own, rest) = rest.split_once(" Account Limits=").unwrap_or((rest, ""));
        let (accounts, users) = rest.split_once(" User Limits=").unwrap_or((rest, ""));
        Some(Qos { name, number, own, accounts, users })
    }

    /// What one of its own fields says, such as `GrpTRES`.
    pub fn counts(&self, field: &str) -> Option<Counts> {
        counts(self.own, field)
    }

    /// The same of a field that counts each account by itself.
    pub fn of_account(&self, account: &str, field: &str) -> Option<Counts> {
        counts(in_braces(self.accounts, |who| who.eq_ignore_ascii_case(account)), field)
    }

    /// The same of a field that counts each user by themself. Up to 22.05 there is only the user's number.
    pub fn of_user(&self, user_id: u32, field: &str) -> Option<Counts> {
        let number = user_id.to_string();
        let is_it = |who: &str| {
            who.rsplit_once('(').map_or(who, |(_, number)| number.trim_end_matches(')')) == number
        };
        counts(in_braces(self.users, is_it), field)
    }
}

/// In ` alice(2001)={A=1 B=2} bob(2002)={…}`: the text in the braces of the name that fits.
fn in_braces(text: &str, fits: impl Fn(&str) -> bool) -> &str {
    let mut parts = text.split('}').filter_map(|part| part.split_once("={"));
    parts.find(|(who, _)| fits(who.trim())).map_or("", |(_, inside)| inside)
}

/// An association: `ClusterName=c Account=below UserName=alice(2001) Partition=q … ParentAccount=limits(16) …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Association<'t> {
    /// The account.
    pub account: &'t str,
    /// Empty for an account's own.
    pub user: &'t str,
    /// Empty if it is for all partitions.
    pub partition: &'t str,
    /// The account above an account's.
    pub parent: &'t str,
    text: &'t str,
}

/// All associations.
pub fn associations(text: &str) -> impl Iterator<Item = Association<'_>> {
    text.lines().filter(|line| line.starts_with("ClusterName=")).map(|line| {
        let word = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key)).unwrap_or_default();
        Association {
            account: word("Account="),
            user: without_number(word("UserName=")),
            partition: word("Partition="),
            parent: without_number(word("ParentAccount=")),
            text: line,
        }
    })
}

impl Association<'_> {
    /// What one of its fields says.
    pub fn counts(&self, field: &str) -> Option<Counts> {
        counts(self.text, field)
    }
}

/// `alice` of `alice(2001)`.
fn without_number(text: &str) -> &str {
    text.rsplit_once('(').map_or(text, |(name, _)| name)
}

/// Reads `cpu=N(2),gres/gpu:a40=4(4)`, or `4(2)` for jobs or `60` for minutes, of a field. What can't be read is left
/// out.
fn counts(text: &str, field: &str) -> Option<Counts> {
    let value = text.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='))?;
    let without_name = if field.starts_with("MaxWall") { "minutes" } else { "jobs" };
    let one = |part: &str| {
        let (name, count) = part.rsplit_once('=').unwrap_or((without_name, part));
        let (limit, used) = count.split_once('(').unwrap_or((count, "0"));
        let used = used.trim_end_matches(')').parse().ok()?;
        (!count.is_empty()).then(|| (name.to_owned(), (limit.parse().ok(), used)))
    };
    Some(value.split(',').filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qos_has_its_own_counts_and_those_of_each_account_and_user() {
        let text = "Current Association Manager state\n\nQOS Records\nQOS=q(27) UsageRaw=0.0 GrpJobs=N(3) \
                    GrpTRES=cpu=32(8),mem=N(2048),gres/gpu:a40=4(2),gres/gpu=N(x) MaxTRESPJ= MaxWallPJ=60 Priority=0 Account \
                    Limits= acct={MaxTRESPA=cpu=N(3)} User Limits= bob(2002)={MaxTRESPU=cpu=3(1)} \
                    2001={MaxTRESPU=cpu=3(2)}\nQOS=normal(1)\nQOS=bad\n";
        let all: Vec<Qos> = qoses(text).collect();
        let [q, normal] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((q.name, q.number, normal.name, normal.number), ("q", "27", "normal", "1"));
        let own = q.counts("GrpTRES").unwrap();
        let own: Vec<_> = own.iter().map(|(name, (limit, used))| (name.as_str(), *limit, *used)).collect();
        assert_eq!(own, [("cpu", Some(32), 8), ("gres/gpu:a40", Some(4), 2), ("mem", None, 2048)]);
        assert_eq!(q.counts("GrpJobs").unwrap()["jobs"], (None, 3));
        assert_eq!(q.counts("MaxWallPJ").unwrap()["minutes"], (Some(60), 0));
        assert_eq!(q.of_account("ACCT", "MaxTRESPA").unwrap()["cpu"], (None, 3));
        for (number, used) in [(2002, 1), (2001, 2)] {
            assert_eq!(q.of_user(number, "MaxTRESPU").unwrap()["cpu"], (Some(3), used), "{number}");
        }
        assert_eq!((q.counts("MaxTRESPJ"), normal.counts("GrpTRES")), (Some(Counts::new()), None));
    }
}
