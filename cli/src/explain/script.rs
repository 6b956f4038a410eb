//! Reads the `#SBATCH` lines of a batch script as sbatch does.
//!
//! Lines count until the first one that is neither empty nor a comment. Quotes group words, a backslash makes the next
//! character literal, and an unquoted `#` ends the line: these are sbatch's own rules, not the shell's.

use super::HETEROGENEOUS;
use gpushare_judge::options::{Given, OptionError, Source, split};
use gpushare_slurm_text::version::Release;

/// No script for sbatch is longer.
pub const LONGEST: u64 = 64 << 20;

gpushare::errors! {
    /// Why sbatch would refuse a script, or why it can't be checked.
    #[derive(Debug, PartialEq, Eq)]
    pub enum ScriptError {
        TooLong => "longer than {LONGEST} bytes";
        Form(reason: &'static str) => "sbatch does not accept this script: {reason}";
        Heterogeneous(line: usize) => "line {line}: {HETEROGENEOUS}";
        OpenQuote(line: usize) => "line {line}: a quote is not closed";
        NoOption(word: String) => "'{word}' on an #SBATCH line is not an option";
        OtherLanguage(word: &'static str) =>
            "sbatch also reads the script's {word} lines, which gpushare can't check; write #SBATCH or add \
             --ignore-pbs";
    } from { Option(OptionError) }
}

/// The options in all `#SBATCH` lines.
///
/// # Errors
/// sbatch would refuse the script, or it can't be checked.
pub fn options(text: &[u8], release: Release) -> Result<Vec<Given>, ScriptError> {
    let words = words(text, release)?;
    let (given, rest) = split(&words, release, Source::Script)?;
    match rest.first() {
        Some(word) => Err(ScriptError::NoOption(word.escape_ascii().to_string())),
        None => Ok(given),
    }
}

/// The words of all `#SBATCH` lines.
fn words(text: &[u8], release: Release) -> Result<Vec<Vec<u8>>, ScriptError> {
    acceptable(text)?;
    let mut words = Vec::new();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let rest = line.strip_prefix(b"#SBATCH").or_else(|| line.strip_prefix(b"#SLURM"));
        match rest {
            Some(rest) => words.extend(words_of_line(rest, number, release)?),
            None if line.trim_ascii_start().first().is_some_and(|byte| *byte != b'#') => break,
            None => {}
        }
    }
    Ok(words)
}

/// Notes about `#SBATCH` lines that sbatch doesn't read, because a command is above them.
pub fn below(text: &[u8]) -> Vec<String> {
    let (mut first, mut document, mut notes) = (None, None, Vec::new());
    for (number, line) in (1_usize..).zip(text.split(|byte| *byte == b'\n')) {
        let line = String::from_utf8_lossy(line);
        match (first, &document) {
            // A script that writes another one.
            (_, Some(end)) => {
                if line.trim() == end {
                    document = None;
                }
                continue;
            }
            (Some(command), None) if line.starts_with("#SBATCH") => notes.push(format!(
                "line {number}: sbatch doesn't read `{}`: line {command} is a command, and #SBATCH lines stand above \
                 all commands",
                line.trim_end()
            )),
            (None, None) if !line.trim_start().is_empty() && !line.trim_start().starts_with('#') => {
                first = Some(number);
            }
            _ => {}
        }
        if let Some((_, end)) = line.split_once("<<").filter(|(before, _)| !before.contains('#')) {
            let end = end.trim_start_matches(['-', ' ', '\'', '"']);
            let word: String = end.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            document = Some(word).filter(|word| !word.is_empty());
        }
    }
    notes
}

/// sbatch also reads the lines of PBS and LSF, anywhere in the script and into other options.
pub fn speaks_another_language(text: &[u8]) -> Option<&'static str> {
    let mut commands = 0;
    for line in text.split(|byte| *byte == b'\n') {
        let found = ["#PBS", "#BSUB"].into_iter().find(|word| line.starts_with(word.as_bytes()));
        if found.is_some() {
            return found;
        }
        commands += usize::from(line.first() != Some(&b'#'));
        if commands > 100 {
            break;
        }
    }
    None
}

fn acceptable(text: &[u8]) -> Result<(), ScriptError> {
    let reason = if text.trim_ascii().is_empty() {
        "it is empty"
    } else if !text.starts_with(b"#!") {
        "its first line does not begin with #!"
    } else if text.contains(&0) {
        "it holds a NUL byte"
    } else if text.windows(2).any(|pair| pair == b"\r\n") {
        "its lines have Windows endings; dos2unix corrects that"
    } else {
        return Ok(());
    };
    Err(ScriptError::Form(reason))
}

