//! GRES as Slurm prints them where they are in use: of a node's `GresUsed=`, of a job's `GRES=`.

use gpushare::text::gres;

/// A GRES: how many there are and, if Slurm shows it, which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gres {
    /// Its name.
    pub name: String,
    /// Its type, if it has one. Of a job's GRES, a user may have chosen it.
    pub gres_type: Option<String>,
    /// How many.
    pub count: u64,
    /// What is in the brackets.
    pub which: Which,
}

/// The text in the brackets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// Nothing useful.
    #[default]
    Unsaid,
    /// `IDX:0,2-3`: these GPUs. 22.05 also prints it for mps and shard; a node's `count` is then not a count of units.
    Index(Vec<u32>),
    /// `40/100,0/100,-/100`: the assigned units of each GPU, and how many it has. `-` is a GPU that a job has whole.
    /// Since 23.11.
    Units(Vec<(Option<u64>, u64)>),
}

impl Gres {
    /// Reads `gpu:a40:2(IDX:0-1),mps:40(40/100,0/100),gpushare(CNT:3)`.
    pub fn read(text: &str) -> Vec<Gres> {
        gres::parts(text.trim()).filter_map(Gres::one).collect()
    }

    fn one(part: &str) -> Option<Gres> {
        let part = gres::without_null(part);
        let (name, gres_type, mut count) = gres::read(&part).pop()?;
        let inside = part.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
        let which = if let Some(number) = inside.strip_prefix("CNT:") {
            count = number.parse().unwrap_or(0);
            Which::Unsaid
        } else if let Some(list) = inside.strip_prefix("IDX:") {
            Which::Index(indexes(list))
        } else if inside.contains('/') {
            let units = |word: &str| {
                let (used, of) = word.split_once('/')?;
                Some((used.parse().ok(), of.parse().ok()?))
            };
            Which::Units(inside.split(',').map_while(units).collect())
        } else {
            Which::Unsaid
        };
        Some(Gres { name, gres_type, count, which })
    }

    /// The devices, if it names them.
    pub fn indexes(&self) -> &[u32] {
        if let Which::Index(indexes) = &self.which { indexes } else { &[] }
    }
}

/// Reads `0,2-3`; `N/A` means none.
fn indexes(list: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            // No node has more GPUs.
            found.extend(first..=last.min(first.saturating_add(1023)));
        }
    }
    found
}
