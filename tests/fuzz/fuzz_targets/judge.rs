//! Any request: a verdict and no panic; and what is accepted under a governed QOS has nothing that wasn't recognised,
//! no GPU without a type of this cluster, and no string that Slurm would find too long.
//!
//! Input: a byte whose bits say which spelling, then tasks per GPU as one byte, then up to seven lines.
#![no_main]

#[path = "../../differential/accounting.rs"]
mod accounting;

use accounting::{Database, GOVERNED, is_type};
use gpushare::submit::grammar::{Spelling, Token};
use gpushare::submit::policy::{Policy, judge};
use gpushare::submit::request::{LONGEST, Parsed, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some(([first, tasks], text)) = data.split_first_chunk() else { return };
    let mut lines = text.split(|byte| *byte == b'\n').map(|line| (!line.is_empty()).then_some(line));
    let mut line = || lines.next().flatten();
    let request = Request {
        qos: line(),
        tres_per_node: line(),
        tres_per_job: line(),
        tres_per_task: line(),
        tres_per_socket: line(),
        account: line(),
        partition: line(),
        ntasks_per_tres: (*tasks > 0).then_some(u16::from(*tasks)),
        ..Request::new(if first % 2 == 0 { Spelling::Colon } else { Spelling::Slash })
    };
    let governed = request.qos.is_none_or(|name| name.eq_ignore_ascii_case(GOVERNED));
    if let Ok(_) = judge(&request, &Policy::default(), &Database)
        && governed
    {
        check(&request);
    }
});

fn check(request: &Request) {
    let strings =
        [request.tres_per_node, request.tres_per_job, request.tres_per_task, request.tres_per_socket];
    assert!(strings.iter().flatten().all(|text| text.len() <= LONGEST), "too long");
    let mut gpus = 0;
    for (_, token) in Parsed::from(*request).tokens() {
        match token {
            Token::Unrecognised(part) => panic!("\"{}\" was accepted", part.shown().escape_ascii()),
            Token::Gres(gres) if gres.name == b"gpu" && gres.count > 0 => {
                assert!(gres.gres_type.is_some_and(is_type), "{gres:?} was accepted");
                gpus += 1;
            }
            Token::Gres(_) | Token::Cpus(_) | Token::Other => {}
        }
    }
    assert!(gpus > 0 || request.ntasks_per_tres() == 0, "tasks per GPU with no typed GPU were accepted");
}
