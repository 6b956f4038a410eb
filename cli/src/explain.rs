//! `gpushare explain`: the longer text behind the number of a message.

use gpushare::message::pages::{PAGES, Page, page};

pub fn run(number: Option<&str>) -> Result<String, String> {
    match number {
        None => Ok(PAGES.iter().map(paragraph).collect::<Vec<_>>().join("\n")),
        Some(number) => page(number).map(paragraph).ok_or_else(|| {
            let numbers = PAGES.map(|page| page.number).join(", ");
            format!("there is no message '{}'; the messages are {numbers}", number.escape_debug())
        }),
    }
}

fn paragraph(page: &Page) -> String {
    let mut text = format!("{}: {}\n", page.number, page.title);
    let mut line = String::new();
    for word in page.text.split_whitespace() {
        if line.len() + word.len() > 76 {
            text.push_str(&line);
            text.push('\n');
            line.clear();
        }
        line.push_str(if line.is_empty() { "  " } else { " " });
        line.push_str(word);
    }
    text + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_explained_and_others_are_refused() {
        for page in PAGES {
            let text = run(Some(page.number)).unwrap();
            assert!(text.starts_with(page.number) && text.lines().all(|line| line.len() <= 80), "{text}");
        }
        assert!(run(Some("GS999")).unwrap_err().contains("GS101"));
        assert!(PAGES.iter().all(|page| run(None).unwrap().contains(page.number)));
    }
}
