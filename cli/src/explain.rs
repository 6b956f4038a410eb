//! `gpushare explain`: the longer text behind the number of a message.

use gpushare::policy::Rule;

pub fn run(number: Option<&str>) -> Result<String, String> {
    match number {
        None => Ok(Rule::ALL.into_iter().map(paragraph).collect::<Vec<_>>().join("\n")),
        Some(number) => Rule::from_number(number).map(paragraph).ok_or_else(|| {
            let numbers = Rule::ALL.map(Rule::number).join(", ");
            format!("there is no message '{}'; the messages are {numbers}", number.escape_debug())
        }),
    }
}

fn paragraph(rule: Rule) -> String {
    let mut text = format!("{}\n", rule.number());
    let mut line = String::new();
    for word in rule.explanation().split_whitespace() {
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
        for rule in Rule::ALL {
            let text = run(Some(rule.number())).unwrap();
            assert!(text.starts_with(rule.number()) && text.lines().all(|line| line.len() <= 80), "{text}");
        }
        assert!(run(Some("GS999")).unwrap_err().contains("GS101"));
        assert_eq!(run(None).unwrap().matches("GS10").count(), Rule::ALL.len());
    }
}
