//! GPU-hours, of seconds.

/// Hours, to a thousandth.
pub fn of(seconds: u64) -> f64 {
    // Exact for times far longer than the age of the universe.
    #[expect(clippy::cast_precision_loss, reason = "seconds of a report are far below 2^53")]
    let seconds = seconds as f64;
    (seconds / 3600.0 * 1000.0).round() / 1000.0
}

/// Enough digits that a small number isn't 0.
pub fn text(hours: f64) -> String {
    match hours {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{hours:.3}"),
        _ => format!("{hours:.1}"),
    }
}
