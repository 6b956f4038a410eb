//! bpf(2) for the device programs of cgroup v2: the calls for [`crate::fence::v2`]. Decides nothing.
//!
//! Every call takes a `union bpf_attr` (linux/bpf.h), and passes only the fields that the call reads: the kernel treats
//! missing ones as zero. The kernel answers in the same memory. Since Linux 6.17 it answers BPF_PROG_QUERY even beyond
//! the passed part (`query.revision`), so there is always room for the whole union.
#![allow(unsafe_code, reason = "calls of the kernel that std lacks")]

#[cfg(test)]
mod tests;

use std::ffi::{c_int, c_long};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::fence::filter::program::Instruction;
use crate::fence::v2::{Attached, Flags, Kernel, Refused};

// enum bpf_cmd.
const PROG_LOAD: c_int = 5;
const PROG_ATTACH: c_int = 8;
const PROG_DETACH: c_int = 9;
const PROG_GET_FD_BY_ID: c_int = 13;
const OBJ_GET_INFO_BY_FD: c_int = 15;
const PROG_QUERY: c_int = 16;

/// `BPF_PROG_TYPE_CGROUP_DEVICE`.
const DEVICE_PROGRAM: u32 = 15;
/// `BPF_CGROUP_DEVICE`.
const AT_DEVICE: u32 = 6;
const ALLOW_OVERRIDE: u32 = 1;
const ALLOW_MULTI: u32 = 2;
/// Since Linux 5.6.
const REPLACE: u32 = 4;
/// `BPF_CGROUP_MAX_PROGS` of the kernel's include/linux/bpf-cgroup-defs.h.
const MOST_PROGRAMS: usize = 64;
/// The name that `bpftool` shows.
const NAME: [u8; 16] = *b"gpushare\0\0\0\0\0\0\0\0";
/// How often to retry a load that a signal interrupts (EAGAIN; libbpf does the same).
const ATTEMPTS: u32 = 5;
/// Room for the instructions of almost every device program; for a longer one, a second call is needed.
const USUAL_LENGTH: usize = 512;
/// Room for the verifier's log.
const LOG: usize = 1 << 16;
/// How much of that log an error shows.
const SHOWN: usize = 200;

/// The fields of one command, and room for the rest of the union, which is smaller than this in every release.
#[repr(C, align(8))]
struct Attributes<T> {
    fields: T,
    room: [u64; 32],
}

#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
    replaced: u32,
}

#[repr(C)]
#[derive(Default)]
struct FdById {
    id: u32,
    next_id: u32,
}

#[repr(C)]
#[derive(Default)]
struct InfoByFd {
    fd: u32,
    length: u32,
    info: u64,
}

#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    kind: u32,
    query_flags: u32,
    flags: u32,
    ids: u64,
    count: u32,
    padding: u32,
}

/// `struct bpf_prog_info`, up to the last field that is read here.
#[repr(C)]
#[derive(Default)]
struct ProgramInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    machine_length: u32,
    length: u32,
    machine_code: u64,
    instructions: u64,
}

/// The running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bpf;

