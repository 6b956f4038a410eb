//! Who may use which QOS: the associations of one cluster, each with its own QOS settings.
//!
//! An account or user has a list of QOSes, or adds to and removes from the list of the account above. sacctmgr prints
//! either form with `WOPInfo WithRawQOSLevel`: `normal,qos_x` or `+qos_x,-normal`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gpushare_slurm_text::own;

use super::{ROOT, ReadError, lines};

/// An association's own setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    /// The QOSes of the account above, with these added (`true`) or removed.
    Inherits(BTreeMap<String, bool>),
    /// This list.
    List(BTreeSet<String>),
}

/// An account's association, or a user's in an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Association {
    /// The account.
    pub account: String,
    /// Empty for the account's own association.
    pub user: String,
    /// Empty if it is for all partitions.
    pub partition: String,
    /// Its QOSes.
    pub own: Own,
    /// The default QOS of its jobs; empty if it sets none itself.
    pub default: String,
}

/// All associations of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    rows: Vec<Association>,
    /// The account above each account.
    parents: HashMap<String, String>,
    /// Each account's own row.
    accounts: HashMap<String, usize>,
    /// The rows of each account's users.
    users: HashMap<String, Vec<usize>>,
    /// The rows that name each QOS.
    naming: HashMap<String, Vec<usize>>,
    /// The rows that have each QOS as their default.
    defaults: HashMap<String, Vec<usize>>,
}

impl Own {
    fn parse(text: &str) -> Own {
        let words: Vec<&str> = text.split(',').filter(|word| !word.is_empty()).collect();
        let delta = |word: &str| {
            let added = word.starts_with('+');
            word.strip_prefix(['+', '-']).map(|name| (name.to_ascii_lowercase(), added))
        };
        match words.iter().map(|word| delta(word)).collect() {
            Some(deltas) => Own::Inherits(deltas),
            None => Own::List(words.iter().map(|word| word.to_ascii_lowercase()).collect()),
        }
    }

    /// Whether it has the QOS; `None` if the account above decides.
    pub fn says(&self, qos: &str) -> Option<bool> {
        match self {
            Own::Inherits(deltas) => deltas.get(qos).copied(),
            Own::List(names) => Some(names.contains(qos)),
        }
    }

