//! The rule of types under an account: one of the job's associations, the user's own or an account's up to root, has a
//! limit on a GPU type. Slurm tests it like a QOS's limit, and a request that names no type bypasses it.
//!
//! Such a limit says how many GPUs of one type an account may use, not which types. So a request that names the
//! cluster's types passes under every association, and needs no look-up of associations.

use super::governed::predicts;
use super::{
    Accounting, Fault, GPU, GovernedAccounts, Ground, Judgement, Mode, Policy, Rule, Under, shortened,
};
use crate::mend::mended;
use crate::submit::grammar::{Gres, Token};
use crate::submit::request::Parsed;
use crate::text::pattern::Case;

/// An association that is charged for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Association<'a> {
    /// Its number in the database.
    pub id: u32,
    /// Its account.
    pub account: &'a [u8],
    /// Whether it is the user's own, not the account's.
    pub own: bool,
    /// Its limits on GRES that Slurm tests for the job. Usually empty.
    pub limits: Vec<GresLimit<'a>>,
    /// Whether Slurm tests a limit on `billing` at once.
    pub billing: bool,
}

/// A limit of an association on a GRES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GresLimit<'a> {
    /// The GRES, such as `gpu`.
    pub gres: &'a [u8],
    /// The type, such as `a40`; `None` for a limit on all types.
    pub gres_type: Option<&'a [u8]>,
    /// How many at once, on one node or on all; `None` if only minutes are limited.
    pub count: Option<u64>,
    /// How many at once on all nodes.
    pub of_job: Option<u64>,
}

impl Association<'_> {
    fn limits_a_type(&self, gres: &[u8]) -> bool {
        self.limits.iter().any(|limit| limit.gres == gres && limit.gres_type.is_some())
    }
}

impl Policy {
    /// Whether an association requires that its jobs' GPUs are typed.
    pub fn governs_account(&self, association: &Association) -> bool {
        match &self.accounts {
            GovernedAccounts::Off => false,
            GovernedAccounts::Auto => {
                self.gres.0.iter().any(|gres| association.limits_a_type(gres.as_bytes()))
            }
            GovernedAccounts::Names(patterns) => patterns.match_name(association.account, Case::Ignored),
        }
    }
}

