use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const TEXT: &str = "GovernedQOS=normal\n# the end";

fn source() -> Source {
    Source { host: "ctl1".to_owned(), path: "/etc/slurm/gpushare.conf".into() }
}

fn kept() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    assert!(keep(folder.path(), &source(), TEXT, 1_764_014_400).unwrap());
    folder
}

fn broken() -> LoadError {
    LoadError::Content(source().path, Rules::parse("x").unwrap_err())
}

#[test]
fn what_was_kept_is_read() {
    let folder = kept();
    let copy = read(folder.path()).unwrap();
    assert_eq!((copy.text.as_str(), &copy.source, copy.read_at), (TEXT, &source(), 1_764_014_400));
    assert_eq!(copy.path.metadata().unwrap().mode() & 0o7777, 0o600);
    let first = fs::read_to_string(&copy.path).unwrap();
    let first = first.lines().next().unwrap();
    assert_eq!(first, "# gpushare-last-good 1 1764014400 5ef9510d059a55dd ctl1:/etc/slurm/gpushare.conf");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn the_longest_file_is_kept_whole() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source { host: "h".repeat(64), path: format!("/{}", "p".repeat(4000)).into() };
    let text = "#".repeat(usize::try_from(LONGEST).unwrap());
    assert!(keep(folder.path(), &source, &text, 1).unwrap());
    let copy = read(folder.path()).unwrap();
    assert_eq!((copy.text == text, &copy.source), (true, &source));
    let here = Source::here(Path::new("/x"));
    assert_eq!((here.host, here.path), (host_name(), PathBuf::from("/x")));
    assert!(keep(folder.path(), &source, &text.repeat(2), 2).unwrap());
    assert!(matches!(read(folder.path()), Err(NoCopy::Damaged(_))), "longer ones aren't read to their end");
}

#[test]
fn the_same_text_keeps_its_time_and_another_replaces_it() {
    let folder = kept();
    assert!(!keep(folder.path(), &source(), TEXT, 1_764_014_401).unwrap());
    assert_eq!(read(folder.path()).unwrap().read_at, 1_764_014_400);
    assert!(keep(folder.path(), &source(), "", 1_764_014_402).unwrap());
    let copy = read(folder.path()).unwrap();
    assert_eq!((copy.text.as_str(), copy.read_at), ("", 1_764_014_402));
    for (now, text) in
        [(3, "ctl1:/opt/a b:c/gpushare.conf"), (4, "ctl2:/opt/a b:c/gpushare.conf"), (5, "/opt/a:b")]
    {
        let source = Source::parse(text);
        assert_eq!(source.to_string(), text);
        assert!(keep(folder.path(), &source, "", now).unwrap());
        assert_eq!(read(folder.path()).unwrap().source, source);
    }
}

#[test]
fn the_other_controllers_rules_are_told_from_an_edit() {
    let copy = |host: &str| LastGood {
        path: PathBuf::new(),
        read_at: 0,
        source: Source { host: host.to_owned(), ..source() },
        text: TEXT.to_owned(),
    };
    assert!(!host_name().is_empty() && !host_name().contains(['.', '\n']));
    let uname = std::process::Command::new("uname").arg("-n").output().unwrap().stdout;
    assert_eq!(Some(host_name().as_bytes()), uname.trim_ascii().split(|byte| *byte == b'.').next());
    assert!(copy("another").is_of_another("Mode=audit\n"));
    assert!(!copy("another").is_of_another(TEXT), "the same rules");
    assert!(!copy(&host_name()).is_of_another("Mode=audit\n"), "an edit here");
    assert!(!copy("").is_of_another("Mode=audit\n"), "unknown");
}

#[test]
fn what_is_not_as_it_was_written_is_not_trusted() {
    let folder = kept();
    let path = path(folder.path());
    let good = fs::read_to_string(&path).unwrap();
    for bad in [
        String::new(),
        good[..good.len() - 1].to_owned(),
        good.clone() + "\n",
        good.replace("normal", "Normal"),
        good.replace("last-good 1", "last-good 2"),
        good.replace("1764014400", "x"),
        good.replace(" ctl1:/etc/slurm/gpushare.conf", ""),
        TEXT.to_owned(),
        good.clone() + &"#".repeat(2 << 20),
    ] {
        fs::write(&path, &bad).unwrap();
        let error = read(folder.path()).unwrap_err();
        assert!(matches!(error, NoCopy::Damaged(_)), "{bad:.80}: {error}");
        assert!(keep(folder.path(), &source(), TEXT, 1).unwrap(), "it is replaced");
        assert!(read(folder.path()).is_ok());
    }
    fs::write(&path, [b"\xff".as_slice(), good.as_bytes()].concat()).unwrap();
    assert!(matches!(read(folder.path()), Err(NoCopy::Damaged(_))));
}

