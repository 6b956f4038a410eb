//! Checks that the command which a refusal suggests is accepted, and requests all that the original did. The line is
//! read as sbatch or scontrol would read it, and checked under the same limits.

use std::collections::BTreeMap;

use gpushare::submit::grammar::{self, Token};
use gpushare::submit::message;
use gpushare::submit::policy::{
    Accounting, Command, DefaultQos, Mode, Owner, Policy, Refusal, ShareRules, TypedLimit, Update, judge,
    judge_update,
};
use gpushare::submit::request::{Field, Parsed, Request};
use proptest::prelude::*;

use gpushare_judge::options::{self, OptionError, Source};
use gpushare_judge::submission::Submission;
use gpushare_slurm_text::version::Release;

const TYPES: [&str; 3] = ["a40", "h100", "v100"];

/// QOS 0, `q`, has these limits; QOS 1, `free`, has none and is the default of all users.
#[derive(Clone, Debug)]
struct Limits(Vec<(&'static str, &'static str, u64)>);

impl Accounting for Limits {
    type Qos = usize;
    fn qos_named(&self, name: &[u8]) -> Option<usize> {
        ["q", "free"].iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))
    }
    fn default_qos(&self, _: &Request) -> DefaultQos<usize> {
        DefaultQos::One(1)
    }
    fn name(&self, qos: usize) -> &[u8] {
        if qos == 0 { b"q" } else { b"free" }
    }
    fn typed_limits<'s>(&'s self, qos: usize, gres: &'s [u8]) -> impl Iterator<Item = TypedLimit<'s>> {
        let limits = self.0.iter().filter(move |(name, ..)| qos == 0 && name.as_bytes() == gres);
        limits.map(|(_, gres_type, count)| TypedLimit {
            gres_type: gres_type.as_bytes(),
            count: Some(*count),
            of_job: Some(*count),
        })
    }
    fn limit_on_all(&self, _: usize, _: &[u8]) -> Option<Option<u64>> {
        None
    }
    fn types<'s>(&'s self, _: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        TYPES.into_iter().map(str::as_bytes)
    }
    fn counts(&self, gres: &[u8]) -> bool {
        gres == b"gpu" || gres == b"shard"
    }
    fn owner(&self, _: &Request) -> Option<Owner<'_>> {
        None
    }
    fn default_partition(&self) -> Option<&[u8]> {
        Some(b"p")
    }
}

/// The line behind `try:`, with values in place of what only the user knows.
fn tried(refusal: &Refusal) -> Option<String> {
    let text = message::refusal(refusal);
    let end = if refusal.command == Command::Submit { "\n" } else { ";" };
    let line = text.split_once("try: ")?.1.split(end).next()?;
    Some(line.replace("TYPE", "v100").replace("COUNT", "1").replace("reservation=NAME", "reservation=course"))
}

/// A request that owns its strings.
#[derive(Clone, Debug, Default)]
struct Owned {
    texts: BTreeMap<&'static str, String>,
    numbers: BTreeMap<&'static str, u16>,
}

impl Owned {
    fn request(&self, release: Release) -> Request<'_> {
        let text = |name| self.texts.get(name).map(|text: &String| text.as_bytes());
        let number = |name| self.numbers.get(name).copied();
        Request {
            qos: text("qos"),
            partition: text("partition"),
            reservation: text("reservation"),
            tres_per_node: text("TresPerNode"),
            tres_per_job: text("TresPerJob"),
            tres_per_task: text("TresPerTask"),
            tres_per_socket: text("TresPerSocket"),
            cpus_per_tres: text("CpusPerTres"),
            mem_per_tres: text("MemPerTres"),
            ntasks_per_tres: number("ntasks_per_tres"),
            num_tasks: number("NumTasks").map(u32::from),
            min_nodes: number("NumNodes").map(u32::from),
            max_nodes: number("NumNodes").map(u32::from),
            sockets_per_node: number("ReqSockets"),
            ntasks_per_node: number("TasksPerNode"),
            ..Request::new(release.spelling())
        }
    }

    /// Reads a line as scontrol would.
    fn update(line: &str) -> Owned {
        let mut changes = Owned::default();
        for word in line.strip_prefix("scontrol update job=7").unwrap().split_whitespace() {
            let (key, value) = word.split_once('=').unwrap();
            let keys = [
                "qos",
                "partition",
                "reservation",
                "TresPerNode",
                "TresPerJob",
                "TresPerTask",
                "TresPerSocket",
            ];
            let numbers = ["NumTasks", "NumNodes", "ReqSockets", "TasksPerNode"];
            if let Some(key) =
                keys.into_iter().chain(["CpusPerTres", "MemPerTres"]).find(|known| *known == key)
            {
                assert!(changes.texts.insert(key, value.to_owned()).is_none(), "{line}");
            } else {
                let key = numbers.into_iter().find(|known| *known == key).unwrap();
                changes.numbers.insert(key, value.parse().unwrap());
            }
        }
        changes
    }
}

