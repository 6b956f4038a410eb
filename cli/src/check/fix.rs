//! How to mend what is wrong: what to do, where, and what makes it take effect. Only this makes its text.

use std::fmt::{Display, Formatter, Result};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

use crate::slurm::SENT;

/// What an administrator does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct Fix {
    /// What must come before it, such as a package, with the words that lead to the rest.
    before: String,
    place: Place,
    what: String,
    then: Option<Then>,
}

/// Where it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    /// The text says that.
    #[default]
    Said,
    /// In this machine's file.
    Here(PathBuf),
    /// In the controller's file of this name, which slurmctld sends to the machines.
    Controller(String),
    /// In the database, by `gpushare qos apply`, which makes it match gpushare.conf.
    Database,
}

/// What makes a change take effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// A restart that ends no job.
    Restart(String),
    /// The restarts if the node gets a GRES, or more of one. The other way round slurmctld drains the node, because its
    /// slurmd reports fewer than slurmctld has read.
    Grows,
    /// The restarts if it loses some. From 26.05 on slurmctld ends jobs that have a GRES whose count is lower when it
    /// starts.
    Shrinks,
}

impl Fix {
    /// A change of a file beside slurm.conf.
    pub fn file(path: &Path, what: impl Into<String>) -> Fix {
        let name = path.strip_prefix(SENT).ok();
        let place =
            name.map_or(Place::Here(path.to_owned()), |name| Place::Controller(name.display().to_string()));
        Fix { place, what: what.into(), ..Fix::default() }
    }

    /// `gpushare qos apply`.
    pub fn qos_apply() -> Fix {
        Fix { place: Place::Database, what: "gpushare qos apply".to_owned(), ..Fix::default() }
    }

    /// Whether it makes what gpushare.conf names, so also a name that is misspelled there.
    pub fn makes_names(&self) -> bool {
        self.place == Place::Database
    }

    /// With what makes it take effect.
    pub fn then(self, then: Then) -> Fix {
        Fix { then: Some(then), ..self }
    }

    /// After something else, with the words that lead to it.
    pub fn after(self, before: impl Into<String>) -> Fix {
        Fix { before: before.into() + &self.before, ..self }
    }
}

impl<T: Into<String>> From<T> for Fix {
    fn from(what: T) -> Fix {
        Fix { what: what.into(), ..Fix::default() }
    }
}

impl Serialize for Fix {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Display for Then {
    fn fmt(&self, out: &mut Formatter) -> Result {
        out.write_str(match self {
            Then::Restart(what) => what,
            Then::Grows => "restart slurmd on this node, then slurmctld",
            Then::Shrinks => {
                "when the node is drained and has no job, restart slurmctld, then slurmd on this node"
            }
        })
    }
}

impl Display for Fix {
    fn fmt(&self, out: &mut Formatter) -> Result {
        let Fix { before, place, what, then } = self;
        out.write_str(before)?;
        match place {
            Place::Said | Place::Database => write!(out, "{what}")?,
            Place::Here(path) => write!(out, "{}: {what}", path.display())?,
            Place::Controller(name) => write!(out, "the controller's {name}: {what}")?,
        }
        // A new slurmd fetches the file itself, and to reconfigure is what must wait for a drained node.
        let sends = matches!(place, Place::Controller(_)) && *then != Some(Then::Shrinks);
        let sent = if sends { "; then scontrol reconfigure" } else { "" };
        match then {
            Some(then) if sends => write!(out, "{sent}, then {then}"),
            Some(then) => write!(out, "; then {then}"),
            None => out.write_str(sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_slurmctld_sent_is_mended_on_the_controller() {
        let restart = || Some(Then::Restart("restart slurmd".to_owned()));
        for (path, then, text) in [
            ("/etc/slurm/a.conf", None, "/etc/slurm/a.conf: K=yes"),
            ("/etc/slurm/a.conf", restart(), "/etc/slurm/a.conf: K=yes; then restart slurmd"),
            ("/run/slurm/conf/a.conf", None, "the controller's a.conf: K=yes; then scontrol reconfigure"),
            (
                "/run/slurm/conf/a.conf",
                restart(),
                "the controller's a.conf: K=yes; then scontrol reconfigure, then restart slurmd",
            ),
            (
                "/run/slurm/conf/a.conf",
                Some(Then::Shrinks),
                "the controller's a.conf: K=yes; then when the node is drained and has no job, restart slurmctld, then \
                 slurmd on this node",
            ),
        ] {
            let fix = Fix { then, ..Fix::file(Path::new(path), "K=yes") };
            assert_eq!(fix.to_string(), text);
            assert_eq!(fix.after("first x; then ").to_string(), format!("first x; then {text}"));
        }
    }
}
