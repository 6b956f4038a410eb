//! Device filters for tests, as Slurm writes them (`add_device_ebpf_prog` in Slurm's src/plugins/cgroup/v2/ebpf.c), and
//! as the kernel shows them when it blinds constants.

use super::program::Instruction;
use super::unblind::AX;

/// One device in Slurm's program: type, major, minor (`None` matches any), and whether it is allowed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line(pub Option<u32>, pub Option<u32>, pub Option<u32>, pub bool);

/// Character device `major:minor`.
pub(crate) const fn character(major: u32, minor: u32, allowed: bool) -> Line {
    Line(Some(2), Some(major), Some(minor), allowed)
}

fn instruction(code: u8, target: u8, source: u8, offset: i16, immediate: u32) -> Instruction {
    Instruction { code, target, source, offset, immediate: immediate.cast_signed() }
}

/// Slurm's program for these devices; everything else is allowed.
pub(crate) fn program(lines: &[Line]) -> Vec<Instruction> {
    let mut program = vec![
        instruction(0x61, 2, 1, 0, 0),
        instruction(0x54, 2, 0, 0, 0xffff),
        instruction(0x61, 3, 1, 0, 0),
        instruction(0x74, 3, 0, 0, 16),
        instruction(0x61, 4, 1, 4, 0),
        instruction(0x61, 5, 1, 8, 0),
    ];
    for Line(kind, major, minor, allowed) in lines {
        let tests: Vec<(u8, u32)> =
            [(2, *kind), (4, *major), (5, *minor)].into_iter().filter_map(|(r, v)| Some((r, v?))).collect();
        for (at, (register, value)) in tests.iter().enumerate() {
            let offset = i16::try_from(tests.len() - at + 1).unwrap();
            program.push(instruction(0x55, *register, 0, offset, *value));
        }
        program.push(instruction(0xb7, 0, 0, 0, u32::from(*allowed)));
        program.push(instruction(0x95, 0, 0, 0, 0));
    }
    program.extend([instruction(0xb7, 0, 0, 0, 1), instruction(0x95, 0, 0, 0, 0)]);
    program
}

/// The expected answer of the program.
pub(crate) fn answer(lines: &[Line], kind: u32, major: u32, minor: u32) -> bool {
    let is = |wanted: Option<u32>, value| wanted.is_none_or(|wanted| wanted == value);
    let first = lines.iter().find(|line| is(line.0, kind) && is(line.1, major) && is(line.2, minor));
    first.is_none_or(|line| line.3)
}

/// The program as the kernel shows it under `net.core.bpf_jit_harden=2` (`bpf_jit_blind_insn`), with these random
/// numbers.
pub(crate) fn blinded(program: &[Instruction], random: impl Fn(usize) -> u32) -> Vec<Instruction> {
    let parts: Vec<Vec<Instruction>> =
        program.iter().enumerate().map(|(at, one)| parts(*one, random(at))).collect();
    let start = |at: usize| parts.iter().take(at).map(Vec::len).sum::<usize>();
    let mut shown = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let mut part = part.clone();
        let last = part.last_mut().unwrap();
        if [5, 6].contains(&(last.code & 7)) && last.code != 0x95 {
            let target = start((at + 1).checked_add_signed(isize::from(last.offset)).unwrap());
            let next = i64::try_from(start(at) + parts[at].len()).unwrap();
            last.offset = i16::try_from(i64::try_from(target).unwrap() - next).unwrap();
        }
        shown.extend(part);
    }
    shown
}

fn parts(one: Instruction, random: u32) -> Vec<Instruction> {
    let constant = one.immediate.cast_unsigned();
    let class = one.code & 7;
    let operation = one.code & 0xf0;
    if [0xb4, 0xb7].contains(&one.code) && constant == 0 {
        return vec![instruction(0xaf, one.target, one.target, 0, 0)];
    }
    let shift = [0x60, 0x70, 0xc0].contains(&operation);
    let arithmetic = [4, 7].contains(&class) && !shift && ![0x80, 0xd0].contains(&operation);
    let jump = [5, 6].contains(&class) && ![0, 0x80, 0x90].contains(&operation);
    if one.code & 8 != 0 || !(arithmetic || jump) {
        return vec![one];
    }
    let wide = if class == 4 || class == 6 { 4 } else { 7 };
    vec![
        instruction(0xb0 | wide, AX, 0, 0, random ^ constant),
        instruction(0xa0 | wide, AX, 0, 0, random),
        Instruction { code: one.code | 8, source: AX, immediate: 0, ..one },
    ]
}
