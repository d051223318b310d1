//! The NBD front end as its clients see it, over a back end in memory.

#[path = "../tools/array.rs"]
mod array;
#[expect(dead_code, reason = "the tests of vhost-user use more of it")]
#[path = "../tools/back_end.rs"]
mod back_end;
#[path = "../tools/certificates.rs"]
mod certificates;
mod client;
mod direct;
mod haggling;
mod hostile;
mod null;
mod requests;
#[path = "../tools/run.rs"]
mod run;
mod small;
mod sockets;
mod stopping;
#[path = "../tools/store.rs"]
mod store;
mod tls;
mod tools;
mod world;
