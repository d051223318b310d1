//! The control socket answers with arbitrary bytes, as if another program than an array served it.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixListener;
use std::thread;

use serde_json::Value;
use ublkd::control::{Client, ClientError, Request, socket_path};

use crate::memory;

/// What the client may need besides the answer, in bytes.
const MEMORY_MAX: usize = 1 << 20;

/// The bytes are everything that the client receives before the connection is closed.
pub fn answer(bytes: &[u8]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let listener = UnixListener::bind(socket_path(dir.path(), "tank")).expect("a socket");
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            // The client may hang up before the end.
            stream.write_all(bytes).ok();
            stream.shutdown(Shutdown::Write).ok();
            stream.read_to_end(&mut Vec::new()).ok();
        });
        let ((), growth) =
            memory::growth(|| ask(&mut Client::connect(dir.path(), "tank").unwrap(), bytes));
        assert!(growth <= MEMORY_MAX + 64 * bytes.len(), "the client used {growth} bytes");
    });
}

/// Asks until the answers end; each is one line.
fn ask(client: &mut Client, bytes: &[u8]) {
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        match client.call(&Request::Status) {
            Ok(value) => {
                let said: Value = serde_json::from_slice(line).expect("an answer is JSON");
                assert_eq!((said.get("v"), said.get("ok")), (Some(&Value::from(1)), Some(&value)));
            }
            Err(error) => {
                assert!(!matches!(
                    error,
                    ClientError::NotRunning { .. } | ClientError::Denied { .. }
                ));
                assert!(!error.to_string().is_empty() || matches!(error, ClientError::Refused(_)));
            }
        }
    }
    assert!(matches!(client.status(), Err(ClientError::Broken { .. })), "there was no more");
}
