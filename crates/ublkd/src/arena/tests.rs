use super::*;
use crate::volume::{Buffer, Submissions, Volume, VolumeConfig};

fn arena() -> (Arena, Volume, Submissions) {
    let (volume, submissions) = Volume::channel(VolumeConfig {
        name: "test".into(),
        blocks: 1000,
        chunk_blocks: 2,
        stripe_blocks: 4,
        discard_blocks: 4,
        max_request_blocks: 4,
        tags: 3,
    });
    let arena = Arena::new(submissions.payload_memory(), &[Pool { count: 2, blocks: 2 }]).unwrap();
    (arena, volume, submissions)
}

fn fill(arena: &Arena, mem: Mem, byte: u8) {
    let (base, _) = arena.resolve(mem, 1);
    // SAFETY: the memory is the arena's and in no other use in this test.
    unsafe { base.write_bytes(byte, BLOCK_BYTES) };
}

#[test]
fn an_orphans_content_moves_and_its_memory_waits_for_the_kernel() {
    let (mut arena, volume, _submissions) = arena();
    let mut buffer = volume.try_buffer().unwrap();
    buffer[BLOCK_BYTES] = 7;
    let mem = Mem::Payload { tag: buffer.tag(), at: 1 };
    let (before, piece) = arena.resolve(mem, 1);
    arena.begin(piece);
    arena.orphan(piece);
    let (after, fresh) = arena.resolve(mem, 1);
    assert!(before != after && piece != fresh);
    assert_eq!(arena.blocks(mem, 1)[0], 7, "the content follows");
    assert_eq!(buffer[BLOCK_BYTES], 7, "the front end sees the same memory");
    // SAFETY: what a late device would do.
    unsafe { before.write(9) };
    assert_eq!(buffer[BLOCK_BYTES], 7, "a late write goes nowhere");

    // While the kernel has it, it is not handed out; afterwards it is a spare.
    let (_, other) = arena.resolve(Mem::Payload { tag: Tag(2), at: 0 }, 1);
    arena.begin(other);
    arena.orphan(other);
    assert_ne!(arena.resolve(Mem::Payload { tag: Tag(2), at: 0 }, 1).1, piece);
    arena.end(piece);
    arena.begin(fresh);
    arena.orphan(fresh);
    assert_eq!(arena.resolve(mem, 1).1, piece);
    arena.end(other);
    arena.end(fresh);
}

#[test]
fn io_that_outlives_its_request_keeps_its_memory() {
    let (mut arena, volume, _submissions) = arena();
    let mut buffer = volume.try_buffer().unwrap();
    buffer[0] = 7;
    let (tag, mem) = (buffer.tag(), Mem::Payload { tag: buffer.tag(), at: 0 });
    arena.let_go(tag);
    let (before, piece) = arena.resolve(mem, 1);
    arena.begin(piece);
    arena.let_go(tag);
    let (after, fresh) = arena.resolve(mem, 1);
    assert!(before != after && piece != fresh && buffer[0] == 7);
    // The next request with the tag has it, when the I/O is given up after all.
    buffer[0] = 8;
    arena.orphan(piece);
    assert_eq!((buffer[0], arena.resolve(mem, 1).1), (8, fresh));
    // SAFETY: what a late device reads.
    assert_eq!(unsafe { before.read() }, 7);
    arena.end(piece);
}

#[test]
fn a_read_that_was_under_way_follows_the_exchange() {
    let (mut arena, _volume, _submissions) = arena();
    let mem = Mem::Scratch { buffer: 1, at: 1 };
    let (base, piece) = arena.resolve(mem, 1);
    arena.begin(piece);
    arena.begin(piece);
    arena.orphan(piece);
    // SAFETY: what the device of the second read does.
    unsafe { base.write_bytes(3, BLOCK_BYTES) };
    arena.settle(mem, base, BLOCK_BYTES);
    assert_eq!(arena.blocks(mem, 1), [3; BLOCK_BYTES]);
    arena.end(piece);
    arena.end(piece);
}

#[test]
fn pages_come_back_when_their_io_ends() {
    let (mut arena, _volume, _submissions) = arena();
    let pages = arena.take_pages(3);
    arena.fill_pages(pages, 0..3, |_, bytes| bytes.fill(1));
    assert_ne!(arena.take_pages(4), pages);
    arena.begin(pages);
    arena.orphan(pages);
    arena.end(pages);
    assert_eq!(arena.take_pages(4), pages);
}

