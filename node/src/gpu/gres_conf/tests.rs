//! gres.conf as sites write it, and arbitrary text.

use super::*;
use proptest::prelude::*;

fn no_include(name: &str) -> Result<String, Problem> {
    match name {
        "gpus.conf" => Ok("Name=gpu File=/dev/nvidia9\n# more\n".to_owned()),
        "nested.conf" => Ok("Include gpus.conf\n".to_owned()),
        "bad.conf" => Ok("Name=nic File=/dev/x\nName=gpu File=/dev/nvidia[\n".to_owned()),
        _ => Err(Problem::Unreadable(io::ErrorKind::NotFound)),
    }
}

fn read_as(text: &str, node: Option<&str>) -> Result<Files, GresConfError> {
    parse(Path::new("/etc/slurm/gres.conf"), text, node, &no_include)
}

/// The numbers of /dev/nvidiaN in order, with `p` for a part; `-` if every GPU counts.
fn numbers(text: &str) -> Result<String, Problem> {
    let counted = read_as(text, Some("node03")).map_err(|error| error.problem)?;
    let Some(slots) = counted.slots else { return Ok("-".to_owned()) };
    let number = |slot: &Slot| {
        let path = slot.path.display().to_string();
        format!("{}{}", path.trim_start_matches("/dev/nvidia"), if slot.part { "p" } else { "" })
    };
    Ok(slots.iter().map(number).collect::<Vec<_>>().join(" "))
}

#[test]
fn the_order_of_gpus_is_slurms() {
    for (text, expected) in [
        ("", "-"),
        ("# nothing\n", "-"),
        ("Name=nic File=/dev/x[0-3]\n", "-"),
        ("Name=gpu Count=4\n", "-"),
        ("Name=gpu File=/dev/nvidia[0-3]\n", "0 1 2 3"),
        ("name=GPU file=/dev/nvidia[2-3,0] # a comment\n", "2 3 0"),
        ("Name=gpu Type=a40 File=/dev/nvidia2\nName=gpu Type=a40 File=/dev/nvidia1 Cores=0-7\n", "2 1"),
        ("Name=gpu Files=/dev/nvidia1\nName=mps Count=100 File=/dev/nvidia1\n", "1"),
        ("Name=gpu File=/dev/nvidia0 file=/dev/nvidia1\n", "1"),
        ("Name=\"gpu\" File=\"/dev/nvidia0,/dev/nvidia5\"\n", "0 5"),
        ("Name=gpu \\\n  File=/dev/nvidia[0-1] \\\n  Cores=0-3\n", "0 1"),
        ("NodeName=node[01-04,7] Name=gpu File=/dev/nvidia1\n", "1"),
        ("NodeName=node[04-07] Name=gpu File=/dev/nvidia1\n", "-"),
        ("NodeName=node3 Name=gpu File=/dev/nvidia1\n", "-"),
        ("NodeName=node03 Name=gpu File=/dev/nvidia1\nName=gpu File=/dev/nvidia0\n", "0 1"),
        ("nodename=node03 Name=gpu File=/dev/nvidia1\nNodeName=node03 File=/dev/nvidia0 Name=gpu\n", "1 0"),
        ("NodeName=rack[0-1]n[0-3] Name=gpu File=/dev/nvidia[\nName=gpu File=/dev/nvidia0\n", "0"),
        ("NodeName=node[ Name=nic File=/dev/x\nName=gpu File=/dev/nvidia0\n", "0"),
        ("Name=gpu File=/dev/nvidia1\nInclude gpus.conf\nName=gpu File=/dev/nvidia0\n", "1 9 0"),
        ("AutoDetect=off\nName=gpu File=/dev/nvidia0\n", "0"),
        ("Name=gpu File=/dev/nvidia0 AutoDetect=nvml\nName=gpu Type= \"\" \n", "0"),
        (
            "Name=gpu MultipleFiles=/dev/nvidia-caps/nvidia-cap12,/dev/nvidia0\nName=gpu File=/dev/nvidia1\n",
            "0p 1",
        ),
        ("Name=gpu MultipleFiles=/dev/nvidia0,/dev/a\nName=gpu MultipleFiles=/dev/nvidia0,/dev/b\n", "0p 0p"),
    ] {
        assert_eq!(numbers(text).as_deref(), Ok(expected), "{text:?}");
    }
}

