//! Fake nodes, whose GPUs are character devices that every machine has.

use super::fake::{Fake, write};
use super::*;
use crate::config::GpuFiles;
use crate::gpu::Device;
use crate::gpu::foreign::Foreign;
use crate::gpu::gres_conf;
use crate::gpu::pci::numa;

fn listed(files: &str) -> Files {
    Files::of(&GpuFiles::parse(files).unwrap(), None, None).unwrap()
}

fn counted(text: &str) -> Files {
    let file = Path::new("gres.conf");
    gres_conf::parse(file, text, Some("n1"), &|_| Err(gres_conf::Problem::Line)).unwrap()
}

fn names(inventory: &Inventory) -> Vec<String> {
    let name = |detail: &Detail| detail.path.file_name().unwrap().display().to_string();
    inventory.details.iter().map(name).collect()
}

#[test]
fn device_numbers_come_from_the_device_nodes() {
    let fake = Fake::new();
    let gpus = inventory(&listed("/dev/zero,/dev/null"), &fake.roots).unwrap().gpus();
    let numbers: Vec<String> = gpus.iter().map(|gpu| gpu.number.to_string()).collect();
    assert_eq!(numbers, ["1:5", "1:3"]);
    assert_eq!(gpus.iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn what_the_driver_says_is_found_by_minor() {
    let fake = Fake::new();
    fake.gpu("0000:01:00.0", 3);
    fake.gpu("00000000:C2:00.0", 5);
    fake.information("0000:03:00.0", "GPU UUID: ../x\nDevice Minor: 7\n");
    fake.information("0000:04:00.0", "Device Minor: many\n");
    fake.information("not-an-address", "GPU UUID: GPU-7\nDevice Minor: 7\n");
    std::fs::create_dir(fake.roots.proc.join("driver/nvidia/gpus/0000:05:00.0")).unwrap();
    write(&fake.roots.sys.join("bus/pci/devices/0000:01:00.0/numa_node"), "1\n");
    write(&fake.roots.sys.join("bus/pci/devices/0000:c2:00.0/numa_node"), "-1\n");
    let found = inventory(&listed("/dev/zero,/dev/null,/dev/full,/dev/random"), &fake.roots).unwrap();
    let line = |detail: &Detail| {
        let Detail { uuid, pci, model, unfit, .. } = detail;
        let text = |field: &Option<String>| field.as_deref().unwrap_or("-").to_owned();
        (
            text(uuid),
            text(pci),
            text(model),
            pci.as_deref().and_then(|pci| numa(&fake.roots, pci)),
            unfit.clone(),
        )
    };
    let owned = |uuid: &str, pci: &str, model: &str, numa| {
        (uuid.to_owned(), pci.to_owned(), model.to_owned(), numa, None)
    };
    assert_eq!(
        found.details.iter().map(line).collect::<Vec<_>>(),
        [
            owned("GPU-5", "0000:c2:00.0", "NVIDIA A40", None),
            owned("GPU-3", "0000:01:00.0", "NVIDIA A40", Some(1)),
            owned("-", "0000:03:00.0", "-", None),
            owned("-", "-", "-", None),
        ]
    );
}

#[test]
fn auto_is_every_numbered_node_and_not_the_drivers_others() {
    let fake = Fake::new();
    for (name, target) in [("10", "/dev/full"), ("0", "/dev/null"), ("2", "/dev/zero")] {
        fake.device(name, target);
    }
    for other in ["ctl", "-uvm", "-modeset"] {
        fake.device(other, "/dev/random");
    }
    let found = inventory(&Files::default(), &fake.roots).unwrap();
    assert_eq!(names(&found), ["nvidia0", "nvidia2", "nvidia10"]);
    fake.gpu("0000:01:00.0", 3);
    let again = inventory(&Files::default(), &fake.roots).unwrap();
    assert_eq!(names(&again), names(&found), "nvidia0 has minor 3 here and isn't missing as nvidia3");
}

#[test]
fn a_gpu_that_vanishes_keeps_its_index_and_the_others_go_on() {
    let fake = Fake::new();
    let found = inventory(&listed("/dev/null,/dev/no-such-gpu,/etc/passwd,/dev/zero"), &fake.roots).unwrap();
    let unfit: Vec<Option<Unfit>> = found.details.iter().map(|detail| detail.unfit.clone()).collect();
    assert_eq!(unfit, [None, Some(Unfit::Missing(io::ErrorKind::NotFound)), Some(Unfit::NoDevice), None]);
    assert_eq!(found.count(), 4);
    assert_eq!(found.gpus().iter().map(|gpu| gpu.index).collect::<Vec<_>>(), [0, 3]);
    // Under `auto` the driver must know it too.
    fake.device("0", "/dev/null");
    fake.device("2", "/dev/zero");
    fake.gpu("0000:01:00.0", 1);
    let found = inventory(&Files::default(), &fake.roots).unwrap();
    assert_eq!(names(&found), ["nvidia0", "nvidia1", "nvidia2"]);
    assert_eq!(found.details[1].uuid.as_deref(), Some("GPU-1"), "so that a person can tell which");
    assert!(found.details[1].gpu().is_none());
}

#[test]
fn a_node_without_any_gpu_is_an_error() {
    let fake = Fake::new();
    assert!(matches!(inventory(&Files::default(), &fake.roots), Err(DeviceError::None)));
    for files in ["/etc/passwd", "/dev/no-such-gpu,/dev/nor-this"] {
        assert!(matches!(inventory(&listed(files), &fake.roots), Err(DeviceError::NoneThere(..))), "{files}");
    }
    let nowhere = Roots::at(Path::new("/nonexistent"));
    assert!(matches!(inventory(&Files::default(), &nowhere), Err(DeviceError::List(..))));
}

#[test]
fn autodetect_orders_gpus_as_slurmd_does() {
    // Minors 3, 5 and 7 are in the order of names; their PCI addresses may be in another.
    for (autodetect, addresses, expected) in [
        ("off", ["03", "01", "02"], Some(["nvidia10", "nvidia2", "nvidia1"])),
        ("nvidia", ["03", "01", "02"], None),
        ("nvml", ["03", "01", "02"], Some(["nvidia2", "nvidia10", "nvidia1"])),
        ("nvml", ["01", "02", "03"], Some(["nvidia1", "nvidia2", "nvidia10"])),
        ("nvml", ["01", "02", ""], Some(["nvidia1", "nvidia2", "nvidia10"])),
        ("nvml", ["02", "01", ""], None),
        ("full", ["01", "02", "03"], Some(["nvidia1", "nvidia2", "nvidia10"])),
        ("full", ["03", "01", "02"], None),
    ] {
        let fake = Fake::new();
        let devices = [("1", "/dev/null"), ("2", "/dev/zero"), ("10", "/dev/full")];
        for (((name, target), minor), bus) in devices.into_iter().zip([3, 5, 7]).zip(addresses) {
            fake.device(name, target);
            if !bus.is_empty() {
                fake.gpu(&format!("0000:{bus}:00.0"), minor);
            }
        }
        let dev = fake.roots.dev.display();
        let text = format!("AutoDetect={autodetect}\nName=gpu File={dev}/nvidia10,{dev}/nvidia[2,1]\n");
        let found = inventory(&counted(&text), &fake.roots);
        match expected {
            Some(expected) => assert_eq!(names(&found.unwrap()), expected, "{text} {addresses:?}"),
            None => assert!(matches!(found, Err(DeviceError::Order)), "{text} {addresses:?}"),
        }
        let text = format!("AutoDetect=nvidia\nName=gpu File={dev}/nvidia[1-2],{dev}/nvidia10\n");
        let sorted = inventory(&counted(&text), &fake.roots).unwrap();
        assert_eq!(names(&sorted), ["nvidia1", "nvidia2", "nvidia10"], "as listed, and by name");
    }
}

#[test]
fn a_gpu_in_mig_mode_takes_no_share_and_its_parts_keep_their_indices() {
    let fake = Fake::new();
    fake.capability(3, "gi1", "DeviceFileMinor: 12\n");
    let found = inventory(&listed("/dev/null,/dev/zero"), &fake.roots).unwrap();
    assert_eq!(found.details[0].unfit, Some(Unfit::MigEnabled));
    assert_eq!(found.details[1].unfit, None);
    assert_eq!(found.gpus().len(), 2, "it is there all the same");
    let parts = "Name=gpu MultipleFiles=/dev/full,/dev/x\nName=gpu MultipleFiles=/dev/full,/dev/y\n\
                 Name=gpu File=/dev/zero\n";
    let found = inventory(&counted(parts), &fake.roots).unwrap();
    assert_eq!(names(&found), ["full", "full", "zero"]);
    let unfit: Vec<Option<Unfit>> = found.details.iter().map(|detail| detail.unfit.clone()).collect();
    assert_eq!(unfit, [Some(Unfit::MigEnabled), Some(Unfit::MigEnabled), None]);
    for (autodetect, files, counts_parts) in [
        ("nvml", "/dev/null,/dev/zero", true),
        ("full", "/dev/null,/dev/zero", true),
        ("nvml", "/dev/null", true),
        ("nvml", "/dev/zero", false),
        ("nvidia", "/dev/null,/dev/zero", false),
    ] {
        let text = format!("AutoDetect={autodetect}\nName=gpu File={files}\n");
        let found = inventory(&counted(&text), &fake.roots);
        assert_eq!(matches!(found, Err(DeviceError::Parts)), counts_parts, "{text} {found:?}");
        assert_eq!(found.is_err(), counts_parts, "{text}");
    }
}

#[test]
fn a_fence_closes_all_that_is_not_the_jobs() {
    let fake = Fake::new();
    fake.device("0", "/dev/null");
    fake.device("1", "/dev/zero");
    fake.device("2", "/dev/full");
    std::fs::write(fake.roots.dev.join("nvidia3"), "").unwrap();
    write(&fake.roots.proc.join("devices"), "237 nvidia-caps\n");
    for (bus, minor) in [(1, 3), (2, 5), (3, 7)] {
        let pci = format!("0000:0{bus}:00.0");
        fake.gpu(&pci, minor);
        let drm = fake.roots.sys.join("bus/pci/devices").join(pci).join("drm");
        write(&drm.join(format!("renderD{}/dev", 127 + bus)), &format!("226:{}\n", 127 + bus));
        fake.capability(minor, "gi1", &format!("DeviceFileMinor: {}\n", 10 * minor));
    }
    // Slurm counts two of the three GPUs.
    let dev = fake.roots.dev.display();
    let files = GpuFiles::parse(&format!("{dev}/nvidia1,{dev}/nvidia0")).unwrap();
    let found = inventory(&Files::of(&files, None, None).unwrap(), &fake.roots).unwrap();
    let show = |devices: &[Device]| devices.iter().map(|it| it.number.to_string()).collect::<Vec<_>>();
    let all = Foreign::to(&[], &files, false, &fake.roots).unwrap();
    assert_eq!(show(&all.gpus), ["1:5", "1:3", "1:7"]);
    let own = &found.gpus()[..1];
    let foreign = Foreign::to(own, &files, true, &fake.roots).unwrap();
    assert_eq!(show(&foreign.gpus), ["1:3", "1:7"]);
    assert_eq!(show(&foreign.attached), ["237:30", "226:128", "237:70", "226:130"]);
    let foreign = Foreign::to(own, &files, false, &fake.roots).unwrap();
    assert_eq!(show(&foreign.attached), ["237:30", "237:70"]);
}

#[test]
fn a_gpu_that_the_driver_excludes_takes_no_share_and_nvml_does_not_count_it() {
    let fake = Fake::new();
    fake.device("3", "/dev/null");
    fake.device("5", "/dev/zero");
    fake.gpu("0000:02:00.0", 5);
    let excluded =
        "GPU UUID: \t GPU-????????-????-????-????-????????????\nDevice Minor: \t 3\nGPU Excluded:\t Yes\n";
    fake.information("0000:01:00.0", excluded);
    let seen = |files: &Files| {
        let found = inventory(files, &fake.roots).unwrap();
        let unfit: Vec<_> = found.details.iter().map(|detail| detail.unfit.clone()).collect();
        (names(&found), unfit)
    };
    let both = (vec!["nvidia3".to_owned(), "nvidia5".to_owned()], vec![Some(Unfit::Excluded), None]);
    assert_eq!(seen(&Files::default()), both, "it keeps its index");
    assert_eq!(seen(&counted("AutoDetect=nvidia")), both, "gpu/nvidia reads /proc as well");
    assert_eq!(seen(&counted("AutoDetect=nvml")), (vec!["nvidia5".to_owned()], vec![None]));
    assert!(matches!(inventory(&counted("AutoDetect=full"), &fake.roots), Err(DeviceError::Order)));
    fake.information("0000:01:00.0", &excluded.replace("GPU Excluded:", "Blacklisted:"));
    assert_eq!(seen(&counted("AutoDetect=nvml")).0, ["nvidia5"]);
    fake.information("0000:01:00.0", &excluded.replace("Yes", "No"));
    assert_eq!(seen(&counted("AutoDetect=nvml")).0, ["nvidia3", "nvidia5"]);
}

#[test]
fn a_gpu_that_the_driver_lost_is_unknown_to_it() {
    let fake = Fake::new();
    let number = |major, minor| DeviceNumber { major, minor };
    assert!(!is_unknown(number(195, 1), &driver::known(&fake.roots)), "no driver tells");
    fake.gpu("0000:01:00.0", 1);
    let known = driver::known(&fake.roots);
    for (number, expected) in [(number(195, 1), false), (number(195, 2), true), (number(1, 2), false)] {
        assert_eq!(is_unknown(number, &known), expected, "{number:?}");
    }
}