/// Calls bpf(2). Returns its result and the fields as the kernel leaves them.
///
/// # Safety
/// `fields` must be what bpf(2) expects for `command`, and its addresses must be valid for what the command does.
unsafe fn bpf<T>(command: c_int, fields: T) -> io::Result<(c_int, T)> {
    let mut attributes = Attributes { fields, room: [0; 32] };
    // SAFETY: the caller answers for the command. The kernel reads `size` bytes and writes only within the union, which
    // has enough room.
    let result: c_long =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut attributes, size_of::<T>()) };
    // The result is a file descriptor or 0.
    match c_int::try_from(result) {
        Ok(result) if result >= 0 => Ok((result, attributes.fields)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The file descriptor that bpf(2) made; the kernel closes it on exec.
fn owned(fd: c_int) -> OwnedFd {
    // SAFETY: the number comes from PROG_LOAD or PROG_GET_FD_BY_ID, and nothing else uses it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn raw(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// The address of memory for the kernel. It no longer is a Rust reference: the caller must keep the memory alive.
fn address<T>(memory: *const T) -> u64 {
    memory.expose_provenance() as u64
}

fn length(count: usize) -> io::Result<u32> {
    u32::try_from(count).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))
}

fn open(folder: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(folder)
}

/// The program's properties, and as many of its instructions as fit into `buffer`.
fn info(program: &OwnedFd, buffer: &mut [u64]) -> io::Result<ProgramInfo> {
    let mut info = ProgramInfo {
        length: length(size_of_val(buffer))?,
        instructions: address(buffer.as_mut_ptr()),
        ..ProgramInfo::default()
    };
    let size = length(size_of::<ProgramInfo>())?;
    let fields = InfoByFd { fd: raw(program), length: size, info: address(&raw mut info) };
    // SAFETY: `info` is a bpf_prog_info of the length given, zero but for a buffer of the length given; both outlive
    // it.
    let result = unsafe { bpf(OBJ_GET_INFO_BY_FD, fields) };
    result.map(|_| info)
}

/// What the kernel shows of a program: nothing to a process that may not see programs (no length), and nothing of a
/// program that it keeps to itself (it clears the address).
fn shown(info: &ProgramInfo, words: Vec<u64>) -> Option<Vec<Instruction>> {
    let is_shown = !words.is_empty() && info.instructions != 0;
    is_shown.then(|| words.into_iter().map(|word| Instruction::decode(word.to_ne_bytes())).collect())
}

fn to_load(program: &[[u8; 8]], log: &mut [u8]) -> io::Result<Load> {
    let mut fields = Load {
        program_type: DEVICE_PROGRAM,
        count: length(program.len())?,
        instructions: address(program.as_ptr()),
        license: address(c"GPL".as_ptr()),
        name: NAME,
        ..Load::default()
    };
    if !log.is_empty() {
        (fields.log_level, fields.log_size) = (1, length(log.len())?);
        fields.log = address(log.as_mut_ptr());
    }
    Ok(fields)
}

/// Loads a program; the verifier writes to `log` if it has any room.
fn load_once(program: &[[u8; 8]], log: &mut [u8]) -> io::Result<OwnedFd> {
    uninterrupted(|| {
        let fields = to_load(program, log)?;
        // SAFETY: the addresses are of a slice of `count` bpf_insn, a C string, and a slice of `log_size` bytes.
        unsafe { bpf(PROG_LOAD, fields) }.map(|(fd, _)| owned(fd))
    })
}

fn uninterrupted<T>(mut load: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match load() {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            result => return result,
        }
    }
    load()
}

/// The answer to [`REPLACE`]; an older kernel doesn't know the flag, and needs two calls.
fn or_in_two(answer: io::Result<()>, two: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match answer {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => two(),
        answer => answer,
    }
}

/// The last lines of the verifier's log, without its statistics.
fn last_words(log: &[u8]) -> String {
    let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let said = String::from_utf8_lossy(said);
    let last = said.lines().rfind(|line| !line.is_empty() && !line.starts_with("processed "));
    last.unwrap_or_default().chars().take(SHOWN).collect()
}

impl Kernel for Bpf {
    type Program = OwnedFd;

    #[doc(alias = "BPF_PROG_QUERY")]
    fn attached(&self, folder: &Path) -> io::Result<Attached> {
        let folder = open(folder)?;
        let mut ids = [0_u32; MOST_PROGRAMS];
        let fields = Query {
            target: raw(&folder),
            kind: AT_DEVICE,
            ids: address(ids.as_mut_ptr()),
            count: length(ids.len())?,
            ..Query::default()
        };
        // SAFETY: an open directory, and an array of `count` numbers.
        let (_, fields) = unsafe { bpf(PROG_QUERY, fields) }?;
        let flags = match fields.flags & (ALLOW_OVERRIDE | ALLOW_MULTI) {
            0 => Flags::None,
            ALLOW_OVERRIDE => Flags::Override,
            _ => Flags::Multi,
        };
        let count = usize::try_from(fields.count).unwrap_or(MOST_PROGRAMS);
        Ok(Attached { flags, programs: ids.into_iter().take(count).collect() })
    }

