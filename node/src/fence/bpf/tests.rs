//! What bpf(2) is given, and what its answers mean, without the kernel.

use super::*;
use std::mem::offset_of;

#[test]
fn the_fields_are_where_linux_bpf_h_has_them() {
    assert_eq!((size_of::<Load>(), offset_of!(Load, log), offset_of!(Load, name)), (64, 32, 48));
    assert_eq!((size_of::<Attach>(), offset_of!(Attach, flags), offset_of!(Attach, replaced)), (20, 12, 16));
    assert_eq!((size_of::<FdById>(), size_of::<InfoByFd>(), offset_of!(InfoByFd, info)), (8, 16, 8));
    assert_eq!((size_of::<Query>(), offset_of!(Query, ids), offset_of!(Query, count)), (32, 16, 24));
    assert_eq!(size_of::<ProgramInfo>(), 40);
    assert_eq!((offset_of!(ProgramInfo, length), offset_of!(ProgramInfo, instructions)), (20, 32));
}

#[test]
fn of_the_verifiers_words_the_last_are_shown() {
    let log = b"0: (b7) r0 = 1\nR11 is invalid\nprocessed 0 insns (limit 1000000)\n\0\0\0";
    assert_eq!(last_words(log), "R11 is invalid");
    assert_eq!(last_words(b""), "");
    assert_eq!(last_words(&[b'x'; 1000]).len(), SHOWN);
}

#[test]
fn a_program_is_loaded_with_its_name() {
    let (program, mut log) = ([[0; 8]; 3], [0; 5]);
    let quiet = to_load(&program, &mut []).unwrap();
    assert_eq!((quiet.count, quiet.name, quiet.log_level, quiet.log), (3, NAME, 0, 0));
    let told = to_load(&program, &mut log).unwrap();
    assert_eq!((told.log_level, told.log_size), (1, 5));
}

#[test]
fn a_load_that_a_signal_interrupts_is_tried_five_times() {
    // How often it is interrupted, what it comes to then, and how many calls that takes.
    let cases = [
        (0, Ok(7), Ok(7), 1),
        (4, Ok(7), Ok(7), 5),
        (5, Ok(7), Err(libc::EAGAIN), 5),
        (0, Err(libc::EPERM), Err(libc::EPERM), 1),
        (2, Err(libc::EPERM), Err(libc::EPERM), 3),
    ];
    for (interrupted, then, expected, expected_calls) in cases {
        let mut calls = 0;
        let answer = uninterrupted(|| {
            calls += 1;
            let answer = if calls <= interrupted { Err(libc::EAGAIN) } else { then };
            answer.map_err(io::Error::from_raw_os_error)
        });
        assert_eq!(answer.map_err(|error| error.raw_os_error().unwrap()), expected);
        assert_eq!(calls, expected_calls);
    }
}

#[test]
fn only_a_kernel_that_does_not_know_the_flag_is_asked_in_two_calls() {
    for (answer, asked) in [(Ok(()), false), (Err(libc::EINVAL), true), (Err(libc::ENOENT), false)] {
        let mut was_asked = false;
        let said = or_in_two(answer.map_err(io::Error::from_raw_os_error), || {
            was_asked = true;
            Ok(())
        });
        assert_eq!(was_asked, asked, "{answer:?}");
        assert_eq!(said.is_ok(), asked || answer.is_ok());
    }
}

#[test]
fn a_program_is_shown_if_it_has_a_length_and_an_address() {
    let info = |instructions| ProgramInfo { instructions, ..ProgramInfo::default() };
    let word = u64::from_ne_bytes(Instruction { code: 0x95, ..Instruction::default() }.encode());
    assert_eq!(shown(&info(1), vec![word]).unwrap()[0].code, 0x95);
    assert_eq!(shown(&info(0), vec![word]), None);
    assert_eq!(shown(&info(1), Vec::new()), None);
}

#[test]
fn what_is_no_cgroup_is_told() {
    let errno = Bpf.attached(Path::new("/")).unwrap_err().raw_os_error();
    // EPERM and ENOSYS: not root, or a sandbox without bpf(2).
    assert!(matches!(errno, Some(libc::EBADF | libc::EPERM | libc::ENOSYS)), "{errno:?}");
    let errno = Bpf.attached(Path::new("/no/such/folder")).unwrap_err().raw_os_error();
    assert_eq!(errno, Some(libc::ENOENT));
}
