//! Writes the bindings: only what the project uses, with C's names, and bindgen's layout assertions on.

use std::path::{Path, PathBuf};

const TYPES: [&str; 9] = [
    "job_defaults_t",
    "job_desc_msg_t",
    "job_info_msg_t",
    "partition_info_msg_t",
    "slurm_conf_t",
    "slurm_err_t",
    "slurmdb_assoc_rec_t",
    "slurmdb_qos_rec_t",
    "spank_t",
];
const FUNCTIONS: [&str; 19] = [
    "slurm_(info|error|debug)",
    "slurm_(xcalloc|xfree|xstrdup)",
    "spank_remote|spank_context",
    "spank_get_item",
    "spank_getenv",
    "spank_setenv",
    "spank_unsetenv",
    "spank_option_register",
    "assoc_mgr_(lock|unlock)",
    "assoc_mgr_fill_in_(assoc|qos)",
    "assoc_mgr_get_default_qos_info",
    "slurm_list_(iterator_create|next|iterator_destroy)",
    "slurm_(free|init)_job_desc_msg",
    "copy_job_record_to_job_desc",
    "(init|free)_buf",
    "find_part_record|pack_part",
    "find_node_record2|find_job_array_rec",
    "pack_job|slurm_msg_t_init|unpack_msg",
    "slurm_free_(job|partition)_info_msg",
];
const VARIABLES: [&str; 18] = [
    "SLURM_VERSION_NUMBER",
    "SLURM_SUCCESS|ESPANK_SUCCESS",
    "NO_VAL(16|64)?|INFINITE(64)?",
    "SLURM_BATCH_SCRIPT",
    "SLURM_EXTERN_CONT",
    "SLURM_INTERACTIVE_STEP",
    "slurm_conf",
    "assoc_mgr_(assoc|qos)_list",
    "assoc_mgr_tres_name_array",
    "g_tres_count",
    "acct_db_conn",
    "accounting_enforce",
    "control_time",
    "default_part_name|part_list|last_part_update",
    "OPEN_MODE_APPEND|JOB_SHARED_NONE|JOB_USE_MIN_NODES|JOB_SPREAD|JOB_ENFORCES_BINDING|JOB_OF_CRONTAB|JOB_MOST_NODES_ARE_TASKS",
    "QOS_DENIES_ON_LIMIT|QOS_PASSES_MAX_NODES|PARTITION_(ENFORCE_ALL|SUBMIT)",
    "JOB_SAYS_DEFAULTS|JOB_TASKS_ARE_SET|JOB_NAMES_MEMORY|JOB_WAITS|JOB_DEF_(CPU|MEM)_PER_GPU",
    "S_.*",
];

/// Writes the bindings to Slurm's headers in `include`.
///
/// # Errors
/// bindgen can't read the headers, or the file can't be written.
pub fn write(include: &Path) -> Result<(), String> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../include");
    for header in ["wrapper.h", "slurm_exports.h"] {
        println!("cargo::rerun-if-changed={}", own.join(header).display());
    }
    println!("cargo::rerun-if-changed=build");
    let mut builder = bindgen::Builder::default()
        .header(own.join("wrapper.h").display().to_string())
        .clang_arg(format!("-I{}", include.display()))
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate_comments(false)
        .default_macro_constant_type(bindgen::MacroTypeVariation::Unsigned);
    for pattern in TYPES {
        builder = builder.allowlist_type(pattern);
    }
    for pattern in FUNCTIONS {
        builder = builder.allowlist_function(pattern);
    }
    for pattern in VARIABLES {
        builder = builder.allowlist_var(pattern);
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("bindings.rs");
    builder
        .generate()
        .map_err(|error| format!("bindgen on Slurm's headers in {}: {error}", include.display()))?
        .write_to_file(&out)
        .map_err(|error| format!("{}: {error}", out.display()))
}
