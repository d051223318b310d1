//! The negotiation: a client sends options until it chooses the export.
//!
//! Invariants:
//! - An option has at most [`OPTION_BYTES_MAX`] bytes of data, a negotiation at most
//!   [`OPTIONS_MAX`] options; a client that exceeds that is cut off.
//! - Every option but EXPORT_NAME, which knows no errors, gets a final reply.
//! - A server with TLS does nothing else before a client begins TLS, and keeps of what it said before
//!   only which form the negotiation has.

use std::io;

use raidcore::units::BLOCK_BYTES;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::session::Session;
use super::wire::{
    Bytes, NBD_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake, info, option, reply,
    transmission,
};
use super::{PAYLOAD_BYTES_MAX, Service};
use crate::front::LogicalBlock;
use crate::volume::Volume;

/// Far more than any option needs, with names of 4,096 bytes as the protocol allows.
const OPTION_BYTES_MAX: u32 = 64 << 10;

/// Clients send fewer than ten.
const OPTIONS_MAX: usize = 64;

const FLAGS: u16 = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;

/// The padding of the answer to EXPORT_NAME, unless the client has agreed to do without.
const EXPORT_PADDING: [u8; 124] = [0; 124];

const DESCRIPTION: &str = "Evenkeel array";

const ALLOCATION: &str = "base:allocation";

/// The name of `base:allocation` in this server's replies.
pub(super) const ALLOCATION_ID: u32 = 1;

/// Why a negotiation was cut off.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    #[error("it wants handshake flags {0:#x}, which this server does not have")]
    Flags(u32),
    #[error("it sent something that is no option")]
    Magic,
    #[error("it sent an option of {0} bytes; {OPTION_BYTES_MAX} are enough for all there are")]
    Long(u32),
    #[error("it sent more than {OPTIONS_MAX} options")]
    Many,
    #[error("it asked for an export that is not here")]
    Export,
    #[error("it sent option {0} without the fixed newstyle handshake")]
    NotFixed(u32),
    #[error("it asked for the export without TLS")]
    Insecure,
    #[error("TLS did not begin: {0}")]
    Tls(#[source] io::Error),
}

/// Why an option is refused.
struct Refusal {
    kind: u32,
    text: &'static str,
}

const MALFORMED: Refusal =
    Refusal { kind: reply::ERR_INVALID, text: "the option's data are not well-formed" };

const UNSTRUCTURED: Refusal =
    Refusal { kind: reply::ERR_INVALID, text: "negotiate structured replies first" };

const NO_EXPORT: Refusal = Refusal {
    kind: reply::ERR_UNKNOWN,
    text: "there is no such export: use the array's name, or none",
};

const NO_TLS: Refusal = Refusal {
    kind: reply::ERR_POLICY,
    text: "this server has no TLS: start it with a certificate, or use a Unix socket or a tunnel",
};

const TLS_BEGUN: Refusal = Refusal { kind: reply::ERR_INVALID, text: "this is TLS already" };

const TLS_REQUIRED: Refusal =
    Refusal { kind: reply::ERR_TLS_REQUIRED, text: "this server serves by TLS only: begin it" };

const NO_OPTION: Refusal =
    Refusal { kind: reply::ERR_UNSUPPORTED, text: "this server does not have the option" };

/// What the connection is protected by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Channel {
    Plain,
    Tls,
}

/// A client that has answered the greeting.
pub(super) struct Greeted {
    flags: u32,
    /// How many options it may still send.
    options: usize,
    channel: Channel,
}

impl Greeted {
    fn agrees(&self, flag: u16) -> bool {
        self.flags & u32::from(flag) != 0
    }

