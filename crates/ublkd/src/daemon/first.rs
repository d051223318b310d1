//! The first request of an array: a flush, which ends when the array really serves.

use std::sync::{Arc, Mutex, PoisonError};

use raidcore::engine::{Op, RequestError};
use raidcore::units::Lba;
use tokio::sync::oneshot;

use crate::volume::{Buffer, Edges, Port, Submit, Volume};

/// Flushes, and waits for the end.
///
/// # Errors
/// As the array's.
pub(super) async fn flush(volume: &Volume) -> Result<(), RequestError> {
    let (sender, ended) = oneshot::channel();
    let port: Arc<dyn Port> = Arc::new(Waiter(Mutex::new(Some(sender))));
    let request = Submit { op: Op::Flush, lba: Lba(0), blocks: 0, fua: false, edges: Edges::NONE };
    volume.submit(&port, 0, request, volume.buffer().await);
    ended.await.unwrap_or(Err(RequestError::Stopping))
}

struct Waiter(Mutex<Option<oneshot::Sender<Result<(), RequestError>>>>);

impl Port for Waiter {
    fn completed(&self, _: u64, _: Buffer, result: Result<(), RequestError>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // An error only says that the receiver is gone.
            let _ = sender.send(result);
        }
    }
}
