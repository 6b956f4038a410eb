//! `apply` asks before it changes anything. Without a terminal it can't ask, which is an error.

use std::io::{BufRead, IsTerminal};

use gpushare_qos::Plan;

use super::error::QosError;
use super::write;
use gpushare_terminal::print;

/// Shows the plan and asks. Only `y` and `yes` mean consent.
///
/// # Errors
/// There is no terminal, or the answer can't be read.
pub fn consent(plan: &Plan) -> Result<bool, QosError> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(QosError::NobodyToAsk);
    }
    print(&write::plan(plan))?;
    print(&write::taken(plan))?;
    print("Apply these changes? (y/N) ")?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(QosError::Answer)?;
    let is_yes = is_yes(&answer);
    if !is_yes {
        print("nothing was changed\n")?;
    }
    Ok(is_yes)
}

fn is_yes(answer: &str) -> bool {
    ["y", "yes"].iter().any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for (answer, expected) in
            [("y\n", true), (" Yes \n", true), ("\n", false), ("", false), ("n\n", false), ("yy", false)]
        {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }
}