impl<'a, A: Accounting> Judgement<'_, 'a, A> {
    /// Whether the rule of types must be checked under the job's associations: at least one of them governs, and the
    /// request doesn't only name the cluster's types.
    pub(super) fn is_under_an_account(&self, request: &Parsed) -> bool {
        self.asks_accounts(request) && !self.governing().is_empty()
    }

    /// Whether the verdict depends on the job's associations.
    fn asks_accounts(&self, request: &Parsed) -> bool {
        let passes_under_any =
            || self.update.is_none() && request.is_counted_plainly() && self.names_known_types(request);
        self.policy.accounts != GovernedAccounts::Off && mended("accounts") && !passes_under_any()
    }

    /// The request's fault under the accounts to charge, if any.
    pub(super) fn account_fault(&self, request: &Parsed) -> Option<Fault> {
        let concerned = self.is_under_an_account(request);
        concerned.then(|| self.broken_rule(request, Under::Account)).flatten()
    }

    /// Whether the request names only types of the cluster: then it passes under every association.
    fn names_known_types(&self, request: &Parsed) -> bool {
        let mut typed = false;
        let known = request.tokens().all(|(_, token)| match token {
            Token::Gres(gres) if gres.name.starts_with(GPU) && !mended("gpu-prefix") => true,
            Token::Gres(gres) if gres.count > 0 && self.policy.gres.has(gres.name) => {
                typed |= gres.name == GPU;
                gres.gres_type.is_some_and(|gres_type| self.is_known(gres.name, gres_type))
            }
            Token::Gres(_) | Token::Cpus(_) | Token::Other => true,
            Token::Unrecognised(_) => false,
        });
        known && (typed || request.ntasks_per_tres() == 0)
    }

    /// The associations under which GPUs must be typed: the user's own first, then the account's, and so on up.
    pub(super) fn governing(&self) -> &[Association<'a>] {
        self.governing.get_or_init(|| {
            let mut found: Vec<Association> = Vec::new();
            self.accounting.associations(self.request, |one| {
                let new = found.iter().all(|known| known.id != one.id);
                if new && (self.policy.governs_account(&one) || self.counts_all(&one)) {
                    found.push(one);
                }
            });
            found
        })
    }

    /// Whether an association limits all GPUs, and Slurm might count too few.
    fn counts_all(&self, association: &Association) -> bool {
        let all = |limit: &GresLimit| limit.gres == GPU && limit.gres_type.is_none();
        self.policy.accounts == GovernedAccounts::Auto
            && (predicts(self.request)
                && (association.limits.iter().any(all) || association.billing && self.bills_all())
                || self.is_billed_by_type(association))
    }

    /// Whether an association requires types, and doesn't only limit all GPUs.
    fn limits_types(&self, association: &Association) -> bool {
        self.policy.governs_account(association) || self.is_billed_by_type(association)
    }

    /// Whether one of those associations requires types.
    pub(super) fn account_limits_types(&self) -> bool {
        self.governing().iter().any(|one| self.limits_types(one))
    }

    /// The account of a job that names none, if its limits count.
    pub(super) fn account_to_pin(&self) -> Option<&'a [u8]> {
        let asked = self.request.account.is_none() && self.asks_accounts(self.request);
        let owner = if asked { self.accounting.owner(self.request) } else { None };
        owner.map(|owner| owner.account).filter(|account| !account.is_empty())
    }

    /// The fault of a request for one GRES under those associations. A GRES may be untyped if none of them limits it by
    /// type, except GPUs under an account that `GovernedAccounts` names.
    pub(super) fn account_type_fault(&self, gres: Gres) -> Option<Rule> {
        let by_name = matches!(self.policy.accounts, GovernedAccounts::Names(_)) && gres.name == GPU;
        let billed = |one: &Association| self.is_billed_by_type(one) && self.bills_types(gres.name);
        let limited =
            by_name || self.governing().iter().any(|one| one.limits_a_type(gres.name) || billed(one));
        if limited { self.uncounted(gres) } else { None }
    }

    /// Whether those associations forbid GPUs that Slurm invents.
    pub(super) fn account_counts_gpus(&self) -> bool {
        let untyped = Gres { name: GPU, gres_type: None, count: 1 };
        self.account_type_fault(untyped).is_some() || self.governing().iter().any(|one| self.counts_all(one))
    }

    /// The lowest limit of those associations on each type of a GRES.
    pub(super) fn account_limits(&self, gres: &[u8]) -> Vec<(&'a [u8], Option<u64>)> {
        let mut lowest: Vec<(&[u8], Option<u64>)> = Vec::new();
        let limits = self.governing().iter().flat_map(|one| &one.limits).filter(|limit| limit.gres == gres);
        for (gres_type, count) in limits.filter_map(|limit| Some((limit.gres_type?, limit.count))) {
            match lowest.iter_mut().find(|(known, _)| *known == gres_type) {
                Some((_, least)) => *least = (*least).into_iter().chain(count).min(),
                None => lowest.push((gres_type, count)),
            }
        }
        lowest
    }

    /// The lowest number of a type at once, on all nodes, to which one of those associations limits the job.
    pub(super) fn account_limit(&self, gres: &[u8], gres_type: &[u8]) -> Option<(u64, &Association<'a>)> {
        let is_it = |limit: &&GresLimit| {
            limit.gres == gres && limit.gres_type.is_some_and(|known| known.eq_ignore_ascii_case(gres_type))
        };
        let limits =
            self.governing().iter().filter_map(|one| Some((one.limits.iter().find(is_it)?.of_job?, one)));
        limits.min_by_key(|(most, _)| *most)
    }

    /// The holder of the limit: the nearest association with a limit on a type of the GRES, otherwise the nearest
    /// account.
    pub(super) fn account_ground(&self, gres: &[u8]) -> Ground {
        let governing = self.governing();
        let with_limit = governing.iter().find(|one| one.limits_a_type(gres));
        let with_limit = with_limit.or_else(|| governing.iter().find(|one| self.counts_all(one)));
        let nearest = || governing.iter().find(|one| !one.own).or(governing.first());
        self.ground_of(with_limit.or_else(nearest))
    }

    pub(super) fn ground_of(&self, one: Option<&Association>) -> Ground {
        let sent = self.said();
        let named = [("account", sent.account), ("partition", sent.partition), ("qos", sent.qos)];
        // An update must name what moves the job here; a submission only the account, if it named one.
        let mut named = named.into_iter().take(if self.update.is_some() { 3 } else { 1 });
        let named = named
            .find_map(|(key, name)| name.filter(|name| !name.is_empty()).map(|name| (key, shortened(name))));
        Ground::Account {
            name: shortened(one.map_or(b"", |one| one.account)),
            own: one.is_some_and(|one| one.own),
            named,
        }
    }

    /// Whether an update charges the job to a governing association that was not charged before, or takes it out of a
    /// QOS that let its request pass.
    pub(super) fn comes_under_an_account(&self, existing: &Parsed, update: &Parsed) -> bool {
        let was = existing.qos.unwrap_or_default();
        let lenient = matches!(self.policy.mode(was), Mode::Warn | Mode::Audit);
        let mut before = Vec::new();
        self.accounting.associations(existing, |one| before.push(one.id));
        let mut governing = self.governing().iter().filter(|one| self.limits_types(one)).peekable();
        let new = |one: &Association| {
            let elsewhere = update.partition.is_some_and(|name| Some(name) != existing.partition);
            !before.contains(&one.id) || elsewhere && self.is_billed_by_type(one)
        };
        governing.peek().is_some() && ((update.qos.is_some() && lenient) || governing.any(new))
    }
}
