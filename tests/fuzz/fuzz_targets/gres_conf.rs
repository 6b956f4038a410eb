//! Any text as gres.conf, with or without an included file: no panic, no GPU twice, an error of a line that is there;
//! and a gres.conf that lists the GPUs found, one a line, means the same.
//!
//! Input: gres.conf, and after a NUL the included file.
#![no_main]

use gpushare_node::gpu::gres_conf::{Files, Order, Problem, Slot, parse};
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use std::path::Path;

fn read(text: &str, included: &str) -> Result<Files, Option<usize>> {
    let found = parse(Path::new("/etc/gres.conf"), text, Some("n1"), &|_| match included {
        "" => Err(Problem::NotText),
        _ => Ok(included.to_owned()),
    });
    found.map_err(|error| {
        assert!(!error.to_string().contains(char::is_control), "{error:?}");
        error.line
    })
}

fuzz_target!(|text: &str| {
    let (text, included) = text.split_once('\0').unwrap_or((text, ""));
    match read(text, included) {
        Err(line) => {
            let lines = text.split('\n').count().max(included.split('\n').count());
            assert!(line.is_none_or(|line| (1..=lines).contains(&line)), "{line:?} of {lines}");
        }
        Ok(Files { slots: Some(slots), order }) => {
            let whole: Vec<_> = slots.iter().filter(|slot| !slot.part).map(|slot| &slot.path).collect();
            assert_eq!(whole.iter().collect::<HashSet<_>>().len(), whole.len(), "{slots:?}");
            let again: String = slots.iter().map(line).collect();
            let detect = match order {
                Order::Listed => "off",
                Order::Name => "nvidia",
                Order::Pci => "nvml",
                Order::NameOrPci => "full",
            };
            let again = format!("AutoDetect={detect}\n{again}");
            assert_eq!(read(&again, ""), Ok(Files { slots: Some(slots), order }), "{again}");
        }
        Ok(Files { slots: None, .. }) => {}
    }
});

fn line(slot: &Slot) -> String {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('#', "\\#");
    let gres_type = slot.gres_type.as_deref().map(|text| format!("Type=\"{}\"", escaped(text)));
    let key = if slot.part { "MultipleFiles" } else { "File" };
    let path = escaped(&slot.path.display().to_string());
    format!("Name=gpu {} {key}=\"{path}\"\n", gres_type.unwrap_or_default())
}
