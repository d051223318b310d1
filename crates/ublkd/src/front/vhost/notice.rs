//! The channel on which a VMM is told that the configuration has changed.
//!
//! `vhost` makes a [`Backend`](vhost::vhost_user::Backend) of it, which has no such message. So the
//! descriptor is taken from the VMM's message before `vhost` reads that.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use vhost::vhost_user::message::{BackendReq, FrontendReq};

/// The size of a message's head.
pub(super) const HEAD_BYTES: usize = 12;

/// The flags of a message of this version that wants no reply.
const VERSION: u32 = 1;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Whether the message with this number brings one.
    pub(super) fn is_brought_by(request: u32) -> bool {
        request == FrontendReq::SET_BACKEND_REQ_FD as u32
    }

    /// That of the next message of `stream`, which stays there; none if it brings no descriptor.
    pub(super) fn of_next_message(stream: &UnixStream) -> io::Result<Option<Self>> {
        let (mut head, mut space) =
            ([0; HEAD_BYTES], [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut found = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        recvmsg(stream, &mut [io::IoSliceMut::new(&mut head)], &mut found, flags)?;
        let mut descriptors = found.drain().filter_map(|message| {
            let RecvAncillaryMessage::ScmRights(mut descriptors) = message else { return None };
            descriptors.next()
        });
        Ok(descriptors.next().map(Self))
    }

    /// Says that the configuration has changed. The VMM asks for it then.
    ///
    /// # Errors
    /// If the VMM does not listen.
    pub(super) fn say_changed(&self) -> io::Result<()> {
        let message = [BackendReq::CONFIG_CHANGE_MSG as u32, VERSION, 0].map(u32::to_ne_bytes);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = send(&self.0, message.as_flattened(), flags)?;
        if sent < HEAD_BYTES { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}
