//! The vhost-user front end as VMs and their VMMs see it, over a back end in memory. Each VM is served on a
//! thread of its own.

#[path = "../tools/back_end.rs"]
mod back_end;
mod hostile;
mod lives;
#[path = "../tools/machine.rs"]
mod machine;
mod requests;
#[path = "../tools/store.rs"]
mod store;
mod world;

use ublkd::front::vhost::VhostThread;

const VM_THREAD: VhostThread = VhostThread::Own;
