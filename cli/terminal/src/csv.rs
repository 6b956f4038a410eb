//! CSV for a spreadsheet, without text that a spreadsheet would treat as a formula or a terminal as a command.

use serde::Serialize;
use serde_json::Value;

use crate::clean;

/// A line of column names, then one line for each row: an object with these fields, whose lists become words separated
/// by commas.
pub fn of<T: Serialize>(head: &str, rows: impl Iterator<Item = T>) -> String {
    let line = |row: T| {
        let fields = serde_json::to_value(row).unwrap_or_default();
        let words = head.split(',').map(|name| cell(&word(fields.get(name).unwrap_or(&Value::Null))));
        words.collect::<Vec<_>>().join(",") + "\n"
    };
    format!("{head}\n") + &rows.map(line).collect::<String>()
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(word) => word.clone(),
        Value::Array(words) => words.iter().map(word).collect::<Vec<_>>().join(", "),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or_default().to_string(),
        other => other.to_string(),
    }
}

/// Quotes a word if necessary (RFC 4180). Puts an apostrophe before text that a spreadsheet would treat as a formula.
fn cell(word: &str) -> String {
    let word = clean(word);
    let formula = word.starts_with(['=', '+', '-', '@']) && word.parse::<f64>().is_err();
    let word = if formula { format!("'{word}") } else { word };
    if word.contains([',', '"', '\'']) { format!("\"{}\"", word.replace('"', "\"\"")) } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_and_no_formula() {
        for (word, expected) in [
            ("alice", "alice"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=1+1", "\"'=1+1\""),
            ("--gres=gpu:2", "\"'--gres=gpu:2\""),
            ("-1.5", "-1.5"),
            ("a\nb", "a\\nb"),
        ] {
            assert_eq!(cell(word), expected, "{word}");
        }
    }
}