    /// The next option and its data.
    async fn option<R>(&mut self, reader: &mut R) -> Result<(u32, Vec<u8>), HandshakeError>
    where
        R: AsyncRead + Unpin,
    {
        self.options = self.options.checked_sub(1).ok_or(HandshakeError::Many)?;
        if reader.read_u64().await? != OPTION_MAGIC {
            return Err(HandshakeError::Magic);
        }
        let option = reader.read_u32().await?;
        let length = reader.read_u32().await?;
        if length > OPTION_BYTES_MAX {
            return Err(HandshakeError::Long(length));
        }
        if option != option::EXPORT_NAME && !self.agrees(handshake::FIXED_NEWSTYLE) {
            return Err(HandshakeError::NotFixed(option));
        }
        let mut data = vec![0; length as usize];
        reader.read_exact(&mut data).await?;
        Ok((option, data))
    }
}

/// Greets a client.
pub(super) async fn greet<R, W>(reader: &mut R, writer: &mut W) -> Result<Greeted, HandshakeError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut greeting = Vec::with_capacity(18);
    greeting.extend(NBD_MAGIC.to_be_bytes());
    greeting.extend(OPTION_MAGIC.to_be_bytes());
    greeting.extend(FLAGS.to_be_bytes());
    writer.write_all(&greeting).await?;
    let flags = reader.read_u32().await?;
    let ours = u16::try_from(flags).is_ok_and(|flags| flags & !FLAGS == 0);
    if !ours {
        return Err(HandshakeError::Flags(flags));
    }
    Ok(Greeted { flags, options: OPTIONS_MAX, channel: Channel::Plain })
}

/// Greets a client, and goes on until it begins TLS: its next byte is the first one of that. `None` if
/// it aborts.
pub(super) async fn begin_tls<R, W>(
    reader: &mut R,
    writer: &mut W,
) -> Result<Option<Greeted>, HandshakeError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut greeted = greet(reader, writer).await?;
    let mut out = Vec::new();
    loop {
        let (option, data) = greeted.option(reader).await?;
        let result = match option {
            option::EXPORT_NAME => return Err(HandshakeError::Insecure),
            option::ABORT => Ok(Next::Abort),
            option::STARTTLS if data.is_empty() => Ok(Next::Go),
            option::STARTTLS => Err(MALFORMED),
            _ => Err(TLS_REQUIRED),
        };
        out.clear();
        let next = conclude(&mut out, option, result);
        let sent = writer.write_all(&out).await;
        match next {
            Next::Option => sent?,
            Next::Abort => return Ok(None),
            Next::Go => {
                sent?;
                return Ok(Some(Greeted { channel: Channel::Tls, ..greeted }));
            }
        }
    }
}

/// Negotiates with a client that was greeted. `None` if it aborts, or if `enter`, which is called just
/// before the client is admitted, refuses it.
pub(super) async fn negotiate<R, W, T>(
    reader: &mut R,
    writer: &mut W,
    mut greeted: Greeted,
    service: &Service,
    enter: impl FnOnce() -> Option<T>,
) -> Result<Option<(Session, T)>, HandshakeError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut haggling = Haggling {
        volume: &service.volume,
        logical_block: service.logical_block,
        channel: greeted.channel,
        session: Session::default(),
        out: Vec::new(),
    };
    loop {
        let (option, data) = greeted.option(reader).await?;
        let next = if option == option::EXPORT_NAME {
            haggling.export_name(&data, greeted.agrees(handshake::NO_ZEROES))?
        } else {
            haggling.answer(option, &data)
        };
        if next == Next::Go {
            let Some(entered) = enter() else { return Ok(None) };
            send(writer, &haggling.out).await?;
            return Ok(Some((haggling.session, entered)));
        }
        let sent = send(writer, &haggling.out).await;
        haggling.out.clear();
        // A client that aborts need not wait for the answer.
        if next == Next::Abort {
            return Ok(None);
        }
        sent?;
    }
}

/// Sends also what TLS would keep.
async fn send<W: AsyncWrite + Unpin>(writer: &mut W, bytes: &[u8]) -> io::Result<()> {
    writer.write_all(bytes).await?;
    writer.flush().await
}

/// Appends an option's final reply.
fn conclude(out: &mut Vec<u8>, option: u32, result: Result<Next, Refusal>) -> Next {
    match result {
        Ok(next) => {
            push_reply(out, option, reply::ACK, &[]);
            next
        }
        Err(Refusal { kind, text }) => {
            push_reply(out, option, kind, &[text.as_bytes()]);
            Next::Option
        }
    }
}

