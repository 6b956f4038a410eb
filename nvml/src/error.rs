//! Why nothing is told or set, in one line. What the readers of this program tell apart begins with words of our own.

use std::io;
use std::time::Duration;

use gpushare_node::nvml::answer::{NO_DRIVER, NO_LIBRARY};
use nvml_wrapper::error::NvmlError;

const USAGE: &str = "usage: gpushare-nvml [--library PATH] [processes | compute-mode UUID default|exclusive-process | \
                     limit UUID CGROUP MIB]";

gpushare::errors! {
    /// What is wrong with the question, or what failed.
    #[derive(Debug)]
    pub enum RunError {
        Usage => "{USAGE}";
        Thread(error: io::Error) => "no thread can be started: {error}";
        Late(patience: Duration) => "NVML did not answer in {} s", patience.as_secs();
        Nvml(error: NvmlError) => "{}", in_words(error);
        Gpu { uuid: String, error: NvmlError } => "GPU '{}': {}", plain(uuid), in_words(error);
        Cgroup { uuid: String, cgroup: String, error: NvmlError } =>
            "GPU '{}', cgroup '{}': {}", plain(uuid), plain(cgroup), in_words(error);
        Output(error: io::Error) => "standard output: {error}";
    }
}

fn in_words(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(error) => format!("{NO_LIBRARY}: {}", plain(&error.to_string())),
        NvmlError::DriverNotLoaded => NO_DRIVER.to_owned(),
        error => plain(&error.to_string()),
    }
}

fn plain(text: &str) -> String {
    text.trim().replace(char::is_control, " ")
}