    #[doc(alias = "BPF_PROG_GET_FD_BY_ID")]
    fn program(&self, id: u32) -> io::Result<OwnedFd> {
        // SAFETY: no addresses.
        let (fd, _) = unsafe { bpf(PROG_GET_FD_BY_ID, FdById { id, next_id: 0 }) }?;
        Ok(owned(fd))
    }

    /// The kernel fills the available room and reports the whole length (`bpf_prog_get_info_by_fd` in its
    /// kernel/bpf/syscall.c). A loaded program never changes.
    #[doc(alias = "BPF_OBJ_GET_INFO_BY_FD")]
    fn instructions(&self, program: &OwnedFd) -> io::Result<Option<Vec<Instruction>>> {
        let mut words = vec![0_u64; USUAL_LENGTH];
        let mut filled = info(program, &mut words)?;
        let length = usize::try_from(filled.length).unwrap_or(0) / size_of::<u64>();
        if length > USUAL_LENGTH {
            words.resize(length, 0);
            filled = info(program, &mut words)?;
        }
        words.truncate(length);
        Ok(shown(&filled, words))
    }

    #[doc(alias = "BPF_PROG_LOAD")]
    fn load(&self, program: &[Instruction]) -> Result<OwnedFd, Refused> {
        let program: Vec<[u8; 8]> = program.iter().map(|instruction| instruction.encode()).collect();
        let error = match load_once(&program, &mut []) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => error,
        };
        let mut log = Vec::new();
        if !matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
            log.resize(LOG, 0);
            if let Ok(loaded) = load_once(&program, &mut log) {
                return Ok(loaded);
            }
        }
        Err(Refused { error, verifier: last_words(&log) })
    }

    #[doc(alias = "BPF_PROG_ATTACH")]
    fn attach(&self, folder: &Path, program: &OwnedFd, flags: Flags) -> io::Result<()> {
        let folder = open(folder)?;
        let flags = match flags {
            Flags::None => 0,
            Flags::Override => ALLOW_OVERRIDE,
            Flags::Multi => ALLOW_MULTI,
        };
        let fields =
            Attach { target: raw(&folder), program: raw(program), kind: AT_DEVICE, flags, replaced: 0 };
        // SAFETY: no addresses.
        unsafe { bpf(PROG_ATTACH, fields) }.map(|_| ())
    }

    #[doc(alias = "BPF_F_REPLACE")]
    fn replace(&self, path: &Path, program: &OwnedFd, old: &OwnedFd) -> io::Result<()> {
        let folder = open(path)?;
        let flags = ALLOW_MULTI | REPLACE;
        let fields = Attach {
            target: raw(&folder),
            program: raw(program),
            kind: AT_DEVICE,
            flags,
            replaced: raw(old),
        };
        // SAFETY: no addresses.
        let answer = unsafe { bpf(PROG_ATTACH, fields) }.map(|_| ());
        or_in_two(answer, || {
            self.attach(path, program, Flags::Multi)?;
            self.detach(path, old)
        })
    }

    #[doc(alias = "BPF_PROG_DETACH")]
    fn detach(&self, folder: &Path, program: &OwnedFd) -> io::Result<()> {
        let folder = open(folder)?;
        let fields =
            Attach { target: raw(&folder), program: raw(program), kind: AT_DEVICE, flags: 0, replaced: 0 };
        // SAFETY: no addresses.
        unsafe { bpf(PROG_DETACH, fields) }.map(|_| ())
    }
}
