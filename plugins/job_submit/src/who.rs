//! Whose request a log line is about: user, account, QOS, partition and the job's name, as slurmctld will use them.
//! Looked up only for requests that get a log line, after the check's locks are released.

use gpushare::submit::log_line::{Key, LogLine, Verdict};
use gpushare::submit::message;
use gpushare::submit::policy::{Accounting, DefaultQos, Ground, Refusal};
use gpushare::submit::request::Request;
use gpushare_slurm::accounting::Cache;
use gpushare_slurm::submission::{Existing, Submission};

/// A job's owner and place.
pub struct Who {
    user_id: u32,
    /// For an update: the job, and the user who sent the update.
    update: Option<(Vec<u8>, u32)>,
    user: Vec<u8>,
    account: Vec<u8>,
    qos: Vec<u8>,
    partition: Vec<u8>,
    name: Vec<u8>,
}

impl Who {
    pub fn submits(submission: &Submission) -> Who {
        Who::of(&submission.request(), submission.name())
    }

    /// For an update: values that it doesn't change come from the job.
    pub fn updates(update: &Submission, existing: &Existing, submitter: u32) -> Who {
        let (new, job) = (update.request(), existing.request());
        let request = Request {
            qos: new.qos.or(job.qos),
            account: new.account.or(job.account),
            partition: new.partition.or(job.partition),
            reservation: new.reservation.or(job.reservation),
            ..job
        };
        let job_id = update.job_id().unwrap_or_default().to_vec();
        Who { update: Some((job_id, submitter)), ..Who::of(&request, update.name().or(existing.name())) }
    }

    fn of(request: &Request, name: Option<&[u8]>) -> Who {
        let cache = Cache::new();
        let accounting = &cache;
        let owner = accounting.owner(request);
        let default_qos = match request.qos {
            None => accounting.default_qos(request),
            Some(_) => DefaultQos::None,
        };
        let default_qos = match default_qos {
            DefaultQos::One(qos) => Some(accounting.name(qos)),
            DefaultQos::None | DefaultQos::OneOf(_) => None,
        };
        let default_partition = || accounting.default_partition().filter(|_| request.reservation.is_none());
        let owned = |text: Option<&[u8]>| text.unwrap_or_default().to_vec();
        Who {
            user_id: request.user_id,
            update: None,
            user: owned(owner.map(|owner| owner.user)),
            account: owned(owner.map(|owner| owner.account).or(request.account)),
            qos: owned(request.qos.or(default_qos)),
            partition: owned(request.partition.or_else(default_partition)),
            name: owned(name),
        }
    }

    pub fn user_id(&self) -> u32 {
        self.user_id
    }

    /// The log line about one verdict. The QOS, partition or account is named as the broken rule names it.
    pub fn line(&self, verdict: Verdict, refusal: &Refusal) -> LogLine {
        let (mut qos, mut account, mut partition) = (&self.qos, &self.account, &self.partition);
        match &refusal.ground {
            Ground::Qos(name) => qos = name,
            Ground::Account { name, .. } => account = name,
            Ground::Partition(name) => partition = name,
            Ground::Site => {}
        }
        let mut line = LogLine::new(verdict, refusal.rule.number(), self.user_id)
            .with(Key::Qos, qos)
            .with(Key::Account, account)
            .with(Key::Partition, partition)
            .with(Key::Asked, &refusal.asked)
            .with(Key::User, &self.user)
            .with(Key::Request, &message::request(refusal).unwrap_or_default())
            .with(Key::Name, &self.name)
            .with(Key::Try, message::correction(refusal).unwrap_or_default().as_bytes());
        if let Some((job, by)) = &self.update {
            line = line.with(Key::Job, job);
            line.by = Some(*by);
        }
        line
    }
}
