//! Whether the logs can tell: what they show of slurmctld, and of gpushare in it. That they have no request proves
//! nothing where gpushare wouldn't have logged one.
//!
//! slurmctld logs each of its starts, and gpushare then logs which rules are in force, both at the level `info`. So
//! gpushare was there if it logged anything since slurmctld's last start. It wasn't if that start has no line of it.

use gpushare::submit::log_line::PREFIX;
use gpushare::text::print::counted;

use super::stamp::{Line, Way};
use gpushare_period::{Period, text};
use gpushare_terminal::clean;

/// In slurmctld's line at its start (src/slurmctld/controller.c: `main`).
const STARTED: &[u8] = b" started on cluster ";
/// slurmctld's lines when it stands by, and when it is in control (src/slurmctld/backup.c: `run_backup`; controller.c:
/// `main`). It loads gpushare before either.
const STANDS_BY: &[u8] = b"slurmctld running in background mode";
const IN_CONTROL: &[u8] = b"Running as primary controller";
/// How journalctl -o json writes a message that it leaves out.
const LEFT_OUT: &[u8] = b"\"MESSAGE\":null";
/// How many times without gpushare are kept.
const MOST: usize = 20;

gpushare::errors! {
    /// Why the logs or counts can't tell that no request was accepted.
    #[derive(Debug, PartialEq, Eq)]
    pub enum Doubt {
        Empty => "the log has no lines. {GET}";
        /// The number of lines, what is odd about them, and the first.
        Foreign(lines: u64, odd: String, example: String) =>
            "{} read, none of them slurmctld's in a form that gpushare knows{odd}. The first is '{example}'. {GET}",
            counted(*lines, "line");
        /// The period and what the logs have.
        Outside(period: Period, first: u32, last: u32) =>
            "slurmctld logged nothing from {} to {}. The log has its lines from {} to {}: choose --start and --end, or \
             name other logs", text(period.start), text(period.end), text(*first), text(*last);
        OnlyErrors =>
            "slurmctld logged only errors in that time, so it would have left out gpushare's lines: set \
             SlurmctldDebug=info";
        Level(level: String) => "SlurmctldDebug={level} leaves gpushare's lines out of the log: set it to info";
        /// The value of JobSubmitPlugins.
        NotLoaded(plugins: String) =>
            "slurmctld runs without gpushare, so nothing checks requests: JobSubmitPlugins={plugins}";
        /// slurmctld's last start, if its line has a date.
        Silent(start: Option<u32>) =>
            "slurmctld has logged nothing of gpushare's since it started{}: is gpushare in JobSubmitPlugins?{}",
            start.map(|time| format!(" at {}", text(time))).unwrap_or_default(),
            start.map(|time| format!(" For the time before, add --end {}", text(time).replace(' ', "T")))
                .unwrap_or_default();
        NotShown =>
            "nothing in the log shows that gpushare is loaded: it has no line of gpushare's, not even the one at \
             slurmctld's start. Read more of the log, back to that start. If that is gone, restart slurmctld, which \
             ends no job: gpushare then logs its rules";
        /// The controllers.
        Controllers(hosts: String) =>
            "{hosts} are controllers, and each logs only the requests that it checked itself: name the logs of all of \
             them";
        StandsBy =>
            "slurmctld only stood by here, so another controller checked the requests: name that one's log";
        Cut(lines: u64) =>
            "{} about an accepted request can't be read, because syslog cuts lines at 500 characters: set \
             SlurmctldLogFile, or {GET_JOURNAL}", counted(*lines, "line");
        Bare(lines: u64) =>
            "{} of gpushare's about an accepted request could be anybody's, because slurmctld's name or time isn't \
             before it, as with journalctl -o cat: {GET_JOURNAL}", counted(*lines, "line");
        LeftOut(lines: u64) =>
            "journalctl has left out {} of slurmctld's: run it with --all", counted(*lines, "long message");
        /// Why slurmctld didn't say whether it counts.
        NotCounted(why: String) =>
            "the counts have no accepted request, but nothing shows that gpushare counts: {why}";
    }
}

