//! From the lines of gres.conf to the GPUs of one node.

use std::path::{Path, PathBuf};

use super::error::{GresConfError, Problem};
use super::lines::{fields, include, last, logical_lines};
use super::{Files, Order, Slot};
use crate::config::gpu_files;
use crate::gpu::device::minor_by_name;
use crate::gpu::roots::MOST;
use gpushare::text::hostlist;

/// The keys of a GRES (gres.c `_gres_options`).
const KEYS: &str = "AutoDetect Count CPUs Cores File Files Flags Link Links MultipleFiles Name Type";

type Fields<'a> = [(&'a str, &'a str)];

/// What has been read so far.
pub(super) struct Reader<'a> {
    node: Option<&'a str>,
    include: &'a dyn Fn(&str) -> Result<String, Problem>,
    /// GPUs from lines that begin with `Name=`; Slurm puts them first, wherever they are.
    named: Vec<Line>,
    /// GPUs from lines that begin with `NodeName=`.
    of_node: Vec<Line>,
    everywhere: Option<Order>,
    here: Option<Order>,
}

/// A line about GPUs.
struct Line {
    slots: Option<Vec<Slot>>,
    gres_type: Option<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(node: Option<&'a str>, include: &'a dyn Fn(&str) -> Result<String, Problem>) -> Self {
        Reader { node, include, named: Vec::new(), of_node: Vec::new(), everywhere: None, here: None }
    }

    /// Reads a file's text. An included file is read at its `Include` line, and can't include others.
    ///
    /// # Errors
    /// The first line that can't be read with certainty. Also an `Include` that is not followed, or whose file can't be
    /// read.
    pub(super) fn read(&mut self, file: &Path, text: &str, may_include: bool) -> Result<(), GresConfError> {
        // Slurm replaces `%` itself and refuses `*`; a control character could forge a line of a log.
        let is_unclear = |c: char| "*%".contains(c) || c.is_whitespace() || c.is_control();
        for (number, line) in logical_lines(text) {
            let at = |problem| GresConfError { file: file.to_owned(), line: Some(number), problem };
            match include(&line) {
                None => self.take(&line).map_err(at)?,
                Some(name) if !may_include || name.contains(is_unclear) => {
                    return Err(at(Problem::Include(name.to_owned())));
                }
                Some(name) => {
                    let text = (self.include)(name).map_err(at)?;
                    self.read(&file.with_file_name(name), &text, false)?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &str) -> Result<(), Problem> {
        if line.chars().any(|c| c.is_control() && !c.is_ascii_whitespace()) {
            return Err(Problem::NotText);
        }
        let fields = fields(line).ok_or(Problem::Line)?;
        let Some(((first, value), others)) = fields.split_first() else { return Ok(()) };
        if first.eq_ignore_ascii_case("AutoDetect") && others.is_empty() {
            self.everywhere = Some(order(value));
        } else if first.eq_ignore_ascii_case("Name") {
            self.named.extend(gpus(&fields)?);
        } else if first.eq_ignore_ascii_case("NodeName") {
            let detect = last(others, "AutoDetect");
            // Lines for other nodes and about other GRES needn't be checked strictly.
            if (is_gpu(others) || detect.is_some()) && self.is_here(value)? {
                self.of_node.extend(gpus(others)?);
                self.here = detect.map(order).or(self.here);
            }
        } else {
            return Err(Problem::Line);
        }
        Ok(())
    }

    fn is_here(&self, nodes: &str) -> Result<bool, Problem> {
        let node = self.node.ok_or(Problem::NodeUnknown)?;
        hostlist::contains(nodes, node).ok_or_else(|| Problem::Nodes(nodes.to_owned()))
    }

    /// The result of all lines together.
    ///
    /// # Errors
    /// The lines don't determine the order: GPUs of several types without AutoDetect, parts of GPUs with it, a file
    /// that is listed twice, or more GPUs than any node has.
    pub(super) fn finish(self) -> Result<Files, Problem> {
        let order = self.here.or(self.everywhere).unwrap_or_default();
        let mut lines = self.named;
        lines.extend(self.of_node);
        // Without AutoDetect, Slurm ignores a GPU without a file; with it, Slurm finds the GPU itself.
        let found = order != Order::Listed && lines.iter().any(|line| line.slots.is_none());
        lines.retain(|line| line.slots.is_some());
        if lines.is_empty() || found {
            return Ok(Files { slots: None, order });
        }
        let several =
            lines.iter().zip(lines.iter().skip(1)).any(|(one, other)| one.gres_type != other.gres_type);
        if order == Order::Listed && several {
            return Err(Problem::SeveralTypes);
        }
        let slots: Vec<Slot> = lines.into_iter().filter_map(|line| line.slots).flatten().collect();
        if order != Order::Listed && slots.iter().any(|slot| slot.part) {
            return Err(Problem::PartsDetected);
        }
        if slots.len() > MOST {
            return Err(Problem::TooMuch);
        }
        let again = twice(&slots);
        again.map_or(Ok(Files { slots: Some(slots), order }), |path| Err(Problem::Twice(path)))
    }
}

fn is_gpu(fields: &Fields) -> bool {
    last(fields, "Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"))
}

/// The GPUs in a line; `None` if it is about something else.
fn gpus(fields: &Fields) -> Result<Option<Line>, Problem> {
    if !is_gpu(fields) {
        return Ok(None);
    }
    if !fields.iter().all(|(name, _)| KEYS.split(' ').any(|key| key.eq_ignore_ascii_case(name))) {
        return Err(Problem::Line);
    }
    let paths = |value: &str| {
        let read = if value.contains(char::is_whitespace) { None } else { gpu_files::paths(value) };
        read.ok_or_else(|| Problem::Files(value.to_owned()))
    };
    let whole = last(fields, "File").or_else(|| last(fields, "Files")).map(paths).transpose()?;
    let part = last(fields, "MultipleFiles").map(paths).transpose()?;
    let gres_type = last(fields, "Type").map(str::to_owned);
    let slot = |path, part| Slot { path, gres_type: gres_type.clone(), part };
    let slots = match (whole, part) {
        (Some(_), Some(_)) => return Err(Problem::Line),
        (None, None) => None,
        (Some(paths), None) => Some(paths.into_iter().map(|path| slot(path, false)).collect()),
        (None, Some(paths)) => gpu_of_part(paths).map(|path| vec![slot(path, true)]),
    };
    Ok(Some(Line { slots, gres_type }))
}

/// The GPU's own device node, out of the files of a part.
fn gpu_of_part(paths: Vec<PathBuf>) -> Option<PathBuf> {
    let at = paths.iter().position(|path| minor_by_name(path).is_some());
    paths.into_iter().nth(at.unwrap_or(0))
}

fn twice(slots: &[Slot]) -> Option<PathBuf> {
    let whole = || slots.iter().filter(|slot| !slot.part);
    let is_again = |(at, slot): &(usize, &Slot)| whole().take(*at).any(|other| other.path == slot.path);
    whole().enumerate().find(is_again).map(|(_, slot)| slot.path.clone())
}

/// The order that `AutoDetect=` sets; the tests are in Slurm's order (gres.c `_handle_autodetect_flags`).
fn order(value: &str) -> Order {
    let value = value.to_ascii_lowercase();
    let has = |word| value.contains(word);
    if has("full") {
        Order::NameOrPci
    } else if has("nvml") {
        Order::Pci
    } else if ["rsmi", "oneapi", "nrt", "nvidia"].into_iter().any(has) {
        Order::Name
    } else {
        Order::Listed
    }
}
