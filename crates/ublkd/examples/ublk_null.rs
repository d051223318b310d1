//! A null block device by Evenkeel's ublk front end: it answers at once and stores nothing.
//! `tests/vm/run null` measures it. It prints its path, and serves until its standard input ends.
//!
//! ```sh
//! cargo run --release -p ublkd --example ublk_null -- 1024    # MiB; as root
//! ```

use std::error::Error;
use std::io::{Write, stdin, stdout};
use std::num::NonZeroU64;

use ublkd::front::ublk::{NullServer, UblkOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mib: u64 = std::env::args().nth(1).ok_or("how many MiB?")?.parse()?;
    // An owner of its own, so that no other device is taken over.
    let owner = NonZeroU64::MIN.saturating_add(std::process::id().into());
    let server = NullServer::start(mib << 8, UblkOptions::of(owner))?;
    println!("{}", server.disk().display());
    stdout().flush()?;
    std::io::copy(&mut stdin(), &mut std::io::sink())?;
    Ok(())
}