fn push_reply(out: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend((length as u32).to_be_bytes());
    out.extend(parts.concat());
}

/// What comes after an option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Option,
    Go,
    Abort,
}

struct Haggling<'a> {
    volume: &'a Volume,
    logical_block: LogicalBlock,
    channel: Channel,
    session: Session,
    /// Replies to be sent.
    out: Vec<u8>,
}

impl Haggling<'_> {
    /// EXPORT_NAME, whose answer has a form of its own and can't be an error.
    fn export_name(&mut self, name: &[u8], no_zeroes: bool) -> Result<Next, HandshakeError> {
        if !self.is_export(name) {
            return Err(HandshakeError::Export);
        }
        self.out.extend(bytes(self.volume).to_be_bytes());
        self.out.extend(self.transmission_flags().to_be_bytes());
        if !no_zeroes {
            self.out.extend(EXPORT_PADDING);
        }
        Ok(Next::Go)
    }

    fn answer(&mut self, option: u32, data: &[u8]) -> Next {
        let result = match option {
            option::ABORT => Ok(Next::Abort),
            option::LIST => self.list(data),
            option::STARTTLS => Err(match self.channel {
                Channel::Plain => NO_TLS,
                Channel::Tls => TLS_BEGUN,
            }),
            option::INFO => self.info(option, data).map(|()| Next::Option),
            option::GO => self.info(option, data).map(|()| Next::Go),
            option::STRUCTURED_REPLY => self.structured_reply(data),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(option, data),
            _ => Err(NO_OPTION),
        };
        conclude(&mut self.out, option, result)
    }

    fn list(&mut self, data: &[u8]) -> Result<Next, Refusal> {
        if !data.is_empty() {
            return Err(MALFORMED);
        }
        let name = self.volume.name().as_bytes();
        let length = (name.len() as u32).to_be_bytes();
        let parts = [&length, name, DESCRIPTION.as_bytes()];
        self.reply(option::LIST, reply::SERVER, &parts);
        Ok(Next::Option)
    }

    fn structured_reply(&mut self, data: &[u8]) -> Result<Next, Refusal> {
        if !data.is_empty() {
            return Err(MALFORMED);
        }
        self.session.structured = true;
        Ok(Next::Option)
    }

    fn info(&mut self, option: u32, data: &[u8]) -> Result<(), Refusal> {
        let (name, wanted) = info_request(data).ok_or(MALFORMED)?;
        if !self.is_export(name) {
            return Err(NO_EXPORT);
        }
        let size = bytes(self.volume).to_be_bytes();
        let flags = self.transmission_flags().to_be_bytes();
        self.inform(option, info::EXPORT, &[&size, &flags]);
        let (minimum, preferred) = (self.logical_block.bytes(), preferred_bytes(self.volume));
        let sizes = [minimum, preferred, PAYLOAD_BYTES_MAX].map(u32::to_be_bytes);
        // Sent unasked, too, since it differs from clients' defaults.
        self.inform(option, info::BLOCK_SIZE, &[sizes.as_flattened()]);
        if wanted.contains(&info::NAME) {
            self.inform(option, info::NAME, &[self.volume.name().as_bytes()]);
        }
        if wanted.contains(&info::DESCRIPTION) {
            self.inform(option, info::DESCRIPTION, &[DESCRIPTION.as_bytes()]);
        }
        Ok(())
    }

    /// Lists or sets metadata contexts. There is one.
    fn contexts(&mut self, option: u32, data: &[u8]) -> Result<Next, Refusal> {
        let setting = option == option::SET_META_CONTEXT;
        if setting {
            self.session.allocation = false;
        }
        if !self.session.structured {
            return Err(UNSTRUCTURED);
        }
        let (name, queries) = context_queries(data).ok_or(MALFORMED)?;
        if !self.is_export(name) {
            return Err(NO_EXPORT);
        }
        let all = !setting && (queries.is_empty() || queries.contains(&&b"base:"[..]));
        if all || queries.contains(&ALLOCATION.as_bytes()) {
            self.session.allocation |= setting;
            // In a list the number has no meaning and must be zero.
            let id = if setting { ALLOCATION_ID } else { 0 };
            let parts = [&id.to_be_bytes(), ALLOCATION.as_bytes()];
            self.reply(option, reply::META_CONTEXT, &parts);
        }
        Ok(Next::Option)
    }

    fn is_export(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.volume.name().as_bytes()
    }

    fn transmission_flags(&self) -> u16 {
        let flags = transmission::HAS_FLAGS
            | transmission::SEND_FLUSH
            | transmission::SEND_FUA
            | transmission::SEND_TRIM
            | transmission::SEND_WRITE_ZEROES
            | transmission::SEND_FAST_ZERO
            | transmission::CAN_MULTI_CONN;
        if self.session.structured { flags | transmission::SEND_DF } else { flags }
    }

    fn inform(&mut self, option: u32, kind: u16, parts: &[&[u8]]) {
        let data = [&kind.to_be_bytes()[..], &parts.concat()];
        self.reply(option, reply::INFO, &data);
    }

    fn reply(&mut self, option: u32, kind: u32, parts: &[&[u8]]) {
        push_reply(&mut self.out, option, kind, parts);
    }
}

