//! Grants and revocations of a QOS.
//!
//! A user has a QOS through an association that names it: the user's, the account's, or one above. So the plan revokes
//! it from associations that name it and don't belong to the members; below a member account it looks only at that
//! account's own users.

use std::collections::{BTreeMap, BTreeSet};

use super::Obstacle;
use crate::change::{BATCH, Change, Sign, named};
use crate::config::{ManagedQos, Members};
use crate::tree::{Association, Own, Tree, in_words};
use crate::{Cluster, ROOT};

/// Grants first, then revocations, so that no user is without the QOS in between.
pub(super) fn grants(
    qoses: &[ManagedQos],
    tree: &Tree,
    at: &Cluster,
    obstacles: &mut Vec<Obstacle>,
) -> (Vec<Change>, Vec<Change>) {
    let (mut given, mut taken) = (Vec::new(), Vec::new());
    let (cluster, one_level) = (at.name.as_str(), at.one_level);
    for managed in qoses {
        let gone: Vec<&Association> =
            tree.naming(&managed.name).filter(|row| has_wrongly(row, managed, tree)).collect();
        let wanted = match &managed.members {
            Members::All => everywhere(tree, &managed.name, one_level),
            Members::Accounts(accounts) => {
                accounts_and_users(tree, &managed.name, accounts, &gone, one_level)
            }
            Members::Users(account, users) => Wanted {
                accounts: Vec::new(),
                users: BTreeMap::from([(account.as_str(), of_users(tree, managed, account, users))]),
                opened: BTreeSet::new(),
            },
            Members::Unsaid => continue,
        };
        given.extend(wanted.calls(&managed.name, cluster, Sign::Add));
        let mut unwanted = Wanted::default();
        for row in gone {
            match tree.default_of(&managed.name, row) {
                Some(default) => obstacles.push(Obstacle::new(&managed.name, Some(row), default, cluster)),
                None => unwanted.add(row),
            }
        }
        taken.extend(unwanted.calls(&managed.name, cluster, Sign::Remove));
    }
    (given, taken)
}

/// Names of accounts, and of users by account.
#[derive(Default)]
struct Wanted<'t> {
    accounts: Vec<&'t str>,
    users: BTreeMap<&'t str, Vec<&'t str>>,
    /// Accounts and users whose own list has nothing else: without it they have the QOSes of the account above.
    opened: BTreeSet<&'t str>,
}

fn has_wrongly(row: &Association, managed: &ManagedQos, tree: &Tree) -> bool {
    row.own.says(&managed.name) == Some(true)
        && match &managed.members {
            Members::Accounts(accounts) => !tree.is_under(&row.account, accounts),
            Members::Users(account, users) => {
                row.account != *account || !users.iter().any(|user| user.eq_ignore_ascii_case(&row.user))
            }
            Members::Unsaid | Members::All => false,
        }
}

/// The top account, and every association that doesn't inherit from the one above. If slurmctld learns about only one
/// level, the accounts below get the QOS too; root then comes last, so that the next plan repeats this if a plan stops
/// before the end.
fn everywhere<'t>(tree: &'t Tree, qos: &str, one_level: bool) -> Wanted<'t> {
    let mut wanted = Wanted::default();
    let to_all = one_level && !tree.account_has(ROOT, qos, &[]);
    for row in tree.rows() {
        let heir = row.user.is_empty() && (row.account == ROOT || to_all);
        if row.own.says(qos) == Some(false) || (heir && row.own.says(qos).is_none()) {
            wanted.add(row);
        }
    }
    if to_all {
        wanted.accounts.sort_by_key(|name| *name == ROOT);
    }
    wanted
}

fn accounts_and_users<'t>(
    tree: &'t Tree,
    qos: &str,
    accounts: &'t [String],
    gone: &[&Association],
    one_level: bool,
) -> Wanted<'t> {
    let mut wanted = Wanted::default();
    for account in accounts {
        if !tree.account_has(account, qos, gone) {
            if one_level {
                tree.below(account).filter(|row| row.own.says(qos).is_none()).for_each(|row| wanted.add(row));
            }
            wanted.accounts.push(account);
        }
        for row in tree.users_of(account).filter(|row| row.own.says(qos) == Some(false)) {
            wanted.add(row);
        }
    }
    wanted
}

/// Members have the QOS themselves, so their account must not.
fn of_users<'t>(tree: &Tree, managed: &ManagedQos, account: &str, users: &'t [String]) -> Vec<&'t str> {
    let has = |user: &str| {
        let mut rows = tree.users_of(account).filter(|row| row.user.eq_ignore_ascii_case(user));
        rows.all(|row| row.own.says(&managed.name) == Some(true))
    };
    users.iter().map(String::as_str).filter(|user| !has(user)).collect()
}

impl<'t> Wanted<'t> {
    fn add(&mut self, row: &'t Association) {
        let names = if row.user.is_empty() {
            &mut self.accounts
        } else {
            self.users.entry(&row.account).or_default()
        };
        let name = if row.user.is_empty() { &row.account } else { &row.user };
        if matches!(&row.own, Own::List(list) if list.len() == 1) {
            self.opened.insert(name);
        }
        // If partitions have their own rows, a user has several rows in an account; one call changes all of them.
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }

    fn calls(self, qos: &str, cluster: &str, sign: Sign) -> Vec<Change> {
        let set = format!("qos{}={qos}", if sign == Sign::Add { '+' } else { '-' });
        let at = format!("cluster={cluster}");
        let then = |name: &str| match self.opened.contains(name) && sign == Sign::Remove {
            true => ", which then has the QOSes of the account above",
            false => "",
        };
        let mut calls = Vec::new();
        let users = self.users.into_iter().map(|(account, users)| (Some(account), users));
        for (account, all) in std::iter::once((None, self.accounts)).chain(users) {
            let of = account.map(|account| format!("account={account}"));
            let kind = if account.is_some() { "user" } else { "account" };
            for names in all.chunks(BATCH) {
                let whom = |name: &str| {
                    account.map_or_else(|| in_words(name, ""), |account| in_words(account, name))
                };
                let line = |name: &&str| (sign, format!("qos {qos} for {}{}", whom(name), then(name)));
                let (name, end) = (named(names), [&*at, "set", &*set]);
                let words = ["modify", kind, "where", &*name].into_iter().chain(of.as_deref()).chain(end);
                calls.push(Change::call(names.iter().map(line).collect(), words));
            }
        }
        calls
    }
}
