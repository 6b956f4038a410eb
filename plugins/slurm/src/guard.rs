//! The only boundary against panics: every exported function runs its body through [`run`].
//!
//! A panic that left an `extern "C"` function would abort slurmctld or slurmstepd. Here it becomes one line in the log,
//! and the function returns the fallback of its export line.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::line::error;

/// Runs the body of an exported function; if it panics, logs that and returns `fallback`.
pub fn run<T>(function: &str, fallback: T, body: impl FnOnce() -> T) -> T {
    silence_default_hook();
    // After a panic, our own state may be half-changed. All of it is either written last or made to fail closed (see
    // the plugins), so continuing is safe.
    match panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => value,
        Err(payload) => {
            error(format!("gpushare: internal error in {function}: {}", reason(payload.as_ref())));
            // Dropping a payload runs its own code, which may panic again.
            std::mem::forget(payload);
            fallback
        }
    }
}

/// The default hook prints to a daemon's stderr, which is closed or a user's terminal. The hook belongs to this .so's
/// own copy of the standard library, so no other hook is replaced.
fn silence_default_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|info| {
            if let Some(place) = info.location() {
                error(format!("gpushare: panic at {}:{}", place.file(), place.line()));
            }
        }));
    });
}

fn reason(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