const GET_JOURNAL: &str = "run 'journalctl -u slurmctld -o short-iso | gpushare audit -'";
const GET: &str = "Name slurmctld's log, or run 'journalctl -u slurmctld -o short-iso | gpushare audit -'";

/// Whether slurmctld says that it runs with gpushare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loaded {
    Yes,
    /// The value of JobSubmitPlugins.
    No(String),
    /// It wasn't asked, or why it didn't answer.
    Unknown(String),
}

/// What slurmctld, since its last start, has shown of gpushare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shown {
    /// Nothing; the start isn't in the log.
    #[default]
    Unclear,
    /// Nothing; the time of the start.
    Nothing(Option<u32>),
    Gpushare,
}

/// What the lines show, as far as the end of the period.
#[derive(Debug, Default)]
pub struct Evidence {
    period: Period,
    lines: u64,
    example: Option<String>,
    /// Lines that name gpushare in a form that isn't known, or that aren't slurmctld's.
    pub odd: u64,
    /// Those of them that are nothing but gpushare's message about an accepted request.
    bare: u64,
    left_out: u64,
    has_any: bool,
    /// The first and the last time of slurmctld's lines; the last only until one is inside the period.
    pub first: Option<u32>,
    last: Option<u32>,
    /// slurmctld has a line inside the period, and one at the level `info`.
    is_inside: bool,
    has_info: bool,
    shown: Shown,
    /// slurmctld stood by at some time, and was in control at some time.
    pub stood_by: bool,
    was_in_control: bool,
    /// A line that slurmctld itself wrote as a whole.
    has_own: bool,
    /// Times without a sign of gpushare, inside the period or reaching into it.
    without: Vec<(u32, u32)>,
}

impl Evidence {
    pub fn new(period: Period) -> Evidence {
        Evidence { period, ..Evidence::default() }
    }

    /// Whether a line has to be taken apart. It sees every line, and there may be millions.
    pub fn wants(&mut self, line: &[u8], is_ours: bool) -> bool {
        self.lines += u64::from(!line.is_empty());
        if self.example.is_none() && !line.is_empty() {
            let start = String::from_utf8_lossy(line).chars().take(70).collect::<String>();
            self.example = Some(clean(&start));
        }
        is_ours || !self.has_info || is_a_turn(line) || (line.starts_with(b"{") && has(line, LEFT_OUT))
    }

    /// A line that isn't slurmctld's, or in no form that is known.
    pub fn pass(&mut self, line: &[u8], is_ours: bool) {
        self.odd += u64::from(is_ours);
        self.bare += u64::from(line.strip_prefix(PREFIX.as_bytes()).is_some_and(is_accepted));
    }

    /// A line of slurmctld's.
    pub fn take(&mut self, line: &Line) {
        let time = line.time;
        let (is_first, begin) = (!self.has_any, self.first);
        self.has_any = true;
        self.first = [begin, time].into_iter().flatten().min();
        self.last = self.last.max(time);
        if time.is_some_and(|time| time >= self.period.end) {
            return;
        }
        let is_inside = time.is_none_or(|time| time >= self.period.start);
        self.is_inside |= is_inside;
        self.has_own |= line.way == Way::Own;
        let Some(message) = line.message.as_deref() else {
            self.left_out += u64::from(is_inside);
            return;
        };
        let levels: [&[u8]; 3] = [b"error: ", b"fatal: ", b"debug:  "];
        let bare = levels.iter().find_map(|level| message.strip_prefix(*level));
        self.has_info |= is_inside && (bare.is_none() || message.starts_with(b"debug"));
        self.stood_by |= message == STANDS_BY;
        self.was_in_control |= message.starts_with(IN_CONTROL);
        if bare.unwrap_or(message).starts_with(PREFIX.as_bytes()) {
            self.shown = Shown::Gpushare;
        } else if message.starts_with(b"slurmctld version ") && has(message, STARTED) {
            let since = match self.shown {
                Shown::Gpushare => None,
                Shown::Nothing(start) => start,
                Shown::Unclear if is_first => None,
                Shown::Unclear => begin,
            };
            if let Some((since, time)) = since.zip(time) {
                self.note(since, time);
            }
            self.shown = Shown::Nothing(time);
        }
    }

