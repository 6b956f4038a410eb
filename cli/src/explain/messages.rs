//! The longer text behind the number of a message.

use gpushare::submit::message::pages::{PAGES, Page, page};
use gpushare_terminal::wrapped;

/// All messages.
pub fn all() -> String {
    PAGES.iter().map(paragraph).collect::<Vec<_>>().join("\n")
}

/// The message with that number.
pub fn one(number: &str) -> Option<String> {
    page(number).map(paragraph)
}

/// Whether a word of the command line is a number rather than a script.
pub fn is_number(word: &[u8]) -> bool {
    let digits = word.get(..2).filter(|start| start.eq_ignore_ascii_case(b"GS")).and_then(|_| word.get(2..));
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

fn paragraph(page: &Page) -> String {
    let words = page.text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}: {}\n  {}\n", page.number, page.title, wrapped(&words, 76).join("\n  "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{ExplainError, Named, each};

    #[test]
    fn a_number_is_no_script() {
        for (word, expected) in [
            ("GS101", true),
            ("gs1", true),
            ("GS", false),
            ("GS1.sh", false),
            ("./GS101", false),
            ("", false),
        ] {
            assert_eq!(is_number(word.as_bytes()), expected, "{word}");
        }
    }

    #[test]
    fn every_message_is_explained_and_others_are_refused() {
        for page in PAGES.iter() {
            let text = one(page.number).unwrap();
            assert!(text.starts_with(page.number) && text.lines().all(|line| line.len() <= 80), "{text}");
        }
        assert!(one("GS999").is_none() && PAGES.iter().all(|page| all().contains(page.number)));
        let error = ExplainError::NoMessage("GS999".to_owned()).to_string();
        assert!(error.starts_with("there is no message 'GS999'; the messages are GS101, "), "{error}");
    }

    #[test]
    fn what_is_not_found_keeps_nothing_else_from_being_told() {
        let options = crate::explain::job::Options { json: false, conf: None };
        let named = |words: &[&str]| -> Vec<Named> {
            words.iter().map(|word| Named::Message((*word).to_owned())).collect()
        };
        let told = each(&named(&["GS999", "GS101"]), options).unwrap();
        assert!(
            told.text.starts_with("there is no message 'GS999'") && told.text.contains("\nGS101"),
            "{}",
            told.text
        );
        assert_eq!(told.status, 2);
        assert_eq!(each(&named(&["GS101", "GS102"]), options).unwrap().status, 0);
        assert!(each(&named(&["GS999"]), options).is_err());
    }
}