fn words_of_line(line: &[u8], number: usize, release: Release) -> Result<Vec<Vec<u8>>, ScriptError> {
    let mut words = Vec::new();
    let mut rest = line.trim_ascii_start();
    let first = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
    if first.eq_ignore_ascii_case(b"hetjob") || first.eq_ignore_ascii_case(b"packjob") {
        return Err(ScriptError::Heterogeneous(number));
    }
    while rest.first().is_some_and(|byte| *byte != b'#') {
        if rest.starts_with(b":") {
            return Err(ScriptError::Heterogeneous(number));
        }
        let (word, after) = word(rest, release).ok_or(ScriptError::OpenQuote(number))?;
        // sbatch ignores the rest of a line after an empty word.
        let Some(word) = word else { break };
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

/// The first word and the rest; `None` if a quote isn't closed.
fn word(line: &[u8], release: Release) -> Option<(Option<Vec<u8>>, &[u8])> {
    let mut word = None;
    let mut quote = None;
    let mut escaped = false;
    let mut rest = line;
    while let Some((byte, after)) = rest.split_first() {
        if quote.is_none() && byte.is_ascii_whitespace() {
            break;
        }
        match (*byte, quote) {
            (byte, _) if escaped => {
                escaped = false;
                word.get_or_insert_with(Vec::new).push(byte);
            }
            (b'\\', _) if after.first() == Some(&b' ') && release >= Release(24, 5) => {
                word.get_or_insert_with(Vec::new).push(b' ');
                rest = after.get(1..).unwrap_or_default();
                continue;
            }
            (b'\\', _) => escaped = true,
            (byte, Some(open)) if byte == open => quote = None,
            (byte @ (b'"' | b'\''), None) => quote = Some(byte),
            (b'#', None) => break,
            (byte, _) => word.get_or_insert_with(Vec::new).push(byte),
        }
        rest = after;
    }
    quote.is_none().then_some((word, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, release: Release) -> Result<String, ScriptError> {
        let words = words(text.as_bytes(), release)?;
        Ok(words.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn a_line_is_split_as_sbatch_splits_it() {
        for (line, expected) in [
            ("--gres=gpu:2 -n 2", "--gres=gpu:2|-n|2"),
            ("\t--qos=q   # a comment", "--qos=q"),
            ("--qos=q#p", "--qos=q"),
            ("--qos=q\\#p", "--qos=q#p"),
            ("--comment='a b' -n2", "--comment=a b|-n2"),
            ("--comment=\"a 'b' #c\" -n2", "--comment=a \\'b\\' #c|-n2"),
            ("--comment=a\\\"b", "--comment=a\\\"b"),
            ("--comment=\"a\\\"b\"", "--comment=a\\\"b"),
            ("--comment=a\\ b -n2", "--comment=a b|-n2"),
            ("--comment=\"\" -n2", "--comment=|-n2"),
            ("\"\" -n2", ""),
            ("", ""),
        ] {
            let text = format!("#!/bin/sh\n#SBATCH {line}\n");
            assert_eq!(shown(&text, Release(24, 11)).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn a_blank_could_not_be_escaped_before_24_05() {
        let text = "#!/bin/sh\n#SBATCH --comment=a\\ b\n";
        assert_eq!(shown(text, Release(23, 11)).as_deref(), Ok("--comment=a|b"));
        assert_eq!(shown(text, Release(24, 5)).as_deref(), Ok("--comment=a b"));
    }

    #[test]
    fn lines_count_up_to_the_first_command() {
        let text = "#!/bin/sh\n# comment\n#SBATCH -n1\n\n  # another\n ##SBATCH -n2\n#SBATCH -n3\ncd /\n#SBATCH -n4\n";
        assert_eq!(shown(text, Release(24, 11)).as_deref(), Ok("-n1|-n3"));
    }

    #[test]
    fn lines_below_a_command_are_named_but_not_those_of_another_script() {
        let text = "#!/bin/sh\n#SBATCH -n1\n\ncd /\n#SBATCH -n4\ncat >x <<'END'\n#SBATCH -n5\nEND\n#SBATCH --mem=4G\n";
        assert_eq!(
            below(text.as_bytes()),
            [("5", "-n4"), ("9", "--mem=4G")].map(|(line, word)| format!(
                "line {line}: sbatch doesn't read `#SBATCH {word}`: line 4 is a command, and #SBATCH lines stand above \
                 all commands"
            ))
        );
        assert_eq!(below(b"#!/bin/sh\n# x << y\n#SBATCH -n1\n#SBATCH -n2\nhostname\n"), [""; 0]);
    }

    #[test]
    fn what_is_no_batch_script_is_said() {
        for (text, part) in [
            ("", "empty"),
            (" \n", "empty"),
            ("hostname\n", "#!"),
            ("#!/bin/sh\n\0", "NUL"),
            ("#!/bin/sh\r\n", "Windows"),
            ("#!/bin/sh\n#SBATCH --comment='a\n", "line 2: a quote"),
            ("#!/bin/sh\n#SBATCH hetjob\n", "heterogeneous"),
            ("#!/bin/sh\n#SBATCH -n1 : -n2\n", "heterogeneous"),
        ] {
            let reason = shown(text, Release(24, 11)).unwrap_err().to_string();
            assert!(reason.contains(part), "{text:?}: {reason}");
        }
    }

    #[test]
    fn lines_for_other_systems_are_seen() {
        assert_eq!(speaks_another_language(b"#!/bin/sh\nhostname\n#PBS -q x\n"), Some("#PBS"));
        assert_eq!(speaks_another_language(b"#!/bin/sh\n#BSUB -q x\n"), Some("#BSUB"));
        assert_eq!(speaks_another_language(b"#!/bin/sh\n #PBS -q x\n"), None);
        let late = [b"#!/bin/sh\n".to_vec(), b"x\n".repeat(101), b"#PBS -q x\n".to_vec()].concat();
        assert_eq!(speaks_another_language(&late), None);
    }
}
