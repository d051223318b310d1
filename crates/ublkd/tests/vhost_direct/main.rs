//! The vhost-user front end as VMs and their VMMs see it, over a back end in memory. VMs are served on the
//! volume's thread.

#[path = "../tools/array.rs"]
mod array;
#[path = "../tools/back_end.rs"]
mod back_end;
#[path = "../vhost/hostile.rs"]
mod hostile;
#[path = "../vhost/lives.rs"]
mod lives;
#[path = "../tools/machine.rs"]
mod machine;
#[path = "../vhost/requests.rs"]
mod requests;
#[path = "../tools/store.rs"]
mod store;
mod thread;
#[path = "../vhost/world.rs"]
mod world;

use ublkd::front::vhost::VhostThread;

const VM_THREAD: VhostThread = VhostThread::Volume;