    /// Keeps a time without gpushare; one that continues the last is added to it.
    fn note(&mut self, since: u32, until: u32) {
        if until <= self.period.start {
            return;
        }
        if let Some((_, end)) = self.without.last_mut().filter(|(_, end)| *end == since) {
            *end = until;
        } else if self.without.len() < MOST {
            self.without.push((since, until));
        }
    }

    /// Times without a sign of gpushare. A slurmctld that starts logs a little before it names itself.
    pub fn without(&self) -> impl Iterator<Item = (u32, u32)> {
        self.without.iter().copied().filter(|(since, until)| until.saturating_sub(*since) >= 60)
    }

    /// Why these lines can't tell that there was nothing, if so. Of a period that has ended, slurmctld can't tell more
    /// than they do.
    pub fn doubt(&self, loaded: &Loaded) -> Option<Doubt> {
        if !self.has_any {
            let odd = match self.odd {
                0 => String::new(),
                odd => format!(", though {odd} with '{}'", PREFIX.trim_end()),
            };
            let example = self.example.clone().unwrap_or_default();
            return Some(if self.lines == 0 {
                Doubt::Empty
            } else {
                Doubt::Foreign(self.lines, odd, example)
            });
        }
        if let (false, Some((first, last))) = (self.is_inside, self.first.zip(self.last)) {
            return Some(Doubt::Outside(self.period, first, last));
        }
        // In slurmctld's own file such a line is the rest of a message with a user's line break (docs/commands.md).
        if self.bare > 0 && !self.has_own {
            return Some(Doubt::Bare(self.bare));
        }
        if self.left_out > 0 {
            return Some(Doubt::LeftOut(self.left_out));
        }
        if !self.has_info {
            return Some(Doubt::OnlyErrors);
        }
        if self.stood_by && !self.was_in_control {
            return Some(Doubt::StandsBy);
        }
        match (loaded, self.shown) {
            (Loaded::No(plugins), _) => Some(Doubt::NotLoaded(plugins.clone())),
            (_, Shown::Gpushare) | (Loaded::Yes, _) => None,
            (Loaded::Unknown(_), Shown::Nothing(start)) => Some(Doubt::Silent(start)),
            (Loaded::Unknown(_), Shown::Unclear) => Some(Doubt::NotShown),
        }
    }
}

/// Why counts can't tell that there was nothing, if so: the file of a slurmctld that no longer counts looks the same.
pub fn of_counts(loaded: &Loaded) -> Option<Doubt> {
    match loaded {
        Loaded::Yes => None,
        Loaded::No(plugins) => Some(Doubt::NotLoaded(plugins.clone())),
        Loaded::Unknown(why) => Some(Doubt::NotCounted(why.clone())),
    }
}

/// Whether what follows [`PREFIX`] is about a request that was accepted although it breaks a rule.
pub fn is_accepted(text: &[u8]) -> bool {
    text.starts_with(b"accepted ") && !text.starts_with(b"accepted (exempt ")
}

/// Whether a line may tell that slurmctld started, stands by or is in control.
fn is_a_turn(line: &[u8]) -> bool {
    [STARTED, STANDS_BY, IN_CONTROL].iter().any(|words| has(line, words))
}

/// Whether a line has these bytes.
pub fn has(line: &[u8], bytes: &[u8]) -> bool {
    line.windows(bytes.len()).any(|part| part == bytes)
}

#[cfg(test)]
mod tests;
