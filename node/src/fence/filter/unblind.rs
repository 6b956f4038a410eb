//! Undoes what the kernel does to a program's constants under `net.core.bpf_jit_harden=2`.
//!
//! With that setting, a program that is read back has every constant split in two by a random number, through a
//! register that no loaded program may use (`bpf_jit_blind_insn` in the kernel's kernel/bpf/core.c):
//!
//! | loaded | read back |
//! |---|---|
//! | `op r, value` | `mov ax, value ^ x`; `xor ax, x`; `op r, ax` |
//! | `mov r, 0` | `xor r, r` |
//!
//! This undoes only these forms, for arithmetic and jumps; it refuses anything else in that register.

use std::fmt;

use super::program::{Instruction, MOVE};

/// The kernel's own register, `BPF_REG_AX`.
pub const AX: u8 = 11;

const CLASS: u8 = 0x07;
const ALU: u8 = 0x04;
const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const JUMP32: u8 = 0x06;
/// The bit that makes the other operand a register.
const REGISTER: u8 = 0x08;
const OPERATION: u8 = 0xf0;
/// Add, subtract, multiply, divide, or, and, modulo, xor, move. The kernel doesn't blind the constants of shifts.
const ARITHMETIC: [u8; 9] = [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x90, 0xa0, 0xb0];
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
const ALWAYS: u8 = 0x00;
const XOR64: u8 = 0xaf;

/// The program can't be the result of blinding; holds the place of the first unexpected instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strange(pub usize);

/// The program as it was loaded. A program that isn't blinded is returned unchanged.
///
/// # Errors
/// The program has an instruction that blinding never makes.
pub fn unblind(program: &[Instruction]) -> Result<Vec<Instruction>, Strange> {
    if !program.iter().any(|instruction| uses_ax(*instruction)) {
        return Ok(program.iter().map(|instruction| zeroed(*instruction)).collect());
    }
    let mut shown = Vec::new();
    // For each place of the blinded program, the place of its instruction in the new one; `None` inside a group of
    // three.
    let mut new_place = Vec::new();
    let mut rest = program;
    while let Some((first, after)) = rest.split_first() {
        let at = new_place.len();
        new_place.push(Some(shown.len()));
        match (uses_ax(*first), after) {
            (false, _) => {
                shown.push((at, zeroed(*first)));
                rest = after;
            }
            (true, [second, third, after @ ..]) => {
                shown.push((at + 2, joined(*first, *second, *third).ok_or(Strange(at))?));
                new_place.extend([None, None]);
                rest = after;
            }
            (true, _) => return Err(Strange(at)),
        }
    }
    let renumber = |(new, (old, instruction))| renumbered(new, old, instruction, &new_place);
    shown.into_iter().enumerate().map(renumber).collect()
}

fn uses_ax(instruction: Instruction) -> bool {
    instruction.target >= AX || instruction.source >= AX
}

/// The one instruction that blinding made into three.
fn joined(first: Instruction, second: Instruction, third: Instruction) -> Option<Instruction> {
    let class = third.code & CLASS;
    let wide = if class == ALU || class == JUMP32 { ALU } else { ALU64 };
    // For 32-bit arithmetic and jumps the first two are 32 bits wide, for others 64.
    let is = |instruction: Instruction, code: u8| {
        instruction.code == code | wide
            && (instruction.target, instruction.source, instruction.offset) == (AX, 0, 0)
    };
    let from_ax =
        third.source == AX && third.target < AX && third.code & REGISTER != 0 && third.immediate == 0;
    let blinded = [ALU, ALU64].contains(&class) && ARITHMETIC.contains(&(third.code & OPERATION));
    let known = blinded || conditional(third.code);
    (is(first, 0xb0) && is(second, 0xa0) && from_ax && known).then_some(Instruction {
        code: third.code & !REGISTER,
        source: 0,
        immediate: first.immediate ^ second.immediate,
        ..third
    })
}

fn conditional(code: u8) -> bool {
    [JUMP, JUMP32].contains(&(code & CLASS)) && ![ALWAYS, CALL, EXIT].contains(&(code & OPERATION))
}

/// Blinding turns `mov r, 0` into `xor r, r`. Both mean the same, but the verifier requires that r was set before an
/// xor.
fn zeroed(instruction: Instruction) -> Instruction {
    if instruction.code == XOR64 && instruction.target == instruction.source {
        return Instruction { code: MOVE, source: 0, ..instruction };
    }
    instruction
}

/// A jump with its new distance; any other instruction unchanged. The places are the instruction's old and new one.
fn renumbered(
    new: usize,
    old: usize,
    instruction: Instruction,
    new_place: &[Option<usize>],
) -> Result<Instruction, Strange> {
    let class = instruction.code & CLASS;
    let operation = instruction.code & OPERATION;
    let goes = conditional(instruction.code) || (class == JUMP && operation == ALWAYS);
    // Calls inside the program, far jumps and constants of two instructions: no device filter has them.
    let inside = operation == CALL && instruction.source != 0;
    let far = class == JUMP32 && operation == ALWAYS;
    if (class == JUMP && inside) || far || class == 0 {
        return Err(Strange(old));
    }
    if !goes {
        return Ok(instruction);
    }
    let target = (old + 1).checked_add_signed(isize::from(instruction.offset));
    let place = target.and_then(|target| new_place.get(target).copied().flatten()).ok_or(Strange(old))?;
    let distance = i64::try_from(place).ok().zip(i64::try_from(new + 1).ok()).map(|(to, next)| to - next);
    let offset = distance.and_then(|distance| i16::try_from(distance).ok()).ok_or(Strange(old))?;
    Ok(Instruction { offset, ..instruction })
}

impl fmt::Display for Strange {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "instruction {} is not what net.core.bpf_jit_harden=2 makes", self.0)
    }
}

impl std::error::Error for Strange {}
