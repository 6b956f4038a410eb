//! The bytecode of a device filter: [`DeviceRules`] as instructions in front of another program's.
//!
//! This doesn't parse the other program. When a program that the kernel's verifier accepted starts, it relies only on
//! r1, its argument, and r10, the stack, and its jumps are relative. So instructions in front of it that use only r0
//! and r2 to r5 can't disturb it, whatever it does.
//!
//! Instruction set: Documentation/bpf/standardization/instruction-set.rst; argument: `struct bpf_cgroup_dev_ctx` in
//! linux/bpf.h.

use super::rules::{DeviceRules, LAST_GPU, NVIDIA};
use crate::gpu::DeviceNumber;

/// `struct bpf_insn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// The opcode.
    pub code: u8,
    /// The register written to, or compared.
    pub target: u8,
    /// The other register.
    pub source: u8,
    /// For a jump, counted from the next instruction; for a load, in bytes.
    pub offset: i16,
    /// A constant.
    pub immediate: i32,
}

/// Bytes of an instruction.
pub const SIZE: usize = 8;

/// `r = *(u32 *)(source + offset)`.
pub const LOAD: u8 = 0x61;
/// `r &= immediate`, in 32 bits.
pub const AND: u8 = 0x54;
/// `r = immediate`.
pub const MOVE: u8 = 0xb7;
/// Jump if equal.
pub const JUMP_EQUAL: u8 = 0x15;
/// Jump if not equal.
pub const JUMP_NOT_EQUAL: u8 = 0x55;
/// Jump if greater, unsigned.
pub const JUMP_GREATER: u8 = 0x25;
/// Return r0.
pub const EXIT: u8 = 0x95;

/// `BPF_DEVCG_DEV_CHAR`.
pub const CHARACTER: i32 = 2;
/// Offsets of the major and the minor number in the argument.
const MAJOR: i16 = 4;
const MINOR: i16 = 8;

/// The program that allows everything.
pub const ALLOW_ALL: [Instruction; 2] = returning(1);

gpushare::errors! {
    /// Why there is no program for some rules.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProgramError {
        Number(number: DeviceNumber) => "no device can have the number {number}";
        TooLong => "too many devices for one device filter";
    }
}

impl Instruction {
    /// The instruction as the kernel has it in memory. The two registers share a byte; the target is in the half that
    /// comes first in this machine's bit order.
    pub fn encode(self) -> [u8; SIZE] {
        let (low, high) = in_order(self.target, self.source);
        let [o0, o1] = self.offset.to_ne_bytes();
        let [i0, i1, i2, i3] = self.immediate.to_ne_bytes();
        [self.code, low & 0xf | high << 4, o0, o1, i0, i1, i2, i3]
    }

    /// Reads an instruction from the kernel's memory.
    pub fn decode(bytes: [u8; SIZE]) -> Instruction {
        let [code, registers, o0, o1, i0, i1, i2, i3] = bytes;
        let (target, source) = in_order(registers & 0xf, registers >> 4);
        let offset = i16::from_ne_bytes([o0, o1]);
        Instruction { code, target, source, offset, immediate: i32::from_ne_bytes([i0, i1, i2, i3]) }
    }

    const fn load(target: u8, offset: i16) -> Instruction {
        Instruction { code: LOAD, target, source: 1, offset, immediate: 0 }
    }

    const fn constant(code: u8, target: u8, immediate: i32) -> Instruction {
        Instruction { code, target, source: 0, offset: 0, immediate }
    }
}

/// The low and high half of the byte that holds target and source, or the reverse, by this machine's bit order.
const fn in_order(first: u8, second: u8) -> (u8, u8) {
    if cfg!(target_endian = "little") { (first, second) } else { (second, first) }
}

const fn returning(verdict: i32) -> [Instruction; 2] {
    [Instruction::constant(MOVE, 0, verdict), Instruction::constant(EXIT, 0, 0)]
}

/// Where a jump leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// This many instructions further on.
    Past(i16),
    Closed,
    Open,
    /// To the program behind the rules.
    Behind,
}

/// The rules, followed by the program `behind`, which decides about all devices that the rules leave open.
///
/// # Errors
/// A device number that no device can have, or so many rules that a jump can't cross them.
pub(crate) fn in_front_of(
    rules: &DeviceRules,
    behind: &[Instruction],
) -> Result<Vec<Instruction>, ProgramError> {
    let mut program = vec![Instruction::load(2, 0), Instruction::constant(AND, 2, 0xffff)];
    let body = body(rules)?;
    // After the body come "closed", and "open" only if something jumps to it: the verifier refuses unreachable
    // instructions.
    let opens = body.iter().any(|(_, place)| *place == Some(Place::Open));
    let closed = program.len() + body.len();
    let open = closed + 2;
    let rest = if opens { open + 2 } else { open };
    for (mut instruction, place) in body {
        let next = program.len() + 1;
        let distance = |to: usize| i16::try_from(to - next).map_err(|_| ProgramError::TooLong);
        instruction.offset = match place {
            None => instruction.offset,
            Some(Place::Past(count)) => count,
            Some(Place::Closed) => distance(closed)?,
            Some(Place::Open) => distance(open)?,
            Some(Place::Behind) => distance(rest)?,
        };
        program.push(instruction);
    }
    program.extend(returning(0));
    if opens {
        program.extend(returning(1));
    }
    program.extend(behind);
    Ok(program)
}

/// The tests, with the type in r2. The tests for NVIDIA's class come last and fall through to what follows, which is
/// "closed".
fn body(rules: &DeviceRules) -> Result<Vec<(Instruction, Option<Place>)>, ProgramError> {
    let jump = |code, register, value, place| (Instruction::constant(code, register, value), Some(place));
    let mut body = vec![
        jump(JUMP_NOT_EQUAL, 2, CHARACTER, Place::Behind),
        (Instruction::load(4, MAJOR), None),
        (Instruction::load(5, MINOR), None),
    ];
    let opened = if rules.widens { rules.open.as_slice() } else { &[] };
    let closed = rules.closed.iter().map(|number| (number, Place::Closed));
    for (number, place) in closed.chain(opened.iter().map(|number| (number, Place::Open))) {
        let (Ok(major), Ok(minor)) = (i32::try_from(number.major), i32::try_from(number.minor)) else {
            return Err(ProgramError::Number(*number));
        };
        body.push(jump(JUMP_NOT_EQUAL, 4, major, Place::Past(1)));
        body.push(jump(JUMP_EQUAL, 5, minor, place));
    }
    body.push(jump(JUMP_NOT_EQUAL, 4, NVIDIA.cast_signed(), Place::Behind));
    body.push(jump(JUMP_GREATER, 5, LAST_GPU.cast_signed(), Place::Behind));
    let place = if rules.widens { Place::Open } else { Place::Behind };
    body.extend(rules.gpus.iter().map(|minor| jump(JUMP_EQUAL, 5, minor.cast_signed(), place)));
    Ok(body)
}
