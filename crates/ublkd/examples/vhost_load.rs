//! Reads or writes an array's disk by vhost-user at random places, as a guest's driver does, and prints how many
//! nanoseconds a request took. `tests/vm/run vhostbench` measures it. Nothing of a guest's kernel, or of what leaves
//! a guest, is in it: queues are in shared memory, and kicked by eventfds when the disk wants to be told.
//!
//! ```sh
//! evenkeel start --background --name tank --vhost=/run/tank.vhost
//! cargo run --release -p ublkd --example vhost_load -- /run/tank.vhost read 4096 32 4 100000
//! ```

use std::error::Error;
use std::path::Path;
use std::time::Instant;

#[path = "../tests/tools/machine.rs"]
#[expect(dead_code, reason = "tests do more with it")]
mod machine;

use machine::{Data, READ, Vm, WRITE};

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// The most requests that a queue has in flight.
const MOST: u32 = machine::DESCRIPTORS as u32 / 3;

const USAGE: &str = "say: SOCKET read|write BYTES DEPTH QUEUES COUNT";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, way, bytes, depth, queues, count] = &arguments[..] else {
        return Err(USAGE.into());
    };
    let (bytes, depth): (u32, u32) = (bytes.parse()?, depth.parse()?);
    let (queues, count): (u16, u64) = (queues.parse()?, count.parse()?);
    let each = depth / u32::from(queues.max(1));
    if !(1..=MOST).contains(&each) || !(1..=1 << 20).contains(&bytes) {
        return Err(format!("a queue has 1 to {MOST} requests of up to 1 MiB in flight").into());
    }
    let data = vec![0x5a; bytes as usize];
    let (kind, data) = match way.as_str() {
        "read" => (READ, Data::In(bytes)),
        "write" => (WRITE, Data::Out(&data)),
        _ => return Err(USAGE.into()),
    };
    let mut vm = Vm::new(queues);
    vm.saves_kicks = true;
    vm.boot(Path::new(socket));
    let sectors = vm.config().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let places = sectors * SECTOR / u64::from(bytes);
    if places == 0 {
        return Err("the disk is smaller than a request".into());
    }
    // Weyl's sequence by the golden ratio: no two near each other, and no state but a number.
    let mut number = 0_u64;
    let mut next = move || {
        number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        ((u128::from(number) * u128::from(places)) >> 64) as u64 * u64::from(bytes) / SECTOR
    };
    let mut flying = vec![0_u32; usize::from(queues)];
    let (mut asked, mut ended) = (0_u64, 0_u64);
    let begun = Instant::now();
    while ended < count {
        for queue in 0..queues {
            let flying = &mut flying[usize::from(queue)];
            while *flying < each && asked < count {
                vm.ask(queue, kind, next(), data);
                *flying += 1;
                asked += 1;
            }
        }
        let before = ended;
        for queue in 0..queues {
            while let Some(chain) = vm.used(queue) {
                has_ended(&vm, queue, chain)?;
                flying[usize::from(queue)] -= 1;
                ended += 1;
            }
        }
        let waits = (0..queues).find(|&queue| flying[usize::from(queue)] > 0);
        if let Some(queue) = waits.filter(|_| ended == before) {
            let chain = vm.wait(queue);
            has_ended(&vm, queue, chain)?;
            flying[usize::from(queue)] -= 1;
            ended += 1;
        }
    }
    println!("{}", begun.elapsed().as_nanos() / u128::from(count.max(1)));
    vm.stop();
    Ok(())
}

/// The request of a chain has ended well.
fn has_ended(vm: &Vm, queue: u16, (head, _): (u16, u32)) -> Result<(), String> {
    match vm.outcome(queue, head / 3, 0).0 {
        0 => Ok(()),
        status => Err(format!("a request ended with status {status}")),
    }
}
