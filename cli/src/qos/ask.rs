//! What `apply` asks before it changes anything. Without a terminal it can't ask, which is an error.

use std::io::{BufRead, IsTerminal};

use gpushare_qos::Plan;

use super::write;
use crate::print;

/// Shows the plan and asks. Only `y` or `yes` is consent.
///
/// # Errors
/// Nobody can be asked.
pub fn consent(plan: &Plan) -> Result<bool, String> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err("nothing was changed: without a terminal nobody can be asked; read 'gpushare qos plan', then run \
                    'gpushare qos apply --immediate'"
            .to_owned());
    }
    print(&write::plan(plan))?;
    print(&write::taken(plan))?;
    print("Apply these changes? (y/N) ")?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(|error| format!("standard input: {error}"))?;
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
