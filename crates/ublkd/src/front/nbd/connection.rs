//! A connection, from its negotiation to its end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::handshake::{HandshakeError, begin_tls, greet, negotiate};
use super::ledger::{Ledger, Unsent};
use super::listen::Socket;
use super::pace::Pace;
use super::plain::{Plain, directly, halves, whole};
use super::replies::Replies;
use super::requests::{End, Places, Requests};
use super::session::Session;
use super::tls::Tls;
use super::{Service, Stop};
use crate::guests::{Guest, Seldom};
use crate::volume::Share;

/// How much is read ahead of a connection: some small requests, or the beginning of a large one,
/// which is then copied once more than the rest.
const READ_AHEAD_BYTES: usize = 16 << 10;

/// How much of TLS is taken from the socket at once. rustls by itself takes 4 KiB.
const TLS_READ_BYTES: usize = 64 << 10;

/// A client goes to the volume's thread after so many requests in a row that are for it, at first, and at
/// last: their number doubles whenever it comes back, since each time costs as much as many requests.
const DIRECT_AFTER: u32 = 16;
const DIRECT_AFTER_MOST: u32 = 1024;

/// Serves a client until it leaves or is cut off, or the server stops.
pub(super) async fn connection(socket: Socket, service: Service, guest: Guest) {
    let client = socket.peer();
    match (socket, service.tls.clone()) {
        (Socket::Unix(stream), None) => plain(stream, service, guest, client).await,
        (Socket::Tcp(stream), None) => plain(stream, service, guest, client).await,
        (Socket::Unix(stream), Some(tls)) => secure(stream, &tls, service, guest, client).await,
        (Socket::Tcp(stream), Some(tls)) => secure(stream, &tls, service, guest, client).await,
    }
}

/// A client that has ended its negotiation.
struct Admitted<R, W, T> {
    reader: BufReader<R>,
    writer: W,
    session: Session,
    /// It is in the list of clients for as long as this lives.
    entered: T,
}

type Negotiated<R, W, T> = Result<Option<Admitted<R, W, T>>, HandshakeError>;

/// Its socket is the volume's thread's most of the time.
async fn plain<S: Plain>(stream: S, service: Service, guest: Guest, client: String) {
    let enter = || Some((guest.busy()?, service.clients.enter(client.clone())?));
    let (reader, mut writer) = halves(stream, Vec::new());
    let negotiation = async {
        let mut reader = BufReader::with_capacity(READ_AHEAD_BYTES, reader);
        let greeted = greet(&mut reader, &mut writer).await?;
        let entered = negotiate(&mut reader, &mut writer, greeted, &service, enter).await?;
        Ok(entered.map(|(session, entered)| Admitted { reader, writer, session, entered }))
    };
    let Some(mut admitted) = in_time(negotiation, &service, &client).await else { return };
    let (mut after, mut unsent) = (DIRECT_AFTER, Unsent::default());
    // Buffers of what is unsent are of it, wherever the client is served.
    let share = service.volume.share();
    while let Some((left, _place)) =
        serve((admitted, unsent), share.clone(), &service, &client, after).await
    {
        let Admitted { reader, writer, session, entered } = left;
        let Some(admit) = &service.admit else { return };
        let moved = async {
            let buffer = reader.buffer().to_vec();
            let socket = match whole::<S>((reader.into_inner(), writer), buffer)? {
                Ok(socket) => socket,
                Err(halves) => return Ok((halves, Unsent::default())),
            };
            let own = (service.checks(session), share.clone());
            let Service { stop, limits, .. } = &service;
            let (stream, ahead, unsent) = directly::<S>(socket, own, admit, stop, limits).await?;
            Ok::<_, std::io::Error>((halves(stream, ahead), unsent))
        };
        let (reader, writer);
        ((reader, writer), unsent) = match moved.await {
            Ok(halves) => halves,
            Err(error) => {
                if let Some(count) = told(&service) {
                    tracing::info!(%error, client, count, "an NBD connection was cut");
                }
                return;
            }
        };
        let reader = BufReader::with_capacity(READ_AHEAD_BYTES, reader);
        admitted = Admitted { reader, writer, session, entered };
        after = (after * 2).min(DIRECT_AFTER_MOST);
    }
}

