//! Descriptions as slurmctld makes them: every text and array in memory of its own, which is freed at the end, so that
//! Miri and the sanitizers see whatever is read or written beside it, twice or too late.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr;

use slurm_sys::job_desc_msg_t;

use super::*;

/// A description and the place of a message.
struct Job {
    description: Box<job_desc_msg_t>,
    message: *mut c_char,
}

impl Job {
    fn new() -> Job {
        let mut description: Box<MaybeUninit<job_desc_msg_t>> = Box::new_uninit();
        // SAFETY: our own description, which the call fills.
        unsafe { slurm_sys::slurm_init_job_desc_msg(description.as_mut_ptr()) };
        // SAFETY: filled.
        Job { description: unsafe { description.assume_init() }, message: ptr::null_mut() }
    }

    fn submission(&mut self) -> Submission<'_> {
        // SAFETY: a whole description and the place of a message, used by nothing else.
        unsafe { Submission::new(&raw mut *self.description, &raw mut self.message) }.unwrap()
    }

    fn controls(&self) -> Vec<String> {
        // SAFETY: the array of the description and its size.
        let entries = unsafe { entries(self.description.spank_job_env, self.description.spank_job_env_size) };
        entries.iter().map(|entry| read(*entry)).collect()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let job = &mut *self.description;
        for text in [
            &mut self.message,
            &mut job.name,
            &mut job.qos,
            &mut job.account,
            &mut job.partition,
            &mut job.tres_per_node,
            &mut job.tres_per_job,
            &mut job.tres_per_socket,
            &mut job.tres_per_task,
            &mut job.cpus_per_tres,
            &mut job.mem_per_tres,
            &mut job.exc_nodes,
            &mut job.array_inx,
            &mut job.job_id_str,
            &mut job.selinux_context,
            &mut job.script,
        ] {
            // SAFETY: null or a text of `text`.
            unsafe { text::free(text) }
        }
        free_array(&mut job.spank_job_env, job.spank_job_env_size);
        free_array(&mut job.environment, job.env_size);
    }
}

fn text(text: &str) -> *mut c_char {
    text::in_slurm_memory(text).unwrap().as_ptr()
}

fn read(string: *const c_char) -> String {
    // SAFETY: null or a C string of the description.
    String::from_utf8_lossy(unsafe { text::bytes(string) }.unwrap_or_default()).into_owned()
}

/// An array with exactly these entries: what reads further is seen.
fn array(texts: &[&str]) -> *mut *mut c_char {
    let (nowhere, size) = (c"".as_ptr(), size_of::<*mut c_char>());
    // SAFETY: any numbers.
    let array = unsafe { slurm_sys::slurm_xcalloc(texts.len(), size, true, false, nowhere, 0, nowhere) };
    let array: *mut *mut c_char = array.cast();
    for (at, one) in texts.iter().enumerate() {
        // SAFETY: within the array.
        let place = unsafe { array.add(at) };
        // SAFETY: the same.
        unsafe { place.write(text(one)) };
    }
    array
}

fn free_array(array: &mut *mut *mut c_char, count: u32) {
    // SAFETY: null, or that many entries.
    for entry in unsafe { entries(*array, count) } {
        // SAFETY: of `text`.
        unsafe { text::free(entry) }
    }
    let place: *mut *mut *mut c_char = array;
    // SAFETY: null or of `array`.
    unsafe { slurm_sys::slurm_xfree(place.cast()) }
}

#[test]
fn members_that_are_not_set_are_none() {
    let mut job = Job::new();
    let unset = slurm_sys::UNSET_U32;
    assert_eq!(job.submission().request(), Request { user_id: unset, ..Request::new(SPELLING) });
    assert!(job.submission().names_no_gpu() && job.submission().is_silent());
    let submission = job.submission();
    assert_eq!((submission.name(), submission.job_id()), (None, None));
}

#[test]
fn members_are_read_whole() {
    let mut job = Job::new();
    let long = "gres/gpu:a40:2,".repeat(500);
    (job.description.qos, job.description.tres_per_node) = (text("qos_lafferty"), text(&long));
    (job.description.num_tasks, job.description.min_nodes) = (4, slurm_sys::ALL_U32);
    (job.description.script, job.description.array_inx) = (text("#!/bin/sh"), text(""));
    (job.description.environment, job.description.env_size) = (array(&["A=1", "SLURM_GET_USER_ENV=1"]), 2);
    let submission = job.submission();
    let request = submission.request();
    assert_eq!(
        (request.qos, request.tres_per_node),
        (Some(b"qos_lafferty".as_slice()), Some(long.as_bytes()))
    );
    assert_eq!((request.num_tasks, request.min_nodes), (Some(4), None));
    let batch = request.batch.unwrap();
    assert_eq!((batch.array, batch.user_env), (Some(b"".as_slice()), true));
}