/// The size of the export in bytes.
fn bytes(volume: &Volume) -> u64 {
    volume.blocks().saturating_mul(BLOCK_BYTES as u64)
}

/// A stripe, whose writes need no old data; a chunk if that is no power of two, which it has to be.
fn preferred_bytes(volume: &Volume) -> u32 {
    [volume.stripe_blocks(), volume.chunk_blocks()]
        .into_iter()
        .filter_map(|blocks| blocks.checked_mul(BLOCK_BYTES as u32))
        .find(|bytes| bytes.is_power_of_two() && *bytes <= PAYLOAD_BYTES_MAX)
        .unwrap_or(BLOCK_BYTES as u32)
}

/// The export's name and the kinds of information that are asked for.
fn info_request(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let mut rest = Bytes(data);
    let name = rest.string()?;
    let count = rest.u16()?;
    let wanted = (0..count).map(|_| rest.u16()).collect::<Option<_>>()?;
    rest.0.is_empty().then_some((name, wanted))
}

/// The export's name and the queries.
fn context_queries(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut rest = Bytes(data);
    let name = rest.string()?;
    let count = rest.u32()?;
    // Collecting into an `Option` reserves nothing, and the data ends before a hostile count does.
    let queries = (0..count).map(|_| rest.string()).collect::<Option<_>>()?;
    rest.0.is_empty().then_some((name, queries))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::volume::VolumeConfig;

    fn preferred(chunk_blocks: u32, stripe_blocks: u32) -> u32 {
        let (volume, _submissions) = Volume::channel(VolumeConfig {
            name: "tank".to_owned(),
            blocks: 1 << 20,
            chunk_blocks,
            stripe_blocks,
            discard_blocks: stripe_blocks,
            max_request_blocks: 16,
            tags: 1,
        });
        preferred_bytes(&volume)
    }

    #[test]
    fn the_preferred_size_is_one_that_the_protocol_allows() {
        assert_eq!(preferred(16, 64), 64 * 4096);
        assert_eq!(preferred(16, 48), 16 * 4096);
        assert_eq!(preferred(256, 1 << 14), 256 * 4096);
        assert_eq!(preferred(3, 9), 4096);
        assert_eq!(preferred(u32::MAX, u32::MAX), 4096);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(data in prop::collection::vec(0u8..4, 0..40)) {
            if let Some((name, wanted)) = info_request(&data) {
                prop_assert_eq!(4 + name.len() + 2 + 2 * wanted.len(), data.len());
            }
            if let Some((name, queries)) = context_queries(&data) {
                let strings: usize = queries.iter().map(|query| 4 + query.len()).sum();
                prop_assert_eq!(4 + name.len() + 4 + strings, data.len());
            }
        }
    }
}
