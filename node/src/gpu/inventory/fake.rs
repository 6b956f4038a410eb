//! A node's /dev, /proc and /sys in a temporary directory.

use std::path::Path;

use crate::gpu::Roots;

pub(crate) struct Fake {
    pub(crate) roots: Roots,
    _dir: tempfile::TempDir,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::at(dir.path());
        for folder in [&roots.dev, &roots.proc, &roots.sys] {
            std::fs::create_dir(folder).unwrap();
        }
        Fake { roots, _dir: dir }
    }

    /// Makes `/dev/nvidia<name>`, a link to another character device of this machine: 1:3, 1:5, 1:7, 1:8.
    pub(crate) fn device(&self, name: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.roots.dev.join(format!("nvidia{name}"))).unwrap();
    }

    /// Writes what the driver says about the GPU at a PCI address.
    pub(crate) fn information(&self, pci: &str, text: &str) {
        write(&self.roots.proc.join("driver/nvidia/gpus").join(pci).join("information"), text);
    }

    /// A GPU with normal information from the driver.
    pub(crate) fn gpu(&self, pci: &str, minor: u32) {
        let text = format!("Model: \t\t NVIDIA A40\nGPU UUID: \t GPU-{minor}\nDevice Minor: \t {minor}\n");
        self.information(pci, &text);
    }

    pub(crate) fn capability(&self, gpu: u32, place: &str, text: &str) {
        let folder = self.roots.proc.join(format!("driver/nvidia/capabilities/gpu{gpu}/mig")).join(place);
        write(&folder.join("access"), text);
    }
}

pub(crate) fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}
