//! Metrics: an HTTP server for Prometheus, on `/metrics`.
//!
//! Invariants, whatever clients do:
//! - At most [`CLIENTS_MAX`] are connected. Each is served for at most [`CLIENT_TIME`] and sends at
//!   most [`HEAD_BYTES_MAX`]. A client that is still sending, or receiving its answer, is
//!   disconnected if another one comes.
//! - The data thread is queried at most once in [`PAGE_TIME`].

mod cache;
mod http;
mod log;
mod merge;
mod page;
mod passes;
mod requests;
mod text;
mod wear;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use raidcore::meta::ArrayRecord;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use merge::merge;

use crate::control::{Facts, MetricsPages, facts_of, facts_of_all};
use crate::guests::Guests;
use crate::host::HostHandle;

/// How many clients there are at once.
pub const CLIENTS_MAX: usize = 8;

/// How long a client has from being accepted to having its answer.
pub const CLIENT_TIME: Duration = Duration::from_secs(5);

/// The longest request, in bytes.
pub const HEAD_BYTES_MAX: usize = 8 << 10;

/// For how long a page is served to all clients.
pub const PAGE_TIME: Duration = Duration::from_millis(200);

/// A server that listens. It ends when this is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    listener: Option<TcpListener>,
    task: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Takes the address. Clients wait until [`MetricsServer::serve`].
    ///
    /// # Errors
    /// If the system refuses.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { address: listener.local_addr()?, listener: Some(listener), task: None })
    }

    /// Where the metrics are.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Answers clients from now on with these pages.
    pub fn serve(&mut self, pages: Arc<dyn MetricsPages>) {
        if let Some(listener) = self.listener.take() {
            self.task = Some(tokio::spawn(accept(listener, pages)));
        }
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, pages: Arc<dyn MetricsPages>) {
    let mut clients = Guests::new("metrics", CLIENTS_MAX);
    loop {
        let (stream, _) = clients.newcomer(|| listener.accept()).await;
        let pages = Arc::clone(&pages);
        clients.admit(|guest| async move {
            let talk = http::talk(stream, || async {
                let _busy = guest.busy()?;
                pages.page().await
            });
            // A client that is too slow gets no answer.
            let _ = tokio::time::timeout(CLIENT_TIME, talk).await;
        });
    }
}

/// The pages of an array, or of a log volume, and the latest one.
pub struct Pages {
    /// By group.
    facts: Vec<Facts>,
    /// Of all of it.
    whole: Facts,
    host: HostHandle,
    latest: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Pages {
    /// `records` are those of the array, or of a log volume's groups.
    #[must_use]
    pub fn new(records: &[ArrayRecord], host: HostHandle) -> Self {
        let facts = records.iter().map(labelled).collect();
        Self { facts, whole: facts_of_all(records), host, latest: Mutex::new(None) }
    }

    /// A page that is not older than [`PAGE_TIME`]; none when the array has ended.
    async fn latest(&self) -> Option<Arc<str>> {
        let mut latest = self.latest.lock().await;
        if let Some((made, page)) = &*latest
            && made.elapsed() < PAGE_TIME
        {
            return Some(Arc::clone(page));
        }
        let mut arrays = Vec::with_capacity(self.facts.len());
        for (group, facts) in self.host.groups().zip(&self.facts) {
            arrays.push((facts, self.host.of(group).metrics().await.ok()?));
        }
        let requests = self.host.requests().await.ok()?;
        let log = self.host.log().await.ok()?;
        let cache = self.host.cache().await.ok()?;
        let page: Arc<str> = {
            let log = log.as_ref().map(|log| (&self.whole, log));
            let drives = self.host.drive_health();
            page::page(&arrays, (&self.whole, &requests), log, cache.as_ref(), drives).into()
        };
        *latest = Some((Instant::now(), Arc::clone(&page)));
        Some(page)
    }
}

impl MetricsPages for Pages {
    fn page(&self) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + Send + '_>> {
        Box::pin(self.latest())
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("whole", &self.whole).finish_non_exhaustive()
    }
}

/// The name of an array in metrics: NAME, or NAME/GROUP if it is one of a log volume's groups.
fn labelled(record: &ArrayRecord) -> Facts {
    let facts = facts_of(record);
    match record.volume {
        None => facts,
        Some(part) => Facts { name: format!("{}/{}", facts.name, part.group), ..facts },
    }
}
