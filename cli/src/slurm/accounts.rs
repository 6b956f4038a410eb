//! Which associations have limits on GRES types, according to sacctmgr.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_slurm_text::limits::{self, Association, Associations};

use gpushare::submit::policy::GovernedAccounts;
use gpushare_machine::config::Config;

use super::{ProgramError, ask, gres_of_type};

/// The facts about associations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// The associations with a limit on a type of a governed GRES: `acct`, or `alice in acct` for a user's own limit.
    pub limited: Vec<String>,
    /// The limited TRES, such as `gres/gpu:a40`.
    pub tres: BTreeSet<String>,
    /// Those with limits that add up several jobs.
    pub of_several: BTreeSet<String>,
    /// The same associations of other GRES, by the GRES.
    pub ungoverned: BTreeMap<String, Vec<String>>,
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
        let (of, (program, arguments)) = (format!("cluster={cluster}"), limits::ASSOCIATIONS);
        let text = ask(program, &[arguments, &["where", &of]].concat())?;
        Ok(Accounts::of(&Associations::read(&text), config))
    }

    fn of(all: &Associations, config: &Config) -> Accounts {
        let is_governed = |gres: &str| config.policy.gres.has(gres.as_bytes());
        let limits = |one: &Association| -> BTreeSet<(String, u64)> {
            let typed = one.limits.iter().filter(|(_, tres, _)| gres_of_type(tres).is_some());
            typed.map(|(_, tres, count)| (tres.to_owned(), count)).collect()
        };
        let mut found = Accounts::default();
        for one in &all.all {
            let (account, own) = (one.account.clone(), limits(one));
            let of_several =
                one.limits.of_several().filter(|tres| gres_of_type(tres).is_some_and(is_governed));
            found.of_several.extend(of_several.map(str::to_owned));
            let name = match one.user.as_str() {
                "" => account.clone(),
                user => format!("{user} in {account}"),
            };
            // sacctmgr prints an account's limits on single jobs also for its users.
            let of_account =
                all.above(&account).next().map(|(_, account)| limits(account)).unwrap_or_default();
            let is_own = |limit: &(String, u64)| one.user.is_empty() || !of_account.contains(limit);
            for limit in &own {
                let (tres, gres) = (&limit.0, gres_of_type(&limit.0).unwrap_or_default());
                let names = if is_governed(gres) {
                    found.tres.insert(tres.clone());
                    &mut found.limited
                } else {
                    found.ungoverned.entry(gres.to_owned()).or_default()
                };
                if is_own(limit) && !names.contains(&name) {
                    names.push(name.clone());
                }
            }
            found.users.extend(Some(one.user.clone()).filter(|user| !user.is_empty()));
            found.names.insert(account);
        }
        found
    }

    /// The limited TRES, if gpushare.conf governs accounts.
    pub fn tres_of(&self, config: &Config) -> impl Iterator<Item = &str> {
        let governed = config.policy.accounts != GovernedAccounts::Off;
        self.tres.iter().filter(move |_| governed).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_on_types_are_found_and_said_of_whom_they_were_set_for() {
        let text = "root|||||||||||\nacct||||||cpu=4,gres/gpu:a40=1|||||\ndept|||||||gres/gpu:a40=1||||\n\
                    child||||||||||gres/gpu:h100=60|\ndept|alice||||||gres/gpu:a40=1||||\n\
                    dept|bob||||||gres/gpu:a40=2||||\nfree|bob|||||gres/gpu=4||gres/shard:a40=1|||\n\
                    free|eve|||||gres/nic:x=4|||||\n";
        let found = Accounts::of(&Associations::read(text), &Config::default());
        assert_eq!(found.limited, ["acct", "dept", "child", "bob in dept", "bob in free"]);
        assert_eq!(
            found.tres.iter().collect::<Vec<_>>(),
            ["gres/gpu:a40", "gres/gpu:h100", "gres/shard:a40"]
        );
        assert_eq!(found.of_several.iter().collect::<Vec<_>>(), ["gres/gpu:a40", "gres/gpu:h100"]);
        assert_eq!(found.ungoverned, [("nic".to_owned(), vec!["eve in free".to_owned()])].into());
        let off = Config::parse("GovernedAccounts=off").unwrap();
        assert_eq!((found.tres_of(&off).count(), found.tres_of(&Config::default()).count()), (0, 3));
    }
}
