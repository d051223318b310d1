//! A null block device by libublk, as its documentation says to make one: a queue whose requests
//! have buffers that the driver copies from and to. Its size in MiB is an argument. It prints its
//! path, and serves until it is killed.

use std::io::Write;
use std::rc::Rc;

use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder};
use libublk::io::{BufDescList, UblkDev, UblkIOCtx, UblkQueue};
use libublk::{BufDesc, UblkFlags, UblkIORes};

/// As in Evenkeel.
const DEPTH: u16 = 64;
const REQUEST_BYTES: u32 = 1 << 20;

fn main() {
    let mib = std::env::args().nth(1).and_then(|mib| mib.parse::<u64>().ok());
    let mib = mib.expect("how many MiB");
    let control = UblkCtrlBuilder::default()
        .name("null")
        .id(-1)
        .nr_queues(1)
        .depth(DEPTH)
        .io_buf_bytes(REQUEST_BYTES)
        .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
        .build()
        .expect("a device");
    let describe = move |device: &mut UblkDev| {
        device.set_default_params(mib << 20);
        Ok(())
    };
    let tell = |control: &UblkCtrl| {
        println!("{}", control.get_bdev_path());
        std::io::stdout().flush().expect("it is told");
    };
    control.run_target(describe, serve, tell).expect("it serves");
}

fn serve(number: u16, device: &UblkDev) {
    let buffers = Rc::new(device.alloc_queue_io_bufs());
    let all = Rc::clone(&buffers);
    let answer = move |queue: &UblkQueue, tag: u16, _: &UblkIOCtx| {
        let bytes = queue.get_iod(tag).nr_sectors << 9;
        let buffer = BufDesc::Slice(all[usize::from(tag)].as_slice());
        let result = Ok(UblkIORes::Result(bytes as i32));
        queue.complete_io_cmd_unified(tag, buffer, result).expect("an answer");
    };
    let queue = UblkQueue::new(number, device).expect("a queue");
    let queue = queue.submit_fetch_commands_unified(BufDescList::Slices(Some(&buffers)));
    queue.expect("its commands").wait_and_handle_io(answer);
}
