//! A null device by one of Evenkeel's front ends: it answers at once and stores nothing, so its
//! requests cost what the front end costs. `benches/null` and `tests/vm/run null` measure it. It
//! prints where it serves, and serves until its standard input ends.
//!
//! ```sh
//! cargo run --release -p ublkd --example null -- nbd 1024 /tmp/null.nbd    # 1024 MiB
//! cargo run --release -p ublkd --example null -- fuse 1024 /mnt            # as root
//! cargo run --release -p ublkd --example null -- ublk 1024                 # as root
//! ```

use std::error::Error;
use std::io::{Write, stdin, stdout};
use std::num::NonZeroU64;
use std::path::Path;

use ublkd::front::fuse::FuseServer;
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdServer};
use ublkd::front::ublk::{NullServer, UblkOptions};
use ublkd::null::Null;

/// Requests in flight, as many as an array has by default.
const TAGS: u16 = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["nbd", mib, socket] => serve_nbd(blocks(mib)?, socket),
        ["fuse", mib, dir] => {
            let null = Null::start(blocks(mib)?, TAGS)?;
            let server = FuseServer::mount(Path::new(dir), null.volume().clone())?;
            serve(server.file().display())
        }
        ["ublk", mib] => {
            // An owner of its own, so that no other device is taken over.
            let owner = NonZeroU64::MIN.saturating_add(std::process::id().into());
            let server = NullServer::start(blocks(mib)?, UblkOptions::of(owner, 1))?;
            serve(server.disk().display())
        }
        _ => Err("say: nbd MIB SOCKET, fuse MIB DIRECTORY, or ublk MIB".into()),
    }
}

/// On a runtime like the program's.
fn serve_nbd(blocks: u64, socket: &str) -> Result<(), Box<dyn Error>> {
    let null = Null::start(blocks, TAGS)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let config = NbdConfig::new(NbdAddress::Unix(socket.into()));
    let server = runtime.block_on(NbdServer::start_null(null, config))?;
    serve(server.uri())?;
    runtime.block_on(server.stop());
    Ok(())
}

/// Until the standard input ends.
fn serve(place: impl std::fmt::Display) -> Result<(), Box<dyn Error>> {
    println!("{place}");
    stdout().flush()?;
    std::io::copy(&mut stdin(), &mut std::io::sink())?;
    Ok(())
}

fn blocks(mib: &str) -> Result<u64, Box<dyn Error>> {
    mib.parse::<u64>()?.checked_mul(1 << 8).ok_or_else(|| "fewer MiB".into())
}
