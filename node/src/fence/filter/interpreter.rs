//! Runs a device filter as the kernel would, for tests: Slurm's programs, ours and blinded ones. Panics at anything
//! that the verifier would refuse.

use super::program::Instruction;

/// What a process requests: `struct bpf_cgroup_dev_ctx`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// `BPF_DEVCG_DEV_BLOCK` 1, `BPF_DEVCG_DEV_CHAR` 2.
    pub kind: u32,
    /// 1 make, 2 read, 4 write.
    pub access: u32,
    pub major: u32,
    pub minor: u32,
}

/// Whether the program allows the request.
pub(crate) fn allows(program: &[Instruction], asked: Asked) -> bool {
    let mut registers: [Option<u64>; 12] = [None; 12];
    let mut at = 0;
    for _ in 0..10_000 {
        let Instruction { code, target, source, offset, immediate } = program[at];
        at += 1;
        let (to, from) = (usize::from(target), usize::from(source));
        let constant = i64::from(immediate).cast_unsigned();
        let class = code & 7;
        if code == 0x95 {
            return registers[0].expect("r0 is returned unset") != 0;
        }
        if code == 0x61 {
            assert_eq!(from, 1, "loads are from the argument");
            registers[to] = Some(u64::from(match offset {
                0 => asked.access << 16 | asked.kind,
                4 => asked.major,
                8 => asked.minor,
                _ => panic!("load of {offset}"),
            }));
            continue;
        }
        let operand = if code & 8 == 0 { constant } else { registers[from].expect("read before set") };
        match class {
            4 => registers[to] = Some(low(calculated(code, registers[to].map(low), low(operand)))),
            7 => registers[to] = Some(calculated(code, registers[to], operand)),
            5 if code == 0x05 => at = jumped(at, offset),
            5 if holds(code, registers[to].expect("compared before set"), operand) => at = jumped(at, offset),
            6 if holds(code, low(registers[to].expect("compared before set")), low(operand)) => {
                at = jumped(at, offset);
            }
            5 | 6 => {}
            _ => panic!("opcode {code:#x}"),
        }
    }
    panic!("the program doesn't end");
}

fn low(value: u64) -> u64 {
    value & 0xffff_ffff
}

fn jumped(next: usize, offset: i16) -> usize {
    next.checked_add_signed(isize::from(offset)).unwrap()
}

fn calculated(code: u8, old: Option<u64>, operand: u64) -> u64 {
    let old = || old.expect("changed before set");
    match code & 0xf0 {
        0x00 => old().wrapping_add(operand),
        0x50 => old() & operand,
        0x70 => old() >> operand,
        0xa0 => old() ^ operand,
        0xb0 => operand,
        _ => panic!("opcode {code:#x}"),
    }
}

fn holds(code: u8, value: u64, operand: u64) -> bool {
    match code & 0xf0 {
        0x10 => value == operand,
        0x20 => value > operand,
        0x50 => value != operand,
        _ => panic!("opcode {code:#x}"),
    }
}
