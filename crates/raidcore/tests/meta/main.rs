//! The on-disk format through the public interface of `raidcore::meta`: codecs, assembly, the
//! journal, and whether the documentation is right.

mod assembly;
mod distributed;
mod document;
mod history;
mod imported;
mod journal;
mod maps;
mod relaid;
mod returns;
mod shared;
mod staging;
mod superblock;
mod world;
