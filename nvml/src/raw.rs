//! Calls that nvml-wrapper lacks, through the library that it has loaded: this program's only unsafe code.
#![allow(unsafe_code, reason = "two calls of a C library, with memory of these functions")]

use std::ffi::{CString, c_char};

use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::{Device, Nvml};

/// `nvmlDevice_t`: an opaque pointer of the library.
type Handle = *mut std::ffi::c_void;
/// `nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits)`, NVML API
/// reference, Device Queries; in drivers from 615 on.
type SetMemoryLimits = unsafe extern "C" fn(Handle, *mut MemoryLimits) -> u32;
const SET_MEMORY_LIMITS: &[u8] = b"nvmlDeviceSetMemoryLimits_v1\0";

/// `nvmlSetMemoryLimits_v1_t`, NVML API reference.
#[repr(C)]
struct MemoryLimits {
    /// "Full path to sysfs cgroup file name"; NVIDIA's examples give the cgroup's directory.
    name_space: *const c_char,
    /// Bytes that are reserved for the cgroup.
    soft_limit: u64,
    /// The maximum for the cgroup, in bytes.
    hard_limit: u64,
}

/// Whether the library can limit GPU memory for a cgroup.
pub fn can_limit_memory(nvml: &Nvml) -> bool {
    set_memory_limits(nvml).is_ok()
}

fn set_memory_limits(nvml: &Nvml) -> Result<SetMemoryLimits, NvmlError> {
    // SAFETY: dlsym(3) through libloading. The type is that of the function in the NVML API reference, and NVIDIA
    // promises with the `_v1` in its name that it stays so. The pointer is used only while `nvml` keeps the library
    // loaded: it is never unloaded before the process ends (`main`).
    let symbol = unsafe { nvml.lib().__library.get::<SetMemoryLimits>(SET_MEMORY_LIMITS) };
    symbol.map(|symbol| *symbol).map_err(|_| NvmlError::FunctionNotFound)
}

/// Limits how much of a GPU's memory the processes of a cgroup can have. Reserves nothing for them (soft limit 0): a
/// reservation would have to be taken back by hand from the cgroup's parents before the cgroup is removed.
///
/// # Errors
/// The library has no such function, or refuses.
pub fn limit_memory(nvml: &Nvml, device: &Device, cgroup: &str, bytes: u64) -> Result<(), NvmlError> {
    let set = set_memory_limits(nvml)?;
    let path = CString::new(cgroup)?;
    let mut limits = MemoryLimits { name_space: path.as_ptr(), soft_limit: 0, hard_limit: bytes };
    // SAFETY: the handle is only passed on, while `nvml` lives, from which `device` came.
    let handle = unsafe { device.handle() }.cast();
    // SAFETY: NVML API reference, nvmlDeviceSetMemoryLimits_v1: reads one nvmlSetMemoryLimits_v1_t, which and whose
    // string live until the call is over.
    nvml_try(unsafe { set(handle, &raw mut limits) })
}

/// The total memory and how much of it is in use, in bytes, for a driver without `nvmlDeviceGetMemoryInfo_v2` (before
/// 510).
///
/// # Errors
/// The library has no such function, or refuses.
#[doc(alias = "nvmlDeviceGetMemoryInfo")]
pub fn memory_info_v1(nvml: &Nvml, device: &Device) -> Result<(u64, u64), NvmlError> {
    let call = nvml_sym(nvml.lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    // SAFETY: nvmlMemory_t is three numbers (nvml.h), for which zeros are a valid value.
    let mut memory = unsafe { std::mem::zeroed() };
    // SAFETY: the handle is only passed on, while `nvml` lives, from which `device` came.
    let handle = unsafe { device.handle() };
    // SAFETY: NVML API reference, nvmlDeviceGetMemoryInfo: writes one nvmlMemory_t, which lives until the call is over.
    nvml_try(unsafe { call(handle, &raw mut memory) })?;
    Ok((memory.total, memory.used))
}
