//! Any text as an answer of gpushare-nvml: no panic, no GPU with figures that can't be, and an answer that is printed
//! reads the same.
#![no_main]

use gpushare_node::nvml::answer::{MOST_PROCESSES, Measured};
use gpushare_node::nvml::printed::Printed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // gpushare-nvml prints none of these, and the end of a line takes one along.
    if text.contains('\r') {
        return;
    }
    let Ok(mut measured) = text.parse::<Measured>() else { return };
    for gpu in &mut measured.gpus {
        assert!(gpu.memory.is_none_or(|memory| memory > 0 && gpu.used <= Some(memory)), "{gpu:?}");
        assert!(gpu.utilization.is_none_or(|percent| percent <= 100), "{gpu:?}");
        assert!(gpu.running.len() <= MOST_PROCESSES, "{gpu:?}");
        gpu.fault = gpu.fault.take().map(|fault| fault.replace(char::is_control, " "));
    }
    assert_eq!(Printed(&measured).to_string().parse(), Ok(measured));
});
