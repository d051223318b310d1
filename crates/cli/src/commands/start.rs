//! `evenkeel start`: in the foreground, or as a process of its own that outlives this one.
//!
//! In the background, this program is started once more with `--detached`. The new process prints
//! one line of JSON that says whether the array serves, and then continues alone. Its standard
//! error is the log.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use evenkeel_client::paths::shown;
use evenkeel_client::{Launch, Refusal, disk_name};
use raidcore::engine;
use raidcore::meta::{AssembleError, AssembleOptions};
use raidlog::RecoveryError;
use serde_json::{Value, json};
use steering::scheme::SCHEMES;
use tracing_subscriber::EnvFilter;
use ublkd::attach::{AttachError, examine};
use ublkd::daemon::{DaemonConfig, DaemonError, FrontConfig, Missing, Ready, check, run};
use ublkd::front::nbd::NbdTls;
use ublkd::host::{HostConfig, HostError};
use ublkd::lease::LeaseOptions;
use ublkd::limits::{advice_on_files, advice_on_setup};
use ublkd::members::OpenError;
use ublkd::run_dir;
use ublkd::thread::{become_io_flusher, keep_program_in_memory};

use super::status::front;
use crate::args::{LeaseArg, Passthrough, StartArgs};
use crate::output::{Output, ago, print, refusal_of};
use crate::size::Size;

/// Where members are looked for by name.
pub(super) const DEVICES: &str = "/dev";

/// `dirs` are the run directory and that of histories.
pub(crate) fn start(mut args: StartArgs, dirs: (&Path, &Path), output: Output) -> Result<ExitCode> {
    if args.members.is_empty() {
        args.members.push(DEVICES.into());
    }
    if !args.devices.is_empty() {
        (args.members, args.name) = (std::mem::take(&mut args.devices), None);
    }
    if args.check {
        return check_start(args, dirs);
    }
    if args.detached {
        return serve_detached(args, dirs);
    }
    if args.background {
        let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        arguments.push("--detached".into());
        let here = Path::new(".");
        let (members, name) = (&args.members, args.name.as_deref());
        let ready = start_in_background(arguments, members, name, dirs.0, here)?;
        output.result(&json!({ "array": ready }), || text(&ready));
        return Ok(ExitCode::SUCCESS);
    }
    log();
    let tell = |ready: &Ready| {
        output.result(&json!({ "array": ready }), || text(ready));
        if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
            tracing::warn!(%error, "systemd could not be told that the array serves");
        }
    };
    match serve(args, dirs, tell) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let code = exit_code(&error);
            output.error(&refusal(error).into());
            Ok(code)
        }
    }
}

/// The exit status of a process whose array failed while in use (EX_SOFTWARE of sysexits(3)): a
/// service manager should start it again, as in packaging/systemd.
const DIED: u8 = 70;

fn exit_code(error: &DaemonError) -> ExitCode {
    let died = matches!(error, DaemonError::Stop(HostError::Died));
    if died { ExitCode::from(DIED) } else { ExitCode::FAILURE }
}

/// Starts this program in a directory with `arguments`, which contain `--detached`, and waits until
/// its array serves.
pub(crate) fn start_in_background(
    arguments: Vec<OsString>,
    members: &[PathBuf],
    name: Option<&str>,
    run_dir: &Path,
    directory: &Path,
) -> Result<Ready> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg0(process_name(&arguments)).args(arguments).current_dir(directory);
    let ready = hear(command, run_dir, &log_name(members, name))?["ready"].take();
    serde_json::from_value(ready).context("the array's process is of another release")
}

/// What a process with these arguments is called. systemd leaves a process of root's whose name begins with
/// an at sign alone when it ends all others, between initramfs and root file system and at shutdown.
pub(super) fn process_name(arguments: &[impl AsRef<OsStr>]) -> &'static str {
    if serves_root(arguments) { "@evenkeel" } else { "evenkeel" }
}

/// Whether they are those of the process that the root file system needs.
pub(super) fn serves_root(arguments: &[impl AsRef<OsStr>]) -> bool {
    arguments.iter().any(|argument| argument.as_ref() == "--for-root")
}