#[test]
fn everything_lies_apart() {
    let (arena, _volume, _submissions) = arena();
    let payload = (0..3).flat_map(|t| (0..4).map(move |at| Mem::Payload { tag: Tag(t), at }));
    let scratch = (0..2).flat_map(|b| (0..2).map(move |at| Mem::Scratch { buffer: b, at }));
    let all: Vec<Mem> = payload.chain(scratch).collect();
    for (i, &mem) in (0u8..).zip(&all) {
        fill(&arena, mem, i + 1);
    }
    for (i, &mem) in (0u8..).zip(&all) {
        assert_eq!(arena.blocks(mem, 1), [i + 1; BLOCK_BYTES]);
    }
    assert_eq!(arena.blocks(Mem::Zero, 1), [0; BLOCK_BYTES]);
}

/// Looks until all free memory is given back; `scratch` are the numbers of the free scratch
/// buffers. Returns the buffers that were unregistered.
fn look(arena: &mut Arena, scratch: &[u16]) -> Vec<u16> {
    let mut forgotten = Vec::new();
    for _ in 0..3 * KEEP {
        arena.look(scratch.iter().copied(), |buffer| {
            forgotten.push(buffer);
            true
        });
    }
    forgotten
}

/// Touches memory as an I/O does that the kernel has ended; registers it under this number.
fn use_it(arena: &mut Arena, mem: Mem, byte: u8, number: u16) {
    let (base, piece) = arena.resolve(mem, 1);
    arena.begin(piece);
    let span = arena.span(piece, base, BLOCK_BYTES).unwrap();
    arena.set_registered(piece, span, number);
    assert_eq!(arena.registered(piece, base, BLOCK_BYTES), Some(number));
    fill(arena, mem, byte);
    arena.end(piece);
}

fn filled(volume: &Volume) -> (Buffer, Mem) {
    let mut buffer = volume.try_buffer().unwrap();
    buffer.fill(7);
    let mem = Mem::Payload { tag: buffer.tag(), at: 0 };
    (buffer, mem)
}

#[test]
fn what_nobody_has_used_for_a_while_is_given_back() {
    let (mut arena, volume, _submissions) = arena();
    let (buffer, payload) = filled(&volume);
    let scratch = Mem::Scratch { buffer: 1, at: 0 };
    let kept = Mem::Scratch { buffer: 0, at: 0 };
    for (mem, number) in [(payload, 5), (scratch, 6), (kept, 7)] {
        use_it(&mut arena, mem, 7, number);
    }
    let registered = arena.registered_bytes();
    assert!(look(&mut arena, &[1]).contains(&6), "it is free");
    assert_eq!(arena.blocks(scratch, 1), [0; BLOCK_BYTES]);
    for mem in [payload, kept] {
        assert_eq!(arena.blocks(mem, 1), [7; BLOCK_BYTES], "somebody has it");
    }
    assert_eq!(arena.look([1].into_iter(), |_| true), Look::Later);
    drop(buffer);
    assert_eq!(look(&mut arena, &[1, 0]).len(), 2);
    for mem in [payload, kept] {
        let (base, piece) = arena.resolve(mem, 1);
        assert_eq!(arena.registered(piece, base, BLOCK_BYTES), None);
        assert_eq!(arena.blocks(mem, 1), [0; BLOCK_BYTES]);
    }
    assert!(registered > 0 && arena.registered_bytes() == 0);
    assert_eq!(arena.look([0, 1].into_iter(), |_| true), Look::Never);
    assert_eq!((0..3).map_while(|_| volume.try_buffer()).count(), 3, "nobody has kept a tag");
}

#[test]
fn memory_that_was_only_computed_with_is_given_back_with_the_last() {
    let (mut arena, _volume, _submissions) = arena();
    let (computed, read) = (Mem::Scratch { buffer: 0, at: 1 }, Mem::Scratch { buffer: 1, at: 0 });
    fill(&arena, computed, 7);
    use_it(&mut arena, read, 7, 5);
    look(&mut arena, &[1]);
    assert_eq!(arena.blocks(computed, 1), [7; BLOCK_BYTES], "somebody has it");
    look(&mut arena, &[1, 0]);
    assert_eq!(arena.blocks(computed, 1), [0; BLOCK_BYTES]);
}

#[test]
fn what_is_used_again_and_again_is_kept() {
    let (mut arena, volume, _submissions) = arena();
    let (buffer, payload) = filled(&volume);
    use_it(&mut arena, payload, 7, 5);
    drop(buffer);
    for _ in 0..3 * KEEP {
        drop(volume.try_buffer());
        assert_eq!(arena.look([].into_iter(), |_| panic!("it is in use")), Look::Soon);
    }
    assert_eq!(arena.blocks(payload, 1), [7; BLOCK_BYTES]);
}

