//! Whose request a log line is about: user, account, QOS, partition and the job's name, as slurmctld will use them.
//! Looked up only for requests that get a log line, after the check's locks are released.

use gpushare::submit::log_line::{Key, LogLine};
use gpushare::submit::message;
use gpushare::submit::policy::{Accounting, Because, DefaultQos, Ground, Refusal};
use gpushare::submit::request::Request;
use gpushare_slurm::accounting::Cache;
use gpushare_slurm::submission::{Existing, Submission};

/// A job's owner and place.
pub struct Who {
    user_id: u32,
    /// For an update: the job, and the user who sent the update.
    update: Option<(Vec<u8>, u32)>,
    texts: [(Key, Vec<u8>); 5],
}

impl Who {
    pub fn submits(submission: &Submission) -> Who {
        Who::of(&submission.request(), submission.name())
    }

    /// For an update: values that it doesn't change come from the job.
    pub fn updates(update: &Submission, existing: &Existing, submitter: u32) -> Who {
        let request = update.request().over(&existing.request());
        let job_id = update.job_id().unwrap_or_default().to_vec();
        Who { update: Some((job_id, submitter)), ..Who::of(&request, update.name().or(existing.name())) }
    }

    fn of(request: &Request, name: Option<&[u8]>) -> Who {
        let cache = Cache::new();
        let accounting = &cache;
        let owner = accounting.owner(request);
        let default_qos = || match accounting.default_qos(request) {
            DefaultQos::One(qos) => Some(accounting.name(qos)),
            DefaultQos::None | DefaultQos::OneOf(_) => None,
        };
        let default_partition = || accounting.default_partition().filter(|_| request.reservation.is_none());
        let texts = [
            (Key::User, owner.map(|owner| owner.user)),
            (Key::Account, owner.map(|owner| owner.account).or(request.account)),
            (Key::Qos, request.qos.or_else(default_qos)),
            (Key::Partition, request.partition.or_else(default_partition)),
            (Key::Name, name),
        ];
        let texts = texts.map(|(key, text)| (key, text.unwrap_or_default().to_vec()));
        Who { user_id: request.user_id, update: None, texts }
    }

    pub fn user_id(&self) -> u32 {
        self.user_id
    }

    /// The log line about one verdict. The QOS, partition or account is named as the broken rule names it.
    pub fn line(&self, passed: Option<Because>, refusal: &Refusal) -> LogLine {
        let named = match &refusal.ground {
            Ground::Qos(name) => Some((Key::Qos, name)),
            Ground::Account { name, .. } => Some((Key::Account, name)),
            Ground::Partition(name) => Some((Key::Partition, name)),
            Ground::Site => None,
        };
        let mut line = LogLine::new(passed, refusal.rule.number(), self.user_id)
            .with(Key::Asked, &refusal.asked)
            .with(Key::Request, &message::request(refusal).unwrap_or_default())
            .with(Key::Try, message::correction(refusal).unwrap_or_default().as_bytes());
        for (key, text) in &self.texts {
            line = line.with(*key, named.filter(|(named, _)| named == key).map_or(text, |(_, name)| name));
        }
        if let Some((job, by)) = &self.update {
            line = line.with(Key::Job, job);
            line.by = Some(*by);
        }
        line
    }
}
