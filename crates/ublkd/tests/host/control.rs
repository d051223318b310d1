//! The control socket, and clients that keep it busy.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use raidcore::geometry::Level;
use raidcore::meta::Consistency;
use tokio::runtime::Runtime;
use ublkd::control::{CLIENTS_MAX, Client, Server, Service, Stopper};

use crate::array::Files;
use crate::config;

#[test]
fn clients_that_ask_nothing_keep_no_others_out() {
    let files = Files::create(Level::Raid5, 3, Consistency::Journal);
    let record = files.assemble(false).0.record;
    let (volume, handle) = files.start(config(), false);
    let dir = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let mut server = Server::bind(dir.path(), "tank").unwrap();
    let path = server.path().to_path_buf();
    let service = Service::new(handle.clone(), &[record], Vec::new(), Stopper::default());
    server.serve(Arc::new(service));

    let mut idle: Vec<UnixStream> = (0..2 * CLIENTS_MAX)
        .map(|at| {
            let mut client = UnixStream::connect(&path).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(100))).unwrap();
            if at % 2 == 0 {
                // The first one may have been disconnected before.
                let _ = client.write_all(b"{\"v\":1,");
            }
            client
        })
        .collect();
    for _ in 0..3 {
        let mut operator = Client::connect(dir.path(), "tank").unwrap();
        operator.status().unwrap();
    }
    let mut rest = Vec::new();
    assert_ne!(idle[0].read_to_end(&mut rest).ok(), Some(1), "the oldest is sent away");
    assert!(rest.is_empty());

    runtime.block_on(server.close());
    drop(volume);
    handle.stop().wait().unwrap();
}