#[test]
fn memory_that_the_kernel_has_is_not_given_back() {
    let (mut arena, volume, _submissions) = arena();
    let (buffer, payload) = filled(&volume);
    use_it(&mut arena, payload, 7, 5);
    let scratch = Mem::Scratch { buffer: 0, at: 0 };
    use_it(&mut arena, scratch, 8, 6);
    let pieces = [payload, scratch].map(|mem| arena.resolve(mem, 1).1);
    pieces.iter().for_each(|&piece| arena.begin(piece));
    drop(buffer);
    assert!(look(&mut arena, &[0, 1]).is_empty());
    assert_eq!(arena.blocks(payload, 1), [7; BLOCK_BYTES]);
    assert_eq!(arena.blocks(scratch, 1), [8; BLOCK_BYTES]);
    pieces.iter().for_each(|&piece| arena.end(piece));
    let mut forgotten = look(&mut arena, &[0, 1]);
    forgotten.sort_unstable();
    assert_eq!(forgotten, [5, 6]);
}

#[test]
fn an_orphans_memory_is_given_back_after_the_kernel_has_let_go_and_not_before() {
    let (mut arena, volume, _submissions) = arena();
    let (buffer, payload) = filled(&volume);
    use_it(&mut arena, payload, 7, 5);
    let (late, piece) = arena.resolve(payload, 1);
    arena.begin(piece);
    arena.orphan(piece);
    let tag = buffer.tag();
    drop(buffer);
    assert!(look(&mut arena, &[]).is_empty(), "the kernel has that buffer");
    // What a device does that answers now is not seen.
    // SAFETY: the memory is the arena's, and set aside.
    unsafe { late.write_bytes(9, BLOCK_BYTES) };
    let all: Vec<_> = (0..3).map(|_| volume.try_buffer().unwrap()).collect();
    assert!(all.iter().any(|buffer| buffer.tag() == tag));
    assert!(all.iter().all(|buffer| buffer.iter().all(|&byte| byte != 9)));
    arena.end(piece);
    assert_eq!(look(&mut arena, &[]), [5]);
    // SAFETY: as above.
    assert_eq!(unsafe { late.read() }, 0);
}

#[test]
fn memory_stays_that_cant_be_unregistered() {
    let (mut arena, volume, _submissions) = arena();
    let (buffer, payload) = filled(&volume);
    use_it(&mut arena, payload, 7, 5);
    drop(buffer);
    for _ in 0..3 * KEEP {
        arena.look([].into_iter(), |_| false);
    }
    let (base, piece) = arena.resolve(payload, 1);
    assert_eq!(arena.registered(piece, base, BLOCK_BYTES), Some(5));
    assert_eq!(arena.blocks(payload, 1), [7; BLOCK_BYTES]);
    assert!(volume.try_buffer().is_some());
}

#[test]
fn a_small_request_registers_the_front_alone() {
    const BLOCKS: u32 = 64;
    let (_volume, submissions) = Volume::channel(VolumeConfig {
        name: "test".into(),
        blocks: 1000,
        chunk_blocks: 2,
        stripe_blocks: 4,
        discard_blocks: 4,
        max_request_blocks: BLOCKS,
        tags: 1,
    });
    let mut arena = Arena::new(submissions.payload_memory(), &[]).unwrap();
    let at = |arena: &Arena, at| arena.resolve(Mem::Payload { tag: Tag(0), at }, 1);
    let (front, piece) = at(&arena, 15);
    let span = arena.span(piece, front, BLOCK_BYTES).unwrap();
    assert_eq!(span.bytes, HEAD_BYTES);
    arena.set_registered(piece, span, 1);
    let (back, _) = at(&arena, 16);
    assert_eq!(arena.registered(piece, front, BLOCK_BYTES), Some(1));
    assert_eq!(arena.registered(piece, front, 2 * BLOCK_BYTES), None, "it goes further");
    assert_eq!(arena.registered(piece, back, BLOCK_BYTES), None);
    let span = arena.span(piece, back, BLOCK_BYTES).unwrap();
    assert_eq!(span.bytes, BLOCKS as usize * BLOCK_BYTES);
    arena.set_registered(piece, span, 2);
    assert_eq!(arena.registered(piece, back, BLOCK_BYTES), Some(2));
}
