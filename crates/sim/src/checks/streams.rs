//! Streams: what a write is said to be of is what lies where it goes.

use raidcore::engine::{Engine, Io, IoOp, Stream};
use raidcore::geometry::Layout;
use raidcore::meta::Areas;
use raidcore::units::{MemberId, Pba, Stripe};

/// `io` begins.
pub(crate) fn begins(engine: &Engine, areas: &Areas, io: &Io) {
    if !matches!(io.op, IoOp::Write { .. } | IoOp::Store(_) | IoOp::Journal) {
        return;
    }
    let (layout, stream) = (engine.layout(), engine.stream(io.id));
    // A reshape keeps stripes where something else lies.
    if layout.frontier().is_some() {
        return;
    }
    let of_member = |(_, status): &(MemberId, _)| {
        let device: Option<_> = *status;
        device == Some(io.device)
    };
    let members = (0..).map(MemberId).zip(engine.members().map(|status| status.device));
    let member = members.into_iter().find(of_member).map(|(member, _)| member);
    let at_home = matches!(stream, Stream::Data | Stream::Parity);
    let fits = match member {
        Some(member) if layout.has_part(member) && io.at >= layout.data_end(member) => at_home,
        Some(member) if layout.has_part(member) && io.at >= areas.data_start() => {
            stream == of_stripe(layout, member, io.at)
        }
        // A spare that becomes a member is none yet.
        None if io.at >= areas.data_start() => at_home,
        _ if io.at >= areas.staging().0 => stream == Stream::Staging,
        _ => stream == Stream::Journal,
    };
    assert!(fits, "{io:?} is not of {stream:?}");
}

/// What a member has there, where stripes are.
fn of_stripe(layout: &Layout, member: MemberId, at: Pba) -> Stream {
    let (start, _) = layout.data_of(member);
    let offset = at.0 - start.0;
    let (mut least, mut beyond) = (0, layout.stripes());
    while beyond - least > 1 {
        let middle = least + (beyond - least) / 2;
        let before = layout.blocks_before(Stripe(middle), member);
        if before <= offset { least = middle } else { beyond = middle }
    }
    let role = layout.role(Stripe(least), member);
    let geometry = layout.of(Stripe(least));
    let is_parity = role.is_some() && [geometry.p(), geometry.q()].contains(&role);
    if is_parity { Stream::Parity } else { Stream::Data }
}