    /// Every QOS that it names.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Own::Inherits(deltas) => deltas.keys().map(String::as_str).collect(),
            Own::List(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

impl Tree {
    /// Parses sacctmgr's output about associations and about accounts' parents.
    ///
    /// # Errors
    /// A line is too short, or there is no root.
    pub fn read(associations: &str, parents: &str) -> Result<Tree, ReadError> {
        let mut tree = Tree::default();
        for line in lines(associations) {
            let own::Association { account, user, partition, qoses, default_qos } =
                own::association(line).ok_or_else(|| ReadError::Short(line.to_owned()))?;
            tree.insert(Association {
                account: account.to_owned(),
                user: user.to_owned(),
                partition: partition.to_owned(),
                own: Own::parse(qoses),
                default: default_qos.to_ascii_lowercase(),
            });
        }
        let is_known = |name: &str| tree.accounts.contains_key(name);
        let above = lines(parents).filter_map(|line| own::parent(line, is_known));
        let above = above.map(|(account, parent)| (account.to_owned(), parent.to_owned()));
        tree.parents = above.collect();
        if !tree.accounts.contains_key(ROOT) {
            return Err(ReadError::NoRoot);
        }
        Ok(tree)
    }

    fn insert(&mut self, row: Association) {
        let at = self.rows.len();
        for name in row.own.names() {
            self.naming.entry(name.to_owned()).or_default().push(at);
        }
        if !row.default.is_empty() {
            self.defaults.entry(row.default.clone()).or_default().push(at);
        }
        if row.user.is_empty() {
            self.accounts.insert(row.account.clone(), at);
        } else {
            self.users.entry(row.account.clone()).or_default().push(at);
        }
        self.rows.push(row);
    }

    /// Adds an account that the plan will add.
    pub fn add_account(&mut self, name: &str) {
        self.parents.insert(name.to_owned(), ROOT.to_owned());
        self.insert(Association::new(name, ""));
    }

    /// Adds a user that the plan will add to an account.
    pub fn add_user(&mut self, account: &str, user: &str) {
        self.insert(Association::new(account, user));
    }

    /// Whether the cluster has the account.
    pub fn has_account(&self, name: &str) -> bool {
        self.accounts.contains_key(name)
    }

    /// Whether the user is in the account.
    pub fn has_user(&self, account: &str, user: &str) -> bool {
        self.users_of(account).any(|row| row.user.eq_ignore_ascii_case(user))
    }

    /// The rows of an account's users.
    pub fn users_of(&self, account: &str) -> impl Iterator<Item = &Association> {
        self.users.get(account).into_iter().flatten().filter_map(|at| self.rows.get(*at))
    }

    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = &Association> {
        self.rows.iter()
    }

    /// The rows that name a QOS, to add or to remove it.
    pub fn naming(&self, qos: &str) -> impl Iterator<Item = &Association> {
        self.naming.get(qos).into_iter().flatten().filter_map(|at| self.rows.get(*at))
    }

    /// The row that has a QOS as its default and would lose it if it were revoked at `row`: Slurm refuses that, but
    /// 22.05 reports success.
    pub fn default_of(&self, qos: &str, row: &Association) -> Option<&Association> {
        let below = [row.account.clone()];
        self.defaults_to(qos).find(|other| match row.user.as_str() {
            "" => self.is_under(&other.account, &below),
            user => other.account == row.account && other.user == user,
        })
    }

    /// The rows that have a QOS as their default.
    pub fn defaults_to(&self, qos: &str) -> impl Iterator<Item = &Association> {
        self.defaults.get(qos).into_iter().flatten().filter_map(|at| self.rows.get(*at))
    }

    /// Whether an account has a QOS, from its own row or from above; `gone` are rows that are about to lose it.
    pub fn account_has(&self, account: &str, qos: &str, gone: &[&Association]) -> bool {
        self.line_up(account)
            .find_map(|row| if gone.contains(&row) { Some(false) } else { row.own.says(qos) })
            .unwrap_or(false)
    }

    /// Whether an account is one of these or below one of them.
    pub fn is_under(&self, account: &str, accounts: &[String]) -> bool {
        self.line_up(account).any(|row| accounts.contains(&row.account))
    }

    /// The accounts below an account, which must not be the root.
    pub fn below<'t>(&'t self, account: &'t str) -> impl Iterator<Item = &'t Association> {
        // Most accounts are directly below the root; this is checked first, because it is called for each of a thousand
        // QOSes.
        let deep =
            |row: &&Association| self.parents.get(&row.account).is_some_and(|parent| parent.as_str() != ROOT);
        let rows = self.rows.iter().filter(|row| row.user.is_empty()).filter(deep);
        rows.filter(move |row| self.line_up(&row.account).skip(1).any(|above| above.account == account))
    }

    /// An account and those above it.
    fn line_up<'t>(&'t self, account: &'t str) -> impl Iterator<Item = &'t Association> {
        let names = std::iter::successors(Some(account), |name| self.parents.get(*name).map(String::as_str));
        // No real tree is as deep, and a circle would never end.
        names.take(1000).filter_map(|name| self.rows.get(*self.accounts.get(name)?))
    }
}

/// `account a`, or `user u in account a`.
pub fn in_words(account: &str, user: &str) -> String {
    match (account, user) {
        (ROOT, "") => "all accounts (root)".to_owned(),
        (account, "") => format!("account {account}"),
        (account, user) => format!("user {user} in account {account}"),
    }
}

impl Association {
    /// Whose it is.
    pub fn in_words(&self) -> String {
        in_words(&self.account, &self.user)
    }

    fn new(account: &str, user: &str) -> Association {
        let own = Own::Inherits(BTreeMap::new());
        Association {
            account: account.to_owned(),
            user: user.to_owned(),
            partition: String::new(),
            own,
            default: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let rows = "root|||normal,qb|\nroot|root|||\nu|||+q1,+q2|\nu|alice||-q1|\nu|bob|p|normal,q3|\nsub||||\n\
                    sub|carol||+q3|q1\nsub|dave||+q1|\n";
        Tree::read(rows, "root|\nu|root\nsub|u\n").unwrap()
    }

    #[test]
    fn an_account_has_what_it_says_or_the_one_above() {
        let tree = tree();
        for (account, qos, expected) in [
            ("root", "normal", true),
            ("u", "normal", true),
            ("sub", "q1", true),
            ("root", "q1", false),
            ("sub", "q3", false),
        ] {
            assert_eq!(tree.account_has(account, qos, &[]), expected, "{account} {qos}");
        }
        let gone: Vec<&Association> = tree.naming("q1").filter(|row| row.user.is_empty()).collect();
        assert!(!tree.account_has("sub", "q1", &gone));
        assert!(tree.is_under("sub", &["u".into()]) && !tree.is_under("root", &["u".into()]));
    }

    #[test]
    fn what_a_row_says_itself() {
        let tree = tree();
        let own: Vec<_> = tree.users_of("u").map(|row| (row.user.as_str(), row.own.says("q1"))).collect();
        assert_eq!(
            own,
            [("alice", Some(false)), ("bob", Some(false))],
            "a list leaves nothing to the account"
        );
        assert_eq!(tree.naming("q3").map(|row| row.user.as_str()).collect::<Vec<_>>(), ["bob", "carol"]);
        assert!(tree.has_user("u", "ALICE") && !tree.has_user("sub", "alice"));
    }

    #[test]
    fn whose_default_stands_in_the_way() {
        let tree = tree();
        for (account, user, expected) in [
            ("u", "", Some("carol")),
            ("sub", "", Some("carol")),
            ("sub", "carol", Some("carol")),
            ("u", "bob", None),
            ("sub", "dave", None),
        ] {
            let row = tree.rows().find(|row| row.account == account && row.user == user).unwrap();
            assert_eq!(tree.default_of("q1", row).map(|row| row.user.as_str()), expected, "{account} {user}");
        }
    }

    #[test]
    fn a_cluster_without_root_is_none() {
        assert_eq!(
            Tree::read("", "").unwrap_err().to_string(),
            "sacctmgr shows no account 'root' of this cluster"
        );
        assert_eq!(
            Tree::read("root|x\n", "").unwrap_err().to_string(),
            "sacctmgr's line 'root|x' is too short"
        );
    }

    #[test]
    fn an_account_above_itself_has_an_end() {
        let tree = Tree::read("root||||\na||||\n", "a|a\n").unwrap();
        assert!(!tree.account_has("a", "q", &[]));
    }
}