/// How many of each GRES a string requests, as Slurm reads it: if one is named twice, the last counts. GPUs of all
/// types are added up unless `types`.
fn asked(request: &Request, types: bool) -> BTreeMap<(&'static str, String), u64> {
    let mut last: BTreeMap<(&'static str, String, String), u64> = BTreeMap::new();
    for (field, token) in Parsed::from(*request).tokens() {
        let place = match field {
            Field::Job => "job",
            Field::Node => "node",
            Field::Socket => "socket",
            Field::Task => "task",
            Field::CpusPerGpu | Field::MemPerGpu => continue,
        };
        if let Token::Gres(gres) = token {
            let text = |text: &[u8]| text.escape_ascii().to_string();
            last.insert((place, text(gres.name), gres.gres_type.map(text).unwrap_or_default()), gres.count);
        }
    }
    let mut sums = BTreeMap::new();
    for ((place, name, gres_type), count) in last {
        // A share that isn't counted is answered with GPUs.
        let shares = name == "mps" || name == "shard";
        if shares || count == 0 {
            continue;
        }
        let name = if types { format!("{name}:{gres_type}") } else { name };
        *sums.entry((place, name)).or_default() += count;
    }
    sums
}

/// The other parts of a string: `cpu=2`, licences.
fn others(request: &Request) -> Vec<Vec<u8>> {
    let texts = Field::ALL.iter().filter(|field| field.requests()).filter_map(|field| request.string(*field));
    let parts = texts.flat_map(|text| text.split(|byte| *byte == b','));
    let spelling = request.spelling;
    let is_other = |part: &&[u8]| {
        !part.is_empty()
            && grammar::tokens(part, spelling)
                .all(|(_, token)| matches!(token, Token::Cpus(_) | Token::Other))
    };
    let mut all: Vec<_> = parts.filter(is_other).map(|part| part.replace_colon()).collect();
    all.sort();
    all
}

trait ReplaceColon {
    fn replace_colon(&self) -> Vec<u8>;
}

impl ReplaceColon for [u8] {
    fn replace_colon(&self) -> Vec<u8> {
        self.iter().map(|byte| if *byte == b':' { b'=' } else { *byte }).collect()
    }
}

fn failed(error: OptionError) -> TestCaseError {
    TestCaseError::fail(error.to_string())
}

fn submission(line: &str, release: Release) -> Result<Submission, OptionError> {
    let words: Vec<_> = line.split_whitespace().map(|word| word.as_bytes().to_vec()).collect();
    let (options, rest) = options::split(&words, release, Source::Line)?;
    assert!(rest.is_empty(), "{line}");
    Submission::new(&options, release)
}

fn limits() -> impl Strategy<Value = Limits> {
    let gres_types = prop::sample::subsequence(TYPES.to_vec(), 1..=3);
    let shards = prop::sample::subsequence(TYPES.to_vec(), 0..=1);
    (gres_types, shards, prop::collection::vec(0_u64..9, 4)).prop_map(|(gres_types, shards, counts)| {
        let gpus = gres_types.into_iter().map(|gres_type| ("gpu", gres_type));
        let all = gpus.chain(shards.into_iter().map(|gres_type| ("shard", gres_type)));
        Limits(all.zip(counts).map(|((name, gres_type), count)| (name, gres_type, count)).collect())
    })
}

fn token() -> impl Strategy<Value = String> {
    let name = prop_oneof![8 => Just("gpu"), 1 => Just("mps"), 1 => Just("shard"), 2 => Just("nic")];
    let gres_type = prop_oneof![6 => Just(""), 3 => Just(":a40"), 2 => Just(":h100"), 1 => Just(":nonsense")];
    (name, gres_type, 0_u32..6).prop_map(|(name, gres_type, count)| {
        let gres_type = if name == "nic" { "" } else { gres_type };
        format!("P{name}{gres_type}:{count}")
    })
}

fn field() -> impl Strategy<Value = Option<String>> {
    let odd = prop_oneof![
        Just("gresgpu:2"),
        Just("cpu=2"),
        Just("Pgpu::2"),
        Just("license/m:1"),
        Just("xP"),
        Just("")
    ];
    let one = prop_oneof![8 => token(), 1 => odd.prop_map(str::to_owned)];
    prop::option::weighted(0.4, prop::collection::vec(one, 1..4).prop_map(|tokens| tokens.join(",")))
}

fn owned() -> impl Strategy<Value = Owned> {
    let fields = prop::collection::vec(field(), 4);
    let per_gpu = prop::collection::vec(prop::option::weighted(0.2, "Pgpu:[1-9]"), 2);
    let numbers = prop::collection::vec(prop::option::weighted(0.3, 1_u16..5), 5);
    (fields, per_gpu, numbers).prop_map(|(fields, per_gpu, numbers)| {
        let names =
            ["TresPerNode", "TresPerJob", "TresPerTask", "TresPerSocket", "CpusPerTres", "MemPerTres"];
        let texts = fields.into_iter().chain(per_gpu);
        let counts = ["ntasks_per_tres", "NumTasks", "NumNodes", "ReqSockets", "TasksPerNode"];
        Owned {
            texts: names.into_iter().zip(texts).filter_map(|(name, text)| Some((name, text?))).collect(),
            numbers: counts
                .into_iter()
                .zip(numbers)
                .filter_map(|(name, number)| Some((name, number?)))
                .collect(),
        }
    })
}

fn policy() -> impl Strategy<Value = Policy> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(governed, shares, most)| Policy {
        partitions: if governed { patterns("owned") } else { Default::default() },
        shares: ShareRules {
            reservations: if shares { patterns("course") } else { Default::default() },
            sizes: if shares { vec![2, 4] } else { Vec::new() },
            most: most.then_some(4),
            ..ShareRules::default()
        },
        mode: Mode::Enforce,
        ..Policy::default()
    })
}