/// Starts a process that prints its result as one line of JSON, and returns that. Its log goes to
/// the log of the array called `name`.
///
/// # Errors
/// If it reports a failure, or prints nothing.
pub(crate) fn hear(mut command: Command, run_dir: &Path, name: &str) -> Result<Value> {
    run_dir::prepare(run_dir)?;
    let (log, file) = run_dir::open_log(run_dir, name)?;
    let mut child = command
        .env("EVENKEEL_RUN_DIR", std::path::absolute(run_dir)?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(file)
        .spawn()?;
    let mut stdout = BufReader::new(child.stdout.take().context("the pipe that was asked for")?);
    let mut said = loop {
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        match said["waits"].as_str() {
            Some(waits) => eprintln!("{waits}"),
            None => break said,
        }
    };
    if !said["ready"].is_null() {
        return Ok(said);
    }
    let status = child.wait()?;
    if let Ok(refusal) = serde_json::from_value::<Refusal>(said["error"].take()) {
        return Err(refusal.into());
    }
    bail!("the array's process ended early ({status}); see {}", shown(&log));
}

/// The new process of `--background`.
fn serve_detached(args: StartArgs, dirs: (&Path, &Path)) -> Result<ExitCode> {
    // It fails only for the leader of a process group, which has no terminal to leave.
    let _ = rustix::process::setsid();
    log();
    let tell = |ready: &Ready| {
        print(&json!({ "ready": ready }).to_string());
        // So that it keeps no file system busy.
        if let Err(error) = std::env::set_current_dir("/") {
            tracing::warn!(%error, "could not leave the working directory");
        }
    };
    match serve(args, dirs, tell) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let code = exit_code(&error);
            let error = refusal(error);
            tracing::error!("{error}");
            print(&json!({ "error": refusal_of(&error.into()) }).to_string());
            Ok(code)
        }
    }
}

/// A process that could take an array over.
fn check_start(args: StartArgs, dirs: (&Path, &Path)) -> Result<ExitCode> {
    log();
    let checked = check(&config(args, dirs));
    let code = if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    let said = match checked {
        Ok(()) => json!({ "ready": true }),
        Err(error) => json!({ "error": refusal_of(&refusal(error).into()) }),
    };
    print(&said.to_string());
    Ok(code)
}

fn serve(
    args: StartArgs,
    dirs: (&Path, &Path),
    ready: impl FnOnce(&Ready),
) -> Result<(), DaemonError> {
    ublkd::limits::check(args.members.len()).map_err(DaemonError::Host)?;
    if args.for_root {
        keep_program_in_memory().map_err(DaemonError::Host)?;
    }
    let config = config(args, dirs);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(become_io_flusher)
        .enable_all()
        .build()
        .map_err(DaemonError::Host)?;
    let done = runtime.block_on(run(config, ready));
    // A file that is still in use must not keep the process from ending.
    runtime.shutdown_background();
    done
}

fn host(args: &StartArgs) -> HostConfig {
    // There are no numbers for more.
    let blocks = |size: Size| u32::try_from(size.blocks()).unwrap_or(u32::MAX);
    let host = HostConfig::default();
    HostConfig {
        io_timeout: args.io_timeout,
        engine: engine::Config { staged_blocks: blocks(args.staging_memory), ..host.engine },
        cache_blocks: blocks(args.cache_memory),
        passthrough: args.passthrough == Passthrough::Auto,
        threads: args.threads,
        ..host
    }
}

fn config(args: StartArgs, (run_dir, state_dir): (&Path, &Path)) -> DaemonConfig {
    let asked = args.nbd.is_some() || args.nbd_tcp.is_some() || args.fuse.is_some();
    let none_asked = !asked && args.ublk.is_none() && args.vhost.is_none();
    let host = host(&args);
    let nbd_tls = args.nbd_tls_certificate.zip(args.nbd_tls_key).map(|(certificate, key)| NbdTls {
        certificate: absolute(certificate),
        key: absolute(key),
        clients: args.nbd_tls_clients.map(absolute),
    });
    DaemonConfig {
        members: args.members,
        name: args.name,
        uuid: args.uuid,
        wait: args.wait,
        options: AssembleOptions { degraded: args.degraded, force: args.force },
        host,
        policy: args.policy,
        becomes: args.reshape,
        lease: LeaseOptions { term: args.lease.map(|LeaseArg(term)| term), fenced: args.fenced },
        waits: if args.detached { tell_waiter } else { |_| {} },
        fronts: FrontConfig {
            nbd: args.nbd.is_some() || none_asked,
            nbd_socket: args.nbd.flatten().map(absolute),
            nbd_tcp: args.nbd_tcp,
            nbd_allow_remote: args.nbd_allow_remote,
            nbd_tls,
            vhost: args.vhost.is_some(),
            vhost_socket: args.vhost.flatten().map(absolute),
            accepts_lost_writes: args.accept_lost_writes,
            fuse: args.fuse,
            ublk: args.ublk.is_some(),
            ublk_id: args.ublk.flatten(),
            logical_block: args.logical_block,
        },
        metrics: args.metrics,
        launch: if args.detached { launch() } else { None },
        run_dir: absolute(run_dir.to_path_buf()),
        state_dir: absolute(state_dir.to_path_buf()),
    }
}

/// Tells who has begun this process what the start waits for.
fn tell_waiter(what: &str) {
    print(&json!({ "waits": what }).to_string());
}

