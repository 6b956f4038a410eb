//! Associations as sacctmgr prints them: a user's own, and those of accounts, with the limits that slurmctld tests.

use gpushare::submit::policy::GresLimit;

use super::{limits, rows};

/// The fields: six words, then limits on numbers before those on minutes; in each group the account's own come first.
pub const FIELDS: &str = "format=account,user,partition,qos,defaultqos,parentname,\
                          GrpTRES,MaxTRES,MaxTRESPerNode,GrpTRESMins,GrpTRESRunMins,MaxTRESMins";

/// An association, a user's or an account's.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Association {
    pub account: Vec<u8>,
    /// Empty for an account's own.
    pub user: Vec<u8>,
    pub partition: Vec<u8>,
    pub qoses: Vec<Vec<u8>>,
    pub default_qos: Vec<u8>,
    /// The account above; empty for a user's.
    parent: Vec<u8>,
    counts: Vec<(Vec<u8>, u64)>,
    per_node: Vec<(Vec<u8>, u64)>,
    minutes: Vec<(Vec<u8>, u64)>,
}

impl Association {
    /// Drops the limits on other TRES.
    pub fn keep_limits(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.counts.retain(|(name, _)| is_kept(name));
        self.per_node.retain(|(name, _)| is_kept(name));
        self.minutes.retain(|(name, _)| is_kept(name));
    }
}

/// The associations of one user or, with an empty name, those of accounts.
pub fn read(text: &[u8], user: &str) -> Vec<Association> {
    let association = |row: Vec<Vec<u8>>| {
        let mut columns = row.into_iter();
        let mut next = || columns.next();
        let (account, name, partition) = (next()?, next()?, next()?);
        let (qoses, default_qos) = (next()?, next()?);
        let parent = next().unwrap_or_default();
        let mut limit = || limits(&columns.next().unwrap_or_default());
        let (grp, max, node, grp_minutes, running, max_minutes) =
            (limit(), limit(), limit(), limit(), limit(), limit());
        // Limits on single jobs are inherited, and Slurm tests an account's own for no job.
        let (counts, per_node, minutes) = if name.is_empty() {
            (grp, Vec::new(), [grp_minutes, running].concat())
        } else {
            ([grp, max].concat(), node, [grp_minutes, running, max_minutes].concat())
        };
        let qoses = qoses.split(|byte| *byte == b',').filter(|qos| !qos.is_empty());
        name.eq_ignore_ascii_case(user.as_bytes()).then(|| Association {
            qoses: qoses.map(<[u8]>::to_vec).collect(),
            account,
            user: name,
            partition,
            default_qos,
            parent,
            counts,
            per_node,
            minutes,
        })
    };
    rows(text).filter_map(association).collect()
}

impl Association {
    /// Its limits on GRES that are TRES of the cluster.
    pub fn limits<'s>(&'s self, tres: &'s [Vec<u8>]) -> Vec<GresLimit<'s>> {
        let limit = |tres: &'s Vec<u8>| {
            let mut parts = tres.strip_prefix(b"gres/")?.splitn(2, |byte| *byte == b':');
            let (gres, gres_type) = (parts.next()?, parts.next());
            let of = |limits: &[(Vec<u8>, u64)]| {
                limits.iter().filter(|(name, _)| name == tres).map(|(_, count)| *count).min()
            };
            let of_job = of(&self.counts);
            let count = of_job.into_iter().chain(of(&self.per_node)).min();
            let limited = count.is_some() || of(&self.minutes).is_some();
            limited.then_some(GresLimit { gres, gres_type, count, of_job })
        };
        tres.iter().filter_map(limit).collect()
    }
}

impl Association {
    /// Whether it limits `billing` at once.
    pub fn limits_billing(&self) -> bool {
        let mut counts = self.counts.iter().chain(&self.per_node);
        counts.any(|(name, _)| name == b"billing")
    }
}

/// An account's own association and those above it, up to root's, with their positions in the list.
pub fn above<'a>(
    accounts: &'a [Association],
    account: &[u8],
) -> impl Iterator<Item = (usize, &'a Association)> {
    let named = |name: &[u8]| {
        let mut all = accounts.iter().enumerate();
        all.find(|(_, one)| !name.is_empty() && one.account.eq_ignore_ascii_case(name))
    };
    std::iter::successors(named(account), move |(_, one)| named(&one.parent)).take(accounts.len())
}