#[test]
fn what_is_not_certain_is_an_error() {
    let files = |value: &str| Problem::Files(value.to_owned());
    for (text, expected) in [
        ("gpu File=/dev/nvidia0\n", Problem::Line),
        ("File=/dev/nvidia0 Name=gpu\n", Problem::Line),
        ("Name=gpu File=/dev/nvidia0 rest\n", Problem::Line),
        ("Name=gpu File=/dev/nvidia0 NodeName=node03\n", Problem::Line),
        ("Name=gpu File=/dev/nvidia0 Colour=red\n", Problem::Line),
        ("Name=gpu File=\"/dev/nvidia0\n", Problem::Line),
        ("Name=gpu File+=/dev/nvidia0\n", Problem::Line),
        ("AutoDetect=nvml Name=gpu\n", Problem::Line),
        ("Name=gpu File=/dev/nvidia0 MultipleFiles=/dev/nvidia1,/dev/x\n", Problem::Line),
        ("Name=gpu File=/dev/nvidia[0-3\n", files("/dev/nvidia[0-3")),
        ("Name=gpu File=/dev/nvidia0-3]\n", files("/dev/nvidia0-3]")),
        ("Name=gpu File=/dev/n[0-1]x[0-1]\n", files("/dev/n[0-1]x[0-1]")),
        ("Name=gpu File=nvidia0\n", files("nvidia0")),
        ("Name=gpu File=\"/dev/nvidia0 /dev/nvidia1\"\n", files("/dev/nvidia0 /dev/nvidia1")),
        ("Name=gpu File=/dev/nvidia[0-9999999]\n", files("/dev/nvidia[0-9999999]")),
        (
            "NodeName=node[0-1]x[0-1] Name=gpu File=/dev/nvidia0\n",
            Problem::Nodes("node[0-1]x[0-1]".to_owned()),
        ),
        ("NodeName=node[01 Name=gpu File=/dev/nvidia0\n", Problem::Nodes("node[01".to_owned())),
        ("Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia0\n", Problem::Twice("/dev/nvidia0".into())),
        ("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n", Problem::SeveralTypes),
        ("Name=gpu Type=a File=/dev/nvidia0\nName=gpu File=/dev/nvidia1\n", Problem::SeveralTypes),
        ("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=A File=/dev/nvidia1\n", Problem::SeveralTypes),
        ("AutoDetect=nvml\nName=gpu MultipleFiles=/dev/nvidia0,/dev/x\n", Problem::PartsDetected),
        ("Include nested.conf\n", Problem::Include("gpus.conf".to_owned())),
        ("Include gpus-%h.conf\n", Problem::Include("gpus-%h.conf".to_owned())),
        ("Include gpus\u{1b}.conf\n", Problem::Include("gpus\u{1b}.conf".to_owned())),
        ("Include *.conf\n", Problem::Include("*.conf".to_owned())),
        ("Include gone.conf\n", Problem::Unreadable(io::ErrorKind::NotFound)),
        ("Name=gpu File=/dev/nvidia\u{1}\n", Problem::NotText),
        ("Name=gpu File=/dev/a[0-250]\nName=gpu File=/dev/b[0-250]\n", Problem::TooMuch),
    ] {
        assert_eq!(numbers(text), Err(expected), "{text:?}");
    }
}

#[test]
fn autodetect_decides_the_order_and_the_nodes_own_goes_first() {
    let global = |value: &str| format!("AutoDetect={value}\n");
    for (text, order, listed) in [
        (global("nvml"), Order::Pci, false),
        (global("NVML"), Order::Pci, false),
        (global("nvidia"), Order::Name, false),
        (global("full"), Order::NameOrPci, false),
        (global("off"), Order::Listed, false),
        (global("nonsense"), Order::Listed, false),
        (
            global("nvml") + "NodeName=node[01-05] AutoDetect=off\nName=gpu File=/dev/nvidia0\n",
            Order::Listed,
            true,
        ),
        (
            global("nvml") + "NodeName=node[04-05] AutoDetect=off\nName=gpu File=/dev/nvidia0\n",
            Order::Pci,
            true,
        ),
        (
            "NodeName=node03 AutoDetect=nvidia Name=gpu File=/dev/nvidia0\nAutoDetect=off\n".into(),
            Order::Name,
            true,
        ),
        (global("nvml") + "Name=gpu File=/dev/nvidia0\nName=gpu Type=a40\n", Order::Pci, false),
        (
            global("nvml") + "Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1\n",
            Order::Pci,
            true,
        ),
    ] {
        let counted = read_as(&text, Some("node03")).unwrap();
        assert_eq!((counted.order, counted.slots.is_some()), (order, listed), "{text}");
    }
}

#[test]
fn a_node_without_a_name_has_only_the_lines_for_all() {
    assert!(read_as("NodeName=n1 Name=nic File=/dev/x\nName=gpu File=/dev/nvidia0\n", None).is_ok());
    for line in ["NodeName=n1 Name=gpu File=/dev/nvidia0\n", "NodeName=n1 AutoDetect=nvml\n"] {
        assert_eq!(read_as(line, None).unwrap_err().problem, Problem::NodeUnknown, "{line}");
    }
}

