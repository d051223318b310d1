//! Requests for callgrind to count the engine's instructions, which a busy machine does not change:
//!
//! ```sh
//! valgrind --tool=callgrind --toggle-collect='instructions::counted' \
//!     target/release/deps/instructions-* read bitmap 1
//! callgrind_annotate --inclusive=yes callgrind.out.*    # Engine::step, by REQUESTS
//! ```

#[allow(dead_code, reason = "the tests of allocations use the rest")]
mod null_host;

use null_host::{Kind, NullHost};
use raidcore::geometry::Level;
use raidcore::meta::Consistency;

/// Requests before those that are counted: all regions are marked, the journal has gone round.
const WARM_UP: u32 = 20_000;

/// Requests that are counted.
const REQUESTS: u32 = 2000;

#[inline(never)]
fn counted(host: &mut NullHost, kind: Kind, depth: u16) {
    (0..REQUESTS / u32::from(depth)).for_each(|_| host.run(kind, depth));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with('-')).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let kind = match word(0) {
        "write" => Kind::Write,
        "hot" => Kind::HotWrite,
        "stripe" => Kind::StripeWrite,
        _ => Kind::Read,
    };
    let journal = word(1) == "journal";
    let consistency = if journal { Consistency::Journal } else { Consistency::Bitmap };
    let depth = word(2).parse().unwrap_or(1).clamp(1, 64);
    let mut host = NullHost::new(Level::Raid5, consistency);
    (0..WARM_UP).for_each(|_| host.run(kind, 1));
    counted(&mut host, kind, depth);
}
