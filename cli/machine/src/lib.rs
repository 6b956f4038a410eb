//! This machine as gpushare sees it: the whole of gpushare.conf (`config`), and the GPUs with what the ledger and NVML
//! say of them (`local`). Prints nothing.
#![forbid(unsafe_code)]

pub mod config;
pub mod local;
pub mod textfile;