fn patterns(text: &str) -> gpushare::text::pattern::Patterns {
    gpushare::text::pattern::Patterns::parse(text).unwrap()
}

fn release() -> impl Strategy<Value = Release> {
    prop_oneof![Just(Release(22, 5)), Just(Release(24, 11)), Just(Release(26, 5))]
}

/// Replaces `P` by this release's prefix.
fn in_release(mut owned: Owned, release: Release) -> Owned {
    let prefix = std::str::from_utf8(release.spelling().prefix()).unwrap();
    owned.texts.values_mut().for_each(|text| *text = text.replace('P', prefix));
    owned
}

/// Checks that the new request has everything in the old one, apart from types.
fn nothing_lost(before: &Request, after: &Request, line: &str) -> Result<(), TestCaseError> {
    let (old, new) = (asked(before, false), asked(after, false));
    for (what, count) in old {
        let found = new.get(&what).copied().unwrap_or(0);
        prop_assert!(found >= count, "{:?}: {} of {}: {}\n{:?}", what, found, count, line, before);
    }
    Ok(())
}

/// From options to a line and back, including the numbers.
fn came_back(said: &str, release: Release, limits: &Limits) -> Result<(), TestCaseError> {
    let first = submission(said, release).map_err(failed)?;
    let before = first.request(release.spelling(), 0);
    let Err(refusal) = judge(&before, &Policy::default(), limits) else { return Ok(()) };
    let Some(line) = tried(&refusal) else { return Ok(()) };
    let second = submission(&line, release).map_err(failed)?;
    let after = second.request(release.spelling(), 0);
    prop_assert!(judge(&after, &Policy::default(), limits).is_ok(), "{}", line);
    if refusal.beyond.is_none() {
        nothing_lost(&before, &after, &line)?;
    }
    // GS118 suggests fewer tasks on each node.
    let fuller = before.tres_per_task.is_some() && after.ntasks_per_node < before.ntasks_per_node;
    let numbers = |request: &Request| {
        let Request { num_tasks, max_nodes, sockets_per_node, ntasks_per_node, cpus_per_task, .. } = *request;
        (
            num_tasks,
            max_nodes.and(request.min_nodes),
            max_nodes,
            sockets_per_node,
            ntasks_per_node.filter(|_| !fuller),
            cpus_per_task,
        )
    };
    prop_assert_eq!(numbers(&before), numbers(&after), "{} became {}", said, line);
    prop_assert_eq!((before.cpus_per_tres, before.mem_per_tres), (after.cpus_per_tres, after.mem_per_tres));
    Ok(())
}