#[test]
fn an_error_names_file_and_line_and_what_to_do() {
    let text = "# GPUs\n\nName=nic File=/dev/x\nName=gpu \\\n File=/dev/nvidia[0-\n";
    assert_eq!(
        read_as(text, None).unwrap_err().to_string(),
        "/etc/slurm/gres.conf line 4: the files '/dev/nvidia[0-' can't be read; name the GPUs in Slurm's order with \
         GpuFile= in gpushare.conf"
    );
    let error = read_as("Include bad.conf\n", None).unwrap_err();
    assert!(error.to_string().starts_with("/etc/slurm/bad.conf line 2: "), "{error}");
}

#[test]
fn a_file_is_read_with_those_that_it_includes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gres.conf");
    assert_eq!(load(&path, None), Ok(Files::default()));
    std::fs::write(&path, "Include more.conf\n").unwrap();
    assert!(
        matches!(load(&path, None), Err(GresConfError { line: Some(1), .. })),
        "the included file is missing"
    );
    std::fs::write(dir.path().join("more.conf"), "Name=gpu File=/dev/nvidia[1,0]\n").unwrap();
    assert_eq!(load(&path, None).unwrap().slots.unwrap().len(), 2);
    std::fs::write(&path, b"Name=gpu\xff\n").unwrap();
    assert_eq!(load(&path, None).unwrap_err().problem, Problem::NotText);
    std::fs::write(&path, vec![b'\n'; (1 << 20) + 1]).unwrap();
    assert_eq!(load(&path, None).unwrap_err().problem, Problem::TooMuch);
    assert!(load(dir.path(), None).is_err(), "a folder");
}

proptest! {
    #[test]
    fn any_text_is_an_order_or_an_error(text in "\\PC*") {
        let _ = read_as(&text, Some("n1"));
    }

    #[test]
    fn any_words_of_gres_conf_are_an_order_or_an_error(words in prop::collection::vec(prop::sample::select(vec![
        "Name", "NodeName", "File", "MultipleFiles", "AutoDetect", "Include", "gpu", "=", "\"", "\\", "\n", " ", "#",
        "n[1-3]", "n1", "[", "]", ",", "-", "/dev/nvidia", "0", "[0-3]", "nvml", "Type", "\r\n", "gpus.conf",
        "nested.conf",
    ]), 0..40)) {
        if let Ok(Files { slots: Some(slots), .. }) = read_as(&words.concat(), Some("n1")) {
            prop_assert!(!slots.is_empty() && slots.len() <= crate::gpu::roots::MOST);
        }
    }

    #[test]
    fn lines_for_this_node_add_up_in_their_order(
        lines in prop::collection::vec((0_u8..3, any::<bool>(), any::<bool>()), 1..20)
    ) {
        let (mut all, mut own) = (Vec::new(), Vec::new());
        let mut text = String::new();
        for (number, (nodes, folded, comment)) in lines.into_iter().enumerate() {
            let begin = match nodes {
                0 => { all.push(number.to_string()); "" }
                1 => { own.push(number.to_string()); "NodeName=node[01-04] " }
                _ => "NodeName=node[05-99],login[1-2] ",
            };
            let middle = if folded { " \\\n\t" } else { " " };
            let end = if comment { " # Name=gpu File=/dev/nvidia0" } else { "" };
            text.push_str(&format!("{begin}Name=gpu{middle}File=/dev/nvidia{number}{end}\n"));
        }
        all.extend(own);
        let expected = if all.is_empty() { "-".to_owned() } else { all.join(" ") };
        prop_assert_eq!(numbers(&text).unwrap(), expected);
    }
}

#[test]
fn auto_is_the_order_of_gres_conf_only_where_there_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gres.conf");
    let here = |files: &GpuFiles| Files::of(files, Some(&path), Some("n1")).unwrap();
    assert_eq!(here(&GpuFiles::Auto), Files::default(), "every GPU");
    std::fs::write(&path, "Name=gpu File=/dev/nvidia[1,0]\n").unwrap();
    let counted = ["/dev/nvidia1", "/dev/nvidia0"].map(|path| Slot::whole(path.into()));
    assert_eq!(here(&GpuFiles::Auto).slots, Some(counted.to_vec()));
    assert_eq!(Files::of(&GpuFiles::Auto, None, Some("n1")).unwrap(), Files::default());
    let listed = here(&GpuFiles::parse("/dev/nvidia0").unwrap());
    assert_eq!(listed.slots, Some(counted[1..].to_vec()), "what the administrator lists counts");
    std::fs::write(&path, "Name=gpu File=/dev/nvidia[1,0\n").unwrap();
    assert!(Files::of(&GpuFiles::Auto, Some(&path), Some("n1")).is_err());
}
