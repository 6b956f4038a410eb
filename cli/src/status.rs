//! `gpushare status`: the ledger of this node as a table.

use gpushare::ledger::{Entry, Holding, Ledger, RUN_DIR};

pub fn run() -> Result<String, String> {
    let listing = Ledger::at(RUN_DIR).list().map_err(|error| error.to_string())?;
    let mut text = table(&listing.entries);
    for garbage in &listing.garbage {
        text.push_str(&format!("not an entry: '{}': {}\n", garbage.name.escape_debug(), garbage.damage));
    }
    Ok(text)
}

fn table(entries: &[Entry]) -> String {
    if entries.is_empty() {
        return "no shares on this node\n".to_owned();
    }
    let mut text = format!(
        "{:>10} {:>8} {:>4} {:<16} {:>6} {:>8}\n",
        "JOB", "USER", "GPU", "DEVICE", "UNITS", "CAPACITY"
    );
    for entry in entries {
        let (units, capacity) = match entry.holding {
            Holding::Share { units, capacity, .. } => (units.to_string(), capacity.to_string()),
            Holding::Whole => ("whole".to_owned(), "-".to_owned()),
        };
        for gpu in &entry.gpus {
            text.push_str(&format!(
                "{:>10} {:>8} {:>4} {:<16} {units:>6} {capacity:>8}\n",
                entry.key.id,
                entry.user_id,
                gpu.index,
                gpu.path.display().to_string()
            ));
        }
    }
    text
}
