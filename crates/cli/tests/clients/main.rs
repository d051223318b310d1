//! Whole arrays on member files, run by the command and used by common clients: healthy, with a
//! member missing, during a rebuild, and after the process was killed.

mod cache;
#[path = "../../../ublkd/tests/tools/certificates.rs"]
#[expect(dead_code, reason = "tests of the server use the rest")]
mod certificates;
mod condition;
mod copies;
mod cpus;
mod daemons;
mod failover;
mod file_systems;
mod fio;
mod flash;
mod guide;
mod in_memory;
mod iostat;
mod kills;
mod layout;
mod log;
#[path = "../../../ublkd/tests/tools/machine.rs"]
#[expect(dead_code, reason = "tests of hostile guests use the rest")]
mod machine;
mod memory;
mod nbd;
mod pace;
mod packaging;
mod power;
mod reshape;
mod restarts;
mod rounds;
mod shrunk;
mod signal;
mod spare;
mod staged;
mod stops;
mod tls;
mod tools;
mod trouble;
mod vhost;
mod volatile;
mod world;
