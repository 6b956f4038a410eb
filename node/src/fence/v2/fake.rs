//! A kernel for tests: cgroups in a directory, programs in memory, and the kernel's rules for both
//! (`hierarchy_allows_attach` and `compute_effective_progs` in kernel/bpf/cgroup.c).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::kernel::{Attached, Flags, Kernel, Refused};
use crate::fence::filter::interpreter::{Asked, allows};
use crate::fence::filter::program::Instruction;

pub(super) struct Fake {
    /// The root of the hierarchy, a real directory.
    pub root: PathBuf,
    attached: RefCell<BTreeMap<PathBuf, Attached>>,
    programs: RefCell<Vec<Vec<Instruction>>>,
    /// The calls, in order.
    pub calls: RefCell<Vec<String>>,
    /// Which call fails, counted from 0, and with which errno.
    pub failing: Cell<Option<(usize, i32)>>,
    /// How often a program is replaced by one with the same text after its number was reported and before it is opened.
    pub replaced: Cell<u32>,
    /// How programs are shown.
    pub shown: fn(&[Instruction]) -> Option<Vec<Instruction>>,
}

impl Fake {
    pub(super) fn new(root: &Path) -> Fake {
        Fake {
            root: root.to_owned(),
            attached: RefCell::default(),
            programs: RefCell::default(),
            calls: RefCell::default(),
            failing: Cell::new(None),
            replaced: Cell::new(0),
            shown: |program| Some(program.to_vec()),
        }
    }

    /// Records a call; returns an error if it is the call that should fail.
    fn call(&self, call: String) -> io::Result<()> {
        let mut calls = self.calls.borrow_mut();
        calls.push(call);
        match self.failing.get() {
            Some((at, errno)) if at + 1 == calls.len() => Err(io::Error::from_raw_os_error(errno)),
            _ => Ok(()),
        }
    }

    fn name(&self, folder: &Path) -> String {
        let below = folder.strip_prefix(&self.root).map_or_else(|_| folder.to_owned(), Path::to_owned);
        below.display().to_string()
    }

    fn add(&self, program: &[Instruction]) -> u32 {
        let mut programs = self.programs.borrow_mut();
        programs.push(program.to_vec());
        u32::try_from(programs.len() - 1).unwrap()
    }

    /// Attaches a program as another tool would.
    pub(super) fn put(&self, folder: &str, program: &[Instruction], flags: Flags) {
        let id = self.add(program);
        self.attach_as_kernel(&self.root.join(folder), id, flags).unwrap();
    }

    /// The flags, and how many programs are attached.
    pub(super) fn state(&self, folder: &str) -> Option<(Flags, usize)> {
        let attached = self.attached.borrow();
        attached.get(&self.root.join(folder)).map(|found| (found.flags, found.programs.len()))
    }

    fn attach_as_kernel(&self, folder: &Path, id: u32, flags: Flags) -> io::Result<()> {
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        let mut attached = self.attached.borrow_mut();
        let above = folder.ancestors().skip(1).find_map(|above| attached.get(above));
        if above.is_some_and(|above| above.flags == Flags::None) {
            return refused(libc::EPERM);
        }
        let here =
            attached.entry(folder.to_owned()).or_insert_with(|| Attached { flags, programs: Vec::new() });
        if here.flags != flags {
            return refused(libc::EPERM);
        }
        if flags != Flags::Multi {
            here.programs.clear();
        } else if here.programs.contains(&id) {
            return refused(libc::EINVAL);
        }
        here.programs.push(id);
        Ok(())
    }

    /// Whether a process in that cgroup may have the device.
    pub(super) fn allows(&self, folder: &str, asked: Asked) -> bool {
        let (attached, programs) = (self.attached.borrow(), self.programs.borrow());
        let mut found_any = false;
        let folder = self.root.join(folder);
        folder.ancestors().filter_map(|folder| attached.get(folder)).all(|here| {
            let counts = !found_any || here.flags == Flags::Multi;
            found_any = true;
            !counts || here.programs.iter().all(|id| allows(&programs[*id as usize], asked))
        })
    }
}

impl Kernel for Fake {
    type Program = u32;

    fn attached(&self, folder: &Path) -> io::Result<Attached> {
        self.call(format!("attached {}", self.name(folder)))?;
        if !folder.starts_with(&self.root) {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        folder.metadata()?;
        let nothing = Attached { flags: Flags::None, programs: Vec::new() };
        Ok(self.attached.borrow().get(folder).cloned().unwrap_or(nothing))
    }

    fn program(&self, id: u32) -> io::Result<u32> {
        self.call("program".to_owned())?;
        if self.replaced.get() == 0 {
            return Ok(id);
        }
        self.replaced.set(self.replaced.get() - 1);
        let text = self.programs.borrow()[id as usize].clone();
        let new = self.add(&text);
        for here in self.attached.borrow_mut().values_mut() {
            here.programs.iter_mut().filter(|old| **old == id).for_each(|old| *old = new);
        }
        Err(io::Error::from_raw_os_error(libc::ENOENT))
    }

    fn instructions(&self, program: &u32) -> io::Result<Option<Vec<Instruction>>> {
        self.call("instructions".to_owned())?;
        Ok((self.shown)(&self.programs.borrow()[*program as usize]))
    }

    fn load(&self, program: &[Instruction]) -> Result<u32, Refused> {
        let verifier = "R11 is invalid".to_owned();
        self.call("load".to_owned()).map_err(|error| Refused { error, verifier })?;
        Ok(self.add(program))
    }

    fn attach(&self, folder: &Path, program: &u32, flags: Flags) -> io::Result<()> {
        self.call(format!("attach {} {flags:?}", self.name(folder)))?;
        self.attach_as_kernel(folder, *program, flags)
    }

    fn replace(&self, folder: &Path, program: &u32, old: &u32) -> io::Result<()> {
        self.call(format!("replace {}", self.name(folder)))?;
        let refused = |errno| Err(io::Error::from_raw_os_error(errno));
        let mut attached = self.attached.borrow_mut();
        let Some(here) = attached.get_mut(folder) else { return refused(libc::ENOENT) };
        if here.flags != Flags::Multi {
            return refused(libc::EPERM);
        }
        if here.programs.contains(program) {
            return refused(libc::EINVAL);
        }
        let Some(place) = here.programs.iter_mut().find(|id| *id == old) else {
            return refused(libc::ENOENT);
        };
        *place = *program;
        Ok(())
    }

    fn detach(&self, folder: &Path, program: &u32) -> io::Result<()> {
        self.call(format!("detach {}", self.name(folder)))?;
        let mut attached = self.attached.borrow_mut();
        let here = attached.get_mut(folder).filter(|here| here.programs.contains(program));
        here.ok_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))?.programs.retain(|id| id != program);
        Ok(())
    }
}