#[test]
fn what_others_could_have_written_is_not_trusted() {
    let folder = kept();
    let path = path(folder.path());
    for mode in [0o644, 0o620, 0o602, 0o660] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(matches!(read(folder.path()), Err(NoCopy::NotOurs(_))), "{mode:o}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert!(read(folder.path()).is_ok());
    if path.metadata().unwrap().uid() == 0 {
        std::os::unix::fs::chown(&path, Some(2001), None).unwrap();
        assert!(matches!(read(folder.path()), Err(NoCopy::NotOurs(_))), "a user's");
        std::os::unix::fs::chown(folder.path(), Some(2001), None).unwrap();
        assert!(read(folder.path()).is_ok(), "SlurmUser's, in a folder of SlurmUser's");
    } else if std::env::temp_dir().metadata().unwrap().uid() == 0 {
        // Several runs may use the same file; whosever it is, it isn't trusted.
        let shared = std::env::temp_dir();
        let _ = keep(&shared, &source(), TEXT, 1);
        assert!(read(&shared).is_err(), "a user's, in a folder of root's");
        let _ = fs::remove_file(super::path(&shared));
    }
    fs::rename(&path, folder.path().join("other")).unwrap();
    symlink(folder.path().join("other"), &path).unwrap();
    assert!(matches!(read(folder.path()), Err(NoCopy::NotOurs(_))), "a link");
    fs::remove_file(&path).unwrap();
    assert!(matches!(read(folder.path()), Err(NoCopy::None)));
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    assert!(matches!(read(folder.path()), Err(NoCopy::NotOurs(_))), "a folder");
    assert!(matches!(read(&folder.path().join("missing")), Err(NoCopy::None)));
    assert!(keep(&folder.path().join("missing"), &source(), TEXT, 1).is_err());
}

#[test]
fn the_copy_is_used_where_the_file_is_broken_or_missing() {
    let folder = kept();
    let copy = || read(folder.path());
    let other = Rules::parse("GovernedQOS=other").unwrap();
    let chosen = choose(Ok(Some((other.clone(), "its text".to_owned()))), copy()).unwrap();
    assert!(matches!(chosen, (rules, Origin::File(text)) if rules == other && text == "its text"));
    let expected = Rules::parse(TEXT).unwrap();
    for (found, is_missing) in [(Err(broken()), false), (Ok(None), true)] {
        let (rules, Origin::LastGood(used, why)) = choose(found, copy()).unwrap() else { panic!() };
        assert_eq!((rules, used, why.is_none()), (expected.clone(), copy().unwrap(), is_missing));
    }
    let said = choose(Err(broken()), Err(NoCopy::None)).unwrap_err().to_string();
    assert_eq!(said, format!("{}; {}", broken(), NoCopy::None));
    assert!(matches!(choose(Ok(None), Err(NoCopy::None)).unwrap(), (_, Origin::Defaults(NoCopy::None))));
    keep(folder.path(), &source(), "GouvernedQOS=x\n", 1).unwrap();
    let said = choose(Err(broken()), copy()).unwrap_err().to_string();
    assert!(said.contains("gpushare_last_good, below its first line: line 1: unknown key"), "{said}");
    assert!(matches!(choose(Ok(None), copy()).unwrap(), (_, Origin::Defaults(NoCopy::Content(..)))));
}

/// Set for the process that [`whoever_is_killed_while_writing_leaves_a_whole_copy`] kills.
const FOLDER: &str = "GPUSHARE_TEST_LAST_GOOD_FOLDER";

fn long(round: u64) -> String {
    format!("# {round}\n").repeat(10_000)
}

#[test]
fn whoever_is_killed_while_writing_leaves_a_whole_copy() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        for round in 0.. {
            keep(Path::new(&folder), &source(), &long(round), round).unwrap();
        }
    }
    let folder = kept();
    let name = "config::last_good::tests::whoever_is_killed_while_writing_leaves_a_whole_copy";
    for kill in 0..8 {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name]).env(FOLDER, folder.path()).stdout(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        // Each process is killed at another point: after it has made a certain number of files.
        let first = path(folder.path()).metadata().unwrap().ino();
        while path(folder.path()).metadata().unwrap().ino() == first {
            assert!(child.try_wait().unwrap().is_none());
        }
        (0..kill * 10_000).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        child.wait().unwrap();
        let copy = read(folder.path()).unwrap();
        assert_eq!(copy.text, long(copy.read_at), "after kill {kill}");
    }
}

#[test]
fn a_copy_that_can_not_be_looked_at_is_not_none() {
    let file = kept().path().join("StateSaveLocation");
    let found = read(&Path::new("/dev/null").join(file.file_name().unwrap())).unwrap_err();
    assert!(matches!(found, NoCopy::Read(..)), "{found}");
}