/// A path that is valid after the process has left its working directory.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// The arguments of this process, unless they are not UTF-8. The policy and the reshape, which are on
/// record, and the devices are left out: all of them may change.
fn launch() -> Option<Launch> {
    let arguments = std::env::args_os().skip(1).map(OsString::into_string);
    let mut arguments: Vec<String> = arguments.collect::<Result<_, _>>().ok()?;
    // What was lost before, and which hosts were fenced, is no longer of interest.
    arguments.retain(|argument| argument != "--accept-lost-writes" && argument != "--fenced");
    for option in ["--policy", "--device", "--reshape", "--lease"] {
        let is_it = |argument: &String| {
            argument
                .strip_prefix(option)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        while let Some(at) = arguments.iter().position(is_it) {
            let words = if arguments[at] == option { 2 } else { 1 };
            arguments.drain(at..(at + words).min(arguments.len()));
        }
    }
    let (pid, directory) = (std::process::id(), std::env::current_dir().ok()?);
    Some(Launch { pid, arguments, directory, devices: Vec::new() })
}

/// The default log filter. fuser warns about every request that it leaves to the kernel's defaults.
const LOG: &str = "info,fuser=error";

fn log() {
    let filter = EnvFilter::try_from_env("EVENKEEL_LOG").unwrap_or_else(|_| EnvFilter::new(LOG));
    // An error message about a closed stderr would end the process.
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    // It fails only if there is one already.
    let _ = subscriber.with_ansi(false).try_init();
}

/// The name for the log: the array's name, if a member has it.
fn log_name(members: &[PathBuf], name: Option<&str>) -> String {
    let told = || {
        let mut examined = members.iter().filter_map(|path| examine(path).ok());
        examined.find_map(|examined| Some(examined.superblock.ok()?.record.name))
    };
    name.map(str::to_owned).or_else(told).unwrap_or_else(|| "evenkeel".to_owned())
}

fn refusal(error: DaemonError) -> Refusal {
    let code = match &error {
        DaemonError::Attach(_) => "attach",
        DaemonError::Policy(error) => error.code(),
        DaemonError::Lost(_) => "no-volume",
        DaemonError::Become(_) => "reshape",
        DaemonError::Lease(_) => "lease",
        DaemonError::LeaseLost { .. } => "lease-lost",
        DaemonError::Bind(_) => "control-socket",
        DaemonError::Front(_) => "front-end",
        DaemonError::Metrics { .. } => "metrics",
        DaemonError::Host(_) | DaemonError::Signals(_) => "system",
        DaemonError::NotServing(_) => "not-serving",
        DaemonError::PolicyNotRecorded(_) => "not-recorded",
        DaemonError::Stop(_) => "unclean",
    };
    Refusal {
        code: code.to_owned(),
        message: error.to_string(),
        hint: hint(&error).or_else(|| advice_on_files(&error)),
    }
}

/// What to do about missing members, a policy that can't be followed, or resources that the system
/// denies.
fn hint(error: &DaemonError) -> Option<String> {
    if let DaemonError::Lost(RecoveryError::NoVolume) = error {
        let hint = "if it was being created when that was cut short, create it again (--force)";
        return Some(hint.to_owned());
    }
    if let DaemonError::Lease(error) = error {
        return error.hint().map(str::to_owned);
    }
    if let DaemonError::LeaseLost { .. } = error {
        let hint = "its data is whole: start it here again, which waits for the other host, or leave it there";
        return Some(hint.to_owned());
    }
    if let DaemonError::Host(error) = error {
        return advice_on_setup(error);
    }
    if let DaemonError::Policy(error) = error {
        return Some(error.hint());
    }
    let DaemonError::Attach(error) = error else { return None };
    if let AttachError::Open(OpenError::Refused { source, .. }) = error {
        let hint = "connect it, or leave it out and start without it by --degraded";
        return (source.kind() == ErrorKind::NotFound).then(|| hint.to_owned());
    }
    let AttachError::Assemble(AssembleError::TooManyMissing { missing, failed, .. }) = error else {
        return None;
    };
    let connect = missing.iter().map(|m| format!("connect {} {}", m.what(), m.member.0));
    let gone = failed.iter().filter_map(|m| {
        Some(format!("{} {} is out of service for {}", m.what(), m.member.0, ago(m.since?)))
    });
    let hints: Vec<String> = connect.chain(gone).collect();
    (!hints.is_empty()).then(|| hints.join("; "))
}

pub(crate) fn text(ready: &Ready) -> String {
    let warnings = ready.warnings.iter().map(|warning| format!("warning: {warning}"));
    let missing = ready.missing.iter().map(|Missing { member, group, stages, device, since }| {
        let what = if *stages { "staging device" } else { "member" };
        let since = match since {
            Some(since) => format!("out of service for {}", ago(*since)),
            None => "there when the array ran last, and out of service from now on".to_owned(),
        };
        let disk = disk_name(*group, *member);
        format!("warning: started without {what} {disk} (device {device}), {since}")
    });
    let recovered = ready.recovered.iter().map(|recovered| format!("note: {recovered}"));
    let plain = ready.policy.is_empty() || ready.policy == SCHEMES[0].name;
    let policy = if plain { String::new() } else { format!(", by the policy {}", ready.policy) };
    let head = format!("{} is running (process {}){policy}", ready.name, ready.pid);
    let fronts = ready.fronts.iter().map(|f| format!("  {}", front(f)));
    let lines = warnings.chain(missing).chain(recovered).chain([head]).chain(fronts);
    let lines: Vec<String> = lines.collect();
    lines.join("\n")
}