#[test]
fn texts_are_replaced_in_slurms_memory() {
    let mut job = Job::new();
    job.description.qos = text("a");
    for value in ["b", "", &"c".repeat(5000)] {
        job.submission().set_qos(value.as_bytes());
        job.submission().set_tres(Field::Node, value.as_bytes());
        let submission = job.submission();
        let request = submission.request();
        assert_eq!((request.qos, request.tres_per_node), (Some(value.as_bytes()), Some(value.as_bytes())));
    }
}

#[test]
fn each_string_of_gres_has_a_place_of_its_own() {
    for field in [Field::Job, Field::Node, Field::Socket, Field::Task, Field::CpusPerGpu, Field::MemPerGpu] {
        let mut job = Job::new();
        job.submission().set_tres(field, b"gres/gpu:a40:1");
        let submission = job.submission();
        let mut expected = Request { user_id: slurm_sys::UNSET_U32, ..Request::new(SPELLING) };
        *expected.string_mut(field) = Some(b"gres/gpu:a40:1".as_slice());
        assert_eq!(submission.request(), expected, "{field:?}");
    }
}

#[test]
fn a_message_is_added_once() {
    let mut job = Job::new();
    for (said, expected) in [("one", "one"), ("one", "one"), ("two", "one\ntwo")] {
        job.submission().say(said);
        assert_eq!(read(job.message), expected, "{said}");
    }
}

#[test]
fn a_variable_for_the_prolog_is_there_once_and_no_users() {
    for (sent, expected) in [
        (&[][..], vec!["G=2"]),
        (&["G=1"], vec!["G=2"]),
        (&["A=1", "SPANK_G=9", "GG=1", "G=9", "G"], vec!["A=1", "GG=1", "G", "G=2"]),
    ] {
        let mut job = Job::new();
        job.description.spank_job_env_size = u32::try_from(sent.len()).unwrap();
        if !sent.is_empty() {
            job.description.spank_job_env = array(sent);
        }
        job.submission().set_job_control_variable("G", Some("G=2"));
        assert_eq!(job.controls(), expected, "{sent:?}");
        job.submission().set_job_control_variable("G", None);
        assert_eq!(job.controls(), expected[..expected.len() - 1], "{sent:?}");
        let long = format!("G={}", "x".repeat(5000));
        job.submission().set_job_control_variable("G", Some(&long));
        assert_eq!(job.controls().last(), Some(&long), "{sent:?}");
    }
}

#[test]
fn the_login_shell_is_asked_no_more() {
    let mut job = Job::new();
    (job.description.environment, job.description.env_size) =
        (array(&["SLURM_GET_USER_ENV=1", "SLURM_GET_USER_ENV=11", "A=1"]), 3);
    job.submission().drop_user_env();
    // SAFETY: as set above.
    let entries = unsafe { entries(job.description.environment, 3) };
    let texts: Vec<String> = entries.iter().map(|entry| read(*entry)).collect();
    assert_eq!(texts, ["SLURM_GET_USER_ENV=0", "SLURM_GET_USER_ENV=11", "A=1"]);
}

#[test]
fn what_an_update_changes_is_told() {
    let mut job = Job::new();
    assert_eq!(job.submission().other_changes(), [""; 0]);
    (job.description.qos, job.description.name) = (text("free"), text("x"));
    assert_eq!(job.submission().other_changes(), [""; 0]);
    job.description.num_tasks = 2;
    assert_eq!(job.submission().other_changes(), ["NumTasks"]);
    job.description.plane_size = 3;
    assert_eq!(job.submission().other_changes(), ["NumTasks", "something else"]);
}

#[test]
fn notes_about_a_command_stay_with_it() {
    let mut job = Job::new();
    let before = job.submission().said();
    assert!(job.submission().is_first("moved") && !job.submission().is_first("moved"));
    job.submission().has_read(512 * (16 << 10) - 1);
    assert!(!job.submission().has_read_enough());
    job.submission().has_read(16 << 10);
    assert!(job.submission().has_read_enough());
    let command = job.submission().command().unwrap();
    assert_eq!(job.submission().command(), Some(command));
    assert_ne!(job.submission().said(), before);
}
