//! Which associations have limits on GRES types, according to sacctmgr.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Config;
use gpushare::submit::policy::GovernedAccounts;

use super::{ProgramError, ask};

/// The fields of an association, after its account and user.
const FIELDS: &str =
    "format=account,user,GrpTRES,MaxTRES,MaxTRESPerNode,GrpTRESMins,GrpTRESRunMins,MaxTRESMins";

/// The facts about associations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// The associations with a limit on a type of a governed GRES: `acct`, or `alice in acct` for a user's own limit.
    pub limited: Vec<String>,
    /// The limited TRES, such as `gres/gpu:a40`.
    pub tres: BTreeSet<String>,
    /// All accounts.
    pub names: BTreeSet<String>,
    /// All users.
    pub users: BTreeSet<String>,
}

impl Accounts {
    /// Asks slurmdbd for the associations of one cluster.
    ///
    /// # Errors
    /// slurmdbd doesn't answer.
    pub fn ask(config: &Config, cluster: &str) -> Result<Accounts, ProgramError> {
        let of = format!("cluster={cluster}");
        Ok(read(&ask("sacctmgr", &["-nP", "show", "assoc", "where", &of, FIELDS])?, config))
    }

    /// The limited TRES, if gpushare.conf governs accounts.
    pub fn tres_of(&self, config: &Config) -> impl Iterator<Item = &str> {
        let governed = config.policy.accounts != GovernedAccounts::Off;
        self.tres.iter().filter(move |_| governed).map(String::as_str)
    }
}

fn read(text: &str, config: &Config) -> Accounts {
    let mut found = Accounts::default();
    // sacctmgr prints an account's limits on single jobs also for its users.
    let mut of_accounts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let rows: Vec<(&str, &str, BTreeSet<&str>)> = text.lines().filter_map(|line| row(line, config)).collect();
    for (account, user, limits) in &rows {
        found.names.insert((*account).to_owned());
        if user.is_empty() {
            of_accounts.entry(*account).or_default().extend(limits);
        } else {
            found.users.insert((*user).to_owned());
        }
    }
    let mut said = BTreeSet::new();
    for (account, user, limits) in &rows {
        found.tres.extend(limits.iter().filter_map(|limit| limit.split('=').next()).map(str::to_owned));
        let account_has = |limit: &&&str| of_accounts.get(account).is_some_and(|has| has.contains(**limit));
        let own = limits.iter().filter(|limit| user.is_empty() || !account_has(limit)).count();
        let name = if user.is_empty() { (*account).to_owned() } else { format!("{user} in {account}") };
        if own > 0 && said.insert((account, user)) {
            found.limited.push(name);
        }
    }
    found
}

/// Parses an account, a user or nothing, and limits on types of governed GRES.
fn row<'t>(line: &'t str, config: &Config) -> Option<(&'t str, &'t str, BTreeSet<&'t str>)> {
    let mut columns = line.split('|');
    let (account, user) = (columns.next()?, columns.next()?);
    let is_typed = |limit: &&str| {
        let gres = limit.strip_prefix("gres/").and_then(|rest| rest.split_once(':'));
        gres.is_some_and(|(gres, _)| config.policy.gres.0.iter().any(|name| name == gres))
    };
    Some((account, user, columns.flat_map(|column| column.split(',')).filter(is_typed).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_on_types_are_found_and_said_of_whom_they_were_set_for() {
        let text = "root|||||||\nacct||cpu=4,gres/gpu:a40=1|||||\ndept|||gres/gpu:a40=1||||\n\
                    child||||||gres/gpu:h100=60|\ndept|alice||gres/gpu:a40=1||||\ndept|bob||gres/gpu:a40=2||||\n\
                    free|bob|gres/gpu=4||gres/shard:a40=1|||\nfree|eve|gres/nic:x=4|||||\n";
        let found = read(text, &Config::default());
        assert_eq!(found.limited, ["acct", "dept", "child", "bob in dept", "bob in free"]);
        assert_eq!(
            found.tres.iter().collect::<Vec<_>>(),
            ["gres/gpu:a40", "gres/gpu:h100", "gres/shard:a40"]
        );
        let off = Config::parse("GovernedAccounts=off").unwrap();
        assert_eq!((found.tres_of(&off).count(), found.tres_of(&Config::default()).count()), (0, 3));
    }
}