/// With TLS, which is part of the negotiation and its time.
async fn secure<S>(mut stream: S, tls: &Tls, service: Service, guest: Guest, client: String)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let enter = || Some((guest.busy()?, service.clients.enter(client.clone())?));
    let negotiation = async {
        // Nothing is read ahead before TLS: it would be taken for what came by TLS.
        let (mut reader, mut writer) = tokio::io::split(&mut stream);
        let Some(greeted) = begin_tls(&mut reader, &mut writer).await? else { return Ok(None) };
        let acceptor = TlsAcceptor::from(tls.config().await?);
        let stream = BufReader::with_capacity(TLS_READ_BYTES, stream);
        let stream = acceptor.accept(stream).await.map_err(HandshakeError::Tls)?;
        let (reader, mut writer) = tokio::io::split(stream);
        let mut reader = BufReader::with_capacity(READ_AHEAD_BYTES, reader);
        let entered = negotiate(&mut reader, &mut writer, greeted, &service, enter).await?;
        Ok(entered.map(|(session, entered)| Admitted { reader, writer, session, entered }))
    };
    if let Some(admitted) = in_time(negotiation, &service, &client).await {
        // Only a connection without TLS can be served on the volume's thread.
        let service = Service { places: None, ..service.clone() };
        let share = service.volume.share();
        serve((admitted, Unsent::default()), share, &service, &client, DIRECT_AFTER).await;
    }
}

/// The client, if it ends its negotiation in time, before the server stops.
async fn in_time<R, W, T>(
    negotiation: impl Future<Output = Negotiated<R, W, T>>,
    service: &Service,
    client: &str,
) -> Option<Admitted<R, W, T>> {
    let negotiated = tokio::select! {
        biased;
        () = service.stop.wait() => return None,
        negotiated = timeout(service.limits.handshake, negotiation) => negotiated,
    };
    match negotiated {
        Ok(Ok(admitted)) => return admitted,
        Ok(Err(error)) => {
            if let Some(count) = told(service) {
                tracing::info!(%error, client, count, "an NBD client failed to negotiate");
            }
        }
        Err(_) => {
            if let Some(count) = told(service) {
                tracing::info!(client, count, "an NBD client did not end its negotiation in time");
            }
        }
    }
    None
}

/// Serves a client, to which some replies may be unsent, to its end, or until it goes to the volume's
/// thread, which takes so many requests.
async fn serve<R, W, T>(
    (admitted, unsent): (Admitted<R, W, T>, Unsent),
    share: Share,
    service: &Service,
    client: &str,
    after: u32,
) -> Option<(Admitted<R, W, T>, OwnedSemaphorePermit)>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let Admitted { reader, writer, session, entered } = admitted;
    let Service { volume, limits, stop, .. } = service;
    let pace = Pace::of(limits);
    let (ledger, outgoing, rest) = Ledger::new(session, limits, share, unsent);
    let mut replies = Replies::new(writer, volume.clone(), &ledger, (outgoing, rest), pace);
    let own = Arc::clone(&ledger);
    let checks = service.checks(session);
    let places = service.places.clone().map(|free| Places { free, after });
    let mut requests = Requests::new(reader, checks, own, pace, stop.clone(), places);
    let serving = async {
        let ended = tokio::select! {
            ended = requests.run() => ended,
            () = overdue(stop, limits.patience) => Ok(End::Left),
        };
        ledger.settled().await;
        ended
    };
    let ended = tokio::select! {
        ended = serving => ended,
        error = replies.run() => Err(error.into()),
    };
    match ended {
        Ok(End::Direct(place)) => {
            let (reader, writer) = (requests.into_reader(), replies.into_writer());
            return Some((Admitted { reader, writer, session, entered }, place));
        }
        Ok(End::Left) => {}
        Err(error) => {
            if let Some(count) = told(service) {
                tracing::info!(%error, client, count, "an NBD connection was cut");
            }
        }
    }
    // With TLS this is one more message, which a client may not take.
    timeout(limits.patience, replies.into_writer().shutdown()).await.ok();
    None
}

/// How often a client failed since that was last told, if it is to be told now.
fn told(service: &Service) -> Option<u64> {
    lock(&service.log).say()
}

fn lock(log: &Mutex<Seldom>) -> MutexGuard<'_, Seldom> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of the time for which a client may go on sending after the server was told to stop.
async fn overdue(stop: &Stop, patience: Duration) {
    stop.wait().await;
    sleep(patience).await;
}