/// If `-n1` were omitted, sbatch would make two tasks because of `--ntasks-per-node=2`.
#[test]
fn one_task_on_two_nodes_comes_back() {
    let said = "--qos=q --gres=gpu:1 --gpus=2 --gpus-per-task=2 -n1 --ntasks-per-node=2";
    for release in [Release(22, 5), Release(24, 11), Release(26, 5)] {
        came_back(said, release, &Limits(vec![("gpu", "h100", 2)])).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_tried_is_accepted_and_whole(
        limits in limits(), policy in policy(), owned in owned(), release in release(),
        qos in prop_oneof![6 => Just("q"), 1 => Just("free"), 1 => Just("free,q"), 1 => Just("q,--gpus=2")],
        partition in prop_oneof![3 => Just("p"), 1 => Just("owned"), 1 => Just("p,owned")],
    ) {
        let owned = in_release(owned, release);
        let mut request = owned.request(release);
        (request.qos, request.partition) = (Some(qos.as_bytes()), Some(partition.as_bytes()));
        let Err(refusal) = judge(&request, &policy, &limits) else { return Ok(()) };
        let Some(line) = tried(&refusal) else { return Ok(()) };
        let submission = submission(&line, release).map_err(failed)?;
        let mut after = submission.request(release.spelling(), 0);
        after.partition = after.partition.or(request.partition);
        after.reservation = after.reservation.or(request.reservation);
        // If only a name was wrong, the rest of the command stays.
        if line == "--qos=q" {
            after = Request { qos: after.qos, ..request };
        }
        if let Err(again) = judge(&after, &policy, &limits) {
            return Err(TestCaseError::fail(format!("{line}\n{again:?}\n{request:?}")));
        }
        if refusal.beyond.is_none() {
            nothing_lost(&request, &after, &line)?;
        }
        if release >= Release(23, 11) {
            prop_assert_eq!(others(&request), others(&after), "{}", line);
        }
    }

    #[test]
    fn options_come_back_as_they_were(
        limits in limits(), release in release(),
        gpus in prop::collection::vec(prop::option::of(1_u32..4), 4),
        numbers in prop::collection::vec(prop::option::weighted(0.4, 1_u32..4), 7),
    ) {
        let options = ["--gres=gpu:", "--gpus=", "--gpus-per-task=", "--gpus-per-socket="];
        let gpus = options.into_iter().zip(gpus);
        let more = ["-n", "-N", "--ntasks-per-node=", "--sockets-per-node=", "--cpus-per-gpu=", "--mem-per-gpu=", "-c"];
        let word = |(option, number): (_, Option<_>)| Some(format!("{option}{}", number?));
        let words: Vec<_> = gpus.chain(more.into_iter().zip(numbers)).filter_map(word).collect();
        let said = format!("--qos=q {}", words.join(" "));
        // sbatch accepts only one of the two.
        prop_assume!(!said.contains("--cpus-per-gpu") || !said.contains(" -c"));
        came_back(&said, release, &limits)?;
    }

    #[test]
    fn an_update_that_is_tried_is_accepted_and_whole(
        limits in limits(), policy in policy(), change in owned(), existing in owned(), release in release(),
        was in prop_oneof![Just("q"), Just("free")],
        qos in prop::option::of(prop_oneof![4 => Just("q"), 1 => Just("free"), 1 => Just("free,q")]),
    ) {
        let (change, existing) = (in_release(change, release), in_release(existing, release));
        let (change, existing) = (change.request(release), existing.request(release));
        let existing = Request { qos: Some(was.as_bytes()), ntasks_per_tres: None, partition: Some(b"p"), ..existing };
        let change = Request { qos: qos.map(str::as_bytes), ..change };
        let update = Update { job: b"7", array: false, request: change.into(), anew: true, others: &[] };
        let Err(refusal) = judge_update(&update, &existing, &policy, &limits) else { return Ok(()) };
        let Some(line) = tried(&refusal) else { return Ok(()) };
        let owned = Owned::update(&line);
        let request = owned.request(release);
        let again = Update { job: b"7", array: false, request: request.into(), anew: true, others: &[] };
        if let Err(again) = judge_update(&again, &existing, &policy, &limits) {
            return Err(TestCaseError::fail(format!("{line}\n{again:?}\n{change:?}\n{existing:?}")));
        }
        if refusal.beyond.is_none() {
            nothing_lost(&change, &request.over(&existing), &line)?;
        }
    }
}
